//! Training checkpoints further: `regard train TASK --set model.from=FOLDER` with a folder of `transformers`.
//!
//! Such a task has another network and other defaults than the task of the same name, so it is a task of its own behind the same
//! name; [`Either`] chooses between the two. The network and the tokeniser come from the folder, with a new head where the task
//! needs one. It is trained as a whole, above some frozen layers, or by low-rank adapters.

/// The methods of [`Task`](crate::task::Task) that are the same for all tasks with a field `base` and a field `config`.
macro_rules! of_base {
    () => {
        fn config(&self) -> &Config {
            &self.config
        }

        fn model(&self, init: &regard_nn::Init) -> Result<Network, TaskError> {
            self.base.model(init)
        }

        fn warm(&self, model: Network) -> Result<Network, TaskError> {
            self.base.warm(model)
        }

        fn rate(&self, path: &str) -> f32 {
            self.base.rate(path)
        }
    };
}

mod adapters;
mod base_model;
mod choice;
mod classify;
mod config;
#[cfg(test)]
mod dropout;
mod export;
mod generate;
mod image;
mod tag;
#[cfg(test)]
mod tests;
mod translate;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

pub(crate) use self::classify::TunedClassify;
pub(in crate::hugging_face) use self::classify::goal_of;
pub(in crate::hugging_face) use self::export::{by_name, rescale, write_folder};
pub(crate) use self::generate::TunedGenerate;
pub(crate) use self::image::TunedImages;
pub(crate) use self::tag::TunedTag;
pub(crate) use self::translate::TunedTranslate;
pub(in crate::hugging_face) use self::translate::shifted;
use super::load::settings;
use crate::error::TaskError;
use crate::finished::Finished;
use crate::folder::{Description, Folder};
use crate::opened::Opened;
use crate::run::{Kind, Request, newest};
use crate::settings::{Resolved, given_value};
use crate::survey::Survey;
use crate::train::{Observer, Origin, Stop};
use crate::weights::Storage;

/// Values of `model.kind` that only a task for checkpoints has.
const KINDS: [&str; 2] = ["published", "embedding"];

/// A task that trains networks of its own or those of checkpoints.
pub(crate) struct Either {
    /// The task with networks of its own.
    pub own: &'static dyn Kind,
    /// The task that trains checkpoints further.
    pub tuned: &'static dyn Kind,
}

impl Either {
    /// Returns the task of a new run: that for checkpoints if `model.from` names one.
    fn of(&self, request: &Request) -> Result<&'static dyn Kind, TaskError> {
        let text = |key: &str| -> Result<Option<String>, TaskError> {
            let value = given_value(request.config.as_deref(), &request.sets, key)?;
            Ok(value.and_then(|value| value.as_str().map(str::to_string)))
        };
        let is_checkpoint = match (text("model.kind")?, text("model.from")?) {
            (Some(kind), _) if KINDS.contains(&kind.as_str()) => true,
            (_, Some(from)) => settings(Path::new(&from))?.is_some(),
            _ => false,
        };
        Ok(if is_checkpoint { self.tuned } else { self.own })
    }

    /// Returns the task of a configuration.
    fn with(&self, config: &Value) -> &'static dyn Kind {
        let kind = config["model"]["kind"].as_str().unwrap_or_default();
        if KINDS.contains(&kind) { self.tuned } else { self.own }
    }
}

impl Kind for Either {
    fn name(&self) -> &'static str {
        self.own.name()
    }

    fn config(&self) -> &'static str {
        self.own.config()
    }

    fn configured(&self, request: &Request) -> Result<Resolved<Value>, TaskError> {
        self.of(request)?.configured(request)
    }

    fn fingerprint(&self, config: &Value) -> Result<String, TaskError> {
        self.with(config).fingerprint(config)
    }

    fn train(
        &self,
        request: &Request,
        from: Origin,
        observer: &mut dyn Observer,
        stop: &Stop,
    ) -> Result<Finished, TaskError> {
        let kind = match from {
            Origin::Scratch => self.of(request)?,
            Origin::Checkpoint => {
                let path: PathBuf = match &request.out {
                    Some(path) => path.clone(),
                    None => newest(self.name())?,
                };
                self.with(&Folder::open(&path)?.1.config)
            }
        };
        kind.train(request, from, observer, stop)
    }

    fn open(&self, folder: Folder, description: Description, storage: Storage) -> Result<Arc<dyn Opened>, TaskError> {
        self.with(&description.config).open(folder, description, storage)
    }

    fn survey(&self, request: &Request) -> Result<Survey, TaskError> {
        self.of(request)?.survey(request)
    }

    fn notes(&self, request: &Request) -> Result<Vec<String>, TaskError> {
        self.of(request)?.notes(request)
    }
}
