//! The networks of checkpoints, and what a pass through one computes.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use regard_inspect::show::position::Trained;
use regard_nn::models::encoder_decoder::EncoderDecoder;
use regard_nn::models::headed::{HeadConfig, HeadInput, HeadedEncoder, HeadedVisionTransformer};
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::masked_language_model::MaskedLanguageModel;
use regard_nn::models::transformer::TransformerConfig;
use regard_nn::{ConfigError, Init, NnError, Pass};

use crate::error::TaskError;

/// Configuration of a [`Network`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum NetworkConfig {
    /// Encoder with a head.
    Encoder(TransformerConfig, HeadConfig),
    /// Masked language model.
    Words(TransformerConfig),
    /// Causal language model.
    Next(TransformerConfig),
    /// Encoder-decoder.
    Translation(TransformerConfig),
    /// Vision Transformer for images of `channels` × `size` × `size`, cut into squares of `patch` pixels.
    Image { config: TransformerConfig, head: HeadConfig, channels: usize, size: usize, patch: usize },
}

/// The network of a checkpoint.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "one value per model")]
pub(crate) enum Network {
    Encoder(HeadedEncoder),
    Words(MaskedLanguageModel),
    Next(LanguageModel),
    Translation(EncoderDecoder),
    Image(HeadedVisionTransformer),
}

impl NetworkConfig {
    /// Returns the configuration of the Transformer.
    pub fn transformer(&self) -> &TransformerConfig {
        match self {
            Self::Encoder(config, _) | Self::Words(config) | Self::Next(config) | Self::Translation(config) => config,
            Self::Image { config, .. } => config,
        }
    }

    /// Returns the configuration of the Transformer, to be changed.
    pub fn transformer_mut(&mut self) -> &mut TransformerConfig {
        match self {
            Self::Encoder(config, _) | Self::Words(config) | Self::Next(config) | Self::Translation(config) => config,
            Self::Image { config, .. } => config,
        }
    }

    /// Returns the configuration of the head, if the network has one.
    pub fn head_mut(&mut self) -> Option<&mut HeadConfig> {
        match self {
            Self::Encoder(_, head) | Self::Image { head, .. } => Some(head),
            Self::Words(_) | Self::Next(_) | Self::Translation(_) => None,
        }
    }

    /// Builds the network.
    pub fn init(&self, init: &Init) -> Result<Network, ConfigError> {
        Ok(match self {
            Self::Encoder(config, head) => Network::Encoder(HeadedEncoder::new(config, *head, init)?),
            Self::Words(config) => Network::Words(MaskedLanguageModel::new(config, init)?),
            Self::Next(config) => Network::Next(LanguageModel::new(config, init)?),
            Self::Translation(config) => Network::Translation(EncoderDecoder::new(config, init)?),
            Self::Image { config, head, channels, patch, .. } => {
                Network::Image(HeadedVisionTransformer::new(config, *channels, *patch, *head, init)?)
            }
        })
    }
}

/// Texts for a pass, each without padding, and their types if they are not all 0.
#[derive(Debug, Clone, Default)]
pub(crate) struct Texts {
    pub ids: Vec<Vec<u32>>,
    pub types: Option<Vec<Vec<u32>>>,
}

impl Texts {
    pub fn new(ids: Vec<Vec<u32>>) -> Self {
        Self { ids, types: None }
    }

    /// Returns the number of tokens of each text, or `None` if all are equal.
    pub fn lengths(&self) -> Option<Vec<usize>> {
        let lengths: Vec<usize> = self.ids.iter().map(Vec::len).collect();
        lengths.iter().any(|&length| length != lengths[0]).then_some(lengths)
    }
}

/// Everything that a pass computes.
#[derive(Debug)]
pub(crate) struct Outputs {
    /// Embedded tokens and the states after every block, as `transformers` reports them.
    pub states: Vec<Tensor<3>>,
    /// States after the last norm.
    pub last: Tensor<3>,
    /// Outputs of the head, `[batch, seq or 1, outputs]`.
    pub logits: Option<Tensor<3>>,
    /// Output of the pooler, `[batch, 1, d_model]`.
    pub pooled: Option<Tensor<3>>,
}

impl Network {
    /// Runs an encoder or a causal language model, or a translator on sources and the targets so far.
    pub fn run(
        &self,
        texts: &Texts,
        targets: Option<&Texts>,
        device: &Device,
        pass: &Pass,
    ) -> Result<Outputs, TaskError> {
        let (ids, lengths) = (padded(&texts.ids, device)?, texts.lengths());
        let types = texts.types.as_ref().map(|types| padded(types, device)).transpose()?;
        Ok(match self {
            Self::Encoder(model) => {
                let states = model.encoder.forward_all(ids, types, lengths, pass)?;
                let last = last(&states);
                let found = (!model.head.is_empty()).then(|| model.head.forward(last.clone(), pass)).transpose()?;
                let is_classifier = model.head.output.is_some();
                let (logits, pooled) = if is_classifier { (found, None) } else { (None, found) };
                Outputs { states, last, logits, pooled }
            }
            Self::Words(model) => {
                let states = model.encoder.forward_all(ids, types, lengths, pass)?;
                let last = last(&states);
                let [batch, seq, d_model] = last.dims();
                let logits = model.logits_from(last.clone().reshape([batch * seq, d_model]))?;
                let vocab = logits.dims()[1];
                Outputs { states, last, logits: Some(logits.reshape([batch, seq, vocab])), pooled: None }
            }
            Self::Next(model) => {
                let states = model.states_all(ids, pass)?;
                let last = last(&states);
                let logits = Some(model.output.logits(last.clone(), &model.embedding.tokens)?);
                Outputs { states, last, logits, pooled: None }
            }
            Self::Translation(model) => {
                let source = model.encode(ids, lengths, pass)?;
                let Some(targets) = targets else {
                    return Err(NnError::input("targets", "the beginning of each translation", "none").into());
                };
                let states = model.writer().decode_all(&source, padded(&targets.ids, device)?, pass)?;
                let last = last(&states);
                let logits = Some(model.writer().logits_from(last.clone())?);
                Outputs { states, last, logits, pooled: None }
            }
            Self::Image(_) => return Err(NnError::input("input", "pictures", "texts").into()),
        })
    }

    /// Runs a Vision Transformer on pictures, `[batch, channels, height, width]`.
    pub fn see(&self, pixels: Tensor<4>, pass: &Pass) -> Result<Outputs, TaskError> {
        let Self::Image(model) = self else { return Err(NnError::input("input", "texts", "pictures").into()) };
        let states = model.vision.states_all(pixels, pass)?;
        let last = model.vision.stack.normed(last(&states))?;
        let found = (!model.head.is_empty()).then(|| model.head.forward(last.clone(), pass)).transpose()?;
        let (logits, pooled) = if model.head.output.is_some() { (found, None) } else { (None, found) };
        Ok(Outputs { states, last, logits, pooled })
    }

    /// Returns the states after the last block of an encoder or causal language model, without keeping those below.
    pub fn last_states(&self, texts: &Texts, device: &Device, pass: &Pass) -> Result<Tensor<3>, TaskError> {
        let (ids, lengths) = (padded(&texts.ids, device)?, texts.lengths());
        let types = texts.types.as_ref().map(|types| padded(types, device)).transpose()?;
        Ok(match self {
            Self::Encoder(model) => model.encoder.forward_typed(ids, types, lengths, pass)?,
            Self::Words(model) => model.encoder.forward_typed(ids, types, lengths, pass)?,
            Self::Next(model) => model.states(ids, pass)?,
            Self::Translation(_) | Self::Image(_) => {
                return Err(NnError::input("model", "an encoder or a language model of texts", "another").into());
            }
        })
    }

    /// Returns the outputs of the head of an encoder of texts, `[batch, seq or 1, outputs]`.
    pub fn head_outputs(&self, texts: &Texts, device: &Device, pass: &Pass) -> Result<Tensor<3>, TaskError> {
        let Self::Encoder(model) = self else {
            return Err(NnError::input("model", "an encoder of texts", "another").into());
        };
        let types = texts.types.as_ref().map(|types| padded(types, device)).transpose()?;
        Ok(model.forward(padded(&texts.ids, device)?, types, texts.lengths(), pass)?)
    }

    /// Returns the positions of the network, which reads at most `longest` tokens.
    pub fn positions(&self, longest: usize) -> Vec<Trained<'_>> {
        let of = |part, layer| Trained { part, layer, longest };
        match self {
            Self::Encoder(model) => vec![of("encoder", &model.encoder.embedding.position)],
            Self::Words(model) => vec![of("encoder", &model.encoder.embedding.position)],
            Self::Next(model) => vec![of("decoder", &model.embedding.position)],
            Self::Image(model) => vec![of("patches", &model.vision.position)],
            Self::Translation(model) => {
                let (source, target) = (&model.source_embedding.position, model.target_embedding.as_ref());
                match model.decoder_position.as_ref().or(target.map(|target| &target.position)) {
                    Some(target) => vec![of("encoder", source), of("decoder", target)],
                    None => vec![of("encoder and decoder", source)],
                }
            }
        }
    }

    /// Returns whether the head of an encoder labels every token.
    pub fn labels_tokens(&self) -> bool {
        matches!(self, Self::Encoder(model) if model.head.output.is_some() && model.head.reads() == HeadInput::Every)
    }
}

fn last(states: &[Tensor<3>]) -> Tensor<3> {
    states.last().cloned().expect("a stack has at least the embedded tokens")
}

/// Returns texts as a tensor, padded on the right with 0.
pub(super) fn padded(rows: &[Vec<u32>], device: &Device) -> Result<Tensor<2, Int>, TaskError> {
    padded_with(0, rows, device)
}

/// Returns texts as a tensor, padded on the right with `fill`, which may be no token.
pub(super) fn padded_with(fill: i32, rows: &[Vec<u32>], device: &Device) -> Result<Tensor<2, Int>, TaskError> {
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    if let Some(id) = rows.iter().flatten().find(|&&id| i32::try_from(id).is_err()) {
        return Err(TaskError::input("token", "a number below 2³¹", id.to_string()));
    }
    let filled =
        rows.iter().flat_map(|row| row.iter().map(|&id| id as i32).chain(std::iter::repeat_n(fill, width - row.len())));
    Ok(Tensor::from_data(TensorData::new(filled.collect::<Vec<i32>>(), [rows.len(), width]), device))
}
