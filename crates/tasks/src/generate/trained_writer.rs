//! Texts of a trained Transformer that join and leave while others are written.

use regard_data::SPECIALS;
use regard_nn::models::language_model::LanguageModel;

use super::{Generate, plan_for};
use crate::decode::{Chat, Start, Wish};
use crate::error::TaskError;
use crate::writer::{Beginning, Text, Writer};

/// A trained Transformer that writes texts which join and leave between steps.
pub(super) struct TrainedWriter<'a> {
    pub task: &'a Generate,
    pub model: &'a LanguageModel,
}

impl Writer for TrainedWriter<'_> {
    fn begin(&self, beginning: &Beginning, wish: &Wish, seed: u64) -> Result<Text, TaskError> {
        let vocab = self.task.tokenizer.vocab();
        let tokens = match beginning {
            Beginning::Nothing => self.task.beginning(),
            Beginning::Text(text) => self.task.prompt(text)?,
            Beginning::Tokens(ids) if !ids.is_empty() && ids.iter().all(|&id| (id as usize) < vocab) => ids.clone(),
            Beginning::Tokens(_) => {
                let expected = format!("at least one token, each below {vocab}");
                return Err(TaskError::input("prompt", expected, "other tokens"));
            }
            Beginning::Conversation(_) => Vec::new(),
        };
        let chat = matches!(beginning, Beginning::Conversation(_)).then(Chat::default);
        let plan = plan_for(&Wish { chat, ..wish.clone() })?;
        let limit = plan.sampling.max_len;
        Text::new(self, Start { tokens, limit }, plan, seed)
    }

    fn network(&self) -> &LanguageModel {
        self.model
    }

    fn window(&self) -> Option<usize> {
        self.task.config.window()
    }

    fn hidden(&self) -> usize {
        SPECIALS.len()
    }

    fn decode(&self, ids: &[u32]) -> String {
        self.task.tokenizer.decode(ids)
    }

    fn has_chat(&self) -> bool {
        false
    }
}
