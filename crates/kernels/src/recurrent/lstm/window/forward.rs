//! The loop of the forward pass.

use pulp::{Simd, WithSimd};

use super::super::super::panels::{PanelColumns, Panels, Source, sweep};
use super::super::super::states::{StateMemory, StatePair};
use super::super::super::team::{Part, Team, TimeLoop};
use super::super::super::time_loop::Step;
use super::super::GATES;
use super::super::forward::ForwardCell;
use super::{
    MAX_LOG_HEIGHT, MAX_LOG_MOVE, MAX_LOG_SHARPNESS, RecurrentShape, WindowShape, WindowStates, WindowWeights,
};
use crate::shared_slice::SharedSlice;
use crate::vector::{dot, exp_bounded, load};

/// The forward pass; see [`super::window_forward`].
pub(super) struct ForwardLoop<'a> {
    pub(super) shape: WindowShape,
    pub(super) texts: &'a [Vec<u32>],
    pub(super) weights: WindowWeights<'a>,
    /// Transposed projection, `[3·n_components, d_hidden]`.
    pub(super) projection: &'a [f32],
    /// Weights of `[h_{t−1}; w_{t−1}]`, `[d_hidden + d_char, 4·d_hidden]`.
    pub(super) combined: &'a [f32],
    pub(super) states: WindowStates<'a>,
}

impl WithSimd for ForwardLoop<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { shape, texts, weights, projection, combined, states } = self;
        let RecurrentShape { batch, d_hidden, .. } = shape.lstm;
        let (depth, width) = (d_hidden + shape.d_char, GATES * d_hidden);
        let source = Source { data: combined, offset: 0, row_stride: width, column_stride: 1 };
        let panels = Panels::new::<S>(source, depth, d_hidden, PanelColumns::GatesOfUnits);
        let mut memory = StateMemory::new(batch, depth);
        let c0 = vec![0.0; batch * d_hidden];
        let WindowStates { hidden, windows, cells, gates, raw, positions } = states;
        let [hidden, windows, cells, gates, raw, positions] =
            [hidden, windows, cells, gates, raw, positions].map(SharedSlice::new);
        let cell = ForwardCell { shape: shape.lstm, bias: weights.lstm.bias, c0: &c0, hidden, cells, gates };
        let bias = weights.projection_bias;
        let glimpse = Glimpse { shape, texts, projection, bias, hidden, windows, raw, positions };
        Team::of_rows(&shape.lstm, width).run(simd, &Steps { panels, memory: memory.pair(), cell, glimpse });
    }
}

struct Steps<'a> {
    panels: Panels<GATES>,
    /// `[h; w]` before a step.
    memory: StatePair<'a>,
    cell: ForwardCell<'a>,
    glimpse: Glimpse<'a>,
}

impl TimeLoop for Steps<'_> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, part: &Part<'_>) {
        let biases = SharedSlice::new(&mut []);
        let WindowShape { lstm, d_char, .. } = self.glimpse.shape;
        let longest = part.rows.clone().map(|row| self.glimpse.texts[row].len()).max().unwrap_or(0);
        let places: Vec<f32> = (1..=longest).map(|u| u as f32).collect();
        let (mut weights, mut window) = (vec![0.0; longest], vec![0.0; d_char]);
        for index in 0..lstm.seq {
            let step = Step { index, states: self.memory, written: index + 1, biases, group_start: 0 };
            // SAFETY: this step only writes the other state.
            let state = unsafe { self.memory.rows(index, part) };
            sweep(simd, part, Some(state), &self.panels, step, &self.cell);
            for row in part.rows.clone() {
                self.glimpse.window(simd, index, row, &places, &mut weights, &mut window);
                let mut first = 0;
                while first < d_char {
                    let count = S::F32_LANES.min(d_char - first);
                    let value = load(simd, &window[first..][..count]);
                    // SAFETY: the row belongs to this part alone.
                    unsafe { step.store_state(simd, row, lstm.d_hidden + first, count, value) };
                    first += count;
                }
            }
        }
    }
}

/// The window of a step.
struct Glimpse<'a> {
    shape: WindowShape,
    texts: &'a [Vec<u32>],
    /// Transposed projection, `[3·n_components, d_hidden]`.
    projection: &'a [f32],
    bias: &'a [f32],
    hidden: SharedSlice<'a>,
    windows: SharedSlice<'a>,
    raw: SharedSlice<'a>,
    positions: SharedSlice<'a>,
}

impl Glimpse<'_> {
    /// Computes `w_t` of a row into `window`, and stores it with all that the backward pass needs.
    #[inline(always)]
    fn window<S: Simd>(
        &self,
        simd: S,
        index: usize,
        row: usize,
        places: &[f32],
        weights: &mut [f32],
        window: &mut [f32],
    ) {
        let WindowShape { lstm: RecurrentShape { seq, d_hidden, .. }, d_char, n_components } = self.shape;
        let (at, text) = (row * seq + index, &self.texts[row]);
        // SAFETY: the row belongs to this part alone, and its hidden state of this step is complete.
        let (hidden, raw, positions, out) = unsafe {
            (
                self.hidden.read(at * d_hidden, d_hidden),
                self.raw.slice(at * 3 * n_components, 3 * n_components),
                self.positions.slice(at * n_components, n_components),
                self.windows.slice(at * d_char, d_char),
            )
        };
        for (j, raw) in raw.iter_mut().enumerate() {
            *raw = self.bias[j] + dot(simd, hidden, &self.projection[j * d_hidden..][..d_hidden]);
        }
        for (k, position) in positions.iter_mut().enumerate() {
            let before = match index {
                0 => 0.0,
                // SAFETY: as above; the step before is done.
                _ => unsafe { self.positions.read((at - 1) * n_components + k, 1)[0] },
            };
            *position = before + limited(raw[2 * n_components + k], MAX_LOG_MOVE).exp();
        }
        let weights = &mut weights[..text.len()];
        weights.fill(0.0);
        for k in 0..n_components {
            let height = simd.splat_f32s(limited(raw[k], MAX_LOG_HEIGHT));
            let flatness = simd.splat_f32s(-limited(raw[n_components + k], MAX_LOG_SHARPNESS).exp());
            let centre = simd.splat_f32s(positions[k]);
            let mut first = 0;
            while first < text.len() {
                let count = S::F32_LANES.min(text.len() - first);
                let distance = simd.sub_f32s(centre, load(simd, &places[first..][..count]));
                let exponent = simd.mul_add_e_f32s(flatness, simd.mul_f32s(distance, distance), height);
                let sum = simd.add_f32s(load(simd, &weights[first..][..count]), exp_bounded(simd, exponent));
                match S::as_mut_simd_f32s(&mut weights[first..][..count]) {
                    ([whole], []) => *whole = sum,
                    (_, part) => simd.partial_store_f32s(part, sum),
                }
                first += count;
            }
        }
        window.fill(0.0);
        for (&character, weight) in text.iter().zip(weights.iter()) {
            window[character as usize] += weight;
        }
        out.copy_from_slice(window);
    }
}

/// Returns the smaller number, and NaN for NaN.
#[inline(always)]
pub(super) fn limited(x: f32, most: f32) -> f32 {
    if x > most { most } else { x }
}
