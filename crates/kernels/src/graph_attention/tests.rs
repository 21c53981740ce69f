use super::*;
use crate::attention::SparseRows;
use crate::dropout::dropout_forward;
use crate::isa::{on_every_isa, pool};
use crate::test_support::{assert_close, central_differences, inner, numbers, wide};
use proptest::prelude::*;

/// Creates a graph from the sources of each target.
fn graph(rows: &[Vec<usize>], n_sources: usize) -> Edges {
    let mut offsets = vec![0];
    offsets.extend(rows.iter().scan(0, |sum, row| {
        *sum += row.len();
        Some(*sum)
    }));
    Edges::new(SparseRows { offsets: &offsets, columns: &rows.concat() }, n_sources).unwrap()
}

/// Creates a graph in which an edge exists with probability `share`; target 1 has none, target 2 and source 0 have all.
fn random_graph(n_targets: usize, n_sources: usize, share: f32, seed: u64) -> Edges {
    let draws = numbers(n_targets * n_sources, seed, 0.5);
    let has = |i: usize, j: usize| i != 1 && (i == 2 || j == 0 || draws[i * n_sources + j] + 0.5 < share);
    let rows: Vec<Vec<usize>> = (0..n_targets).map(|i| (0..n_sources).filter(|&j| has(i, j)).collect()).collect();
    graph(&rows, n_sources)
}

struct Case {
    edges: Edges,
    shape: GraphAttentionShape,
    options: GraphAttentionOptions,
    h: Vec<f32>,
    source_scores: Vec<f32>,
    target_scores: Vec<f32>,
    grad: Vec<f32>,
}

#[derive(Debug, PartialEq)]
struct Results {
    out: Vec<f32>,
    log_sum_exp: Vec<f32>,
    h: Vec<f32>,
    source_scores: Vec<f32>,
    target_scores: Vec<f32>,
}

impl Case {
    fn new(edges: Edges, n_heads: usize, d_head: usize, seed: u64) -> Self {
        let (n_sources, n_targets) = (edges.n_sources(), edges.n_targets());
        Self {
            edges,
            shape: GraphAttentionShape { n_heads, d_head },
            options: GraphAttentionOptions { slope: 0.2, dropout: None },
            h: numbers(n_sources * n_heads * d_head, seed, 1.0),
            source_scores: numbers(n_sources * n_heads, seed + 1, 3.0),
            target_scores: numbers(n_targets * n_heads, seed + 2, 3.0),
            grad: numbers(n_targets * n_heads * d_head, seed + 3, 1.0),
        }
    }

    fn inputs(&self) -> GraphAttentionInputs<'_> {
        let Case { h, source_scores, target_scores, .. } = self;
        GraphAttentionInputs { h, source_scores, target_scores }
    }

    fn run(&self) -> Results {
        let Case { edges, shape, options, .. } = self;
        let mut results = Results {
            out: vec![f32::NAN; self.grad.len()],
            log_sum_exp: vec![f32::NAN; self.target_scores.len()],
            h: vec![f32::NAN; self.h.len()],
            source_scores: vec![f32::NAN; self.source_scores.len()],
            target_scores: vec![f32::NAN; self.target_scores.len()],
        };
        let Results { out, log_sum_exp, h, source_scores, target_scores } = &mut results;
        graph_attention_forward(edges, *shape, *options, self.inputs(), out, log_sum_exp).unwrap();
        let gradients = GraphAttentionGradients { h, source_scores, target_scores };
        graph_attention_backward(edges, *shape, *options, self.inputs(), log_sum_exp, &self.grad, gradients).unwrap();
        results
    }

    fn weights(&self) -> Vec<f32> {
        let mut out = vec![f32::NAN; self.edges.len() * self.shape.n_heads];
        let Case { edges, shape, options, source_scores, target_scores, .. } = self;
        graph_attention_weights(edges, shape.n_heads, options.slope, source_scores, target_scores, &mut out).unwrap();
        out
    }

    /// Returns the factors by which dropout multiplies the weights.
    fn factors(&self) -> Vec<f64> {
        let mut out = vec![1.0; self.edges.len() * self.shape.n_heads];
        if let Some(Dropout { probability, seed }) = self.options.dropout {
            dropout_forward(&vec![1.0; out.len()], probability, seed, &mut out).unwrap();
        }
        wide(&out)
    }

    /// Computes outputs, log-sum-exps and weights in f64; `x` holds `h`, source scores and target scores one after another.
    fn exact(&self, x: &[f64]) -> [Vec<f64>; 3] {
        let GraphAttentionShape { n_heads, d_head } = self.shape;
        let (h, scores) = x.split_at(self.h.len());
        let (s, t) = scores.split_at(self.source_scores.len());
        let factors = self.factors();
        let mut out = vec![0.0; self.grad.len()];
        let mut log_sum_exp = vec![f64::NEG_INFINITY; self.target_scores.len()];
        let mut weights = vec![0.0; factors.len()];
        for i in 0..self.edges.n_targets() {
            for head in 0..n_heads {
                let score = |edge: usize| {
                    let sum = s[self.edges.sources()[edge] as usize * n_heads + head] + t[i * n_heads + head];
                    if sum > 0.0 { sum } else { f64::from(self.options.slope) * sum }
                };
                let max = self.edges.incoming(i).map(score).fold(f64::NEG_INFINITY, f64::max);
                if max == f64::NEG_INFINITY {
                    continue;
                }
                let total: f64 = self.edges.incoming(i).map(|edge| (score(edge) - max).exp()).sum();
                log_sum_exp[i * n_heads + head] = max + total.ln();
                for edge in self.edges.incoming(i) {
                    let weight = (score(edge) - max).exp() / total;
                    weights[edge * n_heads + head] = weight;
                    let source = self.edges.sources()[edge] as usize;
                    for x in 0..d_head {
                        out[(i * n_heads + head) * d_head + x] +=
                            weight * factors[edge * n_heads + head] * h[(source * n_heads + head) * d_head + x];
                    }
                }
            }
        }
        [out, log_sum_exp, weights]
    }

    fn check(&self) {
        let x = [wide(&self.h), wide(&self.source_scores), wide(&self.target_scores)].concat();
        let [out, log_sum_exp, weights] = self.exact(&x);
        let gradient = central_differences(&x, |x| inner(&self.exact(x)[0], &wide(&self.grad)));
        let (h, scores) = gradient.split_at(self.h.len());
        let (sources, targets) = scores.split_at(self.source_scores.len());
        on_every_isa(|isa| {
            let got = self.run();
            assert_close("out", isa, &got.out, &out, 2e-6, 2e-6);
            assert_close("log-sum-exp", isa, &got.log_sum_exp, &log_sum_exp, 1e-6, 1e-6);
            assert_close("weights", isa, &self.weights(), &weights, 1e-37, 3e-6);
            assert_close("grad of h", isa, &got.h, h, 5e-6, 5e-6);
            assert_close("grad of source scores", isa, &got.source_scores, sources, 1e-5, 1e-5);
            assert_close("grad of target scores", isa, &got.target_scores, targets, 1e-5, 1e-5);
        });
    }
}

#[test]
fn agrees_with_the_formula() {
    for (n_targets, n_sources, n_heads, d_head) in [(5, 5, 1, 1), (7, 7, 8, 8), (4, 9, 3, 17), (9, 4, 2, 5)] {
        Case::new(random_graph(n_targets, n_sources, 0.4, 5), n_heads, d_head, 10).check();
    }
    // 70 features are four vectors, further vectors and a tail, for vectors of any width.
    Case::new(random_graph(4, 4, 0.5, 6), 1, 70, 11).check();
    // More heads than lanes.
    Case::new(random_graph(4, 4, 0.5, 6), 19, 2, 12).check();
}

#[test]
fn special_graphs() {
    Case::new(graph(&[vec![]], 1), 2, 3, 1).check();
    Case::new(graph(&[vec![0]], 1), 2, 3, 1).check();
    Case::new(graph(&[], 4), 2, 3, 1).check();
    Case::new(graph(&[vec![], vec![]], 0), 2, 3, 1).check();
    // With self-loops alone the weights are 1.
    let loops = Case::new(graph(&[vec![0], vec![1], vec![2]], 3), 2, 3, 1);
    loops.check();
    assert_eq!(loops.weights(), [1.0; 6]);
    // A node that all nodes lead to, and one that leads to all.
    let mut rows = vec![vec![0]; 40];
    rows[7] = (0..40).collect();
    Case::new(graph(&rows, 40), 2, 4, 1).check();
    // No features and no heads.
    Case::new(random_graph(4, 4, 0.5, 6), 2, 0, 1).check();
    Case::new(random_graph(4, 4, 0.5, 6), 0, 3, 1).check();
}

#[test]
fn any_slope() {
    for slope in [0.0, 1.0, -0.5, 3.0] {
        let mut case = Case::new(random_graph(5, 5, 0.5, 2), 2, 3, 3);
        case.options.slope = slope;
        case.check();
    }
}

#[test]
fn dropout_is_the_same_in_both_passes() {
    for probability in [0.0, 0.3, 0.9] {
        let mut case = Case::new(random_graph(6, 6, 0.6, 2), 3, 5, 3);
        case.options.dropout = Some(Dropout { probability, seed: 9 });
        case.check();
    }
}

#[test]
fn dropout_leaves_out_the_share_it_should() {
    // With one source for each target and a feature of 1, the output is the weight after dropout.
    let n = 3000;
    let rows: Vec<Vec<usize>> = (0..n).map(|i| vec![i]).collect();
    let mut case = Case::new(graph(&rows, n), 8, 1, 3);
    case.h.fill(1.0);
    case.options.dropout = Some(Dropout { probability: 0.3, seed: 9 });
    let out = case.run().out;
    let count = out.len() as f64;
    let dropped = out.iter().filter(|&&x| x == 0.0).count() as f64 / count;
    // Four standard errors.
    assert!((dropped - 0.3).abs() < 4.0 * (0.3 * 0.7 / count).sqrt(), "{dropped}");
    assert!(out.iter().all(|&x| x == 0.0 || (x - 1.0 / 0.7).abs() < 1e-6));
    case.options.dropout = Some(Dropout { probability: 0.3, seed: 10 });
    assert_ne!(out, case.run().out);
}

/// Returns a graph that is large enough for many blocks.
fn large() -> Case {
    let mut case = Case::new(random_graph(300, 300, 0.1, 4), 4, 9, 5);
    case.options.dropout = Some(Dropout { probability: 0.4, seed: 1 });
    case
}

#[test]
fn large_graphs_agree_with_the_formula() {
    let case = large();
    let entries = case.edges.len() * 4 * (9 + EDGE);
    assert!(entries > 2 * SERIAL, "{entries}");
    let x = [wide(&case.h), wide(&case.source_scores), wide(&case.target_scores)].concat();
    let [out, log_sum_exp, weights] = case.exact(&x);
    on_every_isa(|isa| {
        let got = case.run();
        assert_close("out", isa, &got.out, &out, 2e-6, 2e-6);
        assert_close("log-sum-exp", isa, &got.log_sum_exp, &log_sum_exp, 1e-6, 1e-6);
        assert_close("weights", isa, &case.weights(), &weights, 1e-37, 3e-6);
        // The output is linear in `h`, and a change of all scores of a head by one number passes through the ReLU only.
        let wanted = inner(&out, &wide(&case.grad));
        let got_inner = inner(&wide(&got.h), &wide(&case.h));
        assert!((got_inner - wanted).abs() < 1e-3, "{isa:?}: {got_inner}, expected {wanted}");
        let [sources, targets] = [&got.source_scores, &got.target_scores].map(|x| wide(x).iter().sum::<f64>());
        assert!((sources - targets).abs() < 1e-3, "{isa:?}: {sources}, expected {targets}");
    });
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    let case = large();
    let on = |threads| pool(threads).install(|| (case.run(), case.weights()));
    on_every_isa(|isa| {
        let one = on(1);
        assert!(one == on(2) && one == on(5), "{isa:?}");
    });
}

#[test]
fn extreme_scores() {
    let mut case = Case::new(random_graph(4, 4, 0.7, 1), 2, 3, 3);
    case.source_scores[0] = 1e4;
    case.source_scores[3] = -1e4;
    case.target_scores[5] = -3e4;
    let x = [wide(&case.h), wide(&case.source_scores), wide(&case.target_scores)].concat();
    let [out, _, weights] = case.exact(&x);
    on_every_isa(|isa| {
        // The scores are rounded to 1/512 at 3e4.
        assert_close("out", isa, &case.run().out, &out, 4e-3, 4e-3);
        assert_close("weights", isa, &case.weights(), &weights, 1e-37, 4e-3);
    });
}

#[test]
fn a_node_that_sees_nothing_gives_zeros() {
    // No edge to node 1; node 3 has edges, but every score of a head is −∞.
    let mut case = Case::new(random_graph(5, 5, 0.6, 7), 2, 3, 8);
    case.target_scores[3 * 2] = f32::NEG_INFINITY;
    on_every_isa(|isa| {
        let got = case.run();
        assert_eq!(got.out[6..12], [0.0; 6], "{isa:?}");
        assert_eq!(got.log_sum_exp[2..4], [f32::NEG_INFINITY; 2], "{isa:?}");
        assert_eq!(got.target_scores[2..4], [0.0; 2], "{isa:?}");
        assert_eq!((&got.out[18..21], got.target_scores[6]), (&[0.0; 3][..], 0.0), "{isa:?}");
        assert!([&got.out, &got.h, &got.source_scores].into_iter().flatten().all(|x| x.is_finite()), "{isa:?}");
    });
}

#[test]
fn nan_comes_through() {
    let rows = [vec![0, 1], vec![1, 2], vec![2], vec![]];
    for probability in [0.0, 0.9] {
        let case = || {
            let mut case = Case::new(graph(&rows, 3), 1, 2, 8);
            case.options.dropout = Some(Dropout { probability, seed: 1 });
            case
        };
        on_every_isa(|isa| {
            let nan = |x: &[f32]| x.iter().map(|x| x.is_nan()).collect::<Vec<_>>();
            let mut from_feature = case();
            from_feature.h[0] = f32::NAN;
            assert_eq!(
                nan(&from_feature.run().out),
                [true, false, false, false, false, false, false, false],
                "{isa:?}"
            );
            assert_eq!(nan(&from_feature.run().target_scores), [true, false, false, false], "{isa:?}");
            assert_eq!(nan(&from_feature.run().source_scores), [true, true, false], "{isa:?}");
            let mut from_source = case();
            from_source.source_scores[0] = f32::NAN;
            let got = from_source.run();
            assert_eq!(nan(&got.out), [true, true, false, false, false, false, false, false], "{isa:?}");
            assert_eq!(nan(&got.h), [true, true, true, true, false, false], "{isa:?}");
            assert_eq!(nan(&from_source.weights()), [true, true, false, false, false], "{isa:?}");
            let mut from_target = case();
            from_target.target_scores[1] = f32::NAN;
            assert_eq!(nan(&from_target.run().log_sum_exp), [false, true, false, false], "{isa:?}");
            let mut from_grad = case();
            from_grad.grad[0] = f32::NAN;
            assert_eq!(nan(&from_grad.run().h), [true, false, true, false, false, false], "{isa:?}");
        });
    }
}

#[test]
fn nan_stays_in_its_head() {
    // With fewer features than lanes, a load reaches into the next head and the next node.
    let clean = Case::new(random_graph(4, 4, 1.0, 7), 3, 2, 8);
    on_every_isa(|isa| {
        let want = clean.run();
        let mut case = Case::new(random_graph(4, 4, 1.0, 7), 3, 2, 8);
        for node in 0..4 {
            case.h[(node * 3 + 1) * 2] = f32::NAN;
            case.grad[(node * 3 + 1) * 2] = f32::NAN;
        }
        let got = case.run();
        let same = |got: &[f32], want: &[f32], width: usize| {
            got.iter().zip(want).enumerate().all(|(i, (got, want))| i / width % 3 == 1 || got == want)
        };
        assert!(same(&got.out, &want.out, 2) && same(&got.h, &want.h, 2), "{isa:?}");
        assert!(same(&got.source_scores, &want.source_scores, 1), "{isa:?}");
        assert!(same(&got.target_scores, &want.target_scores, 1), "{isa:?}");
    });
}

#[test]
fn sizes_and_options_are_checked() {
    let case = Case::new(random_graph(5, 4, 0.6, 7), 2, 3, 8);
    let Case { edges, shape, options, h, source_scores, target_scores, grad } = &case;
    let sizes = (grad.len(), target_scores.len());
    let forward = |options, inputs, out: usize, log_sum_exp: usize| {
        let (mut out, mut log_sum_exp) = (vec![0.0; out], vec![0.0; log_sum_exp]);
        graph_attention_forward(edges, *shape, options, inputs, &mut out, &mut log_sum_exp)
    };
    forward(*options, case.inputs(), sizes.0, sizes.1).unwrap();
    assert!(forward(*options, case.inputs(), sizes.0 - 1, sizes.1).is_err());
    assert!(forward(*options, case.inputs(), sizes.0, sizes.1 + 1).is_err());
    for inputs in [
        GraphAttentionInputs { h: &h[1..], ..case.inputs() },
        GraphAttentionInputs { source_scores: &source_scores[1..], ..case.inputs() },
        GraphAttentionInputs { target_scores: &target_scores[1..], ..case.inputs() },
    ] {
        assert!(forward(*options, inputs, sizes.0, sizes.1).is_err());
    }
    for slope in [f32::NAN, f32::INFINITY] {
        let bad = GraphAttentionOptions { slope, dropout: None };
        assert!(forward(bad, case.inputs(), sizes.0, sizes.1).is_err(), "{slope}");
    }
    for probability in [1.0, -0.1, f32::NAN] {
        let bad = GraphAttentionOptions { slope: 0.2, dropout: Some(Dropout { probability, seed: 1 }) };
        assert!(forward(bad, case.inputs(), sizes.0, sizes.1).is_err(), "{probability}");
    }
    let weights =
        |len: usize| graph_attention_weights(edges, 2, 0.2, source_scores, target_scores, &mut vec![0.0; len]).is_ok();
    assert!(weights(edges.len() * 2) && !weights(edges.len() * 2 - 1));
    let backward = |log_sum_exp: &[f32], grad: &[f32], [a, b, c]: [usize; 3]| {
        let (mut a, mut b, mut c) = (vec![0.0; a], vec![0.0; b], vec![0.0; c]);
        let gradients = GraphAttentionGradients { h: &mut a, source_scores: &mut b, target_scores: &mut c };
        graph_attention_backward(edges, *shape, *options, case.inputs(), log_sum_exp, grad, gradients).is_ok()
    };
    let lengths = [h.len(), source_scores.len(), target_scores.len()];
    let log_sum_exp = &case.run().log_sum_exp;
    assert!(backward(log_sum_exp, grad, lengths));
    assert!(!backward(&log_sum_exp[1..], grad, lengths));
    assert!(!backward(log_sum_exp, &grad[1..], lengths));
    for wrong in 0..3 {
        let mut lengths = lengths;
        lengths[wrong] += 1;
        assert!(!backward(log_sum_exp, grad, lengths));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_size(n_targets in 0_usize..8, n_sources in 1_usize..8, n_heads in 1_usize..4, d_head in 1_usize..20,
                share in 0.0_f32..1.0, seed in 0_u64..999, drop in any::<bool>()) {
        let mut case = Case::new(random_graph(n_targets, n_sources, share, seed), n_heads, d_head, seed);
        case.options.dropout = drop.then_some(Dropout { probability: 0.5, seed });
        case.check();
    }
}
