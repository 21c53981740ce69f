//! Comparison of all metrics with sacrebleu, scikit-learn, SciPy and seqeval, by `golden/metrics.json`.

use serde::Deserialize;

use super::*;

const TOLERANCE: f64 = 1e-9;

#[derive(Deserialize)]
struct Golden {
    translation: Vec<Translation>,
    classes: Vec<Classes>,
    label_sets: Vec<LabelSets>,
    regression: Vec<Numbers>,
    spans: Vec<Spans>,
}

#[derive(Deserialize)]
struct Translation {
    name: String,
    hypotheses: Vec<String>,
    references: Vec<Vec<String>>,
    bleu: Bleu,
    chrf: f64,
    chrf_plus_plus: f64,
    sentence_bleu: Vec<f64>,
    sentence_chrf: Vec<f64>,
}

#[derive(Deserialize)]
struct Classes {
    classes: usize,
    truth: Vec<usize>,
    predicted: Vec<usize>,
    confusion: Vec<Vec<u64>>,
    accuracy: f64,
    precision: Vec<f64>,
    recall: Vec<f64>,
    f1: Vec<f64>,
    support: Vec<u64>,
    macro_f1: f64,
    weighted_f1: f64,
}

#[derive(Deserialize)]
struct LabelSets {
    labels: usize,
    truth: Vec<Vec<usize>>,
    predicted: Vec<Vec<usize>>,
    subset_accuracy: f64,
    micro_f1: f64,
    macro_f1: f64,
    f1: Vec<f64>,
}

#[derive(Deserialize)]
struct Numbers {
    truth: Vec<f64>,
    predicted: Vec<f64>,
    #[serde(flatten)]
    expected: Regression,
}

#[derive(Deserialize)]
struct Spans {
    truth: Vec<Vec<String>>,
    predicted: Vec<Vec<String>>,
    scores: SpanScores,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("../../../../golden/metrics.json")).expect("golden/metrics.json is readable")
}

#[track_caller]
fn assert_near(what: &str, ours: f64, theirs: f64) {
    assert!((ours - theirs).abs() <= TOLERANCE, "{what}: {ours} instead of {theirs}");
}

#[test]
fn translation_scores_match_sacrebleu() {
    let cases = golden().translation;
    assert!(cases.len() > 70);
    for case in &cases {
        let ours = bleu(&case.hypotheses, &case.references);
        let name = &case.name;
        assert_eq!(ours.hypothesis_len, case.bleu.hypothesis_len, "{name}");
        assert_eq!(ours.reference_len, case.bleu.reference_len, "{name}");
        for (n, (ours, theirs)) in ours.precisions.into_iter().zip(case.bleu.precisions).enumerate() {
            assert_near(&format!("{name}, precision {n}"), ours, theirs);
        }
        assert_near(&format!("{name}, brevity penalty"), ours.brevity_penalty, case.bleu.brevity_penalty);
        assert_near(&format!("{name}, BLEU"), ours.score, case.bleu.score);
        let character = chrf(&case.hypotheses, &case.references, ChrfOptions::default());
        assert_near(&format!("{name}, chrF"), character, case.chrf);
        let words = chrf(&case.hypotheses, &case.references, ChrfOptions::plus_plus());
        assert_near(&format!("{name}, chrF++"), words, case.chrf_plus_plus);
        for (i, (hypothesis, references)) in case.hypotheses.iter().zip(&case.references).enumerate() {
            let ours = sentence_bleu(hypothesis, references).score;
            assert_near(&format!("{name}, sentence {i}, BLEU"), ours, case.sentence_bleu[i]);
            let ours = sentence_chrf(hypothesis, references, ChrfOptions::default());
            assert_near(&format!("{name}, sentence {i}, chrF"), ours, case.sentence_chrf[i]);
        }
    }
}

#[test]
fn class_scores_match_scikit_learn() {
    for case in golden().classes {
        let confusion = Confusion::from_pairs(case.classes, &case.truth, &case.predicted);
        assert_eq!(confusion.matrix(), case.confusion);
        let report = confusion.report();
        assert_near("accuracy", report.accuracy, case.accuracy);
        assert_near("macro F1", report.macro_f1, case.macro_f1);
        assert_near("weighted F1", report.weighted_f1, case.weighted_f1);
        assert_eq!(report.classes.len(), case.classes);
        for (i, class) in report.classes.iter().enumerate() {
            assert_near("precision", class.precision, case.precision[i]);
            assert_near("recall", class.recall, case.recall[i]);
            assert_near("F1", class.f1, case.f1[i]);
            assert_eq!(class.support, case.support[i]);
        }
    }
}

#[test]
fn label_set_scores_match_scikit_learn() {
    for case in golden().label_sets {
        let ours = label_sets(case.labels, &case.truth, &case.predicted);
        assert_near("subset accuracy", ours.subset_accuracy, case.subset_accuracy);
        assert_near("micro F1", ours.micro_f1, case.micro_f1);
        assert_near("macro F1", ours.macro_f1, case.macro_f1);
        assert_eq!(ours.labels.len(), case.f1.len());
        for (label, theirs) in ours.labels.iter().zip(case.f1) {
            assert_near("F1", label.f1, theirs);
        }
    }
}

#[test]
fn regression_scores_match_scikit_learn() {
    for Numbers { truth, predicted, expected } in golden().regression {
        let ours = regression(&truth, &predicted);
        assert_near("MSE", ours.mse, expected.mse);
        assert_near("MAE", ours.mae, expected.mae);
        for (what, ours, theirs) in [("R²", ours.r2, expected.r2), ("Pearson", ours.pearson, expected.pearson)] {
            assert_eq!(ours.is_some(), theirs.is_some(), "{what}");
            assert_near(what, ours.unwrap_or(0.0), theirs.unwrap_or(0.0));
        }
    }
}

#[test]
fn span_scores_match_conlleval() {
    for case in golden().spans {
        let ours = span_scores(&case.truth, &case.predicted);
        assert!(ours.kinds.keys().eq(case.scores.kinds.keys()));
        let scores = ours.kinds.values().chain([&ours.all]).zip(case.scores.kinds.values().chain([&case.scores.all]));
        for (ours, theirs) in scores {
            assert_near("precision", ours.precision, theirs.precision);
            assert_near("recall", ours.recall, theirs.recall);
            assert_near("F1", ours.f1, theirs.f1);
            assert_eq!(ours.support, theirs.support);
        }
    }
}
