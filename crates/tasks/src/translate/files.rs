//! The files of sentence pairs.

use std::path::Path;

use regard_data::{Column, Fold, Pair, PairColumns, Source, Splits, builtin, is_jsonl, load_pairs};

use crate::data_share::keep_share;
use crate::error::TaskError;
use crate::survey::{RawExample, RawInput};

/// Keys of `[data]` that say where pairs are and which of them are used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PairFiles<'a> {
    /// File or folder of sentence pairs; built-in ones if absent.
    pub path: Option<&'a Path>,
    /// Fold that is the test split of a single file.
    pub fold: Option<Fold>,
    /// Language, key or column of the source.
    pub source: &'a Option<Column>,
    /// Language, key or column of the target.
    pub target: &'a Option<Column>,
    /// Share of the training pairs that is used.
    pub share: f64,
}

impl PairFiles<'_> {
    /// Reads the pairs of a run.
    pub fn read(&self) -> Result<Splits<Pair>, TaskError> {
        let mut splits = match self.path {
            Some(path) => load_pairs(&Source { path: path.to_path_buf(), fold: self.fold }, &self.columns())?,
            None => {
                let pair = |sentence: builtin::Sentence| Pair::new(&sentence.text(), &sentence.french);
                builtin::english_french(builtin::Sizes::default(), 1).map(pair)
            }
        };
        keep_share(&mut splits, self.share, "pairs", |pair| pair.source().to_string())?;
        Ok(splits)
    }

    /// Reads the pairs of a run as examples to survey.
    pub fn raw(&self) -> Result<Splits<RawExample>, TaskError> {
        let raw = |pair: Pair| RawExample {
            input: RawInput::Text(pair.source().to_string()),
            answer: pair.target().to_string(),
            labels: Vec::new(),
        };
        Ok(self.read()?.map(raw))
    }

    /// The columns of a file given after training. Names of languages are ignored unless it is JSONL: others have no header.
    pub fn columns_of(&self, path: &Path) -> PairColumns {
        let named = |column: &Option<Column>| column.as_ref().and_then(Column::name).is_some();
        let mut columns = self.columns();
        if !is_jsonl(path) {
            columns.source.take_if(|_| named(self.source));
            columns.target.take_if(|_| named(self.target));
        }
        columns
    }

    /// The columns that hold source and target.
    fn columns(&self) -> PairColumns {
        PairColumns { source: self.source.clone(), target: self.target.clone() }
    }
}
