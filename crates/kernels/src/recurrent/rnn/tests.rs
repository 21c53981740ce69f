use super::*;
use crate::isa::on_every_isa;
use crate::recurrent::testing::{Layer, check_layer, check_threads, column_dot, shapes};
use proptest::prelude::*;

struct Rnn;

impl Layer for Rnn {
    fn parameters(&self, s: &RecurrentShape) -> Vec<(&'static str, usize)> {
        vec![
            ("x", s.rows() * s.d_in),
            ("w_ih", s.d_in * s.d_hidden),
            ("w_hh", s.d_hidden * s.d_hidden),
            ("bias", s.d_hidden),
            ("h0", s.batch * s.d_hidden),
        ]
    }

    fn outputs(&self, s: &RecurrentShape) -> usize {
        s.rows() * s.d_hidden
    }

    fn reference(&self, s: &RecurrentShape, p: &[Vec<f64>]) -> Vec<f64> {
        let [x, w_ih, w_hh, bias, h0] = p else { panic!("five parameters") };
        let n = s.d_hidden;
        let mut hidden = vec![0.0; s.rows() * n];
        for b in 0..s.batch {
            let mut h = h0[b * n..][..n].to_vec();
            for t in 0..s.seq {
                let x = &x[(b * s.seq + t) * s.d_in..][..s.d_in];
                h = (0..n).map(|u| (column_dot(x, w_ih, n, u) + column_dot(&h, w_hh, n, u) + bias[u]).tanh()).collect();
                hidden[(b * s.seq + t) * n..][..n].copy_from_slice(&h);
            }
        }
        hidden
    }

    fn run(&self, s: &RecurrentShape, p: &[Vec<f32>], grad: &[f32]) -> (Vec<f32>, Vec<Vec<f32>>) {
        let [x, w_ih, w_hh, bias, h0] = p else { panic!("five parameters") };
        let weights = RnnWeights { w_ih, w_hh, bias };
        // NaN shows an element that is not written.
        let mut hidden = vec![f32::NAN; self.outputs(s)];
        rnn_forward(*s, x, weights, h0, &mut hidden).unwrap();
        let mut g: Vec<Vec<f32>> = p.iter().map(|p| vec![f32::NAN; p.len()]).collect();
        let [gx, gi, gh, gb, g0] = &mut g[..] else { panic!("five gradients") };
        let gradients = RnnGradients { x: gx, w_ih: gi, w_hh: gh, bias: gb, h0: g0 };
        rnn_backward(*s, x, weights, h0, &hidden, grad, gradients).unwrap();
        (hidden, g)
    }
}

#[test]
fn outputs_and_gradients_meet_the_formula_on_every_isa() {
    on_every_isa(|_| shapes().iter().for_each(|shape| check_layer(&Rnn, shape, 1.0)));
}

#[test]
fn saturated_units_meet_the_formula() {
    let shape = RecurrentShape { batch: 3, seq: 4, d_in: 2, d_hidden: 5 };
    on_every_isa(|_| check_layer(&Rnn, &shape, 10.0));
}

#[test]
fn threads_agree_when_the_batch_and_when_the_units_are_split() {
    on_every_isa(|_| {
        for (batch, seq, d_hidden) in [(13, 30, 40), (1, 33, 520), (7, 20, 250)] {
            check_threads(&Rnn, &RecurrentShape { batch, seq, d_in: 3, d_hidden });
        }
    });
}

#[test]
fn wrong_lengths_are_refused_by_name() {
    let s = RecurrentShape { batch: 2, seq: 3, d_in: 4, d_hidden: 5 };
    let weights = RnnWeights { w_ih: &[0.0; 20], w_hh: &[0.0; 25], bias: &[0.0; 5] };
    let forward = |weights, h0: usize| rnn_forward(s, &[0.0; 24], weights, &vec![0.0; h0], &mut [0.0; 30]);
    assert_eq!(forward(weights, 10), Ok(()));
    assert_eq!(forward(weights, 0), Err(KernelError::Length { what: "h0", expected: 10, got: 0 }));
    let wrong = RnnWeights { w_hh: &[0.0; 24], ..weights };
    assert_eq!(forward(wrong, 10), Err(KernelError::Length { what: "w_hh", expected: 25, got: 24 }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn any_small_shape_meets_the_formula(batch in 1..9usize, seq in 1..6usize, d_in in 0..7usize, d_hidden in 1..70usize) {
        check_layer(&Rnn, &RecurrentShape { batch, seq, d_in, d_hidden: d_hidden % 23 + 1 }, 1.0);
    }
}
