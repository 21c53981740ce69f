//! The layers against PyTorch's dumps and references written from the formulas: outputs, gradients, properties.

#[path = "../../../ops/tests/ops/golden.rs"]
#[allow(dead_code, reason = "shared with the tests of the operations")]
mod golden;
#[path = "../../../ops/tests/ops/support.rs"]
#[allow(dead_code, reason = "shared with the tests of the operations")]
mod support;

mod density;
mod feed_forward;
mod position;
