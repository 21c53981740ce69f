//! Benchmarks of a published checkpoint, beside other programs in `bench/checkpoints`.

use std::io::BufRead;

use anyhow::{Context, Result, anyhow};
use regard_data::open_text;
use regard_nn::Pass;
use regard_tasks::hugging_face::Checkpoint;
use serde_json::json;

use super::{Bench, least_ms, peak_bytes};
use crate::failure::{failure, wrong_use};
use crate::print::{print, tell};
use crate::trained::checkpoint_as;

impl Bench {
    /// Measures one work on the checkpoint of `--model`.
    pub(super) fn run_checkpoint(&self) -> Result<()> {
        let folder =
            self.model.as_deref().ok_or_else(|| wrong_use(anyhow!("bench checkpoint needs --model FOLDER")))?;
        let only = self.only.as_deref().unwrap_or("embed");
        let model = checkpoint_as(folder, self.weights)?;
        let pass = Pass::inference();
        let mut call: Box<dyn FnMut() -> Result<()>> = match only.split_once('/') {
            None | Some(("embed", "one")) => {
                if !only.starts_with("embed") {
                    return Err(unknown(only));
                }
                let mut texts = self.texts()?;
                texts.truncate(if only == "embed/one" { 1 } else { usize::MAX });
                let (model, pass) = (&model, &pass);
                Box::new(move || {
                    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                    model.embed(&texts, pass).map(drop).map_err(failure)
                })
            }
            Some((kind, sizes)) => {
                let sizes: Vec<usize> = sizes.split('x').filter_map(|size| size.parse().ok()).collect();
                let [rows, prompt, count, beams] = match (kind, sizes.as_slice()) {
                    ("prompt", &[prompt]) => [1, prompt, 1, 1],
                    ("generate", &[prompt, count]) => [1, prompt, count, 1],
                    ("beam", &[rows, source, count, beams]) => [rows, source, count, beams],
                    _ => return Err(unknown(only)),
                };
                self.writing(&model, &pass, rows, prompt, count, beams)?
            }
        };
        let ours_ms = least_ms(self.seconds, &mut call)?;
        tell!("{only:<44} {ours_ms:>10.3} ms");
        if self.json {
            let result = json!({ "work": only, "ours_ms": ours_ms, "peak_bytes": peak_bytes() });
            let document = json!({
                "isa": regard_kernels::Isa::current().name(),
                "threads": rayon::current_num_threads(),
                "results": [result],
            });
            print(&format!("{document:#}\n"))?;
        }
        Ok(())
    }

    /// Returns a call that writes `count` tokens after each of `rows` texts of `prompt` tokens.
    fn writing<'a>(
        &self,
        model: &'a Checkpoint,
        pass: &'a Pass<'a>,
        rows: usize,
        prompt: usize,
        count: usize,
        beams: usize,
    ) -> Result<Box<dyn FnMut() -> Result<()> + 'a>> {
        // Tokens that both sides of a comparison can compute.
        let token = move |row: usize, at: usize| ((row * 131 + at * 7_919) % 10_000 + 3) as u32;
        let texts: Vec<Vec<u32>> = (0..rows).map(|row| (0..prompt).map(|at| token(row, at)).collect()).collect();
        Ok(Box::new(move || {
            let found = model.write_tokens(&texts, count, beams, pass).map_err(failure)?;
            match found.iter().all(|tokens| tokens.len() == count) {
                true => Ok(()),
                false => Err(anyhow!("expected {count} tokens after each text")),
            }
        }))
    }

    fn texts(&self) -> Result<Vec<String>> {
        let path =
            self.data.as_deref().ok_or_else(|| wrong_use(anyhow!("embed needs --data FILE, one text per line")))?;
        let lines = open_text(path).map_err(failure)?.lines();
        lines.collect::<Result<_, _>>().context("cannot read the texts: expected lines in UTF-8")
    }
}

fn unknown(only: &str) -> anyhow::Error {
    let expected = "embed, embed/one, prompt/TOKENS, generate/PROMPTxTOKENS or beam/TEXTSxSOURCExTOKENSxBEAMS";
    wrong_use(anyhow!("--only {only}: expected {expected}"))
}
