//! Summaries of attention maps, small enough for an overview of all heads of a long input.

use rayon::prelude::*;
use regard_inspect::{AttentionView, HeadMap, MapGroup};
use regard_nn::{Inventory, Site};
use regard_tasks::heads::{Measured, measured};
use regard_tasks::task::Picture;
use serde::Serialize;

/// Largest number of rows and columns of a thumbnail.
const SIDE: usize = 32;

/// Summaries of the maps of an input.
#[derive(Debug, Default)]
pub struct Summary {
    /// Tokens of the first layer's keys.
    pub tokens: Vec<String>,
    /// Summary of each head.
    pub heads: Vec<HeadSummary>,
    /// Picture of the input, if the task draws one.
    pub picture: Option<Picture>,
}

/// The summary of a head's map.
#[derive(Debug, Serialize)]
pub struct HeadSummary {
    #[serde(skip)]
    site: Option<Site>,
    #[serde(skip)]
    head: usize,
    name: String,
    /// Tokens of the rows, if they are not those of the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    queries: Option<Vec<String>>,
    /// Tokens of the columns, if they are not those of the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<Vec<String>>,
    /// The map made small; a cell is the largest of the weights that it stands for.
    thumbnail: Vec<Vec<f64>>,
    #[serde(flatten)]
    measured: Measured,
}

impl HeadSummary {
    /// Returns whether the summary belongs to one of these layers and heads.
    pub fn is_among(&self, chosen: &[(Site, Option<usize>)]) -> bool {
        chosen.iter().any(|(site, one)| Some(*site) == self.site && one.is_none_or(|one| one == self.head))
    }
}

impl Summary {
    /// Adds the maps of a view.
    pub fn add(&mut self, view: &AttentionView, inventory: &Inventory) {
        if let Some(group) = view.groups.first().filter(|_| self.tokens.is_empty()) {
            self.tokens = group.keys.clone();
        }
        for group in &view.groups {
            let own = |other: &Vec<String>| (*other != self.tokens).then(|| other.clone());
            let (queries, keys) = (own(&group.queries), own(&group.keys));
            let heads = group.heads.par_iter().zip(measured(group)).map(|(head, measured)| HeadSummary {
                site: group.site,
                head: head.head,
                name: name(group, head, Some(inventory)),
                queries: queries.clone(),
                keys: keys.clone(),
                thumbnail: head.thumbnail(group, SIDE).into_iter().map(rounded).collect(),
                measured,
            });
            self.heads.par_extend(heads);
        }
    }
}

/// Returns the name of a head; all heads of its layer are in the group if there is no inventory.
pub fn name(group: &MapGroup, head: &HeadMap, inventory: Option<&Inventory>) -> String {
    match (group.site, inventory) {
        (Some(site), Some(inventory)) => inventory.name(&site, head.head),
        (Some(_), None) => group.head_name(head.head),
        (None, _) => group.name.clone(),
    }
}

/// Rounds to four decimals, as f64: an f32 would print with more digits.
fn rounded(row: Vec<f32>) -> Vec<f64> {
    row.into_iter().map(|weight| (f64::from(weight) * 1e4).round() / 1e4).collect()
}
