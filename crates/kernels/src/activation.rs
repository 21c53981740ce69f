//! Elementwise activations and their gradients.
//!
//! | kind | value | derivative |
//! |---|---|---|
//! | [`Activation::Relu`] | `max(x, 0)` | `1` where `x > 0`, else `0` |
//! | [`Activation::Gelu`] | `x Φ(x)`, `Φ(x) = (1 + erf(x/√2))/2` | `Φ(x) + x φ(x)` |
//! | [`Activation::GeluTanh`] | `x (1 + tanh u)/2 = x σ(2u)`, `u = √(2/π)(x + 0.044715 x³)` | `s + x s (1 − s) 2u'`, `s = σ(2u)` |
//! | [`Activation::Silu`] | `x σ(x)` | `s (1 + x (1 − s))`, `s = σ(x)` |
//! | [`Activation::Tanh`] | `tanh x` | `1 − tanh² x` |
//! | [`Activation::Sigmoid`] | `σ(x) = 1/(1 + e⁻ˣ)` | `s (1 − s)` |
//! | [`Activation::Elu`] | `x` where `x > 0`, else `eˣ − 1` | `1` where `x > 0`, else `eˣ` |

use pulp::{Simd, WithSimd};

use crate::error::{KernelError, check_len};
use crate::isa::dispatch;
use crate::parallel::for_each_rows;
use crate::vector;

/// An elementwise activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `max(x, 0)`.
    Relu,
    /// The Gaussian error linear unit, exact by the error function.
    Gelu,
    /// The Gaussian error linear unit in the `tanh` approximation of GPT-2.
    GeluTanh,
    /// `x σ(x)`, also called swish.
    Silu,
    /// The hyperbolic tangent.
    Tanh,
    /// The logistic function.
    Sigmoid,
    /// The exponential linear unit (Clevert et al. 2016) with `α = 1`.
    Elu,
}

/// Computes `out[i] = f(x[i])`.
///
/// # Shapes
/// `x` and `out` have any shape, the same for both.
pub fn activation_forward(kind: Activation, x: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
    check_len("activation out", out.len(), x.len())?;
    for_each_rows(out, 1, |start, out| activate(kind, &x[start..start + out.len()], out));
    Ok(())
}

/// Computes `out[i] = f'(x[i]) grad[i]`, where `x` is the input of the forward pass.
///
/// # Shapes
/// `x`, `grad` and `out` have any shape, the same for all.
pub fn activation_backward(kind: Activation, x: &[f32], grad: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
    check_len("activation grad", grad.len(), x.len())?;
    check_len("activation out", out.len(), x.len())?;
    for_each_rows(out, 1, |start, out| {
        let end = start + out.len();
        differentiate(kind, &x[start..end], &grad[start..end], out);
    });
    Ok(())
}

/// Computes [`activation_forward`] on the calling thread, without checks.
pub(crate) fn activate(kind: Activation, x: &[f32], out: &mut [f32]) {
    dispatch(Forward { kind, x, out });
}

/// Adds `bias` to every row of `pre`, then computes `out[i] = f(pre[i])`, in one pass.
pub(crate) fn add_bias_and_activate(kind: Activation, bias: &[f32], pre: &mut [f32], out: &mut [f32]) {
    dispatch(BiasForward { kind, bias, pre, out });
}

/// Computes [`activation_backward`] on the calling thread, without checks.
pub(crate) fn differentiate(kind: Activation, x: &[f32], grad: &[f32], out: &mut [f32]) {
    dispatch(Backward { kind, x, grad, out });
}

struct Forward<'a> {
    kind: Activation,
    x: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Forward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        forward(simd, self.kind, self.x, self.out);
    }
}

struct BiasForward<'a> {
    kind: Activation,
    bias: &'a [f32],
    pre: &'a mut [f32],
    out: &'a mut [f32],
}

impl WithSimd for BiasForward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let width = self.bias.len();
        for (pre, out) in self.pre.chunks_exact_mut(width).zip(self.out.chunks_exact_mut(width)) {
            vector::add_in_place(simd, pre, self.bias);
            forward(simd, self.kind, pre, out);
        }
    }
}

struct Backward<'a> {
    kind: Activation,
    x: &'a [f32],
    grad: &'a [f32],
    out: &'a mut [f32],
}

impl WithSimd for Backward<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        macro_rules! zip {
            ($derivative:ident) => {
                vector::zip!(simd, self.x, self.grad, self.out, |x, grad| simd.mul_f32s($derivative(simd, x), grad))
            };
        }
        match self.kind {
            // A selection, not a product: an infinite gradient where x ≤ 0 gives 0, not NaN.
            Activation::Relu => vector::zip!(simd, self.x, self.grad, self.out, |x, grad| {
                let zero = simd.splat_f32s(0.0);
                simd.select_f32s(simd.less_than_or_equal_f32s(x, zero), zero, grad)
            }),
            Activation::Gelu => zip!(gelu_derivative),
            Activation::GeluTanh => zip!(gelu_tanh_derivative),
            Activation::Silu => zip!(silu_derivative),
            Activation::Tanh => zip!(tanh_derivative),
            Activation::Sigmoid => zip!(sigmoid_derivative),
            Activation::Elu => zip!(elu_derivative),
        }
    }
}

/// Computes the activation of a slice, with the choice of function outside the loop.
#[inline(always)]
fn forward<S: Simd>(simd: S, kind: Activation, x: &[f32], out: &mut [f32]) {
    macro_rules! map {
        ($function:path) => {
            vector::map!(simd, x, out, |x| $function(simd, x))
        };
    }
    match kind {
        Activation::Relu => map!(relu),
        Activation::Gelu => map!(gelu),
        Activation::GeluTanh => map!(gelu_tanh),
        Activation::Silu => map!(silu),
        Activation::Tanh => map!(vector::tanh),
        Activation::Sigmoid => map!(vector::sigmoid),
        Activation::Elu => map!(elu),
    }
}

/// `max(x, 0)`; NaN for NaN.
#[inline(always)]
pub(crate) fn relu<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let zero = simd.splat_f32s(0.0);
    simd.select_f32s(simd.less_than_f32s(x, zero), zero, x)
}

#[inline(always)]
fn gelu<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    simd.mul_f32s(x, vector::normal(simd, x).0)
}

#[inline(always)]
fn gelu_derivative<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let (cdf, density) = vector::normal(simd, x);
    simd.mul_add_e_f32s(x, density, cdf)
}

/// 2√(2/π).
const TWICE_ROOT: f32 = 1.595_769_2;
const CUBIC: f32 = 0.044_715;

/// `σ(2u)`: no cancellation for negative `x`, unlike `(1 + tanh u)/2`.
#[inline(always)]
fn gelu_tanh_gate<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let squared = simd.mul_f32s(x, x);
    let slope = simd.mul_add_e_f32s(squared, simd.splat_f32s(TWICE_ROOT * CUBIC), simd.splat_f32s(TWICE_ROOT));
    vector::sigmoid(simd, simd.mul_f32s(slope, x))
}

#[inline(always)]
fn gelu_tanh<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    simd.mul_f32s(x, gelu_tanh_gate(simd, x))
}

#[inline(always)]
fn gelu_tanh_derivative<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let s = gelu_tanh_gate(simd, x);
    // s (1 − s) is zero beyond 16; the bound keeps x² from making it 0·∞.
    let beyond = simd.greater_than_f32s(simd.abs_f32s(x), simd.splat_f32s(16.0));
    let bounded = simd.select_f32s(beyond, simd.splat_f32s(16.0), x);
    let squared = simd.mul_f32s(bounded, bounded);
    let slope = simd.mul_add_e_f32s(squared, simd.splat_f32s(3.0 * TWICE_ROOT * CUBIC), simd.splat_f32s(TWICE_ROOT));
    let spread = simd.mul_f32s(s, simd.sub_f32s(simd.splat_f32s(1.0), s));
    simd.mul_add_e_f32s(simd.mul_f32s(bounded, slope), spread, s)
}

#[inline(always)]
fn silu<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    simd.mul_f32s(x, vector::sigmoid(simd, x))
}

#[inline(always)]
fn silu_derivative<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let one = simd.splat_f32s(1.0);
    let s = vector::sigmoid(simd, x);
    simd.mul_f32s(s, simd.mul_add_e_f32s(x, simd.sub_f32s(one, s), one))
}

#[inline(always)]
fn tanh_derivative<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let t = vector::tanh(simd, x);
    simd.mul_add_e_f32s(simd.neg_f32s(t), t, simd.splat_f32s(1.0))
}

#[inline(always)]
fn sigmoid_derivative<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let s = vector::sigmoid(simd, x);
    simd.mul_f32s(s, simd.sub_f32s(simd.splat_f32s(1.0), s))
}

/// `x`, or `eˣ − 1 = 2t / (1 − t)` with `t = tanh(x/2)` for a negative `x`, which does not cancel near zero.
#[inline(always)]
fn elu<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let t = vector::tanh(simd, simd.mul_f32s(x, simd.splat_f32s(0.5)));
    let below = simd.div_f32s(simd.add_f32s(t, t), simd.sub_f32s(simd.splat_f32s(1.0), t));
    simd.select_f32s(simd.greater_than_f32s(x, simd.splat_f32s(0.0)), x, below)
}

#[inline(always)]
fn elu_derivative<S: Simd>(simd: S, x: S::f32s) -> S::f32s {
    let above = simd.greater_than_f32s(x, simd.splat_f32s(0.0));
    simd.select_f32s(above, simd.splat_f32s(1.0), vector::exp(simd, x))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::isa::on_every_isa;
    use crate::test_support::{assert_close, numbers, wide};
    use proptest::prelude::*;

    pub(crate) const ALL: [Activation; 7] = [
        Activation::Relu,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Silu,
        Activation::Tanh,
        Activation::Sigmoid,
        Activation::Elu,
    ];

    /// `Φ(x)` by Simpson's rule on the density from 0.
    fn cdf(x: f64) -> f64 {
        let (n, end) = (2000, x.clamp(-40.0, 40.0));
        let h = end / f64::from(n);
        let density = |t: f64| (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let inner: f64 = (1..n).map(|i| density(h * f64::from(i)) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum();
        0.5 + h / 3.0 * (density(0.0) + inner + density(end))
    }

    pub(crate) fn exact(kind: Activation, x: f64) -> f64 {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        match kind {
            Activation::Relu => x.max(0.0),
            Activation::Gelu => x * cdf(x),
            Activation::GeluTanh => {
                0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
            }
            Activation::Silu => x * sigmoid(x),
            Activation::Tanh => x.tanh(),
            Activation::Sigmoid => sigmoid(x),
            Activation::Elu => {
                if x > 0.0 {
                    x
                } else {
                    x.exp_m1()
                }
            }
        }
    }

    pub(crate) fn exact_derivative(kind: Activation, x: f64) -> f64 {
        if kind == Activation::Relu {
            // A finite difference would reach across the corner.
            return if x > 0.0 { 1.0 } else { 0.0 };
        }
        let step = 1e-5 * x.abs().max(1.0);
        (exact(kind, x + step) - exact(kind, x - step)) / (2.0 * step)
    }

    fn check(x: &[f32]) {
        let grad = numbers(x.len(), 9, 2.0);
        on_every_isa(|isa| {
            for kind in ALL {
                let mut out = vec![f32::NAN; x.len()];
                activation_forward(kind, x, &mut out).unwrap();
                let want: Vec<f64> = wide(x).iter().map(|&x| exact(kind, x)).collect();
                assert_close(&format!("{kind:?}"), isa, &out, &want, 4e-7, 4e-7);
                activation_backward(kind, x, &grad, &mut out).unwrap();
                let want: Vec<f64> =
                    x.iter().zip(&grad).map(|(&x, &g)| exact_derivative(kind, f64::from(x)) * f64::from(g)).collect();
                assert_close(&format!("{kind:?} gradient"), isa, &out, &want, 3e-6, 1e-6);
            }
        });
    }

    #[test]
    fn agrees_with_the_formula() {
        for n in [1, 2, 15, 16, 17, 37] {
            check(&numbers(n, n as u64, 6.0));
        }
    }

    #[test]
    fn extreme_inputs_stay_finite() {
        check(&[1e4, -1e4, 100.0, -100.0, 20.0, -20.0]);
        on_every_isa(|isa| {
            for kind in ALL {
                let x = [1e30, -1e30, 0.0, f32::MIN_POSITIVE];
                let mut out = [f32::NAN; 4];
                activation_forward(kind, &x, &mut out).unwrap();
                assert!(out.iter().all(|x| x.is_finite()), "{kind:?} on {isa:?}: {out:?}");
                activation_backward(kind, &x, &[1.0; 4], &mut out).unwrap();
                assert!(out.iter().all(|x| x.is_finite()), "{kind:?} gradient on {isa:?}: {out:?}");
            }
        });
    }

    #[test]
    fn nan_comes_through() {
        on_every_isa(|isa| {
            for kind in ALL {
                let mut out = [0.0; 3];
                activation_forward(kind, &[1.0, f32::NAN, 2.0], &mut out).unwrap();
                assert!(out[1].is_nan() && !out[0].is_nan(), "{kind:?} on {isa:?}");
                activation_backward(kind, &[1.0; 3], &[1.0, f32::NAN, 1.0], &mut out).unwrap();
                assert!(out[1].is_nan() && !out[2].is_nan(), "{kind:?} gradient on {isa:?}");
            }
        });
    }

    #[test]
    fn large_inputs_agree_with_small_ones() {
        let x = numbers(100_003, 4, 5.0);
        let (mut whole, mut part) = (vec![0.0; x.len()], vec![0.0; 77]);
        activation_forward(Activation::Gelu, &x, &mut whole).unwrap();
        activation_forward(Activation::Gelu, &x[x.len() - 77..], &mut part).unwrap();
        assert_close("tail", crate::Isa::current(), &whole[x.len() - 77..], &wide(&part), 1e-7, 1e-7);
    }

    #[test]
    fn lengths_are_checked_and_empty_slices_are_fine() {
        assert!(activation_forward(Activation::Relu, &[1.0], &mut []).is_err());
        assert!(activation_backward(Activation::Relu, &[1.0], &[], &mut [0.0]).is_err());
        assert!(activation_backward(Activation::Relu, &[1.0], &[1.0], &mut [0.0; 2]).is_err());
        activation_forward(Activation::Relu, &[], &mut []).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn any_length(n in 0_usize..70, seed in 0_u64..1000) {
            check(&numbers(n, seed, 4.0));
        }
    }
}
