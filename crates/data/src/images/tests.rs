//! Tests of the readers of pictures: each format against Pillow, each error, and bytes that are no pictures at all.

use super::*;
use crate::Split;
use crate::testing::{gzip, write};
use proptest::prelude::*;
use serde_json::Value;
use std::collections::BTreeSet;
use tempfile::{TempDir, tempdir};

const PICTURES: [&str; 11] = [
    "rgb.png",
    "grey.png",
    "clear.png",
    "palette.png",
    "bits.png",
    "grey-clear.png",
    "deep.png",
    "colour.jpg",
    "subsampled.jpg",
    "progressive.jpg",
    "grey.jpg",
];

/// Pictures written by Pillow.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/images").join(name)
}

/// The pixels that Pillow reads.
fn expected(name: &str) -> Image {
    let all: Value = serde_json::from_str(&std::fs::read_to_string(golden("expected.json")).unwrap()).unwrap();
    let of = &all[name];
    let [channels, height, width] = [0, 1, 2].map(|at| of["size"][at].as_u64().unwrap() as usize);
    let digits = of["pixels"].as_str().unwrap();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    Image { size: ImageSize { channels, height, width }, pixels: (0..digits.len()).step_by(2).map(byte).collect() }
}

/// Largest and mean difference.
fn differences(one: &Image, other: &Image) -> (u8, f64) {
    assert_eq!(one.size, other.size);
    let each = || one.pixels.iter().zip(&other.pixels).map(|(a, b)| a.abs_diff(*b));
    (each().max().unwrap(), each().map(f64::from).sum::<f64>() / one.pixels.len() as f64)
}

fn fitted(size: impl Into<Option<usize>>, colours: Colours) -> Fit {
    Fit { size: size.into().map(Side::Square), colours }
}

/// An IDX file with these sizes and bytes after the header.
fn idx(magic: u32, sizes: &[u32], bytes: &[u8]) -> Vec<u8> {
    std::iter::once(&magic).chain(sizes).flat_map(|word| word.to_be_bytes()).chain(bytes.iter().copied()).collect()
}

/// A folder with IDX pairs of 2 × 2 pictures: the pixels of each count on.
fn pairs(dir: &TempDir, counts: &[(&str, usize)]) {
    let mut next = 0u32;
    for &(part, count) in counts {
        let pixels: Vec<u8> = (next..next + count as u32).flat_map(u32::to_be_bytes).collect();
        let labels: Vec<u8> = (0..count).map(|at| (at % 3) as u8).collect();
        next += count as u32;
        let count = count as u32;
        write(dir, &format!("{part}-images-idx3-ubyte.gz"), &gzip(&idx(0x803, &[count, 2, 2], &pixels)));
        write(dir, &format!("{part}-labels-idx1-ubyte"), &idx(0x801, &[count], &labels));
    }
}

fn load(path: &Path, held: Held) -> Result<Splits<LabelledImage>, DataError> {
    load_images(&Source { path: path.to_path_buf(), fold: None }, &Fit::default(), held)
}

fn sizes(splits: &Splits<LabelledImage>) -> [usize; 3] {
    Split::ALL.map(|split| splits.get(split).len())
}

fn copy(dir: &TempDir, from: &str, to: &str) {
    let to = dir.path().join(to);
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::copy(golden(from), to).unwrap();
}

#[test]
fn pictures_are_read_as_pillow_reads_them() {
    for name in PICTURES {
        let expected = expected(name);
        let header = fit::header(&golden(name)).unwrap();
        assert_eq!((header.height, header.width), (expected.size.height, expected.size.width), "{name}");
        assert_eq!(header.is_grey, expected.size.channels == 1, "{name}");
        let (most, mean) = differences(&read_image(&golden(name), expected.size).unwrap(), &expected);
        // JPEG leaves the rounding of its transform to the decoder, and how colours of half the resolution are spread.
        let (most_allowed, mean_allowed) = match name {
            "subsampled.jpg" => (24, 2.0),
            _ if name.ends_with(".jpg") => (4, 0.7),
            "clear.png" | "palette.png" | "grey-clear.png" => (1, 0.5),
            _ => (0, 0.0),
        };
        assert!(most <= most_allowed && mean <= mean_allowed, "{name}: {most}, {mean}");
    }
    let grey = expected("rgb.png in grey");
    assert_eq!(read_image(&golden("rgb.png"), grey.size).unwrap(), grey);
}

#[test]
fn pictures_are_resized_as_pillow_resizes_them() {
    for name in ["rgb.png at 7 x 9", "rgb.png at 33 x 40", "rgb.png at 15 x 5", "rgb.png at 1 x 1"] {
        let expected = expected(name);
        let (most, mean) = differences(&read_image(&golden("rgb.png"), expected.size).unwrap(), &expected);
        assert!(most <= 1 && mean < 0.1, "{name}: {most}, {mean}");
    }
}

#[test]
fn idx_pairs_with_and_without_names() {
    let loaded = read_images(&golden("t10k-images-idx3-ubyte.gz"), &Fit::default()).unwrap();
    let labels: Vec<_> = loaded.examples.iter().map(|example| example.label.as_deref().unwrap()).collect();
    assert_eq!(labels, ["7", "0", "9"]);
    assert_eq!(loaded.examples[1].image.size, ImageSize { channels: 1, height: 4, width: 5 });
    assert_eq!(loaded.examples[1].image.pixels, (20..40).map(|i| i * 4).collect::<Vec<u8>>());
    assert!(loaded.examples[2].name.ends_with("t10k-images-idx3-ubyte.gz#2"), "{}", loaded.examples[2].name);
    for example in &loaded.examples {
        assert_eq!(read_image(Path::new(&example.name), example.image.size).unwrap(), example.image);
    }
    let names: Vec<String> = loaded.examples.iter().map(|example| example.name.clone()).collect();
    assert_eq!(idx_names(&golden("t10k-images-idx3-ubyte.gz")).unwrap(), Some(names));
    assert_eq!(idx_names(&golden("rgb.png")).unwrap(), None);
    let beyond = golden("t10k-images-idx3-ubyte.gz#3");
    let error = read_image(&beyond, loaded.examples[0].image.size).unwrap_err().to_string();
    assert!(error.contains("expected a number below 3, the number of images, found 3"), "{error}");
    let rgb = read_images(&golden("t10k-images-idx3-ubyte.gz"), &fitted(3, Colours::Rgb)).unwrap();
    assert_eq!(rgb.examples[0].image.size, ImageSize { channels: 3, height: 3, width: 3 });

    let dir = tempdir().unwrap();
    pairs(&dir, &[("train", 9), ("val", 4), ("test", 5)]);
    let names = write(&dir, "labels.txt", "Hemd\nSchuh \nTasche\n".as_bytes());
    let splits = load(dir.path(), Held::default()).unwrap();
    assert_eq!(sizes(&splits), [9, 4, 5]);
    assert_eq!(splits.train[1].label.as_deref(), Some("Schuh"));
    let before = fingerprint_images(dir.path()).unwrap();
    write(&dir, "labels.txt", b"a\nb\nc\n");
    assert_ne!(fingerprint_images(dir.path()).unwrap(), before);
    for (text, message) in [
        ("a\nb\n", "labels.txt: expected a name for label 2 of"),
        ("a\nb\na\n", "labels.txt: expected another name of a class in line 3, found \"a\" again"),
        ("a\n\nb\n", "labels.txt: expected another name of a class in line 2, found an empty line"),
    ] {
        std::fs::write(&names, text).unwrap();
        let error = load(dir.path(), Held::default()).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn the_last_training_images_are_dev_and_a_limit_takes_a_subset() {
    let dir = tempdir().unwrap();
    pairs(&dir, &[("train", 1000), ("t10k", 10)]);
    let held = |dev, limit| load(dir.path(), Held { dev, limit });
    let whole = held(Some(100), None).unwrap();
    assert_eq!(sizes(&whole), [900, 100, 10]);
    assert!(whole.dev[0].name.ends_with("#900"), "{}", whole.dev[0].name);
    assert_eq!(whole.notes, ["dev is the last 100 training images"]);
    let names = |splits: &Splits<LabelledImage>| splits.train.iter().map(|e| e.name.clone()).collect::<BTreeSet<_>>();
    let (some, few) = (held(Some(100), Some(300)).unwrap(), held(Some(100), Some(20)).unwrap());
    assert_eq!((sizes(&some), sizes(&few)), ([300, 100, 10], [20, 100, 10]));
    assert!(names(&few).is_subset(&names(&some)) && names(&some).is_subset(&names(&whole)));
    // The order is that of the file, and the choice is not its beginning.
    let numbers: Vec<usize> = few.train.iter().map(|e| e.name.rsplit('#').next().unwrap().parse().unwrap()).collect();
    assert!(numbers.is_sorted() && numbers[19] > 300, "{numbers:?}");
    let by_hash = held(None, None).unwrap();
    assert!(by_hash.dev.len() > 10 && by_hash.notes[0].contains("dev is 5 % of train"), "{:?}", by_hash.notes);
    for (dev, limit, message) in [
        (Some(0), None, "data.dev: expected from 1 to 999"),
        (Some(1000), None, "data.dev: expected from 1 to 999"),
        (None, Some(0), "data.limit: expected from 1 to"),
        (Some(100), Some(901), "data.limit: expected from 1 to 900, the number of training images, found 901"),
    ] {
        let error = held(dev, limit).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    pairs(&dir, &[("dev", 3)]);
    let error = held(Some(100), None).unwrap_err().to_string();
    assert!(error.contains("data.dev: expected no number, since the folder has a dev part"), "{error}");
}

#[test]
fn a_folder_per_class() {
    let dir = tempdir().unwrap();
    for (name, part) in [("rgb.png", "train"), ("colour.jpg", "dev"), ("clear.png", "test")] {
        copy(&dir, name, &format!("{part}/cat/{name}"));
        copy(&dir, "grey.png", &format!("{part}/dog/2.PNG"));
        copy(&dir, "bits.png", &format!("{part}/dog/1.png"));
    }
    copy(&dir, "expected.json", "train/dog/notes.json");
    copy(&dir, "rgb.png", "train/dog/.hidden.png");
    std::fs::create_dir(dir.path().join("train/empty")).unwrap();
    let splits = load(dir.path(), Held::default()).unwrap();
    assert_eq!(sizes(&splits), [3, 3, 3]);
    let labels: Vec<_> = splits.train.iter().map(|example| example.label.as_deref().unwrap()).collect();
    assert_eq!(labels, ["cat", "dog", "dog"]);
    assert!(splits.train[1].name.ends_with("dog/1.png") && splits.train[2].name.ends_with("dog/2.PNG"));
    assert_eq!(splits.train[0].image.size, ImageSize { channels: 3, height: 15, width: 22 });
    assert!(
        splits.notes[0].ends_with("train: left out, not PNG or JPEG: dog/notes.json, empty/"),
        "{:?}",
        splits.notes
    );
    let before = fingerprint_images(dir.path()).unwrap();
    std::fs::rename(dir.path().join("test/dog"), dir.path().join("test/cow")).unwrap();
    assert_ne!(fingerprint_images(dir.path()).unwrap(), before);
    let error = load(dir.path(), Held { dev: Some(1), limit: None }).unwrap_err().to_string();
    assert!(error.contains("data.dev: expected no number: the last pictures"), "{error}");

    // Pictures of two sizes, without parts.
    let dir = tempdir().unwrap();
    copy(&dir, "grey.png", "train/1.png");
    copy(&dir, "grey.jpg", "train/2.jpg");
    copy(&dir, "grey.png", "boat/1.png");
    let loaded = read_images(dir.path(), &Fit::default()).unwrap();
    assert_eq!(loaded.examples[2].label.as_deref(), Some("train"));
    assert_eq!(loaded.examples[2].image.size, ImageSize { channels: 1, height: 15, width: 22 });
    let header = |height| decode::Header { height, width: 22, is_grey: true };
    let (size, note) = Fit::default().resolve(&[header(15), header(16)]);
    assert_eq!((size.height, size.width), (32, 32));
    assert!(note.unwrap().contains("data.size"));
    let size = Fit { size: Some(Side::Sides([8, 6])), colours: Colours::Rgb };
    assert_eq!(size.resolve(&[header(15)]).0, ImageSize { channels: 3, height: 8, width: 6 });
}

#[test]
fn splits_and_limits_do_not_depend_on_the_size_or_the_colours() {
    let dir = tempdir().unwrap();
    pairs(&dir, &[("train", 400)]);
    let path = dir.path().join("train-images-idx3-ubyte.gz");
    let chosen = |fit: Fit| {
        let source = Source { path: path.clone(), fold: None };
        let splits = load_images(&source, &fit, Held { dev: None, limit: Some(50) }).unwrap();
        Split::ALL.map(|split| splits.get(split).iter().map(|example| example.name.clone()).collect::<Vec<_>>())
    };
    let own = chosen(Fit::default());
    // All pictures of one pixel in grey look alike, or nearly so.
    for fit in [fitted(1, Colours::Grey), fitted(5, Colours::Rgb), fitted(None, Colours::Rgb)] {
        assert_eq!(chosen(fit), own);
    }
}

#[test]
fn the_hash_of_a_picture_is_that_of_its_pixels() {
    let hash = |name: &str| read_hashed(&golden(name), ImageSize { channels: 1, height: 2, width: 2 }).unwrap().1;
    let as_stored = |name: &str| read_image(&golden(name), expected(name).size).unwrap().hash();
    assert_eq!(hash("rgb.png"), as_stored("rgb.png"));
    assert_eq!(hash("grey.png"), as_stored("grey.png"));
    // The same picture in grey and in colour.
    let grey = read_image(&golden("grey.png"), expected("grey.png").size).unwrap();
    let coloured = Image {
        size: ImageSize { channels: 3, ..grey.size },
        pixels: [&grey.pixels[..], &grey.pixels, &grey.pixels].concat(),
    };
    let dir = tempdir().unwrap();
    let path = write(&dir, "coloured.png", &coloured.to_png());
    assert_eq!(read_hashed(&path, grey.size).unwrap(), (grey, hash("grey.png")));
}

#[test]
fn settings_are_read_as_numbers_or_pairs() {
    assert_eq!(serde_json::from_str::<Side>("28").unwrap().sides(), [28, 28]);
    assert_eq!(serde_json::from_str::<Side>("[28, 20]").unwrap().sides(), [28, 20]);
    let error = serde_json::from_str::<Side>("\"28\"").unwrap_err().to_string();
    assert!(error.contains("one number, or [height, width]"), "{error}");
    assert_eq!(serde_json::from_str::<Colours>("\"grey\"").unwrap(), Colours::Grey);
}

#[test]
fn bad_idx_files_are_named() {
    let images = |sizes: &[u32], bytes: usize| idx(0x803, sizes, &vec![0; bytes]);
    let labels = idx(0x801, &[2], &[0, 1]);
    for (images, labels, message) in [
        (b"".to_vec(), labels.clone(), "expected the magic number 0x00000803 of IDX images, found 0 bytes"),
        (idx(0x801, &[2], &[0, 1]), labels.clone(), "of IDX images, found that of labels"),
        (idx(0x0d03, &[2, 1, 1], &[0; 8]), labels.clone(), "found 0x00000d03"),
        (idx(0x803, &[2, 2], &[]), labels.clone(), "expected a header of 16 bytes, found 12 bytes"),
        (images(&[2, 2, 2], 7), labels.clone(), "expected 24 bytes for 2 × 2 × 2 images as the header says, found 23"),
        (images(&[2, 2, 2], 9), labels.clone(), "expected 24 bytes for 2 × 2 × 2 images as the header says, found 25"),
        (images(&[u32::MAX; 3], 9), labels.clone(), "expected more bytes than any file has"),
        (images(&[u32::MAX, 1 << 10, 1], 9), labels.clone(), "expected 4398046510096 bytes"),
        (images(&[0, 2, 2], 0), labels.clone(), "expected at least one image with pixels, found 0 of 2 × 2"),
        (
            images(&[2, 2, 2], 8),
            idx(0x801, &[3], &[0; 3]),
            "labels-idx1-ubyte: expected 2 labels as there are images in",
        ),
        (images(&[2, 2, 2], 8), idx(0x801, &[2], &[0; 3]), "labels-idx1-ubyte: expected 10 bytes for 2 labels"),
        (images(&[2, 2, 2], 8), idx(0x803, &[2, 2, 2], &[0; 8]), "of IDX labels, found that of images"),
        (gzip(&images(&[2, 2, 2], 8))[..20].to_vec(), labels.clone(), "expected complete gzip data"),
    ] {
        let dir = tempdir().unwrap();
        let path = write(&dir, "train-images-idx3-ubyte", &images);
        write(&dir, "train-labels-idx1-ubyte", &labels);
        let error = read_images(&path, &Fit::default()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(message), "{error}\nand not {message}");
    }
    let dir = tempdir().unwrap();
    let path = write(&dir, "train-images.idx3-ubyte", &images(&[2, 2, 2], 8));
    assert!(read_images(&path, &Fit::default()).unwrap().examples[0].label.is_none());
    let error = load(&path, Held::default()).unwrap_err().to_string();
    assert!(error.contains("expected labels in train-labels.idx1-ubyte(.gz) beside it, found no such file"), "{error}");
    write(&dir, "train-images.idx3-ubyte.gz", &gzip(&images(&[2, 2, 2], 8)));
    let error = load(dir.path(), Held::default()).unwrap_err().to_string();
    assert!(error.contains("expected one file of images for train"), "{error}");
}

#[test]
fn folders_of_other_layouts_are_named() {
    let dir = tempdir().unwrap();
    let message = |path: &Path| load(path, Held::default()).unwrap_err().to_string();
    assert!(message(dir.path()).contains("or a folder for each class, or train/ with them, found none"));
    copy(&dir, "rgb.png", "1.png");
    assert!(message(dir.path()).contains("found pictures outside of folders: 1.png"));
    assert!(message(&dir.path().join("1.png")).contains("expected a folder of pictures, or a file such as"));
    assert!(message(&dir.path().join("none")).ends_with("there is no such file or folder"));
    copy(&dir, "expected.json", "cat/a.json");
    assert!(
        message(dir.path()).contains("expected a folder for each class with PNG or JPEG pictures, found 1.png, cat/")
    );
    copy(&dir, "rgb.png", "cat/1.png");
    assert!(matches!(load(dir.path(), Held::default()).unwrap_err(), DataError::TooFew { .. }));
}

/// A PNG whose header says this size, with no more than the header in it.
fn header_alone(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    drop(encoder.write_header().unwrap());
    bytes
}

#[test]
fn huge_truncated_and_foreign_pictures_are_refused() {
    let size = ImageSize { channels: 3, height: 4, width: 4 };
    let what = Path::new("a.png");
    let message = |bytes: &[u8]| decode_image(bytes, what, size).unwrap_err().to_string();
    let huge = message(&header_alone(100_000, 100_000));
    assert!(
        huge.contains("a.png: expected a picture of at most 67108864 pixels, found a header that says 100000 × 100000"),
        "{huge}"
    );
    let mut jpeg = std::fs::read(golden("colour.jpg")).unwrap();
    let frame = jpeg.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    jpeg[frame + 5..frame + 9].fill(0xff);
    assert!(message(&jpeg).contains("found a header that says 65535 × 65535"), "{}", message(&jpeg));
    for (bytes, found) in [
        (b"".as_slice(), "an empty file"),
        (b"GIF89a", "a GIF; convert it to PNG"),
        (b"BM", "a BMP"),
        (b"RIFF\0\0\0\0WEBP", "a WebP"),
        (b"II*\0", "a TIFF"),
        (b"text", "other bytes at the beginning"),
    ] {
        assert!(message(bytes).contains(&format!("expected a PNG or JPEG picture, found {found}")));
    }
    for name in PICTURES {
        let whole = std::fs::read(golden(name)).unwrap();
        for length in 0..whole.len() {
            assert!(decode_image(&whole[..length], what, size).is_err(), "{length} of {} bytes of {name}", whole.len());
        }
    }
    let cut = std::fs::read(golden("colour.jpg")).unwrap();
    assert!(message(&cut[..cut.len() - 100]).contains("expected a whole JPEG picture, found a truncated file"));
    let cut = std::fs::read(golden("rgb.png")).unwrap();
    assert!(message(&cut[..cut.len() - 100]).contains("expected a whole PNG picture, found a truncated file"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_changed_byte_is_read_or_refused(which in 0..PICTURES.len(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut whole = std::fs::read(golden(PICTURES[which])).unwrap();
        let at = at.index(whole.len());
        whole[at] = byte;
        let size = ImageSize { channels: 1, height: 4, width: 4 };
        if let Ok(image) = decode_image(&whole, Path::new("a"), size) {
            prop_assert_eq!(image.pixels.len(), size.values());
        }
    }

    #[test]
    fn a_changed_idx_file_is_read_or_refused(at in 0usize..28, byte in any::<u8>(), cut in 0usize..40, packed: bool) {
        let dir = tempdir().unwrap();
        let mut images = idx(0x803, &[3, 2, 2], &[7; 12]);
        images[at] = byte;
        images.truncate(cut.max(1));
        let images = if packed { gzip(&images) } else { images };
        let path = write(&dir, "x-images-idx3-ubyte", &images[..images.len().min(cut + 20)]);
        write(&dir, "x-labels-idx1-ubyte", &idx(0x801, &[3], &[0, 1, 2]));
        let _ = read_images(&path, &Fit::default());
        let _ = idx::read_one(&path, at);
    }

    #[test]
    fn any_bytes_are_read_or_refused(start in 0usize..3, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let magic: &[u8] = [b"\x89PNG\r\n\x1a\n".as_slice(), &[0xff, 0xd8, 0xff], &[]][start];
        let size = ImageSize { channels: 3, height: 2, width: 2 };
        let _ = decode_image(&[magic, &bytes].concat(), Path::new("a"), size);
    }
}
