//! The split of a time loop over threads, by rows and hidden units.
//!
//! Rows of the batch are independent, so a team first splits the batch, and no thread waits for another. If the batch has
//! too few rows to fill a register tile in every thread, the product is limited by reading the weights. Then the hidden
//! units are split as well, and the threads meet at a [`Barrier`] after every step.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::RecurrentShape;
use crate::parallel::team_threads;
use crate::tile::TILE_ROWS;

/// Number of multiply-adds of a time loop below which one thread does everything.
const SERIAL_WORK: usize = 1 << 19;
/// Number of multiply-adds of a time loop above which splitting the units pays for starting threads (about 40 µs each).
const SPAWN_WORK: usize = 1 << 23;
/// Number of multiply-adds of one thread and step above which a barrier after the step (about 0.2 µs) pays.
const STEP_WORK: usize = 1 << 15;
/// Number of looks at the barrier before a thread yields its core, about 50 µs.
const SPINS: usize = 1 << 10;

/// The split of a time loop over `row_groups · unit_groups` threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Team {
    batch: usize,
    row_groups: usize,
    unit_groups: usize,
}

/// The rows and units of one thread.
pub(super) struct Part<'a> {
    /// The part's rows of the batch.
    pub(super) rows: Range<usize>,
    /// Number of the part's row group.
    pub(super) row_group: usize,
    unit_group: usize,
    unit_groups: usize,
    barrier: &'a Barrier,
}

/// A time loop, generic over the instruction set.
pub(super) trait TimeLoop: Sync {
    /// Runs the part of one thread.
    fn run<S: Simd>(&self, simd: S, part: &Part<'_>);
}

impl Team {
    /// Chooses the split for a loop whose step multiplies each row by a `[d_hidden, d_out]` matrix, for the current pool.
    pub(super) fn new(shape: &RecurrentShape, d_out: usize) -> Self {
        Self::of_threads(shape, d_out, team_threads())
    }

    /// Chooses a split of the rows alone, for a loop whose steps have parts that need all units of a row.
    pub(super) fn of_rows(shape: &RecurrentShape, d_out: usize) -> Self {
        let team = Self::new(shape, d_out);
        let row_groups = (team.row_groups * team.unit_groups).min(team.batch.max(1));
        Self { row_groups, unit_groups: 1, ..team }
    }

    fn of_threads(shape: &RecurrentShape, d_out: usize, threads: usize) -> Self {
        let batch = shape.batch;
        let step = batch.saturating_mul(shape.d_hidden).saturating_mul(d_out);
        let work = step.saturating_mul(shape.seq);
        if work < SERIAL_WORK || threads < 2 {
            return Self { batch, row_groups: 1, unit_groups: 1 };
        }
        let row_groups = (batch / TILE_ROWS).clamp(1, threads);
        let unit_groups = (threads / row_groups).min(step / row_groups / STEP_WORK).max(1);
        if unit_groups == 1 || work < SPAWN_WORK {
            return Self { batch, row_groups: threads.min(batch), unit_groups: 1 };
        }
        Self { batch, row_groups, unit_groups }
    }

    pub(super) fn row_groups(&self) -> usize {
        self.row_groups
    }

    /// Runs the loop, each part on its own thread.
    pub(super) fn run<S: Simd, L: TimeLoop>(&self, simd: S, time_loop: &L) {
        let barriers: Vec<Barrier> = (0..self.row_groups).map(|_| Barrier::new(self.unit_groups)).collect();
        let work = |index: usize| {
            let (row_group, unit_group) = (index / self.unit_groups, index % self.unit_groups);
            let barrier = &barriers[row_group];
            let rows = share(self.batch, row_group, self.row_groups);
            let part = Part { rows, row_group, unit_group, unit_groups: self.unit_groups, barrier };
            let _breaks_on_panic = BreakOnPanic(barrier);
            simd.vectorize(OnPart(time_loop, &part));
        };
        match (self.row_groups, self.unit_groups) {
            (1, 1) => work(0),
            (groups, 1) => (0..groups).into_par_iter().with_max_len(1).for_each(work),
            // Separate threads: a rayon worker that spins may wait for a task that is queued behind itself.
            (rows, units) => std::thread::scope(|scope| {
                let _breaks_on_panic: Vec<_> = barriers.iter().map(BreakOnPanic).collect();
                for index in 1..rows * units {
                    let work = &work;
                    scope.spawn(move || work(index));
                }
                work(0);
            }),
        }
    }
}

impl Part<'_> {
    /// Returns the part's panels out of `count`.
    #[inline(always)]
    pub(super) fn panels(&self, count: usize) -> Range<usize> {
        share(count, self.unit_group, self.unit_groups)
    }

    /// Waits until all parts with the same rows have called this.
    #[inline(always)]
    pub(super) fn wait(&self) {
        if self.unit_groups > 1 {
            self.barrier.wait();
        }
    }
}

struct OnPart<'a, L>(&'a L, &'a Part<'a>);

impl<L: TimeLoop> WithSimd for OnPart<'_, L> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        self.0.run(simd, self.1);
    }
}

/// Returns the `index`-th of `parts` nearly equal shares of `0..count`.
fn share(count: usize, index: usize, parts: usize) -> Range<usize> {
    let (each, more) = (count / parts, count % parts);
    let start = index * each + index.min(more);
    start..start + each + usize::from(index < more)
}

/// A barrier for a fixed number of threads, which spin, because a step takes only microseconds.
struct Barrier {
    parties: usize,
    arrived: Line<AtomicUsize>,
    round: Line<AtomicUsize>,
    broken: AtomicBool,
}

/// A value alone on its cache lines, two because they are fetched in pairs.
#[repr(align(128))]
struct Line<T>(T);

impl Barrier {
    fn new(parties: usize) -> Self {
        Self {
            parties,
            arrived: Line(AtomicUsize::new(0)),
            round: Line(AtomicUsize::new(0)),
            broken: AtomicBool::new(false),
        }
    }

    fn wait(&self) {
        let round = self.round.0.load(Ordering::Acquire);
        if self.arrived.0.fetch_add(1, Ordering::AcqRel) + 1 == self.parties {
            self.arrived.0.store(0, Ordering::Relaxed);
            self.round.0.store(round.wrapping_add(1), Ordering::Release);
            return;
        }
        let mut spins = 0;
        while self.round.0.load(Ordering::Acquire) == round {
            assert!(!self.broken.load(Ordering::Relaxed), "another thread of the time loop panicked");
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

/// Breaks the barrier on a panic, so that the other threads panic too instead of waiting for ever.
struct BreakOnPanic<'a>(&'a Barrier);

impl Drop for BreakOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::in_time;

    fn team(batch: usize, seq: usize, d_hidden: usize, threads: usize) -> (usize, usize) {
        let shape = RecurrentShape { batch, seq, d_in: 1, d_hidden };
        let team = Team::of_threads(&shape, 4 * d_hidden, threads);
        (team.row_groups, team.unit_groups)
    }

    #[test]
    fn rows_are_split_before_units_and_small_work_is_not() {
        assert_eq!(team(32, 64, 128, 2), (2, 1));
        assert_eq!(team(1, 256, 256, 2), (1, 2));
        assert_eq!(team(32, 64, 256, 16), (5, 3));
        assert_eq!(team(1, 1, 256, 2), (1, 1));
        assert_eq!(team(2, 256, 32, 2), (2, 1));
        assert_eq!(team(1, 256, 256, 1), (1, 1));
        assert_eq!(team(0, 0, 0, 8), (1, 1));
    }

    #[test]
    fn shares_cover_everything_once() {
        for count in 0..20 {
            for parts in 1..7 {
                let all: Vec<usize> = (0..parts).flat_map(|i| share(count, i, parts)).collect();
                assert_eq!(all, (0..count).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn no_thread_passes_the_barrier_early() {
        in_time("three threads at a barrier", || {
            let barrier = Barrier::new(3);
            let count = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        for round in 1..=200 {
                            count.fetch_add(1, Ordering::Relaxed);
                            barrier.wait();
                            assert_eq!(count.load(Ordering::Relaxed), 3 * round);
                            barrier.wait();
                        }
                    });
                }
            });
        });
    }

    #[test]
    fn a_panic_in_one_part_does_not_hang_the_others() {
        struct Panics;
        impl TimeLoop for Panics {
            fn run<S: Simd>(&self, _simd: S, part: &Part<'_>) {
                assert_eq!(part.unit_group, 1, "only part 1 waits");
                part.wait();
            }
        }
        let team = Team { batch: 1, row_groups: 1, unit_groups: 2 };
        let run = move || std::panic::catch_unwind(|| team.run(pulp::Scalar::new(), &Panics)).is_err();
        assert!(in_time("the part that did not panic", run));
    }
}
