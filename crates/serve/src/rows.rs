//! Texts that a model writes at the same time. They join and leave between steps.

use std::panic::{AssertUnwindSafe, catch_unwind};

use regard_nn::Pass;
use regard_tasks::writer::{Drawn, Text, Writer, step};
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
        let found = catch_unwind(AssertUnwindSafe(|| step(writer, &mut texts, &Pass::inference())));
        match found {
            Ok(Ok(found)) => {
                for (row, drawn) in chosen.into_iter().zip(found) {
                    let Some(drawn) = drawn else { continue };
                    row.is_alone = false;
                    row.is_over = drawn.as_ref().map_or(true, |drawn| drawn.end.is_some());
                    self.metrics.tokens_written.add(drawn.iter().filter(|drawn| drawn.token.is_some()).count());
                    let _ = row.events.send((row.index, drawn.map_err(WorkError::from)));
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
