//! Threads that share a batch: each takes a part of its examples through a whole model and back.
//!
//! The products of a small model take well under a millisecond. Splitting each of them over threads would waste a third of a
//! step on waiting, so the batch is split instead, and threads meet only once per step. While every thread has a part of its own, operations stay on
//! their thread ([`regard_kernels::is_crowded`]); a thread that is done helps the others.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use regard_kernels::PartGuard;

/// The largest number of parts of a batch: each part holds gradients of all parameters. Further threads help.
pub(super) const MOST_PARTS: usize = 8;

/// Returns the number of parts that a batch is cut into in the current pool.
pub fn parts() -> usize {
    rayon::current_num_threads().min(MOST_PARTS)
}

/// Runs `work` on each of at most [`parts`] inputs, all at the same time, and returns the results in the inputs' order.
///
/// A thread that waits inside `work` takes over pieces of operations of other parts, but never another part of this call:
/// locks that `work` holds are safe.
///
/// # Panics
/// Panics if there are more inputs than parts, or if `work` panics.
pub(crate) fn share<P: Send, R: Send>(inputs: Vec<P>, work: impl Fn(usize, P) -> R + Sync) -> Vec<R> {
    assert!(inputs.len() <= parts(), "{} inputs for {} parts", inputs.len(), parts());
    let running = Arc::new(AtomicUsize::new(inputs.len()));
    if inputs.len() < 2 {
        // Marked as a part all the same: another process may have the other parts of the batch.
        let alone = |input| {
            let _part = PartGuard::begin(&running);
            work(0, input)
        };
        return inputs.into_iter().map(alone).collect();
    }
    let places: Vec<_> = inputs.into_iter().map(|input| (Mutex::new(Some(input)), Mutex::new(None))).collect();
    rayon::broadcast(|thread| {
        let Some((input, result)) = places.get(thread.index()) else { return };
        let input = input.lock().expect("no other thread locks this input").take().expect("an input is taken once");
        let _part = PartGuard::begin(&running);
        *result.lock().expect("no other thread locks this result") = Some(work(thread.index(), input));
    });
    let results = places.into_iter().map(|(_, result)| result.into_inner().expect("a panic would have come through"));
    results.map(|result| result.expect("every part has run")).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use regard_kernels::{is_crowded, team_threads};

    use super::*;

    fn with<R: Send>(threads: usize, run: impl FnOnce() -> R + Send) -> R {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(run)
    }

    /// Returns the result of `run`; fails after a minute, since threads that wait for each other would wait for ever.
    #[track_caller]
    fn in_time<T: Send + 'static>(what: &str, run: impl FnOnce() -> T + Send + 'static) -> T {
        let (send, receive) = channel();
        let worker = std::thread::spawn(move || send.send(run()));
        match receive.recv_timeout(Duration::from_secs(60)) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => panic!("{what}: still waiting after 60 s"),
            Err(RecvTimeoutError::Disconnected) => std::panic::resume_unwind(worker.join().unwrap_err()),
        }
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
        assert_eq!(with(2, || share(vec![()], |_, ()| (is_crowded(), team_threads()))), [(false, 1)]);
        assert_eq!(with(2, || (is_crowded(), team_threads())), (false, 2));
    }

    #[test]
    #[should_panic(expected = "a broken part")]
    fn a_panic_comes_through() {
        with(2, || share(vec![0, 1], |_, input| assert!(input == 0, "a broken part")));
    }
}
