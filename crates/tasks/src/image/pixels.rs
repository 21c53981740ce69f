//! Pictures as tensors, scaled by the mean and the deviation of the training pixels.

use std::borrow::Borrow;

use burn::tensor::{Device, Tensor, TensorData};
use regard_data::{Image, ImageSize};
use serde::{Deserialize, Serialize};

/// File with the size and the scale of pictures.
pub(super) const FILE: &str = "pictures.json";

/// Size of the pictures of a model, and mean and standard deviation of each channel of the training pixels, from 0 to 1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pixels {
    pub size: ImageSize,
    mean: Vec<f32>,
    /// 1 for a channel whose pixels are all the same.
    deviation: Vec<f32>,
}

impl Pixels {
    /// Learns from pictures of one size.
    pub fn learn<'a>(size: ImageSize, images: impl Iterator<Item = &'a Image>) -> Self {
        // There are only 256 values, so that the sums are exact whatever the number of pictures.
        let mut counts = vec![[0u64; 256]; size.channels];
        for image in images {
            for (plane, counts) in image.pixels.chunks_exact(size.height * size.width).zip(&mut counts) {
                plane.iter().for_each(|&pixel| counts[usize::from(pixel)] += 1);
            }
        }
        let moment = |counts: &[u64; 256], of: &dyn Fn(f64) -> f64| {
            let all = counts.iter().sum::<u64>().max(1) as f64;
            counts.iter().enumerate().map(|(value, &count)| of(value as f64 / 255.0) * count as f64).sum::<f64>() / all
        };
        let scale = |counts: &[u64; 256]| {
            let mean = moment(counts, &|value| value);
            let deviation = moment(counts, &|value| (value - mean).powi(2)).sqrt();
            (mean as f32, if deviation > 0.0 { deviation as f32 } else { 1.0 })
        };
        let (mean, deviation) = counts.iter().map(scale).unzip();
        Self { size, mean, deviation }
    }

    /// Returns what is wrong with a scale that was read from a file.
    pub fn problem(&self) -> Option<&'static str> {
        let ImageSize { channels, height, width } = self.size;
        let is_scale = |deviation: &f32| deviation.is_finite() && *deviation > 0.0;
        if ![1, 3].contains(&channels) || height == 0 || width == 0 {
            return Some("not the size of a picture");
        }
        if [self.mean.len(), self.deviation.len()] != [channels; 2] {
            return Some("not a mean and a deviation for each channel");
        }
        let is_sound = self.mean.iter().all(|mean| mean.is_finite()) && self.deviation.iter().all(is_scale);
        (!is_sound).then_some("a mean or a deviation that is not a number, or a deviation that is not above 0")
    }

    /// Scales pictures to a tensor `[pictures, channels, height, width]`.
    pub fn tensor(&self, images: &[impl Borrow<Image>], device: &Device) -> Tensor<4> {
        let ImageSize { channels, height, width } = self.size;
        let tables: Vec<[f32; 256]> = self
            .mean
            .iter()
            .zip(&self.deviation)
            .map(|(mean, deviation)| std::array::from_fn(|value| (value as f32 / 255.0 - mean) / deviation))
            .collect();
        let mut values = Vec::with_capacity(images.len() * self.size.values());
        for image in images {
            for (plane, table) in image.borrow().pixels.chunks_exact(height * width).zip(&tables) {
                values.extend(plane.iter().map(|&pixel| table[usize::from(pixel)]));
            }
        }
        Tensor::from_data(TensorData::new(values, [images.len(), channels, height, width]), device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_have_mean_0_and_deviation_1() {
        let size = ImageSize { channels: 3, height: 1, width: 2 };
        let images =
            [[0, 255, 51, 51, 10, 20], [255, 0, 51, 51, 30, 40]].map(|pixels| Image { size, pixels: pixels.to_vec() });
        let pixels = Pixels::learn(size, images.iter());
        assert_eq!((pixels.mean[0], pixels.deviation[0], pixels.deviation[1]), (0.5, 0.5, 1.0));
        assert_eq!(pixels.problem(), None);
        let tensor = pixels.tensor(&images, &Device::flex());
        assert_eq!(tensor.dims(), [2, 3, 1, 2]);
        let values: Vec<f32> = tensor.into_data().iter().collect();
        assert_eq!(values[..4], [-1.0, 1.0, 0.0, 0.0]);
        let last: Vec<f32> = [4, 5, 10, 11].map(|at| values[at]).to_vec();
        assert!(last.iter().sum::<f32>().abs() < 1e-5 && (last.iter().map(|x| x * x).sum::<f32>() - 4.0).abs() < 1e-4);
    }

    #[test]
    fn a_damaged_scale_is_noticed() {
        let size = ImageSize { channels: 1, height: 2, width: 2 };
        let sound = Pixels { size, mean: vec![0.5], deviation: vec![0.1] };
        assert_eq!(sound.problem(), None);
        for damaged in [
            Pixels { deviation: vec![0.0], ..sound.clone() },
            Pixels { mean: vec![f32::NAN], ..sound.clone() },
            Pixels { mean: vec![], ..sound.clone() },
            Pixels { size: ImageSize { channels: 2, ..size }, ..sound.clone() },
        ] {
            assert!(damaged.problem().is_some(), "{damaged:?}");
        }
    }
}
