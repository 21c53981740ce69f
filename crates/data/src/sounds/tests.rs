//! Tests of the layouts of recordings.

use super::*;
use crate::Fold;
use crate::builtin::Sizes;
use crate::testing::write;
use std::fs;
use std::path::PathBuf;
use tempfile::{TempDir, tempdir};

/// A WAV file with ten samples that differ from those of other numbers.
fn wav(number: usize) -> Vec<u8> {
    let samples = (0..10).map(|at| (number * 10 + at) as f32 / 8_192.0).collect();
    encode_wav(&Sound { rate: 8_000, samples })
}

fn folder(names: &[&str]) -> TempDir {
    let dir = tempdir().unwrap();
    for (at, name) in names.iter().enumerate() {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, wav(at)).unwrap();
    }
    dir
}

fn load(path: impl Into<PathBuf>, held: &HeldRecordings) -> Result<Splits<Recording>, String> {
    load_recordings(&Source { path: path.into(), fold: None }, 8_000, held).map_err(|error| error.to_string())
}

fn answers(recordings: &[Recording]) -> Vec<&str> {
    recordings.iter().map(|recording| recording.answer.as_str()).collect()
}

/// Names of many recordings of two speakers.
fn many() -> Vec<String> {
    let name = |at: usize| format!("{}_{}_{}.wav", at % 3, if at.is_multiple_of(2) { "ann" } else { "bob" }, at / 6);
    (0..120).map(name).collect()
}

#[test]
fn names_tell_label_speaker_and_index() {
    let names = many();
    let dir = folder(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let held = HeldRecordings { test_index: Some(Indices::new(0, 4).unwrap()), ..HeldRecordings::default() };
    let splits = load(dir.path(), &held).unwrap();
    assert_eq!(splits.test.len(), 30);
    assert!(splits.test.iter().all(|one| one.index.unwrap() <= 4));
    assert!(splits.train.iter().chain(&splits.dev).all(|one| one.index.unwrap() > 4));
    let held = HeldRecordings {
        test_speaker: Some("bob".into()),
        dev_index: Some(Indices::new(2, 2).unwrap()),
        ..HeldRecordings::default()
    };
    let splits = load(dir.path(), &held).unwrap();
    assert_eq!((splits.test.len(), splits.dev.len(), splits.train.len()), (60, 3, 57));
    assert!(splits.test.iter().all(|one| one.speaker.as_deref() == Some("bob")));
    let told = |held: HeldRecordings| load(dir.path(), &held).unwrap_err();
    let error = told(HeldRecordings { test_speaker: Some("eve".into()), ..HeldRecordings::default() });
    assert!(error.contains("data.test_speaker") && error.contains("ann, bob") && error.contains("eve"), "{error}");
    let error = told(HeldRecordings { dev_index: Indices::new(90, 99).ok(), ..HeldRecordings::default() });
    assert!(error.contains("data.dev_index") && error.contains("90-99, which none has"), "{error}");
    let source = Source { path: dir.path().to_path_buf(), fold: Some(Fold::new(1, 3).unwrap()) };
    assert!(load_recordings(&source, 8_000, &HeldRecordings::default()).unwrap().test.len() > 20);
}

#[test]
fn folders_are_labels_and_parts() {
    let dir = folder(&["yes/a_b_1.wav", "yes/2.wav", "no/3.wav"]);
    let loaded = read_recordings(dir.path(), Some(8_000)).unwrap().examples;
    assert_eq!(answers(&loaded), ["no", "yes", "yes"]);
    assert_eq!(loaded[2].speaker.as_deref(), Some("b"));
    let dir = folder(&["train/yes/1.wav", "train/no/2.wav", "val/yes/3.wav", "test/no/4.wav"]);
    let splits = load(dir.path(), &HeldRecordings::default()).unwrap();
    assert_eq!(
        (answers(&splits.train), answers(&splits.dev), answers(&splits.test)),
        (vec!["no", "yes"], vec!["yes"], vec!["no"])
    );
    assert!(read_recordings(dir.path(), Some(8_000)).unwrap_err().to_string().contains("several parts"));
    let held = HeldRecordings { test_speaker: Some("x".into()), ..HeldRecordings::default() };
    assert!(load(dir.path(), &held).unwrap_err().contains("the data have parts of their own"));
    let dir = folder(&["corpus-1/data/train/yes/1.wav", "corpus-1/data/dev/no/2.wav", "corpus-1/data/test/no/3.wav"]);
    let splits = load(dir.path(), &HeldRecordings::default()).unwrap();
    assert_eq!([splits.train, splits.dev, splits.test].map(|part| part[0].answer.clone()), ["yes", "no", "no"]);
    let dir = folder(&["corpus-1/wav/yes_ann_1.wav", "corpus-1/wav/no_bob_2.wav"]);
    assert_eq!(answers(&read_recordings(dir.path(), None).unwrap().examples), ["no", "yes"]);
    let dir = folder(&["1.wav", "2.wav"]);
    let error = read_recordings(dir.path(), Some(8_000)).unwrap_err().to_string();
    assert!(error.contains("1.wav: expected a name {label}_{speaker}_{index}.wav"), "{error}");
    assert!(
        load(tempdir().unwrap().path(), &HeldRecordings::default())
            .unwrap_err()
            .contains("expected WAV files, found none")
    );
}

#[test]
fn a_manifest_lists_paths_and_texts() {
    let dir = folder(&["a/1.wav", "a/2.wav", "3.wav"]);
    write(&dir, "train.tsv", b"path\ttext\na/1.wav\tone two\n\n3.wav\tthree\n");
    write(&dir, "dev.tsv", b"a/2.wav\tfour\n");
    write(&dir, "test.tsv", b"a/2.wav\tfour\n");
    let splits = load(dir.path(), &HeldRecordings::default()).unwrap();
    assert_eq!((answers(&splits.train), answers(&splits.dev)), (vec!["one two", "three"], vec!["four"]));
    let print = fingerprint_recordings(dir.path()).unwrap();
    write(&dir, "dev.tsv", b"a/2.wav\tfive\n");
    assert_ne!(print, fingerprint_recordings(dir.path()).unwrap());
    let manifest = dir.path().join("train.tsv");
    assert_eq!(answers(&read_recordings(&manifest, Some(8_000)).unwrap().examples), ["one two", "three"]);
    let names = recording_names(&manifest).unwrap().unwrap();
    assert!(names.len() == 2 && names[0].ends_with("a/1.wav") && read_sound(names[0].as_ref()).is_ok());
    assert_eq!(recording_names(&dir.path().join("3.wav")).unwrap().unwrap().len(), 1);
    for (line, words) in [
        (
            "a/9.wav\tx",
            "line 2: expected the path of a WAV file below the folder of the manifest, found \"a/9.wav\", which is not there",
        ),
        ("../3.wav\tx", "found \"../3.wav\""),
        ("3.wav\t", "no label for \"3.wav\""),
        ("3.wav x", "expected path<TAB>label, found 1 column"),
    ] {
        let path = write(&dir, "bad.tsv", format!("3.wav\tx\n{line}\n").as_bytes());
        let error = read_recordings(&path, Some(8_000)).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn archives_are_folders() {
    let dir = tempdir().unwrap();
    let archive = |file: &str, names: &[&str]| {
        let mut builder = tar::Builder::new(Vec::new());
        for (at, name) in names.iter().enumerate() {
            let content = wav(at);
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            builder.append_data(&mut header, name, content.as_slice()).unwrap();
        }
        write(&dir, file, &builder.into_inner().unwrap())
    };
    let path = archive("sounds.tar", &["recordings/0_ann_0.wav", "recordings/1_ann_1.wav", "recordings/README"]);
    let loaded = read_recordings(&path, Some(8_000)).unwrap().examples;
    assert_eq!(answers(&loaded), ["0", "1"]);
    assert!(loaded[1].name.ends_with("sounds.tar#recordings/1_ann_1.wav"));
    assert_eq!(read_sound(loaded[1].name.as_ref()).unwrap(), loaded[1].sound);
    assert!(fingerprint_recordings(&path).is_ok());
    let listed = archive("listed.tar", &["all/0_ann_0.wav", "all/train.tsv"]);
    let error = read_recordings(&listed, Some(8_000)).unwrap_err().to_string();
    assert!(error.contains("an archive without manifests") && error.contains("all/train.tsv"), "{error}");
    let error = read_recordings(&write(&dir, "a.mp3", b"x"), Some(8_000)).unwrap_err().to_string();
    assert!(error.contains("expected a folder or an archive of WAV files"), "{error}");
}

#[test]
fn a_damaged_file_is_named() {
    let dir = folder(&["0_ann_0.wav", "1_ann_0.wav"]);
    fs::write(dir.path().join("1_ann_0.wav"), &wav(1)[..50]).unwrap();
    let error = read_recordings(dir.path(), Some(8_000)).unwrap_err().to_string();
    assert!(error.contains("1_ann_0.wav: expected 20 bytes of samples"), "{error}");
}

#[test]
fn ranges_are_read_from_numbers_and_texts() {
    let read = |text: &str| serde_json::from_str::<Indices>(text).map_err(|error| error.to_string());
    assert_eq!(read("\"0-4\"").unwrap(), Indices::new(0, 4).unwrap());
    assert_eq!(read("7").unwrap().to_string(), "7");
    assert_eq!(String::from(Indices::new(1, 3).unwrap()), "1-3");
    for bad in ["\"4-0\"", "\"x\"", "\"1-\"", "\"\""] {
        assert!(read(bad).unwrap_err().contains("a range of indices such as 0-4"), "{bad}");
    }
}

#[test]
fn strings_are_joined_from_recordings_of_their_part() {
    let names = many();
    let dir = folder(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let recordings = read_recordings(dir.path(), Some(8_000)).unwrap().examples;
    let sizes = Sizes { train: 20, dev: 5, test: 10 };
    let strings = joined(&recordings, sizes, 1).unwrap();
    assert_eq!((strings.train.len(), strings.dev.len(), strings.test.len()), (20, 5, 10));
    assert_eq!(strings, joined(&recordings, sizes, 1).unwrap());
    assert_ne!(strings, joined(&recordings, sizes, 2).unwrap());
    for string in &strings.test {
        let count = string.answer.len();
        assert!((3..=7).contains(&count), "{}", string.answer);
        let pauses = string.sound.samples.len() - 10 * count;
        assert!(pauses <= (count - 1) * 2_400);
        // The first recording is one of the test indices of this speaker.
        let start = &string.sound.samples[..10];
        let source = recordings.iter().find(|one| one.sound.samples == start).unwrap();
        assert!(source.index.unwrap() <= 4 && source.speaker == string.speaker);
        assert!(string.answer.starts_with(&source.answer));
    }
    let none = recordings.iter().filter(|one| one.index.unwrap() > 4).cloned().collect::<Vec<_>>();
    assert!(joined(&none, sizes, 1).unwrap_err().to_string().contains("none for test"));
}
