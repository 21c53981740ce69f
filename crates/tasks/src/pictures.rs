//! Pictures as inputs of models: as callers give them, as tensors, and in figures.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use burn::tensor::{Device, Tensor, TensorData};
use regard_data::{Image, ImageSize, Split, decode_image, excerpt, read_image};
use regard_figures::{Colour, FigureError, Tile};
use serde_json::{Value, json};

use crate::error::TaskError;
use crate::input::{Given, InputKind};

/// Largest height and width that pictures are brought to.
pub(crate) const LONGEST_SIDE: usize = 1_024;

/// Start of the name of a built-in picture, as in `builtin:test/12`.
const BUILT_IN: &str = "builtin:";

/// A picture as a caller has given it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GivenPicture {
    /// A PNG or JPEG, already brought to the size of the model.
    Image(Image),
    /// A picture of the built-in data, by its split and its index from 0.
    BuiltIn(Split, usize),
}

/// Reads a picture: the path of a PNG or JPEG file, `{"image": base64}` with the content of one, or the name of a built-in picture.
pub(crate) fn read_picture(given: &Given, size: ImageSize) -> Result<GivenPicture, TaskError> {
    let text = match given {
        Given::Text(text) | Given::Json(Value::String(text)) => text,
        Given::Json(_) => {
            let encoded = given.value(InputKind::Picture)?.and_then(Value::as_str);
            let wrong = |got: String| TaskError::input("image", "a PNG or JPEG file as base64", got);
            let encoded = encoded.ok_or_else(|| wrong("something else than a text".to_string()))?;
            let bytes = STANDARD.decode(encoded.trim()).map_err(|error| wrong(error.to_string()))?;
            return Ok(GivenPicture::Image(decode_image(&bytes, Path::new("image"), size)?));
        }
    };
    if let Some((split, index)) = built_in(text)? {
        return Ok(GivenPicture::BuiltIn(split, index));
    }
    check_path(text, "the path of a PNG or JPEG picture")?;
    Ok(GivenPicture::Image(read_image(Path::new(text), size)?))
}

/// Returns an error with a short message for text that cannot be a path, such as a whole sentence.
pub(crate) fn check_path(text: &str, expected: &str) -> Result<(), TaskError> {
    const LONGEST_PATH: usize = 4_096;
    match text.trim().is_empty() || text.len() > LONGEST_PATH || text.contains('\0') {
        true => Err(TaskError::input("input", expected, excerpt(text))),
        false => Ok(()),
    }
}

/// Reads the split and the index of a built-in example from its name; `None` for another name.
pub(crate) fn built_in(text: &str) -> Result<Option<(Split, usize)>, TaskError> {
    let Some(name) = text.strip_prefix(BUILT_IN) else { return Ok(None) };
    let parts = name.split_once('/').and_then(|(split, index)| Some((split.parse().ok()?, index.parse().ok()?)));
    if parts.is_none() {
        let expected = format!("{BUILT_IN}SPLIT/NUMBER, such as {BUILT_IN}test/12");
        return Err(TaskError::input("input", expected, excerpt(text)));
    }
    Ok(parts)
}

/// Returns the name by which [`read_picture`] finds a built-in picture.
pub(crate) fn built_in_name(split: Split, index: usize) -> String {
    format!("{BUILT_IN}{split}/{index}")
}

/// Returns a picture as [`read_picture`] reads it from JSON.
pub(crate) fn given_picture(image: &Image) -> Given {
    Given::Json(json!({ InputKind::Picture.key(): STANDARD.encode(image.to_png()) }))
}

/// Returns pictures of one size as a tensor `[pictures, channels, height, width]` with values from −1 (black) to 1.
pub(crate) fn pictures_tensor<'a>(images: impl IntoIterator<Item = &'a Image>, device: &Device) -> Tensor<4> {
    let (mut values, mut count, mut size) = (Vec::new(), 0, ImageSize { channels: 1, height: 1, width: 1 });
    for image in images {
        size = image.size;
        count += 1;
        values.extend(image.pixels.iter().map(|&pixel| f32::from(pixel) / 127.5 - 1.0));
    }
    let ImageSize { channels, height, width } = size;
    Tensor::from_data(TensorData::new(values, [count, channels, height, width]), device)
}

/// Returns a picture for a figure.
pub(crate) fn tile(image: &Image) -> Result<Tile, FigureError> {
    let ImageSize { channels, height, width } = image.size;
    let plane = height * width;
    let value = |channel: usize, at: usize| image.pixels[channel.min(channels - 1) * plane + at];
    let colour = |at| Colour(value(0, at), value(1, at), value(2, at));
    Tile::new(height, width, (0..plane).map(colour).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: ImageSize = ImageSize { channels: 3, height: 2, width: 2 };

    fn image() -> Image {
        Image { size: SIZE, pixels: (0..12).map(|at| at * 20).collect() }
    }

    #[test]
    fn a_picture_can_be_given_in_many_ways() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a.png");
        std::fs::write(&file, image().to_png()).unwrap();
        let path = file.display().to_string();
        let encoded = STANDARD.encode(image().to_png());
        for given in [Given::from(path.clone()), Given::Json(json!(path)), Given::Json(json!({ "image": encoded }))] {
            assert_eq!(read_picture(&given, SIZE).unwrap(), GivenPicture::Image(image()));
        }
        let named = built_in_name(Split::Test, 12);
        assert_eq!(read_picture(&named.into(), SIZE).unwrap(), GivenPicture::BuiltIn(Split::Test, 12));
    }

    #[test]
    fn an_error_says_what_is_wrong_with_a_picture() {
        let place = tempfile::tempdir().unwrap();
        let half = place.path().join("half.png");
        std::fs::write(&half, &image().to_png()[..40]).unwrap();
        for (given, message) in [
            (Given::from("none.png"), "none.png: there is no such file"),
            (Given::from(half.display().to_string()), "half.png"),
            (Given::from(""), "the path of a PNG or JPEG picture"),
            (Given::from("builtin:test"), "builtin:SPLIT/NUMBER"),
            (Given::from("builtin:some/1"), "builtin:SPLIT/NUMBER"),
            (Given::Json(json!({ "image": "not base64!" })), "a PNG or JPEG file as base64"),
            (Given::Json(json!({ "image": 3 })), "a PNG or JPEG file as base64"),
            (Given::Json(json!({ "image": STANDARD.encode("text") })), "a PNG or JPEG picture"),
            (Given::Json(json!({ "numbers": [] })), "a picture, which this model takes"),
        ] {
            let error = read_picture(&given, SIZE).unwrap_err().to_string();
            assert!(error.contains(message) && error.len() < 300, "{given}: {error}");
        }
    }

    #[test]
    fn values_go_from_minus_one_to_one() {
        let black_and_white = Image { size: SIZE, pixels: [[0; 6], [255; 6]].concat() };
        let tensor = pictures_tensor([&black_and_white, &image()], &Device::flex());
        assert_eq!(tensor.dims(), [2, 3, 2, 2]);
        let values: Vec<f32> = tensor.into_data().iter().collect();
        assert_eq!((values[0], values[11]), (-1.0, 1.0));
    }
}
