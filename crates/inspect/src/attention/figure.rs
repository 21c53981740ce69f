//! All maps in one drawing.

use regard_figures::{ColourScale, Figure, FigureError, Heatmap, ScaleBar, ValueRange, number};

use crate::attention::{AttentionView, HeadMap, MapGroup};

/// More panels than the largest models have; a drawing of them is no longer looked at.
const MOST_PANELS: usize = 1_024;
/// Token labels are read in maps up to this many tokens, if there are not too many maps.
const LABELLED_TOKENS: usize = 40;
const LABELLED_PANELS: usize = 24;

/// A row of panels a layer, one scale for all.
pub(super) fn draw(view: &AttentionView) -> Result<Figure, FigureError> {
    let panels: usize = view.groups.iter().map(|group| group.heads.len()).sum();
    if panels > MOST_PANELS {
        return Err(FigureError::TooLarge { what: "maps of a drawing", limit: MOST_PANELS, got: panels });
    }
    let inputs = view.inputs();
    let title = if view.title.is_empty() { "Attention" } else { &view.title };
    let mut figure = Figure::new(title);
    // Layers of one width stand in a grid; others flow.
    let widest = view.groups.iter().map(|group| group.heads.len()).max().unwrap_or(0);
    let is_even = view.groups.iter().all(|group| group.heads.len() == widest);
    if is_even && widest > 1 {
        figure = figure.columns(columns(widest));
    }
    let (largest, high) = ends(view);
    for (index, group) in view.groups.iter().enumerate() {
        for head in &group.heads {
            let input = (inputs.len() > 1).then_some(group.input.as_str()).filter(|input| !input.is_empty());
            let map = panel(group, head, panels, high)?;
            // Where all look the same, one bar says enough.
            let is_last = index + 1 == view.groups.len() && head == &group.heads[group.heads.len() - 1];
            let map = map.scale_bar(if is_last { ScaleBar::Shown } else { ScaleBar::Hidden });
            let name = panel_name(group, head);
            figure.push(input.map_or(name.clone(), |input| format!("{input}: {name}")), map);
        }
    }
    let mut note =
        "Rows are queries, columns the keys they look at; the darker a cell, the larger the weight.".to_string();
    // Not where both are the same number to the eye.
    if short(high) != short(largest) {
        note += &format!(" Weights beyond {}, up to {}, have the last colour.", short(high), short(largest));
    }
    if let Some(explained) = explained(view) {
        note += &explained;
    }
    Ok(figure.note(note))
}

/// The name of the head; that of the layer where it has but one and is of no model.
fn panel_name(group: &MapGroup, head: &HeadMap) -> String {
    match group.site {
        None if group.heads.len() == 1 && head.head == 0 => group.name.clone(),
        None => format!("{}, head {}", group.name, head.head),
        Some(_) => group.head_name(head.head),
    }
}

/// How names are to be read.
fn explained(view: &AttentionView) -> Option<String> {
    let group = view.groups.iter().find(|group| group.site.is_some_and(|site| site.is_numbered()))?;
    let head = group.heads.last()?.head;
    Some(format!(" Names count layers and heads from 0, as {}.", group.head_name(head)))
}

fn short(weight: f32) -> String {
    number(f64::from(weight), 3)
}

fn panel(group: &MapGroup, head: &HeadMap, panels: usize, high: f32) -> Result<Heatmap, FigureError> {
    let weights = head.weights(group).flatten().collect();
    let map = Heatmap::new(group.queries.len(), group.keys.len(), weights)?
        .scale(ColourScale::sequential(ValueRange::Fixed { low: 0.0, high }))
        .side(match panels {
            0..=1 => 640,
            2..=4 => 380,
            5..=LABELLED_PANELS => 240,
            _ => 120,
        });
    let is_labelled =
        panels <= LABELLED_PANELS && group.queries.len().max(group.keys.len()) <= LABELLED_TOKENS || panels <= 2;
    if !is_labelled {
        return Ok(map);
    }
    let map = if panels <= 4 { map.axes("query", "key") } else { map };
    Ok(map.row_labels(group.queries.iter().cloned()).column_labels(group.keys.iter().cloned()))
}

/// How many maps stand side by side: those of a layer, in equal rows where that is too wide.
fn columns(heads: usize) -> usize {
    heads.div_ceil(heads.div_ceil(16))
}

/// The largest weight of the whole view, and the usual one: that which nine queries of ten stay below. The first queries
/// of a decoder see little, so their weights would make all others pale.
fn ends(view: &AttentionView) -> (f32, f32) {
    let heads = view.groups.iter().flat_map(|group| group.heads.iter().map(move |head| (group, head)));
    let rows = heads.flat_map(|(group, head)| head.weights(group));
    let finite = |row: Vec<f32>| row.into_iter().filter(|weight| weight.is_finite()).fold(0.0, f32::max);
    let mut most: Vec<f32> = rows.map(finite).collect();
    most.sort_by(f32::total_cmp);
    let largest = most.last().copied().filter(|&weight| weight > 0.0).unwrap_or(1.0);
    let usual = most.get((9 * most.len()).div_ceil(10).wrapping_sub(1)).copied().filter(|&weight| weight > 0.0);
    (largest, usual.unwrap_or(largest))
}
