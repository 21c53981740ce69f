//! `regard dump`: prints or writes everything that a pass through a checkpoint computes.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use clap::Args;
use regard_nn::Pass;
use regard_system::save_atomically;
use regard_tasks::Opened;
use regard_tasks::hugging_face::DumpInput;
use regard_tasks::input::Given;

use super::checkpoint;
use crate::failure::{failure, wrong_use};
use crate::print::{print, tell};

/// The arguments of `regard dump`.
#[derive(Args)]
pub struct Dump {
    /// A checkpoint folder with config.json and model.safetensors
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// The input: a text, or the path of a picture
    #[arg(long, value_name = "T", required_unless_present = "input_ids", conflicts_with = "input_ids")]
    text: Option<String>,
    /// The input as ids of tokens, with nothing put around them
    #[arg(long, value_name = "1,2,3", value_delimiter = ',')]
    input_ids: Option<Vec<u32>>,
    /// Print one JSON document; the default without --out
    #[arg(long)]
    json: bool,
    /// Write a safetensors file
    #[arg(long, value_name = "F.safetensors", conflicts_with = "json")]
    out: Option<PathBuf>,
}

impl Dump {
    pub fn run(self) -> Result<()> {
        if let Some(out) = &self.out
            && out.extension().is_none_or(|extension| extension != "safetensors")
        {
            return Err(wrong_use(anyhow!("--out {}: expected a name that ends in .safetensors", out.display())));
        }
        let model = checkpoint(&self.model)?;
        let input = match (self.text, self.input_ids) {
            (_, Some(ids)) => DumpInput::Ids(ids),
            (text, None) => {
                let text = text.unwrap_or_default();
                DumpInput::Given(Given::argument(&text, model.input_kind()).map_err(failure)?)
            }
        };
        let found = model.dump(&input, &Pass::inference()).map_err(failure)?;
        let Some(out) = self.out else { return print(&format!("{}\n", found.to_json())) };
        save_atomically(&out, &found.to_safetensors())?;
        tell!("wrote {}", out.display());
        Ok(())
    }
}
