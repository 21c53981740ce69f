//! A path as a fixed number of points at equal distances, which no longer depend on the speed at which it was drawn.

/// Returns `count` vectors at equal distances along the path through `vectors`, `[length, width]`, by linear interpolation.
/// Features that are only 0 or 1, such as flags, do not count in distances.
pub(super) fn resampled(vectors: &[f32], width: usize, count: usize) -> Vec<f32> {
    let length = vectors.len() / width;
    let is_flag = |feature: usize| vectors.iter().skip(feature).step_by(width).all(|&x| x == 0.0 || x == 1.0);
    let counts: Vec<bool> = (0..width).map(|feature| !is_flag(feature)).collect();
    let vector = |at: usize| &vectors[at * width..(at + 1) * width];
    let mut way = vec![0.0; length];
    for at in 1..length {
        let pairs = vector(at).iter().zip(vector(at - 1)).zip(&counts).filter(|(_, counts)| **counts);
        let square: f64 = pairs.map(|((a, b), _)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
        way[at] = way[at - 1] + square.sqrt();
    }
    let whole = way[length - 1];
    let mut right = 0;
    let mut points = Vec::with_capacity(count * width);
    for point in 0..count {
        let part = point as f64 / (count - 1).max(1) as f64;
        // Vectors that are all the same have no distances; they are spread over time.
        let (at, left) = if whole > 0.0 && whole.is_finite() {
            while right + 1 < length && way[right] < part * whole {
                right += 1;
            }
            let left = right.saturating_sub(1);
            let gap = way[right] - way[left];
            (if gap > 0.0 { (part * whole - way[left]) / gap } else { 1.0 }, left)
        } else {
            right = (part * (length - 1) as f64).round() as usize;
            (1.0, right.saturating_sub(1))
        };
        let between = vector(left).iter().zip(vector(right)).map(|(a, b)| a + (b - a) * at as f32);
        points.extend(between);
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_at_equal_distances() {
        // Fast along one side, slow along the other; the flag does not count.
        let path = [0.0, 0.0, 0.0, 8.0, 0.0, 0.0, 8.0, 2.0, 0.0, 8.0, 4.0, 0.0, 8.0, 8.0, 1.0];
        let points = resampled(&path, 3, 5);
        let expected = [0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 8.0, 0.0, 0.0, 8.0, 4.0, 0.0, 8.0, 8.0, 1.0];
        assert!(points.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{points:?}");
        assert_eq!(resampled(&[3.0, 4.0], 2, 3), [3.0, 4.0, 3.0, 4.0, 3.0, 4.0], "one vector");
        assert_eq!(resampled(&[0.0, 1.0], 1, 3), [0.0, 1.0, 1.0], "nothing but flags");
        let huge = resampled(&[f32::MAX, f32::MIN, 0.0], 1, 4);
        assert!(huge.len() == 4 && huge.iter().all(|x| !x.is_nan()), "{huge:?}");
    }
}
