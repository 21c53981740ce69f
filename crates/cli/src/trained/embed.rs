//! `regard embed`: prints the vectors of texts.

use std::io::BufRead;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use regard_data::open_text;
use regard_nn::Pass;
use serde_json::json;

use super::{Weights, checkpoint_as};
use crate::failure::{failure, wrong_use};
use crate::print::print;

/// The arguments of `regard embed`.
#[derive(Args)]
pub struct Embed {
    /// A checkpoint folder with config.json, model.safetensors and tokenizer.json
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Texts; without any and without --input, one per line from standard input
    #[arg(value_name = "TEXT")]
    texts: Vec<String>,
    /// A file with one text per line; - is standard input
    #[arg(long, value_name = "F", conflicts_with = "texts")]
    input: Option<PathBuf>,
    #[command(flatten)]
    weights: Weights,
    /// Print one JSON document instead of a line of numbers per text
    #[arg(long)]
    json: bool,
}

impl Embed {
    pub fn run(self) -> Result<()> {
        let model = checkpoint_as(&self.model, self.weights.weights)?;
        let texts = self.texts()?;
        if texts.is_empty() {
            return Err(wrong_use(anyhow!("no texts to embed")));
        }
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let found = model.embed(&texts, &Pass::inference()).map_err(failure)?;
        if self.json {
            let document = json!({ "model": self.model.display().to_string(), "embeddings": found });
            return print(&format!("{document}\n"));
        }
        for vector in found {
            let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
            print(&format!("{}\n", numbers.join(" ")))?;
        }
        Ok(())
    }

    fn texts(&self) -> Result<Vec<String>> {
        if !self.texts.is_empty() {
            return Ok(self.texts.clone());
        }
        let reader: Box<dyn BufRead> = match self.input.as_deref().filter(|path| path.as_os_str() != "-") {
            Some(path) => open_text(path).map_err(failure)?,
            None => Box::new(std::io::stdin().lock()),
        };
        reader.lines().collect::<Result<_, _>>().context("cannot read the texts: expected lines in UTF-8")
    }
}
