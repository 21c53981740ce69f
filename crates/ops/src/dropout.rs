//! Elementwise dropout with a counter-based random number generator, so that no mask is stored.

use burn::tensor::{Tensor, TensorData};
use burn_flex::FlexTensor;
use regard_kernels::attention::Dropout;
use regard_kernels::dropout::dropout_forward;
use regard_kernels::unwritten;

use crate::error::{OpError, check_probability};
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, is_fused, tensor};

/// Sets each element to zero with `probability` and scales the others by `1/(1 − probability)`.
///
/// The same seed drops the same elements, on any number of threads. Use a new seed for each step and layer.
///
/// # Shapes
/// `x` any → the same.
pub fn dropout<const D: usize>(x: Tensor<D>, probability: f32, seed: u64) -> Result<Tensor<D>, OpError> {
    check_f32("input", &x)?;
    check_probability(probability)?;
    if probability == 0.0 {
        return Ok(x);
    }
    if !is_fused(&x) {
        return Ok(dropout_fallback(x, probability, seed));
    }
    apply(Dropout { probability, seed }, [x.into_dispatch()])
}

/// [`dropout`] in plain Burn operations, without its argument checks. It drops the same elements.
pub fn dropout_fallback<const D: usize>(x: Tensor<D>, probability: f32, seed: u64) -> Tensor<D> {
    let shape = x.shape();
    let mut factors = unwritten(shape.num_elements());
    let ones = vec![1.0; factors.len()];
    dropout_forward(&ones, probability, seed, &mut factors).expect("the caller has checked the probability");
    let factors = Tensor::<D>::from_data(TensorData::new(factors, shape), &x.device());
    x * factors
}

impl FusedOp<1> for Dropout {
    type Saved = ();

    fn forward(&self, [x]: [FlexTensor; 1], _: Purpose) -> Result<(FlexTensor, ()), OpError> {
        let x = contiguous(x);
        let shape = x.layout().shape().clone();
        let mut out = unwritten(shape.num_elements());
        dropout_forward(elements(&x), self.probability, self.seed, &mut out)?;
        Ok((tensor(out, shape), ()))
    }

    /// The backward pass is the same function as the forward pass.
    fn backward(&self, _: (), grad: FlexTensor, _: [bool; 1]) -> Result<[Option<FlexTensor>; 1], OpError> {
        let (grad, ()) = self.forward([grad], Purpose::Training)?;
        Ok([Some(grad)])
    }
}
