//! The learning curve of linear attention for large `D`, with `N/D` and `P/D²` fixed (the regime of Lu et al. 2024).
//!
//! In this limit `W` acts on `D(D + 1)` uncorrelated features. All but the `D` of its last row have the same variance
//! `v = (1 + (D + 1)/N) / D`; that row is neglected, which matters for few prompts at small `D`. The loss is then that of ridge
//! regression on independent features: the best `W` is `I / (1 + (D + 1)/N)`, which explains `r² = 1 / (1 + (D + 1)/N)` of the
//! answers' variance 1, and the remaining `1 − r²` acts as noise. With `γ = D(D + 1)/P` and `m` the Stieltjes transform of the
//! Marchenko–Pastur law at `−λ/v`,
//!
//! ```text
//! error = (1 − r²) + r² (λ/v)² m' + (1 − r²) γ (m − (λ/v) m')
//! ```

use crate::error::TheoryError;
use crate::prompt::Task;

/// Returns the test error of the ground state for large `D`, for independent inputs and labels without noise.
pub fn asymptotic_error(task: &Task, prompts: f64, lambda: f64) -> Result<f64, TheoryError> {
    task.validate()?;
    task.validate_plain("the asymptotic curve")?;
    if lambda.is_nan() || lambda <= 0.0 {
        return Err(TheoryError::setting("lambda", "above 0 for the asymptotic curve", lambda));
    }
    let (d, n) = (task.d as f64, task.n as f64);
    // With the divisor N + 1 the features are smaller, so λ weighs more.
    let shrink = n / task.divisor();
    let excess = 1.0 + (d + 1.0) / n;
    let ridge = lambda / (shrink * shrink * excess / d);
    let (signal, noise) = (1.0 / excess, 1.0 - 1.0 / excess);
    let ratio = d * (d + 1.0) / prompts;
    let (m, slope) = stieltjes(ratio, ridge);
    Ok(noise + signal * ridge * ridge * slope + noise * ratio * (m - ridge * slope))
}

/// Returns `m(−z)` of the Marchenko–Pastur law with `ratio` features per sample, and its derivative `m'(−z)`. `m` is the
/// positive root of `γ z m² + (1 − γ + z) m = 1`; the derivative follows by implicit differentiation.
fn stieltjes(ratio: f64, z: f64) -> (f64, f64) {
    let b = 1.0 - ratio + z;
    let root = (b * b + 4.0 * ratio * z).sqrt();
    // For either sign of b, the form of the root without cancellation.
    let m = if b > 0.0 { 2.0 / (b + root) } else { (root - b) / (2.0 * ratio * z) };
    (m, (ratio * m * m + m) / (2.0 * ratio * z * m + b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transform_is_the_mean_of_its_law() {
        // ∫ ρ(x) / (x + z) and ∫ ρ(x) / (x + z)² by the midpoint rule, plus the point mass at 0 if features outnumber samples.
        for (ratio, z) in [(0.3, 0.1), (0.8, 0.5), (2.5, 0.2)] {
            let (low, high) = crate::spectrum::marchenko_pastur_edges(ratio);
            let count = 200_000;
            let width = (high - low) / f64::from(count);
            let empty = (1.0f64 - 1.0 / ratio).max(0.0);
            let mut sums = (empty / z, empty / (z * z));
            for i in 0..count {
                let x = low + (f64::from(i) + 0.5) * width;
                let weight = width * crate::spectrum::marchenko_pastur(x, ratio);
                sums = (sums.0 + weight / (x + z), sums.1 + weight / (x + z).powi(2));
            }
            let (m, slope) = stieltjes(ratio, z);
            assert!((m - sums.0).abs() < 1e-3 * m, "{ratio}, {z}: {m} and {}", sums.0);
            assert!((slope - sums.1).abs() < 1e-3 * slope, "{ratio}, {z}: {slope} and {}", sums.1);
        }
    }

    #[test]
    fn unlimited_prompts_leave_the_error_of_the_limit() {
        // W = I / (1 + (D + 1)/N + λD) with the divisor N.
        let task = Task { divisor: crate::prompt::Divisor::Examples, ..Task::new(20, 100) };
        let error = asymptotic_error(&task, 1e12, 0.01).unwrap();
        let (excess, w) = (1.21, 1.0 / (1.21 + 0.2));
        let direct = 1.0 - 2.0 * w + w * w * excess;
        assert!((error - direct).abs() < 1e-6, "{error} and {direct}");
    }
}
