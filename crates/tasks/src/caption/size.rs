//! The cost of a captioner, as far as it matters for memory: the network over the picture, and the writer as linear layers.

use regard_inspect::count::{Architecture, Description, Extra, Rows, Sizes};
use regard_nn::models::captioner::features::PictureFeaturesConfig;
use regard_nn::models::image::{ImageClassifierConfig, NetworkConfig as ImageNetwork};
use regard_nn::models::recurrent_writer::Attend;

use super::config::NetworkConfig;

/// Describes a network that learns from `batch` pictures with sentences of `tokens` tokens.
pub(super) fn described(network: &NetworkConfig, batch: usize, tokens: usize) -> Description {
    // The samples of hard attention are written together.
    let tokens = match network {
        NetworkConfig::Recurrent(config) => tokens.saturating_mul(config.selection.samples()),
        NetworkConfig::Transformer(_) => tokens,
    };
    let (picture, d_out, mut extra) = match network {
        NetworkConfig::Recurrent(config) => {
            let (d_model, d_hidden, vocab) = (config.d_model, config.d_hidden, config.vocab);
            let gates = d_hidden.saturating_mul(config.cell.gates());
            let layer = |n: usize| {
                // The context enters the first layer if attention comes before it.
                let context = if config.attend == Attend::Before { d_hidden } else { 0 };
                let d_in = if n == 0 { d_model.saturating_add(context) } else { d_hidden };
                Extra::linear(&format!("decoder.{n}"), d_in.saturating_add(d_hidden), gates, Rows::Tokens)
            };
            let mut extra: Vec<Extra> = (0..config.n_layers).map(layer).collect();
            extra.push(Extra::linear(
                "readout",
                d_hidden.saturating_mul(2).saturating_add(d_model),
                d_model,
                Rows::Tokens,
            ));
            // Query and key of an additive score.
            extra.push(Extra::linear("attention", d_hidden.saturating_mul(2), d_hidden, Rows::Tokens));
            extra.push(Extra::linear("words", d_model, vocab, Rows::Tokens));
            extra.push(Extra::table("embedding", vocab, d_model));
            (&config.picture, d_hidden, extra)
        }
        NetworkConfig::Transformer(config) => {
            let decoder = &config.decoder;
            let d_model = decoder.d_model;
            // Two kinds of attention with four matrices each, and the feed-forward part.
            let width = d_model.saturating_mul(8).saturating_add(decoder.d_ff.saturating_mul(2));
            let layer = |n: usize| Extra::linear(&format!("decoder.{n}"), d_model, width, Rows::Tokens);
            let mut extra: Vec<Extra> = (0..decoder.n_layers).map(layer).collect();
            extra.push(Extra::linear("words", d_model, decoder.vocab, Rows::Tokens));
            extra.push(Extra::table("embedding", decoder.vocab, d_model));
            (&config.picture, d_model, extra)
        }
    };
    let [rows, columns] = picture.grid();
    extra.push(Extra::table("place", rows.saturating_add(columns), d_out));
    let PictureFeaturesConfig { shape, cnn, cell } = picture;
    // A cell has the channels of all its positions; those of one are in the output layer of the network.
    extra.push(Extra::table("projection", cnn.d_out().saturating_mul(cell * cell - 1).max(1), d_out));
    let network = ImageNetwork::Cnn(cnn.clone());
    let architecture =
        Architecture::Image(ImageClassifierConfig { image: *shape, outputs: d_out, network, ..Default::default() });
    let sizes = Sizes { batch, seq: tokens, target_seq: None };
    Description { extra, sizes, ..Description::new(architecture) }
}
