//! The loops over the steps of a layer, forward and backward.
//!
//! A step multiplies the state that the step before has written by `W_hh` and hands the sums to the layer's cell.

use pulp::{Simd, WithSimd};

use super::RecurrentShape;
use super::panels::{PanelColumns, Panels, Source, UNIT_VECTORS, sweep};
use super::states::{StateMemory, StatePair};
use super::team::{Part, Team, TimeLoop};
use crate::shared_slice::SharedSlice;
use crate::tile::TILE_ROWS;
use crate::vector::load;

/// What a layer does in a step, given panels of `N` vectors of sums.
pub(super) trait Cell<const N: usize>: Sync {
    /// Takes the sums of a panel: `sums[i]` belongs to row `first + i` of the batch and to the panel's `units`, the first
    /// and their number. The sums may be used as scratch memory.
    fn finish<S: Simd>(&self, simd: S, step: Step<'_>, first: usize, units: (usize, usize), sums: &mut [[S::f32s; N]]);

    /// Computes a second product after all units have finished the first, if the step has one.
    #[inline(always)]
    fn second_product<S: Simd>(&self, _simd: S, _step: Step<'_>, _part: &Part<'_>) {}
}

/// A [`Cell`] that takes one row and one vector of units at a time, from panels of [`PanelColumns::Units`].
pub(super) trait UnitCell: Sync {
    /// Takes the sums of row `row` and units `unit..unit + count`.
    fn unit_vector<S: Simd>(&self, simd: S, step: Step<'_>, row: usize, unit: usize, count: usize, sum: S::f32s);

    /// Computes a second product, as in [`Cell::second_product`].
    #[inline(always)]
    fn second_product<S: Simd>(&self, _simd: S, _step: Step<'_>, _part: &Part<'_>) {}
}

impl<T: UnitCell> Cell<UNIT_VECTORS> for T {
    #[inline(always)]
    fn finish<S: Simd>(
        &self,
        simd: S,
        step: Step<'_>,
        first: usize,
        units: (usize, usize),
        sums: &mut [[S::f32s; UNIT_VECTORS]],
    ) {
        for (i, sums) in sums.iter().enumerate() {
            for (j, sum) in sums.iter().enumerate() {
                let (unit, count) = (units.0 + j * S::F32_LANES, units.1.saturating_sub(j * S::F32_LANES));
                // Two copies of the code, so that the usual one has no branch on the number of lanes.
                if count >= S::F32_LANES {
                    self.unit_vector(simd, step, first + i, unit, S::F32_LANES, *sum);
                } else if count > 0 {
                    self.unit_vector(simd, step, first + i, unit, count, *sum);
                }
            }
        }
    }

    #[inline(always)]
    fn second_product<S: Simd>(&self, simd: S, step: Step<'_>, part: &Part<'_>) {
        UnitCell::second_product(self, simd, step, part);
    }
}

/// One step of a time loop, for one part of the team.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    /// Number of the step in the sequence.
    pub(super) index: usize,
    pub(super) states: StatePair<'a>,
    /// Number of the state that the step writes.
    pub(super) written: usize,
    /// Sums for each row group, `[row_groups, bias]`; empty in a forward pass.
    pub(super) biases: SharedSlice<'a>,
    /// Where the sums of the part's row group start in `biases`.
    pub(super) group_start: usize,
}

impl Step<'_> {
    /// Writes the first `count` lanes to the columns from `column` on of the state that the next product reads.
    ///
    /// # Safety
    /// No other thread uses these elements before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn store_state<S: Simd>(self, simd: S, row: usize, column: usize, count: usize, value: S::f32s) {
        // SAFETY: the caller's promise.
        unsafe { self.states.store(simd, self.written, row, column, count, value) };
    }

    /// Adds the first `count` lanes to the part's gradients of the biases from `column` on.
    ///
    /// # Safety
    /// No other thread uses these columns of the row group.
    #[inline(always)]
    pub(super) unsafe fn add_bias<S: Simd>(self, simd: S, column: usize, count: usize, grad: S::f32s) {
        // SAFETY: the caller's promise.
        unsafe { self.biases.add(simd, self.group_start + column, count, grad) };
    }
}

/// A forward pass: step `t` multiplies `h_{t−1}` by `W_hh` and stores `h_t` as the next state.
pub(super) struct ForwardPass<'a, C, const N: usize> {
    pub(super) shape: RecurrentShape,
    /// `[d_hidden, gates · d_hidden]`; the product has the columns that panels of `N` vectors hold.
    pub(super) w_hh: &'a [f32],
    pub(super) columns: PanelColumns,
    /// `[batch, d_hidden]`
    pub(super) h0: &'a [f32],
    pub(super) cell: C,
}

impl<C: Cell<N>, const N: usize> WithSimd for ForwardPass<'_, C, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, w_hh, columns, h0, cell } = self;
        let RecurrentShape { batch, seq, d_hidden, .. } = shape;
        let width = w_hh.len() / d_hidden;
        let source = Source { data: w_hh, offset: 0, row_stride: width, column_stride: 1 };
        let panels = Panels::new::<S>(source, d_hidden, d_hidden, columns);
        let mut states = StateMemory::starting_from(h0, batch, d_hidden);
        Team::new(&shape, width).run(simd, &ForwardLoop { seq, panels, states: states.pair(), cell });
    }
}

/// A forward pass of one step, as in decoding. Its product is not [packed](Panels), which would cost more than the product.
pub(super) struct SingleStep<'a, C, const N: usize> {
    pub(super) shape: RecurrentShape,
    pub(super) columns: PanelColumns,
    /// The sums of `h_0 W_hh`, `[batch, gates · d_hidden]`.
    pub(super) sums: &'a [f32],
    pub(super) cell: C,
}

impl<C: Cell<N>, const N: usize> WithSimd for SingleStep<'_, C, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape: RecurrentShape { batch, d_hidden, .. }, columns, sums, cell } = self;
        let lanes = S::F32_LANES;
        let (width, units) = match columns {
            PanelColumns::GatesOfUnits => (N * d_hidden, lanes),
            PanelColumns::Units => (d_hidden, N * lanes),
        };
        let mut states = StateMemory::new(batch, d_hidden);
        let biases = SharedSlice::new(&mut []);
        let step = Step { index: 0, states: states.pair(), written: 1, biases, group_start: 0 };
        for unit in (0..d_hidden).step_by(units) {
            let count = units.min(d_hidden - unit);
            for first in (0..batch).step_by(TILE_ROWS) {
                let rows = TILE_ROWS.min(batch - first);
                let mut tile = [[simd.splat_f32s(0.0); N]; TILE_ROWS];
                for (r, tile) in tile[..rows].iter_mut().enumerate() {
                    for (j, sum) in tile.iter_mut().enumerate() {
                        let (column, count) = match columns {
                            PanelColumns::GatesOfUnits => (j * d_hidden + unit, count),
                            PanelColumns::Units => (unit + j * lanes, count.saturating_sub(j * lanes).min(lanes)),
                        };
                        if count > 0 {
                            *sum = load(simd, &sums[(first + r) * width + column..][..count]);
                        }
                    }
                }
                cell.finish(simd, step, first, (unit, count), &mut tile[..rows]);
            }
        }
    }
}

struct ForwardLoop<'a, C, const N: usize> {
    seq: usize,
    panels: Panels<N>,
    /// `h` before a step.
    states: StatePair<'a>,
    cell: C,
}

impl<C: Cell<N>, const N: usize> TimeLoop for ForwardLoop<'_, C, N> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, part: &Part<'_>) {
        let biases = SharedSlice::new(&mut []);
        for index in 0..self.seq {
            let step = Step { index, states: self.states, written: index + 1, biases, group_start: 0 };
            // SAFETY: this step only writes the other state.
            let state = unsafe { self.states.rows(index, part) };
            sweep(simd, part, Some(state), &self.panels, step, &self.cell);
            part.wait();
            self.cell.second_product(simd, step, part);
        }
    }
}

/// A backward pass: step `t` multiplies the gradients that step `t + 1` has stored as the next state by `W_hhᵀ`.
pub(super) struct BackwardPass<'a, C> {
    pub(super) shape: RecurrentShape,
    /// `[d_hidden, gates · d_hidden]`
    pub(super) w_hh: &'a [f32],
    /// Number of columns of `w_hh` that take part in the product; a state has as many.
    pub(super) depth: usize,
    /// Sums of the gradients that the cell adds with [`Step::add_bias`]; zero before.
    pub(super) bias: &'a mut [f32],
    /// `[batch, d_hidden]`; the product of step 0 is added.
    pub(super) grad_h0: SharedSlice<'a>,
    pub(super) cell: C,
}

impl<C: UnitCell> WithSimd for BackwardPass<'_, C> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, w_hh, depth, bias, grad_h0, cell } = self;
        let RecurrentShape { batch, d_hidden, .. } = shape;
        let width = w_hh.len() / d_hidden;
        let source = Source { data: w_hh, offset: 0, row_stride: 1, column_stride: width };
        let panels = Panels::new::<S>(source, depth, d_hidden, PanelColumns::Units);
        let team = Team::new(&shape, width);
        let mut states = StateMemory::new(batch, depth);
        let mut biases = vec![0.0; team.row_groups() * bias.len()];
        let (states, groups) = (states.pair(), SharedSlice::new(&mut biases));
        team.run(simd, &BackwardLoop { shape, panels, states, biases: groups, d_bias: bias.len(), grad_h0, cell });
        for group in biases.chunks(bias.len()) {
            bias.iter_mut().zip(group).for_each(|(sum, group)| *sum += group);
        }
    }
}

struct BackwardLoop<'a, C> {
    shape: RecurrentShape,
    panels: Panels<UNIT_VECTORS>,
    /// Gradients at the product of a step.
    states: StatePair<'a>,
    /// `[row_groups, d_bias]`
    biases: SharedSlice<'a>,
    d_bias: usize,
    grad_h0: SharedSlice<'a>,
    cell: C,
}

impl<C: UnitCell> TimeLoop for BackwardLoop<'_, C> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, part: &Part<'_>) {
        let Self { shape: RecurrentShape { seq, d_hidden, .. }, states, biases, .. } = *self;
        let group_start = part.row_group * self.d_bias;
        let at = |index| Step { index, states, written: index, biases, group_start };
        for index in (0..seq).rev() {
            // SAFETY: this step only writes the other state.
            let next = (index + 1 < seq).then(|| unsafe { states.rows(index + 1, part) });
            sweep(simd, part, next, &self.panels, at(index), &self.cell);
            part.wait();
            UnitCell::second_product(&self.cell, simd, at(index), part);
        }
        // SAFETY: nobody writes the states any more.
        let first = unsafe { states.rows(0, part) };
        sweep(simd, part, Some(first), &self.panels, at(0), &InitialState { grad_h0: self.grad_h0, d_hidden });
    }
}

/// Adds the product of step 0 to the gradient of `h_0`, `[batch, d_hidden]`.
struct InitialState<'a> {
    grad_h0: SharedSlice<'a>,
    d_hidden: usize,
}

impl UnitCell for InitialState<'_> {
    #[inline(always)]
    fn unit_vector<S: Simd>(&self, simd: S, _: Step<'_>, row: usize, unit: usize, count: usize, sum: S::f32s) {
        // SAFETY: the row and the units belong to this part alone.
        unsafe { self.grad_h0.add(simd, row * self.d_hidden + unit, count, sum) };
    }
}
