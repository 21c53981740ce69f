//! Scores of a checkpoint on a file: a classifier of texts on labelled texts, a language model on plain text.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::Device;
use regard_data::{Around, LabelledColumns, PublishedText, read_labelled, read_text};
use regard_nn::{Ablation, Capture, Means, Mode, Pass, Wanted};
use regard_ops::log_softmax;

use super::TASK;
use super::answer::{Read, joined};
use super::network::{Network, Texts};
use super::opened::Checkpoint;
use super::sentence::longest;
use crate::error::TaskError;
use crate::heads::{self, Heads};
use crate::opened::Examples;
use crate::task::{Better, Evaluation};

/// Number of texts that go through the model together.
const TOGETHER: usize = 16;
/// Largest number of tokens that a language model reads at once when it is scored.
const BLOCK: usize = 512;
/// Largest number of inputs over which the behaviour of heads is averaged.
const WATCHED: usize = 200;

/// The examples of a file.
struct Part {
    name: String,
    /// Texts with their tokens.
    texts: Vec<(String, PublishedText)>,
    /// Class of each text; empty for plain text.
    labels: Vec<usize>,
}

impl Checkpoint {
    /// Scores the checkpoint on a file.
    pub(super) fn scored(&self, examples: Examples, pass: &Pass) -> Result<Evaluation, TaskError> {
        let part = self.part(examples)?;
        Ok(Evaluation { part: part.name.clone(), ..self.score(&part, None, pass)? })
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
            let legend = self.legend(&read, &pass.with_capture(&capture))?;
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
            self.legend(&read, &pass.with_capture(&capture))?;
        }
        Ok(capture.into_means())
    }

    fn part(&self, examples: Examples) -> Result<Part, TaskError> {
        let Examples::File(path) = examples else {
            let what = "use data of its own, which it does not have; name a file with --data".to_string();
            return Err(TaskError::Unsupported { task: TASK, what });
        };
        match &self.loaded.network {
            Network::Encoder(model) if model.head.output.is_some() && !self.loaded.network.labels_tokens() => {
                self.labelled_part(path)
            }
            Network::Next(_) => self.plain_part(path),
            _ => {
                let what = "be scored: only classifiers of texts and language models can".to_string();
                Err(TaskError::Unsupported { task: TASK, what })
            }
        }
    }

    fn labelled_part(&self, path: &Path) -> Result<Part, TaskError> {
        let outputs = match &self.loaded.network {
            Network::Encoder(model) => model.head.output.as_ref().map_or(0, |output| output.weight.dims()[1]),
            _ => 0,
        };
        let names: Vec<String> = (0..outputs).map(|at| self.label(at)).collect();
        let mut part = Part { name: path.display().to_string(), texts: Vec::new(), labels: Vec::new() };
        for example in read_labelled(path, &LabelledColumns::default())?.examples {
            let Some(label) = names.iter().position(|name| *name == example.label) else {
                let expected = format!("one of the checkpoint's labels, {}", names.join(", "));
                return Err(TaskError::input(format!("{}, label", path.display()), expected, example.label));
            };
            let encoded = self.encoded(&example.text)?;
            part.texts.push((example.text, encoded));
            part.labels.push(label);
        }
        Ok(part)
    }

    /// Reads a text as blocks of tokens that do not overlap.
    fn plain_part(&self, path: &Path) -> Result<Part, TaskError> {
        let text = read_text(path)?;
        let encoded = self.tokenizer()?.encode(&text, Around::Nothing)?;
        self.checked(&encoded.ids, usize::MAX).map_err(TaskError::in_file(Some(path)))?;
        let length = longest(&self.loaded.config).unwrap_or(BLOCK).min(BLOCK);
        let mut part = Part { name: path.display().to_string(), texts: Vec::new(), labels: Vec::new() };
        for first in (0..encoded.ids.len()).step_by(length) {
            let range = first..(first + length).min(encoded.ids.len());
            if range.len() < 2 {
                continue;
            }
            let (start, end) = (encoded.offsets[range.start].0, encoded.offsets[range.end - 1].1);
            let block = PublishedText {
                ids: encoded.ids[range.clone()].to_vec(),
                types: encoded.types[range.clone()].to_vec(),
                tokens: encoded.tokens[range.clone()].to_vec(),
                offsets: encoded.offsets[range.clone()].to_vec(),
                is_special: encoded.is_special[range].to_vec(),
            };
            part.texts.push((text.get(start..end).unwrap_or_default().to_string(), block));
        }
        match part.texts.is_empty() {
            true => Err(TaskError::input(path.display().to_string(), "two tokens or more", "fewer")),
            false => Ok(part),
        }
    }

    /// Computes the scores on all examples, or on `limit` of them spread evenly.
    fn score(&self, part: &Part, limit: Option<usize>, pass: &Pass) -> Result<Evaluation, TaskError> {
        let step = part.texts.len().div_ceil(limit.unwrap_or(usize::MAX).max(1)).max(1);
        let chosen: Vec<usize> = (0..part.texts.len()).step_by(step).collect();
        let (mut loss, mut count, mut right) = (0.0, 0usize, 0usize);
        for (done, some) in chosen.chunks(TOGETHER).enumerate() {
            pass.report(done * TOGETHER, chosen.len())?;
            let batch: Vec<&PublishedText> = some.iter().map(|&at| &part.texts[at].1).collect();
            let texts: Texts = joined(&batch);
            let outputs = self.loaded.network.run(&texts, None, &Device::flex(), pass)?;
            let Some(logits) = outputs.logits else { continue };
            let [_, seq, width] = logits.dims();
            let values: Vec<f32> = log_softmax(logits)?.to_data().iter().collect();
            for (row, &at) in some.iter().enumerate() {
                let mut add = |place: usize, target: usize| {
                    let found = &values[(row * seq + place) * width..][..width];
                    loss -= f64::from(found[target]);
                    count += 1;
                    right += usize::from((0..width).all(|other| found[other] <= found[target]));
                };
                match part.labels.get(at) {
                    Some(&label) => add(0, label),
                    None => {
                        let ids = &part.texts[at].1.ids;
                        (1..ids.len()).for_each(|place| add(place - 1, ids[place] as usize));
                    }
                }
            }
        }
        let (loss, accuracy) = (loss / count.max(1) as f64, right as f64 / count.max(1) as f64);
        let evaluation = match part.labels.is_empty() {
            true => Evaluation::new([("loss", loss), ("perplexity", loss.exp())], "loss", Better::Lower),
            false => Evaluation::new([("accuracy", accuracy), ("loss", loss)], "accuracy", Better::Higher),
        };
        Ok(Evaluation { examples: chosen.len(), ..evaluation })
    }
}

/// Returns some texts of a part, to watch the heads on.
fn watched(part: &Part) -> impl Iterator<Item = Read> + '_ {
    let step = part.texts.len().div_ceil(WATCHED).max(1);
    part.texts.iter().step_by(step).map(|(text, encoded)| Read::Text(text.clone(), encoded.clone()))
}
