//! Tests of ablation: switched-off heads, layers and positions, compared with layers whose weights have the same effect.

use burn::module::Param;
use burn::tensor::{Int, Tensor, TensorData};
use regard_nn::layers::attention::cache::{AttentionCache, Cached};
use regard_nn::layers::attention::context::ContextConfig;
use regard_nn::layers::attention::cross_attention::CrossAttention;
use regard_nn::layers::attention::gaussian_window::{WindowConfig, WindowText};
use regard_nn::layers::attention::graph::GraphAttentionConfig;
use regard_nn::layers::attention::image::{
    ChannelAttentionConfig, SkipConnection, SpatialAttention, SpatialAttentionConfig,
};
use regard_nn::layers::attention::linear_attention::{LinearAttentionConfig, LinearAttentionKind};
use regard_nn::layers::attention::multi_head::MultiHeadConfig;
use regard_nn::layers::attention::score::{ScoreConfig, ScoreKind};
use regard_nn::layers::attention::self_attention::SelfAttention;
use regard_nn::layers::intra_attention::IntraAttentionConfig;
use regard_nn::layers::pooling::PoolingConfig;
use regard_nn::layers::position::{Places, Position};
use regard_nn::models::encoder::Encoder;
use regard_nn::models::encoder_decoder::EncoderDecoder;
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::transformer::TransformerConfig;
use regard_nn::{Ablation, Capture, Init, Mode, Pass};
use regard_ops::{AttentionOptions, Direction, Graph, Mask, SelfLoops};

use crate::support::{close, leaf, training, values};

const SEQ: usize = 6;
const D_HEAD: usize = 4;

/// Self-attention with four query heads and two heads of keys and values.
fn layer() -> (SelfAttention, Init) {
    let init = Init::new(7, &training());
    let config = MultiHeadConfig { kv_heads: Some(2), ..MultiHeadConfig::new(16, 4) };
    (SelfAttention::new(&config, &init).unwrap(), init)
}

fn ablation(init: &Init, names: &str) -> Ablation {
    Ablation::parse(names, &init.inventory()).unwrap()
}

fn options() -> AttentionOptions {
    AttentionOptions { mask: Mask::Causal, ..AttentionOptions::default() }
}

fn run(layer: &SelfAttention, x: &Tensor<3>, pass: &Pass) -> Vec<f32> {
    values(layer.forward(x.clone(), &options(), &Places::default(), pass).unwrap())
}

/// Returns the parameter with the indices `from..to` of dimension `dim` set to zero.
fn blanked(weight: &Param<Tensor<2>>, dim: usize, from: usize, to: usize) -> Param<Tensor<2>> {
    let weight = weight.val();
    let size = weight.dims()[dim];
    let keep: Vec<f32> = (0..size).map(|at| if (from..to).contains(&at) { 0.0 } else { 1.0 }).collect();
    let shape = if dim == 0 { [size, 1] } else { [1, size] };
    Param::from_tensor((weight * Tensor::from_data(TensorData::new(keep, shape), &training())).detach())
}

#[test]
fn a_zero_head_matches_zero_output_weights() {
    let ((mut layer, init), x) = (layer(), leaf([2, SEQ, 16], 3));
    let off = ablation(&init, "0.2");
    let found = run(&layer, &x, &Pass::inference().with_ablation(&off));
    assert_ne!(found, run(&layer, &x, &Pass::inference()));
    layer.output.weight = blanked(&layer.output.weight, 0, 2 * D_HEAD, 3 * D_HEAD);
    close("head", &found, &run(&layer, &x, &Pass::inference()), 1e-6);
}

#[test]
fn a_uniform_head_matches_zero_query_weights() {
    let ((mut layer, init), x) = (layer(), leaf([2, SEQ, 16], 3));
    let off = ablation(&init, "0.1=uniform");
    let capture = Capture::default();
    let found = run(&layer, &x, &Pass::inference().with_ablation(&off).with_capture(&capture));
    layer.qkv.weight = blanked(&layer.qkv.weight, 1, D_HEAD, 2 * D_HEAD);
    close("head", &found, &run(&layer, &x, &Pass::inference()), 1e-6);
    for map in capture.into_maps().iter().filter(|map| map.head == 1) {
        for (row, weights) in map.rows.iter().enumerate() {
            let want: Vec<f32> = (0..SEQ).map(|key| if key <= row { 1.0 / (row + 1) as f32 } else { 0.0 }).collect();
            close("weights", weights, &want, 1e-6);
        }
    }
}

/// Uniform heads give the same output with ALiBi as without: they leave out its bias.
#[test]
fn uniform_weights_ignore_distance() {
    let ((layer, init), x) = (layer(), leaf([1, SEQ, 16], 3));
    let off = ablation(&init, "0=uniform");
    let places = Position::Alibi
        .init(regard_nn::layers::position::PositionSizes { d_model: 16, n_heads: 4, d_head: D_HEAD }, &init)
        .unwrap()
        .places(SEQ, 0, &training());
    let pass = Pass::inference().with_ablation(&off);
    let with = values(layer.forward(x.clone(), &options(), &places, &pass).unwrap());
    assert_eq!(with, run(&layer, &x, &pass));
}

#[test]
fn a_head_that_sees_only_itself_passes_on_its_own_value() {
    let ((mut layer, init), x) = (layer(), leaf([2, SEQ, 16], 3));
    let off = ablation(&init, "0.3=self");
    let found = run(&layer, &x, &Pass::inference().with_ablation(&off));
    // Head 3 uses the second group of values; it adds x W_v W_o to the output.
    let value = layer.qkv.weight.val().narrow(1, (4 + 2 + 1) * D_HEAD, D_HEAD);
    let output = layer.output.weight.val().narrow(0, 3 * D_HEAD, D_HEAD);
    let bias = layer.qkv.bias.as_ref().unwrap().val().narrow(0, (4 + 2 + 1) * D_HEAD, D_HEAD);
    let own = (x.clone().reshape([2 * SEQ, 16]).matmul(value) + bias.unsqueeze()).matmul(output).reshape([2, SEQ, 16]);
    layer.output.weight = blanked(&layer.output.weight, 0, 3 * D_HEAD, 4 * D_HEAD);
    let rest = layer.forward(x, &options(), &Places::default(), &Pass::inference()).unwrap();
    close("head", &found, &values(rest + own), 1e-5);
}

#[test]
fn a_mean_head_outputs_the_same_for_every_token() {
    let ((mut layer, init), x) = (layer(), leaf([3, SEQ, 16], 3));
    let capture = Capture::of_outputs();
    run(&layer, &x, &Pass::inference().with_capture(&capture));
    let means = capture.into_means();
    assert_eq!(means.len(), 4);
    let off = ablation(&init, "0.0=mean");
    assert!(layer.forward(x.clone(), &options(), &Places::default(), &Pass::inference().with_ablation(&off)).is_err());
    let off = off.with_means(means);
    let found =
        layer.forward(x.clone(), &options(), &Places::default(), &Pass::inference().with_ablation(&off)).unwrap();
    // The head always adds what it adds in the mean.
    let with = layer.forward(x.clone(), &options(), &Places::default(), &Pass::inference()).unwrap();
    layer.output.weight = blanked(&layer.output.weight, 0, 0, D_HEAD);
    let rest = layer.forward(x, &options(), &Places::default(), &Pass::inference()).unwrap();
    let mean = (with - rest.clone()).mean_dim(1).mean_dim(0);
    close("head", &values(found), &values(rest + mean), 1e-5);
}

#[test]
fn a_layer_that_is_off_adds_nothing() {
    let ((layer, init), x) = (layer(), leaf([2, SEQ, 16], 3));
    let off = ablation(&init, "0");
    let pass = Pass::inference().with_ablation(&off);
    let onto = leaf([2, SEQ, 16], 9);
    let found = layer.forward_onto(x.clone(), Some(onto.clone()), None, &options(), &Places::default(), &pass).unwrap();
    assert_eq!(values(found), values(onto));
    assert!(run(&layer, &x, &pass).iter().all(|&x| x == 0.0));
    // Switching off another layer changes nothing in this one.
    let other = Ablation::of(regard_nn::Site { layer: 3, ..init.inventory().layers[0].0 }, None, Mode::Zero);
    assert_eq!(run(&layer, &x, &Pass::inference().with_ablation(&other)), run(&layer, &x, &Pass::inference()));
}

#[test]
fn cached_decoding_with_ablation_matches_the_full_pass() {
    let ((layer, init), x) = (layer(), leaf([2, SEQ, 16], 3));
    let capture = Capture::of_outputs();
    run(&layer, &x, &Pass::inference().with_capture(&capture));
    let means = capture.into_means();
    for names in ["0.2", "0", "0.1=uniform", "0=self", "0.3=mean,0.0", "0=uniform"] {
        let off = ablation(&init, names).with_means(means.clone());
        let pass = Pass::inference().with_ablation(&off);
        let mut cache = AttentionCache::new();
        let parts = [(0, 1), (1, 3), (4, 2)].map(|(first, count)| {
            let part = x.clone().narrow(1, first, count);
            layer
                .forward_onto(part, None, Some(Cached::Together(&mut cache)), &options(), &Places::default(), &pass)
                .unwrap()
        });
        assert_eq!(cache.len(), SEQ);
        close(names, &values(Tensor::cat(parts.to_vec(), 1)), &run(&layer, &x, &pass), 1e-6);
    }
}

#[test]
fn cross_attention_can_be_switched_off() {
    let init = Init::new(7, &training());
    let mut layer = CrossAttention::new(&MultiHeadConfig::new(8, 2), 8, &init).unwrap();
    let (x, source) = (leaf([2, 3, 8], 1), leaf([2, 5, 8], 2));
    let options = AttentionOptions { lengths: Some(vec![5, 2]), ..AttentionOptions::default() };
    let run = |layer: &CrossAttention, pass: &Pass| {
        let source = layer.source(source.clone()).unwrap();
        values(layer.forward(x.clone(), &source, &options, 0, pass).unwrap())
    };
    assert_eq!(init.inventory().list(), "0.cross.0 to 0.cross.1");
    let [uniform, zero] = ["0.cross.1=uniform", "0.cross.0"].map(|names| {
        let off = ablation(&init, names);
        run(&layer, &Pass::inference().with_ablation(&off))
    });
    let output = layer.output.weight.clone();
    layer.output.weight = blanked(&output, 0, 0, 4);
    close("zero", &zero, &run(&layer, &Pass::inference()), 1e-6);
    layer.output.weight = output;
    layer.query.weight = blanked(&layer.query.weight, 1, 4, 8);
    close("uniform", &uniform, &run(&layer, &Pass::inference()), 1e-6);
}

/// Computes the mean of the first `length` rows of `[keys, width]`.
fn mean_of(rows: &[f32], width: usize, length: usize) -> Vec<f32> {
    (0..width).map(|at| (0..length).map(|row| rows[row * width + at]).sum::<f32>() / length as f32).collect()
}

#[test]
fn alignment_and_pooling_can_be_uniform_or_zero() {
    for kind in [ScoreKind::Additive { d_hidden: 5 }, ScoreKind::General] {
        let init = Init::new(1, &training());
        let layer = ContextConfig::new(ScoreConfig { kind, d_query: 4, d_key: 5 }).init(&init).unwrap();
        let text = leaf([2, 6, 3], 2);
        let sources = layer.prepare(leaf([2, 6, 5], 1), text.clone(), Some(vec![6, 2])).unwrap();
        let run = |names: &str| {
            let off = ablation(&init, names);
            let pass = Pass::inference().with_ablation(&off);
            values(layer.forward(leaf([2, 2, 4], 3), &sources, 0, &pass).unwrap().context)
        };
        assert!(run("alignment").iter().all(|&x| x == 0.0));
        let text = values(text);
        let means = [mean_of(&text[..18], 3, 6), mean_of(&text[18..], 3, 2)];
        let want: Vec<f32> = means.iter().flat_map(|mean| [mean.clone(), mean.clone()].concat()).collect();
        close("uniform", &run("alignment=uniform"), &want, 1e-6);
        assert!(Ablation::parse("alignment=self", &init.inventory()).is_err());
    }
    let init = Init::new(1, &training());
    let layer = PoolingConfig::attention().init(3, &init).unwrap();
    let x = leaf([2, 6, 3], 2);
    let run = |names: &str| {
        let off = ablation(&init, names);
        values(layer.forward(x.clone(), Some(&[6, 2]), &Pass::inference().with_ablation(&off)).unwrap())
    };
    assert!(run("pooling").iter().all(|&x| x == 0.0));
    let rows = values(x.clone());
    close("pooling", &run("pooling=uniform"), &[mean_of(&rows[..18], 3, 6), mean_of(&rows[18..], 3, 2)].concat(), 1e-6);
}

#[test]
fn a_gaussian_window_can_be_switched_off() {
    let init = Init::new(1, &training());
    let layer = WindowConfig::new(4, 3).init(&init).unwrap();
    let characters = leaf([1, 5, 2], 2);
    let text = WindowText::new(characters.clone(), Some(vec![3])).unwrap();
    let run = |names: &str| {
        let off = ablation(&init, names);
        let pass = Pass::inference().with_ablation(&off);
        values(layer.forward(leaf([1, 2, 4], 3), None, &text, 0, &pass).unwrap().windows)
    };
    assert!(run("alignment").iter().all(|&x| x == 0.0));
    let mean = mean_of(&values(characters), 2, 3);
    close("uniform", &run("alignment=uniform"), &[mean.clone(), mean].concat(), 1e-6);
}

#[test]
fn graph_attention_can_be_switched_off() {
    let init = Init::new(1, &training());
    let layer = GraphAttentionConfig::new(3, 2, 2).init(&init).unwrap();
    let graph = Graph::new(3, &[(0, 1), (2, 1), (1, 0)], SelfLoops::AsGiven).unwrap();
    let x = leaf([3, 3], 2);
    let run = |names: &str| {
        let off = ablation(&init, names);
        let pass = Pass::inference().with_ablation(&off);
        values(layer.forward(x.clone(), &graph, &pass).unwrap())
    };
    let h = values(layer.values.forward(x.clone()).unwrap());
    let plain = values(layer.forward(x.clone(), &graph, &Pass::inference()).unwrap());
    let zero = run("0.1");
    for node in 0..3 {
        assert_eq!(zero[node * 4..node * 4 + 2], plain[node * 4..node * 4 + 2], "head 0 is unchanged");
        assert_eq!(zero[node * 4 + 2..node * 4 + 4], [0.0, 0.0]);
    }
    close("itself", &run("0=self"), &h, 1e-6);
    let off = ablation(&init, "0.0=uniform,0.1");
    let capture = Capture::default();
    layer.forward(x.clone(), &graph, &Pass::inference().with_ablation(&off).with_capture(&capture)).unwrap();
    let maps = capture.into_maps();
    assert_eq!((&maps[0].rows[1], &maps[1].rows[1]), (&vec![0.5, 0.5], &vec![0.0, 0.0]), "the replaced weights");
    let uniform = run("0.0=uniform");
    let want = [0, 1].map(|at| (h[at] + h[2 * 4 + at]) / 2.0);
    close("uniform", &uniform[4..6], &want, 1e-6);
}

#[test]
fn linear_attention_steps_with_ablation_match_the_whole_sequence() {
    let init = Init::new(3, &training());
    let kind = LinearAttentionKind::MultiHead { n_heads: 2, d_head: None };
    let config = LinearAttentionConfig { direction: Direction::Causal, ..LinearAttentionConfig::new(8, kind) };
    let layer = config.init(&init).unwrap();
    let x = leaf([2, 5, 8], 1);
    for names in ["0.0", "0.1=uniform", "0=self"] {
        let off = ablation(&init, names);
        let pass = Pass::inference().with_ablation(&off);
        let whole = values(layer.forward(x.clone(), &pass).unwrap());
        assert_ne!(whole, values(layer.forward(x.clone(), &Pass::inference()).unwrap()), "{names}");
        let (mut state, mut parts) = (None, Vec::new());
        for token in 0..5 {
            let (y, next) = layer.step(x.clone().narrow(1, token, 1).squeeze_dim(1), state, &pass).unwrap();
            parts.push(y.unsqueeze_dim::<3>(1));
            state = Some(next);
        }
        close(names, &values(Tensor::cat(parts, 1)), &whole, 1e-5);
    }
}

#[test]
fn intra_attention_and_image_attention_can_be_switched_off() {
    let init = Init::new(3, &training());
    let layer = IntraAttentionConfig::new(3, 4).init(1, &init).unwrap();
    assert_eq!(init.inventory().list(), "0.0 to 0.1", "the other direction is head 0");
    let x = leaf([1, 4, 3], 1);
    let run = |pass: &Pass| values(layer.forward(x.clone(), None, pass).unwrap().hidden);
    let off = ablation(&init, "0.1");
    let found = run(&Pass::inference().with_ablation(&off));
    assert_ne!(found, run(&Pass::inference()));
    let mut plain = layer.clone();
    plain.past = blanked(&plain.past, 0, 4, 8);
    close("past", &found, &values(plain.forward(x.clone(), None, &Pass::inference()).unwrap().hidden), 1e-6);

    let init = Init::new(3, &training());
    let mut layer = SpatialAttentionConfig { residual: SkipConnection::Sum, ..SpatialAttentionConfig::new(4, 2, 2) }
        .init(&init)
        .unwrap();
    layer.output.bias = Some(Param::from_tensor(leaf([4], 5).detach()));
    let picture = leaf([1, 4, 3, 3], 1);
    let run = |layer: &SpatialAttention, names: &str| {
        let off = ablation(&init, names);
        values(layer.forward(picture.clone(), &Pass::inference().with_ablation(&off)).unwrap())
    };
    assert_eq!(run(&layer, "0"), values(picture.clone()), "a layer that is off adds nothing, not even its bias");
    let head = run(&layer, "0.0");
    layer.output.weight = blanked(&layer.output.weight, 0, 0, 2);
    close("head", &head, &values(layer.forward(picture.clone(), &Pass::inference()).unwrap()), 1e-6);

    let init = Init::new(3, &training());
    let layer = ChannelAttentionConfig { residual: SkipConnection::Sum, ..Default::default() }.init(&init).unwrap();
    let off = ablation(&init, "0.channels");
    let found = values(layer.forward(picture.clone(), &Pass::inference().with_ablation(&off)).unwrap());
    assert_eq!(found, values(picture.clone()));
    assert_ne!(found, values(layer.forward(picture, &Pass::inference()).unwrap()));
}

fn ids(rows: &[i32], batch: usize) -> Tensor<2, Int> {
    Tensor::from_data(TensorData::new(rows.to_vec(), [batch, rows.len() / batch]), &training())
}

#[test]
fn switching_positions_off_matches_a_model_without_positions() {
    let config = TransformerConfig { vocab: 9, n_layers: 2, d_model: 8, n_heads: 2, d_ff: 8, ..Default::default() };
    for position in [Position::Sinusoidal, Position::Alibi, Position::Rope(Default::default())] {
        let init = Init::new(1, &training());
        let with = Encoder::new(&TransformerConfig { position, ..config }, &init).unwrap();
        let none = Encoder::new(&TransformerConfig { position: Position::None, ..config }, &Init::new(1, &training()));
        let off = ablation(&init, "positions");
        let text = ids(&[1, 2, 3, 4, 5, 6, 7, 8], 2);
        let found = values(with.forward(text.clone(), None, &Pass::inference().with_ablation(&off)).unwrap());
        assert_eq!(found, values(none.unwrap().forward(text, None, &Pass::inference()).unwrap()), "{position:?}");
    }
    let init = Init::new(1, &training());
    Encoder::new(&TransformerConfig { position: Position::None, ..config }, &init).unwrap();
    let error = Ablation::parse("positions", &init.inventory()).unwrap_err().to_string();
    assert!(error.contains("one of 0.0 to 0.1, 1.0 to 1.1;"), "{error}");
}

#[test]
fn a_translator_names_all_its_layers() {
    let config = TransformerConfig { vocab: 9, n_layers: 2, d_model: 8, n_heads: 2, d_ff: 8, ..Default::default() };
    let init = Init::for_weights(&training());
    let model = EncoderDecoder::new(&config, &init).unwrap();
    assert!(values(model.output.linear.as_ref().unwrap().weight.val()).iter().all(|&x| x == 0.0), "nothing is drawn");
    let names: Vec<String> = init.inventory().layers.iter().map(|(site, _)| site.to_string()).collect();
    assert_eq!(names, ["encoder.0", "encoder.1", "decoder.0", "decoder.0.cross", "decoder.1", "decoder.1.cross"]);
}

/// A capture separates sequences that pass through a model as one row of tokens.
#[test]
fn sequences_with_separate_caches_have_separate_maps() {
    let config = TransformerConfig { vocab: 9, n_layers: 1, d_model: 8, n_heads: 2, d_ff: 8, ..Default::default() };
    let model = LanguageModel::new(&config, &Init::new(1, &training())).unwrap();
    let capture = Capture::default();
    let pass = Pass::inference().with_capture(&capture);
    let mut caches = model.caches_apart(2);
    model.logits_apart(&[&[1, 2, 3], &[4]], &mut caches, &pass).unwrap();
    model.logits_apart(&[&[5], &[6]], &mut caches, &pass).unwrap();
    let maps = capture.into_maps();
    let found: Vec<_> = maps.iter().map(|map| (map.sequence, map.head, map.rows.len())).collect();
    assert_eq!(found, [(0, 0, 4), (0, 1, 4), (1, 0, 2), (1, 1, 2)]);
    let alone = Capture::default();
    model.logits(ids(&[1, 2, 3, 5], 1), &Pass::inference().with_capture(&alone)).unwrap();
    for (together, alone) in maps.iter().zip(alone.into_maps()) {
        for (row, (one, other)) in together.rows.iter().zip(&alone.rows).enumerate() {
            close("weights", &one[..row + 1], &other[..row + 1], 1e-6);
        }
    }
}
