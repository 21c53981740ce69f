//! Attention maps: how much each query attends to each key, in every layer and head, for one or several inputs.
//!
//! ```
//! use regard_inspect::{AttentionView, HeadMap, MapGroup};
//!
//! let tokens = ["the", "cat", "sat"];
//! let rows = vec![vec![1.0], vec![0.4, 0.6], vec![0.2, 0.5, 0.3]];
//! let group = MapGroup::new("layer 1", tokens, tokens).head(HeadMap { head: 0, rows });
//! let page = AttentionView::new("the cat sat").group(group).to_html()?;
//! assert!(page.contains("layer 1"));
//! # Ok::<(), regard_inspect::InspectError>(())
//! ```

mod figure;
mod json;
mod maps;
mod page;
mod rollout;
mod thumbnail;

use std::path::Path;

use regard_figures::{Format, Saved};
use regard_nn::Site;
use regard_system::{check_folder, save_atomically};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::InspectError;
pub use page::page_files;
pub use rollout::rollout;

/// Attention maps of one or several inputs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AttentionView {
    /// Title of the view, usually the input.
    pub title: String,
    /// Layers, in the order they are shown.
    pub groups: Vec<MapGroup>,
}

/// The attention maps of all heads of a layer, for one input.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MapGroup {
    /// Name of the input, if the view has several; the view's title if empty.
    pub input: String,
    /// Readable name of the layer: `encoder layer 1`, `decoder layer 2, cross-attention`, `alignment`.
    pub name: String,
    /// The layer of a model, or `None` for weights from elsewhere.
    pub site: Option<Site>,
    /// Tokens of the queries, one per row.
    pub queries: Vec<String>,
    /// Tokens of the keys, one per column.
    pub keys: Vec<String>,
    /// Maps of the heads.
    pub heads: Vec<HeadMap>,
}

/// The attention map of one head.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HeadMap {
    /// Index of the head in its layer, from 0.
    pub head: usize,
    /// Weights, a row per query. Missing weights count as zero; those beyond queries and keys are ignored.
    #[serde(deserialize_with = "weights")]
    pub rows: Vec<Vec<f32>>,
}

/// Reads weights. JSON has no number that is none and writes `null` instead.
fn weights<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Vec<f32>>, D::Error> {
    let rows = Vec::<Vec<Option<f32>>>::deserialize(from)?;
    Ok(rows.into_iter().map(|row| row.into_iter().map(|weight| weight.unwrap_or(f32::NAN)).collect()).collect())
}

/// File format of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ViewFormat {
    /// Interactive page.
    Html,
    /// Vector drawing of all maps.
    Svg,
    /// Bitmap of all maps.
    Png,
    /// Weights for programs.
    Json,
}

impl ViewFormat {
    /// Returns the format that the extension of the path names, in upper or lower case.
    pub fn of(path: impl AsRef<Path>) -> Result<Self, InspectError> {
        let path = path.as_ref();
        let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
        match Format::of(path) {
            _ if is_json => Ok(Self::Json),
            Ok(Format::Html) => Ok(Self::Html),
            Ok(Format::Svg) => Ok(Self::Svg),
            Ok(Format::Png) => Ok(Self::Png),
            Err(_) => Err(InspectError::Extension { path: path.to_path_buf() }),
        }
    }
}

impl AttentionView {
    /// Creates a view without maps.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), groups: Vec::new() }
    }

    /// Adds a layer.
    pub fn group(mut self, group: MapGroup) -> Self {
        self.groups.push(group);
        self
    }

    /// Adds the layers of another view. All layers keep the names of their inputs.
    pub fn join(mut self, other: Self) -> Self {
        for group in &mut self.groups {
            name_input(group, &self.title);
        }
        for mut group in other.groups {
            name_input(&mut group, &other.title);
            self.groups.push(group);
        }
        self
    }

    /// Returns the number of weights of all maps.
    pub fn weights(&self) -> usize {
        self.groups.iter().map(|group| group.cells() * group.heads.len()).sum()
    }

    /// Returns a self-contained page on which layer and head can be chosen and weights are shown under the pointer.
    pub fn to_html(&self) -> Result<String, InspectError> {
        let mut page = self.to_interactive()?;
        if page.title.is_empty() {
            page.title = "Attention".to_string();
        }
        Ok(page.to_html())
    }

    /// Writes the view atomically, in the format of the extension: `.html`, `.svg`, `.png` or `.json`.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Saved, InspectError> {
        let path = path.as_ref();
        match ViewFormat::of(path)? {
            ViewFormat::Svg | ViewFormat::Png => Ok(self.to_figure()?.save(path)?),
            format => {
                save_atomically(path, &self.to_file(format)?)?;
                Ok(Saved::default())
            }
        }
    }

    /// Returns the content of a file in a format.
    pub fn to_file(&self, format: ViewFormat) -> Result<Vec<u8>, InspectError> {
        Ok(match format {
            ViewFormat::Html => self.to_html()?.into_bytes(),
            ViewFormat::Json => format!("{}\n", self.to_json()).into_bytes(),
            ViewFormat::Svg => self.to_figure()?.to_svg().into_bytes(),
            ViewFormat::Png => self.to_figure()?.to_png()?,
        })
    }

    /// Returns an error if a view could not be saved here: the extension must name a format, and the folder must exist.
    pub fn check_path(path: impl AsRef<Path>) -> Result<(), InspectError> {
        let path = path.as_ref();
        ViewFormat::of(path)?;
        Ok(check_folder(path)?)
    }

    /// Returns the inputs in order, each with its layers.
    fn inputs(&self) -> Vec<(&str, Vec<&MapGroup>)> {
        let mut inputs: Vec<(&str, Vec<&MapGroup>)> = Vec::new();
        for group in &self.groups {
            let name = if group.input.is_empty() { self.title.as_str() } else { group.input.as_str() };
            match inputs.iter_mut().find(|(known, _)| *known == name) {
                Some((_, groups)) => groups.push(group),
                None => inputs.push((name, vec![group])),
            }
        }
        inputs
    }
}

impl MapGroup {
    /// Creates a group without heads.
    pub fn new<S: Into<String>, T: Into<String>>(
        name: impl Into<String>,
        queries: impl IntoIterator<Item = S>,
        keys: impl IntoIterator<Item = T>,
    ) -> Self {
        let queries = queries.into_iter().map(Into::into).collect();
        let keys = keys.into_iter().map(Into::into).collect();
        Self { input: String::new(), name: name.into(), site: None, queries, keys, heads: Vec::new() }
    }

    /// Creates a group without heads for a layer of a model.
    pub fn of<S: Into<String>, T: Into<String>>(
        site: Site,
        queries: impl IntoIterator<Item = S>,
        keys: impl IntoIterator<Item = T>,
    ) -> Self {
        Self { site: Some(site), ..Self::new(site.words(), queries, keys) }
    }

    /// Changes the readable name of the layer.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Returns the name of a head, such as `encoder.0.2`, or `head 2` if the layer belongs to no model.
    pub fn head_name(&self, head: usize) -> String {
        match self.site {
            Some(site) => site.head_of(head, self.heads.len().max(head + 1)),
            None => format!("head {head}"),
        }
    }

    /// Returns the layer's site with its readable name: `encoder.0 (encoder layer 1)`.
    fn label(&self) -> String {
        match self.site.map(|site| site.to_string()) {
            Some(site) if site != self.name => format!("{site} ({})", self.name),
            _ => self.name.clone(),
        }
    }

    /// Sets the name of the input.
    pub fn input(mut self, input: impl Into<String>) -> Self {
        self.input = input.into();
        self
    }

    /// Adds a head.
    pub fn head(mut self, head: HeadMap) -> Self {
        self.heads.push(head);
        self
    }

    fn cells(&self) -> usize {
        self.queries.len() * self.keys.len()
    }
}

impl HeadMap {
    /// Returns the rows, each cut or padded with zeros to the number of keys.
    fn weights(&self, group: &MapGroup) -> impl Iterator<Item = Vec<f32>> {
        let keys = group.keys.len();
        (0..group.queries.len()).map(move |query| {
            let row = self.rows.get(query).map_or(&[][..], Vec::as_slice);
            let mut row = row[..row.len().min(keys)].to_vec();
            row.resize(keys, 0.0);
            row
        })
    }
}

fn name_input(group: &mut MapGroup, title: &str) {
    if group.input.is_empty() {
        group.input = title.to_string();
    }
}
