//! Settings of a classifier of nodes that follow the data.

use super::Config;
use crate::auto::{Asked, Choice, Facts, Length, Reason, Work, by_size, count, share};

/// Chooses the settings of a classifier of nodes by the number of those with labels and of edges.
pub(super) fn choose(facts: &Facts, asked: &Asked<Config>) -> Choice {
    let nodes = facts.examples as f64;
    let about = format!("{} nodes and {} edges, all of which each step sees", count(facts.nodes), count(facts.edges));
    let data = Reason::new(about);
    // Few labels need strong dropout; many can be learnt by heart without harm.
    let dropout = share(by_size(nodes, &[(1e3, 0.6), (1e5, 0.3)]));
    let what = format!("{} labels, {} nodes for each", facts.labels.len(), count(facts.per_label()));
    let model = Reason::new(what)
        .count("model.d_model", asked.width(if nodes < 2e3 { 64.0 } else { 128.0 }))
        .number("model.dropout", dropout)
        .number("model.attention_dropout", dropout);
    // 2.4 million edges with both directions take 1.2 s.
    let seconds = 3e-3 + 1.0e-6 * facts.edges as f64 + 1e-6 * facts.nodes as f64;
    let length = Length::new(Work { batches: 1.0, seconds }, 2000.0, 1.0, asked);
    let rate = by_size(nodes, &[(100.0, 5e-3), (1e4, 1e-2)]);
    let training = Reason::new(length.words())
        .count("train.steps", length.steps as usize)
        .count("train.patience", 100)
        .number("train.learning_rate", crate::auto::significant(rate));
    Choice(vec![data, model, training])
}
