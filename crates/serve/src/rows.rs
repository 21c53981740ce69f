//! Texts that a model writes at the same time. They join and leave between steps.

use std::panic::{AssertUnwindSafe, catch_unwind};

use regard_nn::Pass;
use regard_tasks::writer::{Drawn, Text, Writer, read};
use tokio::sync::mpsc::UnboundedSender;

use crate::error::WorkError;
use crate::limits::Limits;
use crate::metrics::ModelMetrics;
use crate::queue::TextItem;

/// Number of tokens of prompts that are read in one step beside the texts that are being written. A long prompt is read in many
/// steps, so that it does not stall the others.
const PROMPT_TOKENS: usize = 256;

/// A text that is being written.
struct Row {
    text: Text,
    /// Index of the text in its request.
    index: usize,
    bytes: usize,
    events: UnboundedSender<(usize, Result<Drawn, WorkError>)>,
    /// Whether the row makes its steps alone, because a step with others has failed.
    is_alone: bool,
    is_over: bool,
}

impl Row {
    /// Draws a token and tells the client.
    fn draw(&mut self, writer: &dyn Writer, logits: &mut [f32], metrics: &ModelMetrics) {
        let drawn = match catch_unwind(AssertUnwindSafe(|| self.text.draw(writer, logits))) {
            Ok(drawn) => drawn.map_err(WorkError::from),
            Err(_) => {
                metrics.panics.add(1);
                Err(WorkError::Panicked)
            }
        };
        self.is_alone = false;
        self.is_over = drawn.as_ref().map_or(true, |drawn| drawn.end.is_some());
        metrics.tokens_written.add(drawn.iter().filter(|drawn| drawn.token.is_some()).count());
        let _ = self.events.send((self.index, drawn));
    }
}

/// The texts that a model writes.
pub struct Rows<'a> {
    writer: Box<dyn Writer + 'a>,
    rows: Vec<Row>,
    limits: Limits,
    /// Bytes and number of texts that are reserved for texts that have not joined yet.
    reserved: (usize, usize),
    metrics: &'a ModelMetrics,
}

impl<'a> Rows<'a> {
    /// Creates a model that writes nothing yet.
    pub fn new(writer: Box<dyn Writer + 'a>, limits: Limits, metrics: &'a ModelMetrics) -> Self {
        Self { writer, rows: Vec::new(), limits, reserved: (0, 0), metrics }
    }

    /// Returns whether nothing is being written.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Reserves memory and rows for the texts of a request; returns whether there is room.
    pub fn reserve(&mut self, item: &TextItem) -> bool {
        let (bytes, count) = (self.reserved.0 + item.bytes, self.reserved.1 + item.texts.len());
        let used: usize = self.rows.iter().map(|row| row.bytes).sum();
        let fits = used + bytes <= self.limits.cache && self.rows.len() + count <= self.limits.rows;
        if fits {
            self.reserved = (bytes, count);
        }
        fits
    }

    /// Lets the texts of a request join. Their memory was reserved.
    pub fn join(&mut self, item: TextItem) {
        let (count, bytes) = (item.texts.len(), item.bytes);
        self.reserved.0 = self.reserved.0.saturating_sub(bytes);
        self.reserved.1 = self.reserved.1.saturating_sub(count);
        for (index, text) in item.texts.into_iter().enumerate() {
            self.metrics.tokens_read.add(text.prompt_tokens());
            let (bytes, events) = (bytes / count, item.events.clone());
            self.rows.push(Row { text, index, bytes, events, is_alone: false, is_over: false });
        }
        self.tell();
    }

    /// Makes one step of the texts, without those whose clients have gone.
    pub fn step(&mut self) {
        self.leave();
        let mut chosen = chosen(&mut self.rows, self.writer.window());
        if chosen.is_empty() {
            return;
        }
        self.metrics.step(chosen.len());
        let mut texts: Vec<&mut Text> = chosen.iter_mut().map(|row| &mut row.text).collect();
        let writer = self.writer.as_ref();
        let found = catch_unwind(AssertUnwindSafe(|| read(writer, &mut texts, &Pass::inference())));
        match found {
            Ok(Ok(found)) => {
                for (row, logits) in chosen.into_iter().zip(found) {
                    if let Some(mut logits) = logits {
                        row.draw(writer, &mut logits, self.metrics);
                    }
                }
            }
            failed => {
                let error = match failed {
                    Ok(Err(error)) => WorkError::from(error),
                    _ => {
                        self.metrics.panics.add(1);
                        WorkError::Panicked
                    }
                };
                let is_one = chosen.len() == 1;
                for row in chosen {
                    if is_one {
                        row.is_over = true;
                        let _ = row.events.send((row.index, Err(error.clone())));
                    } else {
                        // Which text is to blame shows when each makes its step alone.
                        row.text.read_again();
                        row.is_alone = true;
                    }
                }
            }
        }
        self.leave();
    }

    /// Removes texts that are over or that nobody waits for.
    fn leave(&mut self) {
        let before = self.rows.len();
        self.rows.retain(|row| !row.is_over && !row.events.is_closed());
        if self.rows.len() < before {
            self.tell();
        }
    }

    fn tell(&self) {
        self.metrics.rows.set(self.rows.len());
        self.metrics.cache.set(self.rows.iter().map(|row| row.bytes).sum());
    }
}

/// Chooses the rows of a step: one that must be alone, else all that write and, in order, those that read, within a number of
/// tokens.
fn chosen(rows: &mut [Row], window: Option<usize>) -> Vec<&mut Row> {
    if let Some(at) = rows.iter().position(|row| row.is_alone) {
        return rows.iter_mut().skip(at).take(1).collect();
    }
    let mut prompts = 0;
    let takes_part = |row: &&mut Row| {
        let tokens = row.text.next_tokens(window);
        let fits = tokens == 1 || prompts == 0 || prompts + tokens <= PROMPT_TOKENS;
        prompts += if fits && tokens > 1 { tokens } else { 0 };
        fits
    };
    rows.iter_mut().filter(takes_part).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};

    use regard_nn::models::language_model::LanguageModel;
    use regard_tasks::decode::Wish;
    use regard_tasks::writer::{Beginning, cache_bytes};
    use regard_tasks::{Opened, TaskError};
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;

    /// A token whose text makes [`Fragile`] panic.
    const BAD: u32 = 200;

    /// A writer that panics when it decodes [`BAD`], and once when `breaks` is set and a step begins.
    struct Fragile<'a> {
        whole: Box<dyn Writer + 'a>,
        breaks: &'a AtomicBool,
    }

    impl Writer for Fragile<'_> {
        fn begin(&self, beginning: &Beginning, wish: &Wish, seed: u64) -> Result<Text, TaskError> {
            self.whole.begin(beginning, wish, seed)
        }

        fn network(&self) -> &LanguageModel {
            assert!(!self.breaks.swap(false, Ordering::SeqCst), "the network breaks");
            self.whole.network()
        }

        fn window(&self) -> Option<usize> {
            self.whole.window()
        }

        fn hidden(&self) -> usize {
            self.whole.hidden()
        }

        fn decode(&self, ids: &[u32]) -> String {
            assert!(!ids.contains(&BAD), "a bad token");
            self.whole.decode(ids)
        }

        fn has_chat(&self) -> bool {
            false
        }
    }

    type Told = UnboundedReceiver<(usize, Result<Drawn, WorkError>)>;

    fn item(writer: &dyn Writer, prompt: &[u32]) -> (TextItem, Told) {
        let wish = Wish { max_len: Some(6), ..Wish::default() };
        let text = writer.begin(&Beginning::Tokens(prompt.to_vec()), &wish, 0).unwrap();
        let (events, told) = unbounded_channel();
        (TextItem { bytes: cache_bytes(writer, &text), texts: vec![text], events }, told)
    }

    /// The tokens of a text and the error that it ended with.
    type Heard = (Vec<u32>, Option<WorkError>);

    fn heard(mut told: Told) -> Heard {
        let (mut tokens, mut error) = (Vec::new(), None);
        while let Ok((_, drawn)) = told.try_recv() {
            match drawn {
                Ok(drawn) => tokens.extend(drawn.token),
                Err(found) => error = Some(found),
            }
        }
        (tokens, error)
    }

    fn model() -> std::sync::Arc<dyn Opened> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/hugging_face/gpt2");
        regard_tasks::open(&folder).unwrap()
    }

    fn written(prompts: &[&[u32]], breaks_after: Option<usize>) -> (Vec<Heard>, u64) {
        let (model, metrics, breaks) = (model(), ModelMetrics::default(), AtomicBool::new(false));
        let fragile = Fragile { whole: model.writer().unwrap(), breaks: &breaks };
        let mut rows = Rows::new(Box::new(fragile), Limits::default(), &metrics);
        let mut told = Vec::new();
        for prompt in prompts {
            let (item, heard) = item(model.writer().unwrap().as_ref(), prompt);
            assert!(rows.reserve(&item));
            rows.join(item);
            told.push(heard);
        }
        for step in 0..1_000 {
            breaks.store(breaks_after == Some(step), Ordering::SeqCst);
            rows.step();
        }
        assert!(rows.is_empty());
        assert_eq!((metrics.rows.get(), metrics.cache.get()), (0, 0));
        (told.into_iter().map(heard).collect(), metrics.panics.get())
    }

    #[test]
    fn a_panic_fails_one_text_alone() {
        let (alone, _) = written(&[&[5, 6]], None);
        assert!(alone[0].0.len() == 6 && alone[0].1.is_none(), "{alone:?}");
        let (found, panics) = written(&[&[5, 6], &[7, BAD], &[5, 6]], None);
        assert_eq!((&found[0], &found[2], panics), (&alone[0], &alone[0], 1));
        assert_eq!(found[1], (vec![], Some(WorkError::Panicked)));
        // A step that breaks as a whole is made again by each text alone.
        let (found, panics) = written(&[&[5, 6], &[9, 8, 7], &[5, 6]], Some(3));
        assert_eq!((&found[0], &found[2], panics), (&alone[0], &alone[0], 1));
        assert_eq!((found[1].0.len(), &found[1].1), (6, &None));
    }

    #[test]
    fn a_text_waits_for_memory() {
        let (model, metrics) = (model(), ModelMetrics::default());
        let (first, _told) = item(model.writer().unwrap().as_ref(), &[5]);
        let (second, _other) = item(model.writer().unwrap().as_ref(), &[5]);
        let limits = Limits { cache: first.bytes * 3 / 2, ..Limits::default() };
        let mut rows = Rows::new(model.writer().unwrap(), limits, &metrics);
        assert!(rows.reserve(&first) && !rows.reserve(&second));
        rows.join(first);
        assert!(!rows.reserve(&second));
        (0..6).for_each(|_| rows.step());
        assert!(rows.is_empty() && rows.reserve(&second));
    }
}
