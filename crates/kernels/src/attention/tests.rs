//! Tests of every attention kernel against the f64 reference, and of its gradients against finite differences.

use proptest::prelude::*;

use super::reference::{Inputs, attention};
use super::*;
use crate::isa::{on_every_isa, pool};
use crate::test_support::assert_relative;

/// Returns `n` numbers in about [−1, 1] that depend on `seed` alone.
fn values(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) as f32 / (1u64 << 23) as f32) - 1.0
        })
        .collect()
}

/// An attention call with all its data.
struct Case {
    shape: AttentionShape,
    options: OwnedOptions,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    grad: Vec<f32>,
}

#[derive(Default, Clone, Debug)]
struct OwnedOptions {
    scale: f32,
    band: Band,
    lengths: Option<Vec<usize>>,
    mask: Option<(Vec<u8>, [usize; 4])>,
    sparse: Option<(Vec<usize>, Vec<usize>)>,
    bias: Option<(Vec<f32>, [usize; 4])>,
    distance: Option<Vec<f32>>,
    dropout: Option<Dropout>,
}

impl OwnedOptions {
    fn borrow(&self) -> AttentionOptions<'_> {
        AttentionOptions {
            scale: self.scale,
            band: self.band,
            lengths: self.lengths.as_deref(),
            mask: self.mask.as_ref().map(|(data, strides)| BooleanMask { data, strides: *strides }),
            sparse: self.sparse.as_ref().map(|(offsets, columns)| SparseRows { offsets, columns }),
            bias: self.bias.as_ref().map(|(data, strides)| View { data, strides: *strides }),
            distance: self.distance.as_deref(),
            dropout: self.dropout,
        }
    }
}

struct Results {
    out: Vec<f32>,
    log_sum_exp: Vec<f32>,
    grads: [Vec<f32>; 5],
}

impl Case {
    fn new(shape: AttentionShape, options: OwnedOptions, seed: u64) -> Self {
        let AttentionShape { batch, n_heads, kv_heads, queries, keys, d_head, d_value } = shape;
        Self {
            q: values(batch * n_heads * queries * d_head, seed),
            k: values(batch * kv_heads * keys * d_head, seed + 1),
            v: values(batch * kv_heads * keys * d_value, seed + 2),
            grad: values(batch * n_heads * queries * d_value, seed + 3),
            shape,
            options,
        }
    }

    fn bias_shape(&self) -> [usize; 4] {
        let [b, h, q, k] = self.shape.score_shape();
        let strides = self.options.bias.as_ref().map_or([0; 4], |bias| bias.1);
        [if strides[0] == 0 { 1 } else { b }, if strides[1] == 0 { 1 } else { h }, q, k]
    }

    fn run(&self) -> Results {
        let AttentionShape { queries, keys, .. } = self.shape;
        let shape = self.shape;
        let options = self.options.borrow();
        let q = View::contiguous(&self.q, shape.query_shape());
        let k = View::contiguous(&self.k, shape.key_shape());
        let v = View::contiguous(&self.v, shape.value_shape());
        let mut out = vec![f32::NAN; self.grad.len()];
        let mut log_sum_exp = vec![f32::NAN; shape.rows()];
        let out_view = ViewMut::contiguous(&mut out, shape.output_shape());
        attention_forward(shape, &options, q, k, v, out_view, &mut log_sum_exp).unwrap();
        let mut grads = [
            vec![f32::NAN; self.q.len()],
            vec![f32::NAN; self.k.len()],
            vec![f32::NAN; self.v.len()],
            vec![f32::NAN; if options.bias.is_some() { self.bias_shape().iter().product() } else { 0 }],
            vec![f32::NAN; if options.distance.is_some() { shape.n_heads * (queries + keys - 1) } else { 0 }],
        ];
        let [gq, gk, gv, gb, gd] = &mut grads;
        let gradients = AttentionGradients {
            q: ViewMut::contiguous(gq, shape.query_shape()),
            k: ViewMut::contiguous(gk, shape.key_shape()),
            v: ViewMut::contiguous(gv, shape.value_shape()),
            bias: options.bias.is_some().then_some(gb),
            distance: options.distance.is_some().then_some(gd),
        };
        let out_view = View::contiguous(&out, shape.output_shape());
        let grad = View::contiguous(&self.grad, shape.output_shape());
        attention_backward(shape, &options, q, k, v, out_view, &log_sum_exp, grad, gradients).unwrap();
        Results { out, log_sum_exp, grads }
    }

    fn inputs(&self) -> Inputs {
        let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        Inputs {
            q: wide(&self.q),
            k: wide(&self.k),
            v: wide(&self.v),
            bias: self.options.bias.as_ref().map_or(vec![], |bias| wide(&bias.0)),
            distance: self.options.distance.as_ref().map_or(vec![], |distance| wide(distance)),
        }
    }

    /// Compares outputs with the reference, and a sample of the gradients with central differences.
    fn check(&self) {
        let inputs = self.inputs();
        let options = self.options.borrow();
        let want = attention(self.shape, &options, &inputs);
        let loss = |inputs: &Inputs| -> f64 {
            attention(self.shape, &options, inputs).out.iter().zip(&self.grad).map(|(o, g)| o * f64::from(*g)).sum()
        };
        let differences: Vec<Vec<(usize, f64)>> = (0..5)
            .map(|which| {
                let len = self.field(&inputs, which).len();
                (0..len)
                    .step_by((len / 12).max(1))
                    .map(|at| {
                        let step = 1e-5;
                        let shifted = |by: f64| {
                            let mut inputs = inputs.clone();
                            Self::field_mut(&mut inputs, which)[at] += by;
                            loss(&inputs)
                        };
                        (at, (shifted(step) - shifted(-step)) / (2.0 * step))
                    })
                    .collect()
            })
            .collect();
        on_every_isa(|isa| {
            let got = self.run();
            let context = format!("{isa:?} {self:?}");
            close(&got.out, &want.out, 3e-6, &format!("out {context}"));
            for (got, want) in got.log_sum_exp.iter().zip(&want.log_sum_exp) {
                assert!(
                    f64::from(*got) == *want || (f64::from(*got) - want).abs() < 3e-6 * want.abs().max(1.0),
                    "log-sum-exp {got} {want} {context}"
                );
            }
            for (which, differences) in differences.iter().enumerate() {
                let pair = |&(at, want): &(usize, f64)| (self.gradient(&got, which, at) as f32, want);
                let (got, want): (Vec<f32>, Vec<f64>) = differences.iter().map(pair).unzip();
                // A score's gradient is a difference of inner products of order 1, which cancel if a query sees one key.
                let least = if which == 2 { 1.0 / 16.0 } else { 1.0 };
                assert_relative(&format!("gradient {which} {context}"), &got, &want, least, 2e-5);
            }
            self.check_weights(&got, &want.weights, &context);
        });
    }

    /// Returns the gradient of element `at` of an input as stored; an element of a repeated bias gathers several.
    fn gradient(&self, got: &Results, which: usize, at: usize) -> f64 {
        if which != 3 {
            return f64::from(got.grads[which][at]);
        }
        let strides = self.options.bias.as_ref().unwrap().1;
        let [nb, nh, nq, nk] = self.bias_shape();
        let mut total = 0.0;
        for (n, grad) in got.grads[3].iter().enumerate() {
            let (b, h, q, k) = (n / (nh * nq * nk), n / (nq * nk) % nh, n / nk % nq, n % nk);
            assert!(b < nb);
            if b * strides[0] + h * strides[1] + q * strides[2] + k * strides[3] == at {
                total += f64::from(*grad);
            }
        }
        total
    }

    fn check_weights(&self, got: &Results, want: &[f64], context: &str) {
        let AttentionShape { batch, n_heads, queries, keys, .. } = self.shape;
        if batch * n_heads == 0 {
            return;
        }
        let (b, h, first) = (batch - 1, n_heads - 1, queries / 3);
        let q = View::contiguous(&self.q, self.shape.query_shape());
        let k = View::contiguous(&self.k, self.shape.key_shape());
        for log_sum_exp in [Some(&got.log_sum_exp[..]), None] {
            let mut weights = vec![f32::NAN; (queries - first) * keys];
            let (options, rows) = (self.options.borrow(), first..queries);
            attention_weights(self.shape, &options, q, k, log_sum_exp, (b, h), rows, &mut weights).unwrap();
            let from = ((b * n_heads + h) * queries + first) * keys;
            close(&weights, &want[from..][..weights.len()], 3e-6, &format!("weights {context}"));
        }
    }

    fn field<'a>(&self, inputs: &'a Inputs, which: usize) -> &'a [f64] {
        [&inputs.q, &inputs.k, &inputs.v, &inputs.bias, &inputs.distance][which]
    }

    fn field_mut(inputs: &mut Inputs, which: usize) -> &mut Vec<f64> {
        [&mut inputs.q, &mut inputs.k, &mut inputs.v, &mut inputs.bias, &mut inputs.distance]
            .into_iter()
            .nth(which)
            .unwrap()
    }
}

/// Compares tensors whose terms are of order 1, so that sums that cancel have rounding errors of 2⁻²⁴.
#[track_caller]
fn close(got: &[f32], want: &[f64], tolerance: f64, context: &str) {
    assert_relative(context, got, want, 1.0 / 16.0, tolerance);
}

fn shape(batch: usize, n_heads: usize, kv_heads: usize, queries: usize, keys: usize, d_head: usize) -> AttentionShape {
    AttentionShape { batch, n_heads, kv_heads, queries, keys, d_head, d_value: d_head }
}

fn plain(d_head: usize) -> OwnedOptions {
    OwnedOptions { scale: 1.0 / (d_head as f32).sqrt(), ..OwnedOptions::default() }
}

prop_compose! {
    fn any_shape()(batch in 1usize..3, kv_heads in 1usize..3, group in 1usize..3, queries in 1usize..70,
                   keys in 1usize..150, d_head in 1usize..20, d_value in 1usize..40) -> AttentionShape {
        AttentionShape { batch, n_heads: kv_heads * group, kv_heads, queries, keys, d_head, d_value }
    }
}

prop_compose! {
    fn any_case()(shape in any_shape())(
        shape in Just(shape),
        left in prop::option::of(0usize..40),
        right in prop::option::of(0usize..40),
        lengths in prop::option::of(prop::collection::vec(0..=shape.keys, shape.batch)),
        mask in prop::option::of((any::<u64>(), any::<bool>(), any::<bool>())),
        sparse in prop::option::weighted(0.25, any::<u64>()),
        bias in prop::option::of((any::<bool>(), any::<bool>(), any::<bool>())),
        distance in any::<bool>(),
        dropout in prop::option::of(0.0f32..0.7),
        seed in 0u64..1000,
    ) -> Case {
        let [b, h, q, k] = shape.score_shape();
        let strides = |batch: bool, head: bool, row: bool| {
            [if batch { h * q * k } else { 0 }, if head { q * k } else { 0 }, if row { k } else { 0 }, 1]
        };
        let mut options = plain(shape.d_head);
        options.band = Band { left, right };
        options.lengths = lengths;
        options.mask = mask.map(|(bits, batch, head)| {
            let visible = values(b * h * q * k, bits).iter().map(|&x| u8::from(x > 0.3)).collect();
            (visible, strides(batch, head, true))
        });
        options.sparse = sparse.map(|bits| {
            let visible = values(q * k, bits);
            let rows = |i: usize| (0..k).filter(|j| visible[i * k + j] > 0.6).collect::<Vec<_>>();
            let columns: Vec<Vec<usize>> = (0..q).map(rows).collect();
            let mut offsets = vec![0];
            columns.iter().for_each(|row| offsets.push(offsets.last().unwrap() + row.len()));
            (offsets, columns.concat())
        });
        options.bias = bias.map(|(batch, head, row)| (values(b * h * q * k, seed + 7), strides(batch, head, row)));
        options.distance = distance.then(|| values(h * (q + k - 1), seed + 8));
        options.dropout = dropout.map(|probability| Dropout { probability, seed });
        Case::new(shape, options, seed)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn any_combination_matches_the_reference(case in any_case()) {
        case.check();
    }
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let o = &self.options;
        let flags = [o.mask.is_some(), o.sparse.is_some(), o.bias.is_some(), o.distance.is_some()];
        let names = ["mask", "sparse", "bias", "distance"];
        let present: Vec<_> = names.iter().zip(flags).filter(|(_, present)| *present).map(|(name, _)| name).collect();
        write!(f, "{:?} {:?} lengths {:?} {present:?} {:?}", self.shape, o.band, o.lengths, o.dropout)
    }
}

#[test]
fn several_blocks_of_queries_and_keys() {
    for band in [Band::FULL, Band::CAUSAL, Band { left: Some(20), right: Some(5) }, Band { left: Some(7), right: None }]
    {
        let options = OwnedOptions { band, ..plain(16) };
        Case::new(shape(1, 2, 1, 150, 600, 16), options, 1).check();
    }
}

#[test]
fn a_query_that_sees_no_key_gives_zeros() {
    let options = OwnedOptions { lengths: Some(vec![0, 3]), ..plain(8) };
    let case = Case::new(shape(2, 1, 1, 9, 9, 8), options, 2);
    case.check();
    let got = case.run();
    assert!(got.out[..72].iter().chain(&got.grads[0][..72]).chain(&got.grads[1][..72]).all(|&x| x == 0.0));
    assert!(got.log_sum_exp[..9].iter().all(|&x| x == f32::NEG_INFINITY));
}

#[test]
fn empty_sizes_are_no_failure() {
    for (queries, keys) in [(0, 0), (0, 5), (7, 0)] {
        let got = Case::new(shape(1, 2, 2, queries, keys, 4), plain(4), 3).run();
        assert!(got.out.iter().chain(got.grads.iter().flatten()).all(|&x| x == 0.0));
    }
    Case::new(shape(0, 2, 2, 3, 3, 4), plain(4), 3).run();
}

#[test]
fn extreme_scores_stay_finite() {
    on_every_isa(|isa| {
        let mut case = Case::new(shape(1, 1, 1, 20, 40, 8), OwnedOptions { scale: 1e3, ..plain(8) }, 4);
        case.q.iter_mut().for_each(|x| *x *= 100.0);
        let got = case.run();
        let want = attention(case.shape, &case.options.borrow(), &case.inputs());
        // Scores near 1e5 are exact only to 1e5 · 2⁻²⁴, which is the relative error of the weights.
        close(&got.out, &want.out, 0.03, &format!("{isa:?}"));
        assert!(got.grads.iter().flatten().all(|x| x.is_finite()));
    });
}

#[test]
fn a_nan_is_never_averaged_away() {
    on_every_isa(|isa| {
        let mut case = Case::new(shape(1, 1, 1, 12, 30, 8), plain(8), 5);
        case.q[3 * 8 + 2] = f32::NAN;
        let got = case.run();
        for i in 0..12 {
            let row = &got.out[i * 8..][..8];
            assert!(row.iter().all(|x| x.is_nan() == (i == 3)), "{isa:?} row {i}: {row:?}");
        }
    });
}

#[test]
fn strided_inputs_and_packed_outputs_agree_with_contiguous_ones() {
    let (batch, seq, heads, kv_heads, d) = (2, 37, 4, 2, 12);
    let shape = shape(batch, heads, kv_heads, seq, seq, d);
    let options = OwnedOptions { band: Band::CAUSAL, ..plain(d) };
    let row = (heads + 2 * kv_heads) * d;
    let packed = values(batch * seq * row, 6);
    let gather = |first: usize, count: usize| -> Vec<f32> {
        let mut out = Vec::new();
        for b in 0..batch {
            for h in 0..count {
                for i in 0..seq {
                    out.extend_from_slice(&packed[(b * seq + i) * row + (first + h) * d..][..d]);
                }
            }
        }
        out
    };
    let mut case = Case::new(shape, options, 6);
    (case.q, case.k, case.v) = (gather(0, heads), gather(heads, kv_heads), gather(heads + kv_heads, kv_heads));
    let want = case.run();

    let view = |head: usize| View { data: &packed[head * d..], strides: [seq * row, d, row, 1] };
    let (q, k, v) = (view(0), view(heads), view(heads + kv_heads));
    let mut out = vec![f32::NAN; batch * seq * heads * d];
    let strides = [seq * heads * d, d, heads * d];
    let mut lse = vec![0.0; shape.rows()];
    let options = case.options.borrow();
    attention_forward(shape, &options, q, k, v, ViewMut::strided(&mut out, strides), &mut lse).unwrap();
    let mut grads = vec![f32::NAN; packed.len()];
    let [gq, gk, gv] = ViewMut::packed(&mut grads, seq, [heads, kv_heads, kv_heads], d);
    let gradients = AttentionGradients { q: gq, k: gk, v: gv, bias: None, distance: None };
    let out_view = View { data: &out, strides: [strides[0], strides[1], strides[2], 1] };
    let grad = View::contiguous(&case.grad, shape.output_shape());
    attention_backward(shape, &options, q, k, v, out_view, &lse, grad, gradients).unwrap();
    for b in 0..batch {
        for i in 0..seq {
            for (h, (which, of)) in (0..heads)
                .map(|h| (h, (0, heads)))
                .chain((0..2 * kv_heads).map(|h| (h % kv_heads, (1 + h / kv_heads, kv_heads))))
            {
                let first = [0, heads, heads + kv_heads][which];
                let got = &grads[(b * seq + i) * row + (first + h) * d..][..d];
                assert_eq!(got, &want.grads[which][((b * of + h) * seq + i) * d..][..d]);
            }
        }
    }
    for b in 0..batch {
        for h in 0..heads {
            for i in 0..seq {
                let got = &out[b * strides[0] + h * strides[1] + i * strides[2]..][..d];
                assert_eq!(got, &want.out[((b * heads + h) * seq + i) * d..][..d]);
            }
        }
    }
}

#[test]
fn features_may_be_strided_and_heads_repeated() {
    let (batch, heads, seq, d) = (2, 3, 29, 10);
    let shape = shape(batch, heads, heads, seq, seq, d);
    let options = OwnedOptions { band: Band::CAUSAL, ..plain(d) };
    let mut case = Case::new(shape, options, 11);
    // One head for all, stored feature by feature.
    let stored = values(batch * d * seq, 12);
    let strides = [d * seq, 0, 1, seq];
    let index = |n: usize| {
        let (b, i, t) = (n / (heads * seq * d), n / d % seq, n % d);
        stored[b * strides[0] + i * strides[2] + t * strides[3]]
    };
    case.k = (0..case.k.len()).map(index).collect();
    case.v = case.k.clone();
    case.q = case.k.clone();
    let want = case.run();
    let view = View { data: &stored, strides };
    let (mut out, mut lse) = (vec![f32::NAN; want.out.len()], vec![0.0; shape.rows()]);
    let options = case.options.borrow();
    let out_view = ViewMut::contiguous(&mut out, shape.output_shape());
    attention_forward(shape, &options, view, view, view, out_view, &mut lse).unwrap();
    assert_eq!(out, want.out);
    let mut grads = [vec![f32::NAN; out.len()], vec![f32::NAN; out.len()], vec![f32::NAN; out.len()]];
    let [q, k, v] = grads.each_mut().map(|grad| ViewMut::contiguous(grad, shape.query_shape()));
    let gradients = AttentionGradients { q, k, v, bias: None, distance: None };
    let (out, grad) =
        (View::contiguous(&out, shape.output_shape()), View::contiguous(&case.grad, shape.output_shape()));
    attention_backward(shape, &options, view, view, view, out, &lse, grad, gradients).unwrap();
    assert_eq!(grads[..], want.grads[..3]);
}

#[test]
fn strides_that_overflow_or_overlap_are_refused() {
    let shape = shape(1, 1, 1, 3, 3, 1);
    let data = [0.0; 64];
    let forward = |q: View<'_>, out: ViewMut<'_>| {
        let plain = View::contiguous(&data, [1, 1, 3, 1]);
        attention_forward(shape, &AttentionOptions::default(), q, plain, plain, out, &mut [0.0; 3])
    };
    let wide = View { data: &data, strides: [0, 0, 1 << 63, 1] };
    assert!(forward(wide, ViewMut::contiguous(&mut [0.0; 3], [1, 1, 3, 1])).is_err());
    let plain = View::contiguous(&data, [1, 1, 3, 1]);
    assert!(forward(plain, ViewMut::strided(&mut [0.0; 64], [0, 0, 1 << 63])).is_err());
    assert!(forward(plain, ViewMut::strided(&mut [0.0; 64], [0, 0, 0])).is_err());
    // A packed view knows where the next tensor starts.
    let wide = AttentionShape { d_head: 16, d_value: 8, ..shape };
    let mut packed = [0.0; 3 * 24];
    let [q, k, v] = ViewMut::packed(&mut packed, 3, [1, 1, 1], 8);
    let gradients = AttentionGradients { q, k, v, bias: None, distance: None };
    let view = View::contiguous(&data, [1, 1, 3, 16]);
    let error =
        attention_backward(wide, &AttentionOptions::default(), view, view, view, view, &[0.0; 3], view, gradients);
    assert!(error.unwrap_err().to_string().contains("packed"));
}

#[test]
fn threads_change_nothing_but_rounding_and_repeats_are_identical() {
    for (heads, bias) in [(1, false), (4, true)] {
        let mut options =
            OwnedOptions { band: Band::CAUSAL, dropout: Some(Dropout { probability: 0.2, seed: 9 }), ..plain(32) };
        if bias {
            options.bias = Some((values(300 * 300, 1), [0, 0, 300, 1]));
        }
        let case = Case::new(shape(2, heads, heads, 300, 300, 32), options, 7);
        on_every_isa(|_| {
            let (one, three) = (pool(1).install(|| case.run()), pool(3).install(|| case.run()));
            let again = pool(3).install(|| case.run());
            for (a, b) in three.grads.iter().zip(&again.grads) {
                assert_eq!(a, b);
            }
            assert_eq!(three.out, again.out);
            for (a, b) in one.grads.iter().zip(&three.grads) {
                let wide: Vec<f64> = b.iter().map(|&x| f64::from(x)).collect();
                close(a, &wide, 2e-5, "threads");
            }
        });
    }
}

#[test]
fn dropout_keeps_the_mean() {
    let (n, p) = (256, 0.3);
    let mut case = Case::new(
        shape(1, 1, 1, n, n, 4),
        OwnedOptions { dropout: Some(Dropout { probability: p, seed: 3 }), ..plain(4) },
        8,
    );
    // Equal scores and values of one: each output is kept / (n (1 − p)).
    case.q.fill(0.0);
    case.v.fill(1.0);
    let out = case.run().out;
    let mean = out.iter().sum::<f32>() / out.len() as f32;
    let deviation = (p / (1.0 - p) / (n * n) as f32).sqrt();
    assert!((mean - 1.0).abs() < 4.0 * deviation, "{mean} ± {deviation}");
}

#[test]
fn bad_input_is_refused_by_name() {
    let shape = shape(2, 4, 2, 5, 7, 8);
    let data = vec![0.0; 2 * 4 * 7 * 8];
    let attempt = |shape: AttentionShape, options: AttentionOptions<'_>| {
        let mut out = vec![0.0; data.len()];
        let mut lse = vec![0.0; shape.rows()];
        let view = |s| View::contiguous(&data, s);
        let (q, k, v) = (view(shape.query_shape()), view(shape.key_shape()), view(shape.value_shape()));
        let out = ViewMut::contiguous(&mut out, shape.output_shape());
        attention_forward(shape, &options, q, k, v, out, &mut lse).unwrap_err().to_string()
    };
    let options = AttentionOptions { scale: 1.0, ..AttentionOptions::default() };
    assert!(attempt(AttentionShape { kv_heads: 3, ..shape }, options).contains("n_heads"));
    assert!(attempt(AttentionShape { keys: 700, ..shape }, options).contains("keys"));
    assert!(attempt(shape, AttentionOptions { lengths: Some(&[1]), ..options }).contains("lengths"));
    assert!(attempt(shape, AttentionOptions { lengths: Some(&[1, 9]), ..options }).contains("9 at 1 of 7 keys"));
    let mask = BooleanMask { data: &[1; 34], strides: [0, 0, 7, 1] };
    assert!(attempt(shape, AttentionOptions { mask: Some(mask), ..options }).contains("mask"));
    let bias = View { data: &[0.0; 34], strides: [0, 0, 7, 1] };
    assert!(attempt(shape, AttentionOptions { bias: Some(bias), ..options }).contains("bias"));
    assert!(attempt(shape, AttentionOptions { distance: Some(&[0.0; 3]), ..options }).contains("distance"));
    let dropout = Dropout { probability: 1.0, seed: 0 };
    assert!(attempt(shape, AttentionOptions { dropout: Some(dropout), ..options }).contains("[0, 1)"));
    let sparse = SparseRows { offsets: &[0, 1, 2, 2, 2, 3], columns: &[0, 1, 7] };
    assert!(attempt(shape, AttentionOptions { sparse: Some(sparse), ..options }).contains("row 4"));
}
