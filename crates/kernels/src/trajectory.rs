//! The path of a point that a small network moves, `dp/dt = h(t, p)`, by the classical Runge–Kutta method.
//!
//! ```text
//! h(t, p) = tanh([p; t] W₁ + b₁) W₂ + b₂
//! k₁ = h(t, p)   k₂ = h(t + τ/2, p + τ/2 k₁)   k₃ = h(t + τ/2, p + τ/2 k₂)   k₄ = h(t + τ, p + τ k₃)
//! p ← p + τ/6 (k₁ + 2k₂ + 2k₃ + k₄)            τ = delta / steps
//! ```
//! Position `i` is `p(i·delta)`. The backward pass differentiates these steps, not the equation that they approximate.
//! Only the loop over the evaluations is sequential; the gradients of the weights are products over all of them at the end.

use pulp::{Simd, WithSimd};

use crate::error::{KernelError, check_sizes};
use crate::isa::dispatch;
use crate::matmul::{Matrix, Output, Threads, matmul};
use crate::vector::{self, add_in_place, add_scaled, dot, map_in_place, tanh, zip, zip_in_place};

/// Number of evaluations of `h` in a step.
const STAGES: usize = 4;
/// Where in the step the evaluations are: at `t + C·τ` and `p + C·τ·k`, with `k` of the evaluation before.
const C: [f32; STAGES] = [0.0, 0.5, 0.5, 1.0];
/// Weights of the evaluations in the sum.
const B: [f32; STAGES] = [1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 6.0];

/// The sizes of a path and of its network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrajectoryShape {
    /// Number of positions, including the start.
    pub positions: usize,
    /// Number of Runge–Kutta steps from one position to the next.
    pub steps: usize,
    /// Time from one position to the next.
    pub delta: f32,
    /// Number of features of `p`.
    pub d_model: usize,
    /// Number of hidden units of `h`.
    pub d_hidden: usize,
}

impl TrajectoryShape {
    /// Returns the number of evaluations of `h`, `None` if it does not fit in a `usize`.
    pub fn evaluations(&self) -> Option<usize> {
        self.positions.saturating_sub(1).checked_mul(self.steps)?.checked_mul(STAGES)
    }

    fn checked_evaluations(&self) -> Result<usize, KernelError> {
        let TrajectoryShape { positions, steps, d_model, d_hidden, delta } = *self;
        if [positions, steps, d_model, d_hidden].contains(&0) || !delta.is_finite() {
            let why = format!("sizes must be 1 or more and delta finite, got {self:?}");
            return Err(KernelError::Invalid { what: "trajectory", why });
        }
        self.evaluations().ok_or_else(|| KernelError::Invalid {
            what: "trajectory",
            why: format!("{positions} positions of {steps} steps are too many"),
        })
    }

    fn step_size(&self) -> f32 {
        (f64::from(self.delta) / self.steps as f64) as f32
    }

    /// Returns the time `t` of an evaluation.
    fn time(&self, evaluation: usize) -> f32 {
        let step = f64::from(self.delta) / self.steps as f64;
        (((evaluation / STAGES) as f64 + f64::from(C[evaluation % STAGES])) * step) as f32
    }
}

/// The weights of the network `h`.
#[derive(Debug, Clone, Copy)]
pub struct TrajectoryWeights<'a> {
    /// `W₁`, `[d_model + 1, d_hidden]`; the last row belongs to the time.
    pub w1: &'a [f32],
    /// `b₁`, `[d_hidden]`
    pub b1: &'a [f32],
    /// `W₂`, `[d_hidden, d_model]`
    pub w2: &'a [f32],
    /// `b₂`, `[d_model]`
    pub b2: &'a [f32],
}

/// Where [`trajectory_backward`] writes the gradients. Old content is replaced.
#[derive(Debug)]
pub struct TrajectoryGradients<'a> {
    /// Gradient of the start, `[d_model]`
    pub start: &'a mut [f32],
    /// Gradient of `W₁`, `[d_model + 1, d_hidden]`
    pub w1: &'a mut [f32],
    /// Gradient of `b₁`, `[d_hidden]`
    pub b1: &'a mut [f32],
    /// Gradient of `W₂`, `[d_hidden, d_model]`
    pub w2: &'a mut [f32],
    /// Gradient of `b₂`, `[d_model]`
    pub b2: &'a mut [f32],
}

/// Computes the positions, and the network's inputs and hidden units in every evaluation, which the backward pass needs.
///
/// # Shapes
/// `start` `[d_model]`; `out` `[positions, d_model]`, `inputs` `[evaluations, d_model + 1]`, `hidden`
/// `[evaluations, d_hidden]`.
pub fn trajectory_forward(
    shape: TrajectoryShape,
    weights: TrajectoryWeights<'_>,
    start: &[f32],
    out: &mut [f32],
    inputs: &mut [f32],
    hidden: &mut [f32],
) -> Result<(), KernelError> {
    check(shape, weights, start.len(), [out.len(), inputs.len(), hidden.len()])?;
    out[..shape.d_model].copy_from_slice(start);
    dispatch(Forward { shape, weights, out, inputs, hidden });
    Ok(())
}

/// Computes the gradients of the start and the network from those of every position.
///
/// # Shapes
/// The shapes are those of [`trajectory_forward`], with its results in `inputs` and `hidden`; `grad` `[positions, d_model]`.
pub fn trajectory_backward(
    shape: TrajectoryShape,
    weights: TrajectoryWeights<'_>,
    inputs: &[f32],
    hidden: &[f32],
    grad: &[f32],
    gradients: TrajectoryGradients<'_>,
) -> Result<(), KernelError> {
    let TrajectoryGradients { start, w1, b1, w2, b2 } = gradients;
    check(shape, weights, start.len(), [grad.len(), inputs.len(), hidden.len()])?;
    let TrajectoryShape { d_model, d_hidden, .. } = shape;
    check_sizes("gradient of w1", w1.len(), &[d_model + 1, d_hidden])?;
    check_sizes("gradient of b1", b1.len(), &[d_hidden])?;
    check_sizes("gradient of w2", w2.len(), &[d_hidden, d_model])?;
    check_sizes("gradient of b2", b2.len(), &[d_model])?;
    let evaluations = shape.checked_evaluations()?;
    let (mut grad_before, mut grad_slope) = (vec![0.0; evaluations * d_hidden], vec![0.0; evaluations * d_model]);
    let [grad_before, grad_slope] = [&mut grad_before[..], &mut grad_slope[..]];
    dispatch(Backward { shape, weights, hidden, grad, start, grad_before, grad_slope, b1, b2 });
    if evaluations == 0 {
        [w1, w2].into_iter().for_each(|zeroed| zeroed.fill(0.0));
        return Ok(());
    }
    let inputs = Matrix::new(inputs, evaluations, d_model + 1)?.transposed();
    let before = Matrix::new(grad_before, evaluations, d_hidden)?;
    matmul(inputs, before, w1, d_hidden, Output::Replace, Threads::Pool)?;
    let hidden = Matrix::new(hidden, evaluations, d_hidden)?.transposed();
    let slope = Matrix::new(grad_slope, evaluations, d_model)?;
    matmul(hidden, slope, w2, d_model, Output::Replace, Threads::Pool)
}

fn check(
    shape: TrajectoryShape,
    weights: TrajectoryWeights<'_>,
    start: usize,
    [out, inputs, hidden]: [usize; 3],
) -> Result<(), KernelError> {
    let evaluations = shape.checked_evaluations()?;
    let TrajectoryShape { positions, d_model, d_hidden, .. } = shape;
    check_sizes("start", start, &[d_model])?;
    check_sizes("w1", weights.w1.len(), &[d_model + 1, d_hidden])?;
    check_sizes("b1", weights.b1.len(), &[d_hidden])?;
    check_sizes("w2", weights.w2.len(), &[d_hidden, d_model])?;
    check_sizes("b2", weights.b2.len(), &[d_model])?;
    check_sizes("positions", out, &[positions, d_model])?;
    check_sizes("inputs", inputs, &[evaluations, d_model + 1])?;
    check_sizes("hidden", hidden, &[evaluations, d_hidden])
}

struct Forward<'a> {
    shape: TrajectoryShape,
    weights: TrajectoryWeights<'a>,
    /// Positions, with the start in the first row.
    out: &'a mut [f32],
    inputs: &'a mut [f32],
    hidden: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, weights, out, inputs, hidden } = self;
        let TrajectoryShape { steps, d_model, d_hidden, .. } = shape;
        let step_size = shape.step_size();
        let mut point = out[..d_model].to_vec();
        let mut next = point.clone();
        let mut slope = vec![0.0; d_model];
        let rows = inputs.chunks_exact_mut(d_model + 1).zip(hidden.chunks_exact_mut(d_hidden));
        for (evaluation, (input, hidden)) in rows.enumerate() {
            let stage = evaluation % STAGES;
            let (features, time) = input.split_at_mut(d_model);
            time[0] = shape.time(evaluation);
            features.copy_from_slice(&point);
            if stage > 0 {
                add_scaled(simd, C[stage] * step_size, &slope, features);
            }
            hidden.copy_from_slice(weights.b1);
            for (x, row) in input.iter().zip(weights.w1.chunks_exact(d_hidden)) {
                add_scaled(simd, *x, row, hidden);
            }
            map_in_place!(simd, hidden, |x| tanh(simd, x));
            slope.copy_from_slice(weights.b2);
            for (x, row) in hidden.iter().zip(weights.w2.chunks_exact(d_model)) {
                add_scaled(simd, *x, row, &mut slope);
            }
            add_scaled(simd, B[stage] * step_size, &slope, &mut next);
            if stage + 1 == STAGES {
                point.copy_from_slice(&next);
                let step = evaluation / STAGES + 1;
                if step.is_multiple_of(steps) {
                    out[step / steps * d_model..][..d_model].copy_from_slice(&point);
                }
            }
        }
    }
}

struct Backward<'a> {
    shape: TrajectoryShape,
    weights: TrajectoryWeights<'a>,
    hidden: &'a [f32],
    grad: &'a [f32],
    start: &'a mut [f32],
    /// Gradient before the `tanh`, `[evaluations, d_hidden]`.
    grad_before: &'a mut [f32],
    /// Gradient of each `k`, `[evaluations, d_model]`.
    grad_slope: &'a mut [f32],
    b1: &'a mut [f32],
    b2: &'a mut [f32],
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, weights, hidden, grad, start, grad_before, grad_slope, b1, b2 } = self;
        let TrajectoryShape { positions, steps, d_model, d_hidden, .. } = shape;
        let step_size = shape.step_size();
        // Gradients of the point after a step, of the point before it, and of the features of an evaluation.
        let after = &mut grad[(positions - 1) * d_model..].to_vec()[..];
        let before = start;
        before.copy_from_slice(after);
        let features = &mut vec![0.0; d_model][..];
        b1.fill(0.0);
        b2.fill(0.0);
        let rows = grad_before.chunks_exact_mut(d_hidden).zip(grad_slope.chunks_exact_mut(d_model));
        for (evaluation, ((ga, gk), hidden)) in rows.zip(hidden.chunks_exact(d_hidden)).enumerate().rev() {
            let stage = evaluation % STAGES;
            let share = simd.splat_f32s(B[stage] * step_size);
            vector::map!(simd, &*after, gk, |x| simd.mul_f32s(share, x));
            if stage + 1 < STAGES {
                add_scaled(simd, C[stage + 1] * step_size, features, gk);
            }
            for (g, row) in ga.iter_mut().zip(weights.w2.chunks_exact(d_model)) {
                *g = dot(simd, gk, row);
            }
            let one = simd.splat_f32s(1.0);
            zip_in_place!(simd, ga, hidden, |g, y| simd.mul_f32s(g, simd.sub_f32s(one, simd.mul_f32s(y, y))));
            for (g, row) in features.iter_mut().zip(weights.w1.chunks_exact(d_hidden)) {
                *g = dot(simd, ga, row);
            }
            add_in_place(simd, b1, ga);
            add_in_place(simd, b2, gk);
            add_in_place(simd, before, features);
            if stage == 0 {
                let step = evaluation / STAGES;
                if step.is_multiple_of(steps) {
                    let direct = &grad[step / steps * d_model..][..d_model];
                    zip!(simd, &*before, direct, after, |x, y| simd.add_f32s(x, y));
                    before.copy_from_slice(after);
                } else {
                    after.copy_from_slice(before);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::on_every_isa;
    use crate::test_support::{assert_close, central_differences, inner, numbers, wide};

    /// Computes the positions in f64 by the formula; `parameters` holds start, `W₁`, `b₁`, `W₂` and `b₂` one after another.
    fn reference(shape: TrajectoryShape, parameters: &[f64]) -> Vec<f64> {
        let TrajectoryShape { positions, steps, delta, d_model: d, d_hidden: m } = shape;
        let (start, rest) = parameters.split_at(d);
        let (w1, rest) = rest.split_at((d + 1) * m);
        let (b1, rest) = rest.split_at(m);
        let (w2, b2) = rest.split_at(m * d);
        let slope = |t: f64, p: &[f64]| -> Vec<f64> {
            let input = |i: usize| if i < d { p[i] } else { t };
            let hidden: Vec<f64> =
                (0..m).map(|j| (b1[j] + (0..=d).map(|i| input(i) * w1[i * m + j]).sum::<f64>()).tanh()).collect();
            (0..d).map(|i| b2[i] + (0..m).map(|j| hidden[j] * w2[j * d + i]).sum::<f64>()).collect()
        };
        let along = |p: &[f64], by: f64, k: &[f64]| p.iter().zip(k).map(|(p, k)| p + by * k).collect::<Vec<f64>>();
        let tau = f64::from(delta) / steps as f64;
        let (mut p, mut out) = (start.to_vec(), start.to_vec());
        for step in 0..(positions - 1) * steps {
            let t = step as f64 * tau;
            let k1 = slope(t, &p);
            let k2 = slope(t + tau / 2.0, &along(&p, tau / 2.0, &k1));
            let k3 = slope(t + tau / 2.0, &along(&p, tau / 2.0, &k2));
            let k4 = slope(t + tau, &along(&p, tau, &k3));
            for i in 0..d {
                p[i] += tau / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i]);
            }
            if (step + 1) % steps == 0 {
                out.extend(&p);
            }
        }
        out
    }

    #[test]
    fn positions_and_gradients_are_those_of_the_formula() {
        for (positions, steps, d, m) in [(1, 1, 3, 2), (2, 1, 3, 5), (4, 3, 5, 4), (6, 2, 19, 17)] {
            let shape = TrajectoryShape { positions, steps, delta: 0.4, d_model: d, d_hidden: m };
            let sizes = [d, (d + 1) * m, m, m * d, d];
            let parameters = numbers(sizes.iter().sum(), 3, 0.7);
            let grad = numbers(positions * d, 4, 1.0);
            let want = reference(shape, &wide(&parameters));
            let want_gradient = central_differences(&wide(&parameters), |x| inner(&reference(shape, x), &wide(&grad)));
            on_every_isa(|isa| {
                let mut rest = &parameters[..];
                let [start, w1, b1, w2, b2] = sizes.map(|size| rest.split_off(..size).unwrap());
                let weights = TrajectoryWeights { w1, b1, w2, b2 };
                let evaluations = shape.evaluations().unwrap();
                let (mut out, mut inputs) = (vec![f32::NAN; positions * d], vec![f32::NAN; evaluations * (d + 1)]);
                let mut hidden = vec![f32::NAN; evaluations * m];
                trajectory_forward(shape, weights, start, &mut out, &mut inputs, &mut hidden).unwrap();
                assert_close("positions", isa, &out, &want, 1e-6, 1e-6);
                let mut gradients = vec![f32::NAN; parameters.len()];
                let mut rest = &mut gradients[..];
                let [start, w1, b1, w2, b2] = sizes.map(|size| rest.split_off_mut(..size).unwrap());
                let into = TrajectoryGradients { start, w1, b1, w2, b2 };
                trajectory_backward(shape, weights, &inputs, &hidden, &grad, into).unwrap();
                assert_close("gradients", isa, &gradients, &want_gradient, 3e-6, 3e-6);
            });
        }
    }

    #[test]
    fn wrong_sizes_are_refused() {
        let shape = TrajectoryShape { positions: 2, steps: 1, delta: 0.1, d_model: 1, d_hidden: 1 };
        let run = |shape, start: &[f32], out: &mut [f32]| {
            let weights = TrajectoryWeights { w1: &[0.0; 2], b1: &[0.0], w2: &[0.0], b2: &[0.0] };
            trajectory_forward(shape, weights, start, out, &mut [0.0; 8], &mut [0.0; 4])
        };
        assert!(run(shape, &[0.0], &mut [0.0; 2]).is_ok());
        assert!(matches!(run(shape, &[0.0; 2], &mut [0.0; 2]), Err(KernelError::Length { what: "start", .. })));
        assert!(matches!(run(shape, &[0.0], &mut [0.0; 3]), Err(KernelError::Length { what: "positions", .. })));
        for bad in [
            TrajectoryShape { steps: 0, ..shape },
            TrajectoryShape { positions: 0, ..shape },
            TrajectoryShape { positions: usize::MAX, ..shape },
            TrajectoryShape { delta: f32::NAN, ..shape },
        ] {
            assert!(matches!(run(bad, &[0.0], &mut [0.0; 2]), Err(KernelError::Invalid { .. })), "{bad:?}");
        }
    }
}
