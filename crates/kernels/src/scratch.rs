//! Working memory that a thread keeps between calls, so that a kernel does not pay for fresh pages each time.

use std::cell::RefCell;

thread_local! {
    static BUFFERS: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// Buffers a thread keeps at most; a kernel takes one or two, and a stolen task may take more in between.
const KEPT: usize = 4;

/// Calls `f` with `len` elements of unspecified content.
#[inline(always)]
pub(crate) fn with_scratch<R>(len: usize, f: impl FnOnce(&mut [f32]) -> R) -> R {
    // Taken out rather than borrowed: while `f` waits in rayon, this thread may run another kernel.
    let mut buffer = BUFFERS.with_borrow_mut(|buffers| match buffers.iter().rposition(|b| b.len() >= len) {
        Some(fitting) => buffers.swap_remove(fitting),
        None => buffers.pop().unwrap_or_default(),
    });
    if buffer.len() < len {
        buffer = vec![0.0; len];
    }
    let result = f(&mut buffer[..len]);
    BUFFERS.with_borrow_mut(|buffers| {
        if buffers.len() < KEPT {
            buffers.push(buffer);
        }
    });
    result
}
