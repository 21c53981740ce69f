use proptest::prelude::*;
use regard_ops::{OpError, add_rows, add_rows_fallback};

use crate::support::{close, gradient, leaf, loss, values};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn agrees_with_its_fallback(batch in 1usize..5, seq in 1usize..90, d_model in 1usize..80) {
        let (x, rows) = (leaf([batch, seq, d_model], 1), leaf([seq, d_model], 2));
        let weights = leaf([batch, seq, d_model], 3);
        let results = [add_rows(x.clone(), rows.clone()).unwrap(), add_rows_fallback(x.clone(), rows.clone())].map(|out| {
            let gradients = loss(&out, &weights);
            (values(out), gradient(&x, &gradients), gradient(&rows, &gradients))
        });
        prop_assert_eq!(&results[0].0, &results[1].0);
        prop_assert_eq!(&results[0].1, &results[1].1);
        close("gradient of the rows", &results[0].2, &results[1].2, 1e-5);
    }
}

#[test]
fn rows_of_another_shape_are_a_typed_error() {
    let error = add_rows(leaf([2, 3, 4], 1), leaf([3, 5], 2)).unwrap_err();
    assert!(matches!(error, OpError::Shape { what: "rows", .. }), "{error}");
}
