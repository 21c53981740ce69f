//! Tests of the handwriting networks against PyTorch, in one go and step by step, and of their errors.

use burn::module::Param;
use burn::tensor::{Device, Tensor};
use regard_nn::layers::recurrent::RecurrentWeights;
use regard_nn::models::handwriting::{Handwriting, HandwritingConfig, TextWindow, Texts};
use regard_nn::{Ablation, AttentionKind, Capture, Init, Mode, Pass};

use crate::case::{Case, each_case};
use crate::support::{close, gradient, training, transposed, values};

fn ids(case: &Case) -> Option<Vec<Vec<u32>>> {
    serde_json::from_value(case.options["texts"].clone()).unwrap()
}

/// Builds the network of a case with its weights.
fn network(case: &Case) -> (Handwriting, Option<Texts>) {
    let window = TextWindow { characters: 3, components: case.size("n_components"), first_move: 1.0 };
    let config = HandwritingConfig {
        window: ids(case).map(|_| window),
        n_layers: 2,
        d_hidden: case.size("d_hidden"),
        components: case.size("components"),
        dropout: 0.0,
    };
    let mut model = Handwriting::new(&config, &Init::new(1, &training())).unwrap();
    for (n, layer) in model.layers.iter_mut().enumerate() {
        let weights = layer.layers[0].forward.as_mut().unwrap();
        weights.w_ih = Param::from_tensor(case.tensor::<2>(&format!("{n}.w_ih")).transpose());
        weights.w_hh = Param::from_tensor(case.tensor::<2>(&format!("{n}.w_hh")).transpose());
        weights.bias = Param::from_tensor(case.tensor(&format!("{n}.bias")));
    }
    if let Some(window) = &mut model.window {
        case.set(&mut window.projection, "w_window", Some("b_window"));
    }
    case.set(&mut model.output.linear, "output", Some("output_bias"));
    let texts = ids(case).map(|ids| model.texts(ids, &training()).unwrap());
    (model, texts)
}

fn weights(model: &Handwriting, n: usize) -> &RecurrentWeights {
    model.layers[n].layers[0].forward.as_ref().unwrap()
}

#[test]
fn loss_and_gradients_match_pytorch() {
    each_case("handwriting", |case| {
        let (model, texts) = network(&case);
        let (points, targets) = (case.tensor::<3>("points"), case.tensor::<3>("targets"));
        let (texts, lengths, pass) = (texts.as_ref(), case.lengths(), Pass::inference());
        let loss = model.loss(points, targets, texts, &lengths, &pass).unwrap();
        let gradients = loss.backward();
        case.expect("loss", &values(loss));
        for n in 0..2 {
            let found = weights(&model, n);
            for (part, weight) in [("w_ih", &found.w_ih), ("w_hh", &found.w_hh)] {
                let name = format!("grad_{n}.{part}");
                let [from, to] = weight.dims();
                let want = transposed(&case.floats(&name), to, from);
                close(&name, &gradient(&weight.val(), &gradients), &want, 1e-5);
            }
            case.expect(&format!("grad_{n}.bias"), &gradient(&found.bias.val(), &gradients));
        }
        if let Some(window) = &model.window {
            case.expect_linear(&window.projection, "w_window", Some("b_window"), &gradients);
        }
        case.expect_linear(&model.output.linear, "output", Some("output_bias"), &gradients);
    });
}

/// Sets the padding of raw outputs to zero, as in the golden file.
fn blanked(raw: Tensor<3>, lengths: &[usize]) -> Vec<f32> {
    let [_, seq, width] = raw.dims();
    let mut raw = values(raw);
    for (row, length) in lengths.iter().enumerate() {
        raw[(row * seq + length) * width..(row + 1) * seq * width].fill(0.0);
    }
    raw
}

#[test]
fn steps_match_pytorch_and_the_captured_window() {
    each_case("handwriting", |case| {
        let (model, texts) = network(&case);
        let (points, lengths) = (case.tensor::<3>("points"), case.lengths());
        let [batch, seq, _] = points.dims();
        let (whole, stepped) = (Capture::default(), Capture::default());
        let pass = Pass::inference().with_capture(&whole);
        let raw = model.forward(points.clone(), texts.as_ref(), &lengths, &pass).unwrap();
        case.expect("raw", &blanked(raw, &lengths));
        let pass = Pass::inference().with_capture(&stepped);
        let mut state = model.start(batch);
        let steps = (0..seq).map(|t| {
            let point = points.clone().narrow(1, t, 1).squeeze_dim(1);
            model.step(point, texts.as_ref(), &mut state, &pass).unwrap().raw
        });
        let raw = Tensor::stack::<3>(steps.collect(), 1);
        case.expect("raw", &blanked(raw, &lengths));
        let rows = |capture: Capture| -> Vec<f32> {
            let mut maps = capture.into_maps();
            maps.sort_by_key(|map| (map.sequence, map.first_row));
            maps.iter().flat_map(|map| map.rows.concat()).collect()
        };
        let (whole, stepped) = (rows(whole), rows(stepped));
        assert_eq!(whole.is_empty(), texts.is_none());
        close("weights of the window", &stepped, &whole, 1e-5);
    });
}

#[test]
fn a_network_without_its_window_reads_no_text() {
    let config = HandwritingConfig {
        window: Some(TextWindow { characters: 4, components: 2, first_move: 0.1 }),
        n_layers: 2,
        d_hidden: 6,
        components: 2,
        dropout: 0.0,
    };
    let device = Device::flex();
    let init = Init::new(3, &device);
    let model = Handwriting::new(&config, &init).unwrap();
    let site = init.inventory().layers[0].0;
    assert_eq!(site.kind, AttentionKind::Alignment);
    let points = Tensor::<3>::from_data([[[0.5f32, -0.2, 0.0], [0.1, 0.3, 1.0], [0.2, 0.2, 0.0]]], &device);
    let without = Ablation::of(site, Some(0), Mode::Zero);
    let raw = |text: Vec<u32>, pass: &Pass| {
        let texts = model.texts(vec![text], &device).unwrap();
        values(model.forward(points.clone(), Some(&texts), &[3], pass).unwrap())
    };
    let (plain, ablated) = (Pass::inference(), Pass::inference().with_ablation(&without));
    assert_ne!(raw(vec![0, 1], &plain), raw(vec![3, 2], &plain), "the text is read");
    assert_eq!(raw(vec![0, 1], &ablated), raw(vec![3, 2], &ablated), "the text is not read");
}

#[test]
fn wrong_texts_and_points_are_refused() {
    let window = Some(TextWindow { characters: 2, components: 1, first_move: 0.1 });
    let config = HandwritingConfig { window, n_layers: 1, d_hidden: 3, components: 1, dropout: 0.0 };
    let device = Device::flex();
    let model = Handwriting::new(&config, &Init::new(1, &device)).unwrap();
    assert!(model.texts(vec![vec![2]], &device).is_err() && model.texts(vec![vec![]], &device).is_err());
    let texts = model.texts(vec![vec![0]], &device).unwrap();
    let pass = Pass::inference();
    let forward = |shape: [usize; 3], texts: Option<&Texts>| {
        model.forward(Tensor::zeros(shape, &device), texts, &vec![shape[1]; shape[0]], &pass).is_ok()
    };
    assert!(forward([1, 2, 3], Some(&texts)));
    assert!(!forward([1, 2, 3], None) && !forward([2, 2, 3], Some(&texts)) && !forward([1, 2, 2], Some(&texts)));
    assert!(!forward([1, 0, 3], Some(&texts)));
    let other = HandwritingConfig { window: None, ..config };
    let other = Handwriting::new(&other, &Init::new(1, &device)).unwrap();
    assert!(other.texts(vec![vec![0]], &device).is_err());
    assert!(other.forward(Tensor::zeros([1, 2, 3], &device), Some(&texts), &[2], &pass).is_err());
    for broken in [
        HandwritingConfig { n_layers: 0, ..config },
        HandwritingConfig { components: 0, ..config },
        HandwritingConfig { window: Some(TextWindow { characters: 2, components: 0, first_move: 0.1 }), ..config },
        HandwritingConfig { window: Some(TextWindow { characters: 2, components: 1, first_move: 0.0 }), ..config },
        HandwritingConfig { dropout: 1.0, ..config },
    ] {
        assert!(broken.validate().is_err(), "{broken:?}");
    }
}
