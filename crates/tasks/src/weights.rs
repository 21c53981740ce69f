//! Weights as safetensors: a tensor a parameter, named by its path in the module.

use std::collections::BTreeMap;
use std::path::Path;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Tensor, TensorData};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::error::TaskError;

/// Named tensors of f32 with their shapes.
pub type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// The parameters of a module.
pub fn parameters<M: Module>(module: &M) -> Tensors {
    let mut collect = Collect { path: Vec::new(), tensors: Tensors::new() };
    module.visit(&mut collect);
    collect.tensors
}

/// The bytes of a safetensors file; the same tensors give the same bytes.
pub fn to_bytes(tensors: &Tensors) -> Vec<u8> {
    let bytes: Vec<(&String, &Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(name, (shape, values))| (name, shape, values.iter().flat_map(|v| v.to_le_bytes()).collect()))
        .collect();
    let views = bytes.iter().map(|(name, shape, data)| {
        (name.as_str(), TensorView::new(Dtype::F32, shape.to_vec(), data).expect("as many values as the shape says"))
    });
    safetensors::serialize(views, None).expect("plain tensors")
}

/// The tensors of a safetensors file that was read from `path`.
pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Tensors, TaskError> {
    let damaged =
        |error: safetensors::SafeTensorError| TaskError::folder(path, format!("no safetensors file: {error}"));
    let file = SafeTensors::deserialize(bytes).map_err(damaged)?;
    let mut tensors = Tensors::new();
    for (name, view) in file.iter() {
        if view.dtype() != Dtype::F32 {
            return Err(TaskError::folder(path, format!("{name} is {:?}, expected F32", view.dtype())));
        }
        let values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        tensors.insert(name.to_string(), (view.shape().to_vec(), values));
    }
    Ok(tensors)
}

/// The first tensor with a value that is no number.
pub fn not_finite(tensors: &Tensors) -> Option<&str> {
    let broken = |(_, (_, values)): &(&String, &(Vec<usize>, Vec<f32>))| values.iter().any(|value| !value.is_finite());
    tensors.iter().find(broken).map(|(name, _)| name.as_str())
}

/// The module with the parameters in `tensors`, which were read from `path`: each must be there and fit, and none be left.
pub fn load<M: Module>(module: M, tensors: Tensors, path: &Path) -> Result<M, TaskError> {
    let mut fill = Fill { path: Vec::new(), tensors, problem: None };
    let module = module.map(&mut fill);
    let left = fill.tensors.into_keys().next().map(|name| format!("{name} is no parameter of this model"));
    match fill.problem.or(left) {
        Some(problem) => Err(TaskError::folder(path, problem)),
        None => Ok(module),
    }
}

struct Collect {
    path: Vec<String>,
    tensors: Tensors,
}

impl ModuleVisitor for Collect {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        let shape = value.dims().to_vec();
        self.tensors.insert(self.path.join("."), (shape, value.into_data().iter::<f32>().collect()));
    }
}

struct Fill {
    path: Vec<String>,
    tensors: Tensors,
    problem: Option<String>,
}

impl ModuleMapper for Fill {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.join(".");
        let (id, value, mapper) = param.consume();
        let (tracked, device) = (value.is_require_grad(), value.device());
        let value = match self.tensors.remove(&name) {
            Some((shape, values)) if shape == value.dims() => {
                let new = Tensor::from_data(TensorData::new(values, shape), &device);
                new.set_require_grad(tracked)
            }
            Some((shape, _)) => {
                let problem = format!("{name} is {shape:?}, expected {:?}", value.dims());
                self.problem.get_or_insert(problem);
                value
            }
            None => {
                self.problem.get_or_insert(format!("{name} is missing"));
                value
            }
        };
        Param::from_mapped_value(id, value, mapper)
    }
}
