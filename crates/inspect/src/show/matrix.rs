//! The numbers of a matrix: what mechanisms compare, print and draw.

use burn::tensor::{Device, Tensor, TensorData};
use serde_json::Value;

use crate::number::fixed;
use crate::{Heatmap, InspectError};

/// Numbers row after row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Matrix {
    pub rows: usize,
    pub columns: usize,
    pub values: Vec<f32>,
}

impl Matrix {
    /// `values` fill the rows of `columns` numbers.
    pub fn new(rows: usize, columns: usize, values: Vec<f32>) -> Self {
        debug_assert_eq!(rows * columns, values.len());
        Self { rows, columns, values }
    }

    /// The numbers of a tensor, its last two sizes being rows and columns.
    pub fn of<const D: usize>(tensor: Tensor<D>) -> Self {
        let dims = tensor.dims();
        Self::new(dims[..D - 1].iter().product(), dims[D - 1], tensor.into_data().iter().collect())
    }

    /// As a tensor with sizes of 1 before.
    pub fn tensor<const D: usize>(&self) -> Tensor<D> {
        let mut shape = [1; D];
        (shape[D - 2], shape[D - 1]) = (self.rows, self.columns);
        Tensor::from_data(TensorData::new(self.values.clone(), shape), &Device::flex())
    }

    pub fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    pub fn at(&self, row: usize, column: usize) -> f32 {
        self.values[row * self.columns + column]
    }

    /// `f(row, column, value)` in each place.
    pub fn map(&self, f: impl Fn(usize, usize, f32) -> f32) -> Self {
        let values = self.values.iter().enumerate().map(|(i, &v)| f(i / self.columns, i % self.columns, v));
        Self::new(self.rows, self.columns, values.collect())
    }

    /// The rows in another order: row `i` is row `order[i]` of this one.
    pub fn reordered(&self, order: &[usize]) -> Self {
        Self::new(order.len(), self.columns, order.iter().flat_map(|&row| self.row(row).to_vec()).collect())
    }

    /// The mean of each column.
    pub fn mean(&self) -> Self {
        let mean = |column| (0..self.rows).map(|row| f64::from(self.at(row, column))).sum::<f64>() / self.rows as f64;
        Self::new(1, self.columns, (0..self.columns).map(|column| mean(column) as f32).collect())
    }

    /// `max |a − b|` over all places.
    pub fn largest_difference(&self, other: &Self) -> f64 {
        let differences = self.values.iter().zip(&other.values).map(|(a, b)| f64::from((a - b).abs()));
        differences.fold(0.0, f64::max)
    }

    /// `√Σ v²`.
    pub fn norm(&self) -> f64 {
        self.values.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>().sqrt()
    }

    pub fn heatmap(&self) -> Result<Heatmap, InspectError> {
        Heatmap::new(self.rows, self.columns, self.values.clone())
    }

    /// Rows of the shortest numbers that mean the same; NaN is null.
    pub fn json(&self) -> Value {
        (0..self.rows).map(|row| self.row(row).iter().map(|&v| short(v)).collect::<Value>()).collect()
    }

    /// Lines of text, a title first. A NaN is a dash.
    pub fn lines(&self, title: &str, row_labels: &[String], column_labels: &[String], decimals: usize) -> Vec<String> {
        let cell = |v: f32| if v.is_nan() { "–".to_string() } else { fixed(f64::from(v), decimals) };
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

/// Blocks of lines side by side.
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

/// As JSON with the digits of an f32, not those of the f64 next to it.
pub(super) fn short(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_aligned_and_json_short() {
        let m = Matrix::new(2, 2, vec![0.1, -12.0, f32::NAN, 0.001]);
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
    }
}
