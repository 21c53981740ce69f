//! Images with their channels last: vectors of channels, one vector after the other for each pixel.

/// Number of rows and columns that are transposed in registers.
const SQUARE: usize = 4;

/// Number of rows and columns that are transposed together: a cache line of each side.
const BLOCK: usize = 16;

/// The copy of an image with its channels last and zeros around it: `[rows, columns, channels]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChannelsLast {
    /// Number of channels of the image.
    pub(super) channels: usize,
    /// Number of channels of the copy, at least that of the image; zeros fill the rest.
    pub(super) width: usize,
    /// Height and width of the image.
    pub(super) image: [usize; 2],
    /// Rows and columns of the copy before the image.
    pub(super) padding: [usize; 2],
    /// Rows and columns of the copy, at least those of the image and before it.
    pub(super) size: [usize; 2],
}

impl ChannelsLast {
    /// Returns the number of elements of the copy.
    pub(super) fn len(&self) -> usize {
        self.size[0] * self.size[1] * self.width
    }

    /// Copies an image `[channels, height, width]`; writes every element of `out`.
    #[inline(always)]
    pub(super) fn copy(&self, image: &[f32], out: &mut [f32]) {
        let Self { channels, width, image: [height, columns], padding: [top, left], size } = *self;
        let out = &mut out[..self.len()];
        if channels < width {
            out.fill(0.0);
        } else {
            self.fill_around(out);
        }
        // Some channels at a time: the processor fetches ahead along each of them, but not along many.
        for first in (0..channels).step_by(BLOCK) {
            let count = BLOCK.min(channels - first);
            for y in 0..height {
                let from = &image[(first * height + y) * columns..];
                let to = &mut out[((top + y) * size[1] + left) * width + first..];
                transpose(from, height * columns, [count, columns], to, width);
            }
        }
    }

    /// Writes the zeros around the image.
    #[inline(always)]
    fn fill_around(&self, out: &mut [f32]) {
        let Self { width, image: [height, columns], padding: [top, left], size, .. } = *self;
        let mut rows = out.chunks_exact_mut(size[1] * width);
        rows.by_ref().take(top).for_each(|row| row.fill(0.0));
        for row in rows.by_ref().take(height) {
            row[..left * width].fill(0.0);
            row[(left + columns) * width..].fill(0.0);
        }
        rows.for_each(|row| row.fill(0.0));
    }
}

/// Writes `out[j · out_row + i] = x[i · x_row + j]` for the rows `i` and columns `j` of `x`.
#[inline(always)]
pub(super) fn transpose(x: &[f32], x_row: usize, [rows, columns]: [usize; 2], out: &mut [f32], out_row: usize) {
    if rows == 0 || columns == 0 {
        return;
    }
    assert!((rows - 1) * x_row + columns <= x.len());
    assert!((columns - 1) * out_row + rows <= out.len());
    if rows < SQUARE || columns < SQUARE {
        for i in 0..rows {
            for j in 0..columns {
                out[j * out_row + i] = x[i * x_row + j];
            }
        }
        return;
    }
    let (x, out) = (x.as_ptr(), out.as_mut_ptr());
    for first in (0..columns).step_by(BLOCK) {
        for i in (0..rows).step_by(SQUARE) {
            for j in (first..columns.min(first + BLOCK)).step_by(SQUARE) {
                // The last squares overlap those before.
                let (i, j) = (i.min(rows - SQUARE), j.min(columns - SQUARE));
                // SAFETY: a whole square from there is inside both by the assertions.
                unsafe { transpose_square(x.add(i * x_row + j), x_row, out.add(j * out_row + i), out_row) };
            }
        }
    }
}

/// Transposes [`SQUARE`] rows and columns.
///
/// # Safety
/// The rows of `x` can be read, those of `out` written.
#[inline(always)]
unsafe fn transpose_square(x: *const f32, x_row: usize, out: *mut f32, out_row: usize) {
    let mut rows = [[0.0; SQUARE]; SQUARE];
    for (i, row) in rows.iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *row = unsafe { x.add(i * x_row).cast::<[f32; SQUARE]>().read_unaligned() };
    }
    for j in 0..SQUARE {
        let [a, b, c, d] = rows;
        // SAFETY: the caller's promise.
        unsafe { out.add(j * out_row).cast::<[f32; SQUARE]>().write_unaligned([a[j], b[j], c[j], d[j]]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_moved_and_no_other() {
        for (rows, columns) in [(0, 3), (1, 9), (3, 5), (4, 4), (5, 7), (17, 9), (33, 49)] {
            let (x_row, out_row) = (columns + 2, rows + 1);
            let x: Vec<f32> = (0..rows * x_row).map(|x| x as f32).collect();
            let mut out = vec![-1.0; columns * out_row];
            transpose(&x, x_row, [rows, columns], &mut out, out_row);
            for (at, &out) in out.iter().enumerate() {
                let (j, i) = (at / out_row, at % out_row);
                assert_eq!(out, if i < rows { x[i * x_row + j] } else { -1.0 }, "({i}, {j})");
            }
        }
    }
}
