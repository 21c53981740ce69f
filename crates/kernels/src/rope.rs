//! Rotary position embedding ([Su et al. 2021](https://arxiv.org/abs/2104.09864)): pairs of features are rotated by an
//! angle that depends on the position.
//!
//! ```text
//! a' = a cos θ − b sin θ        ∂a = ∂a' cos θ + ∂b' sin θ        ∂θ = Σ_outer a' ∂b' − b' ∂a'
//! b' = a sin θ + b cos θ        ∂b = ∂b' cos θ − ∂a' sin θ
//! ```
//!
//! Interleaved pairs are complex numbers `a + ib`, and the rotation is a product with `e^{iθ}`.

use pulp::{Simd, WithSimd, bytemuck, c32};
use rayon::prelude::*;

use crate::error::{KernelError, check_len, check_product};
use crate::isa::dispatch;
use crate::parallel::{for_each_rows, rows_per_piece};
use crate::scratch::Scratch;
use crate::vector;

/// Which two features form a pair. A checkpoint works only with the pairing it was trained with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pairing {
    /// Pairs `(2i, 2i + 1)`, as in the paper and GPT-J.
    Interleaved,
    /// Pairs `(i, i + d_head/2)`, as in GPT-NeoX and in Llama as Hugging Face stores it.
    Halves,
}

/// The sizes of the input, `[outer, seq, heads, d_head]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RopeShape {
    /// Number of sequences, or sequences · heads.
    pub outer: usize,
    /// Number of positions.
    pub seq: usize,
    /// Number of heads that lie side by side at a position.
    pub heads: usize,
    /// Number of heads that are rotated, the first ones; the others, such as values, are copied.
    pub turned: usize,
    /// Number of features of a head.
    pub d_head: usize,
}

impl RopeShape {
    /// Returns the shape of heads stored one after another, `[outer, seq, d_head]`, all of which are rotated.
    pub fn apart(outer: usize, seq: usize, d_head: usize) -> Self {
        Self { outer, seq, heads: 1, turned: 1, d_head }
    }
}

/// Rotates each pair of each row by its angle.
///
/// # Shapes
/// `x`, `out` as in [`RopeShape`]; `angles` `[seq, d_head/2]`.
pub fn rope_forward(
    x: &[f32],
    shape: RopeShape,
    angles: &[f32],
    pairing: Pairing,
    out: &mut [f32],
) -> Result<(), KernelError> {
    let len = check_sizes(shape, angles)?;
    check_len("rope x", x.len(), len)?;
    check_len("rope out", out.len(), len)?;
    with_table(angles, shape.d_head, pairing, |table| turn_rows(x, shape, table, pairing, Direction::Forward, out));
    Ok(())
}

/// The input and output of the gradient of learned angles; the gradient of `x` needs neither.
pub struct LearnedAngles<'a> {
    /// The input of the forward pass.
    pub x: &'a [f32],
    /// Where the gradient of the angles is written, `[seq, d_head/2]`. Old content is replaced.
    pub grad: &'a mut [f32],
}

/// Computes the gradients of [`rope_forward`], that of the angles if they are learned. Old content is replaced.
///
/// # Shapes
/// `grad`, `grad_x` as in [`RopeShape`]; `angles` `[seq, d_head/2]`.
pub fn rope_backward(
    shape: RopeShape,
    angles: &[f32],
    pairing: Pairing,
    grad: &[f32],
    grad_x: &mut [f32],
    learned: Option<LearnedAngles<'_>>,
) -> Result<(), KernelError> {
    let len = check_sizes(shape, angles)?;
    check_len("rope grad", grad.len(), len)?;
    check_len("rope grad x", grad_x.len(), len)?;
    if let Some(learned) = &learned {
        check_len("rope x", learned.x.len(), len)?;
        check_len("rope grad angles", learned.grad.len(), angles.len())?;
    }
    with_table(angles, shape.d_head, pairing, |table| {
        turn_rows(grad, shape, table, pairing, Direction::Backward, grad_x);
        let Some(LearnedAngles { x, grad: grad_angles }) = learned else { return };
        if grad_angles.is_empty() {
            return;
        }
        let sum =
            |first: usize, out: &mut [f32]| dispatch(AngleGradient { x, grad, shape, table, pairing, first, out });
        let RopeShape { outer, seq, heads, d_head, .. } = shape;
        let positions = rows_per_piece(d_head * (outer * heads).max(1));
        if seq <= positions {
            sum(0, grad_angles);
        } else {
            let piece = positions * (d_head / 2);
            grad_angles.par_chunks_mut(piece).enumerate().for_each(|(i, out)| sum(i * positions, out));
        }
    });
    Ok(())
}

/// Checks the sizes and returns the number of elements in `x`.
fn check_sizes(shape: RopeShape, angles: &[f32]) -> Result<usize, KernelError> {
    let RopeShape { outer, seq, heads, turned, d_head } = shape;
    if !d_head.is_multiple_of(2) {
        let why = format!("expected an even number of features to pair, got {d_head}");
        return Err(KernelError::Invalid { what: "rope d_head", why });
    }
    if turned > heads {
        let why = format!("expected at most {heads}, the number of heads, got {turned}");
        return Err(KernelError::Invalid { what: "rope heads that turn", why });
    }
    check_len("rope angles", angles.len(), check_product("rope angles", seq, d_head / 2)?)?;
    let sequence = check_product("rope x", seq, check_product("rope x", heads, d_head)?)?;
    check_product("rope x", outer, sequence)
}

#[derive(Clone, Copy)]
enum Direction {
    Forward,
    Backward,
}

/// Calls `f` with a table `[seq, d_head]` whose rows hold `(cos, sin)` pairs if interleaved, else all cosines, then all sines.
fn with_table(angles: &[f32], d_head: usize, pairing: Pairing, f: impl FnOnce(&[f32])) {
    let mut table = Scratch::new(2 * angles.len());
    let half = d_head / 2;
    for_each_rows(&mut table, d_head, |row, table| {
        dispatch(Table { angles: &angles[row * half..row * half + table.len() / 2], half, pairing, table });
    });
    f(&table);
}

struct Table<'a> {
    angles: &'a [f32],
    half: usize,
    pairing: Pairing,
    table: &'a mut [f32],
}

impl WithSimd for Table<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Large angles need more digits of π than the vector function has.
        let near = self.angles.iter().all(|angle| angle.abs() <= vector::SIN_COS_REACH);
        const BLOCK: usize = 64;
        let (mut sines, mut cosines) = ([0.0; BLOCK], [0.0; BLOCK]);
        for (angles, table) in self.angles.chunks_exact(self.half).zip(self.table.chunks_exact_mut(2 * self.half)) {
            for start in (0..self.half).step_by(BLOCK) {
                let angles = &angles[start..(start + BLOCK).min(self.half)];
                let (sines, cosines) = (&mut sines[..angles.len()], &mut cosines[..angles.len()]);
                if near {
                    vector::map!(simd, angles, sines, |x| vector::sin_cos(simd, x).0);
                    vector::map!(simd, angles, cosines, |x| vector::sin_cos(simd, x).1);
                } else {
                    for i in 0..angles.len() {
                        (sines[i], cosines[i]) = angles[i].sin_cos();
                    }
                }
                match self.pairing {
                    Pairing::Interleaved => {
                        let (pairs, _) = table[2 * start..].as_chunks_mut::<2>();
                        for ((pair, cos), sin) in pairs.iter_mut().zip(cosines).zip(sines) {
                            *pair = [*cos, *sin];
                        }
                    }
                    Pairing::Halves => {
                        table[start..start + angles.len()].copy_from_slice(cosines);
                        table[self.half + start..self.half + start + angles.len()].copy_from_slice(sines);
                    }
                }
            }
        }
    }
}

fn turn_rows(x: &[f32], shape: RopeShape, table: &[f32], pairing: Pairing, direction: Direction, out: &mut [f32]) {
    // Sizes of zero must not be divided by below.
    if out.is_empty() {
        return;
    }
    let row = shape.heads * shape.d_head;
    for_each_rows(out, row, |first, out| {
        let x = &x[first * row..first * row + out.len()];
        dispatch(Turn { x, first, shape, table, pairing, direction, out });
    });
}

struct Turn<'a> {
    x: &'a [f32],
    first: usize,
    shape: RopeShape,
    table: &'a [f32],
    pairing: Pairing,
    direction: Direction,
    out: &'a mut [f32],
}

impl WithSimd for Turn<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let RopeShape { seq, heads, turned, d_head, .. } = self.shape;
        let (row, turning) = (heads * d_head, turned * d_head);
        let mut position = self.first % seq;
        for (x, out) in self.x.chunks_exact(row).zip(self.out.chunks_exact_mut(row)) {
            let table = &self.table[position * d_head..(position + 1) * d_head];
            for (x, out) in x[..turning].chunks_exact(d_head).zip(out[..turning].chunks_exact_mut(d_head)) {
                match self.pairing {
                    Pairing::Interleaved => turn_interleaved(simd, x, table, self.direction, out),
                    Pairing::Halves => turn_halves(simd, x, table, self.direction, out),
                }
            }
            out[turning..].copy_from_slice(&x[turning..]);
            position = if position + 1 == seq { 0 } else { position + 1 };
        }
    }
}

#[inline(always)]
fn turn_interleaved<S: Simd>(simd: S, x: &[f32], table: &[f32], direction: Direction, out: &mut [f32]) {
    let (x, x_tail) = S::as_simd_c32s(bytemuck::cast_slice::<f32, c32>(x));
    let (table, table_tail) = S::as_simd_c32s(bytemuck::cast_slice::<f32, c32>(table));
    let (out, out_tail) = S::as_mut_simd_c32s(bytemuck::cast_slice_mut::<f32, c32>(out));
    for ((x, turn), out) in x.iter().zip(table).zip(out) {
        *out = turned(simd, *x, *turn, direction);
    }
    if !x_tail.is_empty() {
        let (x, turn) = (simd.partial_load_c32s(x_tail), simd.partial_load_c32s(table_tail));
        simd.partial_store_c32s(out_tail, turned(simd, x, turn, direction));
    }
}

#[inline(always)]
fn turned<S: Simd>(simd: S, x: S::c32s, turn: S::c32s, direction: Direction) -> S::c32s {
    match direction {
        Direction::Forward => simd.mul_e_c32s(turn, x),
        Direction::Backward => simd.conj_mul_e_c32s(turn, x),
    }
}

#[inline(always)]
fn turn_halves<S: Simd>(simd: S, x: &[f32], table: &[f32], direction: Direction, out: &mut [f32]) {
    let half = x.len() / 2;
    let ((a, b), (cos, sin)) = (x.split_at(half), table.split_at(half));
    let (out_a, out_b) = out.split_at_mut(half);
    let ((a, a_tail), (b, b_tail)) = (S::as_simd_f32s(a), S::as_simd_f32s(b));
    let ((cos, cos_tail), (sin, sin_tail)) = (S::as_simd_f32s(cos), S::as_simd_f32s(sin));
    let (out_a, out_a_tail) = S::as_mut_simd_f32s(out_a);
    let (out_b, out_b_tail) = S::as_mut_simd_f32s(out_b);
    for ((((a, b), (cos, sin)), out_a), out_b) in a.iter().zip(b).zip(cos.iter().zip(sin)).zip(out_a).zip(out_b) {
        (*out_a, *out_b) = turned_pair(simd, *a, *b, *cos, *sin, direction);
    }
    if !a_tail.is_empty() {
        let (a, b) = (simd.partial_load_f32s(a_tail), simd.partial_load_f32s(b_tail));
        let (cos, sin) = (simd.partial_load_f32s(cos_tail), simd.partial_load_f32s(sin_tail));
        let (a, b) = turned_pair(simd, a, b, cos, sin, direction);
        simd.partial_store_f32s(out_a_tail, a);
        simd.partial_store_f32s(out_b_tail, b);
    }
}

#[inline(always)]
fn turned_pair<S: Simd>(
    simd: S,
    a: S::f32s,
    b: S::f32s,
    cos: S::f32s,
    sin: S::f32s,
    direction: Direction,
) -> (S::f32s, S::f32s) {
    let sin = match direction {
        Direction::Forward => sin,
        Direction::Backward => simd.neg_f32s(sin),
    };
    (
        simd.mul_add_e_f32s(a, cos, simd.neg_f32s(simd.mul_f32s(b, sin))),
        simd.mul_add_e_f32s(a, sin, simd.mul_f32s(b, cos)),
    )
}

/// The gradient of the angles of the positions from `first` on, summed over `outer` and the heads in their order.
struct AngleGradient<'a> {
    x: &'a [f32],
    grad: &'a [f32],
    shape: RopeShape,
    table: &'a [f32],
    pairing: Pairing,
    first: usize,
    out: &'a mut [f32],
}

impl WithSimd for AngleGradient<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        // Plain Rust without vectors: learned angles are rare.
        let RopeShape { seq, heads, turned, d_head, .. } = self.shape;
        let (half, row) = (d_head / 2, heads * d_head);
        self.out.fill(0.0);
        for (x, grad) in self.x.chunks_exact(seq * row).zip(self.grad.chunks_exact(seq * row)) {
            for (i, out) in self.out.chunks_exact_mut(half).enumerate() {
                let position = self.first + i;
                let table = &self.table[position * d_head..(position + 1) * d_head];
                let turning = position * row..position * row + turned * d_head;
                let heads = x[turning.clone()].chunks_exact(d_head).zip(grad[turning].chunks_exact(d_head));
                for (x, grad) in heads {
                    for (j, out) in out.iter_mut().enumerate() {
                        let (a, b) = match self.pairing {
                            Pairing::Interleaved => (2 * j, 2 * j + 1),
                            Pairing::Halves => (j, j + half),
                        };
                        let (cos, sin) = (table[a], table[b]);
                        let (turned_a, turned_b) = (x[a] * cos - x[b] * sin, x[a] * sin + x[b] * cos);
                        *out += turned_a * grad[b] - turned_b * grad[a];
                    }
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
    use proptest::prelude::*;

    fn exact(x: &[f64], shape: RopeShape, angles: &[f64], pairing: Pairing) -> Vec<f64> {
        let RopeShape { seq, heads, turned, d_head, .. } = shape;
        let half = d_head / 2;
        let mut out = x.to_vec();
        for (r, (x, out)) in x.chunks(d_head).zip(out.chunks_mut(d_head)).enumerate() {
            if r % heads >= turned {
                continue;
            }
            for i in 0..half {
                let (a, b) = match pairing {
                    Pairing::Interleaved => (2 * i, 2 * i + 1),
                    Pairing::Halves => (i, i + half),
                };
                let (sin, cos) = angles[(r / heads % seq) * half + i].sin_cos();
                out[a] = x[a] * cos - x[b] * sin;
                out[b] = x[a] * sin + x[b] * cos;
            }
        }
        out
    }

    fn check(shape: RopeShape, largest: f32, gradients: bool) {
        let RopeShape { outer, seq, heads, d_head, .. } = shape;
        let len = outer * seq * heads * d_head;
        let (x, grad) = (numbers(len, 1, 2.0), numbers(len, 2, 1.0));
        let angles = numbers(seq * d_head / 2, 3, largest);
        let (wide_x, wide_angles, wide_grad) = (wide(&x), wide(&angles), wide(&grad));
        for pairing in [Pairing::Interleaved, Pairing::Halves] {
            let want = exact(&wide_x, shape, &wide_angles, pairing);
            let loss = |x: &[f64], angles: &[f64]| inner(&exact(x, shape, angles, pairing), &wide_grad);
            let want_gradients = gradients.then(|| {
                (
                    central_differences(&wide_x, |x| loss(x, &wide_angles)),
                    central_differences(&wide_angles, |angles| loss(&wide_x, angles)),
                )
            });
            on_every_isa(|isa| {
                let mut out = vec![f32::NAN; len];
                rope_forward(&x, shape, &angles, pairing, &mut out).unwrap();
                assert_close(&format!("{pairing:?}"), isa, &out, &want, 1.5e-6, 0.0);
                let Some((want_x, want_angles)) = &want_gradients else { return };
                let (mut grad_x, mut grad_angles) = (vec![f32::NAN; len], vec![f32::NAN; angles.len()]);
                let learned = Some(LearnedAngles { x: &x, grad: &mut grad_angles });
                rope_backward(shape, &angles, pairing, &grad, &mut grad_x, learned).unwrap();
                assert_close("grad x", isa, &grad_x, want_x, 1e-6, 0.0);
                assert_close("grad angles", isa, &grad_angles, want_angles, 2e-6 * (outer * heads + 1) as f64, 0.0);
            });
        }
    }

    #[test]
    fn agrees_with_the_formula() {
        for (outer, seq, d_head) in [(1, 1, 2), (2, 3, 6), (3, 2, 32), (2, 5, 38), (1, 2, 200)] {
            check(RopeShape::apart(outer, seq, d_head), 3.0, true);
        }
        check(RopeShape::apart(5, 700, 24), 700.0, false);
        for (heads, turned) in [(3, 2), (4, 4), (2, 0)] {
            check(RopeShape { outer: 2, seq: 3, heads, turned, d_head: 18 }, 3.0, true);
        }
        check(RopeShape { outer: 2, seq: 500, heads: 6, turned: 4, d_head: 32 }, 500.0, false);
    }

    #[test]
    fn large_angles_are_exact_too() {
        check(RopeShape::apart(2, 3, 20), 8000.0, false);
        check(RopeShape::apart(2, 3, 20), 1e6, false);
    }

    #[test]
    fn angle_gradients_of_pieces_agree_with_one_piece() {
        let (outer, seq, d_head) = (8, 900, 8);
        let (x, grad) = (numbers(outer * seq * d_head, 1, 1.0), numbers(outer * seq * d_head, 2, 1.0));
        let angles = numbers(seq * d_head / 2, 3, 3.0);
        assert!(seq > rows_per_piece(d_head * outer), "no longer in pieces");
        let (mut grad_x, mut got) = (vec![0.0; x.len()], vec![f32::NAN; angles.len()]);
        let pairing = Pairing::Halves;
        let learned = Some(LearnedAngles { x: &x, grad: &mut got });
        rope_backward(RopeShape::apart(outer, seq, d_head), &angles, pairing, &grad, &mut grad_x, learned).unwrap();
        // The last position alone.
        let last =
            |x: &[f32]| -> Vec<f32> { x.chunks(seq * d_head).flat_map(|x| x[(seq - 1) * d_head..].to_vec()).collect() };
        let (mut one_x, mut one) = (vec![0.0; outer * d_head], vec![f32::NAN; d_head / 2]);
        let angle = &angles[(seq - 1) * d_head / 2..];
        let learned = Some(LearnedAngles { x: &last(&x), grad: &mut one });
        rope_backward(RopeShape::apart(outer, 1, d_head), angle, pairing, &last(&grad), &mut one_x, learned).unwrap();
        assert_close("last", crate::Isa::current(), &got[(seq - 1) * d_head / 2..], &wide(&one), 1e-6, 0.0);
    }

    #[test]
    fn bad_sizes_are_refused_and_empty_ones_are_fine() {
        let pairing = Pairing::Halves;
        let message =
            rope_forward(&[0.0; 3], RopeShape::apart(1, 1, 3), &[0.0], pairing, &mut [0.0; 3]).unwrap_err().to_string();
        assert!(message.contains("even") && message.contains('3'), "{message}");
        assert!(rope_forward(&[0.0; 4], RopeShape::apart(1, 2, 2), &[0.0], pairing, &mut [0.0; 4]).is_err());
        assert!(rope_forward(&[0.0; 4], RopeShape::apart(1, 2, 2), &[0.0; 2], pairing, &mut [0.0; 2]).is_err());
        assert!(rope_forward(&[], RopeShape::apart(usize::MAX, 2, 2), &[0.0; 2], pairing, &mut []).is_err());
        let shape = RopeShape { turned: 2, ..RopeShape::apart(1, 1, 2) };
        let message = rope_forward(&[0.0; 2], shape, &[0.0], pairing, &mut [0.0; 2]).unwrap_err().to_string();
        assert!(message.contains("at most 1") && message.contains("got 2"), "{message}");
        rope_forward(&[], RopeShape::apart(0, 2, 2), &[0.0; 2], pairing, &mut []).unwrap();
        rope_forward(&[], RopeShape::apart(3, 2, 0), &[], pairing, &mut []).unwrap();
        let mut angles = [f32::NAN; 2];
        let learned = Some(LearnedAngles { x: &[], grad: &mut angles });
        rope_backward(RopeShape::apart(0, 2, 2), &[0.0; 2], pairing, &[], &mut [], learned).unwrap();
        assert_eq!(angles, [0.0; 2]);
        rope_backward(
            RopeShape::apart(2, 0, 4),
            &[],
            pairing,
            &[],
            &mut [],
            Some(LearnedAngles { x: &[], grad: &mut [] }),
        )
        .unwrap();
        let learned = Some(LearnedAngles { x: &[0.0; 2], grad: &mut angles[..1] });
        assert!(rope_backward(RopeShape::apart(2, 1, 2), &[0.0], pairing, &[0.0; 4], &mut [0.0; 4], learned).is_err());
        let learned = Some(LearnedAngles { x: &[0.0; 4], grad: &mut angles });
        assert!(rope_backward(RopeShape::apart(2, 1, 2), &[0.0], pairing, &[0.0; 4], &mut [0.0; 4], learned).is_err());
    }

    #[test]
    fn nan_comes_through() {
        on_every_isa(|isa| {
            for pairing in [Pairing::Interleaved, Pairing::Halves] {
                let mut out = [0.0; 4];
                rope_forward(&[1.0; 4], RopeShape::apart(1, 1, 4), &[f32::NAN, 1.0], pairing, &mut out).unwrap();
                let nan = out.iter().filter(|x| x.is_nan()).count();
                assert_eq!(nan, 2, "{isa:?} {out:?}");
            }
        });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_size(outer in 0_usize..3, seq in 1_usize..4, heads in 1_usize..4, turned in 0_usize..4, half in 1_usize..20) {
            check(RopeShape { outer, seq, heads, turned: turned.min(heads), d_head: 2 * half }, 6.0, true);
        }
    }
}
