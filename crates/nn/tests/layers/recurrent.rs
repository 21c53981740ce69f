//! Tests of the recurrent layers against PyTorch's packed sequences, and their properties for any lengths.

use burn::module::Param;
use burn::tensor::{Gradients, Tensor, TensorData};
use proptest::prelude::*;
use regard_nn::layers::recurrent::{
    Cell, Direction, Recurrent, RecurrentConfig, RecurrentOutput, RecurrentState, RecurrentWeights,
};
use regard_nn::{Init, Pass};
use regard_ops::GruReset;

use crate::case::weighted;
use crate::golden::Golden;
use crate::support::{close, gradient, leaf, training, transposed, values};

const CELLS: [Cell; 4] = [
    Cell::Rnn,
    Cell::Lstm { forget_bias: 0.5 },
    Cell::Gru { reset: GruReset::AfterProduct },
    Cell::Gru { reset: GruReset::BeforeProduct },
];

/// Returns the weights of each layer and direction with their names, in the order of the state.
fn parts(layer: &Recurrent) -> Vec<(String, &RecurrentWeights)> {
    let named = layer.layers.iter().enumerate().flat_map(|(n, layer)| {
        [("forward", &layer.forward), ("backward", &layer.backward)]
            .into_iter()
            .filter_map(move |(direction, weights)| Some((format!("layers.{n}.{direction}"), weights.as_ref()?)))
    });
    named.collect()
}

fn weight_gradients(layer: &Recurrent, gradients: &Gradients) -> Vec<(String, Vec<f32>)> {
    let mut all = Vec::new();
    for (name, weights) in parts(layer) {
        all.push((format!("{name}.w_ih"), gradient(&weights.w_ih.val(), gradients)));
        all.push((format!("{name}.w_hh"), gradient(&weights.w_hh.val(), gradients)));
        all.push((format!("{name}.bias"), gradient(&weights.bias.val(), gradients)));
        if let Some(bias) = &weights.bias_hh {
            all.push((format!("{name}.bias_hh"), gradient(&bias.val(), gradients)));
        }
    }
    all
}

/// Creates an initial state of leaves.
fn initial(config: &RecurrentConfig, batch: usize) -> RecurrentState {
    let shape = [config.n_layers * config.directions(), batch, config.d_hidden];
    let cell = matches!(config.cell, Cell::Lstm { .. }).then(|| leaf(shape, 12));
    RecurrentState { hidden: leaf(shape, 11), cell }
}

/// Returns the outputs, and the gradients of a loss that depends on all of them, with their names.
fn results(
    layer: &Recurrent,
    x: &Tensor<3>,
    initial: Option<&RecurrentState>,
    RecurrentOutput { hidden, state }: RecurrentOutput,
) -> Vec<(String, Vec<f32>)> {
    let mut loss = weighted(&hidden, leaf(hidden.dims(), 21)) + weighted(&state.hidden, leaf(state.hidden.dims(), 22));
    if let Some(cell) = &state.cell {
        loss = loss + weighted(cell, leaf(cell.dims(), 23));
    }
    let gradients = loss.backward();
    let mut all = weight_gradients(layer, &gradients);
    all.push(("input".into(), gradient(x, &gradients)));
    if let Some(RecurrentState { hidden, cell }) = initial {
        all.push(("initial hidden".into(), gradient(hidden, &gradients)));
        all.extend(cell.as_ref().map(|cell| ("initial cell".into(), gradient(cell, &gradients))));
    }
    all.push(("hidden".into(), values(hidden)));
    all.push(("last hidden".into(), values(state.hidden)));
    all.extend(state.cell.map(|cell| ("last cell".into(), values(cell))));
    all
}

fn compare(got: &[(String, Vec<f32>)], want: &[(String, Vec<f32>)], tolerance: f32) {
    assert_eq!(got.len(), want.len());
    for ((name, got), (_, want)) in got.iter().zip(want) {
        close(name, got, want, tolerance);
    }
}

#[test]
fn packed_sequences_match_pytorch() {
    let golden = Golden::open("recurrent_layers");
    for (case, options) in golden.cases() {
        let name = |name: &str| format!("{case}/{name}");
        let lengths: Vec<usize> = serde_json::from_value(options["lengths"].clone()).unwrap();
        let mut fields = options.clone();
        fields.as_object_mut().unwrap().remove("lengths");
        fields["direction"] = "both".into();
        let config: RecurrentConfig = serde_json::from_value(fields).unwrap();
        let mut layer = config.init(&Init::new(1, &training())).unwrap();

        let vector = |name: &str| Param::from_tensor(golden.tensor::<1>(name, &training()));
        let matrix = |name: &str| {
            let ([to, from], data) = (golden.shape(name).try_into().unwrap(), golden.floats(name));
            let data = TensorData::new(transposed(&data, to, from), [from, to]);
            Param::from_tensor(Tensor::<2>::from_data(data, &training()))
        };
        for (n, layer) in layer.layers.iter_mut().enumerate() {
            for (direction, weights) in [("forward", &mut layer.forward), ("backward", &mut layer.backward)] {
                let weights = weights.as_mut().unwrap();
                let name = |weight| format!("{case}/layers.{n}.{direction}.{weight}");
                weights.w_ih = matrix(&name("w_ih"));
                weights.w_hh = matrix(&name("w_hh"));
                weights.bias = vector(&name("bias"));
                weights.bias_hh = weights.bias_hh.as_ref().map(|_| vector(&name("bias_hh")));
            }
        }

        let tensor = |part: &str| golden.tensor::<3>(&name(part), &training());
        let x = tensor("x").require_grad();
        let cell = golden.has(&name("c0")).then(|| tensor("c0").require_grad());
        let initial = RecurrentState { hidden: tensor("h0").require_grad(), cell };
        let RecurrentOutput { hidden, state } =
            layer.forward(x.clone(), Some(&lengths), Some(initial.clone()), &Pass::inference()).unwrap();
        let mut loss = weighted(&hidden, tensor("grad_out")) + weighted(&state.hidden, tensor("grad_h_n"));
        if let Some(cell) = &state.cell {
            loss = loss + weighted(cell, tensor("grad_c_n"));
        }
        let gradients = loss.backward();
        // Three roundings of the largest intermediate number: four steps of two layers in both directions.
        let expect = |part: &str, got: &[f32]| close(&name(part), got, &golden.floats(&name(part)), 3e-6);
        expect("out", &values(hidden));
        expect("h_n", &values(state.hidden));
        expect("grad_x", &gradient(&x, &gradients));
        expect("grad_h0", &gradient(&initial.hidden, &gradients));
        assert_eq!(state.cell.is_some(), case == "lstm");
        if let (Some(first), Some(last)) = (initial.cell, state.cell) {
            expect("c_n", &values(last));
            expect("grad_c0", &gradient(&first, &gradients));
        }
        let found = weight_gradients(&layer, &gradients);
        assert_eq!(found.len(), if case == "gru" { 16 } else { 12 });
        for (weight, got) in found {
            let path = name(&format!("grad_{weight}"));
            let (shape, want) = (golden.shape(&path), golden.floats(&path));
            let want = if let [to, from] = shape[..] { transposed(&want, to, from) } else { want };
            close(&path, &got, &want, 3e-6);
        }
    }
}

fn config() -> impl Strategy<Value = RecurrentConfig> {
    let direction = prop::sample::select(vec![Direction::Forward, Direction::Backward, Direction::Both]);
    (prop::sample::select(CELLS.to_vec()), direction, 1usize..4, 1usize..5, 1usize..6).prop_map(
        |(cell, direction, n_layers, d_in, d_hidden)| RecurrentConfig {
            direction,
            n_layers,
            ..RecurrentConfig::new(cell, d_in, d_hidden)
        },
    )
}

/// A size of `seq` and the length of each sequence, which may be 0.
fn lengths() -> impl Strategy<Value = (usize, Vec<usize>)> {
    (1usize..6).prop_flat_map(|seq| (Just(seq), prop::collection::vec(0..=seq, 1..5)))
}

/// Sets the padding of `x` to `value`.
fn padded(x: &Tensor<3>, lengths: &[usize], value: f32) -> Tensor<3> {
    let [_, seq, width] = x.dims();
    let mut data = values(x.clone());
    for (place, number) in data.iter_mut().enumerate() {
        let (sequence, step) = (place / (seq * width), place / width % seq);
        if step >= lengths[sequence] {
            *number = value;
        }
    }
    Tensor::from_data(TensorData::new(data, x.dims()), &training()).require_grad()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn padding_has_no_effect(config in config(), (seq, lengths) in lengths(), with_initial: bool) {
        let layer = config.init(&Init::new(4, &training())).unwrap();
        let x = leaf([lengths.len(), seq, config.d_in], 1);
        let found = [0.0, f32::NAN, f32::INFINITY, -3e38].map(|value| {
            let x = padded(&x, &lengths, value);
            let initial = with_initial.then(|| initial(&config, lengths.len()));
            let out = layer.forward(x.clone(), Some(&lengths), initial.clone(), &Pass::inference()).unwrap();
            results(&layer, &x, initial.as_ref(), out)
        });
        prop_assert!(found[0].iter().all(|(_, values)| values.iter().all(|value| value.is_finite())));
        for other in &found[1..] {
            prop_assert_eq!(other, &found[0]);
        }
    }

    /// Each sequence alone, cut to its length, gives the same results as in the batch.
    #[test]
    fn a_batch_matches_its_sequences_alone(config in config(), (seq, lengths) in lengths(), with_initial: bool) {
        let layer = config.init(&Init::new(4, &training())).unwrap();
        let (batch, pass) = (lengths.len(), Pass::inference());
        let x = leaf([batch, seq, config.d_in], 1);
        let initial = with_initial.then(|| initial(&config, batch));
        let whole = layer.forward(x.clone(), Some(&lengths), initial.clone(), &pass).unwrap();

        let zero = layer.zero_state(batch);
        let start = initial.clone().unwrap_or(zero);
        let parts: Vec<_> = lengths.iter().enumerate().map(|(sequence, &length)| {
            let of = |state: &Tensor<3>| state.clone().narrow(1, sequence, 1);
            let before = RecurrentState { hidden: of(&start.hidden), cell: start.cell.as_ref().map(of) };
            let padding = Tensor::zeros([1, seq - length, config.d_out()], &training());
            if length == 0 {
                return RecurrentOutput { hidden: padding, state: before };
            }
            let x = x.clone().narrow(0, sequence, 1).narrow(1, 0, length);
            let mut out = layer.forward(x, None, Some(before), &pass).unwrap();
            if length < seq {
                out.hidden = Tensor::cat(vec![out.hidden, padding], 1);
            }
            out
        }).collect();
        let join = |part: fn(&RecurrentOutput) -> Tensor<3>, dim| Tensor::cat(parts.iter().map(part).collect(), dim);
        let cell = whole.state.cell.is_some().then(|| join(|out| out.state.cell.clone().unwrap(), 1));
        let hidden = join(|out| out.state.hidden.clone(), 1);
        let joined = RecurrentOutput { hidden: join(|out| out.hidden.clone(), 0), state: RecurrentState { hidden, cell } };
        let found = [whole, joined].map(|out| results(&layer, &x, initial.as_ref(), out));
        compare(&found[0], &found[1], 1e-5);
    }

    #[test]
    fn full_lengths_match_no_lengths(config in config(), batch in 1usize..4, seq in 1usize..6) {
        let layer = config.init(&Init::new(4, &training())).unwrap();
        let x = leaf([batch, seq, config.d_in], 1);
        let found = [None, Some(vec![seq; batch])].map(|lengths| {
            let out = layer.forward(x.clone(), lengths.as_deref(), None, &Pass::inference()).unwrap();
            results(&layer, &x, None, out)
        });
        prop_assert_eq!(&found[0], &found[1]);
    }

    #[test]
    fn steps_match_the_whole_sequence(config in config(), batch in 1usize..4, seq in 1usize..6) {
        let config = RecurrentConfig { direction: Direction::Forward, ..config };
        let layer = config.init(&Init::new(4, &training())).unwrap();
        let (x, pass) = (leaf([batch, seq, config.d_in], 1), Pass::inference());
        let initial = initial(&config, batch);
        let whole = layer.forward(x.clone(), None, Some(initial.clone()), &pass).unwrap();
        let mut state = initial.clone();
        let mut steps = Vec::new();
        for step in 0..seq {
            let x = x.clone().narrow(1, step, 1).squeeze_dim(1);
            state = layer.step(x, state, &pass).unwrap();
            steps.push(state.top());
        }
        let stepped = RecurrentOutput { hidden: Tensor::stack(steps, 1), state };
        let found = [stepped, whole].map(|out| results(&layer, &x, Some(&initial), out));
        compare(&found[0], &found[1], 1e-5);
    }

    #[test]
    fn backward_matches_forward_on_the_reversed_input(config in config(), batch in 1usize..4, seq in 1usize..6) {
        let config = RecurrentConfig { direction: Direction::Backward, ..config };
        let backward = config.init(&Init::new(4, &training())).unwrap();
        let mut forward = RecurrentConfig { direction: Direction::Forward, ..config }.init(&Init::new(4, &training())).unwrap();
        for (forward, backward) in forward.layers.iter_mut().zip(&backward.layers) {
            forward.forward = backward.backward.clone();
        }
        let x = leaf([batch, seq, config.d_in], 1);
        let got = backward.forward(x.clone(), None, None, &Pass::inference()).unwrap();
        let mut want = forward.forward(x.clone().flip([1]), None, None, &Pass::inference()).unwrap();
        want.hidden = want.hidden.flip([1]);
        let (got, want) = (results(&backward, &x, None, got), results(&forward, &x, None, want));
        compare(&got, &want, 1e-6);
    }
}

#[test]
fn dropout_is_between_layers_and_only_in_training() {
    let config = RecurrentConfig { n_layers: 2, dropout: 0.5, ..RecurrentConfig::new(Cell::gru(), 3, 8) };
    let layer = config.init(&Init::new(4, &training())).unwrap();
    let x = leaf([2, 5, 3], 1);
    let run = |pass: Pass| {
        let RecurrentOutput { hidden, state } = layer.forward(x.clone(), None, None, &pass).unwrap();
        let first = state.hidden.narrow(0, 0, 1);
        (values(hidden), values(first))
    };
    let (plain, first) = run(Pass::inference());
    let (dropped, same) = run(Pass::training(1));
    assert_eq!(first, same, "the first layer's input has no dropout");
    assert_ne!(plain, dropped);
    assert!(dropped.iter().all(|&value| value != 0.0), "the last layer's output has no dropout");
    assert_eq!(run(Pass::training(1)).0, dropped);
    assert_ne!(run(Pass::training(2)).0, dropped);
    assert_eq!(run(Pass::inference()).0, plain);
}

#[test]
fn initial_weights_have_the_right_bound_and_the_forget_gate_may_start_open() {
    let weights = |cell| {
        let config = RecurrentConfig::new(cell, 3, 16);
        let layer = config.init(&Init::new(4, &training())).unwrap();
        let weights = layer.layers[0].forward.clone().unwrap();
        (values(weights.w_ih.val()), values(weights.w_hh.val()), values(weights.bias.val()))
    };
    let (w_ih, w_hh, bias) = weights(Cell::lstm());
    for part in [&w_ih, &w_hh, &bias] {
        let largest = part.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        assert!((0.2..=0.25).contains(&largest), "{largest}");
    }
    let (_, _, open) = weights(Cell::Lstm { forget_bias: 1.0 });
    let added: Vec<f32> = (0..64).map(|unit| if (16..32).contains(&unit) { 1.0 } else { 0.0 }).collect();
    close("bias", &open, &bias.iter().zip(&added).map(|(a, b)| a + b).collect::<Vec<_>>(), 0.0);
    // The shifted bias still has a gradient.
    let layer = RecurrentConfig::new(Cell::Lstm { forget_bias: 1.0 }, 3, 4).init(&Init::new(4, &training())).unwrap();
    let out = layer.forward(leaf([2, 3, 3], 1), None, None, &Pass::inference()).unwrap();
    let gradients = out.hidden.sum().backward();
    assert!(layer.layers[0].forward.as_ref().unwrap().bias.val().grad(&gradients).is_some());
}

#[test]
fn bad_fields_are_named() {
    let config = RecurrentConfig::new(Cell::lstm(), 3, 4);
    let refused = |config: RecurrentConfig| config.init(&Init::new(1, &training())).unwrap_err().to_string();
    let positive = "expected a whole number, 1 or more";
    assert_eq!(refused(RecurrentConfig { d_hidden: 0, ..config }), format!("d_hidden = 0: {positive}"));
    assert_eq!(refused(RecurrentConfig { d_in: 0, ..config }), format!("d_in = 0: {positive}"));
    assert_eq!(refused(RecurrentConfig { n_layers: 0, ..config }), format!("n_layers = 0: {positive}"));
    assert!(refused(RecurrentConfig { dropout: 1.5, n_layers: 2, ..config }).starts_with("dropout = 1.5"));
    assert!(refused(RecurrentConfig { dropout: 0.1, ..config }).contains("between layers"));
    let cell = Cell::Lstm { forget_bias: f32::NAN };
    assert!(refused(RecurrentConfig { cell, ..config }).starts_with("cell.forget_bias = NaN"));

    let parse = |cell: &str| {
        let text = format!(r#"{{"d_in": 3, "d_hidden": 4, "cell": {cell}}}"#);
        serde_json::from_str::<RecurrentConfig>(&text).map_err(|error| error.to_string())
    };
    assert_eq!(parse(r#""lstm""#).unwrap(), config);
    assert_eq!(parse(r#""rnn""#).unwrap().cell, Cell::Rnn);
    assert_eq!(parse(r#""gru""#).unwrap().cell, Cell::gru());
    let before = parse(r#"{"kind": "gru", "reset": "before_product"}"#).unwrap();
    assert_eq!(before.cell, Cell::Gru { reset: GruReset::BeforeProduct });
    for cell in CELLS {
        let config = RecurrentConfig { cell, ..config };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<RecurrentConfig>(&text).unwrap(), config);
    }
    let error = parse(r#""elman""#).unwrap_err();
    assert!(error.contains("unknown variant `elman`, expected one of `rnn`, `lstm`, `gru`"), "{error}");
    let error = parse(r#"{"kind": "gru", "reset": "never"}"#).unwrap_err();
    assert!(error.contains("expected `after_product` or `before_product`"), "{error}");
    for cell in [r#"{"kind": "rnn", "reset": "after_product"}"#, r#"{"kind": "lstm", "reset": "after_product"}"#] {
        let error = parse(cell).unwrap_err();
        assert!(error.contains("unknown field `reset`"), "{error}");
    }
}

#[test]
fn bad_inputs_are_typed_errors() {
    let config = RecurrentConfig { n_layers: 2, ..RecurrentConfig::new(Cell::lstm(), 3, 4) };
    let layer = config.init(&Init::new(1, &training())).unwrap();
    let refused = |x: Tensor<3>, lengths: Option<&[usize]>, initial: Option<RecurrentState>| {
        layer.forward(x, lengths, initial, &Pass::inference()).unwrap_err().to_string()
    };
    let x = || leaf([2, 5, 3], 1);
    assert_eq!(refused(x(), Some(&[5, 6]), None), "lengths: expected each at most 5, got 6");
    assert_eq!(refused(x(), Some(&[5]), None), "lengths: expected 2, one per sequence, got 1");
    let shape = "input: expected [batch, seq, 3], each 1 or more, got";
    assert_eq!(refused(leaf([2, 5, 4], 1), None, None), format!("{shape} [2, 5, 4]"));
    assert_eq!(refused(leaf([2, 0, 3], 1), Some(&[0, 0]), None), format!("{shape} [2, 0, 3]"));
    let state =
        |hidden, cell: Option<_>| Some(RecurrentState { hidden: leaf(hidden, 1), cell: cell.map(|c| leaf(c, 1)) });
    let fits = [2, 2, 4];
    let error = refused(x(), None, state([1, 2, 4], Some(fits)));
    assert_eq!(error, "initial hidden state: expected [2, 2, 4], got [1, 2, 4]");
    let error = refused(x(), None, state(fits, Some([2, 1, 4])));
    assert_eq!(error, "initial cell state: expected [2, 2, 4], got [2, 1, 4]");
    assert_eq!(refused(x(), None, state(fits, None)), "initial cell state: expected a tensor for an LSTM, got none");
    let plain = RecurrentConfig { cell: Cell::Rnn, ..config }.init(&Init::new(1, &training())).unwrap();
    let error = plain.forward(x(), None, state(fits, Some(fits)), &Pass::inference()).unwrap_err();
    assert_eq!(error.to_string(), "initial cell state: expected none, as only an LSTM has one, got a tensor");

    let both = RecurrentConfig { direction: Direction::Both, ..config }.init(&Init::new(1, &training())).unwrap();
    let error = both.step(leaf([2, 3], 1), both.zero_state(2), &Pass::inference()).unwrap_err();
    assert_eq!(error.to_string(), "direction: expected Forward, to run step by step, got Both");
}
