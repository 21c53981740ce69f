//! The `[train]` section of every task's configuration: how a model is trained.

use regard_data::Budget;
use regard_nn::ConfigError;
use regard_nn::config::{PrecisionName, check_above_zero, check_dropout, check_positive};
use regard_ops::{CrossEntropyOptions, Precision};
use serde::{Deserialize, Serialize};

use crate::error::TaskError;

/// How the learning rate changes after `warmup` steps, during which it rises linearly from zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Schedule {
    /// The learning rate stays constant.
    Constant,
    /// The learning rate falls along half a cosine to `final_rate` times its highest value at the last step.
    #[default]
    Cosine,
    /// The learning rate falls as `√(warmup / step)` (Vaswani 2017).
    InverseSqrt,
    /// The learning rate falls linearly to `final_rate` times its highest value at the last step.
    Linear,
}

/// Which weights are kept as the trained model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The weights with the best score on the dev split.
    #[default]
    Best,
    /// The weights that were last the best so far on the dev split by the score and by the loss, as in the published code of GAT.
    /// Only an evaluation that improves neither counts for `patience`.
    Both,
    /// The weights after the last step.
    Last,
}

/// The `[train]` section. Training ends after `steps` or `epochs`, whichever comes first; at least one of them must be set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TrainConfig {
    /// Number of updates of the weights.
    pub steps: Option<u64>,
    /// Number of times that every example is seen.
    pub epochs: Option<u64>,
    /// Budget of tokens per batch, including padding.
    pub batch_tokens: usize,
    /// Largest number of examples in a batch.
    pub batch_examples: usize,
    /// Number of batches whose gradients are averaged for one step.
    pub accumulate: usize,
    /// Highest learning rate.
    pub learning_rate: f32,
    /// How the learning rate changes after the warm-up.
    pub schedule: Schedule,
    /// Number of steps in which the learning rate rises from zero.
    pub warmup: u64,
    /// Share of the highest learning rate that is left at the end of the schedules `cosine` and `linear`.
    pub final_rate: f32,
    /// `β₁` of AdamW.
    pub beta1: f32,
    /// `β₂` of AdamW.
    pub beta2: f32,
    /// `ε` of AdamW.
    pub epsilon: f32,
    /// Weight decay of matrices; biases and norms do not decay.
    pub weight_decay: f32,
    /// Factor of an L2 penalty on matrices, whose gradient is added to that of the loss as in Adam; 0 for none.
    pub l2: f32,
    /// Largest norm of the gradients, to which larger ones are scaled down; 0 for no limit.
    pub clip: f32,
    /// Share of the target's probability that is spread evenly over all labels.
    pub label_smoothing: f32,
    /// Number of steps between evaluations on the dev split.
    pub evaluate_every: u64,
    /// Number of dev examples for these evaluations; 0 for all.
    pub evaluate_examples: usize,
    /// Number of steps between checkpoints.
    pub checkpoint_every: u64,
    /// Number of evaluations without a better score after which training ends; 0 for no limit.
    pub patience: u32,
    /// Which weights are kept.
    pub keep: Keep,
    /// Precision in which the operands of large matrix products of a step are multiplied; weights and all else are f32.
    #[serde(with = "PrecisionName")]
    pub precision: Precision,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            steps: None,
            epochs: None,
            batch_tokens: 2_048,
            batch_examples: 256,
            accumulate: 1,
            learning_rate: 1e-3,
            schedule: Schedule::Cosine,
            warmup: 100,
            final_rate: 0.05,
            beta1: 0.9,
            beta2: 0.98,
            epsilon: 1e-8,
            weight_decay: 0.01,
            l2: 0.0,
            clip: 1.0,
            label_smoothing: 0.0,
            evaluate_every: 250,
            evaluate_examples: 0,
            checkpoint_every: 250,
            patience: 0,
            keep: Keep::Best,
            precision: Precision::F32,
        }
    }
}

impl TrainConfig {
    /// Returns an error if a value is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.check().map_err(|error| error.within("train"))
    }

    fn check(&self) -> Result<(), ConfigError> {
        if self.steps.is_none() && self.epochs.is_none() {
            return Err(ConfigError::new("steps", "nothing", "a number of steps, or train.epochs"));
        }
        for (field, value) in [("steps", self.steps), ("epochs", self.epochs)] {
            if value == Some(0) {
                return Err(ConfigError::new(field, 0, "a whole number, 1 or more"));
            }
        }
        check_positive("batch_tokens", self.batch_tokens)?;
        check_positive("batch_examples", self.batch_examples)?;
        check_positive("accumulate", self.accumulate)?;
        check_positive("evaluate_every", self.evaluate_every as usize)?;
        check_positive("checkpoint_every", self.checkpoint_every as usize)?;
        let sizes = [
            ("batch_tokens", self.batch_tokens),
            ("batch_examples", self.batch_examples),
            ("accumulate", self.accumulate),
            ("evaluate_examples", self.evaluate_examples),
        ];
        if let Some((field, value)) = sizes.into_iter().find(|(_, value)| *value > 1 << 31) {
            return Err(ConfigError::new(field, value, "at most 2³¹"));
        }
        check_above_zero("learning_rate", self.learning_rate)?;
        check_above_zero("epsilon", self.epsilon)?;
        for (field, value) in [("beta1", self.beta1), ("beta2", self.beta2), ("label_smoothing", self.label_smoothing)]
        {
            check_dropout(field, value)?;
        }
        for (field, value) in [("weight_decay", self.weight_decay), ("l2", self.l2), ("clip", self.clip)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(ConfigError::new(field, value, "a finite number, 0 or more"));
            }
        }
        match self.final_rate {
            0.0..=1.0 => Ok(()),
            other => Err(ConfigError::new("final_rate", other, "a number from 0 to 1")),
        }
    }

    /// Returns an error unless this processor can train in the precision that is set. It is not a part of
    /// [`validate`](Self::validate), because a trained model is used in f32 on any processor.
    pub fn check_precision(&self) -> Result<(), TaskError> {
        self.precision.check_available().map_err(|error| {
            let problem = format!("{error}; f32 runs everywhere");
            TaskError::Settings { place: "train.precision".to_string(), problem }
        })
    }

    /// Returns the largest size of a batch.
    pub fn budget(&self) -> Budget {
        Budget { tokens: self.batch_tokens, examples: self.batch_examples }
    }

    /// Returns the options of a cross-entropy with these settings.
    pub fn loss_options(&self) -> CrossEntropyOptions {
        CrossEntropyOptions { label_smoothing: self.label_smoothing, ..CrossEntropyOptions::default() }
    }

    /// Returns the learning rate of step `step` of `total`, counted from 1.
    pub fn rate(&self, step: u64, total: u64) -> f32 {
        let (step, total, warmup) = (step as f64, total as f64, self.warmup as f64);
        let rise = if step < warmup { step / warmup } else { 1.0 };
        let last = f64::from(self.final_rate);
        // Progress from the end of the warm-up to the last step, from 0 to 1.
        let way = ((step - warmup) / (total - warmup).max(1.0)).clamp(0.0, 1.0);
        let fall = match self.schedule {
            Schedule::Constant => 1.0,
            Schedule::Cosine => last + (1.0 - last) * 0.5 * (1.0 + (std::f64::consts::PI * way).cos()),
            Schedule::InverseSqrt => (warmup.max(1.0) / step.max(warmup.max(1.0))).sqrt(),
            Schedule::Linear => last + (1.0 - last) * (1.0 - way),
        };
        (f64::from(self.learning_rate) * rise * fall) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learning_rates_follow_their_schedules() {
        let config = |schedule| TrainConfig {
            learning_rate: 1.0,
            warmup: 10,
            final_rate: 0.1,
            schedule,
            ..TrainConfig::default()
        };
        let near = |a: f32, b: f32| assert!((a - b).abs() < 1e-6, "{a} {b}");
        for schedule in [Schedule::Constant, Schedule::Cosine, Schedule::InverseSqrt, Schedule::Linear] {
            near(config(schedule).rate(5, 110), 0.5);
            near(config(schedule).rate(10, 110), 1.0);
        }
        near(config(Schedule::Constant).rate(110, 110), 1.0);
        near(config(Schedule::Cosine).rate(60, 110), 0.55);
        near(config(Schedule::Cosine).rate(110, 110), 0.1);
        near(config(Schedule::Linear).rate(60, 110), 0.55);
        near(config(Schedule::InverseSqrt).rate(40, 110), 0.5);
    }

    #[test]
    fn an_error_names_the_invalid_field() {
        let wrong = |config: TrainConfig| config.validate().unwrap_err().field;
        assert_eq!(wrong(TrainConfig::default()), "train.steps");
        let config = TrainConfig { steps: Some(1), ..TrainConfig::default() };
        assert!(config.validate().is_ok());
        assert_eq!(wrong(TrainConfig { beta2: 1.0, ..config.clone() }), "train.beta2");
        assert_eq!(wrong(TrainConfig { accumulate: 0, ..config.clone() }), "train.accumulate");
        assert_eq!(wrong(TrainConfig { learning_rate: f32::NAN, ..config }), "train.learning_rate");
    }
}
