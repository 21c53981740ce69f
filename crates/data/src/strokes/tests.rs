use super::*;
use crate::testing::write;
use crate::{Split, Target};
use std::collections::BTreeSet;
use tempfile::{TempDir, tempdir};

fn file(content: &str) -> (TempDir, std::path::PathBuf) {
    let dir = tempdir().unwrap();
    let path = write(&dir, "lines.jsonl", content.as_bytes());
    (dir, path)
}

#[test]
fn lines_are_read_as_they_were_written() {
    let example =
        Handwritten { text: "a \"b\"".into(), strokes: vec![vec![[0.1, -2.0], [3.25, 1e-3]], vec![[7.0, 7.0]]] };
    let (_dir, path) = file(&example.line());
    assert_eq!(read_strokes(&path).unwrap().examples, std::slice::from_ref(&example));
    assert!(example.line().contains("[0.1,-2.0]"), "{}", example.line());
    let moved = Handwritten { strokes: vec![vec![[0.1, -2.0]], vec![[3.25, 1e-3], [7.0, 7.0]]], ..example.clone() };
    assert_ne!(moved.hash(), example.hash());
}

#[test]
fn wrong_lines_are_named() {
    for (line, told) in [
        (r#"{"text": "a"}"#, "the key \"strokes\""),
        (r#"{"strokes": [[[1, 2]]]}"#, "the key \"text\""),
        (r#"{"text": 1, "strokes": [[[1, 2]]]}"#, "a string under \"text\""),
        (r#"{"text": "a", "strokes": []}"#, "at least one stroke"),
        (r#"{"text": "a", "strokes": [[[1, 2]], []]}"#, "at least one point in strokes[1]"),
        (r#"{"text": "a", "strokes": [[[1, 2], [1]]]}"#, "strokes[0][1]"),
        (r#"{"text": "a", "strokes": [[[1, 2, 3]]]}"#, "strokes[0][0]"),
        (r#"{"text": "a", "strokes": [[[1, null]]]}"#, "strokes[0][0]"),
        (r#"{"text": "a", "strokes": [[[1, 1e39]]]}"#, "below 3.4e38"),
        (r#"{"text": "a", "strokes": [[1, 2]]}"#, "strokes[0][0]"),
        (r#"{"text": "a", "strokes": "x"}"#, "a list of strokes"),
        (r#"{"text": "a", "strokes": [[[1, NaN]]]}"#, "JSON object"),
    ] {
        let good = r#"{"text": "a", "strokes": [[[1, 2]]]}"#;
        let (_dir, path) = file(&format!("{good}\n{line}\n"));
        let error = read_strokes(&path).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains(told), "{line}: {error}");
    }
}

fn unipen(writers: usize) -> String {
    let mut text = ".HIERARCHY DIGIT\n".to_string();
    for writer in 0..writers {
        for digit in 0..3 {
            text += &format!(".SEGMENT DIGIT {digit} ? \"{digit}\"\n.COMMENT {digit} {writer} 7\n");
            text += &format!(".PEN_DOWN\n 0 {}\n {digit} 0\n.PEN_UP\n.PEN_DOWN\n 5 5\n.PEN_UP\n", 10 + writer);
        }
    }
    text
}

#[test]
fn characters_of_one_writer_become_lines() {
    let dir = tempdir().unwrap();
    let path = write(&dir, "digits.unipen", unipen(12).as_bytes());
    let lines = convert_strokes(&path, 1).unwrap();
    assert_eq!(lines, convert_strokes(&path, 1).unwrap(), "a seed gives the same lines");
    assert_ne!(lines, convert_strokes(&path, 2).unwrap());
    for line in lines.train.iter().take(50) {
        assert!((3..=6).contains(&line.text.len()) && line.text.chars().all(|c| "012".contains(c)), "{}", line.text);
        assert_eq!(line.strokes.len(), 2 * line.text.len(), "two strokes for each digit");
        // In UNIPEN `y` grows upwards: the first stroke of a digit goes down on the page.
        assert!(line.strokes[0][0][1] < line.strokes[0].last().unwrap()[1]);
        // Digits stand side by side.
        assert!(line.strokes.last().unwrap()[0][0] > line.strokes[0][0][0]);
    }
    let few = write(&dir, "few.unipen", unipen(2).as_bytes());
    let error = convert_strokes(&few, 1).unwrap_err().to_string();
    assert!(error.contains("few.unipen") && error.contains("three hands"), "{error}");
}

#[test]
fn a_font_becomes_lines() {
    let glyph = |c: char| {
        format!("<glyph unicode=\"{c}\" horiz-adv-x=\"300\" d=\"M 0 0 L 100 700 M 50 300 C 60 300 80 310 90 300\"/>")
    };
    let letters: String = ('a'..='z').map(glyph).collect();
    let font = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\"><defs><font horiz-adv-x=\"378\">{letters}</font></defs></svg>"
    );
    let dir = tempdir().unwrap();
    let path = write(&dir, "hand.svg", font.as_bytes());
    let lines = convert_strokes(&path, 1).unwrap();
    let used: BTreeSet<char> = lines.train.iter().flat_map(|line| line.text.chars()).collect();
    assert_eq!(used.len(), 27, "{used:?}");
    let letters = |line: &Handwritten| line.text.chars().filter(|c| *c != ' ').count();
    assert!(lines.train.iter().all(|line| line.strokes.len() == 2 * letters(line)));
    // The folder of the font is the same; other files are refused by name.
    assert_eq!(convert_strokes(dir.path(), 1).unwrap(), lines);
    for (name, content, told) in [
        ("broken.svg", "<svg><glyph", "an SVG font"),
        ("path.svg", "<svg><glyph unicode=\"a\" d=\"M 1 2 A 3 4\"/></svg>", "the glyph 'a'"),
        ("none.svg", "<svg></svg>", "small letters"),
        ("letters.txt", "a", "UNIPEN"),
    ] {
        let dir = tempdir().unwrap();
        let error = convert_strokes(&write(&dir, name, content.as_bytes()), 1).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains(told), "{error}");
    }
    assert!(matches!(convert_strokes(std::path::Path::new("nowhere"), 1), Err(DataError::Missing { .. })));
}

#[test]
fn drawings_of_letters_become_lines() {
    let dir = tempdir().unwrap();
    for letter in 1..=26 {
        let folder = dir.path().join(format!("Latin/character{letter:02}"));
        std::fs::create_dir_all(&folder).unwrap();
        for drawer in 1..=12 {
            let drawing = "START\n10,-20,0\n12.5,-90,30\nBREAK\n40,-50,60\n41,-50,70\nBREAK\n";
            std::fs::write(folder.join(format!("{:04}_{drawer:02}.txt", 600 + letter)), drawing).unwrap();
        }
    }
    let lines = convert_strokes(dir.path(), 1).unwrap();
    for split in Split::ALL {
        assert!(lines.get(split).iter().all(|line| !line.text.is_empty() && line.text.trim() == line.text));
    }
    std::fs::write(dir.path().join("Latin/character01/0601_01.txt"), "START\n1,2\n3;4\n").unwrap();
    let error = convert_strokes(dir.path(), 1).unwrap_err().to_string();
    assert!(error.contains("0601_01.txt, line 3"), "{error}");
}

#[test]
fn unipen_is_still_read_as_vectors() {
    let dir = tempdir().unwrap();
    let path = write(&dir, "digits.unipen", unipen(1).as_bytes());
    let examples = crate::read_vectors(&path).unwrap().examples;
    assert_eq!(examples[1].target, Some(Target::Label("1".into())));
    assert_eq!(examples[1].features, [0.0, 10.0, 0.0, 1.0, 0.0, 1.0, 5.0, 5.0, 1.0]);
}
