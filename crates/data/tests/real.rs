//! Tests with published data sets. They are skipped unless `REGARD_DATA` names the folder of the data.

use regard_data::{
    Case, Fold, LabelledColumns, PairColumns, Scaler, Source, Split, TagColumn, Target, Tokenizer, TokenizerConfig,
    TokenizerKind, load_labelled, load_pairs, load_tagged, load_vectors, read_labelled, read_pairs, read_text,
    split_text,
};
use std::collections::BTreeSet;
use std::path::PathBuf;

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("REGARD_DATA").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("skipped: REGARD_DATA does not name a folder with the published data");
    }
    folder
}

#[test]
fn ewt_has_its_official_sentences() {
    let Some(folder) = folder() else { return };
    let source = Source { path: folder.join("ud-english-ewt"), fold: None };
    let splits = load_tagged(&source, TagColumn::Upos).unwrap();
    assert_eq!(Split::ALL.map(|split| splits.get(split).len()), [12_544, 2_001, 2_077]);
    let tags: BTreeSet<&str> = splits.train.iter().flat_map(|s| s.tags.iter().map(String::as_str)).collect();
    assert_eq!(tags.len(), 17, "{tags:?}");
    assert!(splits.train.iter().all(|s| s.tokens.len() == s.tags.len()));
    assert!(load_tagged(&source, TagColumn::Xpos).is_ok());
}

#[test]
fn tatoeba_has_its_pairs_and_its_sources_are_in_one_part() {
    let Some(folder) = folder() else { return };
    let path = folder.join("tatoeba-fra-eng/fra.txt.gz");
    assert_eq!(read_pairs(&path, &PairColumns::default()).unwrap().examples.len(), 167_130);
    let splits = load_pairs(&Source { path, fold: None }, &PairColumns::default()).unwrap();
    let sources = |split| splits.get(split).iter().map(|p| p.source()).collect::<BTreeSet<_>>();
    let [train, dev, test] = Split::ALL.map(sources);
    assert_eq!(train.len() + dev.len() + test.len(), 116_830);
    assert!(train.is_disjoint(&test) && train.is_disjoint(&dev) && dev.is_disjoint(&test));
    // 5 % of the distinct sources, within five standard deviations.
    assert!((test.len() as f64 - 5841.5).abs() < 5.0 * 74.5, "{}", test.len());
}

#[test]
fn tokenisers_restore_tatoeba() {
    let Some(folder) = folder() else { return };
    let pairs = read_pairs(&folder.join("tatoeba-fra-eng/fra.txt.gz"), &PairColumns::default()).unwrap().examples;
    let texts = || pairs.iter().flat_map(|p| [p.source(), p.target()]);
    for (kind, vocab) in [(TokenizerKind::Bpe, 8000), (TokenizerKind::Word, 100_000), (TokenizerKind::Char, 1000)] {
        let config = TokenizerConfig { kind, vocab, case: Case::Keep, min_count: 1 };
        let start = std::time::Instant::now();
        let tokenizer = Tokenizer::train(&config, texts()).unwrap();
        let trained = start.elapsed();
        let sample: Vec<&str> = texts().step_by(7).collect();
        let encoded = tokenizer.encode_batch(&sample);
        eprintln!(
            "{kind:?}: {} tokens, trained in {trained:.2?}, {} texts encoded in {:.2?}",
            tokenizer.vocab(),
            sample.len(),
            start.elapsed() - trained
        );
        for (text, encoded) in sample.iter().zip(&encoded) {
            // The word tokeniser keeps only single spaces between words.
            let plain = !text.contains("  ") && !text.contains(|c: char| c.is_whitespace() && c != ' ');
            let kept = kind != TokenizerKind::Word || plain;
            assert!(!kept || tokenizer.decode(&encoded.ids) == *text, "{kind:?}: {text:?} {:?}", encoded.tokens);
        }
    }
}

#[test]
fn polarity_has_its_sentences_and_folds() {
    let Some(folder) = folder() else { return };
    let path = folder.join("sentence-polarity/polarity.tsv.gz");
    let all = read_labelled(&path, &LabelledColumns::default()).unwrap().examples;
    assert_eq!(all.len(), 10_662);
    assert_eq!(all.iter().filter(|e| e.label == "pos").count(), 5_331);
    let tests: usize = (1..=10)
        .map(|k| {
            let source = Source { path: path.clone(), fold: Some(Fold::new(k, 10).unwrap()) };
            load_labelled(&source, &LabelledColumns::default()).unwrap().test.len()
        })
        .sum();
    assert_eq!(tests, 10_662);
}

#[test]
fn tiny_shakespeare_has_its_characters() {
    let Some(folder) = folder() else { return };
    let path = folder.join("tinyshakespeare/input.txt");
    let text = read_text(&path).unwrap();
    assert_eq!(text.chars().count(), 1_115_394);
    let splits = split_text(&path).unwrap();
    assert_eq!((splits.train[0].len(), splits.dev[0].len()), (1_003_854, 111_540));
    let config = TokenizerConfig { kind: TokenizerKind::Char, vocab: 1000, case: Case::Keep, min_count: 1 };
    let start = std::time::Instant::now();
    let tokenizer = Tokenizer::train(&config, [text.as_str()].into_iter()).unwrap();
    let ids = tokenizer.ids(&text);
    eprintln!("characters trained and encoded in {:.2?}", start.elapsed());
    assert_eq!((tokenizer.vocab(), ids.len()), (65 + 5, 1_115_394));
    assert_eq!(tokenizer.decode(&ids), text);
}

#[test]
fn pendigits_are_sequences_of_points() {
    let Some(folder) = folder() else { return };
    let start = std::time::Instant::now();
    let splits = load_vectors(&Source { path: folder.join("pendigits"), fold: None }).unwrap();
    eprintln!("pen trajectories read in {:.2?}; {:?}", start.elapsed(), splits.notes);
    // The published numbers of digits; dev is taken from train.
    assert_eq!((splits.train.len() + splits.dev.len(), splits.test.len()), (7_494, 3_498));
    let all = || Split::ALL.into_iter().flat_map(|split| splits.get(split));
    let labels: BTreeSet<String> = all().map(|digit| format!("{:?}", digit.target)).collect();
    assert_eq!(labels.len(), 10, "{labels:?}");
    assert!(matches!(&splits.test[0].target, Some(Target::Label(label)) if label == "8"));
    assert_eq!(splits.test[0].features[..6], [273.0, 323.0, 0.0, 272.0, 327.0, 0.0]);
    // As many ends of strokes as the files have `.PEN_UP`.
    let ends = all().flat_map(|digit| digit.features.chunks(3)).filter(|point| point[2] == 1.0).count();
    assert_eq!(ends, 9_433 + 4_257);
    let scaler = Scaler::learn(3, splits.train.iter().map(|digit| &digit.features[..]));
    eprintln!("mean {:?}, deviation {:?}", scaler.mean(), scaler.deviation());
    assert!(scaler.deviation().iter().all(|deviation| *deviation > 0.0));
}
