//! Tests of blocks, a language model and a translator against PyTorch: outputs, losses and all gradients.

use regard_nn::layers::block::conv::{ConvConfig, Reach};
use regard_nn::layers::block::decoder::{DecoderBlock, DecoderView};
use regard_nn::layers::block::encoder::EncoderBlock;
use regard_nn::layers::block::{BlockConfig, NormPlace};
use regard_nn::layers::position::learned::{Beyond, LearnedConfig};
use regard_nn::layers::position::{Places, Position, Positions};
use regard_nn::models::encoder_decoder::EncoderDecoder;
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::transformer::{EmbeddingScale, Memory, Sight, TransformerConfig};
use regard_nn::{Init, Pass};
use regard_ops::{Activation, AttentionOptions, CrossEntropyOptions, Mask};

use burn::module::Param;
use burn::tensor::{Int, Tensor};

use crate::golden::Golden;
use crate::link::{Action, Link, compare};
use crate::support::{close, gradient, leaf, loss, training, values};

fn lengths(options: &serde_json::Value) -> AttentionOptions {
    let list = options["lengths"].as_array().unwrap();
    let lengths = list.iter().map(|n| n.as_u64().unwrap() as usize).collect();
    AttentionOptions { lengths: Some(lengths), ..AttentionOptions::default() }
}

#[test]
fn blocks_match_pytorch() {
    let golden = Golden::open("blocks");
    for (case, options) in golden.cases().iter().filter(|(case, _)| !case.starts_with("conv")) {
        let name = |tensor: &str| format!("{case}/{tensor}");
        let norm_place = if options["pre"].as_bool().unwrap() { NormPlace::Pre } else { NormPlace::Post };
        let activation = if options["activation"] == "gelu" { Activation::Gelu } else { Activation::Relu };
        let config = BlockConfig { norm_place, activation, ..BlockConfig::new(8, 2, 16) };
        let x: Tensor<3> = golden.tensor(&name("x"), &training()).require_grad();
        let grad_out = golden.tensor(&name("grad_out"), &training());
        let init = Init::new(1, &training());
        let load = Link { golden: &golden, case, action: Action::Load };
        let (places, pass) = (Places::default(), Pass::inference());
        let gradients = if golden.has(&name("source")) {
            let source: Tensor<3> = golden.tensor(&name("source"), &training()).require_grad();
            let mut block = DecoderBlock::new(&config, &init).unwrap();
            load.decoder_block(&mut block, "");
            let target = AttentionOptions { mask: Mask::Causal, ..AttentionOptions::default() };
            let view = DecoderView { target: &target, source: &lengths(options), places: &places };
            let keys = block.source(source.clone()).unwrap();
            let out = block.forward(x.clone(), &keys, None, view, &pass).unwrap();
            let gradients = loss(&out, &grad_out);
            close(case, &values(out), &golden.floats(&name("out")), 1e-5);
            compare("source", &gradient(&source, &gradients), &golden.floats(&name("grad_source")), 1e-5);
            let action = Action::Compare(&gradients, 1e-5);
            Link { golden: &golden, case, action }.decoder_block(&mut block, "");
            gradients
        } else {
            let mut block = EncoderBlock::new(&config, &init).unwrap();
            load.encoder_block(&mut block, "");
            let out = block.forward(x.clone(), None, &lengths(options), &places, &pass).unwrap();
            let gradients = loss(&out, &grad_out);
            close(case, &values(out), &golden.floats(&name("out")), 1e-5);
            let action = Action::Compare(&gradients, 1e-5);
            Link { golden: &golden, case, action }.encoder_block(&mut block, "");
            gradients
        };
        compare("input", &gradient(&x, &gradients), &golden.floats(&name("grad_x")), 1e-5);
    }
}

#[test]
fn convolutions_match_pytorch() {
    let golden = Golden::open("blocks");
    for (case, options) in golden.cases().iter().filter(|(case, _)| case.starts_with("conv")) {
        let name = |tensor: &str| format!("{case}/{tensor}");
        let kernel = options["kernel"].as_u64().unwrap() as usize;
        let reach = if options["causal"].as_bool().unwrap() { Reach::Causal } else { Reach::Centred };
        let mut block = ConvConfig { reach, ..ConvConfig::new(8, kernel) }.init(&Init::new(1, &training())).unwrap();
        let load = Link { golden: &golden, case, action: Action::Load };
        // PyTorch's weight is [d_out, d_in, kernel], ours [kernel · d_in, d_out].
        let ours = |weight: Tensor<3>| weight.permute([2, 1, 0]).reshape([kernel * 8, 8]);
        let weight = ours(golden.tensor(&name("weight/conv.weight"), &training())).into_data();
        block.convolution.weight = Param::from_tensor(Tensor::from_data(weight, &training()));
        load.plain(block.convolution.bias.as_mut().unwrap(), "conv.bias", None);
        load.norm(&mut block.residual.norm, "norm");
        let x: Tensor<3> = golden.tensor(&name("x"), &training()).require_grad();
        let out = block.forward(x.clone(), None, &Pass::inference()).unwrap();
        let gradients = loss(&out, &golden.tensor(&name("grad_out"), &training()));
        close(case, &values(out), &golden.floats(&name("out")), 1e-5);
        compare("input", &gradient(&x, &gradients), &golden.floats(&name("grad_x")), 1e-5);
        let want = values(ours(golden.tensor(&name("grad/conv.weight"), &training())));
        compare("weight", &gradient(&block.convolution.weight.val(), &gradients), &want, 1e-5);
        let check = Link { golden: &golden, case, action: Action::Compare(&gradients, 1e-5) };
        check.plain(block.convolution.bias.as_mut().unwrap(), "conv.bias", None);
        check.norm(&mut block.residual.norm, "norm");
    }
}

#[test]
fn the_translators_loss_logits_and_all_gradients_match_pytorch() {
    let golden = Golden::open("translator");
    for (case, options) in golden.cases() {
        let name = |tensor: &str| format!("{case}/{tensor}");
        let memory = if options["layerwise"].as_bool().unwrap() { Memory::LayerByLayer } else { Memory::Last };
        let config = TransformerConfig {
            vocab: 11,
            target_vocab: Some(9),
            n_layers: 2,
            d_model: 8,
            n_heads: 2,
            d_ff: 12,
            memory,
            dropout: 0.0,
            ..TransformerConfig::default()
        };
        let mut model = EncoderDecoder::new(&config, &Init::new(1, &training())).unwrap();
        let link = |link: &Link, model: &mut EncoderDecoder| {
            link.plain(&mut model.source_embedding.tokens.weight, "source.weight", None);
            link.plain(&mut model.target_embedding.as_mut().unwrap().tokens.weight, "target.weight", None);
            link.linear(model.output.linear.as_mut().unwrap(), "output");
            for i in 0..2 {
                link.encoder_block(&mut model.encoder.layers[i], &format!("encoder.{i}."));
                link.decoder_block(&mut model.decoder[i], &format!("decoder.{i}."));
            }
        };
        link(&Link { golden: &golden, case: &case, action: Action::Load }, &mut model);
        let ids = |name: &str| golden.integers::<2>(&format!("{case}/{name}"), &training());
        let pass = Pass::inference();
        let source = model.encode(ids("ids"), lengths(&options).lengths, &pass).unwrap();
        let logits = model.logits(&source, ids("inputs"), &pass).unwrap();
        close("logits", &values(logits), &golden.floats(&name("logits")), 1e-5);
        let smoothing = CrossEntropyOptions { label_smoothing: 0.1, ignore_index: Some(-100) };
        let source = model.encode(ids("ids"), lengths(&options).lengths, &pass).unwrap();
        let loss = model.loss(&source, ids("inputs"), ids("targets"), smoothing, &pass).unwrap();
        close("loss", &values(loss.clone()), &golden.floats(&name("loss")), 1e-5);
        let gradients = loss.backward();
        link(&Link { golden: &golden, case: &case, action: Action::Compare(&gradients, 2e-5) }, &mut model);

        // Decoding one token at a time gives the same logits.
        let (inputs, mut caches) = (ids("inputs"), model.caches());
        let step = |t| model.logits_cached(&source, inputs.clone().narrow(1, t, 1), &mut caches, &pass).unwrap();
        let steps: Vec<_> = (0..4).map(step).collect();
        close("cached", &values(Tensor::cat(steps, 1)), &golden.floats(&name("logits")), 1e-5);
    }
}

#[test]
fn the_language_models_loss_logits_and_all_gradients_match_pytorch() {
    let golden = Golden::open("tiny_gpt");
    let learned = LearnedConfig { max_length: 8, beyond: Beyond::Refuse, first: 0 };
    let config = TransformerConfig {
        vocab: 23,
        n_layers: 2,
        d_model: 16,
        n_heads: 2,
        d_ff: 32,
        activation: Activation::Gelu,
        norm_place: NormPlace::Pre,
        position: Position::Learned(learned),
        embedding_scale: EmbeddingScale::None,
        dropout: 0.0,
        ..TransformerConfig::default()
    };
    let mut model = LanguageModel::new(&config, &Init::new(1, &training())).unwrap();
    let link = |link: &Link, model: &mut LanguageModel| {
        link.plain(&mut model.embedding.tokens.weight, "token.weight", None);
        let Positions::Learned(position) = &mut model.embedding.position else { panic!("expected learned positions") };
        link.plain(&mut position.weight, "position.weight", None);
        for (i, block) in model.stack.layers.iter_mut().enumerate() {
            let name = |part: &str| format!("blocks.{i}.{part}");
            link.norm(&mut block.attention_residual.norm, &name("norm1"));
            link.linear(&mut block.attention.qkv, &name("qkv"));
            link.linear(&mut block.attention.output, &name("out"));
            link.norm(&mut block.feed_forward_residual.norm, &name("norm2"));
            link.linear(&mut block.feed_forward.up, &name("up"));
            link.linear(&mut block.feed_forward.down, &name("down"));
        }
        link.norm(model.stack.norm.as_mut().unwrap(), "norm");
        link.linear(model.output.linear.as_mut().unwrap(), "head");
    };
    link(&Link { golden: &golden, case: "model", action: Action::Load }, &mut model);
    let ids = |name: &str| golden.integers::<2>(name, &training());
    let logits = model.logits(ids("model/ids"), &Pass::inference()).unwrap();
    close("logits", &values(logits), &golden.floats("model/logits"), 1e-5);
    let options = CrossEntropyOptions::default();
    let loss = model.loss(ids("model/ids"), ids("model/targets"), options, &Pass::inference()).unwrap();
    close("loss", &values(loss.clone()), &golden.floats("model/loss"), 2e-6);
    link(&Link { golden: &golden, case: "model", action: Action::Compare(&loss.backward(), 1e-5) }, &mut model);
}

#[test]
fn a_convolution_sees_no_padding() {
    let block = ConvConfig::new(8, 3).init(&Init::new(1, &training())).unwrap();
    let x: Tensor<3> = leaf([2, 6, 8], 1);
    let run = |x: Tensor<3>, lengths: Option<&[usize]>| {
        values(block.forward(x, lengths, &Pass::inference()).unwrap().narrow(0, 0, 1).narrow(1, 0, 4))
    };
    let spoilt = x.clone().slice_assign([0..1, 4..6, 0..8], Tensor::full([1, 2, 8], f32::NAN, &training()));
    let want = run(x.clone().narrow(0, 0, 1).narrow(1, 0, 4), None);
    close("padded", &run(x, Some(&[4, 6])), &want, 1e-6);
    close("spoilt", &run(spoilt, Some(&[4, 6])), &want, 1e-6);
}

#[test]
fn empty_inputs_and_wrong_targets_are_refused() {
    let config = TransformerConfig { vocab: 5, n_layers: 1, d_model: 8, n_heads: 2, d_ff: 8, ..Default::default() };
    let position = Position::Learned(Default::default());
    let model = LanguageModel::new(&TransformerConfig { position, ..config }, &Init::new(1, &training())).unwrap();
    let ids = |shape: [usize; 2]| Tensor::<2, Int>::zeros(shape, &training());
    let empty = model.logits(ids([1, 0]), &Pass::inference()).unwrap_err().to_string();
    assert_eq!(empty, "tokens: expected [batch, seq], each 1 or more, got [1, 0]");
    let turned = model.loss(ids([2, 3]), ids([3, 2]), CrossEntropyOptions::default(), &Pass::inference());
    assert_eq!(turned.unwrap_err().to_string(), "targets: expected a shape [2, 3], got [3, 2]");
    let sight = Sight::Window { left: 2, right: 1 };
    let right = LanguageModel::new(&TransformerConfig { sight, ..config }, &Init::new(1, &training())).unwrap_err();
    assert_eq!(right.to_string(), "sight.right = 1: expected 0, because a decoder does not see later tokens");
    let huge = TransformerConfig { n_heads: 1 << 33, d_head: Some(1 << 31), ..config }.validate().unwrap_err();
    assert!(huge.to_string().starts_with("n_heads = 8589934592 × 3 ×"), "{huge}");
}

/// If source and target share an embedding, dropout does not omit the same features of both.
#[test]
fn source_and_target_draw_their_own_dropout() {
    let config = TransformerConfig {
        vocab: 5,
        n_layers: 1,
        d_model: 8,
        n_heads: 2,
        d_ff: 8,
        dropout: 0.5,
        position: Position::None,
        ..Default::default()
    };
    let model = EncoderDecoder::new(&config, &Init::new(1, &training())).unwrap();
    let pass = Pass::training(3);
    let ids = Tensor::<2, Int>::ones([1, 4], &training());
    let first = |pass: &Pass| values(model.source_embedding.forward(ids.clone(), 0, pass).unwrap().0);
    assert_ne!(first(&pass), first(&pass.at("word", 1)));
}
