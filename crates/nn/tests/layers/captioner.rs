//! Tests of the captioners against PyTorch, of hard attention that begins softly, and of their errors.

use burn::tensor::{Int, Tensor, TensorData};
use regard_nn::layers::attention::context::{Estimator, Selection};
use regard_nn::layers::block::NormPlace;
use regard_nn::layers::position::Positions;
use regard_nn::layers::recurrent::Cell;
use regard_nn::models::captioner::features::{PictureFeatures, PictureFeaturesConfig};
use regard_nn::models::captioner::{
    RecurrentCaptioner, RecurrentCaptionerConfig, TransformerCaptioner, TransformerCaptionerConfig,
};
use regard_nn::models::image::ImageShape;
use regard_nn::models::image::cnn::CnnConfig;
use regard_nn::models::recurrent_writer::{Alignment, Attend};
use regard_nn::models::transformer::{OutputWeights, TransformerConfig};
use regard_nn::{AttentionKind, Capture, Init, Pass};
use regard_ops::CrossEntropyOptions;

use crate::golden::Golden;
use crate::image_models::link_cnn;
use crate::link::{Action, Link, compare};
use crate::support::{close, gradient, training, values};

const SMOOTHING: CrossEntropyOptions = CrossEntropyOptions { label_smoothing: 0.1, ignore_index: Some(-100) };

/// Pictures of 8 × 11 pixels; the network has 4 × 6 positions.
fn picture(cell: usize, groups: usize) -> PictureFeaturesConfig {
    let cnn = CnnConfig { channels: vec![4, 8], blocks: 1, groups, ..CnnConfig::default() };
    PictureFeaturesConfig { shape: ImageShape { channels: 2, height: 8, width: 11 }, cnn, cell }
}

fn recurrent(attention: Alignment, attend: Attend, selection: Selection) -> RecurrentCaptionerConfig {
    RecurrentCaptionerConfig {
        vocab: 6,
        picture: picture(2, 0),
        cell: Cell::lstm(),
        n_layers: 1,
        d_model: 4,
        d_hidden: 8,
        attention,
        selection,
        attend,
        output_weights: OutputWeights::Own,
        dropout: 0.0,
    }
}

fn transformer() -> TransformerCaptionerConfig {
    let decoder = TransformerConfig {
        vocab: 6,
        n_layers: 2,
        d_model: 8,
        n_heads: 2,
        d_ff: 12,
        norm_place: NormPlace::Pre,
        dropout: 0.0,
        ..TransformerConfig::default()
    };
    TransformerCaptionerConfig { picture: picture(1, 2), decoder }
}

fn link_picture(link: &Link, picture: &mut PictureFeatures) {
    link_cnn(link, &mut picture.cnn);
    link.plain(&mut picture.projection.weight, "output.weight", None);
    link.plain(picture.projection.bias.as_mut().unwrap(), "output.bias", None);
    for (places, name) in [(&mut picture.rows, "rows"), (&mut picture.columns, "columns")] {
        let Positions::Learned(places) = places else { panic!("expected learned positions") };
        link.plain(&mut places.weight, name, None);
    }
}

fn link_recurrent(link: &Link, model: &mut RecurrentCaptioner) {
    link_picture(link, &mut model.picture);
    link.plain(&mut model.embedding.weight, "embedding.weight", None);
    link.recurrent(&mut model.decoder, "decoder");
    link.linear(&mut model.readout, "readout");
    link.linear(model.output.linear.as_mut().unwrap(), "logits");
    let score = &mut model.attention.as_mut().unwrap().score;
    for (layer, name) in [(&mut score.query, "query"), (&mut score.key, "key"), (&mut score.vector, "vector")] {
        let Some(layer) = layer else { continue };
        link.transposed(&mut layer.weight, &format!("{name}.weight"), None);
        if let Some(bias) = &mut layer.bias {
            link.plain(bias, &format!("{name}.bias"), None);
        }
    }
}

fn link_transformer(link: &Link, model: &mut TransformerCaptioner) {
    link_picture(link, &mut model.picture);
    link.plain(&mut model.embedding.tokens.weight, "embedding.weight", None);
    for (n, block) in model.decoder.iter_mut().enumerate() {
        link.decoder_block(block, &format!("decoder.{n}."));
    }
    link.norm(model.norm.as_mut().unwrap(), "norm");
    link.linear(model.output.linear.as_mut().unwrap(), "logits");
}

#[test]
fn logits_maps_losses_and_all_gradients_of_recurrent_captioners_match_pytorch() {
    let golden = Golden::open("captioner");
    for (case, options) in golden.cases().into_iter().filter(|(case, _)| case.starts_with("lstm")) {
        let attention = serde_json::from_value(options["attention"].clone()).unwrap();
        let attend = serde_json::from_value(options["attend"].clone()).unwrap();
        let config = recurrent(attention, attend, Selection::Soft);
        assert_eq!(config.picture.grid(), [2, 3]);
        let mut model = RecurrentCaptioner::new(&config, &Init::new(1, &training())).unwrap();
        link_recurrent(&Link { golden: &golden, case: &case, action: Action::Load }, &mut model);
        let name = |name: &str| format!("{case}/{name}");
        let ids = |tensor: &str| golden.integers::<2>(&name(tensor), &training());
        let x = golden.tensor::<4>(&name("x"), &training()).require_grad();

        let capture = Capture::default();
        let pass = Pass::inference().with_capture(&capture);
        let source = model.encode(x.clone(), &pass).unwrap();
        let logits = model.writer().logits(&source, ids("inputs"), &pass).unwrap();
        close(&case, &values(logits), &golden.floats(&name("logits")), 1e-5);
        let maps = capture.into_maps();
        assert!(maps.iter().all(|map| map.site.kind == AttentionKind::Alignment), "{case}");
        let rows: Vec<f32> = maps.iter().flat_map(|map| map.rows.concat()).collect();
        close(&case, &rows, &golden.floats(&name("maps")), 1e-5);

        let pass = Pass::inference();
        let loss = model.writer().loss(&source, ids("inputs"), ids("targets"), SMOOTHING, &pass).unwrap().loss;
        close(&case, &values(loss.clone()), &golden.floats(&name("loss")), 1e-5);
        let gradients = loss.backward();
        // Through five layers of large random weights without norms, the terms of a gradient cancel more.
        compare(&name("x"), &gradient(&x, &gradients), &golden.floats(&name("grad_x")), 3e-4);
        link_recurrent(&Link { golden: &golden, case: &case, action: Action::Compare(&gradients, 3e-4) }, &mut model);
    }
}

#[test]
fn logits_loss_and_all_gradients_of_the_transformer_captioner_match_pytorch() {
    let golden = Golden::open("captioner");
    let case = "transformer";
    let mut model = TransformerCaptioner::new(&transformer(), &Init::new(1, &training())).unwrap();
    link_transformer(&Link { golden: &golden, case, action: Action::Load }, &mut model);
    let name = |name: &str| format!("{case}/{name}");
    let ids = |tensor: &str| golden.integers::<2>(&name(tensor), &training());
    let (x, pass) = (golden.tensor::<4>(&name("x"), &training()).require_grad(), Pass::inference());
    let source = model.encode(x.clone(), &pass).unwrap();
    let logits = model.writer().logits(&source, ids("inputs"), &pass).unwrap();
    close(case, &values(logits), &golden.floats(&name("logits")), 1e-5);
    let loss = model.writer().loss(&source, ids("inputs"), ids("targets"), SMOOTHING, &pass).unwrap();
    close(case, &values(loss.clone()), &golden.floats(&name("loss")), 1e-5);
    let gradients = loss.backward();
    compare(&name("x"), &gradient(&x, &gradients), &golden.floats(&name("grad_x")), 4e-5);
    link_transformer(&Link { golden: &golden, case, action: Action::Compare(&gradients, 4e-5) }, &mut model);

    // Decoding one token at a time gives the same logits.
    let (inputs, mut caches) = (ids("inputs"), model.writer().caches());
    let step = |t| model.writer().logits_cached(&source, inputs.clone().narrow(1, t, 1), &mut caches, &pass).unwrap();
    let steps: Vec<_> = (0..3).map(step).collect();
    close("cached", &values(Tensor::cat(steps, 1)), &golden.floats(&name("logits")), 1e-5);
}

fn pictures(batch: usize) -> Tensor<4> {
    let values: Vec<f32> = (0..batch * 176).map(|at| ((at * 37 % 23) as f32 - 11.0) / 11.0).collect();
    Tensor::from_data(TensorData::new(values, [batch, 2, 8, 11]), &training())
}

fn ids(rows: &[&[i32]]) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::new(rows.concat(), [rows.len(), rows[0].len()]), &training())
}

/// A hard writer that begins softly computes what a soft one of the same weights does, and has no rewards.
#[test]
fn hard_attention_can_begin_softly() {
    let (inputs, targets) = (ids(&[&[1, 2, 3], &[4, 0, 5]]), ids(&[&[2, 3, 1], &[0, 5, 5]]));
    for estimator in [Estimator::ScoreFunction { samples: 1 }, Estimator::Gumbel { temperature: 0.7 }] {
        for attend in [Attend::Before, Attend::After] {
            let model = |selection| {
                let config = recurrent(Alignment::General, attend, selection);
                RecurrentCaptioner::new(&config, &Init::new(5, &training())).unwrap()
            };
            let (soft, hard) = (model(Selection::Soft), model(Selection::Hard { estimator }));
            let pass = Pass::training(3);
            let source = hard.encode(pictures(2), &pass).unwrap();
            let of = |writer: regard_nn::models::recurrent_writer::RecurrentWriter| {
                writer.loss(&source, inputs.clone(), targets.clone(), SMOOTHING, &pass).unwrap()
            };
            let (begun, chosen) = (of(hard.writer().softly()), of(hard.writer()));
            assert!(begun.rewarded.is_none());
            assert_eq!(chosen.rewarded.is_some(), estimator == Estimator::ScoreFunction { samples: 1 });
            close("soft", &values(begun.loss), &values(of(soft.writer()).loss), 1e-6);
            assert!(!values(chosen.loss).is_empty());
        }
    }
}

/// Without norms, a cell does not change with pixels that are far from it; norms carry them to all cells.
#[test]
fn a_cell_without_norms_sees_only_what_is_around_it() {
    for (groups, is_local) in [(0, true), (2, false)] {
        let config =
            PictureFeaturesConfig { shape: ImageShape { channels: 2, height: 8, width: 40 }, ..picture(2, groups) };
        let features = config.init(4, &Init::new(1, &training())).unwrap();
        let plain: Tensor<4> = Tensor::ones([1, 2, 8, 40], &training());
        let [rows, columns] = features.grid();
        assert_eq!([rows, columns], [2, 10]);
        let last = Tensor::ones([1, 2, 8, 1], &training()) * 3.0;
        let changed = Tensor::cat(vec![plain.clone().narrow(3, 0, 39), last], 3);
        let [before, after] = [plain, changed].map(|x| values(features.forward(x, &Pass::inference()).unwrap()));
        let differs = |cell: usize| before[cell * 4..cell * 4 + 4] != after[cell * 4..cell * 4 + 4];
        assert!(differs(columns - 1));
        assert_eq!(differs(0), !is_local);
    }
}

/// A picture is described alike alone and in a batch.
#[test]
fn pictures_of_a_batch_are_independent() {
    let model = RecurrentCaptioner::new(
        &recurrent(Alignment::General, Attend::After, Selection::Soft),
        &Init::new(2, &training()),
    )
    .unwrap();
    let pass = Pass::inference();
    let inputs = ids(&[&[1, 2], &[3, 4]]);
    let both = model.encode(pictures(2), &pass).unwrap();
    let logits = values(model.writer().logits(&both, inputs.clone(), &pass).unwrap());
    let alone = model.encode(pictures(2).narrow(0, 1, 1), &pass).unwrap();
    let second = values(model.writer().logits(&alone, inputs.clone().narrow(0, 1, 1), &pass).unwrap());
    close("alone", &logits[12..], &second, 1e-5);
    let chosen = both.select(&[1]).unwrap();
    let selected = values(model.writer().logits(&chosen, inputs.narrow(0, 1, 1), &pass).unwrap());
    close("selected", &logits[12..], &selected, 1e-6);
}

#[test]
fn bad_fields_and_pictures_are_named() {
    let message = |config: RecurrentCaptionerConfig| config.validate().unwrap_err().to_string();
    let good = || recurrent(Alignment::General, Attend::After, Selection::Soft);
    assert!(message(recurrent(Alignment::None, Attend::After, Selection::Soft)).starts_with("attention = none"));
    assert!(message(RecurrentCaptionerConfig { d_hidden: 0, ..good() }).starts_with("d_hidden = 0"));
    let mut odd = good();
    odd.picture.cnn.channels = vec![4, 7];
    assert!(odd.validate().is_ok(), "without norms, channels need not be divided");
    odd.picture.cnn.groups = 2;
    assert!(message(odd).starts_with("channels[1] = 7"));
    let mut coarse = good();
    coarse.picture.cell = 5;
    assert!(message(coarse).starts_with("cell = 5: expected 1 to 4"));
    let model = RecurrentCaptioner::new(&good(), &Init::new(1, &training())).unwrap();
    let other = model.encode(Tensor::zeros([1, 2, 8, 10], &training()), &Pass::inference()).unwrap_err().to_string();
    assert!(other.contains("[batch of 1 or more, 2, 8, 11]"), "{other}");
}
