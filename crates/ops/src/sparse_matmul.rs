//! Product of a constant sparse matrix and a dense one: sparse features times a weight, or a graph times its nodes.

use std::sync::Arc;

use burn::tensor::{IndexingUpdateOp, Tensor, TensorData};
use burn_flex::FlexTensor;
use regard_kernels::attention::{Dropout, SparseRows};
use regard_kernels::dropout::dropout_forward;
use regard_kernels::graph_attention::Edges;
use regard_kernels::sparse_matmul::{self as kernel, Side};
use regard_kernels::unwritten;

use crate::error::{OpError, check_probability, check_shape};
use crate::fused::{FusedOp, Purpose, apply, check_f32, contiguous, elements, is_fused, sizes, tensor};
use crate::graph_attention::indices;

/// A sparse matrix of numbers, stored by rows. Cheap to clone.
///
/// ```
/// use regard_ops::SparseMatrix;
///
/// let matrix = SparseMatrix::new(3, &[vec![(0, 1.0), (2, 0.5)], vec![]])?;
/// assert_eq!((matrix.rows(), matrix.columns(), matrix.entries()), (2, 3, 2));
/// assert_eq!(matrix.row(0).collect::<Vec<_>>(), [(0, 1.0), (2, 0.5)]);
/// # Ok::<(), regard_ops::OpError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct SparseMatrix {
    places: Arc<Edges>,
    values: Arc<Vec<f32>>,
}

impl SparseMatrix {
    /// Creates a matrix from rows of entries `(column, value)`, with rising columns in each row.
    pub fn new<R: AsRef<[(usize, f32)]>>(columns: usize, rows: &[R]) -> Result<Self, OpError> {
        let mut offsets = vec![0];
        let (mut found, mut values) = (Vec::new(), Vec::new());
        for row in rows {
            for &(column, value) in row.as_ref() {
                found.push(column);
                values.push(value);
            }
            offsets.push(found.len());
        }
        Self::from_parts(columns, &offsets, &found, values)
    }

    /// Creates a matrix from compressed rows: row `i` has the entries `offsets[i]..offsets[i + 1]` of `places` (their columns,
    /// rising in each row) and `values`.
    pub fn from_parts(columns: usize, offsets: &[usize], places: &[usize], values: Vec<f32>) -> Result<Self, OpError> {
        check_shape("values of a sparse matrix", [values.len()], [places.len()])?;
        let places = Edges::new(SparseRows { offsets, columns: places }, columns)?;
        Ok(Self { places: Arc::new(places), values: Arc::new(values) })
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.places.n_targets()
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.places.n_sources()
    }

    /// Returns the number of entries.
    pub fn entries(&self) -> usize {
        self.places.len()
    }

    /// Iterates over the entries `(column, value)` of a row, in rising order of the columns.
    ///
    /// # Panics
    /// Panics if the matrix has no such row.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (usize, f32)> + '_ {
        let entries = self.places.incoming(row);
        let columns = self.places.sources()[entries.clone()].iter().map(|&column| column as usize);
        columns.zip(self.values[entries].iter().copied())
    }

    /// Returns the entries after dropout.
    fn dropped(&self, dropout: Option<Dropout>) -> Result<Arc<Vec<f32>>, OpError> {
        let Some(Dropout { probability, seed }) = dropout else { return Ok(self.values.clone()) };
        let mut values = unwritten(self.values.len());
        dropout_forward(&self.values, probability, seed, &mut values)?;
        Ok(Arc::new(values))
    }
}

/// Computes `A x`, where `dropout` drops entries of `A` as [`dropout`](crate::dropout) does elements of the list of its entries.
/// The gradient flows to `x`; the matrix is constant.
///
/// # Shapes
/// `a` `[rows, columns]`, `x` `[columns, width]` → `[rows, width]`.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use regard_ops::{SparseMatrix, sparse_matmul};
///
/// let a = SparseMatrix::new(2, &[vec![(0, 2.0)], vec![(0, 1.0), (1, 1.0)]])?;
/// let x = Tensor::<2>::from_floats([[1.0, 2.0], [3.0, 4.0]], &Device::flex());
/// assert_eq!(sparse_matmul(&a, x, None)?.into_data().try_to_vec::<f32>().unwrap(), [2.0, 4.0, 4.0, 6.0]);
/// # Ok::<(), regard_ops::OpError>(())
/// ```
pub fn sparse_matmul(a: &SparseMatrix, x: Tensor<2>, dropout: Option<Dropout>) -> Result<Tensor<2>, OpError> {
    check_f32("operand of a sparse product", &x)?;
    let [_, width] = x.dims();
    check_shape("operand of a sparse product", x.dims(), [a.columns(), width])?;
    dropout.map_or(Ok(()), |dropout| check_probability(dropout.probability))?;
    let values = a.dropped(dropout.filter(|dropout| dropout.probability > 0.0))?;
    if !is_fused(&x) {
        return Ok(sparse_matmul_fallback(&SparseMatrix { places: a.places.clone(), values }, x));
    }
    apply(Product { places: a.places.clone(), values }, [x.into_dispatch()])
}

/// [`sparse_matmul`] without dropout in plain Burn operations, with messages `[entries, width]` and without argument checks.
pub fn sparse_matmul_fallback(a: &SparseMatrix, x: Tensor<2>) -> Tensor<2> {
    let ([_, width], device) = (x.dims(), x.device());
    let zeros = Tensor::zeros([a.rows(), width], &device);
    if a.entries() == 0 || width == 0 {
        return zeros;
    }
    let rows = (0..a.rows()).flat_map(|row| a.places.incoming(row).map(move |_| row));
    let columns = a.places.sources().iter().map(|&column| column as usize);
    let values = TensorData::new(a.values.to_vec(), [a.entries(), 1]);
    let values = Tensor::<2>::from_data(values, &device.clone().without_autodiff());
    let values = if device.is_autodiff() { Tensor::from_inner(values) } else { values };
    let messages = x.select(0, indices(columns, &device)) * values;
    zeros.select_assign(0, indices(rows, &device), messages, IndexingUpdateOp::Add)
}

/// The fused operation, with the entries after dropout.
#[derive(Debug, Clone)]
struct Product {
    places: Arc<Edges>,
    values: Arc<Vec<f32>>,
}

impl Product {
    fn compute(&self, side: Side, x: FlexTensor, rows: usize) -> Result<FlexTensor, OpError> {
        let x = contiguous(x);
        let [_, width] = sizes(&x);
        let mut out = unwritten(rows * width);
        kernel::sparse_matmul(&self.places, &self.values, side, elements(&x), width, &mut out)?;
        Ok(tensor(out, [rows, width]))
    }
}

impl FusedOp<1> for Product {
    type Saved = ();

    fn forward(&self, [x]: [FlexTensor; 1], _: Purpose) -> Result<(FlexTensor, ()), OpError> {
        Ok((self.compute(Side::Plain, x, self.places.n_targets())?, ()))
    }

    fn backward(&self, (): (), grad: FlexTensor, _: [bool; 1]) -> Result<[Option<FlexTensor>; 1], OpError> {
        Ok([Some(self.compute(Side::Transposed, grad, self.places.n_sources())?)])
    }
}
