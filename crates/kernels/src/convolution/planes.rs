//! Copies of an image with its zeros, in which neighbouring outputs of a convolution read neighbouring elements.
//!
//! For a stride `s`, row `y` of phase `a` is row `s y + a` of the padded image, and columns are split in the same way. Output
//! `(y, x)` then reads place `(i, j)` of the kernel from phase `(i mod s, j mod s)`, element `(y + ⌊i/s⌋, x + ⌊j/s⌋)`.

use crate::error::{KernelError, check_product};

/// The layout of the copy of an image: `[channels, phases, rows, columns]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Planes {
    pub(super) channels: usize,
    /// Height and width of the image.
    pub(super) image: [usize; 2],
    /// Row and column of the image at the first element of the first phase; negative within the zeros.
    pub(super) origin: [isize; 2],
    /// Distance in the image between neighbours in the copy.
    pub(super) stride: [usize; 2],
    /// Number of phases that are copied, at most `stride`.
    pub(super) phases: [usize; 2],
    /// Rows and columns of a phase.
    pub(super) size: [usize; 2],
}

impl Planes {
    /// Returns the number of elements of the copy; refuses one that does not fit in memory.
    pub(super) fn len(&self) -> Result<usize, KernelError> {
        // The working memory has at most this factor more, for sums and whole vectors.
        const ROOM: usize = 64;
        let sizes = [self.phases[0], self.phases[1], self.size[0], self.size[1], ROOM];
        let room =
            sizes.into_iter().try_fold(self.channels, |all, size| check_product("convolution image", all, size))?;
        Ok(room / ROOM)
    }

    /// Returns whether the copy would be equal to the image.
    pub(super) fn is_image(&self) -> bool {
        self.origin == [0, 0] && self.stride == [1, 1] && self.size == self.image
    }

    /// Returns the index of the first element of a phase.
    pub(super) fn phase(&self, channel: usize, [a, b]: [usize; 2]) -> usize {
        ((channel * self.phases[0] + a) * self.phases[1] + b) * self.size[0] * self.size[1]
    }

    /// Copies an image. The elements outside it are not written: they are zero from the start and stay so.
    #[inline(always)]
    pub(super) fn copy(&self, image: &[f32], planes: &mut [f32]) {
        let [height, width] = self.image;
        for (channel, image) in image.chunks_exact((height * width).max(1)).enumerate() {
            for a in 0..self.phases[0] {
                for b in 0..self.phases[1] {
                    let plane = &mut planes[self.phase(channel, [a, b])..][..self.size[0] * self.size[1]];
                    let (first, end) = self.inside(0, a);
                    let (left, right) = self.inside(1, b);
                    for y in first..end {
                        let row = (y * self.stride[0] + a).wrapping_add_signed(self.origin[0]);
                        let column = (left * self.stride[1] + b).wrapping_add_signed(self.origin[1]);
                        let to = &mut plane[y * self.size[1] + left..][..right - left];
                        copy_every(self.stride[1], &image[row * width..][..width], column, to);
                    }
                }
            }
        }
    }

    /// Returns the first index of a phase that is inside the image along an axis, and the end.
    fn inside(&self, axis: usize, phase: usize) -> (usize, usize) {
        let (stride, first) = (self.stride[axis], self.origin[axis] + phase as isize);
        // The number of elements of the phase before a position of the image.
        let before = |position: isize| {
            let distance = position - first;
            if distance <= 0 { 0 } else { (distance as usize).div_ceil(stride).min(self.size[axis]) }
        };
        let (begin, end) = (before(0), before(self.image[axis] as isize));
        (begin, end.max(begin))
    }
}

/// Copies every `stride`-th element, from `first` on, until `to` is full.
#[inline(always)]
fn copy_every(stride: usize, from: &[f32], first: usize, to: &mut [f32]) {
    let Some(last) = to.len().checked_sub(1) else { return };
    let from = &from[first..][..last * stride + 1];
    match stride {
        1 => copy_row(from, to),
        // Loops over rows this short are faster in pieces of a known length than as one loop (measured for stride 2).
        2 if to.len() >= 8 => copy_even::<8, 15>(from, to),
        2 if to.len() >= 4 => copy_even::<4, 7>(from, to),
        _ => {
            for (to, from) in to.iter_mut().zip(from.iter().step_by(stride)) {
                *to = *from;
            }
        }
    }
}

/// Copies every second element in pieces of `N`, which span `SPAN` elements of `from`; `to` has at least `N`.
#[inline(always)]
fn copy_even<const N: usize, const SPAN: usize>(from: &[f32], to: &mut [f32]) {
    let mut start = 0;
    loop {
        let from = from[2 * start..].first_chunk::<SPAN>().expect("from reaches the last element");
        let to_piece = to[start..].first_chunk_mut::<N>().expect("the last piece ends with the row");
        for (i, to) in to_piece.iter_mut().enumerate() {
            *to = from[2 * i];
        }
        // The last piece overlaps the one before.
        let last = to.len() - N;
        if start == last {
            return;
        }
        start = (start + N).min(last);
    }
}

/// Copies a short row; a call of `memcpy` would take longer than the copy.
#[inline(always)]
pub(super) fn copy_row(from: &[f32], to: &mut [f32]) {
    const PIECE: usize = 8;
    let from = &from[..to.len()];
    let (Some(last), Some(start)) = (from.last_chunk::<PIECE>(), to.len().checked_sub(PIECE)) else {
        for (to, from) in to.iter_mut().zip(from) {
            *to = *from;
        }
        return;
    };
    for (to, from) in to.as_chunks_mut::<PIECE>().0.iter_mut().zip(from.as_chunks::<PIECE>().0) {
        *to = *from;
    }
    // The last piece overlaps the one before.
    to[start..].copy_from_slice(last);
}
