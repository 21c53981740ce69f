//! Tests of the task on recordings with files: train, check, predict, eval, look, and what bad recordings lead to.

mod binary;

use std::fs;
use std::path::Path;

use binary::{documents, done, last_document, path, regard, sets, text};
use regard_data::{Sound, encode_wav};
use serde_json::json;

const SMALL: [&str; 9] = [
    "model.d_model=16",
    "model.n_layers=1",
    "model.n_heads=2",
    "model.d_ff=16",
    "model.dropout=0",
    "train.learning_rate=1e-2",
    "train.batch_examples=8",
    "train.warmup=2",
    "train.evaluate_every=10",
];

/// A low (`a`) or a high tone (`b`) for each letter.
fn tones(letters: &str, number: usize) -> Sound {
    let mut samples = Vec::new();
    for letter in letters.chars() {
        let turn = if letter == 'a' { 0.3 } else { 1.5 } + 0.002 * number as f32;
        samples.extend((0..1_600 + 40 * number).map(|n| 0.3 * (turn * n as f32).sin()));
        samples.resize(samples.len() + 400, 0.0);
    }
    Sound { rate: 8_000, samples }
}

fn write(file: &Path, sound: &Sound) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, encode_wav(sound)).unwrap();
}

#[test]
fn recordings_with_labels_are_learned_and_used() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("tones");
    for number in 0..16 {
        for (letter, speaker) in [("a", "ann"), ("b", "bob")] {
            write(&data.join(format!("{letter}_{speaker}_{number}.wav")), &tones(letter, number));
        }
    }
    let held = ["data.test_index=0-3", "data.dev_index=4-5"];
    let checked = regard(&[&["data", "check", "speech", path(&data)][..], &sets(&held)].concat());
    assert!(done(&checked).contains("a 10, b 10"), "{}", text(&checked.stdout));
    let out = place.path().join("model");
    let model = path(&out);
    let train = ["train", "speech", "--data", path(&data), "--out", model, "--steps", "40"];
    let told = regard(&[&train[..], &sets(&held), &sets(&SMALL)].concat());
    let said = done(&told) + &text(&told.stderr);
    assert!(said.contains("recordings: 20 train, 4 dev, 8 test"), "{said}");
    let scored = last_document(&done(&regard(&["eval", model, "--json"])));
    assert_eq!(scored["metrics"]["accuracy"], 1.0, "{scored}");

    // A bad recording is refused alone.
    let whole = encode_wav(&tones("a", 1));
    let file = |name: &str, bytes: &[u8]| {
        let file = place.path().join(name);
        fs::write(&file, bytes).unwrap();
        file
    };
    let changed = |at: usize, bytes: &[u8]| {
        let mut changed = whole.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let mut float = changed(20, &3u16.to_le_bytes());
    float[32..36].copy_from_slice(&[4, 0, 32, 0]);
    float.truncate(44);
    float[40..44].copy_from_slice(&8u32.to_le_bytes());
    float.extend([0.5f32, f32::NAN].map(f32::to_le_bytes).concat());
    let stereo = {
        let sound = tones("b", 2).samples.into_iter().flat_map(|x| [x, x]).collect();
        let mut bytes = encode_wav(&Sound { rate: 8_000, samples: sound });
        bytes[22] = 2;
        bytes[32] = 4;
        bytes
    };
    let cases = [
        (file("good.wav", &whole), ""),
        (file("cut.wav", &whole[..1_000]), "the file is truncated or its header is wrong"),
        (file("lies.wav", &changed(40, &u32::MAX.wrapping_sub(9).to_le_bytes())), "4294967286 bytes of samples"),
        (file("none.wav", &changed(40, &[0; 4])), "the sound is empty"),
        (file("nan.wav", &float), "NaN at sample 1"),
        (file("rate.wav", &changed(24, &[0; 4])), "samples per second, found 0"),
        (file("channels.wav", &changed(22, &[255, 255])), "1 to 64 channels, found 65535"),
        (
            file("short.wav", &encode_wav(&Sound { rate: 8_000, samples: vec![0.1; 50] })),
            "a sound as long as one window",
        ),
        (file("text.wav", b"no sound"), "expected a WAV file"),
        (place.path().join("missing.wav"), "there is no such file"),
        (file("silence.wav", &encode_wav(&Sound { rate: 8_000, samples: vec![0.0; 800] })), ""),
        (file("stereo.wav", &stereo), ""),
    ];
    let inputs: Vec<&str> = cases.iter().map(|(file, _)| path(file)).collect();
    let output = regard(&[&["predict", model, "--json"][..], &inputs].concat());
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let answers = documents(&text(&output.stdout));
    assert_eq!(answers.len(), cases.len(), "{}", text(&output.stderr));
    for (answer, (file, words)) in answers.iter().zip(&cases) {
        match words.is_empty() {
            true => assert!(answer["label"].is_string(), "{}: {answer}", file.display()),
            false => assert!(answer["error"].to_string().contains(words), "{}: {answer}", file.display()),
        }
    }
    assert_eq!((&answers[0]["label"], &answers[11]["label"]), (&json!("a"), &json!("b")));
    let picture = place.path().join("look.png");
    done(&regard(&["look", model, inputs[0], "--out", path(&picture)]));
    assert!(fs::metadata(&picture).unwrap().len() > 5_000);
    // A whole folder that the model is scored on.
    let scored = last_document(&done(&regard(&["eval", model, "--data", path(&data), "--json"])));
    assert_eq!(scored["examples"], 32, "{scored}");
}

#[test]
fn texts_are_learned_and_heard() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("strings");
    let texts = ["a", "b", "ab", "ba", "aa", "bb", "aba", "abb", "bab", "baa"];
    for (split, numbers) in [("train", 0..4), ("dev", 4..5), ("test", 5..6)] {
        let mut lines = String::new();
        for number in numbers {
            for text in texts {
                let name = format!("{split}/{text}-{number}.wav");
                write(&data.join(&name), &tones(text, number));
                lines += &format!("{name}\t{text}\n");
            }
        }
        fs::write(data.join(format!("{split}.tsv")), lines).unwrap();
    }
    let out = place.path().join("model");
    let model = path(&out);
    let train = ["train", "speech", "--data", path(&data), "--out", model, "--steps", "150"];
    let told = regard(&[&train[..], &sets(&SMALL), &sets(&["data.target=text", "data.stride=4"])].concat());
    let said = done(&told) + &text(&told.stderr);
    assert!(said.contains("2 characters: \"a\", \"b\""), "{said}");
    let scored = last_document(&done(&regard(&["eval", model, "--json"])));
    assert!(scored["metrics"]["cer"].as_f64().unwrap() <= 0.1, "{scored}");
    let heard = path(&data.join("test/aba-5.wav")).to_string();
    let answer = last_document(&done(&regard(&["predict", model, "--json", &heard])));
    assert_eq!(answer["transcript"], "aba", "{answer}");
    let listed = regard(&["predict", model, "--json", "--input", path(&data.join("test.tsv"))]);
    assert_eq!(documents(&done(&listed)).len(), texts.len());
    let picture = place.path().join("look.svg");
    done(&regard(&["look", model, &heard, "--out", path(&picture)]));
    assert!(fs::read_to_string(&picture).unwrap().contains("a at 0."));
}

#[test]
fn strings_are_made_from_recordings() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("tones");
    for number in 0..11 {
        for letter in ["a", "b"] {
            write(&data.join(format!("{letter}_ann_{number}.wav")), &tones(letter, 0));
        }
    }
    let out = place.path().join("strings");
    let said = done(&regard(&["data", "make", "speech", "--from", path(&data), "--out", path(&out)]));
    assert!(said.contains("test.tsv with 500 recordings"), "{said}");
    let lines = fs::read_to_string(out.join("test.tsv")).unwrap();
    let (name, string) = lines.lines().nth(1).unwrap().split_once('\t').unwrap();
    assert!((3..=7).contains(&string.len()) && out.join(name).is_file(), "{name} {string}");
    let checked = regard(&["data", "check", "speech", path(&out), "--set", "data.target=text"]);
    assert!(done(&checked).contains("3000"), "{}", text(&checked.stdout));
    let error = regard(&["data", "make", "speech", "--from", path(&data.join("a_ann_0.wav")), "--out", path(&out)]);
    assert!(text(&error.stderr).contains("a folder or an archive of WAV files"), "{}", text(&error.stderr));
}
