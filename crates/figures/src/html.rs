//! Self-contained HTML pages, which fetch nothing.

use std::fmt::Write;

use crate::figure::Figure;
use crate::layout::{Part, draw};
use crate::panel::{PanelKind, Table};
use crate::text::{Face, escape};

/// Returns a figure as a page. Tables and texts become HTML that can be searched and copied; other panels are drawn.
pub(crate) fn page(figure: &Figure) -> String {
    let mut body = format!("<h1>{}</h1>\n", escape(&figure.title));
    write_figure(&mut body, figure, 2);
    document(&figure.title, "", &body)
}

/// A part of a page that a script draws. A page includes each style and each script once, however many parts use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interactive {
    /// Heading above the part.
    pub title: String,
    /// HTML of the part: the elements and the data that the script works on.
    pub body: String,
    /// CSS of the part.
    pub style: &'static str,
    /// JavaScript that sets up every part of this kind on the page. It runs after all bodies.
    pub script: &'static str,
}

impl Interactive {
    /// Returns the part as a page of its own.
    pub fn to_html(&self) -> String {
        let Self { title, body, style, script } = self;
        document(title, style, &format!("<h1>{}</h1>\n{body}<script>\n{script}</script>\n", escape(title)))
    }
}

/// Wraps a body in a complete page. `style` comes after the style that all pages share.
pub(crate) fn document(title: &str, style: &str, body: &str) -> String {
    let title = escape(title);
    let base = STYLE.replace("SANS", Face::Sans.families()).replace("MONO", Face::Mono.families());
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{base}{style}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

/// Writes a figure without its title. Panels that become HTML have headings of this level.
pub(crate) fn write_figure(body: &mut String, figure: &Figure, level: u8) {
    if figure.panels.iter().any(|panel| panel.kind.is_picture()) {
        let _ = write!(body, "<div class=\"picture\">\n{}</div>\n", draw(figure, Part::Pictures));
    }
    for panel in figure.panels.iter().filter(|panel| !panel.kind.is_picture()) {
        if !panel.title.is_empty() {
            let _ = writeln!(body, "<h{level}>{}</h{level}>", escape(&panel.title));
        }
        match &panel.kind {
            PanelKind::Table(table) => write_table(body, table),
            PanelKind::Text(text) => {
                let _ = writeln!(body, "<pre>{}</pre>", escape(&text.lines.join("\n")));
            }
            _ => {}
        }
    }
    for note in &figure.notes {
        let _ = writeln!(body, "<p>{}</p>", escape(note));
    }
}

/// CSS of all pages. Pictures keep their white background in dark mode, because their colours are chosen for it.
const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 15px/1.5 SANS; margin: 2rem auto; padding: 0 1.25rem; max-width: 1480px; color: #222; background: #fafafa; }
h1 { font-size: 1.4rem; font-weight: 600; }
h2 { font-size: 1.05rem; font-weight: 600; margin-top: 2rem; }
p { max-width: 48rem; }
.picture { overflow-x: auto; }
.picture svg { background: #fff; border: 1px solid #8884; border-radius: 4px; }
table { border-collapse: collapse; }
th, td { padding: .25rem .75rem; text-align: left; border-bottom: 1px solid #8884; }
th { font-weight: 600; }
.number { text-align: right; font-family: MONO; }
pre { font: 13px/1.45 MONO; overflow-x: auto; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818; } }
";

pub(crate) fn write_table(body: &mut String, table: &Table) {
    let numeric = table.numeric_columns();
    let class = |column: usize| if numeric[column] { " class=\"number\"" } else { "" };
    body.push_str("<table>\n<thead><tr>");
    for (column, name) in table.header().iter().enumerate() {
        let _ = write!(body, "<th{}>{}</th>", class(column), escape(name));
    }
    body.push_str("</tr></thead>\n<tbody>\n");
    for row in table.rows() {
        body.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(body, "<td{}>{}</td>", class(column), escape(cell));
        }
        body.push_str("</tr>\n");
    }
    body.push_str("</tbody>\n</table>\n");
}
