//! The result of `regard look`: attention maps, pictures of a task's own, and how to read them.

use std::path::Path;

use regard_figures::{Content, Figure, Report, Saved, Section};
use regard_inspect::{AttentionView, InspectError, MapGroup, ViewFormat};
use regard_nn::{AttentionKind, AttentionMap, Side};
use regard_system::save_atomically;
use serde_json::Value;

use crate::error::TaskError;

/// How to read the attention maps of an input.
pub struct Legend {
    /// The input and the model's answer.
    pub title: String,
    /// Function that returns the tokens of a map's rows and columns, as a layer without heads.
    pub describe: Box<dyn Fn(&AttentionMap) -> MapGroup>,
    /// Function that draws the input and the answer as a picture, to be shown with the maps.
    pub draw: Option<Draw>,
}

/// Function that draws an input and its answer, and where the given maps look.
pub type Draw = Box<dyn Fn(&AttentionView) -> Result<Picture, TaskError>>;

impl Legend {
    /// Creates the legend of a model in which every layer has the same tokens as queries and as keys.
    pub fn of_tokens(title: impl Into<String>, tokens: Vec<String>) -> Self {
        Self::new(title, move |map| (tokens.clone(), tokens.clone(), map.site.words()))
    }

    /// Creates the legend of a translator that has read the tokens of `source` and of `read`, and predicts those of `written`. A
    /// row of cross-attention is labelled with the token that it predicts, one of self-attention with the token that it reads.
    pub fn of_translation(
        title: impl Into<String>,
        source: Vec<String>,
        read: Vec<String>,
        written: Vec<String>,
    ) -> Self {
        Self::new(title, move |map| {
            let (queries, keys) = match (map.site.kind, map.site.side) {
                (AttentionKind::Cross | AttentionKind::Alignment, _) => (&written, &source),
                (_, Some(Side::Decoder)) => (&read, &read),
                _ => (&source, &source),
            };
            (queries.clone(), keys.clone(), map.site.words())
        })
    }

    /// Creates a legend from a function that returns the queries, the keys and the layer name of a map.
    pub fn new(
        title: impl Into<String>,
        tokens: impl Fn(&AttentionMap) -> (Vec<String>, Vec<String>, String) + 'static,
    ) -> Self {
        let describe = move |map: &AttentionMap| {
            let (queries, keys, words) = tokens(map);
            MapGroup::of(map.site, queries, keys).named(words)
        };
        Self { title: title.into(), describe: Box::new(describe), draw: None }
    }

    /// Sets the function that draws the input and the answer.
    pub fn drawn(self, draw: impl Fn(&AttentionView) -> Result<Picture, TaskError> + 'static) -> Self {
        Self { draw: Some(Box::new(draw)), ..self }
    }

    /// Combines the maps that a pass has captured into a view.
    pub fn view(&self, maps: &[AttentionMap]) -> Result<AttentionView, InspectError> {
        AttentionView::from_maps(self.title.as_str(), maps, |map| Some((self.describe)(map)))
    }
}

/// A figure of a model, and the same as data.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// Figure for people.
    pub figure: Figure,
    /// Data of the figure in JSON, for programs.
    pub data: Value,
}

impl Picture {
    /// Appends the panels of another picture. The data become a list.
    fn join(mut self, other: Self) -> Self {
        self.figure.panels.extend(other.figure.panels);
        self.data = match self.data {
            Value::Array(mut list) => {
                list.push(other.data);
                Value::Array(list)
            }
            one => Value::Array(vec![one, other.data]),
        };
        self
    }
}

/// The result of `regard look`.
#[derive(Debug, Clone, PartialEq)]
pub enum Looked {
    /// Attention maps.
    Attention(AttentionView),
    /// The picture of a model without attention.
    Picture(Picture),
    /// A picture of input and answer, and the attention maps.
    Both(Picture, AttentionView),
}

impl From<AttentionView> for Looked {
    fn from(view: AttentionView) -> Self {
        Self::Attention(view)
    }
}

impl From<Picture> for Looked {
    fn from(picture: Picture) -> Self {
        Self::Picture(picture)
    }
}

impl Looked {
    /// Appends the result for another input of the same model.
    pub fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Attention(view), Self::Attention(other)) => Self::Attention(view.join(other)),
            (Self::Picture(picture), Self::Picture(other)) => Self::Picture(picture.join(other)),
            (Self::Both(picture, view), Self::Both(other, maps)) => Self::Both(picture.join(other), view.join(maps)),
            (one, _) => one,
        }
    }

    /// Returns the attention maps that a file of this format shows, if there are any.
    pub fn maps_in(&self, format: ViewFormat) -> Option<&AttentionView> {
        match (self, format) {
            (Self::Attention(view), _) | (Self::Both(_, view), ViewFormat::Html | ViewFormat::Json) => Some(view),
            (Self::Picture(_), _) | (Self::Both(..), ViewFormat::Svg | ViewFormat::Png) => None,
        }
    }

    /// Puts `words` before the titles of maps and panels, such as what was switched off.
    pub fn titled(mut self, words: &str) -> Self {
        if let Self::Attention(view) | Self::Both(_, view) = &mut self {
            view.title = format!("{words}: {}", view.title);
        }
        if let Self::Picture(picture) | Self::Both(picture, _) = &mut self {
            for panel in &mut picture.figure.panels {
                panel.title = format!("{words}: {}", panel.title);
            }
        }
        self
    }

    /// Puts the number of the input before the titles of the panels of a picture. Maps have the input itself in their titles.
    pub fn numbered(mut self, input: usize) -> Self {
        if let Self::Picture(picture) | Self::Both(picture, _) = &mut self {
            for panel in &mut picture.figure.panels {
                panel.title = format!("input {input}: {}", panel.title);
            }
        }
        self
    }

    /// Returns the result as a JSON document.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Attention(view) => view.to_json(),
            Self::Picture(picture) => picture.data.clone(),
            Self::Both(picture, view) => match (view.to_json(), picture.data.clone()) {
                // Several inputs have a list of maps and a list of pictures.
                (Value::Array(mut views), Value::Array(pictures)) if views.len() == pictures.len() => {
                    views.iter_mut().zip(pictures).for_each(|(view, picture)| view["picture"] = picture);
                    Value::Array(views)
                }
                (Value::Array(views), picture) => serde_json::json!({ "inputs": views, "picture": picture }),
                (mut view, picture) => {
                    view["picture"] = picture;
                    view
                }
            },
        }
    }

    /// Writes a file atomically, in the format of the path's extension: `.html`, `.svg`, `.png` or `.json`. Of a picture with
    /// maps, `.svg` and `.png` show the picture alone.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Saved, InspectError> {
        let path = path.as_ref();
        match (self, ViewFormat::of(path)?) {
            (Self::Attention(view), _) => view.save(path),
            // A picture already shows where attention looks; whole maps beside it would hide that.
            (Self::Picture(picture), ViewFormat::Html | ViewFormat::Svg | ViewFormat::Png)
            | (Self::Both(picture, _), ViewFormat::Svg | ViewFormat::Png) => Ok(picture.figure.save(path)?),
            (_, format) => {
                save_atomically(path, &self.to_file(format)?)?;
                Ok(Saved::default())
            }
        }
    }

    /// Returns the content of a file in a format, as [`save`](Self::save) writes it.
    pub fn to_file(&self, format: ViewFormat) -> Result<Vec<u8>, InspectError> {
        Ok(match (self, format) {
            (Self::Attention(view), _) => view.to_file(format)?,
            (_, ViewFormat::Json) => format!("{}\n", self.to_json()).into_bytes(),
            (Self::Picture(picture) | Self::Both(picture, _), ViewFormat::Svg) => picture.figure.to_svg().into_bytes(),
            (Self::Picture(picture) | Self::Both(picture, _), ViewFormat::Png) => picture.figure.to_png()?,
            (Self::Picture(picture), ViewFormat::Html) => picture.figure.to_html().into_bytes(),
            (Self::Both(picture, view), ViewFormat::Html) => {
                let maps = Section::new("Attention").content(view.to_interactive()?);
                let drawn = Section::new("Picture").content(Content::Figure(picture.figure.clone()));
                Report::new(view.title.as_str()).section(drawn).section(maps).to_html().into_bytes()
            }
        })
    }

    /// Returns the maps, if there are any.
    pub fn view(&self) -> Option<&AttentionView> {
        match self {
            Self::Attention(view) | Self::Both(_, view) => Some(view),
            Self::Picture(_) => None,
        }
    }

    /// Returns the picture, if there is one.
    pub fn picture(&self) -> Option<&Picture> {
        match self {
            Self::Picture(picture) | Self::Both(picture, _) => Some(picture),
            Self::Attention(_) => None,
        }
    }
}
