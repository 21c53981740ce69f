//! Biases that depend on the distance between key and query: ALiBi (Press 2022) and a learned table whose distances are
//! clipped as in Shaw 2018.

use crate::error::{KernelError, check_len};

/// Returns the published slopes of ALiBi: `2^(−8k/h)` if the number of heads is a power of two, else those of the next lower
/// power of two followed by every other one of the next higher.
pub fn alibi_slopes(n_heads: usize) -> Vec<f32> {
    let slope = |k: usize, heads: usize| 2f64.powf(-8.0 * k as f64 / heads as f64) as f32;
    let lower = if n_heads.is_power_of_two() { n_heads } else { n_heads.next_power_of_two() / 2 };
    let regular = (1..=lower).map(|k| slope(k, lower));
    let between = (0..).map(|k| slope(2 * k + 1, 2 * lower));
    regular.chain(between).take(n_heads).collect()
}

/// Returns `−m_h |j − p|` for every distance.
///
/// # Shapes
/// `slopes` `[n_heads]` → `[n_heads, queries + keys − 1]`, as `AttentionOptions::distance` takes it.
pub fn alibi_distances(slopes: &[f32], queries: usize, keys: usize) -> Vec<f32> {
    let columns = (queries + keys).saturating_sub(1);
    let distance = |index: usize| (index as f32 - (keys as f32 - 1.0)).abs();
    slopes.iter().flat_map(|slope| (0..columns).map(move |index| -slope * distance(index))).collect()
}

/// Returns `table[h, clamp(j − p, −max, max) + max]` for every distance.
///
/// # Shapes
/// `table` `[n_heads, 2 max + 1]` → `[n_heads, queries + keys − 1]`, as `AttentionOptions::distance` takes it.
pub fn relative_distances(table: &[f32], max: usize, queries: usize, keys: usize) -> Result<Vec<f32>, KernelError> {
    let width = check_table(table.len(), max)?;
    let columns = (queries + keys).saturating_sub(1);
    let entries = table.chunks_exact(width);
    Ok(entries.flat_map(|row| (0..columns).map(|index| row[entry(index, max, keys)])).collect())
}

/// Computes the gradient of the table of [`relative_distances`] from that of the distances.
///
/// # Shapes
/// `grad` `[n_heads, queries + keys − 1]` → `grad_table` `[n_heads, 2 max + 1]`, overwritten.
pub fn relative_distances_backward(
    grad: &[f32],
    max: usize,
    queries: usize,
    keys: usize,
    grad_table: &mut [f32],
) -> Result<(), KernelError> {
    let width = check_table(grad_table.len(), max)?;
    let columns = (queries + keys).saturating_sub(1);
    check_len("gradient of the distances", grad.len(), grad_table.len() / width * columns)?;
    grad_table.fill(0.0);
    if columns > 0 {
        for (row, grad) in grad_table.chunks_exact_mut(width).zip(grad.chunks_exact(columns)) {
            for (index, grad) in grad.iter().enumerate() {
                row[entry(index, max, keys)] += grad;
            }
        }
    }
    Ok(())
}

/// Returns the table's column for an index of the distances.
fn entry(index: usize, max: usize, keys: usize) -> usize {
    (index + max + 1).saturating_sub(keys).min(2 * max)
}

/// Returns the width of a table; refuses a length that is no multiple of it.
fn check_table(len: usize, max: usize) -> Result<usize, KernelError> {
    let width = 2 * max + 1;
    if !len.is_multiple_of(width) {
        let why = format!("expected a whole number of rows of 2·{max} + 1 elements, got {len} elements");
        return Err(KernelError::Invalid { what: "relative table", why });
    }
    Ok(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_the_published_ones() {
        assert_eq!(alibi_slopes(8), [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]);
        // 12 heads have the slopes of 8 heads, then the odd ones of 16.
        let twelve = alibi_slopes(12);
        assert_eq!(twelve[..8], alibi_slopes(8));
        assert_eq!(twelve[8..], [1, 3, 5, 7].map(|k| 2f64.powf(-0.5 * f64::from(k)) as f32));
        assert_eq!(alibi_slopes(16)[0], 0.5f32.sqrt());
        assert_eq!(alibi_slopes(1), [0.00390625]);
    }

    #[test]
    fn table_is_clipped_and_its_gradient_is_the_transpose() {
        let (max, queries, keys) = (2, 3, 5);
        let table: Vec<f32> = (0..10).map(|x| x as f32).collect();
        let distances = relative_distances(&table, max, queries, keys).unwrap();
        for h in 0..2 {
            for i in 0..queries {
                for j in 0..keys {
                    let delta = j as isize - (i + keys - queries) as isize;
                    let want = table[h * 5 + (delta.clamp(-2, 2) + 2) as usize];
                    assert_eq!(distances[h * 7 + (delta + keys as isize - 1) as usize], want);
                }
            }
        }
        let grad: Vec<f32> = (0..14).map(|x| (x * x % 7) as f32).collect();
        let mut grad_table = vec![9.0; 10];
        relative_distances_backward(&grad, max, queries, keys, &mut grad_table).unwrap();
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        assert_eq!(dot(&grad, &distances), dot(&grad_table, &table));
        assert!(relative_distances(&table[1..], max, queries, keys).is_err());
    }
}
