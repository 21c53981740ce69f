//! The loop of the backward pass.

use pulp::{Simd, WithSimd};

use super::super::super::panels::{PanelColumns, Panels, Source, UNIT_VECTORS, sweep};
use super::super::super::states::{StateMemory, StatePair};
use super::super::super::team::{Part, Team, TimeLoop};
use super::super::super::time_loop::{Step, UnitCell};
use super::super::GATES;
use super::super::backward::BackwardCell;
use super::forward::limited;
use super::{MAX_LOG_HEIGHT, MAX_LOG_MOVE, MAX_LOG_SHARPNESS, RecurrentShape, WindowShape};
use crate::shared_slice::SharedSlice;
use crate::vector::{add_scaled, exp_bounded, load};

/// The backward pass up to the gradients of all gates and of `α̂`, `β̂`, `κ̂`; see [`super::window_backward`].
pub(super) struct BackwardLoop<'a> {
    pub(super) shape: WindowShape,
    pub(super) texts: &'a [Vec<u32>],
    /// Transposed projection, `[3·n_components, d_hidden]`.
    pub(super) projection: &'a [f32],
    /// Weights of `[h_{t−1}; w_{t−1}]`, `[d_hidden + d_char, 4·d_hidden]`.
    pub(super) combined: &'a [f32],
    pub(super) cells: &'a [f32],
    pub(super) positions: &'a [f32],
    /// Gates, overwritten by their gradients.
    pub(super) gates: &'a mut [f32],
    /// `α̂`, `β̂`, `κ̂`, overwritten by their gradients.
    pub(super) raw: &'a mut [f32],
    pub(super) grad_hidden: &'a [f32],
    pub(super) grad_windows: &'a [f32],
    /// Gradient of the bias of the gates; zero before.
    pub(super) bias: &'a mut [f32],
}

impl WithSimd for BackwardLoop<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let WindowShape { lstm: shape, d_char, n_components } = self.shape;
        let RecurrentShape { batch, d_hidden, .. } = shape;
        let (units, width) = (d_hidden + d_char, GATES * d_hidden);
        let source = Source { data: self.combined, offset: 0, row_stride: 1, column_stride: width };
        let panels = Panels::new::<S>(source, width, units, PanelColumns::Units);
        let team = Team::of_rows(&shape, width);
        let mut memory = StateMemory::new(batch, width);
        let mut biases = vec![0.0; team.row_groups() * width];
        let (c0, mut grad_c) = (vec![0.0; batch * d_hidden], vec![0.0; batch * d_hidden]);
        let (mut from_next, mut grad_positions) = (vec![0.0; batch * units], vec![0.0; batch * n_components]);
        let cell = BackwardCell {
            shape,
            c0: &c0,
            cells: self.cells,
            gates: SharedSlice::new(self.gates),
            grad_hidden: self.grad_hidden,
            grad_cells: None,
            grad_c: SharedSlice::new(&mut grad_c),
        };
        let glimpse = Glimpse {
            shape: self.shape,
            texts: self.texts,
            projection: self.projection,
            positions: self.positions,
            raw: SharedSlice::new(self.raw),
            grad_windows: self.grad_windows,
            grad_positions: SharedSlice::new(&mut grad_positions),
        };
        let from_next = FromNext { sums: SharedSlice::new(&mut from_next), units };
        let steps =
            Steps { panels, memory: memory.pair(), biases: SharedSlice::new(&mut biases), cell, glimpse, from_next };
        team.run(simd, &steps);
        for group in biases.chunks(width) {
            self.bias.iter_mut().zip(group).for_each(|(sum, group)| *sum += group);
        }
    }
}

struct Steps<'a> {
    panels: Panels<UNIT_VECTORS>,
    /// Gradients of the gates of a step.
    memory: StatePair<'a>,
    /// `[row_groups, 4·d_hidden]`
    biases: SharedSlice<'a>,
    cell: BackwardCell<'a>,
    glimpse: Glimpse<'a>,
    from_next: FromNext<'a>,
}

impl TimeLoop for Steps<'_> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, part: &Part<'_>) {
        let RecurrentShape { seq, d_hidden, .. } = self.glimpse.shape.lstm;
        let group_start = part.row_group * GATES * d_hidden;
        let longest = part.rows.clone().map(|row| self.glimpse.texts[row].len()).max().unwrap_or(0);
        let places: Vec<f32> = (1..=longest).map(|u| u as f32).collect();
        let mut gradient = vec![0.0; longest];
        for index in (0..seq).rev() {
            let step = Step { index, states: self.memory, written: index, biases: self.biases, group_start };
            if index + 1 < seq {
                // SAFETY: this step only writes the other state.
                let next = unsafe { self.memory.rows(index + 1, part) };
                sweep(simd, part, Some(next), &self.panels, step, &self.from_next);
            }
            for row in part.rows.clone() {
                // SAFETY: the row belongs to this part alone.
                let sums = unsafe { self.from_next.sums.slice(row * self.from_next.units, self.from_next.units) };
                self.glimpse.gradients(simd, index, row, &places, &mut gradient, sums);
                let mut unit = 0;
                while unit + S::F32_LANES <= d_hidden {
                    let sum = load(simd, &sums[unit..][..S::F32_LANES]);
                    self.cell.unit_vector(simd, step, row, unit, S::F32_LANES, sum);
                    unit += S::F32_LANES;
                }
                if unit < d_hidden {
                    let sum = load(simd, &sums[unit..d_hidden]);
                    self.cell.unit_vector(simd, step, row, unit, d_hidden - unit, sum);
                }
            }
        }
    }
}

/// Keeps the gradients that a step gets from the next one, `[batch, units]`: those of `h_t`, then those of `w_t`.
struct FromNext<'a> {
    sums: SharedSlice<'a>,
    units: usize,
}

impl UnitCell for FromNext<'_> {
    #[inline(always)]
    fn unit_vector<S: Simd>(&self, simd: S, _: Step<'_>, row: usize, unit: usize, count: usize, sum: S::f32s) {
        // SAFETY: the row belongs to this part alone.
        unsafe { self.sums.store(simd, row * self.units + unit, count, sum) };
    }
}

/// The gradients of the window of a step.
struct Glimpse<'a> {
    shape: WindowShape,
    texts: &'a [Vec<u32>],
    /// Transposed projection, `[3·n_components, d_hidden]`.
    projection: &'a [f32],
    positions: &'a [f32],
    raw: SharedSlice<'a>,
    grad_windows: &'a [f32],
    /// Gradient of `κ_t`, `[batch, n_components]`, zero at first.
    grad_positions: SharedSlice<'a>,
}

impl Glimpse<'_> {
    /// Replaces `α̂`, `β̂` and `κ̂` of a row by their gradients, and adds those of `h_t` to the first `d_hidden` elements of `sums`,
    /// whose others are the gradients of `w_t` from the next step.
    #[inline(always)]
    fn gradients<S: Simd>(
        &self,
        simd: S,
        index: usize,
        row: usize,
        places: &[f32],
        gradient: &mut [f32],
        sums: &mut [f32],
    ) {
        let WindowShape { lstm: RecurrentShape { seq, d_hidden, .. }, d_char, n_components } = self.shape;
        let (at, text) = (row * seq + index, &self.texts[row]);
        let (sums, from_next) = sums.split_at_mut(d_hidden);
        let outside = &self.grad_windows[at * d_char..][..d_char];
        let gradient = &mut gradient[..text.len()];
        for (gradient, &character) in gradient.iter_mut().zip(text) {
            *gradient = from_next[character as usize] + outside[character as usize];
        }
        // SAFETY: the row belongs to this part alone.
        let (raw, grad_positions) = unsafe {
            (
                self.raw.slice(at * 3 * n_components, 3 * n_components),
                self.grad_positions.slice(row * n_components, n_components),
            )
        };
        let positions = &self.positions[at * n_components..][..n_components];
        for k in 0..n_components {
            let [height, sharpness, moved] = [0, 1, 2].map(|part| raw[part * n_components + k]);
            let beta = limited(sharpness, MAX_LOG_SHARPNESS).exp();
            let (log_height, flatness) = (simd.splat_f32s(limited(height, MAX_LOG_HEIGHT)), simd.splat_f32s(-beta));
            let centre = simd.splat_f32s(positions[k]);
            let mut moments = [simd.splat_f32s(0.0); 3];
            let mut first = 0;
            while first < text.len() {
                let count = S::F32_LANES.min(text.len() - first);
                let distance = simd.sub_f32s(centre, load(simd, &places[first..][..count]));
                let exponent = simd.mul_add_e_f32s(flatness, simd.mul_f32s(distance, distance), log_height);
                let weighted = simd.mul_f32s(exp_bounded(simd, exponent), load(simd, &gradient[first..][..count]));
                let far = simd.mul_f32s(weighted, distance);
                moments[0] = simd.add_f32s(moments[0], weighted);
                moments[1] = simd.add_f32s(moments[1], far);
                moments[2] = simd.mul_add_e_f32s(far, distance, moments[2]);
                first += count;
            }
            let [zeroth, first, second] = moments;
            let [zeroth, first, second] =
                [simd.reduce_sum_f32s(zeroth), simd.reduce_sum_f32s(first), simd.reduce_sum_f32s(second)];
            grad_positions[k] -= 2.0 * beta * first;
            let move_gradient = grad_positions[k] * limited(moved, MAX_LOG_MOVE).exp();
            raw[k] = if height > MAX_LOG_HEIGHT { 0.0 } else { zeroth };
            raw[n_components + k] = if sharpness > MAX_LOG_SHARPNESS { 0.0 } else { -beta * second };
            raw[2 * n_components + k] = if moved > MAX_LOG_MOVE { 0.0 } else { move_gradient };
        }
        for (j, &grad) in raw.iter().enumerate() {
            add_scaled(simd, grad, &self.projection[j * d_hidden..][..d_hidden], sums);
        }
    }
}
