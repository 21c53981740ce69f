//! Conversion of drawings and cells to PNG.

use resvg::tiny_skia::{IntSize, Pixmap, Transform};
use resvg::usvg::{Options, Tree};

use crate::colour::Colour;
use crate::error::FigureError;
use crate::fonts::Fonts;

/// Largest number of pixels: more than any screen shows, and 256 MB of memory.
const MOST_PIXELS: usize = 64_000_000;

/// Draws an SVG document as a PNG, at twice its size if that is not too large.
pub(crate) fn rasterise(svg: &str, fonts: &Fonts) -> Result<Vec<u8>, FigureError> {
    let fontdb = fonts.database.clone();
    let options = Options { fontdb, font_family: "DejaVu Sans".to_string(), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(failed)?;
    let size = tree.size().to_int_size();
    let pixels = size.width() as usize * size.height() as usize;
    if pixels > MOST_PIXELS {
        return Err(FigureError::TooLarge { what: "pixels of a figure", limit: MOST_PIXELS, got: pixels });
    }
    let scale = if 4 * pixels <= MOST_PIXELS { 2 } else { 1 };
    let mut pixmap =
        Pixmap::new(size.width() * scale, size.height() * scale).ok_or_else(|| failed("its size is 0 or too large"))?;
    resvg::render(&tree, Transform::from_scale(scale as f32, scale as f32), &mut pixmap.as_mut());
    pixmap.encode_png().map_err(failed)
}

/// Returns a PNG with one pixel per cell, row by row; `None` is transparent. Fails unless there are `columns · rows > 0` cells.
pub(crate) fn cell_image(
    columns: usize,
    rows: usize,
    cells: impl Iterator<Item = Option<Colour>>,
) -> Result<Vec<u8>, FigureError> {
    let mut bytes = Vec::with_capacity(4 * columns * rows);
    for cell in cells {
        bytes.extend(cell.map_or([0; 4], |Colour(r, g, b)| [r, g, b, 255]));
    }
    let size = IntSize::from_wh(columns as u32, rows as u32).ok_or_else(|| failed("a heat map has no cells"))?;
    let pixmap = Pixmap::from_vec(bytes, size).ok_or_else(|| failed("the number of cells is not columns × rows"))?;
    pixmap.encode_png().map_err(failed)
}

fn failed(why: impl std::fmt::Display) -> FigureError {
    FigureError::Raster { why: why.to_string() }
}
