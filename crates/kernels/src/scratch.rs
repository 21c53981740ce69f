//! Working memory that a thread keeps between calls, so that a kernel does not pay for fresh pages each time.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};

thread_local! {
    static KEPT: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// The largest number of buffers that a thread keeps. A kernel takes one or two; a task that is stolen meanwhile may take more.
const MOST: usize = 4;

/// A buffer of unspecified content, which goes back to the thread when dropped.
pub(crate) struct Scratch {
    buffer: Vec<f32>,
    len: usize,
}

impl Scratch {
    pub(crate) fn new(len: usize) -> Self {
        let kept = KEPT.with_borrow_mut(|kept| match kept.iter().rposition(|buffer| buffer.len() >= len) {
            Some(fitting) => Some(kept.swap_remove(fitting)),
            None => kept.pop(),
        });
        let buffer = kept.filter(|buffer| buffer.len() >= len).unwrap_or_else(|| vec![0.0; len]);
        Self { buffer, len }
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
        &self.buffer[..self.len]
    }
}

impl DerefMut for Scratch {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.buffer[..self.len]
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
