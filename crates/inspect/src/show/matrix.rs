//! A small f64 matrix to compare, print and draw, and to check the layers against plain arithmetic.

use burn::tensor::{Device, Tensor, TensorData};
use regard_figures::{FigureError, Heatmap, fixed};
use serde_json::Value;

/// A row-major matrix.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matrix {
    pub rows: usize,
    pub columns: usize,
    pub values: Vec<f64>,
}

impl Matrix {
    /// Creates a matrix from its values in row-major order.
    pub fn new<T: Into<f64>>(rows: usize, columns: usize, values: Vec<T>) -> Self {
        debug_assert_eq!(rows * columns, values.len());
        Self { rows, columns, values: values.into_iter().map(Into::into).collect() }
    }

    /// Creates a matrix with the value `f(row, column)` in each place.
    pub fn from_fn(rows: usize, columns: usize, f: impl Fn(usize, usize) -> f64) -> Self {
        let values = (0..rows * columns).map(|i| f(i / columns, i % columns)).collect();
        Self { rows, columns, values }
    }

    /// Creates a matrix from captured rows of weights.
    pub fn of_rows(rows: &[Vec<f32>]) -> Self {
        Self::new(rows.len(), rows.first().map_or(0, Vec::len), rows.concat())
    }

    /// Creates a matrix from a tensor; all dimensions but the last become rows.
    pub fn of<const D: usize>(tensor: Tensor<D>) -> Self {
        let dims = tensor.dims();
        Self::new(dims[..D - 1].iter().product(), dims[D - 1], tensor.into_data().iter::<f64>().collect())
    }

    /// Returns the matrix as a tensor, with leading dimensions of size 1.
    pub fn tensor<const D: usize>(&self) -> Tensor<D> {
        let mut shape = [1; D];
        (shape[D - 2], shape[D - 1]) = (self.rows, self.columns);
        Tensor::from_data(TensorData::new(self.singles(), shape), &Device::flex())
    }

    /// Returns the values in f32, the precision of the layers.
    pub fn singles(&self) -> Vec<f32> {
        self.values.iter().map(|&v| v as f32).collect()
    }

    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    pub fn at(&self, row: usize, column: usize) -> f64 {
        self.values[row * self.columns + column]
    }

    /// Applies `f(row, column, value)` to each element.
    pub fn map(&self, f: impl Fn(usize, usize, f64) -> f64) -> Self {
        let values = self.values.iter().enumerate().map(|(i, &v)| f(i / self.columns, i % self.columns, v));
        Self { rows: self.rows, columns: self.columns, values: values.collect() }
    }

    /// Reorders the rows: row `i` of the result is row `order[i]` of this matrix.
    pub fn reordered(&self, order: &[usize]) -> Self {
        Self::new(order.len(), self.columns, order.iter().flat_map(|&row| self.row(row).to_vec()).collect())
    }

    /// Returns the given rows and columns.
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

    /// Returns the Kronecker product `self ⊗ right`: a copy of `right` times each element of `self`.
    pub fn kronecker(&self, right: &Self) -> Self {
        Self::from_fn(self.rows * right.rows, self.columns * right.columns, |i, j| {
            self.at(i / right.rows, j / right.columns) * right.at(i % right.rows, j % right.columns)
        })
    }

    /// Returns the values as one column, in row-major order.
    pub fn flattened(&self) -> Self {
        Self { rows: self.values.len(), columns: 1, values: self.values.clone() }
    }

    /// Returns the mean of each column.
    pub fn mean(&self) -> Self {
        Self::from_fn(1, self.columns, |_, column| {
            (0..self.rows).map(|row| self.at(row, column)).sum::<f64>() / self.rows as f64
        })
    }

    /// Returns the largest absolute value, or NaN if an element is NaN.
    pub fn largest(&self) -> f64 {
        largest(&self.values)
    }

    /// Returns `max |a − b|` over all elements, or NaN if one is NaN.
    pub fn largest_difference(&self, other: &Self) -> f64 {
        self.minus(other).largest()
    }

    /// Returns the Frobenius norm `√Σ v²`.
    pub fn norm(&self) -> f64 {
        self.values.iter().map(|v| v * v).sum::<f64>().sqrt()
    }

    /// Returns a heat map of the matrix.
    pub fn heatmap(&self) -> Result<Heatmap, FigureError> {
        Heatmap::new(self.rows, self.columns, self.singles())
    }

    /// Returns the rows as JSON, each number with the shortest digits that identify it in f32; NaN becomes null.
    pub fn json(&self) -> Value {
        (0..self.rows).map(|row| self.row(row).iter().map(|&v| short(v)).collect::<Value>()).collect()
    }

    /// Returns the matrix as lines of text below a title, with a dash for NaN.
    pub fn lines(&self, title: &str, row_labels: &[String], column_labels: &[String], decimals: usize) -> Vec<String> {
        let cell = |v: f64| if v.is_nan() { "–".to_string() } else { fixed(v, decimals) };
        let columns = column_labels.iter().map(|label| chars(label));
        let width = self.values.iter().map(|&v| chars(&cell(v))).chain(columns).max().unwrap_or(0);
        let label_width = row_labels.iter().map(|label| chars(label)).max().unwrap_or(0);
        let line = |label: &str, cells: Vec<String>| {
            let cells: String = cells.iter().map(|cell| format!("  {cell:>width$}")).collect();
            format!("{label:<label_width$}{cells}")
        };
        let mut lines = vec![title.to_string()];
        if !column_labels.is_empty() {
            lines.push(line("", column_labels.to_vec()));
        }
        let label = |row: usize| row_labels.get(row).map_or("", String::as_str);
        lines.extend((0..self.rows).map(|row| line(label(row), self.row(row).iter().map(|&v| cell(v)).collect())));
        lines
    }
}

/// Joins blocks of lines side by side.
pub(super) fn beside(blocks: &[Vec<String>]) -> String {
    let widths: Vec<usize> =
        blocks.iter().map(|block| block.iter().map(|line| chars(line)).max().unwrap_or(0)).collect();
    let height = blocks.iter().map(Vec::len).max().unwrap_or(0);
    let line = |index: usize| {
        let parts = blocks.iter().zip(&widths);
        let parts = parts.map(|(block, &width)| format!("{:<width$}", block.get(index).map_or("", String::as_str)));
        format!("{}\n", parts.collect::<Vec<_>>().join("    ").trim_end())
    };
    (0..height).map(line).collect()
}

/// Returns the largest absolute value, or NaN if a value is NaN, which `f64::max` would ignore.
pub(super) fn largest(values: &[f64]) -> f64 {
    values.iter().map(|v| v.abs()).fold(0.0, |most, v| if v > most || v.is_nan() { v } else { most })
}

/// Returns a number as JSON with the digits of an f32, the precision of the layers, rather than those of the f64.
pub(super) fn short(value: f64) -> Value {
    (value as f32).to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_aligned_and_json_short() {
        let m = Matrix::new(2, 2, vec![0.1, -12.0, f64::NAN, 0.001]);
        let labels = ["a".to_string(), "long".to_string()];
        assert_eq!(m.lines("M", &labels, &[], 1), ["M", "a       0.1  −12.0", "long      –    0.0"]);
        assert_eq!(m.json().to_string(), "[[0.1,-12.0],[null,0.001]]");
        assert_eq!(beside(&[vec!["ab".into()], vec!["c".into(), "d".into()]]), "ab    c\n      d\n");
    }

    #[test]
    fn rows_are_reordered_and_averaged() {
        let m = Matrix::new(2, 2, vec![1.0, 2.0, 3.0, 6.0]);
        assert_eq!(m.reordered(&[1, 0]).values, [3.0, 6.0, 1.0, 2.0]);
        assert_eq!(m.mean().values, [2.0, 4.0]);
        assert_eq!(m.largest_difference(&m.reordered(&[1, 0])), 4.0);
        assert_eq!(Matrix::of(m.tensor::<4>()), m);
        let broken = m.map(|i, j, v| if i == j { f64::NAN } else { v });
        assert!(broken.largest_difference(&m).is_nan());
    }

    #[test]
    fn the_kronecker_product_is_blocks() {
        let a = Matrix::from_fn(1, 2, |_, j| [2.0, 3.0][j]);
        let b = Matrix::from_fn(2, 2, |i, j| [[1.0, 0.0], [4.0, 5.0]][i][j]);
        assert_eq!(a.kronecker(&b).values, [2.0, 0.0, 3.0, 0.0, 8.0, 10.0, 12.0, 15.0]);
        assert_eq!(a.times(&b).values, [14.0, 15.0]);
        assert_eq!(b.transposed().values, [1.0, 4.0, 0.0, 5.0]);
    }

    #[test]
    fn a_nan_is_the_largest() {
        assert!(Matrix::from_fn(1, 3, |_, j| [1.0, f64::NAN, 2.0][j]).largest().is_nan());
    }
}
