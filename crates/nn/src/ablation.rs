//! Ablation: switching off heads, whole attention layers or positions during a pass.

use std::collections::BTreeMap;
use std::str::FromStr;

use burn::tensor::TensorData;

use crate::error::{ConfigError, NnError};
use crate::heads::{AttentionKind, Inventory, POSITIONS, Site};

/// What a switched-off head does instead of attending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// The head outputs zero. A whole layer then adds nothing to the residual stream.
    #[default]
    Zero,
    /// The head outputs its mean over some data, the same for every token.
    Mean,
    /// The head attends equally to every key that the query may see.
    Uniform,
    /// The head attends only to the query's own position.
    Itself,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 4] = [Mode::Zero, Mode::Mean, Mode::Uniform, Mode::Itself];

    /// Returns the name of the mode.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Zero => "zero",
            Mode::Mean => "mean",
            Mode::Uniform => "uniform",
            Mode::Itself => "self",
        }
    }

    /// Returns whether the heads of a layer can be switched off like this: a head attends to its own position only where the
    /// queries are among the keys.
    pub fn suits(self, site: &Site) -> bool {
        self != Mode::Itself
            || matches!(site.kind, AttentionKind::SelfAttention | AttentionKind::Edges | AttentionKind::Channels)
    }
}

impl FromStr for Mode {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|mode| mode.name() == text).ok_or(())
    }
}

/// Mean output of each head, by layer and head index; `d_value` numbers each.
pub type Means = BTreeMap<(Site, usize), Vec<f32>>;

/// The heads, whole attention layers and positions that a pass switches off.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ablation {
    switched: Vec<Switched>,
    positions: bool,
    means: Means,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Switched {
    site: Site,
    /// Index of the head; `None` for all heads of the layer.
    head: Option<usize>,
    mode: Mode,
}

impl Ablation {
    /// Switches off one head of a layer, or all of them if `head` is `None`.
    pub fn of(site: Site, head: Option<usize>, mode: Mode) -> Self {
        Self { switched: vec![Switched { site, head, mode }], ..Self::default() }
    }

    /// Parses `NAME[=MODE],…`, where each name is a head, layer or `positions` in `inventory`.
    pub fn parse(text: &str, inventory: &Inventory) -> Result<Self, ConfigError> {
        let mut ablation = Self::default();
        for part in text.split(',').map(str::trim) {
            let (name, mode) = part.split_once('=').unwrap_or((part, "zero"));
            let (name, mode) = (name.trim(), mode.trim());
            let Ok(mode) = mode.parse::<Mode>() else {
                return Err(ConfigError::new("--without", part, "one of the modes zero, mean, uniform or self"));
            };
            if name == POSITIONS && inventory.positions && mode == Mode::Zero {
                ablation.positions = true;
                continue;
            }
            let Some((site, head)) = inventory.find(name) else { return Err(unknown(part, inventory)) };
            if !mode.suits(&site) {
                let allowed = "one of the modes zero, mean or uniform: the queries here are not among the keys";
                return Err(ConfigError::new("--without", part, allowed));
            }
            if ablation.switched.iter().any(|known| (known.site, known.head) == (site, head)) {
                return Err(ConfigError::new("--without", part, "each name once"));
            }
            ablation.switched.push(Switched { site, head, mode });
        }
        Ok(ablation)
    }

    /// Sets the mean outputs that [`Mode::Mean`] needs.
    pub fn with_means(self, means: Means) -> Self {
        Self { means, ..self }
    }

    /// Returns whether any head uses [`Mode::Mean`].
    pub fn needs_means(&self) -> bool {
        self.switched.iter().any(|switched| switched.mode == Mode::Mean)
    }

    /// Returns whether every head of the model outputs zero.
    pub fn takes_all(&self, inventory: &Inventory) -> bool {
        inventory.heads().all(|(site, head)| self.mode(&site, head) == Some(Mode::Zero))
    }

    /// Returns whether positions are switched off.
    pub fn without_positions(&self) -> bool {
        self.positions
    }

    /// Returns whether any head of a layer is switched off.
    pub fn affects(&self, site: &Site) -> bool {
        self.switched.iter().any(|switched| switched.site == *site)
    }

    /// Returns whether a layer as a whole adds nothing: it is set to zero, and no head of it has a mode of its own.
    pub fn is_off(&self, site: &Site) -> bool {
        let off = |switched: &Switched| switched.head.is_none() && switched.mode == Mode::Zero;
        self.affects(site) && self.switched.iter().filter(|switched| switched.site == *site).all(off)
    }

    /// Returns what a head does instead of attending, or `None` if it is not switched off. The mode of a head takes
    /// precedence over that of its layer.
    pub fn mode(&self, site: &Site, head: usize) -> Option<Mode> {
        let of = |wanted: Option<usize>| {
            self.switched.iter().find(move |switched| switched.site == *site && switched.head == wanted)
        };
        of(Some(head)).or_else(|| of(None)).map(|switched| switched.mode)
    }

    /// Returns the mean output of a head, `[d_value]`.
    pub(crate) fn mean(&self, site: &Site, head: usize, d_value: usize) -> Result<TensorData, NnError> {
        match self.means.get(&(*site, head)) {
            Some(mean) if mean.len() == d_value => Ok(TensorData::new(mean.clone(), [d_value])),
            found => {
                let expected = format!("{d_value} numbers for {}", site.head(head));
                Err(NnError::input("mean output of a head", expected, found.map_or(0, Vec::len).to_string()))
            }
        }
    }
}

fn unknown(name: &str, inventory: &Inventory) -> ConfigError {
    let allowed = match inventory.layers.is_empty() && !inventory.positions {
        true => "no name: this model has no attention and no positions to switch off".to_string(),
        false => format!("one of {}; or a whole layer, such as {}", inventory.list(), first_layer(inventory)),
    };
    ConfigError::new("--without", name, allowed)
}

fn first_layer(inventory: &Inventory) -> String {
    inventory.layers.first().map_or_else(|| POSITIONS.to_string(), |(site, _)| site.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::Side;

    fn inventory() -> Inventory {
        let site = |side, kind| Site { side: Some(side), layer: 0, kind };
        Inventory {
            layers: vec![
                (site(Side::Encoder, AttentionKind::SelfAttention), 2),
                (site(Side::Decoder, AttentionKind::Cross), 2),
            ],
            positions: true,
        }
    }

    #[test]
    fn names_are_read_with_their_modes() {
        let inventory = inventory();
        let [(own, _), (cross, _)] = inventory.layers[..] else { panic!("expected two layers") };
        let ablation = Ablation::parse("encoder.0.1=self, decoder.0.cross=mean,positions", &inventory).unwrap();
        assert!(ablation.without_positions() && ablation.needs_means());
        assert_eq!((ablation.mode(&own, 0), ablation.mode(&own, 1)), (None, Some(Mode::Itself)));
        assert_eq!(ablation.mode(&cross, 1), Some(Mode::Mean));
        assert!(!ablation.is_off(&cross) && !ablation.takes_all(&inventory));
        let all = Ablation::parse("encoder.0,decoder.0.cross,decoder.0.cross.1=uniform", &inventory).unwrap();
        assert!(all.is_off(&own) && !all.is_off(&cross), "one of its heads is uniform");
        assert!(!all.takes_all(&inventory));
        assert_eq!((all.mode(&cross, 0), all.mode(&cross, 1)), (Some(Mode::Zero), Some(Mode::Uniform)));
        assert!(Ablation::parse("encoder.0, decoder.0.cross = zero", &inventory).unwrap().takes_all(&inventory));
    }

    #[test]
    fn unknown_names_are_refused_with_the_known_ones() {
        let message = |text: &str| Ablation::parse(text, &inventory()).unwrap_err().to_string();
        for (text, has) in [
            ("encoder.0.2", "encoder.0.0 to encoder.0.1, decoder.0.cross.0 to decoder.0.cross.1, positions"),
            ("encoder.0.1=off", "zero, mean, uniform or self"),
            ("decoder.0.cross=self", "zero, mean or uniform"),
            ("", "one of"),
            ("encoder.0.+1", "one of"),
            ("encoder.0.1,encoder.0.1=mean", "each name once"),
            ("positions=mean", "one of"),
        ] {
            assert!(message(text).contains(has), "{text}: {}", message(text));
        }
        let nothing = Ablation::parse("0.1", &Inventory::default()).unwrap_err().to_string();
        assert!(nothing.contains("no attention"), "{nothing}");
    }
}
