//! The transformed weights `G g Gᵀ`.

use pulp::{Simd, WithSimd};

use super::read_square;
use super::scheme::{Scheme, along_both, transposed};
use crate::convolution::kernels::Kernels;
use crate::parallel::for_each_index;
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;

/// The weights for each panel of output channels: `[panel, ξ, input channel, output channel]`.
pub(super) struct Weights<const M: usize> {
    channels: [usize; 2],
    /// Number of output channels of a panel, whole vectors; the last panel may have fewer.
    panel: usize,
    data: Scratch,
}

/// Some output channels.
#[derive(Clone, Copy)]
pub(super) struct Panel<'a> {
    /// The first channel and the number of channels.
    pub(super) channels: (usize, usize),
    /// Number of channels, rounded up to whole vectors.
    pub(super) width: usize,
    /// `[ξ, input channel, output channel]`.
    pub(super) weights: &'a [f32],
}

impl<const M: usize> Weights<M> {
    const PLACES: usize = M * M;

    /// Transforms the weights for panels of `panel` channels, a multiple of the lanes.
    /// `turned` kernels are turned by 180°.
    pub(super) fn new<S, T, const D: usize, const Q: usize, const R: usize>(
        simd: S,
        scheme: T,
        kernels: Kernels<'_>,
        turned: bool,
        panel: usize,
    ) -> Self
    where
        S: Simd,
        T: Scheme<D, M, Q, R>,
    {
        let channels = kernels.channels;
        let width = channels[1].next_multiple_of(S::F32_LANES);
        let mut data = Scratch::new(Self::PLACES * channels[0] * width);
        let out = SharedSlice::new(&mut data);
        for_each_index(channels[0], 9 * width, |input| {
            simd.vectorize(Transform { scheme, kernels, turned, panel, width, input, out })
        });
        Self { channels, panel, data }
    }

    /// Returns the number of output channels.
    pub(super) fn outputs(&self) -> usize {
        self.channels[1]
    }

    pub(super) fn panels(&self) -> usize {
        self.channels[1].div_ceil(self.panel)
    }

    pub(super) fn panel<S: Simd>(&self, panel: usize) -> Panel<'_> {
        let first = panel * self.panel;
        let count = self.panel.min(self.channels[1] - first);
        let width = count.next_multiple_of(S::F32_LANES);
        let weights = &self.data[Self::PLACES * self.channels[0] * first..][..Self::PLACES * self.channels[0] * width];
        Panel { channels: (first, count), width, weights }
    }
}

/// The weights of one input channel.
struct Transform<'a, T, const D: usize, const M: usize, const Q: usize, const R: usize> {
    scheme: T,
    kernels: Kernels<'a>,
    turned: bool,
    panel: usize,
    /// Number of output channels, rounded up to whole vectors.
    width: usize,
    input: usize,
    out: SharedSlice<'a>,
}

impl<T: Scheme<D, M, Q, R>, const D: usize, const M: usize, const Q: usize, const R: usize> WithSimd
    for Transform<'_, T, D, M, Q, R>
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { scheme, kernels, turned, panel, width, input, out } = self;
        let inputs = kernels.channels[0];
        let mut places = Scratch::new(9 * width);
        kernels.of_input(simd, input, width, &mut places);
        for output in (0..width).step_by(S::F32_LANES) {
            assert!(8 * width + output + S::F32_LANES <= places.len());
            // SAFETY: nine vectors that are `width` apart, inside by the assertion.
            let mut g = unsafe { read_square::<S, 3>(simd, places.as_ptr().add(output), 3 * width, width) };
            if turned {
                g = [[g[2][2], g[2][1], g[2][0]], [g[1][2], g[1][1], g[1][0]], [g[0][2], g[0][1], g[0][0]]];
            }
            let g = transform_kernel(simd, scheme, g);
            let first = output / panel * panel;
            let panel_width = panel.min(width - first);
            for (place, value) in g.as_flattened().iter().enumerate() {
                let row = M * M * inputs * first + (place * inputs + input) * panel_width;
                // SAFETY: only this call writes the vectors of this input channel.
                unsafe { out.store(simd, row + output - first, S::F32_LANES, *value) };
            }
        }
    }
}

/// Returns `G g Gᵀ`.
#[inline(always)]
fn transform_kernel<S, T, const D: usize, const M: usize, const Q: usize, const R: usize>(
    simd: S,
    _: T,
    g: [[S::f32s; 3]; 3],
) -> [[S::f32s; M]; M]
where
    S: Simd,
    T: Scheme<D, M, Q, R>,
{
    along_both!(T::kernel, simd, g)
}
