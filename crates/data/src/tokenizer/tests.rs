use super::*;
use crate::testing::write;
use proptest::prelude::*;
use tempfile::tempdir;

const TEXTS: [&str; 6] = [
    "I saw a saw.",
    "Elle n'a pas vu l'homme .",
    "Don't you see? The dogs' tails, he said, aren't long!",
    "J'ai dit qu'aujourd'hui, c'est 3,5 °C… « Vraiment ? »",
    "the saw saw the seesaw (and \"the\" rest) – co-operate; it's rock'n'roll",
    "Ça, été naïve ŒUVRE 日本語 👍🏽 e\u{301}te\u{301} l’été",
];

const KINDS: [TokenizerKind; 3] = [TokenizerKind::Bpe, TokenizerKind::Word, TokenizerKind::Char];

fn config(kind: TokenizerKind, vocab: usize) -> TokenizerConfig {
    TokenizerConfig { kind, vocab, case: Case::Keep, min_count: 1 }
}

fn trained(kind: TokenizerKind) -> Tokenizer {
    Tokenizer::train(&config(kind, 500), TEXTS.into_iter()).unwrap()
}

#[test]
fn decoding_restores_texts() {
    for kind in KINDS {
        let tokenizer = trained(kind);
        for text in TEXTS {
            let encoded = tokenizer.encode(text);
            assert_eq!(tokenizer.decode(&encoded.ids), text, "{kind:?} {:?}", encoded.tokens);
            assert_eq!(tokenizer.ids(text), encoded.ids);
            assert!(!encoded.ids.contains(&UNK), "{kind:?} {:?}", encoded.tokens);
            for (token, (start, end)) in encoded.tokens.iter().zip(&encoded.offsets) {
                assert!(token.contains('\\') || &text[*start..*end] == token, "{kind:?} {token:?}");
            }
        }
        let batch = tokenizer.encode_batch(&TEXTS);
        assert_eq!(batch, TEXTS.map(|text| tokenizer.encode(text)));
    }
}

#[test]
fn words_are_words() {
    let tokenizer = trained(TokenizerKind::Word);
    assert_eq!(tokenizer.encode("I saw a saw.").tokens, ["I", "saw", "a", "saw", "."]);
    assert_eq!(tokenizer.encode(TEXTS[1]).tokens, ["Elle", "n'", "a", "pas", "vu", "l'", "homme", " ."]);
    assert_eq!(tokenizer.encode("Don't you see?").tokens[..5], ["Don", "'t", "you", "see", "<unk>"]);
    assert_eq!(tokenizer.encode("qu'aujourd'hui").tokens, ["qu'", "aujourd", "'hui"]);
    // White space becomes one space between words and none at the ends.
    assert_eq!(tokenizer.decode(&tokenizer.ids("  I\tsaw \n a saw.")), "I saw a saw.");
    // The most frequent first, equal counts in alphabetical order.
    assert_eq!(tokenizer.tokens()[..7], ["<pad>", "<unk>", "<s>", "</s>", "<mask>", ", ", "saw"]);
}

#[test]
fn pieces_are_readable() {
    let tokenizer = trained(TokenizerKind::Bpe);
    assert_eq!(tokenizer.encode("I saw a saw.").tokens, ["I", " saw", " a", " saw", "."]);
    assert_eq!(tokenizer.encode("ß").tokens, ["\\xC3", "\\x9F"]);
    for kind in KINDS {
        let tokenizer = trained(kind);
        for id in 0..tokenizer.vocab() as u32 {
            assert_eq!(tokenizer.id(&tokenizer.token(id).unwrap()), Some(id), "{kind:?}");
        }
        assert_eq!(tokenizer.token(tokenizer.vocab() as u32), None);
        assert_eq!(tokenizer.id("nowhere to be found"), None);
    }
}

#[test]
fn special_tokens_have_their_numbers_and_are_never_text() {
    for kind in KINDS {
        let tokenizer = trained(kind);
        for (special, id) in SPECIALS.into_iter().zip([PAD, UNK, START, END, MASK]) {
            assert_eq!(tokenizer.id(special), Some(id));
            assert_eq!(tokenizer.token(id).as_deref(), Some(special));
        }
        let ids = [&[START][..], &tokenizer.ids("I saw"), &[END, PAD, PAD, u32::MAX]].concat();
        assert_eq!(tokenizer.decode(&ids), "I saw");
        assert!(!tokenizer.ids("I</s>saw<mask>").iter().any(|id| [START, END, MASK, PAD].contains(id)));
    }
    let tokenizer = trained(TokenizerKind::Bpe);
    assert_eq!(tokenizer.decode(&tokenizer.ids("a<s>b</s>")), "a<s>b</s>");
}

#[test]
fn the_vocabulary_is_bounded() {
    for (kind, vocab) in [(TokenizerKind::Bpe, 270), (TokenizerKind::Word, 12), (TokenizerKind::Char, 20)] {
        assert_eq!(Tokenizer::train(&config(kind, vocab), TEXTS.into_iter()).unwrap().vocab(), vocab, "{kind:?}");
        let error = Tokenizer::train(&config(kind, 5), TEXTS.into_iter()).unwrap_err();
        assert!(matches!(error, DataError::Setting { field: "vocab", .. }), "{error}");
    }
    let frequent = TokenizerConfig { min_count: 4, ..config(TokenizerKind::Word, 500) };
    assert_eq!(Tokenizer::train(&frequent, TEXTS.into_iter()).unwrap().tokens()[5..], [", ", "saw"]);
    let characters = Tokenizer::train(&config(TokenizerKind::Char, 100), ["ab\nb"].into_iter()).unwrap();
    assert_eq!(characters.tokens()[5..], ["b", "\n", "a"]);
    assert_eq!(characters.ids("axxb"), [7, UNK, UNK, 5]);
    for kind in KINDS {
        assert!(matches!(Tokenizer::train(&config(kind, 500), [""].into_iter()), Err(DataError::Train { .. })));
    }
}

#[test]
fn capitals_become_lower_case_if_asked() {
    for kind in KINDS {
        let lower = TokenizerConfig { case: Case::Lower, ..config(kind, 500) };
        let tokenizer = Tokenizer::train(&lower, TEXTS.into_iter()).unwrap();
        assert_eq!(tokenizer.ids("I SAW A saw."), tokenizer.ids("i saw a saw."));
        assert_eq!(tokenizer.decode(&tokenizer.ids("I SAW a saw.")), "i saw a saw.");
    }
}

#[test]
fn training_is_a_function_of_the_texts() {
    // Many equal counts, so that a dependence on a hash map's order would show.
    let texts: Vec<String> = (0..400u32).map(|i| format!("w{:x} {}ab{}", i * 7919 % 97, i % 13, i * i % 31)).collect();
    let hashes = KINDS.map(|kind| {
        let config = config(kind, 400);
        let first = Tokenizer::train(&config, texts.iter().map(String::as_str)).unwrap().to_json();
        for _ in 0..20 {
            let again = Tokenizer::train(&config, texts.iter().rev().map(String::as_str)).unwrap();
            assert_eq!(again.to_json(), first, "{kind:?}");
        }
        crate::hash(first.as_bytes())
    });
    // Each process has its own hash keys; these hashes come from another one.
    assert_eq!(hashes, [18364008784724671806, 3059026052494171561, 4964165386626751953]);
}

#[test]
fn a_written_file_is_read_again() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("tokenizer.json");
    for kind in KINDS {
        let tokenizer = trained(kind);
        std::fs::write(&path, tokenizer.to_json()).unwrap();
        let opened = Tokenizer::open(&path).unwrap();
        assert_eq!(opened.kind(), kind);
        assert_eq!(opened.to_json(), tokenizer.to_json());
        for text in TEXTS.into_iter().chain(["<s>unseen ß</s>"]) {
            assert_eq!(opened.encode(text), tokenizer.encode(text));
            assert_eq!(opened.decode(&opened.ids(text)), tokenizer.decode(&tokenizer.ids(text)));
        }
    }
}

#[test]
fn a_damaged_or_foreign_file_is_named() {
    let dir = tempdir().unwrap();
    let json = trained(TokenizerKind::Word).to_json();
    for cut in (0..json.len() - 2).step_by(97) {
        let error = Tokenizer::open(&write(&dir, "tokenizer.json", &json.as_bytes()[..cut])).unwrap_err();
        assert!(matches!(error, DataError::Tokenizer { .. }), "cut at {cut}: {error}");
    }
    let whole: serde_json::Value = serde_json::from_str(&json).unwrap();
    let mut moved = whole.clone();
    moved["model"]["vocab"]["<pad>"] = 1.into();
    moved["model"]["vocab"]["<unk>"] = 0.into();
    moved["added_tokens"] = serde_json::json!([]);
    let mut gap = whole.clone();
    gap["model"]["vocab"]["saw"] = 4000.into();
    let mut foreign = whole.clone();
    foreign["pre_tokenizer"] = serde_json::json!({"type": "Whitespace"});
    let mut decoder = whole.clone();
    decoder["decoder"] = 5.into();
    let mut normalizer = whole.clone();
    normalizer["normalizer"] = serde_json::json!({"type": "Precompiled"});
    for (content, message) in [
        ("".into(), "expected a tokenizer.json"),
        (json[..json.len() / 2].into(), "expected a tokenizer.json"),
        ("{\"version\": \"1.0\"}".into(), "expected a tokenizer.json"),
        (decoder.to_string(), "expected a tokenizer.json"),
        (normalizer.to_string(), "expected no normaliser but Lowercase, found \"Precompiled\""),
        (moved.to_string(), "expected <pad>, <unk>, <s>, </s>, <mask> as numbers 0 to 4, found \"<unk>\" as number 0"),
        (gap.to_string(), "expected numbers without a gap, found no token with number"),
        (
            foreign.to_string(),
            "expected a byte-pair, word or character tokeniser written by this program, found another kind",
        ),
    ] {
        let content: String = content;
        let error = Tokenizer::open(&write(&dir, "tokenizer.json", content.as_bytes())).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json: ") && error.contains(message), "{error}");
    }
    assert!(matches!(Tokenizer::open(&dir.path().join("none.json")), Err(DataError::Missing { .. })));
}

/// The content of a tokeniser file after a change.
fn changed(kind: TokenizerKind, change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    let mut file: serde_json::Value = serde_json::from_str(&trained(kind).to_json()).unwrap();
    change(&mut file);
    file.to_string().into_bytes()
}

fn opened(content: &[u8]) -> Result<Tokenizer, DataError> {
    Tokenizer::from_json(content, std::path::Path::new("tokenizer.json"))
}

/// The library would panic on some of these files and fail later on the others.
#[test]
fn crafted_models_are_refused_before_the_library_sees_them() {
    use TokenizerKind::{Bpe, Char, Word};
    use serde_json::json;
    type Change = Box<dyn Fn(&mut serde_json::Value)>;
    let set = |pointer: &'static str, value: serde_json::Value| -> Change {
        Box::new(move |file| *file.pointer_mut(pointer).unwrap() = value.clone())
    };
    let long = "x".repeat(300);
    let cases: Vec<(TokenizerKind, Change, &str)> = vec![
        // Both tokens exist, but the merged one is longer than any token.
        (
            Bpe,
            {
                let long = long.clone();
                Box::new(move |file| {
                    let next = file["model"]["vocab"].as_object().unwrap().len();
                    file["model"]["vocab"][&long] = next.into();
                    file["model"]["merges"].as_array_mut().unwrap().push(json!([long, long]));
                })
            },
            "merges of two tokens to a third",
        ),
        (Bpe, set("/model/merges/0", json!("a nowhere")), "found \"a nowhere\""),
        (Bpe, set("/model/merges/0", json!(["a", "b", "c"])), "merges of two tokens"),
        (Bpe, set("/model/merges/0", json!(7)), "merges of two tokens"),
        (Bpe, set("/model/merges", json!({})), "without a list of merges"),
        // A prefix longer than any token, and one whose length is inside a character.
        (Bpe, set("/model/continuing_subword_prefix", json!("##########")), "continuing_subword_prefix"),
        (Bpe, set("/model/continuing_subword_prefix", json!("é")), "continuing_subword_prefix"),
        (Bpe, set("/model/end_of_word_suffix", json!("</w>")), "end_of_word_suffix"),
        (Bpe, set("/model/dropout", json!(0.5)), "without dropout of merges, found 0.5"),
        (Bpe, set("/model/unk_token", json!("[UNK]")), "unknown token that is in the vocabulary, found \"[UNK]\""),
        (Char, set("/model/unk_token", json!("[UNK]")), "unknown token that is in the vocabulary"),
        (Word, set("/model/unk_token", json!("[UNK]")), "unknown token that is in the vocabulary"),
        (Word, set("/model/unk_token", json!(3)), "unknown token that is in the vocabulary, found 3"),
        (Word, set("/model/vocab", json!(["a", "b"])), "without a vocabulary"),
        (Word, set("/model", json!(null)), "without a vocabulary"),
        (
            Bpe,
            Box::new(|file| drop(file["model"]["vocab"].as_object_mut().unwrap().remove("Ġ"))),
            "a token for each of the 256 bytes, found none for 'Ġ'",
        ),
        (
            Word,
            set("/decoder", json!({"type": "CTC", "pad_token": "", "word_delimiter_token": "", "cleanup": true})),
            "CTC",
        ),
        (Word, set("/padding", json!({"strategy": 5})), "settings of padding, or null"),
        (Word, set("/truncation", json!({"max_length": -1})), "settings of truncation, or null"),
    ];
    for (kind, change, words) in cases {
        let error = opened(&changed(kind, change)).map(|_| words).unwrap_err().to_string();
        assert!(error.contains(words) && error.lines().count() == 1, "{words}: {error}");
    }
    // A duplicate key: the checked values are those that are read.
    let json = trained(Bpe).to_json();
    let (start, end) = json.split_at(json.rfind('}').unwrap());
    let twice = format!(
        "{start}, \"model\": {{\"type\": \"BPE\", \"vocab\": {{\"a\": 0}}, \"merges\": [[\"a\", \"a\"]]}}{end}"
    );
    assert!(opened(twice.as_bytes()).is_err());
}

#[test]
fn padding_and_truncation_of_others_change_no_answer() {
    use serde_json::json;
    for kind in KINDS {
        let plain = trained(kind);
        let padded = changed(kind, |file| {
            file["padding"] = json!({
                "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null,
                "pad_id": 99999, "pad_type_id": 0, "pad_token": "[PAD]",
            });
            file["truncation"] =
                json!({"max_length": 2, "stride": 0, "strategy": "LongestFirst", "direction": "Right"});
            file["post_processor"] = json!({
                "type": "TemplateProcessing", "single": [{"Sequence": {"id": "B", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "B", "type_id": 0}}], "special_tokens": {},
            });
        });
        let padded = opened(&padded).unwrap();
        for text in TEXTS {
            assert_eq!(padded.encode(text), plain.encode(text), "{kind:?}");
            assert_eq!(padded.ids(text), plain.ids(text), "{kind:?}");
        }
        assert_eq!(padded.encode_batch(&TEXTS), plain.encode_batch(&TEXTS), "{kind:?}");
        assert_eq!(padded.to_json(), plain.to_json(), "{kind:?}");
    }
}

#[test]
fn deep_and_huge_files_are_refused_in_one_line() {
    let deep = |levels: usize| format!("{{\"model\": {}{}}}", "[".repeat(levels), "]".repeat(levels));
    for levels in [200, 1_000_000] {
        let error = opened(deep(levels).as_bytes()).unwrap_err().to_string();
        assert!(error.contains("recursion limit exceeded") && error.lines().count() == 1, "{error}");
    }
    let huge = vec![b' '; 100_000_001];
    let error = opened(&huge).unwrap_err().to_string();
    assert!(error.contains("at most 100 MB, found 100000001 bytes"), "{error}");
    let dir = tempdir().unwrap();
    let path = dir.path().join("tokenizer.json");
    // A sparse file takes no space on disk but would take 4 GB of memory.
    std::fs::File::create(&path).unwrap().set_len(1 << 32).unwrap();
    let error = Tokenizer::open(&path).unwrap_err().to_string();
    assert!(error.contains("at most 100 MB, found 4294967296 bytes"), "{error}");
}

#[test]
fn a_panic_of_the_library_is_an_error_and_prints_nothing() {
    assert_eq!(foreign::guarded(|| 7), Ok(7));
    // In a process of its own, since the test runner captures the output.
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tokenizer::tests::panics_under_the_guard", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let printed = [child.stdout, child.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    assert!(child.status.success() && printed.contains("1 passed"), "{printed}");
    assert!(!printed.contains("kept quiet") && printed.contains("told as ever"), "{printed}");
}

#[test]
#[ignore = "run by the test above"]
fn panics_under_the_guard() {
    assert_eq!(foreign::guarded(|| panic!("kept {}", "quiet")), Err::<(), _>("kept quiet".into()));
    assert!(std::panic::catch_unwind(|| panic!("told as ever")).is_err());
}

#[test]
fn configurations_are_checked() {
    let read = |json: &str| serde_json::from_str::<TokenizerConfig>(json);
    assert_eq!(read(r#"{"kind": "bpe", "vocab": 300}"#).unwrap(), config(TokenizerKind::Bpe, 300));
    assert!(read(r#"{"kind": "bpe", "vocab": 300, "size": 1}"#).is_err());
    assert!(read(r#"{"kind": "bpe", "vocab": 300}"#).unwrap().validate().is_ok());
    let error = config(TokenizerKind::Bpe, 260).validate().unwrap_err().to_string();
    assert!(error.contains("vocab: expected 261 to 2147483647 for Bpe, found 260"), "{error}");
}

proptest! {
    #[test]
    fn bytes_restore_any_text(text: String) {
        let tokenizer = Tokenizer::train(&config(TokenizerKind::Bpe, 300), TEXTS.into_iter()).unwrap();
        prop_assert_eq!(tokenizer.decode(&tokenizer.ids(&text)), text);
    }

    #[test]
    fn seen_characters_are_restored(text in "\\PC{0,30}\n?[a-z\t ]{1,9}") {
        let tokenizer = Tokenizer::train(&config(TokenizerKind::Char, 500), [text.as_str()].into_iter()).unwrap();
        prop_assert_eq!(tokenizer.decode(&tokenizer.ids(&text)), text);
    }

    #[test]
    fn words_and_punctuation_are_restored(
        text in "[a-zA-Zéàqu'’0-9.,;:!?()\"-]{1,9}( [a-zé\u{301}lqu'’.,?5]{1,8}){0,8}",
    ) {
        let tokenizer = Tokenizer::train(&config(TokenizerKind::Word, 500), [text.as_str()].into_iter()).unwrap();
        let encoded = tokenizer.encode(&text);
        prop_assert_eq!(tokenizer.decode(&encoded.ids), text, "{:?}", encoded.tokens);
    }
}

#[test]
fn the_texts_choose_the_kind_unless_the_user_does() {
    let keys = |kind| TokenizerConfig { kind, vocab: 100, case: Case::Keep, min_count: 1 };
    for (text, kind, chosen) in [
        ("a few words", None, TokenizerKind::Word),
        ("这部电影很好", None, TokenizerKind::Char),
        ("这部电影很好", Some(TokenizerKind::Word), TokenizerKind::Word),
    ] {
        let mut keys = keys(kind);
        assert_eq!(keys.train([text].into_iter()).unwrap().kind(), chosen);
        assert_eq!(keys.kind, Some(chosen));
    }
}
