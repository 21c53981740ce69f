//! An answer of a model, scored again with parts of the model switched off: what each head does for this answer.

use rayon::prelude::*;
use regard_nn::{Ablation, Means, Mode, Pass};
use serde::Serialize;
use serde_json::Value;

use crate::error::TaskError;
use crate::input::Given;
use crate::lens::{next, read_tokens};
use crate::metrics::chrf::{ChrfOptions, sentence_chrf};
use crate::opened::Opened;
use crate::task::Prediction;
use crate::writer::Writer;

/// How sure a model is of an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Score {
    /// What is measured, such as `probability of NOUN`.
    pub what: String,
    /// The number with all heads.
    pub value: f64,
}

/// The score without one head.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HeadCost {
    /// Name of the head, such as `encoder.0.2`.
    pub name: String,
    /// The score without the head.
    pub value: f64,
    /// The score without the head minus that with all heads.
    pub change: f64,
}

/// What a model has answered to an input.
struct Answered<'a> {
    model: &'a dyn Opened,
    given: &'a Given,
    answer: Answer,
}

/// The answer, and so how it is scored.
enum Answer {
    /// A language model goes on with a token.
    Token { ids: Vec<u32>, next: u32 },
    /// A label of a classifier.
    Label(String),
    /// A tag for each token.
    Tags(Vec<Value>),
    /// A number.
    Number,
    /// Any other answer.
    Text(String),
}

/// Switches off every head of a model, one by one, for one input. Returns the score of the model's own answer and the heads in the
/// order of their effects, the largest first. `means` are needed for [`Mode::Mean`].
pub fn costs(
    model: &dyn Opened,
    given: &Given,
    mode: Mode,
    means: &Means,
    pass: &Pass,
) -> Result<(Score, Vec<HeadCost>), TaskError> {
    let inventory = model.inventory();
    if inventory.layers.is_empty() {
        let what = "switch off heads: this model has no attention".to_string();
        return Err(TaskError::Unsupported { task: "this model", what });
    }
    let (answered, score) = Answered::of(model, given, pass)?;
    let heads: Vec<_> = inventory.heads().collect();
    let cost = |(site, head)| {
        pass.check_cancelled()?;
        let off = Ablation::of(site, Some(head), mode);
        let off = if mode == Mode::Mean { off.with_means(means.clone()) } else { off };
        let value = answered.value(&pass.with_ablation(&off))?;
        Ok(HeadCost { name: inventory.name(&site, head), value, change: value - score.value })
    };
    let mut found = heads.into_par_iter().map(cost).collect::<Result<Vec<_>, TaskError>>()?;
    // Stable: heads without any effect stay in the order of the model.
    found.sort_by(|a, b| b.change.abs().total_cmp(&a.change.abs()));
    Ok((score, found))
}

impl<'a> Answered<'a> {
    /// Lets a model answer, and scores the answer.
    fn of(model: &'a dyn Opened, given: &'a Given, pass: &Pass) -> Result<(Self, Score), TaskError> {
        let (answer, what) = match model.writer() {
            Some(writer) => token(writer.as_ref(), given, pass)?,
            None => {
                let found = predicted(model, given, pass)?;
                let labels = probabilities(&found, &found.output);
                match (&found.more.get("tags"), found.more.get("value")) {
                    _ if labels.is_some() => {
                        let what = format!("probability of {}", found.output);
                        (Answer::Label(found.output), what)
                    }
                    (Some(Value::Array(tags)), _) if found.more.contains_key("probabilities") => {
                        let what = "mean probability of the tags, 0 for a tag that changes".to_string();
                        (Answer::Tags(tags.clone()), what)
                    }
                    (_, Some(Value::Number(_))) => (Answer::Number, "predicted number".to_string()),
                    _ => {
                        let what = format!("similarity (chrF) to {}", found.output);
                        (Answer::Text(found.output), what)
                    }
                }
            }
        };
        let answered = Self { model, given, answer };
        let value = answered.value(pass)?;
        Ok((answered, Score { what, value }))
    }

    /// Scores the answer in a pass.
    fn value(&self, pass: &Pass) -> Result<f64, TaskError> {
        if let (Answer::Token { ids, next: token }, Some(writer)) = (&self.answer, self.model.writer()) {
            let all = next(writer.network(), ids, pass)?;
            return Ok(all.get(*token as usize).map_or(0.0, |log| log.exp()));
        }
        let found = predicted(self.model, self.given, pass)?;
        Ok(match &self.answer {
            Answer::Label(label) => probabilities(&found, label).unwrap_or(0.0),
            Answer::Tags(tags) => {
                let own = found.more.get("tags").and_then(Value::as_array);
                let sure = found.more.get("probabilities").and_then(Value::as_array);
                let pairs = own.into_iter().flatten().zip(sure.into_iter().flatten()).zip(tags);
                let kept = pairs.filter(|((own, _), tag)| own == tag).filter_map(|((_, sure), _)| sure.as_f64());
                kept.sum::<f64>() / tags.len().max(1) as f64
            }
            Answer::Number => found.more.get("value").and_then(Value::as_f64).unwrap_or(f64::NAN),
            Answer::Text(text) if *text == found.output => 1.0,
            Answer::Text(text) => {
                sentence_chrf(&found.output, std::slice::from_ref(text), ChrfOptions::default()) / 100.0
            }
            Answer::Token { .. } => 0.0,
        })
    }
}

/// Returns the most probable token after a text, and what its score is called.
fn token(writer: &dyn Writer, given: &Given, pass: &Pass) -> Result<(Answer, String), TaskError> {
    let ids = read_tokens(writer, given.text()?)?;
    let all = next(writer.network(), &ids, pass)?;
    let best = (writer.hidden()..all.len()).max_by(|&a, &b| all[a].total_cmp(&all[b]).then(b.cmp(&a)));
    let next = best.ok_or_else(|| TaskError::input("vocabulary", "at least one token", "none"))? as u32;
    let what = format!("probability of {:?} as the next token", writer.decode(&[next]));
    Ok((Answer::Token { ids, next }, what))
}

fn predicted(model: &dyn Opened, given: &Given, pass: &Pass) -> Result<Prediction, TaskError> {
    let none = || TaskError::input("prediction", "one for the input", "none");
    model.predict(std::slice::from_ref(given), pass)?.pop().ok_or_else(none)?
}

/// Returns the probability of a label, for a classifier.
fn probabilities(found: &Prediction, label: &str) -> Option<f64> {
    found.more.get("probabilities")?.as_object()?.get(label)?.as_f64()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn golden(name: &str) -> std::sync::Arc<dyn Opened> {
        crate::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/hugging_face").join(name)).unwrap()
    }

    #[test]
    fn the_cost_of_a_head_is_that_of_a_plain_call_without_it() {
        let model = golden("bert-tagger");
        let (given, pass) = (Given::from("the cat sat"), Pass::inference());
        let (score, found) = costs(model.as_ref(), &given, Mode::Uniform, &Means::default(), &pass).unwrap();
        let whole = predicted(model.as_ref(), &given, &pass).unwrap();
        let mean = |found: &Prediction| {
            let sure =
                found.more["probabilities"].as_array().unwrap().iter().zip(found.more["tags"].as_array().unwrap());
            let same = sure.zip(whole.more["tags"].as_array().unwrap()).filter(|((_, own), tag)| own == tag);
            same.map(|((sure, _), _)| sure.as_f64().unwrap()).sum::<f64>()
                / whole.more["tags"].as_array().unwrap().len() as f64
        };
        assert_eq!(score.value, mean(&whole));
        assert_eq!(found.len(), model.inventory().heads().count());
        for head in &found {
            let off = Ablation::parse(&format!("{}=uniform", head.name), model.inventory()).unwrap();
            let less = predicted(model.as_ref(), &given, &pass.with_ablation(&off)).unwrap();
            assert_eq!((head.value, head.change), (mean(&less), mean(&less) - score.value), "{}", head.name);
        }
        assert!(found.windows(2).all(|two| two[0].change.abs() >= two[1].change.abs()));
        assert!(found[0].change != 0.0, "{found:?}");
    }

    #[test]
    fn a_language_model_is_asked_for_its_next_token() {
        let model = golden("gpt2");
        let (given, pass) = (Given::from("a cat sat"), Pass::inference());
        let (score, found) = costs(model.as_ref(), &given, Mode::Zero, &Means::default(), &pass).unwrap();
        assert!(score.value > 0.0 && score.value <= 1.0 && score.what.ends_with("as the next token"), "{score:?}");
        assert!(found.iter().any(|head| head.change != 0.0));
        let cancelled = std::sync::atomic::AtomicBool::new(true);
        let error = costs(model.as_ref(), &given, Mode::Zero, &Means::default(), &pass.until(&cancelled)).unwrap_err();
        assert_eq!(error.to_string(), "cancelled");
    }
}
