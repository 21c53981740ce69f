//! The transforms of the tiles, along one axis of an image. Those of a tile are the product of two.

use pulp::Simd;

/// A row of `N` vectors.
type Row<S, const N: usize> = [<S as Simd>::f32s; N];

/// An algorithm for `R` outputs that see `D` inputs, with `M` products for each pair of channels: `Aᵀ [(G g) ⊙ (Bᵀ d)]`.
///
/// Products that every output has as the same sum are added while they are computed: `Q` sums are left, and `A` is for them.
pub(super) trait Scheme<const D: usize, const M: usize, const Q: usize, const R: usize>:
    Copy + Send + Sync
{
    /// Number of inputs from a tile to the next.
    const STEP: usize;
    /// The sum that each product belongs to.
    const SUM: [usize; M];
    /// Whether the first half of the outputs depends on each sum. The others need not be computed for the half tiles at
    /// the edges of an image.
    const FIRST: [bool; Q];

    /// `Bᵀ x`.
    fn inputs<S: Simd, const N: usize>(simd: S, x: [Row<S, N>; D]) -> [Row<S, N>; M];

    /// `G x`.
    fn kernel<S: Simd, const N: usize>(simd: S, x: [Row<S, N>; 3]) -> [Row<S, N>; M];

    /// `Aᵀ x`.
    fn outputs<S: Simd, const N: usize>(simd: S, x: [Row<S, N>; Q]) -> [Row<S, N>; R];
}

/// The transposed transforms, for the gradient of the weight.
pub(super) trait Transposed<const D: usize, const M: usize, const Q: usize, const R: usize>:
    Scheme<D, M, Q, R>
{
    /// `A x`.
    fn grads<S: Simd, const N: usize>(simd: S, x: [Row<S, N>; R]) -> [Row<S, N>; Q];

    /// `Gᵀ x`.
    fn weights<S: Simd, const N: usize>(simd: S, x: [Row<S, N>; M]) -> [Row<S, N>; 3];
}

/// Stride 1: F(2, 3) of Winograd. Four products instead of six.
#[derive(Clone, Copy)]
pub(super) struct Stride1;

impl Scheme<4, 4, 4, 2> for Stride1 {
    const STEP: usize = 2;
    const SUM: [usize; 4] = [0, 1, 2, 3];
    const FIRST: [bool; 4] = [true, true, true, false];

    #[inline(always)]
    fn inputs<S: Simd, const N: usize>(simd: S, [a, b, c, d]: [Row<S, N>; 4]) -> [Row<S, N>; 4] {
        [sub(simd, a, c), add(simd, b, c), sub(simd, c, b), sub(simd, b, d)]
    }

    #[inline(always)]
    fn kernel<S: Simd, const N: usize>(simd: S, [a, b, c]: [Row<S, N>; 3]) -> [Row<S, N>; 4] {
        let (outer, inner) = (half(simd, add(simd, a, c)), half(simd, b));
        [a, add(simd, outer, inner), sub(simd, outer, inner), c]
    }

    #[inline(always)]
    fn outputs<S: Simd, const N: usize>(simd: S, [a, b, c, d]: [Row<S, N>; 4]) -> [Row<S, N>; 2] {
        [add(simd, add(simd, a, b), c), sub(simd, sub(simd, b, c), d)]
    }
}

impl Transposed<4, 4, 4, 2> for Stride1 {
    #[inline(always)]
    fn grads<S: Simd, const N: usize>(simd: S, [a, b]: [Row<S, N>; 2]) -> [Row<S, N>; 4] {
        [a, add(simd, a, b), sub(simd, a, b), neg(simd, b)]
    }

    #[inline(always)]
    fn weights<S: Simd, const N: usize>(simd: S, [a, b, c, d]: [Row<S, N>; 4]) -> [Row<S, N>; 3] {
        let (sum, difference) = (half(simd, add(simd, b, c)), half(simd, sub(simd, b, c)));
        [add(simd, a, sum), difference, add(simd, sum, d)]
    }
}

/// Stride 2: the outer places of the kernel see every second input, F(2, 2), and the inner place sees the others. Five
/// products instead of six, in three sums.
#[derive(Clone, Copy)]
pub(super) struct Stride2;

impl Scheme<5, 5, 3, 2> for Stride2 {
    const STEP: usize = 4;
    const SUM: [usize; 5] = [0, 0, 1, 2, 2];
    const FIRST: [bool; 3] = [true, true, false];

    #[inline(always)]
    fn inputs<S: Simd, const N: usize>(simd: S, [a, b, c, d, e]: [Row<S, N>; 5]) -> [Row<S, N>; 5] {
        [sub(simd, a, c), b, c, sub(simd, e, c), d]
    }

    #[inline(always)]
    fn kernel<S: Simd, const N: usize>(simd: S, [a, b, c]: [Row<S, N>; 3]) -> [Row<S, N>; 5] {
        [a, b, add(simd, a, c), c, b]
    }

    #[inline(always)]
    fn outputs<S: Simd, const N: usize>(simd: S, [a, b, c]: [Row<S, N>; 3]) -> [Row<S, N>; 2] {
        [add(simd, a, b), add(simd, b, c)]
    }
}

impl Transposed<5, 5, 3, 2> for Stride2 {
    #[inline(always)]
    fn grads<S: Simd, const N: usize>(simd: S, [a, b]: [Row<S, N>; 2]) -> [Row<S, N>; 3] {
        [a, add(simd, a, b), b]
    }

    #[inline(always)]
    fn weights<S: Simd, const N: usize>(simd: S, [a, b, c, d, e]: [Row<S, N>; 5]) -> [Row<S, N>; 3] {
        [add(simd, a, c), add(simd, b, e), add(simd, c, d)]
    }
}

/// The gradient of the input with stride 2 and padding 1: of four inputs, the inner place of the kernel reaches the first and
/// the third, and the outer places reach the others.
#[derive(Clone, Copy)]
pub(super) struct Stride2Gradient;

impl Scheme<3, 5, 5, 4> for Stride2Gradient {
    const STEP: usize = 2;
    const SUM: [usize; 5] = [0, 1, 2, 3, 4];
    const FIRST: [bool; 5] = [true, true, false, true, false];

    #[inline(always)]
    fn inputs<S: Simd, const N: usize>(simd: S, [a, b, c]: [Row<S, N>; 3]) -> [Row<S, N>; 5] {
        [sub(simd, a, b), b, sub(simd, b, c), a, b]
    }

    #[inline(always)]
    fn kernel<S: Simd, const N: usize>(simd: S, [a, b, c]: [Row<S, N>; 3]) -> [Row<S, N>; 5] {
        [c, add(simd, a, c), a, b, b]
    }

    #[inline(always)]
    fn outputs<S: Simd, const N: usize>(simd: S, [a, b, c, d, e]: [Row<S, N>; 5]) -> [Row<S, N>; 4] {
        [d, add(simd, a, b), e, sub(simd, b, c)]
    }
}

#[inline(always)]
fn add<S: Simd, const N: usize>(simd: S, mut a: Row<S, N>, b: Row<S, N>) -> Row<S, N> {
    for j in 0..N {
        a[j] = simd.add_f32s(a[j], b[j]);
    }
    a
}

#[inline(always)]
fn sub<S: Simd, const N: usize>(simd: S, mut a: Row<S, N>, b: Row<S, N>) -> Row<S, N> {
    for j in 0..N {
        a[j] = simd.sub_f32s(a[j], b[j]);
    }
    a
}

#[inline(always)]
fn neg<S: Simd, const N: usize>(simd: S, mut a: Row<S, N>) -> Row<S, N> {
    for value in &mut a {
        *value = simd.neg_f32s(*value);
    }
    a
}

#[inline(always)]
fn half<S: Simd, const N: usize>(simd: S, mut a: Row<S, N>) -> Row<S, N> {
    for value in &mut a {
        *value = simd.mul_f32s(simd.splat_f32s(0.5), *value);
    }
    a
}

/// Applies a transform along both axes of a square: `$transform(simd, ·)` to the rows and then to the columns.
macro_rules! along_both {
    ($transform:expr, $simd:expr, $square:expr) => {
        transposed($transform($simd, transposed($transform($simd, $square))))
    };
}
pub(super) use along_both;

/// Returns `out[j][i] = x[i][j]`.
#[inline(always)]
pub(super) fn transposed<T: Copy, const N: usize, const M: usize>(x: [[T; M]; N]) -> [[T; N]; M] {
    let mut out = [[x[0][0]; N]; M];
    for (i, row) in x.iter().enumerate() {
        for (j, value) in row.iter().enumerate() {
            out[j][i] = *value;
        }
    }
    out
}
