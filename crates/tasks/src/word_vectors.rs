//! Word vectors from a file: `words.vectors` of the tasks that read words.
//!
//! The vocabulary takes up the first words of the file, which are the most frequent ones, and all words of the training data. The
//! table of the network starts from the vectors, scaled so that their mean length is 1, as that of other initial vectors is. A
//! word without a vector starts at random. A trained model has the table among its weights and needs the file no more.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use regard_data::{Case, Vocabulary, WordVectors, read_word_vectors};
use regard_nn::ConfigError;
use regard_nn::layers::embedding::Embedding;
use serde::{Deserialize, Serialize};

use crate::error::TaskError;
use crate::folder::Folder;
use crate::weights;
use crate::words::VECTORS;

/// The key that names the file.
const KEY: &str = "words.vectors";

/// Keys of `[words]` about vectors from a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VectorKeys {
    /// File with the vectors of words, or model folder of `words`.
    pub vectors: Option<PathBuf>,
    /// Whether the vectors stay as they are.
    pub freeze: bool,
    /// Number of words of the file that are taken up, beside those of the training data.
    pub most: usize,
}

impl Default for VectorKeys {
    fn default() -> Self {
        Self { vectors: None, freeze: false, most: 100_000 }
    }
}

impl VectorKeys {
    /// Returns an error if `freeze` is set without a file.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self.freeze && self.vectors.is_none() {
            true => Err(ConfigError::new("freeze", true, "false unless words.vectors names a file")),
            false => Ok(()),
        }
    }

    /// Makes the path of the file absolute, because the configuration will be read from other folders.
    pub(crate) fn make_absolute(&mut self) -> Result<(), TaskError> {
        if let Some(path) = &mut self.vectors {
            *path = path.canonicalize().map_err(TaskError::io(&*path))?;
        }
        Ok(())
    }

    /// Reads the file, if there is one, for a new vocabulary. `is_known` says which words the training data have.
    pub(crate) fn read(&self, case: Case, is_known: impl Fn(&str) -> bool) -> Result<Option<FileVectors>, TaskError> {
        self.vectors.as_deref().map(|path| FileVectors::read(path, case, self.most, is_known)).transpose()
    }

    /// Fills the table of a new network with the vectors of the words that `id` knows, if there is a file.
    pub(crate) fn warm(
        &self,
        embedding: Embedding,
        case: Case,
        id: impl Fn(&str) -> Option<usize>,
    ) -> Result<Embedding, TaskError> {
        match &self.vectors {
            Some(path) => FileVectors::read(path, case, 0, |word| id(word).is_some())?.fill(embedding, id),
            None => Ok(embedding),
        }
    }

    /// Excludes the table from training if `freeze` is set.
    pub(crate) fn tracked(&self, embedding: Embedding) -> Embedding {
        use burn::module::Module;
        if self.freeze { embedding.no_grad() } else { embedding }
    }
}

/// The vectors of a file, by words in the case of the vocabulary.
#[derive(Debug)]
pub(crate) struct FileVectors {
    path: PathBuf,
    vectors: WordVectors,
    /// Words in the case of the vocabulary, in the order of the file, each with the index of its vector.
    rows: Vec<(String, usize)>,
}

impl FileVectors {
    fn read(path: &Path, case: Case, most: usize, is_known: impl Fn(&str) -> bool) -> Result<Self, TaskError> {
        let file = file_of(path)?;
        let vectors = read_word_vectors(&file, &|word, kept| kept < most || is_known(&folded(word, case)))?;
        let mut rows: Vec<(String, usize)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for (index, word) in vectors.words.iter().enumerate() {
            let name = folded(word, case);
            match places.get(&name) {
                // Of "The" and "the", the one that is spelt like the entry counts.
                Some(&place) if name == *word => rows[place].1 = index,
                Some(_) => {}
                None => {
                    places.insert(name.clone(), rows.len());
                    rows.push((name, index));
                }
            }
        }
        Ok(Self { path: file, vectors, rows })
    }

    /// Number of features of a vector.
    pub fn width(&self) -> usize {
        self.vectors.width
    }

    /// The words that have vectors, in the case of the vocabulary.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|(word, _)| word.as_str())
    }

    /// Adds the words to a vocabulary. Returns it with a note on how many of its own words have vectors.
    pub fn extend(&self, vocabulary: Vocabulary, specials: usize) -> Result<(Vocabulary, String), TaskError> {
        let note =
            self.note(vocabulary.len() - specials, |word| vocabulary.get(word).is_some_and(|id| id >= specials))?;
        let mut names: Vec<String> = vocabulary.clone().into();
        names.extend(self.words().filter(|word| vocabulary.get(word).is_none()).map(str::to_string));
        Ok((Vocabulary::from_names(names)?, note))
    }

    /// Says how many of the `own` words of the training data have vectors; an error if none has.
    pub fn note(&self, own: usize, is_own: impl Fn(&str) -> bool) -> Result<String, TaskError> {
        let (found, width) = (self.words().filter(|word| is_own(word)).count(), self.width());
        if found == 0 {
            let got = format!("none of them in {}, which has {} words", self.path.display(), self.vectors.all);
            return Err(TaskError::input(KEY, format!("vectors of the {own} words of the training data"), got));
        }
        Ok(format!("{found} of {own} words of the training data start from vectors of {width} features ({KEY})"))
    }

    /// Puts the vectors into a table, scaled to a mean length of 1.
    fn fill(&self, embedding: Embedding, id: impl Fn(&str) -> Option<usize>) -> Result<Embedding, TaskError> {
        let mut tensors = weights::parameters(&embedding);
        let rows: Vec<(usize, &[f32])> =
            self.rows.iter().filter_map(|(word, row)| Some((id(word)?, self.vectors.row(*row)))).collect();
        let length = |row: &[f32]| row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
        let mean = rows.iter().map(|(_, row)| length(row)).sum::<f64>() / rows.len().max(1) as f64;
        let scale = if mean > 0.0 { 1.0 / mean } else { 1.0 };
        for (shape, values) in tensors.values_mut() {
            let width = shape.last().copied().unwrap_or_default();
            if width != self.width() {
                let got = format!("{} in {}", self.width(), self.path.display());
                return Err(TaskError::input(KEY, format!("vectors of {width} features, as when the run began"), got));
            }
            for &(place, row) in &rows {
                let to = values[place * width..].iter_mut();
                to.zip(row).for_each(|(to, &from)| *to = (f64::from(from) * scale) as f32);
            }
        }
        weights::load(embedding, tensors, &self.path)
    }
}

/// The file with the vectors: the path itself, or the one in a model folder of `words`.
fn file_of(path: &Path) -> Result<PathBuf, TaskError> {
    if !path.is_dir() {
        return Ok(path.to_path_buf());
    }
    let (folder, description) = Folder::open(path)?;
    match description.task.as_str() {
        "words" => Ok(folder.file(VECTORS)),
        other => Err(TaskError::folder(path, format!("{KEY} needs a file, or a model of words, not of {other}"))),
    }
}

/// A word in the case of a vocabulary.
pub(crate) fn folded(word: &str, case: Case) -> String {
    match case {
        Case::Keep => word.to_string(),
        Case::Lower => word.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use regard_nn::Init;
    use regard_nn::layers::embedding::EmbeddingConfig;

    use super::*;

    fn keys(text: &str) -> (VectorKeys, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.vec");
        std::fs::write(&path, text).unwrap();
        (VectorKeys { vectors: Some(path), most: 2, ..VectorKeys::default() }, folder)
    }

    fn vocabulary(words: &[&str]) -> Vocabulary {
        Vocabulary::from_names(words.iter().map(|word| word.to_string()).collect()).unwrap()
    }

    #[test]
    fn a_vocabulary_takes_up_frequent_words_and_its_own() {
        let (keys, _folder) = keys("The 9 9\nthe 3 4\nof 0 1\ncat 6 8\nrare 1 1\n");
        let own = vocabulary(&["<unk>", "cat", "dog"]);
        let read = keys.read(Case::Lower, |word| own.get(word).is_some()).unwrap().unwrap();
        let (all, note) = read.extend(own, 1).unwrap();
        // "The" and "the" are the first two words of the file and one entry.
        assert_eq!(all.names(), ["<unk>", "cat", "dog", "the"]);
        assert_eq!(note, "1 of 2 words of the training data start from vectors of 2 features (words.vectors)");
    }

    #[test]
    fn a_table_starts_from_the_vectors_at_mean_length_one() {
        let (keys, _folder) = keys("The 9 9\nthe 3 4\ncat 9 12\n");
        let own = vocabulary(&["<unk>", "cat", "dog", "the"]);
        let embedding = || EmbeddingConfig { vocab: 4, d_model: 2 }.init(&Init::new(1, &Device::flex())).unwrap();
        let before = weights::parameters(&embedding())["weight"].1.clone();
        let warmed = keys.warm(embedding(), Case::Lower, |word| own.get(word)).unwrap();
        let after = weights::parameters(&warmed)["weight"].1.clone();
        // The lengths are 5 and 15, their mean 10.
        assert_eq!(after[6..], [0.3, 0.4]);
        assert_eq!(after[2..4], [0.9, 1.2]);
        assert_eq!((&after[..2], &after[4..6]), (&before[..2], &before[4..6]), "others keep their random vectors");
        let wide = EmbeddingConfig { vocab: 4, d_model: 3 }.init(&Init::new(1, &Device::flex())).unwrap();
        let error = keys.warm(wide, Case::Lower, |word| own.get(word)).unwrap_err().to_string();
        assert!(error.contains("vectors of 3 features"), "{error}");
    }

    #[test]
    fn a_file_of_another_language_is_refused() {
        let (keys, _folder) = keys("eins 1 2\nzwei 3 4\n");
        let own = vocabulary(&["<unk>", "un"]);
        let read = keys.read(Case::Lower, |word| own.get(word).is_some()).unwrap().unwrap();
        let error = read.extend(own, 1).unwrap_err().to_string();
        assert!(
            error.contains("vectors of the 1 words of the training data") && error.contains("none of them"),
            "{error}"
        );
    }
}
