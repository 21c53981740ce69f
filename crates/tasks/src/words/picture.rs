//! Words in a plane: those that belong together, or the neighbours of the words that were asked for.

use regard_figures::{Axis, Figure, LabelledPoint, Scatter};
use serde_json::json;

use super::ask::Table;
use super::lexicon::Lexicon;
use super::plane::Plane;
use crate::error::TaskError;
use crate::task::Picture;

/// Neighbours drawn around each word.
const NEAR: usize = 9;
/// Groups that are made where none are known.
const GROUPS: usize = 8;
/// The most frequent words keep company with all others and show nothing.
const TOO_FREQUENT: usize = 30;

/// Words that are drawn in one colour.
pub(super) type Group = (String, Vec<usize>);

/// A group for each word: itself and its neighbours, each drawn once.
pub(super) fn around(
    table: &Table,
    lexicon: &Lexicon,
    words: impl IntoIterator<Item = usize>,
    most: usize,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut shown: Vec<usize> = Vec::new();
    for word in words {
        if groups.len() == most {
            break;
        }
        if shown.contains(&word) {
            continue;
        }
        let near = table.near(word, NEAR).into_iter().map(|(near, _)| near).filter(|near| !shown.contains(near));
        let group: Vec<usize> = [word].into_iter().chain(near).collect();
        shown.extend(&group);
        groups.push((lexicon.words.name(word).to_string(), group));
    }
    groups
}

/// Groups for a text of which nothing is known: frequent words that are not each other's neighbours.
pub(super) fn telling(table: &Table, lexicon: &Lexicon) -> Vec<Group> {
    let first = TOO_FREQUENT.min(lexicon.words.len() / 4);
    around(table, lexicon, first..lexicon.words.len(), GROUPS)
}

/// The drawing.
pub(super) fn draw(title: &str, table: &Table, lexicon: &Lexicon, groups: &[Group]) -> Result<Picture, TaskError> {
    let points: Vec<Vec<f32>> = groups.iter().flat_map(|(_, words)| words).map(|&word| table.unit(word)).collect();
    let plane = Plane::of(&points);
    let axis =
        |name: &str, share: f64| Axis::linear(format!("{name} component, {:.0} % of the variance", 100.0 * share));
    let mut scatter = Scatter::new(axis("first", plane.shares[0]), axis("second", plane.shares[1]));
    let mut places = plane.places.iter();
    let mut data = Vec::new();
    for (name, words) in groups {
        let placed: Vec<LabelledPoint> = words
            .iter()
            .zip(places.by_ref())
            .map(|(&word, place)| {
                let label = lexicon.words.name(word);
                data.push(json!({ "word": label, "group": name, "x": place[0], "y": place[1] }));
                LabelledPoint::new(place[0], place[1], label)
            })
            .collect();
        scatter = scatter.group(name, placed)?;
    }
    let note = "Vectors of length 1, seen along the two directions in which these words differ most. \
                Words that occur in the same company lie together.";
    let figure = Figure::new(format!("Word vectors: {title}")).panel("", scatter).note(note);
    Ok(Picture { figure, data: json!({ "input": title, "explained": plane.shares, "words": data }) })
}
