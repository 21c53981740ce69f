//! Attention weights on request: the one way to look inside, for every attention layer.
//!
//! A [`Capture`] goes with a [`Pass`](crate::Pass). Layers that find one there compute or hand over the weights it asks
//! for, beside the output that they give anyway; without one nothing is computed, kept or changed.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use burn::tensor::Tensor;
use regard_ops::{AttentionOptions, Graph, OpError, attention_weights};

use crate::init::LayerPath;

/// Which weights to keep. Everything by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Layers by path; a path stands for all layers within it.
    pub layers: Option<Vec<String>>,
    /// Sequences of the batch.
    pub sequences: Option<Vec<usize>>,
    /// Heads of each layer.
    pub heads: Option<Vec<usize>>,
    /// Queries.
    pub rows: Option<Range<usize>>,
}

/// The weights that one head of one layer gave to the keys of one sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionMap {
    /// Path of the layer.
    pub layer: String,
    /// Index in the batch.
    pub sequence: usize,
    /// Index of the head.
    pub head: usize,
    /// The first query it has.
    pub first_row: usize,
    /// A row a query: its weight of each key, in the order of the keys. Rows of a decoder grow with its steps.
    pub rows: Vec<Vec<f32>>,
    /// For attention along the edges of a graph, the key of each weight; otherwise every key has one.
    pub keys: Option<Vec<Vec<usize>>>,
}

/// Collects attention weights during a pass.
#[derive(Debug, Default)]
pub struct Capture {
    wanted: Wanted,
    maps: Mutex<Vec<AttentionMap>>,
}

impl Capture {
    /// Keeps what `wanted` names.
    pub fn new(wanted: Wanted) -> Self {
        Self { wanted, maps: Mutex::default() }
    }

    /// What was kept, in the order of the layers' work.
    pub fn into_maps(self) -> Vec<AttentionMap> {
        self.maps.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything of `layer` is wanted.
    pub fn wants(&self, layer: &LayerPath) -> bool {
        let within = |wanted: &String| {
            layer.as_str().strip_prefix(wanted.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.wanted.layers.as_ref().is_none_or(|layers| layers.iter().any(within))
    }

    /// Computes and keeps the weights of dot-product attention; `first_row` is the first query's place in its sequence.
    ///
    /// # Shapes
    /// `q` and `k` as in [`regard_ops::attention`].
    pub fn record_attention(
        &self,
        layer: &LayerPath,
        q: &Tensor<4>,
        k: &Tensor<4>,
        options: &AttentionOptions,
        first_row: usize,
    ) -> Result<(), OpError> {
        let ([batch, n_heads, queries, _], keys) = (q.dims(), k.dims()[2]);
        self.record(layer, [batch, n_heads, queries, keys], first_row, |sequence, head, rows| {
            let weights = attention_weights(q.clone(), k.clone(), options, (sequence, head), rows)?;
            Ok(weights.into_data().iter().collect())
        })
    }

    /// Keeps weights that a layer has made anyway.
    ///
    /// # Shapes
    /// `weights` `[batch, n_heads, queries, keys]`.
    pub fn record_weights(&self, layer: &LayerPath, weights: &Tensor<4>, first_row: usize) -> Result<(), OpError> {
        let shape @ [_, _, _, keys] = weights.dims();
        self.record(layer, shape, first_row, |sequence, head, rows| {
            let part = weights.clone().slice([sequence..sequence + 1, head..head + 1, rows, 0..keys]);
            Ok(part.into_data().iter().collect())
        })
    }

    /// Keeps the weights of a graph's edges, a map a head.
    ///
    /// # Shapes
    /// `weights` `[edges, n_heads]`, in the order of the graph.
    pub fn record_edges(&self, layer: &LayerPath, graph: &Graph, weights: &Tensor<2>) {
        let wanted = |list: &Option<Vec<usize>>, index| list.as_ref().is_none_or(|list| list.contains(&index));
        if !self.wants(layer) || !wanted(&self.wanted.sequences, 0) {
            return;
        }
        let rows = self.wanted.rows.clone().unwrap_or(0..usize::MAX);
        let rows = rows.start.min(graph.n_nodes())..rows.end.min(graph.n_nodes());
        let keys: Vec<Vec<usize>> = rows.clone().map(|node| graph.sources(node).collect()).collect();
        let first_edge: usize = (0..rows.start).map(|node| graph.sources(node).count()).sum();
        let n_heads = weights.dims()[1];
        let values: Vec<f32> = weights.to_data().iter().collect();
        for head in (0..n_heads).filter(|&head| wanted(&self.wanted.heads, head)) {
            let mut edges = values.iter().skip(head).step_by(n_heads).skip(first_edge);
            let rows_of_head = keys.iter().map(|keys| edges.by_ref().take(keys.len()).copied().collect()).collect();
            self.push(AttentionMap {
                layer: layer.as_str().to_string(),
                sequence: 0,
                head,
                first_row: rows.start,
                rows: rows_of_head,
                keys: Some(keys.clone()),
            });
        }
    }

    fn push(&self, map: AttentionMap) {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner).push(map);
    }

    /// Keeps the weights that are wanted of `[batch, n_heads, queries, keys]`; `weights` makes the rows of a sequence's
    /// head.
    pub(crate) fn record(
        &self,
        layer: &LayerPath,
        [batch, n_heads, queries, keys]: [usize; 4],
        first_row: usize,
        weights: impl Fn(usize, usize, Range<usize>) -> Result<Vec<f32>, OpError>,
    ) -> Result<(), OpError> {
        let rows = self.wanted.rows.clone().unwrap_or(0..usize::MAX);
        let within = |row: usize| row.saturating_sub(first_row).min(queries);
        let (rows, first_row) = (within(rows.start)..within(rows.end), first_row.max(rows.start));
        if !self.wants(layer) || rows.is_empty() || keys == 0 {
            return Ok(());
        }
        let asked = |list: &Option<Vec<usize>>, index| list.as_ref().is_none_or(|list| list.contains(&index));
        for sequence in (0..batch).filter(|&s| asked(&self.wanted.sequences, s)) {
            for head in (0..n_heads).filter(|&h| asked(&self.wanted.heads, h)) {
                let weights = weights(sequence, head, rows.clone())?;
                self.keep(layer, sequence, head, first_row, weights.chunks_exact(keys).map(<[f32]>::to_vec).collect());
            }
        }
        Ok(())
    }

    /// Adds rows that follow those of a map to it, and starts a new one otherwise.
    fn keep(&self, layer: &LayerPath, sequence: usize, head: usize, first_row: usize, rows: Vec<Vec<f32>>) {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let same =
            |map: &&mut AttentionMap| map.layer == layer.as_str() && (map.sequence, map.head) == (sequence, head);
        match maps.iter_mut().rev().find(same) {
            Some(map) if first_row > 0 && map.first_row + map.rows.len() == first_row => map.rows.extend(rows),
            _ => maps.push(AttentionMap {
                layer: layer.as_str().to_string(),
                sequence,
                head,
                first_row,
                rows,
                keys: None,
            }),
        }
    }
}
