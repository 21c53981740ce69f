//! Tests of the readers of vectors: each format, each error, and bytes that are no data at all.

use super::*;
use crate::testing::{gzip, write};
use crate::{Fold, fingerprint};
use proptest::prelude::*;
use tempfile::{TempDir, tempdir};

/// Arrays written by NumPy.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/vectors").join(name)
}

fn read(name: &str, content: &[u8]) -> Result<Vec<Vectors>, DataError> {
    let dir = tempdir().unwrap();
    Ok(read_vectors(&write(&dir, name, content))?.examples)
}

/// The features and the target of each example, after checking that the width is the expected one.
fn parts(examples: Vec<Vectors>, width: usize) -> Vec<(Vec<f32>, Option<Target>)> {
    assert!(examples.iter().all(|example| example.width == width), "{examples:?}");
    examples.into_iter().map(|example| (example.features, example.target)).collect()
}

fn label(text: &str) -> Option<Target> {
    Some(Target::Label(text.into()))
}

fn labels(texts: &[&str]) -> Option<Target> {
    Some(Target::Labels(texts.iter().map(ToString::to_string).collect()))
}

fn load(dir: &TempDir, name: &str) -> Result<Splits<Vectors>, DataError> {
    load_vectors(&Source { path: dir.path().join(name), fold: None })
}

#[test]
fn json_lines_with_each_kind_of_target() {
    for (target, expected) in [
        (r#", "label": " a ""#, label("a")),
        (r#", "labels": ["a", "b"]"#, labels(&["a", "b"])),
        (r#", "value": -1.5"#, Some(Target::Value(-1.5))),
        (r#", "values": [1, 2e1]"#, Some(Target::Values(vec![1.0, 20.0]))),
        ("", None),
    ] {
        let text = format!("\n{{\"vectors\": [[1, 2.5, -3], [4, 5, 6]]{target}}}\n");
        for (name, bytes) in [("a.jsonl", text.clone().into_bytes()), ("a.jsonl.gz", gzip(text.as_bytes()))] {
            let examples = read(name, &bytes).unwrap();
            assert_eq!((examples[0].line, examples[0].length()), (Some(2), 2));
            assert_eq!(parts(examples, 3), [(vec![1.0, 2.5, -3.0, 4.0, 5.0, 6.0], expected.clone())]);
        }
    }
    let dir = tempdir().unwrap();
    let text = b"{\"vectors\": [[1]], \"id\": 3}\n{\"vectors\": [[1], [2]]}\n";
    let loaded = read_vectors(&write(&dir, "a.jsonl", text)).unwrap();
    assert!(loaded.notes[0].ends_with("unused keys: id"), "{:?}", loaded.notes);
    assert_eq!(loaded.examples.iter().map(Vectors::length).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn rows_of_a_table_are_gathered_and_sorted_by_step() {
    let text = "id,step,speed,label,height\na,10,1,up,2\nb,1,5,down,6\na,9,3,up,4\n";
    let expected = [(vec![3.0, 4.0, 1.0, 2.0], label("up")), (vec![5.0, 6.0], label("down"))];
    assert_eq!(parts(read("a.csv", text.as_bytes()).unwrap(), 2), expected);
    assert_eq!(parts(read("a.csv.gz", &gzip(text.as_bytes())).unwrap(), 2), expected);
    assert_eq!(parts(read("a.tsv", text.replace(',', "\t").as_bytes()).unwrap(), 2), expected);
    // Steps one millisecond apart, in a time that f32 would round to the same number.
    let text = "id,step,x\na,1700000000001,2\na,1700000000000,1\n";
    assert_eq!(parts(read("a.csv", text.as_bytes()).unwrap(), 1), [(vec![1.0, 2.0], None)]);
}

#[test]
fn a_table_has_each_kind_of_target() {
    for (name, rows, expected) in [
        ("labels", ["p", "q"], labels(&["p", "q"])),
        ("values", ["0.5", "-2"], Some(Target::Values(vec![0.5, -2.0]))),
        ("value", ["3", "3.0"], Some(Target::Value(3.0))),
        ("LABEL", ["p", "p"], label("p")),
    ] {
        let text = format!("ID,x,{name}\n1,0,{}\n1,1,{}\n", rows[0], rows[1]);
        assert_eq!(parts(read("a.csv", text.as_bytes()).unwrap(), 1), [(vec![0.0, 1.0], expected)]);
    }
}

#[test]
fn arrays_of_numpy() {
    let halves: Vec<f32> = (0..12).map(|i| i as f32 / 2.0 - 2.0).collect();
    let doubled: Vec<f32> = halves.iter().map(|x| 2.0 * x).collect();
    let whole = ["x-i1.npy", "x-i2.npy", "x-i4.npy", "x-i8.npy"];
    let real = ["x-f4.npy", "x-f8.npy", "x-fortran.npy", "x-version2.npy", "x-version3.npy", "x-packed.npy.gz"];
    let files = whole.map(|name| (name, &doubled)).into_iter().chain(real.map(|name| (name, &halves)));
    for (name, expected) in files {
        let examples = read_vectors(&golden(name)).unwrap().examples;
        assert!(examples.iter().all(|example| example.width == 2 && example.length() == 3), "{name}");
        assert_eq!(examples.iter().flat_map(|e| e.features.clone()).collect::<Vec<_>>(), *expected, "{name}");
    }
    let flat = parts(read_vectors(&golden("x-flat.npy")).unwrap().examples, 6);
    assert_eq!(flat, [(halves[..6].to_vec(), label("1")), (halves[6..].to_vec(), label("0"))]);
    let bytes = parts(read_vectors(&golden("x-unsigned.npy")).unwrap().examples, 2);
    assert_eq!(bytes, [(vec![0.0, 255.0], None), (vec![1.0, 128.0], None)]);
}

#[test]
fn targets_of_numpy() {
    let values = |values: [f32; 3]| Some(Target::Values(values.to_vec()));
    for (name, expected) in [
        ("x-f4.npy", [label("-1"), label("9007199254740993")]),
        ("x-f8.npy", [Some(Target::Value(0.25)), Some(Target::Value(-1.5))]),
        ("x-fortran.npy", [label("a"), label("ünïcode 🖋")]),
        ("x-version2.npy", [labels(&["0", "1", "2"]), labels(&["3", "4", "5"])]),
        ("x-packed.npy.gz", [values([0.5, 1.0, 2.0]), values([3.0, 4.0, 5.0])]),
        ("x-version3.npy", [None, None]),
    ] {
        let targets: Vec<_> = read_vectors(&golden(name)).unwrap().examples.into_iter().map(|e| e.target).collect();
        assert_eq!(targets, expected, "{name}");
    }
}

#[test]
fn points_of_strokes() {
    let text = ".COMMENT 1 2\nfree text\n.SEGMENT DIGIT 0 ? \"8\"\n.COMMENT 8 6\n.PEN_DOWN\n 1 -2\n 3 4\n.PEN_UP\n.DT 100\n\
                .PEN_DOWN\n5 6\n.PEN_UP\n\n.SEGMENT DIGIT 1-2 ? \"1\"\n.PEN_DOWN\n7 8\n";
    let eight = vec![1.0, -2.0, 0.0, 3.0, 4.0, 1.0, 5.0, 6.0, 1.0];
    let expected = [(eight, label("8")), (vec![7.0, 8.0, 1.0], label("1"))];
    assert_eq!(parts(read("a.unipen", text.as_bytes()).unwrap(), 3), expected);
}

#[test]
fn bad_lines_are_named() {
    let vectors = r#"{"vectors": [[1, 2]], "label": "a"}"#;
    let json = |rest: &str| format!("{vectors}\n{rest}\n");
    for (name, text, expected) in [
        ("a.jsonl", json("[1]"), "line 2: expected a JSON object"),
        ("a.jsonl", json("{}"), "line 2: expected the key \"vectors\", found no key"),
        ("a.jsonl", json(r#"{"vectors": []}"#), "line 2: expected at least one vector in vectors, found an empty list"),
        ("a.jsonl", json(r#"{"vectors": [[]]}"#), "expected at least one number in vectors[0]"),
        ("a.jsonl", json(r#"{"vectors": 3}"#), "expected a list of vectors in vectors, found \"3\""),
        ("a.jsonl", json(r#"{"vectors": [1, 2]}"#), "expected a list of numbers in vectors[0], found \"1\""),
        ("a.jsonl", json(r#"{"vectors": [[1, 2], [1]]}"#), "expected 2 numbers in vectors[1] as in all examples"),
        ("a.jsonl", r#"{"vectors": [[1], [1, 2]]}"#.into(), "1 number in vectors[1] as in the first vector, found 2"),
        ("a.jsonl", json(r#"{"vectors": [[1, null]]}"#), "expected a number in vectors[0][1], found \"null\""),
        ("a.jsonl", json(r#"{"vectors": [[1, "2"]]}"#), "expected a number in vectors[0][1]"),
        ("a.jsonl", json(r#"{"vectors": [[1, -1e39]]}"#), "expected a number below 3.4e38 in vectors[0][1]"),
        ("a.jsonl", json(r#"{"vectors": [[1, 1e999]]}"#), "line 2: expected a JSON object"),
        ("a.jsonl", json(r#"{"vectors": [[1, 2]]}"#), "line 2: expected label as in line 1, found no target"),
        ("a.jsonl", json(r#"{"vectors": [[1, 2]], "value": 1}"#), "expected label as in line 1, found value"),
        ("a.jsonl", json(r#"{"vectors": [[1, 2]], "label": 1}"#), "a string in label, found the number 1; put quotes"),
        ("a.jsonl", json(r#"{"vectors": [[1, 2]], "label": true}"#), "expected a string in label, found true"),
        ("a.jsonl", json(r#"{"vectors": [[1, 2]], "label": " "}"#), "expected a string in label"),
        (
            "a.jsonl",
            json(r#"{"vectors": [[1, 2]], "labels": [1]}"#),
            "expected a string in labels[0], found the number",
        ),
        ("a.jsonl", json(r#"{"vectors": [[1, 2]], "labels": "a"}"#), "a list of 1 in labels, one for each vector"),
        ("a.jsonl", json(r#"{"vectors": [[1, 2]], "values": [1, 2]}"#), "one for each vector, found 2"),
        ("a.jsonl", json(r#"{"vectors": [[1, 2]], "values": ["x"]}"#), "expected a number in values[0]"),
        ("a.jsonl", json(r#"{"vectors": [[1, 2]], "value": 1, "label": "a"}"#), "only one of the keys label, labels"),
        ("a.csv", "step,x\n1,2\n".into(), "line 1: expected a header with id, found step, x"),
        ("a.csv", "id,step,label\n1,2,a\n".into(), "at least one column of features, found id, step, label"),
        ("a.csv", "id,x,id\n1,2,3\n".into(), "expected one column id in the header"),
        ("a.csv", ",id,x\n0,1,2\n".into(), "expected a name for each column in the header, found none for column 1"),
        ("a.csv", "id,x,label,value\n1,2,a,3\n".into(), "only one of label, labels, value, values in the header"),
        ("a.csv", "id,x\n1,2,3\n".into(), "line 2: expected 2 columns as in the first line, found 3 columns"),
        ("a.csv", "id,x\n,2\n".into(), "line 2: expected text in column id, found an empty field"),
        ("a.csv", "id,speed\n1,2\n1,fast\n".into(), "line 3: expected a finite number in column speed, found \"fast\""),
        ("a.csv", "id,speed\n1,\n".into(), "expected a finite number in column speed, found an empty field"),
        ("a.csv", "id,speed\n1,nan\n".into(), "expected a finite number in column speed, found \"nan\""),
        ("a.csv", "id,speed\n1,1e39\n".into(), "expected a finite number in column speed"),
        ("a.csv", "id;speed\n1;1,5\n".into(), "found \"1,5\"; write it with a point"),
        ("a.csv", "id,step,x\n1,a,2\n".into(), "expected a finite number in column step, found \"a\""),
        (
            "a.csv",
            "id,step,x\n1,1,2\n2,1,2\n1,1.0,3\n".into(),
            "line 4: expected each step of id \"1\" once, found step 1 on line 2",
        ),
        (
            "a.csv",
            "id,x\n1,1\n2,2\n1,3\n".into(),
            "line 4: expected the rows of id \"1\" together, since there is no column step",
        ),
        (
            "a.csv",
            "id,x,label\n1,1,a\n1,2,b\n".into(),
            "line 3: expected the label of line 2, which has the same id, found another; call the column labels",
        ),
        ("a.csv", "id,x,value\n1,1,1\n1,2,2\n".into(), "call the column values if each row has its own"),
        ("a.csv", "id,x,label\n1,1,\n".into(), "expected text in column label, found an empty field"),
        ("a.csv", "id,x,values\n1,1,b\n".into(), "expected a finite number in column values"),
        ("a.csv", "id,x,split\n1,1,tset\n".into(), "expected train, dev or test in column split, found \"tset\""),
        (
            "a.csv",
            "id,x,split\n1,1,dev\n1,2,test\n".into(),
            "line 3: expected split dev as in line 2, which has the same id, found test",
        ),
        ("a.csv", "id,x\n".into(), "expected examples of vectors, found nothing"),
        ("a.unipen", ".PEN_DOWN\n1 2\n".into(), "line 1: expected a .SEGMENT with a label before the first stroke"),
        ("a.unipen", ".SEGMENT A 0 ? a\n".into(), "line 1: expected a .SEGMENT with a label in quotes"),
        ("a.unipen", ".SEGMENT A 0 ? \"a\"\n".into(), "line 1: expected strokes after the segment"),
        (
            "a.unipen",
            ".SEGMENT A 0 ? \"a\"\n.PEN_DOWN\n.SEGMENT A 1 ? \"b\"\n".into(),
            "line 3: expected the strokes of the segment before",
        ),
        (
            "a.unipen",
            ".SEGMENT A 0 ? \"a\"\n.PEN_DOWN\n1 2 3\n".into(),
            "line 3: expected a point: two numbers, found \"1 2 3\"",
        ),
        ("a.unipen", ".SEGMENT A 0 ? \"a\"\n.PEN_DOWN\n1 nan\n".into(), "line 3: expected a point: two numbers"),
        ("a.unipen", "no keywords\n".into(), "expected examples of vectors, found nothing"),
    ] {
        let error = read(name, text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}\ngives {error}\nand not {expected}");
    }
}

/// An array file with this header and these elements.
fn npy(header: &str, elements: &[u8]) -> Vec<u8> {
    let length = u16::try_from(header.len()).unwrap().to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), elements].concat()
}

#[test]
fn bad_arrays_are_named() {
    let header =
        |descr: &str, shape: &str| format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let float = |shape: &str| header("<f4", shape);
    for (content, expected) in [
        (b"".to_vec(), "expected a NumPy array file, found an empty file"),
        (b"PK\x03\x04".to_vec(), "a ZIP file, such as numpy.savez writes"),
        (b"id,x\n".to_vec(), "expected a NumPy array file, found other bytes"),
        (b"\x93NUMPY".to_vec(), "expected a whole header, found the end of the file"),
        (b"\x93NUMPY\x04\x00\x00\x00".to_vec(), "expected format version 1, 2 or 3, found 4"),
        (b"\x93NUMPY\x01\x00\xff\xff{}".to_vec(), "expected a whole header"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}".to_vec(), "expected a whole header"),
        (npy("[]", &[]), "expected a dictionary in the header, found \"[]\""),
        (npy("{}", &[]), "expected 'descr', 'fortran_order' and 'shape' in the header"),
        (npy("{'descr': '<f4'", &[]), "expected a comma between two keys"),
        (npy("{'descr'", &[]), "expected a key in the header"),
        (npy("{'more': 1}", &[]), "expected only 'descr', 'fortran_order' and 'shape'"),
        (npy("{'fortran_order': 1}", &[]), "expected only 'descr', 'fortran_order' and 'shape'"),
        (npy("{'shape': (-1, 2)}", &[]), "expected sizes in brackets as 'shape'"),
        (npy("{'shape': (99999999999999999999,)}", &[]), "expected sizes in brackets as 'shape'"),
        (npy(&float("(2, 1)"), &[0; 7]), "expected 8 bytes for the shape [2, 1] of <f4, found 7"),
        (npy(&float("(2, 1)"), &[0; 9]), "expected 8 bytes for the shape [2, 1] of <f4, found 9"),
        (npy(&float("(1099511627776, 1024)"), &[0; 8]), "expected 4503599627370496 bytes for the shape"),
        (npy(&float("(18446744073709551615, 2, 2)"), &[0; 8]), "expected more bytes than any file has"),
        (npy(&float("(18446744073709551615, 0)"), &[]), "expected at least one element"),
        (npy(&float("(2,)"), &[0; 8]), "the shape [examples, steps, features] or [examples, features], found [2]"),
        (npy(&header("=f4", "(1, 1)"), &[0; 4]), "found \"=f4\""),
        (npy(&header("<V4", "(1, 1)"), &[0; 4]), "found \"<V4\"; convert them with x.astype('float32')"),
        (npy(&header("", "(1, 1)"), &[0; 4]), "expected little-endian floats"),
    ] {
        let error = read("x.npy", &content).unwrap_err().to_string();
        assert!(error.contains(expected), "{:?}\ngives {error}\nand not {expected}", String::from_utf8_lossy(&content));
    }
    for (name, expected) in [
        ("big-endian.npy", "found \">f4\", which is big-endian; convert it"),
        ("object.npy", "found \"|O\", Python objects"),
        ("half.npy", "found \"<f2\"; convert them"),
        ("complex.npy", "found \"<c8\"; convert them"),
        ("structured.npy", "expected one type for all elements as 'descr' in the header"),
        ("empty.npy", "expected at least one element, found the shape [2, 0, 3]"),
        ("scalar.npy", "expected the shape [examples, steps, features] or [examples, features], found []"),
        ("nan.npy", "expected a finite number below 3.4e38 at [1, 1], found NaN"),
        ("text.npy", "expected numbers, found text (<U1)"),
        ("y-f4.npy", "expected an array of inputs, such as x.npy"),
    ] {
        let error = read_vectors(&golden(name)).unwrap_err().to_string();
        assert!(error.contains(expected), "{name} gives {error}\nand not {expected}");
    }
    let dir = tempdir().unwrap();
    let x = write(&dir, "x.npy", &npy(&float("(2, 3, 1)"), &[0; 24]));
    write(&dir, "y.npy", &npy(&float("(3,)"), &[0; 12]));
    let error = read_vectors(&x).unwrap_err().to_string();
    assert!(error.contains("y.npy: expected the shape [2] or [2, 3], to fit"), "{error}");
    write(&dir, "y.npy", &npy(&header("<U1", "(2,)"), &[0; 8]));
    let error = read_vectors(&x).unwrap_err().to_string();
    assert!(error.contains("y.npy: expected a label at [0], found an empty text"), "{error}");
}

#[test]
fn a_file_is_split_by_its_vectors_or_its_column() {
    let dir = tempdir().unwrap();
    let lines: String = (0..400).map(|i| format!("{{\"vectors\": [[{i}]], \"value\": {i}}}\n")).collect();
    write(&dir, "a.jsonl", lines.as_bytes());
    let splits = load(&dir, "a.jsonl").unwrap();
    let sizes = Split::ALL.map(|split| splits.get(split).len());
    assert!(sizes.iter().sum::<usize>() == 400 && sizes[1] > 5 && sizes[2] > 5, "{sizes:?}");

    let row = |i: usize, split: &str| format!("{i},{i},{split}\n");
    let rows = |from: usize, to: usize, split: &str| (from..to).map(|i| row(i, split)).collect::<String>();
    let train = rows(0, 300, "train");
    write(&dir, "a.csv", format!("id,x,split\n{}{train}{}", rows(300, 302, "TEST"), rows(302, 305, "dev")).as_bytes());
    let splits = load(&dir, "a.csv").unwrap();
    assert_eq!(Split::ALL.map(|split| splits.get(split).len()), [300, 3, 2]);
    assert!(splits.notes.is_empty(), "{:?}", splits.notes);
    let fold = Some(Fold::new(1, 10).unwrap());
    let error = load_vectors(&Source { path: dir.path().join("a.csv"), fold }).unwrap_err().to_string();
    assert!(error.contains("expected no fold, since the file has a column split"), "{error}");
    // Without dev rows, dev is taken from train.
    write(&dir, "b.csv", format!("id,x,split\n{train}{}", rows(300, 302, "test")).as_bytes());
    let splits = load(&dir, "b.csv").unwrap();
    assert!(splits.test.len() == 2 && !splits.dev.is_empty() && splits.train.len() + splits.dev.len() == 300);
    assert_eq!(splits.notes, ["dev is 5 % of train, by a hash of the input: there is no dev row"]);
}

#[test]
fn a_folder_has_its_arrays_and_alike_parts() {
    let dir = tempdir().unwrap();
    let array = |shape: &str| {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}");
        npy(&header, &[0; 4])
    };
    for (x, y) in [("X_train.npy", "y_train.npy"), ("dev-x.npy", "dev-y.npy"), ("test.x.npy", "test.Y.npy")] {
        write(&dir, x, &array("(1, 1, 1)"));
        write(&dir, y, &array("(1,)"));
    }
    let splits = load(&dir, "").unwrap();
    assert_eq!(splits.test[0].target, Some(Target::Value(0.0)));
    let before = fingerprint(dir.path()).unwrap();
    write(&dir, "dev-y.npy", &array("(1, 1)"));
    assert_ne!(fingerprint(dir.path()).unwrap(), before);
    let error = load(&dir, "").unwrap_err().to_string();
    assert!(error.contains("expected 1 number in each vector and value in dev as in train, found"), "{error}");
    // The name of the targets is that of the inputs but for the letter.
    std::fs::rename(dir.path().join("dev-y.npy"), dir.path().join("y-dev.npy")).unwrap();
    let error = load(&dir, "").unwrap_err().to_string();
    assert!(error.contains("expected one file for dev, found dev-x.npy, y-dev.npy"), "{error}");
    std::fs::remove_file(dir.path().join("dev-x.npy")).unwrap();
    let error = load(&dir, "").unwrap_err().to_string();
    assert!(error.contains("y-dev.npy: expected an array of inputs"), "{error}");

    // The targets beside a single array belong to its hash.
    let x = write(&dir, "x.npy", &array("(1, 1)"));
    write(&dir, "y.npy", &array("(1,)"));
    let before = fingerprint(&x).unwrap();
    write(&dir, "y.npy", &array("(1, 1)"));
    assert_ne!(fingerprint(&x).unwrap(), before);

    let dir = tempdir().unwrap();
    for name in ["train.csv", "dev.csv", "test.csv"] {
        write(&dir, name, b"id,x,split\n1,2,train\n");
    }
    let error = load(&dir, "").unwrap_err().to_string();
    assert!(error.contains("train.csv, line 2: expected no column split"), "{error}");
}

#[test]
fn truncated_files_are_refused() {
    let dir = tempdir().unwrap();
    let whole = std::fs::read(golden("x-f4.npy")).unwrap();
    for length in 0..whole.len() {
        assert!(read_vectors(&write(&dir, "x.npy", &whole[..length])).is_err(), "{length} bytes");
    }
    let packed = std::fs::read(golden("x-packed.npy.gz")).unwrap();
    for length in 0..packed.len() {
        assert!(read_vectors(&write(&dir, "x.npy.gz", &packed[..length])).is_err(), "{length} bytes");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for name in ["x.npy", "a.jsonl", "a.csv", "a.unipen", "x.npy.gz"] {
            let _ = read(name, &bytes);
        }
    }

    #[test]
    fn any_header_is_read_or_refused(header in "[{}()'\",: 0-9]{0,12}|\\{'descr': '[<|][fiubUO][0-9]{1,3}', 'shape': \\([0-9, ]{0,8}\\), 'fortran_order': (True|False)\\}", elements in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(examples) = read("x.npy", &npy(&header, &elements)) {
            prop_assert!(examples.iter().all(|example| !example.features.is_empty()));
        }
    }

    #[test]
    fn a_changed_byte_is_read_or_refused(at in 0usize..176, byte in any::<u8>()) {
        let mut whole = std::fs::read(golden("x-f4.npy")).unwrap();
        whole[at] = byte;
        let _ = read("x.npy", &whole);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "(id|step|x|label|split|,|\n|1|-2|a|train|\\{\"vectors\":|\\[|\\]|\\}|\"|\\.SEGMENT|\\.PEN_DOWN| ){1,40}") {
        for name in ["a.jsonl", "a.csv", "a.unipen"] {
            let _ = read(name, text.as_bytes());
        }
    }
}
