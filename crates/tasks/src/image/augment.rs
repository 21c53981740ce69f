//! Random changes of training pictures, so that a network does not learn their exact pixels by heart.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use regard_data::{Image, ImageSize};

/// How training pictures are changed at random.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Augmentation {
    /// Largest shift in pixels, in each direction.
    pub shift: usize,
    /// Whether half of the pictures are mirrored.
    pub flip: bool,
    /// Smallest share of height and width that a random section keeps; 1 for the whole picture.
    pub crop: f32,
}

impl Augmentation {
    /// Returns whether pictures stay as they are.
    pub fn is_off(&self) -> bool {
        self.shift == 0 && !self.flip && self.crop >= 1.0
    }

    /// Returns a changed picture of the same size. Pixels from outside are those at the nearest edge; a section is enlarged with
    /// bilinear interpolation.
    pub fn apply(&self, image: &Image, random: &mut ChaCha8Rng) -> Image {
        let ImageSize { height, width, .. } = image.size;
        let mut axis = |size: usize, flip: bool| {
            let shift = self.shift as i64;
            let shift = random.random_range(-shift..=shift) as f32;
            let share = if self.crop < 1.0 { random.random_range(self.crop..=1.0) } else { 1.0 };
            let start = random.random_range(0.0..=1.0) * (1.0 - share) * size as f32;
            let is_mirrored = flip && random.random_bool(0.5);
            let place = |at: usize| {
                let at = if is_mirrored { size - 1 - at } else { at };
                Between::new(start + (at as f32 + 0.5) * share - 0.5 + shift, size)
            };
            (0..size).map(place).collect::<Vec<_>>()
        };
        let (rows, columns) = (axis(height, false), axis(width, self.flip));
        let mut pixels = Vec::with_capacity(image.pixels.len());
        for plane in image.pixels.chunks_exact(height * width) {
            for row in &rows {
                let [above, below] = [row.before, row.after].map(|row| &plane[row * width..][..width]);
                pixels.extend(columns.iter().map(|column| {
                    let (top, bottom) = (column.of(above), column.of(below));
                    (top + row.share * (bottom - top) + 0.5) as u8
                }));
            }
        }
        Image { size: image.size, pixels }
    }
}

/// A place between two pixels of a row or column.
struct Between {
    before: usize,
    after: usize,
    /// Share of `after`.
    share: f32,
}

impl Between {
    fn new(place: f32, size: usize) -> Self {
        let place = place.clamp(0.0, (size - 1) as f32);
        let before = place as usize;
        Self { before, after: (before + 1).min(size - 1), share: place - before as f32 }
    }

    fn of(&self, values: &[u8]) -> f32 {
        let [before, after] = [self.before, self.after].map(|at| f32::from(values[at]));
        before + self.share * (after - before)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    const NONE: Augmentation = Augmentation { shift: 0, flip: false, crop: 1.0 };

    fn image() -> Image {
        let size = ImageSize { channels: 3, height: 4, width: 5 };
        Image { size, pixels: (0..60).map(|at| at * 4).collect() }
    }

    fn many(augmentation: Augmentation) -> Vec<Image> {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        (0..200).map(|_| augmentation.apply(&image(), &mut random)).collect()
    }

    #[test]
    fn without_settings_nothing_changes() {
        assert!(NONE.is_off());
        assert!(many(NONE).iter().all(|changed| *changed == image()));
    }

    #[test]
    fn a_shift_moves_whole_pixels_and_repeats_the_edge() {
        let found = many(Augmentation { shift: 1, ..NONE });
        let size = image().size;
        let shifted = |down: i64, right: i64| {
            let at = |row: i64, column: i64| (row.clamp(0, 3) * 5 + column.clamp(0, 4)) as usize;
            let cells = (0..3usize).flat_map(|plane| (0..20i64).map(move |cell| (plane, cell / 5, cell % 5)));
            let pixels = cells.map(|(plane, row, column)| image().pixels[plane * 20 + at(row + down, column + right)]);
            Image { size, pixels: pixels.collect() }
        };
        let all: Vec<Image> =
            (-1..=1).flat_map(|down| (-1..=1).map(move |right| (down, right))).map(|(d, r)| shifted(d, r)).collect();
        assert!(found.iter().all(|image| all.contains(image)));
        assert!(all.iter().all(|image| found.contains(image)), "every shift occurs");
    }

    #[test]
    fn a_mirrored_picture_has_its_columns_reversed() {
        let mirrored: Vec<u8> = image().pixels.chunks(5).flat_map(|row| row.iter().rev().copied()).collect();
        let found = many(Augmentation { flip: true, ..NONE });
        let count = found.iter().filter(|image| image.pixels == mirrored).count();
        assert!((70..130).contains(&count), "{count} of 200");
        assert!(found.iter().all(|found| found.pixels == mirrored || *found == image()));
    }

    #[test]
    fn a_section_lies_within_the_picture() {
        for changed in many(Augmentation { crop: 0.5, ..NONE }) {
            for (plane, before) in changed.pixels.chunks(20).zip(image().pixels.chunks(20)) {
                assert!(plane.iter().all(|pixel| (before[0]..=before[19]).contains(pixel)));
                // The values grow along rows and columns, and so do those of a section.
                assert!(plane.chunks(5).all(|row| row.is_sorted()));
            }
        }
    }
}
