//! How much labels say about where examples lie.

use std::collections::BTreeMap;

/// Returns the share of the variance of points that their labels explain, from 0 to 1: the mean over all features that vary, adjusted
/// for the number of labels, which explain a little by chance. `None` if no label has two points, or if all points are the same.
pub(crate) fn explained<'a>(points: impl IntoIterator<Item = (&'a str, &'a [f32])>) -> Option<f64> {
    let mut groups: BTreeMap<&str, Group> = BTreeMap::new();
    for (label, point) in points {
        groups.entry(label).or_default().add(point);
    }
    let mut all = Group::default();
    for group in groups.values() {
        all.join(group);
    }
    let (count, labels) = (all.count, groups.len() as f64);
    if count <= labels {
        return None;
    }
    let adjusted = (0..all.sums.len()).filter_map(|feature| {
        let total = all.deviation(feature);
        let within: f64 = groups.values().map(|group| group.deviation(feature)).sum();
        // What is left by rounding does not vary.
        let varies = total > 1e-9 * all.squares[feature].abs();
        varies.then(|| (1.0 - within / total * (count - 1.0) / (count - labels)).clamp(0.0, 1.0))
    });
    let adjusted: Vec<f64> = adjusted.collect();
    (!adjusted.is_empty()).then(|| adjusted.iter().sum::<f64>() / adjusted.len() as f64)
}

/// Sums over the points of a label, by feature.
#[derive(Default)]
struct Group {
    count: f64,
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl Group {
    fn add(&mut self, point: &[f32]) {
        let numbers = || point.iter().map(|&number| f64::from(number));
        self.join(&Self { count: 1.0, sums: numbers().collect(), squares: numbers().map(|x| x * x).collect() });
    }

    fn join(&mut self, other: &Self) {
        self.count += other.count;
        for (own, more) in [(&mut self.sums, &other.sums), (&mut self.squares, &other.squares)] {
            own.resize(own.len().max(more.len()), 0.0);
            own.iter_mut().zip(more).for_each(|(own, more)| *own += more);
        }
    }

    /// Sum of the squared deviations from the mean.
    fn deviation(&self, feature: usize) -> f64 {
        let (sum, squares) = (self.sums.get(feature), self.squares.get(feature));
        let (sum, squares) = (sum.copied().unwrap_or(0.0), squares.copied().unwrap_or(0.0));
        (squares - sum * sum / self.count.max(1.0)).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_explain_all_or_nothing() {
        let of = |points: &[(&str, [f32; 2])]| explained(points.iter().map(|(label, point)| (*label, &point[..])));
        // The second feature is the same everywhere and does not count.
        assert_eq!(of(&[("a", [1.0, 5.0]), ("a", [1.0, 5.0]), ("b", [3.0, 5.0]), ("b", [3.0, 5.0])]), Some(1.0));
        assert_eq!(of(&[("a", [1.0, 5.0]), ("a", [3.0, 5.0]), ("b", [1.0, 5.0]), ("b", [3.0, 5.0])]), Some(0.0));
        assert_eq!(of(&[("a", [1.0, 5.0]), ("b", [3.0, 5.0])]), None, "one point for each label");
        assert_eq!(of(&[("a", [1.0, 5.0]), ("a", [1.0, 5.0])]), None, "nothing varies");
        assert_eq!(of(&[]), None);
        // Half of the variance: labels 0 and 2 with deviations of 1 around them.
        let half = of(&[("a", [-1.0, 0.0]), ("a", [1.0, 0.0]), ("b", [1.0, 0.0]), ("b", [3.0, 0.0])]).unwrap();
        assert!((half - (1.0 - 0.5 * 3.0 / 2.0)).abs() < 1e-9, "{half}");
    }
}
