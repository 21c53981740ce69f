//! Snapshots of what a model does with one example while it learns.

use std::path::Path;

use regard_nn::{Pass, Wanted};
use serde_json::Value;

use super::{EXAMPLE, Snapshot, WatchFolder, snapshot_name};
use crate::error::TaskError;
use crate::input::Given;
use crate::opened::viewed;
use crate::task::{Parts, Task};

/// Largest number of weights in a snapshot.
const MOST_WEIGHTS: usize = 100_000;
/// Largest number of snapshots of a run. When there are more, every second one is removed.
const MOST_SNAPSHOTS: usize = 200;
/// Number of dev examples among which the first that suits is taken.
const TRIED: usize = 20;

/// The snapshots of a run.
pub(crate) struct Snapshots {
    folder: WatchFolder,
    /// The example, once it was chosen.
    given: Option<Given>,
    is_broken: bool,
}

impl Snapshots {
    /// Goes on with the snapshots of a run after `step`; later ones belong to steps that will be made again.
    pub fn of(run: &Path, step: u64) -> Result<Self, TaskError> {
        let folder = WatchFolder::of(run);
        folder.create()?;
        for later in folder.steps().into_iter().filter(|&later| later > step) {
            folder.remove(&snapshot_name(later));
        }
        let given = folder.read::<Value>(EXAMPLE).unwrap_or_default().map(Given::Json);
        Ok(Self { folder, given, is_broken: false })
    }

    /// Takes a snapshot of a model after a step. It changes nothing in the run. After an error no more snapshots are taken.
    pub fn take<T: Task>(
        &mut self,
        task: &T,
        parts: &Parts<T::Part>,
        model: &T::Model,
        step: u64,
    ) -> Result<(), TaskError> {
        if self.is_broken {
            return Ok(());
        }
        let taken = self.try_take(task, parts, model, step);
        self.is_broken = taken.is_err();
        taken
    }

    fn try_take<T: Task>(
        &mut self,
        task: &T,
        parts: &Parts<T::Part>,
        model: &T::Model,
        step: u64,
    ) -> Result<(), TaskError> {
        let snapshot = match &self.given {
            Some(given) => seen(task, model, &task.input(given)?)?,
            None => {
                let (given, snapshot) = chosen(task, parts, model)?;
                self.folder.write(EXAMPLE, &given.to_json())?;
                self.given = Some(given);
                snapshot
            }
        };
        self.folder.write(&snapshot_name(step), &Snapshot { step, ..snapshot })?;
        let steps = self.folder.steps();
        if steps.len() > MOST_SNAPSHOTS {
            // The first and the last stay.
            let second = steps.iter().skip(1).step_by(2).filter(|&&old| old != step);
            second.for_each(|&old| self.folder.remove(&snapshot_name(old)));
        }
        Ok(())
    }
}

/// Chooses the example: the first of some dev examples with few enough weights, else the task's own.
fn chosen<T: Task>(task: &T, parts: &Parts<T::Part>, model: &T::Model) -> Result<(Given, Snapshot), TaskError> {
    let samples = task.samples(&parts.dev, TRIED).into_iter();
    let inputs = samples.filter_map(|sample| task.input(&sample.given).ok());
    // One head of each layer says how large the maps are, in a fraction of their memory.
    let one_head = Wanted { heads: Some(vec![0]), ..Wanted::default() };
    for input in inputs.chain(task.telling(model).ok()) {
        let (view, _) = viewed(task, model, &input, one_head.clone(), &Pass::inference())?;
        if view.weights() > MOST_WEIGHTS {
            continue;
        }
        let snapshot = seen(task, model, &input)?;
        if snapshot.view.weights() <= MOST_WEIGHTS {
            return Ok((task.given(&input), snapshot));
        }
    }
    Err(TaskError::input("dev examples", format!("one with at most {MOST_WEIGHTS} attention weights"), "none"))
}

// Inlined, it would be compiled twice for each task.
#[inline(never)]
fn seen<T: Task>(task: &T, model: &T::Model, input: &T::Input) -> Result<Snapshot, TaskError> {
    let pass = Pass::inference();
    let (mut view, draw) = viewed(task, model, input, Wanted::default(), &pass)?;
    let picture = draw.map(|draw| draw(&view)).transpose()?.map(|picture| picture.figure.to_svg());
    let prediction = task.predict(model, std::slice::from_ref(input), &pass)?.pop().map(|found| {
        let mut fields = found.more;
        fields.insert("output".to_string(), found.output.into());
        fields
    });
    let all = view.groups.iter_mut().flat_map(|group| &mut group.heads).flat_map(|head| &mut head.rows).flatten();
    // Five digits are enough to look at, and take half the space.
    all.for_each(|weight| *weight = (*weight * 1e5).round() / 1e5);
    Ok(Snapshot { step: 0, view, picture, prediction })
}
