//! Addition of the same rows to every sequence of a batch, such as position encodings to token embeddings.

use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use regard_kernels::linear::{add_repeatedly, sum_repeats};
use regard_kernels::unwritten;

use crate::error::{OpError, check_shape};
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, is_fused, tensor};

/// Computes `x[b] + rows` for each sequence `b` of the batch.
///
/// # Shapes
/// `x` `[batch, seq, d_model]`, `rows` `[seq, d_model]` → `[batch, seq, d_model]`.
pub fn add_rows(x: Tensor<3>, rows: Tensor<2>) -> Result<Tensor<3>, OpError> {
    check_f32("input", &x)?;
    check_f32("rows", &rows)?;
    let [_, seq, d_model] = x.dims();
    check_shape("rows", rows.dims(), [seq, d_model])?;
    if !is_fused(&x) {
        return Ok(add_rows_fallback(x, rows));
    }
    apply(AddRows, [x.into_dispatch(), rows.into_dispatch()])
}

/// [`add_rows`] in plain Burn operations, without its argument checks.
pub fn add_rows_fallback(x: Tensor<3>, rows: Tensor<2>) -> Tensor<3> {
    x + rows.unsqueeze()
}

#[derive(Debug, Clone)]
struct AddRows;

impl FusedOp<2> for AddRows {
    /// Shape of `rows`.
    type Saved = [usize; 2];

    fn forward(&self, [x, rows]: [FlexTensor; 2], _: Purpose) -> Result<(FlexTensor, [usize; 2]), OpError> {
        let (x, rows) = (contiguous(x), contiguous(rows));
        let shape = x.layout().shape().clone();
        let mut out = elements(&x).to_vec();
        add_repeatedly(elements(&rows), &mut out)?;
        Ok((tensor(out, shape), rows.layout().shape().dims()))
    }

    fn backward(
        &self,
        sizes: [usize; 2],
        grad: FlexTensor,
        [_, rows]: [bool; 2],
    ) -> Result<[Option<FlexTensor>; 2], OpError> {
        let grad = contiguous(grad);
        let sums = || -> Result<FlexTensor, OpError> {
            let mut sums = unwritten(sizes.iter().product());
            sum_repeats(elements(&grad), &mut sums)?;
            Ok(tensor(sums, sizes))
        };
        let rows = rows.then(sums).transpose()?;
        Ok([Some(grad), rows])
    }
}
