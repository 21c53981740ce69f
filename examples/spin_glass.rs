//! In-context learning as a spin glass, from Rust: the attention matrix as the ground state of couplings and fields.
//!
//! Each entry of the attention matrix `W` is a spin and the training loss is their energy, with couplings and fields given by
//! the prompts. Linear attention learns regression in context when `W` comes close to a multiple of the identity. The more prompts
//! it has seen, the closer it comes; docs/in-context-learning.md has the derivation.
//!
//! ```sh
//! cargo run --release --example spin_glass -- ground_state.svg
//! ```

use regard_figures::{ColourScale, Figure, Heatmap, Table, ValueRange, number};
use regard_theory::fields::{Fields, test_error};
use regard_theory::prompt::Task;
use regard_theory::solver::{Method, Options};
use regard_theory::weights::{contrast, rows};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Inputs have 10 features, a prompt has 60 examples, and lambda is the regularisation of the loss.
    let (d, n, lambda, seed) = (10, 60, 0.01, 1);
    let task = Task::new(d, n);
    let mut table = Table::new(["prompts", "cosine with the identity", "test error", "AMP differs by"]);
    let mut figure = Figure::new("The ground state approaches a multiple of the identity");
    for prompts in [50, 200, 800, 3200] {
        // Couplings J and fields h of the prompts, then the state of least energy.
        let fields = Fields::draw(&task, prompts, lambda, seed, &mut |_| {})?;
        let exact = Method::Exact.solver(Options::default()).solve(&fields, &mut |_, _| {})?;
        // Approximate message passing (AMP) finds the same state if it converges, and returns an error if it cannot.
        let amp = Method::Amp.solver(Options::default()).solve(&fields, &mut |_, _| {});
        let differs = match amp {
            Ok(found) if found.converged => {
                let apart = found.means.iter().zip(&exact.means).map(|(a, b)| (a - b).abs());
                number(apart.fold(0.0, f64::max), 2)
            }
            Ok(_) => "not converged".to_string(),
            Err(_) => "fails".to_string(),
        };
        // Mean and standard error over 2,000 test prompts, which are never training prompts.
        let (error, _) = test_error(&task, &exact.means, 2_000, seed);
        table.push([prompts.to_string(), number(contrast(&exact.means, d), 3), number(error, 3), differs]);
        let values = rows(&exact.means, d).concat().iter().map(|&value| value as f32).collect();
        let map = Heatmap::new(d + 1, d + 1, values)?.scale(ColourScale::diverging(ValueRange::Data));
        figure.push(format!("{prompts} prompts"), map);
    }
    print!("{}", table.to_text());
    if let Some(path) = std::env::args().nth(1) {
        // The result tells which characters no font has.
        let _ = figure.columns(2).save(&path)?;
        println!("wrote {path}");
    }
    Ok(())
}
