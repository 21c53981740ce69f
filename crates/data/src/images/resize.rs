//! Resizing with a triangle filter: each value is a mean of the source pixels around it, weighted by their distance. When a
//! picture shrinks, the filter is as wide as the shrinking, so that every source pixel counts (antialiasing).

use super::decode::Decoded;

/// The source pixels of one target pixel.
struct Weights {
    start: usize,
    weights: Vec<f32>,
}

/// Resizes first the rows and then the columns, rounding to bytes in between.
pub(super) fn resize(image: Decoded, height: usize, width: usize) -> Decoded {
    let Decoded { channels, height: from_height, width: from_width, mut pixels } = image;
    if width != from_width {
        let columns = filter(from_width, width);
        let mut rows = Vec::with_capacity(from_height * width * channels);
        for row in pixels.chunks_exact(from_width * channels) {
            for Weights { start, weights } in &columns {
                for channel in 0..channels {
                    let values = row[start * channels + channel..].iter().step_by(channels);
                    rows.push(mean(weights, values));
                }
            }
        }
        pixels = rows;
    }
    if height != from_height {
        let step = width * channels;
        let mut columns = Vec::with_capacity(height * step);
        for Weights { start, weights } in filter(from_height, height) {
            for at in 0..step {
                columns.push(mean(&weights, pixels[start * step + at..].iter().step_by(step)));
            }
        }
        pixels = columns;
    }
    Decoded { channels, height, width, pixels }
}

fn mean<'a>(weights: &[f32], values: impl Iterator<Item = &'a u8>) -> u8 {
    let sum: f32 = weights.iter().zip(values).map(|(weight, &value)| weight * f32::from(value)).sum();
    (sum + 0.5) as u8
}

/// The weights of each target pixel over the source pixels of one axis.
fn filter(from: usize, to: usize) -> Vec<Weights> {
    let scale = from as f64 / to as f64;
    let support = scale.max(1.0);
    let target = |at: usize| {
        let centre = (at as f64 + 0.5) * scale;
        let start = (centre - support + 0.5).max(0.0) as usize;
        let end = ((centre + support + 0.5) as usize).min(from);
        let weight = |source: usize| (1.0 - ((source as f64 + 0.5 - centre) / support).abs()).max(0.0);
        let all: f64 = (start..end).map(weight).sum();
        Weights { start, weights: (start..end).map(|source| (weight(source) / all) as f32).collect() }
    };
    (0..to).map(target).collect()
}
