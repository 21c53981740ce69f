//! Names of attention layers and their heads, and [`Heads`], through which a layer supports capture and ablation.
//!
//! An attention layer gets its [`Heads`] from [`Init::heads`](crate::Init::heads) and passes its results through them. For a
//! pass with neither capture nor ablation this costs one comparison.

use std::fmt;
use std::ops::Range;

use burn::tensor::Tensor;
use regard_ops::{AttentionOptions, Distance, Graph, OpError, attention, attention_weights};
use serde::{Deserialize, Serialize};

use crate::ablation::{Ablation, Mode};
use crate::capture::{Capture, Place};
use crate::error::NnError;
use crate::init::LayerPath;
use crate::pass::Pass;

/// The stack that a layer belongs to, in a model that has two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The stack that reads.
    Encoder,
    /// The stack that writes.
    Decoder,
}

/// Kind of an attention layer: where its queries and its keys come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionKind {
    /// A sequence attends to itself.
    #[serde(rename = "self")]
    SelfAttention,
    /// A sequence attends to another one.
    Cross,
    /// The state of a recurrent decoder attends to the source.
    Alignment,
    /// A learned query attends to all tokens and pools them into one vector.
    Pooling,
    /// A node of a graph attends to its neighbours.
    Edges,
    /// A channel of a feature map attends to all channels.
    Channels,
}

/// An attention layer of a model. Its name is `[side.]layer[.kind]`: `encoder.0`, `decoder.1.cross`, `2`, `2.channels`, `alignment`,
/// `pooling`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Site {
    /// Stack of the layer; `None` in a model with one stack.
    pub side: Option<Side>,
    /// Index of the layer in its stack, from 0.
    pub layer: usize,
    /// Kind of attention.
    pub kind: AttentionKind,
}

impl Site {
    /// Returns the full name of a head: `encoder.0.2`.
    pub fn head(&self, head: usize) -> String {
        format!("{self}.{head}")
    }

    /// Returns the short name of a head in a layer of `n_heads`. The only head of a layer without a number has the layer's
    /// name: `alignment`.
    pub fn head_of(&self, head: usize, n_heads: usize) -> String {
        if self.is_numbered() || n_heads > 1 { self.head(head) } else { self.to_string() }
    }

    /// Returns whether the layer's name contains its index.
    pub fn is_numbered(&self) -> bool {
        !matches!(self.kind, AttentionKind::Alignment | AttentionKind::Pooling)
    }

    /// Returns a readable name, counting from 1: `encoder layer 1`, `decoder layer 2, cross-attention`.
    pub fn words(&self) -> String {
        let layer = self.layer + 1;
        match (self.side, self.kind) {
            (_, AttentionKind::Alignment) => "alignment".to_string(),
            (_, AttentionKind::Pooling) => "pooling".to_string(),
            (Some(side), AttentionKind::Cross) => format!("{side} layer {layer}, cross-attention"),
            (Some(Side::Decoder), AttentionKind::SelfAttention) => format!("decoder layer {layer}, self-attention"),
            (Some(side), _) => format!("{side} layer {layer}"),
            (None, AttentionKind::Cross) => format!("layer {layer}, cross-attention"),
            (None, AttentionKind::Channels) => format!("layer {layer}, between channels"),
            (None, _) => format!("layer {layer}"),
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Encoder => "encoder",
            Side::Decoder => "decoder",
        })
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(side) = self.side {
            write!(f, "{side}.")?;
        }
        match self.kind {
            AttentionKind::SelfAttention | AttentionKind::Edges => write!(f, "{}", self.layer),
            AttentionKind::Cross => write!(f, "{}.cross", self.layer),
            AttentionKind::Channels => write!(f, "{}.channels", self.layer),
            AttentionKind::Alignment => f.write_str("alignment"),
            AttentionKind::Pooling => f.write_str("pooling"),
        }
    }
}

/// Name under which positions are switched off.
pub(crate) const POSITIONS: &str = "positions";

/// The parts of a model that can be switched off: its attention layers, in the order they were built, and positions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Attention layers, each with its number of heads.
    pub layers: Vec<(Site, usize)>,
    /// Whether the model has positions that can be switched off.
    pub positions: bool,
}

impl Inventory {
    /// Finds a layer, or a head of it, by name.
    pub fn find(&self, name: &str) -> Option<(Site, Option<usize>)> {
        self.layers.iter().find_map(|&(site, n_heads)| match name.strip_prefix(&site.to_string())? {
            "" => Some((site, None)),
            rest => {
                let head = rest.strip_prefix('.')?;
                let head = head.parse().ok().filter(|_| head.bytes().all(|byte| byte.is_ascii_digit()))?;
                (head < n_heads).then_some((site, Some(head)))
            }
        })
    }

    /// Returns the short name of a head; see [`Site::head_of`].
    pub fn name(&self, site: &Site, head: usize) -> String {
        let n_heads = self.layers.iter().find(|(known, _)| known == site).map_or(0, |&(_, n_heads)| n_heads);
        site.head_of(head, n_heads)
    }

    /// Returns an iterator over all heads, as layer and head index.
    pub fn heads(&self) -> impl Iterator<Item = (Site, usize)> {
        self.layers.iter().flat_map(|&(site, n_heads)| (0..n_heads).map(move |head| (site, head)))
    }

    /// Lists all names on one line, for messages.
    pub fn list(&self) -> String {
        let layer = |&(site, n_heads): &(Site, usize)| match n_heads {
            1 => self.name(&site, 0),
            _ => format!("{} to {}", site.head(0), site.head(n_heads - 1)),
        };
        let positions = self.positions.then(|| POSITIONS.to_string());
        let all: Vec<String> = self.layers.iter().map(layer).chain(positions).collect();
        all.join(", ")
    }

    /// Adds `n_heads` heads of a layer, starting at index `first`. The layer may have been added before.
    pub(crate) fn add(&mut self, site: Site, first: usize, n_heads: usize) {
        match self.layers.iter_mut().find(|(known, _)| *known == site) {
            Some((_, known)) => *known = (*known).max(first + n_heads),
            None => self.layers.push((site, first + n_heads)),
        }
    }
}

/// The heads of one attention layer, through which it supports capture and ablation.
#[derive(Debug, Clone)]
pub struct Heads {
    site: Site,
    /// Index of the first head; may be above 0 if two networks make up a layer.
    first: usize,
    path: LayerPath,
}

impl Heads {
    pub(crate) fn new(site: Site, first: usize, path: LayerPath) -> Self {
        Self { site, first, path }
    }

    /// Returns the path of the layer in its model, which determines its random numbers.
    pub fn path(&self) -> &LayerPath {
        &self.path
    }

    /// Returns whether the pass needs the outputs of single heads, to capture or to replace them.
    pub fn needs_outputs(&self, pass: &Pass) -> bool {
        self.ablation(pass).is_some() || pass.capture().is_some_and(Capture::wants_outputs)
    }

    /// Returns whether the whole layer is switched off, so that it adds nothing to the residual stream.
    pub fn are_off(&self, pass: &Pass) -> bool {
        self.ablation(pass).is_some_and(|ablation| ablation.is_off(&self.site))
    }

    /// Computes dot-product attention with the capture and ablation of the pass. `first_row` is the index of the first query
    /// in its sequence.
    ///
    /// # Shapes
    /// `q` `[batch, n_heads, queries, d_head]`, `k` and `v` `[batch, kv_heads, keys, …]` → `[batch, n_heads, queries, …]`.
    pub fn attend(
        &self,
        q: Tensor<4>,
        k: Tensor<4>,
        v: Tensor<4>,
        options: &AttentionOptions,
        first_row: usize,
        pass: &Pass,
    ) -> Result<Tensor<4>, NnError> {
        self.capture(&q, &k, options, first_row, pass)?;
        let [_, n_heads, queries, d_head] = q.dims();
        let scored = pass.at_temperature(options, d_head);
        if !self.needs_outputs(pass) {
            return Ok(attention(q, k, v, &scored)?);
        }
        let mixed = attention(q, k, v.clone(), &scored)?;
        self.ablate(mixed, &v, || uniform(&v, n_heads, queries, options), pass)
    }

    /// Captures the weights of dot-product attention if the pass asks for them.
    ///
    /// # Shapes
    /// `q` and `k` as in [`regard_ops::attention`].
    pub fn capture(
        &self,
        q: &Tensor<4>,
        k: &Tensor<4>,
        options: &AttentionOptions,
        first_row: usize,
        pass: &Pass,
    ) -> Result<(), NnError> {
        let ([batch, n_heads, queries, d_head], keys) = (q.dims(), k.dims()[2]);
        let scored = pass.at_temperature(options, d_head);
        self.record([batch, n_heads, queries, keys], options, first_row, pass, |sequence, head, rows| {
            let weights = attention_weights(q.clone(), k.clone(), &scored, (sequence, head), rows)?;
            Ok(weights.into_data().iter().collect())
        })
    }

    /// Captures the weights that a layer of one head has already computed, if the pass asks for them. `lengths` is the number of
    /// real keys in each sequence.
    ///
    /// # Shapes
    /// `weights` `[batch, queries, keys]`.
    pub fn capture_weights(
        &self,
        weights: &Tensor<3>,
        lengths: Option<&[usize]>,
        first_row: usize,
        pass: &Pass,
    ) -> Result<(), NnError> {
        if pass.capture().is_none() {
            return Ok(());
        }
        let [batch, queries, keys] = weights.dims();
        self.record([batch, 1, queries, keys], &within(lengths), first_row, pass, |sequence, _, rows| {
            let part = weights.clone().slice([sequence..sequence + 1, rows, 0..keys]);
            Ok(part.into_data().iter().collect())
        })
    }

    /// Applies the pass's capture and ablation to the output of a layer of one head.
    ///
    /// # Shapes
    /// `mixed` `[batch, queries, d_value]`, `values` `[batch, keys, d_value]` → as `mixed`.
    pub fn ablate_single(
        &self,
        mixed: Tensor<3>,
        values: &Tensor<3>,
        lengths: Option<&[usize]>,
        pass: &Pass,
    ) -> Result<Tensor<3>, NnError> {
        if !self.needs_outputs(pass) {
            return Ok(mixed);
        }
        let (queries, values) = (mixed.dims()[1], values.clone().unsqueeze_dim::<4>(1));
        let equally = || uniform(&values, 1, queries, &within(lengths));
        Ok(self.ablate(mixed.unsqueeze_dim(1), &values, equally, pass)?.squeeze_dim(1))
    }

    /// Captures the weights of a graph's edges if the pass asks for them.
    ///
    /// # Shapes
    /// `weights` `[edges, n_heads]`, in the order of the graph.
    pub(crate) fn capture_edges(&self, graph: &Graph, weights: &Tensor<2>, pass: &Pass) {
        let Some(capture) = pass.capture() else { return };
        let n_heads = weights.dims()[1];
        let mut values: Vec<f32> = weights.to_data().iter().collect();
        if let Some(ablation) = self.ablation(pass) {
            let edges = (0..graph.n_nodes()).flat_map(|node| {
                let degree = graph.sources(node).count() as f32;
                graph.sources(node).map(move |source| (node, source, degree))
            });
            for ((node, source, degree), weights) in edges.zip(values.chunks_exact_mut(n_heads.max(1))) {
                for (head, weight) in weights.iter_mut().enumerate() {
                    match ablation.mode(&self.site, self.first + head) {
                        None => {}
                        Some(Mode::Zero | Mode::Mean) => *weight = 0.0,
                        Some(Mode::Uniform) => *weight = 1.0 / degree,
                        Some(Mode::Itself) => *weight = f32::from(u8::from(node == source)),
                    }
                }
            }
        }
        capture.record_edges(&self.site, graph, n_heads, &values);
    }

    /// Captures the selected weights of a layer with weights `[batch, n_heads, queries, keys]`. `weights` computes the given rows
    /// for a sequence and a head. A switched-off head is recorded with the weights that replace its own.
    pub(crate) fn record(
        &self,
        shape @ [batch, _, queries, keys]: [usize; 4],
        seen: &AttentionOptions,
        first_row: usize,
        pass: &Pass,
        weights: impl Fn(usize, usize, Range<usize>) -> Result<Vec<f32>, OpError>,
    ) -> Result<(), NnError> {
        let Some(capture) = pass.capture() else { return Ok(()) };
        let ablation = self.ablation(pass);
        let rows_of = |sequence, head, rows: Range<usize>| match ablation
            .and_then(|ablation| ablation.mode(&self.site, self.first + head))
        {
            None => weights(sequence, head, rows),
            Some(Mode::Zero | Mode::Mean) => Ok(vec![0.0; rows.len() * keys]),
            Some(Mode::Itself) => {
                let before = keys.saturating_sub(queries);
                let weight = |row: usize, key: usize| f32::from(u8::from(key == before + row));
                Ok(rows.flat_map(|row| (0..keys).map(move |key| weight(row, key))).collect())
            }
            Some(Mode::Uniform) => {
                let nothing = |n: usize| Tensor::<4>::zeros([batch, 1, n, 1], &seen_device(seen));
                let options = visible(seen);
                let weights = attention_weights(nothing(queries), nothing(keys), &options, (sequence, 0), rows)?;
                Ok(weights.into_data().iter().collect())
            }
        };
        let place = Place { site: self.site, first_head: self.first, first_row, first_sequence: pass.first_sequence() };
        Ok(capture.record(place, shape, rows_of)?)
    }

    /// Captures the outputs of the heads and replaces those that the pass switches off. `uniform` computes the outputs for equal
    /// weights on every visible key; it is called only if they are needed.
    ///
    /// # Shapes
    /// `mixed` `[batch, n_heads, queries, d_value]`, `values` `[batch, kv_heads, keys, d_value]` → as `mixed`.
    pub fn ablate(
        &self,
        mixed: Tensor<4>,
        values: &Tensor<4>,
        uniform: impl FnOnce() -> Result<Tensor<4>, OpError>,
        pass: &Pass,
    ) -> Result<Tensor<4>, NnError> {
        if let Some(capture) = pass.capture() {
            capture.add_outputs(&self.site, self.first, &mixed);
        }
        let Some(ablation) = self.ablation(pass) else { return Ok(mixed) };
        let [batch, n_heads, queries, d_value] = mixed.dims();
        let modes: Vec<Option<Mode>> = (0..n_heads).map(|head| ablation.mode(&self.site, self.first + head)).collect();
        let uniform = modes.contains(&Some(Mode::Uniform)).then(uniform).transpose()?;
        let [_, kv_heads, keys, _] = values.dims();
        let head = |(head, mode): (usize, &Option<Mode>)| -> Result<Tensor<4>, NnError> {
            let own = mixed.clone().narrow(1, head, 1);
            Ok(match mode {
                None => own,
                Some(Mode::Zero) => own.zeros_like(),
                Some(Mode::Uniform) => uniform.as_ref().map_or(own, |outputs| outputs.clone().narrow(1, head, 1)),
                Some(Mode::Itself) => {
                    let group = head * kv_heads / n_heads;
                    values.clone().narrow(1, group, 1).narrow(2, keys.saturating_sub(queries), queries)
                }
                Some(Mode::Mean) => {
                    let mean = ablation.mean(&self.site, self.first + head, d_value)?;
                    let mean = Tensor::<1>::from_data(mean, &own.device());
                    mean.reshape([1, 1, 1, d_value]).expand([batch, 1, queries, d_value])
                }
            })
        };
        let heads = modes.iter().enumerate().map(head).collect::<Result<Vec<_>, _>>()?;
        Ok(Tensor::cat(heads, 1))
    }

    /// Returns the ablation of the pass if it concerns this layer.
    fn ablation<'a>(&self, pass: &Pass<'a>) -> Option<&'a Ablation> {
        pass.ablation().filter(|ablation| ablation.affects(&self.site))
    }
}

/// Computes attention with equal weights on every key that a query may see.
///
/// # Shapes
/// `values` `[batch, kv_heads, keys, d_value]` → `[batch, n_heads, queries, d_value]`.
pub(crate) fn uniform(
    values: &Tensor<4>,
    n_heads: usize,
    queries: usize,
    seen: &AttentionOptions,
) -> Result<Tensor<4>, OpError> {
    let ([batch, kv_heads, keys, _], device) = (values.dims(), values.device());
    let nothing = |heads: usize, n: usize| Tensor::<4>::zeros([batch, heads, n, 1], &device);
    attention(nothing(n_heads, queries), nothing(kv_heads, keys), values.clone(), &visible(seen))
}

/// Returns the options with only their masks: nothing that prefers one key to another.
fn visible(options: &AttentionOptions) -> AttentionOptions {
    AttentionOptions { scale: None, bias: None, distance: Distance::None, dropout: None, ..options.clone() }
}

/// Returns the device of the boolean mask, or the CPU if there is none.
fn seen_device(seen: &AttentionOptions) -> burn::tensor::Device {
    seen.allowed.as_ref().map_or_else(burn::tensor::Device::flex, Tensor::device)
}

/// Returns attention options that limit the keys to `lengths` and nothing else.
fn within(lengths: Option<&[usize]>) -> AttentionOptions {
    AttentionOptions { lengths: lengths.map(<[usize]>::to_vec), ..AttentionOptions::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITES: [(Option<Side>, usize, AttentionKind, &str, &str); 7] = [
        (Some(Side::Encoder), 0, AttentionKind::SelfAttention, "encoder.0", "encoder layer 1"),
        (Some(Side::Decoder), 1, AttentionKind::SelfAttention, "decoder.1", "decoder layer 2, self-attention"),
        (Some(Side::Decoder), 1, AttentionKind::Cross, "decoder.1.cross", "decoder layer 2, cross-attention"),
        (None, 2, AttentionKind::SelfAttention, "2", "layer 3"),
        (None, 2, AttentionKind::Channels, "2.channels", "layer 3, between channels"),
        (None, 0, AttentionKind::Alignment, "alignment", "alignment"),
        (None, 0, AttentionKind::Pooling, "pooling", "pooling"),
    ];

    #[test]
    fn layers_are_found_by_their_names() {
        let mut inventory = Inventory::default();
        for (side, layer, kind, name, words) in SITES {
            let site = Site { side, layer, kind };
            assert_eq!((site.to_string().as_str(), site.words().as_str()), (name, words));
            inventory.add(site, 0, if kind == AttentionKind::Alignment { 1 } else { 4 });
        }
        for (side, layer, kind, name, _) in SITES {
            let site = Site { side, layer, kind };
            assert_eq!(inventory.find(name), Some((site, None)));
            assert_eq!(inventory.find(&format!("{name}.0")), Some((site, Some(0))));
            assert_eq!(inventory.find(&format!("{name}.4")), None);
        }
        assert_eq!(inventory.find("decoder.2"), None);
        assert_eq!(inventory.find("decoder.1.cross.x"), None);
        let (alignment, pooling) = (inventory.layers[5].0, inventory.layers[6].0);
        assert_eq!(inventory.name(&alignment, 0), "alignment");
        assert_eq!(inventory.name(&pooling, 3), "pooling.3");
    }

    #[test]
    fn two_networks_can_make_up_a_layer() {
        let site = Site { side: None, layer: 0, kind: AttentionKind::SelfAttention };
        let mut inventory = Inventory::default();
        inventory.add(site, 0, 1);
        inventory.add(site, 1, 1);
        assert_eq!(inventory.layers, [(site, 2)]);
    }
}
