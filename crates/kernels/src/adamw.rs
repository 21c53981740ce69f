//! AdamW ([Loshchilov and Hutter 2019](https://arxiv.org/abs/1711.05101)), as PyTorch computes it, over all tensors
//! of a model at once.
//!
//! ```text
//! g ← gradient · gradient_scale + κ p      κ p where the tensor decays
//! p ← p (1 − lr λ)                        where the tensor decays
//! m ← β₁ m + (1 − β₁) g,   v ← β₂ v + (1 − β₂) g²
//! p ← p − lr/(1 − β₁ᵗ) · m / (√v/√(1 − β₂ᵗ) + ε)
//! ```
//! A tensor may have a learning rate of its own, a multiple of `lr`.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::error::{KernelError, check_len};
use crate::isa::dispatch;
use crate::parallel::SERIAL_ELEMENTS;
use crate::vector;

/// Number of elements up to which all tensors stay on the calling thread: waking another costs a tiny training step 40 µs
/// of 800.
const SERIAL_TOTAL: usize = 256 * 1024;

/// The settings of AdamW.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamWOptions {
    /// Learning rate, `lr`.
    pub learning_rate: f32,
    /// Decay of the first moment, `β₁`.
    pub beta1: f32,
    /// Decay of the second moment, `β₂`.
    pub beta2: f32,
    /// Number added to the root of the second moment, `ε`.
    pub epsilon: f32,
    /// Decoupled weight decay, `λ`.
    pub weight_decay: f32,
    /// Weight decay in the gradient, `κ`, as in Adam with an L2 penalty `κ/2 ‖p‖²`.
    pub l2: f32,
}

/// A tensor and its optimiser state; all slices have the same length.
#[derive(Debug)]
pub struct AdamWTensor<'a> {
    /// The parameters, which are updated.
    pub parameter: &'a mut [f32],
    /// The gradient of the parameters.
    pub gradient: &'a [f32],
    /// Running mean of the gradients, which is updated; zeros before the first step.
    pub first_moment: &'a mut [f32],
    /// Running mean of their squares, which is updated; zeros before the first step.
    pub second_moment: &'a mut [f32],
    /// Whether weight decay applies; by custom it does not to biases and norms.
    pub decay: bool,
    /// Factor on the learning rate; 1 for the rate of the options.
    pub rate: f32,
}

/// Returns `√Σ g²` over all gradients. To clip them, pass `max_norm / norm` as `gradient_scale` if that is below 1.
///
/// Squares that overflow f32 are summed in f64; a NaN gives NaN.
pub fn global_norm<'a>(gradients: impl Iterator<Item = &'a [f32]>) -> f32 {
    let gradients: Vec<&[f32]> = gradients.collect();
    let total: usize = gradients.iter().map(|gradient| gradient.len()).sum();
    let pieces = gradients.iter().flat_map(|gradient| gradient.chunks(SERIAL_ELEMENTS));
    let sum: f64 = if total <= SERIAL_TOTAL {
        pieces.map(sum_of_squares).sum()
    } else {
        let pieces: Vec<&[f32]> = pieces.collect();
        let sums: Vec<f64> = pieces.into_par_iter().map(sum_of_squares).collect();
        sums.iter().sum()
    };
    sum.sqrt() as f32
}

/// Updates every tensor once; `step` counts from 1.
///
/// # Shapes
/// The slices of a tensor have the same length; tensors may differ.
pub fn adamw_step(
    tensors: &mut [AdamWTensor<'_>],
    options: &AdamWOptions,
    step: u64,
    gradient_scale: f32,
) -> Result<(), KernelError> {
    if step == 0 {
        return Err(KernelError::Invalid { what: "adamw step", why: "steps count from 1, got 0".to_string() });
    }
    for tensor in tensors.iter() {
        let len = tensor.parameter.len();
        check_len("adamw gradient", tensor.gradient.len(), len)?;
        check_len("adamw first moment", tensor.first_moment.len(), len)?;
        check_len("adamw second moment", tensor.second_moment.len(), len)?;
    }
    let power = |beta: f32| 1.0 - f64::from(beta).powf(step as f64);
    let constants = Constants {
        scale: gradient_scale,
        beta1: options.beta1,
        beta2: options.beta2,
        epsilon: options.epsilon,
        learning_rate: options.learning_rate.into(),
        correction: power(options.beta1),
        inverse_root: (1.0 / power(options.beta2).sqrt()) as f32,
        weight_decay: options.weight_decay.into(),
        l2: options.l2,
    };
    let total: usize = tensors.iter().map(|tensor| tensor.parameter.len()).sum();
    if total <= SERIAL_TOTAL {
        tensors.iter_mut().flat_map(|tensor| pieces(tensor, &constants)).for_each(dispatch);
    } else {
        let pieces: Vec<Update<'_>> = tensors.iter_mut().flat_map(|tensor| pieces(tensor, &constants)).collect();
        pieces.into_par_iter().for_each(dispatch);
    }
    Ok(())
}

/// Returns the work on one tensor in pieces, so that a large tensor does not keep a single thread busy.
fn pieces<'a>(tensor: &'a mut AdamWTensor<'_>, constants: &'a Constants) -> impl Iterator<Item = Update<'a>> {
    let rate = constants.learning_rate * f64::from(tensor.rate);
    let step_length = (rate / constants.correction) as f32;
    let shrink = (1.0 - rate * constants.weight_decay) as f32;
    let (shrink, l2) = if tensor.decay { (shrink, constants.l2) } else { (1.0, 0.0) };
    let parameter = tensor.parameter.chunks_mut(SERIAL_ELEMENTS);
    let moments = tensor.first_moment.chunks_mut(SERIAL_ELEMENTS).zip(tensor.second_moment.chunks_mut(SERIAL_ELEMENTS));
    parameter.zip(tensor.gradient.chunks(SERIAL_ELEMENTS)).zip(moments).map(
        move |((parameter, gradient), (first, second))| Update {
            parameter,
            gradient,
            first,
            second,
            step_length,
            shrink,
            l2,
            constants,
        },
    )
}

struct Constants {
    scale: f32,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    /// `lr`.
    learning_rate: f64,
    /// `1 − β₁ᵗ`.
    correction: f64,
    /// `1/√(1 − β₂ᵗ)`.
    inverse_root: f32,
    /// `λ`.
    weight_decay: f64,
    /// `κ`.
    l2: f32,
}

struct Update<'a> {
    parameter: &'a mut [f32],
    gradient: &'a [f32],
    first: &'a mut [f32],
    second: &'a mut [f32],
    /// `lr/(1 − β₁ᵗ)`.
    step_length: f32,
    /// `1 − lr λ`.
    shrink: f32,
    l2: f32,
    constants: &'a Constants,
}

impl WithSimd for Update<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (c, own) = (self.constants, [self.step_length, self.shrink, self.l2]);
        let (p, p_tail) = S::as_mut_simd_f32s(self.parameter);
        let (g, g_tail) = S::as_simd_f32s(self.gradient);
        let (m, m_tail) = S::as_mut_simd_f32s(self.first);
        let (v, v_tail) = S::as_mut_simd_f32s(self.second);
        for (((p, g), m), v) in p.iter_mut().zip(g).zip(m).zip(v) {
            (*p, *m, *v) = update(simd, c, own, *p, *g, *m, *v);
        }
        if !p_tail.is_empty() {
            let (p, g) = (simd.partial_load_f32s(p_tail), simd.partial_load_f32s(g_tail));
            let (m, v) = (simd.partial_load_f32s(m_tail), simd.partial_load_f32s(v_tail));
            let (p, m, v) = update(simd, c, own, p, g, m, v);
            simd.partial_store_f32s(p_tail, p);
            simd.partial_store_f32s(m_tail, m);
            simd.partial_store_f32s(v_tail, v);
        }
    }
}

#[inline(always)]
fn update<S: Simd>(
    simd: S,
    c: &Constants,
    [step_length, shrink, l2]: [f32; 3],
    p: S::f32s,
    g: S::f32s,
    m: S::f32s,
    v: S::f32s,
) -> (S::f32s, S::f32s, S::f32s) {
    let g = simd.mul_add_e_f32s(p, simd.splat_f32s(l2), simd.mul_f32s(g, simd.splat_f32s(c.scale)));
    let m = simd.mul_add_e_f32s(m, simd.splat_f32s(c.beta1), simd.mul_f32s(g, simd.splat_f32s(1.0 - c.beta1)));
    let squared = simd.mul_f32s(simd.mul_f32s(g, g), simd.splat_f32s(1.0 - c.beta2));
    let v = simd.mul_add_e_f32s(v, simd.splat_f32s(c.beta2), squared);
    let root = simd.mul_add_e_f32s(simd.sqrt_f32s(v), simd.splat_f32s(c.inverse_root), simd.splat_f32s(c.epsilon));
    let change = simd.div_f32s(m, root);
    let p = simd.mul_add_e_f32s(change, simd.splat_f32s(-step_length), simd.mul_f32s(p, simd.splat_f32s(shrink)));
    (p, m, v)
}

/// Returns `Σ x²` of at most [`SERIAL_ELEMENTS`] elements.
fn sum_of_squares(x: &[f32]) -> f64 {
    let sum = dispatch(Squares(x));
    if sum.is_finite() { f64::from(sum) } else { x.iter().map(|&x| f64::from(x) * f64::from(x)).sum() }
}

struct Squares<'a>(&'a [f32]);

impl WithSimd for Squares<'_> {
    type Output = f32;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> f32 {
        vector::dot(simd, self.0, self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::on_every_isa;
    use crate::test_support::{assert_close, numbers, wide};
    use proptest::prelude::*;

    const OPTIONS: AdamWOptions =
        AdamWOptions { learning_rate: 0.01, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weight_decay: 0.1, l2: 0.0 };

    /// Updates one element by the formula.
    fn exact(options: &AdamWOptions, p: &mut f64, m: &mut f64, v: &mut f64, mut g: f64, t: i32, decay: bool) {
        let AdamWOptions { learning_rate, beta1, beta2, epsilon, weight_decay, l2 } = *options;
        let [lr, b1, b2, epsilon, decay_rate, l2] =
            [learning_rate, beta1, beta2, epsilon, weight_decay, l2].map(f64::from);
        if decay {
            g += l2 * *p;
            *p *= 1.0 - lr * decay_rate;
        }
        *m = b1 * *m + (1.0 - b1) * g;
        *v = b2 * *v + (1.0 - b2) * g * g;
        *p -= lr / (1.0 - b1.powi(t)) * *m / (v.sqrt() / (1.0 - b2.powi(t)).sqrt() + epsilon);
    }

    /// Returns the factor on the learning rate of the tensor with this index.
    fn rate(tensor: usize) -> f32 {
        [1.0, 0.5, 0.125][tensor % 3]
    }

    fn check(sizes: &[usize], scale: f32, options: &AdamWOptions) {
        on_every_isa(|isa| {
            let fresh = |seed, range| sizes.iter().map(|&n| numbers(n, seed, range)).collect::<Vec<_>>();
            let mut p = fresh(1, 1.0);
            let (mut m, mut v) = (fresh(2, 0.0), fresh(3, 0.0));
            let widen = |x: &[Vec<f32>]| x.iter().map(|x| wide(x)).collect::<Vec<_>>();
            let (mut want_p, mut want_m, mut want_v) = (widen(&p), widen(&m), widen(&v));
            for t in 1..=3 {
                let g = fresh(10 + t as u64, 0.5);
                for i in 0..sizes.len() {
                    for j in 0..sizes[i] {
                        let g = f64::from(g[i][j]) * f64::from(scale);
                        let (p, m, v) = (&mut want_p[i][j], &mut want_m[i][j], &mut want_v[i][j]);
                        let own = AdamWOptions { learning_rate: options.learning_rate * rate(i), ..*options };
                        exact(&own, p, m, v, g, t, i % 2 == 0);
                    }
                }
                let state = p.iter_mut().zip(&g).zip(m.iter_mut().zip(&mut v)).enumerate();
                let mut tensors: Vec<_> = state
                    .map(|(i, ((parameter, gradient), (first_moment, second_moment)))| AdamWTensor {
                        parameter,
                        gradient,
                        first_moment,
                        second_moment,
                        decay: i % 2 == 0,
                        rate: rate(i),
                    })
                    .collect();
                adamw_step(&mut tensors, options, t as u64, scale).unwrap();
            }
            for i in 0..sizes.len() {
                assert_close("parameter", isa, &p[i], &want_p[i], 2e-7, 3e-7);
                assert_close("first moment", isa, &m[i], &want_m[i], 1e-7, 1e-6);
                assert_close("second moment", isa, &v[i], &want_v[i], 1e-9, 1e-6);
            }
        });
    }

    #[test]
    fn agrees_with_the_formula() {
        check(&[1, 0, 17, 64, 5], 1.0, &OPTIONS);
        check(&[33], 0.25, &OPTIONS);
        check(&[40_000, 3, 30_001], 1.0, &OPTIONS);
        check(&[33, 17, 64], 0.5, &AdamWOptions { weight_decay: 0.0, l2: 0.3, ..OPTIONS });
    }

    #[test]
    fn global_norm_agrees_with_f64() {
        on_every_isa(|isa| {
            for sizes in [vec![], vec![0], vec![1, 17, 300], vec![40_000, 3, 50_001]] {
                let x: Vec<Vec<f32>> = sizes.iter().map(|&n| numbers(n, n as u64, 3.0)).collect();
                let want = x.iter().flatten().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
                let got = global_norm(x.iter().map(|x| &x[..]));
                assert_close("norm", isa, &[got], &[want], 0.0, 2e-6);
            }
            assert_eq!(global_norm([&[3e30_f32, 4e30][..]].into_iter()), 5e30);
            assert!(global_norm([&[1.0, f32::NAN][..], &[1.0]].into_iter()).is_nan());
            assert_eq!(global_norm([&[1.0, f32::INFINITY][..]].into_iter()), f32::INFINITY);
        });
    }

    #[test]
    fn bad_input_is_refused_before_anything_changes() {
        let (mut p, mut m, mut v) = ([1.0; 2], [0.0; 2], [0.0; 2]);
        let mut tensors = [AdamWTensor {
            parameter: &mut p,
            gradient: &[1.0; 2],
            first_moment: &mut m,
            second_moment: &mut v,
            decay: true,
            rate: 1.0,
        }];
        assert!(adamw_step(&mut tensors, &OPTIONS, 0, 1.0).is_err());
        tensors[0].gradient = &[1.0];
        assert!(adamw_step(&mut tensors, &OPTIONS, 1, 1.0).is_err());
        assert_eq!(p, [1.0; 2]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_size(a in 0_usize..70, b in 0_usize..70, scale in 0.1_f32..2.0) {
            check(&[a, b], scale, &OPTIONS);
        }
    }
}
