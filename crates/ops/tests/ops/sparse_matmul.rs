use burn::tensor::{Tensor, TensorData};
use regard_ops::{Dropout, OpError, SparseMatrix, dropout, sparse_matmul, sparse_matmul_fallback};

use crate::support::{close, gradient, leaf, loss, training, values};

/// A matrix with an empty row and an empty column, and the same as a dense tensor.
fn matrix(rows: usize, columns: usize) -> (SparseMatrix, Tensor<2>) {
    let has = |row: usize, column: usize| row != 1 && column != 2 && (3 * row + 5 * column).is_multiple_of(4);
    let value = |row: usize, column: usize| (row as f32 + 1.0) / (column as f32 + 2.0) - 0.4;
    let row = |row: usize| (0..columns).filter(|&at| has(row, at)).map(|at| (at, value(row, at))).collect::<Vec<_>>();
    let sparse = SparseMatrix::new(columns, &(0..rows).map(row).collect::<Vec<_>>()).unwrap();
    let cell = |at: usize| if has(at / columns, at % columns) { value(at / columns, at % columns) } else { 0.0 };
    let dense = (0..rows * columns).map(cell).collect::<Vec<f32>>();
    (sparse, Tensor::from_data(TensorData::new(dense, [rows, columns]), &training()))
}

#[test]
fn agrees_with_the_dense_product_and_its_fallback() {
    for (rows, columns, width) in [(6, 5, 3), (40, 30, 17), (9, 11, 64)] {
        let (sparse, dense) = matrix(rows, columns);
        let weights: Tensor<2> = leaf([rows, width], 7);
        let x = || leaf::<2>([columns, width], 3);
        let (a, b, c) = (x(), x(), x());
        let want = dense.matmul(c.clone());
        let wanted = loss(&want, &weights);
        for (x, y) in
            [(a.clone(), sparse_matmul(&sparse, a, None).unwrap()), (b.clone(), sparse_matmul_fallback(&sparse, b))]
        {
            let gradients = loss(&y, &weights);
            close("out", &values(y), &values(want.clone()), 2e-6);
            close("grad", &gradient(&x, &gradients), &gradient(&c, &wanted), 2e-6);
        }
    }
}

#[test]
fn dropout_drops_entries_of_the_list() {
    let (sparse, _) = matrix(30, 20);
    let entries: Vec<f32> = (0..30).flat_map(|row| sparse.row(row)).map(|(_, value)| value).collect();
    let count = entries.len();
    let list = Tensor::<1>::from_data(TensorData::new(entries, [count]), &training());
    let mut kept = values(dropout(list, 0.5, 9).unwrap()).into_iter();
    let rows: Vec<Vec<(usize, f32)>> =
        (0..30).map(|row| sparse.row(row).map(|(column, _)| (column, kept.next().unwrap())).collect()).collect();
    let dropped = SparseMatrix::new(20, &rows).unwrap();
    let (weights, x) = (leaf::<2>([30, 4], 2), leaf::<2>([20, 4], 5));
    let y = sparse_matmul(&sparse, x.clone(), Some(Dropout { probability: 0.5, seed: 9 })).unwrap();
    let gradients = loss(&y, &weights);
    let other = leaf::<2>([20, 4], 5);
    let want = sparse_matmul(&dropped, other.clone(), None).unwrap();
    let wanted = loss(&want, &weights);
    assert_eq!(values(y), values(want));
    assert_eq!(gradient(&x, &gradients), gradient(&other, &wanted));
}

#[test]
fn wrong_arguments_are_errors() {
    let (sparse, _) = matrix(4, 3);
    assert!(matches!(sparse_matmul(&sparse, leaf([4, 2], 1), None), Err(OpError::Shape { .. })));
    let half = Some(Dropout { probability: 1.0, seed: 1 });
    assert!(sparse_matmul(&sparse, leaf([3, 2], 1), half).is_err());
    assert!(SparseMatrix::new(3, &[vec![(3, 1.0)]]).is_err(), "a column too many");
    assert!(SparseMatrix::new(3, &[vec![(1, 1.0), (1, 2.0)]]).is_err(), "a column twice");
    assert!(SparseMatrix::from_parts(3, &[0, 1], &[0], vec![1.0, 2.0]).is_err(), "a value too many");
    assert_eq!(sparse_matmul(&sparse, leaf([3, 0], 1), None).unwrap().dims(), [4, 0]);
}
