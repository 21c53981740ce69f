//! Settings of a classifier of nodes that follow the data.

use super::Config;
use crate::auto::{Asked, Choice, Facts, Length, Reason, Work, by_size, count, share, significant};

/// Seconds of a step on the whole graph from which on steps see drawn neighbours.
const SLOW: f64 = 2.0;
/// Nodes of a batch with drawn neighbours, and the neighbours that are drawn in the first and in further layers.
const BATCH: usize = 1_000;
const DRAWN: (i64, i64) = (10, 5);

/// Nodes for each label below which labels are carried on along the edges.
const FEW_LABELS: f64 = 10.0;

/// Chooses the settings of a classifier of nodes by the number of those with labels and of edges.
pub(super) fn choose(facts: &Facts, asked: &Asked<Config>) -> Choice {
    let nodes = facts.examples as f64;
    // A graph of 340,000 nodes and a million edges takes 1.2 s.
    let whole = 3e-3 + 1e-6 * (facts.edges + facts.nodes) as f64;
    let is_drawn = whole > SLOW || !asked.config.data.neighbours.is_empty();
    let seen = if is_drawn { "of which each step sees drawn neighbours" } else { "all of which each step sees" };
    let mut data = Reason::new(format!("{} nodes and {} edges, {seen}", count(facts.nodes), count(facts.edges)));
    if is_drawn {
        let layers = asked.config.model.n_layers();
        let drawn: Vec<i64> = (0..layers).map(|layer| if layer == 0 { DRAWN.0 } else { DRAWN.1 }).collect();
        data = data.set("data.neighbours", drawn).count("train.batch_examples", BATCH);
    }
    // Few labels need strong dropout; many can be learnt by heart without harm.
    let dropout = share(by_size(nodes, &[(1e3, 0.6), (1e5, 0.3)]));
    let what = format!("{} labels, {} nodes for each", facts.labels.len(), count(facts.per_label()));
    let mut model = Reason::new(what)
        .count("model.d_model", asked.width(128.0))
        .number("model.dropout", dropout)
        .number("model.attention_dropout", dropout);
    // Where labels are rare most nodes are far from all of them: more layers and propagated predictions carry them on.
    let per_label = nodes / facts.labels.len().max(1) as f64;
    if !is_drawn && per_label < FEW_LABELS {
        let rounds = by_size(per_label, &[(1.0, 10.0), (4.0, 1.0), (FEW_LABELS, 0.0)]).round() as usize;
        model = model.count("model.n_layers", 3).count("model.propagation", rounds);
        if rounds > 0 {
            model = model.number("model.teleport", share(by_size(per_label, &[(1.0, 0.1), (4.0, 0.5)])));
        }
    }

    let work = match is_drawn {
        true => {
            let batches = (nodes / BATCH as f64).max(1.0);
            // A batch has at most this many nodes with all their neighbours.
            let most = (BATCH as i64 * (1 + DRAWN.0 * (1 + DRAWN.1))) as f64;
            Work { batches, seconds: batches * (3e-3 + 2e-6 * most) }
        }
        false => Work { batches: 1.0, seconds: whole },
    };
    let length = Length::new(work, if is_drawn { 20.0 } else { 2_000.0 }, 1.0, asked);
    let rate = by_size(nodes, &[(100.0, 5e-3), (1e4, 1e-2)]);
    let training = Reason::new(length.words()).number("train.learning_rate", significant(rate));
    // Scoring a small graph at each step costs little and finds the best moment; a large one is scored now and then.
    let training = match whole < 0.05 && !is_drawn {
        true => training.count("train.steps", length.steps as usize).count("train.patience", 100),
        false => length.settings(training, facts, usize::MAX / 4),
    };
    Choice(vec![data, model, training])
}
