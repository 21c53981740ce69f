use burn::tensor::DType;
use regard_ops::{OpError, TrajectoryOptions, TrajectoryWeights, trajectory, trajectory_fallback};

use crate::support::{close, gradient, leaf, loss, values};

const OPTIONS: TrajectoryOptions = TrajectoryOptions { positions: 6, steps: 2, delta: 0.3 };

fn weights(d_model: usize, d_hidden: usize) -> TrajectoryWeights {
    TrajectoryWeights {
        w1: leaf([d_model + 1, d_hidden], 1),
        b1: leaf([d_hidden], 2),
        w2: leaf([d_hidden, d_model], 3),
        b2: leaf([d_model], 4),
    }
}

#[test]
fn fused_and_fallback_agree() {
    for positions in [1, 2, 6] {
        let options = TrajectoryOptions { positions, ..OPTIONS };
        let (start, weights) = (leaf([5], 5), weights(5, 7));
        let upstream = leaf([positions, 5], 6);
        let run = |out: burn::tensor::Tensor<2>| {
            let gradients = loss(&out, &upstream);
            let TrajectoryWeights { w1, b1, w2, b2 } = &weights;
            let parts = [
                values(out),
                gradient(&start, &gradients),
                gradient(w1, &gradients),
                gradient(b1, &gradients),
                gradient(w2, &gradients),
                gradient(b2, &gradients),
            ];
            parts.concat()
        };
        let got = run(trajectory(start.clone(), weights.clone(), options).unwrap());
        let want = run(trajectory_fallback(start.clone(), weights.clone(), options));
        close("positions and gradients", &got, &want, 5e-6);
    }
}

#[test]
fn bad_arguments_are_refused() {
    let start = || leaf([5], 5);
    let good = || weights(5, 7);
    let call = |start, weights, options| trajectory(start, weights, options).unwrap_err();
    for (what, weights) in [
        ("w1", TrajectoryWeights { w1: leaf([5, 7], 1), ..good() }),
        ("b1", TrajectoryWeights { b1: leaf([0], 1), ..good() }),
        ("w2", TrajectoryWeights { w2: leaf([7, 6], 1), ..good() }),
        ("b2", TrajectoryWeights { b2: leaf([6], 1), ..good() }),
    ] {
        let error = call(start(), weights, OPTIONS);
        assert!(matches!(&error, OpError::Shape { what: got, .. } if *got == what), "{error}");
    }
    let error = call(leaf([0], 1), good(), OPTIONS);
    assert!(matches!(error, OpError::Shape { what: "start", .. }), "{error}");
    let error = call(start().cast(DType::F64), good(), OPTIONS);
    assert!(matches!(error, OpError::DType { what: "start", .. }), "{error}");
    for (what, options) in [
        ("positions", TrajectoryOptions { positions: 0, ..OPTIONS }),
        ("positions", TrajectoryOptions { positions: usize::MAX, ..OPTIONS }),
        ("positions", TrajectoryOptions { positions: usize::MAX / 16, ..OPTIONS }),
        ("steps", TrajectoryOptions { steps: 0, ..OPTIONS }),
        ("delta", TrajectoryOptions { delta: f32::NAN, ..OPTIONS }),
    ] {
        let error = call(start(), good(), options);
        assert!(matches!(&error, OpError::Option { what: got, .. } if *got == what), "{error}");
    }
}
