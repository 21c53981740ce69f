//! How pictures become numbers for a Vision Transformer.

use std::path::Path;

use serde_json::{Value, json};

use super::config::ConfigFile;
use super::store::read_json;
use crate::error::TaskError;

/// File with the settings of [`Scaling`].
pub(super) const PREPROCESSOR: &str = "preprocessor_config.json";

/// How the pixels of a picture become the numbers that a model reads, by its `preprocessor_config.json`.
pub(super) struct Scaling {
    mean: Vec<f32>,
    deviation: Vec<f32>,
    factor: f32,
}

impl Scaling {
    /// Reads the settings of a folder, for a network that reads squares of `side` pixels.
    pub fn read(folder: &Path, channels: usize, side: usize) -> Result<Self, TaskError> {
        let path = folder.join(PREPROCESSOR);
        let settings = if path.is_file() { read_json(&path, 1_000_000)? } else { Value::Null };
        Self::of(&settings, &path, channels, side)
    }

    /// Reads settings; `path` is where they come from, for messages.
    pub fn of(settings: &Value, path: &Path, channels: usize, side: usize) -> Result<Self, TaskError> {
        let file = ConfigFile(settings);
        let refuse = |error: regard_inspect::count::CountError| TaskError::folder(path, error.to_string());
        let numbers = |key: &str| -> Result<Vec<f32>, TaskError> {
            let Some(list) = file.get(key) else { return Ok(vec![0.5; channels]) };
            let numbers: Option<Vec<f32>> =
                list.as_array().and_then(|list| list.iter().map(|one| one.as_f64().map(|one| one as f32)).collect());
            numbers
                .filter(|numbers| numbers.len() == channels)
                .ok_or_else(|| TaskError::folder(path, format!("{key}: {list} found, expected {channels} numbers")))
        };
        // Pictures are resized as Pillow does with its filter 2, bilinear.
        let fixed: [(&str, &[Value]); 3] = [
            ("resample", &[Value::from(2)]),
            ("do_resize", &[Value::Bool(true)]),
            ("do_center_crop", &[Value::Bool(false)]),
        ];
        for (key, allowed) in fixed {
            if let Some(value) = file.get(key).filter(|value| !allowed.contains(value)) {
                return Err(TaskError::folder(path, format!("{key}: {value} found, expected {}", allowed[0])));
            }
        }
        let size = &settings["size"];
        let is_fitting = size.is_null() || *size == json!(side) || *size == json!({ "height": side, "width": side });
        if !is_fitting {
            let expected = format!("height and width {side}, the image_size of config.json");
            return Err(TaskError::folder(path, format!("size: {size} found, expected {expected}")));
        }
        let normalised = file.flag("do_normalize", true).map_err(refuse)?;
        let factor = match file.flag("do_rescale", true).map_err(refuse)? {
            true => file.number("rescale_factor", 1.0 / 255.0).map_err(refuse)?,
            false => 1.0,
        };
        let (mean, deviation) = match normalised {
            true => (numbers("image_mean")?, numbers("image_std")?),
            false => (vec![0.0; channels], vec![1.0; channels]),
        };
        match deviation.iter().all(|&deviation| deviation > 0.0) {
            true => Ok(Self { mean, deviation, factor }),
            false => Err(TaskError::folder(path, format!("image_std: {deviation:?} found, expected numbers above 0"))),
        }
    }

    /// Returns the numbers of a picture's pixels, which are given channel by channel.
    pub fn apply(&self, pixels: &[u8], of_a_channel: usize) -> Vec<f32> {
        let scaled = |(at, &pixel): (usize, &u8)| {
            let channel = at / of_a_channel;
            (f32::from(pixel) * self.factor - self.mean[channel]) / self.deviation[channel]
        };
        pixels.iter().enumerate().map(scaled).collect()
    }
}
