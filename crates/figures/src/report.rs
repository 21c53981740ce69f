//! Reports: figures, tables, interactive parts and text under headings, on one self-contained page.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use regard_system::{SaveError, save_atomically};

use crate::figure::Figure;
use crate::html::{Interactive, document, write_figure, write_table};
use crate::panel::Table;
use crate::text::escape;

/// A report of a training run or a comparison, as one HTML page.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// Title of the page.
    pub title: String,
    /// Most important facts as names and values, such as task, model and score.
    pub summary: Vec<(String, String)>,
    /// Sections from top to bottom.
    pub sections: Vec<Section>,
}

/// A section of a report.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Section {
    /// Heading of the section, also listed in the table of contents.
    pub heading: String,
    /// Paragraphs, separated by empty lines, before the content; may be empty.
    pub text: String,
    /// Contents from top to bottom.
    pub content: Vec<Content>,
}

/// One item of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A figure, with its title as a heading.
    Figure(Figure),
    /// A table.
    Table(Table),
    /// A part of the page with its own script.
    Interactive(Interactive),
    /// Paragraphs, separated by empty lines.
    Text(String),
    /// Preformatted lines in the monospaced face.
    Code(String),
}

impl Report {
    /// Creates a report without sections.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Adds a name and its value to the summary.
    pub fn fact(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.summary.push((name.into(), value.into()));
        self
    }

    /// Adds a section.
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// Returns the report as a page.
    pub fn to_html(&self) -> String {
        let mut body = format!("<h1>{}</h1>\n", escape(&self.title));
        if !self.summary.is_empty() {
            body.push_str("<dl>\n");
            for (name, value) in &self.summary {
                let _ = writeln!(body, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
            }
            body.push_str("</dl>\n");
        }
        if self.sections.len() > 1 {
            body.push_str("<nav aria-label=\"Contents\"><ol>\n");
            for (index, section) in self.sections.iter().enumerate() {
                let _ = writeln!(body, "<li><a href=\"#part-{}\">{}</a></li>", index + 1, escape(&section.heading));
            }
            body.push_str("</ol></nav>\n");
        }
        for (index, section) in self.sections.iter().enumerate() {
            let _ = writeln!(body, "<section>\n<h2 id=\"part-{}\">{}</h2>", index + 1, escape(&section.heading));
            write_paragraphs(&mut body, &section.text);
            for content in &section.content {
                content.write(&mut body);
            }
            body.push_str("</section>\n");
        }
        let content = self.sections.iter().flat_map(|section| &section.content);
        let interactive = content.filter_map(|content| match content {
            Content::Interactive(part) => Some((part.style, part.script)),
            _ => None,
        });
        let mut style = STYLE.to_string();
        for (own_style, script) in interactive.collect::<BTreeSet<_>>() {
            style.push_str(own_style);
            let _ = write!(body, "<script>\n{script}</script>\n");
        }
        document(&self.title, &style, &body)
    }

    /// Writes the page to a file, atomically.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), SaveError> {
        save_atomically(path.as_ref(), self.to_html().as_bytes())
    }
}

impl Section {
    /// Creates a section without text or content.
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..Self::default() }
    }

    /// Sets the paragraphs before the content.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Adds an item of content.
    pub fn content(mut self, content: impl Into<Content>) -> Self {
        self.content.push(content.into());
        self
    }
}

impl Content {
    fn write(&self, body: &mut String) {
        match self {
            Self::Figure(figure) => {
                write_heading(body, &figure.title);
                write_figure(body, figure, 4);
            }
            Self::Table(table) => {
                body.push_str("<div class=\"wide\">\n");
                write_table(body, table);
                body.push_str("</div>\n");
            }
            Self::Interactive(part) => {
                write_heading(body, &part.title);
                body.push_str(&part.body);
            }
            Self::Text(text) => write_paragraphs(body, text),
            Self::Code(code) => {
                let _ = writeln!(body, "<pre>{}</pre>", escape(code));
            }
        }
    }
}

impl From<Figure> for Content {
    fn from(figure: Figure) -> Self {
        Self::Figure(figure)
    }
}

impl From<Table> for Content {
    fn from(table: Table) -> Self {
        Self::Table(table)
    }
}

impl From<Interactive> for Content {
    fn from(part: Interactive) -> Self {
        Self::Interactive(part)
    }
}

fn write_heading(body: &mut String, title: &str) {
    if !title.is_empty() {
        let _ = writeln!(body, "<h3>{}</h3>", escape(title));
    }
}

fn write_paragraphs(body: &mut String, text: &str) {
    let mut paragraph = String::new();
    for line in text.lines().chain([""]) {
        if !line.trim().is_empty() {
            paragraph.push_str(if paragraph.is_empty() { "" } else { "\n" });
            paragraph.push_str(line);
        } else if !paragraph.is_empty() {
            let _ = writeln!(body, "<p>{}</p>", escape(&std::mem::take(&mut paragraph)));
        }
    }
}

const STYLE: &str = "
h1 { margin-bottom: .5rem; }
h2 { font-size: 1.2rem; border-bottom: 1px solid #8886; padding-bottom: .2rem; margin-top: 2.5rem; }
h3 { font-size: 1rem; font-weight: 600; margin: 1.6rem 0 .4rem; }
h4 { font-size: .95rem; font-weight: 600; margin: 1.2rem 0 .4rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.25rem; margin: 1rem 0; }
dt { color: #777; }
dd { margin: 0; overflow-wrap: anywhere; }
nav ol { margin: 1rem 0; padding-left: 1.25rem; columns: 16rem; }
a { color: #2166ac; }
pre { padding: .6rem .8rem; background: #8881; border-radius: 4px; }
.wide { overflow-x: auto; }
@media (prefers-color-scheme: dark) { a { color: #8ab8e6; } dt { color: #999; } }
@media print {
  body { max-width: none; margin: 0; padding: 0; color: #000; background: #fff; }
  nav { display: none; }
  h2, h3, h4 { break-after: avoid; }
  tr, .picture { break-inside: avoid; }
  .picture svg { max-width: 100%; height: auto; border: 0; }
  pre { white-space: pre-wrap; }
}
";
