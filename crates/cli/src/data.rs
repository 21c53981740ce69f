//! `regard data`: the built-in data as files, in the formats that `--data` reads.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use regard_data::builtin::{self, Opinion, Parts, Sizes};
use regard_system::save_atomically;

use crate::print::print;
use crate::value::from_zero;

/// The arguments of `regard data`.
#[derive(Args)]
pub struct Data {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write the built-in data of a task as files: to read them, to change them, to give them to another program
    Make {
        /// The task
        #[arg(value_name = "TASK", value_parser = ["translate", "tag", "classify", "generate", "pretrain", "words"])]
        task: String,
        /// The folder to write
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Selects the sentences
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = from_zero::<u64>)]
        seed: u64,
    },
}

impl Data {
    /// Writes.
    pub fn run(self) -> Result<()> {
        let Action::Make { task, out, seed } = self.action;
        let files = match task.as_str() {
            "translate" => {
                let pairs = builtin::english_french(Sizes::default(), seed);
                parts("tsv", "", pairs.map(|sentence| format!("{}\t{}\n", sentence.text(), sentence.french)))
            }
            "tag" => parts(
                "tsv",
                "",
                builtin::tagged(Sizes::default(), seed).map(|sentence| {
                    let words = sentence.iter().map(|token| format!("{}\t{}\n", token.text, token.tag));
                    words.collect::<String>() + "\n"
                }),
            ),
            "classify" => {
                let opinions = builtin::sentiment(Opinion::sizes(), seed);
                let line = |opinion: Opinion| format!("{}\t{}\n", opinion.text, opinion.label.name());
                parts("tsv", "text\tlabel\n", opinions.map(line))
            }
            _ => vec![("text.txt".to_string(), builtin::text(seed))],
        };
        std::fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
        for (name, content) in files {
            let path = out.join(name);
            save_atomically(&path, content.as_bytes())?;
            print(&format!("wrote {}\n", path.display()))?;
        }
        Ok(())
    }
}

/// `train`, `dev` and `test` with a first line each.
fn parts(extension: &str, header: &str, parts: Parts<String>) -> Vec<(String, String)> {
    let file =
        |name: &str, examples: Vec<String>| (format!("{name}.{extension}"), header.to_string() + &examples.concat());
    vec![file("train", parts.train), file("dev", parts.dev), file("test", parts.test)]
}
