//! Scores of a checkpoint on a file, and what its heads are worth there.

mod part;

use std::collections::BTreeMap;

use burn::tensor::Device;
use regard_data::{Budget, PublishedText, in_order};
use regard_nn::{Ablation, Capture, Means, Mode, Pass, Wanted};
use regard_ops::log_softmax;

use self::part::{Example, Measure, Part};
use super::TASK;
use super::answer::{Read, joined};
use super::network::{Network, Texts};
use super::opened::Checkpoint;
use crate::error::TaskError;
use crate::heads::{self, Heads};
use crate::opened::Examples;
use crate::rows::spread;
use crate::tag::encoded::Encoded;
use crate::tag::scores::{self, Outcome};
use crate::task::{Better, Evaluation};
use crate::translate::encoded::Sentence;
use crate::translate::scoring;

/// What goes through the model together. The output of a language model has its whole vocabulary for every token.
const TOGETHER: Budget = Budget { tokens: 2_048, examples: 16 };
/// Largest number of inputs over which the behaviour of heads is averaged.
const WATCHED: usize = 200;

/// What the network makes of the examples.
#[derive(Default)]
struct Outputs {
    /// Sum of the losses of the right classes that the network has, and their number.
    loss: f64,
    count: usize,
    /// Number of rows, and of those whose most probable class is the right one.
    rows: usize,
    right: usize,
    /// Most probable classes of each example.
    classes: Vec<Vec<usize>>,
}

impl Outputs {
    /// Returns the mean loss.
    fn mean(&self) -> f64 {
        self.loss / self.count.max(1) as f64
    }

    fn accuracy(&self) -> f64 {
        self.right as f64 / self.rows.max(1) as f64
    }

    /// Adds a row of log-probabilities and returns its most probable class.
    fn add(&mut self, found: &[f32], target: usize) -> usize {
        let best = (1..found.len()).fold(0, |best, at| if found[at] > found[best] { at } else { best });
        if let Some(&log) = found.get(target) {
            self.loss -= f64::from(log);
            self.count += 1;
        }
        self.rows += 1;
        self.right += usize::from(best == target);
        best
    }
}

impl Checkpoint {
    /// Scores the checkpoint on a file.
    pub(super) fn scored(&self, examples: Examples, pass: &Pass) -> Result<Evaluation, TaskError> {
        let part = self.part(examples)?;
        let evaluation = match &part.measure {
            Measure::Translations(sentences) => {
                let loss = self.outputs(&part, None, pass)?.1.mean();
                let found = self.translations(sentences, pass)?;
                scoring::evaluation(&sentences.iter().collect::<Vec<_>>(), &found, Some(loss), &[])
            }
            _ => self.score(&part, None, pass)?,
        };
        Ok(Evaluation { part: part.name, ..evaluation })
    }

    /// Measures the heads on a file.
    pub(super) fn measured(
        &self,
        examples: Examples,
        limit: usize,
        pass: &Pass,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Heads, TaskError> {
        let part = self.part(examples)?;
        let mut found = Heads::new(TASK, &part.name, &self.score(&part, Some(limit), pass)?);
        let mut looks = BTreeMap::new();
        for read in watched(&part) {
            let capture = Capture::new(Wanted::default());
            let legend = self.legend(read, &pass.with_capture(&capture))?;
            heads::watch(&legend.view(&capture.into_maps())?, &mut looks);
            found.watched += 1;
        }
        let named = heads::named(&self.loaded.inventory);
        let all = named.len();
        for (done, (site, head, name)) in named.into_iter().enumerate() {
            progress(done, all);
            let without = Ablation::of(site, Some(head), Mode::Zero);
            let evaluation = self.score(&part, Some(limit), &pass.with_ablation(&without))?;
            found.add(name, site, head, &evaluation, looks.get(&(site, head)));
        }
        progress(all, all);
        Ok(found)
    }

    /// Computes the mean outputs of the heads over a file.
    pub(super) fn mean_outputs(&self, examples: Examples, pass: &Pass) -> Result<Means, TaskError> {
        let part = self.part(examples)?;
        let capture = Capture::of_outputs();
        for read in watched(&part) {
            self.legend(read, &pass.with_capture(&capture))?;
        }
        Ok(capture.into_means())
    }

    /// Computes the scores of single passes on all examples, or on `limit` of them spread evenly.
    fn score(&self, part: &Part, limit: Option<usize>, pass: &Pass) -> Result<Evaluation, TaskError> {
        let (chosen, found) = self.outputs(part, limit, pass)?;
        let loss = ("loss", found.mean());
        let evaluation = match &part.measure {
            Measure::Classes => Evaluation::new([("accuracy", found.accuracy()), loss], "accuracy", Better::Higher),
            Measure::Hidden => Evaluation::new([loss, ("accuracy", found.accuracy())], "loss", Better::Lower),
            Measure::Next | Measure::Translations(_) => {
                Evaluation::new([loss, ("perplexity", found.mean().exp())], "loss", Better::Lower)
            }
            Measure::Tags { sentences, labels, extra } => {
                let sentences: Vec<Encoded> = chosen.iter().map(|&at| sentences[at].clone()).collect();
                let loss = (found.count > 0).then(|| found.mean());
                let outcome = Outcome { sentences: &sentences, found: found.classes, loss };
                scores::evaluation(&outcome, labels, extra, None)?
            }
        };
        Ok(Evaluation { examples: chosen.len(), ..evaluation })
    }

    /// Runs the network on all examples, or on `limit` of them; returns which, and its outputs.
    fn outputs(&self, part: &Part, limit: Option<usize>, pass: &Pass) -> Result<(Vec<usize>, Outputs), TaskError> {
        let chosen: Vec<usize> = spread(part.examples.len(), limit).collect();
        let lengths: Vec<usize> = chosen.iter().map(|&at| part.examples[at].length()).collect();
        let batches = in_order(&lengths, TOGETHER);
        let mut outputs = Outputs { classes: vec![Vec::new(); chosen.len()], ..Outputs::default() };
        for (done, batch) in batches.iter().enumerate() {
            pass.report(done, batches.len())?;
            let examples: Vec<&Example> = batch.iter().map(|&at| &part.examples[chosen[at]]).collect();
            let (values, seq, width) = self.log_probabilities(&examples, pass)?;
            for (row, (&at, example)) in batch.iter().zip(&examples).enumerate() {
                for &(place, target) in &example.targets {
                    let class = outputs.add(&values[(row * seq + place) * width..][..width], target);
                    outputs.classes[at].push(class);
                }
            }
        }
        Ok((chosen, outputs))
    }

    /// Computes the log-probabilities of all classes for some examples; returns them with the number of rows of an example and
    /// that of classes.
    fn log_probabilities(&self, examples: &[&Example], pass: &Pass) -> Result<(Vec<f32>, usize, usize), TaskError> {
        let network = &self.loaded.network;
        let outputs = match network {
            Network::Image(_) => {
                let pictures: Vec<Read> = examples.iter().map(|example| example.read.clone()).collect();
                network.see(self.pixels(&pictures)?, pass)?
            }
            _ => {
                let texts: Vec<&PublishedText> = examples.iter().filter_map(|example| example.read.text()).collect();
                let is_translated = matches!(network, Network::Translation(_));
                let read = || Texts::new(examples.iter().map(|example| example.decoder.clone()).collect());
                let decoder = is_translated.then(read);
                network.run(&joined(&texts), decoder.as_ref(), &Device::flex(), pass)?
            }
        };
        let Some(logits) = outputs.logits else { return Err(part::no_score()) };
        let [_, seq, width] = logits.dims();
        Ok((log_softmax(logits)?.to_data().iter().collect(), seq, width))
    }

    /// Translates sentences as the folder says.
    fn translations(&self, sentences: &[Sentence], pass: &Pass) -> Result<Vec<String>, TaskError> {
        let mut found = Vec::with_capacity(sentences.len());
        for (done, some) in sentences.chunks(TOGETHER.examples).enumerate() {
            pass.report(done * TOGETHER.examples, sentences.len())?;
            let encoded: Vec<PublishedText> =
                some.iter().map(|sentence| self.encoded(&sentence.source)).collect::<Result<_, _>>()?;
            for ids in self.translated(&encoded.iter().collect::<Vec<_>>(), pass)? {
                found.push(self.text(&ids)?);
            }
        }
        Ok(found)
    }
}

/// Returns some inputs of a part, to watch the heads on.
fn watched(part: &Part) -> impl Iterator<Item = &Read> + '_ {
    spread(part.examples.len(), Some(WATCHED)).map(|at| &part.examples[at].read)
}
