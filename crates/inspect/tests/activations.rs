//! Tests the estimate of activations against the memory that models hold between a forward and a backward pass.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

use burn::tensor::{Device, Int, Tensor, TensorData};
use regard_inspect::count::{Architecture, Description, RecurrentModel, Sizes, count};
use regard_nn::layers::attention::multi_head::Weighing;
use regard_nn::layers::block::NormPlace;
use regard_nn::layers::feed_forward::Gate;
use regard_nn::layers::norm::NormKind;
use regard_nn::layers::position::Position;
use regard_nn::layers::position::rope::{Frequencies, RopeConfig};
use regard_nn::layers::recurrent::{Cell, Direction, RecurrentConfig};
use regard_nn::models::encoder::Encoder;
use regard_nn::models::encoder_decoder::EncoderDecoder;
use regard_nn::models::image::cnn::{AttentionBlocks, AttentionBlocksConfig, CnnConfig};
use regard_nn::models::image::vision_transformer::{PatchPooling, Stem, VisionTransformerConfig};
use regard_nn::models::image::{ImageClassifierConfig, ImageShape, NetworkConfig};
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::target::Answers;
use regard_nn::models::transformer::{Memory, OutputWeights, TransformerConfig};
use regard_nn::{Init, Pass};
use regard_ops::{CrossEntropyOptions, Precision, linear_cross_entropy};

/// The system allocator with a count of the bytes in use.
struct Counting;

static IN_USE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: every call is forwarded unchanged to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size() as isize, Ordering::SeqCst);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size() as isize, Ordering::SeqCst);
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SIZES: Sizes = Sizes { batch: 3, seq: 384, target_seq: Some(256) };

fn ids(seq: usize, vocab: usize, device: &Device) -> Tensor<2, Int> {
    let data: Vec<i32> = (0..SIZES.batch * seq).map(|i| (i * 7 % vocab) as i32).collect();
    Tensor::from_data(TensorData::new(data, [SIZES.batch, seq]), device)
}

/// Returns the bytes that the result of `forward` holds. A first call fills the buffers that threads keep.
fn held<T>(forward: impl Fn() -> T) -> f64 {
    drop(forward());
    let before = IN_USE.load(Ordering::SeqCst);
    let result = forward();
    let after = IN_USE.load(Ordering::SeqCst);
    drop(result);
    (after - before) as f64
}

fn estimate(architecture: Architecture) -> f64 {
    count(&Description { sizes: SIZES, ..Description::new(architecture) }).unwrap().memory.activations as f64
}

/// Returns the bytes of the gradients that a loss computes at once, those of its matrix and bias; they are counted as gradients.
fn made(config: &TransformerConfig) -> f64 {
    (4 * config.vocab * (config.d_model + 1)) as f64
}

/// Returns the bytes that a step holds and the estimate, for Transformers of one stack.
fn compare_stacks(config: &TransformerConfig) -> [(&'static str, f64, f64); 2] {
    let device = Device::flex().autodiff();
    let init = Init::new(3, &device);
    let pass = Pass::training(5);
    let source = ids(SIZES.seq, config.vocab, &device);
    let options = CrossEntropyOptions::default();
    let encoder = Encoder::new(config, &init).unwrap();
    let encoder = held(|| encoder.forward(source.clone(), None, &pass).unwrap());
    let decoder = LanguageModel::new(config, &init).unwrap();
    let decoder = held(|| decoder.loss(source.clone(), source.clone(), options, &pass).unwrap());
    [
        ("encoder", encoder, estimate(Architecture::Encoder(*config))),
        ("decoder", decoder, made(config) + estimate(Architecture::Decoder(*config))),
    ]
}

/// Returns the bytes that a step of a translator holds and the estimate.
fn compare_translator(config: &TransformerConfig) -> [(&'static str, f64, f64); 1] {
    let device = Device::flex().autodiff();
    let pass = Pass::training(5);
    let (source, target) = (ids(SIZES.seq, config.vocab, &device), ids(SIZES.target_seq(), config.vocab, &device));
    let options = CrossEntropyOptions::default();
    let whole = EncoderDecoder::new(config, &Init::new(3, &device)).unwrap();
    let whole = held(|| {
        let encoded = whole.encode(source.clone(), None, &pass).unwrap();
        whole.loss(&encoded, target.clone(), target.clone(), options, &pass).unwrap()
    });
    [("encoder-decoder", whole, made(config) + estimate(Architecture::EncoderDecoder(*config)))]
}

/// Returns the bytes held and the estimate, for recurrent layers over features and for a whole model with its loss.
fn compare_recurrent(config: RecurrentConfig) -> [(&'static str, f64, f64); 2] {
    let device = Device::flex().autodiff();
    let init = Init::new(3, &device);
    let layers = config.init(&init).unwrap();
    let pass = Pass::training(5);
    let alone = held(|| {
        // Created here, so that the input is held too.
        let x = Tensor::<3>::ones([SIZES.batch, SIZES.seq, config.d_in], &device);
        layers.forward(x, None, None, &pass).unwrap().hidden
    });
    let (vocab, d_out) = (50, config.d_out());
    let embedding = init.normal::<2>("embedding", [vocab, config.d_in], 1.0);
    let output = init.normal::<2>("output", [d_out, vocab], 1.0);
    let bias = init.constant([vocab], 0.0);
    let ids = ids(SIZES.seq, vocab, &device);
    let whole = held(|| {
        let x = regard_ops::embedding(embedding.val(), ids.clone()).unwrap();
        let states = layers.forward(x, None, None, &pass).unwrap().hidden.reshape([-1, d_out as i32]);
        let (targets, options) = (ids.clone().reshape([-1]), CrossEntropyOptions::default());
        linear_cross_entropy(states, output.val(), Some(bias.val()), targets, options, Precision::F32).unwrap()
    });
    let model = RecurrentModel::from(config);
    let around = RecurrentModel { vocab: Some(vocab), outputs: Some(vocab), ..model };
    // As above, the gradients of the output's matrix and bias.
    let made = (4 * vocab * (d_out + 1)) as f64;
    [
        ("layers", alone, estimate(Architecture::Recurrent(model))),
        ("model", whole, made + estimate(Architecture::Recurrent(around))),
    ]
}

/// Returns the bytes that a step of a classifier of images holds and the estimate.
fn compare_images(network: NetworkConfig) -> [(&'static str, f64, f64); 1] {
    let device = Device::flex().autodiff();
    let image = ImageShape { channels: 2, height: 56, width: 48 };
    let config = ImageClassifierConfig { image, outputs: 5, network, dropout: 0.1, ..Default::default() };
    let model = config.init(&Init::new(3, &device)).unwrap();
    let pass = Pass::training(5);
    let held = held(|| {
        // Created here, so that the images and the labels are held too.
        let images = Tensor::<4>::ones([SIZES.batch, 2, 56, 48], &device);
        let labels = Tensor::<1, Int>::from_ints([0, 1, 2], &device);
        model.loss(images, Answers::One(labels), 0.1, &pass).unwrap()
    });
    [("image", held, estimate(Architecture::Image(config)))]
}

/// The nodes of the graph add 3 to 170 kB, whatever the sizes; nothing may be missing.
const RATIOS: std::ops::Range<f64> = 1.0..1.006;

/// Returns the least of several measurements, at most eight: a thread that takes part for the first time allocates buffers of its own,
/// which it keeps, and on a busy machine that may happen late.
fn least<const N: usize>(measure: impl Fn() -> [(&'static str, f64, f64); N]) -> [(&'static str, f64, f64); N] {
    let mut found = measure();
    for _ in 1..8 {
        for (one, (_, held, _)) in found.iter_mut().zip(measure()) {
            one.1 = one.1.min(held);
        }
        if found.iter().all(|(_, held, estimate)| held / estimate < RATIOS.end) {
            break;
        }
    }
    found
}

/// Everything is in one test: parallel tests would allocate at the same time.
#[test]
fn the_estimate_agrees_with_the_bytes_held() {
    let plain = TransformerConfig {
        vocab: 50,
        n_layers: 3,
        d_model: 64,
        n_heads: 4,
        d_ff: 160,
        ..TransformerConfig::default()
    };
    let rope = |frequencies| Position::Rope(RopeConfig { frequencies, ..RopeConfig::default() });
    let configs = [
        ("post-norm", plain),
        ("pre-norm", TransformerConfig { norm_place: NormPlace::Pre, ..plain }),
        ("grouped heads", TransformerConfig { kv_heads: Some(2), d_head: Some(24), ..plain }),
        ("gated", TransformerConfig { gate: Gate::Product, norm: NormKind::Rms, ..plain }),
        ("rope", TransformerConfig { position: rope(Frequencies::Fixed), ..plain }),
        ("learned rope", TransformerConfig { position: rope(Frequencies::Learned), ..plain }),
        ("alibi", TransformerConfig { position: Position::Alibi, ..plain }),
        ("relative", TransformerConfig { position: Position::Relative(Default::default()), ..plain }),
        ("learned", TransformerConfig { position: Position::Learned(Default::default()), ..plain }),
        ("floater", TransformerConfig { position: Position::Floater(Default::default()), ..plain }),
        ("rnn", TransformerConfig { position: Position::Rnn(Default::default()), ..plain }),
        ("tied", TransformerConfig { output_weights: OutputWeights::Embedding, ..plain }),
        ("layer by layer", TransformerConfig { memory: Memory::LayerByLayer, norm_place: NormPlace::Pre, ..plain }),
        ("linear", TransformerConfig { attention: Weighing::Linear, ..plain }),
        (
            "linear, grouped",
            TransformerConfig {
                attention: Weighing::Linear,
                kv_heads: Some(2),
                position: rope(Frequencies::Learned),
                ..plain
            },
        ),
        ("dropout", TransformerConfig { attention_dropout: 0.2, feed_forward_dropout: 0.1, ..plain }),
    ];
    let mut wrong = Vec::new();
    for (name, config) in configs {
        let translator = match config.attention {
            Weighing::Softmax => Some(least(|| compare_translator(&config))),
            Weighing::Linear => None,
        };
        let all = least(|| compare_stacks(&config)).into_iter().chain(translator.into_iter().flatten());
        for (shape, held, estimate) in all {
            let ratio = held / estimate;
            println!("{name:<16} {shape:<16} held {held:>10} estimate {estimate:>10} ratio {ratio:.4}");
            if !RATIOS.contains(&ratio) {
                wrong.push(format!("{name}, {shape}: {ratio:.4}"));
            }
        }
    }
    for cell in [Cell::Rnn, Cell::lstm(), Cell::gru()] {
        for direction in [Direction::Forward, Direction::Backward, Direction::Both] {
            for (n_layers, dropout) in [(1, 0.0), (3, 0.0), (3, 0.2)] {
                let config = RecurrentConfig { cell, d_in: 128, d_hidden: 256, n_layers, direction, dropout };
                for (shape, held, estimate) in least(|| compare_recurrent(config)) {
                    let ratio = held / estimate;
                    let name = format!("{cell:?} {direction:?} {n_layers} {dropout} {shape}");
                    println!("{name:<60} held {held:>10} estimate {estimate:>10} ratio {ratio:.4}");
                    if !RATIOS.contains(&ratio) {
                        wrong.push(format!("{name}: {ratio:.4}"));
                    }
                }
            }
        }
    }
    let both = || AttentionBlocks::Both(AttentionBlocksConfig { stages: Some(vec![1]), ..Default::default() });
    let attention = PatchPooling::Attention { d_hidden: None };
    let vit = VisionTransformerConfig { patch: 2, d_model: 64, n_layers: 2, ..Default::default() };
    for (name, network) in [
        ("cnn", NetworkConfig::Cnn(CnnConfig::default())),
        ("cnn, dropout", NetworkConfig::Cnn(CnnConfig { blocks: 2, dropout: 0.2, ..Default::default() })),
        ("cnn, attention", NetworkConfig::Cnn(CnnConfig { attention: both(), ..Default::default() })),
        ("vit", NetworkConfig::Vit(vit)),
        ("vit, mean", NetworkConfig::Vit(VisionTransformerConfig { pooling: PatchPooling::Mean, ..vit })),
        (
            "vit, stem",
            NetworkConfig::Vit(VisionTransformerConfig { patch: 4, d_model: 256, stem: Stem::Convolutions, ..vit }),
        ),
        ("vit, attention", NetworkConfig::Vit(VisionTransformerConfig { pooling: attention, ..vit })),
    ] {
        for (shape, held, estimate) in least(|| compare_images(network.clone())) {
            let ratio = held / estimate;
            println!("{name:<16} {shape:<16} held {held:>10} estimate {estimate:>10} ratio {ratio:.4}");
            if !RATIOS.contains(&ratio) {
                wrong.push(format!("{name}: {ratio:.4}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
