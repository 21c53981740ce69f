//! The commands that use a trained model, one file each.

mod dump;
mod embed;
mod eval;
mod export;
mod generate;
mod heads;
mod look;
mod predict;
mod verify;

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use clap::{Args, ValueEnum};
use regard_data::Split;
use regard_nn::{Ablation, Pass};
use regard_tasks::hugging_face::Checkpoint;
use regard_tasks::weights::Storage;
use regard_tasks::{Examples, Opened, TaskError, open_as};

pub use dump::Dump;
pub use embed::Embed;
pub use eval::Eval;
pub use export::Export;
pub use generate::Generate;
pub use heads::Heads;
pub use look::Look;
pub use predict::Predict;
pub use verify::Verify;

use crate::failure::failure;
use crate::print::tell;

/// The flag `--weights`.
#[derive(Args)]
struct Weights {
    /// How matrices and tables of embeddings are stored in memory: bf16 takes half of it and writes text faster, with rounded weights
    #[arg(long, value_name = "TYPE", value_enum, default_value_t = WeightType::F32)]
    weights: WeightType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WeightType {
    F32,
    Bf16,
}

impl WeightType {
    pub fn storage(self) -> Storage {
        match self {
            Self::F32 => Storage::F32,
            Self::Bf16 => Storage::Bf16,
        }
    }
}

fn opened(folder: &Path) -> Result<Arc<dyn Opened>> {
    opened_as(folder, WeightType::F32)
}

fn opened_as(folder: &Path, weights: WeightType) -> Result<Arc<dyn Opened>> {
    let model = open_as(folder, weights.storage()).map_err(failure)?;
    let description = model.description();
    if !description.finished {
        tell!("note: {} is at step {}; its training has not ended", folder.display(), description.step);
    }
    Ok(model)
}

/// Loads a checkpoint of another program; a folder of `regard train` is refused.
fn checkpoint(folder: &Path) -> Result<Checkpoint> {
    checkpoint_as(folder, WeightType::F32)
}

/// Same as [`checkpoint`], with weights stored as this type.
pub fn checkpoint_as(folder: &Path, weights: WeightType) -> Result<Checkpoint> {
    let found = Checkpoint::open_as(folder, weights.storage()).map_err(failure)?;
    found.ok_or_else(|| {
        let problem = match folder.exists() {
            true => {
                "expected a checkpoint folder, with config.json (model_type) and model.safetensors; models of regard \
                 train cannot be used here yet"
            }
            false => "this folder does not exist",
        };
        failure(TaskError::folder(folder, problem))
    })
}

/// The flag `--without`, which names parts of the model to switch off for comparison.
#[derive(Args)]
struct Without {
    /// Also show the result without these heads or layers, as NAME[=zero|mean|uniform|self],… (zero by default; `regard heads`
    /// lists the names), or without `positions`
    #[arg(long, value_name = "NAMES")]
    without: Option<String>,
}

impl Without {
    /// Finds the named parts in a model, with means over `examples` where `=mean` asks for them.
    fn ablation(&self, model: &dyn Opened, examples: Examples) -> Result<Option<Ablation>> {
        let Some(text) = &self.without else { return Ok(None) };
        let inventory = model.inventory();
        let mut ablation = Ablation::parse(text, inventory).map_err(failure)?;
        if ablation.takes_all(inventory) && !inventory.layers.is_empty() {
            tell!("note: --without switches off every head of this model");
        }
        if ablation.needs_means() {
            let means = model.means(examples, &Pass::inference()).map_err(failure)?;
            ablation = ablation.with_means(means);
        }
        Ok(Some(ablation))
    }

    /// Returns the names as the user wrote them, for titles and messages.
    fn names(&self) -> &str {
        self.without.as_deref().unwrap_or_default()
    }
}

/// Returns the examples of the file `data`, or the dev split if there is none.
fn dev_or(data: Option<&Path>) -> Examples<'_> {
    data.map_or(Examples::Split(Split::Dev), Examples::File)
}
