//! Words as one-hot vectors. A one-hot vector times the embedding matrix `W` is a row of `W`, so an embedding layer looks rows up
//! instead of multiplying.

use burn::module::Param;
use burn::tensor::{Device, Int, Tensor, TensorData};
use regard_figures::{CellNumbers, ColourScale, Figure, FigureError, Heatmap, Text, ValueRange, fixed};
use regard_nn::layers::embedding::Embedding as Layer;
use regard_ops::{Precision, linear};
use serde_json::json;

use super::limits::{check_range, check_words};
use super::matrix::{Matrix, beside};
use super::{ShowError, Shown, normals, random};

/// Settings of the example.
#[derive(Debug, Clone)]
pub struct Embedding {
    /// The tokens. Each distinct word is a row of `W`.
    pub words: Vec<String>,
    /// Number of features of a word.
    pub d_model: usize,
    /// Seed of `W`.
    pub seed: u64,
}

impl Default for Embedding {
    fn default() -> Self {
        Self { words: ["the", "cat", "saw", "the", "dog"].map(String::from).to_vec(), d_model: 4, seed: 0 }
    }
}

/// The two ways to the vectors of the tokens.
struct Ways {
    /// The distinct words in the order of their first occurrence.
    vocab: Vec<String>,
    /// Row of each token in `W`.
    ids: Vec<usize>,
    /// One-hot vectors, `[tokens, vocab]`.
    one_hot: Matrix,
    /// Embedding matrix `W`, `[vocab, d_model]`.
    weight: Matrix,
    /// One-hot vectors times `W`, computed by the dense layer.
    product: Matrix,
    /// Rows of `W`, computed by the embedding layer.
    looked_up: Matrix,
    /// Number of elements of the two results that differ in a bit.
    different: usize,
}

impl Embedding {
    /// Compares the product with the look-up, bit by bit.
    pub fn show(&self) -> Result<Shown, ShowError> {
        check_words(&self.words)?;
        check_range("d_model", self.d_model, 1..=16)?;
        let ways = self.ways()?;
        let json = json!({
            "words": self.words, "vocab": ways.vocab, "ids": ways.ids, "d_model": self.d_model, "one_hot": ways.one_hot.json(),
            "w": ways.weight.json(), "product": ways.product.json(), "looked_up": ways.looked_up.json(),
            "different_elements": ways.different,
        });
        Ok(Shown { text: self.text(&ways), json, figure: self.figure(&ways)? })
    }

    fn ways(&self) -> Result<Ways, ShowError> {
        let mut vocab: Vec<String> = Vec::new();
        let mut ids = Vec::with_capacity(self.words.len());
        for word in &self.words {
            let known = vocab.iter().position(|other| other == word);
            ids.push(known.unwrap_or(vocab.len()));
            if known.is_none() {
                vocab.push(word.clone());
            }
        }
        let values = normals(&mut random(self.seed), vocab.len() * self.d_model);
        // Two decimals, and 0 instead of −0, which a sum with 0 would lose.
        let values: Vec<f32> = values.iter().map(|v| (v * 100.0).round() / 100.0 + 0.0).collect();
        let weight = Matrix::new(vocab.len(), self.d_model, values);
        let one_hot = Matrix::from_fn(ids.len(), vocab.len(), |token, word| f64::from(u8::from(ids[token] == word)));

        let product = linear(one_hot.tensor::<2>(), weight.tensor(), None, None, Precision::F32)?;
        let layer = Layer { weight: Param::from_tensor(weight.tensor()) };
        let numbers: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
        let numbers = Tensor::<2, Int>::from_data(TensorData::new(numbers, [1, ids.len()]), &Device::flex());
        let looked_up = layer.forward(numbers)?;
        let bits = |data: TensorData| data.iter::<f32>().map(f32::to_bits).collect::<Vec<_>>();
        let (left, right) = (bits(product.to_data()), bits(looked_up.to_data()));
        let different = left.iter().zip(&right).filter(|(a, b)| a != b).count() + left.len().abs_diff(right.len());
        let (product, looked_up) = (Matrix::of(product), Matrix::of(looked_up));
        Ok(Ways { vocab, ids, one_hot, weight, product, looked_up, different })
    }

    /// Writes out the product for the last token: every row of `W` times 0 or 1.
    fn by_hand(&self, ways: &Ways) -> Vec<String> {
        let token = self.words.len() - 1;
        let wide = ways.vocab.iter().map(|word| word.chars().count()).max().unwrap_or(0);
        let row = |values: &[f64]| values.iter().map(|&v| format!("{:>6}", fixed(v, 2))).collect::<String>();
        let factors = ways.one_hot.row(token).iter().enumerate();
        let mut lines: Vec<String> = factors
            .map(|(word, &one)| format!("{:<wide$}  {one} × {}", ways.vocab[word], row(ways.weight.row(word))))
            .collect();
        lines.push(format!("{:<wide$}  sum {}", "", row(ways.product.row(token))));
        lines
    }

    fn by_hand_title(&self) -> String {
        format!("“{}” by hand: 0 or 1 times each row", self.words[self.words.len() - 1])
    }

    /// Says how the two results compare.
    fn verdict(&self, ways: &Ways) -> String {
        let numbers = ways.product.values.len();
        match ways.different {
            0 => format!("All {numbers} numbers of the product and of the embedding layer are equal, bit by bit."),
            some => format!("{some} of the {numbers} numbers of the product and of the embedding layer differ."),
        }
    }

    fn text(&self, ways: &Ways) -> String {
        let (words, vocab) = (self.words.len(), ways.vocab.len());
        let mut text = format!(
            "{words} tokens, {vocab} different words. A word is a one-hot vector: 1 at its own place, 0 everywhere else.\n\n"
        );
        text += &ways
            .one_hot
            .lines("one-hot: a row for each token, a column for each word", &self.words, &ways.vocab, 0)
            .join("\n");
        text += "\n\n";
        text += &beside(&[
            ways.weight.lines("W: a row for each word", &ways.vocab, &[], 2),
            ways.product.lines("one-hot · W", &self.words, &[], 2),
        ]);
        text += &format!("\n{}\n{}\n\n{}\n", self.by_hand_title(), self.by_hand(ways).join("\n"), self.verdict(ways));
        text + &format!(
            "The product takes {vocab} · {} multiplications for each token; the embedding layer copies a row and takes none.\n",
            self.d_model
        )
    }

    fn figure(&self, ways: &Ways) -> Result<Figure, FigureError> {
        let map = |matrix: &Matrix, rows: &[String]| -> Result<Heatmap, FigureError> {
            let scale = ColourScale::diverging(ValueRange::Data);
            Ok(matrix.heatmap()?.scale(scale).numbers(CellNumbers::WhereTheyFit).row_labels(rows).side(300))
        };
        let one_hot = map(&ways.one_hot, &self.words)?.scale(ColourScale::sequential(ValueRange::FromZero));
        let names: Vec<&String> = ways.vocab.iter().collect();
        Ok(Figure::new("One-hot words: a one-hot vector times W is a row of W")
            .panel("one-hot: a row for each token", one_hot.column_labels(names).axes("token", "word"))
            .panel("W: a row for each word", map(&ways.weight, &ways.vocab)?.axes("word", "feature"))
            .panel("one-hot · W", map(&ways.product, &self.words)?.axes("token", "feature"))
            .panel("the embedding layer: rows of W, copied", map(&ways.looked_up, &self.words)?.axes("token", "feature"))
            .panel(self.by_hand_title(), Text::new(&self.by_hand(ways).join("\n")))
            .columns(2)
            .note(self.verdict(ways))
            .note("The same word has the same vector wherever it stands. Training changes the rows of W; here they are random."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_with_a_one_hot_vector_is_a_row() {
        for seed in 0..20 {
            let shown = Embedding { seed, d_model: 5, ..Embedding::default() }.show().unwrap();
            assert_eq!(shown.json["different_elements"], 0, "seed {seed}");
            assert_eq!(shown.json["vocab"], json!(["the", "cat", "saw", "dog"]));
            assert_eq!(shown.json["ids"], json!([0, 1, 2, 0, 3]));
            assert_eq!(shown.json["one_hot"][4], json!([0.0, 0.0, 0.0, 1.0]));
            for (token, word) in [0, 1, 2, 0, 3].into_iter().enumerate() {
                for way in ["product", "looked_up"] {
                    assert_eq!(shown.json[way][token], shown.json["w"][word], "{way} of token {token}");
                }
            }
            assert_ne!(shown.json["w"][0], shown.json["w"][1]);
        }
    }

    #[test]
    fn a_difference_would_be_told() {
        let example = Embedding::default();
        let ways = Ways { different: 3, ..example.ways().unwrap() };
        assert_eq!(example.verdict(&ways), "3 of the 20 numbers of the product and of the embedding layer differ.");
    }

    #[test]
    fn one_word_is_enough_and_thirteen_are_too_many() {
        let words = |count: usize| Embedding { words: vec!["word".into(); count], ..Embedding::default() }.show();
        assert_eq!(words(1).unwrap().json["one_hot"], json!([[1.0]]));
        assert!(words(0).unwrap_err().to_string().starts_with("words = 0 words"));
        assert!(words(13).is_err());
        let wide = Embedding { d_model: 17, ..Embedding::default() }.show().unwrap_err().to_string();
        assert_eq!(wide, "d_model = 17: expected a whole number from 1 to 16");
    }
}
