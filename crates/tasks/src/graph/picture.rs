//! Pictures of a node and its neighbours with the attention weights of their edges, and of the accuracy by number of neighbours.

use regard_figures::{Axis, Bars, CellNumbers, ColourScale, Content, Figure, Heatmap, Ray, Star, ValueRange};
use regard_inspect::{AttentionView, MapGroup};
use regard_nn::AttentionMap;
use serde_json::{Value, json};

use super::block::Block;
use super::whole::Whole;
use crate::error::TaskError;
use crate::task::{Legend, Picture};

/// Largest number of nodes that are shown as queries of a map.
const MOST_QUERIES: usize = 24;
/// Largest number of nodes that are shown as keys of a map, unless the first query alone sees more.
const MOST_KEYS: usize = 200;
/// Largest number of neighbours whose weights are shown head by head.
const MOST_ROWS: usize = 24;

/// A node, the nodes around it in the order of their [`Block`], and their labels.
#[derive(Debug, Clone)]
pub(super) struct Neighbourhood {
    names: Vec<String>,
    /// Labels as the graph has them.
    known: Vec<Option<String>>,
    /// Index of each node's label among those of the model.
    groups: Vec<Option<usize>>,
    labels: Vec<String>,
    /// Number of queries and keys that the maps of each layer show.
    shown: Vec<(usize, usize)>,
    /// Weights of the node's edges in graph convolution, by node of the block.
    fixed: Option<Vec<(usize, f32)>>,
}

impl Neighbourhood {
    /// Describes the block around one node; `labels` are those of the model.
    pub fn new(whole: &Whole, block: &Block, labels: &[String], n_layers: usize) -> Self {
        let known: Vec<Option<String>> = block.nodes.iter().map(|&node| whole.labels[node].clone()).collect();
        let group = |label: &Option<String>| labels.iter().position(|known| Some(known) == label.as_ref());
        let shown = (0..n_layers).map(|layer| shown(block, block.within[n_layers - 1 - layer])).collect();
        Self {
            names: block.nodes.iter().map(|&node| whole.names[node].clone()).collect(),
            groups: known.iter().map(group).collect(),
            known,
            labels: labels.to_vec(),
            shown,
            fixed: block.batch.adjacency.as_ref().map(|weights| weights.row(0).collect()),
        }
    }

    /// Returns how to read the attention maps of the block, and what to draw.
    pub fn legend(self, title: String) -> Legend {
        let (names, shown) = (self.names.clone(), self.shown.clone());
        let tokens = move |map: &AttentionMap| {
            let (queries, keys) = shown.get(map.site.layer).copied().unwrap_or_default();
            (names[..queries].to_vec(), names[..keys].to_vec(), map.site.words())
        };
        let heading = title.clone();
        let legend = Legend::new(title, tokens);
        match self.shown.is_empty() {
            true => legend,
            false => legend.drawn(move |view| self.picture(&heading, view)),
        }
    }

    /// Draws the node with its neighbours, once for each layer, and the weights of all heads.
    fn picture(&self, title: &str, view: &AttentionView) -> Result<Picture, TaskError> {
        let mut figure = Figure::new(title).columns(1);
        // The last layer first: it decides, and the node in the centre is its only query.
        for group in view.groups.iter().rev() {
            let mean = mean(group);
            let heads = match group.heads.len() {
                1 => "one head".to_string(),
                count => format!("mean of {count} heads"),
            };
            figure.push(format!("{}: weights of the nodes it sees, {heads}", group.name), self.star(&mean));
        }
        if let (true, Some(fixed)) = (view.groups.is_empty(), &self.fixed) {
            figure.push("every layer: fixed weights of the nodes it sees", self.star(fixed));
        }
        if !view.groups.is_empty() {
            figure.push("weights in each head, a column each; names as in regard heads", self.by_head(view)?);
        }
        let note = "A circle has the colour of the node's label in the data; grey if it is unknown. The thickest line of each picture is its \
                    largest weight.";
        Ok(Picture { figure: figure.note(note), data: self.data(view) })
    }

    /// Draws the node in the centre with these weights of the nodes that it sees.
    fn star(&self, weights: &[(usize, f32)]) -> Star {
        let ray = |node: usize, weight: Option<f32>| {
            let label = self.known[node].as_deref().filter(|_| node > 0);
            let name = label.map_or(self.names[node].clone(), |label| format!("{} ({label})", self.names[node]));
            Ray { name, group: self.groups[node], weight }
        };
        let own = weights.iter().find(|&&(node, _)| node == 0).map(|&(_, weight)| weight);
        let others = weights.iter().filter(|&&(node, _)| node != 0).map(|&(node, weight)| ray(node, Some(weight)));
        Star::new(ray(0, own), others.collect(), self.labels.iter())
    }

    /// Draws the weights of the nodes that the node sees, a column per head of every layer.
    fn by_head(&self, view: &AttentionView) -> Result<Heatmap, TaskError> {
        let Some(last) = view.groups.last() else { return Ok(Heatmap::new(0, 0, Vec::new())?) };
        let mut seen = mean(last);
        seen.sort_by(|a, b| b.1.total_cmp(&a.1));
        seen.truncate(MOST_ROWS);
        let columns: Vec<(String, &[f32])> = view
            .groups
            .iter()
            .flat_map(|group| group.heads.iter().map(|head| (group.head_name(head.head), first_row(&head.rows))))
            .collect();
        let cell = |node: usize, row: &[f32]| row.get(node).copied().unwrap_or(0.0);
        let values = seen.iter().flat_map(|&(node, _)| columns.iter().map(move |(_, row)| cell(node, row)));
        let values: Vec<f32> = values.collect();
        let high = values.iter().copied().filter(|value| value.is_finite()).fold(f32::MIN_POSITIVE, f32::max);
        let map = Heatmap::new(seen.len(), columns.len(), values)?
            .row_labels(seen.iter().map(|&(node, _)| self.names[node].clone()))
            .column_labels(columns.iter().map(|(name, _)| name.clone()))
            .axes("node that is seen", "head")
            .scale(ColourScale::sequential(ValueRange::Fixed { low: 0.0, high }))
            .numbers(CellNumbers::WhereTheyFit);
        Ok(map)
    }

    /// Returns the node and the nodes that it sees, for programs.
    fn data(&self, view: &AttentionView) -> Value {
        let layers: Vec<Value> = view
            .groups
            .iter()
            .map(|group| {
                let seen = mean(group).into_iter();
                let edge = |(node, weight): (usize, f32)| {
                    json!({"from": self.names[node], "label": self.known[node], "weight": weight})
                };
                json!({"layer": group.name, "seen": seen.map(edge).collect::<Vec<_>>()})
            })
            .collect();
        json!({"node": self.names[0], "label": self.known[0], "layers": layers})
    }
}

/// Returns the number of queries and keys to show: the first nodes of a block, and all nodes that they see.
fn shown(block: &Block, most: usize) -> (usize, usize) {
    let keys = |query: usize| block.batch.graph.sources(query).max().map_or(1, |last| last + 1);
    let mut found = (1, keys(0).max(1));
    for query in 1..most.min(MOST_QUERIES) {
        let needed = found.1.max(keys(query)).max(query + 1);
        if needed > MOST_KEYS.max(found.1) {
            break;
        }
        found = (query + 1, needed);
    }
    found
}

fn first_row(rows: &[Vec<f32>]) -> &[f32] {
    rows.first().map_or(&[], Vec::as_slice)
}

/// Returns the nodes that the first query sees, with the mean of their weights over the heads.
fn mean(group: &MapGroup) -> Vec<(usize, f32)> {
    let weight = |key: usize| {
        let weights = group.heads.iter().map(|head| first_row(&head.rows).get(key).copied().unwrap_or(0.0));
        weights.sum::<f32>() / group.heads.len().max(1) as f32
    };
    (0..group.keys.len()).map(|key| (key, weight(key))).filter(|&(_, weight)| weight != 0.0).collect()
}

/// Draws how many nodes are right, by the number of nodes that they see beside themselves. `None` without nodes.
pub(super) fn by_degree(whole: &Whole, nodes: &[usize], right: &[bool]) -> Result<Option<Content>, TaskError> {
    const GROUPS: [(usize, usize, &str); 6] =
        [(0, 0, "none"), (1, 1, "1"), (2, 2, "2"), (3, 4, "3 or 4"), (5, 9, "5 to 9"), (10, usize::MAX, "10 or more")];
    let found = GROUPS.map(|(low, high, name)| {
        let inside = nodes.iter().zip(right).filter(|(node, _)| (low..=high).contains(&whole.degree(**node)));
        let (count, hits) = inside.fold((0, 0), |(count, hits), (_, &right)| (count + 1, hits + usize::from(right)));
        (name, count, hits)
    });
    let present: Vec<_> = found.iter().filter(|(_, count, _)| *count > 0).collect();
    if present.is_empty() {
        return Ok(None);
    }
    let names = present.iter().map(|(name, count, _)| format!("{name} ({count} nodes)"));
    let shares = present.iter().map(|(_, count, hits)| *hits as f64 / *count as f64);
    let bars = Bars::new(Axis::linear("accuracy"), names).series("", shares)?;
    Ok(Some(Content::Figure(Figure::new("Accuracy by number of neighbours").panel("", bars))))
}
