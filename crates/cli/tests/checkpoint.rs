//! Tests of checkpoints of transformers: verify, embed, dump, predict, generate, look, count and export, and errors.

mod binary;

use std::fs;
use std::path::{Path, PathBuf};

use binary::{document, documents, done, fails_with, path, regard, text, with_words, write};
use regard_data::{Image, ImageSize};
use serde_json::Value;

fn golden(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/hugging_face").join(name);
    path(&folder).to_string()
}

fn json(arguments: &[&str]) -> Value {
    document(&done(&regard(&[arguments, &["--json"]].concat())))
}

#[test]
fn verify_prints_a_parity_report() {
    for (name, reference) in
        [("bert-masked", "reference"), ("qwen3", "left"), ("t5", "reference"), ("vit", "reference")]
    {
        let (folder, reference) = (golden(name), golden(&format!("{name}/{reference}.safetensors")));
        let told = done(&regard(&["verify", &folder, "--reference", &reference]));
        assert!(told.contains("hidden_states.1") && told.contains("100.00 %") && !told.contains("differs"), "{told}");
        let document = json(&["verify", &folder, "--reference", &reference]);
        assert_eq!(document["equal"], true);
        for tensor in document["tensors"].as_array().unwrap() {
            assert!(tensor["largest"].as_f64().unwrap() <= 1e-5, "{name}: {tensor}");
        }
    }
}

#[test]
fn verify_fails_where_outputs_differ() {
    let (folder, other) = (golden("qwen2"), golden("llama3/reference.safetensors"));
    let output = regard(&["verify", &folder, "--reference", &other]);
    fails_with(&output, 1, &["tensors differ"]);
    assert!(text(&output.stdout).contains("differs"));
    let reference = golden("qwen2/reference.safetensors");
    fails_with(
        &regard(&["verify", &folder, "--reference", &reference, "--tolerance", "0"]),
        1,
        &["differ by more than 0"],
    );
    fails_with(&regard(&["verify", &folder, "--reference", &reference, "--tolerance", "-1"]), 2, &["--tolerance"]);
    fails_with(&regard(&["verify", &folder, "--reference", &golden("vit/reference.safetensors")]), 1, &["input_ids"]);
    fails_with(&regard(&["verify", &folder, "--reference", "missing.safetensors"]), 1, &["missing.safetensors"]);
    // Ids that the model does not have.
    fails_with(
        &regard(&["verify", &golden("t5"), "--reference", &golden("gpt2/left.safetensors")]),
        1,
        &["decoder_input_ids"],
    );
}

#[test]
fn texts_become_vectors() {
    let (folder, expected) = (golden("sentences"), golden("sentences/embeddings.json"));
    let expected: Value = serde_json::from_slice(&fs::read(expected).unwrap()).unwrap();
    let texts: Vec<&str> = expected["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let document = json(&[&["embed", &folder][..], &texts].concat());
    assert_eq!(document["model"], folder.as_str());
    let close = |ours: &Value, theirs: &Value| {
        let numbers = |row: &Value| row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect::<Vec<_>>();
        let (ours, theirs) = (numbers(ours), numbers(theirs));
        assert!(ours.len() == 16 && ours.iter().zip(&theirs).all(|(a, b)| (a - b).abs() < 1e-5), "{ours:?} {theirs:?}");
    };
    for (ours, theirs) in
        document["embeddings"].as_array().unwrap().iter().zip(expected["embeddings"].as_array().unwrap())
    {
        close(ours, theirs);
    }
    let place = tempfile::tempdir().unwrap();
    let file = write(&place, "texts.txt", texts.join("\n"));
    let lines = done(&regard(&["embed", &folder, "--input", &file]));
    assert_eq!(lines.lines().count(), 3);
    assert_eq!(lines.lines().next().unwrap().split(' ').count(), 16);
    fails_with(&regard(&["embed", &golden("bert"), "a text"]), 1, &["tokenizer.json"]);
    fails_with(&regard(&["embed", &golden("vit"), "a text"]), 2, &["reads pictures"]);
    fails_with(&regard(&["embed", &golden("t5"), "a text"]), 2, &["is a translator"]);
    let latin = write(&place, "latin.txt", b"caf\xe9\n");
    fails_with(&regard(&["embed", &folder, "--input", &latin]), 1, &["UTF-8"]);
}

#[test]
fn a_pass_can_be_dumped() {
    let folder = golden("gpt2");
    let document = json(&["dump", &folder, "--text", "the cat"]);
    assert_eq!(document["tokens"], serde_json::json!(["th", "e", " ca", "t"]));
    let size = |value: &Value| value.as_array().unwrap().len();
    assert_eq!((size(&document["logits"]), size(&document["logits"][0])), (4, 262));
    assert_eq!(
        (size(&document["attentions"]), size(&document["attentions"][1]), size(&document["attentions"][1][3])),
        (2, 4, 4)
    );
    assert_eq!((size(&document["hidden_states"]), size(&document["last_hidden_state"])), (3, 4));
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("dump.safetensors");
    done(&regard(&["dump", &folder, "--input-ids", "5,9,11", "--out", path(&out)]));
    assert!(fs::metadata(&out).unwrap().len() > 1_000);
    fails_with(&regard(&["dump", &folder, "--input-ids", "5,262"]), 1, &["token", "below 262", "262"]);
    fails_with(&regard(&["dump", &folder]), 2, &["--text"]);
    fails_with(&regard(&["dump", &folder, "--text", "a", "--out", "dump.txt"]), 2, &[".safetensors"]);
    let long = vec!["7"; 41].join(",");
    fails_with(&regard(&["dump", &folder, "--input-ids", &long]), 1, &["1 to 40 tokens", "41"]);
}

#[test]
fn heads_decide_what_is_predicted() {
    let found = json(&["predict", &golden("bert-masked"), "the [MASK] sat on a [MASK]."]);
    assert_eq!(found["candidates"].as_array().unwrap().len(), 2);
    assert_eq!(found["candidates"][0].as_array().unwrap().len(), 5);
    let label = json(&["predict", &golden("bert-classifier"), "the cat sat"]);
    let sum: f64 = label["probabilities"].as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-9 && ["sad", "glad", "odd"].contains(&label["label"].as_str().unwrap()), "{label}");
    let tags = json(&["predict", &golden("bert-tagger"), "the cats sat"]);
    assert_eq!(tags["tokens"], serde_json::json!(["the", "cat", "##s", "sat"]));
    assert_eq!(tags["tags"].as_array().unwrap().len(), 4);
    let without = json(&["predict", &golden("bert-classifier"), "the cat sat", "--without", "0.1,1"]);
    assert_ne!(without["without"]["probabilities"], without["probabilities"]);
    // One input without a hidden word does not stop the others.
    let output = regard(&["predict", &golden("bert-masked"), "the cat", "a [MASK]", "--json"]);
    fails_with(&output, 1, &["[MASK]"]);
    let lines = documents(&text(&output.stdout));
    assert!(lines[0]["error"].is_string() && lines[1]["output"].is_string(), "{lines:?}");
    fails_with(&regard(&["predict", &golden("sentences"), "the cat"]), 2, &["regard embed"]);
}

#[test]
fn a_file_scores_a_checkpoint_and_its_heads() {
    let place = tempfile::tempdir().unwrap();
    let labelled = write(&place, "labelled.csv", "text,label\nthe cat sat,sad\na dog ran,glad\nshe saw it,odd\n");
    let scores = json(&["eval", &golden("bert-classifier"), "--data", &labelled]);
    assert!(scores["metrics"]["accuracy"].is_number() && scores["examples"] == 3, "{scores}");
    let heads = json(&["heads", &golden("bert-classifier"), "--data", &labelled]);
    assert_eq!(heads["heads"].as_array().unwrap().len(), 8);
    assert!(heads["heads"][0]["entropy"].as_f64().unwrap() > 0.0, "{heads}");
    let plain = write(&place, "plain.txt", "the cat sat on the mat and the cat ran.\n".repeat(5));
    let scores = json(&["eval", &golden("gpt2"), "--data", &plain]);
    let loss = scores["metrics"]["loss"].as_f64().unwrap();
    assert!((scores["metrics"]["perplexity"].as_f64().unwrap() - loss.exp()).abs() < 1e-6 * loss.exp(), "{scores}");
    fails_with(&regard(&["eval", &golden("gpt2")]), 2, &["--data"]);
    fails_with(&regard(&["eval", &golden("bert"), "--data", &plain]), 2, &["no head"]);
    let other = write(&place, "other.csv", "text,label\nthe cat,furious\n");
    fails_with(&regard(&["eval", &golden("bert-classifier"), "--data", &other]), 1, &["furious", "sad, glad, odd"]);
}

#[test]
fn an_answer_has_the_same_bits_alone_and_among_others() {
    let words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "it"];
    let line =
        |at: usize| (0..1 + at * 5 % 17).map(|place| words[(at + place * place) % 9]).collect::<Vec<_>>().join(" ");
    let texts: Vec<String> = (0..40).map(line).collect();
    let all: Vec<&str> = texts.iter().map(String::as_str).collect();
    let together = json(&[&["embed", &golden("sentences")][..], &all].concat());
    let labels = done(&regard(&[&["predict", &golden("bert-classifier"), "--json"][..], &all].concat()));
    let labels = documents(&labels);
    for at in [0, 3, 7, 20, 39] {
        let alone = json(&["embed", &golden("sentences"), all[at]]);
        assert_eq!(alone["embeddings"][0], together["embeddings"][at], "{}", all[at]);
        assert_eq!(json(&["predict", &golden("bert-classifier"), all[at]]), labels[at], "{}", all[at]);
    }
}

/// Returns the number of heads that `regard heads` measures on a file.
fn measured(folder: &str, data: &str) -> usize {
    let found = json(&["heads", folder, "--data", data]);
    let heads = found["heads"].as_array().unwrap();
    assert!(heads.iter().all(|head| head["cost"].is_number() && head["entropy"].is_number()), "{found}");
    heads.len()
}

#[test]
fn taggers_are_scored_by_the_tags_of_words() {
    let place = tempfile::tempdir().unwrap();
    let folder = golden("bert-tagger");
    let predicted = json(&["predict", &folder, "the cat sat on the mat"]);
    let (tokens, tags) = (predicted["tokens"].as_array().unwrap(), predicted["tags"].as_array().unwrap());
    assert_eq!(tokens.len(), 6, "a piece is a word here: {predicted}");
    let lines = |wrong: usize| {
        let line = |(at, (token, tag)): (usize, (&Value, &Value))| {
            let tag = if at < wrong { "unheard" } else { tag.as_str().unwrap() };
            format!("{}\t{tag}\n", token.as_str().unwrap())
        };
        tokens.iter().zip(tags).enumerate().map(line).collect::<String>()
    };
    let nats = |tags: &Value| -> f64 { tags.as_array().unwrap().iter().map(|p| -p.as_f64().unwrap().ln()).sum() };
    let scores = json(&["eval", &folder, "--data", &write(&place, "right.tsv", lines(0))]);
    assert_eq!(scores["metrics"]["accuracy"], 1.0, "{scores}");
    let loss = nats(&predicted["probabilities"]) / 6.0;
    assert!((scores["metrics"]["loss"].as_f64().unwrap() - loss).abs() < 1e-6, "{scores}: {loss}");
    let wrong = write(&place, "wrong.tsv", lines(2));
    let scores = json(&["eval", &folder, "--data", &wrong]);
    assert!((scores["metrics"]["accuracy"].as_f64().unwrap() - 4.0 / 6.0).abs() < 1e-9, "{scores}");
    assert_eq!(measured(&folder, &wrong), 8);
}

#[test]
fn masked_models_are_scored_by_the_words_they_guess() {
    let place = tempfile::tempdir().unwrap();
    let folder = golden("bert-masked");
    let best = json(&["predict", &folder, "[MASK]"])["candidates"][0][0].clone();
    let (word, probability) = (best["token"].as_str().unwrap(), best["probability"].as_f64().unwrap());
    let file = write(&place, "one.txt", format!("{word}\n"));
    let scores = json(&["eval", &folder, "--data", &file]);
    assert_eq!((&scores["examples"], &scores["metrics"]["accuracy"]), (&Value::from(1), &Value::from(1.0)), "{scores}");
    assert!((scores["metrics"]["loss"].as_f64().unwrap() + probability.ln()).abs() < 1e-6, "{scores}: {best}");
    let long = write(&place, "long.txt", "the cat sat on the mat and the dog ran. ".repeat(50));
    assert_eq!(measured(&folder, &long), 8);
}

#[test]
fn classifiers_of_pictures_and_translators_are_scored() {
    let place = tempfile::tempdir().unwrap();
    let folder = golden("vit");
    let size = ImageSize { channels: 3, height: 9, width: 7 };
    let image = Image { size, pixels: (0..3 * 63).map(|at| at as u8).collect() };
    let picture = write(&place, "one.png", image.to_png());
    let label = json(&["predict", &folder, &picture])["label"].as_str().unwrap().to_string();
    let data = place.path().join("pictures");
    fs::create_dir_all(data.join(&label)).unwrap();
    fs::copy(&picture, data.join(&label).join("one.png")).unwrap();
    let scores = json(&["eval", &folder, "--data", path(&data)]);
    assert_eq!(scores["metrics"]["accuracy"], 1.0, "{scores}");
    assert!(measured(&folder, path(&data)) > 0);

    let words = with_words(&golden("marian"), 40);
    let folder = path(words.path());
    let translation = json(&["predict", folder, "w5 w9 w11"])["translation"].as_str().unwrap().to_string();
    assert!(!translation.is_empty());
    let file = write(&place, "pairs.tsv", format!("w5 w9 w11\t{translation}\n"));
    let scores = json(&["eval", folder, "--data", &file]);
    assert_eq!(scores["metrics"]["exact"], 1.0, "{scores}");
    assert!(scores["metrics"]["loss"].as_f64().unwrap() > 0.0, "{scores}");
    assert!(measured(folder, &file) > 0);
    fails_with(&regard(&["eval", &golden("marian"), "--data", &file]), 1, &["tokenizer.json"]);
}

#[test]
fn a_picture_is_classified() {
    let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/images");
    let picture = fs::read_dir(pictures).unwrap().flatten().map(|entry| entry.path());
    let mut pngs: Vec<PathBuf> = picture.filter(|path| path.extension().is_some_and(|end| end == "png")).collect();
    pngs.sort();
    let found = json(&["predict", &golden("vit"), path(&pngs[0])]);
    assert!(found["label"].as_str().unwrap().starts_with("LABEL_"), "{found}");
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("look.json");
    done(&regard(&["look", &golden("vit"), path(&pngs[0]), "--out", path(&out)]));
}

#[test]
fn text_is_generated_and_looked_at() {
    let folder = golden("gpt2");
    let greedy = ["generate", &folder, "the cat", "--temperature", "0", "--tokens", "6"];
    let (once, again) = (done(&regard(&greedy)), done(&regard(&greedy)));
    assert!(once == again && once.starts_with("the cat"), "{once}");
    let drawn = |seed: &str| {
        done(&regard(&["generate", &folder, "the cat", "--tokens", "6", "--temperature", "1", "--seed", seed]))
    };
    assert_eq!(drawn("3"), drawn("3"));
    // The model has 40 positions; a text ends with them.
    done(&regard(&["generate", &folder, "the cat", "--tokens", "100"]));
    fails_with(&regard(&["generate", &golden("bert-masked"), "the cat"]), 2, &["no language model"]);
    let place = tempfile::tempdir().unwrap();
    for (name, input) in [("gpt2", "the cat"), ("bert-classifier", "the cat sat"), ("sentences", "the dog")] {
        let out = place.path().join("look.html");
        let told = done(&regard(&["look", &golden(name), input, "--out", path(&out)]));
        assert!(told.contains("8 maps in 2 layers"), "{told}");
    }
    fails_with(&regard(&["look", &folder]), 1, &["to look at"]);
    fails_with(&regard(&["generate", &golden("vit"), "the cat"]), 2, &["no language model"]);
}

#[test]
fn positions_of_every_kind_are_drawn() {
    let place = tempfile::tempdir().unwrap();
    for (name, kinds) in [
        ("bert", &["learned"][..]),
        ("roberta-masked", &["learned"]),
        ("gpt2", &["learned"]),
        ("vit", &["learned"]),
        ("marian", &["learned"]),
        ("llama", &["rope"]),
        ("t5", &["relative", "relative"]),
    ] {
        let shown = json(&["look", &golden(name), "--positions"]);
        let found: Vec<&str> =
            shown["positions"].as_array().unwrap().iter().map(|one| one["kind"].as_str().unwrap()).collect();
        assert_eq!(found, kinds, "{name}: {shown}");
        // Buckets are drawn by distance, up to 12.
        assert!(name != "t5" || shown["positions"][0]["length"] == 13, "{shown}");
        let out = place.path().join("positions.svg");
        done(&regard(&["look", &golden(name), "--positions", "--out", path(&out)]));
    }
}

#[test]
fn text_is_written_as_transformers_writes_it() {
    for (name, vocab) in [("gpt2", 262), ("llama", 48), ("marian", 40), ("t5", 30)] {
        let place = with_words(&golden(name), vocab);
        let file: Value =
            serde_json::from_slice(&fs::read(Path::new(&golden(name)).join("generation.json")).unwrap()).unwrap();
        let words = |ids: &Value| {
            let word = |id: &Value| format!("w{id}");
            ids.as_array().unwrap().iter().map(word).collect::<Vec<_>>().join(" ")
        };
        let prompts: Vec<String> = file["prompts"].as_array().unwrap().iter().map(words).collect();
        for case in file["cases"].as_array().unwrap() {
            write(&place, "generation_config.json", case["settings"].to_string());
            let mut arguments = vec!["generate", path(place.path())];
            arguments.extend(prompts.iter().map(String::as_str));
            let found = json(&arguments);
            for (found, expected) in found.as_array().unwrap().iter().zip(case["written"].as_array().unwrap()) {
                assert_eq!(found["output"].as_str().unwrap().trim(), words(expected), "{name}: {}", case["settings"]);
            }
        }
    }
}

#[test]
fn predictions_end_before_the_stop_strings_of_a_folder() {
    for (name, vocab) in [("llama", 48), ("marian", 40)] {
        let place = with_words(&golden(name), vocab);
        let folder = path(place.path());
        let output = || json(&["predict", folder, "w3 w9 w12"])["output"].as_str().unwrap().to_string();
        for beams in [1, 3] {
            write(&place, "generation_config.json", format!(r#"{{"max_new_tokens": 12, "num_beams": {beams}}}"#));
            let whole = output();
            let stop = whole.split_whitespace().nth(2).unwrap().to_string();
            let settings = format!(r#"{{"max_new_tokens": 12, "num_beams": {beams}, "stop_strings": ["{stop}"]}}"#);
            write(&place, "generation_config.json", settings);
            let ended = output();
            assert!(!ended.contains(&stop) && ended.len() < whole.len(), "{name} {beams}: {whole:?} {ended:?}");
            if beams == 1 {
                assert_eq!(ended, whole[..whole.find(&stop).unwrap()], "{name}");
            }
        }
    }
}

#[test]
fn flags_replace_the_settings_of_a_folder() {
    let place = with_words(&golden("llama"), 48);
    let folder = path(place.path()).to_string();
    let told = |more: &[&str]| done(&regard(&[&["generate", &folder, "w3 w9", "--tokens", "8"], more].concat()));
    let greedy = told(&[]);
    assert_eq!(greedy.split_whitespace().count(), 10, "{greedy}");
    let first = greedy.split_whitespace().nth(2).unwrap().to_string();
    // The text ends before the string, which is left out.
    assert_eq!(told(&["--stop", &first]).trim(), "w3 w9");
    assert_eq!(told(&["--temperature", "1", "--seed", "3"]), told(&["--temperature", "1", "--seed", "3"]));
    let free: Vec<String> = told(&["--no-repeat", "1"]).split_whitespace().map(str::to_string).collect();
    assert_eq!(free.iter().collect::<std::collections::BTreeSet<_>>().len(), free.len(), "{free:?}");
    assert_eq!(told(&["--beams", "3"]).split_whitespace().count(), 10);
    assert_eq!(told(&["--weights", "bf16"]).split_whitespace().count(), 10);
    let refused = |more: &[&str], code: i32, said: &[&str]| {
        fails_with(&regard(&[&["generate", &folder, "w3 w9"], more].concat()), code, said);
    };
    refused(&["--beams", "3", "--temperature", "1"], 2, &["beams = 3"]);
    refused(&["--repetition-penalty", "0"], 2, &["repetition_penalty"]);
    refused(&["--weights", "f8"], 2, &["--weights"]);
    refused(&["--chat"], 1, &["no chat template"]);
    refused(&["--system", "be kind"], 2, &["--chat"]);
    write(&place, "generation_config.json", r#"{"penalty_alpha": 0.6}"#);
    refused(&[], 1, &["generation_config.json", "penalty_alpha"]);
    write(&place, "generation_config.json", r#"{"max_new_tokens": 4}"#);
    assert_eq!(done(&regard(&["generate", &folder, "w3"])).split_whitespace().count(), 5);
    write(&place, "chat_template.jinja", "{% for m in messages %}{{ m.content }} {% endfor %}w7");
    let plain = json(&["generate", &folder, "w9 w3 w7"])["output"].clone();
    assert_eq!(json(&["generate", &folder, "w3", "--chat", "--system", "w9"])["output"], plain);
    refused(&["--chat", "[{\"role\": 1}]"], 1, &["role"]);
    write(&place, "chat_template.jinja", "{{ raise_exception('only cats') }}");
    refused(&["--chat"], 1, &["chat_template.jinja", "only cats"]);
}

#[test]
fn an_exported_folder_is_the_same_model() {
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("out");
    let (from, reference) = (golden("sentences"), golden("sentences/reference.safetensors"));
    done(&regard(&["export", &from, "--to", "hugging-face", path(&to)]));
    for file in ["model.safetensors", "config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json"] {
        assert!(fs::read(to.join(file)).unwrap() == fs::read(Path::new(&from).join(file)).unwrap(), "{file}");
    }
    done(&regard(&["verify", path(&to), "--reference", &reference]));
    fails_with(&regard(&["export", &from, "--to", "hugging-face", path(&to)]), 1, &["already holds"]);
    fails_with(&regard(&["export", &from, "--to", "onnx", path(&to)]), 2, &["hugging-face"]);
    let bad = write(&place, "model.bin", [1; 40]);
    let other = place.path().join("other");
    fails_with(&regard(&["export", &bad, "--to", "hugging-face", path(&other)]), 1, &["llama2.c"]);
    let counted = json(&["count", path(&to)]);
    assert!(counted["stored"].get("difference").is_none(), "{}", counted["stored"]);
}

#[test]
fn counts_equal_what_the_files_hold() {
    for name in
        ["bert-masked", "bert-classifier", "distilbert-masked", "roberta-masked", "gpt2", "qwen2", "qwen3", "t5", "vit"]
    {
        let counted = json(&["count", &golden(name)]);
        assert!(counted["stored"].get("difference").is_none(), "{name}: {}", counted["stored"]);
    }
}

/// Returns a folder or file of the published data, or says why the test is skipped.
fn published(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os("REGARD_DATA").map(|data| PathBuf::from(data).join(name)).filter(|path| path.exists());
    if found.is_none() {
        eprintln!("skipped: REGARD_DATA does not name a folder with {name}");
    }
    found
}

#[test]
fn stories_are_written_as_published() {
    let Some(model) = published("stories260k/stories260K.bin") else { return };
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("stories");
    done(&regard(&["export", path(&model), "--to", "hugging-face", path(&to)]));
    let told = done(&regard(&["generate", path(&to), "", "--temperature", "0", "--tokens", "60"]));
    let published = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park.";
    assert!(told.trim_start().starts_with(published), "{told}");
    let told = done(&regard(&["generate", path(&to), "Once upon a time", "--temperature", "0", "--tokens", "60"]));
    assert!(told.starts_with(published), "{told}");
}

#[test]
fn minilm_has_the_embeddings_of_sentence_transformers() {
    let Some(folder) = published("all-minilm-l6-v2") else { return };
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/minilm.json");
    let expected: Value = serde_json::from_slice(&fs::read(expected).unwrap()).unwrap();
    let texts: Vec<&str> = expected["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let document = json(&[&["embed", path(&folder)][..], &texts].concat());
    for (ours, theirs) in
        document["embeddings"].as_array().unwrap().iter().zip(expected["embeddings"].as_array().unwrap())
    {
        let numbers = |row: &Value| row.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect::<Vec<f64>>();
        let (ours, theirs) = (numbers(ours), numbers(theirs));
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let cosine = product(&ours, &theirs) / (product(&ours, &ours) * product(&theirs, &theirs)).sqrt();
        assert!(ours.len() == 384 && cosine >= 0.9999, "{cosine}");
    }
}
