//! Working memory that outlives a call: a fresh allocation of some megabytes costs more in page faults than the loop
//! that fills it.

use std::cell::Cell;

thread_local! {
    static KEPT: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Elements that a thread keeps between calls (64 MiB); a larger request is given back to the allocator.
const KEPT_ELEMENTS: usize = 16 << 20;

/// Calls `f` with `len` elements of arbitrary content.
pub(crate) fn with_scratch<R>(len: usize, f: impl FnOnce(&mut [f32]) -> R) -> R {
    // Taken out while in use: a nested call on this thread finds nothing and allocates its own.
    let mut buffer = KEPT.take();
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    let result = f(&mut buffer[..len]);
    if buffer.len() <= KEPT_ELEMENTS {
        let other = KEPT.take();
        KEPT.set(if other.len() > buffer.len() { other } else { buffer });
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_calls_do_not_share() {
        with_scratch(4, |outer| {
            outer.fill(1.0);
            with_scratch(8, |inner| inner.fill(2.0));
            assert_eq!(outer, [1.0; 4]);
        });
        with_scratch(3, |again| assert_eq!(again.len(), 3));
    }

    #[test]
    fn large_buffers_are_not_kept() {
        with_scratch(KEPT_ELEMENTS + 1, |x| assert_eq!(x.len(), KEPT_ELEMENTS + 1));
        assert!(KEPT.take().len() <= KEPT_ELEMENTS);
    }
}
