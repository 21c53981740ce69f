//! Every operation against PyTorch's golden files and against its own fallback through Burn's autodiff.

mod attention;
mod golden;
mod linear;
mod support;
