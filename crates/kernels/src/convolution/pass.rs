//! Sums over windows of a copy of each image: the forward pass, and the gradient of the input.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::Split;
use super::by_channel::{PanelSums, Position};
use super::by_position::PositionSums;
use super::channels_last::transpose;
use super::kernels::{Kernels, Packed};
use super::planes::{Planes, copy_row};
use crate::scratch::Scratch;
use crate::shared_slice::SharedSlice;
use crate::tile::{TILE_ROWS, panel_width, round_to_lanes};

/// What the vectors of a register tile run over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Vectors {
    /// Output channels.
    Channels,
    /// Neighbouring outputs of a channel.
    Positions,
}

impl Vectors {
    /// Returns the faster choice for sums of `terms` products each, at outputs of `size` rows and columns that are `row_len`
    /// elements apart in the copy.
    pub(super) fn faster<S: Simd>(channels: usize, terms: usize, size: [usize; 2], row_len: usize) -> Self {
        let positions = ((size[0] - 1) * row_len + size[1]).div_ceil(S::F32_LANES) * channels * terms;
        // A sum is transposed in about the time of a vector of products.
        let by_channel = size[0] * size[1] * (channels.div_ceil(S::F32_LANES) * terms + channels);
        if by_channel < positions { Self::Channels } else { Self::Positions }
    }
}

/// Outputs in rows and columns that see the copy of an image at the same places relative to their own.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// Rows and columns of outputs.
    pub(super) size: [usize; 2],
    /// Distance in the copy from a row and from a column of outputs to the next.
    pub(super) source: [usize; 2],
    /// Index in the output image of the first output, and the distance from a row and from a column to the next.
    pub(super) out: (usize, [usize; 2]),
    /// Offset in the copy of each term of the first output: for each input channel, those of its `places`.
    pub(super) taps: Vec<usize>,
    /// The places of the kernels that are multiplied.
    pub(super) places: Vec<usize>,
}

impl Part {
    fn positions(&self) -> Vec<Position> {
        let Self { size: [rows, columns], source, out: (first, out), .. } = self;
        let row = |y: usize| {
            (0..*columns)
                .map(move |x| Position { source: y * source[0] + x * source[1], out: first + y * out[0] + x * out[1] })
        };
        (0..*rows).flat_map(row).collect()
    }

    /// Returns the number of outputs.
    fn len(&self) -> usize {
        self.size[0] * self.size[1]
    }

    /// Returns the number of outputs of a block: whole register tiles, and blocks of nearly the same size.
    fn block(&self) -> usize {
        self.len().div_ceil(self.len().div_ceil(BLOCK).max(1)).max(1).next_multiple_of(TILE_ROWS)
    }

    /// Returns [`positions`](Self::positions) whose outputs are numbered in blocks.
    fn positions_in_blocks(&self) -> Vec<Position> {
        let numbered = |(at, position)| Position { out: at % self.block(), ..position };
        self.positions().into_iter().enumerate().map(numbered).collect()
    }

    /// Writes the sums of a channel, whose rows are `row_len` elements apart, to their places in the channel of the output.
    #[inline(always)]
    fn place(&self, sums: &[f32], row_len: usize, out: &mut [f32]) {
        let Self { size: [rows, columns], out: (begin, [row, column]), .. } = *self;
        let out = &mut out[begin..];
        if [row_len, row, column] == [columns, columns, 1] {
            return out[..rows * columns].copy_from_slice(&sums[..rows * columns]);
        }
        for y in 0..rows {
            let (sums, out) = (&sums[y * row_len..][..columns], &mut out[y * row..]);
            if column == 1 {
                copy_row(sums, &mut out[..columns]);
            } else {
                for (out, sum) in out.iter_mut().step_by(column).zip(sums) {
                    *out = *sum;
                }
            }
        }
    }
}

/// The sums `out[n, r, p] = start[r] + Σ_t weight[r, t] · copy_n[taps[t] + p]` for the outputs `p` of all parts.
pub(super) struct Pass<'a> {
    pub(super) batch: usize,
    /// The images, `[batch, planes.channels, height, width]`.
    pub(super) images: &'a [f32],
    pub(super) planes: Planes,
    pub(super) kernels: Kernels<'a>,
    pub(super) vectors: Vectors,
    pub(super) parts: Vec<Part>,
    /// A number for each output channel, or 0.
    pub(super) start: Option<&'a [f32]>,
}

impl Pass<'_> {
    /// Computes all images of `out`, which is not empty. Outputs of no part are 0.
    #[inline(always)]
    pub(super) fn run<S: Simd>(self, simd: S, out: &mut [f32]) {
        let channels = self.kernels.channels[1];
        let multiply_adds = self.parts.iter().map(|part| part.size[0] * part.size[1] * part.taps.len()).sum::<usize>();
        let split = Split::new(self.batch, self.batch * channels * multiply_adds);
        let bounds: Vec<usize> = match self.vectors {
            Vectors::Channels => {
                let panel = split.panel(channels, S::F32_LANES, panel_width::<S>());
                let end = round_to_lanes::<S>(channels);
                (0..end).step_by(panel).chain([end]).collect()
            }
            Vectors::Positions => {
                let tiles = channels.div_ceil(PositionSums::most_rows::<S>());
                (0..=tiles).map(|tile| channels * tile / tiles).collect()
            }
        };
        let mut start = Scratch::new(bounds[bounds.len() - 1]);
        start.fill(0.0);
        if let Some(numbers) = self.start {
            start[..channels].copy_from_slice(numbers);
        }
        let places: Vec<&[usize]> = self.parts.iter().map(|part| &part.places[..]).collect();
        let packed = Packed::new(simd, self.kernels, &places, &bounds);
        let (channel_len, panels) = (out.len() / self.batch / channels, bounds.len() - 1);
        let has_gaps = self.parts.iter().map(Part::len).sum::<usize>() < channel_len;
        let positions: Vec<Vec<Position>> = match (self.vectors, &self.parts[..]) {
            (Vectors::Channels, [part]) => vec![part.positions_in_blocks()],
            (Vectors::Channels, parts) => parts.iter().map(Part::positions).collect(),
            (Vectors::Positions, _) => Vec::new(),
        };
        let (pass, packed, positions, start) = (&self, &packed[..], &positions[..], &start[..]);
        let out = SharedSlice::new(out);
        split.for_each(panels, |images, panels| {
            simd.vectorize(Unit { pass, packed, positions, start, channel_len, has_gaps, images, panels, out });
        });
    }
}

/// Largest number of outputs of a single part that are computed for all panels before the next, nine register tiles: their inputs and sums
/// stay in the first cache.
const BLOCK: usize = 9 * TILE_ROWS;

/// Some images and panels of output channels.
struct Unit<'a> {
    pass: &'a Pass<'a>,
    /// The weights of each part.
    packed: &'a [Packed],
    /// The positions of each part, for vectors of channels.
    positions: &'a [Vec<Position>],
    /// A number for each channel of all panels.
    start: &'a [f32],
    /// Number of outputs of a channel of an image.
    channel_len: usize,
    /// Whether some outputs belong to no part and are 0.
    has_gaps: bool,
    images: Range<usize>,
    panels: Range<usize>,
    out: SharedSlice<'a>,
}

impl WithSimd for Unit<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Pass { images, planes, vectors, ref parts, kernels, .. } = *self.pass;
        let whole = planes.phase(planes.channels, [0, 0]);
        let (source_len, sums_len) = match vectors {
            Vectors::Channels => {
                let sums = match &parts[..] {
                    // A block of sums and, if there are gaps, the outputs without them.
                    [part] if self.has_gaps => BLOCK * panel_width::<S>() + part.len() * kernels.channels[1],
                    [_] => BLOCK * panel_width::<S>(),
                    _ => self.channel_len * panel_width::<S>(),
                };
                (if planes.is_image() { 0 } else { whole }, sums)
            }
            Vectors::Positions => {
                let sums: Vec<PositionSums<'_>> = parts.iter().map(PositionSums::new::<S>).collect();
                let source_len = sums.iter().map(|sums| sums.source_len()).max().unwrap_or(0);
                (whole.max(source_len), sums.iter().map(|sums| sums.sums_len()).max().unwrap_or(0))
            }
        };
        let mut scratch = Scratch::new(source_len + sums_len);
        let (source, sums) = scratch.split_at_mut(source_len);
        // Zeros around the images stay for all of them.
        source.fill(0.0);
        let image_len = planes.channels * planes.image[0] * planes.image[1];
        for n in self.images.clone() {
            let image = &images[n * image_len..][..image_len];
            let source = if source.is_empty() {
                image
            } else {
                planes.copy(image, source);
                &*source
            };
            if let (Vectors::Channels, [part]) = (vectors, &parts[..]) {
                self.in_blocks(simd, part, n, source, sums);
                continue;
            }
            for panel in self.panels.clone() {
                let (first, count) = self.packed[0].channels(panel);
                let count = count.min(kernels.channels[1] - first);
                let begin = (n * kernels.channels[1] + first) * self.channel_len;
                // SAFETY: the outputs of these channels of the image, which only this unit writes.
                let out = unsafe { self.out.slice(begin, count * self.channel_len) };
                match vectors {
                    Vectors::Channels => self.by_channel(simd, panel, source, sums, out),
                    Vectors::Positions => {
                        if self.has_gaps {
                            out.fill(0.0);
                        }
                        self.by_position(simd, panel, source, sums, out);
                    }
                }
            }
        }
    }
}

impl Unit<'_> {
    /// Computes the outputs of a single part in image `n`.
    #[inline(always)]
    fn in_blocks<S: Simd>(&self, simd: S, part: &Part, n: usize, source: &[f32], memory: &mut [f32]) {
        let (packed, channels) = (&self.packed[0], self.pass.kernels.channels[1]);
        let first = packed.channels(self.panels.start).0;
        let last = packed.channels(self.panels.end - 1);
        let end = (last.0 + last.1).min(channels);
        let begin = (n * channels + first) * self.channel_len;
        // SAFETY: the outputs of these channels of the image, which only this unit writes.
        let out = unsafe { self.out.slice(begin, (end - first) * self.channel_len) };
        let (sums, apart) = memory.split_at_mut(BLOCK * panel_width::<S>());
        let (result, row_len) = if self.has_gaps { (&mut *apart, part.len()) } else { (&mut *out, self.channel_len) };
        for (block, positions) in self.positions[0].chunks(part.block()).enumerate() {
            for panel in self.panels.clone() {
                let (channel, width) = packed.channels(panel);
                let (weights, start) = (packed.panel(panel), &self.start[channel..][..width]);
                let sums = &mut sums[..positions.len() * width];
                PanelSums { taps: &part.taps, weights, channels: width, start, positions, source }.run(simd, sums);
                let to = &mut result[(channel - first) * row_len + block * part.block()..];
                transpose(simd, sums, width, [positions.len(), width.min(end - channel)], to, row_len);
            }
        }
        if self.has_gaps {
            out.fill(0.0);
            for (apart, out) in apart.chunks_exact(row_len).zip(out.chunks_exact_mut(self.channel_len)) {
                part.place(apart, part.size[1], out);
            }
        }
    }

    #[inline(always)]
    fn by_channel<S: Simd>(&self, simd: S, panel: usize, source: &[f32], sums: &mut [f32], out: &mut [f32]) {
        let (first, channels) = self.packed[0].channels(panel);
        let sums = &mut sums[..self.channel_len * channels];
        if self.has_gaps {
            sums.fill(0.0);
        }
        for ((part, packed), positions) in self.pass.parts.iter().zip(self.packed).zip(self.positions) {
            let (weights, start) = (packed.panel(panel), &self.start[first..][..channels]);
            PanelSums { taps: &part.taps, weights, channels, start, positions, source }.run(simd, sums);
        }
        transpose(simd, sums, channels, [self.channel_len, out.len() / self.channel_len], out, self.channel_len);
    }

    #[inline(always)]
    fn by_position<S: Simd>(&self, simd: S, panel: usize, source: &[f32], sums: &mut [f32], out: &mut [f32]) {
        for (part, packed) in self.pass.parts.iter().zip(self.packed) {
            let (first, count) = packed.channels(panel);
            let product = PositionSums::new::<S>(part);
            product.run(simd, packed.panel(panel), &self.start[first..][..count], source, sums);
            for (sums, out) in sums.chunks(product.row_len()).zip(out.chunks_exact_mut(self.channel_len)) {
                part.place(sums, part.source[0], out);
            }
        }
    }
}
