//! Tests the number of parameters against PyTorch's modules in `golden/count.json`.

use regard_inspect::count::{Architecture, Count, Description, RecurrentBias, RecurrentModel};
use regard_nn::layers::block::NormPlace;
use regard_nn::layers::linear::Bias;
use regard_nn::layers::position::Position;
use regard_nn::layers::recurrent::{Cell, Direction};
use regard_nn::models::transformer::{OutputWeights, TransformerConfig};
use serde_json::Value;

use super::{counted, parameters, part};

fn size(case: &Value, field: &str) -> usize {
    case[field].as_u64().unwrap_or_else(|| panic!("{field} of {case}")) as usize
}

/// Counts an encoder-decoder with the layers of `case` and only an embedding of one token besides.
fn translator(case: &Value) -> Count {
    let count = |field| case.get(field).map_or(1, |_| size(case, field));
    let config = TransformerConfig {
        vocab: 1,
        n_layers: count("n_layers"),
        n_decoder_layers: Some(count("n_decoder_layers")),
        d_model: size(case, "d_model"),
        n_heads: size(case, "n_heads"),
        d_ff: case.get("d_ff").map_or(4, |_| size(case, "d_ff")),
        norm_place: NormPlace::Pre,
        bias: if case["bias"] == false { Bias::None } else { Bias::Learned },
        position: Position::None,
        output_weights: OutputWeights::Embedding,
        output_bias: Bias::None,
        ..TransformerConfig::default()
    };
    counted(&Description::new(Architecture::EncoderDecoder(config)))
}

fn recurrent(case: &Value, cell: Cell) -> u128 {
    let config = RecurrentModel {
        cell,
        d_in: size(case, "d_in"),
        d_hidden: size(case, "d_hidden"),
        n_layers: size(case, "n_layers"),
        direction: if case["both"] == true { Direction::Both } else { Direction::Forward },
        bias: if case["bias"] == true { RecurrentBias::Two } else { RecurrentBias::None },
        ..RecurrentModel::default()
    };
    counted(&Description::new(Architecture::Recurrent(config))).parameters()
}

#[test]
fn parameters_agree_with_pytorch() {
    let text = include_str!("../../../../golden/count.json");
    let golden: Value = serde_json::from_str(text).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 33);
    for case in cases {
        let ours = match case["kind"].as_str().unwrap() {
            "attention" => {
                let count = translator(case);
                let own = part(&count, &["encoder", "layers", "attention"]).total.parameters;
                assert_eq!(own, part(&count, &["decoder", "layers", "cross_attention"]).total.parameters);
                own
            }
            "encoder_layer" => parameters(&translator(case), &["encoder", "layers"]),
            "decoder_layer" => parameters(&translator(case), &["decoder", "layers"]),
            "transformer" => {
                let count = translator(case);
                count.parameters() - parameters(&count, &["embedding"])
            }
            "rnn" => recurrent(case, Cell::Rnn),
            "lstm" => recurrent(case, Cell::lstm()),
            "gru" => recurrent(case, Cell::gru()),
            "embedding" => {
                let (vocab, d_in) = (Some(size(case, "vocab")), size(case, "d_model"));
                let config = RecurrentModel { vocab, d_in, ..RecurrentModel::default() };
                parameters(&counted(&Description::new(Architecture::Recurrent(config))), &["embedding"])
            }
            other => panic!("unknown kind {other}"),
        };
        assert_eq!(u64::try_from(ours).unwrap(), case["parameters"].as_u64().unwrap(), "{case}");
    }
}
