//! Processes that work together, on one machine or on many.
//!
//! They are numbered from 0 and called ranks. How messages travel is the business of a [`World`]; [`Alone`] is the one of a
//! single process.

use std::fmt::{self, Debug, Display};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Messages between the ranks.
///
/// All ranks make the same calls in the same order. A call returns when every rank has made it, so it may wait for long.
pub trait World: Debug + Send + Sync {
    /// Returns the number of this rank, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of ranks, at least 1.
    fn size(&self) -> usize;

    /// Gives `own` to every rank. Returns what all ranks gave, in rank order.
    fn gather(&self, own: Vec<u8>) -> Vec<Vec<u8>>;

    /// Sends each rank its part of `sent`, and fills `received` with the parts that the ranks sent to this one. Parts follow each
    /// other in rank order; `to` and `from` are their lengths.
    fn exchange(&self, sent: &[f32], to: &[usize], received: &mut [f32], from: &[usize]);

    /// Fills `values` with the parts of all ranks, which follow each other in rank order. Each rank has written its own part there
    /// before.
    fn spread(&self, values: &mut [f32], lengths: &[usize]);
}

/// The world of a single process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Alone;

impl World for Alone {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn gather(&self, own: Vec<u8>) -> Vec<Vec<u8>> {
        vec![own]
    }

    fn exchange(&self, sent: &[f32], _: &[usize], received: &mut [f32], _: &[usize]) {
        received.copy_from_slice(sent);
    }

    fn spread(&self, _: &mut [f32], _: &[usize]) {}
}

/// A rank failed, and so all ranks end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankFailed {
    /// Number of the first rank that failed.
    pub rank: usize,
    /// Error message of that rank.
    pub message: String,
}

impl Display for RankFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}: {}", self.rank, self.message)
    }
}

impl std::error::Error for RankFailed {}

/// First byte of a message: the work goes on, or the rank failed.
const GOOD: u8 = 0;
const FAILED: u8 = 1;

/// The ranks that work together, this process among them; by default it is alone.
///
/// Between two messages a rank may fail while the others do not. It then [leaves](Self::leave): its error takes the place of
/// its next message, and all ranks end with it. For this, a rank waits for others nowhere but in [`agree`](Self::agree), or
/// directly after it.
#[derive(Debug, Clone)]
pub struct Ranks {
    world: Arc<dyn World>,
    /// Whether there are no more messages: all ranks know of a failure, or they have parted.
    ended: Arc<AtomicBool>,
}

impl Default for Ranks {
    fn default() -> Self {
        Self::of(Arc::new(Alone))
    }
}

impl Ranks {
    /// Returns the ranks of a world.
    pub fn of(world: Arc<dyn World>) -> Self {
        Self { world, ended: Arc::default() }
    }

    /// Returns the messages between the ranks.
    pub fn world(&self) -> &dyn World {
        self.world.as_ref()
    }

    /// Returns the number of this rank, from 0.
    pub fn rank(&self) -> usize {
        self.world.rank()
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.world.size()
    }

    /// Returns whether this process works alone.
    pub fn is_alone(&self) -> bool {
        self.size() == 1
    }

    /// Returns whether this is rank 0, which alone writes files and talks to people.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Gives the message of `own` to all ranks and returns those of all, in rank order. If any rank failed, all get an error: its
    /// own, or [`RankFailed`].
    pub fn agree<E: Display + From<RankFailed>>(&self, own: Result<String, E>) -> Result<Vec<String>, E> {
        match own {
            Ok(text) => Ok(self.tell(GOOD, &text)?),
            Err(error) => match self.tell(FAILED, &error.to_string()) {
                Ok(_) => unreachable!("this rank has failed"),
                Err(_) => Err(error),
            },
        }
    }

    /// Gives the message of rank 0 to all ranks; those of the others are not used.
    pub fn from_first<E: Display + From<RankFailed>>(&self, own: Result<String, E>) -> Result<String, E> {
        Ok(self.agree(own)?.swap_remove(0))
    }

    /// Ends the messages after the last one, on all ranks: a rank that fails from here on does not wait for the others.
    pub fn part(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Tells the other ranks that this one has failed, unless they know of a failure already or have [parted](Self::part).
    pub fn leave(&self, error: &dyn Display) {
        if !self.ended.load(Ordering::Relaxed) {
            let _ = self.tell(FAILED, &error.to_string());
        }
    }

    fn tell(&self, mark: u8, text: &str) -> Result<Vec<String>, RankFailed> {
        let own = [&[mark], text.as_bytes()].concat();
        let mut texts = Vec::with_capacity(self.size());
        let mut failed = None;
        for (rank, message) in self.world.gather(own).into_iter().enumerate() {
            let text = String::from_utf8_lossy(message.get(1..).unwrap_or_default()).into_owned();
            match message.first() {
                Some(&GOOD) => texts.push(text),
                _ => failed = failed.or(Some(RankFailed { rank, message: text })),
            }
        }
        let Some(failed) = failed else { return Ok(texts) };
        self.ended.store(true, Ordering::Relaxed);
        Err(failed)
    }
}

pub mod simulated {
    //! Ranks that are threads of one process, for tests of what ranks compute together.

    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Arc, Mutex};

    use super::{Ranks, World};

    /// One rank of a simulated world: a channel to and from every rank.
    #[derive(Debug)]
    struct Simulated {
        rank: usize,
        to: Vec<Sender<Vec<u8>>>,
        from: Vec<Mutex<Receiver<Vec<u8>>>>,
    }

    /// Runs `work` as `size` ranks, each on a thread of its own, and returns the results in rank order.
    ///
    /// # Panics
    /// Panics if `work` panics on any rank. Ranks that wait for that one panic, too.
    pub fn ranks<R: Send>(size: usize, work: impl Fn(Ranks) -> R + Sync) -> Vec<R> {
        let mut to: Vec<Vec<Sender<Vec<u8>>>> = vec![Vec::new(); size];
        let mut worlds = Vec::new();
        for _ in 0..size {
            let mut from = Vec::new();
            for sender in &mut to {
                let (send, receive) = channel();
                sender.push(send);
                from.push(Mutex::new(receive));
            }
            worlds.push(from);
        }
        let worlds = worlds.into_iter().zip(to).enumerate().map(|(rank, (from, to))| Simulated { rank, to, from });
        std::thread::scope(|scope| {
            let work = &work;
            let threads: Vec<_> = worlds.map(|world| scope.spawn(move || work(Ranks::of(Arc::new(world))))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no rank panics")).collect()
        })
    }

    impl Simulated {
        /// Sends a message to every rank and returns those received, in rank order.
        fn send(&self, messages: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
            self.to.iter().zip(messages).for_each(|(to, message)| to.send(message).expect("no rank panics"));
            let receive = |from: &Mutex<Receiver<_>>| from.lock().expect("one thread per rank").recv();
            self.from.iter().map(|from| receive(from).expect("no rank panics")).collect()
        }
    }

    impl World for Simulated {
        fn rank(&self) -> usize {
            self.rank
        }

        fn size(&self) -> usize {
            self.to.len()
        }

        fn gather(&self, own: Vec<u8>) -> Vec<Vec<u8>> {
            self.send(vec![own; self.size()])
        }

        fn exchange(&self, sent: &[f32], to: &[usize], received: &mut [f32], from: &[usize]) {
            let found = self.send(parts(sent, to).map(to_bytes));
            for (one, &length) in found.iter().zip(from) {
                assert_eq!(one.len(), 4 * length, "the lengths of both sides agree");
            }
            received.copy_from_slice(&found.iter().flat_map(|one| to_numbers(one)).collect::<Vec<f32>>());
        }

        fn spread(&self, values: &mut [f32], lengths: &[usize]) {
            let own = to_bytes(parts(values, lengths).nth(self.rank).expect("a length for each rank"));
            let found = self.gather(own);
            values.copy_from_slice(&found.iter().flat_map(|one| to_numbers(one)).collect::<Vec<f32>>());
        }
    }

    /// Cuts `values` into consecutive parts.
    fn parts<'a>(mut values: &'a [f32], lengths: &'a [usize]) -> impl Iterator<Item = &'a [f32]> {
        lengths.iter().map(move |&length| {
            let (part, rest) = values.split_at(length);
            values = rest;
            part
        })
    }

    fn to_bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn to_numbers(bytes: &[u8]) -> impl Iterator<Item = f32> {
        bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::simulated::ranks;
    use super::*;

    #[test]
    fn messages_come_in_rank_order() {
        for size in 1..5 {
            let found = ranks(size, |ranks| ranks.agree::<RankFailed>(Ok(format!("from {}", ranks.rank()))));
            let all: Vec<String> = (0..size).map(|rank| format!("from {rank}")).collect();
            assert!(found.iter().all(|found| *found == Ok(all.clone())), "{found:?}");
            let first = ranks(size, |ranks| ranks.from_first::<RankFailed>(Ok(ranks.rank().to_string())));
            assert!(first.iter().all(|first| *first == Ok("0".to_string())), "{first:?}");
        }
    }

    #[test]
    fn all_end_with_the_rank_that_leaves() {
        let found = ranks(3, |ranks| {
            if ranks.rank() > 0 {
                ranks.leave(&"no file");
            }
            let found = ranks.rank() == 0 && ranks.agree::<RankFailed>(Ok(String::new())).is_ok();
            // The failure is known, so this must not wait for the others.
            ranks.leave(&"once more");
            found
        });
        let parted = ranks(2, |ranks| {
            ranks.part();
            if ranks.rank() == 1 {
                ranks.leave(&"too late to tell");
            }
        });
        assert_eq!(parted.len(), 2);
        assert_eq!(found, [false, false, false]);
        let found = ranks(3, |ranks| match ranks.rank() {
            2 => ranks.agree(Err(RankFailed { rank: 9, message: "its own error".to_string() })),
            _ => ranks.agree(Ok(String::new())),
        });
        let (last, others) = found.split_last().unwrap();
        assert_eq!(last.as_ref().unwrap_err().rank, 9);
        assert!(others.iter().all(|other| other.as_ref().unwrap_err().rank == 2), "{others:?}");
    }

    #[test]
    fn numbers_reach_their_ranks() {
        // Rank r sends r + 1 numbers to each rank.
        let found = ranks(3, |ranks| {
            let own = ranks.rank();
            let sent: Vec<f32> = (0..3).flat_map(|to| vec![(10 * own + to) as f32; own + 1]).collect();
            let mut received = vec![f32::NAN; 6];
            ranks.world().exchange(&sent, &[own + 1; 3], &mut received, &[1, 2, 3]);
            let mut all = vec![f32::NAN; 4];
            let (start, length) = ([0, 1, 1][own], [1, 0, 3][own]);
            all[start..start + length].fill(own as f32);
            ranks.world().spread(&mut all, &[1, 0, 3]);
            (received, all)
        });
        for (rank, (received, all)) in found.into_iter().enumerate() {
            let expected = [0, 10, 10, 20, 20, 20].map(|from| (from + rank) as f32);
            assert_eq!(received, expected);
            assert_eq!(all, [0.0, 2.0, 2.0, 2.0]);
        }
    }
}
