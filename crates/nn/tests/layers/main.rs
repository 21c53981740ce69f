//! Tests of layers and models: outputs and gradients against PyTorch's golden files or the formulas, and properties.

#[path = "../../../ops/tests/ops/golden.rs"]
#[allow(dead_code, reason = "shared with the tests of the operations")]
mod golden;
#[path = "../../../ops/tests/ops/support.rs"]
#[allow(dead_code, reason = "shared with the tests of the operations")]
mod support;

mod ablation;
mod backpropagation;
mod blocks;
mod body;
mod captioner;
mod case;
mod characters;
mod classifier;
mod context;
mod crf;
mod density;
mod feed_forward;
mod gaussian_window;
mod graph;
mod graph_models;
mod handwriting;
mod hard_attention;
mod image;
mod image_models;
mod intra_attention;
mod linear_attention;
mod link;
mod masked_language_model;
mod mlp;
mod multi_head;
mod pooling;
mod position;
mod position_network;
mod recurrent;
mod recurrent_models;
mod tagger;
mod training_step;
mod vectors;
mod weighing;
mod word_vectors;
