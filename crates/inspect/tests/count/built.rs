//! Tests the number of parameters against models that are built.

use burn::module::Module;
use burn::tensor::Device;
use proptest::prelude::*;
use regard_inspect::count::{Architecture, Description, GraphModel, RecurrentModel};
use regard_nn::Init;
use regard_nn::layers::attention::graph::Scoring;
use regard_nn::layers::block::NormPlace;
use regard_nn::layers::feed_forward::Gate;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::norm::NormKind;
use regard_nn::layers::position::Position;
use regard_nn::layers::position::floater::FloaterConfig;
use regard_nn::layers::position::learned::LearnedConfig;
use regard_nn::layers::position::relative::RelativeConfig;
use regard_nn::layers::position::rope::{Frequencies, RopeConfig};
use regard_nn::layers::recurrent::{Cell, Direction, RecurrentConfig};
use regard_nn::models::encoder::Encoder;
use regard_nn::models::encoder_decoder::EncoderDecoder;
use regard_nn::models::graph::{GatConfig, GcnConfig, GraphClassifierConfig, GraphNetworkConfig};
use regard_nn::models::image::cnn::{AttentionBlocks, AttentionBlocksConfig, CnnConfig};
use regard_nn::models::image::dnn::DnnConfig;
use regard_nn::models::image::vision_transformer::{PatchPooling, Stem, VisionTransformerConfig};
use regard_nn::models::image::{ImageClassifierConfig, ImageShape, NetworkConfig};
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::transformer::{Memory, OutputWeights, TransformerConfig};

use super::counted;

fn positions() -> impl Strategy<Value = Position> {
    let learned =
        (1usize..9).prop_map(|max_length| Position::Learned(LearnedConfig { max_length, ..LearnedConfig::default() }));
    let relative = (1usize..9)
        .prop_map(|max_distance| Position::Relative(RelativeConfig { max_distance, ..RelativeConfig::default() }));
    let rope = prop_oneof![Just(Frequencies::Fixed), Just(Frequencies::Learned)]
        .prop_map(|frequencies| Position::Rope(RopeConfig { frequencies, ..RopeConfig::default() }));
    let floater =
        (1usize..9).prop_map(|d_hidden| Position::Floater(FloaterConfig { d_hidden, ..FloaterConfig::default() }));
    let fixed = [Position::None, Position::Sinusoidal, Position::Alibi, Position::Rnn(Default::default())];
    prop_oneof![prop::sample::select(fixed.to_vec()), learned, relative, rope, floater]
}

fn configs() -> impl Strategy<Value = TransformerConfig> {
    let sizes = (1usize..12, proptest::option::of(1usize..12), 1usize..4, proptest::option::of(1usize..4), 1usize..9);
    let heads = (prop_oneof![Just((1, 1)), Just((2, 1)), Just((2, 2)), Just((4, 2)), Just((4, 4))], 1usize..4);
    let shape = (any::<bool>(), proptest::option::of(1usize..4));
    let options = (any::<[bool; 7]>(), positions());
    (sizes, heads, shape, options).prop_map(|(sizes, ((n_heads, kv_heads), half), (say_kv, half_head), options)| {
        let (vocab, target_vocab, n_layers, n_decoder_layers, d_ff) = sizes;
        let ([gate, rms, pre, bias, tied, output_bias, last], position) = options;
        let learned = |is| if is { Bias::Learned } else { Bias::None };
        TransformerConfig {
            vocab,
            target_vocab,
            n_layers,
            n_decoder_layers: if last { n_decoder_layers } else { None },
            d_model: 2 * half * n_heads,
            n_heads,
            kv_heads: (say_kv || kv_heads < n_heads).then_some(kv_heads),
            d_head: half_head.map(|half| 2 * half),
            d_ff,
            gate: if gate { Gate::Product } else { Gate::None },
            norm: if rms { NormKind::Rms } else { NormKind::Layer },
            norm_place: if pre { NormPlace::Pre } else { NormPlace::Post },
            bias: learned(bias),
            position,
            output_weights: if tied { OutputWeights::Embedding } else { OutputWeights::Own },
            output_bias: learned(output_bias),
            memory: if last { Memory::Last } else { Memory::LayerByLayer },
            ..TransformerConfig::default()
        }
    })
}

fn recurrent() -> impl Strategy<Value = RecurrentConfig> {
    let cell = prop::sample::select(vec![Cell::Rnn, Cell::lstm(), Cell::gru()]);
    let direction = prop::sample::select(vec![Direction::Forward, Direction::Backward, Direction::Both]);
    (cell, direction, 1usize..9, 1usize..9, 1usize..4).prop_map(|(cell, direction, d_in, d_hidden, n_layers)| {
        let dropout = if n_layers > 1 { 0.1 } else { 0.0 };
        RecurrentConfig { cell, d_in, d_hidden, n_layers, direction, dropout }
    })
}

fn image_models() -> impl Strategy<Value = ImageClassifierConfig> {
    let cnn = (1usize..3, prop::collection::vec(1usize..4, 1..4), 1usize..3, 0usize..4, any::<bool>()).prop_map(
        |(groups, widths, blocks, kind, first)| {
            let settings = AttentionBlocksConfig { stages: first.then(|| vec![0]), ..Default::default() };
            let attention = match kind {
                0 => AttentionBlocks::None,
                1 => AttentionBlocks::Spatial(settings),
                2 => AttentionBlocks::Channel(settings),
                _ => AttentionBlocks::Both(settings),
            };
            let channels = widths.iter().map(|width| width * groups).collect();
            NetworkConfig::Cnn(CnnConfig { channels, blocks, groups, attention, ..Default::default() })
        },
    );
    let pooling = prop::sample::select(vec![
        PatchPooling::ClassToken,
        PatchPooling::Mean,
        PatchPooling::Max,
        PatchPooling::Attention { d_hidden: None },
        PatchPooling::Attention { d_hidden: Some(3) },
    ]);
    let vit = (1usize..3, 1usize..4, 1usize..3, positions(), pooling).prop_map(
        |(patch, half, n_layers, position, pooling)| {
            let sizes =
                VisionTransformerConfig { patch, d_model: 4 * half, n_layers, n_heads: 2, ..Default::default() };
            let stem = if patch == 2 && half == 2 { Stem::Convolutions } else { Stem::Patches };
            NetworkConfig::Vit(VisionTransformerConfig { position, pooling, stem, ..sizes })
        },
    );
    let dnn = prop::collection::vec(1usize..9, 1..4)
        .prop_map(|hidden| NetworkConfig::Dnn(DnnConfig { hidden, ..Default::default() }));
    let sizes = (1usize..4, 1usize..4, 1usize..4, 2usize..5);
    (sizes, prop_oneof![cnn, vit, dnn]).prop_map(|((channels, height, width, outputs), network)| {
        let image = ImageShape { channels, height: 2 * height, width: 2 * width };
        ImageClassifierConfig { image, outputs, network, ..Default::default() }
    })
}

fn graph_models() -> impl Strategy<Value = GraphClassifierConfig> {
    let scoring = prop::sample::select(vec![Scoring::Static, Scoring::Dynamic]);
    let gat = (1usize..4, 1usize..4, 1usize..4, 1usize..3, scoring).prop_map(
        |(n_heads, d_head, n_layers, output_heads, scoring)| {
            let d_model = n_heads * d_head;
            GraphNetworkConfig::Gat(GatConfig {
                d_model,
                n_layers,
                n_heads,
                output_heads,
                scoring,
                ..GatConfig::default()
            })
        },
    );
    let others = (1usize..9, 1usize..4, any::<bool>()).prop_map(|(d_model, n_layers, convolves)| {
        let config = GcnConfig { d_model, n_layers, ..GcnConfig::default() };
        if convolves { GraphNetworkConfig::Gcn(config) } else { GraphNetworkConfig::Dnn(config) }
    });
    (1usize..9, 2usize..5, prop_oneof![gat, others]).prop_map(|(d_in, outputs, network)| GraphClassifierConfig {
        d_in,
        outputs,
        network,
    })
}

fn total(architecture: Architecture) -> usize {
    usize::try_from(counted(&Description::new(architecture)).parameters()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_closed_form_agrees_with_built_models(config in configs()) {
        let init = Init::new(1, &Device::flex());
        prop_assert_eq!(total(Architecture::Encoder(config)), Encoder::new(&config, &init).unwrap().num_params());
        let built = LanguageModel::new(&config, &init).unwrap().num_params();
        prop_assert_eq!(total(Architecture::Decoder(config)), built);
        let built = EncoderDecoder::new(&config, &init).unwrap().num_params();
        prop_assert_eq!(total(Architecture::EncoderDecoder(config)), built);
    }

    #[test]
    fn classifiers_of_images_agree_with_built_models(config in image_models()) {
        let built = config.init(&Init::new(1, &Device::flex())).unwrap().num_params();
        prop_assert_eq!(total(Architecture::Image(config)), built);
    }

    #[test]
    fn classifiers_of_nodes_agree_with_built_models(classifier in graph_models()) {
        let built = classifier.init(&Init::new(1, &Device::flex())).unwrap().num_params();
        prop_assert_eq!(total(Architecture::Graph(GraphModel { classifier, ..GraphModel::default() })), built);
    }

    #[test]
    fn recurrent_models_agree_with_built_layers(config in recurrent()) {
        let built = config.init(&Init::new(1, &Device::flex())).unwrap().num_params();
        let model = RecurrentModel::from(config);
        prop_assert_eq!(model.layers(), config);
        prop_assert_eq!(total(Architecture::Recurrent(model)), built);
        // An embedding of 5 tokens and an output layer of 7 classes.
        let around = RecurrentModel { vocab: Some(5), outputs: Some(7), ..model };
        let more = 5 * config.d_in + 7 * (config.d_out() + 1);
        prop_assert_eq!(total(Architecture::Recurrent(around)), built + more);
    }
}
