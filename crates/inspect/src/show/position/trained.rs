//! The positions of a trained model, drawn like the untrained ones, with what training changes: the similarity of learned vectors,
//! the path of computed ones, the bias of each head by distance, learned frequencies.

use regard_figures::{Axis, ColourScale, Figure, FigureError, Heatmap, LineStyle, Lines, Series, ValueRange};
use regard_nn::ConfigError;
use regard_nn::layers::position::Positions;
use serde_json::{Value, json};

use super::decay_text;
use super::panels::{SIDE, Titled, block_matrix, cosines, decay, decay_title, image};
use super::view::View;
use crate::show::limits::check_range;
use crate::show::matrix::Matrix;
use crate::show::{ShowError, Shown};

/// Positions of a trained model.
#[derive(Debug, Clone, Copy)]
pub struct Trained<'a> {
    /// Part of the model that they belong to, such as `encoder`.
    pub part: &'static str,
    /// The layer with its trained weights.
    pub layer: &'a Positions,
    /// Number of tokens of the longest input that the model takes.
    pub longest: usize,
}

/// Number of positions drawn by default.
const DRAWN: usize = 64;
const MOST: usize = 512;
/// Number of features whose path is drawn.
const PATHS: usize = 6;

/// A part of the model and the numbers to show for it.
struct Seen<'a> {
    part: &'static str,
    layer: &'a Positions,
    view: View,
    length: usize,
}

/// Shows the positions of a model: the first `length`, or 64, or as many as its longest input has. A kind without positions shows
/// nothing.
pub fn show_trained(title: &str, all: &[Trained], length: Option<usize>) -> Result<Shown, ShowError> {
    if let Some(length) = length {
        check_range("length", length, 2..=MOST)?;
    }
    let mut seen = Vec::new();
    for &Trained { part, layer, longest } in all {
        let length = drawn(layer, length, longest)?;
        seen.push(Seen { part, layer, view: View::of(layer, length, 0)?, length });
    }
    let mut figure = Figure::new(title);
    for one in &seen {
        for (name, panel) in one.panels()? {
            figure.push(if all.len() > 1 { format!("{}, {name}", one.part) } else { name }, panel);
        }
    }
    for note in notes(&seen) {
        figure = figure.note(note);
    }
    let json = json!({ "title": title, "positions": seen.iter().map(Seen::json).collect::<Vec<_>>() });
    let mut text = format!("{title}\n");
    for one in &seen {
        let named = if all.len() > 1 { format!("{}, ", one.part) } else { String::new() };
        text += &format!("\n{named}{} positions. Similarity or bias at distance k:\n\n", one.length);
        text += &decay_text([(one.layer.name(), &one.view)].into_iter(), one.length);
    }
    Ok(Shown { text, json, figure })
}

/// Returns the number of positions to draw of a layer.
fn drawn(layer: &Positions, asked: Option<usize>, longest: usize) -> Result<usize, ConfigError> {
    let most = match layer {
        // Rows beyond the table would repeat its last row.
        Positions::Learned(layer) => layer.weight.dims()[0],
        // Distances beyond the table repeat its ends.
        Positions::Relative(layer) => layer.max_distance() + 1,
        _ => MOST,
    };
    let default = match layer {
        Positions::Relative(_) => most,
        _ => longest.clamp(2, DRAWN),
    };
    let length = asked.unwrap_or(default).min(most).min(MOST);
    // Two positions are the fewest that have a distance.
    match length {
        0 | 1 => Err(ConfigError::new("position.max_length", most, "2 or more positions to draw")),
        length => Ok(length),
    }
}

impl Seen<'_> {
    fn panels(&self) -> Result<Vec<Titled>, FigureError> {
        let name = self.layer.name();
        let mut panels: Vec<Titled> = Vec::new();
        match &self.view {
            View::Nothing => {}
            View::Added { table } => {
                panels.push((format!("{name}: added to the tokens"), image(table, "dimension")?.into()));
                let scale = ColourScale::diverging(ValueRange::Fixed { low: -1.0, high: 1.0 });
                let map = cosine_similarity(table).heatmap()?.axes("position", "position").scale(scale).side(SIDE);
                panels.push((format!("{name}: cosine similarity of two positions"), map.into()));
                panels.push((
                    format!("{name}: the {} features that change most", paths(table).len()),
                    path(table).into(),
                ));
            }
            View::Turned { angles, example, .. } => {
                panels.push((format!("{name}: cos of the angle"), image(&cosines(angles), "pair of features")?.into()));
                panels.push(block_matrix(name, example)?);
                if let Some((first, now)) = self.frequencies() {
                    panels.push((format!("{name}: learned frequencies"), frequencies(&first, &now).into()));
                }
            }
            View::Biased { by_head } => {
                panels.push((format!("{name}: bias by head and distance"), by_distance(by_head, &self.view)?.into()));
            }
        }
        if !matches!(self.view, View::Nothing) {
            panels.push((decay_title(&self.view, name), decay(&self.view).into()));
        }
        Ok(panels)
    }

    /// Returns the frequencies of RoPE before and after training, if they are learned.
    fn frequencies(&self) -> Option<(Vec<f32>, Vec<f32>)> {
        let Positions::Rope(rope) = self.layer else { return None };
        let learned = rope.frequencies.as_ref()?;
        Some((rope.first_frequencies(), learned.val().into_data().iter().collect()))
    }

    fn json(&self) -> Value {
        let mut json = self.view.json(self.layer.name());
        json["part"] = self.part.into();
        json["length"] = self.length.into();
        if let View::Added { table } = &self.view {
            json["cosine_similarity"] = cosine_similarity(table).json();
        }
        if let Some((first, now)) = self.frequencies() {
            json["frequencies"] = json!({ "first": first, "learned": now });
        }
        json
    }
}

/// Returns the cosine of the angle between any two rows; 0 for a row of zeros.
fn cosine_similarity(table: &Matrix) -> Matrix {
    let dot = |p: usize, q: usize| table.row(p).iter().zip(table.row(q)).map(|(a, b)| a * b).sum::<f64>();
    let lengths: Vec<f64> = (0..table.rows).map(|p| dot(p, p).sqrt().max(f64::MIN_POSITIVE)).collect();
    Matrix::from_fn(table.rows, table.rows, |p, q| dot(p, q) / lengths[p] / lengths[q])
}

/// Returns the columns with the largest variance, the largest first.
fn paths(table: &Matrix) -> Vec<usize> {
    let mean = table.mean();
    let variance =
        |column: usize| (0..table.rows).map(|p| (table.at(p, column) - mean.at(0, column)).powi(2)).sum::<f64>();
    let mut columns: Vec<(usize, f64)> = (0..table.columns).map(|column| (column, variance(column))).collect();
    columns.sort_by(|a, b| b.1.total_cmp(&a.1));
    columns.into_iter().take(PATHS).map(|(column, _)| column).collect()
}

fn path(table: &Matrix) -> Lines {
    paths(table).into_iter().fold(Lines::new(Axis::linear("position"), Axis::linear("value")), |lines, column| {
        let points = (0..table.rows).map(|p| (p as f64, table.at(p, column)));
        lines.series(Series::new(format!("dimension {column}"), points))
    })
}

fn by_distance(by_head: &[Matrix], view: &View) -> Result<Heatmap, FigureError> {
    let curves = view.curves();
    let distances: Vec<String> = curves[0].points.iter().map(|(k, _)| regard_figures::fixed(*k, 0)).collect();
    let values = Matrix::from_fn(by_head.len(), distances.len(), |head, at| curves[head].points[at].1);
    let map = values.heatmap()?.axes("head", "key − query").column_labels(distances);
    Ok(map.scale(ColourScale::diverging(ValueRange::Data)).side(420))
}

fn frequencies(first: &[f32], now: &[f32]) -> Lines {
    let series = |name: &str, values: &[f32]| {
        // The sign of a frequency is only the direction of the rotation.
        let points = values.iter().enumerate().map(|(pair, &v)| (pair as f64, f64::from(v.abs())));
        Series::new(name, points.collect::<Vec<_>>())
    };
    Lines::new(Axis::linear("pair of features"), Axis::log("radians per position"))
        .series(series("before training", first))
        .series(series("after training", now).style(LineStyle::Markers))
}

fn notes(seen: &[Seen]) -> Vec<String> {
    let has = |name: &str| seen.iter().any(|one| one.layer.name() == name);
    let mut notes = Vec::new();
    if has("learned") {
        notes.push("Rows of learned positions beyond the longest training input keep their random start: they look like noise and are similar to no other row.".to_string());
    }
    if has("relative") {
        notes.push("Relative positions start at zero. The bias is the same in all layers; red raises the weight of a key at this distance, blue lowers it. The ends of the table stand for all larger distances.".to_string());
    }
    if has("floater") {
        notes.push("FLOATER: the positions are points on the path of a learned differential equation.".to_string());
    }
    if has("rnn") {
        notes.push(
            "RNN: the positions are the states of a learned recurrent network with a constant input.".to_string(),
        );
    }
    if has("sinusoidal")
        || has("alibi")
        || seen.iter().any(|one| one.layer.name() == "rope" && one.frequencies().is_none())
    {
        notes.push("These positions have a formula and are not changed by training.".to_string());
    }
    notes
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;
    use regard_nn::Init;
    use regard_nn::layers::position::learned::LearnedConfig;
    use regard_nn::layers::position::relative::RelativeConfig;
    use regard_nn::layers::position::rope::{Frequencies, RopeConfig};
    use regard_nn::layers::position::{Position as Kind, PositionSizes};

    use super::*;

    fn layer(kind: Kind) -> Positions {
        let sizes = PositionSizes { d_model: 8, n_heads: 2, d_head: 4 };
        kind.init(sizes, &Init::new(3, &Device::flex()).enter("position")).unwrap()
    }

    fn shown(layer: &Positions, length: Option<usize>) -> Shown {
        show_trained("title", &[Trained { part: "encoder", layer, longest: 20 }], length).unwrap()
    }

    #[test]
    fn every_kind_is_drawn_from_its_layer() {
        for kind in Kind::all() {
            let layer = layer(kind);
            let document = shown(&layer, None).json;
            let position = &document["positions"][0];
            assert_eq!(position["kind"], kind.name());
            let is_table = matches!(
                layer,
                Positions::Sinusoidal(_) | Positions::Learned(_) | Positions::Floater(_) | Positions::Rnn(_)
            );
            if is_table {
                let table = Matrix::of(layer.table(20, 0, &Device::flex()).unwrap().unwrap());
                assert_eq!(position["table"], table.json(), "{}", kind.name());
                let cosine = position["cosine_similarity"][3][7].as_f64().unwrap();
                let dot = |p: usize, q: usize| (0..8).map(|i| table.at(p, i) * table.at(q, i)).sum::<f64>();
                assert!((cosine - dot(3, 7) / (dot(3, 3) * dot(7, 7)).sqrt()).abs() < 1e-6, "{}", kind.name());
            } else {
                assert!(position.get("table").is_none(), "{}", kind.name());
            }
        }
    }

    #[test]
    fn tables_are_drawn_as_long_as_they_are() {
        let learned = layer(Kind::Learned(LearnedConfig { max_length: 9, ..LearnedConfig::default() }));
        for (asked, length) in [(None, 9), (Some(5), 5), (Some(100), 9)] {
            assert_eq!(shown(&learned, asked).json["positions"][0]["length"], length);
        }
        let relative = layer(Kind::Relative(RelativeConfig { max_distance: 3, ..RelativeConfig::default() }));
        let curve = &shown(&relative, None).json["positions"][0]["curves"][0];
        assert_eq!(curve["distances"], json!([-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0]));
        let one = layer(Kind::Learned(LearnedConfig { max_length: 1, ..LearnedConfig::default() }));
        let all = [Trained { part: "", layer: &one, longest: 20 }];
        assert!(show_trained("", &all, None).unwrap_err().to_string().contains("2 or more positions"));
        assert!(show_trained("", &all, Some(1)).unwrap_err().to_string().starts_with("length = 1"));
    }

    #[test]
    fn learned_frequencies_are_beside_their_start() {
        let fixed = layer(Kind::Rope(RopeConfig::default()));
        assert!(shown(&fixed, None).json["positions"][0].get("frequencies").is_none());
        let learned = layer(Kind::Rope(RopeConfig { frequencies: Frequencies::Learned, ..RopeConfig::default() }));
        let seen = &shown(&learned, None);
        let frequencies = &seen.json["positions"][0]["frequencies"];
        assert_eq!(frequencies["first"], frequencies["learned"]);
        assert!((frequencies["first"][1].as_f64().unwrap() - 0.01).abs() < 1e-7);
        assert!(seen.figure.to_svg().contains("learned frequencies"));
    }

    #[test]
    fn the_features_that_change_most_come_first() {
        let table = Matrix::from_fn(3, 3, |p, column| [1.0, p as f64, 5.0 * p as f64][column]);
        assert_eq!(paths(&table), [2, 1, 0]);
    }
}
