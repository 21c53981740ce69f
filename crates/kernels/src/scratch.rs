//! Working memory that a thread keeps between calls, so that a kernel does not pay for fresh pages each time.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

thread_local! {
    static KEPT: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// The largest number of buffers that a thread keeps. A kernel takes a few; a task that is stolen meanwhile may take more.
const MOST: usize = 8;

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
        let kept = KEPT.with_borrow_mut(|kept| {
            // The smallest that fits, so that the next kernel finds a large one.
            let fitting = (0..kept.len()).filter(|&at| kept[at].len() >= room).min_by_key(|&at| kept[at].len());
            fitting.map(|at| kept.swap_remove(at))
        });
        let buffer = kept.unwrap_or_else(|| vec![0.0; room]);
        // An interpreter may find no aligned element; the first one then does.
        let start = Some(buffer.as_ptr().align_offset(ALIGNMENT)).filter(|&start| start <= buffer.len() - len);
        Self { buffer, start: start.unwrap_or(0), len }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        KEPT.with_borrow_mut(|kept| {
            kept.push(std::mem::take(&mut self.buffer));
            if kept.len() > MOST {
                let smallest = (0..kept.len()).min_by_key(|&at| kept[at].len()).unwrap_or(0);
                kept.swap_remove(smallest);
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
