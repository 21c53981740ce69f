//! Back-propagation through time derived by hand, for LSTM and GRU with a softmax output at every step.
//!
//! `ŷ_t = softmax(a_t W_y + b_y)`, `L = Σ_t −ln ŷ_t[target_t]`, in f64 with row vectors: `x W`. The hand-derived gradients
//! are first checked by finite differences, and then compared with the automatic ones of `Recurrent`, `Linear` and
//! `cross_entropy`.

use burn::module::Param;
use burn::tensor::{Int, Tensor, TensorData};
use regard_nn::layers::linear::LinearConfig;
use regard_nn::layers::recurrent::{Cell, RecurrentConfig, RecurrentState};
use regard_nn::{Init, Pass};
use regard_ops::{CrossEntropyOptions, GruReset, cross_entropy};

use crate::support::{FLOOR, close, close_wide, gradient, leaf, training, values};

const BATCH: usize = 2;
const SEQ: usize = 4;
const D_IN: usize = 3;
const D_HIDDEN: usize = 5;
const VOCAB: usize = 4;

type Row = Vec<f64>;

/// All numbers that the loss depends on, or their gradients. The recurrent weights of the gates are concatenated.
#[derive(Clone)]
struct Numbers {
    /// `[d_in, gates·d_hidden]`
    w_ih: Row,
    /// `[d_hidden, gates·d_hidden]`
    w_hh: Row,
    /// `[gates·d_hidden]`
    bias: Row,
    /// `[gates·d_hidden]`, only for a GRU
    bias_hh: Row,
    /// `[d_hidden, vocab]`
    w_y: Row,
    /// `[vocab]`
    b_y: Row,
    /// `[batch, seq, d_in]`
    x: Row,
    /// `[batch, d_hidden]`
    a0: Row,
    /// `[batch, d_hidden]`, only for an LSTM
    c0: Row,
}

impl Numbers {
    fn parts(&mut self) -> [(&'static str, &mut Row); 9] {
        let Self { w_ih, w_hh, bias, bias_hh, w_y, b_y, x, a0, c0 } = self;
        [
            ("w_ih", w_ih),
            ("w_hh", w_hh),
            ("bias", bias),
            ("bias_hh", bias_hh),
            ("w_y", w_y),
            ("b_y", b_y),
            ("x", x),
            ("a0", a0),
            ("c0", c0),
        ]
    }

    fn zeros_like(&self) -> Self {
        let mut zeros = self.clone();
        for (_, part) in zeros.parts() {
            part.fill(0.0);
        }
        zeros
    }
}

/// Result of the hand-derived pass.
struct Result {
    loss: f64,
    gradients: Numbers,
    /// Gradients of the loss from step `t` on with respect to `a_{t−1}` and `c_{t−1}`, `[seq][batch]`.
    states: Vec<Vec<(Row, Row)>>,
    /// `a_{t−1}` and `c_{t−1}`, `[seq][batch]`.
    before: Vec<Vec<(Row, Row)>>,
}

/// Computes the part of `x W` that belongs to `gate`.
fn product(x: &[f64], w: &[f64], gate: usize) -> Row {
    let width = w.len() / x.len();
    (0..D_HIDDEN).map(|j| x.iter().enumerate().map(|(i, x)| x * w[i * width + gate * D_HIDDEN + j]).sum()).collect()
}

/// Computes `dW += xᵀ dz` in the columns of a gate.
fn add_outer(dw: &mut [f64], x: &[f64], dz: &[f64], gate: usize) {
    let width = dw.len() / x.len();
    for (i, x) in x.iter().enumerate() {
        for (j, dz) in dz.iter().enumerate() {
            dw[i * width + gate * D_HIDDEN + j] += x * dz;
        }
    }
}

/// Computes `dx += dz Wᵀ` with the columns of a gate.
fn add_back(dx: &mut [f64], w: &[f64], dz: &[f64], gate: usize) {
    let width = w.len() / dx.len();
    for (i, dx) in dx.iter_mut().enumerate() {
        *dx += dz.iter().enumerate().map(|(j, dz)| dz * w[i * width + gate * D_HIDDEN + j]).sum::<f64>();
    }
}

fn add(sum: &mut [f64], part: &[f64]) {
    for (sum, part) in sum.iter_mut().zip(part) {
        *sum += part;
    }
}

fn add_at(sum: &mut [f64], part: &[f64], gate: usize) {
    add(&mut sum[gate * D_HIDDEN..(gate + 1) * D_HIDDEN], part);
}

fn units(value: impl Fn(usize) -> f64) -> Row {
    (0..D_HIDDEN).map(value).collect()
}

fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

/// Computes the loss of one step and `dL/dz_y = ŷ − y`, `dW_y += a_tᵀ dz_y`, `db_y += dz_y`, `da_t = dz_y W_yᵀ`.
fn output(numbers: &Numbers, a: &[f64], target: usize, gradients: &mut Numbers) -> (f64, Row) {
    let z: Row = (0..VOCAB)
        .map(|v| numbers.b_y[v] + a.iter().enumerate().map(|(j, a)| a * numbers.w_y[j * VOCAB + v]).sum::<f64>())
        .collect();
    let total: f64 = z.iter().map(|z| z.exp()).sum();
    let dz: Row = (0..VOCAB).map(|v| z[v].exp() / total - if v == target { 1.0 } else { 0.0 }).collect();
    add_outer(&mut gradients.w_y, a, &dz, 0);
    add(&mut gradients.b_y, &dz);
    let mut da = vec![0.0; D_HIDDEN];
    add_back(&mut da, &numbers.w_y, &dz, 0);
    (total.ln() - z[target], da)
}

/// A cell with a hand-derived step and gradient.
trait ByHand {
    /// Values that a step keeps for its gradients.
    type Kept;

    fn forward(&self, numbers: &Numbers, x: &[f64], a: &[f64], c: &[f64]) -> (Row, Row, Self::Kept);

    /// Computes `dx_t`, `da_{t−1}`, `dc_{t−1}` from `da_t`, `dc_t` and the step's `x_t`, `a_{t−1}`, `c_{t−1}`.
    fn backward(
        &self,
        numbers: &Numbers,
        step: (&[f64], &[f64], &[f64], &Self::Kept),
        given: (&[f64], &[f64]),
        gradients: &mut Numbers,
    ) -> (Row, Row, Row);

    fn run(&self, numbers: &Numbers, targets: &[usize]) -> Result {
        let mut gradients = numbers.zeros_like();
        let (mut states, mut before) = (vec![Vec::new(); SEQ], vec![Vec::new(); SEQ]);
        let mut loss = 0.0;
        let place = |sequence: usize, step: usize| {
            let first = (sequence * SEQ + step) * D_IN;
            first..first + D_IN
        };
        for sequence in 0..BATCH {
            let own = sequence * D_HIDDEN..(sequence + 1) * D_HIDDEN;
            let (mut a, mut c) = (numbers.a0[own.clone()].to_vec(), numbers.c0[own.clone()].to_vec());
            let mut steps = Vec::new();
            for (t, before) in before.iter_mut().enumerate() {
                before.push((a.clone(), c.clone()));
                let (next_a, next_c, kept) = self.forward(numbers, &numbers.x[place(sequence, t)], &a, &c);
                let (own, da) = output(numbers, &next_a, targets[sequence * SEQ + t], &mut gradients);
                loss += own;
                steps.push((a, c, kept, da));
                (a, c) = (next_a, next_c);
            }
            let (mut da, mut dc) = (vec![0.0; D_HIDDEN], vec![0.0; D_HIDDEN]);
            for (t, (a, c, kept, from_output)) in steps.iter().enumerate().rev() {
                add(&mut da, from_output);
                let x = &numbers.x[place(sequence, t)];
                let (dx, da_before, dc_before) = self.backward(numbers, (x, a, c, kept), (&da, &dc), &mut gradients);
                add(&mut gradients.x[place(sequence, t)], &dx);
                (da, dc) = (da_before, dc_before);
                states[t].push((da.clone(), dc.clone()));
            }
            add(&mut gradients.a0[own.clone()], &da);
            add(&mut gradients.c0[own], &dc);
        }
        Result { loss, gradients, states, before }
    }
}

struct Lstm;

/// Order of the LSTM's gates.
const UPDATE: usize = 0;
const FORGET: usize = 1;
const CANDIDATE: usize = 2;
const OUTPUT: usize = 3;

struct LstmKept {
    /// `Γ_u, Γ_f, c̃, Γ_o`
    gates: [Row; 4],
    tanh_c: Row,
}

impl ByHand for Lstm {
    type Kept = LstmKept;

    /// `Γ = σ([a_{t−1}; x_t] W + b)`, `c̃ = tanh([a_{t−1}; x_t] W_c + b_c)`, `c_t = Γ_f ∘ c_{t−1} + Γ_u ∘ c̃`,
    /// `a_t = Γ_o ∘ tanh(c_t)`.
    fn forward(&self, numbers: &Numbers, x: &[f64], a: &[f64], c: &[f64]) -> (Row, Row, LstmKept) {
        let gates = [UPDATE, FORGET, CANDIDATE, OUTPUT].map(|gate| {
            let (from_x, from_a) = (product(x, &numbers.w_ih, gate), product(a, &numbers.w_hh, gate));
            let z = units(|j| from_x[j] + from_a[j] + numbers.bias[gate * D_HIDDEN + j]);
            units(|j| if gate == CANDIDATE { z[j].tanh() } else { sigmoid(z[j]) })
        });
        let [update, forget, candidate, output] = &gates;
        let c = units(|j| forget[j] * c[j] + update[j] * candidate[j]);
        let tanh_c = units(|j| c[j].tanh());
        let a = units(|j| output[j] * tanh_c[j]);
        (a, c, LstmKept { gates, tanh_c })
    }

    fn backward(
        &self,
        numbers: &Numbers,
        (x, a, c, kept): (&[f64], &[f64], &[f64], &LstmKept),
        (da, dc): (&[f64], &[f64]),
        gradients: &mut Numbers,
    ) -> (Row, Row, Row) {
        let LstmKept { gates: [update, forget, candidate, output], tanh_c } = kept;
        // dc_t += da_t ∘ Γ_o ∘ (1 − tanh²(c_t))
        let dc = units(|j| dc[j] + da[j] * output[j] * (1.0 - tanh_c[j] * tanh_c[j]));
        // dz_o = da_t ∘ tanh(c_t) ∘ Γ_o ∘ (1 − Γ_o)
        let dz_o = units(|j| da[j] * tanh_c[j] * output[j] * (1.0 - output[j]));
        // dz_u = dc_t ∘ c̃ ∘ Γ_u ∘ (1 − Γ_u)
        let dz_u = units(|j| dc[j] * candidate[j] * update[j] * (1.0 - update[j]));
        // dz_c = dc_t ∘ Γ_u ∘ (1 − c̃²)
        let dz_c = units(|j| dc[j] * update[j] * (1.0 - candidate[j] * candidate[j]));
        // dz_f = dc_t ∘ c_{t−1} ∘ Γ_f ∘ (1 − Γ_f)
        let dz_f = units(|j| dc[j] * c[j] * forget[j] * (1.0 - forget[j]));
        // Each gate: dW += [a_{t−1}; x_t]ᵀ dz, db += dz, [da_{t−1}; dx_t] += dz Wᵀ
        let (mut dx, mut da_before) = (vec![0.0; D_IN], vec![0.0; D_HIDDEN]);
        for (gate, dz) in [(UPDATE, dz_u), (FORGET, dz_f), (CANDIDATE, dz_c), (OUTPUT, dz_o)] {
            add_outer(&mut gradients.w_ih, x, &dz, gate);
            add_outer(&mut gradients.w_hh, a, &dz, gate);
            add_at(&mut gradients.bias, &dz, gate);
            add_back(&mut dx, &numbers.w_ih, &dz, gate);
            add_back(&mut da_before, &numbers.w_hh, &dz, gate);
        }
        // dc_{t−1} = dc_t ∘ Γ_f
        (dx, da_before, units(|j| dc[j] * forget[j]))
    }
}

struct Gru(GruReset);

/// Order of the GRU's gates.
const RESET: usize = 0;
const KEEP: usize = 1;
const NEW: usize = 2;

struct GruKept {
    r: Row,
    z: Row,
    n: Row,
    /// `a_{t−1} W_hn + b_hn`, which the reset gate multiplies after the product.
    q: Row,
}

impl ByHand for Gru {
    type Kept = GruKept;

    /// `r, z = σ(x_t W_i + b_i + a_{t−1} W_h + b_h)`, `n = tanh(x_t W_in + b_in + r ∘ (a_{t−1} W_hn + b_hn))` or
    /// `tanh(x_t W_in + b_in + (r ∘ a_{t−1}) W_hn + b_hn)`, `a_t = (1 − z) ∘ n + z ∘ a_{t−1}`.
    fn forward(&self, numbers: &Numbers, x: &[f64], a: &[f64], c: &[f64]) -> (Row, Row, GruKept) {
        let from_x = [RESET, KEEP, NEW].map(|gate| {
            let product = product(x, &numbers.w_ih, gate);
            units(|j| product[j] + numbers.bias[gate * D_HIDDEN + j])
        });
        let from = |a: &[f64], gate: usize| {
            let product = product(a, &numbers.w_hh, gate);
            units(|j| product[j] + numbers.bias_hh[gate * D_HIDDEN + j])
        };
        let [r, z] = [RESET, KEEP].map(|gate| {
            let from_a = from(a, gate);
            units(|j| sigmoid(from_x[gate][j] + from_a[j]))
        });
        let q = from(a, NEW);
        let candidate = match self.0 {
            GruReset::AfterProduct => units(|j| r[j] * q[j]),
            GruReset::BeforeProduct => from(&units(|j| r[j] * a[j]), NEW),
        };
        let n = units(|j| (from_x[NEW][j] + candidate[j]).tanh());
        let next = units(|j| (1.0 - z[j]) * n[j] + z[j] * a[j]);
        (next, c.to_vec(), GruKept { r, z, n, q })
    }

    fn backward(
        &self,
        numbers: &Numbers,
        (x, a, _, kept): (&[f64], &[f64], &[f64], &GruKept),
        (da, _): (&[f64], &[f64]),
        gradients: &mut Numbers,
    ) -> (Row, Row, Row) {
        let GruKept { r, z, n, q } = kept;
        // dz_z = da_t ∘ (a_{t−1} − n) ∘ z ∘ (1 − z)
        let dz_z = units(|j| da[j] * (a[j] - n[j]) * z[j] * (1.0 - z[j]));
        // dz_n = da_t ∘ (1 − z) ∘ (1 − n²)
        let dz_n = units(|j| da[j] * (1.0 - z[j]) * (1.0 - n[j] * n[j]));
        // da_{t−1} = da_t ∘ z + …
        let mut da_before = units(|j| da[j] * z[j]);
        let dr = match self.0 {
            GruReset::AfterProduct => {
                // dq = dz_n ∘ r: dW_hn += a_{t−1}ᵀ dq, db_hn += dq, da_{t−1} += dq W_hnᵀ; dr = dz_n ∘ q
                let dq = units(|j| dz_n[j] * r[j]);
                add_outer(&mut gradients.w_hh, a, &dq, NEW);
                add_at(&mut gradients.bias_hh, &dq, NEW);
                add_back(&mut da_before, &numbers.w_hh, &dq, NEW);
                units(|j| dz_n[j] * q[j])
            }
            GruReset::BeforeProduct => {
                // s = r ∘ a_{t−1}: dW_hn += sᵀ dz_n, db_hn += dz_n, ds = dz_n W_hnᵀ, da_{t−1} += ds ∘ r; dr = ds ∘ a_{t−1}
                add_outer(&mut gradients.w_hh, &units(|j| r[j] * a[j]), &dz_n, NEW);
                add_at(&mut gradients.bias_hh, &dz_n, NEW);
                let mut ds = vec![0.0; D_HIDDEN];
                add_back(&mut ds, &numbers.w_hh, &dz_n, NEW);
                add(&mut da_before, &units(|j| ds[j] * r[j]));
                units(|j| ds[j] * a[j])
            }
        };
        // dz_r = dr ∘ r ∘ (1 − r)
        let dz_r = units(|j| dr[j] * r[j] * (1.0 - r[j]));
        let mut dx = vec![0.0; D_IN];
        for (gate, dz) in [(RESET, &dz_r), (KEEP, &dz_z)] {
            add_outer(&mut gradients.w_hh, a, dz, gate);
            add_at(&mut gradients.bias_hh, dz, gate);
            add_back(&mut da_before, &numbers.w_hh, dz, gate);
        }
        for (gate, dz) in [(RESET, &dz_r), (KEEP, &dz_z), (NEW, &dz_n)] {
            add_outer(&mut gradients.w_ih, x, dz, gate);
            add_at(&mut gradients.bias, dz, gate);
            add_back(&mut dx, &numbers.w_ih, dz, gate);
        }
        (dx, da_before, vec![0.0; D_HIDDEN])
    }
}

fn finite_differences_agree(cell: &impl ByHand, numbers: &Numbers, targets: &[usize], gradients: &Numbers) {
    let mut gradients = gradients.clone();
    let step = 1e-5;
    for (n, (name, gradients)) in gradients.parts().into_iter().enumerate() {
        let difference = |place: usize| {
            let loss = |by: f64| {
                let mut numbers = numbers.clone();
                numbers.parts()[n].1[place] += by;
                cell.run(&numbers, targets).loss
            };
            (loss(step) - loss(-step)) / (2.0 * step)
        };
        let differences: Vec<f64> = (0..gradients.len()).map(difference).collect();
        // The squared step and the rounding of the loss divided by the step are both about 1e-10.
        close_wide(FLOOR, name, gradients, &differences, 1e-7);
    }
}

fn double<const D: usize>(tensor: &Tensor<D>) -> Row {
    values(tensor.clone()).iter().map(|&value| f64::from(value)).collect()
}

fn single(row: &[f64]) -> Vec<f32> {
    row.iter().map(|&value| value as f32).collect()
}

/// Creates a leaf `[1, batch, d_hidden]` from the rows of a batch.
fn state_leaf<'a>(rows: impl Iterator<Item = &'a Row>) -> Tensor<3> {
    let data: Vec<f32> = rows.flat_map(|row| single(row)).collect();
    Tensor::from_data(TensorData::new(data, [1, BATCH, D_HIDDEN]), &training()).require_grad()
}

fn by_hand_matches_automatic(cell: Cell, by_hand: &impl ByHand) {
    let init = Init::new(9, &training());
    let layer = RecurrentConfig::new(cell, D_IN, D_HIDDEN).init(&init.enter("recurrent")).unwrap();
    let mut head = LinearConfig::new(D_HIDDEN, VOCAB).init(&init.enter("output")).unwrap();
    head.bias = Some(Param::from_tensor(leaf([VOCAB], 3)));
    let weights = layer.layers[0].forward.as_ref().unwrap();
    let (w_ih, w_hh, bias) = (weights.w_ih.val(), weights.w_hh.val(), weights.bias.val());
    let bias_hh = weights.bias_hh.as_ref().map(Param::val);
    let (w_y, b_y) = (head.weight.val(), head.bias.as_ref().unwrap().val());
    let (x, hidden) = (leaf([BATCH, SEQ, D_IN], 1), leaf([1, BATCH, D_HIDDEN], 2));
    let memory = matches!(cell, Cell::Lstm { .. }).then(|| leaf([1, BATCH, D_HIDDEN], 4));
    let targets: Vec<usize> = (0..BATCH * SEQ).map(|n| (3 * n + n / 2) % VOCAB).collect();

    let numbers = Numbers {
        w_ih: double(&w_ih),
        w_hh: double(&w_hh),
        bias: double(&bias),
        bias_hh: bias_hh.as_ref().map_or_else(Vec::new, double),
        w_y: double(&w_y),
        b_y: double(&b_y),
        x: double(&x),
        a0: double(&hidden),
        c0: memory.as_ref().map_or_else(|| vec![0.0; BATCH * D_HIDDEN], double),
    };
    let want = by_hand.run(&numbers, &targets);
    finite_differences_agree(by_hand, &numbers, &targets, &want.gradients);

    // The sum, not the mean, of the losses from step `first` on.
    let loss = |first: usize, state: RecurrentState| {
        let x = x.clone().narrow(1, first, SEQ - first);
        let out = layer.forward(x, None, Some(state), &Pass::inference()).unwrap();
        let logits = head.forward(out.hidden).unwrap().reshape([BATCH * (SEQ - first), VOCAB]);
        let targets: Vec<i64> =
            targets.chunks(SEQ).flat_map(|own| &own[first..]).map(|&target| target as i64).collect();
        let rows = targets.len();
        let targets = Tensor::<1, Int>::from_data(TensorData::new(targets, [rows]), &training());
        let options = CrossEntropyOptions { ignore_index: None, label_smoothing: 0.0 };
        cross_entropy(logits, targets, options).unwrap() * rows as f32
    };
    let total = loss(0, RecurrentState { hidden: hidden.clone(), cell: memory.clone() });
    close("loss", &values(total.clone()), &[want.loss as f32], 1e-6);
    let gradients = total.backward();
    // Sums of eight steps in f32: a few units in the last place of numbers near 1.
    let expect = |name: &str, got: Vec<f32>, want: &[f64]| close(name, &got, &single(want), 2e-6);
    let found = &want.gradients;
    expect("w_ih", gradient(&w_ih, &gradients), &found.w_ih);
    expect("w_hh", gradient(&w_hh, &gradients), &found.w_hh);
    expect("bias", gradient(&bias, &gradients), &found.bias);
    expect("W_y", gradient(&w_y, &gradients), &found.w_y);
    expect("b_y", gradient(&b_y, &gradients), &found.b_y);
    expect("x", gradient(&x, &gradients), &found.x);
    if let Some(bias_hh) = bias_hh {
        expect("bias_hh", gradient(&bias_hh, &gradients), &found.bias_hh);
    }

    for t in 0..SEQ {
        let hidden = state_leaf(want.before[t].iter().map(|(a, _)| a));
        let memory = memory.as_ref().map(|_| state_leaf(want.before[t].iter().map(|(_, c)| c)));
        let gradients = loss(t, RecurrentState { hidden: hidden.clone(), cell: memory.clone() }).backward();
        let (da, dc): (Vec<_>, Vec<_>) = want.states[t].iter().cloned().unzip();
        expect("a_{t−1}", gradient(&hidden, &gradients), &da.concat());
        if let Some(memory) = memory {
            expect("c_{t−1}", gradient(&memory, &gradients), &dc.concat());
        }
    }
}

#[test]
fn lstm_by_hand_matches_automatic() {
    by_hand_matches_automatic(Cell::Lstm { forget_bias: 1.0 }, &Lstm);
}

#[test]
fn gru_by_hand_matches_automatic() {
    for reset in [GruReset::AfterProduct, GruReset::BeforeProduct] {
        by_hand_matches_automatic(Cell::Gru { reset }, &Gru(reset));
    }
}
