//! Pictures of two or three shapes, with a sentence that names them.
//!
//! A scene has shapes in distinct cells of a 3 × 3 grid. The sentence names them row by row: "a small red circle at the top left
//! and a large blue square at the centre and a small green cross at the right". With "and" between all of them, no word
//! depends on how many shapes are still to come, which one look at one cell could not tell. Dev and test scenes have
//! combinations of shapes that no training scene has, although training has every single one.

use super::draw::Draw;
use super::parts::{Sizes, hash};
use crate::hash::Fnv;
use crate::{Image, ImageSize, Split, Splits};
use std::ops::Range;

/// Size of every scene.
pub const SCENE_SIZE: ImageSize = ImageSize { channels: 3, height: SIDE, width: SIDE };

const SIDE: usize = 48;
/// Cells of the grid in each direction.
const CELLS: usize = 3;
/// Pixels of a cell in each direction.
const CELL: usize = SIDE / CELLS;
/// Points in each direction of a pixel at which a shape is sampled, for smooth edges.
const SAMPLES: usize = 4;
/// One combination of shapes in this many is dev, and twice as many are test.
const HELD_OUT: u64 = 12;

const PLACES: [&str; CELLS * CELLS] =
    ["top left", "top", "top right", "left", "centre", "right", "bottom left", "bottom", "bottom right"];

const COLOURS: [(&str, [f32; 3]); 6] = [
    ("red", [215.0, 45.0, 45.0]),
    ("green", [50.0, 180.0, 65.0]),
    ("blue", [55.0, 90.0, 225.0]),
    ("yellow", [230.0, 205.0, 50.0]),
    ("purple", [165.0, 60.0, 200.0]),
    ("white", [235.0, 235.0, 235.0]),
];

/// The two sizes of shapes, with the range of their radius in pixels.
const SIZES: [(&str, [f32; 2]); 2] = [("small", [3.8, 4.4]), ("large", [6.4, 7.0])];

const FORMS: [(&str, Form); 4] =
    [("circle", Form::Circle), ("square", Form::Square), ("triangle", Form::Triangle), ("cross", Form::Cross)];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Circle,
    Square,
    Triangle,
    Cross,
}

/// A picture of shapes and the sentence that names them.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    /// The picture, of [`SCENE_SIZE`].
    pub image: Image,
    /// The sentence, without a full stop.
    pub sentence: String,
    /// The shapes in the order of the sentence.
    pub shapes: Vec<SceneShape>,
}

/// A shape of a scene.
#[derive(Clone, Debug, PartialEq)]
pub struct SceneShape {
    kind: Kind,
    /// Centre from the left and from the top, in pixels.
    centre: [f32; 2],
    radius: f32,
    /// Bytes of the sentence that describe the shape, from "a" to its place.
    pub phrase: Range<usize>,
    /// Bytes of the sentence that name the shape, such as "circle".
    pub word: Range<usize>,
}

/// Size, colour and form as indices of [`SIZES`], [`COLOURS`] and [`FORMS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    size: usize,
    colour: usize,
    form: usize,
}

impl Kind {
    fn name(self) -> String {
        format!("{} {} {}", SIZES[self.size].0, COLOURS[self.colour].0, FORMS[self.form].0)
    }
}

impl Scene {
    /// The sizes of the parts that tasks use.
    pub fn sizes() -> Sizes {
        Sizes { train: 6_000, dev: 500, test: 1_000 }
    }
}

impl SceneShape {
    /// Size, colour and form, such as "small red circle".
    pub fn name(&self) -> String {
        self.kind.name()
    }

    /// Whether the shape covers at least half of a pixel in each cell of a grid over the picture, row by row. The grid need not
    /// divide the picture evenly.
    pub fn covers(&self, rows: usize, columns: usize) -> Vec<bool> {
        let mut covered = vec![false; rows * columns];
        for (x, y) in self.pixels().filter(|&(x, y)| self.coverage(x, y) >= 0.5) {
            covered[y * rows / SIDE * columns + x * columns / SIDE] = true;
        }
        covered
    }

    /// The pixels that the shape may touch, as columns and rows.
    fn pixels(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let [columns, rows] = self.centre.map(|at| {
            let [low, high] = [at - self.radius - 1.0, at + self.radius + 1.0].map(|end| end.clamp(0.0, SIDE as f32));
            low as usize..high as usize
        });
        rows.flat_map(move |y| columns.clone().map(move |x| (x, y)))
    }

    /// Share of a pixel that the shape covers.
    fn coverage(&self, x: usize, y: usize) -> f32 {
        let at = |pixel: usize, sample: usize| pixel as f32 + (sample as f32 + 0.5) / SAMPLES as f32;
        let samples = (0..SAMPLES * SAMPLES).map(|sample| [at(x, sample % SAMPLES), at(y, sample / SAMPLES)]);
        let inside = samples.filter(|point| self.contains(*point)).count();
        inside as f32 / (SAMPLES * SAMPLES) as f32
    }

    fn contains(&self, point: [f32; 2]) -> bool {
        let [x, y] = [0, 1].map(|axis| (point[axis] - self.centre[axis]) / self.radius);
        match FORMS[self.kind.form].1 {
            Form::Circle => x * x + y * y <= 1.0,
            Form::Square => x.abs().max(y.abs()) <= 0.88,
            // The tip is at the top, the base at 0.85.
            Form::Triangle => y <= 0.85 && y >= -1.0 + x.abs() * 1.85,
            Form::Cross => x.abs().min(y.abs()) <= 0.32 && x.abs().max(y.abs()) <= 1.0,
        }
    }
}

/// Draws scenes. The combination of a scene, the kinds of all its shapes, determines its split, so every seed holds out the same.
/// Scene number `i` of a split is the same for all sizes.
///
/// ```
/// use regard_data::builtin::{Sizes, scenes};
/// let parts = scenes(Sizes { train: 3, dev: 1, test: 2 }, 1);
/// println!("{}", parts.train[0].sentence);
/// assert_eq!((parts.train.len(), parts.dev.len(), parts.test.len()), (3, 1, 2));
/// ```
pub fn scenes(sizes: Sizes, seed: u64) -> Splits<Scene> {
    let mut draw = Draw::new(seed);
    let mut splits = Splits::new(Vec::new(), Vec::new(), Vec::new());
    while splits.train.len() < sizes.train || splits.dev.len() < sizes.dev || splits.test.len() < sizes.test {
        let mut placed = drawn(&mut draw);
        let split = split(&placed);
        let (part, size) = match split {
            Split::Train => (&mut splits.train, sizes.train),
            Split::Dev => (&mut splits.dev, sizes.dev),
            Split::Test => (&mut splits.test, sizes.test),
        };
        if part.len() < size {
            placed.sort_unstable();
            // With random numbers of its own, a scene does not depend on how many others there are.
            let mut own = Draw::new(hash(&format!("{seed} {split} {}", part.len())));
            part.push(painted(&placed, &mut own));
        }
    }
    splits
}

/// A hash of some scenes. It changes if a version of this crate draws other scenes.
pub fn scenes_fingerprint() -> String {
    let Splits { train, dev, test, .. } = scenes(Sizes { train: 100, dev: 20, test: 20 }, 1);
    let mut state = Fnv::default();
    for scene in [train, dev, test].iter().flatten() {
        state.write(scene.sentence.as_bytes());
        state.write(&scene.image.pixels);
    }
    format!("{:016x}", state.0)
}

/// Draws the cells and kinds of the shapes of a scene.
fn drawn(draw: &mut Draw) -> Vec<(usize, Kind)> {
    let count = 2 + draw.below(2);
    let mut placed: Vec<(usize, Kind)> = Vec::with_capacity(count);
    while placed.len() < count {
        let cell = draw.below(PLACES.len());
        if placed.iter().all(|(other, _)| *other != cell) {
            let [size, colour, form] = [SIZES.len(), COLOURS.len(), FORMS.len()].map(|count| draw.below(count));
            placed.push((cell, Kind { size, colour, form }));
        }
    }
    placed
}

fn split(placed: &[(usize, Kind)]) -> Split {
    let mut kinds: Vec<Kind> = placed.iter().map(|(_, kind)| *kind).collect();
    kinds.sort_unstable();
    match hash(&kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ")) % HELD_OUT {
        0 => Split::Dev,
        1 | 2 => Split::Test,
        _ => Split::Train,
    }
}

/// Describes and paints shapes, which are in the order of their cells.
fn painted(placed: &[(usize, Kind)], draw: &mut Draw) -> Scene {
    let mut sentence = String::new();
    let mut shapes = Vec::with_capacity(placed.len());
    for (at, &(cell, kind)) in placed.iter().enumerate() {
        sentence += if at == 0 { "" } else { " and " };
        let start = sentence.len();
        sentence += &format!("a {}", kind.name());
        let end_of_word = sentence.len();
        sentence += &format!(" at the {}", PLACES[cell]);
        let [low, high] = SIZES[kind.size].1;
        let radius = draw.between(low, high);
        // A shape stays inside its cell, so that shapes never touch.
        let slack = (CELL as f32 / 2.0 - radius - 0.5).min(2.5);
        let centre =
            [cell % CELLS, cell / CELLS].map(|index| (index * CELL + CELL / 2) as f32 + draw.between(-slack, slack));
        let word = end_of_word - FORMS[kind.form].0.len()..end_of_word;
        shapes.push(SceneShape { kind, centre, radius, phrase: start..sentence.len(), word });
    }
    Scene { image: image(&shapes, draw), sentence, shapes }
}

fn image(shapes: &[SceneShape], draw: &mut Draw) -> Image {
    let background = draw.between(25.0, 60.0);
    let mut values = vec![background; SCENE_SIZE.values()];
    for shape in shapes {
        let colour = COLOURS[shape.kind.colour].1.map(|channel| channel + draw.between(-14.0, 14.0));
        for (x, y) in shape.pixels() {
            let coverage = shape.coverage(x, y);
            for (channel, &paint) in colour.iter().enumerate() {
                let value = &mut values[channel * SIDE * SIDE + y * SIDE + x];
                *value += (paint - *value) * coverage;
            }
        }
    }
    let noisy = |value: f32| (value + draw.between(-9.0, 9.0)).round().clamp(0.0, 255.0) as u8;
    Image { size: SCENE_SIZE, pixels: values.into_iter().map(noisy).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn some() -> Splits<Scene> {
        scenes(Sizes { train: 1_000, dev: 60, test: 120 }, 1)
    }

    fn kinds(scenes: &[Scene]) -> BTreeSet<Vec<String>> {
        let sorted = |scene: &Scene| {
            let mut names: Vec<String> = scene.shapes.iter().map(SceneShape::name).collect();
            names.sort();
            names
        };
        scenes.iter().map(sorted).collect()
    }

    #[test]
    fn held_out_combinations_are_new_and_their_shapes_are_known() {
        let splits = some();
        let [train, dev, test] = [&splits.train, &splits.dev, &splits.test].map(|part| kinds(part));
        assert!(train.is_disjoint(&dev) && train.is_disjoint(&test) && dev.is_disjoint(&test));
        let known: BTreeSet<&String> = train.iter().flatten().collect();
        assert_eq!(known.len(), SIZES.len() * COLOURS.len() * FORMS.len());
        assert!(test.iter().chain(&dev).flatten().all(|name| known.contains(name)));
        let counts: BTreeSet<usize> = splits.test.iter().map(|scene| scene.shapes.len()).collect();
        assert_eq!(counts, BTreeSet::from([2, 3]));
    }

    #[test]
    fn the_sentence_names_the_shapes_in_the_order_of_their_places() {
        for scene in some().test {
            let mut last = None;
            for shape in &scene.shapes {
                let phrase = &scene.sentence[shape.phrase.clone()];
                let place = phrase.rsplit_once(" at the ").unwrap().1;
                assert!(phrase.starts_with(&format!("a {} at", shape.name())), "{phrase}");
                assert!(shape.name().ends_with(&format!(" {}", &scene.sentence[shape.word.clone()])), "{phrase}");
                let [column, row] = shape.centre.map(|at| at as usize / CELL);
                assert_eq!(PLACES[row * CELLS + column], place, "{}", scene.sentence);
                let at = Some(row * CELLS + column);
                assert!(last < at, "{}", scene.sentence);
                last = at;
            }
            assert_eq!(scene.sentence.matches(" and ").count() + 1, scene.shapes.len());
        }
    }

    /// The covered pixels of a shape are bright or coloured; pixels that no shape touches are background.
    #[test]
    fn the_picture_shows_the_shapes_where_they_are_said_to_be() {
        for scene in some().dev {
            let masks: Vec<Vec<bool>> = scene.shapes.iter().map(|shape| shape.covers(SIDE, SIDE)).collect();
            for at in 0..SIDE * SIDE {
                let pixel = [0, 1, 2].map(|channel| scene.image.pixels[channel * SIDE * SIDE + at]);
                let owners = masks.iter().filter(|mask| mask[at]).count();
                assert!(owners <= 1, "shapes overlap");
                let touched = scene.shapes.iter().any(|shape| shape.coverage(at % SIDE, at / SIDE) > 0.0);
                if !touched {
                    assert!(pixel.iter().all(|value| *value <= 70), "{pixel:?}");
                } else if owners == 1 {
                    assert!(pixel.iter().any(|value| *value > 90), "{pixel:?}");
                }
            }
            // A cell of a coarser grid is covered if one of its pixels is.
            for (shape, mask) in scene.shapes.iter().zip(&masks) {
                let coarse = shape.covers(12, 12);
                let from_pixels: Vec<bool> = (0..144)
                    .map(|cell| (0..16).any(|i| mask[(cell / 12 * 4 + i / 4) * SIDE + cell % 12 * 4 + i % 4]))
                    .collect();
                assert_eq!(coarse, from_pixels);
                assert!(coarse.iter().any(|covered| *covered));
            }
        }
    }

    #[test]
    fn scenes_depend_only_on_the_seed() {
        let sizes = Sizes { train: 4, dev: 2, test: 2 };
        assert_eq!(scenes(sizes, 3), scenes(sizes, 3));
        assert_ne!(scenes(sizes, 3).train, scenes(sizes, 4).train);
        let alone = scenes(Sizes { train: 0, dev: 0, test: 2 }, 3);
        assert_eq!(alone.test, scenes(sizes, 3).test);
        assert_eq!(scenes_fingerprint(), scenes_fingerprint());
    }
}
