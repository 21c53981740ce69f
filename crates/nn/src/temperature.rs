//! The temperature of attention: what a pass divides the scores of every softmax by.

use std::borrow::Cow;

use burn::tensor::Tensor;
use regard_ops::{AttentionOptions, Distance};

use crate::error::{ConfigError, NnError};
use crate::pass::Pass;

/// Number that the scores of every softmax attention are divided by. Below 1 attention is sharper, above 1 it is flatter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Temperature(f32);

impl Temperature {
    /// Lowest and highest temperature: beyond them weights are those of a choice of one key, or all equal.
    pub const RANGE: [f64; 2] = [0.01, 100.0];

    /// Creates a temperature, or returns an error if it is outside [`RANGE`](Self::RANGE).
    pub fn new(value: f64) -> Result<Self, ConfigError> {
        let [least, most] = Self::RANGE;
        match (least..=most).contains(&value) {
            true => Ok(Self(value as f32)),
            false => Err(ConfigError::new("temperature", value, format!("a number from {least} to {most}"))),
        }
    }
}

impl Pass<'_> {
    /// Returns options whose scores are divided by the temperature of the pass, with all biases. `d_head` is the number of
    /// features of a query.
    pub(crate) fn at_temperature<'a>(&self, options: &'a AttentionOptions, d_head: usize) -> Cow<'a, AttentionOptions> {
        let Some(Temperature(temperature)) = self.temperature() else { return Cow::Borrowed(options) };
        let mut options = options.clone();
        options.scale = Some(options.scale.unwrap_or(1.0 / (d_head as f32).sqrt()) / temperature);
        options.bias = options.bias.map(|bias| bias / temperature);
        options.distance = match options.distance {
            Distance::None => Distance::None,
            Distance::Alibi { slopes } => {
                Distance::Alibi { slopes: slopes.into_iter().map(|slope| slope / temperature).collect() }
            }
            Distance::Relative { table } => Distance::Relative { table: table / temperature },
        };
        Cow::Owned(options)
    }

    /// Divides the scores of a softmax by the temperature of the pass.
    pub(crate) fn cooled<const D: usize>(&self, scores: Tensor<D>) -> Tensor<D> {
        match self.temperature() {
            Some(Temperature(temperature)) => scores / temperature,
            None => scores,
        }
    }

    /// Returns an error if the pass has a temperature, for attention without a softmax.
    pub(crate) fn check_no_temperature(&self, kind: &str) -> Result<(), NnError> {
        match self.temperature() {
            None => Ok(()),
            Some(Temperature(found)) => {
                Err(NnError::input("temperature", format!("none: {kind} has no softmax"), found.to_string()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Device, TensorData};
    use regard_ops::Mask;

    use super::*;
    use crate::capture::Capture;
    use crate::heads::{AttentionKind, Heads};
    use crate::init::Init;

    fn tensor<const D: usize>(shape: [usize; D], phase: f32) -> Tensor<D> {
        let count = shape.iter().product::<usize>();
        let values: Vec<f32> = (0..count).map(|at| (1.7 * at as f32 + phase).sin()).collect();
        Tensor::from_data(TensorData::new(values, shape), &Device::flex())
    }

    fn heads() -> Heads {
        Init::new(1, &Device::flex()).heads(AttentionKind::SelfAttention, 2)
    }

    /// Computes outputs and weights of two heads with biases of every kind.
    fn attended(distance: Distance, pass: &Pass, by: f32) -> (Vec<f32>, Vec<Vec<f32>>) {
        let (q, k, v) = (tensor([1, 2, 5, 4], 0.0), tensor([1, 2, 5, 4], 1.0), tensor([1, 2, 5, 3], 2.0));
        let bias = Some(tensor([1, 2, 5, 5], 3.0) / by);
        let options = AttentionOptions { mask: Mask::Causal, bias, distance, ..AttentionOptions::default() };
        let capture = Capture::default();
        let found = heads().attend(q / by, k, v, &options, 0, &pass.with_capture(&capture)).unwrap();
        let rows = capture.into_maps().into_iter().flat_map(|map| map.rows).collect();
        (found.into_data().iter().collect(), rows)
    }

    #[test]
    fn scores_and_biases_are_divided() {
        let warm = Pass::inference().with_temperature(Some(Temperature::new(2.5).unwrap()));
        let table = |by: f32| Distance::Relative { table: tensor([2, 5], 4.0) / by };
        let slopes = |by: f32| Distance::Alibi { slopes: vec![0.5 / by, 0.25 / by] };
        for distance in [table, slopes as fn(f32) -> Distance] {
            let ((found, weights), (wanted, by_hand)) =
                (attended(distance(1.0), &warm, 1.0), attended(distance(2.5), &Pass::inference(), 2.5));
            let (cold, _) = attended(distance(1.0), &Pass::inference(), 1.0);
            let far = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(far(&found, &wanted) < 1e-6 && far(&found, &cold) > 1e-2, "{found:?} {wanted:?}");
            assert!(far(&weights.concat(), &by_hand.concat()) < 1e-6);
        }
    }

    #[test]
    fn a_temperature_is_a_number_within_limits() {
        for wrong in [f64::NAN, f64::INFINITY, 0.0, -1.0, 1e-3, 1e3] {
            assert!(Temperature::new(wrong).is_err(), "{wrong}");
        }
        assert!(Temperature::new(0.01).is_ok() && Temperature::new(100.0).is_ok());
        let error = Pass::inference().with_temperature(Temperature::new(2.0).ok()).check_no_temperature("a window");
        assert!(error.unwrap_err().to_string().contains("a window has no softmax"));
    }
}
