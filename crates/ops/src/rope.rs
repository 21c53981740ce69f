//! Rotary position embedding ([Su et al. 2021](https://arxiv.org/abs/2104.09864)): rotates pairs of features by an angle
//! that depends on the position.

use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use regard_kernels::rope::{LearnedAngles, Pairing, RopeShape, rope_backward, rope_forward};
use regard_kernels::unwritten;

use crate::error::{OpError, check_shape};
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, is_fused, is_tracked, sizes, tensor};

/// Rotates each pair of features by its angle. The angles may be fixed ([`rope_angles`]) or learned; they get a gradient.
///
/// # Shapes
/// `x` `[batch, heads, seq, d_head]`, `angles` `[seq, d_head/2]` → `[batch, heads, seq, d_head]`; `d_head` is even.
pub fn rope(x: Tensor<4>, angles: Tensor<2>, pairing: Pairing) -> Result<Tensor<4>, OpError> {
    check_f32("input", &x)?;
    check_f32("angles", &angles)?;
    let [batch, heads, seq, d_head] = x.dims();
    if d_head == 0 || d_head % 2 == 1 {
        let expected = "[batch, heads, seq, d_head] with an even d_head".to_string();
        return Err(OpError::Shape { what: "input", expected, got: x.dims().to_vec() });
    }
    check_shape("angles", angles.dims(), [seq, d_head / 2])?;
    if !is_fused(&x) {
        return Ok(rope_fallback(x, angles, pairing));
    }
    let shape = RopeShape::apart(batch.saturating_mul(heads), seq, d_head);
    let operation = Rope::<4> { shape, pairing, learned: is_tracked(&angles) };
    apply(operation, [x.into_dispatch(), angles.into_dispatch()])
}

/// [`rope`] of the first `turned` heads of a packed tensor, in which heads lie side by side, such as the queries and keys
/// in a tensor of queries, keys and values. The other heads are unchanged.
///
/// # Shapes
/// `x` `[batch, seq, heads · d_head]`, `angles` `[seq, d_head/2]` → `[batch, seq, heads · d_head]`.
pub fn rope_packed(x: Tensor<3>, turned: usize, angles: Tensor<2>, pairing: Pairing) -> Result<Tensor<3>, OpError> {
    check_f32("input", &x)?;
    check_f32("angles", &angles)?;
    let ([batch, seq, width], d_head) = (x.dims(), angles.dims()[1].saturating_mul(2));
    if d_head == 0 || !width.is_multiple_of(d_head) || turned > width / d_head {
        let expected =
            format!("[batch, seq, heads · {d_head}] with at least {turned} heads; angles are [seq, d_head/2]");
        return Err(OpError::Shape { what: "input", expected, got: x.dims().to_vec() });
    }
    check_shape("angles", angles.dims(), [seq, d_head / 2])?;
    if !is_fused(&x) {
        return Ok(rope_packed_fallback(x, turned, angles, pairing));
    }
    let shape = RopeShape { outer: batch, seq, heads: width / d_head, turned, d_head };
    let operation = Rope::<3> { shape, pairing, learned: is_tracked(&angles) };
    apply(operation, [x.into_dispatch(), angles.into_dispatch()])
}

/// [`rope_packed`] in plain Burn operations, without its argument checks.
pub fn rope_packed_fallback(x: Tensor<3>, turned: usize, angles: Tensor<2>, pairing: Pairing) -> Tensor<3> {
    let (shape @ [batch, seq, width], d_head) = (x.dims(), 2 * angles.dims()[1]);
    let heads = width / d_head;
    let x = x.reshape([batch, seq, heads, d_head]).swap_dims(1, 2);
    let parts = [(0, turned), (turned, heads - turned)].into_iter().filter(|(_, count)| *count > 0);
    let parts = parts.map(|(first, count)| match first < turned {
        true => rope_fallback(x.clone().narrow(1, first, count), angles.clone(), pairing),
        false => x.clone().narrow(1, first, count),
    });
    Tensor::cat(parts.collect(), 1).swap_dims(1, 2).reshape(shape)
}

/// [`rope`] in plain Burn operations, without its argument checks.
pub fn rope_fallback(x: Tensor<4>, angles: Tensor<2>, pairing: Pairing) -> Tensor<4> {
    let shape @ [batch, heads, seq, d_head] = x.dims();
    let half = d_head / 2;
    // Reshaped so that the two members of a pair lie along a dimension of their own.
    let (split, member) = match pairing {
        Pairing::Interleaved => ([batch, heads, seq, half, 2], 4),
        Pairing::Halves => ([batch, heads, seq, 2, half], 3),
    };
    let x = x.reshape(split);
    let a: Tensor<4> = x.clone().narrow(member, 0, 1).squeeze_dim(member);
    let b: Tensor<4> = x.narrow(member, 1, 1).squeeze_dim(member);
    let (cos, sin) = (angles.clone().cos().unsqueeze(), angles.sin().unsqueeze());
    let turned = vec![a.clone() * cos.clone() - b.clone() * sin.clone(), a * sin + b * cos];
    Tensor::stack::<5>(turned, member).reshape(shape)
}

/// Computes the angles `[seq, d_head/2]` of the positions `offset..offset + seq`. The angle of pair `i` at position `p`
/// is `p / base^(2i/d_head)`.
pub fn rope_angles(seq: usize, d_head: usize, base: f32, offset: usize) -> Vec<f32> {
    // Computed in f64, because a large position would multiply the rounding error of an f32 power.
    let slowness: Vec<f64> = (0..d_head / 2).map(|i| f64::from(base).powf((2 * i) as f64 / d_head as f64)).collect();
    (offset..offset + seq).flat_map(|p| slowness.iter().map(move |slowness| (p as f64 / slowness) as f32)).collect()
}

/// The fused operation. Its inputs are `x` and the angles.
#[derive(Debug, Clone)]
struct Rope<const D: usize> {
    shape: RopeShape,
    pairing: Pairing,
    learned: bool,
}

/// Values kept for the backward pass.
#[derive(Debug, Clone)]
struct Saved {
    /// The input, needed only for the gradient of the angles.
    x: Option<FlexTensor>,
    angles: FlexTensor,
}

impl<const D: usize> FusedOp<2> for Rope<D> {
    type Saved = Saved;

    fn forward(&self, inputs: [FlexTensor; 2], _: Purpose) -> Result<(FlexTensor, Saved), OpError> {
        let [x, angles] = inputs.map(contiguous);
        let sizes: [usize; D] = sizes(&x);
        let mut out = unwritten(sizes.iter().product());
        rope_forward(elements(&x), self.shape, elements(&angles), self.pairing, &mut out)?;
        Ok((tensor(out, sizes), Saved { x: self.learned.then_some(x), angles }))
    }

    fn backward(&self, saved: Saved, grad: FlexTensor, wanted: [bool; 2]) -> Result<[Option<FlexTensor>; 2], OpError> {
        let Saved { x, angles } = saved;
        let grad = contiguous(grad);
        let sizes: [usize; D] = sizes(&grad);
        let RopeShape { seq, d_head, .. } = self.shape;
        let mut grad_x = unwritten(sizes.iter().product());
        let mut grad_angles = x.as_ref().map(|_| unwritten(seq * d_head / 2));
        let learned = x.as_ref().zip(grad_angles.as_mut()).map(|(x, grad)| LearnedAngles { x: elements(x), grad });
        rope_backward(self.shape, elements(&angles), self.pairing, elements(&grad), &mut grad_x, learned)?;
        let grad_angles = grad_angles.map(|grad| tensor(grad, [seq, d_head / 2]));
        Ok([wanted[0].then(|| tensor(grad_x, sizes)), grad_angles])
    }
}
