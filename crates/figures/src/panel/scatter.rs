//! Points with names, such as words placed by their vectors.

use crate::axis::{Axis, Ruler};
use crate::canvas::{Anchor, Canvas, LABEL, Rect, Stroke, Style};
use crate::colour::{Colour, palette};
use crate::error::FigureError;
use crate::layout::Size;
use crate::number::number;
use crate::panel::marker::draw_marker;
use crate::panel::plot::{Legend, MARK, draw_frame, inside};
use crate::text::{Face, shorten, visible, width};

/// Groups of named points over two axes. Names are placed one after another so that they do not overlap. Names without room
/// are counted below the plot and shown as tooltips.
#[derive(Debug, Clone, PartialEq)]
pub struct Scatter {
    x: Axis,
    y: Axis,
    groups: Vec<(String, Vec<LabelledPoint>)>,
}

/// A point and its name, which may be empty. A point that is not finite is left out.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledPoint {
    /// Horizontal coordinate.
    pub x: f64,
    /// Vertical coordinate.
    pub y: f64,
    /// Name beside the point.
    pub label: String,
}

const MOST_POINTS: usize = 5_000;
const SIZE: Size = Size { width: 760.0, height: 600.0 };
/// Height of the line that says how many names are left out.
const FOOT: f64 = 18.0;
const LONGEST_LABEL: f64 = 120.0;
const LINE: f64 = 12.0;
/// Half the size of a mark.
const DOT: f64 = 4.0;
/// Distances of a name from its point, in the order they are tried. Beyond the first, a line joins the name to the point.
const RINGS: [f64; 3] = [6.0, 15.0, 26.0];

impl Scatter {
    /// Creates a plot without points.
    pub fn new(x: Axis, y: Axis) -> Self {
        Self { x, y, groups: Vec::new() }
    }

    /// Adds a group of points with the same colour and mark. A group with an empty name has no entry in the legend.
    pub fn group(
        mut self,
        name: impl Into<String>,
        points: impl IntoIterator<Item = LabelledPoint>,
    ) -> Result<Self, FigureError> {
        self.groups.push((name.into(), points.into_iter().collect()));
        let got = self.groups.iter().map(|(_, points)| points.len()).sum();
        if got > MOST_POINTS {
            return Err(FigureError::TooLarge { what: "labelled points", limit: MOST_POINTS, got });
        }
        Ok(self)
    }

    pub(crate) fn size(&self) -> Size {
        Size { width: SIZE.width, height: SIZE.height + self.legend(SIZE.width).height + FOOT }
    }

    pub(crate) fn draw(&self, canvas: &mut Canvas, area: Rect) {
        let legend = self.legend(area.width);
        for (index, text, x, y) in &legend.entries {
            let at = (area.x + x, area.y + y + 8.0);
            draw_marker(canvas, (at.0 + (MARK - 6.0) / 2.0, at.1), *index, palette(*index), None);
            canvas.text((at.0 + MARK, at.1), text, Style::LABEL, Some(&self.groups[*index].0));
        }
        let frame = Rect { y: area.y + legend.height, height: area.height - legend.height - FOOT, ..area };
        let is_drawable = |point: &&LabelledPoint| self.x.has_place(point.x) && self.y.has_place(point.y);
        let drawable = || self.groups.iter().flat_map(|(_, points)| points).filter(is_drawable);
        let x = Ruler::new(&self.x, drawable().map(|point| point.x), 6);
        let y = Ruler::new(&self.y, drawable().map(|point| point.y), 7);
        let plot = inside(frame, (&self.x, &x), (&self.y, &y));
        draw_frame(canvas, frame, plot, (&self.x, &x), (&self.y, &y));
        let mut spots = Vec::new();
        for (group, (name, points)) in self.groups.iter().enumerate() {
            for point in points {
                let (Some(across), Some(up)) = (x.place(point.x), y.place(point.y)) else { continue };
                let at = (plot.x + across * plot.width, plot.y + (1.0 - up) * plot.height);
                spots.push(Spot { at, group, group_name: name, point });
            }
        }
        if spots.is_empty() {
            let style = Style::LABEL.colour(Colour::QUIET).size(LABEL + 1.0);
            return canvas.text((plot.x + 12.0, plot.y + 16.0), "no points", style, None);
        }
        self.draw_spots(canvas, &spots, plot, area);
    }

    fn draw_spots(&self, canvas: &mut Canvas, spots: &[Spot], plot: Rect, area: Rect) {
        let labels: Vec<String> =
            spots.iter().map(|spot| shorten(&visible(&spot.point.label), LABEL, Face::Sans, LONGEST_LABEL)).collect();
        let points: Vec<(f64, f64)> = spots.iter().map(|spot| spot.at).collect();
        let places = place_labels(&points, &labels, plot);
        for (spot, place) in spots.iter().zip(&places) {
            // Lines to distant names are drawn first, so that they lie below all marks.
            if let Some(place) = place.as_ref().filter(|place| place.is_apart) {
                let end = nearest(place.room, spot.at);
                canvas.line(spot.at, end, Stroke { opacity: 0.6, ..Stroke::new(palette(spot.group), 1.0) }, None);
            }
        }
        for spot in spots {
            let (x, y) = (number(spot.point.x, 4), number(spot.point.y, 4));
            let tooltip = format!("{} {} ({x}, {y})", visible(&spot.point.label), spot.group_name);
            draw_marker(canvas, spot.at, spot.group, palette(spot.group), Some(tooltip.trim()));
        }
        for ((place, label), spot) in places.iter().zip(&labels).zip(spots) {
            let Some(place) = place else { continue };
            let at = (place.room.x, place.room.y + place.room.height / 2.0);
            canvas.text(at, label, Style::LABEL.anchor(Anchor::Start), Some(&visible(&spot.point.label)));
        }
        let left_out = places.iter().zip(&labels).filter(|(place, label)| place.is_none() && !label.is_empty()).count();
        if left_out > 0 {
            let text = format!("{left_out} of {} names found no room", labels.len());
            let at = (area.x, area.y + area.height - FOOT / 2.0);
            canvas.text(at, &text, Style::LABEL.colour(Colour::QUIET), None);
        }
    }

    fn legend(&self, room: f64) -> Legend {
        Legend::new(self.groups.iter().map(|(name, _)| name.as_str()), room)
    }
}

impl LabelledPoint {
    /// Creates a point with a name.
    pub fn new(x: f64, y: f64, label: impl Into<String>) -> Self {
        Self { x, y, label: label.into() }
    }
}

struct Spot<'a> {
    at: (f64, f64),
    group: usize,
    group_name: &'a str,
    point: &'a LabelledPoint,
}

struct Place {
    room: Rect,
    is_apart: bool,
}

/// Finds the nearest place for each label that is inside the plot and overlaps no earlier label and no mark of another point.
fn place_labels(points: &[(f64, f64)], labels: &[String], plot: Rect) -> Vec<Option<Place>> {
    let mut taken: Vec<Rect> = Vec::new();
    let mut places = Vec::with_capacity(points.len());
    for (index, (&at, label)) in points.iter().zip(labels).enumerate() {
        let wide = width(label, LABEL, Face::Sans);
        let is_free = |room: &Rect| {
            let grown = Rect { x: room.x - 1.0, y: room.y - 1.0, width: room.width + 2.0, height: room.height + 2.0 };
            is_within(&grown, &plot)
                && !taken.iter().any(|other| overlap(&grown, other))
                && !points.iter().enumerate().any(|(other, &(x, y))| {
                    let dot = Rect { x: x - DOT, y: y - DOT, width: 2.0 * DOT, height: 2.0 * DOT };
                    other != index && overlap(room, &dot)
                })
        };
        let rings = RINGS.iter().enumerate();
        let mut rooms =
            rings.flat_map(|(ring, &distance)| candidates(at, wide, distance).map(move |room| (ring, room)));
        let found = if label.is_empty() { None } else { rooms.find(|(_, room)| is_free(room)) };
        places.push(found.map(|(ring, room)| {
            taken.push(room);
            Place { room, is_apart: ring > 0 }
        }));
    }
    places
}

/// Returns the places around a point in the order they are tried: right, left, above, below, then the corners.
fn candidates((x, y): (f64, f64), wide: f64, distance: f64) -> [Rect; 8] {
    let at = |x: f64, y: f64| Rect { x, y, width: wide, height: LINE };
    let (middle, slant) = (y - LINE / 2.0, 0.7 * distance);
    let (above, below) = (y - distance - LINE, y + distance);
    [
        at(x + distance, middle),
        at(x - distance - wide, middle),
        at(x - wide / 2.0, above),
        at(x - wide / 2.0, below),
        at(x + slant, y - slant - LINE),
        at(x + slant, y + slant),
        at(x - slant - wide, y - slant - LINE),
        at(x - slant - wide, y + slant),
    ]
}

fn overlap(a: &Rect, b: &Rect) -> bool {
    a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height
}

fn is_within(inner: &Rect, outer: &Rect) -> bool {
    inner.x >= outer.x
        && inner.y >= outer.y
        && inner.x + inner.width <= outer.x + outer.width
        && inner.y + inner.height <= outer.y + outer.height
}

/// Returns the point of a rectangle that is nearest to a given point.
fn nearest(room: Rect, (x, y): (f64, f64)) -> (f64, f64) {
    (x.clamp(room.x, room.x + room.width), y.clamp(room.y, room.y + room.height))
}
