//! Embedding: lookup of table rows by index.

use std::sync::Arc;

use burn::tensor::{DType, Int, Tensor};
use burn_flex::FlexTensor;
use half::bf16;
use regard_kernels::embedding::{embedding_backward, embedding_forward, embedding_forward_half};
use regard_kernels::unwritten;

use crate::error::{OpError, check_width};
use crate::fused::{FusedOp, Purpose, apply, check_weight, contiguous, elements, integers, is_fused, sizes, tensor};

/// Returns the rows of `table` at the indices `ids`. An index outside the table is an error that states its position.
///
/// # Shapes
/// `table` `[vocab, width]`, f32 or, outside training, bf16, `ids` `[batch, seq]` → `[batch, seq, width]`.
pub fn embedding(table: Tensor<2>, ids: Tensor<2, Int>) -> Result<Tensor<3>, OpError> {
    check_weight("table", &table)?;
    check_width("table", &table.dims())?;
    let [vocab, _] = table.dims();
    let [batch, seq] = ids.dims();
    let fused = is_fused(&table);
    let numbers = integers(ids.clone());
    if let Some(at) = numbers.iter().position(|&id| id < 0 || id as usize >= vocab) {
        let why = format!("{} at [{}, {}] is not in 0..{vocab}", numbers[at], at / seq, at % seq);
        return Err(OpError::Option { what: "ids", why });
    }
    if !fused {
        return Ok(embedding_fallback(table, ids));
    }
    apply(Embedding { ids: Arc::new(numbers), batch, seq }, [table.into_dispatch()])
}

/// [`embedding`] in plain Burn operations, without its argument checks.
pub fn embedding_fallback(table: Tensor<2>, ids: Tensor<2, Int>) -> Tensor<3> {
    let [_, width] = table.dims();
    let [batch, seq] = ids.dims();
    table.select(0, ids.reshape([batch * seq])).reshape([batch, seq, width])
}

#[derive(Debug, Clone)]
struct Embedding {
    ids: Arc<Vec<i64>>,
    batch: usize,
    seq: usize,
}

impl FusedOp<1> for Embedding {
    /// Shape of the table.
    type Saved = [usize; 2];

    fn forward(&self, [table]: [FlexTensor; 1], _: Purpose) -> Result<(FlexTensor, [usize; 2]), OpError> {
        let table = contiguous(table);
        let shape: [usize; 2] = sizes(&table);
        let mut out = unwritten(self.ids.len() * shape[1]);
        match table.dtype() {
            _ if out.is_empty() => {}
            DType::BF16 => {
                let table: &[bf16] = table.as_slice().expect("the table was made contiguous");
                embedding_forward_half(table, shape[1], &self.ids, &mut out)?;
            }
            _ => embedding_forward(elements(&table), shape[1], &self.ids, &mut out)?,
        }
        Ok((tensor(out, [self.batch, self.seq, shape[1]]), shape))
    }

    fn backward(
        &self,
        [vocab, width]: [usize; 2],
        grad: FlexTensor,
        _: [bool; 1],
    ) -> Result<[Option<FlexTensor>; 1], OpError> {
        let grad = contiguous(grad);
        let mut out = unwritten(vocab * width);
        embedding_backward(elements(&grad), width, &self.ids, &mut out)?;
        Ok([Some(tensor(out, [vocab, width]))])
    }
}
