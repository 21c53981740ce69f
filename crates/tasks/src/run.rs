//! From a request to a model folder, and from a model folder to a model that can be used, for any task.

use std::collections::BTreeMap;
use std::fs;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Device;
use regard_data::Split;
use regard_inspect::{AttentionView, count};
use regard_nn::{Ablation, Capture, Init, Inventory, Means, Mode, Pass, Wanted};

use crate::decode::SampleOptions;
use crate::error::TaskError;
use crate::folder::{Description, Folder, METRICS, MODEL, REPORT, sha256};
use crate::heads::{self, Heads};
use crate::input::{Given, InputKind};
use crate::memory;
use crate::report::{Story, page};
use crate::settings::{Resolved, resolve_loosely};
use crate::task::{Better, Evaluation, Looked, Parts, Prediction, Prompt, Sample, Settings, Task, Validate};
use crate::train::{Event, Keep, Observer, Origin, Place, Run, Stop, Trained, has_checkpoint};
use crate::weights;

/// Examples that are shown after training.
const SHOWN: usize = 6;
/// Examples of the training split that are shown before them.
const SEEN: usize = 2;

/// What `regard train` was asked for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// A file over the task's configuration.
    pub config: Option<PathBuf>,
    /// `key=value` over both.
    pub sets: Vec<String>,
    /// The examples.
    pub data: Option<PathBuf>,
    /// The folder to write.
    pub out: Option<PathBuf>,
    /// Steps.
    pub steps: Option<u64>,
    /// Of weights, order and dropout.
    pub seed: Option<u64>,
    /// What becomes of given keys that the chosen kind of network does not have.
    pub unused: UnusedKeys,
}

/// What becomes of keys of `[model]` that were given although the chosen kind of network does not have them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnusedKeys {
    /// They are refused.
    #[default]
    Refused,
    /// They are dropped: another variant of a comparison uses them.
    Dropped,
}

/// What a run has given.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The task.
    pub task: &'static str,
    /// The model folder.
    pub folder: PathBuf,
    /// Whether training came to its end; otherwise it was asked to stop.
    pub finished: bool,
    /// Steps made.
    pub step: u64,
    /// Seconds of training, without evaluation.
    pub seconds: f64,
    /// Tokens seen.
    pub tokens: u64,
    /// Scores of the test split; empty if it was stopped.
    pub scores: BTreeMap<String, f64>,
    /// The score that decides.
    pub main: &'static str,
    /// Its direction.
    pub better: Better,
    /// Parameters of the network.
    pub parameters: usize,
    /// The step whose weights were kept because their score was the best; none where the last ones are.
    pub kept: Option<u64>,
    /// Whether `look` has something to show of it.
    pub is_seen: bool,
    /// Examples of the test split with what the model makes of them.
    pub samples: Vec<(Sample, Prediction)>,
    /// A few examples of the training split with a right answer, and what the model makes of them.
    pub seen: Vec<(Sample, Prediction)>,
}

/// A task by name, without its types.
pub trait Kind: Sync {
    /// As commands call it.
    fn name(&self) -> &'static str;

    /// Its commented configuration.
    fn config(&self) -> &'static str;

    /// The configuration that a request asks for, with all defaults, and the keys that it does not use. Refuses one that makes
    /// no sense, before data are read or anything is written.
    fn configured(&self, request: &Request) -> Result<Resolved<serde_json::Value>, TaskError>;

    /// By what the data of a configuration are known again.
    fn fingerprint(&self, config: &serde_json::Value) -> Result<String, TaskError>;

    /// Trains a model and writes its folder.
    fn train(
        &self,
        request: &Request,
        from: Origin,
        observer: &mut dyn Observer,
        stop: &Stop,
    ) -> Result<Finished, TaskError>;

    /// Opens a model folder of this task.
    fn open(&self, folder: Folder, description: Description) -> Result<Arc<dyn Opened>, TaskError>;
}

/// Examples to be scored: a file, or a split of the model's own data.
#[derive(Debug, Clone, Copy)]
pub enum Examples<'a> {
    /// All of a file.
    File(&'a Path),
    /// A split.
    Split(Split),
}

/// A trained model, ready to use by any number of threads. What is captured, left out or given up comes from the caller's
/// [`Pass`].
pub trait Opened: Send + Sync {
    /// What its folder says.
    fn description(&self) -> &Description;

    /// What it is asked about.
    fn input_kind(&self) -> InputKind;

    /// Its attention layers.
    fn inventory(&self) -> &Inventory;

    /// Scores examples.
    fn evaluate(&self, examples: Examples, pass: &Pass) -> Result<Evaluation, TaskError>;

    /// What it makes of inputs, each by itself: one that it does not take spoils no other.
    fn predict(&self, inputs: &[Given], pass: &Pass) -> Result<Vec<Result<Prediction, TaskError>>, TaskError>;

    /// What there is to see of it for an input; without one, for an input that the task finds telling.
    fn look(&self, input: Option<&Given>, wanted: Wanted, pass: &Pass) -> Result<Looked, TaskError>;

    /// The mean output of every head over examples, for [`Mode::Mean`].
    fn means(&self, examples: Examples, pass: &Pass) -> Result<Means, TaskError>;

    /// What each head is worth and what it looks at, by at most `limit` examples. `progress` hears how many heads are done,
    /// and of how many.
    fn heads(
        &self,
        examples: Examples,
        limit: usize,
        pass: &Pass,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Heads, TaskError>;

    /// Goes on from prompts, all at once; the model begins a prompt that is empty. Pieces of text are handed out with the number of
    /// their prompt.
    fn generate(
        &self,
        prompts: &[Prompt<Given>],
        options: &SampleOptions,
        pass: &Pass,
        piece: &mut dyn FnMut(usize, &str),
    ) -> Result<(), TaskError>;

    /// Parameters of the network.
    fn parameters(&self) -> usize;
}

/// Opens a model folder, whatever its task.
pub fn open(path: &Path) -> Result<Arc<dyn Opened>, TaskError> {
    let (folder, description) = Folder::open(path)?;
    let Some(kind) = crate::kind(&description.task) else {
        let problem = format!("its task is {:?}, which this version does not know", description.task);
        return Err(TaskError::folder(path, problem));
    };
    kind.open(folder, description)
}

/// The [`Kind`] of a task.
pub(crate) struct Of<T>(pub PhantomData<fn() -> T>);

impl<T: Task> Kind for Of<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn config(&self) -> &'static str {
        T::CONFIG
    }

    fn configured(&self, request: &Request) -> Result<Resolved<serde_json::Value>, TaskError> {
        let Resolved { config, unused } = configured::<T>(request)?;
        Ok(Resolved { config: serde_json::to_value(config).expect("plain values"), unused })
    }

    fn fingerprint(&self, config: &serde_json::Value) -> Result<String, TaskError> {
        let config: T::Config = serde_json::from_value(config.clone())
            .map_err(|error| TaskError::Settings { place: "configuration".to_string(), problem: error.to_string() })?;
        config.fingerprint()
    }

    fn train(
        &self,
        request: &Request,
        from: Origin,
        observer: &mut dyn Observer,
        stop: &Stop,
    ) -> Result<Finished, TaskError> {
        observer.hear(&Event::Doing("reading the data".to_string()));
        let Start { task, parts, mut model, folder, mut description } = match from {
            Origin::Scratch => begin::<T>(request)?,
            Origin::Checkpoint => go_on::<T>(request)?,
        };
        parts.notes.iter().for_each(|note| observer.hear(&Event::Note(note.clone())));
        let data = task.config().fingerprint()?;
        // A run that ended before its first checkpoint begins again.
        let from = if has_checkpoint(&folder)? { from } else { Origin::Scratch };
        if from == Origin::Scratch {
            model = task.warm(model)?;
            description.counted = counted(&task, &model);
        }
        let run = Run::new(&task, &parts, model, Place { folder: &folder, data: &data, from }, observer)?;
        // They will be written anew; what is there of the model stays good until then.
        description.files.remove(METRICS);
        description.files.remove(REPORT);
        // Scores of an earlier end are not those of the weights to come.
        (description.finished, description.scores, description.data) = (false, None, data.clone());
        folder.describe(&description)?;
        let trained = run.go(&folder, observer, stop)?;
        finish(&task, &parts, trained, &folder, &mut description, observer)
    }

    fn open(&self, folder: Folder, description: Description) -> Result<Arc<dyn Opened>, TaskError> {
        let task: T = opened(&folder, &description)?;
        if let Some(described) = task.described() {
            memory::check_weights(&described)?;
        }
        let init = Init::for_weights(&Device::flex());
        let model = task.model(&init)?;
        let path = folder.file(MODEL);
        let tensors = weights::from_bytes(&folder.read(&description, MODEL)?, &path)?;
        if let Some(name) = weights::not_finite(&tensors) {
            let problem = format!("{name} has values that are no numbers: training has failed; train it again");
            return Err(TaskError::folder(path, problem));
        }
        let model = weights::load(model, tensors, &path)?.no_grad();
        Ok(Arc::new(Model { task, model, description, inventory: init.inventory() }))
    }
}

/// The configuration that a request asks for.
fn configured<T: Task>(request: &Request) -> Result<Resolved<T::Config>, TaskError> {
    let flags = [
        ("--data", "data.path", request.data.as_ref().map(|path| toml::Value::String(path.display().to_string()))),
        ("--steps", "train.steps", request.steps.map(number).transpose()?),
        ("--seed", "seed", request.seed.map(number).transpose()?),
    ];
    let resolved: Resolved<T::Config> = resolve_loosely(T::CONFIG, request.config.as_deref(), &request.sets, &flags)?;
    resolved.config.train().validate()?;
    resolved.config.validate()?;
    Ok(resolved)
}

/// A number of a flag as a configuration has it.
fn number(value: u64) -> Result<toml::Value, TaskError> {
    let number = i64::try_from(value).map_err(|_| TaskError::input("number", "at most 2⁶³ − 1", value.to_string()))?;
    Ok(toml::Value::Integer(number))
}

/// A run before its first step.
struct Start<T: Task> {
    task: T,
    parts: Parts<T::Part>,
    /// With its first weights.
    model: T::Model,
    folder: Folder,
    description: Description,
}

/// The network with its first weights, to be trained.
fn untrained<T: Task>(task: &T) -> Result<T::Model, TaskError> {
    task.model(&Init::new(task.config().seed(), &Device::flex().autodiff()))
}

/// A new run in a new folder, which is made when nothing of the request can be refused any more.
fn begin<T: Task>(request: &Request) -> Result<Start<T>, TaskError> {
    let resolved = configured::<T>(request)?;
    let config = match request.unused {
        UnusedKeys::Refused => resolved.all_used()?,
        UnusedKeys::Dropped => resolved.config,
    };
    let data = config.data_path().map(Path::to_path_buf);
    let task = T::start(config).map_err(TaskError::in_file(data.as_deref()))?;
    if let Some(described) = task.described() {
        memory::check(&described)?;
    }
    let (parts, model) = (parts_of(&task)?, untrained(&task)?);
    // As the task has it: a model that starts from another takes over its sizes.
    let described = serde_json::to_value(task.config()).expect("plain values");
    let path = request.out.clone().unwrap_or_else(|| fresh(T::NAME));
    let folder = Folder::create(&path)?;
    let mut description = Description::new(T::NAME, described);
    folder.commit(&mut description, &task.files()?)?;
    Ok(Start { task, parts, model, folder, description })
}

/// The run of a folder, to go on.
fn go_on<T: Task>(request: &Request) -> Result<Start<T>, TaskError> {
    let others = [
        ("--config", request.config.is_some()),
        ("--set", !request.sets.is_empty()),
        ("--data", request.data.is_some()),
        ("--seed", request.seed.is_some()),
    ];
    if let Some((flag, _)) = others.iter().find(|(_, given)| *given) {
        let problem = "--resume goes on with the run's own configuration; only --steps may change".to_string();
        return Err(TaskError::Settings { place: flag.to_string(), problem });
    }
    let path = match &request.out {
        Some(path) => path.clone(),
        None => newest(T::NAME)?,
    };
    let (folder, mut description) = Folder::resume(&path)?;
    if description.task != T::NAME {
        let problem = format!("its task is {}: regard train {} --resume", description.task, description.task);
        return Err(TaskError::folder(path, problem));
    }
    let (mut task, mut notes): (T, Vec<String>) = (opened(&folder, &description)?, Vec::new());
    if let Some(steps) = request.steps {
        description.config["train"]["steps"] = steps.into();
        description.config["train"]["epochs"] = serde_json::Value::Null;
        task = opened(&folder, &description)?;
        notes.push(format!(
            "the learning rate follows a schedule of {steps} steps now; it may be higher than where the run ended"
        ));
    }
    if let Some(described) = task.described() {
        memory::check(&described)?;
    }
    let (mut parts, model) = (parts_of(&task)?, untrained(&task)?);
    parts.notes.extend(notes);
    Ok(Start { task, parts, model, folder, description })
}

/// The examples; what does not suit is named with its file.
fn parts_of<T: Task>(task: &T) -> Result<Parts<T::Part>, TaskError> {
    task.parts().map_err(TaskError::in_file(task.config().data_path()))
}

fn opened<T: Task>(folder: &Folder, description: &Description) -> Result<T, TaskError> {
    let config: T::Config = serde_path_to_error::deserialize(&description.config).map_err(|error| {
        let problem = format!("config.{}: {}", error.path(), error.inner());
        TaskError::folder(folder.file(crate::folder::CONFIG), problem)
    })?;
    // A file can be edited; what a new run would refuse, an old one has no better use for.
    let checked = config.train().validate().map_err(TaskError::from).and_then(|()| config.validate());
    checked.map_err(|error| TaskError::folder(folder.file(crate::folder::CONFIG), format!("config.{error}")))?;
    T::open(config, &mut |name| folder.read(description, name))
}

/// What `regard count` can say of the model: its description, where that is exact.
fn counted<T: Task>(task: &T, model: &T::Model) -> serde_json::Map<String, serde_json::Value> {
    let exact = |described: &count::Description| {
        count::count(described).is_ok_and(|counted| counted.parameters() == model.num_params() as u128)
    };
    match task.described().filter(exact).map(|described| described.to_value()) {
        Some(serde_json::Value::Object(counted)) => counted,
        _ => serde_json::Map::new(),
    }
}

/// Scores, shows and writes what training gave.
fn finish<T: Task>(
    task: &T,
    parts: &Parts<T::Part>,
    trained: Trained<T::Model>,
    folder: &Folder,
    description: &mut Description,
    observer: &mut dyn Observer,
) -> Result<Finished, TaskError> {
    let Trained { model, state, finished } = trained;
    (description.step, description.finished) = (state.step, finished);
    let mut files = task.extras(&model)?;
    files.insert(MODEL.to_string(), weights::to_bytes(&weights::parameters(&model)));
    let mut done = Finished {
        task: T::NAME,
        folder: folder.path().to_path_buf(),
        finished,
        step: state.step,
        seconds: state.seconds,
        tokens: state.tokens,
        scores: BTreeMap::new(),
        main: "",
        better: Better::Higher,
        parameters: model.num_params(),
        kept: state.best.filter(|_| task.config().train().keep == Keep::Best).map(|best| best.step),
        is_seen: false,
        samples: Vec::new(),
        seen: Vec::new(),
    };
    if finished {
        observer.hear(&Event::Doing("scoring the test split".to_string()));
        let evaluation = task.evaluate(&parts.test, &model, None, &Pass::inference())?;
        done.scores = evaluation.scores.clone();
        (done.main, done.better) = (evaluation.main, evaluation.better);
        // JSON has no number for what is not finite, and a folder must be readable.
        let finite = |(_, value): &(String, f64)| value.is_finite();
        description.scores = Some(evaluation.scores.clone().into_iter().filter(finite).collect());
        let unseen = task.samples(&parts.test, 4 * SHOWN);
        // Some tasks ask the same questions whatever the split.
        let seen = task.samples(&parts.train, 4 * SEEN).into_iter();
        let seen = seen.filter(|sample| !sample.expected.is_empty() && !unseen.contains(sample)).collect();
        done.samples = answered(task, unseen, &model, SHOWN)?;
        done.seen = answered(task, seen, &model, SEEN)?;
        observer.hear(&Event::Doing("writing the report".to_string()));
        let metrics = folder.file(METRICS);
        let journal = fs::read_to_string(&metrics).map_err(TaskError::io(&metrics))?;
        let story = Story { task, model: &model, evaluation, journal: &journal, finished: &done };
        let (report, is_seen) = page(story)?;
        files.insert(REPORT.to_string(), report.into_bytes());
        done.is_seen = is_seen;
        description.files.insert(METRICS.to_string(), sha256(journal.as_bytes()));
    }
    folder.commit(description, &files)?;
    if !finished {
        // That of an earlier end tells of other weights.
        let _ = fs::remove_file(folder.file(REPORT));
    }
    Ok(done)
}

/// At most `count` examples with what the model makes of them; those that it does not take, such as too long ones, are passed over.
fn answered<T: Task>(
    task: &T,
    samples: Vec<Sample>,
    model: &T::Model,
    count: usize,
) -> Result<Vec<(Sample, Prediction)>, TaskError> {
    let mut shown = Vec::new();
    for sample in samples {
        let input = task.input(&sample.given);
        match input.and_then(|input| task.predict(model, std::slice::from_ref(&input), &Pass::inference())) {
            Ok(predictions) => shown.extend(predictions.into_iter().next().map(|prediction| (sample, prediction))),
            Err(TaskError::Input { .. }) => {}
            Err(error) => return Err(error),
        }
        if shown.len() == count {
            break;
        }
    }
    Ok(shown)
}

/// `runs/NAME`, or the first `runs/NAME-2`, `-3` … that is free.
fn fresh(name: &str) -> PathBuf {
    let numbered = |number: usize| match number {
        1 => Path::new("runs").join(name),
        _ => Path::new("runs").join(format!("{name}-{number}")),
    };
    (1..).map(numbered).find(|path| !path.exists()).expect("numbers do not end")
}

/// The run of a task that was last written to.
fn newest(name: &str) -> Result<PathBuf, TaskError> {
    let runs = Path::new("runs");
    let ours = |path: &PathBuf| {
        let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        let rest = file.strip_prefix(name).map(|rest| rest.trim_start_matches('-'));
        rest.is_some_and(|rest| rest.is_empty() || rest.parse::<usize>().is_ok())
    };
    let changed = |path: &PathBuf| path.join("checkpoints").metadata().and_then(|data| data.modified()).ok();
    let entries = fs::read_dir(runs).into_iter().flatten().flatten().map(|entry| entry.path()).filter(ours);
    let newest = entries.filter(|path| changed(path).is_some()).max_by_key(changed);
    newest.ok_or_else(|| TaskError::folder(runs, format!("no run of {name} to go on with; name it with --out")))
}

/// The attention maps of an input.
pub(crate) fn viewed<T: Task>(
    task: &T,
    model: &T::Model,
    input: &T::Input,
    wanted: Wanted,
    pass: &Pass,
) -> Result<AttentionView, TaskError> {
    let capture = Capture::new(wanted);
    let legend = task.look(model, input, &pass.with_capture(&capture))?;
    Ok(legend.view(&capture.into_maps())?)
}

/// What is said where a model has no attention.
fn no_attention<T: Task>(asked: &str) -> TaskError {
    let instead = match T::CONFIG.contains("kind = \"transformer\"") {
        true => "; train one with model.kind=transformer",
        false => "",
    };
    TaskError::Unsupported { task: T::NAME, what: format!("{asked}: this model has no attention{instead}") }
}

/// Inputs of a split that are looked at for what heads do on the mean.
const WATCHED: usize = 200;

/// An opened model.
struct Model<T: Task> {
    task: T,
    model: T::Model,
    description: Description,
    inventory: Inventory,
}

impl<T: Task> Model<T> {
    /// The examples, and what they are called.
    fn part(&self, examples: Examples) -> Result<(T::Part, String), TaskError> {
        match examples {
            Examples::File(path) => {
                let part = self.task.part(path).map_err(TaskError::in_file(Some(path)))?;
                Ok((part, path.display().to_string()))
            }
            Examples::Split(split) => {
                let config = self.task.config();
                if config.fingerprint()? != self.description.data {
                    let path = config.data_path().unwrap_or_else(|| Path::new("built-in data"));
                    let problem = "not the data that the model was trained on, so its parts are others; \
                                   name a file with --data to score all of it";
                    return Err(TaskError::folder(path, problem));
                }
                Ok((parts_of(&self.task)?.take(split), split.to_string()))
            }
        }
    }

    /// Takes some inputs of a split through the model, one after the other, and says how many there were.
    fn watch(
        &self,
        part: &T::Part,
        pass: &Pass,
        mut with: impl FnMut(&T::Input, &Pass) -> Result<(), TaskError>,
    ) -> Result<usize, TaskError> {
        let mut watched = 0;
        for sample in self.task.samples(part, WATCHED) {
            pass.go_on()?;
            match self.task.input(&sample.given).and_then(|input| with(&input, pass)) {
                Ok(()) => watched += 1,
                // Some examples are too long to be given as an input.
                Err(TaskError::Input { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(watched)
    }

    fn answer(&self, given: &Given, pass: &Pass) -> Result<Prediction, TaskError> {
        let input = self.task.input(given)?;
        let found = self.task.predict(&self.model, std::slice::from_ref(&input), pass)?.pop();
        let found = found.ok_or_else(|| TaskError::input("prediction", "one", "none"))?;
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

    fn evaluate(&self, examples: Examples, pass: &Pass) -> Result<Evaluation, TaskError> {
        self.task.evaluate(&self.part(examples)?.0, &self.model, None, pass)
    }

    fn predict(&self, inputs: &[Given], pass: &Pass) -> Result<Vec<Result<Prediction, TaskError>>, TaskError> {
        let read: Vec<Result<T::Input, TaskError>> = inputs.iter().map(|given| self.task.input(given)).collect();
        let mut good = Vec::with_capacity(read.len());
        let refused: Vec<Option<TaskError>> =
            read.into_iter().map(|one| one.map(|input| good.push(input)).err()).collect();
        let mut answers = match self.task.predict(&self.model, &good, pass) {
            Ok(predictions) => predictions.into_iter(),
            // One of them is not what the model can answer: each by itself tells which.
            Err(TaskError::Input { .. }) => {
                return Ok(inputs.iter().map(|given| self.answer(given, pass)).collect());
            }
            Err(error) => return Err(error),
        };
        let answer = |(given, refused): (&Given, Option<TaskError>)| match refused {
            Some(error) => Err(error),
            None => {
                let found = answers.next().ok_or_else(|| TaskError::input("prediction", "one an input", "fewer"))?;
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
        let view = viewed(&self.task, &self.model, &input, wanted, pass)?;
        if view.groups.is_empty() {
            return Err(no_attention::<T>("show attention"));
        }
        Ok(view.into())
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
                "an input to take the mean output of heads over",
                "none that the model takes",
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
            heads::watch(&viewed(&self.task, &self.model, input, Wanted::default(), pass)?, &mut looks);
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
        options: &SampleOptions,
        pass: &Pass,
        piece: &mut dyn FnMut(usize, &str),
    ) -> Result<(), TaskError> {
        let read = |prompt: &Prompt<Given>| {
            let input = prompt.input.as_ref().map(|given| self.task.input(given)).transpose()?;
            Ok(Prompt { input, seed: prompt.seed })
        };
        let prompts = prompts.iter().map(read).collect::<Result<Vec<_>, TaskError>>()?;
        self.task.generate(&self.model, &prompts, options, pass, piece)
    }

    fn parameters(&self) -> usize {
        self.model.num_params()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tiny model of `compose`, opened from its folder.
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
    fn an_evaluation_can_be_given_up() {
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
