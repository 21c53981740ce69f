//! Position encodings. Every model selects one of the kinds with the enum [`Position`].
//!
//! | kind | effect | beyond the trained length |
//! |---|---|---|
//! | `none` | none | – |
//! | `sinusoidal` | added to the tokens | the same formula |
//! | `learned` | added to the tokens | the last row of the table, or an error: [`learned::Beyond`] |
//! | `relative` | added to the scores | distances are clipped |
//! | `rope` | rotates queries and keys | the same formula |
//! | `alibi` | added to the scores | the same slopes |
//! | `floater` | added to the tokens | the trajectory continues |
//! | `rnn` | added to the tokens | the network runs further |

pub mod floater;
pub mod learned;
pub mod recurrent;
pub mod relative;
pub mod rope;
pub mod sinusoidal;

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use regard_ops::{AttentionOptions, Distance, OpError, Pairing, add_rows};
use serde::{Deserialize, Serialize};

use crate::ablation::Ablation;
use crate::config::no_settings;
use crate::error::{ConfigError, NnError};
use crate::init::Init;
use crate::pass::Pass;
use floater::{Floater, FloaterConfig};
use learned::{LearnedConfig, LearnedPosition};
use recurrent::{RecurrentPosition, RecurrentPositionConfig};
use relative::{Alibi, RelativeConfig, RelativePosition};
use rope::{Rope, RopeConfig};
use sinusoidal::Sinusoidal;

/// The kind of position encoding of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Position {
    /// No positions.
    #[serde(deserialize_with = "no_settings")]
    None,
    /// Sines and cosines (Vaswani 2017).
    #[default]
    #[serde(deserialize_with = "no_settings")]
    Sinusoidal,
    /// A learned vector for each position.
    Learned(LearnedConfig),
    /// A learned bias on the scores for each distance.
    Relative(RelativeConfig),
    /// Rotation of queries and keys (RoPE).
    Rope(RopeConfig),
    /// A bias on the scores proportional to the distance (ALiBi).
    #[serde(deserialize_with = "no_settings")]
    Alibi,
    /// The solution of a learned differential equation (FLOATER).
    Floater(FloaterConfig),
    /// The states of a learned recurrent network.
    Rnn(RecurrentPositionConfig),
}

/// The sizes of a model that its positions depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionSizes {
    /// Number of features of a token.
    pub d_model: usize,
    /// Number of query heads of an attention layer.
    pub n_heads: usize,
    /// Number of features of a head.
    pub d_head: usize,
}

impl Position {
    /// Base of the published sinusoids.
    pub const SINUSOIDAL_BASE: f32 = 10_000.0;

    /// Returns each kind once, with its default settings.
    pub fn all() -> impl Iterator<Item = Self> {
        std::iter::successors(Some(Self::None), |kind| kind.name_and_next().1)
    }

    /// Returns the name of the kind in configurations.
    pub fn name(&self) -> &'static str {
        self.name_and_next().0
    }

    /// Returns the name of the kind, and the kind that follows in [`all`](Self::all). A new kind does not compile without a
    /// place here.
    fn name_and_next(&self) -> (&'static str, Option<Self>) {
        match self {
            Position::None => ("none", Some(Position::Sinusoidal)),
            Position::Sinusoidal => ("sinusoidal", Some(Position::Learned(LearnedConfig::default()))),
            Position::Learned(_) => ("learned", Some(Position::Relative(RelativeConfig::default()))),
            Position::Relative(_) => ("relative", Some(Position::Rope(RopeConfig::default()))),
            Position::Rope(_) => ("rope", Some(Position::Alibi)),
            Position::Alibi => ("alibi", Some(Position::Floater(FloaterConfig::default()))),
            Position::Floater(_) => ("floater", Some(Position::Rnn(RecurrentPositionConfig::default()))),
            Position::Rnn(_) => ("rnn", None),
        }
    }

    /// Returns an error if a setting is invalid for a model of these sizes.
    pub fn validate(&self, sizes: PositionSizes) -> Result<(), ConfigError> {
        match self {
            Position::None => Ok(()),
            Position::Sinusoidal => Sinusoidal::new(sizes.d_model, Self::SINUSOIDAL_BASE).map(|_| ()),
            Position::Learned(config) => config.validate(),
            Position::Relative(config) => config.validate(),
            Position::Rope(config) => config.validate(sizes.d_head),
            Position::Alibi => Alibi::new(sizes.n_heads).map(|_| ()),
            Position::Floater(config) => config.validate(),
            Position::Rnn(config) => config.validate(),
        }
    }

    /// Creates the layer for a model of these sizes.
    pub fn init(&self, sizes: PositionSizes, init: &Init) -> Result<Positions, ConfigError> {
        if *self != Position::None {
            init.note_positions();
        }
        Ok(match self {
            Position::None => Positions::None(NoPosition {}),
            Position::Sinusoidal => Positions::Sinusoidal(Sinusoidal::new(sizes.d_model, Self::SINUSOIDAL_BASE)?),
            Position::Learned(config) => Positions::Learned(config.init(sizes.d_model, init)?),
            Position::Relative(config) => Positions::Relative(config.init(sizes.n_heads, init)?),
            Position::Rope(config) => Positions::Rope(config.init(sizes.d_head, init)?),
            Position::Alibi => Positions::Alibi(Alibi::new(sizes.n_heads)?),
            Position::Floater(config) => Positions::Floater(config.init(sizes.d_model, init)?),
            Position::Rnn(config) => Positions::Rnn(config.init(sizes.d_model, init)?),
        })
    }
}

/// The layer of [`Position::None`], which does nothing.
#[derive(Module, Debug)]
pub struct NoPosition {}

/// The position encoding of a model, shared by all of its layers.
#[derive(Module, Debug)]
#[allow(clippy::large_enum_variant, reason = "one value per model")]
pub enum Positions {
    /// Layer of [`Position::None`].
    None(NoPosition),
    /// Layer of [`Position::Sinusoidal`].
    Sinusoidal(Sinusoidal),
    /// Layer of [`Position::Learned`].
    Learned(LearnedPosition),
    /// Layer of [`Position::Relative`].
    Relative(RelativePosition),
    /// Layer of [`Position::Rope`].
    Rope(Rope),
    /// Layer of [`Position::Alibi`].
    Alibi(Alibi),
    /// Layer of [`Position::Floater`].
    Floater(Floater),
    /// Layer of [`Position::Rnn`].
    Rnn(RecurrentPosition),
}

impl Positions {
    /// Returns the name of the kind in configurations.
    pub fn name(&self) -> &'static str {
        let kind = match self {
            Positions::None(_) => Position::None,
            Positions::Sinusoidal(_) => Position::Sinusoidal,
            Positions::Learned(_) => Position::Learned(LearnedConfig::default()),
            Positions::Relative(_) => Position::Relative(RelativeConfig::default()),
            Positions::Rope(_) => Position::Rope(RopeConfig::default()),
            Positions::Alibi(_) => Position::Alibi,
            Positions::Floater(_) => Position::Floater(FloaterConfig::default()),
            Positions::Rnn(_) => Position::Rnn(RecurrentPositionConfig::default()),
        };
        kind.name()
    }

    /// Returns the vectors to add to tokens at the positions `offset..offset + seq`, or `None` if the kind adds none.
    ///
    /// # Shapes
    /// → `[seq, d_model]`.
    pub fn table(&self, seq: usize, offset: usize, device: &Device) -> Result<Option<Tensor<2>>, NnError> {
        Ok(match self {
            Positions::Sinusoidal(layer) => Some(layer.encode(seq, offset, device)),
            Positions::Learned(layer) => Some(layer.encode(seq, offset)?),
            Positions::Floater(layer) => Some(layer.encode(seq, offset)?),
            Positions::Rnn(layer) => Some(layer.encode(seq, offset)?),
            Positions::None(_) | Positions::Relative(_) | Positions::Rope(_) | Positions::Alibi(_) => None,
        })
    }

    /// Adds positions to the tokens and returns the positions for attention; does nothing if the pass ablates positions. The
    /// tokens are a sequence of runs, each given by its first position and its number of tokens.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]` → the same.
    pub fn enter(&self, x: Tensor<3>, runs: &[(usize, usize)], pass: &Pass) -> Result<(Tensor<3>, Places), NnError> {
        if pass.ablation().is_some_and(Ablation::without_positions) {
            return Ok((x, Places::default()));
        }
        let device = x.device();
        if let &[(offset, seq)] = runs {
            return Ok((self.add_to(x, offset)?, self.places(seq, offset, &device)));
        }
        let tables = runs.iter().filter_map(|&(offset, seq)| self.table(seq, offset, &device).transpose());
        let tables = tables.collect::<Result<Vec<_>, _>>()?;
        let x = if tables.is_empty() { x } else { add_rows(x, Tensor::cat(tables, 0))? };
        let places: Vec<Places> = runs.iter().map(|&(offset, seq)| self.places(seq, offset, &device)).collect();
        Ok((x, Places::in_a_row(places)))
    }

    /// Adds positions to the tokens, of which the first is at `offset`.
    ///
    /// # Shapes
    /// `x` `[batch, seq, d_model]` → the same.
    pub fn add_to(&self, x: Tensor<3>, offset: usize) -> Result<Tensor<3>, NnError> {
        let [_, seq, d_model] = x.dims();
        match self.table(seq, offset, &x.device())? {
            Some(table) if table.dims()[1] != d_model => {
                let expected = format!("[batch, seq, {}]", table.dims()[1]);
                Err(NnError::input("tokens", expected, format!("{:?}", x.dims())))
            }
            Some(table) => Ok(add_rows(x, table)?),
            None => Ok(x),
        }
    }

    /// Returns the positions `offset..offset + seq` for attention, to be used by all layers of a pass.
    pub fn places(&self, seq: usize, offset: usize, device: &Device) -> Places {
        match self {
            Positions::Rope(layer) => {
                let rotation = Rotation { angles: layer.angles(seq, offset, device), pairing: layer.pairing() };
                Places { rotation: Some(rotation), factor: layer.score_factor(), ..Places::default() }
            }
            Positions::Relative(layer) => Places { distance: layer.distance(), ..Places::default() },
            Positions::Alibi(layer) => Places { distance: layer.distance(), ..Places::default() },
            Positions::None(_)
            | Positions::Sinusoidal(_)
            | Positions::Learned(_)
            | Positions::Floater(_)
            | Positions::Rnn(_) => Places::default(),
        }
    }
}

/// The positions of the tokens of a pass, in the form that attention needs.
#[derive(Debug, Clone)]
pub struct Places {
    /// Rotation of queries and keys.
    pub rotation: Option<Rotation>,
    /// Factor on the scores of rotated queries and keys, 1 except with YaRN.
    pub factor: f32,
    /// Bias on the scores by distance.
    pub distance: Distance,
}

impl Default for Places {
    fn default() -> Self {
        Self { rotation: None, factor: 1.0, distance: Distance::None }
    }
}

/// The angles and pairing of RoPE, for [`regard_ops::rope`].
#[derive(Debug, Clone)]
pub struct Rotation {
    /// Angles, `[seq, d_head/2]`.
    pub angles: Tensor<2>,
    /// Which features form a pair.
    pub pairing: Pairing,
}

impl Places {
    /// Concatenates the places of several runs of tokens.
    fn in_a_row(all: Vec<Self>) -> Self {
        let angles: Vec<Tensor<2>> =
            all.iter().filter_map(|places| Some(places.rotation.as_ref()?.angles.clone())).collect();
        let Some(Places { rotation, factor, distance }) = all.into_iter().next() else { return Self::default() };
        let turned = |rotation: Rotation| Rotation { angles: Tensor::cat(angles, 0), ..rotation };
        Places { rotation: rotation.map(turned), factor, distance }
    }

    /// Adds the distance bias to `options`. Returns an error if they already have one.
    pub fn apply(&self, options: &AttentionOptions) -> Result<AttentionOptions, OpError> {
        let mut options = options.clone();
        match (&options.distance, &self.distance) {
            (_, Distance::None) => {}
            (Distance::None, distance) => options.distance = distance.clone(),
            _ => {
                let why = "given both by the caller and by the model's positions; remove one".to_string();
                return Err(OpError::Option { what: "bias by distance", why });
            }
        }
        Ok(options)
    }
}

/// Largest number of positions that [`Floater`] and [`RecurrentPosition`] compute.
const MOST_POSITIONS: usize = 1 << 24;

/// Returns `offset + seq − 1`, or an error if `seq` is 0 or there are more than [`MOST_POSITIONS`] positions.
fn last_position(seq: usize, offset: usize) -> Result<usize, NnError> {
    match offset.checked_add(seq) {
        Some(end) if seq > 0 && end <= MOST_POSITIONS => Ok(end - 1),
        _ => {
            let expected = format!("at least 1, with positions below {MOST_POSITIONS}");
            Err(NnError::input("seq", expected, format!("{seq} from position {offset}")))
        }
    }
}
