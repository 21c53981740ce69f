//! A figure of all attention maps of a view.

use regard_figures::{ColourScale, Figure, FigureError, Heatmap, ScaleBar, ValueRange, number};

use crate::attention::{AttentionView, HeadMap, MapGroup};
use crate::error::InspectError;

/// Largest number of panels; more than the largest models have, and too many to be useful in a figure.
const MOST_PANELS: usize = 1_024;
/// Largest number of tokens of a map with readable labels.
const LABELLED_TOKENS: usize = 40;
const LABELLED_PANELS: usize = 24;

impl AttentionView {
    /// Returns a figure of all maps, with a row of panels per layer and one colour scale for all.
    pub fn to_figure(&self) -> Result<Figure, InspectError> {
        let panels: usize = self.groups.iter().map(|group| group.heads.len()).sum();
        if panels > MOST_PANELS {
            return Err(FigureError::TooLarge { what: "maps of a drawing", limit: MOST_PANELS, got: panels }.into());
        }
        let inputs = self.inputs();
        let title = if self.title.is_empty() { "Attention" } else { &self.title };
        let mut figure = Figure::new(title);
        // If all layers have the same number of heads, each starts a new row.
        let widest = self.groups.iter().map(|group| group.heads.len()).max().unwrap_or(0);
        let is_even = self.groups.iter().all(|group| group.heads.len() == widest);
        if is_even && widest > 1 {
            figure = figure.columns(columns(widest));
        }
        let (largest, high) = ends(self);
        for (index, group) in self.groups.iter().enumerate() {
            for head in &group.heads {
                let input = (inputs.len() > 1).then_some(group.input.as_str()).filter(|input| !input.is_empty());
                let map = panel(group, head, panels, high)?;
                // All panels share one scale, so only the last has a scale bar.
                let is_last = index + 1 == self.groups.len() && head == &group.heads[group.heads.len() - 1];
                let map = map.scale_bar(if is_last { ScaleBar::Shown } else { ScaleBar::Hidden });
                let name = panel_name(group, head);
                figure.push(input.map_or(name.clone(), |input| format!("{input}: {name}")), map);
            }
        }
        let mut note =
            "Rows are queries, columns are the keys they attend to; darker cells have larger weights.".to_string();
        // The sentence is needed only if the two numbers differ as printed.
        if short(high) != short(largest) {
            note += &format!(" Weights above {}, up to {}, have the darkest colour.", short(high), short(largest));
        }
        if let Some(explained) = explained(self) {
            note += &explained;
        }
        Ok(figure.note(note))
    }
}

/// Returns the title of a panel: the name of the head, or that of the layer if it has only head 0 and belongs to no model.
fn panel_name(group: &MapGroup, head: &HeadMap) -> String {
    match group.site {
        None if group.heads.len() == 1 && head.head == 0 => group.name.clone(),
        None => format!("{}, head {}", group.name, head.head),
        Some(_) => group.head_name(head.head),
    }
}

/// Returns a sentence that explains the names of heads, if a layer of the view is numbered.
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

/// Returns the number of maps side by side: one layer per row, split into rows of equal length if it is too wide.
fn columns(heads: usize) -> usize {
    heads.div_ceil(heads.div_ceil(16))
}

/// Returns the largest weight of the view, and the 90th percentile of the queries' largest weights. Colours end at the
/// second: the first queries of a decoder see few keys, and their large weights would make all others pale.
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
