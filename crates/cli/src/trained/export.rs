//! `regard export`: writes a model in the format of another program.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use regard_tasks::{hugging_face, open};

use crate::failure::failure;
use crate::print::tell;

/// The formats that models can be written in.
#[derive(Clone, Copy, ValueEnum)]
enum Format {
    /// A folder that `transformers` loads
    HuggingFace,
}

/// The arguments of `regard export`.
#[derive(Args)]
pub struct Export {
    /// A model or checkpoint folder, or a .bin file of llama2.c with its tokenizer beside it
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// The format to write
    #[arg(long, value_name = "FORMAT")]
    to: Format,
    /// The folder to write, which must be new or empty
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The tokenizer of a .bin file of llama2.c; the only other .bin file beside it by default
    #[arg(long, value_name = "TOK.bin")]
    tokenizer: Option<PathBuf>,
}

impl Export {
    pub fn run(self) -> Result<()> {
        match self.to {
            Format::HuggingFace => {}
        }
        match self.model.is_file() {
            true => hugging_face::import_llama2_c(&self.model, self.tokenizer.as_deref(), &self.folder),
            false => open(&self.model).map_err(failure)?.export(&self.folder),
        }
        .map_err(failure)?;
        tell!("wrote {}", self.folder.display());
        Ok(())
    }
}
