//! Tests of the model of vectors: the same numbers as the classifier of texts, which is compared with PyTorch, and its own parts.

use burn::tensor::{Int, Tensor, TensorData};
use regard_nn::layers::pooling::PoolingConfig;
use regard_nn::layers::position::Position;
use regard_nn::models::body::{BodyConfig, TransformerBodyConfig};
use regard_nn::models::classifier::ClassifierConfig;
use regard_nn::models::target::{Answers, Target};
use regard_nn::models::vectors::{AnswerPer, VectorModel, VectorModelConfig};
use regard_nn::{Init, Pass};

use crate::support::{close, training, values};

fn transformer(position: Position) -> BodyConfig {
    BodyConfig::Transformer(TransformerBodyConfig { n_heads: 2, d_ff: Some(12), position, ..Default::default() })
}

fn config(body: BodyConfig) -> VectorModelConfig {
    VectorModelConfig { width: 4, outputs: 3, body, d_model: 6, n_layers: 1, dropout: 0.0, ..Default::default() }
}

fn model(config: &VectorModelConfig) -> VectorModel {
    config.init(&Init::new(1, &training())).unwrap()
}

fn tensor(numbers: Vec<f32>, shape: [usize; 3]) -> Tensor<3> {
    Tensor::from_data(TensorData::new(numbers, shape), &training())
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|n| ((n * 37 % 23) as f32 - 11.0) / 7.0).collect()
}

#[test]
fn the_vectors_of_words_give_the_numbers_of_the_classifier() {
    for body in [BodyConfig::None, BodyConfig::Gru, transformer(Position::Sinusoidal)] {
        let config = VectorModelConfig { hidden: vec![5], pooling: PoolingConfig::attention(), ..config(body) };
        let texts = ClassifierConfig {
            vocab: 7,
            outputs: 3,
            d_word: 4,
            body,
            d_model: 6,
            n_layers: 1,
            hidden: vec![5],
            dropout: 0.0,
            ..Default::default()
        };
        let (vectors, texts) = (model(&config), texts.init(&Init::new(1, &training())).unwrap());
        let ids = Tensor::<2, Int>::from_data([[3, 1, 4, 1], [5, 2, 0, 0]], &training());
        let x = texts.words.as_ref().unwrap().forward(ids.clone()).unwrap();
        let pass = Pass::inference();
        let expected = values(texts.logits(ids, &[4, 2], &pass).unwrap());
        close("logits", &values(vectors.logits(x, &[4, 2], &pass).unwrap()), &expected, 1e-6);
    }
}

#[test]
fn each_vector_within_its_length_has_an_answer() {
    let config = VectorModelConfig { answers: AnswerPer::Vector, ..config(transformer(Position::Sinusoidal)) };
    let model = model(&config);
    let pass = Pass::inference();
    let x = numbers(24);
    let all = values(model.logits(tensor(x.clone(), [2, 3, 4]), &[3, 1], &pass).unwrap());
    let first = values(model.logits(tensor(x[..12].to_vec(), [1, 3, 4]), &[3], &pass).unwrap());
    let second = values(model.logits(tensor(x[12..16].to_vec(), [1, 1, 4]), &[1], &pass).unwrap());
    close("rows", &all, &[first, second].concat(), 1e-5);
    let labels = Answers::One(Tensor::<1, Int>::from_data([0, 2, 1, 1], &training()));
    let loss = values(model.loss(tensor(x, [2, 3, 4]), &[3, 1], labels, 0.0, &pass).unwrap());
    let mean = all.chunks(3).zip([0, 2, 1, 1]).map(|(row, label)| {
        let sum: f64 = row.iter().map(|&x| f64::from(x).exp()).sum();
        sum.ln() - f64::from(row[label])
    });
    assert!((f64::from(loss[0]) - mean.sum::<f64>() / 4.0).abs() < 1e-5);
}

#[test]
fn without_positions_the_vectors_are_a_set() {
    let x = numbers(12);
    let turned: Vec<f32> = x.chunks(4).rev().flatten().copied().collect();
    for (position, is_set) in [(Position::None, true), (Position::Sinusoidal, false)] {
        let model = model(&config(transformer(position)));
        let logits = |x: &[f32]| values(model.logits(tensor(x.to_vec(), [1, 3, 4]), &[3], &Pass::inference()).unwrap());
        let (one, other) = (logits(&x), logits(&turned));
        let distance = one.iter().zip(&other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert_eq!(distance < 1e-5, is_set, "{position:?} {distance}");
    }
}

#[test]
fn wrong_sizes_are_named() {
    let error = |config: VectorModelConfig| config.validate().unwrap_err().to_string();
    assert!(error(VectorModelConfig { width: 0, ..config(BodyConfig::None) }).contains("width"));
    assert!(error(VectorModelConfig { outputs: 1, ..config(BodyConfig::None) }).contains("outputs"));
    assert!(VectorModelConfig { outputs: 1, target: Target::Value, ..config(BodyConfig::None) }.validate().is_ok());
    let model = model(&config(BodyConfig::None));
    let message = model.logits(tensor(numbers(6), [1, 2, 3]), &[2], &Pass::inference()).unwrap_err().to_string();
    assert!(message.contains("[batch, seq, 4]"), "{message}");
    assert!(model.logits(tensor(numbers(8), [1, 2, 4]), &[3], &Pass::inference()).is_err());
}
