//! Benchmarks of in-context learning: drawing the fields, and the node iteration on them.

use anyhow::Result;
use regard_theory::fields::Fields;
use regard_theory::prompt::Task;
use regard_theory::solver::{Method, Options};

/// Number of iterations per call. With the published settings the node iteration converges after about fifty.
pub const ITERATIONS: usize = 20;
const LAMBDA: f64 = 0.01;

/// Returns a call that draws prompts and sums them into couplings and fields.
pub fn fields([d, n, p]: [usize; 3]) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let task = Task::new(d, n);
    Ok(Box::new(move || {
        let fields = Fields::draw(&task, p as u64, LAMBDA, 1, &mut |_| {})?;
        std::hint::black_box(&fields);
        Ok(())
    }))
}

/// Returns a call of the node iteration, [`ITERATIONS`] times over all spins.
pub fn node([d, n, p]: [usize; 3]) -> Result<Box<dyn FnMut() -> Result<()>>> {
    let fields = Fields::draw(&Task::new(d, n), p as u64, LAMBDA, 1, &mut |_| {})?;
    let options =
        Options { damping: 0.5, tolerance: f64::MIN_POSITIVE, most_iterations: ITERATIONS, ..Options::default() };
    let solver = Method::Node.solver(options);
    Ok(Box::new(move || {
        std::hint::black_box(solver.solve(&fields, &mut |_, _| {})?);
        Ok(())
    }))
}
