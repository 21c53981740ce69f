use burn::tensor::{DType, Gradients, Tensor};
use proptest::prelude::*;
use regard_ops::{
    GruReset, GruWeights, LstmOutput, LstmState, LstmWeights, OpError, RnnWeights, WindowLstmOutput, WindowLstmWeights,
    gru, gru_fallback, lstm, lstm_fallback, lstm_with_lengths, rnn, rnn_fallback, window_lstm, window_lstm_fallback,
};

use crate::golden::Golden;
use crate::support::{close, gradient, leaf, training, transposed, values};

/// Computes `Σ output ∘ weights` without the backward pass, so that the losses of several outputs can be added.
fn weighted<const D: usize>(output: &Tensor<D>, weights: Tensor<D>) -> Tensor<1> {
    (output.clone() * weights.detach()).sum()
}

/// Returns the hidden state after the last step.
fn last(hidden: &Tensor<3>) -> Tensor<2> {
    hidden.clone().narrow(1, hidden.dims()[1] - 1, 1).squeeze_dim(1)
}

/// One case of a golden file.
struct Case<'a> {
    golden: &'a Golden,
    case: String,
}

impl Case<'_> {
    fn name(&self, name: &str) -> String {
        format!("{}/{name}", self.case)
    }

    fn floats(&self, name: &str) -> Vec<f32> {
        self.golden.floats(&self.name(name))
    }

    fn tensor<const D: usize>(&self, name: &str) -> Tensor<D> {
        self.golden.tensor(&self.name(name), &training())
    }

    fn leaf<const D: usize>(&self, name: &str) -> Tensor<D> {
        self.tensor(name).require_grad()
    }

    fn weight(&self, name: &str) -> Tensor<2> {
        self.tensor::<2>(name).transpose().detach().require_grad()
    }

    /// Reads a state; PyTorch has a leading dimension of layers, `[1, batch, d_hidden]`.
    fn state(&self, name: &str) -> Tensor<2> {
        self.tensor::<3>(name).squeeze_dim::<2>(0).detach().require_grad()
    }

    fn has(&self, name: &str) -> bool {
        self.golden.has(&self.name(name))
    }

    fn expect(&self, name: &str, got: &[f32]) {
        close(&self.name(name), got, &self.floats(name), 2e-6);
    }

    fn expect_weight(&self, name: &str, weight: &Tensor<2>, gradients: &Gradients) {
        let [from, to] = weight.dims();
        close(&self.name(name), &gradient(weight, gradients), &transposed(&self.floats(name), to, from), 2e-6);
    }
}

fn golden_cases(file: &str, check: impl Fn(Case)) {
    let golden = Golden::open(file);
    for (case, _) in golden.cases() {
        check(Case { golden: &golden, case });
    }
}

#[test]
fn lstm_agrees_with_pytorch() {
    golden_cases("lstm", |case| {
        let x = case.leaf::<3>("x");
        let (w_ih, w_hh, bias) = (case.weight("w_ih"), case.weight("w_hh"), case.leaf::<1>("bias"));
        let weights = LstmWeights { w_ih: w_ih.clone(), w_hh: w_hh.clone(), bias: bias.clone() };
        let initial = case.has("h0").then(|| LstmState { hidden: case.state("h0"), cell: case.state("c0") });
        let LstmOutput { hidden, state } = lstm(x.clone(), weights, initial.clone()).unwrap();
        let mut loss = weighted(&hidden, case.tensor("grad_out"));
        if initial.is_some() {
            loss = loss + weighted(&state.hidden, case.state("grad_h_n"));
            loss = loss + weighted(&state.cell, case.state("grad_c_n"));
        }
        let gradients = loss.backward();
        case.expect("out", &values(hidden));
        case.expect("h_n", &values(state.hidden));
        case.expect("c_n", &values(state.cell));
        case.expect("grad_x", &gradient(&x, &gradients));
        case.expect_weight("grad_w_ih", &w_ih, &gradients);
        case.expect_weight("grad_w_hh", &w_hh, &gradients);
        case.expect("grad_bias", &gradient(&bias, &gradients));
        if let Some(LstmState { hidden, cell }) = initial {
            case.expect("grad_h0", &gradient(&hidden, &gradients));
            case.expect("grad_c0", &gradient(&cell, &gradients));
        }
    });
}

#[test]
fn gru_agrees_with_pytorch() {
    golden_cases("gru", |case| {
        let x = case.leaf::<3>("x");
        let (w_ih, w_hh) = (case.weight("w_ih"), case.weight("w_hh"));
        let (bias_ih, bias_hh) = (case.leaf::<1>("b_ih"), case.leaf::<1>("b_hh"));
        let (w_ih_, w_hh_) = (w_ih.clone(), w_hh.clone());
        let weights = GruWeights { w_ih: w_ih_, w_hh: w_hh_, bias_ih: bias_ih.clone(), bias_hh: bias_hh.clone() };
        let initial = case.has("h0").then(|| case.state("h0"));
        let hidden = gru(x.clone(), weights, GruReset::AfterProduct, initial.clone()).unwrap();
        let mut loss = weighted(&hidden, case.tensor("grad_out"));
        if initial.is_some() {
            loss = loss + weighted(&last(&hidden), case.state("grad_h_n"));
        }
        let gradients = loss.backward();
        case.expect("h_n", &values(last(&hidden)));
        case.expect("out", &values(hidden));
        case.expect("grad_x", &gradient(&x, &gradients));
        case.expect_weight("grad_w_ih", &w_ih, &gradients);
        case.expect_weight("grad_w_hh", &w_hh, &gradients);
        case.expect("grad_b_ih", &gradient(&bias_ih, &gradients));
        case.expect("grad_b_hh", &gradient(&bias_hh, &gradients));
        if let Some(initial) = initial {
            case.expect("grad_h0", &gradient(&initial, &gradients));
        }
    });
}

#[test]
fn rnn_agrees_with_pytorch() {
    golden_cases("rnn", |case| {
        let x = case.leaf::<3>("x");
        let (w_ih, w_hh, bias) = (case.weight("w_ih"), case.weight("w_hh"), case.leaf::<1>("bias"));
        let weights = RnnWeights { w_ih: w_ih.clone(), w_hh: w_hh.clone(), bias: bias.clone() };
        let initial = case.has("h0").then(|| case.state("h0"));
        let hidden = rnn(x.clone(), weights, initial.clone()).unwrap();
        let mut loss = weighted(&hidden, case.tensor("grad_out"));
        if initial.is_some() {
            loss = loss + weighted(&last(&hidden), case.state("grad_h_n"));
        }
        let gradients = loss.backward();
        case.expect("h_n", &values(last(&hidden)));
        case.expect("out", &values(hidden));
        case.expect("grad_x", &gradient(&x, &gradients));
        case.expect_weight("grad_w_ih", &w_ih, &gradients);
        case.expect_weight("grad_w_hh", &w_hh, &gradients);
        case.expect("grad_bias", &gradient(&bias, &gradients));
        if let Some(initial) = initial {
            case.expect("grad_h0", &gradient(&initial, &gradients));
        }
    });
}

/// The leaves of a network with weights `gates · d_hidden` wide.
#[derive(Clone)]
struct Leaves {
    x: Tensor<3>,
    weights: [Tensor<2>; 2],
    biases: [Tensor<1>; 2],
    states: [Tensor<2>; 2],
}

impl Leaves {
    fn new(gates: usize, [batch, seq, d_in, d_hidden]: [usize; 4]) -> Self {
        let width = gates * d_hidden;
        Self {
            x: leaf([batch, seq, d_in], 1),
            weights: [leaf([d_in, width], 2), leaf([d_hidden, width], 3)],
            biases: [leaf([width], 4), leaf([width], 5)],
            states: [leaf([batch, d_hidden], 6), leaf([batch, d_hidden], 7)],
        }
    }

    /// Returns the weights scaled to about their size at initialisation. Larger ones amplify rounding at every step.
    fn scaled_weights(&self) -> [Tensor<2>; 2] {
        self.weights.clone().map(|weight| {
            let scale = (weight.dims()[0] as f32).sqrt().recip();
            weight * scale
        })
    }

    fn lstm_weights(&self) -> LstmWeights {
        let [w_ih, w_hh] = self.scaled_weights();
        LstmWeights { w_ih, w_hh, bias: self.biases[0].clone() }
    }

    fn lstm_state(&self) -> LstmState {
        let [hidden, cell] = self.states.clone();
        LstmState { hidden, cell }
    }

    fn gru_weights(&self) -> GruWeights {
        let ([w_ih, w_hh], [bias_ih, bias_hh]) = (self.scaled_weights(), self.biases.clone());
        GruWeights { w_ih, w_hh, bias_ih, bias_hh }
    }

    fn rnn_weights(&self) -> RnnWeights {
        let [w_ih, w_hh] = self.scaled_weights();
        RnnWeights { w_ih, w_hh, bias: self.biases[0].clone() }
    }

    /// Returns the gradients of all leaves; zeros for leaves that are not used.
    fn gradients(&self, gradients: &Gradients) -> Vec<Vec<f32>> {
        let mut all = vec![gradient(&self.x, gradients)];
        all.extend(self.weights.iter().chain(&self.states).map(|leaf| gradient(leaf, gradients)));
        all.extend(self.biases.iter().map(|leaf| gradient(leaf, gradients)));
        all
    }
}

fn compare(results: [Vec<Vec<f32>>; 2]) {
    for (n, (fused, fallback)) in results[0].iter().zip(&results[1]).enumerate() {
        close(&format!("result {n}"), fused, fallback, 1e-5);
    }
}

fn sizes() -> impl Strategy<Value = [usize; 4]> {
    (1usize..5, 1usize..7, 1usize..9, 1usize..20).prop_map(|(batch, seq, d_in, d_hidden)| [batch, seq, d_in, d_hidden])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    /// The bits of `used` select the outputs that the loss depends on.
    #[test]
    fn lstm_agrees_with_its_fallback(
        sizes in sizes(),
        with_initial: bool,
        used in 1u8..8,
        shorter in proptest::option::of(prop::collection::vec(0usize..7, 4)),
    ) {
        let leaves = Leaves::new(4, sizes);
        let [batch, seq, _, d_hidden] = sizes;
        let lengths: Option<Vec<_>> = shorter.map(|by| by[..batch].iter().map(|by| seq - by % seq).collect());
        compare([true, false].map(|fused| {
            let initial = with_initial.then(|| leaves.lstm_state());
            let (x, weights) = (leaves.x.clone(), leaves.lstm_weights());
            let LstmOutput { hidden, state } = match (fused, &lengths) {
                (true, None) => lstm(x, weights, initial).unwrap(),
                (true, Some(lengths)) => lstm_with_lengths(x, weights, initial, lengths).unwrap(),
                (false, lengths) => lstm_fallback(x, weights, initial, lengths.as_deref()),
            };
            let losses = [
                weighted(&hidden, leaf([batch, seq, d_hidden], 8)),
                weighted(&state.hidden, leaf([batch, d_hidden], 9)),
                weighted(&state.cell, leaf([batch, d_hidden], 10)),
            ];
            let used = losses.into_iter().enumerate().filter(|(n, _)| used >> n & 1 == 1).map(|(_, loss)| loss);
            let gradients = used.reduce(|a, b| a + b).unwrap().backward();
            let mut all = vec![values(hidden), values(state.hidden), values(state.cell)];
            all.extend(leaves.gradients(&gradients));
            all
        }));
    }

    #[test]
    fn gru_agrees_with_its_fallback(sizes in sizes(), with_initial: bool, after: bool) {
        let reset = if after { GruReset::AfterProduct } else { GruReset::BeforeProduct };
        let leaves = Leaves::new(3, sizes);
        let [batch, seq, _, d_hidden] = sizes;
        compare([true, false].map(|fused| {
            let initial = with_initial.then(|| leaves.states[0].clone());
            let hidden = match fused {
                true => gru(leaves.x.clone(), leaves.gru_weights(), reset, initial).unwrap(),
                false => gru_fallback(leaves.x.clone(), leaves.gru_weights(), reset, initial),
            };
            let gradients = weighted(&hidden, leaf([batch, seq, d_hidden], 8)).backward();
            let mut all = leaves.gradients(&gradients);
            all.push(values(hidden));
            all
        }));
    }

    #[test]
    fn rnn_agrees_with_its_fallback(sizes in sizes(), with_initial: bool) {
        let leaves = Leaves::new(1, sizes);
        let [batch, seq, _, d_hidden] = sizes;
        compare([true, false].map(|fused| {
            let initial = with_initial.then(|| leaves.states[0].clone());
            let hidden = match fused {
                true => rnn(leaves.x.clone(), leaves.rnn_weights(), initial).unwrap(),
                false => rnn_fallback(leaves.x.clone(), leaves.rnn_weights(), initial),
            };
            let gradients = weighted(&hidden, leaf([batch, seq, d_hidden], 8)).backward();
            let mut all = leaves.gradients(&gradients);
            all.push(values(hidden));
            all
        }));
    }

    /// The last state is all that the rest of a sequence needs, gradients included.
    #[test]
    fn a_sequence_may_be_split_in_two(sizes in sizes(), rest in 1usize..5) {
        let [batch, first, d_in, d_hidden] = sizes;
        let seq = first + rest;
        let sizes = [batch, seq, d_in, d_hidden];
        let weights = leaf([batch, seq, d_hidden], 8);
        let parts = |x: &Tensor<3>| (x.clone().narrow(1, 0, first), x.clone().narrow(1, first, rest));
        let finish = |leaves: &Leaves, hidden: Tensor<3>| {
            let gradients = weighted(&hidden, weights.clone()).backward();
            let mut all = leaves.gradients(&gradients);
            all.push(values(hidden));
            all
        };
        let leaves = Leaves::new(4, sizes);
        let (before, after) = parts(&leaves.x);
        let run = |x, state| lstm(x, leaves.lstm_weights(), Some(state)).unwrap();
        let whole = run(leaves.x.clone(), leaves.lstm_state()).hidden;
        let before = run(before, leaves.lstm_state());
        let cut = Tensor::cat(vec![before.hidden, run(after, before.state).hidden], 1);
        compare([cut, whole].map(|hidden| finish(&leaves, hidden)));

        let leaves = Leaves::new(3, sizes);
        let (before, after) = parts(&leaves.x);
        let run = |x, state| gru(x, leaves.gru_weights(), GruReset::AfterProduct, state).unwrap();
        let whole = run(leaves.x.clone(), None);
        let before = run(before, None);
        let cut = Tensor::cat(vec![before.clone(), run(after, Some(last(&before)))], 1);
        compare([cut, whole].map(|hidden| finish(&leaves, hidden)));

        let leaves = Leaves::new(1, sizes);
        let (before, after) = parts(&leaves.x);
        let run = |x, state| rnn(x, leaves.rnn_weights(), state).unwrap();
        let whole = run(leaves.x.clone(), None);
        let before = run(before, None);
        let cut = Tensor::cat(vec![before.clone(), run(after, Some(last(&before)))], 1);
        compare([cut, whole].map(|hidden| finish(&leaves, hidden)));
    }
}

#[test]
fn untracked_inputs_get_no_gradient_and_do_not_change_the_results() {
    let leaves = Leaves::new(4, [2, 3, 4, 5]);
    let tracked = lstm(leaves.x.clone(), leaves.lstm_weights(), None).unwrap();
    let all = tracked.hidden.clone().sum().backward();
    let LstmWeights { w_ih, w_hh, bias } = leaves.lstm_weights();
    let frozen = LstmWeights { w_ih: w_ih.detach(), w_hh, bias: bias.detach() };
    let part = lstm(leaves.x.clone().detach(), frozen, None).unwrap().hidden.sum().backward();
    assert_eq!(gradient(&leaves.weights[1], &part), gradient(&leaves.weights[1], &all));
    assert!(leaves.x.grad(&part).is_none() && leaves.weights[0].grad(&part).is_none());
    let LstmWeights { w_ih, w_hh, bias } = leaves.lstm_weights();
    let plain = LstmWeights { w_ih: w_ih.inner(), w_hh: w_hh.inner(), bias: bias.inner() };
    let inference = lstm(leaves.x.inner(), plain, None).unwrap();
    assert_eq!(values(inference.hidden), values(tracked.hidden));
    assert_eq!(values(inference.state.cell), values(tracked.state.cell));
}

#[test]
fn bad_input_is_a_typed_error() {
    let leaves = Leaves::new(4, [2, 3, 4, 5]);
    let weights = || leaves.lstm_weights();
    let call = |x, weights, initial| lstm(x, weights, initial).unwrap_err();
    let error = call(leaf([2, 3, 5], 1), weights(), None);
    assert!(matches!(error, OpError::Shape { what: "w_ih", .. }), "{error}");
    let error = call(leaf([2, 0, 4], 1), weights(), None);
    assert!(matches!(error, OpError::Shape { what: "input", .. }), "{error}");
    let error = call(leaves.x.clone(), LstmWeights { w_hh: leaf([5, 15], 1), ..weights() }, None);
    assert!(matches!(error, OpError::Shape { what: "w_hh", .. }), "{error}");
    let error = call(leaves.x.clone(), LstmWeights { w_hh: leaf([0, 0], 1), ..weights() }, None);
    assert!(matches!(error, OpError::Shape { what: "w_hh", .. }), "{error}");
    let error = call(leaves.x.clone(), LstmWeights { bias: leaf([5], 1), ..weights() }, None);
    assert!(matches!(error, OpError::Shape { what: "bias", .. }), "{error}");
    let state = LstmState { cell: leaf([1, 5], 1), ..leaves.lstm_state() };
    let error = call(leaves.x.clone(), weights(), Some(state));
    assert!(matches!(error, OpError::Shape { what: "initial cell state", .. }), "{error}");
    let error = call(leaves.x.clone().cast(DType::F64), weights(), None);
    assert!(matches!(error, OpError::DType { what: "input", .. }), "{error}");

    let call =
        |lengths: &[usize]| lstm_with_lengths(leaves.x.clone(), leaves.lstm_weights(), None, lengths).unwrap_err();
    assert!(matches!(call(&[3]), OpError::Shape { what: "lengths", .. }), "{}", call(&[3]));
    for lengths in [[0, 3], [1, 4]] {
        let error = call(&lengths);
        assert!(matches!(error, OpError::Option { what: "lengths", .. }), "{error}");
    }

    let leaves = Leaves::new(3, [2, 3, 4, 5]);
    let weights = GruWeights { bias_hh: leaf([5], 1), ..leaves.gru_weights() };
    let error = gru(leaves.x.clone(), weights, GruReset::BeforeProduct, None).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "bias_hh", .. }), "{error}");
    let initial = leaf([2, 5], 1).cast(DType::F64);
    let error = gru(leaves.x.clone(), leaves.gru_weights(), GruReset::BeforeProduct, Some(initial)).unwrap_err();
    assert!(matches!(error, OpError::DType { what: "initial state", .. }), "{error}");

    let leaves = Leaves::new(1, [2, 3, 4, 5]);
    let error = rnn(leaves.x.clone(), leaves.rnn_weights(), Some(leaf([2, 4], 1))).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "initial state", .. }), "{error}");
}

/// Reads the texts of a case.
fn texts(options: &serde_json::Value) -> Vec<Vec<u32>> {
    serde_json::from_value(options["texts"].clone()).unwrap()
}

#[test]
fn a_window_lstm_agrees_with_pytorch() {
    // Exponentials of positions that add up over the steps make rounding errors grow; the fallback in plain f32 has them, too.
    const TOLERANCE: f32 = 5e-6;
    let golden = Golden::open("window_lstm");
    for (name, options) in golden.cases() {
        let case = Case { golden: &golden, case: name };
        let (x, bias, b_window) = (case.leaf::<3>("x"), case.leaf::<1>("bias"), case.leaf::<1>("b_window"));
        let (w_ih, w_hh, w_window) = (case.weight("w_ih"), case.weight("w_hh"), case.weight("w_window"));
        let weights = WindowLstmWeights {
            lstm: LstmWeights { w_ih: w_ih.clone(), w_hh: w_hh.clone(), bias: bias.clone() },
            projection: w_window.clone(),
            projection_bias: b_window.clone(),
        };
        let fallback = window_lstm_fallback(x.clone(), &texts(&options), weights.clone());
        let WindowLstmOutput { hidden, windows } = window_lstm(x.clone(), texts(&options), weights).unwrap();
        for (hidden, windows) in [(hidden, windows), (fallback.hidden, fallback.windows)] {
            let loss = weighted(&hidden, case.tensor("grad_hidden")) + weighted(&windows, case.tensor("grad_windows"));
            let gradients = loss.backward();
            let near = |name: &str, got: &[f32]| close(&case.name(name), got, &case.floats(name), TOLERANCE);
            near("hidden", &values(hidden));
            near("windows", &values(windows));
            near("grad_x", &gradient(&x, &gradients));
            for (name, weight) in [("grad_w_ih", &w_ih), ("grad_w_hh", &w_hh), ("grad_w_window", &w_window)] {
                let [from, to] = weight.dims();
                let want = transposed(&case.floats(name), to, from);
                close(&case.name(name), &gradient(weight, &gradients), &want, TOLERANCE);
            }
            near("grad_bias", &gradient(&bias, &gradients));
            near("grad_b_window", &gradient(&b_window, &gradients));
        }
    }
}

#[test]
fn a_window_lstm_refuses_what_does_not_fit() {
    let weights = |rows: usize, outputs: usize| WindowLstmWeights {
        lstm: LstmWeights { w_ih: leaf([rows, 8], 1), w_hh: leaf([2, 8], 2), bias: leaf([8], 3) },
        projection: leaf([2, outputs], 4),
        projection_bias: leaf([outputs], 5),
    };
    let run = |text: Vec<u32>, rows: usize, outputs: usize| {
        window_lstm(leaf([1, 2, 3], 6), vec![text], weights(rows, outputs)).err().map(|error| error.to_string())
    };
    assert_eq!(run(vec![0, 1], 5, 3), None);
    assert_eq!(run(Vec::new(), 5, 6), None, "an empty text");
    let refused = [(run(vec![2], 5, 3), "below 2"), (run(vec![0], 3, 3), "w_ih"), (run(vec![0], 5, 4), "n_components")];
    for (error, told) in refused {
        assert!(error.as_ref().is_some_and(|error| error.contains(told)), "{error:?}");
    }
    assert!(window_lstm(leaf([1, 2, 3], 6), Vec::new(), weights(5, 3)).is_err(), "one text for each sequence");
}
