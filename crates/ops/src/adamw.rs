//! AdamW (Loshchilov 2019) over a whole module, in place, with clipping by the global norm.

use burn::backend::TensorMetadata;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Gradients, Tensor, TensorData};
use burn_flex::FlexTensor;
use regard_kernels::adamw::{AdamWOptions, AdamWTensor, adamw_step, global_norm};

use crate::error::OpError;
use crate::fused::{contiguous, elements, host, is_fused, plain, tensor};

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

    /// Goes on from a saved state; averages of unequal length are refused.
    pub fn restore(&mut self, step: u64, moments: Vec<Moments>) -> Result<(), OpError> {
        if let Some(broken) = moments.iter().find(|m| m.first.len() != m.second.len()) {
            let why = format!("{}: {} and {} averages", broken.path, broken.first.len(), broken.second.len());
            return Err(OpError::Option { what: "optimiser state", why });
        }
        (self.step, self.moments) = (step, moments);
        Ok(())
    }

    /// Refuses options with which a step would spoil the weights.
    fn check(&self) -> Result<(), OpError> {
        let AdamWOptions { learning_rate, beta1, beta2, epsilon, weight_decay } = self.options;
        let refuse =
            |what, value: f32, expected| Err(OpError::Option { what, why: format!("{value} is not {expected}") });
        for (what, value) in [("learning_rate", learning_rate), ("epsilon", epsilon), ("weight_decay", weight_decay)] {
            if !(value >= 0.0 && value.is_finite()) {
                return refuse(what, value, "a number from 0 on");
            }
        }
        for (what, value) in [("beta1", beta1), ("beta2", beta2)] {
            if !(0.0..1.0).contains(&value) {
                return refuse(what, value, "in [0, 1)");
            }
        }
        match self.max_norm {
            Some(max) if max.is_nan() || max <= 0.0 => refuse("max_norm", max, "above 0"),
            _ => Ok(()),
        }
    }

    /// One step, and the norm of the gradients before clipping.
    ///
    /// A norm that is not finite changes nothing, neither weights nor state: the caller sees it in the norm.
    pub fn step<M: Module>(&mut self, module: M, gradients: Gradients) -> Result<(M, f32), OpError> {
        let gradients = ParameterGradients::new(&module, gradients);
        self.step_with(module, gradients)
    }

    /// [`step`](Self::step) with gradients that were collected, and perhaps added up, before.
    pub fn step_with<M: Module>(&mut self, module: M, gradients: ParameterGradients) -> Result<(M, f32), OpError> {
        self.check()?;
        let found = gradients.0;
        let norm = global_norm(found.iter().flatten().map(elements));
        if !norm.is_finite() {
            return Ok((module, norm));
        }
        self.step = self.step.saturating_add(1);
        // PyTorch's clip_grad_norm_ has the same small number in the denominator.
        let scale = self.max_norm.map_or(1.0, |max| (max / (norm + 1e-6)).min(1.0));
        let mut update = Update { optimiser: self, found: found.into_iter(), path: Vec::new(), at: 0, scale };
        Ok((module.map(&mut update), norm))
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
        let at = at.min(self.moments.len() - 1);
        &mut self.moments[at]
    }
}

/// The gradients of a module's parameters, in the module's order; a parameter without one keeps its place.
#[derive(Debug)]
pub struct ParameterGradients(Vec<Option<FlexTensor>>);

impl ParameterGradients {
    /// Those of `module`'s parameters.
    pub fn new<M: Module>(module: &M, mut gradients: Gradients) -> Self {
        let mut collect = Collect { gradients: &mut gradients, found: Vec::new() };
        module.visit(&mut collect);
        Self(collect.found)
    }

    /// `self ← self · own + other · theirs`, for the mean over batches of unequal size. Both are of one module.
    pub fn combine(&mut self, own: f32, other: Self, theirs: f32) {
        for (sum, new) in self.0.iter_mut().zip(other.0) {
            match (sum.as_mut(), new) {
                (Some(sum), Some(new)) => {
                    let values = sum.storage_mut::<f32>().iter_mut().zip(elements(&new));
                    values.for_each(|(sum, &new)| *sum = *sum * own + new * theirs);
                }
                (Some(sum), None) => sum.storage_mut::<f32>().iter_mut().for_each(|sum| *sum *= own),
                (None, Some(mut new)) => {
                    new.storage_mut::<f32>().iter_mut().for_each(|new| *new *= theirs);
                    *sum = Some(new);
                }
                (None, None) => {}
            }
        }
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
        self.found.push(gradient.map(|gradient| own_memory(contiguous(host(in_f32(gradient))))));
    }
}

/// The same elements with nothing around them: a part of a larger tensor gets memory of its own.
fn own_memory(data: FlexTensor) -> FlexTensor {
    let values = elements(&data);
    if data.storage::<f32>().len() == values.len() { data } else { tensor(values.to_vec(), data.shape().clone()) }
}

/// The tensor with f32 elements: the averages are kept in f32 whatever the model has.
fn in_f32<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if tensor.dtype() == DType::F32 { tensor } else { tensor.cast(DType::F32) }
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
        // A parameter without a gradient keeps its place in the order.
        let at = self.at;
        self.at += 1;
        let Some(gradient) = self.found.next().flatten() else { return param };
        let (id, value, mapper) = param.consume();
        let (tracked, device) = (value.is_require_grad(), value.device());
        let (fused, shape, dtype) = (is_fused(&value), value.dims(), value.dtype());
        let mut data = own_memory(contiguous(host(in_f32(value))));
        let decay = self.optimiser.decay == Decay::All || D > 1;
        let (options, step) = (self.optimiser.options, self.optimiser.step);
        let moments = self.optimiser.moments(at, &self.path, elements(&gradient).len());
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
                let values = TensorData::new(elements(&data).to_vec(), shape);
                Tensor::from_data(values, &device.clone().without_autodiff())
            }
        };
        let updated = if dtype == DType::F32 { updated } else { updated.cast(dtype) };
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
