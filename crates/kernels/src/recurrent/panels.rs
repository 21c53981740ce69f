//! The product of a few rows with a matrix that every step uses: `sums = a W`, `a` `[rows, depth]`.
//!
//! Each call packs `W` once into panels of `N` vectors: a panel holds, for each `k < depth` in turn, the `N` vectors of row
//! `k` of `W` that the panel computes. A tile of rows × `N` sums stays in registers over the whole depth.

use pulp::Simd;
use rayon::prelude::*;

use super::team::Part;
use super::time_loop::{Cell, Step};
use crate::parallel::SERIAL_ELEMENTS;
use crate::scratch::Scratch;
use crate::tile::{TILE_ROWS, multiply_tile};

/// The columns of `W` that a panel holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PanelColumns {
    /// `W` is `[depth, N · units]`; a panel holds one vector of units for each of the `N` gates.
    GatesOfUnits,
    /// `W` is `[depth, units]`; a panel holds `N` consecutive vectors of units.
    Units,
}

/// The matrix to pack: element `(k, column)` is `data[offset + k·row_stride + column·column_stride]`.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) data: &'a [f32],
    pub(super) offset: usize,
    pub(super) row_stride: usize,
    pub(super) column_stride: usize,
}

/// A packed matrix.
pub(super) struct Panels<const N: usize> {
    data: Scratch,
    shape: PanelShape<N>,
}

/// The shape of a packed matrix, for vectors of `lanes` elements.
#[derive(Clone, Copy)]
struct PanelShape<const N: usize> {
    lanes: usize,
    depth: usize,
    units: usize,
    columns: PanelColumns,
}

impl<const N: usize> Panels<N> {
    pub(super) fn new<S: Simd>(source: Source<'_>, depth: usize, units: usize, columns: PanelColumns) -> Self {
        let shape = PanelShape::<N> { lanes: S::F32_LANES, depth, units, columns };
        let mut data = Scratch::new(shape.count() * shape.len());
        let pack = |(panel, packed): (usize, &mut [f32])| shape.pack(source, panel, packed);
        if data.is_empty() {
            // There is nothing to pack.
        } else if data.len() <= SERIAL_ELEMENTS {
            data.chunks_mut(shape.len()).enumerate().for_each(pack);
        } else {
            data.par_chunks_mut(shape.len()).enumerate().for_each(pack);
        }
        Self { data, shape }
    }

    /// Returns the number of panels.
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.shape.count()
    }

    /// Returns the first unit of a panel and the number of its units.
    #[inline(always)]
    fn units_of(&self, panel: usize) -> (usize, usize) {
        self.shape.units_of(panel)
    }

    #[inline(always)]
    fn panel(&self, panel: usize) -> &[f32] {
        &self.data[panel * self.shape.len()..][..self.shape.len()]
    }
}

impl<const N: usize> PanelShape<N> {
    /// Returns the number of elements of a panel.
    #[inline(always)]
    fn len(&self) -> usize {
        self.depth * N * self.lanes
    }

    fn pack(&self, source: Source<'_>, panel: usize, packed: &mut [f32]) {
        let (unit, units) = self.units_of(panel);
        if units < self.panel_units() {
            packed.fill(0.0);
        }
        for j in 0..N {
            let (column, count) = match self.columns {
                PanelColumns::GatesOfUnits => (j * self.units + unit, units),
                PanelColumns::Units => (unit + j * self.lanes, units.saturating_sub(j * self.lanes).min(self.lanes)),
            };
            if count == 0 {
                break;
            }
            for first in (0..self.depth).step_by(16) {
                let depths = first..self.depth.min(first + 16);
                if source.column_stride == 1 {
                    for k in depths {
                        let from = &source.data[source.offset + k * source.row_stride + column..][..count];
                        packed[(k * N + j) * self.lanes..][..count].copy_from_slice(from);
                    }
                } else {
                    for lane in 0..count {
                        let from = source.offset + (column + lane) * source.column_stride;
                        for k in depths.clone() {
                            packed[(k * N + j) * self.lanes + lane] = source.data[from + k * source.row_stride];
                        }
                    }
                }
            }
        }
    }

    /// Returns the number of panels.
    #[inline(always)]
    fn count(&self) -> usize {
        self.units.div_ceil(self.panel_units())
    }

    /// Returns the number of units of every panel but the last, which may have fewer.
    #[inline(always)]
    fn panel_units(&self) -> usize {
        match self.columns {
            PanelColumns::GatesOfUnits => self.lanes,
            PanelColumns::Units => self.lanes * N,
        }
    }

    /// Returns the first unit of a panel and the number of its units.
    #[inline(always)]
    fn units_of(&self, panel: usize) -> (usize, usize) {
        let first = panel * self.panel_units();
        (first, (self.units - first).min(self.panel_units()))
    }
}

/// The left factor: element `(r, k)` is `data[r·stride + k·depth_stride]`.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) data: &'a [f32],
    pub(super) stride: usize,
    pub(super) depth_stride: usize,
}

/// Number of vectors of units in a panel of [`PanelColumns::Units`].
pub(super) const UNIT_VECTORS: usize = 4;

/// Computes the part's rows and panels of `a W`, zeros without `a`, and hands them to `cell`. The first row of `a` is the
/// first row of the part.
#[inline(always)]
pub(super) fn sweep<S: Simd, const N: usize>(
    simd: S,
    part: &Part<'_>,
    a: Option<Rows<'_>>,
    panels: &Panels<N>,
    step: Step<'_>,
    cell: &impl Cell<N>,
) {
    assert_eq!(panels.shape.lanes, S::F32_LANES);
    let rows = part.rows.len();
    let tiles = rows.div_ceil(rows_of_tile::<S>());
    for panel in part.panels(panels.count()) {
        let weights = panels.panel(panel);
        for tile in 0..tiles {
            let first = part.rows.start + rows * tile / tiles;
            let count = part.rows.start + rows * (tile + 1) / tiles - first;
            let mut sums = [[simd.splat_f32s(0.0); N]; TILE_ROWS];
            if let Some(a) = a {
                let a = Rows { data: a.data.get((first - part.rows.start) * a.stride..).unwrap_or(&[]), ..a };
                multiply_rows(simd, count, a, weights, &mut sums);
            }
            cell.finish(simd, step, first, panels.units_of(panel), &mut sums[..count]);
        }
    }
}

/// Returns the number of rows of a tile of 4 vectors, whose sums and factors fill 29 of 32 registers or 16 of 16.
#[inline(always)]
pub(super) fn rows_of_tile<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { TILE_ROWS } else { 3 }
}

/// Adds `a[r] W` to `sums[r]` for one panel and `rows` rows, at most [`TILE_ROWS`].
#[inline(always)]
pub(super) fn multiply_rows<S: Simd, const N: usize>(
    simd: S,
    rows: usize,
    a: Rows<'_>,
    weights: &[f32],
    sums: &mut [[S::f32s; N]; TILE_ROWS],
) {
    match rows {
        0 => {}
        1 => multiply::<S, 1, N>(simd, a, weights, sums),
        2 => multiply::<S, 2, N>(simd, a, weights, sums),
        3 => multiply::<S, 3, N>(simd, a, weights, sums),
        4 => multiply::<S, 4, N>(simd, a, weights, sums),
        5 => multiply::<S, 5, N>(simd, a, weights, sums),
        _ => multiply::<S, TILE_ROWS, N>(simd, a, weights, sums),
    }
}

#[inline(always)]
fn multiply<S: Simd, const R: usize, const N: usize>(
    simd: S,
    a: Rows<'_>,
    weights: &[f32],
    sums: &mut [[S::f32s; N]; TILE_ROWS],
) {
    let depth = weights.len() / (N * S::F32_LANES);
    if depth == 0 {
        return;
    }
    assert!(a.data.len() > (R - 1) * a.stride + (depth - 1) * a.depth_stride);
    let tile = sums.first_chunk_mut::<R>().expect("at most TILE_ROWS rows");
    let (left, right) = ((a.data.as_ptr(), a.stride, a.depth_stride), (weights.as_ptr(), N * S::F32_LANES));
    // SAFETY: r < R and t < depth, so `a` is read below its length by the assertion, and `weights` by the division.
    *tile = unsafe { multiply_tile(simd, depth, left, right, *tile) };
}
