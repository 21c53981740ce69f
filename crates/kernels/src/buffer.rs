//! Memory for results.

/// `len` elements of unspecified content, to be overwritten whole by a kernel.
///
/// Zeroing a result first would cost about a tenth of a training step in memory traffic. For `regard-ops` only, which
/// hands the memory to one kernel and drops it if the kernel refuses.
#[doc(hidden)]
#[allow(clippy::uninit_vec)]
pub fn unwritten(len: usize) -> Vec<f32> {
    let mut buffer = Vec::with_capacity(len);
    // SAFETY: the capacity is `len`. The elements are not initialised: no caller reads them before a kernel has written
    // them all (`Output::Replace` and the word "overwritten" in the kernels' documentation), and none drops anything.
    unsafe { buffer.set_len(len) };
    buffer
}
