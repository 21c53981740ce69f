//! Plain matrices in f64: the other side of a claim about the layers, and the numbers that are drawn.

use burn::tensor::{Device, Tensor, TensorData};

use crate::{Heatmap, InspectError};

/// Numbers row after row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reference {
    pub rows: usize,
    pub columns: usize,
    pub values: Vec<f64>,
}

impl Reference {
    /// The number in each place.
    pub fn from_fn(rows: usize, columns: usize, f: impl Fn(usize, usize) -> f64) -> Self {
        let values = (0..rows * columns).map(|i| f(i / columns, i % columns)).collect();
        Self { rows, columns, values }
    }

    /// The numbers of a tensor, all sizes but the last being rows.
    pub fn of<const D: usize>(tensor: Tensor<D>) -> Self {
        let dims = tensor.dims();
        Self { rows: dims[..D - 1].iter().product(), columns: dims[D - 1], values: tensor.into_data().iter().collect() }
    }

    /// Rows of weights, as a capture has them.
    pub fn of_rows(rows: &[Vec<f32>]) -> Self {
        let values = rows.iter().flatten().map(|&v| f64::from(v)).collect();
        Self { rows: rows.len(), columns: rows.first().map_or(0, Vec::len), values }
    }

    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.columns + column]
    }

    /// Rows `rows` and columns `columns`.
    pub fn part(&self, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>) -> Self {
        Self::from_fn(rows.len(), columns.len(), |i, j| self.at(rows.start + i, columns.start + j))
    }

    pub fn transposed(&self) -> Self {
        Self::from_fn(self.columns, self.rows, |i, j| self.at(j, i))
    }

    pub fn times(&self, right: &Self) -> Self {
        let dot = |i, j| (0..self.columns).map(|k| self.at(i, k) * right.at(k, j)).sum();
        Self::from_fn(self.rows, right.columns, dot)
    }

    pub fn plus(&self, other: &Self) -> Self {
        Self::from_fn(self.rows, self.columns, |i, j| self.at(i, j) + other.at(i, j))
    }

    pub fn minus(&self, other: &Self) -> Self {
        Self::from_fn(self.rows, self.columns, |i, j| self.at(i, j) - other.at(i, j))
    }

    /// The Kronecker product `self ⊗ right`: a copy of `right` times each number of `self`.
    pub fn kronecker(&self, right: &Self) -> Self {
        Self::from_fn(self.rows * right.rows, self.columns * right.columns, |i, j| {
            self.at(i / right.rows, j / right.columns) * right.at(i % right.rows, j % right.columns)
        })
    }

    /// The same numbers in one column, row after row.
    pub fn flattened(&self) -> Self {
        Self { rows: self.values.len(), columns: 1, values: self.values.clone() }
    }

    /// The largest size of a number; NaN if there is one.
    pub fn largest(&self) -> f64 {
        largest(&self.values)
    }

    /// `√Σ v²`.
    pub fn norm(&self) -> f64 {
        self.values.iter().map(|v| v * v).sum::<f64>().sqrt()
    }

    /// As a tensor of one sequence or head.
    pub fn tensor<const D: usize>(&self) -> Tensor<D> {
        let mut shape = [1; D];
        (shape[D - 2], shape[D - 1]) = (self.rows, self.columns);
        let values: Vec<f32> = self.values.iter().map(|&v| v as f32).collect();
        Tensor::from_data(TensorData::new(values, shape), &Device::flex())
    }

    /// To be drawn.
    pub fn heatmap(&self) -> Result<Heatmap, InspectError> {
        Heatmap::new(self.rows, self.columns, self.values.iter().map(|&v| v as f32).collect())
    }
}

/// The largest size of a number; NaN if there is one, which `f64::max` would lose.
pub(super) fn largest(values: &[f64]) -> f64 {
    values.iter().map(|v| v.abs()).fold(0.0, |most, v| if v > most || v.is_nan() { v } else { most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kronecker_product_is_blocks() {
        let a = Reference::from_fn(1, 2, |_, j| [2.0, 3.0][j]);
        let b = Reference::from_fn(2, 2, |i, j| [[1.0, 0.0], [4.0, 5.0]][i][j]);
        assert_eq!(a.kronecker(&b).values, [2.0, 0.0, 3.0, 0.0, 8.0, 10.0, 12.0, 15.0]);
        assert_eq!(a.times(&b).values, [14.0, 15.0]);
        assert_eq!(b.transposed().values, [1.0, 4.0, 0.0, 5.0]);
    }

    #[test]
    fn a_nan_is_the_largest() {
        assert!(Reference::from_fn(1, 3, |_, j| [1.0, f64::NAN, 2.0][j]).largest().is_nan());
    }
}
