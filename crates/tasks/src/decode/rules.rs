//! Rules about the next token that a distribution is changed by before a token is chosen, as `generate` of `transformers` has them.

use regard_nn::ConfigError;

/// What a beam search adds up when rules have changed the log-probabilities of the next token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Summed {
    /// The log-probabilities as the rules leave them.
    #[default]
    Changed,
    /// Log-probabilities of the tokens that are left, whose probabilities have a sum of 1 again.
    Normalised,
}

/// What may follow, and what is made less probable. The default changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Penalty `θ` of tokens that have occurred, in the prompt too: a positive logit is divided by `θ`, a negative one multiplied
    /// (Keskar 2019). 1 for none.
    pub repetition_penalty: f32,
    /// Number of tokens that never occur twice in the same order; 0 allows everything.
    pub no_repeat: usize,
    /// Sequences of tokens that are never completed.
    pub banned: Vec<Vec<u32>>,
    /// Tokens that are not written first.
    pub banned_first: Vec<u32>,
    /// Tokens that never occur, even if they end a text or would be forced.
    pub suppressed: Vec<u32>,
    /// Tokens that end a sequence.
    pub ends: Vec<u32>,
    /// Number of tokens, with the prompt, before which no end is written.
    pub min_total: usize,
    /// Number of tokens after the prompt before which no end is written.
    pub min_new: usize,
    /// Token that is written after a prompt of one token.
    pub forced_first: Option<u32>,
    /// Tokens of which one is written last if the limit of tokens is reached; empty for any.
    pub forced_last: Vec<u32>,
    /// What a beam search adds up.
    pub summed: Summed,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            repetition_penalty: 1.0,
            no_repeat: 0,
            banned: Vec::new(),
            banned_first: Vec::new(),
            suppressed: Vec::new(),
            ends: Vec::new(),
            min_total: 0,
            min_new: 0,
            forced_first: None,
            forced_last: Vec::new(),
            summed: Summed::Changed,
        }
    }
}

impl Rules {
    /// Returns an error if a value is invalid.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if !(self.repetition_penalty.is_finite() && self.repetition_penalty > 0.0) {
            return Err(ConfigError::new("repetition_penalty", self.repetition_penalty, "a finite number above 0"));
        }
        Ok(())
    }

    /// Returns whether the rules change nothing.
    pub fn are_none(&self) -> bool {
        *self == Self { ends: self.ends.clone(), summed: self.summed, ..Self::default() }
    }

    /// Changes the logits or log-probabilities of the token after `prompt` and `written`, where at most `limit` tokens are written.
    pub fn apply(&self, prompt: &[u32], written: &[u32], limit: usize, row: &mut [f32]) {
        let total = prompt.len() + written.len();
        let so_far = || prompt.iter().chain(written).copied();
        let at = |place: usize| if place < prompt.len() { prompt[place] } else { written[place - prompt.len()] };
        let never = |row: &mut [f32], token: u32| {
            if let Some(x) = row.get_mut(token as usize) {
                *x = f32::NEG_INFINITY;
            }
        };
        if self.repetition_penalty != 1.0 {
            let mut seen: Vec<u32> = so_far().collect();
            seen.sort_unstable();
            seen.dedup();
            for token in seen {
                if let Some(x) = row.get_mut(token as usize) {
                    *x = if *x < 0.0 { *x * self.repetition_penalty } else { *x / self.repetition_penalty };
                }
            }
        }
        if self.no_repeat > 0 && total + 1 >= self.no_repeat {
            let before = self.no_repeat - 1;
            let is_repeated = |start: usize| (0..before).all(|i| at(start + i) == at(total - before + i));
            (0..total.saturating_sub(before)).filter(|&start| is_repeated(start)).for_each(|start| {
                never(row, at(start + before));
            });
        }
        for sequence in &self.banned {
            let Some((&last, before)) = sequence.split_last() else { continue };
            let is_begun = before.len() <= total
                && before.iter().enumerate().all(|(i, &token)| at(total - before.len() + i) == token);
            let is_end = before.is_empty() && self.ends.contains(&last);
            if is_begun && !is_end {
                never(row, last);
            }
        }
        if total < self.min_total || written.len() < self.min_new {
            self.ends.iter().for_each(|&end| never(row, end));
        }
        if total == 1
            && let Some(first) = self.forced_first
        {
            only(row, &[first]);
        }
        if !self.forced_last.is_empty() && written.len() + 1 == limit {
            only(row, &self.forced_last);
        }
        // A token that is forced to be first moves the beginning by one.
        let first = usize::from(self.forced_first.is_some() && prompt.len() == 1);
        if written.len() == first {
            self.banned_first.iter().for_each(|&token| never(row, token));
        }
        self.suppressed.iter().for_each(|&token| never(row, token));
    }
}

/// Subtracts from log-probabilities what the rules have left of them in all, unless nothing is left.
pub(super) fn normalise(row: &mut [f32]) {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    if most.is_finite() {
        let sum: f64 = row.iter().map(|&x| f64::from(x - most).exp()).sum();
        let all = f64::from(most) + sum.ln();
        row.iter_mut().for_each(|x| *x = (f64::from(*x) - all) as f32);
    }
}

/// Makes all tokens but some impossible.
fn only(row: &mut [f32], tokens: &[u32]) {
    row.fill(f32::NEG_INFINITY);
    for &token in tokens {
        if let Some(x) = row.get_mut(token as usize) {
            *x = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: f32 = f32::NEG_INFINITY;

    fn applied(rules: &Rules, prompt: &[u32], written: &[u32]) -> Vec<f32> {
        let mut row = vec![2.0, -2.0, 4.0, -4.0, 1.0];
        rules.apply(prompt, written, 5, &mut row);
        row
    }

    #[test]
    fn no_rules_change_nothing() {
        let rules = Rules { ends: vec![1], ..Rules::default() };
        assert!(rules.are_none());
        assert_eq!(applied(&rules, &[0], &[1]), [2.0, -2.0, 4.0, -4.0, 1.0]);
    }

    #[test]
    fn what_has_occurred_becomes_less_probable_once() {
        let rules = Rules { repetition_penalty: 2.0, ..Rules::default() };
        assert_eq!(applied(&rules, &[0, 1], &[1, 3, 9]), [1.0, -4.0, 4.0, -8.0, 1.0]);
    }

    #[test]
    fn no_pair_is_written_twice() {
        let rules = Rules { no_repeat: 2, ..Rules::default() };
        assert_eq!(applied(&rules, &[0, 1, 0], &[2, 0]), [2.0, NEVER, NEVER, -4.0, 1.0]);
        assert_eq!(applied(&rules, &[3], &[]), [2.0, -2.0, 4.0, -4.0, 1.0]);
        let rules = Rules { no_repeat: 1, ..Rules::default() };
        assert_eq!(applied(&rules, &[3], &[0]), [NEVER, -2.0, 4.0, NEVER, 1.0]);
    }

    #[test]
    fn banned_sequences_are_not_completed() {
        let rules =
            Rules { banned: vec![vec![4], vec![0, 1, 2], vec![7, 0], vec![3]], ends: vec![3], ..Rules::default() };
        assert_eq!(applied(&rules, &[0], &[1]), [2.0, -2.0, NEVER, -4.0, NEVER]);
        assert_eq!(applied(&rules, &[1], &[1]), [2.0, -2.0, 4.0, -4.0, NEVER]);
    }

    #[test]
    fn first_and_last_tokens_and_the_least_length() {
        let rules = Rules { forced_first: Some(3), forced_last: vec![1], banned_first: vec![2], ..Rules::default() };
        assert_eq!(applied(&rules, &[0], &[]), [NEVER, NEVER, NEVER, 0.0, NEVER]);
        assert_eq!(applied(&rules, &[0], &[3]), [2.0, -2.0, NEVER, -4.0, 1.0]);
        assert_eq!(applied(&rules, &[0], &[3, 2, 2, 2]), [NEVER, 0.0, NEVER, NEVER, NEVER]);
        let rules = Rules { min_total: 3, min_new: 1, ends: vec![1], ..Rules::default() };
        assert_eq!(applied(&rules, &[0], &[2])[1], NEVER);
        assert_eq!(applied(&rules, &[0, 2, 2], &[])[1], NEVER);
        assert_eq!(applied(&rules, &[0, 2], &[2])[1], -2.0);
    }

    #[test]
    fn what_is_left_is_normalised() {
        let mut row = [0.5f32.ln(), NEVER, 0.25f32.ln()];
        normalise(&mut row);
        assert!((row[0].exp() - 2.0 / 3.0).abs() < 1e-6 && (row[2].exp() - 1.0 / 3.0).abs() < 1e-6, "{row:?}");
        assert_eq!(row[1], NEVER);
        let mut nothing = [NEVER; 2];
        normalise(&mut nothing);
        assert_eq!(nothing, [NEVER; 2]);
    }

    #[test]
    fn a_suppressed_token_never_occurs_even_if_it_ends_a_text() {
        let rules = Rules { banned: vec![vec![1]], suppressed: vec![2], ends: vec![1, 2], ..Rules::default() };
        let mut row = [0.5; 4];
        rules.apply(&[0], &[3], 9, &mut row);
        assert_eq!(row, [0.5, 0.5, NEVER, 0.5]);
        let rules = Rules { forced_last: vec![2], ..rules };
        rules.apply(&[0], &[3], 2, &mut row);
        assert_eq!(row, [NEVER; 4]);
    }
}
