//! Figures: titled panels with notes, and how they are saved.

use std::path::Path;

use regard_system::{check_folder, save_atomically};

use crate::error::FigureError;
use crate::fonts::Fonts;
use crate::html::page;
use crate::layout::{Part, draw};
use crate::panel::PanelKind;
use crate::raster::rasterise;

/// A figure: a title, panels in a grid, and notes below them.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Title above all panels.
    pub title: String,
    /// Sentences below the panels that say what they show and how it was made.
    pub notes: Vec<String>,
    /// Panels from left to right, then from top to bottom.
    pub panels: Vec<Panel>,
    /// Number of panels side by side.
    pub columns: Columns,
}

/// A panel of a figure with its title.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Title above the panel; may be empty.
    pub title: String,
    /// Content of the panel.
    pub kind: PanelKind,
}

/// Outcome of saving a figure.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "it may hold a note for the user"]
pub struct Saved {
    /// Characters that no font has, drawn as boxes in the picture.
    pub(crate) lacking: Vec<char>,
}

impl Saved {
    /// Returns a line that tells the user which characters are missing from the picture, if there are any.
    pub fn note(&self) -> Option<String> {
        const SHOWN: usize = 8;
        let some: Vec<String> = self.lacking.iter().take(SHOWN).map(char::to_string).collect();
        let more = if self.lacking.len() > SHOWN { " …" } else { "" };
        let some = some.join(" ") + more;
        let note = format!("no font here has {some}: drawn as boxes in the PNG; save as .svg or .html to see them");
        (!self.lacking.is_empty()).then_some(note)
    }
}

/// Number of panels side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    /// The number that fits on a screen, in evenly filled rows.
    Auto,
    /// This many; 0 counts as 1.
    Fixed(usize),
}

/// File format of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Vector drawing.
    Svg,
    /// Raster image.
    Png,
    /// Web page.
    Html,
}

impl Format {
    /// Returns the format that the extension of a path selects, in upper or lower case.
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
    /// Creates a figure without panels.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), notes: Vec::new(), panels: Vec::new(), columns: Columns::Auto }
    }

    /// Adds a note below the panels.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds a panel and returns the figure.
    pub fn panel(mut self, title: impl Into<String>, kind: impl Into<PanelKind>) -> Self {
        self.push(title, kind);
        self
    }

    /// Adds a panel in place.
    pub fn push(&mut self, title: impl Into<String>, kind: impl Into<PanelKind>) {
        self.panels.push(Panel { title: title.into(), kind: kind.into() });
    }

    /// Sets the number of panels side by side.
    pub fn columns(mut self, count: usize) -> Self {
        self.columns = Columns::Fixed(count);
        self
    }

    /// Draws the figure as an SVG document.
    pub fn to_svg(&self) -> String {
        draw(self, Part::All)
    }

    /// Draws the figure as a PNG at twice the size of the SVG, or at the same size if that would be too large.
    ///
    /// Characters that the embedded fonts lack (Chinese, emoji) are drawn with system fonts, or as boxes if no system font has
    /// them. In SVG and HTML they are drawn with the fonts of the reader's machine.
    pub fn to_png(&self) -> Result<Vec<u8>, FigureError> {
        self.png().map(|(png, _)| png)
    }

    fn png(&self) -> Result<(Vec<u8>, Saved), FigureError> {
        let svg = self.to_svg();
        let fonts = Fonts::of(&svg);
        Ok((rasterise(&svg, &fonts)?, Saved { lacking: fonts.lacking }))
    }

    /// Returns a self-contained page: the drawing, tables and texts as HTML, and the notes.
    pub fn to_html(&self) -> String {
        page(self)
    }

    /// Saves the figure atomically, in the format that the extension of the path selects: `.svg`, `.png` or `.html`.
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

    /// Checks, before there is a figure, that the extension of the path is that of a format and that the folder exists.
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
    fn a_note_names_some_of_the_missing_characters() {
        assert_eq!(Saved::default().note(), None);
        let note = |text: &str| Saved { lacking: text.chars().collect() }.note().unwrap();
        let end = ": drawn as boxes in the PNG; save as .svg or .html to see them";
        assert_eq!(note("日本"), format!("no font here has 日 本{end}"));
        assert_eq!(note("一二三四五六七八九十"), format!("no font here has 一 二 三 四 五 六 七 八 …{end}"));
    }
}
