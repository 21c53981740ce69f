//! Attention rollout (Abnar and Zuidema 2020): how much each token of the last layer depends on each token of the input, if
//! attention were all that mixes tokens.
//!
//! `R = Â_L ⋯ Â_2 Â_1` with `Â = ½ A + ½ I`, where `A` is the mean of the heads of a layer and `I` stands for the residual sum.

use crate::attention::MapGroup;

/// Computes the rollout of layers of self-attention, the lowest first: a row for each token of the last layer, with a weight for
/// each token of the input. Returns `None` without layers, or if the maps are not square and of one size.
pub fn rollout<'a>(layers: impl IntoIterator<Item = &'a MapGroup>) -> Option<Vec<Vec<f32>>> {
    let mut product: Option<Vec<Vec<f32>>> = None;
    for layer in layers {
        let mixed = mixed(layer)?;
        product = Some(match product {
            None => mixed,
            Some(below) if below.len() == mixed.len() => times(&mixed, &below),
            Some(_) => return None,
        });
    }
    product
}

/// `½ A + ½ I` of a layer.
fn mixed(layer: &MapGroup) -> Option<Vec<Vec<f32>>> {
    let n = layer.queries.len();
    if n == 0 || layer.keys.len() != n || layer.heads.is_empty() {
        return None;
    }
    let share = 0.5 / layer.heads.len() as f32;
    let mut mixed = vec![vec![0.0; n]; n];
    (0..n).for_each(|at| mixed[at][at] = 0.5);
    for head in &layer.heads {
        for (row, weights) in mixed.iter_mut().zip(head.weights(layer)) {
            row.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += share * weight);
        }
    }
    Some(mixed)
}

fn times(left: &[Vec<f32>], right: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let row = |weights: &Vec<f32>| {
        let mut sum = vec![0.0; right.len()];
        for (weight, row) in weights.iter().zip(right) {
            sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += weight * value);
        }
        sum
    };
    left.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::HeadMap;

    fn layer(heads: &[[[f32; 2]; 2]]) -> MapGroup {
        let maps =
            heads.iter().enumerate().map(|(head, rows)| HeadMap { head, rows: rows.map(|row| row.to_vec()).to_vec() });
        maps.fold(MapGroup::new("layer", ["a", "b"], ["a", "b"]), MapGroup::head)
    }

    #[test]
    fn two_layers_by_hand() {
        // Mean of the heads [[1/2, 1/2], [1/2, 1/2]], so Â₁ = [[3/4, 1/4], [1/4, 3/4]]; Â₂ = [[1/2, 1/2], [0, 1]].
        let first = layer(&[[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]]);
        let second = layer(&[[[0.0, 1.0], [0.0, 1.0]]]);
        let found = rollout([&first, &second]).unwrap();
        assert_eq!(found, [[0.5, 0.5], [0.25, 0.75]]);
        assert_eq!(rollout([&first]).unwrap(), [[0.75, 0.25], [0.25, 0.75]]);
        // The order matters.
        assert_ne!(rollout([&second, &first]).unwrap(), found);
    }

    #[test]
    fn maps_that_are_not_square_have_no_rollout() {
        let cross = MapGroup::new("layer", ["a"], ["a", "b"]).head(HeadMap { head: 0, rows: vec![vec![0.5, 0.5]] });
        assert_eq!(rollout([&cross]), None);
        assert_eq!(rollout([&MapGroup::new("layer", ["a"], ["a"])]), None);
        assert_eq!(rollout([]), None);
    }
}
