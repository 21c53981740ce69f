//! Trajectory of a point moved by a small network: solves `dp/dt = tanh([p; t] W₁ + b₁) W₂ + b₂` from a given start with
//! the classical Runge–Kutta method. See [`regard_kernels::trajectory`].

use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use regard_kernels::trajectory as kernel;
use regard_kernels::trajectory::TrajectoryShape;
use regard_kernels::unwritten;

use crate::error::{OpError, check_shape};
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, is_fused, tensor};

/// Parameters of the network that moves the point.
#[derive(Debug, Clone)]
pub struct TrajectoryWeights {
    /// `W₁`, `[d_model + 1, d_hidden]`; the last row belongs to the time.
    pub w1: Tensor<2>,
    /// `b₁`, `[d_hidden]`.
    pub b1: Tensor<1>,
    /// `W₂`, `[d_hidden, d_model]`.
    pub w2: Tensor<2>,
    /// `b₂`, `[d_model]`.
    pub b2: Tensor<1>,
}

/// The points to compute, and the step size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrajectoryOptions {
    /// Number of points, the start included.
    pub positions: usize,
    /// Number of Runge–Kutta steps from one point to the next.
    pub steps: usize,
    /// Time from one point to the next.
    pub delta: f32,
}

/// Computes the points at the times `0, delta, 2·delta, …`; the first is `start`.
///
/// # Shapes
/// `start` `[d_model]`, weights as in [`TrajectoryWeights`] → `[positions, d_model]`. No size may be zero.
pub fn trajectory(
    start: Tensor<1>,
    weights: TrajectoryWeights,
    options: TrajectoryOptions,
) -> Result<Tensor<2>, OpError> {
    let shape = check(&start, &weights, options)?;
    if !is_fused(&start) {
        return Ok(trajectory_fallback(start, weights, options));
    }
    let TrajectoryWeights { w1, b1, w2, b2 } = weights;
    let (w1, b1, w2, b2) = (w1.into_dispatch(), b1.into_dispatch(), w2.into_dispatch(), b2.into_dispatch());
    apply(Trajectory { shape }, [start.into_dispatch(), w1, b1, w2, b2])
}

/// [`trajectory`] in plain Burn operations, without its argument checks.
pub fn trajectory_fallback(start: Tensor<1>, weights: TrajectoryWeights, options: TrajectoryOptions) -> Tensor<2> {
    let TrajectoryWeights { w1, b1, w2, b2 } = weights;
    let TrajectoryOptions { positions, steps, delta } = options;
    let d_model = start.dims()[0];
    let (time_weights, w1) = (w1.clone().narrow(0, d_model, 1), w1.narrow(0, 0, d_model));
    let (b1, b2): (Tensor<2>, Tensor<2>) = (b1.unsqueeze(), b2.unsqueeze());
    let slope = |t: f64, p: Tensor<2>| {
        let hidden = (p.matmul(w1.clone()) + time_weights.clone() * t + b1.clone()).tanh();
        hidden.matmul(w2.clone()) + b2.clone()
    };
    let size = f64::from(delta) / steps as f64;
    let mut point: Tensor<2> = start.unsqueeze();
    let mut points = vec![point.clone()];
    for step in 0..(positions - 1) * steps {
        let t = step as f64 * size;
        let k1 = slope(t, point.clone());
        let k2 = slope(t + size / 2.0, point.clone() + k1.clone() * (size / 2.0));
        let k3 = slope(t + size / 2.0, point.clone() + k2.clone() * (size / 2.0));
        let k4 = slope(t + size, point.clone() + k3.clone() * size);
        point = point + (k1 + k4 + (k2 + k3) * 2.0) * (size / 6.0);
        if (step + 1) % steps == 0 {
            points.push(point.clone());
        }
    }
    Tensor::cat(points, 0)
}

/// Checks the arguments and returns their sizes.
fn check(
    start: &Tensor<1>,
    weights: &TrajectoryWeights,
    options: TrajectoryOptions,
) -> Result<TrajectoryShape, OpError> {
    let TrajectoryWeights { w1, b1, w2, b2 } = weights;
    let TrajectoryOptions { positions, steps, delta } = options;
    check_f32("start", start)?;
    check_f32("w1", w1)?;
    check_f32("b1", b1)?;
    check_f32("w2", w2)?;
    check_f32("b2", b2)?;
    let ([d_model], [d_hidden]) = (start.dims(), b1.dims());
    for (what, size) in [("start", d_model), ("b1", d_hidden)] {
        if size == 0 {
            return Err(OpError::Shape { what, expected: "[1 or more]".to_string(), got: vec![0] });
        }
    }
    check_shape("w1", w1.dims(), [d_model + 1, d_hidden])?;
    check_shape("w2", w2.dims(), [d_hidden, d_model])?;
    check_shape("b2", b2.dims(), [d_model])?;
    for (what, size) in [("positions", positions), ("steps", steps)] {
        if size == 0 {
            return Err(OpError::Option { what, why: "expected 1 or more, got 0".to_string() });
        }
    }
    if !delta.is_finite() {
        return Err(OpError::Option { what: "delta", why: format!("expected a finite number, got {delta}") });
    }
    let shape = TrajectoryShape { positions, steps, delta, d_model, d_hidden };
    // The values saved by every evaluation must fit in memory.
    let kept = shape.evaluations().and_then(|evaluations| evaluations.checked_mul(d_model.max(d_hidden) + 1));
    if kept.is_none_or(|kept| kept > isize::MAX as usize / 16) {
        let why = format!("{positions} with {steps} steps each do not fit in memory");
        return Err(OpError::Option { what: "positions", why });
    }
    Ok(shape)
}

/// The fused operation. Its inputs are the start, `w1`, `b1`, `w2` and `b2`.
#[derive(Debug, Clone)]
struct Trajectory {
    shape: TrajectoryShape,
}

#[derive(Debug, Clone)]
struct Saved {
    /// `w1`, `b1`, `w2`, `b2`.
    weights: [FlexTensor; 4],
    inputs: Vec<f32>,
    hidden: Vec<f32>,
}

impl FusedOp<5> for Trajectory {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; 5], _: Purpose) -> Result<(FlexTensor, Saved), OpError> {
        let TrajectoryShape { positions, d_model, d_hidden, .. } = self.shape;
        let evaluations = self.shape.evaluations().expect("checked by the operation");
        let [start, w1, b1, w2, b2] = inputs.map(contiguous);
        let mut saved = Saved {
            weights: [w1, b1, w2, b2],
            inputs: unwritten(evaluations * (d_model + 1)),
            hidden: unwritten(evaluations * d_hidden),
        };
        let mut out = unwritten(positions * d_model);
        let [w1, b1, w2, b2] = saved.weights.each_ref().map(elements);
        let weights = kernel::TrajectoryWeights { w1, b1, w2, b2 };
        let (inputs, hidden) = (&mut saved.inputs, &mut saved.hidden);
        kernel::trajectory_forward(self.shape, weights, elements(&start), &mut out, inputs, hidden)?;
        Ok((tensor(out, [positions, d_model]), saved))
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, _: [bool; 5]) -> Result<[Option<FlexTensor>; 5], OpError> {
        let TrajectoryShape { d_model, d_hidden, .. } = self.shape;
        let grad = contiguous(grad);
        let product = d_model * d_hidden;
        let mut grads = [d_model, product + d_hidden, d_hidden, product, d_model].map(unwritten);
        let [w1, b1, w2, b2] = saved.weights.each_ref().map(elements);
        let weights = kernel::TrajectoryWeights { w1, b1, w2, b2 };
        let [start, grad_w1, grad_b1, grad_w2, grad_b2] = &mut grads;
        let into = kernel::TrajectoryGradients { start, w1: grad_w1, b1: grad_b1, w2: grad_w2, b2: grad_b2 };
        kernel::trajectory_backward(self.shape, weights, &saved.inputs, &saved.hidden, elements(&grad), into)?;
        let [start, w1, b1, w2, b2] = grads;
        Ok([
            Some(tensor(start, [d_model])),
            Some(tensor(w1, [d_model + 1, d_hidden])),
            Some(tensor(b1, [d_hidden])),
            Some(tensor(w2, [d_hidden, d_model])),
            Some(tensor(b2, [d_model])),
        ])
    }
}
