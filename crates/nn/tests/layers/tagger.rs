//! Tests of the tagger against PyTorch, of its word dropout, and of its errors.

use std::ops::Range;

use burn::tensor::{Int, Tensor, TensorData};
use regard_nn::layers::characters::{CharactersConfig, Reader};
use regard_nn::layers::position::Position;
use regard_nn::models::body::{Body, BodyConfig, TransformerBodyConfig};
use regard_nn::models::tagger::{PieceUse, TagOutput, Tagger, TaggerBatch, TaggerConfig, WordCharacters, WordPieces};
use regard_nn::models::transformer::TransformerConfig;
use regard_nn::{Init, Pass};
use serde_json::Value;

use crate::case::ids;
use crate::golden::Golden;
use crate::link::{Action, Link};
use crate::support::{close, training, values};

/// Bidirectional LSTM over four features per word, without dropout.
fn plain() -> TaggerConfig {
    TaggerConfig {
        vocab: 7,
        char_vocab: 6,
        tags: 3,
        d_word: 4,
        characters: CharactersConfig::None,
        d_model: 6,
        dropout: 0.0,
        word_dropout: 0.0,
        ..TaggerConfig::default()
    }
}

fn config(case: &str) -> TaggerConfig {
    let transformer = TransformerBodyConfig { n_heads: 2, d_ff: Some(12), ..Default::default() };
    let characters = CharactersConfig::Convolution { d_char: 3, widths: vec![3], filters: 3 };
    let encoder = TransformerConfig {
        vocab: 9,
        n_layers: 1,
        d_model: 8,
        n_heads: 2,
        d_ff: 12,
        dropout: 0.0,
        ..Default::default()
    };
    let pieces = |pieces| TaggerConfig { encoder: Some(encoder), pieces, d_word: 0, body: BodyConfig::None, ..plain() };
    match case {
        "lstm" => TaggerConfig { characters, ..plain() },
        "gru_crf" => TaggerConfig { body: BodyConfig::Gru, output: TagOutput::Crf, ..plain() },
        "transformer" => {
            TaggerConfig { body: BodyConfig::Transformer(transformer), d_model: 8, n_layers: 2, ..plain() }
        }
        "pieces_first" => pieces(PieceUse::First),
        "pieces_mean" => pieces(PieceUse::Mean),
        _ => panic!("{case}"),
    }
}

fn list<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

fn batch(golden: &Golden, case: &str, options: &Value) -> TaggerBatch {
    let integers = |part: &str| golden.integers::<2>(&format!("{case}/{part}"), &training());
    let characters = options.get("char_lengths").map(|lengths| WordCharacters {
        ids: integers("ids"),
        lengths: list(lengths),
        index: integers("index"),
    });
    // The first and the last piece of a sentence belong to no word.
    let ranges = |counts: Vec<usize>| -> Vec<Range<usize>> {
        counts
            .iter()
            .scan(1, |at, count| {
                Some((*at, {
                    *at += count;
                    *at
                }))
            })
            .map(|(from, to)| from..to)
            .collect()
    };
    let pieces = options.get("counts").map(|counts| WordPieces {
        ids: integers("ids"),
        lengths: list(&options["piece_lengths"]),
        words: list::<Vec<Vec<usize>>>(counts).into_iter().map(ranges).collect(),
    });
    TaggerBatch { words: integers("words"), lengths: list(&options["lengths"]), characters, pieces }
}

fn link(link: &Link, model: &mut Tagger) {
    if let Some(words) = &mut model.words {
        link.plain(&mut words.weight, "words.weight", None);
    }
    if let Some(characters) = &mut model.characters {
        link.plain(&mut characters.embedding.weight, "chars.weight", None);
        let Reader::Convolution(windows) = &mut characters.reader else { panic!("expected windows") };
        link.linear(&mut windows.windows[0].convolution, "window");
    }
    if let Some(encoder) = &mut model.encoder {
        link.plain(&mut encoder.embedding.tokens.weight, "pieces.weight", None);
        link.encoder_block(&mut encoder.stack.layers[0], "block.");
    }
    match &mut model.body {
        Body::Recurrent(network) => link.recurrent(network, "body"),
        body @ Body::Transformer(_) => link.body(body),
        Body::None(_) | Body::IntraAttention(_) => {}
    }
    link.linear(&mut model.output, "output");
    if let Some(crf) = &mut model.crf {
        link.plain(&mut crf.transitions, "crf.transitions", None);
        link.plain(&mut crf.start, "crf.start", None);
        link.plain(&mut crf.end, "crf.end", None);
    }
}

#[test]
fn logits_losses_and_all_gradients_match_pytorch() {
    let golden = Golden::open("tagger");
    for (case, options) in golden.cases() {
        let mut model = config(&case).init(&Init::new(1, &training())).unwrap();
        link(&Link { golden: &golden, case: &case, action: Action::Load }, &mut model);
        let (batch, pass) = (batch(&golden, &case, &options), Pass::inference());
        let logits = values(model.logits(&batch, &pass).unwrap());
        let want = golden.floats(&format!("{case}/logits"));
        let rows = |all: &[f32]| -> Vec<Vec<f32>> { all.chunks(3).map(<[f32]>::to_vec).collect() };
        for (place, (got, want)) in rows(&logits).iter().zip(rows(&want)).enumerate() {
            if place % 4 < batch.lengths[place / 4] {
                close(&case, got, &want, 1e-5);
            }
        }
        let tags = golden.integers::<2>(&format!("{case}/tags"), &training());
        let smoothing = if model.crf.is_some() { 0.0 } else { 0.1 };
        let loss = model.loss(&batch, tags, smoothing, &pass).unwrap();
        close(&case, &values(loss.clone()), &golden.floats(&format!("{case}/loss")), 1e-5);
        link(&Link { golden: &golden, case: &case, action: Action::Compare(&loss.backward(), 2e-5) }, &mut model);

        let found = model.predict(&batch, &pass).unwrap();
        assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), batch.lengths);
        if model.crf.is_none() {
            let best = |row: &Vec<f32>| (0..3).fold(0, |best, tag| if row[tag] > row[best] { tag } else { best });
            let want: Vec<usize> = rows(&want).iter().map(best).collect();
            for (sentence, tags) in found.iter().enumerate() {
                assert_eq!(tags, &want[sentence * 4..][..tags.len()], "{case}");
            }
        }
    }
}

fn words(data: [[i32; 3]; 2], lengths: [usize; 2]) -> TaggerBatch {
    TaggerBatch { words: ids(data), lengths: lengths.to_vec(), characters: None, pieces: None }
}

/// The words and tags at padding change neither the loss nor the predictions.
#[test]
fn padding_has_no_effect() {
    for (output, body) in [(TagOutput::Softmax, BodyConfig::None), (TagOutput::Crf, BodyConfig::IntraAttention)] {
        let model = TaggerConfig { output, body, ..plain() }.init(&Init::new(1, &training())).unwrap();
        let run = |last: i32, tag: i32| {
            let batch = words([[1, 2, 3], [4, last, last]], [3, 1]);
            let tags = ids([[0, 1, 2], [1, tag, tag]]);
            let loss = model.loss(&batch, tags, 0.0, &Pass::inference()).unwrap();
            (values(loss), model.predict(&batch, &Pass::inference()).unwrap())
        };
        assert_eq!(run(0, 0), run(6, -100));
    }
}

#[test]
fn dropped_words_become_unknown() {
    let config = TaggerConfig { word_dropout: 0.5, unknown: 2, ..plain() };
    let model = TaggerConfig { body: BodyConfig::None, ..config }.init(&Init::new(1, &training())).unwrap();
    let many = |id: i32| {
        let data = TensorData::new(vec![id; 2000], [2, 1000]);
        let words = Tensor::<2, Int>::from_data(data, &training());
        TaggerBatch { words, lengths: vec![1000; 2], characters: None, pieces: None }
    };
    let states = |id, pass: Pass| values(model.states(&many(id), &pass).unwrap());
    let (word, unknown) = (states(5, Pass::inference()), states(2, Pass::inference()));
    assert_ne!(word[..4], unknown[..4]);
    let found = states(5, Pass::training(1));
    let mut dropped = 0;
    for row in found.chunks(4) {
        assert!(row == &word[..4] || row == &unknown[..4]);
        dropped += usize::from(row == &unknown[..4]);
    }
    // Within four deviations of 2,000 coin tosses.
    assert!((911..=1089).contains(&dropped), "{dropped}");
    assert_eq!(found, states(5, Pass::training(1)));
    assert_ne!(found, states(5, Pass::training(2)));
}

#[test]
fn bad_fields_are_named() {
    let refused = |config: TaggerConfig| config.validate().unwrap_err().to_string();
    assert_eq!(refused(TaggerConfig { tags: 0, ..plain() }), "tags = 0: expected a whole number, 1 or more");
    assert_eq!(refused(TaggerConfig { vocab: 0, ..plain() }), "vocab = 0: expected a whole number, 1 or more");
    assert_eq!(refused(TaggerConfig { unknown: 7, ..plain() }), "unknown = 7: expected a word id below 7");
    let none = "d_word = 0: expected 1 or more, as there are neither characters nor an encoder";
    assert_eq!(refused(TaggerConfig { d_word: 0, ..plain() }), none);
    let characters = CharactersConfig::convolution();
    let config = TaggerConfig { characters, char_vocab: 0, ..plain() };
    assert_eq!(refused(config), "char_vocab = 0: expected a whole number, 1 or more");
    assert!(refused(TaggerConfig { d_model: 7, ..plain() }).starts_with("d_model = 7"));
    let encoder = Some(TransformerConfig { n_layers: 0, ..Default::default() });
    assert!(refused(TaggerConfig { encoder, ..plain() }).starts_with("encoder.n_layers = 0"));

    let parse = |text: &str| serde_json::from_str::<TaggerConfig>(text).map_err(|error| error.to_string());
    let parsed = parse(r#"{"body": "transformer", "characters": "none", "output": "crf", "d_model": 8}"#).unwrap();
    assert_eq!(parsed.body, BodyConfig::transformer());
    assert_eq!((parsed.characters, parsed.output, parsed.d_model), (CharactersConfig::None, TagOutput::Crf, 8));
    let Ok(TaggerConfig { body: BodyConfig::Transformer(body), .. }) =
        parse(r#"{"body": {"kind": "transformer", "position": "alibi"}}"#)
    else {
        panic!("expected a Transformer")
    };
    assert_eq!(body.position, Position::Alibi);
    assert!(parse(r#"{"layers": 3}"#).unwrap_err().contains("unknown field `layers`"));
    let text = serde_json::to_string(&config_with_all()).unwrap();
    assert_eq!(parse(&text).unwrap(), config_with_all());
}

fn config_with_all() -> TaggerConfig {
    TaggerConfig { encoder: Some(TransformerConfig::default()), body: BodyConfig::transformer(), ..Default::default() }
}

#[test]
fn bad_batches_are_named() {
    let model = |config: TaggerConfig| config.init(&Init::new(1, &training())).unwrap();
    let refused =
        |model: &Tagger, batch: &TaggerBatch| model.states(batch, &Pass::inference()).unwrap_err().to_string();
    let batch = words([[1, 2, 3], [4, 5, 6]], [3, 1]);
    let missing = "expected those of every word, because the tagger reads them, got none";
    assert_eq!(refused(&model(config("lstm")), &batch), format!("characters: {missing}"));
    let encoder = model(config("pieces_mean"));
    assert_eq!(refused(&encoder, &batch), format!("pieces: {missing}"));
    let with = |words: Vec<Vec<Range<usize>>>| TaggerBatch {
        pieces: Some(WordPieces { ids: ids([[1, 2, 3, 4], [5, 6, 7, 8]]), lengths: vec![4, 2], words }),
        ..batch.clone()
    };
    let sentence = || vec![0..1, 1..2, 2..4];
    assert!(encoder.states(&with(vec![sentence(), vec![0..2]]), &Pass::inference()).is_ok());
    assert_eq!(
        refused(&encoder, &with(vec![sentence(), vec![0..3]])),
        "pieces of a word: expected a non-empty range in 0..2, got 0..3"
    );
    assert_eq!(
        refused(&encoder, &with(vec![sentence(), vec![1..1]])),
        "pieces of a word: expected a non-empty range in 0..2, got 1..1"
    );
    assert_eq!(refused(&encoder, &with(vec![sentence(), vec![]])), "words with pieces: expected [3, 1], got [3, 0]");

    let none = model(TaggerConfig { body: BodyConfig::None, ..plain() });
    let long = words([[1, 2, 3], [4, 5, 6]], [3, 4]);
    assert_eq!(refused(&none, &long), "lengths: expected each at most 3, got 4");
    assert_eq!(refused(&none, &words([[1, 2, 7], [4, 5, 6]], [3, 3])), "ids: 7 at [0, 2] is not in 0..7");
    let loss = |model: &Tagger, tags, smoothing| {
        model.loss(&batch, tags, smoothing, &Pass::inference()).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(loss(&none, ids([[0, 1, 2]]), 0.0).unwrap_err(), "tags: expected [2, 3], got [1, 3]");
    let tags = || ids([[0, 1, 2], [0, 1, 2]]);
    assert!(loss(&none, tags(), 0.1).is_ok());
    let refused = loss(&model(config("gru_crf")), tags(), 0.1).unwrap_err();
    assert_eq!(refused, "label smoothing of a CRF: expected 0, got 0.1");
}
