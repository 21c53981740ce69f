//! AdamW (Loshchilov 2019) over a whole module, in place, with clipping by the global norm.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor, TensorData};
use burn_flex::FlexTensor;
use regard_kernels::adamw::{AdamWOptions, AdamWTensor, adamw_step, global_norm};

use crate::fused::{contiguous, elements, flex, is_fused, plain};

/// Which parameters the weight decay pulls towards zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Decay {
    /// All of them, as PyTorch does by default.
    #[default]
    All,
    /// Those with two indices or more: not biases and norms.
    Matrices,
}

/// The optimiser and its state. Parameters are known by their path in the module, in the module's order.
#[derive(Debug, Clone)]
pub struct AdamW {
    /// Learning rate, betas, epsilon and weight decay of the next step.
    pub options: AdamWOptions,
    /// Gradients are scaled down to this norm, over all of them together.
    pub max_norm: Option<f32>,
    /// What decays.
    pub decay: Decay,
    step: u64,
    moments: Vec<Moments>,
}

/// The running averages of one parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// The parameter's path, as `blocks.0.norm.gamma`.
    pub path: String,
    /// Average of the gradient.
    pub first: Vec<f32>,
    /// Average of its square.
    pub second: Vec<f32>,
}

impl AdamW {
    /// An optimiser that has made no step yet.
    pub fn new(options: AdamWOptions, max_norm: Option<f32>, decay: Decay) -> Self {
        Self { options, max_norm, decay, step: 0, moments: Vec::new() }
    }

    /// Steps made and averages, in the module's order: with the options, the whole state.
    pub fn state(&self) -> (u64, &[Moments]) {
        (self.step, &self.moments)
    }

    /// Goes on from a saved state.
    pub fn restore(&mut self, step: u64, moments: Vec<Moments>) {
        (self.step, self.moments) = (step, moments);
    }

    /// One step, and the norm of the gradients before clipping.
    ///
    /// A norm that is not finite changes nothing, neither weights nor state: the caller sees it in the norm.
    pub fn step<M: Module>(&mut self, module: M, mut gradients: Gradients) -> (M, f32) {
        let mut collect = Collect { gradients: &mut gradients, found: Vec::new() };
        module.visit(&mut collect);
        let found = collect.found;
        let norm = global_norm(found.iter().flatten().map(elements));
        if !norm.is_finite() {
            return (module, norm);
        }
        self.step += 1;
        // PyTorch's clip_grad_norm_ has the same small number in the denominator.
        let scale = self.max_norm.map_or(1.0, |max| (max / (norm + 1e-6)).min(1.0));
        let mut update = Update { optimiser: self, found: found.into_iter(), path: Vec::new(), at: 0, scale };
        (module.map(&mut update), norm)
    }

    /// The averages of the parameter at `path`, number `at` in the module; zeros if it is new.
    fn moments(&mut self, at: usize, path: &[String], len: usize) -> &mut Moments {
        let path = path.join(".");
        let known = self.moments.get(at).is_some_and(|m| m.path == path && m.first.len() == len);
        if !known {
            // A parameter whose averages are elsewhere (the module changed) keeps them.
            let found = self.moments.iter().position(|m| m.path == path && m.first.len() == len);
            let moments = match found {
                Some(found) => self.moments.remove(found),
                None => Moments { path, first: vec![0.0; len], second: vec![0.0; len] },
            };
            let at = at.min(self.moments.len());
            self.moments.insert(at, moments);
        }
        &mut self.moments[at]
    }
}

/// Takes the gradient of each parameter, `None` where there is none.
struct Collect<'a> {
    gradients: &'a mut Gradients,
    found: Vec<Option<FlexTensor>>,
}

impl ModuleVisitor for Collect<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let gradient = param.val().grad_remove(self.gradients);
        self.found.push(gradient.map(|gradient| contiguous(host(gradient))));
    }
}

/// The tensor on the CPU.
fn host<const D: usize>(gradient: Tensor<D>) -> FlexTensor {
    if is_fused(&gradient) { flex(gradient) } else { FlexTensor::from_data(gradient.into_data()) }
}

/// Updates each parameter in place.
struct Update<'a> {
    optimiser: &'a mut AdamW,
    found: std::vec::IntoIter<Option<FlexTensor>>,
    path: Vec<String>,
    at: usize,
    scale: f32,
}

impl ModuleMapper for Update<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = self.found.next().flatten() else { return param };
        let (id, value, mapper) = param.consume();
        let (tracked, device) = (value.is_require_grad(), value.device());
        let fused = is_fused(&value);
        let shape = value.dims();
        let mut data = contiguous(host(value));
        let decay = self.optimiser.decay == Decay::All || D > 1;
        let (options, step) = (self.optimiser.options, self.optimiser.step);
        let moments = self.optimiser.moments(self.at, &self.path, elements(&gradient).len());
        self.at += 1;
        let mut one = [AdamWTensor {
            parameter: data.storage_mut(),
            gradient: elements(&gradient),
            first_moment: &mut moments.first,
            second_moment: &mut moments.second,
            decay,
        }];
        adamw_step(&mut one, &options, step, self.scale).expect("a gradient has the size of its parameter");
        let updated = match fused {
            true => plain(data),
            false => {
                let values: Vec<f32> = elements(&data).to_vec();
                Tensor::from_data(TensorData::new(values, shape), &device.clone().without_autodiff())
            }
        };
        let updated = if device.is_autodiff() { Tensor::from_inner(updated) } else { updated };
        Param::from_mapped_value(id, updated.set_require_grad(tracked), mapper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_follow_their_path() {
        let options = AdamWOptions { learning_rate: 0.1, beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weight_decay: 0.0 };
        let mut adamw = AdamW::new(options, None, Decay::All);
        let path = |name: &str| vec![name.to_string()];
        adamw.moments(0, &path("a"), 2).first[0] = 1.0;
        adamw.moments(1, &path("b"), 3).first[0] = 2.0;
        assert_eq!(adamw.moments(0, &path("b"), 3).first[0], 2.0);
        assert_eq!(adamw.moments(1, &path("a"), 2).first[0], 1.0);
    }
}
