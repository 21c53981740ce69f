//! AdamW (Loshchilov 2019): updates all parameters of a module in place, with clipping by the global gradient norm.

use std::collections::BTreeMap;

use burn::backend::TensorMetadata;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Device, Gradients, Tensor, TensorData};
use burn_flex::FlexTensor;
use rayon::prelude::*;
use regard_kernels::adamw::{AdamWOptions, AdamWTensor, adamw_step, global_norm};

use crate::error::OpError;
use crate::fused::{contiguous, elements, host, is_fused, plain, tensor};

/// Number of elements in a unit of work when threads add gradients.
const PIECE: usize = 16 * 1024;

/// The parameters to which weight decay applies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Decay {
    /// All parameters, as in PyTorch by default.
    #[default]
    All,
    /// Only parameters with at least two dimensions, so not biases or norm weights.
    Matrices,
}

/// The optimiser and its state: the running averages of every trained parameter, in the order of the module.
#[derive(Debug, Clone)]
pub struct AdamW {
    /// Learning rate, betas, epsilon and weight decay of the next step.
    pub options: AdamWOptions,
    /// Maximum norm of all gradients together; larger gradients are scaled down to it.
    pub max_norm: Option<f32>,
    /// The parameters to which weight decay applies.
    pub decay: Decay,
    /// Factors on the learning rate by the path of the parameter; 1 for parameters without one.
    pub rates: BTreeMap<String, f32>,
    step: u64,
    moments: Vec<Moments>,
}

/// The running averages of one parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// Path of the parameter, such as `blocks.0.norm.gamma`.
    pub path: String,
    /// Running average of the gradient, one number per element.
    pub first: Vec<f32>,
    /// Running average of the squared gradient, one number per element.
    pub second: Vec<f32>,
}

impl AdamW {
    /// Creates an optimiser that has not made a step yet.
    pub fn new(options: AdamWOptions, max_norm: Option<f32>, decay: Decay) -> Self {
        Self { options, max_norm, decay, rates: BTreeMap::new(), step: 0, moments: Vec::new() }
    }

    /// Returns the number of steps and the running averages in the order of the module: with the options, the full state.
    pub fn state(&self) -> (u64, &[Moments]) {
        (self.step, &self.moments)
    }

    /// Restores a saved state of `module`. Returns an error unless `moments` holds exactly one entry of the right size for
    /// each trained parameter.
    pub fn restore<M: Module>(&mut self, module: &M, step: u64, moments: Vec<Moments>) -> Result<(), OpError> {
        if step == 0 && moments.is_empty() {
            // The state was saved before the first step.
            (self.step, self.moments) = (0, Vec::new());
            return Ok(());
        }
        let mut left = moments;
        let mut restored = Vec::with_capacity(left.len());
        for (path, len) in trained(module) {
            let place = left.iter().position(|moments| moments.path == path);
            let found = left.remove(place.ok_or_else(|| misfit(&path, "its running averages are missing"))?);
            for (what, found) in [("first", found.first.len()), ("second", found.second.len())] {
                if found != len {
                    return Err(misfit(&path, format!("expected {len} {what} moments, got {found}")));
                }
            }
            restored.push(found);
        }
        if let Some(surplus) = left.first() {
            return Err(misfit(&surplus.path, "the model has no such trained parameter, or its averages occur twice"));
        }
        (self.step, self.moments) = (step, restored);
        Ok(())
    }

    /// Returns an error for options with which a step would make the weights invalid.
    fn check(&self) -> Result<(), OpError> {
        let AdamWOptions { learning_rate, beta1, beta2, epsilon, weight_decay, l2 } = self.options;
        let refuse =
            |what, got: f32, expected| Err(OpError::Option { what, why: format!("expected {expected}, got {got}") });
        let positive =
            [("learning_rate", learning_rate), ("epsilon", epsilon), ("weight_decay", weight_decay), ("l2", l2)];
        for (what, value) in positive {
            if !(value >= 0.0 && value.is_finite()) {
                return refuse(what, value, "a finite number of at least 0");
            }
        }
        for (what, value) in [("beta1", beta1), ("beta2", beta2)] {
            if !(0.0..1.0).contains(&value) {
                return refuse(what, value, "a number in [0, 1)");
            }
        }
        if let Some((_, &rate)) = self.rates.iter().find(|(_, rate)| !(**rate >= 0.0 && rate.is_finite())) {
            return refuse("rate of a parameter", rate, "a finite number of at least 0");
        }
        match self.max_norm {
            Some(max) if max.is_nan() || max <= 0.0 => refuse("max_norm", max, "a number above 0"),
            _ => Ok(()),
        }
    }

    /// Makes one step and returns the updated module and the norm of the gradients before clipping.
    ///
    /// If the norm is not finite, neither the weights nor the state change; the caller can check the returned norm. Returns
    /// an error if the parameters are not those of the previous steps.
    pub fn step<M: Module>(&mut self, module: M, gradients: Gradients) -> Result<(M, f32), OpError> {
        let gradients = ParameterGradients::new(&module, gradients);
        self.step_with(module, gradients)
    }

    /// [`step`](Self::step) with gradients that are already collected, such as the mean over several batches.
    pub fn step_with<M: Module>(&mut self, module: M, gradients: ParameterGradients) -> Result<(M, f32), OpError> {
        self.check()?;
        let found = gradients.0;
        let norm = global_norm(found.iter().flatten().map(elements));
        if !norm.is_finite() {
            return Ok((module, norm));
        }
        if self.moments.is_empty() {
            let zeros = |(path, len)| Moments { path, first: vec![0.0; len], second: vec![0.0; len] };
            self.moments = trained(&module).into_iter().map(zeros).collect();
        }
        // PyTorch's `clip_grad_norm_` adds the same 1e-6 to the denominator.
        let scale = self.max_norm.map_or(1.0, |max| (max / (norm + 1e-6)).min(1.0));
        let mut take = Take { found: found.into_iter(), path: Path::default(), at: 0, taken: Vec::new() };
        let module = module.map(&mut take);
        let mut taken = take.taken;
        self.update(&mut taken, scale)?;
        Ok((module.map(&mut PutBack { taken: taken.into_iter(), at: 0 }), norm))
    }

    /// Updates all parameters in one kernel call, so that threads can share the work.
    fn update(&mut self, taken: &mut [Taken], scale: f32) -> Result<(), OpError> {
        // Both lists are in the order of the module. A parameter without a gradient keeps its averages.
        let mut moments = self.moments.iter_mut();
        let mut tensors = Vec::with_capacity(taken.len());
        for one in taken {
            let gradient = elements(&one.gradient);
            let found = moments.find(|moments| moments.path == one.path);
            let Moments { first, second, .. } = found
                .filter(|moments| moments.first.len() == gradient.len())
                .ok_or_else(|| misfit(&one.path, "the module has changed since the previous step"))?;
            let decay = self.decay == Decay::All || one.data.shape().num_dims() > 1;
            let parameter = one.data.storage_mut();
            let rate = self.rates.get(&one.path).copied().unwrap_or(1.0);
            tensors.push(AdamWTensor { parameter, gradient, first_moment: first, second_moment: second, decay, rate });
        }
        let step = self.step.saturating_add(1);
        adamw_step(&mut tensors, &self.options, step, scale)?;
        self.step = step;
        Ok(())
    }
}

/// The error for running averages that do not match the parameters of a module.
fn misfit(path: &str, why: impl std::fmt::Display) -> OpError {
    OpError::Option { what: "optimiser state", why: format!("{path}: {why}") }
}

/// Returns the path and the number of elements of each trained parameter, in the order of the module.
fn trained<M: Module>(module: &M) -> Vec<(String, usize)> {
    listed(module).into_iter().filter(|(.., is_trained)| *is_trained).map(|(path, len, _)| (path, len)).collect()
}

/// Returns the number of elements of each parameter that is trained, and 0 for each of the others, in the order of the module.
pub fn trained_sizes<M: Module>(module: &M) -> Vec<usize> {
    listed(module).into_iter().map(|(_, len, is_trained)| if is_trained { len } else { 0 }).collect()
}

/// Returns the path and the number of elements of each parameter, and whether it is trained.
fn listed<M: Module>(module: &M) -> Vec<(String, usize, bool)> {
    let mut list = List::default();
    module.visit(&mut list);
    list.found
}

#[derive(Default)]
struct List {
    path: Path,
    found: Vec<(String, usize, bool)>,
}

impl ModuleVisitor for List {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        self.found.push((self.path.text.clone(), value.shape().num_elements(), value.is_require_grad()));
    }
}

/// The gradients of all parameters of a module, in the order of the module; `None` for a parameter without a gradient.
#[derive(Debug)]
pub struct ParameterGradients(Vec<Option<FlexTensor>>);

impl ParameterGradients {
    /// Collects the gradients of the parameters of `module`.
    pub fn new<M: Module>(module: &M, mut gradients: Gradients) -> Self {
        let mut collect = Collect { gradients: &mut gradients, found: Vec::new() };
        module.visit(&mut collect);
        Self(collect.found)
    }

    /// Puts together the gradients of all parameters of a module, in its order: a number for each element, or `None`.
    pub fn of(gradients: Vec<Option<Vec<f32>>>) -> Self {
        // The optimiser does not look at the shape of a gradient.
        let row = |numbers: Vec<f32>| {
            let len = numbers.len();
            tensor(numbers, [len])
        };
        Self(gradients.into_iter().map(|gradient| gradient.map(row)).collect())
    }

    /// Returns the numbers of each gradient, in the order of the module.
    pub fn numbers(&self) -> impl Iterator<Item = Option<&[f32]>> {
        self.0.iter().map(|gradient| gradient.as_ref().map(elements))
    }

    /// Computes `self ← self · own + other · theirs`, as for the mean over unequal batches. Both must be of the same module.
    pub fn combine(&mut self, own: f32, other: Self, theirs: f32) {
        for (sum, new) in self.0.iter_mut().zip(other.0) {
            match (sum.as_mut(), new) {
                (Some(sum), new) => {
                    combine(sum.storage_mut::<f32>(), own, new.as_ref().map(elements), theirs);
                }
                (None, Some(mut new)) => {
                    combine(new.storage_mut::<f32>(), theirs, None, own);
                    *sum = Some(new);
                }
                (None, None) => {}
            }
        }
    }
}

/// Computes `sum ← sum · own + new · theirs`, or `sum · own` if there is nothing new.
///
/// # Panics
/// Panics if the lengths differ.
pub fn combine(sum: &mut [f32], own: f32, new: Option<&[f32]>, theirs: f32) {
    let Some(new) = new else { return sum.iter_mut().for_each(|sum| *sum *= own) };
    assert_eq!(sum.len(), new.len(), "gradients of the same parameters");
    let add = |(sum, new): (&mut [f32], &[f32])| {
        sum.iter_mut().zip(new).for_each(|(sum, &new)| *sum = *sum * own + new * theirs);
    };
    // Handing a small gradient to another thread takes longer than adding it.
    match sum.len() <= PIECE {
        true => add((sum, new)),
        false => sum.par_chunks_mut(PIECE).zip(new.par_chunks(PIECE)).for_each(add),
    }
}

/// Collects the gradient of each parameter, `None` if it has none.
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

/// Returns a tensor that owns exactly its elements; a slice of a larger tensor is copied.
fn own_memory(data: FlexTensor) -> FlexTensor {
    let values = elements(&data);
    if data.storage::<f32>().len() == values.len() { data } else { tensor(values.to_vec(), data.shape().clone()) }
}

/// Casts the tensor to f32: the averages are in f32 whatever the element type of the model.
fn in_f32<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    if tensor.dtype() == DType::F32 { tensor } else { tensor.cast(DType::F32) }
}

/// A parameter that was taken out of its module, with its gradient.
struct Taken {
    /// Index of the parameter in the module.
    at: usize,
    path: String,
    data: FlexTensor,
    gradient: FlexTensor,
    dtype: DType,
    device: Device,
    is_tracked: bool,
    is_fused: bool,
}

/// Takes each parameter that has a gradient out of its module, so that its memory has a single owner.
struct Take {
    found: std::vec::IntoIter<Option<FlexTensor>>,
    path: Path,
    at: usize,
    taken: Vec<Taken>,
}

/// Path of the current parameter: the names of its modules, joined with dots.
#[derive(Default)]
struct Path {
    text: String,
    /// Start of each name in `text`, including the dot before it.
    begins: Vec<usize>,
}

impl Path {
    fn enter(&mut self, name: &str) {
        self.begins.push(self.text.len());
        if self.begins.len() > 1 {
            self.text.push('.');
        }
        self.text.push_str(name);
    }

    fn exit(&mut self) {
        self.text.truncate(self.begins.pop().unwrap_or(0));
    }
}

impl ModuleMapper for Take {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.enter(name);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        // Parameters without a gradient are counted too.
        let at = self.at;
        self.at += 1;
        let Some(gradient) = self.found.next().flatten() else { return param };
        let (id, value, mapper) = param.consume();
        let (dtype, device) = (value.dtype(), value.device());
        let (is_tracked, is_fused) = (value.is_require_grad(), is_fused(&value));
        let data = own_memory(contiguous(host(in_f32(value))));
        let path = self.path.text.clone();
        self.taken.push(Taken { at, path, data, gradient, dtype, device, is_tracked, is_fused });
        Param::from_mapped_value(id, Tensor::empty([0; D], &Device::flex()), mapper)
    }
}

/// Puts the updated parameters back into the module.
struct PutBack {
    taken: std::vec::IntoIter<Taken>,
    at: usize,
}

impl ModuleMapper for PutBack {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let at = self.at;
        self.at += 1;
        if self.taken.as_slice().first().is_none_or(|next| next.at != at) {
            return param;
        }
        let Taken { data, dtype, device, is_tracked, is_fused, .. } = self.taken.next().expect("peeked above");
        let (id, _, mapper) = param.consume();
        let updated = match is_fused {
            true => plain(data),
            false => {
                let values = TensorData::new(elements(&data).to_vec(), data.shape().clone());
                Tensor::from_data(values, &device.clone().without_autodiff())
            }
        };
        let updated = if dtype == DType::F32 { updated } else { updated.cast(dtype) };
        let updated = if device.is_autodiff() { Tensor::from_inner(updated) } else { updated };
        Param::from_mapped_value(id, updated.set_require_grad(is_tracked), mapper)
    }
}
