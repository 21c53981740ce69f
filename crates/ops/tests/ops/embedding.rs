use burn::tensor::{Int, Tensor, TensorData};
use regard_ops::{OpError, embedding, embedding_fallback};

use crate::golden::Golden;
use crate::support::{close, gradient, leaf, loss, training, values};

#[test]
fn agrees_with_pytorch_and_its_fallback() {
    let golden = Golden::open("embedding");
    let device = training();
    for (case, _) in golden.cases() {
        let name = |name: &str| format!("{case}/{name}");
        let ids = golden.integers::<2>(&name("ids"), &device);
        let weights = golden.tensor::<3>(&name("grad_out"), &device);
        for fused in [true, false] {
            let table = golden.tensor::<2>(&name("table"), &device).require_grad();
            let out = match fused {
                true => embedding(table.clone(), ids.clone()).unwrap(),
                false => embedding_fallback(table.clone(), ids.clone()),
            };
            let gradients = loss(&out, &weights);
            close("out", &values(out), &golden.floats(&name("out")), 0.0);
            close("grad_table", &gradient(&table, &gradients), &golden.floats(&name("grad_table")), 1e-6);
        }
    }
}

#[test]
fn an_index_outside_the_table_is_an_error_with_its_position() {
    let ids: Tensor<2, Int> = Tensor::from_data(TensorData::new(vec![0i64, 1, 2, 7], [2, 2]), &training());
    let error = embedding(leaf([5, 3], 1), ids).unwrap_err();
    assert!(matches!(error, OpError::Option { what: "ids", .. }), "{error}");
    assert!(error.to_string().contains("7 at [1, 1] is not in 0..5"), "{error}");
    let ids: Tensor<2, Int> = Tensor::from_data(TensorData::new(vec![0i64], [1, 1]), &training());
    assert!(matches!(embedding(leaf([5, 0], 1), ids).unwrap_err(), OpError::Shape { what: "table", .. }));
}
