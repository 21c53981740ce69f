//! The description of a tagger from which the memory of a run is estimated. Small parts are approximated.

use regard_inspect::count::{Architecture, Description, Extra, Input, RecurrentModel, Rows, Sizes, count};
use regard_nn::layers::characters::CharactersConfig;
use regard_nn::layers::recurrent::{Cell, Direction};
use regard_nn::models::tagger::TaggerConfig;

use super::config::ModelConfig;

/// Number of gates of an LSTM, which has more than other cells.
const GATES: usize = 4;

/// Describes a tagger: its network, `model`, with word vectors and the output layer as extra parts.
pub(super) fn description(model: &ModelConfig, tagger: &TaggerConfig, sizes: Sizes) -> Description {
    let (mut extra, d_characters) = characters(tagger);
    let mut d_in = tagger.d_word.saturating_add(d_characters);
    if tagger.d_word > 0 {
        extra.push(Extra::table("words", tagger.vocab, tagger.d_word));
    }
    if let Some(encoder) = tagger.encoder {
        d_in = d_in.saturating_add(encoder.d_model);
        // Counts only the weights of the encoder, since a description has one network.
        if let Ok(counted) = count(&Description::new(Architecture::Encoder(encoder))) {
            extra.push(Extra::table("encoder", usize::try_from(counted.parameters()).unwrap_or(usize::MAX).max(1), 1));
        }
    }
    extra.push(Extra::linear("tags", tagger.d_model, tagger.tags, Rows::Tokens));
    let recurrent = |cell| {
        Architecture::Recurrent(RecurrentModel {
            cell,
            d_in,
            d_hidden: (tagger.d_model / 2).max(1),
            n_layers: tagger.n_layers,
            direction: Direction::Both,
            ..RecurrentModel::default()
        })
    };
    let architecture = match model {
        ModelConfig::Transformer(keys) => {
            extra.push(Extra::linear("input", d_in, tagger.d_model, Rows::Tokens));
            extra.push(Extra::norm("input_norm", tagger.d_model));
            Architecture::Encoder(keys.base.transformer(1))
        }
        ModelConfig::Rnn(_) => recurrent(Cell::Rnn),
        ModelConfig::Gru(_) => recurrent(Cell::gru()),
        ModelConfig::Lstm(_) | ModelConfig::Intra(_) => recurrent(Cell::lstm()),
    };
    let input = Input::Features;
    Description { architecture, input, extra, sizes }
}

/// The parts that read characters, and the number of features that they give a word.
fn characters(tagger: &TaggerConfig) -> (Vec<Extra>, usize) {
    let table = |d_char| Extra::table("characters", tagger.char_vocab, d_char);
    match &tagger.characters {
        CharactersConfig::None => (Vec::new(), 0),
        CharactersConfig::Convolution { d_char, widths, filters } => {
            let window = |&width: &usize| {
                Extra::linear(&format!("windows.{width}"), d_char.saturating_mul(width), *filters, Rows::Tokens)
            };
            let all = [table(*d_char)].into_iter().chain(widths.iter().map(window)).collect();
            (all, filters.saturating_mul(widths.len()))
        }
        CharactersConfig::Recurrent { d_char, d_hidden, .. } => {
            let gates = d_hidden.saturating_mul(2 * GATES);
            let network = Extra::linear("character states", d_char.saturating_add(*d_hidden), gates, Rows::Tokens);
            (vec![table(*d_char), network], d_hidden.saturating_mul(2))
        }
    }
}
