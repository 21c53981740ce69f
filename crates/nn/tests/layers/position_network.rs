//! Tests of positions from networks: FLOATER against a solver in f64, recurrent positions against PyTorch.

use burn::module::Param;
use burn::tensor::{Tensor, TensorData};
use proptest::prelude::*;
use regard_nn::layers::position::floater::{Floater, FloaterConfig};
use regard_nn::layers::position::recurrent::{RecurrentPosition, RecurrentPositionConfig};
use regard_nn::{Init, NnError};

use crate::golden::Golden;
use crate::support::{close, gradient, leaf, loss, training, transposed, values};

/// The field `h` in f64, with all parameters in one list: start, `W₁`, `b₁`, `W₂`, `b₂`.
#[derive(Clone)]
struct Field {
    d_model: usize,
    d_hidden: usize,
    parameters: Vec<f64>,
}

impl Field {
    fn new(layer: &Floater) -> Self {
        let [d_hidden, d_model] = layer.w2.dims();
        let parts = [
            values(layer.start.val()),
            values(layer.w1.val()),
            values(layer.b1.val()),
            values(layer.w2.val()),
            values(layer.b2.val()),
        ];
        Self { d_model, d_hidden, parameters: parts.concat().into_iter().map(f64::from).collect() }
    }

    fn slope(&self, t: f64, p: &[f64]) -> Vec<f64> {
        let (d, m) = (self.d_model, self.d_hidden);
        let (w1, rest) = self.parameters[d..].split_at((d + 1) * m);
        let (b1, rest) = rest.split_at(m);
        let (w2, b2) = rest.split_at(m * d);
        let hidden: Vec<f64> = (0..m)
            .map(|j| {
                let sum: f64 = (0..d).map(|i| p[i] * w1[i * m + j]).sum();
                (sum + t * w1[d * m + j] + b1[j]).tanh()
            })
            .collect();
        (0..d).map(|i| b2[i] + (0..m).map(|j| hidden[j] * w2[j * d + i]).sum::<f64>()).collect()
    }

    /// Computes the positions with `steps` Runge–Kutta steps from each to the next.
    fn positions(&self, seq: usize, steps: usize, delta: f64) -> Vec<f64> {
        let moved = |p: &[f64], by: f64, k: &[f64]| p.iter().zip(k).map(|(p, k)| p + by * k).collect::<Vec<_>>();
        let size = delta / steps as f64;
        let mut p = self.parameters[..self.d_model].to_vec();
        let mut out = p.clone();
        for step in 0..(seq - 1) * steps {
            let t = step as f64 * size;
            let a = self.slope(t, &p);
            let b = self.slope(t + size / 2.0, &moved(&p, size / 2.0, &a));
            let c = self.slope(t + size / 2.0, &moved(&p, size / 2.0, &b));
            let d = self.slope(t + size, &moved(&p, size, &c));
            p = (0..p.len()).map(|i| p[i] + size / 6.0 * (a[i] + 2.0 * b[i] + 2.0 * c[i] + d[i])).collect();
            if (step + 1) % steps == 0 {
                out.extend(&p);
            }
        }
        out
    }
}

fn floater(config: FloaterConfig, d_model: usize) -> Floater {
    let mut layer = config.init(d_model, &Init::new(7, &training())).unwrap();
    // Zero biases would hide a missing bias, and a weak field an error of the solver.
    layer.w2 = Param::from_tensor((layer.w2.val() * 8.0).detach());
    layer.b1 = Param::from_tensor((leaf([config.d_hidden], 1) * 0.3).detach());
    layer.b2 = Param::from_tensor((leaf([d_model], 2) * 0.3).detach());
    layer
}

#[test]
fn floater_and_its_gradients_match_the_formula() {
    for (steps, seq, offset) in [(1, 7, 0), (3, 3, 2)] {
        let layer = floater(FloaterConfig { d_hidden: 6, steps, delta: 0.3 }, 5);
        let field = Field::new(&layer);
        let got = layer.encode(seq, offset).unwrap();
        assert_eq!(got.dims(), [seq, 5]);
        let weights = leaf([seq, 5], 9);
        let gradients = loss(&got, &weights);
        let weights: Vec<f64> = values(weights).into_iter().map(f64::from).collect();
        let positions = |field: &Field| field.positions(offset + seq, steps, f64::from(0.3f32))[offset * 5..].to_vec();
        let single = |x: Vec<f64>| x.into_iter().map(|x| x as f32).collect::<Vec<_>>();
        close("positions", &values(got), &single(positions(&field)), 1e-6);
        let value = |field: &Field| positions(field).iter().zip(&weights).map(|(a, b)| a * b).sum::<f64>();
        let want = (0..field.parameters.len()).map(|i| {
            let at = |by: f64| {
                let mut field = field.clone();
                field.parameters[i] += by;
                value(&field)
            };
            (at(1e-5) - at(-1e-5)) / 2e-5
        });
        let parts = [
            gradient(&layer.start.val(), &gradients),
            gradient(&layer.w1.val(), &gradients),
            gradient(&layer.b1.val(), &gradients),
            gradient(&layer.w2.val(), &gradients),
            gradient(&layer.b2.val(), &gradients),
        ];
        close("gradients", &parts.concat(), &single(want.collect()), 5e-6);
    }
}

#[test]
fn floater_converges_with_the_fourth_power_of_its_step() {
    // Weights and times are larger than the initial ones, for errors well above the rounding of f32.
    let errors: Vec<f64> = [1, 2, 4]
        .iter()
        .map(|&steps| {
            let mut layer = floater(FloaterConfig { d_hidden: 8, steps, delta: 1.5 }, 4);
            layer.w1 = Param::from_tensor((layer.w1.val() * 1.5).detach());
            let exact = Field::new(&layer).positions(3, 500, 1.5);
            let got = values(layer.encode(3, 0).unwrap());
            got.iter().zip(&exact).map(|(got, want)| (f64::from(*got) - want).abs()).fold(0.0, f64::max)
        })
        .collect();
    assert!(errors[0] > 1e-3, "{errors:?}");
    for pair in errors.windows(2) {
        assert!((8.0..40.0).contains(&(pair[0] / pair[1])), "{errors:?}");
    }
}

#[test]
fn floater_solves_what_has_a_closed_form() {
    // Small arguments of tanh make the field linear: p′ = (−p₁, p₀) in the first two features, p′ = t in the third.
    let (small, delta) = (1e-3f32, 0.1f32);
    let mut layer = FloaterConfig { d_hidden: 3, steps: 1, delta }.init(3, &Init::new(1, &training())).unwrap();
    let tensor = |data: Vec<f32>, shape: [usize; 2]| {
        Param::from_tensor(Tensor::<2>::from_data(TensorData::new(data, shape), &training()))
    };
    let (s, l) = (small, 1.0 / small);
    layer.w1 = tensor(vec![s, 0.0, 0.0, 0.0, s, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, s], [4, 3]);
    layer.w2 = tensor(vec![0.0, l, 0.0, -l, 0.0, 0.0, 0.0, 0.0, l], [3, 3]);
    layer.start = Param::from_tensor(Tensor::from_data([1.0f32, 0.0, 0.0], &training()));
    let want: Vec<f32> = (0..30)
        .flat_map(|i| {
            let t = f64::from(i) * 0.1;
            [t.cos(), t.sin(), t * t / 2.0].map(|x| x as f32)
        })
        .collect();
    // The error of the steps is 3·10⁻⁶ at the end; tanh differs from its argument by 10⁻⁶.
    close("positions", &values(layer.encode(30, 0).unwrap()), &want, 1e-5);
}

#[test]
fn recurrent_positions_match_pytorch() {
    let golden = Golden::open("recurrent_position");
    for (case, _) in golden.cases() {
        let name = |name: &str| format!("{case}/{name}");
        let vector = |part: &str| Param::from_tensor(golden.tensor::<1>(&name(part), &training()));
        let w_hh = golden.tensor::<2>(&name("w_hh"), &training()).transpose().detach();
        let layer = RecurrentPosition {
            start: vector("start"),
            input: vector("input"),
            w_hh: Param::from_tensor(w_hh),
            bias_hh: vector("bias_hh"),
        };
        let [seq, d_model] = golden.shape(&name("out"))[..] else { panic!("{case}") };
        let out = layer.encode(seq, 0).unwrap();
        let gradients = loss(&out, &golden.tensor(&name("grad_out"), &training()));
        close(&name("out"), &values(out), &golden.floats(&name("out")), 2e-6);
        for (part, param) in [("start", &layer.start), ("input", &layer.input), ("bias_hh", &layer.bias_hh)] {
            let want = golden.floats(&name(&format!("grad_{part}")));
            close(&name(part), &gradient(&param.val(), &gradients), &want, 5e-6);
        }
        let want = transposed(&golden.floats(&name("grad_w_hh")), 3 * d_model, d_model);
        close(&name("w_hh"), &gradient(&layer.w_hh.val(), &gradients), &want, 5e-6);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Positions from an offset equal a slice of all positions, in values and gradients.
    #[test]
    fn an_offset_gives_a_slice_of_the_whole(seq in 1usize..6, offset in 0usize..6) {
        let floater = floater(FloaterConfig { d_hidden: 5, steps: 2, delta: 0.2 }, 4);
        let recurrent = RecurrentPositionConfig::default().init(4, &Init::new(2, &training())).unwrap();
        for (encode, start) in [
            (&(|seq, offset| floater.encode(seq, offset)) as &dyn Fn(usize, usize) -> Result<Tensor<2>, NnError>, &floater.start),
            (&|seq, offset| recurrent.encode(seq, offset), &recurrent.start),
        ] {
            let part = encode(seq, offset).unwrap();
            let whole = encode(offset + seq, 0).unwrap().narrow(0, offset, seq);
            let weights = leaf([seq, 4], 3);
            let gradients = [&part, &whole].map(|out| gradient(&start.val(), &loss(out, &weights)));
            close("positions", &values(part), &values(whole), 0.0);
            close("gradients", &gradients[0], &gradients[1], 1e-6);
        }
    }
}

#[test]
fn far_positions_are_finite_and_near_ones_differ() {
    let floater = FloaterConfig::default().init(16, &Init::new(3, &training())).unwrap();
    let recurrent = RecurrentPositionConfig::default().init(16, &Init::new(3, &training())).unwrap();
    for far in [values(floater.encode(2, 3000).unwrap()), values(recurrent.encode(2, 3000).unwrap())] {
        assert!(far.iter().all(|x| x.is_finite()));
    }
    let near = values(recurrent.encode(8, 0).unwrap());
    for (a, b) in near.chunks(16).zip(near.chunks(16).skip(1)) {
        assert!(a.iter().zip(b).any(|(a, b)| (a - b).abs() > 1e-3), "{near:?}");
    }
}

#[test]
fn bad_settings_and_lengths_are_refused() {
    let init = Init::new(1, &training());
    let config = FloaterConfig::default();
    for (bad, message) in [
        (FloaterConfig { d_hidden: 0, ..config }, "d_hidden = 0: expected a whole number, 1 or more"),
        (FloaterConfig { steps: 0, ..config }, "steps = 0: expected a whole number, 1 or more"),
        (FloaterConfig { delta: 0.0, ..config }, "delta = 0: expected a finite number above 0"),
    ] {
        assert_eq!(bad.init(4, &init).unwrap_err().to_string(), message);
    }
    assert_eq!(config.init(0, &init).unwrap_err().field, "d_model");
    let bad = RecurrentPositionConfig { deviation: f32::NAN };
    assert_eq!(bad.init(4, &init).unwrap_err().field, "deviation");
    assert_eq!(RecurrentPositionConfig::default().init(0, &init).unwrap_err().field, "d_model");
    assert_eq!(serde_json::from_str::<FloaterConfig>("{}").unwrap(), config);
    assert!(serde_json::from_str::<FloaterConfig>(r#"{"step": 1}"#).is_err());
    assert!(serde_json::from_str::<RecurrentPositionConfig>(r#"{"d_hidden": 1}"#).is_err());
    let floater = config.init(4, &init).unwrap();
    let recurrent = RecurrentPositionConfig::default().init(4, &init).unwrap();
    for (seq, offset) in [(0, 0), (0, 3), (1, usize::MAX), (usize::MAX, 1), (1, 1 << 40)] {
        for error in [floater.encode(seq, offset).unwrap_err(), recurrent.encode(seq, offset).unwrap_err()] {
            assert!(matches!(error, NnError::Input { what: "seq", .. }), "{error}");
        }
    }
}
