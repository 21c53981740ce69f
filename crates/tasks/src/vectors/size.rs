//! The cost of a network on vectors, as far as it matters for memory.

use regard_inspect::count::{Architecture, Description, Extra, ExtraKind, RecurrentModel, Rows, Sizes};
use regard_nn::layers::linear::Bias;
use regard_nn::layers::pooling::PoolingConfig;
use regard_nn::layers::recurrent::Direction;
use regard_nn::models::vectors::{AnswerPer, VectorModelConfig};

use super::config::ModelConfig;
use crate::model::lookup;

/// Describes the network of a task, with the sizes of a batch.
pub(crate) fn described(model: &ModelConfig, network: &VectorModelConfig, sizes: Sizes) -> Description {
    let (architecture, width) = match (model, model.recurrent()) {
        (ModelConfig::Transformer(keys), _) => (Architecture::Encoder(keys.base.transformer(1)), keys.base.d_model),
        (_, Some(layers)) => {
            let layers = RecurrentModel { direction: Direction::Both, d_in: network.width, ..layers };
            (Architecture::Recurrent(layers), network.d_model)
        }
        (_, None) => (lookup(1, network.width), network.width),
    };
    let mut extra = vec![Extra::linear("input", network.width, width, Rows::Tokens)];
    if let (PoolingConfig::Attention { d_hidden }, AnswerPer::Example) = (network.pooling, network.answers) {
        let hidden = d_hidden.unwrap_or(width);
        extra.push(Extra::linear("pooling.hidden", width, hidden, Rows::Tokens));
        let query = ExtraKind::Linear { d_in: hidden, d_out: 1, bias: Bias::None, rows: Rows::Tokens };
        extra.push(Extra { name: "pooling.query".to_string(), part: query });
    }
    let rows = if network.answers == AnswerPer::Vector { Rows::Tokens } else { Rows::Sequences };
    let mut below = width;
    for (number, &layer) in network.hidden.iter().chain([&network.outputs]).enumerate() {
        extra.push(Extra::linear(&format!("answer.{number}"), below, layer, rows));
        below = layer;
    }
    Description { sizes, extra, ..Description::new(architecture) }
}
