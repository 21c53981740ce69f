//! Sinusoidal positions (Vaswani 2017): `sin(p / base^(2i/d))` and `cos(p / base^(2i/d))`, interleaved.
//!
//! `PE(p + k)` is `PE(p)` with pair `i` rotated by `k / base^(2i/d)`, for any `p`; see [`Sinusoidal::shift`].

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};

use crate::config::check_above_zero;
use crate::error::ConfigError;

/// Sinusoidal positions, without weights and without a limit on the position; see the [module](self) for the formula.
#[derive(Module, Debug)]
pub struct Sinusoidal {
    d_model: usize,
    base: f32,
}

impl Sinusoidal {
    /// Creates positions with `d_model` features. Returns an error if `d_model` is odd or zero.
    pub fn new(d_model: usize, base: f32) -> Result<Self, ConfigError> {
        check_above_zero("base", base)?;
        if d_model == 0 || d_model % 2 == 1 {
            return Err(ConfigError::new("d_model", d_model, "an even number: sinusoidal positions are pairs"));
        }
        Ok(Self { d_model, base })
    }

    /// Computes the vectors of the positions `offset..offset + seq`.
    ///
    /// # Shapes
    /// → `[seq, d_model]`.
    pub fn encode(&self, seq: usize, offset: usize, device: &Device) -> Tensor<2> {
        let data: Vec<f32> = (offset..offset + seq)
            .flat_map(|p| (0..self.d_model / 2).map(move |i| self.angle(p as f64, i)))
            .flat_map(|angle| [angle.sin() as f32, angle.cos() as f32])
            .collect();
        Tensor::from_data(TensorData::new(data, [seq, self.d_model]), device)
    }

    /// Returns the matrix `R` with `PE(p + by) = PE(p) R` for every `p`, which rotates each pair.
    ///
    /// # Shapes
    /// → `[d_model, d_model]`.
    pub fn shift(&self, by: usize, device: &Device) -> Tensor<2> {
        let d = self.d_model;
        let mut data = vec![0.0; d * d];
        for i in 0..d / 2 {
            let (sin, cos) = self.angle(by as f64, i).sin_cos();
            let (row, next) = (2 * i * d + 2 * i, (2 * i + 1) * d + 2 * i);
            (data[row], data[row + 1]) = (cos as f32, -sin as f32);
            (data[next], data[next + 1]) = (sin as f32, cos as f32);
        }
        Tensor::from_data(TensorData::new(data, [d, d]), device)
    }

    /// Computes an angle in f64, because the sine of an f32 angle of several thousand is wrong in its fourth digit.
    fn angle(&self, position: f64, pair: usize) -> f64 {
        position / f64::from(self.base).powf((2 * pair) as f64 / self.d_model as f64)
    }
}
