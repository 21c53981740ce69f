//! All kinds of positions: vectors as an image of position × dimension, biases as a matrix, rotations as the cosines of their
//! angles and as block-diagonal matrices, each with its decay over the distance; the rotation that shifts sinusoids; and
//! numbers to check by hand.

mod by_hand;
mod panels;
mod trained;
mod view;

use burn::module::Param;
use burn::tensor::{Device, Tensor, TensorData};
use regard_figures::{fixed, number};
use regard_nn::layers::position::learned::LearnedConfig;
use regard_nn::layers::position::relative::RelativeConfig;
use regard_nn::layers::position::sinusoidal::Sinusoidal;
use regard_nn::layers::position::{Position as Kind, PositionSizes, Positions};
use regard_nn::{ConfigError, Init};
use serde_json::json;

use super::limits::{check_pairs, check_range};
use super::matrix::Matrix;
use super::{ShowError, Shown};
use by_hand::ByHand;
pub use trained::{Trained, show_trained};
use view::View;

/// Settings of the demonstration.
#[derive(Debug, Clone)]
pub struct Position {
    /// Number of positions.
    pub length: usize,
    /// Number of features of a token.
    pub d_model: usize,
    /// Number of heads, for the kinds that differ between heads.
    pub n_heads: usize,
    /// Name of one kind to show in detail; `None` shows all side by side.
    pub kind: Option<String>,
    /// Distance by which the rotation shifts sinusoids.
    pub shift: usize,
    /// Seed of random vectors and of learned kinds, which are shown before training.
    pub seed: u64,
}

impl Default for Position {
    fn default() -> Self {
        Self { length: 64, d_model: 64, n_heads: 4, kind: None, shift: 5, seed: 0 }
    }
}

/// Returns every kind in the order shown, with settings for `length` positions.
pub(super) fn kinds(length: usize) -> Vec<Kind> {
    let fitted = |kind| match kind {
        Kind::Learned(config) => Kind::Learned(LearnedConfig { max_length: length, ..config }),
        Kind::Relative(_) => Kind::Relative(RelativeConfig { max_distance: 16, ..RelativeConfig::default() }),
        Kind::None | Kind::Sinusoidal | Kind::Rope(_) | Kind::Alibi | Kind::Floater(_) | Kind::Rnn(_) => kind,
    };
    Kind::all().map(fitted).collect()
}

/// Returns the names of all kinds, in the order shown.
pub fn kind_names() -> Vec<&'static str> {
    Kind::all().map(|kind| kind.name()).collect()
}

/// Returns the kind called `name`.
pub(super) fn kind_named(length: usize, name: &str) -> Result<Kind, ConfigError> {
    let unknown = ConfigError::new("kind", name, kind_names().join(", "));
    kinds(length).into_iter().find(|kind| kind.name() == name).ok_or(unknown)
}

/// Creates the layer. A relative table, which starts at zero, is filled with [`example_table`].
pub(super) fn layer(kind: &Kind, sizes: PositionSizes, seed: u64) -> Result<Positions, ConfigError> {
    let init = Init::new(seed, &Device::flex()).enter("position");
    let mut layer = kind.init(sizes, &init)?;
    if let Positions::Relative(relative) = &mut layer {
        let [heads, width] = relative.weight.val().dims();
        relative.weight = Param::from_tensor(example_table(heads, width / 2));
    }
    Ok(layer)
}

/// Returns a table such as training could find: heads attend to the previous token, the next, those around, and further back.
fn example_table(n_heads: usize, max: usize) -> Tensor<2> {
    let bias = |head: usize, distance: f32| {
        let (centre, width) = [(-1.0f32, 1.0f32), (1.0, 1.0), (0.0, 3.0), (-6.0, 4.0)][head % 4];
        3.0 * (-((distance - centre) / width).powi(2) / 2.0).exp()
    };
    let distances = || (0..=2 * max).map(|index| index as f32 - max as f32);
    let values: Vec<f32> = (0..n_heads).flat_map(|head| distances().map(move |d| bias(head, d))).collect();
    Tensor::from_data(TensorData::new(values, [n_heads, 2 * max + 1]), &Device::flex())
}

/// A kind and the numbers to show for it.
struct Seen {
    name: &'static str,
    view: View,
}

/// The rotation with `PE(p) R = PE(p + k)`.
struct Shift {
    by: usize,
    matrix: Matrix,
    /// Largest `|PE(p) R − PE(p + k)|`.
    difference: f64,
}

impl Position {
    /// Shows all kinds, or one in detail.
    pub fn show(&self) -> Result<Shown, ShowError> {
        self.validate()?;
        let chosen = match &self.kind {
            Some(name) => vec![kind_named(self.length, name)?],
            None => kinds(self.length),
        };
        let sizes = PositionSizes { d_model: self.d_model, n_heads: self.n_heads, d_head: self.d_model / self.n_heads };
        let mut seen = Vec::new();
        for kind in &chosen {
            let view = View::of(&layer(kind, sizes, self.seed)?, self.length, self.seed)?;
            seen.push(Seen { name: kind.name(), view });
        }
        let shift = if chosen.contains(&Kind::Sinusoidal) { Some(self.shift()?) } else { None };
        let by_hand = ByHand::of(&chosen)?;
        let figure = match self.kind {
            Some(_) => panels::detail(self, &seen[0], shift.as_ref(), &by_hand)?,
            None => panels::overview(self, &seen, shift.as_ref(), &by_hand)?,
        };
        let kinds: Vec<_> = seen.iter().map(|seen| seen.view.json(seen.name)).collect();
        let rotation = shift.as_ref().map(|shift| json!({ "shift": shift.by, "largest_difference": shift.difference }));
        let json = json!({
            "length": self.length, "d_model": self.d_model, "n_heads": self.n_heads, "kinds": kinds, "rotation": rotation,
            "by_hand": by_hand.json(),
        });
        Ok(Shown { text: self.text(&seen, shift.as_ref()) + &by_hand.text(), json, figure })
    }

    fn validate(&self) -> Result<(), ConfigError> {
        let Self { length, d_model, n_heads, shift, .. } = *self;
        check_range("length", length, 2..=512)?;
        check_range("n_heads", n_heads, 1..=16)?;
        check_range("d_model", d_model, 2..=512)?;
        check_range("shift", shift, 0..=4096)?;
        check_pairs(d_model, n_heads)
    }

    fn shift(&self) -> Result<Shift, ConfigError> {
        let (layer, device) = (Sinusoidal::new(self.d_model, Kind::SINUSOIDAL_BASE)?, Device::flex());
        let rotation = layer.shift(self.shift, &device);
        let moved = Matrix::of(layer.encode(self.length, 0, &device).matmul(rotation.clone()));
        let difference = moved.largest_difference(&Matrix::of(layer.encode(self.length, self.shift, &device)));
        Ok(Shift { by: self.shift, matrix: Matrix::of(rotation), difference })
    }

    fn text(&self, seen: &[Seen], shift: Option<&Shift>) -> String {
        let mut text = format!(
            "{} positions, d_model {}, {} heads. Similarity or bias at distance k:\n\n{}",
            self.length,
            self.d_model,
            self.n_heads,
            decay_text(seen.iter().map(|Seen { name, view }| (*name, view)), self.length)
        );
        if let Some(Shift { by, difference, .. }) = shift {
            text += &format!(
                "\nThe same rotation moves the sinusoids of all positions: PE(p) R = PE(p + {by}), with a largest difference of \
                 {} over all p.\n",
                number(*difference, 2)
            );
        }
        for Seen { view, .. } in seen {
            if let View::Turned { uneven, .. } = view {
                text += &format!(
                    "RoPE's q·k depends only on the distance: pairs at the same distance differ by at most {}.\n",
                    number(*uneven, 2)
                );
            }
        }
        if seen.iter().any(|seen| seen.name == "relative") {
            text += "The relative table starts at zero; it is shown with example values such as training could find.\n";
        }
        text
    }
}

/// Returns a table of the first curve of each kind at some distances below `length`.
fn decay_text<'a>(seen: impl Iterator<Item = (&'a str, &'a View)>, length: usize) -> String {
    let mut distances: Vec<usize> = [1, 4, 16, length - 1].into_iter().filter(|&k| k < length).collect();
    distances.sort_unstable();
    distances.dedup();
    let heading: String = distances.iter().map(|k| format!("{:>9}", format!("k = {k}"))).collect();
    let mut text = format!("{:<11} {:<18} {:<36}{heading}\n", "kind", "enters", "measured");
    for (name, view) in seen {
        let curve = view.curves().into_iter().next();
        let value = |k: usize| curve.as_ref().and_then(|curve| curve.at(k as f64));
        let cells: String =
            distances.iter().map(|&k| format!("{:>9}", value(k).map_or("–".into(), |v| fixed(v, 3)))).collect();
        text += &format!("{name:<11} {:<18} {:<36}{cells}\n", view.enters(), view.measured());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(kind: &str) -> Shown {
        let kind = Some(kind.to_string());
        Position { length: 24, d_model: 32, n_heads: 4, kind, ..Position::default() }.show().unwrap()
    }

    fn curve(shown: &Shown, index: usize) -> Vec<f64> {
        let values = shown.json["kinds"][0]["curves"][index]["values"].as_array().unwrap().iter();
        values.map(|v| v.as_f64().unwrap()).collect()
    }

    #[test]
    fn sinusoids_fall_off_as_the_sum_of_cosines() {
        let similarity = curve(&shown("sinusoidal"), 0);
        assert_eq!(similarity.len(), 24);
        for (k, got) in similarity.iter().enumerate() {
            let cosine = |i: usize| (k as f64 / 10_000f64.powf(2.0 * i as f64 / 32.0)).cos();
            let want = (0..16).map(cosine).sum::<f64>() / 16.0;
            assert!((got - want).abs() < 1e-6, "{k}: {got}, expected {want}");
        }
    }

    #[test]
    fn rotated_vectors_fall_off_with_the_distance_alone() {
        let shown = shown("rope");
        for (k, got) in curve(&shown, 0).iter().enumerate() {
            let want = (0..4).map(|i| (k as f64 / 10_000f64.powf(2.0 * i as f64 / 8.0)).cos()).sum::<f64>() / 4.0;
            assert!((got - want).abs() < 1e-6, "{k}: {got}, expected {want}");
        }
        assert!(shown.json["kinds"][0]["largest_difference_at_one_distance"].as_f64().unwrap() < 2e-6);
    }

    #[test]
    fn the_rotation_moves_every_position() {
        for shift in [0, 1, 5, 100] {
            let shown = Position { shift, ..Position::default() }.show().unwrap();
            let difference = shown.json["rotation"]["largest_difference"].as_f64().unwrap();
            assert!(difference < 1e-6, "{shift}: {difference}");
        }
    }

    #[test]
    fn biases_are_those_that_attention_adds() {
        use regard_ops::{AttentionOptions, attention_weights};
        let sizes = PositionSizes { d_model: 32, n_heads: 4, d_head: 8 };
        for name in ["relative", "alibi"] {
            let layer = layer(&kind_named(24, name).unwrap(), sizes, 0).unwrap();
            let View::Biased { by_head } = View::of(&layer, 24, 0).unwrap() else { panic!("{name}") };
            let options = layer.places(24, 0, &Device::flex()).apply(&AttentionOptions::default()).unwrap();
            let zeros = || Tensor::<4>::zeros([1, 4, 24, 2], &Device::flex());
            for (head, bias) in by_head.iter().enumerate() {
                let weights = Matrix::of(attention_weights(zeros(), zeros(), &options, (0, head), 0..24).unwrap());
                for i in 0..24 {
                    let sum: f64 = bias.row(i).iter().map(|b| b.exp()).sum();
                    for (j, &b) in bias.row(i).iter().enumerate() {
                        assert!((weights.at(i, j) - b.exp() / sum).abs() < 1e-6, "{name} {i} {j}");
                    }
                }
            }
        }
        let slopes = shown("alibi").json["kinds"][0]["curves"].as_array().unwrap().len();
        assert_eq!(slopes, 4);
    }

    #[test]
    fn every_kind_is_shown() {
        let all = Position { length: 12, d_model: 16, n_heads: 2, ..Position::default() }.show().unwrap();
        let svg = all.figure.to_svg();
        for name in kind_names() {
            assert!(all.text.contains(name), "{name}");
            assert!(name == "none" || svg.contains(name), "{name}");
            assert!(!shown(name).figure.panels.is_empty(), "{name}");
        }
    }

    #[test]
    fn options_are_checked() {
        let error = |position: Position| position.show().unwrap_err().to_string();
        let default = Position::default;
        assert_eq!(error(Position { length: 1, ..default() }), "length = 1: expected a whole number from 2 to 512");
        assert!(error(Position { d_model: 12, ..default() }).starts_with("d_model = 12: expected a multiple of 8"));
        assert!(error(Position { n_heads: 0, ..default() }).starts_with("n_heads = 0"));
        assert!(error(Position { shift: 5000, ..default() }).starts_with("shift = 5000"));
        let unknown = error(Position { kind: Some("rotary".into()), ..default() });
        assert!(unknown.starts_with("kind = rotary: expected none, sinusoidal, learned"), "{unknown}");
    }
}
