//! Data for the tasks: readers of text formats, vectors, pictures and sounds, splits, tokenisers, batches and built-in data.
//!
//! This crate knows no tensors. The same files and the same seed give the same examples in the same order. Data that
//! cannot be read give a [`DataError`] that names the file and the line.
#![forbid(unsafe_code)]

mod archive;
mod batch;
pub mod builtin;
mod captions;
mod columns;
mod error;
mod file;
mod folder;
mod graphs;
mod hash;
mod header;
mod images;
mod jsonl;
mod labelled;
mod pairs;
mod script;
mod sounds;
mod split;
mod strokes;
mod tagged;
#[cfg(test)]
mod testing;
mod text;
mod tokenizer;
mod vectors;
mod vocabulary;
mod word_vectors;

pub use archive::{Member, is_archive, member_name, member_of, read_archive, read_member};
pub use batch::{Budget, Padded, batches, in_order, pad};
pub use captions::{Caption, fingerprint_captions, load_captions, read_captioned_names, read_captions};
pub use columns::Column;
pub use error::{DataError, excerpt, listed};
pub use file::{TextFile, check_rereadable, is_jsonl, open_text, read_file};
pub use graphs::{Node, NodeGraph, fingerprint_graph, read_graph};
pub use hash::hash;
pub use images::{
    Colours, Fit, Held, Image, ImageSize, LabelledImage, Side, decode_image, fingerprint_images, idx_names, is_picture,
    limit_images, load_images, read_image, read_image_files, read_images,
};
pub use jsonl::read_json;
pub use labelled::{LabelColumn, Labelled, LabelledColumns, load_labelled, read_labelled, read_texts};
pub use pairs::{Pair, PairColumns, load_pairs, read_pairs, read_sources};
pub use script::{is_east_asian, is_han, is_unspaced, lacks_spaces};
pub use sounds::{
    HeldRecordings, Indices, JOINED, LogMel, MelConfig, Recording, Sound, Voice, decode_wav, encode_wav,
    fingerprint_recordings, is_wav, joined, load_recordings, read_recordings, read_sound, recording_names,
};
pub use split::{Fold, Loaded, Source, Split, Splits, fingerprint};
pub use strokes::{Handwritten, Stroke, convert_strokes, load_strokes, read_strokes, strokes_from_json};
pub use tagged::{TagColumn, Tagged, Untagged, load_tagged, read_tagged};
pub use text::{read_text, split_text};
pub use tokenizer::{
    Around, Case, END, Encoded, MASK, PAD, PublishedText, PublishedTokenizer, SPECIALS, START, Tokenizer,
    TokenizerConfig, TokenizerKind, UNK,
};
pub use vectors::{
    Scaler, Series, Target, TargetKind, Unlike, Vectors, by_time, load_series, load_vectors, read_series, read_vectors,
    vectors_from_json,
};
pub use vocabulary::Vocabulary;
pub use word_vectors::{WordVectors, read_word_vectors};
