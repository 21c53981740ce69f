//! A path as a fixed number of points at equal distances, which no longer depend on the speed at which it was drawn.

/// Returns `count` vectors at equal distances along the path through `vectors`, `[length, width]`, by linear interpolation.
///
/// Flags do not count in distances and are not interpolated: a point has a flag if one of the vectors that were passed since the
/// point before it has it, so that a short stroke keeps its end. Between two vectors the flag is that of the first.
pub(super) fn resampled(vectors: &[f32], width: usize, count: usize, flags: &[usize]) -> Vec<f32> {
    let length = vectors.len() / width;
    let counts: Vec<bool> = (0..width).map(|feature| !flags.contains(&feature)).collect();
    let vector = |at: usize| &vectors[at * width..(at + 1) * width];
    let mut way = vec![0.0; length];
    for at in 1..length {
        let pairs = vector(at).iter().zip(vector(at - 1)).zip(&counts).filter(|(_, counts)| **counts);
        let square: f64 = pairs.map(|((a, b), _)| (f64::from(*a) - f64::from(*b)).powi(2)).sum();
        way[at] = way[at - 1] + square.sqrt();
    }
    let whole = way[length - 1];
    let (mut right, mut passed) = (0, 0);
    let mut points = Vec::with_capacity(count * width);
    for point in 0..count {
        let part = point as f64 / (count - 1).max(1) as f64;
        let before = passed;
        // Vectors that are all the same have no distances; they are spread over time.
        let (at, left) = if whole > 0.0 && whole.is_finite() {
            while right + 1 < length && way[right] < part * whole {
                right += 1;
            }
            // A vector at the point itself counts as passed, despite rounding.
            while passed < length && way[passed] <= (part + 1e-9) * whole {
                passed += 1;
            }
            let left = right.saturating_sub(1);
            let gap = way[right] - way[left];
            (if gap > 0.0 { (part * whole - way[left]) / gap } else { 1.0 }, left)
        } else {
            right = (part * (length - 1) as f64).round() as usize;
            passed = right + 1;
            (1.0, right.saturating_sub(1))
        };
        let since = before.min(passed - 1)..passed;
        let flag = |feature: usize| since.clone().map(|at| vector(at)[feature]).fold(f32::MIN, f32::max);
        let features = vector(left).iter().zip(vector(right)).zip(&counts).enumerate();
        points.extend(features.map(|(feature, ((&a, &b), &counts))| match counts {
            // In f64, since the difference of two large numbers may not fit in f32.
            true => (f64::from(a) + (f64::from(b) - f64::from(a)) * at) as f32,
            false => flag(feature),
        }));
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
        let points = resampled(&path, 3, 5, &[2]);
        let expected = [0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 8.0, 0.0, 0.0, 8.0, 4.0, 0.0, 8.0, 8.0, 1.0];
        assert!(points.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{points:?}");
        assert_eq!(resampled(&[3.0, 4.0], 2, 3, &[]), [3.0, 4.0, 3.0, 4.0, 3.0, 4.0], "one vector");
        assert_eq!(resampled(&[0.0, 1.0], 1, 3, &[0]), [0.0, 1.0, 1.0], "nothing but flags");
        assert_eq!(resampled(&[0.0, 1.0], 1, 3, &[]), [0.0, 0.5, 1.0], "a path from 0 to 1");
        let huge = resampled(&[f32::MAX, f32::MIN, 0.0], 1, 4, &[]);
        assert!(huge.len() == 4 && huge.iter().all(|x| x.is_finite()), "{huge:?}");
    }

    #[test]
    fn flags_are_kept_and_stay_0_or_1() {
        let flags = |path: &[f32], count: usize| -> Vec<f32> {
            resampled(path, 2, count, &[1]).into_iter().skip(1).step_by(2).collect()
        };
        // A stroke from 0 to 2, another from 6 to 8; no point falls on the end of the first.
        let strokes = [0.0, 0.0, 1.0, 0.0, 2.0, 1.0, 6.0, 0.0, 7.0, 0.0, 8.0, 1.0];
        assert_eq!(flags(&strokes, 9), [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0], "the pen is up from 2 to 6");
        assert_eq!(flags(&strokes, 4), [0.0, 1.0, 1.0, 1.0], "at 0, 2.67, 5.33 and 8");
        assert_eq!(flags(&strokes, 2), [0.0, 1.0]);
        let still = [3.0, 0.0, 3.0, 1.0, 3.0, 0.0];
        assert_eq!(flags(&still, 5), [0.0, 1.0, 1.0, 0.0, 0.0]);
    }
}
