//! Cost of the classifiers of images.

use regard_nn::layers::attention::image::SpatialAttentionConfig;
use regard_nn::models::image::cnn::CnnConfig;
use regard_nn::models::image::vision_transformer::{PatchPooling, VisionTransformerConfig};
use regard_nn::models::image::{ImageClassifierConfig, NetworkConfig};

use super::description::{Input, Sizes};
use super::part::Draft;
use super::quantity::{Quantity, q};
use super::transformer::Form;

/// Returns the cost of a classifier for `batch` images and their loss.
pub(super) fn draft(config: &ImageClassifierConfig, batch: usize) -> Draft {
    let (network, d_out) = match &config.network {
        NetworkConfig::Vit(vit) => (vision_transformer(vit, config, batch), vit.d_model),
        NetworkConfig::Cnn(cnn) => (convolutions(cnn, config, batch), cnn.channels.last().copied().unwrap_or(1)),
        NetworkConfig::Dnn(dnn) => {
            let image = config.image;
            let mut d_in = q(image.channels) * image.height * image.width;
            let layers = dnn.hidden.iter().enumerate().map(|(n, &d_hidden)| {
                // A layer keeps its input, and the values before its activation.
                let kept = q(batch) * (d_in + d_hidden);
                let layer = Draft::new(format!("layers.{n}")).linear(q(batch), d_in, q(d_hidden), true).keeps(kept);
                d_in = q(d_hidden);
                layer
            });
            (Draft::new("model").with_all(layers), dnn.hidden.last().copied().unwrap_or(1))
        }
    };
    // The output layer keeps its input, the loss the probabilities and the labels.
    let output = Draft::new("output").linear(q(batch), q(d_out), q(config.outputs), true);
    let labels = q(batch) * size_of::<i64>();
    network.with(output.keeps(q(batch) * d_out + q(batch) * config.outputs).keeps_bytes(labels))
}

fn vision_transformer(vit: &VisionTransformerConfig, config: &ImageClassifierConfig, batch: usize) -> Draft {
    let transformer = vit.transformer(config.image);
    let [rows, columns] = vit.grid(config.image);
    let sizes = Sizes { batch, seq: vit.tokens(config.image), target_seq: None };
    let (patches, d_model) = (q(batch) * rows * columns, q(vit.d_model));
    let d_in = q(vit.d_patch(config.image));
    let mut embedding = Draft::new("patches").linear(patches, d_in, d_model, true).keeps(patches * d_in);
    let mut image = Image { batch, channels: config.image.channels, size: [config.image.height, config.image.width] };
    for (n, convolution) in vit.convolutions(config.image).into_iter().enumerate() {
        let out = Image { batch, channels: convolution.out_channels, size: image.size.map(|size| size.div_ceil(2)) };
        // A convolution keeps its input, and the values before its activation.
        let name = format!("stem.{n}");
        embedding =
            embedding.with(normed(&name, image, convolution.kernel, out, convolution.groups).keeps(image.numbers()));
        image = out;
    }
    let encoder = Form { config: &transformer, input: Input::Features, sizes: &sizes }.encoder_alone();
    match vit.pooling {
        PatchPooling::ClassToken => encoder.with(embedding).with(Draft::new("class_token").parameters(d_model)),
        PatchPooling::Mean | PatchPooling::Max => encoder.with(embedding),
        PatchPooling::Attention { d_hidden } => {
            let d_hidden = q(d_hidden.unwrap_or(vit.d_model));
            let hidden = Draft::new("hidden").linear(patches, d_model, d_hidden, true).keeps(patches * d_hidden);
            let query = Draft::new("query").linear(patches, d_hidden, q(1), false).keeps(patches * d_hidden);
            // The weighted mean is a product, which keeps the states and their weights.
            let mean = patches * d_model + patches;
            let pooling = Draft::new("pooling").with_all([hidden, query]).flops(patches * d_model * 2).keeps(mean);
            encoder.with(embedding).with(pooling)
        }
    }
}

/// The image that a convolution reads or writes.
#[derive(Clone, Copy)]
struct Image {
    batch: usize,
    channels: usize,
    size: [usize; 2],
}

impl Image {
    fn positions(self) -> Quantity {
        q(self.batch) * self.size[0] * self.size[1]
    }

    fn numbers(self) -> Quantity {
        self.positions() * self.channels
    }
}

fn convolutions(cnn: &CnnConfig, config: &ImageClassifierConfig, batch: usize) -> Draft {
    let mut image = Image { batch, channels: config.image.channels, size: [config.image.height, config.image.width] };
    let first = cnn.channels.first().copied().unwrap_or(1);
    let stem = normed("stem", image, 3, Image { channels: first, ..image }, cnn.groups).keeps(image.numbers());
    image.channels = first;
    let mut model = Draft::new("model").with(stem.keeps(image.numbers()));
    for (stage, &channels) in cnn.channels.iter().enumerate() {
        let mut draft = Draft::new(format!("stages.{stage}"));
        for block in 0..cnn.blocks {
            let is_strided = stage > 0 && block == 0;
            let size = if is_strided { image.size.map(|size| size.div_ceil(2)) } else { image.size };
            let out = Image { batch, channels, size };
            // Each norm keeps its input and its rectified output, which the next convolution reads.
            let first = normed("first", image, 3, out, cnn.groups).keeps(out.numbers());
            let second = normed("second", out, 3, out, cnn.groups).keeps(out.numbers());
            let dropped = if cnn.dropout > 0.0 { out.numbers() } else { Quantity::ZERO };
            let changes = image.channels != out.channels || is_strided;
            let shortcut = changes.then(|| normed("shortcut", image, 1, out, cnn.groups));
            draft = draft.with(
                Draft::new(format!("blocks.{block}")).with_all([first, second]).with_all(shortcut).keeps(dropped),
            );
            image = out;
        }
        draft = draft.with_all(cnn.spatial(stage).map(|config| spatial(&config, image)));
        draft = draft.with_all(cnn.channel(stage).map(|_| channel(image)));
        model = model.with(draft);
    }
    model
}

/// A convolution without bias and its group norm, which keeps its input and two statistics per group; or one with a bias.
fn normed(name: &str, image: Image, kernel: usize, out: Image, groups: usize) -> Draft {
    let taps = q(image.channels) * kernel * kernel;
    let kept = out.numbers() + q(out.batch) * groups * 2;
    let has_norm = groups > 0;
    let convolution = Draft::new(name).linear(out.positions(), taps, q(out.channels), !has_norm).keeps(kept);
    if has_norm { convolution.parameters(q(out.channels) * 2) } else { convolution }
}

/// Attention between positions: four projections, its two products, and the gate.
fn spatial(config: &SpatialAttentionConfig, image: Image) -> Draft {
    let (positions, channels) = (image.positions(), q(image.channels));
    let (d_key, d_value) = (q(config.d_key), q(config.d_value));
    let keys = q(image.size[0]) * image.size[1];
    let kept = positions * (d_key * 2 + d_value * 3);
    Draft::new("spatial")
        .linear(positions, channels, d_key * 2 + d_value, true)
        .linear(positions, d_value, channels, true)
        .parameters(q(1))
        .flops(positions * keys * (d_key + d_value) * 2)
        // Queries, keys, values, their output in the order of tokens and of channels, the sum, and the matrices in the order of a
        // convolution.
        .keeps(image.numbers() + channels * (d_key + d_value) * 2)
        .keeps_either(kept + positions, kept + positions * keys)
}

/// Attention between channels: its two products, and the gate.
fn channel(image: Image) -> Draft {
    let rows = q(image.batch) * image.channels;
    Draft::new("channel")
        .parameters(q(1))
        .flops(image.numbers() * image.channels * 4)
        .keeps(image.numbers() * 2)
        .keeps_either(rows, rows * image.channels)
}
