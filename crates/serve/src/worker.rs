//! The worker of a model: one thread with a pool of its own that answers batches and writes texts, step by step.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread;

use regard_nn::{Ablation, Means, Mode, Pass};
use regard_tasks::answered::costs;
use regard_tasks::input::Given;
use regard_tasks::lens::{lens, next_tokens};
use regard_tasks::task::{Prediction, Prompt, Sample};
use regard_tasks::writer::Drawn;
use regard_tasks::{Examples, Opened, TaskError};
use serde_json::json;

use crate::error::WorkError;
use crate::limits::Limits;
use crate::metrics::ModelMetrics;
use crate::queue::{Answer, Changes, Item, Look, Queue, Together, Work};
use crate::rows::Rows;
use crate::summary::Summary;
use crate::views::Views;

/// Number of most probable next tokens that a language model lists for an input.
const NEXT_TOKENS: usize = 10;

/// A model that is being served.
pub struct Worker {
    /// The model, for reading and checking inputs; only its worker computes with it.
    pub model: Arc<dyn Opened>,
    /// Inputs that wait.
    pub queue: Arc<Queue>,
    /// Length of the vectors of texts; `None` if the model gives none.
    pub dimensions: Option<usize>,
}

impl Worker {
    /// Starts the worker of a model with a number of threads, 0 for all cores.
    pub fn start(
        name: &str,
        model: Arc<dyn Opened>,
        threads: usize,
        limits: &Limits,
        metrics: Arc<ModelMetrics>,
    ) -> std::io::Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().map_err(std::io::Error::other)?;
        let queue = Arc::new(Queue::new(limits.queue, limits.batch, Arc::clone(&metrics)));
        metrics.cache_limit.set(limits.cache);
        // Also reads the settings of the folder once, so that no request reads files.
        let dimensions = pool.install(|| dimensions(model.as_ref()));
        let running = Loop {
            model: Arc::clone(&model),
            queue: Arc::clone(&queue),
            metrics,
            limits: *limits,
            means: OnceLock::new(),
            example: OnceLock::new(),
            views: Views::default(),
        };
        thread::Builder::new().name(format!("model {name}")).spawn(move || pool.install(|| running.run()))?;
        Ok(Self { model, queue, dimensions })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The thread answers what waits and ends.
        self.queue.close();
    }
}

/// Returns the length of the vectors of texts, if the model gives some.
fn dimensions(model: &dyn Opened) -> Option<usize> {
    let checkpoint = model.checkpoint()?;
    if let Some(writer) = model.writer() {
        // Reads the chat template.
        writer.has_chat();
    }
    let found = catch_unwind(AssertUnwindSafe(|| {
        let text = checkpoint.to_embed("a").or_else(|_| checkpoint.ids_to_embed(vec![0])).ok()?;
        checkpoint.embed_encoded(&[&text], &Pass::inference()).ok()
    }));
    found.ok().flatten().and_then(|vectors| vectors.first().map(Vec::len))
}

struct Loop {
    model: Arc<dyn Opened>,
    queue: Arc<Queue>,
    metrics: Arc<ModelMetrics>,
    limits: Limits,
    /// Mean outputs of heads, for `without` with `=mean`.
    means: OnceLock<Means>,
    /// Input that shows what the model does.
    example: OnceLock<Sample>,
    /// Maps of the last inputs.
    views: Views,
}

impl Loop {
    fn run(&self) {
        let mut rows = self.model.writer().map(|writer| Rows::new(writer, self.limits, &self.metrics));
        loop {
            let is_busy = rows.as_ref().is_some_and(|rows| !rows.is_empty());
            let taken = self.queue.take(is_busy, |item| rows.as_mut().is_none_or(|rows| rows.reserve(item)));
            if !taken.batch.is_empty() {
                self.answer(taken.batch);
            }
            if let Some(rows) = &mut rows {
                taken.texts.into_iter().for_each(|item| rows.join(item));
                rows.step();
            }
            if taken.is_over && rows.as_ref().is_none_or(Rows::is_empty) {
                return;
            }
        }
    }

    /// Answers a batch. If it fails as a whole, each input is tried alone, so that one cannot fail the others.
    fn answer(&self, batch: Vec<Item>) {
        self.metrics.batch(batch.len());
        let together = Together::of(&batch);
        let pass = Pass::inference().until(&together.cancelled);
        let found = catch_unwind(AssertUnwindSafe(|| self.together(&batch, &pass)));
        let is_one = batch.len() == 1;
        match found {
            Ok(Ok(answers)) => {
                for (item, answer) in batch.into_iter().zip(answers) {
                    item.finish(answer);
                }
            }
            Ok(Err(error)) if is_one || error == WorkError::Cancelled => {
                batch.into_iter().for_each(|item| item.finish(Err(error.clone())));
            }
            Err(_) if is_one => {
                self.metrics.panics.add(1);
                batch.into_iter().for_each(|item| item.finish(Err(WorkError::Panicked)));
            }
            Ok(Err(_)) | Err(_) => batch.into_iter().for_each(|item| self.answer(vec![item])),
        }
    }

    /// Computes the answers of a batch of the same kind.
    fn together(&self, batch: &[Item], pass: &Pass) -> Result<Vec<Result<Answer, WorkError>>, WorkError> {
        let Some(first) = batch.first() else { return Ok(Vec::new()) };
        match &first.work {
            Work::Embed(_) => {
                let texts: Vec<_> = batch.iter().filter_map(|item| item.work.to_embed()).collect();
                let checkpoint = self.model.checkpoint().ok_or_else(|| WorkError::Unsupported("no vectors".into()))?;
                self.metrics.tokens_read.add(texts.iter().map(|text| text.ids.len()).sum());
                let vectors = checkpoint.embed_encoded(&texts, pass)?;
                Ok(vectors.into_iter().map(|vector| Ok(Answer::Vector(vector))).collect())
            }
            Work::Predict(_, changes) => {
                let inputs: Vec<Given> = batch.iter().filter_map(|item| item.work.given().cloned()).collect();
                let whole = self.predict(&inputs, pass)?;
                let changed = match changes {
                    Some(changes) => {
                        let changed = self.changed(Some(changes), pass, |pass| self.predict(&inputs, pass));
                        changed?.into_iter().map(Some).collect()
                    }
                    None => inputs.iter().map(|_| None).collect::<Vec<_>>(),
                };
                Ok(whole.into_iter().zip(changed).map(|(whole, changed)| both(whole, changed)).collect())
            }
            Work::Look(look) => Ok(vec![self.changed(look.changes.as_ref(), pass, |pass| self.look(look, pass))]),
            Work::Generate(text) => {
                let prompt = Prompt { input: text.input.clone(), seed: text.seed };
                let mut piece = |_: usize, piece: &str| text.send(Ok(Drawn::piece(piece)));
                self.model.generate(&[prompt], &text.wish, pass, &mut piece)?;
                Ok(vec![Ok(Answer::Generated)])
            }
            Work::Costs(given, mode) => {
                let means = if *mode == Mode::Mean { self.means("every head")? } else { Means::default() };
                let (score, heads) = costs(self.model.as_ref(), given, *mode, &means, pass)?;
                Ok(vec![Ok(Answer::Costs(score, heads))])
            }
            Work::Lens(text, top, changes) => Ok(vec![self.changed(changes.as_ref(), pass, |pass| {
                let none = || WorkError::Unsupported("this model is no Transformer that writes text".to_string());
                let writer = self.model.writer().ok_or_else(none)?;
                Ok(Answer::Lens(lens(writer.as_ref(), text, *top, pass)?))
            })]),
            Work::Example => Ok(vec![self.example().map(Answer::Example)]),
        }
    }

    /// Predicts the answers to inputs. A language model also lists the most probable next tokens.
    fn predict(&self, inputs: &[Given], pass: &Pass) -> Result<Vec<Result<Prediction, TaskError>>, WorkError> {
        let mut found = self.model.predict(inputs, pass)?;
        if let Some(writer) = self.model.writer() {
            for (given, prediction) in inputs.iter().zip(&mut found) {
                let (Ok(prediction), Ok(text)) = (prediction, given.text()) else { continue };
                let next = next_tokens(writer.as_ref(), text, NEXT_TOKENS, pass)?;
                prediction.more.insert("next".to_string(), json!(next));
            }
        }
        Ok(found)
    }

    /// Returns the example of the model, which is chosen once: it may come from the model's data.
    fn example(&self) -> Result<Sample, WorkError> {
        if let Some(sample) = self.example.get() {
            return Ok(sample.clone());
        }
        let sample = self.model.example()?;
        Ok(self.example.get_or_init(|| sample).clone())
    }

    fn look(&self, look: &Look, pass: &Pass) -> Result<Answer, WorkError> {
        let Look { given, wanted, is_summary, .. } = look;
        if let Some((looked, predicted)) = self.views.find(look) {
            return Ok(Answer::Looked(looked, predicted));
        }
        let mut summary = Summary::default();
        let mut maps = None;
        for wanted in wanted {
            pass.check_cancelled().map_err(TaskError::from)?;
            let looked = self.model.look(Some(given), wanted.clone(), pass)?;
            if !is_summary {
                maps = Some(looked);
                break;
            }
            looked.view().iter().for_each(|view| summary.add(view, self.model.inventory()));
            summary.picture = summary.picture.or_else(|| looked.picture().cloned());
        }
        // Some checkpoints, such as encoders without a head, predict nothing.
        let predicted = self.predict(std::slice::from_ref(given), pass);
        let predicted = predicted.ok().and_then(|mut found| found.pop()).and_then(Result::ok);
        Ok(match maps {
            Some(maps) => {
                let maps = Arc::new(maps);
                self.views.keep(look, &maps, predicted.as_ref());
                Answer::Looked(maps, predicted)
            }
            None => Answer::Summary(Box::new(summary), predicted),
        })
    }

    /// Calls `with` with a pass through the changed model.
    fn changed<R>(
        &self,
        changes: Option<&Changes>,
        pass: &Pass,
        with: impl FnOnce(&Pass) -> Result<R, WorkError>,
    ) -> Result<R, WorkError> {
        let Some(changes) = changes else { return with(pass) };
        let ablation = self.ablation(changes)?;
        with(&pass.with_ablation(&ablation).with_temperature(changes.temperature))
    }

    /// Returns the parts to switch off, with means of their outputs where they are asked for.
    fn ablation(&self, changes: &Changes) -> Result<Ablation, WorkError> {
        let ablation = changes.ablation.clone();
        match ablation.needs_means() {
            true => Ok(ablation.with_means(self.means(&changes.names)?)),
            false => Ok(ablation),
        }
    }

    /// Returns the mean outputs of all heads, which are computed once.
    fn means(&self, names: &str) -> Result<Means, WorkError> {
        if self.means.get().is_none() {
            let examples = Examples::Split(regard_data::Split::Dev);
            let means = self.model.means(examples, &Pass::inference());
            let means = means.map_err(|error| WorkError::Unsupported(format!("{names}=mean: {error}")))?;
            let _ = self.means.set(means);
        }
        Ok(self.means.get().cloned().unwrap_or_default())
    }
}

fn both(
    whole: Result<Prediction, TaskError>,
    changed: Option<Result<Prediction, TaskError>>,
) -> Result<Answer, WorkError> {
    Ok(Answer::Prediction(whole?, changed.transpose()?))
}

impl Work {
    fn to_embed(&self) -> Option<&regard_data::PublishedText> {
        match self {
            Self::Embed(text) => Some(text),
            _ => None,
        }
    }

    fn given(&self) -> Option<&Given> {
        match self {
            Self::Predict(given, _) => Some(given),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use regard_inspect::show::Shown;
    use regard_nn::{Inventory, Wanted};
    use regard_tasks::decode::Wish;
    use regard_tasks::folder::Description;
    use regard_tasks::heads::Heads;
    use regard_tasks::ink::{Ink, PenOptions, PenRequest};
    use regard_tasks::input::InputKind;
    use regard_tasks::task::{Evaluation, Looked, Questions};
    use tokio::sync::oneshot;

    use super::*;
    use crate::queue::Waiting;

    /// A model that repeats its inputs, and panics at one of them.
    struct Fragile(Description, Inventory);

    fn none<T>() -> Result<T, TaskError> {
        Err(TaskError::Unsupported { task: "fragile", what: "do this".to_string() })
    }

    impl Opened for Fragile {
        fn description(&self) -> &Description {
            &self.0
        }

        fn input_kind(&self) -> InputKind {
            InputKind::Text
        }

        fn inventory(&self) -> &Inventory {
            &self.1
        }

        fn evaluate(&self, _: Examples, _: &Pass) -> Result<Evaluation, TaskError> {
            none()
        }

        fn questions(&self, _: &Path) -> Result<Option<Questions>, TaskError> {
            none()
        }

        fn predict(&self, inputs: &[Given], _: &Pass) -> Result<Vec<Result<Prediction, TaskError>>, TaskError> {
            assert!(!inputs.contains(&Given::from("bad")), "a bad input");
            Ok(inputs.iter().map(|input| Ok(Prediction::new(input.to_string(), Default::default()))).collect())
        }

        fn example(&self) -> Result<Sample, TaskError> {
            none()
        }

        fn look(&self, _: Option<&Given>, _: Wanted, _: &Pass) -> Result<Looked, TaskError> {
            none()
        }

        fn positions(&self, _: Option<usize>) -> Result<Shown, TaskError> {
            none()
        }

        fn means(&self, _: Examples, _: &Pass) -> Result<Means, TaskError> {
            none()
        }

        fn heads(&self, _: Examples, _: usize, _: &Pass, _: &mut dyn FnMut(usize, usize)) -> Result<Heads, TaskError> {
            none()
        }

        fn generate(
            &self,
            _: &[Prompt<Given>],
            _: &Wish,
            _: &Pass,
            _: &mut dyn FnMut(usize, &str),
        ) -> Result<(), TaskError> {
            panic!("this model cannot write")
        }

        fn write_by_hand(
            &self,
            _: &[PenRequest],
            _: &PenOptions,
            _: &Pass,
        ) -> Result<Vec<Result<Ink, TaskError>>, TaskError> {
            none()
        }

        fn parameters(&self) -> usize {
            0
        }

        fn export(&self, _: &Path) -> Result<(), TaskError> {
            none()
        }
    }

    #[test]
    fn a_panic_fails_one_input_alone() {
        let model: Arc<dyn Opened> =
            Arc::new(Fragile(Description::new("fragile", Default::default()), Inventory::default()));
        let metrics = Arc::new(ModelMetrics::default());
        let worker = Worker::start("fragile", model, 1, &Limits::default(), Arc::clone(&metrics)).unwrap();
        let ask = |texts: &[&str]| {
            let (mut items, mut answers) = (Vec::new(), Vec::new());
            for text in texts {
                let (reply, answer) = oneshot::channel();
                let work = Work::Predict(Given::from(*text), None);
                items.push(Item { work, size: 1, reply, waiting: Arc::new(Waiting::default()) });
                answers.push(answer);
            }
            worker.queue.push(items).map_err(|(_, error)| error).unwrap();
            answers.into_iter().map(|answer| answer.blocking_recv().unwrap()).collect::<Vec<_>>()
        };
        let found = ask(&["one", "bad", "two"]);
        assert!(matches!(&found[0], Ok(Answer::Prediction(found, None)) if found.output == "one"), "{found:?}");
        assert_eq!(found[1].as_ref().err(), Some(&WorkError::Panicked));
        assert!(matches!(&found[2], Ok(Answer::Prediction(found, None)) if found.output == "two"), "{found:?}");
        assert!(ask(&["three"])[0].is_ok());
        assert_eq!(metrics.panics.get(), 1);
    }
}
