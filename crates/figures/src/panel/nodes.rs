//! A graph: circles with names, joined by lines.

use std::collections::BTreeSet;

use crate::canvas::{Anchor, Canvas, LABEL, Rect, Stroke, Style};
use crate::colour::{Colour, palette};
use crate::error::FigureError;
use crate::layout::Size;
use crate::panel::{EMPTY, draw_empty};
use crate::text::{Face, shorten, visible};

/// Nodes as circles at given places, and edges between them. An edge in both directions is a line, an edge in one direction an
/// arrow. Self-loops are not drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Nodes {
    nodes: Vec<(String, (f64, f64))>,
    edges: BTreeSet<(usize, usize)>,
}

const MOST_NODES: usize = 200;
const MOST_EDGES: usize = 5_000;
const SIDE: f64 = 260.0;
const RADIUS: f64 = 12.0;
const ARROW: f64 = 9.0;

impl Nodes {
    /// Creates a graph from the names and places of its nodes and from its edges `(from, to)`. A place is `(x, y)` with both from
    /// 0 to 1, and `(0, 0)` in the upper left corner.
    pub fn new<S: Into<String>>(
        nodes: impl IntoIterator<Item = (S, (f64, f64))>,
        edges: impl IntoIterator<Item = (usize, usize)>,
    ) -> Result<Self, FigureError> {
        let nodes: Vec<_> = nodes.into_iter().map(|(name, place)| (name.into(), place)).collect();
        if nodes.len() > MOST_NODES {
            return Err(FigureError::TooLarge { what: "nodes", limit: MOST_NODES, got: nodes.len() });
        }
        let edges: BTreeSet<_> = edges.into_iter().filter(|(from, to)| from != to).collect();
        if edges.len() > MOST_EDGES {
            return Err(FigureError::TooLarge { what: "edges", limit: MOST_EDGES, got: edges.len() });
        }
        match edges.iter().find(|(from, to)| *from.max(to) >= nodes.len()) {
            Some(&(from, to)) => Err(FigureError::Edge { from, to, nodes: nodes.len() }),
            None => Ok(Self { nodes, edges }),
        }
    }

    pub(crate) fn size(&self) -> Size {
        if self.nodes.is_empty() { EMPTY } else { Size { width: SIDE, height: SIDE } }
    }

    pub(crate) fn draw(&self, canvas: &mut Canvas, area: Rect) {
        if self.nodes.is_empty() {
            return draw_empty(canvas, area, "no nodes");
        }
        let at = |node: usize| {
            let (x, y) = self.nodes[node].1;
            let within = |part: f64| if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.5 };
            let inside = |part: f64| RADIUS + 1.0 + within(part) * (SIDE - 2.0 * RADIUS - 2.0);
            (area.x + inside(x), area.y + inside(y))
        };
        for &(from, to) in &self.edges {
            let both = self.edges.contains(&(to, from));
            if both && from > to {
                continue;
            }
            draw_edge(canvas, at(from), at(to), if both { Ends::Line } else { Ends::Arrow });
        }
        for (node, (name, _)) in self.nodes.iter().enumerate() {
            let full = visible(name);
            canvas.circle(at(node), RADIUS, palette(0), Some(&full));
            let text = shorten(&full, LABEL, Face::Sans, 2.0 * RADIUS - 4.0);
            let style = Style::LABEL.anchor(Anchor::Middle).colour(Colour::WHITE);
            canvas.text(at(node), &text, style, Some(&full));
        }
    }
}

/// Whether an edge has an arrowhead.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Line,
    Arrow,
}

fn draw_edge(canvas: &mut Canvas, from: (f64, f64), to: (f64, f64), ends: Ends) {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let length = dx.hypot(dy);
    // Nodes that touch leave no room for a line.
    if length <= 2.0 * RADIUS {
        return;
    }
    let (ux, uy) = (dx / length, dy / length);
    let along = |distance: f64, aside: f64| (from.0 + ux * distance - uy * aside, from.1 + uy * distance + ux * aside);
    let (start, end) = (along(RADIUS, 0.0), length - RADIUS - 1.0);
    let stop = if ends == Ends::Arrow { end - ARROW / 2.0 } else { end };
    canvas.line(start, along(stop, 0.0), Stroke::new(Colour::RULE, 1.5), None);
    if ends == Ends::Arrow {
        let wing = (end - ARROW).max(0.0);
        canvas.polygon(&[along(end, 0.0), along(wing, ARROW / 2.0), along(wing, -ARROW / 2.0)], Colour::INK, None);
    }
}
