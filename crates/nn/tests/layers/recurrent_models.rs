//! Tests of the recurrent translator and language model against PyTorch, and their properties.

use burn::module::Param;
use burn::tensor::{Gradients, Int, Tensor, TensorData};
use proptest::prelude::*;
use regard_nn::layers::attention::context::{Estimator, Selection};
use regard_nn::layers::attention::score_function::{Baseline, score_function_loss};
use regard_nn::layers::recurrent::{Cell, Direction};
use regard_nn::models::recurrent_language_model::{RecurrentLanguageModel, RecurrentLanguageModelConfig};
use regard_nn::models::recurrent_translator::{RecurrentTranslator, RecurrentTranslatorConfig};
use regard_nn::models::recurrent_writer::{Alignment, Attend};
use regard_nn::models::transformer::OutputWeights;
use regard_nn::{AttentionKind, Capture, Init, NnError, Pass};
use regard_ops::{CrossEntropyOptions, log_softmax};

use crate::golden::Golden;
use crate::link::{Action, Link};
use crate::support::{close, gradient, training, values};

const SMOOTHING: CrossEntropyOptions = CrossEntropyOptions { label_smoothing: 0.1, ignore_index: Some(-100) };

fn config<T: serde::de::DeserializeOwned>(options: &serde_json::Value) -> T {
    let mut fields = options.clone();
    fields["dropout"] = 0.0.into();
    serde_json::from_value(fields).unwrap()
}

fn link_translator(link: &Link, model: &mut RecurrentTranslator) {
    link.plain(&mut model.source_embedding.weight, "source.weight", None);
    link.plain(&mut model.target_embedding.as_mut().unwrap().weight, "target.weight", None);
    link.recurrent(&mut model.encoder, "encoder");
    link.recurrent(&mut model.decoder, "decoder");
    link.linear(&mut model.readout, "readout");
    link.linear(model.output.linear.as_mut().unwrap(), "output");
    let Some(attention) = &mut model.attention else { return };
    let score = &mut attention.score;
    for (layer, name) in [(&mut score.query, "query"), (&mut score.key, "key"), (&mut score.vector, "vector")] {
        let Some(layer) = layer else { continue };
        link.transposed(&mut layer.weight, &format!("{name}.weight"), None);
        if let Some(bias) = &mut layer.bias {
            link.plain(bias, &format!("{name}.bias"), None);
        }
    }
}

fn column(ids: &Tensor<2, Int>, step: usize) -> Tensor<1, Int> {
    ids.clone().narrow(1, step, 1).squeeze_dim(1)
}

#[test]
fn the_recurrent_translators_loss_logits_maps_and_all_gradients_match_pytorch() {
    let golden = Golden::open("recurrent_translator");
    for (case, options) in golden.cases() {
        let config: RecurrentTranslatorConfig = config(&options);
        let mut model = RecurrentTranslator::new(&config, &Init::new(1, &training())).unwrap();
        link_translator(&Link { golden: &golden, case: &case, action: Action::Load }, &mut model);
        let ids = |name: &str| golden.integers::<2>(&format!("{case}/{name}"), &training());
        let floats = |name: &str| golden.floats(&format!("{case}/{name}"));
        let encode =
            |model: &RecurrentTranslator| model.encode(ids("ids"), Some(vec![4, 2]), &Pass::inference()).unwrap();

        let capture = Capture::default();
        let pass = Pass::inference().with_capture(&capture);
        close(&case, &values(model.logits(&encode(&model), ids("inputs"), &pass).unwrap()), &floats("logits"), 1e-5);
        let maps = capture.into_maps();
        assert_eq!(maps.len(), if config.attention == Alignment::None { 0 } else { 2 }, "{case}");
        if !maps.is_empty() {
            assert!(maps.iter().all(|map| map.site.kind == AttentionKind::Alignment && map.first_row == 0), "{case}");
            let rows: Vec<f32> = maps.iter().flat_map(|map| map.rows.concat()).collect();
            close(&case, &rows, &floats("maps"), 1e-5);
        }

        let loss = model.loss(&encode(&model), ids("inputs"), ids("targets"), SMOOTHING, &Pass::inference()).unwrap();
        assert!(loss.rewarded.is_none());
        close(&case, &values(loss.loss.clone()), &floats("loss"), 1e-5);
        let gradients = loss.loss.backward();
        link_translator(&Link { golden: &golden, case: &case, action: Action::Compare(&gradients, 4e-5) }, &mut model);

        // One word at a time gives the same logits and, over the steps, the same maps.
        let capture = Capture::default();
        let pass = Pass::inference().with_capture(&capture);
        let (source, inputs) = (encode(&model), ids("inputs"));
        let mut state = model.start(&source);
        let step = |t| model.step(&source, column(&inputs, t), &mut state, &pass).unwrap().unsqueeze_dim::<3>(1);
        let steps: Vec<_> = (0..3).map(step).collect();
        close(&case, &values(Tensor::cat(steps, 1)), &floats("logits"), 1e-5);
        assert_eq!(state.steps(), 3);
        let again = capture.into_maps();
        assert_eq!(again.len(), maps.len());
        for (got, want) in again.iter().zip(&maps) {
            close(&case, &got.rows.concat(), &want.rows.concat(), 1e-6);
        }
    }
}

#[test]
fn the_recurrent_language_models_loss_logits_and_all_gradients_match_pytorch() {
    let golden = Golden::open("recurrent_language_model");
    for (case, options) in golden.cases() {
        let config: RecurrentLanguageModelConfig = config(&options);
        let mut model = RecurrentLanguageModel::new(&config, &Init::new(1, &training())).unwrap();
        let link = |link: &Link, model: &mut RecurrentLanguageModel| {
            link.plain(&mut model.embedding.weight, "embedding.weight", None);
            link.recurrent(&mut model.recurrent, "recurrent");
            match (&mut model.output.linear, &mut model.output.bias) {
                (Some(linear), None) => link.linear(linear, "output"),
                (None, Some(bias)) => link.plain(bias, "output.bias", None),
                _ => panic!("{case}: expected output weights, or a bias beside the embedding's weights"),
            }
            if let Some(projection) = &mut model.projection {
                link.linear(projection, "projection");
            }
        };
        link(&Link { golden: &golden, case: &case, action: Action::Load }, &mut model);
        let ids = |name: &str| golden.integers::<2>(&format!("{case}/{name}"), &training());
        let want = golden.floats(&format!("{case}/logits"));
        close(&case, &values(model.logits(ids("ids"), &Pass::inference()).unwrap()), &want, 1e-5);
        let loss = model.loss(ids("ids"), ids("targets"), SMOOTHING, &Pass::inference()).unwrap();
        close(&case, &values(loss.clone()), &golden.floats(&format!("{case}/loss")), 1e-5);
        let gradients = loss.backward();
        link(&Link { golden: &golden, case: &case, action: Action::Compare(&gradients, 2e-5) }, &mut model);

        // Two tokens at once and the others one by one, starting from the state, give the same logits.
        let (ids, mut state) = (ids("ids"), model.start(2));
        let mut parts = vec![model.logits_from(&mut state, ids.clone().narrow(1, 0, 2), &Pass::inference()).unwrap()];
        for t in 2..4 {
            parts.push(model.step(column(&ids, t), &mut state, &Pass::inference()).unwrap().unsqueeze_dim(1));
        }
        close(&case, &values(Tensor::cat(parts, 1)), &want, 1e-5);
    }
}

const CELLS: [fn() -> Cell; 3] = [|| Cell::Rnn, Cell::lstm, Cell::gru];
const ALIGNMENTS: [Alignment; 5] =
    [Alignment::None, Alignment::Additive, Alignment::Dot, Alignment::General, Alignment::ScaledDot];

fn small() -> RecurrentTranslatorConfig {
    RecurrentTranslatorConfig { vocab: 7, d_model: 3, d_hidden: 4, dropout: 0.0, ..Default::default() }
}

fn ids(rows: &[&[i32]]) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::new(rows.concat(), [rows.len(), rows[0].len()]), &training())
}

/// Concatenates the gradients of all parameters of a model.
fn all_gradients(model: &RecurrentTranslator, gradients: &Gradients) -> Vec<f32> {
    struct Collect<'a>(&'a Gradients, Vec<f32>);
    impl burn::module::ModuleVisitor for Collect<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.1.extend(gradient(&param.val(), self.0));
        }
    }
    let mut collect = Collect(gradients, Vec::new());
    burn::module::Module::visit(model, &mut collect);
    collect.1
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A sentence decodes in a batch as it does alone. The content of padding changes neither loss nor gradients. Selected rows
    /// decode like the originals.
    #[test]
    fn padding_has_no_effect_and_rows_are_independent(
        cell in 0..3usize,
        attention in 0..5usize,
        n_layers in 1..3usize,
        before in any::<bool>(),
        direction in 0..3usize,
        length in 1..4usize,
        pad in 0..7i32,
        seed in any::<u64>(),
    ) {
        let config = RecurrentTranslatorConfig {
            cell: CELLS[cell](),
            attention: ALIGNMENTS[attention],
            n_layers,
            attend: if before { Attend::Before } else { Attend::After },
            direction: [Direction::Forward, Direction::Backward, Direction::Both][direction],
            ..small()
        };
        let model = RecurrentTranslator::new(&config, &Init::new(seed, &training())).unwrap();
        let pass = Pass::inference();
        let long = [1, 5, 2, 6];
        let short = [3, 4, 0, 2];
        let padded = |pad: i32| std::array::from_fn::<i32, 4, _>(|i| if i < length { short[i] } else { pad });
        let inputs = ids(&[&[1, 2, 3], &[4, 0, 6]]);
        let encode = |pad| model.encode(ids(&[&long, &padded(pad)]), Some(vec![4, length]), &pass).unwrap();
        let logits = values(model.logits(&encode(pad), inputs.clone(), &pass).unwrap());
        let alone = model.encode(ids(&[&short[..length]]), None, &pass).unwrap();
        let want = values(model.logits(&alone, inputs.clone().narrow(0, 1, 1), &pass).unwrap());
        close("alone", &logits[21..], &want, 1e-5);

        let gradients = |pad| {
            let targets = ids(&[&[2, 3, 1], &[0, 6, 5]]);
            let loss = model.loss(&encode(pad), inputs.clone(), targets, SMOOTHING, &pass).unwrap().loss;
            let got = values(loss.clone());
            [got, all_gradients(&model, &loss.backward())].concat()
        };
        // Bit for bit, except that −0 equals 0, because padding has no effect.
        prop_assert!(gradients(pad) == gradients((pad + 3) % 7));

        let rows = [1, 0, 1];
        let source = encode(pad).select(&rows).unwrap();
        prop_assert_eq!(source.batch(), 3);
        let indices = Tensor::<1, Int>::from_data(TensorData::new(vec![1, 0, 1], [3]), &training());
        let chosen = values(model.logits(&source, inputs.select(0, indices), &pass).unwrap());
        let want: Vec<f32> = rows.iter().flat_map(|row| logits[row * 21..(row + 1) * 21].to_vec()).collect();
        close("selected", &chosen, &want, 1e-6);
    }
}

/// The score's weights learn only from the reward: the cross-entropy has no gradient through a choice.
#[test]
fn hard_attention_learns_by_rewards() {
    for attend in [Attend::Before, Attend::After] {
        let selection = Selection::Hard { estimator: Estimator::ScoreFunction { samples: 1 } };
        let config = RecurrentTranslatorConfig { selection, attend, ..small() };
        let model = RecurrentTranslator::new(&config, &Init::new(3, &training())).unwrap();
        let pass = Pass::training(9);
        let inputs = ids(&[&[1, 2, 3], &[4, 0, 6]]);
        let targets = ids(&[&[2, 3, 1], &[0, 6, -100]]);
        let encode = || model.encode(ids(&[&[1, 5, 2], &[3, 4, 0]]), Some(vec![3, 2]), &pass).unwrap();
        let run = || model.loss(&encode(), inputs.clone(), targets.clone(), SMOOTHING, &pass).unwrap();
        let query = model.attention.as_ref().unwrap().score.query.as_ref().unwrap().weight.val();
        let plain = gradient(&query, &run().loss.backward());
        assert!(plain.iter().all(|&x| x == 0.0), "{plain:?}");

        let mut baseline = Baseline::new("decay", 0.9).unwrap();
        baseline.update(-1.5);
        let total = run().total(&mut baseline, 0.0).unwrap();
        // The same pass makes the same choices and so the same logits: the reward is their log-likelihood of the target.
        let logits = model.logits(&encode(), inputs.clone(), &pass).unwrap();
        let log_probabilities = values(log_softmax(logits).unwrap());
        let words = [2usize, 3, 1, 0, 6];
        let rewards: Vec<f32> = words.iter().enumerate().map(|(i, word)| log_probabilities[i * 7 + word]).collect();
        let found = run();
        let (loss, rewarded) = (values(found.loss.clone())[0], found.rewarded.unwrap());
        close("reward", &values(rewarded.reward.clone())[..5], &rewards, 1e-5);
        let choice = &rewarded.choice;
        let each = values(score_function_loss(choice, rewarded.reward.clone(), -1.5, 0.0).unwrap());
        close("total", &values(total.clone()), &[loss + each[..5].iter().sum::<f32>() / 5.0], 1e-5);
        let mean = rewards.iter().sum::<f32>() / 5.0;
        close("baseline", &[baseline.value()], &[0.9 * -1.5 + 0.1 * mean], 1e-5);
        assert!(gradient(&query, &total.backward()).iter().any(|&x| x.abs() > 1e-6));

        // Outside training there are no rewards: the most probable word is taken.
        let sure = model.loss(&encode(), inputs.clone(), targets.clone(), SMOOTHING, &Pass::inference()).unwrap();
        assert!(sure.rewarded.is_none());
    }
}

/// With several samples, each is judged by the mean reward of the others, and the moving average is left alone.
#[test]
fn samples_of_a_sentence_are_each_others_baseline() {
    let selection = Selection::Hard { estimator: Estimator::ScoreFunction { samples: 3 } };
    for attend in [Attend::Before, Attend::After] {
        let config = RecurrentTranslatorConfig { selection, attend, ..small() };
        let model = RecurrentTranslator::new(&config, &Init::new(3, &training())).unwrap();
        let (inputs, targets) = (ids(&[&[1, 2, 3], &[4, 0, 6]]), ids(&[&[2, 3, 1], &[0, 6, -100]]));
        let run = |pass: &Pass| {
            let source = model.encode(ids(&[&[1, 5, 2], &[3, 4, 0]]), Some(vec![3, 2]), pass).unwrap();
            model.loss(&source, inputs.clone(), targets.clone(), SMOOTHING, pass).unwrap()
        };
        let pass = Pass::training(9);
        let found = run(&pass);
        let (loss, rewarded) = (values(found.loss.clone())[0], found.rewarded.unwrap());
        let chosen: Vec<i64> = rewarded.choice.keys.clone().into_data().iter().collect();
        assert!(chosen[..6] != chosen[6..12] || chosen[..6] != chosen[12..], "{chosen:?}");
        let rewards = values(rewarded.reward.clone());
        let advantages: Vec<f32> =
            (0..18).map(|at| rewards[at] - (rewards[(at + 6) % 18] + rewards[(at + 12) % 18]) / 2.0).collect();
        let advantages = Tensor::<2>::from_data(TensorData::new(advantages, [6, 3]), &training());
        let each = values(score_function_loss(&rewarded.choice, advantages, 0.0, 0.0).unwrap());
        let counted = (0..18).filter(|at| at % 6 != 5);
        let want = loss + counted.map(|at| each[at]).sum::<f32>() / 15.0;
        let mut baseline = Baseline::new("decay", 0.9).unwrap();
        let total = run(&pass).total(&mut baseline, 0.0).unwrap();
        close("total", &values(total), &[want], 1e-5);
        assert_eq!(baseline, Baseline::new("decay", 0.9).unwrap());
        assert!(run(&Pass::inference()).rewarded.is_none());
    }
    let none = Selection::Hard { estimator: Estimator::ScoreFunction { samples: 0 } };
    let error = RecurrentTranslatorConfig { selection: none, ..small() }.validate().unwrap_err().to_string();
    assert!(error.ends_with("samples = 0: expected 1 to 64"), "{error}");
}

/// The Gumbel estimator needs no reward: the cross-entropy has a gradient with respect to the score.
#[test]
fn gumbels_estimator_learns_by_the_loss() {
    let selection = Selection::Hard { estimator: Estimator::Gumbel { temperature: 1.0 } };
    for attend in [Attend::Before, Attend::After] {
        let config = RecurrentTranslatorConfig { selection, attend, ..small() };
        let model = RecurrentTranslator::new(&config, &Init::new(3, &training())).unwrap();
        let pass = Pass::training(2);
        let source = model.encode(ids(&[&[1, 5, 2]]), None, &pass).unwrap();
        let found = model.loss(&source, ids(&[&[1, 2]]), ids(&[&[2, 3]]), SMOOTHING, &pass).unwrap();
        let mut baseline = Baseline::new("decay", 0.9).unwrap();
        let total = found.total(&mut baseline, 0.5).unwrap();
        assert_eq!(baseline, Baseline::new("decay", 0.9).unwrap());
        let query = model.attention.as_ref().unwrap().score.query.as_ref().unwrap().weight.val();
        assert!(gradient(&query, &total.backward()).iter().any(|&x| x.abs() > 1e-6));
    }
}

#[test]
fn bad_fields_and_inputs_are_named() {
    let message = |config: RecurrentTranslatorConfig| config.validate().unwrap_err().to_string();
    assert_eq!(
        message(RecurrentTranslatorConfig { d_hidden: 5, ..small() }),
        "d_hidden = 5: expected an even number when direction is both, half of it for each"
    );
    let selection = Selection::Hard { estimator: Estimator::ScoreFunction { samples: 1 } };
    assert_eq!(
        message(RecurrentTranslatorConfig { attention: Alignment::None, selection, ..small() }),
        "selection = hard: expected soft when attention is none"
    );
    assert!(message(RecurrentTranslatorConfig { n_layers: 0, ..small() }).starts_with("n_layers = 0"));
    assert!(message(RecurrentTranslatorConfig { d_hidden: 1 << 62, ..small() }).starts_with("d_hidden = "));
    let tied = RecurrentLanguageModelConfig {
        d_model: 3,
        d_hidden: 4,
        output_weights: OutputWeights::Embedding,
        ..Default::default()
    };
    assert!(tied.validate().unwrap_err().to_string().starts_with("d_hidden = 4: expected d_model = 3"));
    assert!(RecurrentLanguageModelConfig { d_projection: Some(3), ..tied }.validate().is_ok());
    let parsed: RecurrentTranslatorConfig =
        serde_json::from_str(r#"{"cell": "gru", "attention": "additive", "attend": "before", "selection": "soft"}"#)
            .unwrap();
    assert_eq!((parsed.cell, parsed.attention, parsed.attend), (Cell::gru(), Alignment::Additive, Attend::Before));
    assert!(serde_json::from_str::<RecurrentTranslatorConfig>(r#"{"heads": 2}"#).is_err());

    let model = RecurrentTranslator::new(&small(), &Init::new(1, &training())).unwrap();
    let source = model.encode(ids(&[&[1, 2]]), None, &Pass::inference()).unwrap();
    let error = source.select(&[0, 1]).unwrap_err();
    assert_eq!(error, NnError::input("rows", "at least one, each below 1", "[0, 1]"));
    let plain = RecurrentTranslatorConfig { attention: Alignment::None, ..small() };
    let other = RecurrentTranslator::new(&plain, &Init::new(1, &training())).unwrap();
    let foreign = other.encode(ids(&[&[1, 2]]), None, &Pass::inference()).unwrap();
    let error = model.logits(&foreign, ids(&[&[1]]), &Pass::inference()).unwrap_err();
    assert!(error.to_string().starts_with("source: expected one encoded by this model"), "{error}");
    let empty = model.encode(Tensor::zeros([1, 0], &training()), None, &Pass::inference()).unwrap_err();
    assert_eq!(empty.to_string(), "tokens: expected [batch, seq], each 1 or more, got [1, 0]");
}
