//! The queue of a model: inputs of many requests wait for its worker, which takes them in batches of similar length.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use regard_data::PublishedText;
use regard_nn::{Ablation, Mode, Temperature, Wanted};
use regard_tasks::answered::{HeadCost, Score};
use regard_tasks::decode::Wish;
use regard_tasks::input::Given;
use regard_tasks::lens::Lens;
use regard_tasks::task::{Looked, Prediction, Sample};
use regard_tasks::writer::{Drawn, End, Text};
use tokio::sync::{mpsc, oneshot};

use crate::error::WorkError;
use crate::metrics::ModelMetrics;
use crate::summary::Summary;

/// What a model is asked for.
pub enum Work {
    /// The vector of a text.
    Embed(PublishedText),
    /// The answer to an input, and the answer of the changed model.
    Predict(Given, Option<Arc<Changes>>),
    /// The attention maps of an input.
    Look(Box<Look>),
    /// A text from a model whose texts cannot join others.
    Generate(LoneText),
    /// An input that shows what the model does.
    Example,
    /// What each head does for the answer to an input, by switching it off in this way.
    Costs(Given, Mode),
    /// What each layer of a language model would predict, as a number of most probable tokens.
    Lens(String, usize, Option<Changes>),
}

/// Where drawn tokens and pieces go, with the index of the text in its request.
pub type Events = mpsc::UnboundedSender<(usize, Result<Drawn, WorkError>)>;

/// A text that is written alone.
pub struct LoneText {
    /// What comes before the text; `None` lets the model begin.
    pub input: Option<Given>,
    /// What the client asks for.
    pub wish: Wish,
    /// Seed of the random number generator.
    pub seed: u64,
    /// Index of the text in its request.
    pub index: usize,
    /// Where pieces go.
    pub events: Events,
}

impl LoneText {
    /// Tells the client.
    pub fn send(&self, drawn: Result<Drawn, WorkError>) {
        let _ = self.events.send((self.index, drawn));
    }
}

/// What is changed in a model for one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Changes {
    /// Names of the parts that are switched off, as the client wrote them.
    pub names: String,
    /// The parts; none by default.
    pub ablation: Ablation,
    /// Temperature of attention.
    pub temperature: Option<Temperature>,
}

/// What of an input's attention is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// The input.
    pub given: Given,
    /// The maps. Each entry is one pass through the model, so that not all maps are in memory at once.
    pub wanted: Vec<Wanted>,
    /// What is changed in the model.
    pub changes: Option<Changes>,
    /// Whether only summaries of the maps are kept.
    pub is_summary: bool,
}

/// The result of [`Work`].
#[derive(Debug)]
pub enum Answer {
    /// A vector.
    Vector(Vec<f32>),
    /// A prediction, and the one without some parts of the model.
    Prediction(Prediction, Option<Prediction>),
    /// Attention maps, and the prediction if the model gives one.
    Looked(Arc<Looked>, Option<Prediction>),
    /// Summaries of attention maps, and the prediction if the model gives one.
    Summary(Box<Summary>, Option<Prediction>),
    /// The text is complete.
    Generated,
    /// An input, with the expected answer if it is known.
    Example(Sample),
    /// How sure the model is of an answer, with all heads and without each.
    Costs(Score, Vec<HeadCost>),
    /// What each layer would predict.
    Lens(Lens),
}

/// An input that waits for a model.
pub struct Item {
    /// What is asked for.
    pub work: Work,
    /// Number of tokens, estimated where it is not known.
    pub size: usize,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Result<Answer, WorkError>>,
    /// Whether somebody still waits.
    pub waiting: Arc<Waiting>,
}

impl Item {
    /// Gives the answer to the client.
    pub fn finish(self, answer: Result<Answer, WorkError>) {
        if let Work::Generate(text) = &self.work {
            let end = Drawn { end: Some(End::Stop), ..Drawn::piece("") };
            text.send(answer.as_ref().map(|_| end).map_err(Clone::clone));
        }
        let _ = self.reply.send(answer);
    }

    /// Returns whether two inputs can go through the model together.
    fn goes_with(&self, other: &Self) -> bool {
        match (&self.work, &other.work) {
            (Work::Embed(_), Work::Embed(_)) | (Work::Predict(_, None), Work::Predict(_, None)) => true,
            (Work::Predict(_, Some(one)), Work::Predict(_, Some(other))) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

/// Texts of one request that wait to be written.
pub struct TextItem {
    /// The texts.
    pub texts: Vec<Text>,
    /// Bytes of their caches.
    pub bytes: usize,
    /// Where drawn tokens go, with the index of the text.
    pub events: Events,
}

/// Whether the client of a request still waits.
#[derive(Default)]
pub struct Waiting {
    is_gone: AtomicBool,
    /// The last batch with an input of the request. A batch holds its requests, so that an `Arc` here would keep both for ever.
    batch: Mutex<Weak<Together>>,
}

impl Waiting {
    /// Returns whether the client has gone.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::SeqCst)
    }
}

/// Marks a request as given up when it is dropped.
pub struct Waiter(pub Arc<Waiting>);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.is_gone.store(true, Ordering::SeqCst);
        let batch = self.0.batch.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        if let Some(batch) = batch {
            batch.look();
        }
    }
}

/// The requests of a batch. The batch is cancelled when nobody waits for it any more.
pub struct Together {
    waiting: Vec<Arc<Waiting>>,
    /// Whether all have gone.
    pub cancelled: AtomicBool,
}

impl Together {
    /// Watches over the requests of a batch.
    pub fn of(items: &[Item]) -> Arc<Self> {
        let waiting: Vec<Arc<Waiting>> = items.iter().map(|item| Arc::clone(&item.waiting)).collect();
        let together = Arc::new(Self { waiting, cancelled: AtomicBool::new(false) });
        for waiting in &together.waiting {
            *waiting.batch.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&together);
        }
        together.look();
        together
    }

    fn look(&self) {
        if self.waiting.iter().all(|waiting| waiting.is_gone()) {
            self.cancelled.store(true, Ordering::SeqCst);
        }
    }
}

/// What a worker does next.
#[derive(Default)]
pub struct Taken {
    /// Inputs that go through the model together.
    pub batch: Vec<Item>,
    /// Texts to begin.
    pub texts: Vec<TextItem>,
    /// Whether no more will come.
    pub is_over: bool,
}

/// The queue of a model.
pub struct Queue {
    state: Mutex<State>,
    came: Condvar,
    most: usize,
    tokens: usize,
    metrics: Arc<ModelMetrics>,
}

#[derive(Default)]
struct State {
    items: VecDeque<Item>,
    texts: VecDeque<TextItem>,
    is_closed: bool,
}

impl State {
    fn waiting(&self) -> usize {
        self.items.len() + self.texts.iter().map(|item| item.texts.len()).sum::<usize>()
    }

    /// Drops what nobody waits for.
    fn sweep(&mut self, metrics: &ModelMetrics) {
        let before = self.waiting();
        self.items.retain(|item| !item.waiting.is_gone());
        self.texts.retain(|item| !item.events.is_closed());
        metrics.dropped.add(before - self.waiting());
        metrics.waiting.set(self.waiting());
    }
}

impl Queue {
    /// Creates an empty queue of at most `most` inputs, with batches of at most `tokens` tokens.
    pub fn new(most: usize, tokens: usize, metrics: Arc<ModelMetrics>) -> Self {
        Self { state: Mutex::default(), came: Condvar::new(), most, tokens, metrics }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state is consistent between statements, so that a panic elsewhere does no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds all inputs of a request, or none.
    pub fn push(&self, items: Vec<Item>) -> Result<(), (Vec<Item>, WorkError)> {
        let mut state = self.state();
        match self.check(&mut state, items.len()) {
            Err(error) => Err((items, error)),
            Ok(()) => {
                state.items.extend(items);
                self.metrics.waiting.set(state.waiting());
                self.came.notify_one();
                Ok(())
            }
        }
    }

    /// Adds the texts of a request.
    pub fn push_texts(&self, item: TextItem) -> Result<(), (TextItem, WorkError)> {
        let mut state = self.state();
        match self.check(&mut state, item.texts.len()) {
            Err(error) => Err((item, error)),
            Ok(()) => {
                state.texts.push_back(item);
                self.metrics.waiting.set(state.waiting());
                self.came.notify_one();
                Ok(())
            }
        }
    }

    /// Returns an error if there is no room for `more` inputs. An empty queue has room for any request.
    fn check(&self, state: &mut State, more: usize) -> Result<(), WorkError> {
        if state.is_closed {
            return Err(WorkError::Retired);
        }
        if state.waiting() + more > self.most {
            state.sweep(&self.metrics);
        }
        match state.waiting() {
            0 => Ok(()),
            waiting if waiting + more <= self.most => Ok(()),
            waiting => Err(WorkError::Full { waiting, most: self.most }),
        }
    }

    /// Lets no more inputs in. Those that wait are still answered.
    pub fn close(&self) {
        self.state().is_closed = true;
        self.came.notify_all();
    }

    /// Takes the next batch and the texts that fit beside those being written. Waits for something to do unless `is_busy`.
    /// `fits` is asked about the next text in order, and reserves room for it if it returns true.
    pub fn take(&self, is_busy: bool, mut fits: impl FnMut(&TextItem) -> bool) -> Taken {
        let mut state = self.state();
        loop {
            state.sweep(&self.metrics);
            let mut taken = Taken { batch: next_batch(&mut state.items, self.tokens), ..Taken::default() };
            // A text that does not fit makes later ones wait, too, so that small ones never starve a large one.
            while let Some(item) = state.texts.pop_front_if(|item| fits(item)) {
                taken.texts.push(item);
            }
            self.metrics.waiting.set(state.waiting());
            taken.is_over = state.is_closed && state.waiting() == 0;
            if is_busy || taken.is_over || !taken.batch.is_empty() || !taken.texts.is_empty() {
                return taken;
            }
            state = self.came.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Takes the oldest input and those of most similar length that can go with it, while the longest times their number is at most
/// `tokens`. The oldest is always taken, so that none waits for ever.
fn next_batch(items: &mut VecDeque<Item>, tokens: usize) -> Vec<Item> {
    let Some(oldest) = items.front() else { return Vec::new() };
    let like: Vec<(usize, usize)> = items
        .iter()
        .enumerate()
        .filter(|(at, item)| *at == 0 || oldest.goes_with(item))
        .map(|(at, item)| (at, item.size))
        .collect();
    let chosen = similar(&like, tokens);
    let mut batch = Vec::with_capacity(chosen.len());
    let mut rest = VecDeque::with_capacity(items.len() - chosen.len());
    for (at, item) in std::mem::take(items).into_iter().enumerate() {
        if chosen.binary_search(&at).is_ok() { batch.push(item) } else { rest.push_back(item) }
    }
    *items = rest;
    batch
}

/// Chooses from inputs, given by index and length, the first and others of most similar length within a budget of padded
/// tokens. Returns their indices in order.
fn similar(inputs: &[(usize, usize)], tokens: usize) -> Vec<usize> {
    let Some(&(_, first)) = inputs.first() else { return Vec::new() };
    let mut order = inputs.to_vec();
    // Among equally similar ones, the older go first: the sort is stable.
    order.sort_by_key(|&(_, size)| size.abs_diff(first));
    let (mut longest, mut chosen) = (0, Vec::new());
    for (at, size) in order {
        let padded = longest.max(size);
        if !chosen.is_empty() && padded.saturating_mul(chosen.len() + 1) > tokens {
            break;
        }
        longest = padded;
        chosen.push(at);
    }
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(size: usize) -> (Item, oneshot::Receiver<Result<Answer, WorkError>>, Waiter) {
        let (reply, answer) = oneshot::channel();
        let waiting = Arc::new(Waiting::default());
        let work = Work::Embed(PublishedText::default());
        (Item { work, size, reply, waiting: Arc::clone(&waiting) }, answer, Waiter(waiting))
    }

    #[test]
    fn a_batch_has_the_oldest_and_those_of_similar_length() {
        let sizes = |all: &[usize]| all.iter().copied().enumerate().collect::<Vec<_>>();
        assert_eq!(similar(&sizes(&[10, 500, 11, 9, 400]), 40), [0, 2, 3]);
        assert_eq!(similar(&sizes(&[10, 10, 10, 10, 10]), 40), [0, 1, 2, 3]);
        // Padding counts: a longer one makes all others longer.
        assert_eq!(similar(&sizes(&[10, 20, 12]), 40), [0, 2]);
        // The oldest is taken even if it is too long.
        assert_eq!(similar(&sizes(&[1_000, 1, 1]), 40), [0]);
        assert_eq!(similar(&[], 40), [0usize; 0]);
    }

    #[test]
    fn a_full_queue_refuses_and_an_empty_one_takes_any_request() {
        let queue = Queue::new(2, 100, Arc::default());
        let (items, _kept): (Vec<_>, Vec<_>) = (0..5).map(|_| item(1)).map(|(item, a, b)| (item, (a, b))).unzip();
        assert!(queue.push(items).is_ok());
        let (one, _answer, _waiter) = item(1);
        let Err((_, error)) = queue.push(vec![one]) else { panic!("expected a refusal") };
        assert_eq!(error, WorkError::Full { waiting: 5, most: 2 });
        assert_eq!(queue.take(false, |_| false).batch.len(), 5);
        queue.close();
        let (one, _answer, _waiter) = item(1);
        assert!(matches!(queue.push(vec![one]), Err((_, WorkError::Retired))));
        assert!(queue.take(false, |_| false).is_over);
    }

    #[test]
    fn requests_whose_clients_have_gone_are_dropped() {
        let queue = Queue::new(2, 100, Arc::default());
        let (first, _answer, gone) = item(1);
        let (second, _other, _waiter) = item(1);
        queue.push(vec![first, second]).map_err(|(_, error)| error).unwrap();
        drop(gone);
        // There is room again.
        let (third, _last, last) = item(1);
        queue.push(vec![third]).map_err(|(_, error)| error).unwrap();
        let batch = queue.take(false, |_| false).batch;
        assert_eq!(batch.len(), 2);
        let together = Together::of(&batch);
        assert!(!together.cancelled.load(Ordering::SeqCst));
        drop((last, _waiter));
        assert!(together.cancelled.load(Ordering::SeqCst));
    }
}
