//! `POST /v1/attention`: where a model looks.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::body::Incoming;
use regard_inspect::AttentionView;
use regard_nn::{Inventory, Site, Wanted};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Call;
use super::predict::{document, given, without};
use crate::body::{Response, json_response};
use crate::error::{ApiError, WorkError};
use crate::multipart::Inputs;
use crate::queue::{Answer, Work};

/// Largest number of weights of an input, all layers and heads together.
const MOST_WEIGHTS: usize = 50_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    model: Option<String>,
    input: Value,
    layers: Option<Vec<String>>,
    rows: Option<(usize, usize)>,
    without: Option<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    model: &'a str,
    tokens: &'a [String],
    maps: Vec<HeadWeights<'a>>,
    prediction: Option<Map<String, Value>>,
}

/// The map of one head.
#[derive(Serialize)]
struct HeadWeights<'a> {
    name: String,
    /// Tokens of the rows, if they are not those of the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    queries: Option<&'a [String]>,
    /// Tokens of the columns, if they are not those of the input.
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<&'a [String]>,
    first_row: usize,
    rows: &'a [Vec<f32>],
}

/// A layer, or one head of it.
type Chosen = (Site, Option<usize>);

pub async fn answer(call: Call, body: Incoming) -> Result<Response, ApiError> {
    let request: Request = call.read_with_files(body, Inputs::One).await?;
    let entry = call.app.models.find(request.model.as_deref())?;
    let worker = entry.worker();
    let inventory = worker.model.inventory();
    let chosen = request.layers.map(|names| chosen(&names, inventory)).transpose()?;
    let (first, end) = request.rows.unwrap_or((0, usize::MAX));
    if first >= end {
        return Err(ApiError::invalid("rows", format!("expected [from, to] with from below to, got [{first}, {end}]")));
    }
    let without = without(worker.model.as_ref(), request.without)?;
    let reader = Arc::clone(&worker);
    let input = request.input;
    let (given, tokens) = call.blocking(move || given(&reader, input)).await?;
    let sites: Option<Vec<Site>> = chosen.as_ref().map(|chosen| chosen.iter().map(|(site, _)| *site).collect());
    let is_kept = |site: &Site| sites.as_ref().is_none_or(|sites| sites.contains(site));
    let heads: usize = inventory.layers.iter().filter(|(site, _)| is_kept(site)).map(|(_, heads)| heads).sum();
    let weights = heads.saturating_mul(tokens).saturating_mul(tokens);
    if worker.model.checkpoint().is_some() && weights > MOST_WEIGHTS {
        let said =
            format!("expected at most {MOST_WEIGHTS} weights, got {weights}; ask for fewer layers or a shorter input");
        return Err(ApiError::too_large("input", said));
    }
    let wanted = Wanted { layers: sites, ..Wanted::default() };
    let mut answers = call.work(&worker, vec![(Work::Look(given, wanted, without), tokens)]).await?;
    let Answer::View(view, predicted) = answers.pop().unwrap_or(Err(WorkError::Retired))? else {
        return Err(WorkError::Failed("no maps".to_string()).into());
    };
    let tokens: &[String] = view.groups.first().map_or(&[], |group| &group.keys);
    let document = Document {
        model: &entry.folder.name,
        tokens,
        maps: maps(&view, tokens, inventory, chosen.as_deref(), (first, end)),
        prediction: predicted.as_ref().map(document),
    };
    Ok(json_response(StatusCode::OK, &document))
}

/// Finds layers and heads by their names.
fn chosen(names: &[String], inventory: &Inventory) -> Result<Vec<Chosen>, ApiError> {
    let find = |name: &String| {
        inventory.find(name).ok_or_else(|| {
            let said =
                format!("no layer or head is called {}; there are {}", regard_data::excerpt(name), inventory.list());
            ApiError::invalid("layers", said)
        })
    };
    names.iter().map(find).collect()
}

fn maps<'a>(
    view: &'a AttentionView,
    tokens: &[String],
    inventory: &Inventory,
    chosen: Option<&[Chosen]>,
    (first, end): (usize, usize),
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
            let name = group.site.map_or_else(|| group.name.clone(), |site| inventory.name(&site, head.head));
            let own = |other: &'a Vec<String>| (other.as_slice() != tokens).then_some(other.as_slice());
            let (first, end) = (first.min(head.rows.len()), end.min(head.rows.len()));
            let (queries, keys) = (own(&group.queries), own(&group.keys));
            found.push(HeadWeights { name, queries, keys, first_row: first, rows: &head.rows[first..end.max(first)] });
        }
    }
    found
}
