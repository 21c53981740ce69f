//! The cost of the network, before it is built.

use regard_inspect::count::{Architecture, Description, Extra, RecurrentModel, Rows};
use regard_nn::layers::recurrent::Cell;
use regard_nn::models::handwriting::HandwritingConfig;

use super::config::Config;
use crate::model::sizes;

/// Describes the network of a task. Upper layers also read the points and the window, which are counted as further inputs.
pub(super) fn described(config: &Config, network: &HandwritingConfig) -> Description {
    let HandwritingConfig { n_layers, d_hidden, .. } = *network;
    let layers = RecurrentModel { cell: Cell::lstm(), d_in: network.d_in(0), d_hidden, n_layers, ..Default::default() };
    let mut extra = Vec::new();
    if let Some(window) = network.window {
        extra.push(Extra::linear("window", d_hidden, window.components.saturating_mul(3), Rows::Tokens));
    }
    for layer in 1..n_layers {
        let skip = Extra::linear(&format!("skip.{layer}"), network.d_in(0), d_hidden.saturating_mul(4), Rows::Tokens);
        extra.push(without_bias(skip));
    }
    extra.push(Extra::linear("output", d_hidden.saturating_mul(n_layers), network.density().outputs(), Rows::Tokens));
    let sizes = sizes(config.train.batch_tokens, config.data.max_points);
    Description { sizes, extra, ..Description::new(Architecture::Recurrent(layers)) }
}

fn without_bias(mut extra: Extra) -> Extra {
    if let regard_inspect::count::ExtraKind::Linear { bias, .. } = &mut extra.part {
        *bias = regard_nn::layers::linear::Bias::None;
    }
    extra
}
