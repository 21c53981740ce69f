//! Messages over MPI.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ::mpi::Count;
use ::mpi::Threading;
use ::mpi::datatype::{Partition, PartitionMut};
use ::mpi::environment::Universe;
use ::mpi::request::{Request, Scope, scope};
use ::mpi::topology::SimpleCommunicator;
use ::mpi::traits::{Communicator, CommunicatorCollectives};
use anyhow::{Context, Result};
use regard_system::{Ranks, World};

/// Length of the messages of all ranks that travel at once; a longer one takes a second exchange.
const FRAME: usize = 512;
/// Number of bytes before a message in its frame: its length.
const LENGTH: usize = size_of::<u64>();
/// Time for which a rank looks for a message without a pause. After that it leaves the core to others: rank 0 may be scoring.
const EAGER: Duration = Duration::from_millis(20);
/// Pause between two looks after that.
const PAUSE: Duration = Duration::from_micros(200);
/// Variable with a delay in microseconds before each exchange, to see what a slower network would cost.
const DELAY: &str = "REGARD_MPI_DELAY";

/// Joins the processes that a launcher has started together.
pub fn join() -> Result<Ranks> {
    let delay = match std::env::var(DELAY) {
        Ok(text) => text.parse().with_context(|| format!("{DELAY}: expected microseconds, got {text:?}"))?,
        Err(_) => 0,
    };
    // The thread that starts MPI makes all calls: it runs the command.
    let (universe, _) = ::mpi::initialize_with_threading(Threading::Funneled).context("MPI was started before")?;
    Ok(Ranks::of(Arc::new(Mpi { universe, delay: Duration::from_micros(delay) })))
}

/// All processes of an MPI program. An MPI call that fails ends them all: that is the default of MPI.
struct Mpi {
    universe: Universe,
    delay: Duration,
}

impl fmt::Debug for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mpi").field("rank", &self.rank()).field("size", &self.size()).finish()
    }
}

impl Drop for Mpi {
    fn drop(&mut self) {
        if thread::panicking() {
            // To end properly, MPI would wait for the other ranks, and they wait for this one.
            self.all().abort(101);
        }
    }
}

impl Mpi {
    fn all(&self) -> SimpleCommunicator {
        self.universe.world()
    }

    fn delay(&self) {
        if !self.delay.is_zero() {
            thread::sleep(self.delay);
        }
    }
}

/// Waits until an exchange has ended.
fn wait<'a, D: ?Sized, S: Scope<'a>>(mut request: Request<'a, D, S>, pause: Option<Duration>) {
    let start = Instant::now();
    while let Err(unfinished) = request.test() {
        request = unfinished;
        match pause {
            Some(pause) if start.elapsed() > EAGER => thread::sleep(pause),
            _ => thread::yield_now(),
        }
    }
}

/// Converts lengths of consecutive parts to counts and offsets of MPI.
fn partition(lengths: &[usize]) -> (Vec<Count>, Vec<Count>) {
    let count = |length: usize| Count::try_from(length).expect("a bucket of gradients is far below 2³¹ numbers");
    let counts: Vec<Count> = lengths.iter().map(|&length| count(length)).collect();
    let offsets = lengths.iter().scan(0, |end, length| {
        let start = *end;
        *end += length;
        Some(count(start))
    });
    let offsets = offsets.collect();
    (counts, offsets)
}

impl World for Mpi {
    fn rank(&self) -> usize {
        self.all().rank() as usize
    }

    fn size(&self) -> usize {
        self.all().size() as usize
    }

    fn gather(&self, own: Vec<u8>) -> Vec<Vec<u8>> {
        self.delay();
        let mut frame = [0; FRAME];
        let short = own.len().min(FRAME - LENGTH);
        frame[..LENGTH].copy_from_slice(&(own.len() as u64).to_le_bytes());
        frame[LENGTH..LENGTH + short].copy_from_slice(&own[..short]);
        let mut frames = vec![0; FRAME * self.size()];
        // Others may be at work for long.
        scope(|scope| wait(self.all().immediate_all_gather_into(scope, &frame[..], &mut frames[..]), Some(PAUSE)));
        let frames = || frames.as_chunks::<FRAME>().0.iter().map(|frame| frame.split_first_chunk().expect("a length"));
        let lengths: Vec<usize> = frames().map(|(length, _)| u64::from_le_bytes(*length) as usize).collect();
        if lengths.iter().all(|&length| length <= FRAME - LENGTH) {
            return frames().zip(&lengths).map(|((_, text), &length)| text[..length].to_vec()).collect();
        }
        let mut all = vec![0; lengths.iter().sum()];
        let (counts, offsets) = partition(&lengths);
        let mut parts = PartitionMut::new(&mut all[..], counts, offsets);
        scope(|scope| {
            wait(self.all().immediate_all_gather_varcount_into(scope, &own[..], &mut parts), None);
        });
        let mut rest = all.as_slice();
        let texts = lengths.iter().map(|&length| {
            let (text, after) = rest.split_at(length);
            rest = after;
            text.to_vec()
        });
        texts.collect()
    }

    fn exchange(&self, sent: &[f32], to: &[usize], received: &mut [f32], from: &[usize]) {
        self.delay();
        let (counts, offsets) = partition(to);
        let sent = Partition::new(sent, counts, offsets);
        let (counts, offsets) = partition(from);
        let mut received = PartitionMut::new(received, counts, offsets);
        scope(|scope| {
            wait(self.all().immediate_all_to_all_varcount_into(scope, &sent, &mut received), None);
        });
    }

    fn spread(&self, values: &mut [f32], lengths: &[usize]) {
        self.delay();
        let start: usize = lengths[..self.rank()].iter().sum();
        let own = values[start..start + lengths[self.rank()]].to_vec();
        let (counts, offsets) = partition(lengths);
        let mut values = PartitionMut::new(values, counts, offsets);
        scope(|scope| {
            wait(self.all().immediate_all_gather_varcount_into(scope, &own[..], &mut values), None);
        });
    }
}
