use super::*;
use crate::isa::on_every_isa;
use crate::recurrent::testing::{Layer, check_layer, check_threads, column_dot, noise, sigmoid};
use proptest::prelude::*;

const CHARACTERS: usize = 5;

/// The layer under test; texts have 0 to `longest` characters.
struct WindowLstm {
    n_components: usize,
    longest: usize,
}

impl WindowLstm {
    fn shape(&self, lstm: RecurrentShape) -> WindowShape {
        WindowShape { lstm, d_char: CHARACTERS, n_components: self.n_components }
    }

    fn texts(&self, batch: usize) -> Vec<Vec<u32>> {
        let length = |row: usize| (row * 7 + self.longest) % (self.longest + 1);
        let text = |row: usize| (0..length(row)).map(|u| ((u * 3 + row) % CHARACTERS) as u32).collect();
        (0..batch).map(text).collect()
    }
}

impl Layer for WindowLstm {
    fn parameters(&self, s: &RecurrentShape) -> Vec<(&'static str, usize)> {
        let width = 4 * s.d_hidden;
        vec![
            ("x", s.rows() * s.d_in),
            ("w_ih", (s.d_in + CHARACTERS) * width),
            ("w_hh", s.d_hidden * width),
            ("bias", width),
            ("projection", s.d_hidden * 3 * self.n_components),
            ("projection_bias", 3 * self.n_components),
        ]
    }

    /// Every `h_t`, then every `w_t`.
    fn outputs(&self, s: &RecurrentShape) -> usize {
        s.rows() * (s.d_hidden + CHARACTERS)
    }

    fn reference(&self, s: &RecurrentShape, p: &[Vec<f64>]) -> Vec<f64> {
        let [x, w_ih, w_hh, bias, projection, projection_bias] = p else { panic!("six parameters") };
        let (n, k) = (s.d_hidden, self.n_components);
        let (mut hidden, mut windows) = (Vec::new(), Vec::new());
        for (b, text) in self.texts(s.batch).iter().enumerate() {
            let (mut h, mut c, mut w, mut kappa) = (vec![0.0; n], vec![0.0; n], vec![0.0; CHARACTERS], vec![0.0; k]);
            for t in 0..s.seq {
                let input = [&x[(b * s.seq + t) * s.d_in..][..s.d_in], &w].concat();
                let before = |gate: usize, u: usize| {
                    let column = gate * n + u;
                    column_dot(&input, w_ih, 4 * n, column) + column_dot(&h, w_hh, 4 * n, column) + bias[column]
                };
                for (u, c) in c.iter_mut().enumerate() {
                    *c = sigmoid(before(1, u)) * *c + sigmoid(before(0, u)) * before(2, u).tanh();
                }
                h = (0..n).map(|u| sigmoid(before(3, u)) * c[u].tanh()).collect();
                let raw = |j: usize| column_dot(&h, projection, 3 * k, j) + projection_bias[j];
                w = vec![0.0; CHARACTERS];
                for (component, kappa) in kappa.iter_mut().enumerate() {
                    *kappa += raw(2 * k + component).min(10.0).exp();
                    let (height, beta) = (raw(component).min(20.0), raw(k + component).min(20.0).exp());
                    for (u, &character) in text.iter().enumerate() {
                        let distance = *kappa - (u + 1) as f64;
                        w[character as usize] += (height - beta * distance * distance).exp();
                    }
                }
                hidden.extend(&h);
                windows.extend(&w);
            }
        }
        [hidden, windows].concat()
    }

    fn run(&self, s: &RecurrentShape, p: &[Vec<f32>], grad: &[f32]) -> (Vec<f32>, Vec<Vec<f32>>) {
        let [x, w_ih, w_hh, bias, projection, projection_bias] = p else { panic!("six parameters") };
        let (shape, texts) = (self.shape(*s), self.texts(s.batch));
        let weights = WindowWeights { lstm: LstmWeights { w_ih, w_hh, bias }, projection, projection_bias };
        // NaN shows an element that is not written.
        let buffer = |width: usize| vec![f32::NAN; s.rows() * width];
        let (mut hidden, mut windows) = (buffer(s.d_hidden), buffer(CHARACTERS));
        let (mut cells, mut gates) = (buffer(s.d_hidden), buffer(4 * s.d_hidden));
        let (mut raw, mut positions) = (buffer(3 * self.n_components), buffer(self.n_components));
        let states = WindowStates {
            hidden: &mut hidden,
            windows: &mut windows,
            cells: &mut cells,
            gates: &mut gates,
            raw: &mut raw,
            positions: &mut positions,
        };
        window_forward(shape, x, &texts, weights, states).unwrap();
        let mut g: Vec<Vec<f32>> = p.iter().map(|p| vec![f32::NAN; p.len()]).collect();
        let [gx, gi, gh, gb, gp, gq] = &mut g[..] else { panic!("six gradients") };
        let gradients = WindowGradients { x: gx, w_ih: gi, w_hh: gh, bias: gb, projection: gp, projection_bias: gq };
        let (grad_hidden, grad_windows) = grad.split_at(hidden.len());
        let saved = WindowSaved {
            hidden: &hidden,
            windows: &windows,
            cells: &cells,
            gates: &mut gates,
            raw: &mut raw,
            positions: &positions,
        };
        window_backward(shape, x, &texts, weights, saved, grad_hidden, grad_windows, gradients).unwrap();
        ([hidden, windows].concat(), g)
    }
}

#[test]
fn outputs_and_gradients_meet_the_formula_on_every_isa() {
    on_every_isa(|_| {
        for (batch, seq, d_in, d_hidden) in [(1, 1, 1, 1), (2, 3, 3, 7), (7, 2, 3, 17), (3, 5, 0, 4), (0, 2, 3, 4)] {
            let layer = WindowLstm { n_components: 2, longest: 19 };
            check_layer(&layer, &RecurrentShape { batch, seq, d_in, d_hidden }, 0.7);
        }
    });
}

#[test]
fn a_limited_component_gets_no_gradient() {
    let s = RecurrentShape { batch: 2, seq: 3, d_in: 2, d_hidden: 4 };
    let layer = WindowLstm { n_components: 1, longest: 6 };
    let mut p: Vec<Vec<f32>> =
        layer.parameters(&s).iter().zip(1..).map(|((_, len), seed)| noise(seed, *len, 0.1)).collect();
    p[5] = vec![30.0, 25.0, 12.0];
    let (outputs, gradients) = layer.run(&s, &p, &vec![1.0; layer.outputs(&s)]);
    assert!(outputs.iter().all(|x| x.is_finite()));
    assert_eq!(gradients[5], [0.0; 3]);
}

#[test]
fn threads_agree() {
    on_every_isa(|_| {
        let layer = WindowLstm { n_components: 3, longest: 9 };
        check_threads(&layer, &RecurrentShape { batch: 13, seq: 6, d_in: 3, d_hidden: 40 });
        check_threads(&layer, &RecurrentShape { batch: 1, seq: 8, d_in: 3, d_hidden: 190 });
    });
}

#[test]
fn unknown_characters_and_wrong_lengths_are_refused() {
    let lstm = RecurrentShape { batch: 1, seq: 1, d_in: 1, d_hidden: 1 };
    let shape = WindowShape { lstm, d_char: 2, n_components: 1 };
    let forward = |text: Vec<u32>, projection: usize| {
        let lstm = LstmWeights { w_ih: &[0.0; 12], w_hh: &[0.0; 4], bias: &[0.0; 4] };
        let (projection, projection_bias) = (vec![0.0; projection], [0.0; 3]);
        let weights = WindowWeights { lstm, projection: &projection, projection_bias: &projection_bias };
        let states = WindowStates {
            hidden: &mut [0.0],
            windows: &mut [0.0; 2],
            cells: &mut [0.0],
            gates: &mut [0.0; 4],
            raw: &mut [0.0; 3],
            positions: &mut [0.0],
        };
        window_forward(shape, &[0.0], &[text], weights, states)
    };
    assert_eq!(forward(vec![0, 1], 3), Ok(()));
    assert!(matches!(forward(vec![2], 3), Err(KernelError::Invalid { what: "texts", .. })));
    assert_eq!(forward(vec![0], 2), Err(KernelError::Length { what: "projection", expected: 3, got: 2 }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn any_small_shape_meets_the_formula(batch in 1..6usize, seq in 1..5usize, d_hidden in 1..20usize, longest in 0..18usize) {
        let layer = WindowLstm { n_components: 1 + longest % 3, longest };
        check_layer(&layer, &RecurrentShape { batch, seq, d_in: 3, d_hidden }, 0.7);
    }
}
