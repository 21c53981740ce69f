//! Tests of intra-attention against PyTorch, with lengths and captured weights.

use burn::module::Param;
use burn::tensor::{Tensor, TensorData};
use proptest::prelude::*;
use regard_nn::layers::intra_attention::{IntraAttention, IntraAttentionConfig, IntraAttentionOutput};
use regard_nn::{Capture, Init, Pass, Wanted};

use crate::case::weighted;
use crate::golden::Golden;
use crate::support::{close, gradient, leaf, training, transposed, values};

fn layer(d_in: usize, d_hidden: usize) -> IntraAttention {
    IntraAttentionConfig::new(d_in, d_hidden).init(0, &Init::new(3, &training()).enter("encoder")).unwrap()
}

#[test]
fn outputs_weights_and_gradients_match_pytorch() {
    let golden = Golden::open("intra_attention");
    for (case, options) in golden.cases() {
        let name = |name: &str| format!("{case}/{name}");
        let lengths: Vec<usize> = serde_json::from_value(options["lengths"].clone()).unwrap();
        let x = golden.tensor::<3>(&name("x"), &training()).require_grad();
        let ([batch, seq, d_in], d_hidden) = (x.dims(), golden.shape(&name("bias"))[0]);
        let mut layer = layer(d_in, d_hidden);
        let width = d_in + 2 * d_hidden;
        let split = |weight: &[f32]| {
            let mut rows = transposed(weight, d_hidden, width);
            let past = rows.split_off(d_in * d_hidden);
            (rows, past)
        };
        let (input, past) = split(&golden.floats(&name("weight")));
        let matrix = |data, rows| Tensor::from_data(TensorData::new(data, [rows, d_hidden]), &training());
        layer.input.weight = Param::from_tensor(matrix(input, d_in));
        layer.past = Param::from_tensor(matrix(past, 2 * d_hidden));
        layer.input.bias = Some(Param::from_tensor(golden.tensor(&name("bias"), &training())));

        let capture = Capture::default();
        let pass = Pass::inference().with_capture(&capture);
        let IntraAttentionOutput { hidden, last } = layer.forward(x.clone(), Some(&lengths), &pass).unwrap();
        let loss = weighted(&hidden, golden.tensor(&name("grad_out"), &training()))
            + weighted(&last, golden.tensor(&name("grad_last"), &training()));
        let gradients = loss.backward();
        let expect = |part: &str, got: &[f32]| close(&name(part), got, &golden.floats(&name(part)), 2e-6);
        expect("out", &values(hidden));
        expect("last", &values(last));
        expect("grad_x", &gradient(&x, &gradients));
        expect("grad_bias", &gradient(&layer.input.bias.as_ref().unwrap().val(), &gradients));
        let (input, past) = split(&golden.floats(&name("grad_weight")));
        close("grad of the input weight", &gradient(&layer.input.weight.val(), &gradients), &input, 2e-6);
        close("grad of the past weight", &gradient(&layer.past.val(), &gradients), &past, 2e-6);

        let maps = capture.into_maps();
        assert_eq!(maps.len(), batch);
        let want = golden.floats(&name("maps"));
        for (map, want) in maps.iter().zip(want.chunks(seq * seq)) {
            assert_eq!((map.head, map.first_row, map.rows.len()), (0, 1, seq - 1));
            for (row, want) in map.rows.iter().zip(want.chunks(seq).skip(1)) {
                close("weights", row, &want[..row.len()], 2e-6);
            }
            assert!(map.rows.iter().enumerate().all(|(n, row)| row.len() == n + 1));
        }
    }
}

#[test]
fn capture_keeps_the_selected_rows_and_changes_nothing() {
    let (layer, x) = (layer(3, 4), leaf([2, 5, 3], 1));
    let wanted = Wanted { sequences: Some(vec![1]), rows: Some(3..4), ..Wanted::default() };
    let capture = Capture::new(wanted);
    let seen = layer.forward(x.clone(), None, &Pass::inference().with_capture(&capture)).unwrap();
    let plain = layer.forward(x, None, &Pass::inference()).unwrap();
    assert_eq!(values(seen.hidden), values(plain.hidden));
    let maps = capture.into_maps();
    assert_eq!(maps.len(), 1);
    assert_eq!((maps[0].sequence, maps[0].first_row, maps[0].rows.len(), maps[0].rows[0].len()), (1, 3, 1, 3));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn padding_has_no_effect(
        (seq, lengths) in (1usize..6).prop_flat_map(|seq| (Just(seq), prop::collection::vec(0..=seq, 1..4))),
    ) {
        let (layer, batch) = (layer(3, 4), lengths.len());
        let x = values(leaf([batch, seq, 3], 1));
        let found = [0.0, f32::NAN, 3e38].map(|value| {
            let mut data = x.clone();
            for (place, number) in data.iter_mut().enumerate() {
                if place / 3 % seq >= lengths[place / (3 * seq)] {
                    *number = value;
                }
            }
            let x = Tensor::<3>::from_data(TensorData::new(data, [batch, seq, 3]), &training()).require_grad();
            let IntraAttentionOutput { hidden, last } = layer.forward(x.clone(), Some(&lengths), &Pass::inference()).unwrap();
            let gradients = (weighted(&hidden, leaf([batch, seq, 4], 2)) + weighted(&last, leaf([batch, 4], 3))).backward();
            let past = gradient(&layer.past.val(), &gradients);
            [values(hidden), values(last), gradient(&x, &gradients), past]
        });
        prop_assert!(found[0].iter().flatten().all(|value| value.is_finite()));
        prop_assert_eq!(&found[0], &found[1]);
        prop_assert_eq!(&found[0], &found[2]);
    }

    /// The output of a step does not depend on later steps.
    #[test]
    fn steps_do_not_depend_on_later_ones(seq in 2usize..7, cut in 1usize..6) {
        let (layer, cut) = (layer(3, 4), cut.min(seq - 1));
        let x = leaf([2, seq, 3], 1);
        let run = |x| layer.forward(x, None, &Pass::inference()).unwrap();
        let whole = run(x.clone()).hidden.narrow(1, 0, cut);
        let part = run(x.narrow(1, 0, cut));
        close("steps", &values(part.hidden.clone()), &values(whole), 1e-6);
        let last = part.hidden.narrow(1, cut - 1, 1);
        prop_assert_eq!(values(part.last), values(last));
    }
}

#[test]
fn bad_fields_and_inputs_are_named() {
    let refused = |d_in, d_hidden| IntraAttentionConfig::new(d_in, d_hidden).validate().unwrap_err().to_string();
    assert_eq!(refused(3, 0), "d_hidden = 0: expected a whole number, 1 or more");
    assert_eq!(refused(0, 3), "d_in = 0: expected a whole number, 1 or more");
    let layer = layer(3, 4);
    let refused = |x, lengths: Option<&[usize]>| layer.forward(x, lengths, &Pass::inference()).unwrap_err().to_string();
    let shape = "input: expected [batch, seq, 3], each 1 or more, got";
    assert_eq!(refused(leaf([2, 5, 4], 1), None), format!("{shape} [2, 5, 4]"));
    assert_eq!(refused(leaf([0, 5, 3], 1), None), format!("{shape} [0, 5, 3]"));
    assert_eq!(refused(leaf([2, 5, 3], 1), Some(&[1, 6])), "lengths: expected each at most 5, got 6");
}
