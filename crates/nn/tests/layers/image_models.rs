//! Tests of the classifiers of images against PyTorch, of their capture and ablation, and of their errors.

use burn::tensor::Tensor;
use regard_nn::layers::block::image::{NormedConvolution, ResidualBlockConfig};
use regard_nn::layers::convolution::ConvolutionConfig;
use regard_nn::layers::group_norm::GroupNormConfig;
use regard_nn::layers::position::learned::{Beyond, LearnedConfig};
use regard_nn::layers::position::{Position, Positions};
use regard_nn::models::image::cnn::{AttentionBlocks, AttentionBlocksConfig, Cnn, CnnConfig};
use regard_nn::models::image::dnn::DnnConfig;
use regard_nn::models::image::vision_transformer::{PatchPooling, Stem, VisionTransformer, VisionTransformerConfig};
use regard_nn::models::image::{ImageClassifier, ImageClassifierConfig, ImageShape, Network, NetworkConfig};
use regard_nn::models::target::{Answers, Target};
use regard_nn::{Ablation, Capture, Init, NnError, Pass};

use crate::golden::Golden;
use crate::link::{Action, Link, compare};
use crate::support::{close, gradient, leaf, training, values};

fn cnn(blocks: usize, attention: AttentionBlocks) -> CnnConfig {
    CnnConfig { channels: vec![4, 8], blocks, groups: 2, dropout: 0.0, attention }
}

fn vit(patch: usize, pooling: PatchPooling) -> VisionTransformerConfig {
    VisionTransformerConfig {
        patch,
        d_model: 8,
        n_layers: 2,
        n_heads: 2,
        d_ff: Some(12),
        pooling,
        dropout: 0.0,
        ..Default::default()
    }
}

fn network(case: &str) -> NetworkConfig {
    match case {
        "cnn" => NetworkConfig::Cnn(cnn(2, AttentionBlocks::None)),
        "attention_cnn" => NetworkConfig::Cnn(cnn(1, AttentionBlocks::Both(AttentionBlocksConfig::default()))),
        "class_token" => NetworkConfig::Vit(vit(2, PatchPooling::ClassToken)),
        "mean" => {
            NetworkConfig::Vit(VisionTransformerConfig { position: Position::Sinusoidal, ..vit(3, PatchPooling::Mean) })
        }
        "convolutions" => NetworkConfig::Vit(VisionTransformerConfig {
            position: Position::Sinusoidal,
            stem: Stem::Convolutions,
            ..vit(4, PatchPooling::Mean)
        }),
        "attention" => NetworkConfig::Vit(vit(2, PatchPooling::Attention { d_hidden: None })),
        "dnn" => NetworkConfig::Dnn(DnnConfig { hidden: vec![6, 5], dropout: 0.0, ..Default::default() }),
        _ => panic!("{case}"),
    }
}

fn config(network: NetworkConfig, [channels, height, width]: [usize; 3]) -> ImageClassifierConfig {
    let image = ImageShape { channels, height, width };
    ImageClassifierConfig { image, outputs: 3, network, dropout: 0.0, ..Default::default() }
}

fn model(config: &ImageClassifierConfig) -> (ImageClassifier, Init) {
    let init = Init::new(1, &training());
    (config.init(&init).unwrap(), init)
}

fn link(link: &Link, model: &mut ImageClassifier) {
    match &mut model.network {
        Network::Cnn(network) => link_cnn(link, network),
        Network::Vit(network) => link_vit(link, network),
        Network::Dnn(network) => {
            for (layer, name) in network.layers.iter_mut().zip(["1", "3"]) {
                link.linear(&mut layer.linear, name);
            }
            return link.linear(&mut model.output, "5");
        }
    }
    link.linear(&mut model.output, "output");
}

fn link_normed(link: &Link, part: &mut NormedConvolution, name: &str) {
    link.plain(&mut part.convolution.weight, &format!("{name}.conv.weight"), None);
    if let Some(bias) = &mut part.convolution.bias {
        link.plain(bias, &format!("{name}.conv.bias"), None);
    }
    if let Some(norm) = &mut part.norm {
        link.plain(&mut norm.weight, &format!("{name}.norm.weight"), None);
        link.plain(&mut norm.bias, &format!("{name}.norm.bias"), None);
    }
}

pub fn link_cnn(link: &Link, network: &mut Cnn) {
    let normed = |part: &mut NormedConvolution, name: &str| link_normed(link, part, name);
    normed(&mut network.stem, "stem");
    for (n, stage) in network.stages.iter_mut().enumerate() {
        for (b, block) in stage.blocks.iter_mut().enumerate() {
            let name = format!("stages.{n}.blocks.{b}");
            normed(&mut block.first, &format!("{name}.first"));
            normed(&mut block.second, &format!("{name}.second"));
            assert_eq!(block.shortcut.is_some(), n > 0 && b == 0, "{name}");
            if let Some(shortcut) = &mut block.shortcut {
                normed(shortcut, &format!("{name}.shortcut"));
            }
        }
        if let Some(spatial) = &mut stage.spatial {
            let name = |part: &str| format!("stages.{n}.spatial.{part}");
            link.linear(&mut spatial.query, &name("query"));
            link.linear(&mut spatial.key, &name("key"));
            link.linear(&mut spatial.value, &name("value"));
            link.linear(&mut spatial.output, &name("output"));
            link.plain(spatial.gate.as_mut().unwrap(), &name("gate"), None);
        }
        if let Some(channel) = &mut stage.channel {
            link.plain(channel.gate.as_mut().unwrap(), &format!("stages.{n}.channel.gate"), None);
        }
    }
}

fn link_vit(link: &Link, network: &mut VisionTransformer) {
    for (n, part) in network.stem.iter_mut().enumerate() {
        link_normed(link, part, &format!("stem.{n}"));
    }
    link.linear(&mut network.embedding, "embedding");
    if let Some(token) = &mut network.class_token {
        link.plain(token, "class_token", None);
    }
    if let Positions::Learned(position) = &mut network.position {
        link.plain(&mut position.weight, "position", None);
    }
    for (n, block) in network.stack.layers.iter_mut().enumerate() {
        link.encoder_block(block, &format!("blocks.{n}."));
    }
    link.norm(network.stack.norm.as_mut().unwrap(), "norm");
    if network.pooling.attention.is_some() {
        link.pooling(&mut network.pooling, "score.");
    }
}

#[test]
fn logits_losses_and_all_gradients_match_pytorch() {
    let golden = Golden::open("image_models");
    for (case, options) in golden.cases() {
        let image: [usize; 3] = serde_json::from_value(options["image"].clone()).unwrap();
        let (mut model, _) = model(&config(network(&case), image));
        link(&Link { golden: &golden, case: &case, action: Action::Load }, &mut model);
        let name = |name: &str| format!("{case}/{name}");
        let (x, pass) = (golden.tensor::<4>(&name("x"), &training()).require_grad(), Pass::inference());
        let logits = model.logits(x.clone(), &pass).unwrap();
        close(&case, &values(logits.clone()), &golden.floats(&name("logits")), 1e-5);
        let labels = || Answers::One(golden.integers(&name("labels"), &training()));
        let loss = model.loss(x.clone(), labels(), 0.1, &pass).unwrap();
        close(&case, &values(loss.clone()), &golden.floats(&name("loss")), 1e-5);
        let gradients = loss.backward();
        compare(&name("x"), &gradient(&x, &gradients), &golden.floats(&name("grad_x")), 2e-5);
        link(&Link { golden: &golden, case: &case, action: Action::Compare(&gradients, 2e-5) }, &mut model);

        let predicted = values(model.predict(x, &pass).unwrap());
        for (row, logits) in predicted.chunks(3).zip(values(logits).chunks(3)) {
            let sum: f32 = logits.iter().map(|x| x.exp()).sum();
            close(&case, row, &logits.iter().map(|x| x.exp() / sum).collect::<Vec<_>>(), 1e-5);
        }
    }
}

/// The training loop gives each thread a part of a batch: an image must not depend on the others.
#[test]
fn an_image_does_not_depend_on_the_others_of_its_batch() {
    for case in ["cnn", "attention_cnn", "class_token", "mean", "attention", "dnn"] {
        let (model, _) = model(&config(network(case), [2, 6, 6]));
        let x = leaf([3, 2, 6, 6], 4);
        let run = |x| values(model.logits(x, &Pass::inference()).unwrap());
        let alone: Vec<f32> = (0..3).flat_map(|n| run(x.clone().narrow(0, n, 1))).collect();
        close(case, &run(x), &alone, 2e-6);
    }
}

#[test]
fn the_blocks_of_a_cnn_are_captured_and_switched_off_by_name() {
    let both = |stages| AttentionBlocks::Both(AttentionBlocksConfig { stages, ..Default::default() });
    let network = |attention| NetworkConfig::Cnn(CnnConfig { channels: vec![4, 8, 8], ..cnn(1, attention) });
    let (mut model, init) = model(&config(network(both(None)), [1, 8, 6]));
    let inventory = init.inventory();
    let names: Vec<String> = inventory.heads().map(|(site, head)| site.head(head)).collect();
    assert_eq!(names, ["1.0", "1.channels.0", "2.0", "2.channels.0"]);
    let Network::Cnn(cnn) = &mut model.network else { panic!() };
    for stage in &mut cnn.stages[1..] {
        // The gates start at zero, where attention has no effect.
        let gate = |value: f32| Some(init.constant([1], value));
        stage.spatial.as_mut().unwrap().gate = gate(0.7);
        stage.channel.as_mut().unwrap().gate = gate(0.3);
    }
    let capture = Capture::default();
    let x = leaf([1, 1, 8, 6], 3);
    let whole = values(model.logits(x.clone(), &Pass::inference().with_capture(&capture)).unwrap());
    let maps = capture.into_maps();
    let sizes: Vec<(String, usize, usize)> =
        maps.iter().map(|map| (map.site.to_string(), map.rows.len(), map.rows[0].len())).collect();
    let size = |name: &str, n: usize| (name.to_string(), n, n);
    assert_eq!(sizes, [size("1", 12), size("1.channels", 8), size("2", 4), size("2.channels", 8)]);
    for name in ["1", "1.channels.0", "2.0=uniform", "2.channels=self"] {
        let ablation = Ablation::parse(name, &inventory).unwrap();
        let without = values(model.logits(x.clone(), &Pass::inference().with_ablation(&ablation)).unwrap());
        assert!(whole.iter().zip(&without).any(|(a, b)| (a - b).abs() > 1e-6), "{name}");
    }
    // Without its blocks the model is that without attention.
    let ablation = Ablation::parse("1,1.channels,2,2.channels", &inventory).unwrap();
    let (plain, _) = self::model(&config(network(AttentionBlocks::None), [1, 8, 6]));
    let without = values(model.logits(x.clone(), &Pass::inference().with_ablation(&ablation)).unwrap());
    close("without attention", &without, &values(plain.logits(x, &Pass::inference()).unwrap()), 1e-6);

    let (_, init) = self::model(&config(network(both(Some(vec![0, 2]))), [1, 8, 6]));
    assert_eq!(init.inventory().list(), "0.0, 0.channels.0, 2.0, 2.channels.0");
}

#[test]
fn the_heads_positions_and_pooling_of_a_vit_are_captured_and_switched_off() {
    let (model, init) = model(&config(network("attention"), [1, 4, 6]));
    assert_eq!(init.inventory().list(), "0.0 to 0.1, 1.0 to 1.1, pooling, positions");
    let capture = Capture::default();
    let x = leaf([1, 1, 4, 6], 3);
    let whole = values(model.logits(x.clone(), &Pass::inference().with_capture(&capture)).unwrap());
    let sizes: Vec<(usize, usize)> =
        capture.into_maps().iter().map(|map| (map.rows.len(), map.rows[0].len())).collect();
    assert_eq!(sizes, [(6, 6), (6, 6), (6, 6), (6, 6), (1, 6)]);
    for name in ["0.1", "1", "pooling=uniform", "positions"] {
        let ablation = Ablation::parse(name, &init.inventory()).unwrap();
        let without = values(model.logits(x.clone(), &Pass::inference().with_ablation(&ablation)).unwrap());
        assert!(whole.iter().zip(&without).any(|(a, b)| (a - b).abs() > 1e-6), "{name}");
    }
}

/// Every kind of positions works for patches. Without positions and with mean pooling, the order of patches has no effect;
/// relative positions are biases that start at zero.
#[test]
fn patches_have_positions_of_any_kind() {
    let x = leaf([2, 1, 6, 4], 5);
    let swapped = Tensor::cat(vec![x.clone().narrow(2, 2, 4), x.clone().narrow(2, 0, 2)], 2);
    for position in Position::all() {
        let network = NetworkConfig::Vit(VisionTransformerConfig { position, ..vit(2, PatchPooling::Mean) });
        let (model, _) = model(&config(network, [1, 6, 4]));
        let run = |x: &Tensor<4>| values(model.logits(x.clone(), &Pass::inference()).unwrap());
        let far = run(&x).iter().zip(run(&swapped)).any(|(a, b)| (a - b).abs() > 1e-5);
        let differs = !matches!(position, Position::None | Position::Relative(_));
        assert_eq!(far, differs, "{}", position.name());
    }
}

#[test]
fn learned_positions_have_a_row_per_token() {
    let rows = |max_length| {
        let position = Position::Learned(LearnedConfig { max_length, beyond: Beyond::Last, first: 0 });
        let network = NetworkConfig::Vit(VisionTransformerConfig { position, ..vit(2, PatchPooling::ClassToken) });
        let (model, _) = model(&config(network, [1, 6, 4]));
        let Some(Positions::Learned(position)) = model.position() else { panic!() };
        position.weight.dims()[0]
    };
    assert_eq!((rows(512), rows(3)), (7, 3));
}

#[test]
fn dropout_acts_in_training_only() {
    for (case, at) in [("cnn", 0), ("mean", 1), ("dnn", 2), ("cnn", 3)] {
        let mut config = config(network(case), [1, 6, 6]);
        match (&mut config.network, at) {
            (_, 3) => config.dropout = 0.5,
            (NetworkConfig::Cnn(network), _) => network.dropout = 0.5,
            (NetworkConfig::Vit(network), _) => network.dropout = 0.5,
            (NetworkConfig::Dnn(network), _) => network.dropout = 0.5,
        }
        let (model, _) = model(&config);
        let run = |pass: Pass| values(model.logits(leaf([2, 1, 6, 6], 1), &pass).unwrap());
        assert_eq!(run(Pass::inference()), run(Pass::inference()), "{case}");
        assert_eq!(run(Pass::training(1)), run(Pass::training(1)), "{case}");
        assert_ne!(run(Pass::training(1)), run(Pass::training(2)), "{case}");
    }
}

#[test]
fn features_have_the_grid_of_the_configuration() {
    let config = CnnConfig { channels: vec![4, 4, 8], groups: 2, ..Default::default() };
    let network = config.init(3, &Init::new(1, &training())).unwrap();
    for (image, grid) in [([8, 8], [2, 2]), ([28, 28], [7, 7]), ([5, 9], [2, 3]), ([1, 1], [1, 1])] {
        let x = leaf([2, 3, image[0], image[1]], 1);
        assert_eq!(network.features(x, &Pass::inference()).unwrap().dims(), [2, 8, grid[0], grid[1]]);
        assert_eq!(config.grid(image), grid);
    }
}

#[test]
fn bad_fields_are_named() {
    let refused = |config: ImageClassifierConfig| config.validate().unwrap_err().to_string();
    let with = |network| config(network, [1, 6, 4]);
    let number = "expected a whole number, 1 or more";
    let zero = config(network("mean"), [1, 0, 6]);
    assert_eq!(refused(zero), format!("image.height = 0: {number}"));
    assert_eq!(
        refused(ImageClassifierConfig { outputs: 1, ..with(network("cnn")) }),
        "outputs = 1: expected 2 or more labels to choose one from"
    );
    assert!(ImageClassifierConfig { outputs: 1, target: Target::Value, ..with(network("cnn")) }.validate().is_ok());
    assert_eq!(
        refused(with(network("mean"))),
        "network.patch = 3: expected a size that divides both sides of the image, 6 × 4"
    );
    let vit = |change: fn(&mut VisionTransformerConfig)| {
        let mut config = vit(2, PatchPooling::Mean);
        change(&mut config);
        refused(with(NetworkConfig::Vit(config)))
    };
    assert_eq!(vit(|config| config.patch = 0), format!("network.patch = 0: {number}"));
    assert_eq!(
        vit(|config| (config.patch, config.stem) = (1, Stem::Convolutions)),
        "network.patch = 1: expected 2, 4, 8 or a larger power of two: each convolution of the stem halves the image"
    );
    let odd = VisionTransformerConfig { stem: Stem::Convolutions, d_model: 9, ..self::vit(4, PatchPooling::Mean) };
    assert_eq!(
        refused(config(NetworkConfig::Vit(odd), [1, 8, 8])),
        "network.d_model = 9: expected a multiple of 2: each convolution of the stem doubles the channels"
    );
    assert!(
        vit(|config| config.n_heads = 3).starts_with("network.n_heads = 3"),
        "{}",
        vit(|config| config.n_heads = 3)
    );
    assert!(vit(|config| config.dropout = 1.0).starts_with("network.dropout = 1"));
    let pooling = vit(|config| config.pooling = PatchPooling::Attention { d_hidden: Some(0) });
    assert_eq!(pooling, format!("network.pooling.d_hidden = 0: {number}"));
    let cnn = |change: fn(&mut CnnConfig)| {
        let mut config = cnn(1, AttentionBlocks::Both(AttentionBlocksConfig::default()));
        change(&mut config);
        refused(with(NetworkConfig::Cnn(config)))
    };
    assert_eq!(cnn(|config| config.channels = vec![]), "network.channels = 0: expected from 1 to 10000");
    assert_eq!(cnn(|config| config.channels[1] = 5), "network.channels[1] = 5: expected a multiple of groups, 2");
    let stages = |config: &mut CnnConfig| {
        config.attention =
            AttentionBlocks::Channel(AttentionBlocksConfig { stages: Some(vec![1, 2]), ..Default::default() });
    };
    assert_eq!(cnn(stages), "network.attention.stages = 2: expected stages from 0 to 1");
    let scale = |config: &mut CnnConfig| {
        config.attention = AttentionBlocks::Both(AttentionBlocksConfig { channel_scale: 0.0, ..Default::default() });
    };
    assert_eq!(cnn(scale), "network.attention.channel_scale = 0: expected a finite number above 0");
    let key = |config: &mut CnnConfig| {
        config.attention = AttentionBlocks::Spatial(AttentionBlocksConfig { d_key: Some(0), ..Default::default() });
    };
    assert_eq!(cnn(key), format!("network.attention.d_key = 0: {number}"));
    let dnn = NetworkConfig::Dnn(DnnConfig { hidden: vec![3, 0], ..Default::default() });
    assert_eq!(refused(with(dnn)), format!("network.hidden[1] = 0: {number}"));
    assert_eq!(
        GroupNormConfig::new(6, 4).validate().unwrap_err().to_string(),
        "groups = 4: expected a divisor of the 6 channels"
    );
    assert_eq!(ConvolutionConfig::new(1, 2, 0).validate().unwrap_err().to_string(), format!("kernel = 0: {number}"));
    let block = ResidualBlockConfig { in_channels: 2, out_channels: 4, stride: 0, groups: 2, dropout: 0.0 };
    assert_eq!(block.validate().unwrap_err().to_string(), format!("stride = 0: {number}"));
}

#[test]
fn kinds_are_given_by_name_or_as_tables() {
    let read = |text: &str| serde_json::from_str::<ImageClassifierConfig>(text);
    assert_eq!(read(r#"{"network": "dnn"}"#).unwrap().network, NetworkConfig::Dnn(DnnConfig::default()));
    let network = r#"{"network": {"kind": "cnn", "attention": {"kind": "spatial", "stages": [1]}}}"#;
    let NetworkConfig::Cnn(found) = read(network).unwrap().network else { panic!() };
    let settings = AttentionBlocksConfig { stages: Some(vec![1]), ..Default::default() };
    assert_eq!(found.attention, AttentionBlocks::Spatial(settings));
    let network = r#"{"network": {"kind": "vit", "pooling": "mean", "position": "rope"}}"#;
    let NetworkConfig::Vit(found) = read(network).unwrap().network else { panic!() };
    assert_eq!((found.pooling, found.position.name()), (PatchPooling::Mean, "rope"));
    for config in [network_configs(), vec![NetworkConfig::default()]].concat() {
        let text = serde_json::to_string(&self::config(config.clone(), [1, 6, 6])).unwrap();
        assert_eq!(read(&text).unwrap().network, config);
    }
    let error =
        read(r#"{"network": {"kind": "cnn", "attention": {"kind": "both", "stage": 1}}}"#).unwrap_err().to_string();
    assert!(error.contains("unknown field `stage`"), "{error}");
}

fn network_configs() -> Vec<NetworkConfig> {
    ["cnn", "attention_cnn", "class_token", "mean", "attention", "dnn"].map(network).to_vec()
}

#[test]
fn images_of_another_size_are_refused() {
    for case in ["cnn", "class_token", "dnn"] {
        let (model, _) = model(&config(network(case), [1, 6, 6]));
        for shape in [[2, 3, 6, 6], [2, 1, 6, 8], [0, 1, 6, 6]] {
            let error = model.logits(leaf(shape, 1), &Pass::inference()).unwrap_err();
            assert!(matches!(error, NnError::Input { what: "images", .. }), "{error}");
            assert!(error.to_string().contains("expected [batch of 1 or more, 1, 6, 6]"), "{error}");
        }
        let labels = Answers::Value(leaf([2, 3], 1));
        let error = model.loss(leaf([2, 1, 6, 6], 1), labels, 0.0, &Pass::inference()).unwrap_err().to_string();
        assert_eq!(error, "answers: expected One, the target of the model, got Value");
    }
}
