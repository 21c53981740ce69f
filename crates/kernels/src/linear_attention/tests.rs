use super::causal::CHUNK;
use super::*;
use crate::isa::{on_every_isa, pool};
use crate::test_support::{assert_relative, wide};
use proptest::prelude::*;

const MAPS: [FeatureMap; 2] = [FeatureMap::Identity, FeatureMap::EluPlusOne];
const NORMALIZATIONS: [Normalization; 3] = [Normalization::Sum, Normalization::Length, Normalization::None];
const DIRECTIONS: [Direction; 2] = [Direction::Bidirectional, Direction::Causal];

fn every_option() -> Vec<LinearAttentionOptions> {
    let mut all = Vec::new();
    for feature_map in MAPS {
        for normalization in NORMALIZATIONS {
            all.extend(DIRECTIONS.map(|direction| LinearAttentionOptions { feature_map, normalization, direction }));
        }
    }
    all
}

fn shape(batch: usize, queries: usize, keys: usize, d_head: usize, d_value: usize) -> AttentionShape {
    AttentionShape { batch, n_heads: 1, kv_heads: 1, queries, keys, d_head, d_value }
}

fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len + 8)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / 8_388_608.0 - 1.0
        })
        .skip(8)
        .collect()
}

/// Returns queries, keys and values, all positive for the identity, so that no sum of products is near zero.
fn inputs(s: AttentionShape, map: FeatureMap) -> [Vec<f32>; 3] {
    let shift = |x: Vec<f32>| match map {
        FeatureMap::Identity => x.into_iter().map(|x| x + 1.25).collect(),
        FeatureMap::EluPlusOne => x,
    };
    let size = |shape: [usize; 4]| shape.iter().product();
    let (q, k) = (shift(noise(1, size(s.query_shape()))), shift(noise(2, size(s.key_shape()))));
    [q, k, noise(3, size(s.value_shape()))]
}

/// Computes the outputs by the formula, one query and one key at a time.
fn reference(
    s: AttentionShape,
    o: LinearAttentionOptions,
    lengths: Option<&[usize]>,
    [q, k, v]: [&[f64]; 3],
) -> Vec<f64> {
    let phi = |x: f64| match o.feature_map {
        FeatureMap::Identity => x,
        FeatureMap::EluPlusOne => {
            if x > 0.0 {
                x + 1.0
            } else {
                x.exp()
            }
        }
    };
    let mut out = vec![0.0; s.rows() * s.d_value];
    for b in 0..s.batch * s.n_heads {
        let kv = b / s.n_heads * s.kv_heads + b % s.n_heads / s.group();
        let length = lengths.map_or(s.keys, |lengths| lengths[b / s.n_heads]);
        for i in 0..s.queries {
            let seen = if o.direction == Direction::Causal { (i + 1).min(length) } else { length };
            let row = &mut out[(b * s.queries + i) * s.d_value..][..s.d_value];
            let mut total = 0.0;
            for j in 0..seen {
                let q = &q[(b * s.queries + i) * s.d_head..][..s.d_head];
                let k = &k[(kv * s.keys + j) * s.d_head..][..s.d_head];
                let score: f64 = q.iter().zip(k).map(|(q, k)| phi(*q) * phi(*k)).sum();
                total += score;
                let v = &v[(kv * s.keys + j) * s.d_value..][..s.d_value];
                row.iter_mut().zip(v).for_each(|(o, v)| *o += score * v);
            }
            let d = match o.normalization {
                Normalization::Sum => total,
                Normalization::Length => seen as f64,
                Normalization::None => 1.0,
            };
            row.iter_mut().for_each(|o| *o = if d == 0.0 { 0.0 } else { *o / d });
        }
    }
    out
}

struct Run {
    out: Vec<f32>,
    grads: [Vec<f32>; 3],
}

fn run(s: AttentionShape, o: LinearAttentionOptions, inputs: &[Vec<f32>; 3], grad: &[f32]) -> Run {
    run_padded(s, o, None, inputs, grad)
}

fn run_padded(
    s: AttentionShape,
    o: LinearAttentionOptions,
    lengths: Option<&[usize]>,
    [q, k, v]: &[Vec<f32>; 3],
    grad: &[f32],
) -> Run {
    let shapes = [s.query_shape(), s.key_shape(), s.value_shape()];
    let [q_view, k_view, v_view] =
        [(q, shapes[0]), (k, shapes[1]), (v, shapes[2])].map(|(x, s)| View::contiguous(x, s));
    // NaN shows an element that is not written.
    let (mut out, mut d) = (vec![f32::NAN; s.rows() * s.d_value], vec![f32::NAN; s.rows()]);
    let out_view = ViewMut::contiguous(&mut out, s.output_shape());
    linear_attention_forward(s, o, lengths, q_view, k_view, v_view, out_view, &mut d).unwrap();
    let mut grads = [q, k, v].map(|x| vec![f32::NAN; x.len()]);
    let [gq, gk, gv] = &mut grads;
    let views = LinearAttentionGradients {
        q: ViewMut::contiguous(gq, shapes[0]),
        k: ViewMut::contiguous(gk, shapes[1]),
        v: ViewMut::contiguous(gv, shapes[2]),
    };
    let [out_view, grad] = [&out[..], grad].map(|x| View::contiguous(x, s.output_shape()));
    linear_attention_backward(s, o, lengths, q_view, k_view, v_view, out_view, &d, grad, views).unwrap();
    Run { out, grads }
}

fn check(s: AttentionShape, o: LinearAttentionOptions) {
    check_padded(s, o, None);
}

fn check_padded(s: AttentionShape, o: LinearAttentionOptions, lengths: Option<&[usize]>) {
    let inputs = inputs(s, o.feature_map);
    let grad = noise(4, s.rows() * s.d_value);
    let Run { out, grads } = run_padded(s, o, lengths, &inputs, &grad);
    let exact = inputs.each_ref().map(|x| wide(x));
    let loss = |x: &[Vec<f64>; 3]| {
        let out = reference(s, o, lengths, x.each_ref().map(|x| x.as_slice()));
        out.iter().zip(&grad).map(|(o, g)| o * f64::from(*g)).sum::<f64>()
    };
    let want = reference(s, o, lengths, exact.each_ref().map(|x| x.as_slice()));
    assert_relative(&format!("{s:?} {o:?} {lengths:?} out"), &out, &want, 0.1, 2e-6);
    for which in 0..3 {
        const STEP: f64 = 1e-5;
        let mut moved = exact.clone();
        let difference = |i: usize| {
            moved[which][i] = exact[which][i] + STEP;
            let above = loss(&moved);
            moved[which][i] = exact[which][i] - STEP;
            let below = loss(&moved);
            moved[which][i] = exact[which][i];
            (above - below) / (2.0 * STEP)
        };
        let want: Vec<f64> = (0..exact[which].len()).map(difference).collect();
        // Terms of about a tenth, one for each value and pair, cancel in the gradients of queries and keys of a sum.
        let least = 0.1_f64.max(0.02 * (s.d_value * s.queries.max(s.keys)) as f64);
        let what = format!("{s:?} {o:?} {lengths:?} gradient of {}", ["q", "k", "v"][which]);
        assert_relative(&what, &grads[which], &want, least, 5e-6);
    }
}

#[test]
fn outputs_and_gradients_meet_the_formula_on_every_isa() {
    on_every_isa(|_| {
        for o in every_option() {
            for s in [shape(1, 1, 1, 1, 1), shape(2, 5, 5, 3, 4), shape(1, 9, 9, 17, 19)] {
                check(s, o);
            }
            if o.direction == Direction::Bidirectional {
                check(shape(2, 3, 7, 5, 2), o);
                // With one key the gradients of a sum cancel completely.
                check(shape(3, 2, 1, 1, 14), o);
            }
        }
    });
}

#[test]
fn lengths_and_shared_key_heads_meet_the_formula_on_every_isa() {
    on_every_isa(|_| {
        for o in every_option() {
            let s = AttentionShape { n_heads: 4, kv_heads: 2, ..shape(3, 6, 6, 3, 4) };
            check_padded(s, o, None);
            check_padded(s, o, Some(&[6, 4, 1]));
            check_padded(s, o, Some(&[0, 6, 5]));
        }
    });
    for o in every_option() {
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK] {
            check_padded(shape(1, 2 * CHUNK + 3, 2 * CHUNK + 3, 2, 1), o, Some(&[length]));
        }
    }
}

#[test]
fn padding_is_never_read_and_gets_no_gradient() {
    let s = AttentionShape { n_heads: 2, kv_heads: 1, ..shape(2, 9, 9, 3, 4) };
    for o in every_option() {
        let clean = inputs(s, o.feature_map);
        let mut spoilt = clean.clone();
        // Sequence 1 has 5 keys.
        spoilt[1][(9 + 5) * 3..].fill(f32::NAN);
        spoilt[2][(9 + 5) * 4..].fill(f32::INFINITY);
        let grad = noise(4, s.rows() * s.d_value);
        let [one, other] = [&clean, &spoilt].map(|x| run_padded(s, o, Some(&[9, 5]), x, &grad));
        assert_eq!((&one.out, &one.grads), (&other.out, &other.grads), "{o:?}");
        assert!(other.grads[1][(9 + 5) * 3..].iter().chain(&other.grads[2][(9 + 5) * 4..]).all(|&g| g == 0.0), "{o:?}");
    }
}

/// Queries, keys and values side by side in one row, and rows with gaps, give the same bits as tensors without gaps.
#[test]
fn strides_do_not_matter() {
    let s = AttentionShape { n_heads: 4, kv_heads: 2, ..shape(2, CHUNK + 5, CHUNK + 5, 3, 3) };
    let (row, grad) = ((4 + 2 + 2) * 3, noise(4, s.rows() * 3));
    for o in every_option() {
        let [q, k, v] = inputs(s, o.feature_map);
        let separate = run(s, o, &[q.clone(), k.clone(), v.clone()], &grad);
        let mut packed = vec![0.0; 2 * s.keys * row];
        let place = |b: usize, i: usize, head: usize| ((b * s.keys + i) * row) + head * 3;
        let each =
            |heads: usize| (0..2 * heads * s.keys).map(move |n| (n / (heads * s.keys), n / s.keys % heads, n % s.keys));
        for (x, heads, first) in [(&q, 4, 0), (&k, 2, 4), (&v, 2, 6)] {
            for ((b, head, i), features) in each(heads).zip(x.chunks(3)) {
                packed[place(b, i, first + head)..][..3].copy_from_slice(features);
            }
        }
        let view = |first: usize| View { data: &packed[first * 3..], strides: [s.keys * row, 3, row, 1] };
        let strides = [s.queries * 12, 3, 12];
        let (mut out, mut d) = (vec![f32::NAN; s.rows() * 3], vec![f32::NAN; s.rows()]);
        let out_view = ViewMut::strided(&mut out, strides);
        linear_attention_forward(s, o, None, view(0), view(4), view(6), out_view, &mut d).unwrap();
        let joined = |b: usize, head: usize, i: usize| b * strides[0] + head * 3 + i * 12;
        for ((b, head, i), want) in each(4).zip(separate.out.chunks(3)) {
            assert_eq!(out[joined(b, head, i)..][..3], *want, "{o:?}");
        }
        let mut grads = vec![f32::NAN; packed.len()];
        let [q, k, v] = ViewMut::packed(&mut grads, s.keys, [4, 2, 2], 3);
        let out_view = View { data: &out, strides: [strides[0], 3, 12, 1] };
        let grad = View::contiguous(&grad, s.output_shape());
        let views = LinearAttentionGradients { q, k, v };
        linear_attention_backward(s, o, None, view(0), view(4), view(6), out_view, &d, grad, views).unwrap();
        for (want, heads, first) in [(0, 4, 0), (1, 2, 4), (2, 2, 6)] {
            for ((b, head, i), want) in each(heads).zip(separate.grads[want].chunks(3)) {
                assert_eq!(grads[place(b, i, first + head)..][..3], *want, "{o:?}");
            }
        }
    }
}

#[test]
fn chunk_boundaries_do_not_show() {
    for o in every_option() {
        for n in [CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 1] {
            check(shape(1, n, n, 2, 1), o);
        }
    }
}

#[test]
fn sizes_of_zero_give_empty_sums() {
    for o in every_option() {
        for s in [shape(0, 2, 2, 3, 4), shape(2, 0, 0, 3, 4), shape(2, 2, 2, 0, 4), shape(2, 2, 2, 3, 0)] {
            check(s, o);
        }
        if o.direction == Direction::Bidirectional {
            check(shape(2, 3, 0, 2, 2), o);
            check(shape(2, 0, 3, 2, 2), o);
        }
    }
}

#[test]
fn a_denominator_of_zero_gives_zero() {
    for direction in DIRECTIONS {
        let o =
            LinearAttentionOptions { feature_map: FeatureMap::Identity, normalization: Normalization::Sum, direction };
        let s = shape(1, 3, 3, 2, 2);
        let [mut q, k, v] = inputs(s, o.feature_map);
        q[2..4].fill(0.0);
        let Run { out, grads } = run(s, o, &[q, k, v], &[1.0; 6]);
        assert_eq!(out[2..4], [0.0, 0.0], "{direction:?}");
        assert_eq!(grads[0][2..4], [0.0, 0.0], "{direction:?}");
        assert!(out[..2].iter().chain(&out[4..]).all(|o| *o != 0.0 && o.is_finite()));
        assert!(grads.iter().flatten().all(|g| g.is_finite()));
    }
}

#[test]
fn later_keys_and_values_do_not_reach_earlier_queries() {
    let s = shape(2, CHUNK + 9, CHUNK + 9, 5, 3);
    for o in every_option().into_iter().filter(|o| o.direction == Direction::Causal) {
        let before = inputs(s, o.feature_map);
        let grad = vec![1.0; s.batch * s.queries * s.d_value];
        for cut in [1, 30, CHUNK - 1, CHUNK, CHUNK + 1] {
            let mut after = before.clone();
            for b in 0..s.batch {
                for (x, width) in after[1..].iter_mut().zip([s.d_head, s.d_value]) {
                    x[(b * s.keys + cut) * width..(b + 1) * s.keys * width]
                        .iter_mut()
                        .for_each(|x| *x = *x * 2.0 + 1.0);
                }
            }
            let (first, second) = (run(s, o, &before, &grad).out, run(s, o, &after, &grad).out);
            for b in 0..s.batch {
                let rows = |out: &[f32]| out[b * s.queries * s.d_value..(b + 1) * s.queries * s.d_value].to_vec();
                let (first, second) = (rows(&first), rows(&second));
                assert_eq!(first[..cut * s.d_value], second[..cut * s.d_value], "{o:?} cut {cut}");
                assert_ne!(first[cut * s.d_value..], second[cut * s.d_value..], "{o:?} cut {cut}");
            }
        }
    }
}

#[test]
fn large_inputs_meet_the_formula() {
    let s = shape(1, 6, 6, 4, 3);
    for o in every_option().into_iter().filter(|o| o.feature_map == FeatureMap::EluPlusOne) {
        let mut x = inputs(s, o.feature_map);
        x[..2].iter_mut().flatten().for_each(|x| *x *= 200.0);
        let grad = noise(4, 18);
        let exact = x.each_ref().map(|x| wide(x));
        let want = reference(s, o, None, exact.each_ref().map(|x| x.as_slice()));
        let Run { out, grads } = run(s, o, &x, &grad);
        assert_relative(&format!("{o:?}"), &out, &want, 0.1, 2e-6);
        assert!(grads.iter().flatten().all(|g| g.is_finite()), "{o:?}");
    }
}

#[test]
fn nan_is_not_swallowed() {
    on_every_isa(|isa| {
        for o in every_option() {
            for which in 0..3 {
                let s = shape(2, 4, 4, 3, 2);
                let mut x = inputs(s, o.feature_map);
                x[which][0] = f32::NAN;
                let Run { out, .. } = run(s, o, &x, &[1.0; 16]);
                assert!(out[..8].iter().any(|o| o.is_nan()), "{isa:?} {o:?} input {which}: {out:?}");
                assert!(out[8..].iter().all(|o| o.is_finite()), "{isa:?} {o:?} input {which}: the other problem");
            }
        }
    });
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let s = shape(5, 70, 70, 6, 7);
    on_every_isa(|_| {
        for o in every_option() {
            let x = inputs(s, o.feature_map);
            let grad = noise(4, s.batch * s.queries * s.d_value);
            let [one, two, again] = [1, 2, 2].map(|threads| pool(threads).install(|| run(s, o, &x, &grad)));
            assert!(one.out == two.out && two.out == again.out, "{o:?}");
            assert!(one.grads == two.grads && two.grads == again.grads, "{o:?}");
        }
    });
}

#[test]
fn misfits_are_refused_by_name() {
    let o = every_option()[1];
    let s = shape(1, 2, 2, 3, 4);
    let forward = |s: AttentionShape, lengths: Option<&[usize]>, q: usize, d: usize| {
        let (q, mut out) = (vec![0.0; q], [0.0; 8]);
        let view = |data, width: usize| View { data, strides: [2 * width, 2 * width, width, 1] };
        let out = ViewMut::strided(&mut out, [8, 8, 4]);
        linear_attention_forward(
            s,
            o,
            lengths,
            view(&q, 3),
            view(&[0.0; 6], 3),
            view(&[0.0; 8], 4),
            out,
            &mut vec![0.0; d],
        )
    };
    assert_eq!(forward(s, None, 6, 2), Ok(()));
    assert_eq!(forward(s, None, 5, 2), Err(KernelError::OutOfBounds { what: "q", reach: 6, len: 5 }));
    assert_eq!(forward(s, None, 6, 3), Err(KernelError::Length { what: "normalizer", expected: 2, got: 3 }));
    assert_eq!(forward(s, Some(&[2]), 6, 2), Ok(()));
    let message = |s, lengths| forward(s, lengths, 6, 2).unwrap_err().to_string();
    let causal = message(shape(1, 2, 3, 3, 4), None);
    assert!(causal.contains("as many queries as keys, got 2 and 3"), "{causal}");
    let long = message(s, Some(&[3]));
    assert!(long.contains("lengths"), "{long}");
    let heads = message(AttentionShape { kv_heads: 2, ..s }, None);
    assert!(heads.contains("n_heads"), "{heads}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_small_shape_meets_the_formula(
        batch in 1..4usize, queries in 1..8usize, keys in 1..8usize, d_head in 1..20usize, d_value in 1..20usize, option in 0..12usize,
    ) {
        let o = every_option()[option];
        let keys = if o.direction == Direction::Causal { queries } else { keys };
        check(shape(batch, queries, keys, d_head, d_value), o);
    }
}
