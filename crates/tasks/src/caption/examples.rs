//! Pictures with their sentences, read and tokenised.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use regard_data::builtin::{SCENE_SIZE, Scene, SceneShape, Sizes, scenes};
use regard_data::{Caption, DataError, Image, ImageSize, Loaded, Split, Splits, Tokenizer, decode_image};

use crate::pictures::built_in_name;

/// Seed of the built-in data.
const SEED: u64 = 1;

/// A picture with a sentence, not yet tokenised.
#[derive(Debug, Clone)]
pub(super) struct Raw {
    /// Path of the picture, or the name of a built-in one.
    pub name: String,
    pub image: Arc<Image>,
    /// Hash of the pixels before they are brought to a size.
    pub hash: u64,
    pub sentence: String,
    /// Shapes of a built-in scene.
    pub shapes: Vec<SceneShape>,
}

impl Raw {
    fn of_scene(Scene { image, sentence, shapes }: Scene, name: String, size: ImageSize) -> Result<Self, DataError> {
        let hash = image.hash();
        let image = match size == SCENE_SIZE {
            true => image,
            false => decode_image(&image.to_png(), Path::new(&name), size)?,
        };
        Ok(Self { name, image: Arc::new(image), hash, sentence, shapes })
    }
}

impl From<Caption> for Raw {
    fn from(Caption { file, image, hash, sentence, .. }: Caption) -> Self {
        Self { name: file.to_string_lossy().into_owned(), image, hash, sentence, shapes: Vec::new() }
    }
}

/// Returns all built-in scenes, brought to a size.
pub(super) fn built_in(size: ImageSize) -> Result<Splits<Raw>, DataError> {
    let Splits { train, dev, test, .. } = scenes(Scene::sizes(), SEED);
    let raw = |split, scenes: Vec<Scene>| -> Result<Vec<Raw>, DataError> {
        let scenes = scenes.into_iter().enumerate();
        scenes.map(|(at, scene)| Raw::of_scene(scene, built_in_name(split, at), size)).collect()
    };
    Ok(Splits::new(raw(Split::Train, train)?, raw(Split::Dev, dev)?, raw(Split::Test, test)?))
}

/// Returns one built-in scene; `None` if the split has fewer.
pub(super) fn built_in_scene(split: Split, index: usize, size: ImageSize) -> Result<Option<Raw>, DataError> {
    let none = Sizes { train: 0, dev: 0, test: 0 };
    let sizes = Scene::sizes();
    let (all, until) = match split {
        Split::Train => (sizes.train, Sizes { train: index + 1, ..none }),
        Split::Dev => (sizes.dev, Sizes { dev: index + 1, ..none }),
        Split::Test => (sizes.test, Sizes { test: index + 1, ..none }),
    };
    if index >= all {
        return Ok(None);
    }
    let Splits { train, dev, test, .. } = scenes(until, SEED);
    let last = [train, dev, test].into_iter().flatten().next_back();
    last.map(|scene| Raw::of_scene(scene, built_in_name(split, index), size)).transpose()
}

/// Returns a built-in picture, for a model of pictures without data of its own.
pub(crate) fn built_in_picture(size: ImageSize) -> Result<Arc<Image>, DataError> {
    let scene = scenes(Sizes { train: 1, dev: 0, test: 0 }, SEED).train.into_iter().next();
    let scene = scene.expect("one scene was asked for");
    Ok(Raw::of_scene(scene, built_in_name(Split::Train, 0), size)?.image)
}

/// A picture to describe, with all its sentences.
#[derive(Debug, Clone)]
pub struct Described {
    /// Path of the picture, or the name of a built-in one.
    pub(super) name: String,
    pub(super) image: Arc<Image>,
    /// Right sentences; none for a picture without any.
    pub(super) references: Vec<String>,
    /// Shapes of a built-in scene.
    pub(super) shapes: Vec<NamedShape>,
}

/// A shape of a built-in scene and the tokens of the sentence that name it.
#[derive(Debug, Clone)]
pub(super) struct NamedShape {
    pub shape: SceneShape,
    /// Token that names the shape.
    pub word: usize,
    /// Tokens that describe the shape, with its place.
    pub phrase: Range<usize>,
    /// The tokens of the whole sentence.
    pub sentence: Arc<[u32]>,
}

impl Described {
    /// Creates a picture without sentences.
    pub(super) fn unknown(name: String, image: Image) -> Self {
        Self { name, image: Arc::new(image), references: Vec::new(), shapes: Vec::new() }
    }

    /// Creates a picture with one sentence.
    pub(super) fn new(raw: Raw, tokenizer: &Tokenizer) -> Self {
        let Raw { name, image, sentence, shapes, .. } = raw;
        let encoded = tokenizer.encode(&sentence);
        let ids: Arc<[u32]> = encoded.ids.clone().into();
        // The tokens that overlap with bytes of the sentence.
        let tokens = |bytes: &Range<usize>| {
            let overlaps = |(start, end): &(usize, usize)| *start < bytes.end && *end > bytes.start;
            let first = encoded.offsets.iter().position(overlaps).unwrap_or(0);
            first..encoded.offsets.iter().rposition(overlaps).map_or(first, |last| last + 1)
        };
        let named = |shape: SceneShape| {
            let (word, phrase) = (tokens(&shape.word), tokens(&shape.phrase));
            NamedShape { word: word.start, phrase, sentence: ids.clone(), shape }
        };
        Self { name, image, references: vec![sentence], shapes: shapes.into_iter().map(named).collect() }
    }
}

/// Groups pictures with one sentence each by picture, which may have several.
pub(super) fn described(examples: Vec<Raw>, tokenizer: &Tokenizer) -> Vec<Described> {
    let mut all: Vec<Described> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    for raw in examples {
        match known.get(&raw.name) {
            Some(&at) => all[at].references.push(raw.sentence),
            None => {
                known.insert(raw.name.clone(), all.len());
                all.push(Described::new(raw, tokenizer));
            }
        }
    }
    all
}

/// Converts what a reader has loaded.
pub(super) fn raw(loaded: Loaded<Caption>) -> Vec<Raw> {
    loaded.examples.into_iter().map(Raw::from).collect()
}
