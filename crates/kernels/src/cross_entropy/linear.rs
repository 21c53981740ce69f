//! The cross-entropy of a linear layer's output, without holding all logits at once.

use rayon::prelude::*;

use super::{CrossEntropyOptions, losses};
use crate::error::{KernelError, check_len};
use crate::linear::{LinearGradients, LinearShape, add_gradients, linear_forward};
use crate::linear_weight::TrainedWeight;
use crate::matmul::{Matrix, Output, Threads, matmul, transpose};
use crate::precision::Precision;
use crate::scratch::Scratch;

/// Number of logits that [`linear_cross_entropy_forward`] holds at once: 16 MiB, 512 rows of a vocabulary of 8,000.
///
/// Measured with 4,096 rows, `d_in` 256 and that vocabulary, loss and gradients: 183 ms with 512 rows at once, 182 to 189
/// with 1,024, 206 with 2,048. The three products alone, on all logits at once, take 177.
const CHUNK_LOGITS: usize = 4 << 20;

/// Returns the number of rows whose logits are held at once: if possible a multiple of 256, where `gemm` has no remainders.
pub fn chunk_rows(vocab: usize) -> usize {
    let rows = (CHUNK_LOGITS / vocab.max(1)).max(1);
    if rows < 256 { rows } else { rows / 256 * 256 }
}

/// Computes [`cross_entropy_forward`](super::cross_entropy_forward) of `x weight + bias` with a few megabytes of logits at
/// once, and on request the gradients for an upstream gradient of 1.
///
/// # Shapes
/// `x` `[rows, d_in]`, `weight` `[d_in, vocab]` in either order, `bias` `[vocab]`, `targets` `[rows]`; `vocab` is
/// `shape.d_out`.
pub fn linear_cross_entropy_forward<'w>(
    shape: LinearShape,
    x: &[f32],
    weight: impl Into<TrainedWeight<'w>>,
    bias: Option<&[f32]>,
    targets: &[i64],
    options: CrossEntropyOptions,
    gradients: Option<LinearGradients<'_>>,
) -> Result<f32, KernelError> {
    let (LinearShape { rows, d_in, d_out: vocab }, weight) = (shape, weight.into());
    shape.check(x, weight)?;
    check_len("linear bias", bias.map_or(vocab, <[f32]>::len), vocab)?;
    check_len("cross-entropy targets", targets.len(), rows)?;
    if let Some(gradients) = &gradients {
        gradients.check(shape)?;
    }
    let count = options.count(targets, vocab)?;
    let mut gradients = gradients;
    if count == 0 {
        if let Some(LinearGradients { x, weight, bias }) = gradients {
            [x, weight, bias].into_iter().flatten().for_each(|gradient| gradient.fill(0.0));
        }
        return Ok(0.0);
    }
    let chunk = chunk_rows(vocab).min(rows);
    let scale = gradients.is_some().then_some(1.0 / count as f32);
    let mut grad_x = gradients.as_mut().and_then(|gradients| gradients.x.take());
    let mut loss = 0.0;
    // A transposed copy of the weight pays from some hundred rows on, unless the weight is stored that way. The product in bf16
    // packs either order equally fast.
    let TrainedWeight { matrix, precision } = weight;
    let is_slow = precision == Precision::F32 && !matrix.is_transposed();
    let copied = grad_x.is_some() && chunk >= 2 * GRADIENT_ROWS && is_slow;
    let transposed_len = if copied { d_in * vocab } else { 0 };
    let mut scratch = Scratch::new(chunk * vocab + transposed_len);
    let (scratch, transposed) = scratch.split_at_mut(chunk * vocab);
    let weight_transposed = if copied {
        transpose(matrix, transposed);
        Matrix::new(transposed, vocab, d_in)?
    } else {
        matrix.transposed()
    };
    let weight_transposed = TrainedWeight { matrix: weight_transposed, precision };
    for first in (0..rows).step_by(chunk) {
        let shape = LinearShape { rows: chunk.min(rows - first), ..shape };
        let inputs = first * d_in..(first + shape.rows) * d_in;
        let logits = &mut scratch[..shape.rows * vocab];
        linear_forward(shape, &x[inputs.clone()], weight, bias, None, logits)?;
        loss += losses(logits, vocab, &targets[first..first + shape.rows], options, scale);
        if let Some(grad_x) = grad_x.as_deref_mut() {
            input_gradient(logits, weight_transposed, shape, &mut grad_x[inputs.clone()])?;
        }
        if let Some(gradients) = &mut gradients {
            let output = if first == 0 { Output::Replace } else { Output::Accumulate };
            add_gradients(shape, &x[inputs], weight, logits, gradients, output)?;
        }
    }
    Ok((loss / count as f64) as f32)
}

/// Number of rows of [`input_gradient`] that one thread computes.
const GRADIENT_ROWS: usize = 256;

/// Computes `out = grad Wᵀ` from the transposed weight.
///
/// With few rows and a long sum, `gemm` loses time splitting the work and packing a transposed operand:
/// `[512, 8000]` by `[8000, 256]` has 232 GFLOP/s through its threads with `Wᵀ` as a view, 293 this way.
fn input_gradient(
    grad: &[f32],
    TrainedWeight { matrix: weight, precision }: TrainedWeight<'_>,
    shape: LinearShape,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let LinearShape { rows, d_in, d_out } = shape;
    if rows < 2 * GRADIENT_ROWS || d_in == 0 || precision != Precision::F32 {
        return precision.matmul(Matrix::new(grad, rows, d_out)?, weight, out, d_in, Output::Replace);
    }
    let pieces = out.par_chunks_mut(GRADIENT_ROWS * d_in).zip(grad.par_chunks(GRADIENT_ROWS * d_out));
    pieces.try_for_each(|(out, grad)| {
        let grad = Matrix::new(grad, grad.len() / d_out, d_out)?;
        matmul(grad, weight, out, d_in, Output::Replace, Threads::One)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{OPTIONS, exact, targets};
    use super::super::{cross_entropy_backward, cross_entropy_forward};
    use super::*;
    use crate::test_support::{assert_close, numbers, wide};
    use proptest::prelude::*;

    /// Compares the fused operation with the two kernels it is made of.
    fn check_fused(rows: usize, d_in: usize, vocab: usize) {
        let shape = LinearShape { rows, d_in, d_out: vocab };
        let (x, weight, bias) = (numbers(rows * d_in, 1, 1.0), numbers(d_in * vocab, 2, 0.5), numbers(vocab, 3, 1.0));
        // The second is a different matrix, stored column after column.
        let weights =
            [Matrix::new(&weight, d_in, vocab).unwrap(), Matrix::new(&weight, vocab, d_in).unwrap().transposed()];
        for (options, weight) in OPTIONS.into_iter().flat_map(|options| weights.map(|weight| (options, weight))) {
            let targets = targets(rows, vocab, options);
            let mut logits = vec![0.0; rows * vocab];
            linear_forward(shape, &x, weight, Some(&bias), None, &mut logits).unwrap();
            let want = exact(&wide(&logits), vocab, &targets, options);
            let (mut grad, mut log_sum_exp) = (vec![0.0; rows * vocab], vec![0.0; rows]);
            cross_entropy_forward(&logits, vocab, &targets, options, &mut log_sum_exp).unwrap();
            cross_entropy_backward(&logits, vocab, &targets, options, &log_sum_exp, 1.0, &mut grad).unwrap();
            let mut parts = [vec![0.0; rows * d_in], vec![0.0; d_in * vocab], vec![0.0; vocab]];
            let mut got = parts.clone().map(|part| vec![f32::NAN; part.len()]);
            let [want_x, want_weight, want_bias] = &mut parts;
            let wanted = LinearGradients { x: Some(want_x), weight: Some(want_weight), bias: Some(want_bias) };
            crate::linear::linear_backward(shape, &x, weight, &grad, wanted).unwrap();
            let [got_x, got_weight, got_bias] = &mut got;
            let gradients = LinearGradients { x: Some(got_x), weight: Some(got_weight), bias: Some(got_bias) };
            let bias = Some(&bias[..]);
            let loss =
                linear_cross_entropy_forward(shape, &x, weight, bias, &targets, options, Some(gradients)).unwrap();
            let isa = crate::Isa::current();
            assert_close("loss", isa, &[loss], &[want], 1e-6, 1e-6);
            for (got, want) in got.iter().zip(&parts) {
                assert_close("gradient", isa, got, &wide(want), 1e-6, 1e-5);
            }
            let loss = linear_cross_entropy_forward(shape, &x, weight, bias, &targets, options, None).unwrap();
            assert_close("loss alone", isa, &[loss], &[want], 1e-6, 1e-6);
        }
    }

    #[test]
    fn the_fused_layer_agrees_with_its_parts() {
        check_fused(1, 3, 2);
        check_fused(7, 5, 33);
        check_fused(70, 16, 300);
        check_fused(2 * GRADIENT_ROWS + 5, 6, 20);
        // Several chunks.
        check_fused(2 * CHUNK_LOGITS / 70_000 + 3, 2, 70_000);
    }

    #[test]
    fn ignored_rows_alone_give_zero() {
        let options = CrossEntropyOptions { ignore_index: Some(7), label_smoothing: 0.1 };
        let shape = LinearShape { rows: 2, d_in: 1, d_out: 3 };
        let mut grad = [f32::NAN; 3];
        let weight = Matrix::new(&[1.0; 3], 1, 3).unwrap();
        let gradients = LinearGradients { weight: Some(&mut grad), ..Default::default() };
        let loss =
            linear_cross_entropy_forward(shape, &[1.0; 2], weight, None, &[7, 7], options, Some(gradients)).unwrap();
        assert_eq!((loss, grad), (0.0, [0.0; 3]));
    }

    #[test]
    fn sizes_are_checked() {
        let options = CrossEntropyOptions::default();
        let shape = LinearShape { rows: 2, d_in: 1, d_out: 3 };
        let weight = Matrix::new(&[1.0; 3], 1, 3).unwrap();
        assert!(linear_cross_entropy_forward(shape, &[1.0; 2], weight, None, &[0], options, None).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn any_size(rows in 1_usize..5, vocab in 2_usize..50) {
            check_fused(rows, 4, vocab);
        }
    }
}
