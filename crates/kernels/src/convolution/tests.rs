use proptest::prelude::*;

use super::*;
use crate::isa::{Isa, on_every_isa, pool};
use crate::test_support::{assert_relative, central_differences, inner, numbers, wide};

const PLAIN: ConvolutionShape = ConvolutionShape {
    batch: 2,
    in_channels: 3,
    out_channels: 5,
    input: [7, 6],
    kernel: [3, 3],
    stride: [1, 1],
    padding: [1, 1],
};

/// Calls `f(out, input, weight)` with the indices of the elements for each product of the sums.
fn each_product(shape: ConvolutionShape, mut f: impl FnMut(usize, usize, usize)) {
    let [height, width] = shape.output().unwrap();
    let ConvolutionShape { batch, in_channels, out_channels, input: [h, w], kernel: [kh, kw], .. } = shape;
    for n in 0..batch {
        for o in 0..out_channels {
            for y in 0..height {
                for x in 0..width {
                    for c in 0..in_channels {
                        for i in 0..kh {
                            for j in 0..kw {
                                let row =
                                    (y * shape.stride[0] + i).checked_sub(shape.padding[0]).filter(|&row| row < h);
                                let column = (x * shape.stride[1] + j).checked_sub(shape.padding[1]).filter(|&x| x < w);
                                if let (Some(row), Some(column)) = (row, column) {
                                    let out = ((n * out_channels + o) * height + y) * width + x;
                                    let input = ((n * in_channels + c) * h + row) * w + column;
                                    f(out, input, ((o * in_channels + c) * kh + i) * kw + j);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the channel of each element of the output.
fn channel(shape: ConvolutionShape, out: usize) -> usize {
    let [height, width] = shape.output().unwrap();
    out / (height * width) % shape.out_channels
}

fn out_len(shape: ConvolutionShape) -> usize {
    shape.batch * shape.out_channels * shape.output().unwrap().iter().product::<usize>()
}

fn reference_forward(shape: ConvolutionShape, input: &[f64], weight: &[f64], bias: &[f64]) -> Vec<f64> {
    let mut out: Vec<f64> = (0..out_len(shape)).map(|at| bias[channel(shape, at)]).collect();
    each_product(shape, |o, i, w| out[o] += input[i] * weight[w]);
    out
}

/// Returns the gradients of input, weight and bias.
fn reference_backward(shape: ConvolutionShape, input: &[f64], weight: &[f64], grad: &[f64]) -> [Vec<f64>; 3] {
    let mut gradients = [input.len(), weight.len(), shape.out_channels].map(|len| vec![0.0; len]);
    let [grad_input, grad_weight, grad_bias] = &mut gradients;
    each_product(shape, |o, i, w| {
        grad_input[i] += grad[o] * weight[w];
        grad_weight[w] += grad[o] * input[i];
    });
    for (at, grad) in grad.iter().enumerate() {
        grad_bias[channel(shape, at)] += grad;
    }
    gradients
}

struct Data {
    input: Vec<f32>,
    weight: Vec<f32>,
    bias: Vec<f32>,
    grad: Vec<f32>,
}

fn data(shape: ConvolutionShape) -> Data {
    let [h, w] = shape.input;
    Data {
        input: numbers(shape.batch * shape.in_channels * h * w, 1, 1.0),
        weight: numbers(shape.out_channels * shape.taps(), 2, 1.0),
        bias: numbers(shape.out_channels, 3, 1.0),
        grad: numbers(out_len(shape), 4, 1.0),
    }
}

/// Returns the output and the gradients of input, weight and bias.
fn compute(shape: ConvolutionShape, data: &Data) -> [Vec<f32>; 4] {
    let mut results =
        [data.grad.len(), data.input.len(), data.weight.len(), data.bias.len()].map(|n| vec![f32::NAN; n]);
    let [out, input, weight, bias] = &mut results;
    convolution_forward(shape, &data.input, &data.weight, Some(&data.bias), out).unwrap();
    let gradients = ConvolutionGradients { input: Some(input), weight: Some(weight), bias: Some(bias) };
    convolution_backward(shape, &data.input, &data.weight, &data.grad, gradients).unwrap();
    results
}

fn check(shape: ConvolutionShape) {
    let data = data(shape);
    let [input, weight, bias, grad] = [&data.input, &data.weight, &data.bias, &data.grad].map(|x| wide(x));
    let out = reference_forward(shape, &input, &weight, &bias);
    let [grad_input, grad_weight, grad_bias] = reference_backward(shape, &input, &weight, &grad);
    on_every_isa(|isa: Isa| {
        let got = compute(shape, &data);
        for (what, got, want) in [
            ("out", &got[0], &out),
            ("input gradient", &got[1], &grad_input),
            ("weight gradient", &got[2], &grad_weight),
            ("bias gradient", &got[3], &grad_bias),
        ] {
            assert_relative(&format!("{what} on {isa:?} of {shape:?}"), got, want, 0.25, 4e-6);
        }
    });
}

#[test]
fn agrees_with_plain_loops_for_many_shapes() {
    for stride in 1..=3 {
        for padding in 0..=2 {
            for kernel in [[1, 1], [3, 3], [5, 3], [2, 4]] {
                let (stride, padding) = ([stride; 2], [padding; 2]);
                check(ConvolutionShape { kernel, stride, padding, ..PLAIN });
            }
        }
    }
    check(ConvolutionShape { stride: [2, 1], padding: [0, 2], ..PLAIN });
    check(ConvolutionShape { stride: [1, 3], padding: [3, 0], kernel: [1, 2], ..PLAIN });
    check(ConvolutionShape { batch: 0, ..PLAIN });
    check(ConvolutionShape { out_channels: 0, ..PLAIN });
    check(ConvolutionShape { input: [0, 5], kernel: [2, 3], ..PLAIN });
    check(ConvolutionShape { batch: 1, in_channels: 1, out_channels: 1, input: [1, 1], kernel: [1, 1], ..PLAIN });
    // More images than pieces of the sums, channels around a register tile and a vector.
    check(ConvolutionShape { batch: 35, in_channels: 1, out_channels: 17, ..PLAIN });
    check(ConvolutionShape { batch: 3, in_channels: 9, out_channels: 33, input: [15, 19], ..PLAIN });
    check(ConvolutionShape { in_channels: 32, out_channels: 64, input: [28, 28], stride: [2, 2], ..PLAIN });
    // Few channels of many terms, and places of the kernel that some inputs do not see.
    check(ConvolutionShape {
        in_channels: 20,
        out_channels: 2,
        input: [12, 11],
        kernel: [7, 7],
        padding: [3; 2],
        ..PLAIN
    });
    check(ConvolutionShape {
        in_channels: 21,
        out_channels: 40,
        input: [9, 9],
        kernel: [1, 1],
        stride: [2, 2],
        ..PLAIN
    });
    check(ConvolutionShape { input: [1, 1], kernel: [1, 1], stride: [2, 2], ..PLAIN });
    // Padding beyond the kernel: the outer outputs see zeros alone.
    check(ConvolutionShape { padding: [4, 5], stride: [2, 3], ..PLAIN });
}

#[test]
fn tiles_agree_with_plain_loops() {
    let tiles = |shape: ConvolutionShape| {
        assert!(winograd::applies(shape, shape.output().unwrap()), "{shape:?}");
        check(shape);
    };
    for padding in 0..=2 {
        tiles(ConvolutionShape { in_channels: 16, out_channels: 18, input: [10, 9], padding: [padding; 2], ..PLAIN });
    }
    // Panels, blocks of several images, blocks within an image, and a last row and column of half tiles.
    tiles(ConvolutionShape { batch: 9, in_channels: 70, out_channels: 130, input: [7, 7], ..PLAIN });
    tiles(ConvolutionShape { batch: 3, in_channels: 17, out_channels: 33, input: [15, 19], padding: [1, 2], ..PLAIN });
    tiles(ConvolutionShape { in_channels: 32, out_channels: 64, input: [28, 28], ..PLAIN });
    tiles(ConvolutionShape { in_channels: 16, out_channels: 16, input: [4, 120], ..PLAIN });
    // Stride 2: the last tiles of the output, 2 × 2, and of the gradient, 4 × 4, are whole, half or between.
    for side in 5..=13 {
        let (input, stride) = ([side, 26 - side], [2; 2]);
        let shape = ConvolutionShape { batch: 3, in_channels: 17, out_channels: 18, input, stride, ..PLAIN };
        let applies = winograd::applies(shape, shape.output().unwrap());
        assert!(applies || side % 4 != 0, "{shape:?}");
        check(shape);
    }
    let strided = ConvolutionShape { stride: [2; 2], ..PLAIN };
    tiles(ConvolutionShape { batch: 9, in_channels: 70, out_channels: 130, input: [14, 14], ..strided });
    tiles(ConvolutionShape { in_channels: 32, out_channels: 64, input: [28, 28], ..strided });
    tiles(ConvolutionShape { in_channels: 16, out_channels: 16, input: [8, 121], ..strided });
}

fn any_shape() -> impl Strategy<Value = ConvolutionShape> {
    let pair = |from: usize, to: usize| [from..to, from..to];
    (0_usize..4, 1_usize..11, 1_usize..20, pair(1, 20), pair(1, 6), pair(1, 5), pair(0, 4)).prop_map(
        |(batch, in_channels, out_channels, input, kernel, stride, padding)| {
            let kernel = [0, 1].map(|axis| kernel[axis].min(input[axis] + 2 * padding[axis]));
            ConvolutionShape { batch, in_channels, out_channels, input, kernel, stride, padding }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn agrees_with_plain_loops(shape in any_shape()) {
        check(shape);
    }
}

#[test]
fn reference_gradients_are_finite_differences() {
    let shape = ConvolutionShape { batch: 1, in_channels: 2, out_channels: 2, input: [4, 5], stride: [2, 1], ..PLAIN };
    let data = data(shape);
    let [input, weight, bias, grad] = [&data.input, &data.weight, &data.bias, &data.grad].map(|x| wide(x));
    let want = reference_backward(shape, &input, &weight, &grad);
    let got = [
        central_differences(&input, |input| inner(&reference_forward(shape, input, &weight, &bias), &grad)),
        central_differences(&weight, |weight| inner(&reference_forward(shape, &input, weight, &bias), &grad)),
        central_differences(&bias, |bias| inner(&reference_forward(shape, &input, &weight, bias), &grad)),
    ];
    for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
        assert!((got - want).abs() < 1e-8, "{got} {want}");
    }
}

#[test]
fn an_image_has_the_same_bits_in_any_batch_and_with_any_number_of_threads() {
    for (in_channels, out_channels, side, stride) in
        [(8, 24, 14, 1), (24, 40, 14, 1), (17, 35, 14, 2), (90, 70, 7, 1), (20, 70, 13, 2)]
    {
        let (input, stride) = ([side; 2], [stride; 2]);
        let shape = ConvolutionShape { batch: 19, in_channels, out_channels, input, stride, ..PLAIN };
        let data = data(shape);
        let one = pool(1).install(|| compute(shape, &data));
        assert!(one == pool(3).install(|| compute(shape, &data)), "the number of threads changes a result: {shape:?}");
        let (image, out) = (shape.input_len(), out_len(shape) / 19);
        let last = Data { input: data.input[18 * image..].to_vec(), grad: data.grad[18 * out..].to_vec(), ..data };
        for threads in 1..4 {
            let alone = pool(threads).install(|| compute(ConvolutionShape { batch: 1, ..shape }, &last));
            assert!(alone[0] == one[0][18 * out..] && alone[1] == one[1][18 * image..], "{threads} threads: {shape:?}");
        }
    }
}

#[test]
fn gradients_that_are_not_wanted_change_nothing() {
    let data = data(PLAIN);
    let [_, grad_input, grad_weight, grad_bias] = compute(PLAIN, &data);
    let run = |gradients: ConvolutionGradients<'_>| {
        convolution_backward(PLAIN, &data.input, &data.weight, &data.grad, gradients).unwrap()
    };
    let mut got = [grad_input.len(), grad_weight.len(), grad_bias.len()].map(|n| vec![f32::NAN; n]);
    let [input, weight, bias] = &mut got;
    run(ConvolutionGradients { input: Some(input), ..Default::default() });
    run(ConvolutionGradients { weight: Some(weight), ..Default::default() });
    run(ConvolutionGradients { bias: Some(bias), ..Default::default() });
    assert_eq!(got, [grad_input, grad_weight, grad_bias]);
}

#[test]
fn nan_reaches_the_outputs_that_see_it_and_no_other() {
    let mut data = data(PLAIN);
    data.input[0] = f32::NAN;
    let [out, ..] = compute(PLAIN, &data);
    let mut sees = vec![false; out.len()];
    each_product(PLAIN, |o, i, _| sees[o] |= i == 0);
    assert!(out.iter().zip(&sees).all(|(out, &sees)| out.is_nan() == sees));
}

#[test]
fn tiles_never_hide_a_nan() {
    for stride in [1, 2] {
        let shape =
            ConvolutionShape { in_channels: 16, out_channels: 16, input: [19, 20], stride: [stride; 2], ..PLAIN };
        assert!(winograd::applies(shape, shape.output().unwrap()));
        check_nan(shape);
    }
}

fn check_nan(shape: ConvolutionShape) {
    let mut data = data(shape);
    data.input[100] = f32::NAN;
    data.grad[200] = f32::INFINITY;
    let [out, grad_input, grad_weight, grad_bias] = compute(shape, &data);
    each_product(shape, |o, i, w| {
        assert!(i != 100 || (out[o].is_nan() && grad_weight[w].is_nan()));
        assert!(o != 200 || !(grad_input[i].is_finite() || grad_weight[w].is_finite()));
    });
    assert!(grad_bias[channel(shape, 200)] == f32::INFINITY);
    // The other image is not touched.
    assert!(out[out.len() / 2..].iter().chain(&grad_input[grad_input.len() / 2..]).all(|x| x.is_finite()));
}

#[test]
fn impossible_shapes_are_refused() {
    let refused = |shape: ConvolutionShape, why: &str| {
        let error = convolution_forward(shape, &[], &[], None, &mut []).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    refused(ConvolutionShape { kernel: [10, 3], ..PLAIN }, "height of at most 9");
    refused(ConvolutionShape { kernel: [3, 0], ..PLAIN }, "width of at least 1");
    refused(ConvolutionShape { stride: [0, 1], ..PLAIN }, "at least 1 along the height");
    refused(ConvolutionShape { padding: [1, usize::MAX / 2], ..PLAIN }, "smaller padding");
    refused(ConvolutionShape { padding: [usize::MAX, 1], ..PLAIN }, "smaller padding");
    refused(ConvolutionShape { in_channels: 0, ..PLAIN }, "at least 1 channel");
    refused(ConvolutionShape { batch: usize::MAX, ..PLAIN }, "do not fit");
    refused(PLAIN, "expected 252 elements, got 0");
    let data = data(PLAIN);
    let mut out = vec![0.0; out_len(PLAIN)];
    let error = convolution_forward(PLAIN, &data.input, &data.weight, Some(&[0.0]), &mut out).unwrap_err();
    assert!(error.to_string().contains("bias: expected 5 elements"), "{error}");
    let gradients = ConvolutionGradients { weight: Some(&mut out[..3]), ..Default::default() };
    assert!(convolution_backward(PLAIN, &data.input, &data.weight, &data.grad, gradients).is_err());
    // A stride and padding that skip the whole image are possible.
    let far = ConvolutionShape { batch: 1, padding: [1 << 40; 2], stride: [1 << 40; 2], input: [3, 3], ..PLAIN };
    check(far);
}
