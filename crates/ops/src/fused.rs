//! Integration of fused operations with Burn: they run on Flex tensors and are recorded in Burn's autodiff graph.
//!
//! An operation is a plain value that implements [`FusedOp`]; [`apply`] runs and records it. Tensors on other backends
//! than Flex, as told by [`is_fused`], use the fallback of the operation.

use std::fmt::Debug;

use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::NoCheckpointing};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::tensor::FloatTensor;
use burn::backend::{
    Autodiff, AutodiffBackend, BackendTensor, DispatchDevice, DispatchTensor, DispatchTensorKind, Flex, TensorMetadata,
};
use burn::tensor::{DType, Int, Shape, Tensor, TensorData};
use burn_flex::FlexTensor;
use half::bf16;
use regard_kernels::{HalfMatrix, LinearWeight, Matrix, Precision, TrainedWeight};

use crate::error::OpError;

/// What the results of a forward pass are used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Only the output is needed.
    Inference,
    /// A backward pass will follow.
    Training,
}

/// An operation of `N` float tensors with one float output and a hand-written backward pass.
pub(crate) trait FusedOp<const N: usize>: Debug + Clone + Send + 'static {
    /// Values kept for the backward pass.
    type Saved: Debug + Clone + Send + 'static;

    /// Computes the output, and the values for the backward pass if `purpose` is [`Purpose::Training`].
    fn forward(&self, inputs: [FlexTensor; N], purpose: Purpose) -> Result<(FlexTensor, Self::Saved), OpError>;

    /// Computes the gradients of the wanted inputs, given the gradient of the output.
    fn backward(
        &self,
        saved: Self::Saved,
        grad: FlexTensor,
        wanted: [bool; N],
    ) -> Result<[Option<FlexTensor>; N], OpError>;
}

/// Returns whether the tensor is on the Flex backend, where the fused operations run.
pub(crate) fn is_fused<const D: usize>(tensor: &Tensor<D>) -> bool {
    matches!(tensor.device().without_autodiff().as_dispatch(), DispatchDevice::Flex(_))
}

/// Runs `op` on tensors of the Flex backend, and records it for the backward pass if any of them is tracked.
pub(crate) fn apply<Op: FusedOp<N>, const N: usize, const D: usize>(
    op: Op,
    inputs: [DispatchTensor; N],
) -> Result<Tensor<D>, OpError> {
    let context = inputs.iter().map(|input| input.autodiff).find(|c| *c != Default::default()).unwrap_or_default();
    let inputs = inputs.map(|input| Primitive::new(input.kind));
    if inputs.iter().any(Option::is_none) {
        return Err(OpError::other_device());
    }
    let inputs = inputs.map(|input| input.expect("checked above"));
    if inputs.iter().all(|input| matches!(input, Primitive::Plain(_))) {
        let (output, _) = op.forward(inputs.map(Primitive::into_flex), Purpose::Inference)?;
        return Ok(plain(output));
    }
    let inputs = inputs.map(Primitive::into_autodiff);
    let nodes = inputs.each_ref().map(|input| input.node());
    let values = inputs.map(|input| input.into_primitive());
    let output = match Step(op.clone()).prepare::<NoCheckpointing>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => {
            let (output, saved) = op.forward(values, Purpose::Training)?;
            prepared.finish(saved, output)
        }
        OpsKind::UnTracked(prepared) => prepared.finish(op.forward(values, Purpose::Inference)?.0),
    };
    let kind = DispatchTensorKind::Flex(BackendTensor::Autodiff(output));
    let kind = DispatchTensorKind::Autodiff(Box::new(kind));
    Ok(Tensor::from_dispatch(DispatchTensor { kind, autodiff: context }))
}

/// A float tensor of the Flex backend, with or without autodiff.
enum Primitive {
    Plain(FlexTensor),
    Tracked(FloatTensor<Autodiff<Flex>>),
}

impl Primitive {
    /// Returns `None` for a tensor of another backend.
    fn new(kind: DispatchTensorKind) -> Option<Self> {
        match kind {
            DispatchTensorKind::Flex(BackendTensor::Float(tensor)) => Some(Primitive::Plain(tensor)),
            DispatchTensorKind::Flex(BackendTensor::Autodiff(tensor)) => Some(Primitive::Tracked(tensor)),
            DispatchTensorKind::Autodiff(kind) => Self::new(*kind),
            _ => None,
        }
    }

    fn into_flex(self) -> FlexTensor {
        match self {
            Primitive::Plain(tensor) => tensor,
            Primitive::Tracked(tensor) => tensor.into_primitive(),
        }
    }

    fn into_autodiff(self) -> FloatTensor<Autodiff<Flex>> {
        match self {
            Primitive::Plain(tensor) => Autodiff::<Flex>::from_inner(tensor),
            Primitive::Tracked(tensor) => tensor,
        }
    }
}

/// An operation as a step of Burn's backward pass.
#[derive(Debug)]
struct Step<Op>(Op);

impl<Op: FusedOp<N>, const N: usize> Backward<Flex, N> for Step<Op> {
    type State = Op::Saved;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<Flex>(&ops.node);
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let results = self.0.backward(ops.state, grad, wanted).expect("the forward pass has checked the sizes");
        for (parent, result) in ops.parents.into_iter().zip(results) {
            if let (Some(parent), Some(result)) = (parent, result) {
                grads.register::<Flex>(parent.id, result);
            }
        }
    }
}

/// Returns an error unless the elements of the tensor are f32.
pub(crate) fn check_f32<const D: usize>(what: &'static str, tensor: &Tensor<D>) -> Result<(), OpError> {
    match tensor.dtype() {
        DType::F32 => Ok(()),
        got => Err(OpError::DType { what, expected: "f32", got }),
    }
}

/// Returns an error unless the elements of a weight are f32, or bf16 on the Flex backend outside training.
pub(crate) fn check_weight<const D: usize>(what: &'static str, tensor: &Tensor<D>) -> Result<(), OpError> {
    match tensor.dtype() {
        DType::BF16 if is_fused(tensor) && !is_tracked(tensor) => Ok(()),
        _ => check_f32(what, tensor),
    }
}

/// Returns the tensor in contiguous memory, without a copy if it already is.
pub(crate) fn contiguous(tensor: FlexTensor) -> FlexTensor {
    if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() }
}

/// A weight matrix in row-major or column-major order, neither of which is copied. It is column-major when a tied output
/// layer reads the embedding.
#[derive(Debug, Clone)]
pub(crate) struct Weight {
    /// The matrix or its transpose, contiguous.
    stored: FlexTensor,
    is_transposed: bool,
}

impl Weight {
    pub(crate) fn new(weight: FlexTensor) -> Self {
        if weight.is_contiguous() {
            return Self { stored: weight, is_transposed: false };
        }
        let transposed = weight.transpose(0, 1);
        match transposed.is_contiguous() {
            true => Self { stored: transposed, is_transposed: true },
            false => Self { stored: contiguous(weight), is_transposed: false },
        }
    }

    pub(crate) fn matrix(&self) -> Matrix<'_> {
        let [rows, cols] = sizes(&self.stored);
        let matrix = Matrix::new(elements(&self.stored), rows, cols).expect("the sizes are those of the tensor");
        if self.is_transposed { matrix.transposed() } else { matrix }
    }

    /// Returns the matrix with elements of its type, f32 or bf16; `precision` is that of the products with one of f32.
    pub(crate) fn of_its_type(&self, precision: Precision) -> LinearWeight<'_> {
        if self.stored.dtype() != DType::BF16 {
            return TrainedWeight { matrix: self.matrix(), precision }.into();
        }
        let [rows, cols] = sizes(&self.stored);
        let data: &[bf16] = self.stored.as_slice().expect("the matrix or its transpose is contiguous");
        let matrix = HalfMatrix::new(data, rows, cols).expect("the sizes are those of the tensor");
        if self.is_transposed { matrix.transposed().into() } else { matrix.into() }
    }

    /// Returns the gradient of the weight, given its elements in the order in which the weight is stored.
    pub(crate) fn gradient(&self, elements: Vec<f32>) -> FlexTensor {
        let gradient = tensor(elements, self.stored.layout().shape().clone());
        if self.is_transposed { gradient.transpose(0, 1) } else { gradient }
    }
}

/// Returns the elements of a contiguous f32 tensor.
pub(crate) fn elements(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("the operation has made sure that the tensor is contiguous f32")
}

/// Returns the shape of a tensor.
pub(crate) fn sizes<const D: usize>(tensor: &FlexTensor) -> [usize; D] {
    tensor.shape().dims()
}

/// Creates a tensor from `data`.
pub(crate) fn tensor(data: Vec<f32>, shape: impl Into<Shape>) -> FlexTensor {
    FlexTensor::from_data(TensorData::new(data, shape))
}

/// Returns a tensor that is not part of an autodiff graph.
pub(crate) fn plain<const D: usize>(value: FlexTensor) -> Tensor<D> {
    let kind = DispatchTensorKind::Flex(BackendTensor::Float(value));
    Tensor::from_dispatch(DispatchTensor { kind, autodiff: Default::default() })
}

/// Returns the elements of a tensor of any integer type on any backend. A `u64` above `i64::MAX` becomes `i64::MAX`.
pub(crate) fn integers<const D: usize>(tensor: Tensor<D, Int>) -> Vec<i64> {
    let data = tensor.into_data();
    match data.dtype() {
        // Burn's own conversion panics if a number does not fit.
        DType::U64 => data.iter::<u64>().map(|x| i64::try_from(x).unwrap_or(i64::MAX)).collect(),
        _ => data.iter::<i64>().collect(),
    }
}

/// Returns whether a tensor of the Flex backend will get a gradient.
pub(crate) fn is_tracked<const D: usize>(tensor: &Tensor<D>) -> bool {
    match Primitive::new(tensor.clone().into_dispatch().kind) {
        Some(Primitive::Tracked(tensor)) => tensor.is_tracked(),
        Some(Primitive::Plain(_)) | None => false,
    }
}

/// Returns the value of a tensor on the CPU, outside any autodiff graph.
pub(crate) fn host<const D: usize>(tensor: Tensor<D>) -> FlexTensor {
    match Primitive::new(tensor.clone().into_dispatch().kind) {
        Some(primitive) => primitive.into_flex(),
        None => FlexTensor::from_data(tensor.into_data()),
    }
}
