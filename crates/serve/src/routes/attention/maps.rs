//! The JSON document of attention maps.

use std::ops::Range;

use regard_inspect::{AttentionView, MapGroup, rollout};
use regard_nn::{AttentionKind, Inventory, Side, Site};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::summary::{HeadSummary, name};

/// A layer, or one head of it.
pub type Chosen = (Site, Option<usize>);

/// The maps of an input.
#[derive(Serialize)]
pub struct Document<'a> {
    pub model: &'a str,
    pub tokens: &'a [String],
    pub maps: Vec<HeadWeights<'a>>,
    /// Summaries, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heads: Option<Vec<&'a HeadSummary>>,
    /// Picture of the input as SVG, if it was asked for and the task draws one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub picture: Option<String>,
    pub prediction: Option<Map<String, Value>>,
}

/// The map of one head.
#[derive(Serialize)]
pub struct HeadWeights<'a> {
    name: String,
    /// Tokens of the rows, if they are not those of the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    queries: Option<&'a [String]>,
    /// Tokens of the columns, if they are not those of the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<&'a [String]>,
    first_row: usize,
    #[serde(skip_serializing_if = "is_zero")]
    first_column: usize,
    rows: Vec<&'a [f32]>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// Returns the chosen maps of a view; all by default.
pub fn of<'a>(
    view: &'a AttentionView,
    tokens: &[String],
    inventory: Option<&Inventory>,
    chosen: Option<&[Chosen]>,
    rows: &Range<usize>,
    columns: &Range<usize>,
) -> Vec<HeadWeights<'a>> {
    let mut found = Vec::new();
    for group in &view.groups {
        for head in &group.heads {
            let is_chosen = |chosen: &[Chosen]| {
                chosen.iter().any(|(site, one)| Some(*site) == group.site && one.is_none_or(|one| one == head.head))
            };
            if chosen.is_some_and(|chosen| !is_chosen(chosen)) {
                continue;
            }
            let own = |other: &'a Vec<String>| (other.as_slice() != tokens).then_some(other.as_slice());
            let name = name(group, head, inventory);
            found.push(HeadWeights {
                queries: own(&group.queries),
                keys: own(&group.keys),
                ..part(name, &head.rows, rows, columns)
            });
        }
    }
    found
}

/// Returns some rows and columns of a map.
fn part<'a>(name: String, all: &'a [Vec<f32>], rows: &Range<usize>, columns: &Range<usize>) -> HeadWeights<'a> {
    let within = |range: &Range<usize>, count: usize| {
        let first = range.start.min(count);
        first..range.end.min(count).max(first)
    };
    let rows = within(rows, all.len());
    let first_column = columns.start.min(all.first().map_or(0, Vec::len));
    let cut = |row: &'a Vec<f32>| &row[within(columns, row.len())];
    let (first_row, rows) = (rows.start, all[rows].iter().map(cut).collect());
    HeadWeights { name, queries: None, keys: None, first_row, first_column, rows }
}

/// The rollout of a stack: how much each token depends on each token of the input through all of its layers.
pub struct Rollout<'a> {
    name: String,
    tokens: &'a [String],
    is_input: bool,
    rows: Vec<Vec<f32>>,
}

impl Rollout<'_> {
    /// Returns some rows and columns of the rollout.
    pub fn map(&self, rows: &Range<usize>, columns: &Range<usize>) -> HeadWeights<'_> {
        let own = (!self.is_input).then_some(self.tokens);
        HeadWeights { queries: own, keys: own, ..part(self.name.clone(), &self.rows, rows, columns) }
    }
}

/// Computes the rollout of each stack that has one, of self-attention over the same tokens in all layers: `rollout`, or
/// `rollout.encoder` and `rollout.decoder`.
pub fn rollouts(view: &AttentionView) -> Vec<Rollout<'_>> {
    let tokens = view.groups.first().map(|group| &group.keys);
    let mut found = Vec::new();
    for side in [None, Some(Side::Encoder), Some(Side::Decoder)] {
        let is_of = |group: &&MapGroup| {
            group.site.is_some_and(|site| site.side == side && site.kind == AttentionKind::SelfAttention)
        };
        let layers: Vec<&MapGroup> = view.groups.iter().filter(is_of).collect();
        let Some(rows) = rollout(layers.iter().copied()) else { continue };
        let name = side.map_or_else(|| "rollout".to_string(), |side| format!("rollout.{side}"));
        let own = &layers[0].keys;
        found.push(Rollout { name, tokens: own, is_input: Some(own) == tokens, rows });
    }
    found
}
