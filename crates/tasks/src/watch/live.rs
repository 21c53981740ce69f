//! An observer that writes the progress of a run into its folder and hears when it is asked to stop there.

use std::time::{Duration, Instant};

use super::{PROGRESS, Progress, STOP, WatchFolder};
use crate::train::{Event, Observer, Stop};

/// Time between two looks at the files.
const PAUSE: Duration = Duration::from_millis(250);

/// An observer of a run that is being watched; it passes all events on.
pub(crate) struct Live<'a> {
    inner: &'a mut dyn Observer,
    stop: &'a Stop,
    folder: Option<WatchFolder>,
    progress: Progress,
    /// Step and time at which the process began to train.
    began: (u64, Instant),
    tokens: usize,
    looked: Instant,
}

impl<'a> Live<'a> {
    /// Creates an observer that asks `stop` when somebody asks the run to stop.
    pub fn new(inner: &'a mut dyn Observer, stop: &'a Stop) -> Self {
        let now = Instant::now();
        Self { inner, stop, folder: None, progress: Progress::default(), began: (0, now), tokens: 0, looked: now }
    }

    fn count(&mut self, event: &Event) {
        let progress = &mut self.progress;
        match event {
            Event::Started { step, steps, folder, .. } => {
                (progress.step, progress.steps, self.began) = (*step, *steps, (*step, Instant::now()));
                let folder = WatchFolder::of(folder);
                // A request to stop an earlier process is not one to stop this.
                folder.remove(STOP);
                self.folder = folder.create().is_ok().then_some(folder);
                self.look();
            }
            Event::Step { step, loss, tokens, .. } => {
                self.tokens += tokens;
                let seconds = self.began.1.elapsed().as_secs_f64().max(1e-9);
                let made = step.saturating_sub(self.began.0).max(1) as f64;
                (progress.step, progress.loss, progress.doing) = (*step, Some(*loss), None);
                progress.tokens_per_second = self.tokens as f64 / seconds;
                progress.seconds_left = Some(progress.steps.saturating_sub(*step) as f64 * seconds / made);
            }
            Event::Progress { what, .. } => progress.doing = Some(what.to_string()),
            Event::Doing(what) => progress.doing = Some(what.clone()),
            Event::Evaluated { .. } | Event::Note(_) | Event::Warning(_) => {}
        }
    }

    /// Writes the progress and looks for a request to stop.
    fn look(&mut self) {
        self.looked = Instant::now();
        let Some(folder) = &self.folder else { return };
        // A full disk is no reason to stop, and the trainer says so when it cannot save.
        let _ = folder.replace(PROGRESS, &self.progress);
        if folder.path.join(STOP).exists() {
            folder.remove(STOP);
            self.stop.ask();
        }
    }
}

impl Observer for Live<'_> {
    fn hear(&mut self, event: &Event) {
        self.count(event);
        if self.looked.elapsed() >= PAUSE {
            self.look();
        }
        self.inner.hear(event);
    }
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            folder.remove(PROGRESS);
            folder.remove(STOP);
        }
    }
}
