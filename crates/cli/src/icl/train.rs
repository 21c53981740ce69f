//! `regard icl train`: trains models on the prompts.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use regard_system::Ranks;
use regard_theory::TheoryError;
use regard_theory::show::Shown;
use regard_theory::show::train::{PUBLISHED_N, ShowTrain, Training};
use regard_theory::train::{HeadWidth, Model, Start, TrainOptions};

use super::{Inputs, USUAL_N, or_usual, report, say_kept, unless_stopped};
use crate::progress::Progress;
use crate::signal::stop_on_signal;
use crate::value::{from_one, from_zero, number};

/// The flags of `regard icl train`.
#[derive(Args)]
pub(super) struct Train {
    #[command(flatten)]
    inputs: Inputs,
    /// Number of examples before the query; a list draws the test error over it. 100 by default, and 10,20,50,100,200 with --published
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = from_zero::<usize>)]
    n: Vec<usize>,
    /// Number of prompts; a list draws the double descent. 1000 by default, and 10000 with --published
    #[arg(long, value_name = "P,…", value_delimiter = ',', value_parser = from_zero::<u64>)]
    p: Vec<u64>,
    /// Regularisation λ, half the weight decay; 0.01 by default, and 0.005 with --published
    #[arg(long, value_name = "L", value_parser = number)]
    lambda: Option<f64>,
    /// Models to train: merged, separate, full, multi_head, softmax, block; merged by default, and all with --published
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    model: Vec<Model>,
    /// Number of heads of multi_head; 4 by default
    #[arg(long, value_name = "H", value_parser = from_one::<usize>)]
    heads: Option<usize>,
    /// Width of the values of a head of multi_head: full (D + 1, as published) or split ((D + 1)/H); full by default
    #[arg(long, value_name = "full|split")]
    head_width: Option<HeadWidth>,
    /// Width of queries and keys; that of the values by default, and 64 with --published
    #[arg(long, value_name = "W", value_parser = from_one::<usize>)]
    width: Option<usize>,
    /// Variance of the initial weights: dense (a third of the inverse number of inputs, as in PyTorch's layers) or published (the
    /// inverse number of inputs); dense by default, and published with --published
    #[arg(long, value_name = "dense|published")]
    start: Option<Start>,
    /// Number of steps of Adam; 2000 by default, and 5000 with --published
    #[arg(long, value_name = "N", value_parser = from_one::<usize>)]
    steps: Option<usize>,
    /// Learning rate of Adam; 0.01 by default, and 0.001 with --published
    #[arg(long, value_name = "R", value_parser = number)]
    rate: Option<f64>,
    /// Number of new prompts for the test error
    #[arg(long, value_name = "N", default_value_t = 4000, value_parser = from_one::<u64>)]
    tests: u64,
    /// Number of runs of each model
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = from_one::<usize>)]
    repeats: usize,
    /// Train all models over N with the published settings; other flags change single settings
    #[arg(long)]
    published: bool,
    /// The file that keeps finished runs; they are not computed again
    #[arg(long, value_name = "FILE", default_value = "runs/icl-train.jsonl")]
    journal: PathBuf,
}

impl Train {
    pub(super) fn show(self, seed: u64) -> Result<Option<Shown>> {
        let Self {
            inputs,
            n,
            p,
            lambda,
            model,
            heads,
            head_width,
            width,
            start,
            steps,
            rate,
            tests,
            repeats,
            published,
            journal,
        } = self;
        let usual = if published { TrainOptions::published() } else { TrainOptions::default() };
        let (usual_n, usual_p, usual_models) = match published {
            true => (PUBLISHED_N.as_slice(), 10_000, Model::ALL.as_slice()),
            false => ([USUAL_N].as_slice(), 1000, [Model::Merged].as_slice()),
        };
        let models = or_usual(model, usual_models);
        for (name, is_given) in [("heads", heads.is_some()), ("head-width", head_width.is_some())] {
            if is_given && !models.contains(&Model::MultiHead) {
                let expected = "--model multi_head with this flag";
                return Err(report(TheoryError::setting(name, expected, "only other models")));
            }
        }
        if width.is_some() && models.iter().all(|model| *model == Model::Merged) {
            let expected = "a --model with queries and keys with this flag";
            return Err(report(TheoryError::setting("width", expected, "merged")));
        }
        let options = TrainOptions {
            steps: steps.unwrap_or(usual.steps),
            rate: rate.unwrap_or(usual.rate),
            weight_decay: lambda.map_or(usual.weight_decay, |lambda| 2.0 * lambda),
            heads: heads.unwrap_or(usual.heads),
            head_width: head_width.unwrap_or(usual.head_width),
            width: width.or(usual.width),
            start: start.unwrap_or(usual.start),
            seed,
            ..usual
        };
        let show = ShowTrain {
            task: inputs.task(USUAL_N),
            n: or_usual(n, usual_n),
            p: or_usual(p, &[usual_p]),
            models,
            options,
            tests,
            repeats,
            seed,
        };
        let signals = stop_on_signal("finished runs are kept", &Ranks::default())?;
        let progress = Progress::new("");
        let mut hear = |training: Training<'_>| match training {
            Training::Kept(kept, all) => say_kept(&progress, kept, all, &journal),
            Training::Step(what, done, all) => progress.set(done as u64, all as u64, what),
        };
        let shown = show.show(Some(&journal), &|| signals.stop.is_asked(), &mut hear).map_err(report)?;
        unless_stopped(shown, &signals)
    }
}
