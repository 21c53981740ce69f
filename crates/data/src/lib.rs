//! Data for the tasks: readers of text formats, splits, tokenisers, batches, and data that are built in.
//!
//! Nothing here knows a tensor. The same files and the same seed give the same examples in the same order, and what
//! cannot be read is a [`DataError`] that names the file and the line.
#![forbid(unsafe_code)]

mod batch;
pub mod builtin;
mod error;
mod file;
mod folder;
mod hash;
mod jsonl;
mod labelled;
mod pairs;
mod split;
mod tagged;
#[cfg(test)]
mod testing;
mod text;
mod tokenizer;
mod vocabulary;

pub use batch::{Budget, Padded, batches, in_order, pad};
pub use error::DataError;
pub use file::{TextFile, read_file};
pub use hash::hash;
pub use labelled::{LabelColumn, Labelled, load_labelled, read_labelled};
pub use pairs::{Pair, load_pairs, read_pairs};
pub use split::{Fold, Source, Split, Splits, fingerprint, load_splits, load_splits_by};
pub use tagged::{TagColumn, Tagged, load_tagged, read_tagged};
pub use text::{read_text, split_text};
pub use tokenizer::{Case, END, Encoded, MASK, PAD, SPECIALS, START, Tokenizer, TokenizerConfig, TokenizerKind, UNK};
pub use vocabulary::Vocabulary;
