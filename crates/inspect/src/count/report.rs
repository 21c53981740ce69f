//! The result of counting, as numbers and as the JSON of `regard count`.

use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};

use super::part::{FLOAT, Part};

/// The cost of a described model. The [module](super) defines what is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// The whole model, with its parts.
    pub model: Part,
    /// Floating-point operations.
    pub flops: Flops,
    /// Memory in bytes.
    pub memory: Memory,
}

/// Floating-point operations of matrix products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flops {
    /// Operations of a forward pass.
    pub forward: u128,
    /// Operations of a forward and a backward pass.
    pub training_step: u128,
}

/// Memory in bytes, for f32 numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Memory {
    /// Bytes of the parameters.
    pub weights: u128,
    /// Bytes of their gradients.
    pub gradients: u128,
    /// Bytes of the two moments of AdamW.
    pub optimiser: u128,
    /// Bytes kept for the backward pass with fused attention.
    pub activations: u128,
    /// Bytes kept for the backward pass with an attention that keeps its weights.
    pub activations_dense: u128,
    /// Sum of weights, gradients, optimiser and activations.
    pub training: u128,
    /// Bytes of all logits at once.
    pub logits: u128,
    /// Bytes kept for decoding: keys and values, or the running states of linear attention.
    pub kv_cache: u128,
}

impl Count {
    /// Returns `None` if a sum does not fit in a `u128`.
    pub(super) fn new(model: Part, logits: Option<u128>) -> Option<Self> {
        let total = model.total;
        let weights = total.parameters.checked_mul(FLOAT as u128)?;
        let flops = Flops { forward: total.flops, training_step: total.flops.checked_mul(3)? };
        let memory = Memory {
            weights,
            gradients: weights,
            optimiser: weights.checked_mul(2)?,
            activations: total.activations,
            activations_dense: total.activations_dense,
            training: weights.checked_mul(4)?.checked_add(total.activations)?,
            logits: logits?,
            kv_cache: total.kv_cache,
        };
        Some(Self { model, flops, memory })
    }

    /// Returns the number of parameters.
    pub fn parameters(&self) -> u128 {
        self.model.total.parameters
    }
}

impl Serialize for Count {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parts = |figure| Node { part: &self.model, figure };
        let mut document = serializer.serialize_struct("Count", 3)?;
        document.serialize_field("parameters", &parts(Figure::Parameters))?;
        document.serialize_field("flops", &FlopsNode(self))?;
        document.serialize_field("memory", &self.memory)?;
        document.end()
    }
}

#[derive(Clone, Copy)]
enum Figure {
    Parameters,
    Flops,
}

impl Figure {
    fn of(self, part: &Part) -> u128 {
        match self {
            Figure::Parameters => part.total.parameters,
            Figure::Flops => part.total.flops,
        }
    }
}

/// A part as JSON: a number, `{total, parts}`, or `{total, count, each}` for a repeated part.
#[derive(Clone, Copy)]
struct Node<'a> {
    part: &'a Part,
    figure: Figure,
}

/// Parts by name, without those that are zero.
struct Parts<'a>(Node<'a>);

/// One repetition of a part.
struct Each<'a>(Node<'a>);

struct FlopsNode<'a>(&'a Count);

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Part { count, parts, .. } = self.part;
        if parts.is_empty() && *count == 1 {
            return serializer.serialize_u128(self.figure.of(self.part));
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("total", &self.figure.of(self.part))?;
        if *count == 1 {
            map.serialize_entry("parts", &Parts(*self))?;
        } else {
            map.serialize_entry("count", count)?;
            map.serialize_entry("each", &Each(*self))?;
        }
        map.end()
    }
}

impl Serialize for Each<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let one = Part { count: 1, total: self.0.part.each, ..self.0.part.clone() };
        Node { part: &one, ..self.0 }.serialize(serializer)
    }
}

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Node { part, figure } = self.0;
        let parts = part.parts.iter().filter(|part| figure.of(part) > 0);
        serializer.collect_map(parts.map(|part| (part.name.as_str(), Node { part, figure })))
    }
}

impl Serialize for FlopsNode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("forward", &self.0.flops.forward)?;
        map.serialize_entry("training_step", &self.0.flops.training_step)?;
        map.serialize_entry("parts", &Parts(Node { part: &self.0.model, figure: Figure::Flops }))?;
        map.end()
    }
}
