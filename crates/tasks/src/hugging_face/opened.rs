//! A checkpoint in use, like a trained model.

use std::path::Path;
use std::sync::OnceLock;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use rayon::prelude::*;
use regard_data::{Around, ImageSize, PublishedText, PublishedTokenizer};
use regard_inspect::show::Shown;
use regard_inspect::show::position::show_trained;
use regard_nn::{Capture, Inventory, Means, Pass, Wanted};

use super::answer::{Read, joined, mask_token};
use super::chat::ChatTemplate;
use super::dump::Dump;
use super::generate::CheckpointWriter;
use super::generation::Generation;
use super::load::Loaded;
use super::network::{Network, NetworkConfig, Texts};
use super::scaling::Scaling;
use super::sentence::{Sentences, longest};
use super::verify::{self, Comparison, ending};
use super::{TASK, export};
use crate::caption::built_in_picture;
use crate::decode::Wish;
use crate::error::TaskError;
use crate::folder::{Description, TOKENIZER};
use crate::heads::Heads;
use crate::ink::{Ink, PenOptions, PenRequest};
use crate::input::{Given, InputKind};
use crate::looked::{Legend, Looked};
use crate::opened::{Examples, Opened, SENTENCE};
use crate::pictures::{GivenPicture, given_picture, read_picture};
use crate::task::{Evaluation, Prediction, Prompt, Questions, Sample};
use crate::weights::Storage;
use crate::writer::Writer;

/// A loaded checkpoint with its tokeniser and the settings of its use.
pub struct Checkpoint {
    pub(super) loaded: Loaded,
    tokenizer: Option<PublishedTokenizer>,
    description: Description,
    /// Settings that are read from the folder when they are first needed.
    sentences: OnceLock<Sentences>,
    generation: OnceLock<Generation>,
    template: OnceLock<ChatTemplate>,
    labels: OnceLock<Vec<String>>,
}

/// Height and width of the picture that an image classifier is shown as an example.
const EXAMPLE_SIDE: usize = 128;

/// An input of `regard dump`.
#[derive(Debug, Clone)]
pub enum DumpInput {
    /// An input as `predict` takes it.
    Given(Given),
    /// The ids of tokens, with nothing put around them.
    Ids(Vec<u32>),
}

impl Checkpoint {
    /// Loads a folder; returns `None` if it is none of `transformers`.
    pub fn open(folder: &Path) -> Result<Option<Self>, TaskError> {
        Self::open_as(folder, Storage::F32)
    }

    /// Same as [`open`](Self::open), with weights stored as `storage` says.
    pub fn open_as(folder: &Path, storage: Storage) -> Result<Option<Self>, TaskError> {
        let Some(settings) = super::load::settings(folder)? else { return Ok(None) };
        let loaded = Loaded::open(folder, settings, storage, &Device::flex())?;
        let file = folder.join(TOKENIZER);
        let tokenizer = file.is_file().then(|| PublishedTokenizer::open(&file)).transpose()?;
        let network = loaded.network.clone().no_grad();
        let mut description = Description::new(TASK, loaded.settings.clone());
        description.finished = true;
        let loaded = Loaded { network, ..loaded };
        let (sentences, generation, template, labels) = Default::default();
        Ok(Some(Self { loaded, tokenizer, description, sentences, generation, template, labels }))
    }

    /// Returns how texts become vectors.
    fn sentences(&self) -> Result<&Sentences, TaskError> {
        match self.loaded.network {
            Network::Translation(_) => {
                return cannot("embed texts: it is a translator; encoders and language models do");
            }
            Network::Image(_) => return cannot("embed texts: it reads pictures"),
            Network::Encoder(_) | Network::Words(_) | Network::Next(_) => {}
        }
        kept(&self.sentences, || Sentences::read(&self.loaded))
    }

    /// Returns how the folder wants text written.
    pub(super) fn generation(&self) -> Result<&Generation, TaskError> {
        kept(&self.generation, || Generation::read(&self.loaded))
    }

    /// Returns how the folder writes conversations.
    pub(super) fn template(&self) -> Result<&ChatTemplate, TaskError> {
        kept(&self.template, || ChatTemplate::read(&self.loaded.folder))
    }

    /// Returns the number of tokens of a text with those that are put around it.
    pub fn count_tokens(&self, text: &str) -> Result<usize, TaskError> {
        Ok(self.tokenizer()?.encode(text, Around::Special)?.ids.len())
    }

    /// Returns the tokens of a text to embed.
    pub fn to_embed(&self, text: &str) -> Result<PublishedText, TaskError> {
        let encoded = self.sentences()?.encode(text, self.tokenizer()?, &self.loaded.config)?;
        self.checked(&encoded.ids, usize::MAX)?;
        Ok(encoded)
    }

    /// Returns a text to embed that is given by the ids of its tokens; nothing is put around them.
    pub fn ids_to_embed(&self, ids: Vec<u32>) -> Result<PublishedText, TaskError> {
        self.checked(&ids, longest(&self.loaded.config).unwrap_or(usize::MAX))?;
        let types = vec![0; ids.len()];
        Ok(PublishedText { ids, types, ..PublishedText::default() })
    }

    /// Compares the outputs with reference outputs in a safetensors file.
    pub fn verify(&self, reference: &Path, pass: &Pass) -> Result<Vec<Comparison>, TaskError> {
        verify::verify(&self.loaded, reference, pass)
    }

    /// Computes the vector of each text, in the order of the texts.
    pub fn embed(&self, texts: &[&str], pass: &Pass) -> Result<Vec<Vec<f32>>, TaskError> {
        let encoded: Vec<PublishedText> =
            texts.par_iter().map(|text| self.to_embed(text)).collect::<Result<_, TaskError>>()?;
        self.embed_encoded(&encoded.iter().collect::<Vec<_>>(), pass)
    }

    /// Computes the vector of each text whose tokens are given, in the order of the texts.
    pub fn embed_encoded(&self, encoded: &[&PublishedText], pass: &Pass) -> Result<Vec<Vec<f32>>, TaskError> {
        self.sentences()?.vectors(&self.loaded.network, encoded, pass)
    }

    /// Computes everything that a pass through the model computes for one input.
    pub fn dump(&self, input: &DumpInput, pass: &Pass) -> Result<Dump, TaskError> {
        let capture = Capture::default();
        let watched = pass.with_capture(&capture);
        let (tokens, outputs) = match (input, &self.loaded.network) {
            (DumpInput::Given(given), Network::Image(_)) => {
                let read = self.read(given)?;
                (None, self.loaded.network.see(self.pixels(&[read])?, &watched)?)
            }
            _ => {
                let (names, texts) = self.dumped(input)?;
                let targets = match self.loaded.network {
                    Network::Translation(_) => Some(Texts::new(vec![vec![self.generation()?.start_token()?]])),
                    _ => None,
                };
                (Some(names), self.loaded.network.run(&texts, targets.as_ref(), &Device::flex(), &watched)?)
            }
        };
        Ok(Dump::new(tokens, outputs, capture.into_maps()))
    }

    fn dumped(&self, input: &DumpInput) -> Result<(Vec<String>, Texts), TaskError> {
        match input {
            DumpInput::Given(given) => {
                let encoded = self.encoded(given.text()?)?;
                Ok((encoded.tokens.clone(), joined(&[&encoded])))
            }
            DumpInput::Ids(ids) => {
                self.checked(ids, longest(&self.loaded.config).unwrap_or(usize::MAX))?;
                let name = |&id: &u32| self.tokenizer.as_ref().and_then(|all| all.token(id)).unwrap_or(id.to_string());
                Ok((ids.iter().map(name).collect(), Texts::new(vec![ids.clone()])))
            }
        }
    }

    /// Returns the tokeniser, or an error if the folder has none.
    pub(super) fn tokenizer(&self) -> Result<&PublishedTokenizer, TaskError> {
        self.tokenizer.as_ref().ok_or_else(|| {
            let problem = "has no tokenizer.json, which texts need; transformers writes one with save_pretrained";
            TaskError::folder(&self.loaded.folder, problem)
        })
    }

    /// Reads an input.
    fn read(&self, given: &Given) -> Result<Read, TaskError> {
        let NetworkConfig::Image { channels, size, .. } = self.loaded.config else {
            let text = given.text()?;
            return Ok(Read::Text(text.to_string(), self.encoded(text)?));
        };
        let image = match read_picture(given, ImageSize { channels, height: size, width: size })? {
            GivenPicture::Image(image) => image,
            GivenPicture::BuiltIn(..) => {
                return Err(TaskError::input("input", "the path of a PNG or JPEG picture", "a built-in picture"));
            }
        };
        let scaling = Scaling::read(&self.loaded.folder, channels, size)?;
        Ok(Read::Picture(scaling.apply(&image.pixels, size * size)))
    }

    /// Returns pictures as a tensor.
    pub(super) fn pixels(&self, inputs: &[Read]) -> Result<Tensor<4>, TaskError> {
        let NetworkConfig::Image { channels, size, .. } = self.loaded.config else {
            return Err(TaskError::input("input", "texts", "pictures"));
        };
        let pictures = inputs.iter().filter_map(|input| match input {
            Read::Picture(pixels) => Some(pixels),
            Read::Text(..) => None,
        });
        let values: Vec<f32> = pictures.flatten().copied().collect();
        Ok(Tensor::from_data(TensorData::new(values, [inputs.len(), channels, size, size]), &Device::flex()))
    }

    /// Runs the model on an input while the pass captures, and returns how to read the maps.
    pub(super) fn legend(&self, input: &Read, pass: &Pass) -> Result<Legend, TaskError> {
        let Read::Text(text, encoded) = input else {
            let seen = self.loaded.network.see(self.pixels(std::slice::from_ref(input))?, pass)?;
            let tokens = (0..seen.last.dims()[1]).map(|at| if at == 0 { "[CLS]".into() } else { at.to_string() });
            let answer = self.answers(std::slice::from_ref(input), &pass.without_capture()).ok();
            let title = answer.and_then(|found| found.first().map(|one| one.output.clone())).unwrap_or_default();
            return Ok(Legend::of_tokens(title, tokens.collect()));
        };
        let source = encoded.tokens.clone();
        if let Network::Translation(_) = self.loaded.network {
            let found = self.translated(&[encoded], &pass.without_capture())?;
            let start = self.generation()?.start_token()?;
            let read: Vec<u32> = std::iter::once(start).chain(found[0].iter().copied()).collect();
            let targets = Texts::new(vec![read.clone()]);
            self.loaded.network.run(&joined(&[encoded]), Some(&targets), &Device::flex(), pass)?;
            let tokenizer = self.tokenizer()?;
            let name = |&id: &u32| tokenizer.token(id).unwrap_or_default();
            let read: Vec<String> = read.iter().map(name).collect();
            let end = ending(&self.loaded.settings).first().and_then(|&id| tokenizer.token(id as u32));
            let written: Vec<String> = read[1..].iter().cloned().chain([end.unwrap_or_default()]).collect();
            let title = format!("{text} → {}", self.text(&found[0])?);
            return Ok(Legend::of_translation(title, source, read, written));
        }
        self.loaded.network.last_states(&joined(&[encoded]), &Device::flex(), pass)?;
        let answer = self.answers(std::slice::from_ref(input), &pass.without_capture()).ok();
        let title = match answer.as_ref().and_then(|found| found.first()) {
            Some(answer) => format!("{text} → {}{}", answer.output, answer.certainty()),
            None => text.clone(),
        };
        Ok(Legend::of_tokens(title, source))
    }
}

/// Returns what a cell holds, after reading it the first time.
fn kept<T>(cell: &OnceLock<T>, read: impl FnOnce() -> Result<T, TaskError>) -> Result<&T, TaskError> {
    if let Some(found) = cell.get() {
        return Ok(found);
    }
    let found = read()?;
    Ok(cell.get_or_init(|| found))
}

fn cannot<T>(what: &str) -> Result<T, TaskError> {
    Err(TaskError::Unsupported { task: TASK, what: what.to_string() })
}

impl Opened for Checkpoint {
    fn description(&self) -> &Description {
        &self.description
    }

    fn input_kind(&self) -> InputKind {
        match self.loaded.config {
            NetworkConfig::Image { .. } => InputKind::Picture,
            _ => InputKind::Text,
        }
    }

    fn inventory(&self) -> &Inventory {
        &self.loaded.inventory
    }

    fn labels(&self) -> &[String] {
        self.labels.get_or_init(|| {
            let names = self.loaded.settings["id2label"].as_object().map_or(0, |names| names.len());
            (0..names).map(|at| self.label(at)).collect()
        })
    }

    fn predicts(&self) -> bool {
        !matches!(&self.loaded.network, Network::Encoder(model) if model.head.output.is_none())
    }

    fn example(&self) -> Result<Sample, TaskError> {
        let given = match &self.loaded.config {
            &NetworkConfig::Image { channels, .. } => {
                let size = ImageSize { channels, height: EXAMPLE_SIDE, width: EXAMPLE_SIDE };
                let image = built_in_picture(size)?;
                given_picture(&image)
            }
            NetworkConfig::Words(_) => {
                let (mask, _) = mask_token(self.tokenizer()?)?;
                format!("The cat {mask} on the mat.").into()
            }
            _ => SENTENCE.into(),
        };
        Ok(Sample { given, expected: String::new() })
    }

    fn evaluate(&self, examples: Examples, pass: &Pass) -> Result<Evaluation, TaskError> {
        self.scored(examples, pass)
    }

    fn questions(&self, _: &Path) -> Result<Option<Questions>, TaskError> {
        Ok(None)
    }

    fn predict(&self, inputs: &[Given], pass: &Pass) -> Result<Vec<Result<Prediction, TaskError>>, TaskError> {
        let mut found = Vec::with_capacity(inputs.len());
        let read: Vec<Result<Read, TaskError>> = inputs.iter().map(|given| self.read(given)).collect();
        let good: Vec<Read> = read.iter().flatten().cloned().collect();
        let mut together = match self.answers(&good, pass) {
            Ok(answers) => Some(answers.into_iter()),
            // One of the inputs is refused; answering each by itself tells which.
            Err(TaskError::Input { .. }) => None,
            Err(error) => return Err(error),
        };
        for (given, read) in inputs.iter().zip(read) {
            let answer = read.and_then(|input| match &mut together {
                Some(answers) => Ok(answers.next()),
                None => Ok(self.answers(std::slice::from_ref(&input), pass)?.pop()),
            });
            let none = || TaskError::input("prediction", "one per input", "none");
            let answer = answer.and_then(|found| found.ok_or_else(none));
            found.push(answer.map(|answer| Prediction { input: given.to_json(), ..answer }));
        }
        Ok(found)
    }

    fn look(&self, input: Option<&Given>, wanted: Wanted, pass: &Pass) -> Result<Looked, TaskError> {
        let Some(given) = input else {
            return Err(TaskError::input("input", "a text or the path of a picture to look at", "none"));
        };
        let read = self.read(given)?;
        let capture = Capture::new(wanted);
        let legend = self.legend(&read, &pass.with_capture(&capture))?;
        Ok(legend.view(&capture.into_maps())?.into())
    }

    fn positions(&self, length: Option<usize>) -> Result<Shown, TaskError> {
        let found = self.loaded.network.positions(longest(&self.loaded.config).unwrap_or(usize::MAX));
        let kinds: Vec<String> = found.iter().map(|one| format!("{} ({})", one.layer.name(), one.part)).collect();
        let title = format!("Positions of {}: {}", self.loaded.folder.display(), kinds.join(" and "));
        Ok(show_trained(&title, &found, length)?)
    }

    fn means(&self, examples: Examples, pass: &Pass) -> Result<Means, TaskError> {
        self.mean_outputs(examples, pass)
    }

    fn heads(
        &self,
        examples: Examples,
        limit: usize,
        pass: &Pass,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Heads, TaskError> {
        self.measured(examples, limit, pass, progress)
    }

    fn generate(
        &self,
        prompts: &[Prompt<Given>],
        wish: &Wish,
        pass: &Pass,
        piece: &mut dyn FnMut(usize, &str),
    ) -> Result<(), TaskError> {
        self.generated(prompts, wish, pass, piece)
    }

    fn writer(&self) -> Option<Box<dyn Writer + '_>> {
        CheckpointWriter::of(self).map(|writer| Box::new(writer) as Box<dyn Writer>)
    }

    fn continues_prompts(&self) -> bool {
        !matches!(self.loaded.network, Network::Translation(_))
    }

    fn write_by_hand(
        &self,
        _: &[PenRequest],
        _: &PenOptions,
        _: &Pass,
    ) -> Result<Vec<Result<Ink, TaskError>>, TaskError> {
        cannot("write by hand")
    }

    fn parameters(&self) -> usize {
        self.loaded.network.num_params()
    }

    fn export(&self, to: &Path) -> Result<(), TaskError> {
        export::export(&self.loaded, to)
    }

    fn checkpoint(&self) -> Option<&Checkpoint> {
        Some(self)
    }
}
