//! Masks and biases, shown by the weights that attention gives if all scores are equal: a query that sees `n` keys gives each the
//! weight `1/n`; and a graph with its mask and with the weights of graph attention.

mod graph;

use burn::tensor::{Bool, Device, Tensor, TensorData};
use regard_figures::{CellNumbers, ColourScale, Figure, FigureError, Heatmap, ValueRange};
use regard_kernels::attention::alibi_slopes;
use regard_ops::{
    AttentionOptions, Distance, Graph, Mask, OpError, SelfLoops, SparseRows, attention, attention_weights,
};
use serde_json::json;

use self::graph::GraphSeen;
use super::limits::check_range;
use super::matrix::{Matrix, beside};
use super::{ShowError, Shown};

/// Settings of the masks.
#[derive(Debug, Clone, Copy)]
pub struct Masks {
    /// Number of tokens.
    pub length: usize,
    /// Number of keys before a query that a window shows.
    pub left: usize,
    /// Number of keys after a query that a window shows.
    pub right: usize,
    /// Seed of the features and weights of graph attention.
    pub seed: u64,
}

impl Default for Masks {
    fn default() -> Self {
        Self { length: 8, left: 2, right: 1, seed: 0 }
    }
}

/// A relative table as a head that attends to the previous token could learn it: biases of the distances −3 to 3. The bias of the
/// query's own key is 0, so that the others can be read off the weights.
const RELATIVE: [f32; 7] = [0.5, 1.0, 2.0, 0.0, -0.5, -1.0, -1.5];

/// A mask, a bias or a combination.
struct Case {
    name: String,
    queries: usize,
    options: AttentionOptions,
    drawn: Drawn,
}

/// The quantity that is drawn of a case.
#[derive(Clone, Copy, PartialEq)]
enum Drawn {
    /// The attention weights.
    Weights,
    /// The bias of the scores, read off the weights: `ln(weight / weight of the query's own key)`.
    Bias,
}

struct Seen {
    name: String,
    drawn: Drawn,
    weights: Matrix,
    /// Queries that see no key.
    blind: Vec<usize>,
}

impl Masks {
    /// Shows all masks and biases.
    pub fn show(&self) -> Result<Shown, ShowError> {
        let Self { length, left, right, .. } = *self;
        check_range("length", length, 4..=24)?;
        check_range("left", left, 0..=length)?;
        check_range("right", right, 0..=length)?;
        let seen = self.cases()?.into_iter().map(|case| case.look(length)).collect::<Result<Vec<_>, _>>()?;
        let json: Vec<_> = seen.iter().map(Seen::json).collect();
        let graph = GraphSeen::new(self.seed)?;
        let json = json!({ "length": length, "masks": json, "graph": graph.json() });
        Ok(Shown { text: text(&seen) + &graph.text(), json, figure: figure(&seen, &graph)? })
    }

    fn cases(&self) -> Result<Vec<Case>, OpError> {
        let Self { length, left, right, .. } = *self;
        let none = AttentionOptions::default;
        let masked = |mask| AttentionOptions { mask, ..none() };
        let real = length - 2;
        let padded = |mask| AttentionOptions { lengths: Some(vec![real]), mask, ..none() };
        let alibi =
            |mask| AttentionOptions { distance: Distance::Alibi { slopes: vec![alibi_slopes(8)[0]] }, mask, ..none() };
        let table = Tensor::from_data(TensorData::new(RELATIVE.to_vec(), [1, RELATIVE.len()]), &Device::flex());
        let relative =
            |mask| AttentionOptions { distance: Distance::Relative { table: table.clone() }, mask, ..none() };
        // Two sequences packed into one.
        let first = length.div_ceil(2);
        let cells = (0..length * length).map(|cell| (cell / length < first) == (cell % length < first));
        let cells = TensorData::new(cells.collect::<Vec<_>>(), [1, 1, length, length]);
        let allowed = Tensor::<4, Bool>::from_data(cells, &Device::flex());
        let packed = |mask| AttentionOptions { allowed: Some(allowed.clone()), mask, ..none() };
        let bias = Matrix::from_fn(length, length, |i, j| if i == j { 0.0 } else { [1.0, -1.0][(i + j) % 2] }).tensor();
        let sparse = SparseRows::from(&Graph::new(length, &ring(length), SelfLoops::AsGiven)?);
        let graph = |mask| AttentionOptions { sparse: Some(sparse.clone()), mask, ..none() };
        let case = |name: &str, options| Case { name: name.into(), queries: length, options, drawn: Drawn::Weights };
        let bias_of = |name: &str, options| Case { drawn: Drawn::Bias, ..case(name, options) };
        Ok(vec![
            case("full", none()),
            case("causal", masked(Mask::Causal)),
            case(&format!("window: {left} before, {right} after"), masked(Mask::Window { left, right })),
            case(&format!("causal window: {left} before"), masked(Mask::Window { left, right: 0 })),
            case(&format!("padding: {real} real keys"), padded(Mask::Full)),
            case("causal and padding", padded(Mask::Causal)),
            case("graph: a ring and a lone node", graph(Mask::Full)),
            case("graph and causal", graph(Mask::Causal)),
            case("boolean: two packed sequences", packed(Mask::Full)),
            case("window and two packed sequences", packed(Mask::Window { left, right })),
            Case { queries: 3, ..case("causal, 3 queries behind a cache", masked(Mask::Causal)) },
            bias_of("additive bias: any numbers", AttentionOptions { bias: Some(bias), ..none() }),
            bias_of("ALiBi as bias, slope ½", alibi(Mask::Full)),
            bias_of(&format!("relative table, clipped to ±{}", RELATIVE.len() / 2), relative(Mask::Full)),
            case("causal and ALiBi", alibi(Mask::Causal)),
            case("causal and relative table", relative(Mask::Causal)),
        ])
    }
}

/// Returns the edges of a ring of all nodes but the last, with one chord. The last node has no edge.
fn ring(length: usize) -> Vec<(usize, usize)> {
    let nodes = length - 1;
    let around = (0..nodes).map(|node| (node, (node + 1) % nodes));
    around.chain([(0, nodes / 2)]).flat_map(|(a, b)| [(a, b), (b, a)]).collect()
}

impl Case {
    /// Computes the weights for equal scores of all pairs.
    fn look(self, keys: usize) -> Result<Seen, OpError> {
        let Self { name, queries, options, drawn } = self;
        let zeros = |tokens: usize| Matrix::new(tokens, 2, vec![0.0; 2 * tokens]).tensor::<4>();
        let weights = Matrix::of(attention_weights(zeros(queries), zeros(keys), &options, (0, 0), 0..queries)?);
        // With all values 1, the output is the sum of the weights: 1, or 0 for a query that sees nothing.
        let ones = Matrix::new(keys, 1, vec![1.0; keys]).tensor::<4>();
        let output = Matrix::of(attention(zeros(queries), zeros(keys), ones, &options)?);
        let blind = (0..queries).filter(|&query| output.at(query, 0) == 0.0).collect();
        Ok(Seen { name, drawn, weights, blind })
    }
}

impl Seen {
    /// Returns the drawn quantity, with NaN where a query does not see a key.
    fn drawn(&self) -> Matrix {
        let own = |query: usize| self.weights.at(query, query + self.weights.columns - self.weights.rows);
        self.weights.map(|query, _, weight| match self.drawn {
            _ if weight == 0.0 => f64::NAN,
            Drawn::Weights => weight,
            // Five decimals are the precision of a bias read off f32 weights.
            Drawn::Bias => ((weight / own(query)).ln() * 1e5).round() / 1e5,
        })
    }

    fn count(&self) -> usize {
        self.weights.values.iter().filter(|&&weight| weight > 0.0).count()
    }

    fn json(&self) -> serde_json::Value {
        let shape = [self.weights.rows, self.weights.columns];
        let (seen, blind) = (self.count(), &self.blind);
        json!({ "name": self.name, "shape": shape, "seen": seen, "blind_queries": blind, "weights": self.weights.json() })
    }
}

fn text(all: &[Seen]) -> String {
    let cells: usize = all[0].weights.values.len();
    let mut text = format!(
        "Rows are queries, columns are keys: ■ seen, · masked. Scores are equal, so weights are 1/(keys seen); full attention \
         sees all {cells} cells.\n\n"
    );
    let blocks: Vec<Vec<String>> = all.iter().filter(|seen| seen.drawn == Drawn::Weights).map(block).collect();
    text += &blocks.chunks(3).map(beside).collect::<Vec<_>>().join("\n");
    for seen in all.iter().filter(|seen| !seen.blind.is_empty()) {
        let queries = seen.blind.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let sentence = match seen.blind.len() {
            1 => format!("query {queries} sees nothing and gets"),
            _ => format!("queries {queries} see nothing and get"),
        };
        text += &format!("\n{}: {sentence} the output 0, not NaN.\n", seen.name);
    }
    for seen in all.iter().filter(|seen| seen.drawn == Drawn::Bias) {
        let columns: Vec<String> = (0..seen.weights.columns).map(|key| key.to_string()).collect();
        text += &format!("\n{}\n", seen.drawn().lines(&seen.name, &columns, &columns, 1).join("\n"));
    }
    text + "\nMasks and biases combine: a key must pass every mask, and biases add up.\n"
}

fn block(seen: &Seen) -> Vec<String> {
    let mark = |weight: &f64| if *weight > 0.0 { "■ " } else { "· " };
    let row = |query| seen.weights.row(query).iter().map(mark).collect::<String>().trim_end().to_string();
    let title = [seen.name.clone(), format!("{} of {} cells", seen.count(), seen.weights.values.len())];
    title.into_iter().chain((0..seen.weights.rows).map(row)).collect()
}

fn figure(all: &[Seen], graph: &GraphSeen) -> Result<Figure, FigureError> {
    let map = |seen: &Seen| -> Result<Heatmap, FigureError> {
        let scale = match seen.drawn {
            Drawn::Weights => ColourScale::sequential(ValueRange::Fixed { low: 0.0, high: 1.0 }),
            Drawn::Bias => ColourScale::diverging(ValueRange::Data),
        };
        let first = seen.weights.columns - seen.weights.rows;
        let map = seen.drawn().heatmap()?.scale(scale).numbers(CellNumbers::WhereTheyFit).absent("masked");
        Ok(map.row_labels((first..).take(seen.weights.rows).map(|row| row.to_string())).axes("query", "key").side(260))
    };
    let mut figure = Figure::new("Masks and biases, alone and combined").columns(4);
    for seen in all {
        figure.push(seen.name.clone(), map(seen)?);
    }
    graph.draw(&mut figure)?;
    Ok(figure
        .note("All pairs have equal scores, so a query that sees n keys gives each the weight 1/n; hatched pairs are masked.")
        .note("A fully hatched row is a query that sees nothing: its weights and its output are zero. Blue and red maps are biases, added to the scores before the softmax; blue lowers a weight, red raises it.")
        .note("Last row: a graph. An edge from j to i lets i see j. Graph attention computes the weights from the features of the two nodes, which are random here."))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether query `i` sees key `j` by the definition of the mask `index`, in the order they are shown.
    fn sees(index: usize, masks: &Masks, i: usize, j: usize) -> bool {
        let Masks { length, left, right, .. } = *masks;
        let edges = ring(length);
        let packed = (i < length.div_ceil(2)) == (j < length.div_ceil(2));
        match index {
            0 | 11 | 12 | 13 => true,
            1 | 14 | 15 => j <= i,
            2 => j + left >= i && j <= i + right,
            3 => j + left >= i && j <= i,
            4 => j < length - 2,
            5 => j <= i && j < length - 2,
            6 => edges.contains(&(j, i)),
            7 => edges.contains(&(j, i)) && j <= i,
            8 => packed,
            9 => packed && j + left >= i && j <= i + right,
            10 => j <= i + length - 3,
            _ => unreachable!(),
        }
    }

    fn check(masks: Masks) {
        let all: Vec<Seen> = masks.cases().unwrap().into_iter().map(|case| case.look(masks.length).unwrap()).collect();
        assert_eq!(all.len(), 16);
        for (index, seen) in all.iter().enumerate() {
            for i in 0..seen.weights.rows {
                let keys: Vec<usize> = (0..masks.length).filter(|&j| sees(index, &masks, i, j)).collect();
                assert_eq!(seen.blind.contains(&i), keys.is_empty(), "{} {i}", seen.name);
                let bias = |j: usize| match index {
                    11 if i != j => [1.0, -1.0][(i + j) % 2],
                    12 | 14 => -0.5 * i.abs_diff(j) as f64,
                    13 | 15 => match j as i64 - i as i64 {
                        ..=-3 => 0.5,
                        -2 => 1.0,
                        -1 => 2.0,
                        0 => 0.0,
                        1 => -0.5,
                        2 => -1.0,
                        3.. => -1.5,
                    },
                    _ => 0.0,
                };
                let sum: f64 = keys.iter().map(|&j| bias(j).exp()).sum();
                for j in 0..masks.length {
                    let want = if keys.contains(&j) { bias(j).exp() / sum } else { 0.0 };
                    let got = seen.weights.at(i, j);
                    assert!((got - want).abs() < 1e-6, "{} [{i}, {j}]: {got}, expected {want}", seen.name);
                    let drawn = seen.drawn().at(i, j);
                    match seen.drawn {
                        _ if !keys.contains(&j) => assert!(drawn.is_nan()),
                        Drawn::Bias => assert!((drawn - bias(j)).abs() < 2e-5, "{} {drawn}", seen.name),
                        Drawn::Weights => assert_eq!(drawn, got),
                    }
                }
            }
        }
    }

    #[test]
    fn every_mask_is_what_it_says() {
        check(Masks::default());
        check(Masks { length: 5, left: 0, right: 3, seed: 0 });
        check(Masks { length: 16, left: 16, right: 0, seed: 0 });
    }

    #[test]
    fn a_lone_node_sees_nothing() {
        let shown = Masks::default().show().unwrap();
        assert_eq!(shown.json["masks"][6]["blind_queries"], json!([7]));
        assert!(
            shown.text.contains("graph and causal: queries 0, 7 see nothing and get the output 0"),
            "{}",
            shown.text
        );
        assert!(shown.text.contains("query 7 sees nothing and gets the output 0"), "{}", shown.text);
        let svg = shown.figure.to_svg();
        assert!(svg.contains("masked") && svg.contains("causal and padding"));
    }

    #[test]
    fn sizes_are_checked() {
        let error = |masks: Masks| masks.show().unwrap_err().to_string();
        assert_eq!(error(Masks { length: 3, ..Masks::default() }), "length = 3: expected a whole number from 4 to 24");
        assert!(error(Masks { left: 9, ..Masks::default() }).starts_with("left = 9"));
        assert!(error(Masks { right: 9, ..Masks::default() }).starts_with("right = 9"));
    }
}
