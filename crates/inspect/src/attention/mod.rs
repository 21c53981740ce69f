//! Attention maps to look at: which query looks at which key, in every layer and head, for one input or several.
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

use std::path::Path;

use regard_figures::{Figure, Format, Interactive, Saved};
use regard_nn::Site;
use regard_system::{check_folder, save_atomically};

use crate::error::InspectError;

/// The attention maps of one input or of several.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AttentionView {
    /// What is looked at: the input, as a rule.
    pub title: String,
    /// A layer each, in the order they are shown.
    pub groups: Vec<MapGroup>,
}

/// The heads of one layer, for one input.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MapGroup {
    /// The input it belongs to, where a view has several; empty says that of the view's title.
    pub input: String,
    /// What people call the layer: `encoder layer 1`, `decoder layer 2, cross-attention`, `alignment`.
    pub name: String,
    /// The layer of a model that it is; none for weights from elsewhere.
    pub site: Option<Site>,
    /// The tokens that look, a row each.
    pub queries: Vec<String>,
    /// The tokens looked at, a column each.
    pub keys: Vec<String>,
    /// The maps.
    pub heads: Vec<HeadMap>,
}

/// The weights of one head.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HeadMap {
    /// The number of the head in its layer, from 0.
    pub head: usize,
    /// A row a query, a weight a key. Missing ones are zero, those beyond queries and keys are left out.
    pub rows: Vec<Vec<f32>>,
}

/// How a view is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewFormat {
    /// A page to move about in.
    Html,
    /// A drawing of all maps.
    Svg,
    /// The same in pixels.
    Png,
    /// The weights, for programs.
    Json,
}

impl ViewFormat {
    /// What the extension of the path says, in any case.
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
    /// A view without maps.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), groups: Vec::new() }
    }

    /// The same with a layer more.
    pub fn group(mut self, group: MapGroup) -> Self {
        self.groups.push(group);
        self
    }

    /// The same with the layers of another, which keep the name of their input.
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

    /// A drawing of all maps, a row of panels a layer.
    pub fn to_figure(&self) -> Result<Figure, InspectError> {
        Ok(figure::draw(self)?)
    }

    /// A page that needs nothing else, with a choice of layer and head, and weights under the pointer.
    pub fn to_html(&self) -> Result<String, InspectError> {
        let mut page = self.to_interactive()?;
        if page.title.is_empty() {
            page.title = "Attention".to_string();
        }
        Ok(page.to_html())
    }

    /// Returns the maps as a part of a report.
    pub fn to_interactive(&self) -> Result<Interactive, InspectError> {
        page::interactive(self)
    }

    /// For programs: `{"input", "tokens", "maps": [{"name", "words", "side", "layer", "kind", "head", "queries", "keys",
    /// "weights"}]}`, a list of such objects where there are several inputs. `tokens` are the keys of the first layer, layers
    /// and heads count from 0, weights have four decimals, and one that is not finite is `null`.
    pub fn to_json(&self) -> serde_json::Value {
        json::document(self)
    }

    /// Writes the view as the extension of the path says: `.html`, `.svg`, `.png` or `.json`; atomically.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Saved, InspectError> {
        let path = path.as_ref();
        let content = match ViewFormat::of(path)? {
            ViewFormat::Html => self.to_html()?,
            ViewFormat::Json => format!("{}\n", self.to_json()),
            ViewFormat::Svg | ViewFormat::Png => return Ok(self.to_figure()?.save(path)?),
        };
        save_atomically(path, content.as_bytes())?;
        Ok(Saved::default())
    }

    /// Whether a view can be saved there, as far as that is known before there is one: the extension names a format,
    /// and the folder exists.
    pub fn check_path(path: impl AsRef<Path>) -> Result<(), InspectError> {
        let path = path.as_ref();
        ViewFormat::of(path)?;
        Ok(check_folder(path)?)
    }

    /// The inputs in their order, each with its layers.
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
    /// A layer without heads.
    pub fn new<S: Into<String>, T: Into<String>>(
        name: impl Into<String>,
        queries: impl IntoIterator<Item = S>,
        keys: impl IntoIterator<Item = T>,
    ) -> Self {
        let queries = queries.into_iter().map(Into::into).collect();
        let keys = keys.into_iter().map(Into::into).collect();
        Self { input: String::new(), name: name.into(), site: None, queries, keys, heads: Vec::new() }
    }

    /// A layer of a model, without heads.
    pub fn of<S: Into<String>, T: Into<String>>(
        site: Site,
        queries: impl IntoIterator<Item = S>,
        keys: impl IntoIterator<Item = T>,
    ) -> Self {
        Self { site: Some(site), ..Self::new(site.words(), queries, keys) }
    }

    /// The same under another name, such as one that says more.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// The name of a head: `encoder.0.2`; its number alone where the layer is of no model.
    pub fn head_name(&self, head: usize) -> String {
        match self.site {
            Some(site) => site.head_of(head, self.heads.len().max(head + 1)),
            None => format!("head {head}"),
        }
    }

    /// The layer with its name: `encoder.0 (encoder layer 1)`.
    fn label(&self) -> String {
        match self.site.map(|site| site.to_string()) {
            Some(site) if site != self.name => format!("{site} ({})", self.name),
            _ => self.name.clone(),
        }
    }

    /// The same as of a named input.
    pub fn input(mut self, input: impl Into<String>) -> Self {
        self.input = input.into();
        self
    }

    /// The same with a head more.
    pub fn head(mut self, head: HeadMap) -> Self {
        self.heads.push(head);
        self
    }

    fn cells(&self) -> usize {
        self.queries.len() * self.keys.len()
    }
}

impl HeadMap {
    /// Row after row, each as long as there are keys.
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
