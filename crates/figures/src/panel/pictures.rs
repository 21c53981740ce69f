//! Pictures with captions, and weights laid over them.

use crate::canvas::{Anchor, Canvas, LABEL, Rect, Style};
use crate::colour::Colour;
use crate::error::FigureError;
use crate::layout::Size;
use crate::panel::{EMPTY, draw_empty};
use crate::raster::cell_image;
use crate::text::{Face, shorten, visible, wrap};

/// Pictures side by side, in rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Pictures {
    tiles: Vec<Tile>,
    columns: usize,
    side: f64,
}

/// One picture of [`Pictures`].
#[derive(Debug, Clone, PartialEq)]
pub struct Tile {
    pixels: Grid<Colour>,
    weights: Option<Grid<f32>>,
    caption: String,
}

/// Values of cells, row by row.
#[derive(Debug, Clone, PartialEq)]
struct Grid<T> {
    rows: usize,
    columns: usize,
    cells: Vec<T>,
}

const LONGEST_SIDE: usize = 2_048;
const MOST_TILES: usize = 400;
/// Colour of the largest weight; few pictures have it.
const HEAT: Colour = Colour(0xc0, 0x00, 0x8c);
/// Share of white that pales a picture under weights.
const PALE: f64 = 0.4;
/// Share of [`HEAT`] at the largest weight; the picture still shows.
const STRONGEST: f64 = 0.75;
const GAP: f64 = 12.0;
const CAPTION_GAP: f64 = 4.0;
const LINE: f64 = 14.0;
const MOST_LINES: usize = 3;

impl<T: Copy> Grid<T> {
    fn new(what: &'static str, rows: usize, columns: usize, cells: Vec<T>) -> Result<Self, FigureError> {
        if rows.checked_mul(columns) != Some(cells.len()) || cells.is_empty() {
            return Err(FigureError::Shape { what, rows, columns, got: cells.len() });
        }
        let got = rows.max(columns);
        if got > LONGEST_SIDE {
            return Err(FigureError::TooLarge { what: "rows or columns of a picture", limit: LONGEST_SIDE, got });
        }
        Ok(Self { rows, columns, cells })
    }

    /// Returns the cell under pixel `(row, column)` of a picture with `rows × columns` pixels.
    fn under(&self, (row, column): (usize, usize), (rows, columns): (usize, usize)) -> T {
        self.cells[row * self.rows / rows * self.columns + column * self.columns / columns]
    }
}

impl Tile {
    /// Creates a picture from its `rows × columns` pixels, row by row.
    pub fn new(rows: usize, columns: usize, pixels: Vec<Colour>) -> Result<Self, FigureError> {
        Ok(Self { pixels: Grid::new("picture", rows, columns, pixels)?, weights: None, caption: String::new() })
    }

    /// Sets the words below the picture.
    pub fn caption(mut self, words: impl Into<String>) -> Self {
        self.caption = words.into();
        self
    }

    /// Lays `rows × columns` weights over the picture, which covers the same area. The largest weight of the tile has the
    /// strongest colour; weights that are not positive numbers have none.
    pub fn weights(mut self, rows: usize, columns: usize, weights: Vec<f32>) -> Result<Self, FigureError> {
        self.weights = Some(Grid::new("weights over a picture", rows, columns, weights)?);
        Ok(self)
    }

    /// Returns the size of the drawn picture, whose longer side is `side`.
    fn area(&self, side: f64) -> Size {
        let (rows, columns) = (self.pixels.rows as f64, self.pixels.columns as f64);
        let scale = side / rows.max(columns);
        // A very long picture is still a line.
        Size { width: (columns * scale).max(2.0), height: (rows * scale).max(2.0) }
    }

    fn draw(&self, canvas: &mut Canvas, at: Rect) {
        // Enough pixels that the edges of the weights' cells lie where they belong, also over a picture of few pixels.
        let cells = self.weights.as_ref().map_or(1, |weights| weights.rows.max(weights.columns));
        let times = (4 * cells).div_ceil(self.pixels.rows.min(self.pixels.columns)).clamp(1, 16);
        let (rows, columns) = (self.pixels.rows * times, self.pixels.columns * times);
        let most = self.weights.iter().flat_map(|weights| &weights.cells).copied().fold(0.0, f32::max);
        let pixel = |index: usize| {
            let place = (index / columns, index % columns);
            let colour = self.pixels.under(place, (rows, columns));
            let Some(weights) = &self.weights else { return Some(colour) };
            let weight = weights.under(place, (rows, columns));
            let share = if weight > 0.0 { f64::from((weight / most).min(1.0)) } else { 0.0 };
            Some(colour.towards(Colour::WHITE, PALE).towards(HEAT, STRONGEST * share))
        };
        if let Ok(png) = cell_image(columns, rows, (0..rows * columns).map(pixel)) {
            canvas.image(at, &png);
        }
        canvas.frame(at, Colour::RULE);
    }
}

impl Pictures {
    /// Creates a panel of pictures, eight in a row.
    pub fn new(tiles: impl IntoIterator<Item = Tile>) -> Result<Self, FigureError> {
        let tiles: Vec<Tile> = tiles.into_iter().collect();
        if tiles.len() > MOST_TILES {
            return Err(FigureError::TooLarge { what: "pictures", limit: MOST_TILES, got: tiles.len() });
        }
        Ok(Self { tiles, columns: 8, side: 112.0 })
    }

    /// Sets the number of pictures in a row.
    pub fn columns(mut self, columns: usize) -> Self {
        self.columns = columns.max(1);
        self
    }

    /// Sets the length of a picture's longer side in pixels, 112 by default.
    pub fn side(mut self, pixels: u32) -> Self {
        self.side = f64::from(pixels.clamp(24, 1_024));
        self
    }

    pub(crate) fn size(&self) -> Size {
        if self.tiles.is_empty() {
            return EMPTY;
        }
        let columns = self.columns.min(self.tiles.len()) as f64;
        let height: f64 = self.rows().map(|row| self.height(row) + GAP).sum();
        Size { width: columns * (self.side + GAP) - GAP, height: height - GAP }
    }

    pub(crate) fn draw(&self, canvas: &mut Canvas, area: Rect) {
        if self.tiles.is_empty() {
            return draw_empty(canvas, area, "no pictures");
        }
        let mut y = area.y;
        for row in self.rows() {
            let below = y + pictures_height(row, self.side);
            for (column, tile) in row.iter().enumerate() {
                let x = area.x + column as f64 * (self.side + GAP);
                let Size { width, height } = tile.area(self.side);
                tile.draw(canvas, Rect { x: x + (self.side - width) / 2.0, y: below - height, width, height });
                let full = visible(&tile.caption);
                for (line, text) in self.lines(tile).iter().enumerate() {
                    let at = (x + self.side / 2.0, below + CAPTION_GAP + (line as f64 + 0.5) * LINE);
                    canvas.text(at, text, Style::LABEL.anchor(Anchor::Middle), Some(&full));
                }
            }
            y += self.height(row) + GAP;
        }
    }

    fn rows(&self) -> impl Iterator<Item = &[Tile]> {
        self.tiles.chunks(self.columns)
    }

    /// Returns the height of a row with its captions.
    fn height(&self, row: &[Tile]) -> f64 {
        let lines = row.iter().map(|tile| self.lines(tile).len()).max().unwrap_or(0);
        let captions = if lines == 0 { 0.0 } else { CAPTION_GAP + lines as f64 * LINE };
        pictures_height(row, self.side) + captions
    }

    /// Returns the caption as at most three lines; the tooltip has all of it.
    fn lines(&self, tile: &Tile) -> Vec<String> {
        let wrapped = |line| wrap(&visible(line), LABEL, Face::Sans, self.side);
        let mut lines: Vec<String> = tile.caption.lines().flat_map(wrapped).collect();
        if lines.len() > MOST_LINES {
            lines.truncate(MOST_LINES);
            let last = format!("{}…", lines[MOST_LINES - 1]);
            lines[MOST_LINES - 1] = shorten(&last, LABEL, Face::Sans, self.side);
        }
        lines
    }
}

fn pictures_height(row: &[Tile], side: f64) -> f64 {
    row.iter().map(|tile| tile.area(side).height).fold(0.0, f64::max)
}
