//! The canvas that everything is drawn on: it collects the elements of an SVG document.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::colour::{Colour, ColourMap};
use crate::text::{Face, escape};

/// A rectangle in pixels; `x` and `y` are its upper left corner.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rect {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
}

/// Fill of a rectangle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fill {
    Plain(Colour),
    /// Grey stripes, for a cell without a value (which is not the same as zero).
    Hatch,
    /// A colour map with its first colour at the bottom.
    Gradient(ColourMap),
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stroke {
    pub colour: Colour,
    pub width: f64,
    /// Opacity from 0 (invisible) to 1.
    pub opacity: f64,
    pub pattern: Pattern,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    Solid,
    Dashed,
}

/// The part of a text that is placed at its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Text runs from left to right.
    Across,
    /// Text runs upwards.
    Up,
}

/// How a text is drawn. Its point is at half of its height.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Style {
    pub size: f64,
    pub face: Face,
    pub colour: Colour,
    pub anchor: Anchor,
    pub turn: Turn,
}

/// Font size of labels, in pixels.
pub(crate) const LABEL: f64 = 11.0;

impl Style {
    /// Style of a label that starts at its point.
    pub(crate) const LABEL: Self =
        Self { size: LABEL, face: Face::Sans, colour: Colour::INK, anchor: Anchor::Start, turn: Turn::Across };

    pub(crate) fn anchor(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    pub(crate) fn turn(self, turn: Turn) -> Self {
        Self { turn, ..self }
    }

    pub(crate) fn face(self, face: Face) -> Self {
        Self { face, ..self }
    }

    pub(crate) fn size(self, size: f64) -> Self {
        Self { size, ..self }
    }

    pub(crate) fn colour(self, colour: Colour) -> Self {
        Self { colour, ..self }
    }
}

impl Stroke {
    pub(crate) fn new(colour: Colour, width: f64) -> Self {
        Self { colour, width, opacity: 1.0, pattern: Pattern::Solid }
    }
}

/// Collects elements and writes the document.
#[derive(Debug, Default)]
pub(crate) struct Canvas {
    body: String,
    gradients: BTreeSet<ColourMap>,
    has_hatch: bool,
}

impl Canvas {
    /// Draws a filled rectangle. Browsers show `tooltip` under the pointer.
    pub(crate) fn rect(&mut self, at: Rect, fill: Fill, tooltip: Option<&str>) {
        let fill = match fill {
            Fill::Plain(colour) => colour.hex(),
            Fill::Hatch => {
                self.has_hatch = true;
                "url(#regard-hatch)".to_string()
            }
            Fill::Gradient(map) => {
                self.gradients.insert(map);
                format!("url(#{})", map.id())
            }
        };
        let (x, y, w, h) = (short(at.x), short(at.y), short(at.width), short(at.height));
        let _ = write!(self.body, r#"<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="{fill}""#);
        self.close("rect", tooltip);
    }

    /// Draws the outline of a rectangle, one pixel wide.
    pub(crate) fn frame(&mut self, at: Rect, colour: Colour) {
        let (x, y, w, h) = (short(at.x), short(at.y), short(at.width), short(at.height));
        let _ = writeln!(
            self.body,
            r#"<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="none" stroke="{}"/>"#,
            colour.hex()
        );
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: Stroke, tooltip: Option<&str>) {
        let _ = write!(
            self.body,
            r#"<line x1="{}" y1="{}" x2="{}" y2="{}"{}"#,
            short(from.0),
            short(from.1),
            short(to.0),
            short(to.1),
            stroke_attributes(stroke)
        );
        self.close("line", tooltip);
    }

    pub(crate) fn polyline(&mut self, points: &[(f64, f64)], stroke: Stroke) {
        let mut list = String::new();
        for (x, y) in points {
            let _ = write!(list, "{},{} ", short(*x), short(*y));
        }
        let stroke = stroke_attributes(stroke);
        let list = list.trim_end();
        let _ = writeln!(self.body, r#"<polyline points="{list}" fill="none" stroke-linejoin="round"{stroke}/>"#);
    }

    /// Draws a filled polygon, such as the marker of a series.
    pub(crate) fn polygon(&mut self, points: &[(f64, f64)], fill: Colour, tooltip: Option<&str>) {
        let list: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", short(*x), short(*y))).collect();
        let _ = write!(self.body, r#"<polygon points="{}" fill="{}""#, list.join(" "), fill.hex());
        self.close("polygon", tooltip);
    }

    pub(crate) fn circle(&mut self, centre: (f64, f64), radius: f64, fill: Colour, tooltip: Option<&str>) {
        let (x, y) = (short(centre.0), short(centre.1));
        let _ = write!(self.body, r#"<circle cx="{x}" cy="{y}" r="{}" fill="{}""#, short(radius), fill.hex());
        self.close("circle", tooltip);
    }

    /// Draws a text at its point. If the text was shortened, `full` is the whole text, shown as a tooltip.
    pub(crate) fn text(&mut self, at: (f64, f64), text: &str, style: Style, full: Option<&str>) {
        if text.is_empty() {
            return;
        }
        // The height of capitals and digits is about 0.72 of the font size.
        let down = 0.36 * style.size;
        let (x, y, turn) = match style.turn {
            Turn::Across => (at.0, at.1 + down, String::new()),
            Turn::Up => {
                let (x, y) = (at.0 + down, at.1);
                (x, y, format!(r#" transform="rotate(-90 {} {})""#, short(x), short(y)))
            }
        };
        let anchor = match style.anchor {
            Anchor::Start => "",
            Anchor::Middle => r#" text-anchor="middle""#,
            Anchor::End => r#" text-anchor="end""#,
        };
        let family = match style.face {
            Face::Sans => String::new(),
            Face::Mono => format!(r#" font-family="{}""#, style.face.families()),
        };
        let colour =
            if style.colour == Colour::INK { String::new() } else { format!(r#" fill="{}""#, style.colour.hex()) };
        let tooltip = full.filter(|full| *full != text);
        let title = tooltip.map_or(String::new(), |full| format!("<title>{}</title>", escape(full)));
        let _ = writeln!(
            self.body,
            r#"<text x="{}" y="{}" font-size="{}"{anchor}{family}{colour}{turn}>{title}{}</text>"#,
            short(x),
            short(y),
            short(style.size),
            escape(text)
        );
    }

    /// Draws a PNG with its pixels as sharp rectangles.
    pub(crate) fn image(&mut self, at: Rect, png: &[u8]) {
        use base64::Engine;
        let data = base64::engine::general_purpose::STANDARD.encode(png);
        let (x, y, w, h) = (short(at.x), short(at.y), short(at.width), short(at.height));
        let _ = writeln!(
            self.body,
            r#"<image x="{x}" y="{y}" width="{w}" height="{h}" preserveAspectRatio="none" image-rendering="optimizeSpeed" style="image-rendering:pixelated" href="data:image/png;base64,{data}"/>"#
        );
    }

    /// Opens a group without anti-aliasing, so that there are no seams between neighbouring cells.
    pub(crate) fn begin_crisp(&mut self) {
        self.body.push_str("<g shape-rendering=\"crispEdges\">\n");
    }

    pub(crate) fn end_crisp(&mut self) {
        self.body.push_str("</g>\n");
    }

    /// Returns the document on a white background.
    pub(crate) fn into_svg(self, width: f64, height: f64, title: &str) -> String {
        let (w, h) = (short(width.ceil()), short(height.ceil()));
        let mut svg = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" aria-label="{}" font-family="{}" fill="{}" xml:space="preserve">"#,
            escape(title),
            Face::Sans.families(),
            Colour::INK.hex()
        );
        svg.push('\n');
        self.write_definitions(&mut svg);
        let _ = writeln!(svg, r##"<rect width="{w}" height="{h}" fill="#ffffff"/>"##);
        svg.push_str(&self.body);
        svg.push_str("</svg>\n");
        svg
    }

    fn write_definitions(&self, svg: &mut String) {
        if self.gradients.is_empty() && !self.has_hatch {
            return;
        }
        svg.push_str("<defs>\n");
        for map in &self.gradients {
            let _ = write!(svg, r#"<linearGradient id="{}" x1="0" y1="1" x2="0" y2="0">"#, map.id());
            let stops = map.stops();
            for (index, stop) in stops.iter().enumerate() {
                let offset = index as f64 / (stops.len() - 1) as f64;
                let _ = write!(svg, r#"<stop offset="{offset}" stop-color="{}"/>"#, stop.hex());
            }
            svg.push_str("</linearGradient>\n");
        }
        if self.has_hatch {
            svg.push_str(concat!(
                r##"<pattern id="regard-hatch" width="6" height="6" patternUnits="userSpaceOnUse">"##,
                r##"<rect width="6" height="6" fill="#ececec"/>"##,
                r##"<path d="M-1,1 l2,-2 M0,6 l6,-6 M5,7 l2,-2" stroke="#bdbdbd" stroke-width="1"/></pattern>"##,
                "\n"
            ));
        }
        svg.push_str("</defs>\n");
    }

    fn close(&mut self, element: &str, tooltip: Option<&str>) {
        match tooltip {
            Some(tooltip) => {
                let _ = writeln!(self.body, "><title>{}</title></{element}>", escape(tooltip));
            }
            None => self.body.push_str("/>\n"),
        }
    }
}

fn stroke_attributes(stroke: Stroke) -> String {
    let mut attributes = format!(r#" stroke="{}""#, stroke.colour.hex());
    if stroke.width != 1.0 {
        let _ = write!(attributes, r#" stroke-width="{}""#, short(stroke.width));
    }
    if stroke.opacity < 1.0 {
        let _ = write!(attributes, r#" stroke-opacity="{}""#, short(stroke.opacity));
    }
    if stroke.pattern == Pattern::Dashed {
        attributes.push_str(r#" stroke-dasharray="6 4""#);
    }
    attributes
}

/// Formats a coordinate with at most two decimals: a hundredth of a pixel is invisible.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_string() } else { text.to_string() }
}
