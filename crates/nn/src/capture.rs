//! Capture of attention weights, for every attention layer.
//!
//! A [`Capture`] goes with a [`Pass`](crate::Pass). Layers that find one compute or pass on the weights it asks for through
//! their [`Heads`](crate::Heads), in addition to their output. Without a capture nothing is computed, kept or changed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use burn::tensor::Tensor;
use regard_ops::{Graph, OpError};

use crate::ablation::Means;
use crate::heads::Site;

/// Filter for the weights to keep; everything by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Layers to keep; `None` for all.
    pub layers: Option<Vec<Site>>,
    /// Indices of the sequences in the batch to keep; `None` for all.
    pub sequences: Option<Vec<usize>>,
    /// Indices of the heads to keep in each layer; `None` for all.
    pub heads: Option<Vec<usize>>,
    /// Range of the queries to keep; `None` for all.
    pub rows: Option<Range<usize>>,
}

/// The weights that one head of one layer gave to the keys of one sequence.
#[derive(Debug, Clone, PartialEq)]
pub struct AttentionMap {
    /// Attention layer.
    pub site: Site,
    /// Index of the sequence in the batch.
    pub sequence: usize,
    /// Index of the head in the layer.
    pub head: usize,
    /// Index of the query of the first row.
    pub first_row: usize,
    /// One row per query: its weight for each key, in the order of the keys. A decoder's rows grow with its steps.
    pub rows: Vec<Vec<f32>>,
    /// For attention along the edges of a graph, the key of each weight; `None` if every key has a weight.
    pub keys: Option<Vec<Vec<usize>>>,
}

/// The layer that weights belong to, and the indices of the first head, query and sequence among them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    pub site: Site,
    pub first_head: usize,
    pub first_row: usize,
    pub first_sequence: usize,
}

/// Collects attention weights, or the mean outputs of heads, during a pass.
#[derive(Debug, Default)]
pub struct Capture {
    keeps: Keeps,
    maps: Mutex<Vec<AttentionMap>>,
    outputs: Mutex<BTreeMap<(Site, usize), Sum>>,
}

#[derive(Debug)]
enum Keeps {
    Weights(Wanted),
    Outputs,
}

impl Default for Keeps {
    fn default() -> Self {
        Self::Weights(Wanted::default())
    }
}

/// Sum and number of a head's outputs.
#[derive(Debug, Default)]
struct Sum {
    total: Vec<f64>,
    count: usize,
}

impl Capture {
    /// Creates a capture of the weights that `wanted` selects.
    pub fn new(wanted: Wanted) -> Self {
        Self { keeps: Keeps::Weights(wanted), ..Self::default() }
    }

    /// Creates a capture of the mean outputs of all heads, without weights. Padding counts too: use sequences of one length.
    pub fn of_outputs() -> Self {
        Self { keeps: Keeps::Outputs, ..Self::default() }
    }

    /// Returns the captured weights, in the order in which the layers computed them.
    pub fn into_maps(self) -> Vec<AttentionMap> {
        self.maps.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the mean outputs of the heads.
    pub fn into_means(self) -> Means {
        let sums = self.outputs.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mean = |sum: Sum| sum.total.iter().map(|total| (total / sum.count.max(1) as f64) as f32).collect();
        sums.into_iter().map(|(head, sum)| (head, mean(sum))).collect()
    }

    /// Returns whether weights of `layer` are to be kept.
    pub fn wants(&self, layer: &Site) -> bool {
        match &self.keeps {
            Keeps::Weights(wanted) => wanted.layers.as_ref().is_none_or(|layers| layers.contains(layer)),
            Keeps::Outputs => false,
        }
    }

    /// Returns whether the mean outputs of heads are to be kept.
    pub(crate) fn wants_outputs(&self) -> bool {
        matches!(self.keeps, Keeps::Outputs)
    }

    /// Adds the outputs of heads, `[batch, n_heads, queries, d_value]`, to their sums.
    pub(crate) fn add_outputs(&self, site: &Site, first_head: usize, outputs: &Tensor<4>) {
        if !self.wants_outputs() {
            return;
        }
        let [batch, n_heads, queries, d_value] = outputs.dims();
        let mut sums = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        for head in 0..n_heads {
            let sum = sums.entry((*site, first_head + head)).or_default();
            sum.total.resize(d_value, 0.0);
            sum.count += batch * queries;
            let own: Vec<f32> = outputs.clone().narrow(1, head, 1).into_data().iter().collect();
            for (at, output) in own.into_iter().enumerate() {
                sum.total[at % d_value] += f64::from(output);
            }
        }
    }

    /// Keeps the selected weights of a graph's edges, one map per head. `values` is `[edges, n_heads]`, in the graph's order.
    pub(crate) fn record_edges(&self, site: &Site, graph: &Graph, n_heads: usize, values: &[f32]) {
        let Keeps::Weights(all) = &self.keeps else { return };
        if !self.wants(site) || !is_among(&all.sequences, 0) {
            return;
        }
        let rows = all.rows.clone().unwrap_or(0..usize::MAX);
        let rows = rows.start.min(graph.n_nodes())..rows.end.min(graph.n_nodes());
        let keys: Vec<Vec<usize>> = rows.clone().map(|node| graph.sources(node).collect()).collect();
        let first_edge: usize = (0..rows.start).map(|node| graph.sources(node).count()).sum();
        for head in (0..n_heads).filter(|&head| is_among(&all.heads, head)) {
            let mut edges = values.iter().skip(head).step_by(n_heads).skip(first_edge);
            let rows_of_head = keys.iter().map(|keys| edges.by_ref().take(keys.len()).copied().collect()).collect();
            self.push(AttentionMap {
                site: *site,
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

    /// Keeps the selected weights of a layer with weights `[batch, n_heads, queries, keys]`. `weights` computes the given rows
    /// for a sequence and a head; all three are counted from the first ones in the place.
    pub(crate) fn record(
        &self,
        Place { site, first_head, first_row, first_sequence }: Place,
        [batch, n_heads, queries, keys]: [usize; 4],
        weights: impl Fn(usize, usize, Range<usize>) -> Result<Vec<f32>, OpError>,
    ) -> Result<(), OpError> {
        let Keeps::Weights(all) = &self.keeps else { return Ok(()) };
        let rows = all.rows.clone().unwrap_or(0..usize::MAX);
        let within = |row: usize| row.saturating_sub(first_row).min(queries);
        let (rows, first_row) = (within(rows.start)..within(rows.end), first_row.max(rows.start));
        if !self.wants(&site) || rows.is_empty() || keys == 0 {
            return Ok(());
        }
        for sequence in (0..batch).filter(|sequence| is_among(&all.sequences, first_sequence + sequence)) {
            for head in (0..n_heads).filter(|head| is_among(&all.heads, first_head + head)) {
                let weights = weights(sequence, head, rows.clone())?;
                let rows = weights.chunks_exact(keys).map(<[f32]>::to_vec).collect();
                let (sequence, head) = (first_sequence + sequence, first_head + head);
                self.keep(AttentionMap { site, sequence, head, first_row, rows, keys: None });
            }
        }
        Ok(())
    }

    /// Appends rows to the last map of the same layer, sequence and head if they follow its rows; starts a new map otherwise.
    fn keep(&self, new: AttentionMap) {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |map: &&mut AttentionMap| (map.site, map.sequence, map.head) == (new.site, new.sequence, new.head);
        match maps.iter_mut().rev().find(same) {
            Some(map) if new.first_row > 0 && map.first_row + map.rows.len() == new.first_row => {
                map.rows.extend(new.rows)
            }
            _ => maps.push(new),
        }
    }
}

/// Returns whether the list contains `number`; a missing list contains every number.
fn is_among(list: &Option<Vec<usize>>, number: usize) -> bool {
    list.as_ref().is_none_or(|list| list.contains(&number))
}
