//! Complete models, built from the layers.

pub mod body;
pub mod captioner;
pub mod classifier;
pub mod encoder;
pub mod encoder_decoder;
pub mod graph;
pub mod handwriting;
pub mod headed;
pub mod image;
pub mod language_model;
pub mod masked_language_model;
pub mod recurrent_language_model;
pub mod recurrent_translator;
pub mod recurrent_writer;
pub mod stack;
pub mod tagger;
pub mod target;
pub mod transformer;
pub mod transformer_writer;
pub mod vectors;
pub mod word_vectors;
