//! Texts that a checkpoint writes token by token.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use regard_data::{Around, PublishedText};
use regard_nn::Pass;
use regard_nn::models::language_model::LanguageModel;

use super::answer::joined;
use super::chat::conversation;
use super::generation::Generation;
use super::load::Loaded;
use super::network::{Network, Texts, padded};
use super::opened::Checkpoint;
use super::sentence::longest;
use crate::decode::{
    Decoder, LanguageModelDecoder, Next, Plan, SampleOptions, Start, TransformerDecoder, Wish, sample_by_rules,
};
use crate::error::TaskError;
use crate::generate::writing::{Texting, is_over, searched, write};
use crate::input::Given;
use crate::rows::device_of;
use crate::task::Prompt;
use crate::writer::{Beginning, Text, Writer};

/// Number of tokens that a language model writes if neither the caller nor the folder says how many.
const TOKENS: usize = 300;

/// Continues each text by `count` tokens, or translates it with that many, with a beam or greedily; nothing ends them and no rule
/// of the folder applies.
pub(super) fn continued(
    loaded: &Loaded,
    texts: &Texts,
    count: usize,
    beams: usize,
    pass: &Pass,
) -> Result<Vec<Vec<u32>>, TaskError> {
    let starts = match &loaded.network {
        Network::Translation(_) => vec![vec![Generation::read(loaded)?.start_token()?]; texts.ids.len()],
        _ => texts.ids.clone(),
    };
    let starts: Vec<Start> = starts.into_iter().map(|tokens| Start { tokens, limit: count }).collect();
    let greedy = Plan::from(SampleOptions { temperature: 0.0, ..SampleOptions::default() });
    written(&loaded.network, texts, &starts, &Plan { beams, ..greedy }, &|_| String::new(), pass)
}

/// Writes tokens after each start: a translator translations of the texts, a language model what follows. They end with the token
/// that completes one of the plan's stop strings in their text, which `decode` returns.
pub(super) fn written(
    network: &Network,
    texts: &Texts,
    starts: &[Start],
    plan: &Plan,
    decode: &dyn Fn(&[u32]) -> String,
    pass: &Pass,
) -> Result<Vec<Vec<u32>>, TaskError> {
    let mut decoder = decoder(network, texts, pass)?;
    if plan.beams > 1 {
        return searched(&mut decoder, starts, plan, decode);
    }
    let mut found = vec![Vec::new(); starts.len()];
    let mut random: Vec<ChaCha8Rng> = starts.iter().map(|_| ChaCha8Rng::seed_from_u64(0)).collect();
    sample_by_rules(&mut decoder, starts, &plan.sampling, &plan.rules, &mut random, |row, token| {
        found[row].push(token);
        if is_over(&found[row], &plan.stop, decode) { Next::Stop } else { Next::Continue }
    })?;
    Ok(found)
}

/// Returns a decoder with a row for each text: of a language model that has read nothing, or of a translator that has read them.
fn decoder<'a>(network: &'a Network, texts: &Texts, pass: &Pass<'a>) -> Result<Box<dyn Decoder + 'a>, TaskError> {
    match network {
        Network::Next(model) => Ok(Box::new(LanguageModelDecoder::new(model, texts.ids.len(), None, *pass)?)),
        Network::Translation(model) => {
            let source = model.encode(padded(&texts.ids, &device_of(model))?, texts.lengths(), pass)?;
            Ok(Box::new(TransformerDecoder::new(model.writer(), source, *pass)))
        }
        _ => Err(no_writer()),
    }
}

/// Returns the error for a network that writes no text.
fn no_writer() -> TaskError {
    let what = "generate text: this checkpoint is no language model and no translator".to_string();
    TaskError::Unsupported { task: super::TASK, what }
}

impl Checkpoint {
    /// Continues the prompts, all at once, or translates them, and calls `piece` with the index of a prompt and the next piece.
    pub(super) fn generated(
        &self,
        prompts: &[Prompt<Given>],
        wish: &Wish,
        pass: &Pass,
        piece: &mut dyn FnMut(usize, &str),
    ) -> Result<(), TaskError> {
        if !matches!(self.loaded.network, Network::Next(_) | Network::Translation(_)) {
            return Err(no_writer());
        }
        let tokenizer = self.tokenizer()?;
        let generation = self.generation()?;
        let template = wish.chat.as_ref().map(|_| self.template()).transpose()?;
        let mut ids = Vec::with_capacity(prompts.len());
        for prompt in prompts {
            ids.push(match (&prompt.input, &template, &wish.chat) {
                (Some(given), Some(template), Some(chat)) => {
                    let messages = conversation(given.text()?, chat.system.as_deref())?;
                    // The template writes the special tokens.
                    self.encoded_within(&template.render(&messages)?, Around::Nothing)?.ids
                }
                (None, Some(_), _) => return Err(TaskError::input("prompt", "a message", "none")),
                (Some(given), ..) => self.encoded(given.text()?)?.ids,
                (None, ..) => generation.beginning()?,
            });
        }
        let texts = Texts::new(ids);
        let (plan, starts) = (generation.plan(wish)?, self.starts(generation, &texts, wish, TOKENS)?);
        let decode = |ids: &[u32]| tokenizer.decode(ids).unwrap_or_default();
        let is_continued = matches!(self.loaded.network, Network::Next(_));
        let seeds: Vec<u64> = prompts.iter().map(|prompt| prompt.seed).collect();
        let texting = Texting { decode: &decode, is_continued };
        write(&mut decoder(&self.loaded.network, &texts, pass)?, &starts, &seeds, &plan, &texting, piece)
    }

    /// Writes `count` tokens after each text of tokens, or translations of that length, with a beam or greedily; nothing ends them
    /// and no rule of the folder applies.
    pub fn write_tokens(
        &self,
        texts: &[Vec<u32>],
        count: usize,
        beams: usize,
        pass: &Pass,
    ) -> Result<Vec<Vec<u32>>, TaskError> {
        texts.iter().try_for_each(|ids| self.checked(ids, longest(&self.loaded.config).unwrap_or(usize::MAX)))?;
        continued(&self.loaded, &Texts::new(texts.to_vec()), count, beams, pass)
    }

    /// Translates texts as the folder's settings say.
    pub(super) fn translated(&self, texts: &[&PublishedText], pass: &Pass) -> Result<Vec<Vec<u32>>, TaskError> {
        self.answered(texts, 0, pass)
    }

    /// Writes after texts as the folder's settings say: a translator translations, a language model at most `count` tokens.
    pub(super) fn answered(
        &self,
        texts: &[&PublishedText],
        count: usize,
        pass: &Pass,
    ) -> Result<Vec<Vec<u32>>, TaskError> {
        let generation = self.generation()?;
        let max_len = matches!(self.loaded.network, Network::Next(_)).then_some(count);
        let (texts, wish) = (joined(texts), Wish { max_len, ..Wish::default() });
        let starts = self.starts(generation, &texts, &wish, count)?;
        written(&self.loaded.network, &texts, &starts, &generation.plan(&wish)?, &|ids| self.decoded(ids), pass)
    }

    /// Returns the text of an answer.
    pub(super) fn text(&self, ids: &[u32]) -> Result<String, TaskError> {
        self.generation()?.text(self.tokenizer()?, ids)
    }

    /// Returns the text of tokens; nothing if the folder's tokeniser cannot decode them.
    fn decoded(&self, ids: &[u32]) -> String {
        self.tokenizer().and_then(|tokenizer| Ok(tokenizer.decode(ids)?)).unwrap_or_default()
    }

    /// Returns what the model reads first for each text, and how much may follow.
    fn starts(
        &self,
        generation: &Generation,
        texts: &Texts,
        wish: &Wish,
        otherwise: usize,
    ) -> Result<Vec<Start>, TaskError> {
        if let Network::Translation(_) = self.loaded.network {
            return generation.translations(&self.loaded.config, texts, wish);
        }
        let begin = |ids: &Vec<u32>| generation.begin(&self.loaded.config, ids.clone(), wish, otherwise);
        texts.ids.iter().map(begin).collect()
    }
}

/// A checkpoint of a language model that writes texts which join and leave between steps.
pub(super) struct CheckpointWriter<'a> {
    checkpoint: &'a Checkpoint,
    model: &'a LanguageModel,
}

impl<'a> CheckpointWriter<'a> {
    /// Returns the writer of a checkpoint; `None` if it is no language model or has no tokeniser.
    pub fn of(checkpoint: &'a Checkpoint) -> Option<Self> {
        match &checkpoint.loaded.network {
            Network::Next(model) if checkpoint.tokenizer().is_ok() => Some(Self { checkpoint, model }),
            _ => None,
        }
    }
}

impl Writer for CheckpointWriter<'_> {
    fn begin(&self, beginning: &Beginning, wish: &Wish, seed: u64) -> Result<Text, TaskError> {
        let (checkpoint, generation) = (self.checkpoint, self.checkpoint.generation()?);
        let ids = match beginning {
            Beginning::Nothing => generation.beginning()?,
            Beginning::Text(text) => checkpoint.encoded(text)?.ids,
            Beginning::Tokens(ids) => {
                checkpoint.checked(ids, longest(&checkpoint.loaded.config).unwrap_or(usize::MAX))?;
                ids.clone()
            }
            // The template writes the special tokens.
            Beginning::Conversation(messages) => {
                checkpoint.encoded_within(&checkpoint.template()?.render(messages)?, Around::Nothing)?.ids
            }
        };
        let start = generation.begin(&checkpoint.loaded.config, ids, wish, TOKENS)?;
        Text::new(self, start, generation.plan(wish)?, seed)
    }

    fn network(&self) -> &LanguageModel {
        self.model
    }

    fn window(&self) -> Option<usize> {
        None
    }

    fn hidden(&self) -> usize {
        0
    }

    fn decode(&self, ids: &[u32]) -> String {
        self.checkpoint.decoded(ids)
    }

    fn has_chat(&self) -> bool {
        self.checkpoint.template().is_ok()
    }
}
