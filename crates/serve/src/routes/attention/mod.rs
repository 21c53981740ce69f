//! `POST /v1/attention`: where a model looks, as numbers, as summaries of all heads or as a file.

pub mod maps;
mod passes;

use std::ops::Range;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::{CONTENT_DISPOSITION, HeaderValue};
use regard_inspect::{AttentionView, InspectError, ViewFormat};
use regard_nn::{Inventory, Site, Wanted};
use regard_tasks::Opened;
use regard_tasks::input::Given;
use regard_tasks::task::{Looked, Picture, Prediction};
use serde::Deserialize;
use serde_json::{Map, Value};

use self::maps::{Chosen, Document, HeadWeights};
use super::Call;
use super::predict::{changes, document, given};
use crate::body::{Response, json_response, response};
use crate::error::{ApiError, WorkError};
use crate::multipart::Inputs;
use crate::queue::{Answer, Look, Work};
use crate::summary::{HeadSummary, Summary};

/// Largest number of weights of a drawing, which would otherwise take minutes.
const MOST_DRAWN: usize = 4_000_000;
/// Largest number of tokens of a rollout, which multiplies square matrices of that size.
const MOST_ROLLED: usize = 512;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    model: Option<String>,
    input: Value,
    layers: Option<Vec<String>>,
    rows: Option<(usize, usize)>,
    columns: Option<(usize, usize)>,
    without: Option<String>,
    temperature: Option<f64>,
    #[serde(default)]
    summary: bool,
    #[serde(default)]
    rollout: bool,
    #[serde(default)]
    picture: bool,
    format: Option<ViewFormat>,
}

pub async fn answer(call: Call, body: Incoming) -> Result<Response, ApiError> {
    let request: Request = call.read_with_files(body, Inputs::One).await?;
    let Request { summary, rollout, format, .. } = request;
    if format.is_some() && (summary || rollout) {
        return Err(ApiError::invalid("format", "expected no format together with summary or rollout"));
    }
    let entry = call.app.models.find(request.model.as_deref())?;
    let worker = entry.worker();
    let inventory = worker.model.inventory();
    let chosen = request.layers.map(|names| chosen(&names, inventory)).transpose()?;
    let rows = range("rows", request.rows)?;
    let columns = range("columns", request.columns)?;
    let changes = changes(worker.model.as_ref(), request.without, request.temperature)?;
    let (reader, input) = (Arc::clone(&worker), request.input);
    let (given, tokens) = call.blocking(move || given(&reader, input)).await?;
    // A rollout needs the maps of all layers.
    let is_kept =
        |site: &Site| rollout || chosen.as_ref().is_none_or(|chosen| chosen.iter().any(|(known, _)| known == site));
    let kept: Vec<(Site, usize)> = inventory.layers.iter().copied().filter(|(site, _)| is_kept(site)).collect();
    if rollout && tokens > MOST_ROLLED {
        return Err(too_long(tokens));
    }
    let wanted = match summary && !rollout {
        true => passes::of(&kept, bound(worker.model.as_ref(), &given, tokens))?,
        false => {
            // A single head is computed alone.
            let alone = matches!(chosen.as_deref(), Some([(_, Some(_))])) && !rollout;
            let counted: Vec<_> = kept.iter().map(|&(site, heads)| (site, if alone { 1 } else { heads })).collect();
            passes::check(&counted, tokens)?;
            let layers = kept.iter().map(|(site, _)| *site).collect();
            // Of a single head nothing else is computed.
            let heads = match chosen.as_deref() {
                Some([(_, head)]) if !rollout => head.map(|head| vec![head]),
                _ => None,
            };
            vec![Wanted { layers: Some(layers), heads, ..Wanted::default() }]
        }
    };
    let look = Look { given, wanted, changes, is_summary: summary && !rollout };
    let found = call.one(&worker, Work::Look(Box::new(look)), tokens).await?;
    if let (Answer::Looked(looked, _), Some(format)) = (&found, format) {
        return file(&call, Arc::clone(looked), format).await;
    }
    let name = entry.folder.name.clone();
    let wish = Wish { chosen, rows, columns, summary, rollout, picture: request.picture };
    // Large maps take a while to write.
    call.blocking(move || match found {
        Answer::Looked(looked, predicted) => wish.looked(&name, &looked, worker.model.inventory(), predicted.as_ref()),
        Answer::Summary(found, predicted) => {
            let heads = Some(summarised(&found, wish.chosen.as_deref()));
            let picture = found.picture.as_ref().filter(|_| wish.picture);
            Ok(written(&name, &found.tokens, Vec::new(), heads, picture, predicted.as_ref()))
        }
        _ => Err(WorkError::Failed("no maps".to_string()).into()),
    })
    .await
}

/// What of the maps a client wants.
struct Wish {
    /// Layers and heads; all by default.
    chosen: Option<Vec<Chosen>>,
    rows: Range<usize>,
    columns: Range<usize>,
    summary: bool,
    rollout: bool,
    picture: bool,
}

impl Wish {
    /// Writes the answer from whole maps.
    fn looked(
        &self,
        model: &str,
        looked: &Looked,
        inventory: &Inventory,
        predicted: Option<&Prediction>,
    ) -> Result<Response, ApiError> {
        if looked.view().is_none() && !self.picture {
            return Err(WorkError::Unsupported("this model has no attention".to_string()).into());
        }
        let none = AttentionView::default();
        let view = looked.view().unwrap_or(&none);
        let longest = view.groups.iter().map(|group| group.queries.len()).max().unwrap_or(0);
        let rolled = match self.rollout {
            true if longest > MOST_ROLLED => return Err(too_long(longest)),
            true => maps::rollouts(view),
            false => Vec::new(),
        };
        let tokens: &[String] = view.groups.first().map_or(&[], |group| &group.keys);
        let (mut all, mut summary) = (Vec::new(), None);
        match self.summary {
            true => {
                let mut found = Summary::default();
                found.add(view, inventory);
                summary = Some(found);
            }
            false => {
                all = maps::of(view, tokens, Some(inventory), self.chosen.as_deref(), &self.rows, &self.columns);
            }
        }
        all.extend(rolled.iter().map(|rollout| rollout.map(&self.rows, &self.columns)));
        let heads = summary.as_ref().map(|found| summarised(found, self.chosen.as_deref()));
        Ok(written(model, tokens, all, heads, looked.picture().filter(|_| self.picture), predicted))
    }
}

fn too_long(tokens: usize) -> ApiError {
    let said = format!("expected at most {MOST_ROLLED} tokens for a rollout, got {tokens}");
    ApiError::too_large("rollout", said)
}

fn written(
    model: &str,
    tokens: &[String],
    maps: Vec<HeadWeights>,
    heads: Option<Vec<&HeadSummary>>,
    picture: Option<&Picture>,
    predicted: Option<&Prediction>,
) -> Response {
    let picture = picture.map(|picture| picture.figure.to_svg());
    let prediction: Option<Map<String, Value>> = predicted.map(document);
    json_response(StatusCode::OK, &Document { model, tokens, maps, heads, picture, prediction })
}

fn summarised<'a>(summary: &'a Summary, chosen: Option<&[Chosen]>) -> Vec<&'a HeadSummary> {
    summary.heads.iter().filter(|head| chosen.is_none_or(|chosen| head.is_among(chosen))).collect()
}

/// Returns about how many tokens an input has. Some models know it when they read the input only; few have tokens of less than two
/// bytes on average.
fn bound(model: &dyn Opened, given: &Given, tokens: usize) -> usize {
    match given.text() {
        Ok(text) if model.checkpoint().is_none() && model.writer().is_none() => {
            (text.len() / 2 + 2).min(passes::MOST_TOKENS)
        }
        _ => tokens,
    }
}

/// Answers with the file that `regard look --out` writes.
async fn file(call: &Call, looked: Arc<Looked>, format: ViewFormat) -> Result<Response, ApiError> {
    let found = looked.view().map_or(0, AttentionView::weights);
    if matches!(format, ViewFormat::Svg | ViewFormat::Png) && found > MOST_DRAWN {
        let said = format!("expected at most {MOST_DRAWN} weights to draw, got {found}; choose fewer layers");
        return Err(ApiError::too_large("format", said));
    }
    let (kind, name) = match format {
        ViewFormat::Html => ("text/html; charset=utf-8", "attachment; filename=\"attention.html\""),
        ViewFormat::Svg => ("image/svg+xml", "attachment; filename=\"attention.svg\""),
        ViewFormat::Png => ("image/png", "attachment; filename=\"attention.png\""),
        ViewFormat::Json => ("application/json", "attachment; filename=\"attention.json\""),
    };
    let content = call.blocking(move || looked.to_file(format).map_err(refused)).await?;
    let mut answer = response(StatusCode::OK, kind, content);
    answer.headers_mut().insert(CONTENT_DISPOSITION, HeaderValue::from_static(name));
    Ok(answer)
}

fn refused(error: InspectError) -> ApiError {
    ApiError::too_large("format", error.to_string())
}

/// Finds layers and heads by their names.
fn chosen(names: &[String], inventory: &Inventory) -> Result<Vec<Chosen>, ApiError> {
    let most = inventory.layers.iter().map(|(_, heads)| heads + 1).sum();
    if names.len() > most {
        let said = format!("expected at most {most} names, as many as layers and heads, got {}", names.len());
        return Err(ApiError::invalid("layers", said));
    }
    let find = |name: &String| {
        inventory.find(name).ok_or_else(|| {
            let said =
                format!("no layer or head is called {}; there are {}", regard_data::excerpt(name), inventory.list());
            ApiError::invalid("layers", said)
        })
    };
    names.iter().map(find).collect()
}

/// Returns a range of rows or columns; all by default.
fn range(name: &'static str, given: Option<(usize, usize)>) -> Result<Range<usize>, ApiError> {
    let (first, end) = given.unwrap_or((0, usize::MAX));
    match first < end {
        true => Ok(first..end),
        false => Err(ApiError::invalid(name, format!("expected [from, to] with from below to, got [{first}, {end}]"))),
    }
}
