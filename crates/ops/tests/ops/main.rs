//! Compares every operation with PyTorch's golden files, and with its own fallback through Burn's autodiff.

mod activation;
mod adamw;
mod add_rows;
mod attention;
mod convolution;
mod cross_entropy;
mod ctc;
mod dropout;
mod embedding;
mod golden;
mod graph_attention;
mod group_norm;
mod layer_norm;
mod linear;
mod linear_attention;
mod linear_cross_entropy;
mod precision;
mod recurrent;
mod rms_norm;
mod rope;
mod softmax;
mod sparse_matmul;
mod support;
mod trajectory;
