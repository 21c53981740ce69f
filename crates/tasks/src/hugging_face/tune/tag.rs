//! Tagging by a checkpoint: its encoder with a head that gives each word the tag of its first piece.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::{Int, Tensor, TensorData};
use regard_data::{Case, PublishedText, Split, Splits, Tagged, Vocabulary, batches, in_order, listed, read_tagged};
use regard_inspect::count;
use regard_nn::{ConfigError, Pass};
use regard_ops::{CrossEntropyOptions, cross_entropy};
use serde_json::Value;

use super::base_model::{Base, Goal};
use super::choice::{Load, Way, choose};
use super::config::{PublishedModel, TuneSections, check_network, make_absolute};
use super::export::export;
use crate::auto::{Asked, Choice, Facts};
use crate::error::TaskError;
use crate::folder::Files;
use crate::hugging_face::answer::joined;
use crate::hugging_face::network::Network;
use crate::hugging_face::windows::{Window, windows};
use crate::input::{Given, InputKind};
use crate::model::sizes;
use crate::notes;
use crate::rows::{SCORING, device_of, spread};
use crate::run_config::{RunConfig, check_built_in, check_lengths};
use crate::survey::RawExample;
use crate::tag::encoded::{Encoded, Lexicon};
use crate::tag::scores::{Outcome, evaluation};
use crate::tag::{
    DataConfig, LABELS, TELLING, WORDS, check_labels, prediction, raw_sentences, read_questions, read_sentences,
    read_words, tag_number, tagged_samples, typed, unseen_tags, written,
};
use crate::task::{Evaluation, Legend, Loss, Parts, Prediction, Questions, Sample, Task, Validate};

pub(crate) type Config = RunConfig<DataConfig, PublishedModel, TuneSections>;

impl Validate for Config {
    fn validate(&self) -> Result<(), TaskError> {
        let data = &self.data;
        check_lengths(data.max_length, data.longest)?;
        if data.path.is_none() {
            check_built_in(data.fold, &[])?;
        }
        if !(data.share > 0.0 && data.share <= 1.0) {
            return Err(ConfigError::new("data.share", data.share, "above 0 and up to 1").into());
        }
        check_network(self.model.keys(), &self.more.lora)
    }
}

/// A sentence with the windows that it is read in, one unless it is longer than the network reads.
#[derive(Debug, Clone)]
pub(crate) struct Sentence {
    encoded: Encoded,
    windows: Vec<Window>,
}

/// The encoded sentences of a split.
pub(crate) struct Part {
    sentences: Vec<Sentence>,
    /// Tags that the training split does not have.
    extra: Vec<String>,
}

/// The tagging task of checkpoints; see the [module](self).
pub(crate) struct TunedTag {
    config: Config,
    base: Base,
    lexicon: Lexicon,
}

/// The tags of a sentence, and the probability of each.
type Probable = (Vec<usize>, Vec<f64>);

impl TunedTag {
    fn encoded(&self, sentences: Vec<Tagged>) -> Result<Part, TaskError> {
        let labels = &self.lexicon.labels;
        let extra = unseen_tags(&sentences, labels);
        let sentence = |Tagged { tokens, tags }: Tagged| {
            let tags = tags.iter().map(|tag| tag_number(tag, labels, &extra)).collect();
            self.sentence(tokens, tags)
        };
        let sentences = sentences.into_iter().map(sentence).collect::<Result<_, _>>()?;
        Ok(Part { sentences, extra })
    }

    fn sentence(&self, tokens: Vec<String>, tags: Vec<usize>) -> Result<Sentence, TaskError> {
        let windows = windows(&tokens, self.base.tokenizer()?, self.base.longest(usize::MAX))?;
        windows.iter().try_for_each(|window| self.base.check_tokens(&window.text))?;
        Ok(Sentence { encoded: self.lexicon.encode(tokens, tags, None), windows })
    }

    fn encoded_parts(&self, splits: Splits<Tagged>, mut notes: Vec<String>) -> Result<Parts<Part>, TaskError> {
        let (train, dev, test) = (self.encoded(splits.train)?, self.encoded(splits.dev)?, self.encoded(splits.test)?);
        notes.push(format!("{} tags: {}", self.lexicon.labels.len(), listed(self.lexicon.labels.names())));
        for (split, part) in [(Split::Dev, &dev), (Split::Test, &test)] {
            notes.extend(notes::unseen(split, "tags", &part.extra));
        }
        Ok(Parts { train, dev, test: Some(test), notes })
    }

    /// Computes the logits of all words of some windows, one row per word.
    fn logits(&self, model: &Network, windows: &[&Window], pass: &Pass) -> Result<Tensor<2>, TaskError> {
        let device = device_of(model);
        let texts: Vec<&PublishedText> = windows.iter().map(|window| &window.text).collect();
        let logits = model.head_outputs(&joined(&texts), &device, pass)?;
        let [batch, seq, tags] = logits.dims();
        let places = windows.iter().enumerate();
        let places =
            places.flat_map(|(row, window)| window.firsts.iter().map(move |&first| (row * seq + first) as i32));
        let places: Vec<i32> = places.collect();
        let count = places.len();
        let places = Tensor::<1, Int>::from_data(TensorData::new(places, [count]), &device);
        Ok(logits.reshape([batch * seq, tags]).select(0, places))
    }

    /// Predicts the tags of sentences, and computes the mean loss of correct tags that training has.
    fn tagged(
        &self,
        model: &Network,
        sentences: &[&Sentence],
        pass: &Pass,
    ) -> Result<(Vec<Probable>, Option<f64>), TaskError> {
        let windows: Vec<(usize, &Window)> = sentences
            .iter()
            .enumerate()
            .flat_map(|(at, sentence)| sentence.windows.iter().map(move |window| (at, window)))
            .collect();
        let lengths: Vec<usize> = windows.iter().map(|(_, window)| window.text.ids.len()).collect();
        let mut rows: Vec<Vec<f32>> = vec![Vec::new(); windows.len()];
        let tags = self.lexicon.labels.len();
        let batches = in_order(&lengths, SCORING);
        for (done, batch) in batches.iter().enumerate() {
            pass.report(done, batches.len())?;
            let some: Vec<&Window> = batch.iter().map(|&at| windows[at].1).collect();
            let found: Vec<f32> = self.logits(model, &some, pass)?.into_data().iter().collect();
            let mut rest = &found[..];
            for &at in batch {
                let (own, after) = rest.split_at(windows[at].1.firsts.len() * tags);
                rows[at] = own.to_vec();
                rest = after;
            }
        }
        let mut found: Vec<Probable> = vec![Default::default(); sentences.len()];
        let (mut nats, mut count) = (0.0, 0usize);
        for ((at, _), rows) in windows.iter().zip(&rows) {
            for logits in rows.chunks_exact(tags) {
                let best = (1..tags).fold(0, |best, tag| if logits[tag] > logits[best] { tag } else { best });
                let sum: f64 = logits.iter().map(|&other| f64::from(other - logits[best]).exp()).sum();
                let right = sentences[*at].encoded.tags[found[*at].0.len()];
                if let Some(&logit) = logits.get(right) {
                    nats += sum.ln() - f64::from(logit - logits[best]);
                    count += 1;
                }
                found[*at].0.push(best);
                found[*at].1.push(1.0 / sum);
            }
        }
        Ok((found, (count > 0).then(|| nats / count as f64)))
    }

    fn names(&self, tags: &[usize]) -> Vec<&str> {
        tags.iter().map(|&tag| self.lexicon.labels.name(tag)).collect()
    }
}

impl Task for TunedTag {
    const NAME: &'static str = "tag";
    const CONFIG: &'static str = include_str!("../../../../../configs/finetune-tag.toml");
    type Config = Config;
    type Model = Network;
    type Part = Part;
    type Input = Sentence;
    const INPUT: InputKind = InputKind::Text;

    fn choose(facts: &Facts, asked: &Asked<Config>) -> Option<Choice> {
        let facts = &Facts { answer_characters: 0, ..facts.clone() };
        let load = Load::of_texts(asked.config.model.keys().from.as_deref(), facts);
        Some(choose(Way::of_rank(asked.config.more.lora.rank), load, facts, ("sentences", 16), asked))
    }

    fn start(mut config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        make_absolute(&mut config.model.keys_mut().from)?;
        let (splits, mut told) = read_sentences(&config.data)?;
        let train: Vec<&Tagged> = splits.train.iter().collect();
        let lexicon = Lexicon::learn(&train, 1, Case::Keep);
        check_labels(&lexicon.labels, &splits.train)?;
        let goal = Goal::Tokens(lexicon.labels.names().to_vec());
        let (base, about) = Base::start(config.model.keys(), &config.more.lora, &goal)?;
        told.splice(0..0, about);
        let task = Self { config, base, lexicon };
        let parts = task.encoded_parts(splits, told)?;
        Ok((task, parts))
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let list = |names: &Vocabulary| serde_json::to_vec(names).expect("plain names");
        let mut files = self.base.files();
        files.insert(WORDS.to_string(), list(&self.lexicon.words));
        files.insert(LABELS.to_string(), list(&self.lexicon.labels));
        files
    }

    fn open(config: Config, files: &Files) -> Result<Self, TaskError> {
        let base = Base::open(files, config.model.keys(), &config.more.lora)?;
        let lexicon = Lexicon::new(files.json(WORDS)?, Vocabulary::default(), files.json(LABELS)?, Case::Keep);
        Ok(Self { config, base, lexicon })
    }

    fn parts(&self) -> Result<Parts<Part>, TaskError> {
        let (splits, notes) = read_sentences(&self.config.data)?;
        self.encoded_parts(splits, notes)
    }

    fn raw(config: &Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        Ok(Some(raw_sentences(&config.data)?))
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        self.encoded(read_tagged(path, self.config.data.column)?)
    }

    fn described(&self) -> Option<count::Description> {
        let longest = self.base.longest(2 * self.config.data.max_length);
        Some(count::Description { sizes: sizes(self.config.train.batch_tokens, longest), ..self.base.described()? })
    }

    of_base!();

    fn plan(&self, train: &Part, epoch: u64) -> Vec<Vec<usize>> {
        let length = |sentence: &Sentence| sentence.windows.iter().map(|window| window.text.ids.len()).sum();
        let lengths: Vec<usize> = train.sentences.iter().map(length).collect();
        batches(&lengths, self.config.train.budget(), self.config.seed, epoch)
    }

    fn loss(
        &self,
        train: &Part,
        batch: &[usize],
        model: &Network,
        _: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let sentences: Vec<&Sentence> = batch.iter().map(|&at| &train.sentences[at]).collect();
        let windows: Vec<&Window> = sentences.iter().flat_map(|sentence| &sentence.windows).collect();
        let logits = self.logits(model, &windows, pass)?;
        let tags: Vec<i32> =
            sentences.iter().flat_map(|sentence| sentence.encoded.tags.iter().map(|&tag| tag as i32)).collect();
        let targets = tags.len();
        let tags = Tensor::<1, Int>::from_data(TensorData::new(tags, [targets]), &device_of(model));
        let options = CrossEntropyOptions {
            label_smoothing: self.config.train.label_smoothing,
            ..CrossEntropyOptions::default()
        };
        let tokens = windows.iter().map(|window| window.text.ids.len()).sum();
        Ok(Loss { mean: cross_entropy(logits, tags, options)?, targets, tokens })
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &Network,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        let chosen: Vec<&Sentence> = spread(part.sentences.len(), limit).map(|at| &part.sentences[at]).collect();
        let (found, loss) = self.tagged(model, &chosen, pass)?;
        let sentences: Vec<Encoded> = chosen.iter().map(|sentence| sentence.encoded.clone()).collect();
        let found = found.into_iter().map(|(tags, _)| tags).collect();
        let outcome = Outcome { sentences: &sentences, found, loss };
        evaluation(&outcome, &self.lexicon.labels, &part.extra, self.config.data.longest)
    }

    fn questions(&self, path: &Path) -> Result<Option<Questions>, TaskError> {
        read_questions(path, self.config.data.column)
    }

    fn input(&self, given: &Given) -> Result<Sentence, TaskError> {
        let words = read_words(given, self.config.data.max_length, |word| self.lexicon.word(word).is_some())?;
        let tags = vec![0; words.len()];
        self.sentence(words, tags)
    }

    fn given(&self, input: &Sentence) -> Given {
        Given::from(input.encoded.tokens.join(" "))
    }

    fn predict(&self, model: &Network, inputs: &[Sentence], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let (found, _) = self.tagged(model, &inputs.iter().collect::<Vec<_>>(), pass)?;
        let predict = |(sentence, (tags, probabilities)): (&Sentence, &Probable)| {
            prediction(&sentence.encoded.tokens, &self.names(tags), probabilities)
        };
        Ok(inputs.iter().zip(&found).map(predict).collect())
    }

    fn samples(&self, part: &Part, count: usize) -> Vec<Sample> {
        let sentences: Vec<Encoded> = part.sentences.iter().map(|sentence| sentence.encoded.clone()).collect();
        tagged_samples(&sentences, &self.lexicon.labels, &part.extra, count, |sentence| {
            let typed = typed::words(&sentence.tokens.join(" "), |word| self.lexicon.word(word).is_some());
            sentence.tokens.len() <= self.config.data.max_length && typed == sentence.tokens
        })
    }

    fn telling(&self, _: &Network) -> Result<Sentence, TaskError> {
        self.input(&Given::from(TELLING))
    }

    fn look(&self, model: &Network, sentence: &Sentence, pass: &Pass) -> Result<Legend, TaskError> {
        if sentence.windows.len() > 1 {
            let expected = "a sentence that the network reads at once";
            return Err(TaskError::input("input", expected, format!("{} words", sentence.encoded.tokens.len())));
        }
        let (found, _) = self.tagged(model, &[sentence], pass)?;
        let title = written(&sentence.encoded.tokens, &self.names(&found[0].0));
        let tokens = sentence.windows.first().map(|window| window.text.tokens.clone()).unwrap_or_default();
        Ok(Legend::of_tokens(title, tokens))
    }

    fn extras(&self, model: &Network) -> Result<BTreeMap<String, Vec<u8>>, TaskError> {
        Ok(self.base.adapter_files(model, Some("TOKEN_CLS"), None))
    }

    fn export(&self, model: &Network, to: &Path) -> Result<(), TaskError> {
        export(&self.base, model, None, to)
    }
}
