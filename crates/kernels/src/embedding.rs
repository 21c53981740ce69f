//! Lookup of rows of a table, and its gradient, a scatter-add.
//!
//! ```text
//! out[i] = table[ids[i]]        ∂table[v] = Σ_{i : ids[i] = v} ∂out[i]
//! ```

use half::bf16;
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::error::{KernelError, check_len, check_product, check_rows};
use crate::isa::dispatch;
use crate::parallel::{SERIAL_ELEMENTS, for_each_rows};
use crate::vector;

/// Number of parts of the table in the backward pass. Each reads all indices (a few µs for 4,096), so more parts would not
/// pay; frequent words are neighbours in most vocabularies, so fewer would leave threads idle.
const RANGES: usize = 32;

/// Copies the rows `ids` of the table: `out[i] = table[ids[i]]`.
///
/// # Shapes
/// `table` `[vocab, width]`, `ids` `[n]`, `out` `[n, width]`.
pub fn embedding_forward(table: &[f32], width: usize, ids: &[i64], out: &mut [f32]) -> Result<(), KernelError> {
    let vocab = check_rows("embedding table", table.len(), width)?;
    check_len("embedding out", out.len(), check_product("embedding out", ids.len(), width)?)?;
    check_ids(ids, vocab)?;
    for_each_rows(out, width, |first, out| {
        for (out, &id) in out.chunks_exact_mut(width).zip(&ids[first..]) {
            let start = id as usize * width;
            out.copy_from_slice(&table[start..start + width]);
        }
    });
    Ok(())
}

/// Same as [`embedding_forward`] for a table of bf16 numbers.
///
/// # Shapes
/// `table` `[vocab, width]`, `ids` `[n]`, `out` `[n, width]`.
pub fn embedding_forward_half(table: &[bf16], width: usize, ids: &[i64], out: &mut [f32]) -> Result<(), KernelError> {
    let vocab = check_rows("embedding table", table.len(), width)?;
    check_len("embedding out", out.len(), check_product("embedding out", ids.len(), width)?)?;
    check_ids(ids, vocab)?;
    for_each_rows(out, width, |first, out| {
        for (out, &id) in out.chunks_exact_mut(width).zip(&ids[first..]) {
            out.iter_mut().zip(&table[id as usize * width..]).for_each(|(out, value)| *out = value.to_f32());
        }
    });
    Ok(())
}

/// Sets `grad_table[v]` to the sum of the rows of `grad` whose index is `v`, added in their order; zero if there is none.
///
/// # Shapes
/// `grad` `[n, width]`, `ids` `[n]`, `grad_table` `[vocab, width]`.
pub fn embedding_backward(grad: &[f32], width: usize, ids: &[i64], grad_table: &mut [f32]) -> Result<(), KernelError> {
    let vocab = check_rows("embedding grad table", grad_table.len(), width)?;
    check_len("embedding grad", grad.len(), check_product("embedding grad", ids.len(), width)?)?;
    check_ids(ids, vocab)?;
    if grad.len() + grad_table.len() <= 4 * SERIAL_ELEMENTS {
        dispatch(Scatter { grad, ids, width, first: 0, out: grad_table });
        return Ok(());
    }
    let rows = vocab.div_ceil(RANGES);
    grad_table
        .par_chunks_mut((rows * width).max(1))
        .enumerate()
        .for_each(|(i, out)| dispatch(Scatter { grad, ids, width, first: i * rows, out }));
    Ok(())
}

fn check_ids(ids: &[i64], vocab: usize) -> Result<(), KernelError> {
    // A negative index becomes a huge unsigned number.
    match ids.iter().position(|&id| id as u64 >= vocab as u64) {
        None => Ok(()),
        Some(at) => {
            let why = format!("index {} at position {at} is outside a table of {vocab} rows", ids[at]);
            Err(KernelError::Invalid { what: "embedding ids", why })
        }
    }
}

/// Adds the rows of `grad` that belong to the part of the table in `out`, which starts at row `first`.
struct Scatter<'a> {
    grad: &'a [f32],
    ids: &'a [i64],
    width: usize,
    first: usize,
    out: &'a mut [f32],
}

impl WithSimd for Scatter<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.out.fill(0.0);
        let rows = self.out.len() / self.width;
        for (i, &id) in self.ids.iter().enumerate() {
            let row = (id as usize).wrapping_sub(self.first);
            if row < rows {
                let out = &mut self.out[row * self.width..(row + 1) * self.width];
                vector::add_in_place(simd, out, &self.grad[i * self.width..(i + 1) * self.width]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::on_every_isa;
    use crate::test_support::{assert_close, numbers};
    use proptest::prelude::*;

    fn check(vocab: usize, width: usize, n: usize) {
        let table = numbers(vocab * width, 1, 1.0);
        let grad = numbers(n * width, 2, 1.0);
        let ids: Vec<i64> = (0..n).map(|i| ((i * i + 3 * i) % vocab) as i64).collect();
        let mut want = vec![0.0; vocab * width];
        for i in 0..n * width {
            want[ids[i / width] as usize * width + i % width] += f64::from(grad[i]);
        }
        on_every_isa(|isa| {
            let mut out = vec![f32::NAN; n * width];
            embedding_forward(&table, width, &ids, &mut out).unwrap();
            for (i, out) in out.iter().enumerate() {
                assert_eq!(*out, table[ids[i / width] as usize * width + i % width]);
            }
            let mut grad_table = vec![f32::NAN; vocab * width];
            embedding_backward(&grad, width, &ids, &mut grad_table).unwrap();
            assert_close("grad table", isa, &grad_table, &want, 1e-6 * (n / vocab + 1) as f64, 0.0);
        });
    }

    #[test]
    fn agrees_with_the_formula() {
        for (vocab, width, n) in [(1, 1, 1), (5, 3, 7), (11, 17, 40), (2, 16, 0), (700, 40, 900), (3, 8, 5000)] {
            check(vocab, width, n);
        }
    }

    #[test]
    fn parallel_and_serial_sums_are_the_same_bits() {
        let (vocab, width, n) = (97, 30, 2000);
        let grad = numbers(n * width, 3, 1.0);
        let ids: Vec<i64> = (0..n).map(|i| ((i * 31) % vocab) as i64).collect();
        let (mut parallel, mut serial) = (vec![0.0; vocab * width], vec![0.0; vocab * width]);
        embedding_backward(&grad, width, &ids, &mut parallel).unwrap();
        dispatch(Scatter { grad: &grad, ids: &ids, width, first: 0, out: &mut serial });
        assert_eq!(parallel, serial);
    }

    #[test]
    fn bad_indices_are_named() {
        for id in [2, -1, i64::MAX, i64::MIN] {
            let error = embedding_forward(&[0.0; 4], 2, &[0, id], &mut [0.0; 4]).unwrap_err().to_string();
            assert!(error.contains(&format!("index {id} at position 1")), "{error}");
            assert!(embedding_backward(&[0.0; 4], 2, &[0, id], &mut [0.0; 4]).is_err());
        }
        assert!(embedding_forward(&[], 2, &[0], &mut [0.0; 2]).is_err());
    }

    #[test]
    fn sizes_are_checked() {
        assert!(embedding_forward(&[0.0; 4], 0, &[0], &mut []).is_err());
        assert!(embedding_forward(&[0.0; 4], 3, &[0], &mut [0.0; 3]).is_err());
        assert!(embedding_forward(&[0.0; 4], 2, &[0], &mut [0.0; 4]).is_err());
        assert!(embedding_backward(&[0.0; 4], 2, &[0], &mut [0.0; 4]).is_err());
        embedding_backward(&[], 2, &[], &mut []).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_size(vocab in 1_usize..40, width in 1_usize..40, n in 0_usize..60) {
            check(vocab, width, n);
        }
    }
}
