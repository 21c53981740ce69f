//! Messages between the ranks of a run.

use std::collections::BTreeMap;

use regard_ops::Moments;
use regard_system::Ranks;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::End;
use super::conditions::Conditions;
use crate::error::TaskError;
use crate::seal::{hexadecimal, sha256};
use crate::weights::{self, Stored};

/// Gives `own` to all ranks and returns the values of all, in rank order. Returns an error if any rank has left.
pub(crate) fn all<V: Serialize + DeserializeOwned>(ranks: &Ranks, own: &V) -> Result<Vec<V>, TaskError> {
    let texts = ranks.agree(Ok::<_, TaskError>(json(own)))?;
    texts.iter().enumerate().map(|(rank, text)| parsed(rank, text)).collect()
}

/// Gives the value of rank 0, which alone has one, to all ranks. Returns an error if any rank has left.
pub(crate) fn of_first<V: Serialize + DeserializeOwned>(ranks: &Ranks, own: Option<&V>) -> Result<V, TaskError> {
    parsed(0, &ranks.from_first(Ok::<_, TaskError>(own.map(json).unwrap_or_default()))?)
}

/// Returns an error if the conditions of the ranks differ, or their configurations.
pub(crate) fn check_conditions(ranks: &Ranks, conditions: &Conditions, config: &Value) -> Result<(), TaskError> {
    if ranks.is_alone() {
        return Ok(());
    }
    let Conditions { regard, instructions, threads, data, .. } = conditions;
    let facts = [
        ("version of Regard", regard.clone()),
        ("instruction set (REGARD_ISA)", instructions.clone()),
        ("number of threads (--threads)", threads.to_string()),
        ("hash of the configuration", sha256(config.to_string().as_bytes())),
        ("hash of the data", data.clone()),
    ];
    check_same(ranks, &facts)
}

/// Returns an error unless all ranks begin with the same weights, at the same step.
pub(super) fn check_weights(
    ranks: &Ranks,
    step: u64,
    tensors: &BTreeMap<String, Stored>,
    moments: &[Moments],
) -> Result<(), TaskError> {
    let (mut weights, mut averages) = (Sha256::new(), Sha256::new());
    weights::write(tensors, &mut weights).expect("a hash takes everything");
    for Moments { first, second, .. } in moments {
        first.iter().chain(second).for_each(|number| averages.update(number.to_le_bytes()));
    }
    let facts = [
        ("step", step.to_string()),
        ("hash of the weights", hexadecimal(weights)),
        ("hash of the optimiser's averages", hexadecimal(averages)),
    ];
    check_same(ranks, &facts)
}

/// Returns how a run ends now if any rank is asked to stop or late.
pub(super) fn end(ranks: &Ranks, is_asked: bool, is_late: bool) -> Result<Option<End>, TaskError> {
    let asked = match ranks.is_alone() {
        true => vec![(is_asked, is_late)],
        false => all(ranks, &(is_asked, is_late))?,
    };
    Ok(match asked.iter().any(|(is_asked, _)| *is_asked) {
        true => Some(End::Stopped),
        false => asked.iter().any(|(_, is_late)| *is_late).then_some(End::OutOfTime),
    })
}

/// Returns an error if a rank has another value of something than rank 0. `facts` are pairs of a name and a value.
pub(crate) fn check_same(ranks: &Ranks, facts: &[(&str, String)]) -> Result<(), TaskError> {
    let found: Vec<Vec<String>> = all(ranks, &facts.iter().map(|(_, value)| value.clone()).collect())?;
    for (rank, values) in found.iter().enumerate() {
        for ((name, _), (first, value)) in facts.iter().zip(found[0].iter().zip(values)) {
            if first != value {
                let got = format!("{value} on rank {rank}");
                return Err(TaskError::input(*name, format!("the same on all ranks, {first} as on rank 0"), got));
            }
        }
    }
    Ok(())
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("plain values")
}

fn parsed<V: DeserializeOwned>(rank: usize, text: &str) -> Result<V, TaskError> {
    serde_json::from_str(text).map_err(|error| {
        TaskError::input(format!("message of rank {rank}"), "one of this version of Regard", error.to_string())
    })
}
