//! Threads that share a batch: each takes a part of its examples through a whole model and back.
//!
//! A small model has products of well under a millisecond; dealt out to threads one by one, they leave a third of a step
//! to waiting. Parts of a batch meet once a step. While all threads have a part of their own, a product stays on its
//! thread; as soon as one is done it helps the others.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Parts of a batch at most: each has gradients of all parameters. More threads than that help.
const MOST_PARTS: usize = 8;

thread_local! {
    /// The parts that run beside the one of this thread, itself included.
    static RUNNING: RefCell<Option<Arc<AtomicUsize>>> = const { RefCell::new(None) };
}

/// Into how many parts a batch is cut for the current pool.
pub fn parts() -> usize {
    rayon::current_num_threads().min(MOST_PARTS)
}

/// What `work` makes of each of at most [`parts`] inputs, all at the same time, in their order.
///
/// A thread that waits inside `work` takes over pieces of operations of other parts, but never another part of this call:
/// locks that `work` holds are safe.
///
/// # Panics
/// With more inputs than parts, and with the panic of `work`.
pub fn share<P: Send, R: Send>(inputs: Vec<P>, work: impl Fn(usize, P) -> R + Sync) -> Vec<R> {
    assert!(inputs.len() <= parts(), "{} inputs for {} parts", inputs.len(), parts());
    if inputs.len() < 2 {
        return inputs.into_iter().map(|input| work(0, input)).collect();
    }
    let running = Arc::new(AtomicUsize::new(inputs.len()));
    let places: Vec<_> = inputs.into_iter().map(|input| (Mutex::new(Some(input)), Mutex::new(None))).collect();
    rayon::broadcast(|thread| {
        let Some((input, result)) = places.get(thread.index()) else { return };
        let input = input.lock().expect("no other thread comes here").take().expect("taken once");
        let _part = Part::begin(&running);
        *result.lock().expect("no other thread comes here") = Some(work(thread.index(), input));
    });
    let results = places.into_iter().map(|(_, result)| result.into_inner().expect("a panic has come through"));
    results.map(|result| result.expect("every part has run")).collect()
}

/// Whether every thread of the pool has a part of its own, so that none would help.
pub(crate) fn is_crowded() -> bool {
    RUNNING.with_borrow(|running| {
        running.as_ref().is_some_and(|running| running.load(Ordering::Relaxed) >= rayon::current_num_threads())
    })
}

/// How many threads an operation may count on that is split by their number: in a part this is one, whether or not others
/// are done, because the split reaches the result through rounding.
pub(crate) fn team_threads() -> usize {
    let in_part = RUNNING.with_borrow(Option::is_some);
    if in_part { 1 } else { rayon::current_num_threads() }
}

/// A part in progress on this thread.
struct Part<'a> {
    running: &'a AtomicUsize,
    /// Where the thread was before: in a part of another call, if it took this one while it waited there.
    before: Option<Arc<AtomicUsize>>,
}

impl<'a> Part<'a> {
    fn begin(running: &'a Arc<AtomicUsize>) -> Self {
        Self { running, before: RUNNING.replace(Some(running.clone())) }
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        RUNNING.set(self.before.take());
        self.running.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::test_support::in_time;

    fn with<R: Send>(threads: usize, run: impl FnOnce() -> R + Send) -> R {
        crate::isa::pool(threads).install(run)
    }

    #[test]
    fn all_parts_run_at_the_same_time_and_keep_their_order() {
        let found = in_time("three parts", || {
            let all_there = Barrier::new(3);
            with(4, || {
                share(vec![10, 20, 30], |part, input| {
                    all_there.wait();
                    (part, input)
                })
            })
        });
        assert_eq!(found, [(0, 10), (1, 20), (2, 30)]);
        assert_eq!(with(1, || share(vec![7], |_, input| input)), [7]);
        assert_eq!(with(20, || share((0..parts()).collect(), |_, input| input)), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn it_is_crowded_while_all_have_a_part() {
        let crowded = in_time("the part that waits for the other to end", || {
            let met = Barrier::new(2);
            with(2, || {
                share(vec![true, false], |_, waits| {
                    let before = is_crowded() && team_threads() == 1;
                    met.wait();
                    while waits && is_crowded() {
                        std::thread::yield_now();
                    }
                    before
                })
            })
        });
        assert_eq!(crowded, [true, true]);
        assert_eq!(with(2, || share(vec![()], |_, ()| (is_crowded(), team_threads()))), [(false, 2)]);
        assert_eq!(with(2, || (is_crowded(), team_threads())), (false, 2));
    }

    #[test]
    #[should_panic(expected = "a broken part")]
    fn a_panic_comes_through() {
        with(2, || share(vec![0, 1], |_, input| assert!(input == 0, "a broken part")));
    }
}
