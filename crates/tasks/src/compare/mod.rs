//! Comparisons: one task trained in several variants and with several seeds, with the results side by side.
//!
//! Each run has its own model folder inside the folder of the comparison. `compare.json` is written after every run, so the same
//! command continues an interrupted comparison bit-identically and trains nothing twice. Several processes share the runs out.

mod document;
mod page;
mod summary;
mod vary;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use regard_system::{RankFailed, Ranks, create_folder};
use serde_json::{Value, json};

pub use self::document::{Document, Entry, Measured, Outcome, Plan};
pub use self::summary::{Row, Spread};
pub use self::vary::{Variant, Vary, combinations};
use crate::error::TaskError;
use crate::finished::Finished;
use crate::folder::{CONFIG, check_free, lock, save, sha256};
use crate::run::{Kind, Request, UnusedKeys};
use crate::settings::Unused;
use crate::train::{Conditions, Event, Observer, Origin, Stop, agreement};

const DOCUMENT: &str = "compare.json";

/// The options of `regard compare`.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// Options that all runs share; `seed` is the first seed and `out` the folder of the comparison.
    pub request: Request,
    /// Keys that differ between variants, with their values.
    pub vary: Vec<Vary>,
    /// Number of runs of each variant, each with another seed.
    pub seeds: u64,
}

/// An event of a comparison.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A run begins, is resumed, or has already finished.
    Run {
        /// Number of the run, from 1.
        number: usize,
        /// Number of all runs.
        count: usize,
        /// The run with its earlier outcome.
        entry: &'a Entry,
    },
    /// An event of the current run.
    Event(&'a Event),
    /// A run has ended.
    Ended {
        /// The run with its outcome.
        entry: &'a Entry,
    },
}

/// The result of a comparison.
#[derive(Debug)]
pub struct Compared {
    /// Path of the comparison's folder.
    pub folder: PathBuf,
    /// Runs and their outcomes.
    pub document: Document,
}

/// Trains all runs that have not finished yet and writes the comparison's folder.
///
/// # Errors
/// Before anything is trained: the configuration of a variant is invalid, or the folder has other files in it. At the end: all
/// runs have failed; the error is the first one.
pub fn compare(
    kind: &dyn Kind,
    comparison: &Comparison,
    hear: &mut (dyn FnMut(&Progress) + Send),
    stop: &Stop,
) -> Result<Compared, TaskError> {
    let ranks = &comparison.request.ranks;
    compared(kind, comparison, hear, stop).inspect_err(|error| ranks.leave(error))
}

/// Trains the variants. If this rank fails, it has still to leave the others.
fn compared(
    kind: &dyn Kind,
    comparison: &Comparison,
    hear: &mut (dyn FnMut(&Progress) + Send),
    stop: &Stop,
) -> Result<Compared, TaskError> {
    let ranks = &comparison.request.ranks;
    let variants = combinations(&comparison.vary);
    let plan = plan(kind, comparison, &configs(kind, comparison, &variants)?)?;
    agreement::check_conditions(ranks, &plan.conditions, &json!(plan))?;
    // Rank 0 keeps the lock until the end.
    let own = match ranks.is_first() {
        true => Some(begun(comparison, plan, &variants)?),
        false => None,
    };
    let (folder, mut document) = match (&own, ranks.is_alone()) {
        (Some((begun, _)), true) => begun.clone(),
        (own, _) => agreement::of_first(ranks, own.as_ref().map(|(begun, _)| begun))?,
    };
    let (mut failure, count) = (None, document.runs.len());
    let mut pending = Vec::new();
    for (at, entry) in document.runs.iter().enumerate() {
        if entry.outcome.measured().is_some() {
            hear(&Progress::Run { number: at + 1, count, entry });
            hear(&Progress::Ended { entry });
        } else {
            pending.push(at);
        }
    }
    // Each rank trains one run of a round.
    for round in pending.chunks(ranks.size()) {
        if is_asked(stop, ranks)? {
            break;
        }
        let mut own = None;
        if let Some(&at) = round.get(ranks.rank()) {
            let entry = &document.runs[at];
            hear(&Progress::Run { number: at + 1, count, entry });
            own = Some(match train(kind, comparison, entry, &folder.join(&entry.folder), hear, stop) {
                Ok(finished) if finished.finished => Outcome::Finished(measured(&finished)),
                Ok(_) => Outcome::Stopped,
                Err(error) => {
                    let failed = Outcome::Failed { error: error.to_string() };
                    failure.get_or_insert(error);
                    failed
                }
            });
        }
        let outcomes = if ranks.is_alone() { vec![own] } else { agreement::all(ranks, &own)? };
        for (rank, (&at, outcome)) in round.iter().zip(outcomes.into_iter().flatten()).enumerate() {
            if let (None, Outcome::Failed { error }) = (&failure, &outcome) {
                failure = Some(RankFailed { rank, message: error.clone() }.into());
            }
            document.runs[at].outcome = outcome;
            let entry = &document.runs[at];
            if ranks.is_first() {
                if rank > 0 {
                    hear(&Progress::Run { number: at + 1, count, entry });
                }
                hear(&Progress::Ended { entry });
            }
        }
        if ranks.is_first() {
            write(&mut document, &folder)?;
        }
    }
    let all_failed = document.runs.iter().all(|entry| matches!(entry.outcome, Outcome::Failed { .. }));
    if let Some(error) = failure.filter(|_| all_failed) {
        return Err(error);
    }
    document.finished = !document.runs.iter().any(|entry| entry.outcome == Outcome::Stopped);
    if ranks.is_first() {
        write(&mut document, &folder)?;
        let main = document.main();
        let figure = page::figure(&document, main.as_ref(), &folder)?;
        save(&folder.join("compare.svg"), figure.to_svg().as_bytes())?;
        save(&folder.join("compare.html"), page::page(&document, main.as_ref(), figure).as_bytes())?;
    }
    if !ranks.is_alone() {
        agreement::of_first(ranks, Some(&()))?;
        ranks.part();
    }
    Ok(Compared { folder, document })
}

/// Returns whether any rank is asked to stop.
fn is_asked(stop: &Stop, ranks: &Ranks) -> Result<bool, TaskError> {
    match ranks.is_alone() {
        true => Ok(stop.is_asked()),
        false => Ok(agreement::all(ranks, &stop.is_asked())?.contains(&true)),
    }
}

/// A comparison that begins or continues: its folder and its state.
type Begun = (PathBuf, Document);

/// Creates or opens the folder of a comparison and locks it.
fn begun(comparison: &Comparison, plan: Plan, variants: &[Variant]) -> Result<(Begun, Arc<File>), TaskError> {
    let (folder, _) = place(&plan, comparison.request.out.as_deref())?;
    create_folder(&folder).map_err(TaskError::io(&folder))?;
    let lock = lock(&folder)?;
    // Read again: another process may have written until it released the lock.
    let (folder, found) = place(&plan, Some(&folder))?;
    let differences = found.iter().flat_map(|found| found.plan.conditions.differences(&plan.conditions));
    if let Some(difference) = differences.into_iter().next().filter(|_| !comparison.request.force) {
        let problem = format!("{difference}: its runs could not be compared; --force continues anyway");
        return Err(TaskError::folder(&folder, problem));
    }
    let known = found.map_or(Vec::new(), |found| found.runs);
    let names = vary::folder_names(variants);
    let seeds = || plan.seed..plan.seed.saturating_add(comparison.seeds);
    let entry = |variant: &Variant, name: &String, seed: u64| {
        let new =
            Entry { settings: variant.clone(), seed, folder: format!("{name}/seed-{seed}"), outcome: Outcome::Stopped };
        known.iter().find(|known| known.settings == *variant && known.seed == seed).cloned().unwrap_or(new)
    };
    let runs =
        variants.iter().zip(&names).flat_map(|(variant, name)| seeds().map(move |seed| entry(variant, name, seed)));
    let runs: Vec<Entry> = runs.collect();
    let mut document = Document { plan, seeds: comparison.seeds, finished: false, table: Vec::new(), runs };
    write(&mut document, &folder)?;
    Ok(((folder, document), lock))
}

/// Resolves the configurations of the variants. Returns an error for a key that no variant uses, and for a varied key that some
/// variant does not use: variants that differ only in that key would be the same.
fn configs(kind: &dyn Kind, comparison: &Comparison, variants: &[Variant]) -> Result<Vec<Value>, TaskError> {
    let configured = |variant: &Variant| {
        kind.configured(&request(comparison, variant, None)).map_err(|error| blame_vary(error, variant))
    };
    let resolved = variants.iter().map(configured);
    let resolved = resolved.collect::<Result<Vec<_>, _>>()?;
    let is_varied = |one: &&Unused| comparison.vary.iter().any(|vary| vary.is_of(&one.key));
    let is_never_used = |one: &&Unused| {
        resolved
            .iter()
            .all(|variant| variant.unused.iter().any(|other| (&other.place, &other.key) == (&one.place, &one.key)))
    };
    let mut unused = resolved.iter().flat_map(|variant| &variant.unused);
    match unused.find(|one| is_varied(one) || is_never_used(one)) {
        Some(refused) => Err(variants.iter().fold(refused.clone().into(), blame_vary)),
        None => Ok(resolved.into_iter().map(|variant| variant.config).collect()),
    }
}

/// Names `--vary` instead of `--set` in an error: the values of a variant reach its run as `--set`, but the user gave `--vary`.
fn blame_vary(error: TaskError, variant: &Variant) -> TaskError {
    match error {
        TaskError::Settings { place, problem } => {
            let varied = variant.iter().map(|(key, value)| format!("{key}={value}"));
            let varied = varied.into_iter().find(|varied| place.strip_prefix("--set ") == Some(varied));
            TaskError::Settings { place: varied.map_or(place, |varied| format!("--vary {varied}")), problem }
        }
        other => other,
    }
}

/// Returns the request for one run. `run` is its seed and folder, or `None` if the configuration is only checked.
fn request(comparison: &Comparison, variant: &Variant, run: Option<(u64, &Path)>) -> Request {
    let sets = variant.iter().map(|(key, value)| format!("{key}={value}"));
    Request {
        sets: comparison.request.sets.iter().cloned().chain(sets).collect(),
        seed: run.map_or(comparison.request.seed, |(seed, _)| Some(seed)),
        out: run.map(|(_, folder)| folder.to_path_buf()),
        unused: UnusedKeys::Dropped,
        ranks: Ranks::default(),
        ..comparison.request.clone()
    }
}

/// Returns the plan of a comparison; `configs` are the configurations of its variants.
fn plan(kind: &dyn Kind, comparison: &Comparison, configs: &[Value]) -> Result<Plan, TaskError> {
    let Request { config, sets, data, steps, .. } = &comparison.request;
    let read = |path: &PathBuf| fs::read_to_string(path).map_err(TaskError::io(path));
    let whole = |path: &PathBuf| path.canonicalize().map_err(TaskError::io(path));
    let mut all = serde_json::to_vec(configs).expect("plain values");
    // Most variants have the same data, which are read only once.
    let mut known: Vec<&Value> = Vec::new();
    for config in configs {
        if !known.contains(&&config["data"]) {
            all.extend(kind.fingerprint(config)?.bytes());
            known.push(&config["data"]);
        }
    }
    Ok(Plan {
        task: kind.name().to_string(),
        vary: comparison.vary.clone(),
        sets: sets.clone(),
        config: config.as_ref().map(read).transpose()?,
        data: data.as_ref().map(whole).transpose()?,
        steps: *steps,
        seed: configs.first().and_then(|config| config["seed"].as_u64()).unwrap_or(1),
        fingerprint: sha256(&all),
        conditions: Conditions::of("", &Ranks::default()),
    })
}

/// Returns the folder of a comparison and the state that is in it: `asked`, or the first of `runs/compare-TASK`,
/// `runs/compare-TASK-2`, … that is free or holds the same comparison.
fn place(plan: &Plan, asked: Option<&Path>) -> Result<(PathBuf, Option<Document>), TaskError> {
    if let Some(folder) = asked {
        return match there(folder)? {
            There::Nothing => check_free(folder).map(|()| (folder.to_path_buf(), None)),
            There::Comparison(found) if found.plan.is_same(plan) => Ok((folder.to_path_buf(), Some(*found))),
            There::Comparison(_) => {
                Err(TaskError::folder(folder, "holds another comparison; name another folder with --out"))
            }
            There::Model => Err(TaskError::folder(folder, "holds a model; name another folder with --out")),
        };
    }
    for number in 1usize.. {
        let name = format!("compare-{}", plan.task);
        let name = if number == 1 { name } else { format!("{name}-{number}") };
        let folder = Path::new("runs").join(name);
        match there(&folder)? {
            There::Nothing if check_free(&folder).is_ok() => return Ok((folder, None)),
            There::Comparison(found) if found.plan.is_same(plan) => return Ok((folder, Some(*found))),
            There::Nothing | There::Comparison(_) | There::Model => {}
        }
    }
    unreachable!("there is always a free number")
}

/// The content of a folder.
enum There {
    Nothing,
    Comparison(Box<Document>),
    Model,
}

fn there(folder: &Path) -> Result<There, TaskError> {
    if folder.join(CONFIG).exists() {
        return Ok(There::Model);
    }
    let path = folder.join(DOCUMENT);
    if !path.exists() {
        return Ok(There::Nothing);
    }
    let text = fs::read_to_string(&path).map_err(TaskError::io(&path))?;
    let found = serde_json::from_str(&text).map_err(|error| TaskError::folder(&path, format!("damaged: {error}")))?;
    Ok(There::Comparison(Box::new(found)))
}

fn write(document: &mut Document, folder: &Path) -> Result<(), TaskError> {
    document.summarise();
    let text = serde_json::to_string_pretty(document).expect("plain values");
    save(&folder.join(DOCUMENT), text.as_bytes())
}

/// Trains a run, or resumes it if it has begun.
fn train(
    kind: &dyn Kind,
    comparison: &Comparison,
    entry: &Entry,
    folder: &Path,
    hear: &mut (dyn FnMut(&Progress) + Send),
    stop: &Stop,
) -> Result<Finished, TaskError> {
    let mut observer = Forward(hear);
    if folder.join(CONFIG).exists() {
        let force = comparison.request.force;
        let request = Request { out: Some(folder.to_path_buf()), force, ..Request::default() };
        return kind.train(&request, Origin::Checkpoint, &mut observer, stop);
    }
    kind.train(&request(comparison, &entry.settings, Some((entry.seed, folder))), Origin::Scratch, &mut observer, stop)
}

fn measured(finished: &Finished) -> Measured {
    let number = |(name, value): (&String, &f64)| (name.clone(), Some(*value).filter(|value| value.is_finite()));
    Measured {
        main: finished.main.to_string(),
        better: finished.better,
        metrics: finished.scores.iter().map(number).collect(),
        parameters: finished.parameters,
        steps: finished.step,
        seconds: finished.seconds,
        tokens_per_second: finished.tokens as f64 / finished.seconds.max(1e-9),
    }
}

/// Observer that passes the events of a run on as [`Progress`].
struct Forward<'a>(&'a mut (dyn FnMut(&Progress) + Send));

impl Observer for Forward<'_> {
    fn hear(&mut self, event: &Event) {
        (self.0)(&Progress::Event(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(vary: &[&str], sets: &[&str]) -> Result<Vec<Value>, String> {
        let vary: Vec<Vary> = vary.iter().map(|text| Vary::parse(text).unwrap()).collect();
        let request = Request { sets: sets.iter().map(|set| set.to_string()).collect(), ..Request::default() };
        let variants = combinations(&vary);
        let kind = crate::kind("compose").unwrap();
        configs(kind, &Comparison { request, vary, seeds: 1 }, &variants).map_err(|error| error.to_string())
    }

    #[test]
    fn a_key_applies_to_the_variants_that_have_it() {
        let found = resolved(&["model.kind=transformer,lstm"], &["model.d_hidden=84", "model.n_heads=2"]).unwrap();
        let [transformer, lstm] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&transformer["model"]["n_heads"], transformer["model"].get("d_hidden")), (&2.into(), None));
        assert_eq!((&lstm["model"]["d_hidden"], lstm["model"].get("n_heads")), (&84.into(), None));
    }

    #[test]
    fn a_key_that_no_variant_has_is_refused() {
        let error = resolved(&["model.kind=gru,lstm"], &["model.n_heads=2"]).unwrap_err();
        assert_eq!(error, "--set model.n_heads=2: model.kind=gru has no n_heads; model.kind=transformer has it");
        assert!(resolved(&["model.kind=transformer,lstm"], &["model.heads=2"]).unwrap_err().contains("unknown field"));
    }

    #[test]
    fn a_varied_key_must_apply_to_all_variants() {
        let error = resolved(&["model.kind=transformer,lstm", "model.position.kind=rope,alibi"], &[]).unwrap_err();
        assert!(error.contains("model.kind=lstm has no position"), "{error}");
        assert_eq!(resolved(&["model.kind=transformer,lstm", "model.n_layers=1,2"], &[]).unwrap().len(), 4);
    }
}
