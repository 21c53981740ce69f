//! Whether a run fits in memory, before anything of it is built.

use regard_inspect::count::{Description, count};

use crate::error::TaskError;

/// Refuses a run whose model, optimiser and activations need more memory than there is. What cannot be counted passes.
pub(crate) fn check(description: &Description) -> Result<(), TaskError> {
    let Ok(counted) = count(description) else { return Ok(()) };
    let Some(available) = available() else { return Ok(()) };
    fits(counted.memory.training, counted.parameters(), available)
}

fn fits(needed: u128, parameters: u128, available: u128) -> Result<(), TaskError> {
    if needed <= available {
        return Ok(());
    }
    let expected = format!("at most {} of memory, which is free", gigabytes(available));
    let got = format!(
        "about {} for {parameters} parameters with their gradients, averages and a batch: \
         lower model.d_model, model.n_layers, the vocabulary or train.batch_tokens",
        gigabytes(needed)
    );
    Err(TaskError::input("memory", expected, got))
}

/// Bytes that programs can still have, where the system tells.
fn available() -> Option<u128> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u128 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes * 1024)
}

fn gigabytes(bytes: u128) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1u32 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_is_refused_with_its_size() {
        assert!(fits(1 << 30, 10, 1 << 30).is_ok());
        let error = fits(3 << 30, 10, 1 << 30).unwrap_err().to_string();
        assert!(error.contains("1.0 GiB") && error.contains("3.0 GiB") && error.contains("d_model"), "{error}");
    }
}
