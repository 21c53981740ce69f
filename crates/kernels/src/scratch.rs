//! Working memory that a thread keeps between calls, so that a kernel does not pay for fresh pages each time.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

thread_local! {
    static KEPT: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// The largest number of buffers that a thread keeps. A kernel takes one or two; a task that is stolen meanwhile may take more.
const MOST: usize = 4;

/// Alignment of a buffer in bytes: a cache line, so that no vector lies in two of them.
const ALIGNMENT: usize = 64;

/// A buffer of unspecified content, which goes back to the thread when dropped.
pub(crate) struct Scratch {
    buffer: Vec<f32>,
    /// The first aligned element.
    start: usize,
    len: usize,
}

impl Scratch {
    pub(crate) fn new(len: usize) -> Self {
        let room = len + ALIGNMENT / size_of::<f32>();
        let kept = KEPT.with_borrow_mut(|kept| match kept.iter().rposition(|buffer| buffer.len() >= room) {
            Some(fitting) => Some(kept.swap_remove(fitting)),
            None => kept.pop(),
        });
        let buffer = kept.filter(|buffer| buffer.len() >= room).unwrap_or_else(|| vec![0.0; room]);
        // An interpreter may find no aligned element; the first one then does.
        let start = Some(buffer.as_ptr().align_offset(ALIGNMENT)).filter(|&start| start <= buffer.len() - len);
        Self { buffer, start: start.unwrap_or(0), len }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        KEPT.with_borrow_mut(|kept| {
            if kept.len() < MOST {
                kept.push(std::mem::take(&mut self.buffer));
            }
        });
    }
}

impl Deref for Scratch {
    type Target = [f32];

    #[inline(always)]
    fn deref(&self) -> &[f32] {
        &self.buffer[self.start..][..self.len]
    }
}

impl DerefMut for Scratch {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.buffer[self.start..][..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_buffers_do_not_share() {
        let mut outer = Scratch::new(4);
        outer.fill(1.0);
        Scratch::new(8).fill(2.0);
        assert_eq!(*outer, [1.0; 4]);
    }
}
