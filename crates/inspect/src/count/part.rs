//! A model as a tree of parts, each with what it costs.

use super::quantity::{Quantity, q};

/// What something costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures<T = u128> {
    /// Learned numbers.
    pub parameters: T,
    /// Floating-point operations of a forward pass.
    pub flops: T,
    /// Bytes kept for the backward pass.
    pub activations: T,
    /// The same with an attention that keeps its weights.
    pub activations_dense: T,
    /// Bytes of keys and values.
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

/// A part of a model, perhaps many times the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What it is called.
    pub name: String,
    /// How many there are.
    pub count: u128,
    /// What one costs, with all its parts.
    pub each: Figures,
    /// What all of them cost.
    pub total: Figures,
    /// The parts of one.
    pub parts: Vec<Part>,
}

impl Part {
    /// The part at a path of names, such as `["encoder", "layers"]`.
    pub fn at(&self, path: &[&str]) -> Option<&Part> {
        path.iter().try_fold(self, |part, name| part.parts.iter().find(|part| part.name == *name))
    }
}

/// A part while it is added up.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    name: String,
    count: Quantity,
    own: Figures<Quantity>,
    parts: Vec<Draft>,
}

/// Bytes of an f32.
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

    /// What it costs to use again.
    pub(super) fn without_parameters(mut self) -> Self {
        self.own.parameters = Quantity::ZERO;
        self
    }

    pub(super) fn flops(mut self, count: Quantity) -> Self {
        self.own.flops += count;
        self
    }

    /// Keeps `numbers` of f32 for the backward pass, whatever the attention.
    pub(super) fn keeps(self, numbers: Quantity) -> Self {
        self.keeps_bytes(numbers * FLOAT)
    }

    pub(super) fn keeps_bytes(mut self, bytes: Quantity) -> Self {
        self.own.activations += bytes;
        self.own.activations_dense += bytes;
        self
    }

    /// Keeps these numbers of f32 with the fused attention, and those with a dense one.
    pub(super) fn keeps_either(mut self, fused: Quantity, dense: Quantity) -> Self {
        self.own.activations += fused * FLOAT;
        self.own.activations_dense += dense * FLOAT;
        self
    }

    pub(super) fn caches(mut self, numbers: Quantity) -> Self {
        self.own.kv_cache += numbers * FLOAT;
        self
    }

    /// A product of `rows` rows with a matrix of its own.
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

    /// The sums, unless one does not fit.
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
