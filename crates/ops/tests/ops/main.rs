//! Every operation against PyTorch's golden files and against its own fallback through Burn's autodiff.

mod activation;
mod attention;
mod cross_entropy;
mod dropout;
mod golden;
mod linear;
mod rms_norm;
mod rope;
mod softmax;
mod support;
