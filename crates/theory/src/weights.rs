//! Measures and views of an attention matrix `W`.

/// Returns the contrast `⟨W, I⟩ / (‖W‖ ‖I‖)` with the identity of `D + 1` rows, or 0 if `W` is 0. `weights` are `[D + 1, D]`;
/// the last column of `W` is 0.
pub fn contrast(weights: &[f64], d: usize) -> f64 {
    let trace: f64 = (0..d).map(|i| weights[i * d + i]).sum();
    let norm = weights.iter().map(|w| w * w).sum::<f64>().sqrt();
    if norm == 0.0 { 0.0 } else { trace / (norm * ((d + 1) as f64).sqrt()) }
}

/// Returns the rows of `W`, with its last column of zeros.
pub fn rows(weights: &[f64], d: usize) -> Vec<Vec<f64>> {
    weights.chunks_exact(d).map(|row| row.iter().copied().chain([0.0]).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_has_the_contrast_of_its_missing_corner() {
        let d = 4;
        let mut weights = vec![0.0; (d + 1) * d];
        (0..d).for_each(|i| weights[i * d + i] = 3.0);
        assert!((contrast(&weights, d) - (4.0f64 / 5.0).sqrt()).abs() < 1e-12);
        assert_eq!(contrast(&vec![0.0; (d + 1) * d], d), 0.0);
        assert_eq!(rows(&weights, d)[0], [3.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
