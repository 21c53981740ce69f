//! A model as a tree of parts, each with its cost.

use super::quantity::{Quantity, q};

/// The cost of a part or a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures<T = u128> {
    /// Number of parameters.
    pub parameters: T,
    /// Number of floating-point operations of a forward pass.
    pub flops: T,
    /// Bytes kept for the backward pass.
    pub activations: T,
    /// Bytes kept for the backward pass if attention keeps its weights.
    pub activations_dense: T,
    /// Bytes kept for decoding: keys and values, or running states.
    pub kv_cache: T,
}

impl<T> Figures<T> {
    fn zip<U, V>(self, other: Figures<U>, f: impl Fn(T, U) -> V) -> Figures<V> {
        Figures {
            parameters: f(self.parameters, other.parameters),
            flops: f(self.flops, other.flops),
            activations: f(self.activations, other.activations),
            activations_dense: f(self.activations_dense, other.activations_dense),
            kv_cache: f(self.kv_cache, other.kv_cache),
        }
    }
}

/// A part of a model, possibly repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Name of the part.
    pub name: String,
    /// Number of repetitions.
    pub count: u128,
    /// Cost of one repetition, including its parts.
    pub each: Figures,
    /// Cost of all repetitions.
    pub total: Figures,
    /// Parts of one repetition.
    pub parts: Vec<Part>,
}

impl Part {
    /// Returns the part at a path of names, such as `["encoder", "layers"]`.
    pub fn at(&self, path: &[&str]) -> Option<&Part> {
        path.iter().try_fold(self, |part, name| part.parts.iter().find(|part| part.name == *name))
    }
}

/// A part before its costs are summed up.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    name: String,
    count: Quantity,
    own: Figures<Quantity>,
    parts: Vec<Draft>,
}

/// Size of an f32 in bytes.
pub(super) const FLOAT: usize = 4;

impl Draft {
    pub(super) fn new(name: impl Into<String>) -> Self {
        let zero = Quantity::ZERO;
        let own = Figures { parameters: zero, flops: zero, activations: zero, activations_dense: zero, kv_cache: zero };
        Self { name: name.into(), count: q(1), own, parts: Vec::new() }
    }

    pub(super) fn times(mut self, count: usize) -> Self {
        self.count = q(count);
        self
    }

    pub(super) fn parameters(mut self, count: Quantity) -> Self {
        self.own.parameters += count;
        self
    }

    /// Removes the parameters, for a part that is used a second time.
    pub(super) fn without_parameters(mut self) -> Self {
        self.own.parameters = Quantity::ZERO;
        self
    }

    pub(super) fn flops(mut self, count: Quantity) -> Self {
        self.own.flops += count;
        self
    }

    /// Adds f32 `numbers` that are kept for the backward pass with either kind of attention.
    pub(super) fn keeps(self, numbers: Quantity) -> Self {
        self.keeps_bytes(numbers * FLOAT)
    }

    pub(super) fn keeps_bytes(mut self, bytes: Quantity) -> Self {
        self.own.activations += bytes;
        self.own.activations_dense += bytes;
        self
    }

    /// Adds f32 numbers that are kept for the backward pass: `fused` with fused attention, `dense` with dense attention.
    pub(super) fn keeps_either(mut self, fused: Quantity, dense: Quantity) -> Self {
        self.own.activations += fused * FLOAT;
        self.own.activations_dense += dense * FLOAT;
        self
    }

    pub(super) fn caches(mut self, numbers: Quantity) -> Self {
        self.own.kv_cache += numbers * FLOAT;
        self
    }

    /// Adds a linear layer that is applied to `rows` rows.
    pub(super) fn linear(self, rows: Quantity, d_in: Quantity, d_out: Quantity, bias: bool) -> Self {
        let constants = if bias { d_out } else { Quantity::ZERO };
        self.parameters(d_in * d_out + constants).flops(rows * d_in * d_out * 2)
    }

    pub(super) fn with(mut self, part: Draft) -> Self {
        self.parts.push(part);
        self
    }

    pub(super) fn with_all(mut self, parts: impl IntoIterator<Item = Draft>) -> Self {
        self.parts.extend(parts);
        self
    }

    /// Sums up all costs. Returns `None` if a sum does not fit in a `u128`.
    pub(super) fn finish(self) -> Option<Part> {
        let (part, fits) = self.sum();
        fits.then_some(part)
    }

    fn sum(self) -> (Part, bool) {
        let (mut each, mut fits) = (self.own, true);
        let mut parts = Vec::with_capacity(self.parts.len());
        for part in self.parts {
            let (part, part_fits) = part.sum();
            each = each.zip(part.total, |a, b| a + Quantity::known(b));
            fits &= part_fits;
            parts.push(part);
        }
        let total = each.zip(each, |each, _| each * self.count);
        for number in [total.parameters, total.flops, total.activations, total.activations_dense, total.kv_cache] {
            fits &= number.get().is_some();
        }
        let plain = |figures: Figures<Quantity>| figures.zip(figures, |x, _| x.get().unwrap_or(u128::MAX));
        let count = self.count.get().unwrap_or(u128::MAX);
        (Part { name: self.name, count, each: plain(each), total: plain(total), parts }, fits)
    }
}
