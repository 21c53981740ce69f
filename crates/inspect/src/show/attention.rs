//! Attention worked out with small numbers: tokens `x`, queries, keys and values, `Q Kᵀ`, `Q Kᵀ/√d`, weights and output are
//! printed, and one row is computed by hand.
//!
//! `x` and the weight matrices have one decimal, so the two decimals printed for queries, keys and values are exact.

use regard_figures::{CellNumbers, ColourScale, Figure, FigureError, Heatmap, Links, Text, ValueRange, fixed, number};
use regard_ops::{AttentionOptions, Mask, Precision, attention, attention_weights, linear};
use serde_json::json;

use super::limits::check_words;
use super::matrix::{Matrix, beside, largest};
use super::{ShowError, Shown, normals, random};

/// Settings of the example.
#[derive(Debug, Clone)]
pub struct Attention {
    /// The tokens. Equal words have equal vectors.
    pub words: Vec<String>,
    /// The mask: which tokens a token sees.
    pub mask: Mask,
    /// Seed of the vectors and matrices.
    pub seed: u64,
}

impl Default for Attention {
    fn default() -> Self {
        let words = ["I", "saw", "a", "saw"].map(String::from).to_vec();
        Self { words, mask: Mask::Full, seed: 0 }
    }
}

/// Number of features of a token and of its query, key and value.
const D: usize = 4;

/// All steps of the computation.
struct Steps {
    x: Matrix,
    /// `W_Q`, `W_K` and `W_V`.
    projections: [Matrix; 3],
    projected: [Matrix; 3],
    scores: Matrix,
    /// Scaled scores; NaN where the query does not see the key.
    scaled: Matrix,
    weights: Matrix,
    output: Matrix,
}

/// The softmax of one query, computed in f64 from its scaled scores.
struct ByHand {
    /// Exponentials of the scaled scores; `None` where the query does not see the key.
    exponentials: Vec<Option<f64>>,
    sum: f64,
    weights: Vec<f64>,
    output: Vec<f64>,
}

impl Attention {
    /// Computes the example step by step.
    pub fn show(&self) -> Result<Shown, ShowError> {
        check_words(&self.words)?;
        let steps = self.compute()?;
        let differences: Vec<f64> = (0..self.words.len()).map(|query| steps.difference(query)).collect();
        let difference = largest(&differences);
        let names = ["x", "w_q", "w_k", "w_v", "q", "k", "v", "scores", "scaled", "weights", "output"];
        let matrices: serde_json::Map<_, _> =
            names.iter().zip(steps.all()).map(|(name, matrix)| (name.to_string(), matrix.json())).collect();
        let json = json!({ "words": self.words, "d": D, "matrices": matrices, "largest_difference": difference });
        Ok(Shown { text: self.text(&steps, difference), json, figure: self.figure(&steps)? })
    }

    fn compute(&self) -> Result<Steps, ShowError> {
        let count = self.words.len();
        let mut random = random(self.seed);
        // This spread gives weights of many sizes, neither uniform nor a choice of one key.
        let mut tenths = |spread: f32| normals(&mut random, D * D).iter().map(|v| one_decimal(spread * v)).collect();
        let projections: [Matrix; 3] = std::array::from_fn(|_| Matrix::new(D, D, tenths(0.6)));
        let mut vectors: Vec<(&str, Vec<f32>)> = Vec::new();
        for word in &self.words {
            if !vectors.iter().any(|(known, _)| known == word) {
                let vector = normals(&mut random, D).iter().map(|&v| one_decimal(v)).collect();
                vectors.push((word, vector));
            }
        }
        let vector = |word: &String| vectors.iter().find(|(known, _)| known == word).map_or(&[][..], |(_, v)| v);
        let x = Matrix::new(count, D, self.words.iter().flat_map(vector).copied().collect());

        let project =
            |weight: &Matrix| Ok::<_, ShowError>(linear(x.tensor::<4>(), weight.tensor(), None, None, Precision::F32)?);
        let (q, k, v) = (project(&projections[0])?, project(&projections[1])?, project(&projections[2])?);
        let options = AttentionOptions { mask: self.mask, ..AttentionOptions::default() };
        let weights = Matrix::of(attention_weights(q.clone(), k.clone(), &options, (0, 0), 0..count)?);
        let output = Matrix::of(attention(q.clone(), k.clone(), v.clone(), &options)?);
        let scores = Matrix::of(q.clone().matmul(k.clone().transpose()));
        let root = (D as f64).sqrt();
        let scaled = scores.map(|i, j, score| if self.sees(i, j) { score / root } else { f64::NAN });
        let projected = [q, k, v].map(Matrix::of);
        Ok(Steps { x, projections, projected, scores, scaled, weights, output })
    }

    fn sees(&self, query: usize, key: usize) -> bool {
        match self.mask {
            Mask::Full => true,
            Mask::Causal => key <= query,
            Mask::Window { left, right } => key + left >= query && key <= query + right,
        }
    }

    /// Returns a remark on repeated words, if there are any.
    fn lesson(&self) -> Option<String> {
        let mut words = self.words.iter().enumerate();
        let twice = words.find_map(|(index, word)| self.words[..index].contains(word).then_some(word))?;
        Some(match self.mask {
            Mask::Full => format!(
                "Every “{twice}” has the same output: without positions, attention does not know the order of its tokens."
            ),
            _ => format!("Each “{twice}” has a different output, since they do not see the same tokens."),
        })
    }

    fn by_hand_lines(&self, steps: &Steps) -> Vec<String> {
        let query = self.words.len() - 1;
        let (hand, labels) = (steps.by_hand(query), self.labels());
        let width = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0).max(4);
        let line = |label: &str, cells: [String; 3]| {
            let [score, exponential, weight] = cells;
            format!("{label:<width$}  {score:>7}  {exponential:>8}  {weight:>6}")
        };
        let mut lines = vec![line("key", ["q·k/√d", "exp", "÷ sum"].map(String::from))];
        for (key, label) in labels.iter().enumerate() {
            let score = steps.scaled.at(query, key);
            let cells = match hand.exponentials[key] {
                Some(exponential) => [score, exponential, hand.weights[key]].map(|v| fixed(v, 3)),
                None => ["–", "–", "0"].map(String::from),
            };
            lines.push(line(label, cells));
        }
        lines.push(line("sum", [String::new(), fixed(hand.sum, 3), "1".to_string()]));
        let output: Vec<String> = hand.output.iter().map(|y| fixed(*y, 3)).collect();
        lines.extend([String::new(), format!("output = ({})", output.join(", "))]);
        lines
    }

    /// Returns the title of the computation by hand, which is that of the last token.
    fn by_hand_title(&self) -> String {
        format!("the query “{}” by hand", self.labels()[self.words.len() - 1])
    }

    fn text(&self, steps: &Steps, difference: f64) -> String {
        let tokens = self.labels();
        let features: Vec<String> = (1..=D).map(|i| i.to_string()).collect();
        let [w_q, w_k, w_v] = &steps.projections;
        let [q, k, v] = &steps.projected;
        let block = |matrix: &Matrix, title: &str, decimals| matrix.lines(title, &[], &[], decimals);
        let square = |matrix: &Matrix, title: &str, decimals| matrix.lines(title, &tokens, &tokens, decimals);
        let mut text = format!("softmax(Q Kᵀ/√d) V of {} tokens with d = {D} features.\n\n", tokens.len());
        text += &beside(&[
            steps.x.lines("x, the tokens", &tokens, &[], 1),
            block(w_q, "W_Q", 1),
            block(w_k, "W_K", 1),
            block(w_v, "W_V", 1),
        ]);
        text += "\n";
        text += &beside(&[q.lines("Q = x W_Q", &tokens, &[], 2), block(k, "K = x W_K", 2), block(v, "V = x W_V", 2)]);
        for (matrix, title, decimals) in [
            (&steps.scores, "Q Kᵀ: rows are queries, columns are keys", 4),
            (&steps.scaled, "Q Kᵀ/√d, √d = 2", 4),
            (&steps.weights, "weights = softmax of each row", 3),
        ] {
            text += &format!("\n{}\n", square(matrix, title, decimals).join("\n"));
        }
        text += &format!("\n{}\n", steps.output.lines("output = weights · V", &tokens, &features, 3).join("\n"));
        text += &format!("\n{}\n{}\n\n", self.by_hand_title(), self.by_hand_lines(steps).join("\n"));
        if let Some(lesson) = self.lesson() {
            text += &format!("{lesson}\n");
        }
        text + &format!("The fused operation and the steps by hand differ by at most {}.\n", number(difference, 2))
    }

    fn figure(&self, steps: &Steps) -> Result<Figure, FigureError> {
        let tokens = self.labels();
        let signed = |matrix: &Matrix| -> Result<Heatmap, FigureError> {
            let map =
                matrix.heatmap()?.scale(ColourScale::diverging(ValueRange::Data)).numbers(CellNumbers::WhereTheyFit);
            Ok(map.column_labels((1..=matrix.columns).map(|i| i.to_string())).absent("masked"))
        };
        let by_token = |matrix: &Matrix| Ok::<_, FigureError>(signed(matrix)?.row_labels(tokens.clone()));
        let inputs = |matrix: &Matrix| Ok::<_, FigureError>(signed(matrix)?.row_labels((1..=D).map(|i| i.to_string())));
        let square = |map: Heatmap| map.row_labels(tokens.clone()).column_labels(tokens.clone()).axes("query", "key");
        let [w_q, w_k, w_v] = &steps.projections;
        let [q, k, v] = &steps.projected;
        let seen = steps.weights.map(|i, j, w| if self.sees(i, j) { w } else { f64::NAN });
        let weights = seen.heatmap()?.numbers(CellNumbers::WhereTheyFit).absent("masked");
        let weights = square(weights.scale(ColourScale::sequential(ValueRange::Fixed { low: 0.0, high: 1.0 })));
        let links = Links::new(tokens.clone(), tokens.clone(), steps.weights.singles())?.names("query", "key");
        let formula =
            "Q = x W_Q\nK = x W_K\nV = x W_V\n\nscores  = Q Kᵀ\nweights = softmax(scores / √d)\noutput  = weights · V";
        let mut figure = Figure::new(format!("Attention by hand: {}", self.words.join(" ")))
            .panel("x: one row per token", by_token(&steps.x)?)
            .panel("W_Q", inputs(w_q)?)
            .panel("W_K", inputs(w_k)?)
            .panel("W_V", inputs(w_v)?)
            .panel("the computation", Text::new(formula))
            .panel("Q = x W_Q", by_token(q)?)
            .panel("K = x W_K", by_token(k)?)
            .panel("V = x W_V", by_token(v)?)
            .panel("Q Kᵀ: how well a key matches a query", square(signed(&steps.scores)?))
            .panel("Q Kᵀ / √d, √d = 2", square(signed(&steps.scaled)?))
            .panel("weights: softmax of each row", weights)
            .panel("output = weights · V", by_token(&steps.output)?)
            .panel("which query attends to which key", links)
            .panel(self.by_hand_title(), Text::new(&self.by_hand_lines(steps).join("\n")))
            .columns(4)
            .note("Each row of the output is the mean of the rows of V, weighted by a row of weights. Each row of weights adds up to 1.");
        if let Some(lesson) = self.lesson() {
            figure = figure.note(lesson);
        }
        Ok(figure)
    }

    /// Returns the words, with numbers for those that occur more than once.
    fn labels(&self) -> Vec<String> {
        let count = |word: &String| self.words.iter().filter(|other| *other == word).count();
        let label = |(index, word): (usize, &String)| match count(word) {
            1 => word.clone(),
            _ => format!("{word}({})", self.words[..=index].iter().filter(|other| *other == word).count()),
        };
        self.words.iter().enumerate().map(label).collect()
    }
}

impl Steps {
    fn all(&self) -> Vec<&Matrix> {
        let [w_q, w_k, w_v] = &self.projections;
        let [q, k, v] = &self.projected;
        vec![&self.x, w_q, w_k, w_v, q, k, v, &self.scores, &self.scaled, &self.weights, &self.output]
    }

    fn by_hand(&self, query: usize) -> ByHand {
        let scaled = self.scaled.row(query).iter().map(|&s| (!s.is_nan()).then_some(s));
        let exponentials: Vec<Option<f64>> = scaled.map(|s| s.map(f64::exp)).collect();
        let sum: f64 = exponentials.iter().flatten().sum();
        let weights: Vec<f64> = exponentials.iter().map(|e| e.map_or(0.0, |e| e / sum)).collect();
        let values = &self.projected[2];
        let mixed = |column| weights.iter().enumerate().map(|(key, w)| w * values.at(key, column)).sum();
        let output = (0..values.columns).map(mixed).collect();
        ByHand { exponentials, sum, weights, output }
    }

    /// Returns the largest difference between the fused operation and the steps by hand.
    fn difference(&self, query: usize) -> f64 {
        let hand = self.by_hand(query);
        let fused = self.weights.row(query).iter().chain(self.output.row(query));
        let differences = fused.zip(hand.weights.iter().chain(&hand.output)).map(|(fused, hand)| fused - hand);
        largest(&differences.collect::<Vec<_>>())
    }
}

fn one_decimal(value: f32) -> f32 {
    (value.clamp(-2.0, 2.0) * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(shown: &Shown, name: &str) -> Vec<Vec<f64>> {
        let rows = shown.json["matrices"][name].as_array().unwrap().iter();
        let numbers =
            |row: &serde_json::Value| row.as_array().unwrap().iter().map(|v| v.as_f64().unwrap_or(f64::NAN)).collect();
        rows.map(numbers).collect()
    }

    fn product(a: &[Vec<f64>], b: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let cell = |row: &Vec<f64>, j: usize| row.iter().zip(b).map(|(a, b)| a * b[j]).sum();
        a.iter().map(|row| (0..b[0].len()).map(|j| cell(row, j)).collect()).collect()
    }

    fn close(a: &[Vec<f64>], b: &[Vec<f64>]) {
        assert_eq!((a.len(), a[0].len()), (b.len(), b[0].len()));
        for (a, b) in a.iter().flatten().zip(b.iter().flatten()) {
            assert!((a - b).abs() <= 1e-5, "{a} and {b}");
        }
    }

    /// Recomputes everything in f64 from the printed tokens and matrices.
    fn check(example: &Attention, sees: fn(usize, usize) -> bool) {
        let shown = example.show().unwrap();
        let of = |name| matrix(&shown, name);
        for (projected, weight) in [("q", "w_q"), ("k", "w_k"), ("v", "w_v")] {
            close(&of(projected), &product(&of("x"), &of(weight)));
        }
        let keys = of("k");
        let transposed: Vec<Vec<f64>> = (0..D).map(|i| keys.iter().map(|k| k[i]).collect()).collect();
        let scores = product(&of("q"), &transposed);
        close(&of("scores"), &scores);
        let mut weights = scores;
        for (i, row) in weights.iter_mut().enumerate() {
            row.iter_mut().enumerate().for_each(|(j, s)| *s = if sees(i, j) { (*s / 2.0).exp() } else { 0.0 });
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|w| *w /= sum);
        }
        close(&of("weights"), &weights);
        close(&of("output"), &product(&weights, &of("v")));
        assert!(shown.json["largest_difference"].as_f64().unwrap() < 1e-5);
    }

    #[test]
    fn every_step_follows_from_the_one_before() {
        check(&Attention::default(), |_, _| true);
        check(&Attention { mask: Mask::Causal, seed: 3, ..Attention::default() }, |i, j| j <= i);
        let mask = Mask::Window { left: 1, right: 0 };
        check(&Attention { mask, ..Attention::default() }, |i, j| j <= i && j + 1 >= i);
    }

    #[test]
    fn the_numbers_can_be_checked_by_hand() {
        let shown = Attention::default().show().unwrap();
        for name in ["x", "w_q", "w_k", "w_v"] {
            for value in matrix(&shown, name).concat() {
                assert_eq!(value, (value * 10.0).round() / 10.0, "{name} has one decimal");
            }
        }
        assert!(shown.text.contains("Every “saw” has the same output"), "{}", shown.text);
        assert_eq!(matrix(&shown, "output")[1], matrix(&shown, "output")[3]);
        let causal = Attention { mask: Mask::Causal, ..Attention::default() }.show().unwrap();
        assert_ne!(matrix(&causal, "output")[1], matrix(&causal, "output")[3]);
    }

    #[test]
    fn words_are_checked() {
        let words = |words: Vec<String>| Attention { words, ..Attention::default() }.show().map(|_| ());
        let error = words(vec![]).unwrap_err().to_string();
        assert_eq!(error, "words = 0 words: expected 1 to 12 words");
        assert!(words(vec!["a".into(); 13]).is_err());
        assert!(words(vec!["a".repeat(21)]).unwrap_err().to_string().contains("words of 1 to 20"));
        assert!(words(vec!["\u{1b}[31m".into()]).is_err());
        words(vec!["alone".into()]).unwrap();
        words((0..12).map(|i| format!("word{i}")).collect()).unwrap();
    }
}
