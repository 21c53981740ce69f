//! A node and its neighbours: circles around a centre, joined to it by lines that are as thick as their weights.

use crate::canvas::{Anchor, Canvas, LABEL, Rect, Stroke, Style};
use crate::colour::{Colour, palette};
use crate::layout::Size;
use crate::number::number;
use crate::panel::plot::{Legend, MARK};
use crate::panel::strings;
use crate::text::{Face, shorten, visible, width};

/// A node in the centre and its neighbours left and right of it, the strongest at the top. The width of a line is its weight relative
/// to the largest one. The colour of a node is that of its group.
#[derive(Debug, Clone, PartialEq)]
pub struct Star {
    centre: Ray,
    rays: Vec<Ray>,
    groups: Vec<String>,
    /// Number of neighbours that are not drawn, and the sum of their weights.
    left_out: (usize, f64),
}

/// A neighbour of the node in the centre, or that node itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Ray {
    /// Name of the node.
    pub name: String,
    /// Index of the node's group; `None` if it belongs to none.
    pub group: Option<usize>,
    /// Weight of the edge to the centre. The weight of the centre is that of its edge to itself; `None` if it has none.
    pub weight: Option<f32>,
}

/// Largest number of neighbours that are drawn.
const MOST: usize = 24;
const ROW: f64 = 24.0;
/// Distance of the columns of neighbours from the centre.
const REACH: f64 = 150.0;
const RADIUS: f64 = 7.0;
const CENTRE: f64 = 12.0;
/// Width of the line of the largest weight, beside that of a weight of 0.
const THICKEST: f64 = 7.0;
const THINNEST: f64 = 0.7;
const LONGEST_LABEL: f64 = 170.0;
/// Room between a circle and its label.
const GAP: f64 = 12.0;
const FOOT: f64 = 18.0;

impl Star {
    /// Creates a star from the node in the centre, its neighbours and the names of the groups. The 24 neighbours with the largest
    /// weights are drawn; a line below says how many are not. A weight that is not finite is written but drawn as 0.
    pub fn new<S: Into<String>>(centre: Ray, mut rays: Vec<Ray>, groups: impl IntoIterator<Item = S>) -> Self {
        rays.sort_by(|a, b| size(b).total_cmp(&size(a)));
        let rest = rays.split_off(rays.len().min(MOST));
        let left_out = (rest.len(), rest.iter().map(|ray| f64::from(size(ray))).sum());
        Self { centre, rays, groups: strings(groups), left_out }
    }

    pub(crate) fn size(&self) -> Size {
        let [left, right] = self.columns();
        let width = left + right + 2.0 * (REACH + RADIUS + GAP);
        let foot = if self.left_out.0 > 0 { FOOT } else { 0.0 };
        Size { width, height: self.legend(width).height + self.height() + foot }
    }

    pub(crate) fn draw(&self, canvas: &mut Canvas, area: Rect) {
        let legend = self.legend(self.size().width);
        for (index, text, x, y) in &legend.entries {
            let at = (area.x + x, area.y + y);
            canvas.circle((at.0 + 5.0, at.1), 5.0, palette(*index), None);
            canvas.text((at.0 + MARK, at.1), text, Style::LABEL, Some(&self.groups[*index]));
        }
        let top = area.y + legend.height;
        let [left, _] = self.columns();
        let middle = (area.x + left + GAP + RADIUS + REACH, top + self.height() / 2.0);
        let places: Vec<(f64, f64)> = (0..self.rays.len()).map(|at| self.place(at, middle, top)).collect();
        let largest = self.rays.iter().map(size).fold(f32::MIN_POSITIVE, f32::max);
        for (ray, &at) in self.rays.iter().zip(&places) {
            let weight = f64::from(size(ray) / largest).clamp(0.0, 1.0);
            let stroke = Stroke { opacity: 0.75, ..Stroke::new(self.colour(ray), THINNEST + weight * THICKEST) };
            canvas.line(middle, at, stroke, Some(&label(ray)));
        }
        for (index, (ray, &at)) in self.rays.iter().zip(&places).enumerate() {
            canvas.circle(at, RADIUS, self.colour(ray), Some(&label(ray)));
            let (anchor, aside) =
                if index % 2 == 0 { (Anchor::Start, RADIUS + 5.0) } else { (Anchor::End, -RADIUS - 5.0) };
            canvas.text((at.0 + aside, at.1), &short(ray), Style::LABEL.anchor(anchor), Some(&label(ray)));
        }
        canvas.circle(middle, CENTRE, self.colour(&self.centre), Some(&label(&self.centre)));
        let style = Style::LABEL.anchor(Anchor::Middle);
        let name = shorten(&visible(&self.centre.name), LABEL, Face::Sans, 2.0 * REACH - 40.0);
        canvas.text((middle.0, middle.1 - CENTRE - 11.0), &name, style, Some(&self.centre.name));
        if let Some(weight) = self.centre.weight {
            let text = format!("itself {}", number(f64::from(weight), 2));
            canvas.text((middle.0, middle.1 + CENTRE + 11.0), &text, style, None);
        }
        if self.left_out.0 > 0 {
            let (count, sum) = (self.left_out.0, number(self.left_out.1, 2));
            let text = format!("and {count} more, with weights of {sum} together");
            let at = (area.x, top + self.height() + FOOT / 2.0);
            canvas.text(at, &text, Style::LABEL.colour(Colour::QUIET), None);
        }
    }

    /// Returns the place of a neighbour: even ones right, odd ones left, on a flat arc.
    fn place(&self, index: usize, middle: (f64, f64), top: f64) -> (f64, f64) {
        let side = if index.is_multiple_of(2) { 1.0 } else { -1.0 };
        let (row, rows) = (index / 2, if side > 0.0 { self.rays.len().div_ceil(2) } else { self.rays.len() / 2 });
        let y = top + self.height() / 2.0 + (row as f64 - (rows as f64 - 1.0) / 2.0) * ROW;
        let away = (y - middle.1) / (self.height() / 2.0).max(1.0);
        (middle.0 + side * REACH * (1.0 - 0.35 * away * away), y)
    }

    fn height(&self) -> f64 {
        (self.rays.len().div_ceil(2) as f64 * ROW).max(4.0 * ROW) + 8.0
    }

    fn colour(&self, ray: &Ray) -> Colour {
        ray.group.map_or(Colour::QUIET, palette)
    }

    /// Widths of the labels left and right.
    fn columns(&self) -> [f64; 2] {
        [1, 0].map(|side| {
            let labels = self.rays.iter().skip(side).step_by(2).map(|ray| width(&short(ray), LABEL, Face::Sans));
            labels.fold(0.0, f64::max).ceil()
        })
    }

    fn legend(&self, room: f64) -> Legend {
        Legend::new(self.groups.iter().map(String::as_str), room)
    }
}

/// The weight as it is drawn: 0 if there is none or it is not finite.
fn size(ray: &Ray) -> f32 {
    ray.weight.filter(|weight| weight.is_finite()).unwrap_or(0.0)
}

fn label(ray: &Ray) -> String {
    match ray.weight {
        Some(weight) => format!("{} {}", visible(&ray.name), number(f64::from(weight), 2)),
        None => visible(&ray.name),
    }
}

/// The label of a neighbour, with a long name cut.
fn short(ray: &Ray) -> String {
    let name = shorten(&visible(&ray.name), LABEL, Face::Sans, LONGEST_LABEL - 40.0);
    label(&Ray { name, ..ray.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ray(name: &str, weight: f32) -> Ray {
        Ray { name: name.to_string(), group: Some(0), weight: Some(weight) }
    }

    #[test]
    fn the_strongest_neighbours_are_drawn() {
        let rays = (0..30).map(|at| ray(&format!("n{at}"), at as f32 / 435.0)).collect();
        let star = Star::new(ray("centre", 0.0), rays, ["a"]);
        assert_eq!((star.rays.len(), star.rays[0].name.as_str(), star.left_out.0), (24, "n29", 6));
        assert!((star.left_out.1 - 15.0 / 435.0).abs() < 1e-6);
    }

    #[test]
    fn labels_do_not_overlap() {
        for count in [1, 2, 5, 24] {
            let rays = (0..count).map(|at| ray(&format!("a long name of node {at}"), 0.1)).collect();
            let star = Star::new(ray("centre", 0.0), rays, ["a", "b"]);
            let places: Vec<_> = (0..count).map(|at| star.place(at, (0.0, star.height() / 2.0), 0.0)).collect();
            for (at, one) in places.iter().enumerate() {
                for other in &places[..at] {
                    let apart = (one.1 - other.1).abs() >= ROW - 1e-9 || (one.0 > 0.0) != (other.0 > 0.0);
                    assert!(apart, "{count}: {one:?} {other:?}");
                }
            }
        }
    }

    #[test]
    fn a_weight_that_is_no_number_comes_last() {
        let star = Star::new(ray("centre", 0.0), vec![ray("x", f32::NAN), ray("y", 0.5)], ["a"]);
        assert_eq!(star.rays.iter().map(|ray| ray.name.as_str()).collect::<Vec<_>>(), ["y", "x"]);
        assert_eq!(label(&star.rays[1]), "x NaN");
    }
}
