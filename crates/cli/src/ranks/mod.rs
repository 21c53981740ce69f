//! The processes of a command that `mpirun` or `srun` starts several times.
//!
//! The feature `mpi` connects them. Without it, such a start is refused: the processes would not know of each other.

#[cfg(feature = "mpi")]
mod mpi;

use anyhow::Result;
use regard_system::Ranks;

use crate::failure::{Said, exit_code};

/// Variables with the number of processes that launchers set: Open MPI's `mpirun`, and that of MPICH, Intel and Slurm.
#[cfg(not(feature = "mpi"))]
const SIZES: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];
/// Variables that launchers set for a process that belongs to MPI.
#[cfg(feature = "mpi")]
const LAUNCHED: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"];

/// Connects the processes that a launcher has started together, runs `command` in each, and lets rank 0 alone say why it failed.
pub fn run(command: impl FnOnce(&Ranks) -> Result<()>) -> Result<()> {
    let ranks = join()?;
    let result = command(&ranks).inspect_err(|error| ranks.leave(error));
    if ranks.is_first() { result } else { result.map_err(|error| Said(exit_code(&error)).into()) }
}

#[cfg(feature = "mpi")]
fn join() -> Result<Ranks> {
    let is_launched = LAUNCHED.iter().any(|name| std::env::var_os(name).is_some());
    Ok(if is_launched { mpi::join()? } else { Ranks::default() })
}

#[cfg(not(feature = "mpi"))]
fn join() -> Result<Ranks> {
    let size = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
    // `srun --mpi=pmix` sets none of them, and the number of tasks also for programs that have nothing to do with each other.
    let of_slurm = || std::env::var_os("PMIX_RANK").and_then(|_| size("SLURM_STEP_NUM_TASKS"));
    match SIZES.into_iter().find_map(size).or_else(of_slurm) {
        Some(size) if size > 1 => Err(crate::failure::wrong_use(anyhow::Error::msg(format!(
            "{size} processes were started together, and this regard was built without MPI; build it with \
             `cargo build --release --features mpi`, or start one process"
        )))),
        _ => Ok(Ranks::default()),
    }
}
