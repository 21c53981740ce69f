//! Error bars, and the text of a value with its deviation.

use crate::canvas::{Canvas, Stroke};
use crate::colour::Colour;
use crate::number::{fixed, number};

/// Half the length of the strokes across the ends of an error bar, in pixels.
const CAP: f64 = 3.5;

/// Draws a bar between two points with a stroke across each end.
pub(crate) fn draw_error_bar(canvas: &mut Canvas, from: (f64, f64), to: (f64, f64), colour: Colour, tooltip: &str) {
    let stroke = Stroke::new(colour, 1.25);
    canvas.line(from, to, stroke, Some(tooltip));
    let (dx, dy) = if from.0 == to.0 { (CAP, 0.0) } else { (0.0, CAP) };
    for (x, y) in [from, to] {
        canvas.line((x - dx, y - dy), (x + dx, y + dy), stroke, None);
    }
}

/// Formats a value with its deviation, as in `0.940 ± 0.012`: two significant digits of the deviation, and
/// the same number of decimals for the value.
pub fn deviation_text(value: f64, deviation: f64) -> String {
    if !(deviation.is_finite() && deviation > 0.0) {
        return number(value, 4);
    }
    let decimals = (1 - deviation.log10().floor() as i32).max(0) as usize;
    if decimals > 5 || value.abs().max(deviation) >= 1e5 || !value.is_finite() {
        return format!("{} ± {}", number(value, 4), number(deviation, 2));
    }
    format!("{} ± {}", fixed(value, decimals), fixed(deviation, decimals))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_as_precise_as_its_deviation() {
        assert_eq!(deviation_text(0.93456, 0.01234), "0.935 ± 0.012");
        assert_eq!(deviation_text(93.456, 1.5), "93.5 ± 1.5");
        assert_eq!(deviation_text(1234.6, 120.0), "1235 ± 120");
        assert_eq!(deviation_text(0.94, 0.05), "0.940 ± 0.050");
        assert_eq!(deviation_text(-3.0, 1e-9), "−3 ± 10⁻⁹");
        assert_eq!(deviation_text(2e7, 1.0), "2×10⁷ ± 1");
        assert_eq!(deviation_text(0.5, 0.0), "0.5");
        assert_eq!(deviation_text(0.5, f64::NAN), "0.5");
        assert_eq!(deviation_text(f64::NAN, 1.0), "NaN ± 1");
    }
}
