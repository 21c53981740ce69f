//! A figure: what is to be seen, not how.

use std::path::Path;

use regard_system::{check_folder, save_atomically};

use crate::error::FigureError;
use crate::fonts::Fonts;
use crate::html::page;
use crate::layout::{Part, draw};
use crate::panel::PanelKind;
use crate::raster::rasterise;

/// A title, panels in a grid, and notes beneath.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Above all panels.
    pub title: String,
    /// Sentences beneath the panels: what is to be seen, and how it was made.
    pub notes: Vec<String>,
    /// From left to right, then down.
    pub panels: Vec<Panel>,
    /// How many panels stand side by side.
    pub columns: Columns,
}

/// One picture of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Above the panel; may be empty.
    pub title: String,
    /// What it shows.
    pub kind: PanelKind,
}

/// A figure that has been written to a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "it may have a note for the reader"]
pub struct Saved {
    /// Characters that are boxes in the picture.
    pub(crate) lacking: Vec<char>,
}

impl Saved {
    /// What the reader should know of the file, in one line.
    pub fn note(&self) -> Option<String> {
        const SHOWN: usize = 8;
        let some: Vec<String> = self.lacking.iter().take(SHOWN).map(char::to_string).collect();
        let more = if self.lacking.len() > SHOWN { " …" } else { "" };
        let some = some.join(" ") + more;
        let note = format!("no font here has {some}, drawn as boxes in the PNG; write .svg or .html to see them");
        (!self.lacking.is_empty()).then_some(note)
    }
}

/// How many panels stand side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    /// The number that a screen holds, in rows that are evenly filled.
    Auto,
    /// Given, at least one.
    Fixed(usize),
}

/// How a figure is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A drawing.
    Svg,
    /// Pixels.
    Png,
    /// A page.
    Html,
}

impl Format {
    /// What the extension of the path says, in any case.
    pub fn of(path: impl AsRef<Path>) -> Result<Self, FigureError> {
        let path = path.as_ref();
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
        match extension.as_str() {
            "svg" => Ok(Self::Svg),
            "png" => Ok(Self::Png),
            "html" => Ok(Self::Html),
            _ => Err(FigureError::Extension { path: path.to_path_buf() }),
        }
    }
}

impl Figure {
    /// A figure without panels.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), notes: Vec::new(), panels: Vec::new(), columns: Columns::Auto }
    }

    /// The same with a sentence beneath.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The same with a panel more.
    pub fn panel(mut self, title: impl Into<String>, kind: impl Into<PanelKind>) -> Self {
        self.push(title, kind);
        self
    }

    /// Adds a panel.
    pub fn push(&mut self, title: impl Into<String>, kind: impl Into<PanelKind>) {
        self.panels.push(Panel { title: title.into(), kind: kind.into() });
    }

    /// The same with `count` panels side by side.
    pub fn columns(mut self, count: usize) -> Self {
        self.columns = Columns::Fixed(count);
        self
    }

    /// The drawing as an SVG document.
    pub fn to_svg(&self) -> String {
        draw(self, Part::All)
    }

    /// The drawing as a PNG, two pixels for one of the SVG (one where that would be too large).
    ///
    /// Characters that the fonts of this crate lack (Chinese, emoji) are drawn with fonts of the machine, and as boxes
    /// where it has none; SVG and HTML take them from the reader's fonts.
    pub fn to_png(&self) -> Result<Vec<u8>, FigureError> {
        self.png().map(|(png, _)| png)
    }

    fn png(&self) -> Result<(Vec<u8>, Saved), FigureError> {
        let svg = self.to_svg();
        let fonts = Fonts::of(&svg);
        Ok((rasterise(&svg, &fonts)?, Saved { lacking: fonts.lacking }))
    }

    /// A page that needs nothing else: the drawing, with tables and text as such, and the notes.
    pub fn to_html(&self) -> String {
        page(self)
    }

    /// Draws the figure as the extension of the path says: `.svg`, `.png` or `.html`. The file is written atomically.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Saved, FigureError> {
        let path = path.as_ref();
        let (content, saved) = match Format::of(path)? {
            Format::Svg => (self.to_svg().into_bytes(), Saved::default()),
            Format::Png => self.png()?,
            Format::Html => (self.to_html().into_bytes(), Saved::default()),
        };
        save_atomically(path, &content)?;
        Ok(saved)
    }

    /// Whether a figure can be saved there, as far as that is known before there is one: the extension names a format,
    /// and the folder exists.
    pub fn check_path(path: impl AsRef<Path>) -> Result<(), FigureError> {
        let path = path.as_ref();
        Format::of(path)?;
        Ok(check_folder(path)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_some_of_the_boxes() {
        assert_eq!(Saved::default().note(), None);
        let note = |text: &str| Saved { lacking: text.chars().collect() }.note().unwrap();
        let end = ", drawn as boxes in the PNG; write .svg or .html to see them";
        assert_eq!(note("日本"), format!("no font here has 日 本{end}"));
        assert_eq!(note("一二三四五六七八九十"), format!("no font here has 一 二 三 四 五 六 七 八 …{end}"));
    }
}
