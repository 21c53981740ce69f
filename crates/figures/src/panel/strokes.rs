//! Strokes of a pen, with a density under them or with the weights of a text above them.

use crate::canvas::{Anchor, Canvas, LABEL, Rect, Stroke, Style};
use crate::colour::{Colour, ColourMap, palette};
use crate::error::FigureError;
use crate::layout::Size;
use crate::panel::{EMPTY, draw_empty};
use crate::raster::cell_image;
use crate::text::{Face, shorten, visible};

/// Strokes of a pen in their own proportions, with `y` downwards.
#[derive(Debug, Clone, PartialEq)]
pub struct Strokes {
    strokes: Vec<PenStroke>,
    density: Option<Density>,
    window: Option<TextWeights>,
}

/// A piece of a stroke that has one colour.
#[derive(Debug, Clone, PartialEq)]
pub struct PenStroke {
    /// Points `(x, y)` in the order they are drawn; one point is a dot.
    pub points: Vec<(f64, f64)>,
    /// Index of the colour in the palette.
    pub colour: usize,
    /// Number of the first point in the sequence of all points.
    pub step: usize,
}

/// Cells over the rectangle around all strokes.
#[derive(Debug, Clone, PartialEq)]
struct Density {
    rows: usize,
    columns: usize,
    values: Vec<f32>,
    /// Left, top, right and bottom in the units of the strokes.
    bounds: [f64; 4],
}

/// Weights of the characters of a text at each point.
#[derive(Debug, Clone, PartialEq)]
struct TextWeights {
    characters: Vec<String>,
    steps: usize,
    /// Row by row, a row for each character.
    values: Vec<f32>,
}

const WIDTH: f64 = 860.0;
const TALLEST: f64 = 260.0;
const LABELS: f64 = 26.0;
/// Room between weights and strokes, for the lines that join them.
const LINKS: f64 = 46.0;
const ROW: f64 = 17.0;
const MOST_ROWS: usize = 200;
const LONGEST_SIDE: usize = 4_096;

impl Strokes {
    /// Creates a panel of strokes.
    pub fn new(strokes: Vec<PenStroke>) -> Self {
        Self { strokes, density: None, window: None }
    }

    /// Lays a density under the strokes: `rows × columns` cells, row by row, over the rectangle left, top, right, bottom. The
    /// darkest colour is for the largest value.
    pub fn density(
        mut self,
        rows: usize,
        columns: usize,
        values: Vec<f32>,
        bounds: [f64; 4],
    ) -> Result<Self, FigureError> {
        if rows.checked_mul(columns) != Some(values.len()) || values.is_empty() {
            return Err(FigureError::Shape { what: "density", rows, columns, got: values.len() });
        }
        check_side(rows.max(columns))?;
        self.density = Some(Density { rows, columns, values, bounds });
        Ok(self)
    }

    /// Draws the weights of characters at each of `steps` points above the strokes, row by row, a row for each character. A line
    /// joins the point where a colour begins with its place among the weights.
    pub fn weights<S: Into<String>>(
        mut self,
        characters: impl IntoIterator<Item = S>,
        steps: usize,
        values: Vec<f32>,
    ) -> Result<Self, FigureError> {
        let characters: Vec<String> = characters.into_iter().map(Into::into).collect();
        let rows = characters.len();
        if rows.checked_mul(steps) != Some(values.len()) || values.is_empty() {
            return Err(FigureError::Shape { what: "weights", rows, columns: steps, got: values.len() });
        }
        if rows > MOST_ROWS {
            return Err(FigureError::TooLarge { what: "characters over strokes", limit: MOST_ROWS, got: rows });
        }
        check_side(steps)?;
        self.window = Some(TextWeights { characters, steps, values });
        Ok(self)
    }

    pub(crate) fn size(&self) -> Size {
        let Some(bounds) = self.bounds() else { return EMPTY };
        let above = self.window.as_ref().map_or(0.0, |window| ROW * window.characters.len() as f64 + LINKS);
        let left = if self.window.is_some() { LABELS } else { 0.0 };
        Size { width: WIDTH + left, height: above + scaled(bounds).1 }
    }

    pub(crate) fn draw(&self, canvas: &mut Canvas, area: Rect) {
        let Some(bounds) = self.bounds() else { return draw_empty(canvas, area, "no strokes") };
        let (scale, height) = scaled(bounds);
        let left = if self.window.is_some() { area.x + LABELS } else { area.x };
        let above = self.window.as_ref().map_or(0.0, |window| ROW * window.characters.len() as f64 + LINKS);
        // Narrow strokes stand in the middle.
        let shift = (WIDTH - (bounds[2] - bounds[0]) * scale) / 2.0;
        let place =
            |(x, y): (f64, f64)| (left + shift + (x - bounds[0]) * scale, area.y + above + (y - bounds[1]) * scale);
        if let Some(density) = &self.density {
            let (from, to) =
                (place((density.bounds[0], density.bounds[1])), place((density.bounds[2], density.bounds[3])));
            density.draw(canvas, Rect { x: from.0, y: from.1, width: to.0 - from.0, height: to.1 - from.1 });
        }
        if let Some(window) = &self.window {
            let map = Rect { x: left, y: area.y, width: WIDTH, height: ROW * window.characters.len() as f64 };
            window.draw(canvas, map);
            let mut before = None;
            for stroke in &self.strokes {
                if before != Some(stroke.colour)
                    && let Some(&first) = stroke.points.first()
                {
                    let from = map.x + (stroke.step as f64 + 0.5) / window.steps as f64 * map.width;
                    let line = Stroke { opacity: 0.6, ..Stroke::new(palette(stroke.colour), 1.0) };
                    canvas.line((from, map.y + map.height), place(first), line, None);
                }
                before = Some(stroke.colour);
            }
        }
        let width = (height * 0.02).clamp(1.2, 2.6);
        for stroke in &self.strokes {
            let points: Vec<(f64, f64)> = stroke.points.iter().map(|&point| place(point)).collect();
            match points.as_slice() {
                [point] => canvas.circle(*point, width, palette(stroke.colour), None),
                points => canvas.polyline(points, Stroke::new(palette(stroke.colour), width)),
            }
        }
    }

    /// Returns left, top, right and bottom of strokes and density; `None` if there is nothing to draw.
    fn bounds(&self) -> Option<[f64; 4]> {
        let points = self.strokes.iter().flat_map(|stroke| stroke.points.iter().copied());
        let corners = self.density.iter().flat_map(|density| {
            let [left, top, right, bottom] = density.bounds;
            [(left, top), (right, bottom)]
        });
        let all: Vec<(f64, f64)> = points.chain(corners).filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        let of = |f: fn(f64, f64) -> f64, axis: fn(&(f64, f64)) -> f64| all.iter().map(axis).reduce(f);
        Some([of(f64::min, |p| p.0)?, of(f64::min, |p| p.1)?, of(f64::max, |p| p.0)?, of(f64::max, |p| p.1)?])
    }
}

impl Density {
    fn draw(&self, canvas: &mut Canvas, at: Rect) {
        let most = self.values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f32::max);
        let colour = |&value: &f32| {
            let share = if value > 0.0 && most > 0.0 { f64::from((value / most).min(1.0)) } else { 0.0 };
            Some(Colour::WHITE.towards(Colour(0xe0, 0x7b, 0x00), share))
        };
        if let Ok(png) = cell_image(self.columns, self.rows, self.values.iter().map(colour)) {
            canvas.image(at, &png);
        }
    }
}

impl TextWeights {
    fn draw(&self, canvas: &mut Canvas, at: Rect) {
        let most =
            self.values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f32::max).max(f32::MIN_POSITIVE);
        let colour = |&value: &f32| {
            let share = if value > 0.0 { f64::from((value / most).min(1.0)) } else { 0.0 };
            Some(ColourMap::Blues.at(share))
        };
        if let Ok(png) = cell_image(self.steps, self.characters.len(), self.values.iter().map(colour)) {
            canvas.image(at, &png);
        }
        canvas.frame(at, Colour::RULE);
        for (row, character) in self.characters.iter().enumerate() {
            let full = visible(character);
            let text = shorten(&full, LABEL, Face::Mono, LABELS - 8.0);
            let place = (at.x - 8.0, at.y + (row as f64 + 0.5) * ROW);
            canvas.text(place, &text, Style::LABEL.face(Face::Mono).anchor(Anchor::End), Some(&full));
        }
    }
}

/// Returns the scale of strokes in these bounds, and their height in pixels.
fn scaled([left, top, right, bottom]: [f64; 4]) -> (f64, f64) {
    let (width, height) = (right - left, bottom - top);
    let scale = (WIDTH / width.max(1e-300)).min(TALLEST / height.max(1e-300));
    let scale = if scale.is_finite() && (width > 0.0 || height > 0.0) { scale } else { 1.0 };
    (scale, (height * scale).clamp(8.0, TALLEST))
}

fn check_side(got: usize) -> Result<(), FigureError> {
    match got > LONGEST_SIDE {
        true => Err(FigureError::TooLarge { what: "rows or columns over strokes", limit: LONGEST_SIDE, got }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Figure;

    fn stroke(points: &[(f64, f64)]) -> PenStroke {
        PenStroke { points: points.to_vec(), colour: 1, step: 0 }
    }

    #[test]
    fn strokes_keep_their_proportions_and_fit() {
        let panel = Strokes::new(vec![stroke(&[(0.0, 0.0), (10.0, 1.0)]), stroke(&[(5.0, 0.5)])]);
        assert_eq!(panel.size(), Size { width: WIDTH, height: WIDTH / 10.0 });
        let svg = Figure::new("").panel("", panel).to_svg();
        assert!(svg.contains("<polyline") && svg.contains("<circle"), "{svg}");
        assert_eq!(Strokes::new(Vec::new()).size(), EMPTY);
        for points in [vec![(0.0, 0.0)], vec![(f64::NAN, 0.0), (1.0, 1.0)], vec![(-1e300, 0.0), (1e300, 0.0)]] {
            let svg = Figure::new("").panel("", Strokes::new(vec![stroke(&points)])).to_svg();
            assert!(svg.ends_with("</svg>\n"));
        }
    }

    #[test]
    fn weights_and_densities_have_the_right_shape() {
        let strokes = || Strokes::new(vec![stroke(&[(0.0, 0.0), (1.0, 1.0)])]);
        assert!(strokes().weights(["a", "b"], 3, vec![0.0; 5]).is_err());
        assert!(strokes().weights(["a"], 5_000, vec![0.0; 5_000]).is_err());
        assert!(strokes().density(2, 2, vec![0.0; 3], [0.0; 4]).is_err());
        let panel = strokes().weights(["a", "b"], 3, vec![0.5; 6]).unwrap();
        let svg = Figure::new("").panel("", panel).to_svg();
        assert!(svg.contains(">a</text>") && svg.contains(">b</text>"));
        let panel = strokes().density(1, 2, vec![f32::NAN, 1.0], [0.0, 0.0, 1.0, 1.0]).unwrap();
        assert!(Figure::new("").panel("", panel).to_svg().contains("<image"));
    }
}
