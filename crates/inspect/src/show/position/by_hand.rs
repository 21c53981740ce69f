//! Positions small enough to check with a pocket calculator: with four features, the two angles of position `p` are `p` and
//! `p/100`.

use burn::tensor::Device;
use regard_figures::{CellNumbers, ColourScale, FigureError, Heatmap, ValueRange, fixed};
use regard_nn::layers::position::{Position as Kind, PositionSizes, Rotation};
use regard_ops::{OpError, rope};
use serde_json::{Value, json};

use crate::show::ShowError;
use crate::show::matrix::{Matrix, beside};

/// Number of features.
const D: usize = 4;
/// Number of positions, from 0.
const POSITIONS: usize = 3;

/// The numbers of the positions 0, 1 and 2, for the kinds that have a formula.
pub(super) struct ByHand {
    /// Sinusoids `(sin p, cos p, sin p/100, cos p/100)`, a row for each position.
    sinusoids: Option<Matrix>,
    /// Matrices of RoPE, one for each position.
    rotations: Option<Vec<Matrix>>,
}

impl ByHand {
    /// Computes the numbers of those `kinds` that have a formula, with the layers themselves.
    pub fn of(kinds: &[Kind]) -> Result<Self, ShowError> {
        let sizes = PositionSizes { d_model: D, n_heads: 1, d_head: D };
        let (mut sinusoids, mut rotations) = (None, None);
        for kind in kinds {
            match kind {
                Kind::Sinusoidal => {
                    let layer = super::layer(kind, sizes, 0)?;
                    sinusoids = layer.table(POSITIONS, 0, &Device::flex())?.map(Matrix::of);
                }
                Kind::Rope(_) => {
                    let places = super::layer(kind, sizes, 0)?.places(POSITIONS, 0, &Device::flex());
                    rotations = places.rotation.map(|rotation| matrices(&rotation)).transpose()?;
                }
                _ => {}
            }
        }
        Ok(Self { sinusoids, rotations })
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Some(sinusoids) = &self.sinusoids {
            let rows: Vec<String> = (0..POSITIONS).map(|p| format!("p = {p}")).collect();
            let lines = sinusoids.lines("Sinusoids by hand, d = 4:", &rows, &sinusoid_names(), 7);
            text += &format!("\n{}\n", lines.join("\n"));
        }
        if let Some(rotations) = &self.rotations {
            text += "\nRoPE by hand, d = 4: position p multiplies q and k by the block-diagonal matrix R(p), with the angles p \
                     and p/100.\nA block is [cos −sin; sin cos].\n\n";
            let block =
                |(p, matrix): (usize, &Matrix)| matrix.lines(&format!("R({p})"), &[], &[], 5).into_iter().collect();
            text += &beside(&rotations.iter().enumerate().map(block).collect::<Vec<_>>());
        }
        text
    }

    pub fn json(&self) -> Value {
        let rotations = self.rotations.as_ref().map(|all| all.iter().map(Matrix::json).collect::<Vec<_>>());
        let positions: Vec<usize> = (0..POSITIONS).collect();
        let sinusoids = self.sinusoids.as_ref().map(Matrix::json);
        json!({ "d": D, "positions": positions, "sinusoidal": sinusoids, "rope": rotations })
    }

    /// Returns titled maps with the numbers in their cells: the sinusoids, and the matrices of the positions `rotated`.
    pub fn panels(&self, rotated: std::ops::Range<usize>) -> Result<Vec<(String, Heatmap)>, FigureError> {
        let mut panels = Vec::new();
        if let Some(sinusoids) = &self.sinusoids {
            let map = numbered(sinusoids)?.column_labels(sinusoid_names()).axes("position p", "");
            panels.push(("sinusoids by hand, d = 4".to_string(), map));
        }
        for (p, matrix) in self.rotations.iter().flatten().enumerate().filter(|(p, _)| rotated.contains(p)) {
            panels.push((format!("RoPE by hand, d = 4: R({p})"), numbered(matrix)?.axes("rotated feature", "feature")));
        }
        Ok(panels)
    }
}

/// Returns the block-diagonal matrix `R(p)` for each position of a rotation, found by rotating unit vectors:
/// column `i` is the rotated unit vector `i`.
pub(super) fn matrices(rotation: &Rotation) -> Result<Vec<Matrix>, OpError> {
    let [positions, pairs] = rotation.angles.dims();
    let d = 2 * pairs;
    let units = Matrix::from_fn(d, d, |i, j| f64::from(u8::from(i == j))).tensor::<3>().swap_dims(0, 1);
    let units = units.unsqueeze::<4>().expand([1, d, positions, d]);
    let turned = Matrix::of(rope(units, rotation.angles.clone(), rotation.pairing)?);
    let at = |p: usize| Matrix::from_fn(d, d, |row, column| turned.at(column * positions + p, row));
    Ok((0..positions).map(at).collect())
}

fn sinusoid_names() -> Vec<String> {
    ["sin p", "cos p", "sin p/100", "cos p/100"].map(String::from).to_vec()
}

fn numbered(matrix: &Matrix) -> Result<Heatmap, FigureError> {
    let scale = ColourScale::diverging(ValueRange::Fixed { low: -1.0, high: 1.0 });
    // Cells show two decimals by themselves, which would print cos 0.01 as 1.
    let texts = matrix.values.iter().map(|&v| fixed(v, if v.fract() == 0.0 { 0 } else { 5 }));
    Ok(matrix.heatmap()?.scale(scale).numbers(CellNumbers::WhereTheyFit).cell_texts(texts).side(220))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// sin 1, cos 1, sin 0.01, cos 0.01 and the same for 2 and 0.02, from a table.
    const BY_TABLE: [[f64; 4]; 3] = [
        [0.0, 1.0, 0.0, 1.0],
        [0.841_470_985, 0.540_302_306, 0.009_999_833, 0.999_950_000],
        [0.909_297_427, -0.416_146_837, 0.019_998_667, 0.999_800_007],
    ];

    #[test]
    fn sinusoids_are_those_of_a_table() {
        let sinusoids = ByHand::of(&[Kind::Sinusoidal]).unwrap().sinusoids.unwrap();
        for (p, want) in BY_TABLE.iter().enumerate() {
            for (got, want) in sinusoids.row(p).iter().zip(want) {
                assert!((got - want).abs() < 1e-7, "{p}: {got}, expected {want}");
            }
        }
    }

    #[test]
    fn rotations_are_blocks_of_two() {
        let rotations = ByHand::of(&[Kind::Rope(Default::default())]).unwrap().rotations.unwrap();
        assert_eq!(rotations.len(), POSITIONS);
        for (matrix, [sin, cos, slow_sin, slow_cos]) in rotations.iter().zip(BY_TABLE) {
            let want = [
                [cos, -sin, 0.0, 0.0],
                [sin, cos, 0.0, 0.0],
                [0.0, 0.0, slow_cos, -slow_sin],
                [0.0, 0.0, slow_sin, slow_cos],
            ];
            let want = Matrix::from_fn(D, D, |i, j| want[i][j]);
            assert!(matrix.largest_difference(&want) < 2e-7, "{matrix:?}, expected {want:?}");
        }
    }

    #[test]
    fn a_matrix_times_a_vector_is_the_rotated_vector() {
        use regard_nn::layers::position::rope::RopeConfig;
        use regard_ops::Pairing;
        for pairing in [Pairing::Interleaved, Pairing::Halves] {
            let kind = Kind::Rope(RopeConfig { pairing, ..RopeConfig::default() });
            let sizes = PositionSizes { d_model: 8, n_heads: 1, d_head: 8 };
            let rotation =
                super::super::layer(&kind, sizes, 0).unwrap().places(5, 0, &Device::flex()).rotation.unwrap();
            let x = Matrix::from_fn(5, 8, |i, j| ((3 * i + 5 * j) % 7) as f64 - 3.0);
            let turned = Matrix::of(rope(x.tensor(), rotation.angles.clone(), pairing).unwrap());
            for (p, matrix) in matrices(&rotation).unwrap().iter().enumerate() {
                let product = matrix.times(&x.part(p..p + 1, 0..8).transposed());
                assert!(
                    product.transposed().largest_difference(&turned.part(p..p + 1, 0..8)) < 1e-6,
                    "{pairing:?} {p}"
                );
            }
        }
    }
}
