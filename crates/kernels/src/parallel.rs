//! Splitting work among threads without changing results.
//!
//! The pieces depend on the shape, and partial sums are added in index order. Where the number of threads decides the
//! pieces (attention of few heads, rows of a recurrent layer), it reaches a result through rounding, and the same number
//! gives the same bits. A rayon `sum` or `reduce` over floats would not.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

/// Number of elements below which a memory-bound loop stays on one thread: a hand-over costs about as much (5 µs).
pub(crate) const SERIAL_ELEMENTS: usize = 16 * 1024;

/// Returns the number of rows of `width` elements in one piece of work, so that a piece holds about [`SERIAL_ELEMENTS`].
pub(crate) fn rows_per_piece(width: usize) -> usize {
    (SERIAL_ELEMENTS / width.max(1)).max(1)
}

/// Calls `f(first_row, rows)` on consecutive pieces of `out`, rows of `width` elements, on all threads.
pub(crate) fn for_each_rows(out: &mut [f32], width: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    let rows = rows_per_piece(width);
    if out.len() <= rows * width {
        if !out.is_empty() {
            f(0, out);
        }
        return;
    }
    if is_crowded() {
        out.chunks_mut(rows * width).enumerate().for_each(|(i, piece)| f(i * rows, piece));
    } else {
        out.par_chunks_mut(rows * width).enumerate().for_each(|(i, piece)| f(i * rows, piece));
    }
}

/// Calls `f` with each index below `count`, on all threads; `width` is the number of elements that a call handles.
pub(crate) fn for_each_index(count: usize, width: usize, f: impl Fn(usize) + Sync + Send) {
    let rows = rows_per_piece(width);
    if count <= rows || is_crowded() {
        (0..count).for_each(f);
    } else {
        (0..count).into_par_iter().with_min_len(rows).for_each(f);
    }
}

thread_local! {
    /// The number of unfinished parts of the work that this thread has a part of.
    static RUNNING: RefCell<Option<Arc<AtomicUsize>>> = const { RefCell::new(None) };
}

/// Marks the current thread, until it is dropped, as busy with its own part of a training batch.
///
/// Operations that the thread calls meanwhile are not split over the other threads, which have parts of their own.
#[derive(Debug)]
pub struct PartGuard<'a> {
    running: &'a AtomicUsize,
    /// The thread's mark before: it may have taken this part while it waited inside a part of another work.
    before: Option<Arc<AtomicUsize>>,
    /// The mark is the thread's, so the guard must be dropped there.
    not_send: PhantomData<*const ()>,
}

impl<'a> PartGuard<'a> {
    /// Begins a part of a work with `running` unfinished parts. Dropping the guard subtracts 1 from `running`.
    pub fn begin(running: &'a Arc<AtomicUsize>) -> Self {
        Self { running, before: RUNNING.replace(Some(running.clone())), not_send: PhantomData }
    }
}

impl Drop for PartGuard<'_> {
    fn drop(&mut self) {
        RUNNING.set(self.before.take());
        self.running.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns whether every thread of the pool works on a part of its own ([`PartGuard`]), so that none would help.
pub fn is_crowded() -> bool {
    RUNNING.with_borrow(|running| {
        running.as_ref().is_some_and(|running| running.load(Ordering::Relaxed) >= rayon::current_num_threads())
    })
}

/// Returns the number of threads to split an operation over.
///
/// Always 1 inside a part ([`PartGuard`]): the split changes rounding, and which other parts have finished is a matter
/// of timing.
pub fn team_threads() -> usize {
    let in_part = RUNNING.with_borrow(Option::is_some);
    if in_part { 1 } else { rayon::current_num_threads() }
}
