//! A plot of word vectors in two dimensions: groups of related words, or given words with their neighbours.

use regard_figures::{Axis, Figure, LabelledPoint, Scatter};
use serde_json::json;

use super::ask::Table;
use super::lexicon::Lexicon;
use super::plane::Plane;
use crate::error::TaskError;
use crate::task::Picture;

/// Number of neighbours drawn with each word.
const NEAR: usize = 9;
/// Number of groups drawn for a text without known groups.
const GROUPS: usize = 8;
/// Number of most frequent words that are skipped: they occur next to all others, so their neighbours tell little.
const TOO_FREQUENT: usize = 30;

/// The name and the words of a group, which is drawn in one colour.
pub(super) type Group = (String, Vec<usize>);

/// Makes at most `most` groups, one for each word with its neighbours; each word is drawn once.
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

/// Makes groups around frequent words that are not neighbours of each other, for a text without known groups.
pub(super) fn telling(table: &Table, lexicon: &Lexicon) -> Vec<Group> {
    let first = TOO_FREQUENT.min(lexicon.words.len() / 4);
    around(table, lexicon, first..lexicon.words.len(), GROUPS)
}

/// Draws groups of words along the two main directions of their vectors.
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
    let note = "Vectors of length 1, projected onto the two directions in which these words differ most. \
                Words that occur in similar contexts lie close together.";
    let figure = Figure::new(format!("Word vectors: {title}")).panel("", scatter).note(note);
    Ok(Picture { figure, data: json!({ "input": title, "explained": plane.shares, "words": data }) })
}
