//! Trained models, opened from their folders and ready for use.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Device;
use regard_data::Split;
use regard_inspect::AttentionView;
use regard_inspect::show::Shown;
use regard_inspect::show::position::show_trained;
use regard_nn::{Ablation, Capture, Init, Inventory, Means, Mode, Pass, Wanted};

use crate::decode::Wish;
use crate::error::TaskError;
use crate::folder::{Description, Folder, MODEL};
use crate::heads::{self, Heads};
use crate::hugging_face::Checkpoint;
use crate::ink::{Ink, PenOptions, PenRequest};
use crate::input::{Given, InputKind};
use crate::looked::Draw;
use crate::memory;
use crate::run::{parts_of, restored};
use crate::tag::LABELS;
use crate::task::{Evaluation, Looked, Prediction, Prompt, Questions, Sample, Settings, Task};
use crate::train::newest_weights;
use crate::weights::{self, Storage};
use crate::writer::Writer;

/// The examples to score: a file, or a split of the data that the model was trained on.
#[derive(Debug, Clone, Copy)]
pub enum Examples<'a> {
    /// All examples of a file.
    File(&'a Path),
    /// One split of the model's data.
    Split(Split),
    /// The split that the run was scored on at its end: test, or dev if the data have no test split.
    HeldOut,
}

/// A trained model that any number of threads can use at once. The caller's [`Pass`] says what to capture, what to switch off
/// and when to give up.
pub trait Opened: Send + Sync {
    /// Returns the description in the model's folder.
    fn description(&self) -> &Description;

    /// Returns the kind of input that the model takes.
    fn input_kind(&self) -> InputKind;

    /// Returns the attention layers of the model.
    fn inventory(&self) -> &Inventory;

    /// Returns the labels that the model can answer, in the order of its outputs; empty if its answers are no labels.
    fn labels(&self) -> &[String] {
        &[]
    }

    /// Returns whether the model answers inputs. An encoder without a head does not.
    fn predicts(&self) -> bool {
        true
    }

    /// Returns an input that shows what the model does, as JSON that names no file, with the expected answer if it is known.
    fn example(&self) -> Result<Sample, TaskError>;

    /// Scores the model on examples.
    fn evaluate(&self, examples: Examples, pass: &Pass) -> Result<Evaluation, TaskError>;

    /// Reads the inputs of a file in a format of the task's own, such as columns; returns `None` for one input per line.
    fn questions(&self, path: &Path) -> Result<Option<Questions>, TaskError>;

    /// Predicts the answer to each input. An input that the model refuses gets an error without affecting the others.
    fn predict(&self, inputs: &[Given], pass: &Pass) -> Result<Vec<Result<Prediction, TaskError>>, TaskError>;

    /// Returns the attention maps for an input, or the picture that the task shows instead. By default the task chooses an input.
    fn look(&self, input: Option<&Given>, wanted: Wanted, pass: &Pass) -> Result<Looked, TaskError>;

    /// Shows the trained positions of the model: the first `length`, or a number that suits the model.
    fn positions(&self, length: Option<usize>) -> Result<Shown, TaskError>;

    /// Computes the mean output of every head over examples, for [`Mode::Mean`].
    fn means(&self, examples: Examples, pass: &Pass) -> Result<Means, TaskError>;

    /// Measures what each head is worth and what it attends to, on at most `limit` examples. `progress` is called with the number
    /// of heads done and the number of all heads.
    fn heads(
        &self,
        examples: Examples,
        limit: usize,
        pass: &Pass,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Heads, TaskError>;

    /// Continues all prompts at once; an empty prompt lets the model begin. `piece` is called with the index of a prompt and the
    /// next piece of its text.
    fn generate(
        &self,
        prompts: &[Prompt<Given>],
        wish: &Wish,
        pass: &Pass,
        piece: &mut dyn FnMut(usize, &str),
    ) -> Result<(), TaskError>;

    /// Returns whether a generated text goes on from its prompt; the one of a translator does not. True by default.
    fn continues_prompts(&self) -> bool {
        true
    }

    /// Returns the interface for texts that join and leave while others are written. By default the model has none.
    fn writer(&self) -> Option<Box<dyn Writer + '_>> {
        None
    }

    /// Writes lines by hand. A text that the model cannot write gets an error without affecting the others.
    fn write_by_hand(
        &self,
        lines: &[PenRequest],
        options: &PenOptions,
        pass: &Pass,
    ) -> Result<Vec<Result<Ink, TaskError>>, TaskError>;

    /// Returns the number of parameters of the network.
    fn parameters(&self) -> usize;

    /// Writes the model as a folder of `transformers`.
    fn export(&self, to: &Path) -> Result<(), TaskError>;

    /// Returns the checkpoint that the model is, if it is one of another program. By default it is none.
    fn checkpoint(&self) -> Option<&Checkpoint> {
        None
    }
}

/// Opens a model folder of any task, or a checkpoint of `transformers`.
pub fn open(path: &Path) -> Result<Arc<dyn Opened>, TaskError> {
    open_as(path, Storage::F32)
}

/// Same as [`open`], with weights stored as `storage` says.
pub fn open_as(path: &Path, storage: Storage) -> Result<Arc<dyn Opened>, TaskError> {
    if let Some(checkpoint) = Checkpoint::open_as(path, storage)? {
        return Ok(Arc::new(checkpoint));
    }
    let (folder, description) = Folder::open(path)?;
    let Some(kind) = crate::kind(&description.task) else {
        let problem = format!("this version of Regard does not know its task, {:?}", description.task);
        return Err(TaskError::folder(path, problem));
    };
    kind.open(folder, description, storage)
}

/// Computes the attention maps of an input, and how the task draws input and answer.
// It is compiled for each task; inlined, it would be there once more for each caller.
#[inline(never)]
pub(crate) fn viewed<T: Task>(
    task: &T,
    model: &T::Model,
    input: &T::Input,
    wanted: Wanted,
    pass: &Pass,
) -> Result<(AttentionView, Option<Draw>), TaskError> {
    let capture = Capture::new(wanted);
    let legend = task.look(model, input, &pass.with_capture(&capture))?;
    Ok((legend.view(&capture.into_maps())?, legend.draw))
}

/// Returns the error for a model without attention.
fn no_attention<T: Task>(asked: &str) -> TaskError {
    let instead = match T::CONFIG.contains("kind = \"transformer\"") {
        true => "; train one with model.kind=transformer",
        false => "",
    };
    TaskError::Unsupported { task: T::NAME, what: format!("{asked}: this model has no attention{instead}") }
}

/// Returns the error for a model without positions. `is_chosen` says that the model could have positions and was told to have none.
fn no_positions<T: Task>(is_chosen: bool) -> TaskError {
    let why = match (is_chosen, T::CONFIG.contains("kind = \"transformer\"")) {
        (true, _) => "model.position is none; train one with another kind, such as model.position=learned",
        (false, true) => "only a Transformer has them; train one with model.kind=transformer",
        (false, false) => "its model has none",
    };
    TaskError::Unsupported { task: T::NAME, what: format!("show positions: {why}") }
}

/// Largest number of inputs over which the behaviour of heads is averaged.
const WATCHED: usize = 200;

/// Text for a model of texts whose data are not there.
pub(crate) const SENTENCE: &str = "I saw a saw.";

/// An opened model of the task `T`.
pub(crate) struct Model<T: Task> {
    task: T,
    model: T::Model,
    description: Description,
    inventory: Inventory,
    labels: Vec<String>,
}

impl<T: Task> Model<T> {
    /// Loads the model of a folder. If its run has not finished, the weights are those of the newest checkpoint.
    pub fn open(folder: Folder, mut description: Description, storage: Storage) -> Result<Self, TaskError> {
        let task: T = restored(&folder, &description)?;
        if let Some(described) = task.described() {
            memory::check_weights(&described)?;
        }
        let init = Init::for_weights(&Device::flex());
        let model = task.model(&init)?;
        let path = folder.file(MODEL);
        let written = description.files.contains_key(MODEL).then_some(description.step);
        let newer = if description.finished { None } else { newest_weights(folder.path(), written) };
        let tensors = match newer {
            Some((step, tensors)) => {
                description.step = step;
                tensors
            }
            None => weights::from_bytes(&folder.read(&description, MODEL)?, &path)?,
        };
        if let Some(name) = weights::not_finite(&tensors) {
            let problem = format!("{name} has values that are not finite: training has failed; train the model again");
            return Err(TaskError::folder(path, problem));
        }
        let model = weights::load_as(model, tensors, &path, storage)?.no_grad();
        // The file of a model that answers numbers has their scale.
        let labels = match description.files.contains_key(LABELS) {
            true => serde_json::from_slice(&folder.read(&description, LABELS)?).unwrap_or_default(),
            false => Vec::new(),
        };
        Ok(Self { task, model, description, inventory: init.inventory(), labels })
    }

    /// Returns the task and its trained network.
    pub fn into_parts(self) -> (T, T::Model) {
        (self.task, self.model)
    }

    /// Loads the examples and returns them with the name of the split or the path of the file.
    fn part(&self, examples: Examples) -> Result<(T::Part, String), TaskError> {
        match examples {
            Examples::File(path) => {
                let part = self.task.part(path).map_err(TaskError::in_file(Some(path)))?;
                Ok((part, path.display().to_string()))
            }
            Examples::Split(_) | Examples::HeldOut => {
                let config = self.task.config();
                if config.fingerprint()? != self.description.data {
                    let path = config.data_path().unwrap_or_else(|| Path::new("built-in data"));
                    let problem = "not the data that the model was trained on, so the splits would differ; \
                                   name a file with --data to score all of it";
                    return Err(TaskError::folder(path, problem));
                }
                let parts = parts_of(&self.task)?;
                let split = match examples {
                    Examples::Split(split) => split,
                    _ => parts.held_out().0,
                };
                let none = || {
                    let expected = "dev: these data have no test split, only dev is held out";
                    TaskError::input("split", expected, split.to_string())
                };
                Ok((parts.take(split).ok_or_else(none)?, split.to_string()))
            }
        }
    }

    /// Calls `with` for some inputs of a split, one after the other, and returns how many the model accepted.
    fn watch(
        &self,
        part: &T::Part,
        pass: &Pass,
        mut with: impl FnMut(&T::Input, &Pass) -> Result<(), TaskError>,
    ) -> Result<usize, TaskError> {
        let mut watched = 0;
        for sample in self.task.samples(part, WATCHED) {
            pass.check_cancelled()?;
            match self.task.input(&sample.given).and_then(|input| with(&input, pass)) {
                Ok(()) => watched += 1,
                // Some examples are too long for an input.
                Err(TaskError::Input { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(watched)
    }

    fn answer(&self, given: &Given, pass: &Pass) -> Result<Prediction, TaskError> {
        let input = self.task.input(given)?;
        let found = self.task.predict(&self.model, std::slice::from_ref(&input), pass)?.pop();
        let found = found.ok_or_else(|| TaskError::input("prediction", "one per input", "none"))?;
        Ok(Prediction { input: given.to_json(), ..found })
    }
}

impl<T: Task> Opened for Model<T> {
    fn description(&self) -> &Description {
        &self.description
    }

    fn input_kind(&self) -> InputKind {
        T::INPUT
    }

    fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    fn labels(&self) -> &[String] {
        &self.labels
    }

    fn example(&self) -> Result<Sample, TaskError> {
        let chosen = self.task.telling(&self.model);
        let own = |input| Sample { given: self.task.given(&input), expected: String::new() };
        chosen.map(own).or_else(|error| {
            // Models of a user's data have no input that suits them better than one of those data, if they are still there.
            let samples = match self.part(Examples::HeldOut) {
                Ok((part, _)) => self.task.samples(&part, WATCHED),
                Err(_) if T::INPUT == InputKind::Text => {
                    vec![Sample { given: SENTENCE.into(), expected: String::new() }]
                }
                Err(_) => Vec::new(),
            };
            let read = |sample: Sample| Some((self.task.input(&sample.given).ok()?, sample.expected));
            let found = samples.into_iter().find_map(read);
            found.map(|(input, expected)| Sample { given: self.task.given(&input), expected }).ok_or(error)
        })
    }

    fn evaluate(&self, examples: Examples, pass: &Pass) -> Result<Evaluation, TaskError> {
        let (part, name) = self.part(examples)?;
        Ok(Evaluation { part: name, ..self.task.evaluate(&part, &self.model, None, pass)? })
    }

    fn questions(&self, path: &Path) -> Result<Option<Questions>, TaskError> {
        self.task.questions(path).map_err(TaskError::in_file(Some(path)))
    }

    fn predict(&self, inputs: &[Given], pass: &Pass) -> Result<Vec<Result<Prediction, TaskError>>, TaskError> {
        let read: Vec<Result<T::Input, TaskError>> = inputs.iter().map(|given| self.task.input(given)).collect();
        let mut good = Vec::with_capacity(read.len());
        let refused: Vec<Option<TaskError>> =
            read.into_iter().map(|one| one.map(|input| good.push(input)).err()).collect();
        let mut answers = match self.task.predict(&self.model, &good, pass) {
            Ok(predictions) => predictions.into_iter(),
            // The model refused one of the inputs; predicting each by itself tells which.
            Err(TaskError::Input { .. }) => {
                return Ok(inputs.iter().map(|given| self.answer(given, pass)).collect());
            }
            Err(error) => return Err(error),
        };
        let answer = |(given, refused): (&Given, Option<TaskError>)| match refused {
            Some(error) => Err(error),
            None => {
                let found = answers.next().ok_or_else(|| TaskError::input("prediction", "one per input", "fewer"))?;
                Ok(Prediction { input: given.to_json(), ..found })
            }
        };
        Ok(inputs.iter().zip(refused).map(answer).collect())
    }

    fn look(&self, given: Option<&Given>, wanted: Wanted, pass: &Pass) -> Result<Looked, TaskError> {
        let input = given.map(|given| self.task.input(given)).transpose()?;
        if let Some(picture) = self.task.picture(&self.model, input.as_ref())? {
            return Ok(picture.into());
        }
        let input = match input {
            Some(input) => input,
            None => self.task.telling(&self.model)?,
        };
        let (view, draw) = viewed(&self.task, &self.model, &input, wanted, pass)?;
        match (draw.map(|draw| draw(&view)).transpose()?, view.groups.is_empty()) {
            (None, true) => Err(no_attention::<T>("show attention")),
            (None, false) => Ok(view.into()),
            (Some(picture), true) => Ok(picture.into()),
            (Some(picture), false) => Ok(Looked::Both(picture, view)),
        }
    }

    fn positions(&self, length: Option<usize>) -> Result<Shown, TaskError> {
        let found = self.task.positions(&self.model);
        if found.is_empty() || !self.inventory.positions {
            return Err(no_positions::<T>(!found.is_empty()));
        }
        let kinds: Vec<String> = found.iter().map(|one| format!("{} ({})", one.layer.name(), one.part)).collect();
        let step = self.description.step;
        let title = format!("Positions of a {} model after {step} steps: {}", T::NAME, kinds.join(" and "));
        Ok(show_trained(&title, &found, length)?)
    }

    fn means(&self, examples: Examples, pass: &Pass) -> Result<Means, TaskError> {
        let capture = Capture::of_outputs();
        let (part, name) = self.part(examples)?;
        let watched = self.watch(&part, &pass.with_capture(&capture), |input, pass| {
            self.task.look(&self.model, input, pass).map(drop)
        })?;
        match watched {
            0 => Err(TaskError::input(
                name,
                "an input that the model accepts, to average the outputs of its heads",
                "none",
            )),
            _ => Ok(capture.into_means()),
        }
    }

    fn heads(
        &self,
        examples: Examples,
        limit: usize,
        pass: &Pass,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Heads, TaskError> {
        let (part, split) = self.part(examples)?;
        let named = heads::named(&self.inventory);
        if named.is_empty() {
            return Err(no_attention::<T>("show heads"));
        }
        let score = |pass: &Pass| self.task.evaluate(&part, &self.model, Some(limit), pass);
        let mut found = Heads::new(T::NAME, &split, &score(pass)?);
        let mut looks = BTreeMap::new();
        found.watched = self.watch(&part, pass, |input, pass| {
            heads::watch(&viewed(&self.task, &self.model, input, Wanted::default(), pass)?.0, &mut looks);
            Ok(())
        })?;
        let all = named.len();
        for (done, (site, head, name)) in named.into_iter().enumerate() {
            progress(done, all);
            let without = Ablation::of(site, Some(head), Mode::Zero);
            let evaluation = score(&pass.with_ablation(&without))?;
            found.add(name, site, head, &evaluation, looks.get(&(site, head)));
        }
        progress(all, all);
        Ok(found)
    }

    fn generate(
        &self,
        prompts: &[Prompt<Given>],
        wish: &Wish,
        pass: &Pass,
        piece: &mut dyn FnMut(usize, &str),
    ) -> Result<(), TaskError> {
        let read = |prompt: &Prompt<Given>| {
            let input = prompt.input.as_ref().map(|given| self.task.input(given)).transpose()?;
            Ok(Prompt { input, seed: prompt.seed })
        };
        let prompts = prompts.iter().map(read).collect::<Result<Vec<_>, TaskError>>()?;
        self.task.generate(&self.model, &prompts, wish, pass, piece)
    }

    fn writer(&self) -> Option<Box<dyn Writer + '_>> {
        self.task.writer(&self.model)
    }

    fn write_by_hand(
        &self,
        lines: &[PenRequest],
        options: &PenOptions,
        pass: &Pass,
    ) -> Result<Vec<Result<Ink, TaskError>>, TaskError> {
        self.task.write_by_hand(&self.model, lines, options, pass)
    }

    fn parameters(&self) -> usize {
        self.model.num_params()
    }

    fn export(&self, to: &Path) -> Result<(), TaskError> {
        self.task.export(&self.model, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Request;
    use crate::train::{Origin, Stop};

    /// Trains a tiny model of `compose` and opens its folder.
    fn opened(place: &Path) -> Arc<dyn Opened> {
        let sets = ["data.size=4", "model.d_model=8", "model.d_ff=8", "model.n_heads=2", "data.dev=8", "data.test=8"];
        let request = Request {
            sets: sets.iter().map(|set| set.to_string()).collect(),
            out: Some(place.join("model")),
            steps: Some(3),
            ..Request::default()
        };
        let kind = crate::kind("compose").unwrap();
        kind.train(&request, Origin::Scratch, &mut (), &Stop::default()).unwrap();
        open(&place.join("model")).unwrap()
    }

    #[test]
    fn threads_share_an_opened_model() {
        let place = tempfile::tempdir().unwrap();
        let model = opened(place.path());
        let inputs: Vec<Given> = ["0 1 2 3 | 3 2 1 0", "nonsense", "3 2 1 0 | 0 1 2 3"].map(Given::from).to_vec();
        let answers = |model: &dyn Opened| -> Vec<Option<String>> {
            let found = model.predict(&inputs, &Pass::inference()).unwrap();
            found.into_iter().map(|answer| answer.ok().map(|answer| answer.output)).collect()
        };
        let alone = answers(model.as_ref());
        assert_eq!(alone.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
        let threads: Vec<_> = (0..4).map(|_| Arc::clone(&model)).collect();
        let found: Vec<_> = std::thread::scope(|scope| {
            let started: Vec<_> = threads.iter().map(|model| scope.spawn(|| answers(model.as_ref()))).collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(found.iter().all(|found| *found == alone), "{found:?}");
    }

    #[test]
    fn an_evaluation_can_be_cancelled() {
        let place = tempfile::tempdir().unwrap();
        let model = opened(place.path());
        let cancelled = std::sync::atomic::AtomicBool::new(true);
        let pass = Pass::inference().until(&cancelled);
        let mut progress = |_: usize, _: usize| {};
        let heads = model.heads(Examples::Split(Split::Dev), 8, &pass, &mut progress).unwrap_err();
        assert_eq!(heads.to_string(), "cancelled");
        assert!(model.evaluate(Examples::Split(Split::Test), &pass).is_err());
    }
}
