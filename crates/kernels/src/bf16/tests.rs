use proptest::prelude::*;

use super::reference::{product, rounded};
use super::*;
use crate::isa::{on_every_isa, pool};
use crate::test_support::numbers;

/// An operand, its numbers in one of three orders.
#[derive(Debug, Clone, Copy)]
enum Order {
    Rows,
    Columns,
    /// Every third number of a slice.
    Scattered,
}

const ORDERS: [Order; 3] = [Order::Rows, Order::Columns, Order::Scattered];

fn matrix(data: &[f32], rows: usize, cols: usize, order: Order) -> Matrix<'_> {
    match order {
        Order::Rows => Matrix::new(data, rows, cols),
        Order::Columns => Matrix::new(data, cols, rows).map(Matrix::transposed),
        Order::Scattered => Matrix::strided(data, rows, cols, 3 * cols, 3),
    }
    .unwrap()
}

fn bits(x: &[f32]) -> Vec<u32> {
    // All NaN are equal here: their sign and payload are not specified.
    x.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
}

/// Compares a product with the reference, bit by bit, in all orders of the operands.
fn check([m, k, n]: [usize; 3], a: &[f32], b: &[f32]) {
    let row_stride = n + 3;
    for (order_a, order_b) in ORDERS.into_iter().flat_map(|a| ORDERS.map(|b| (a, b))) {
        let (a, b) = (matrix(a, m, k, order_a), matrix(b, k, n, order_b));
        for output in [Output::Replace, Output::Accumulate] {
            let before = numbers(m * row_stride, 3, 2.0);
            let (mut got, mut want) = (before.clone(), before);
            matmul(a, b, &mut got, row_stride, output).unwrap();
            product(a, b, &mut want, row_stride, output);
            assert!(bits(&got) == bits(&want), "{m} {k} {n} {order_a:?} {order_b:?} {output:?}");
        }
    }
}

fn check_size([m, k, n]: [usize; 3]) {
    check([m, k, n], &numbers(3 * m * k, 1, 1.5), &numbers(3 * k * n, 2, 0.7));
}

#[test]
fn has_the_bits_of_the_formula() {
    for size in [[0, 3, 2], [1, 0, 1], [3, 0, 40], [1, 1, 1], [14, 2, 32], [15, 33, 33], [17, 64, 16], [29, 31, 47]] {
        check_size(size);
    }
    // More rows, columns and terms than a block has.
    check_size([230, 20, 3]);
    check_size([3, 10, 4100]);
    check_size([5, 2 * 256 + 3, 35]);
}

#[test]
fn extreme_numbers_have_the_bits_of_the_formula() {
    let extremes = [
        0.0,
        -0.0,
        1.0,
        f32::MIN_POSITIVE,
        -f32::MIN_POSITIVE / 4.0,
        f32::MAX,
        f32::MIN,
        f32::INFINITY,
        f32::NAN,
        1e-30,
        -1e-20,
        // Ties between two bf16 numbers, to either side.
        1.0 + 1.0 / 256.0,
        1.0 + 3.0 / 256.0,
    ];
    let pick = |count: usize, step: usize| {
        (0..count).map(|i| extremes[(i * step + i / 7) % extremes.len()]).collect::<Vec<_>>()
    };
    check([9, 10, 37], &pick(3 * 90, 5), &pick(3 * 370, 11));
}

#[test]
fn rounds_to_the_nearest_and_ties_to_even() {
    let cases =
        [(1.0 + 1.0 / 256.0, 1.0), (1.0 + 3.0 / 256.0, 1.0 + 4.0 / 256.0), (1.0 + 1.1 / 256.0, 1.0 + 2.0 / 256.0)];
    for (x, want) in cases {
        assert_eq!(rounded(x), want);
        let mut out = [f32::NAN];
        let (x, one) = ([x], [1.0]);
        matmul(Matrix::new(&x, 1, 1).unwrap(), Matrix::new(&one, 1, 1).unwrap(), &mut out, 1, Output::Replace).unwrap();
        assert_eq!(out, [want]);
    }
}

/// A sum of `k` rounded products: each factor is off by at most 2⁻⁹ of itself, so each product by about 2⁻⁸ of itself.
#[test]
fn differs_from_the_exact_product_by_the_rounding_of_the_operands() {
    let [m, k, n] = [20, 300, 40];
    let (a, b) = (numbers(m * k, 1, 1.0), numbers(k * n, 2, 1.0));
    let mut out = vec![f32::NAN; m * n];
    matmul(Matrix::new(&a, m, k).unwrap(), Matrix::new(&b, k, n).unwrap(), &mut out, n, Output::Replace).unwrap();
    let mut largest = 0.0_f64;
    for (at, got) in out.iter().enumerate() {
        let terms = || (0..k).map(|t| f64::from(a[at / n * k + t]) * f64::from(b[t * n + at % n]));
        let (want, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
        let error = (f64::from(*got) - want).abs();
        assert!(error <= size * 2.0_f64.powi(-8) * 1.01, "{at}: {got}, expected {want}");
        largest = largest.max(error / size);
    }
    assert!(largest > 1e-5, "the operands were not rounded: {largest}");
}

#[test]
fn rows_and_threads_do_not_change_a_row() {
    let [m, k, n] = [700, 300, 410];
    let (a, b) = (numbers(m * k, 1, 1.0), numbers(k * n, 2, 1.0));
    let run = |threads: usize, rows: usize| {
        let mut out = vec![f32::NAN; rows * n];
        let (a, b) = (Matrix::new(&a[..rows * k], rows, k).unwrap(), Matrix::new(&b, k, n).unwrap());
        pool(threads).install(|| matmul(a, b, &mut out, n, Output::Replace)).unwrap();
        out
    };
    let whole = run(1, m);
    for (threads, rows) in [(2, m), (3, m), (1, 1), (2, 33), (3, 401)] {
        assert!(whole[..rows * n] == run(threads, rows), "{threads} threads, {rows} rows");
    }
}

#[test]
fn sizes_are_checked() {
    let a = Matrix::new(&[0.0; 6], 2, 3).unwrap();
    assert!(matmul(a, a, &mut [0.0; 9], 3, Output::Replace).is_err());
    assert!(matmul(a, a.transposed(), &mut [0.0; 3], 2, Output::Replace).is_err());
}

#[test]
fn other_instructions_are_refused_with_the_reason() {
    on_every_isa(|isa| match check_available() {
        Ok(()) => assert!(isa == Isa::Avx512 && is_in_processor()),
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains("vdpbf16ps") && (isa != Isa::Avx512 || !is_in_processor()), "{message}");
            assert!(!is_in_processor() || message.contains(&format!("REGARD_ISA={}", isa.name())), "{message}");
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn any_size(m in 0_usize..40, k in 0_usize..80, n in 0_usize..80) {
        check_size([m, k, n]);
    }
}
