//! The examples of a file, as the head of a checkpoint is scored on them.

use std::path::Path;

use regard_data::{
    Around, Case, ImageSize, LabelledColumns, PairColumns, PublishedText, TagColumn, Vocabulary, hash, read_images,
    read_labelled, read_pairs, read_tagged, read_text,
};

use super::super::TASK;
use super::super::answer::{Read, mask_token};
use super::super::generation::Generation;
use super::super::network::{Network, NetworkConfig};
use super::super::opened::Checkpoint;
use super::super::scaling::Scaling;
use super::super::sentence::longest;
use super::super::tune::shifted;
use super::super::verify::ending;
use super::super::windows::windows;
use crate::error::TaskError;
use crate::opened::Examples;
use crate::tag::encoded::{Encoded, Lexicon};
use crate::tag::{tag_number, unseen_tags};
use crate::translate::encoded::{Sentence, sentences};

/// Largest number of tokens of a text that a language model reads at once.
const BLOCK: usize = 512;
/// Percentage of the tokens of a text that are hidden from a masked language model.
const HIDDEN: u64 = 15;

/// An input with the outputs that are right for it.
pub(super) struct Example {
    pub read: Read,
    /// Tokens that the decoder of a translator reads.
    pub decoder: Vec<u32>,
    /// Rows of the output that are scored, each with its right class.
    pub targets: Vec<(usize, usize)>,
}

impl Example {
    fn new(read: Read, targets: Vec<(usize, usize)>) -> Self {
        Self { read, decoder: Vec::new(), targets }
    }

    /// Returns the number of tokens that the network reads; 1 for a picture.
    pub fn length(&self) -> usize {
        self.read.text().map_or(1, |text| text.ids.len().max(self.decoder.len()))
    }
}

/// The scores that suit the head.
pub(super) enum Measure {
    /// One class for each input.
    Classes,
    /// A tag for each word; the sentences belong to the examples in order, and `extra` are tags that the checkpoint does not have.
    Tags { sentences: Vec<Encoded>, labels: Vocabulary, extra: Vec<String> },
    /// Each next token.
    Next,
    /// Hidden tokens.
    Hidden,
    /// Translations, with the sentences to translate.
    Translations(Vec<Sentence>),
}

/// The examples of a file.
pub(super) struct Part {
    pub name: String,
    pub examples: Vec<Example>,
    pub measure: Measure,
}

/// Returns the error for a checkpoint without a head.
pub(super) fn no_score() -> TaskError {
    let what = "be scored: it has no head; regard train --set model.from=FOLDER gives it one".to_string();
    TaskError::Unsupported { task: TASK, what }
}

impl Checkpoint {
    /// Reads the examples of a file.
    pub(super) fn part(&self, examples: Examples) -> Result<Part, TaskError> {
        let Examples::File(path) = examples else {
            let what = "use data of its own, which it does not have; name a file with --data".to_string();
            return Err(TaskError::Unsupported { task: TASK, what });
        };
        let network = &self.loaded.network;
        let found = match network {
            Network::Encoder(model) if model.head.output.is_none() => Err(no_score()),
            Network::Encoder(_) if network.labels_tokens() => self.tagged_words(path),
            Network::Encoder(_) => self.labelled_texts(path),
            Network::Image(_) => self.pictures(path),
            Network::Words(_) => self.hidden_words(path),
            Network::Next(_) => self.plain_text(path),
            Network::Translation(_) => self.pairs(path),
        };
        let (examples, measure) = found.map_err(TaskError::in_file(Some(path)))?;
        if examples.is_empty() {
            return Err(TaskError::input(path.display().to_string(), "at least one example", "none"));
        }
        Ok(Part { name: path.display().to_string(), examples, measure })
    }

    /// Returns the names of the classes.
    fn class_names(&self) -> Vec<String> {
        let outputs = match &self.loaded.network {
            Network::Encoder(model) => model.head.output.as_ref().map_or(0, |output| output.weight.dims()[1]),
            Network::Image(model) => model.head.output.as_ref().map_or(0, |output| output.weight.dims()[1]),
            _ => 0,
        };
        (0..outputs).map(|at| self.label(at)).collect()
    }

    fn labelled_texts(&self, path: &Path) -> Result<(Vec<Example>, Measure), TaskError> {
        let names = self.class_names();
        let mut examples = Vec::new();
        for example in read_labelled(path, &LabelledColumns::default())?.examples {
            let class = class(&names, &example.label)?;
            let encoded = self.encoded(&example.text)?;
            examples.push(Example::new(Read::Text(example.text, encoded), vec![(0, class)]));
        }
        Ok((examples, Measure::Classes))
    }

    fn pictures(&self, path: &Path) -> Result<(Vec<Example>, Measure), TaskError> {
        let NetworkConfig::Image { channels, size, .. } = self.loaded.config else { return Err(no_score()) };
        let names = self.class_names();
        if names.is_empty() {
            return Err(no_score());
        }
        let scaling = Scaling::read(&self.loaded.folder, channels, size)?;
        let mut examples = Vec::new();
        for picture in read_images(path, &ImageSize { channels, height: size, width: size }.into())?.examples {
            let none = || TaskError::input(picture.name.as_str(), "a picture with a label", "none");
            let class = class(&names, picture.label.as_deref().ok_or_else(none)?)?;
            let pixels = scaling.apply(&picture.image.pixels, size * size);
            examples.push(Example::new(Read::Picture(pixels), vec![(0, class)]));
        }
        Ok((examples, Measure::Classes))
    }

    /// Reads sentences with tags. One that is too long for the network counts as several.
    fn tagged_words(&self, path: &Path) -> Result<(Vec<Example>, Measure), TaskError> {
        let tagged = read_tagged(path, TagColumn::default())?;
        let labels = Vocabulary::from_names(self.class_names())?;
        let extra = unseen_tags(&tagged, &labels);
        let words = Lexicon::learn(&tagged.iter().collect::<Vec<_>>(), 1, Case::Keep).words;
        let lexicon = Lexicon::new(words, Vocabulary::default(), labels, Case::Keep);
        let most = longest(&self.loaded.config).unwrap_or(usize::MAX);
        let (mut examples, mut sentences) = (Vec::new(), Vec::new());
        for sentence in &tagged {
            let mut rest = sentence.tokens.iter().zip(&sentence.tags);
            for window in windows(&sentence.tokens, self.tokenizer()?, most)? {
                self.checked(&window.text.ids, most)?;
                let (words, tags): (Vec<String>, Vec<usize>) = rest
                    .by_ref()
                    .take(window.firsts.len())
                    .map(|(word, tag)| (word.clone(), tag_number(tag, &lexicon.labels, &extra)))
                    .unzip();
                let targets = window.firsts.iter().copied().zip(tags.iter().copied()).collect();
                examples.push(Example::new(Read::Text(words.join(" "), window.text), targets));
                sentences.push(lexicon.encode(words, tags, None));
            }
        }
        Ok((examples, Measure::Tags { sentences, labels: lexicon.labels, extra }))
    }

    /// Reads a text line by line and hides some of the tokens of each, chosen by the number of the line and of the token. A line that
    /// is too long is cut.
    fn hidden_words(&self, path: &Path) -> Result<(Vec<Example>, Measure), TaskError> {
        let (_, mask) = mask_token(self.tokenizer()?)?;
        let most = longest(&self.loaded.config).unwrap_or(BLOCK).min(BLOCK);
        let text = read_text(path)?;
        let mut examples = Vec::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let mut encoded = self.tokenizer()?.encode(line, Around::Special)?;
            let count = encoded.ids.len();
            if count > most {
                encoded = select(&encoded, (0..most - 1).chain([count - 1]));
            }
            self.checked(&encoded.ids, most)?;
            let words: Vec<usize> = (0..encoded.ids.len()).filter(|&at| !encoded.is_special[at]).collect();
            let draw = |at: usize| hash(format!("{number} {at}").as_bytes());
            let mut hidden: Vec<usize> = words.iter().copied().filter(|&at| draw(at) % 100 < HIDDEN).collect();
            if hidden.is_empty() {
                // The one that is drawn first, so that a short line is scored, too.
                hidden.extend(words.iter().copied().min_by_key(|&at| draw(at)));
            }
            let targets = hidden.iter().map(|&at| (at, encoded.ids[at] as usize)).collect();
            hidden.iter().for_each(|&at| encoded.ids[at] = mask);
            if !hidden.is_empty() {
                examples.push(Example::new(Read::Text(line.to_string(), encoded), targets));
            }
        }
        Ok((examples, Measure::Hidden))
    }

    /// Reads a text as blocks of tokens that do not overlap.
    fn plain_text(&self, path: &Path) -> Result<(Vec<Example>, Measure), TaskError> {
        let text = read_text(path)?;
        let encoded = self.tokenizer()?.encode(&text, Around::Nothing)?;
        self.checked(&encoded.ids, usize::MAX)?;
        let length = longest(&self.loaded.config).unwrap_or(BLOCK).min(BLOCK);
        let mut examples = Vec::new();
        for first in (0..encoded.ids.len()).step_by(length) {
            let block = select(&encoded, first..(first + length).min(encoded.ids.len()));
            let targets: Vec<(usize, usize)> =
                (1..block.ids.len()).map(|at| (at - 1, block.ids[at] as usize)).collect();
            if let [(start, _), .., (_, end)] = block.offsets[..] {
                let words = text.get(start..end).unwrap_or_default().to_string();
                examples.push(Example::new(Read::Text(words, block), targets));
            }
        }
        match examples.is_empty() {
            true => Err(TaskError::input("text", "two tokens or more", "fewer")),
            false => Ok((examples, Measure::Next)),
        }
    }

    fn pairs(&self, path: &Path) -> Result<(Vec<Example>, Measure), TaskError> {
        let start = Generation::read(&self.loaded)?.start_token()?;
        let end = ending(&self.loaded.settings).first().and_then(|&id| u32::try_from(id).ok());
        let pairs = read_pairs(path, &PairColumns::default())?.examples;
        let mut examples = Vec::new();
        for pair in &pairs {
            let mut target = self.encoded(pair.target())?.ids;
            if let Some(end) = end.filter(|end| target.last() != Some(end)) {
                target.push(end);
            }
            let source = Read::Text(pair.source().to_string(), self.encoded(pair.source())?);
            let targets = target.iter().enumerate().map(|(at, &id)| (at, id as usize)).collect();
            examples.push(Example { decoder: shifted(start, &target), ..Example::new(source, targets) });
        }
        Ok((examples, Measure::Translations(sentences(pairs.iter()))))
    }
}

/// Returns the number of a class.
fn class(names: &[String], label: &str) -> Result<usize, TaskError> {
    names.iter().position(|name| name == label).ok_or_else(|| {
        let expected = format!("one of the checkpoint's labels, {}", names.join(", "));
        TaskError::input("label", expected, label)
    })
}

/// Returns some tokens of a text.
fn select(text: &PublishedText, which: impl Iterator<Item = usize> + Clone) -> PublishedText {
    PublishedText {
        ids: which.clone().map(|at| text.ids[at]).collect(),
        types: which.clone().map(|at| text.types[at]).collect(),
        tokens: which.clone().map(|at| text.tokens[at].clone()).collect(),
        offsets: which.clone().map(|at| text.offsets[at]).collect(),
        is_special: which.map(|at| text.is_special[at]).collect(),
    }
}
