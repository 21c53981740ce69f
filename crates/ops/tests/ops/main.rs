//! Every operation against PyTorch's golden files and against its own fallback through Burn's autodiff.

mod adamw;
mod attention;
mod embedding;
mod golden;
mod layer_norm;
mod linear;
mod linear_attention;
mod linear_cross_entropy;
mod recurrent;
mod support;
