//! Tests of positions: each kind against its formula, beyond the trained length, and by name in configurations.

use burn::module::Param;
use burn::tensor::{Tensor, TensorData};
use proptest::prelude::*;
use regard_nn::config::expected_names;
use regard_nn::layers::attention::multi_head::MultiHeadConfig;
use regard_nn::layers::attention::self_attention::SelfAttention;
use regard_nn::layers::position::learned::{Beyond, LearnedConfig};
use regard_nn::layers::position::relative::RelativeConfig;
use regard_nn::layers::position::rope::{Frequencies, RopeConfig};
use regard_nn::layers::position::sinusoidal::Sinusoidal;
use regard_nn::layers::position::{Places, Position, PositionSizes, Positions};
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::transformer::TransformerConfig;
use regard_nn::{Init, Pass};
use regard_ops::{AttentionOptions, Distance, Pairing, rope};

use crate::case::parse;
use crate::support::{close, gradient, leaf, training, values};

const SIZES: PositionSizes = PositionSizes { d_model: 16, n_heads: 4, d_head: 4 };

fn init(position: Position) -> Positions {
    position.init(SIZES, &Init::new(3, &training())).unwrap()
}

#[test]
fn sinusoids_match_the_published_formula() {
    let got = values(init(Position::Sinusoidal).table(3000, 7, &training()).unwrap().unwrap());
    let want: Vec<f32> = (7..3007)
        .flat_map(|p| {
            (0..16).map(move |j| {
                let angle = f64::from(p) / 10_000f64.powf(f64::from(2 * (j / 2)) / 16.0);
                (if j % 2 == 0 { angle.sin() } else { angle.cos() }) as f32
            })
        })
        .collect();
    assert_eq!(got, want);
}

proptest! {
    #[test]
    fn a_shift_of_sinusoids_is_one_rotation_for_all_positions(by in 0usize..200, at in 0usize..1000) {
        let layer = Sinusoidal::new(16, 10_000.0).unwrap();
        let shifted = layer.encode(5, at, &training()).matmul(layer.shift(by, &training()));
        close("shifted", &values(shifted), &values(layer.encode(5, at + by, &training())), 1e-5);
    }

    /// Scores with RoPE depend only on the distance between query and key, whatever the pairing.
    #[test]
    fn rope_depends_only_on_the_distance(at in 0usize..300, distance in 0usize..50, halves: bool) {
        let pairing = if halves { Pairing::Halves } else { Pairing::Interleaved };
        let Positions::Rope(layer) = init(Position::Rope(RopeConfig { pairing, ..RopeConfig::default() })) else {
            panic!("expected RoPE");
        };
        let (q, k): (Tensor<4>, Tensor<4>) = (leaf([1, 1, 1, 4], 1), leaf([1, 1, 1, 4], 2));
        let turned = |x: &Tensor<4>, p| rope(x.clone(), layer.angles(1, p, &training()), layer.pairing()).unwrap();
        let score = |p, d| values((turned(&q, p + d) * turned(&k, p)).sum())[0];
        prop_assert!((score(at, distance) - score(0, distance)).abs() < 1e-4);
    }
}

#[test]
fn learned_frequencies_start_at_the_fixed_ones_and_get_gradients() {
    let learned = RopeConfig { frequencies: Frequencies::Learned, ..RopeConfig::default() };
    let (Positions::Rope(fixed), Positions::Rope(learned)) =
        (init(Position::Rope(RopeConfig::default())), init(Position::Rope(learned)))
    else {
        panic!("expected RoPE");
    };
    let angles = learned.angles(9, 4, &training());
    close("angles", &values(angles.clone()), &values(fixed.angles(9, 4, &training())), 1e-6);
    let x: Tensor<4> = leaf([1, 2, 9, 4], 1);
    let weights: Tensor<4> = leaf([1, 2, 9, 4], 2);
    let y = rope(x.clone(), angles, learned.pairing()).unwrap();
    let gradients = (y * weights.clone()).sum().backward();
    let got = gradient(&learned.frequencies.as_ref().unwrap().val(), &gradients);
    // d/dω of Σ w·(rotated pair) in f64, summed over the positions.
    let (x, w) = (values(x), values(weights));
    let mut want = [0f64; 2];
    for row in 0..18 {
        let p = (row % 9 + 4) as f64;
        for (i, want) in want.iter_mut().enumerate() {
            let at = row * 4 + 2 * i;
            let (a, b) = (f64::from(x[at]), f64::from(x[at + 1]));
            let (sin, cos) = (p / 10_000f64.powf(i as f64 / 2.0)).sin_cos();
            let (da, db) = (-a * sin - b * cos, a * cos - b * sin);
            *want += p * (f64::from(w[at]) * da + f64::from(w[at + 1]) * db);
        }
    }
    close("gradient of the frequencies", &got, &want.map(|x| x as f32), 1e-4);
}

#[test]
fn alibi_has_the_published_slopes() {
    let slopes = |n_heads| {
        let positions = Position::Alibi.init(PositionSizes { n_heads, ..SIZES }, &Init::new(1, &training())).unwrap();
        match positions.places(1, 0, &training()).distance {
            Distance::Alibi { slopes } => slopes,
            _ => panic!("expected ALiBi"),
        }
    };
    let powers = |exponents: &[f64]| exponents.iter().map(|&e| 2f64.powf(-e) as f32).collect::<Vec<_>>();
    let eight = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
    assert_eq!(slopes(8), powers(&eight));
    assert_eq!(slopes(16), powers(&(1..=16).map(|k| f64::from(k) / 2.0).collect::<Vec<_>>()));
    assert_eq!(slopes(12), powers(&[&eight[..], &[0.5, 1.5, 2.5, 3.5]].concat()));
}

#[test]
fn a_learned_table_repeats_its_last_entry_or_refuses() {
    let table = |beyond| init(Position::Learned(LearnedConfig { max_length: 4, beyond, first: 0 }));
    let last = table(Beyond::Last);
    let four = values(last.table(4, 0, &training()).unwrap().unwrap());
    let six = values(last.table(3, 2, &training()).unwrap().unwrap());
    assert_eq!(six, [&four[2 * 16..], &four[3 * 16..]].concat());
    assert_eq!(values(last.table(1, 9, &training()).unwrap().unwrap()), four[3 * 16..]);
    let refused = table(Beyond::Refuse).table(3, 2, &training()).unwrap_err().to_string();
    assert_eq!(refused, "sequence: expected at most 4 positions (position.max_length), got 5");
}

#[test]
fn positions_are_chosen_by_name_or_table() {
    let parse = parse::<Position>;
    assert_eq!(parse(r#""alibi""#).unwrap(), Position::Alibi);
    assert_eq!(parse(r#""rope""#).unwrap(), Position::Rope(RopeConfig::default()));
    let large = RopeConfig { base: 5e5, pairing: Pairing::Halves, ..RopeConfig::default() };
    assert_eq!(parse(r#"{"kind": "rope", "base": 5e5, "pairing": "halves"}"#).unwrap(), Position::Rope(large));
    let unknown = parse(r#""rotary""#).unwrap_err();
    assert_eq!(
        Position::all().map(|kind| kind.name()).collect::<Vec<_>>(),
        expected_names(&unknown).collect::<Vec<_>>()
    );
    for kind in Position::all() {
        assert_eq!(parse(&format!("{:?}", kind.name())).unwrap(), kind);
        assert_eq!(serde_json::to_value(kind).unwrap()["kind"], kind.name());
    }
    assert!(
        parse(r#"{"kind": "rope", "bose": 1}"#).unwrap_err().contains("unknown field `bose`, expected one of `base`")
    );
    assert!(parse(r#"{"kind": "alibi", "base": 1}"#).is_err());
    assert!(parse("3").unwrap_err().contains("the name of a kind, or a table"));
}

#[test]
fn sizes_that_do_not_fit_a_kind_are_named() {
    let odd = PositionSizes { d_head: 5, ..SIZES };
    let message = Position::Rope(RopeConfig::default()).validate(odd).unwrap_err().to_string();
    assert_eq!(message, "d_head = 5: expected an even number: RoPE rotates pairs of features");
    let odd = PositionSizes { d_model: 15, ..SIZES };
    assert!(Position::Sinusoidal.validate(odd).unwrap_err().to_string().starts_with("d_model = 15: expected an even"));
    let base = Position::Rope(RopeConfig { base: -1.0, ..RopeConfig::default() });
    let config = TransformerConfig { position: base, ..TransformerConfig::default() };
    assert!(config.validate().unwrap_err().to_string().starts_with("position.base = -1: expected"));
}

/// In a language model every kind works beyond the trained length, and cached decoding equals the full pass.
#[test]
fn every_kind_works_in_a_model_at_any_length() {
    for mut position in Position::all() {
        match &mut position {
            Position::Learned(learned) => *learned = LearnedConfig { max_length: 8, beyond: Beyond::Last, first: 0 },
            Position::Rope(rope) => rope.frequencies = Frequencies::Learned,
            _ => {}
        }
        let config = TransformerConfig {
            vocab: 11,
            n_layers: 2,
            d_model: 16,
            n_heads: 4,
            d_ff: 20,
            position,
            ..TransformerConfig::default()
        };
        let mut model = LanguageModel::new(&config, &Init::new(5, &training())).unwrap();
        if let Positions::Relative(layer) = &mut model.embedding.position {
            layer.weight = Param::from_tensor(leaf(layer.weight.dims(), 9));
        }
        let ids: Vec<i32> = (0..40).map(|i| (i * i) % 11).collect();
        let ids = Tensor::from_data(TensorData::new(ids, [2, 20]), &training());
        let pass = Pass::inference();
        let full = model.logits(ids.clone(), &pass).unwrap();
        let mut caches = model.caches();
        let step = |t| model.logits_cached(ids.clone().narrow(1, t, 1), &mut caches, &pass).unwrap();
        let steps = (0..20).map(step).collect();
        close(&format!("{position:?}"), &values(Tensor::cat(steps, 1)), &values(full), 1e-5);
    }
}

/// The learned bias of a distance gets the sum of the gradients of all scores at that distance.
#[test]
fn a_relative_table_gets_the_gradient_of_its_scores() {
    let Positions::Relative(mut relative) =
        init(Position::Relative(RelativeConfig { max_distance: 2, ..Default::default() }))
    else {
        panic!("expected relative positions");
    };
    relative.weight = Param::from_tensor(leaf([4, 5], 9));
    let layer = SelfAttention::new(&MultiHeadConfig::new(16, 4), &Init::new(2, &training())).unwrap();
    let (x, weights): (Tensor<3>, Tensor<3>) = (leaf([1, 6, 16], 1), leaf([1, 6, 16], 2));
    let run = |options: &AttentionOptions, places: &Places| {
        let y = layer.forward(x.clone(), options, places, &Pass::inference()).unwrap();
        (values(y.clone()), (y * weights.clone().detach()).sum().backward())
    };
    let table = relative.weight.val();
    let places = Places { distance: relative.distance(), ..Places::default() };
    let (got, gradients) = run(&AttentionOptions::default(), &places);
    let got_table = gradient(&table, &gradients);
    // A dense bias gives the same; its gradient is summed by distance.
    let table = values(table);
    let entry = |i: usize, j: usize| (j as i64 - i as i64).clamp(-2, 2) + 2;
    let dense: Vec<f32> = (0..4 * 36).map(|n| table[n / 36 * 5 + entry(n / 6 % 6, n % 6) as usize]).collect();
    let dense = Tensor::<4>::from_data(TensorData::new(dense, [1, 4, 6, 6]), &training()).require_grad();
    let options = AttentionOptions { bias: Some(dense.clone()), ..AttentionOptions::default() };
    let (want, gradients) = run(&options, &Places::default());
    let mut want_table = vec![0.0; 20];
    for (n, grad) in gradient(&dense, &gradients).into_iter().enumerate() {
        want_table[n / 36 * 5 + entry(n / 6 % 6, n % 6) as usize] += grad;
    }
    close("output", &got, &want, 1e-6);
    close("table", &got_table, &want_table, 1e-5);
}
