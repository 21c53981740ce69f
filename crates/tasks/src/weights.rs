//! Weights in the safetensors format: one tensor per parameter, named by its path in the module.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Tensor, TensorData};
use half::bf16;
use safetensors::tensor::{Metadata, TensorInfo};
use safetensors::{Dtype, SafeTensors};

use crate::error::TaskError;

/// Tensors of `f32` by name, each with its shape and its values.
pub type Tensors = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// How the weights of an opened model are stored in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Storage {
    /// All weights as f32.
    #[default]
    F32,
    /// Matrices of linear layers and tables of embeddings as bf16, rounded if the file has more digits; all else as f32. Products
    /// and sums are f32. Only inference can use them, with the layers of `regard_nn`, which know both types.
    Bf16,
}

impl Storage {
    /// Returns whether a parameter in a structure, such as `Struct:Linear`, is stored as bf16. No other layer reads it.
    fn rounds(self, structure: &str, shape: &[usize]) -> bool {
        self == Self::Bf16 && shape.len() == 2 && matches!(structure, "Struct:Linear" | "Struct:Embedding")
    }
}

/// A tensor to write. Its values are fetched only when it is written.
pub struct Stored<'a> {
    shape: Vec<usize>,
    values: Box<dyn Fn() -> Cow<'a, [f32]> + 'a>,
}

impl<'a> Stored<'a> {
    /// Creates a one-dimensional tensor from borrowed values.
    pub fn row(values: &'a [f32]) -> Self {
        Self { shape: vec![values.len()], values: Box::new(move || Cow::Borrowed(values)) }
    }

    /// Borrows the values of all tensors, by name.
    pub fn all(tensors: &'a Tensors) -> BTreeMap<String, Self> {
        let stored = |(shape, values): &'a (Vec<usize>, Vec<f32>)| Stored { shape: shape.clone(), ..Self::row(values) };
        tensors.iter().map(|(name, tensor)| (name.clone(), stored(tensor))).collect()
    }
}

/// Returns the parameters of a module for writing, by path; none is copied before it is written.
pub fn stored<'a, M: Module>(module: &M) -> BTreeMap<String, Stored<'a>> {
    let mut collect = Collect { path: Vec::new(), tensors: BTreeMap::new() };
    module.visit(&mut collect);
    collect.tensors
}

/// Copies the parameters of a module, by path.
pub fn parameters<M: Module>(module: &M) -> Tensors {
    stored(module).into_iter().map(|(name, one)| (name, (one.shape, (one.values)().into_owned()))).collect()
}

/// Writes a safetensors file tensor by tensor. The same tensors always give the same bytes.
pub fn write(tensors: &BTreeMap<String, Stored>, to: &mut dyn Write) -> std::io::Result<()> {
    let mut end = 0;
    let info = |(name, one): (&String, &Stored)| {
        let start = end;
        end += size_of::<f32>() * one.shape.iter().product::<usize>();
        (name.clone(), TensorInfo { dtype: Dtype::F32, shape: one.shape.clone(), data_offsets: (start, end) })
    };
    let metadata = Metadata::new(None, tensors.iter().map(info).collect()).expect("the offsets follow from the shapes");
    let mut header = serde_json::to_vec(&metadata)?;
    // The format requires the values to begin at a multiple of eight bytes.
    header.resize(header.len().next_multiple_of(8), b' ');
    to.write_all(&(header.len() as u64).to_le_bytes())?;
    to.write_all(&header)?;
    for one in tensors.values() {
        let values = (one.values)();
        debug_assert_eq!(values.len(), one.shape.iter().product::<usize>());
        // In pieces, to avoid a second copy of a large tensor.
        for piece in values.chunks(1 << 16) {
            to.write_all(&piece.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())?;
        }
    }
    Ok(())
}

/// Returns the bytes of a safetensors file with these tensors.
pub fn to_bytes(tensors: &BTreeMap<String, Stored>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(tensors, &mut bytes).expect("writing to memory does not fail");
    bytes
}

/// Parses the bytes of a safetensors file. `path` is where they come from, for error messages.
pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Tensors, TaskError> {
    let damaged =
        |error: safetensors::SafeTensorError| TaskError::folder(path, format!("not a safetensors file: {error}"));
    let file = SafeTensors::deserialize(bytes).map_err(damaged)?;
    let mut tensors = Tensors::new();
    for (name, view) in file.iter() {
        if view.dtype() != Dtype::F32 {
            return Err(TaskError::folder(path, format!("{name} has element type {:?}, expected F32", view.dtype())));
        }
        let values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        tensors.insert(name.to_string(), (view.shape().to_vec(), values));
    }
    Ok(tensors)
}

/// Returns the name of the first tensor with a value that is NaN or infinite.
pub fn not_finite(tensors: &Tensors) -> Option<&str> {
    let broken = |(_, (_, values)): &(&String, &(Vec<usize>, Vec<f32>))| values.iter().any(|value| !value.is_finite());
    tensors.iter().find(broken).map(|(name, _)| name.as_str())
}

/// Replaces all parameters of a module by `tensors`, which were read from `path`. Names and shapes must match exactly.
pub fn load<M: Module>(module: M, tensors: Tensors, path: &Path) -> Result<M, TaskError> {
    load_as(module, tensors, path, Storage::F32)
}

/// Same as [`load`], with weights stored as `storage` says.
pub fn load_as<M: Module>(module: M, tensors: Tensors, path: &Path, storage: Storage) -> Result<M, TaskError> {
    let mut tensors = tensors;
    let mut read = |name: &str, expected: &[usize]| match tensors.remove(name) {
        Some((shape, values)) if shape == expected => Ok(values),
        Some((shape, _)) => Err(TaskError::folder(path, format!("{name} has shape {shape:?}, expected {expected:?}"))),
        None => Err(TaskError::folder(path, format!("{name} is missing"))),
    };
    let (module, rounded) = fill(module, &mut |name, shape| read(name, shape).map(Some), storage)?;
    if storage == Storage::Bf16 && rounded == 0 {
        return Err(TaskError::folder(path, "none of its weights can be stored as bf16; open it in f32"));
    }
    match tensors.into_keys().next() {
        Some(name) => Err(TaskError::folder(path, format!("{name} is not a parameter of this model"))),
        None => Ok(module),
    }
}

/// Replaces all parameters of a module by what `read` returns for their names and shapes, one after the other.
pub fn load_with<M: Module>(
    module: M,
    mut read: impl FnMut(&str, &[usize]) -> Result<Vec<f32>, TaskError>,
    storage: Storage,
) -> Result<M, TaskError> {
    fill(module, &mut |name, shape| read(name, shape).map(Some), storage).map(|(module, _)| module)
}

/// Replaces the parameters of a module for which `read` returns values, given their names and shapes.
pub fn replace_some<M: Module>(
    module: M,
    mut read: impl FnMut(&str, &[usize]) -> Result<Option<Vec<f32>>, TaskError>,
) -> Result<M, TaskError> {
    fill(module, &mut read, Storage::F32).map(|(module, _)| module)
}

/// Returns the module and the number of its parameters that are stored as bf16.
fn fill<M: Module>(module: M, read: &mut Read, storage: Storage) -> Result<(M, usize), TaskError> {
    let mut fill = Fill { path: Vec::new(), structure: String::new(), read, storage, rounded: 0, problem: None };
    let module = module.map(&mut fill);
    match fill.problem {
        Some(problem) => Err(problem),
        None => Ok((module, fill.rounded)),
    }
}

/// Excludes all parameters from training but those that `is_trained` selects by their names.
pub fn track<M: Module>(module: M, is_trained: impl FnMut(&str) -> bool) -> M {
    module.map(&mut Track { path: Vec::new(), is_trained })
}

struct Track<F> {
    path: Vec<String>,
    is_trained: F,
}

impl<F: FnMut(&str) -> bool> ModuleMapper for Track<F> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        if (self.is_trained)(&self.path.join(".")) {
            return param;
        }
        let (id, value, mapper) = param.consume();
        Param::from_mapped_value(id, value.set_require_grad(false), mapper)
    }
}

struct Collect<'a> {
    path: Vec<String>,
    tensors: BTreeMap<String, Stored<'a>>,
}

impl ModuleVisitor for Collect<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let value = param.val();
        let shape = value.dims().to_vec();
        let values = Box::new(move || Cow::Owned(value.to_data().iter::<f32>().collect()));
        self.tensors.insert(self.path.join("."), Stored { shape, values });
    }
}

/// Returns the values of a parameter, given its name and shape, or `None` if it keeps its own.
type Read<'a> = dyn FnMut(&str, &[usize]) -> Result<Option<Vec<f32>>, TaskError> + 'a;

/// Its methods are compiled once, not for each task: they do not depend on the type of `read`.
struct Fill<'a, 'r> {
    path: Vec<String>,
    /// Structure that the last name of the path is a field of.
    structure: String,
    read: &'a mut Read<'r>,
    storage: Storage,
    /// Number of parameters stored as bf16.
    rounded: usize,
    problem: Option<TaskError>,
}

impl ModuleMapper for Fill<'_, '_> {
    fn enter_module(&mut self, name: &str, structure: &str) {
        self.path.push(name.to_string());
        self.structure.replace_range(.., structure);
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.join(".");
        let (id, value, mapper) = param.consume();
        let (tracked, device, shape) = (value.is_require_grad(), value.device(), value.dims());
        if self.problem.is_some() {
            return Param::from_mapped_value(id, value, mapper);
        }
        let value = match (self.read)(&name, &shape) {
            Ok(Some(values)) if self.storage.rounds(&self.structure, &shape) => {
                self.rounded += 1;
                let halves: Vec<bf16> = values.into_iter().map(bf16::from_f32).collect();
                Tensor::from_data(TensorData::new(halves, shape), (&device, DType::BF16))
            }
            Ok(Some(values)) => Tensor::from_data(TensorData::new(values, shape), &device).set_require_grad(tracked),
            Ok(None) => value,
            Err(problem) => {
                self.problem = Some(problem);
                value
            }
        };
        Param::from_mapped_value(id, value, mapper)
    }
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::TensorView;

    use super::*;

    #[test]
    fn the_bytes_equal_those_of_the_safetensors_crate() {
        let tensors = Tensors::from([
            ("b".to_string(), (vec![2, 3], vec![0.1, -2.0, 3e-38, f32::MAX, 5.0, -0.0])),
            ("a.b".to_string(), (vec![1], vec![7.0])),
            ("nothing".to_string(), (vec![0, 4], Vec::new())),
        ]);
        let bytes = to_bytes(&Stored::all(&tensors));
        assert_eq!(from_bytes(&bytes, Path::new("here")).unwrap(), tensors);
        let values: BTreeMap<&String, (&Vec<usize>, Vec<u8>)> = tensors
            .iter()
            .map(|(name, (shape, values))| (name, (shape, values.iter().flat_map(|v| v.to_le_bytes()).collect())))
            .collect();
        let views = values
            .iter()
            .map(|(name, (shape, data))| (name.as_str(), TensorView::new(Dtype::F32, shape.to_vec(), data).unwrap()));
        assert_eq!(bytes, safetensors::serialize(views, None).unwrap());
    }
}
