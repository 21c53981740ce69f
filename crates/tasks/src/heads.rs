//! Which heads matter and what they attend to, for `regard heads`.
//!
//! The cost of a head is how much worse the score gets when the head is switched off. Entropy, distance and pattern are means
//! over the tokens of some inputs, without special tokens as queries.

use std::collections::BTreeMap;

use rayon::prelude::*;
use regard_data::SPECIALS;
use regard_figures::{ColourScale, Figure, FigureError, Heatmap, ScaleBar, Table, ValueRange, number};
use regard_inspect::{AttentionView, HeadMap, MapGroup};
use regard_nn::{AttentionKind, Inventory, Site};
use serde::Serialize;

use crate::task::{Better, Evaluation};

/// Smallest share of a head's weight that makes a pattern.
const PATTERN: f64 = 0.5;

/// The tokens that get most of a head's weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// The token before the query.
    Previous,
    /// The token after the query.
    Next,
    /// The query's own token.
    Itself,
    /// The first token of the sequence.
    First,
    /// The last token of the sequence.
    Last,
    /// Other tokens with the same text as the query.
    Same,
    /// Special tokens and punctuation.
    Separator,
    /// No single pattern.
    Broad,
}

impl Pattern {
    const CLASSES: [Self; 7] =
        [Self::Previous, Self::Next, Self::Itself, Self::First, Self::Last, Self::Same, Self::Separator];

    /// Returns the name of the pattern in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Previous => "previous",
            Self::Next => "next",
            Self::Itself => "itself",
            Self::First => "first",
            Self::Last => "last",
            Self::Same => "same",
            Self::Separator => "separator",
            Self::Broad => "broad",
        }
    }
}

/// What a head attends to, as means over queries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// Entropy of the weights `a`, `−Σ a ln a`, in nats.
    pub entropy: f64,
    /// Mean distance `Σ a |i − j|` in tokens; in cross-attention, query positions are scaled to the length of the keys. `None` if
    /// the tokens have no order.
    pub distance: Option<f64>,
    /// Pattern of the weights.
    pub pattern: Pattern,
    /// Share of the weight in the largest class of tokens.
    pub mass: f64,
}

/// Measures what the heads of a layer attend to, in the order of its heads.
pub fn measured(group: &MapGroup) -> Vec<Measured> {
    let tokens = Tokens::of(group);
    group.heads.par_iter().map(|head| tokens.look(head).measured(group.site)).collect()
}

/// The measurements of one head.
#[derive(Debug, Clone, Serialize)]
pub struct Head {
    /// Name of the head in every command, such as `encoder.0.2`.
    pub name: String,
    /// Layer of the head.
    #[serde(flatten)]
    pub site: Site,
    /// Index of the head in its layer.
    pub head: usize,
    /// Main score without the head.
    pub score_without: f64,
    /// Loss without the head, if the task has a loss among its scores.
    pub loss_without: Option<f64>,
    /// How much worse the main score is without the head; negative if it is better.
    pub cost: f64,
    /// Entropy of the weights `a`, `−Σ a ln a`, in nats.
    pub entropy: Option<f64>,
    /// Mean distance `Σ a |i − j|` in tokens; in cross-attention, query positions are scaled to the length of the keys.
    pub distance: Option<f64>,
    /// Pattern of the weights.
    pub pattern: Option<Pattern>,
    /// Share of the weight in the largest class of tokens.
    pub mass: Option<f64>,
}

/// The measurements of all heads of a model.
#[derive(Debug, Clone, Serialize)]
pub struct Heads {
    /// Name of the model's task.
    pub task: String,
    /// Split or file of the examples.
    pub split: String,
    /// Number of examples that were scored.
    pub examples: usize,
    /// Number of inputs that entropy, distance and pattern are averaged over.
    pub watched: usize,
    /// Name of the main score.
    pub metric: &'static str,
    /// Main score with all heads.
    pub score: f64,
    /// Loss with all heads, if the task has a loss among its scores.
    pub loss: Option<f64>,
    /// Heads in the order of the model.
    pub heads: Vec<Head>,
}

impl Heads {
    /// Creates measurements without any head yet, from the scores `whole` with all heads.
    pub(crate) fn new(task: &str, split: &str, whole: &Evaluation) -> Self {
        Self {
            task: task.to_string(),
            split: split.to_string(),
            examples: whole.examples,
            watched: 0,
            metric: whole.main,
            score: whole.main_score(),
            loss: whole.scores.get("loss").copied(),
            heads: Vec::new(),
        }
    }

    /// Adds a head, given the scores without it and what it attends to.
    pub(crate) fn add(&mut self, name: String, site: Site, head: usize, without: &Evaluation, look: Option<&Look>) {
        let score_without = without.main_score();
        let cost = match without.better {
            Better::Higher => self.score - score_without,
            Better::Lower => score_without - self.score,
        };
        let look = look.map(|look| look.measured(Some(site)));
        self.heads.push(Head {
            name,
            site,
            head,
            score_without,
            loss_without: without.scores.get("loss").copied(),
            cost,
            entropy: look.map(|look| look.entropy),
            distance: look.and_then(|look| look.distance),
            pattern: look.map(|look| look.pattern),
            mass: look.map(|look| look.mass),
        });
    }

    /// Returns a table with one row per head, the one with the highest cost first.
    pub fn table(&self) -> Table {
        let without = format!("{} without", self.metric);
        // The loss may be the main score itself.
        let loss = (self.metric != "loss").then_some("loss without");
        let columns = ["head", "cost", without.as_str()].into_iter().chain(loss);
        let mut table = Table::new(columns.chain(["entropy", "distance", "pattern", "mass"]));
        let mut heads: Vec<&Head> = self.heads.iter().collect();
        heads.sort_by(|a, b| b.cost.total_cmp(&a.cost));
        let shown = |value: Option<f64>| value.map_or_else(|| "–".to_string(), |value| number(value, 3));
        for head in heads {
            let score = [head.name.clone(), number(head.cost, 3), number(head.score_without, 4)];
            let pattern = head.pattern.map_or("–", Pattern::name).to_string();
            let look = [shown(head.entropy), shown(head.distance), pattern, shown(head.mass)];
            table.push(score.into_iter().chain(loss.map(|_| shown(head.loss_without))).chain(look));
        }
        table
    }

    /// Draws cost, pattern, entropy and distance as heat maps with one cell per head and one row per layer.
    pub fn figure(&self) -> Result<Figure, FigureError> {
        let worst = self.heads.iter().map(|head| head.cost.abs()).filter(|cost| cost.is_finite()).fold(1e-9, f64::max);
        let range = ValueRange::Fixed { low: -worst as f32, high: worst as f32 };
        let cost = self.map(ColourScale::diverging(range), |head| (Some(head.cost), number(head.cost, 2)))?;
        let plain = ColourScale::sequential(ValueRange::Data);
        let number_of = |value: Option<f64>| (value, value.map_or_else(String::new, |value| number(value, 2)));
        let entropy = self.map(plain, |head| number_of(head.entropy))?;
        let distance = self.map(plain, |head| number_of(head.distance))?;
        let masses = ColourScale::sequential(ValueRange::Fixed { low: 0.0, high: 1.0 });
        let pattern = self.map(masses, |head| (head.mass, head.pattern.map_or("", Pattern::name).to_string()))?;
        let title = format!("Heads of {}, {}: {} {}", self.task, self.split, self.metric, number(self.score, 4));
        Ok(Figure::new(title)
            .columns(2)
            .panel(format!("Cost: how much worse {} gets without the head", self.metric), cost)
            .panel("Pattern (darker: larger share of the weight)", pattern)
            .panel("Entropy of the weights, in nats", entropy)
            .panel("Mean distance to the keys, in tokens", distance)
            .note("Each row is an attention layer, each column one of its heads; a head is named row.column."))
    }

    /// Draws a heat map of all heads; `cell` returns the value and the text of a head.
    fn map(&self, scale: ColourScale, cell: impl Fn(&Head) -> (Option<f64>, String)) -> Result<Heatmap, FigureError> {
        let mut layers: Vec<Site> = self.heads.iter().map(|head| head.site).collect();
        layers.dedup();
        let columns = self.heads.iter().map(|head| head.head + 1).max().unwrap_or(0);
        let (mut values, mut texts) = (Vec::new(), Vec::new());
        for layer in &layers {
            for column in 0..columns {
                let head = self.heads.iter().find(|head| head.site == *layer && head.head == column);
                let (value, text) = head.map_or((None, String::new()), &cell);
                values.push(value.map_or(f32::NAN, |value| value as f32));
                texts.push(text);
            }
        }
        let map = Heatmap::new(layers.len(), columns, values)?
            .row_labels(layers.iter().map(Site::to_string))
            .column_labels((0..columns).map(|head| head.to_string()))
            .axes("layer", "head")
            .scale(scale)
            .cell_texts(texts)
            .scale_bar(ScaleBar::Hidden)
            .absent("no such head");
        Ok(map)
    }
}

impl Evaluation {
    /// Returns the main score.
    fn main_score(&self) -> f64 {
        self.scores.get(self.main).copied().unwrap_or(f64::NAN)
    }
}

/// Statistics of a head's weights, as sums over queries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    entropy: f64,
    distance: f64,
    queries: usize,
    /// Sum of the weights in each of [`Pattern::CLASSES`].
    classes: [f64; Pattern::CLASSES.len()],
}

impl Look {
    /// Adds the weights of a head.
    fn watch(&mut self, tokens: &Tokens, head: &HeadMap) {
        let rows = head.rows.iter().enumerate().take(tokens.queries.len());
        // A row of zeros belongs to a query without keys, such as the first one of a network that attends to its past.
        let counts = |(query, row): &(usize, &Vec<f32>)| {
            !is_special(&tokens.group.queries[*query]) && row.iter().any(|&weight| weight > 0.0)
        };
        rows.filter(counts).for_each(|(query, row)| self.add(tokens, query, row));
    }

    /// Returns the measurements of a head of a layer.
    pub fn measured(&self, site: Option<Site>) -> Measured {
        let (pattern, mass) = self.pattern();
        // A pooling query has no position, and neither channels nor nodes are in an order.
        let is_ordered =
            |site: &Site| !matches!(site.kind, AttentionKind::Pooling | AttentionKind::Channels | AttentionKind::Edges);
        let distance = site.as_ref().is_none_or(is_ordered).then(|| self.distance());
        Measured { entropy: self.entropy(), distance, pattern, mass }
    }

    fn entropy(&self) -> f64 {
        self.entropy / self.queries.max(1) as f64
    }

    fn distance(&self) -> f64 {
        self.distance / self.queries.max(1) as f64
    }

    /// Returns the class with the largest share of the weight and that share; [`Pattern::Broad`] if the share is too small.
    fn pattern(&self) -> (Pattern, f64) {
        let shares = self.classes.map(|sum| sum / self.queries.max(1) as f64);
        let largest = |best: (Pattern, f64), one: (Pattern, f64)| if one.1 > best.1 { one } else { best };
        let (pattern, mass) = Pattern::CLASSES.into_iter().zip(shares).fold((Pattern::Broad, 0.0), largest);
        (if mass >= PATTERN { pattern } else { Pattern::Broad }, mass)
    }

    /// Adds the weights of one query.
    fn add(&mut self, tokens: &Tokens, query: usize, weights: &[f32]) {
        let place = tokens.place(query);
        let own = place.round() as usize;
        self.queries += 1;
        for (key, &weight) in weights.iter().enumerate().take(tokens.keys.len()).filter(|(_, weight)| **weight > 0.0) {
            let weight = f64::from(weight);
            self.entropy -= weight * weight.ln();
            self.distance += weight * (place - key as f64).abs();
            for (class, _) in tokens.classes(query, own, key).into_iter().enumerate().filter(|(_, is_in)| *is_in) {
                self.classes[class] += weight;
            }
        }
    }
}

/// What decides the classes of keys, found once for all heads of a layer.
pub(crate) struct Tokens<'a> {
    group: &'a MapGroup,
    /// Number of each key's and each query's text; equal texts have equal numbers.
    keys: Vec<usize>,
    queries: Vec<usize>,
    is_separator: Vec<bool>,
}

impl<'a> Tokens<'a> {
    pub fn of(group: &'a MapGroup) -> Self {
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let mut number = |token: &'a String| {
            let next = numbers.len();
            *numbers.entry(token.as_str()).or_insert(next)
        };
        let keys = group.keys.iter().map(&mut number).collect();
        let queries = group.queries.iter().map(&mut number).collect();
        Self { group, keys, queries, is_separator: group.keys.iter().map(|token| is_separator(token)).collect() }
    }

    /// Returns what a head of the layer attends to.
    pub fn look(&self, head: &HeadMap) -> Look {
        let mut look = Look::default();
        look.watch(self, head);
        look
    }

    /// Returns the position of a query among the keys. If queries and keys are two sequences, it is scaled to the length of the
    /// keys.
    fn place(&self, query: usize) -> f64 {
        let of_itself = |site: Site| matches!(site.kind, AttentionKind::SelfAttention | AttentionKind::Edges);
        let of_itself = self.group.site.is_none_or(of_itself);
        match (of_itself, self.queries.len()) {
            (true, _) | (_, ..2) => query as f64,
            (false, queries) => query as f64 * (self.keys.len().max(1) - 1) as f64 / (queries - 1) as f64,
        }
    }

    /// Returns for each of [`Pattern::CLASSES`] whether a key belongs to it, as a query at position `own` sees it.
    fn classes(&self, query: usize, own: usize, key: usize) -> [bool; Pattern::CLASSES.len()] {
        let kind = self.group.site.map(|site| site.kind);
        // The nodes of a graph are in no order: only the query's own place means something.
        if kind == Some(AttentionKind::Edges) {
            return Pattern::CLASSES.map(|pattern| pattern == Pattern::Itself && key == own);
        }
        // A pooling query has no position.
        let stands = kind != Some(AttentionKind::Pooling);
        [
            stands && key + 1 == own,
            stands && key == own + 1,
            stands && key == own,
            key == 0,
            key + 1 == self.keys.len(),
            key != own && self.keys[key] == self.queries[query],
            self.is_separator[key],
        ]
    }
}

fn is_special(token: &str) -> bool {
    SPECIALS.contains(&token)
}

fn is_separator(token: &str) -> bool {
    is_special(token) || !token.chars().any(char::is_alphanumeric)
}

/// Adds the weights of all heads of a view to `looks`.
pub(crate) fn watch(view: &AttentionView, looks: &mut BTreeMap<(Site, usize), Look>) {
    for group in &view.groups {
        let Some(site) = group.site else { continue };
        let tokens = Tokens::of(group);
        group.heads.iter().for_each(|head| looks.entry((site, head.head)).or_default().watch(&tokens, head));
    }
}

/// Lists the heads of a model in order: layer, index and name.
pub(crate) fn named(inventory: &Inventory) -> Vec<(Site, usize, String)> {
    inventory.heads().map(|(site, head)| (site, head, inventory.name(&site, head))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(tokens: &[&str], rows: Vec<Vec<f32>>) -> Look {
        let site = Site { side: None, layer: 0, kind: AttentionKind::SelfAttention };
        let group = MapGroup::of(site, tokens.iter().copied(), tokens.iter().copied()).head(HeadMap { head: 0, rows });
        let mut looks = BTreeMap::new();
        watch(&AttentionView::new("x").group(group), &mut looks);
        looks.remove(&(site, 0)).unwrap()
    }

    #[test]
    fn each_pattern_is_recognised() {
        let tokens = ["<s>", "a", "b", "a", "."];
        let at = |keys: [usize; 5]| {
            keys.iter().map(|&key| (0..5).map(|k| if k == key { 1.0 } else { 0.0 }).collect()).collect()
        };
        for (keys, pattern, mass, distance) in [
            ([0, 0, 1, 2, 3], Pattern::Previous, 1.0, 1.0),
            ([1, 2, 3, 4, 4], Pattern::Next, 0.75, 0.75),
            ([0, 1, 2, 3, 4], Pattern::Itself, 1.0, 0.0),
            ([0, 0, 0, 0, 0], Pattern::First, 1.0, 2.5),
            ([4, 4, 4, 4, 4], Pattern::Last, 1.0, 1.5),
        ] {
            let look = look(&tokens, at(keys));
            assert_eq!(look.pattern(), (pattern, mass), "{keys:?}");
            assert!((look.distance() - distance).abs() < 1e-12 && look.entropy() == 0.0, "{keys:?}");
        }
        // The two equal tokens attend to each other, the other two elsewhere.
        let same = look(&tokens, at([0, 3, 4, 1, 0]));
        assert_eq!(same.pattern(), (Pattern::Same, 0.5));
        let even = look(&tokens, vec![vec![0.2; 5]; 5]);
        assert!((even.entropy() - 5f64.ln()).abs() < 1e-6);
        assert_eq!(even.pattern().0, Pattern::Broad);
    }

    #[test]
    fn special_tokens_are_not_queries() {
        let look = look(&["<s>", "</s>", "word"], vec![vec![1.0, 0.0, 0.0], vec![1.0, 0.0, 0.0], vec![0.0, 0.6, 0.4]]);
        assert_eq!(look.queries, 1);
        assert_eq!(look.pattern().0, Pattern::Previous);
    }

    #[test]
    fn query_positions_are_scaled_to_the_keys() {
        let site = Site { side: None, layer: 0, kind: AttentionKind::Cross };
        let rows = vec![vec![1.0, 0.0, 0.0, 0.0, 0.0], vec![0.0, 0.0, 1.0, 0.0, 0.0], vec![0.0, 0.0, 0.0, 0.0, 1.0]];
        let group = MapGroup::of(site, ["x", "y", "z"], ["a", "b", "c", "d", "e"]).head(HeadMap { head: 0, rows });
        let mut looks = BTreeMap::new();
        watch(&AttentionView::new("x").group(group), &mut looks);
        let look = &looks[&(site, 0)];
        assert_eq!((look.pattern(), look.distance()), ((Pattern::Itself, 1.0), 0.0));
    }
}
