//! Memory for results.

/// `len` elements of unspecified content, to be overwritten whole by a kernel.
///
/// Zeroing a result first would cost about a tenth of a training step in memory traffic.
#[allow(clippy::uninit_vec)]
pub fn unwritten(len: usize) -> Vec<f32> {
    let mut buffer = Vec::with_capacity(len);
    // SAFETY: the capacity is `len`; every bit pattern is an f32, and kernels write their results before anybody reads
    // them (`Output::Replace` and the word "overwritten" in their documentation).
    unsafe { buffer.set_len(len) };
    buffer
}
