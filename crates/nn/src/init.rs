//! Initial weights. They depend only on a seed and the path of the parameter, not on the order of building or on Burn's
//! generator.

use std::sync::{Arc, Mutex, PoisonError};

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal, Uniform};
use regard_kernels::mix;

use crate::heads::{AttentionKind, Heads, Inventory, Side, Site};
use crate::layers::adapter::AdapterPlan;

/// Distribution of the initial weights of matrices.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Spread {
    /// Uniform with variance `2 / (d_in + d_out)` (Glorot and Bengio 2010).
    #[default]
    Xavier,
    /// Uniform in `±1/√d_in`, like PyTorch's layers.
    FanIn,
    /// Normal with this standard deviation, 0.02 in BERT; embeddings keep their own default.
    Normal(f32),
    /// Normal, for embeddings too. Matrices that write into the residual stream have their deviation divided by `√(2 n_layers)`,
    /// so that the stream does not grow with the number of layers (GPT-2, Radford 2019).
    Residual {
        /// Standard deviation, 0.02 in GPT-2.
        deviation: f32,
        /// Number of layers in the stack.
        n_layers: usize,
    },
}

/// Destination of a matrix's output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Destination {
    /// The output goes into the next layer.
    #[default]
    Layer,
    /// The output is added to the residual stream.
    Stream,
}

/// Creates the parameters of a model. Each `Init` is a place in the model under construction and knows its path.
#[derive(Debug, Clone)]
pub struct Init {
    seed: u64,
    spread: Spread,
    destination: Destination,
    path: String,
    device: Device,
    /// Stack and index of the layer under construction, which name its attention layers.
    side: Option<Side>,
    layer: usize,
    /// Attention layers built so far, shared by all places of one model.
    inventory: Arc<Mutex<Inventory>>,
    /// Whether weights are drawn; otherwise they are zero until they are loaded.
    draws: bool,
    /// Linear layers that get low-rank adapters.
    adapters: Option<Arc<AdapterPlan>>,
}

impl Init {
    /// Creates the root of a model on `device`, whose weights are drawn from `seed`.
    pub fn new(seed: u64, device: &Device) -> Self {
        Self {
            seed,
            spread: Spread::default(),
            destination: Destination::default(),
            path: String::new(),
            device: device.clone(),
            side: None,
            layer: 0,
            inventory: Arc::default(),
            draws: true,
            adapters: None,
        }
    }

    /// Creates the root of a model whose weights will be loaded from a file: none is drawn.
    pub fn for_weights(device: &Device) -> Self {
        Self { draws: false, ..Self::new(0, device) }
    }

    /// Sets the stack, in a model that has two.
    pub fn on(self, side: Side) -> Self {
        Self { side: Some(side), ..self }
    }

    /// Sets the index of the layer in its stack, from 0.
    pub fn layer(self, layer: usize) -> Self {
        Self { layer, ..self }
    }

    /// Registers an attention layer with `n_heads` heads and returns them.
    pub fn heads(&self, kind: AttentionKind, n_heads: usize) -> Heads {
        self.more_heads(kind, 0, n_heads)
    }

    /// Registers `n_heads` heads starting at index `first`, for a layer that two networks make up.
    pub fn more_heads(&self, kind: AttentionKind, first: usize, n_heads: usize) -> Heads {
        let site = Site { side: self.side, layer: self.layer, kind };
        self.inventory.lock().unwrap_or_else(PoisonError::into_inner).add(site, first, n_heads);
        Heads::new(site, first, self.path())
    }

    /// Records that the model has positions that can be switched off.
    pub fn note_positions(&self) {
        self.inventory.lock().unwrap_or_else(PoisonError::into_inner).positions = true;
    }

    /// Returns the attention layers built from this root so far.
    pub fn inventory(&self) -> Inventory {
        self.inventory.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the distribution of the initial weights of matrices.
    pub fn with_spread(self, spread: Spread) -> Self {
        Self { spread, ..self }
    }

    /// Sets which linear layers of the model get low-rank adapters.
    pub fn with_adapters(self, plan: Option<AdapterPlan>) -> Self {
        Self { adapters: plan.map(Arc::new), ..self }
    }

    /// Returns the plan of the model's low-rank adapters.
    pub fn adapters(&self) -> Option<&AdapterPlan> {
        self.adapters.as_deref()
    }

    /// Marks a layer whose output is added to the residual stream; see [`Spread::Residual`].
    pub fn into_stream(self) -> Self {
        Self { destination: Destination::Stream, ..self }
    }

    /// Returns the place called `name` within this one.
    pub fn enter(&self, name: impl std::fmt::Display) -> Self {
        Self { path: self.name(name), ..self.clone() }
    }

    /// Returns the path of this place in the model.
    pub fn path(&self) -> LayerPath {
        LayerPath(self.path.as_str().into())
    }

    /// Returns the device of the parameters.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Creates a matrix with `fan[0]` inputs and `fan[1]` outputs, distributed by the model's [`Spread`].
    pub fn weight<const D: usize>(&self, name: &str, shape: [usize; D], fan: [usize; 2]) -> Param<Tensor<D>> {
        let [d_in, d_out] = fan.map(|size| size.max(1) as f32);
        match self.spread {
            Spread::Xavier => self.uniform(name, shape, (6.0 / (d_in + d_out)).sqrt()),
            Spread::FanIn => self.uniform(name, shape, 1.0 / d_in.sqrt()),
            Spread::Normal(deviation) => self.normal(name, shape, deviation),
            Spread::Residual { deviation, n_layers } => {
                let parts = match self.destination {
                    Destination::Layer => 1.0,
                    Destination::Stream => 2.0 * n_layers.max(1) as f32,
                };
                self.normal(name, shape, deviation / parts.sqrt())
            }
        }
    }

    /// Creates the weight of a layer with `fan_in` inputs that a ReLU follows: normal with variance `2 / fan_in` (He et al. 2015).
    pub fn rectified<const D: usize>(&self, name: &str, shape: [usize; D], fan_in: usize) -> Param<Tensor<D>> {
        self.normal(name, shape, (2.0 / fan_in.max(1) as f32).sqrt())
    }

    /// Creates the table of an embedding: normal with deviation `usual`, unless the model's [`Spread`] sets another.
    pub fn table(&self, name: &str, shape: [usize; 2], usual: f32) -> Param<Tensor<2>> {
        match self.spread {
            Spread::Residual { deviation, .. } => self.normal(name, shape, deviation),
            Spread::Xavier | Spread::FanIn | Spread::Normal(_) => self.normal(name, shape, usual),
        }
    }

    /// Creates a parameter with values uniform in `±bound`.
    pub fn uniform<const D: usize>(&self, name: &str, shape: [usize; D], bound: f32) -> Param<Tensor<D>> {
        let unit = Uniform::new_inclusive(-1.0f32, 1.0).expect("the range is valid");
        self.sample(name, shape, |random| bound * unit.sample(random))
    }

    /// Creates a parameter with values from a normal distribution around zero.
    pub fn normal<const D: usize>(&self, name: &str, shape: [usize; D], deviation: f32) -> Param<Tensor<D>> {
        self.sample(name, shape, |random| {
            let unit: f32 = StandardNormal.sample(random);
            deviation * unit
        })
    }

    /// Creates a parameter filled with `value`.
    pub fn constant<const D: usize>(&self, shape: [usize; D], value: f32) -> Param<Tensor<D>> {
        Param::from_tensor(Tensor::full(shape, value, &self.device))
    }

    fn sample<const D: usize>(
        &self,
        name: &str,
        shape: [usize; D],
        draw: impl Fn(&mut ChaCha8Rng) -> f32,
    ) -> Param<Tensor<D>> {
        if !self.draws {
            return self.constant(shape, 0.0);
        }
        let mut random = ChaCha8Rng::seed_from_u64(stream(self.seed, &self.name(name)));
        let data: Vec<f32> = (0..shape.iter().product()).map(|_| draw(&mut random)).collect();
        Param::from_tensor(Tensor::from_data(TensorData::new(data, shape), &self.device))
    }

    fn name(&self, name: impl std::fmt::Display) -> String {
        if self.path.is_empty() { name.to_string() } else { format!("{}.{name}", self.path) }
    }
}

/// Path of a layer in its model, such as `encoder.layers.0.attention`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerPath(std::sync::Arc<str>);

impl From<&str> for LayerPath {
    fn from(path: &str) -> Self {
        Self(path.into())
    }
}

impl LayerPath {
    /// Returns the path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A seed for what is called `name` in the stream of `seed`: the FNV hash of the name, mixed with the seed.
pub(crate) fn stream(seed: u64, name: &str) -> u64 {
    let hash = name
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3));
    mix(seed, hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(param: &Param<Tensor<2>>) -> Vec<f32> {
        param.val().into_data().try_to_vec().unwrap()
    }

    #[test]
    fn weights_depend_on_seed_and_path_alone() {
        let init = |seed| Init::new(seed, &Device::flex());
        let a = values(&init(1).enter("a").weight("w", [3, 4], [3, 4]));
        assert_eq!(a, values(&init(1).enter("a").weight("w", [3, 4], [3, 4])));
        assert_ne!(a, values(&init(2).enter("a").weight("w", [3, 4], [3, 4])));
        assert_ne!(a, values(&init(1).enter("b").weight("w", [3, 4], [3, 4])));
        assert_eq!(init(1).enter("a").enter(0).path().as_str(), "a.0");
    }

    #[test]
    fn spreads_have_the_right_deviation() {
        let deviation = |spread| {
            let init = Init::new(5, &Device::flex()).with_spread(spread);
            let x = values(&init.weight("w", [300, 500], [300, 500]));
            (x.iter().map(|x| f64::from(x * x)).sum::<f64>() / x.len() as f64).sqrt()
        };
        // With 150,000 draws the deviation is right to a few tenths of a per cent.
        for (spread, want) in [
            (Spread::Xavier, (2.0f64 / 800.0).sqrt()),
            (Spread::FanIn, (1.0f64 / 900.0).sqrt()),
            (Spread::Normal(0.02), 0.02),
        ] {
            assert!((deviation(spread) / want - 1.0).abs() < 0.01, "{spread:?}");
        }
    }

    #[test]
    fn weights_before_a_relu_keep_the_variance() {
        let x = values(&Init::new(5, &Device::flex()).rectified("w", [300, 500], 500));
        let deviation = (x.iter().map(|x| f64::from(x * x)).sum::<f64>() / x.len() as f64).sqrt();
        assert!((deviation / (2.0f64 / 500.0).sqrt() - 1.0).abs() < 0.01, "{deviation}");
    }

    #[test]
    fn matrices_that_write_into_the_stream_start_smaller() {
        let init = Init::new(5, &Device::flex()).with_spread(Spread::Residual { deviation: 0.02, n_layers: 8 });
        let deviation = |param: Param<Tensor<2>>| {
            let x = values(&param);
            (x.iter().map(|x| f64::from(x * x)).sum::<f64>() / x.len() as f64).sqrt()
        };
        let shape = [300, 500];
        let near = |found: f64, want: f64| assert!((found / want - 1.0).abs() < 0.01, "{found} {want}");
        near(deviation(init.weight("w", shape, shape)), 0.02);
        near(deviation(init.table("t", shape, 1.0)), 0.02);
        near(deviation(init.clone().into_stream().weight("w", shape, shape)), 0.005);
        near(deviation(init.with_spread(Spread::Xavier).table("t", shape, 0.5)), 0.5);
    }
}
