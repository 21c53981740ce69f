//! How text is generated: what a caller asks for, on top of what the model does by default.

use regard_nn::ConfigError;

use super::{Patience, Rules, SampleOptions};

/// What a caller asks of generated text. `None` leaves a choice to the model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wish {
    /// Largest number of tokens after the prompt.
    pub max_len: Option<usize>,
    /// Temperature of sampling; 0 takes the most probable token.
    pub temperature: Option<f32>,
    /// Number of most probable tokens to draw from.
    pub top_k: Option<usize>,
    /// Probability of the most probable tokens to draw from.
    pub top_p: Option<f32>,
    /// Number of hypotheses of a beam search; 1 for none.
    pub beams: Option<usize>,
    /// Length penalty of a beam search.
    pub length_penalty: Option<f64>,
    /// Penalty of tokens that have occurred.
    pub repetition_penalty: Option<f32>,
    /// Number of tokens that never occur twice in the same order.
    pub no_repeat: Option<usize>,
    /// Strings that end the text without being part of it.
    pub stop: Vec<String>,
    /// Set if prompts are messages, which the model answers by its chat template.
    pub chat: Option<Chat>,
}

/// A conversation that prompts belong to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chat {
    /// Message of the system, before all others.
    pub system: Option<String>,
}

/// How text is generated.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// How tokens are drawn; unused in a beam search, except for the tokens that end the text.
    pub sampling: SampleOptions,
    /// Number of hypotheses of a beam search; 1 for none.
    pub beams: usize,
    /// Length penalty `α` of a beam search: hypotheses are compared by `log p / length^α`.
    pub length_penalty: f64,
    /// When a beam search stops.
    pub patience: Patience,
    /// Rules about the next token.
    pub rules: Rules,
    /// Strings that end the text without being part of it.
    pub stop: Vec<String>,
}

impl From<SampleOptions> for Plan {
    fn from(sampling: SampleOptions) -> Self {
        let (rules, stop) = (Rules::default(), Vec::new());
        Self { sampling, beams: 1, length_penalty: 1.0, patience: Patience::Now, rules, stop }
    }
}

impl Plan {
    /// Returns the plan with what a caller asks for.
    pub fn with(mut self, wish: &Wish) -> Result<Self, ConfigError> {
        let asks_to_sample = wish.temperature.is_some_and(|temperature| temperature > 0.0)
            || wish.top_k.is_some()
            || wish.top_p.is_some();
        if asks_to_sample && wish.beams.is_some_and(|beams| beams > 1) {
            let beams = wish.beams.unwrap_or_default();
            return Err(ConfigError::new(
                "beams",
                beams,
                "1 with a temperature, top_k or top_p: a beam search draws nothing",
            ));
        }
        if asks_to_sample || wish.temperature.is_some() {
            self.beams = 1;
        }
        if let Some(beams) = wish.beams {
            self.beams = beams;
        }
        if asks_to_sample && wish.temperature.is_none() && self.sampling.temperature == 0.0 {
            self.sampling.temperature = 1.0;
        }
        self.sampling.temperature = wish.temperature.unwrap_or(self.sampling.temperature);
        self.sampling.top_k = wish.top_k.or(self.sampling.top_k);
        self.sampling.top_p = wish.top_p.or(self.sampling.top_p);
        self.sampling.max_len = wish.max_len.unwrap_or(self.sampling.max_len);
        self.length_penalty = wish.length_penalty.unwrap_or(self.length_penalty);
        self.rules.repetition_penalty = wish.repetition_penalty.unwrap_or(self.rules.repetition_penalty);
        self.rules.no_repeat = wish.no_repeat.unwrap_or(self.rules.no_repeat);
        self.stop.extend(wish.stop.iter().filter(|stop| !stop.is_empty()).cloned());
        self.validate()?;
        Ok(self)
    }

    /// Returns an error if a value is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(1..=1_024).contains(&self.beams) {
            return Err(ConfigError::new("beams", self.beams, "a whole number from 1 to 1024"));
        }
        if !(-100.0..=100.0).contains(&self.length_penalty) {
            return Err(ConfigError::new("length_penalty", self.length_penalty, "a number from -100 to 100"));
        }
        self.sampling.validate()?;
        self.rules.validate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_replaces_what_it_names() {
        let plan = Plan { beams: 4, ..Plan::from(SampleOptions { temperature: 0.0, ..SampleOptions::default() }) };
        assert_eq!(plan.clone().with(&Wish::default()).unwrap(), plan);
        let drawn = plan.clone().with(&Wish { top_k: Some(3), ..Wish::default() }).unwrap();
        assert_eq!((drawn.beams, drawn.sampling.temperature, drawn.sampling.top_k), (1, 1.0, Some(3)));
        let greedy = plan.clone().with(&Wish { temperature: Some(0.0), ..Wish::default() }).unwrap();
        assert_eq!((greedy.beams, greedy.sampling.temperature), (1, 0.0));
        for wrong in [
            Wish { beams: Some(0), ..Wish::default() },
            Wish { beams: Some(2), temperature: Some(0.5), ..Wish::default() },
            Wish { repetition_penalty: Some(0.0), ..Wish::default() },
            Wish { length_penalty: Some(f64::NAN), ..Wish::default() },
            Wish { top_p: Some(2.0), ..Wish::default() },
        ] {
            assert!(plan.clone().with(&wrong).is_err(), "{wrong:?}");
        }
    }
}
