use super::*;
use crate::isa::on_every_isa;
use crate::recurrent::testing::{Layer, check_layer, check_threads, column_dot, shapes, sigmoid};
use proptest::prelude::*;

struct Gru(GruReset);

const BOTH: [Gru; 2] = [Gru(GruReset::AfterProduct), Gru(GruReset::BeforeProduct)];

impl Layer for Gru {
    fn parameters(&self, s: &RecurrentShape) -> Vec<(&'static str, usize)> {
        let width = 3 * s.d_hidden;
        vec![
            ("x", s.rows() * s.d_in),
            ("w_ih", s.d_in * width),
            ("w_hh", s.d_hidden * width),
            ("bias_ih", width),
            ("bias_hh", width),
            ("h0", s.batch * s.d_hidden),
        ]
    }

    fn outputs(&self, s: &RecurrentShape) -> usize {
        s.rows() * s.d_hidden
    }

    fn reference(&self, s: &RecurrentShape, p: &[Vec<f64>]) -> Vec<f64> {
        let [x, w_ih, w_hh, bias_ih, bias_hh, h0] = p else { panic!("six parameters") };
        let n = s.d_hidden;
        let mut hidden = vec![0.0; s.rows() * n];
        for b in 0..s.batch {
            let mut h = h0[b * n..][..n].to_vec();
            for t in 0..s.seq {
                let x = &x[(b * s.seq + t) * s.d_in..][..s.d_in];
                let from_x = |column: usize| column_dot(x, w_ih, 3 * n, column) + bias_ih[column];
                let from = |h: &[f64], column: usize| column_dot(h, w_hh, 3 * n, column) + bias_hh[column];
                let r: Vec<f64> = (0..n).map(|u| sigmoid(from_x(u) + from(&h, u))).collect();
                let reset: Vec<f64> = r.iter().zip(&h).map(|(r, h)| r * h).collect();
                let next = (0..n).map(|u| {
                    let z = sigmoid(from_x(n + u) + from(&h, n + u));
                    let inner = match self.0 {
                        GruReset::AfterProduct => r[u] * from(&h, 2 * n + u),
                        GruReset::BeforeProduct => from(&reset, 2 * n + u),
                    };
                    (1.0 - z) * (from_x(2 * n + u) + inner).tanh() + z * h[u]
                });
                h = next.collect();
                hidden[(b * s.seq + t) * n..][..n].copy_from_slice(&h);
            }
        }
        hidden
    }

    fn run(&self, s: &RecurrentShape, p: &[Vec<f32>], grad: &[f32]) -> (Vec<f32>, Vec<Vec<f32>>) {
        let [x, w_ih, w_hh, bias_ih, bias_hh, h0] = p else { panic!("six parameters") };
        let weights = GruWeights { w_ih, w_hh, bias_ih, bias_hh };
        // NaN shows an element that is not written.
        let (mut hidden, mut saved) = (vec![f32::NAN; self.outputs(s)], vec![f32::NAN; gru_saved_len(*s)]);
        gru_forward(*s, self.0, x, weights, h0, &mut hidden, &mut saved).unwrap();
        let mut g: Vec<Vec<f32>> = p.iter().map(|p| vec![f32::NAN; p.len()]).collect();
        let [gx, gi, gh, gbi, gbh, g0] = &mut g[..] else { panic!("six gradients") };
        let gradients = GruGradients { x: gx, w_ih: gi, w_hh: gh, bias_ih: gbi, bias_hh: gbh, h0: g0 };
        gru_backward(*s, self.0, x, weights, h0, &hidden, &mut saved, grad, gradients).unwrap();
        (hidden, g)
    }
}

#[test]
fn outputs_and_gradients_meet_the_formula_on_every_isa() {
    on_every_isa(|_| {
        for gru in BOTH {
            shapes().iter().for_each(|shape| check_layer(&gru, shape, 1.0));
        }
    });
}

#[test]
fn saturated_gates_meet_the_formula() {
    let shape = RecurrentShape { batch: 3, seq: 4, d_in: 2, d_hidden: 5 };
    on_every_isa(|_| BOTH.iter().for_each(|gru| check_layer(gru, &shape, 10.0)));
}

#[test]
fn threads_agree_when_the_batch_and_when_the_units_are_split() {
    on_every_isa(|_| {
        for gru in BOTH {
            for (batch, seq, d_hidden) in [(13, 9, 40), (1, 25, 340), (7, 7, 250)] {
                check_threads(&gru, &RecurrentShape { batch, seq, d_in: 3, d_hidden });
            }
        }
    });
}

#[test]
fn wrong_lengths_are_refused_by_name() {
    let s = RecurrentShape { batch: 2, seq: 3, d_in: 4, d_hidden: 5 };
    let weights = GruWeights { w_ih: &[0.0; 60], w_hh: &[0.0; 75], bias_ih: &[0.0; 15], bias_hh: &[0.0; 15] };
    let forward = |weights, saved: usize| {
        let (mut hidden, mut saved) = ([0.0; 30], vec![0.0; saved]);
        gru_forward(s, GruReset::AfterProduct, &[0.0; 24], weights, &[0.0; 10], &mut hidden, &mut saved)
    };
    assert_eq!(forward(weights, gru_saved_len(s)), Ok(()));
    assert_eq!(forward(weights, 90), Err(KernelError::Length { what: "saved", expected: 120, got: 90 }));
    let wrong = GruWeights { bias_hh: &[0.0; 5], ..weights };
    assert_eq!(forward(wrong, 120), Err(KernelError::Length { what: "bias_hh", expected: 15, got: 5 }));
    assert_eq!(gru_saved_len(RecurrentShape { batch: usize::MAX, ..s }), usize::MAX);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn any_small_shape_meets_the_formula(batch in 1..9usize, seq in 1..5usize, d_in in 0..7usize, d_hidden in 1..21usize) {
        for gru in BOTH {
            check_layer(&gru, &RecurrentShape { batch, seq, d_in, d_hidden }, 1.0);
        }
    }
}
