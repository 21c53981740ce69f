use super::*;
use crate::isa::on_every_isa;
use crate::recurrent::testing::{Layer, check_layer, check_threads, column_dot, noise, shapes, sigmoid};
use proptest::prelude::*;

struct Lstm;

impl Layer for Lstm {
    fn parameters(&self, s: &RecurrentShape) -> Vec<(&'static str, usize)> {
        let (state, width) = (s.batch * s.d_hidden, 4 * s.d_hidden);
        vec![
            ("x", s.rows() * s.d_in),
            ("w_ih", s.d_in * width),
            ("w_hh", s.d_hidden * width),
            ("bias", width),
            ("h0", state),
            ("c0", state),
        ]
    }

    /// Every `h_t`, then every `c_t`.
    fn outputs(&self, s: &RecurrentShape) -> usize {
        2 * s.rows() * s.d_hidden
    }

    fn reference(&self, s: &RecurrentShape, p: &[Vec<f64>]) -> Vec<f64> {
        let [x, w_ih, w_hh, bias, h0, c0] = p else { panic!("six parameters") };
        let n = s.d_hidden;
        let (mut hidden, mut cells) = (vec![0.0; s.rows() * n], vec![0.0; s.rows() * n]);
        for b in 0..s.batch {
            let (mut h, mut c) = (h0[b * n..][..n].to_vec(), c0[b * n..][..n].to_vec());
            for t in 0..s.seq {
                let x = &x[(b * s.seq + t) * s.d_in..][..s.d_in];
                let before = |gate: usize, u: usize| {
                    let column = gate * n + u;
                    column_dot(x, w_ih, 4 * n, column) + column_dot(&h, w_hh, 4 * n, column) + bias[column]
                };
                for (u, c) in c.iter_mut().enumerate() {
                    *c = sigmoid(before(1, u)) * *c + sigmoid(before(0, u)) * before(2, u).tanh();
                }
                h = (0..n).map(|u| sigmoid(before(3, u)) * c[u].tanh()).collect();
                hidden[(b * s.seq + t) * n..][..n].copy_from_slice(&h);
                cells[(b * s.seq + t) * n..][..n].copy_from_slice(&c);
            }
        }
        [hidden, cells].concat()
    }

    fn run(&self, s: &RecurrentShape, p: &[Vec<f32>], grad: &[f32]) -> (Vec<f32>, Vec<Vec<f32>>) {
        let [x, w_ih, w_hh, bias, h0, c0] = p else { panic!("six parameters") };
        let weights = LstmWeights { w_ih, w_hh, bias };
        let len = s.rows() * s.d_hidden;
        // NaN shows an element that is not written.
        let (mut hidden, mut cells, mut gates) = (vec![f32::NAN; len], vec![f32::NAN; len], vec![f32::NAN; 4 * len]);
        lstm_forward(*s, x, weights, h0, c0, &mut hidden, &mut cells, &mut gates).unwrap();
        let mut g: Vec<Vec<f32>> = p.iter().map(|p| vec![f32::NAN; p.len()]).collect();
        let [gx, gi, gh, gb, g0, gc] = &mut g[..] else { panic!("six gradients") };
        let gradients = LstmGradients { x: gx, w_ih: gi, w_hh: gh, bias: gb, h0: g0, c0: gc };
        let (grad_hidden, grad_cells) = grad.split_at(len);
        let grad_cells = Some(grad_cells);
        lstm_backward(*s, x, weights, h0, c0, &hidden, &cells, &mut gates, grad_hidden, grad_cells, gradients).unwrap();
        ([hidden, cells].concat(), g)
    }
}

#[test]
fn outputs_and_gradients_meet_the_formula_on_every_isa() {
    on_every_isa(|_| shapes().iter().for_each(|shape| check_layer(&Lstm, shape, 1.0)));
}

#[test]
fn saturated_gates_meet_the_formula() {
    let shape = RecurrentShape { batch: 3, seq: 4, d_in: 2, d_hidden: 5 };
    on_every_isa(|_| check_layer(&Lstm, &shape, 60.0));
}

#[test]
fn threads_agree_when_the_batch_and_when_the_units_are_split() {
    on_every_isa(|_| {
        for (batch, seq, d_hidden) in [(13, 9, 40), (1, 20, 330), (7, 6, 250)] {
            check_threads(&Lstm, &RecurrentShape { batch, seq, d_in: 3, d_hidden });
        }
    });
}

#[test]
fn a_missing_cell_gradient_is_zero() {
    let s = RecurrentShape { batch: 2, seq: 3, d_in: 2, d_hidden: 5 };
    let p: Vec<Vec<f32>> = Lstm.parameters(&s).iter().zip(1..).map(|((_, len), seed)| noise(seed, *len, 0.5)).collect();
    let len = s.rows() * s.d_hidden;
    let mut grad = noise(9, 2 * len, 1.0);
    grad[len..].fill(0.0);
    let want = Lstm.run(&s, &p, &grad).1;
    let weights = LstmWeights { w_ih: &p[1], w_hh: &p[2], bias: &p[3] };
    let (mut hidden, mut cells, mut gates) = (vec![0.0; len], vec![0.0; len], vec![0.0; 4 * len]);
    lstm_forward(s, &p[0], weights, &p[4], &p[5], &mut hidden, &mut cells, &mut gates).unwrap();
    let mut g = want.clone();
    let [gx, gi, gh, gb, g0, gc] = &mut g[..] else { panic!("six gradients") };
    [&mut *gx, gi, gh, gb, g0, gc].into_iter().for_each(|g| g.fill(f32::NAN));
    let gradients = LstmGradients { x: gx, w_ih: gi, w_hh: gh, bias: gb, h0: g0, c0: gc };
    let grad = &grad[..len];
    lstm_backward(s, &p[0], weights, &p[4], &p[5], &hidden, &cells, &mut gates, grad, None, gradients).unwrap();
    assert_eq!(g, want);
}

#[test]
fn nan_reaches_the_output_of_its_row_only() {
    on_every_isa(|isa| {
        let s = RecurrentShape { batch: 2, seq: 3, d_in: 2, d_hidden: 5 };
        let sizes = Lstm.parameters(&s);
        let mut p: Vec<Vec<f32>> = sizes.iter().zip(1..).map(|((_, len), seed)| noise(seed, *len, 0.5)).collect();
        p[0][2] = f32::NAN; // row 0, step 1
        let (outputs, _) = Lstm.run(&s, &p, &vec![1.0; 2 * s.rows() * s.d_hidden]);
        for half in outputs.chunks(s.rows() * s.d_hidden) {
            assert!(half[..5].iter().all(|h| h.is_finite()), "{isa:?}: before the NaN");
            assert!(half[5..15].iter().all(|h| h.is_nan()), "{isa:?}: from the NaN on");
            assert!(half[15..].iter().all(|h| h.is_finite()), "{isa:?}: the other row");
        }
    });
}

#[test]
fn wrong_lengths_are_refused_by_name() {
    let s = RecurrentShape { batch: 2, seq: 3, d_in: 4, d_hidden: 5 };
    let forward = |x: usize, bias: usize, gates: usize| {
        let weights = LstmWeights { w_ih: &[0.0; 80], w_hh: &[0.0; 100], bias: &vec![0.0; bias] };
        let (mut hidden, mut cells, mut gates) = ([0.0; 30], [0.0; 30], vec![0.0; gates]);
        lstm_forward(s, &vec![0.0; x], weights, &[0.0; 10], &[0.0; 10], &mut hidden, &mut cells, &mut gates)
    };
    assert_eq!(forward(24, 20, 120), Ok(()));
    assert_eq!(forward(23, 20, 120), Err(KernelError::Length { what: "x", expected: 24, got: 23 }));
    assert_eq!(forward(24, 5, 120), Err(KernelError::Length { what: "bias", expected: 20, got: 5 }));
    assert_eq!(forward(24, 20, 0), Err(KernelError::Length { what: "gates", expected: 120, got: 0 }));
    let huge = RecurrentShape { batch: usize::MAX, seq: 3, d_in: 4, d_hidden: 5 };
    let weights = LstmWeights { w_ih: &[0.0; 80], w_hh: &[0.0; 100], bias: &[0.0; 20] };
    let refused = lstm_forward(huge, &[], weights, &[], &[], &mut [], &mut [], &mut []);
    assert!(matches!(refused, Err(KernelError::Invalid { what: "x", .. })), "{refused:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn any_small_shape_meets_the_formula(batch in 1..9usize, seq in 1..5usize, d_in in 0..7usize, d_hidden in 1..21usize) {
        check_layer(&Lstm, &RecurrentShape { batch, seq, d_in, d_hidden }, 1.0);
    }
}
