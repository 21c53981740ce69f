//! Tests of word vectors against PyTorch, and of queries on small tables made by hand.

use burn::module::Param;
use burn::tensor::{Int, Tensor};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use regard_nn::Init;
use regard_nn::models::word_vectors::{NegativeSampler, WordVectors, WordVectorsConfig, analogy, neighbours};

use crate::golden::Golden;
use crate::link::{Action, Link};
use crate::support::{close, gradient, leaf, training, values};

fn model() -> WordVectors {
    WordVectorsConfig { vocab: 6, d_word: 4 }.init(&Init::new(3, &training())).unwrap()
}

#[test]
fn losses_and_gradients_match_pytorch() {
    let golden = Golden::open("word_vectors");
    for (case, options) in golden.cases() {
        let mut model = model();
        let link = |action, model: &mut WordVectors| {
            let link = Link { golden: &golden, case: &case, action };
            link.plain(&mut model.input, "input.weight", None);
            link.plain(&mut model.output, "output.weight", None);
        };
        link(Action::Load, &mut model);
        let name = |name: &str| format!("{case}/{name}");
        let row = |part: &str| golden.integers::<1>(&name(part), &training());
        let wrong = golden.integers::<2>(&name("wrong"), &training());
        let loss = match case.as_str() {
            "cbow" => {
                let counts: Vec<usize> = serde_json::from_value(options["counts"].clone()).unwrap();
                let around = golden.integers::<2>(&name("around"), &training());
                model.cbow_loss(around, &counts, row("right"), wrong).unwrap()
            }
            _ => model.skip_gram_loss(row("around"), row("right"), wrong).unwrap(),
        };
        close(&case, &values(loss.clone()), &golden.floats(&name("loss")), 2e-6);
        link(Action::Compare(&loss.backward(), 3e-6), &mut model);
    }
}

/// With the published initial weights every score is zero, where a loss written with `|x|` would have no gradient.
#[test]
fn the_first_step_has_a_gradient() {
    let model = model();
    let ids = |data: [i32; 2]| Tensor::<1, Int>::from_ints(data, &training());
    let drawn = Tensor::<2, Int>::from_ints([[2, 3], [4, 5]], &training());
    let loss = model.skip_gram_loss(ids([0, 1]), ids([1, 0]), drawn).unwrap();
    close("three times ln 2", &values(loss.clone()), &[3.0 * std::f32::consts::LN_2], 1e-6);
    let got = gradient(&model.output.val(), &loss.backward());
    let input = values(model.input.val());
    // At u = 0, the derivative of −ln σ(u·h) is −h/2 and that of −ln σ(−u·h) is h/2; the loss is the mean of two pairs.
    let centre = [(1, -0.25), (0, -0.25), (0, 0.25), (0, 0.25), (1, 0.25), (1, 0.25)];
    let want: Vec<f32> =
        centre.iter().flat_map(|&(row, factor)| input[row * 4..][..4].iter().map(move |h| factor * h)).collect();
    close("gradient", &got, &want, 1e-7);
}

/// Context words beyond a centre's count have no effect, and the order of the others does not matter.
#[test]
fn cbow_ignores_order_and_padding() {
    let mut model = model();
    model.output = Param::from_tensor(leaf([6, 4], 7).detach());
    let run = |around: [[i32; 3]; 2], counts: &[usize]| {
        let around = Tensor::<2, Int>::from_ints(around, &training());
        let right = Tensor::<1, Int>::from_ints([5, 4], &training());
        let wrong = Tensor::<2, Int>::from_ints([[0, 1], [2, 3]], &training());
        let loss = model.cbow_loss(around, counts, right, wrong).unwrap();
        let found = values(loss.clone());
        (found, gradient(&model.input.val(), &loss.backward()))
    };
    assert_eq!(run([[0, 1, 2], [3, 4, 5]], &[3, 2]), run([[0, 1, 2], [3, 4, 0]], &[3, 2]));
    let (plain, other) = (run([[0, 1, 2], [3, 4, 5]], &[3, 2]), run([[2, 0, 1], [4, 3, 5]], &[3, 2]));
    close("loss", &plain.0, &other.0, 1e-6);
    close("gradient", &plain.1, &other.1, 1e-6);
}

/// Counts 1, 0, 16, 81 and 1 give shares 1 : 0 : 8 : 27 : 1, without the right word; each is within four deviations.
#[test]
fn negatives_are_drawn_by_their_counts() {
    let sampler = NegativeSampler::new(&[1, 0, 16, 81, 1]).unwrap();
    let draw = |right, seed| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        (0..20_000).map(|_| sampler.draw(right, &mut random)).collect::<Vec<_>>()
    };
    for (right, weights) in [(2, [1.0, 0.0, 0.0, 27.0, 1.0]), (1, [1.0, 0.0, 8.0, 27.0, 1.0])] {
        let found = draw(right, 1);
        for (word, weight) in weights.into_iter().enumerate() {
            let share: f64 = weight / weights.iter().sum::<f64>();
            let off = found.iter().filter(|&&found| found == word).count() as f64 - 20_000.0 * share;
            assert!(
                off.abs() <= 4.0 * (20_000.0 * share * (1.0 - share)).sqrt(),
                "{word} beside {right}: off by {off}"
            );
        }
    }
    assert_eq!(draw(2, 1), draw(2, 1));
    assert_ne!(draw(2, 1), draw(2, 2));
    let few = NegativeSampler::new(&[0, 3]).unwrap_err().to_string();
    assert_eq!(few, "counts of words: expected at least two words that occur, got 1");
}

#[test]
fn bad_inputs_are_named() {
    let model = model();
    let ids = || Tensor::<1, Int>::from_ints([0, 1], &training());
    let drawn = |shape: [usize; 2]| Tensor::<2, Int>::zeros(shape, &training());
    let refused = model.skip_gram_loss(ids(), ids(), drawn([3, 2])).unwrap_err().to_string();
    assert_eq!(refused, "right and negative words: expected [2] and [2, 1 or more], got [2] and [3, 2]");
    let refused = model.cbow_loss(drawn([2, 3]), &[1, 0], ids(), drawn([2, 2])).unwrap_err().to_string();
    assert_eq!(refused, "counts: expected 1 or more words around each centre, got 0");
    let far = Tensor::<1, Int>::from_ints([0, 6], &training());
    let refused = model.skip_gram_loss(far, ids(), drawn([2, 2])).unwrap_err().to_string();
    assert_eq!(refused, "ids: 6 at [1, 0] is not in 0..6");
    let refused = WordVectorsConfig { vocab: 3, d_word: 0 }.validate().unwrap_err().to_string();
    assert_eq!(refused, "d_word = 0: expected a whole number, 1 or more");
}

#[test]
fn neighbours_have_the_smallest_angles() {
    // Angles 0°, 90°, 45° and 180°, a zero vector, and 45° with another length.
    let table = [1.0, 0.0, 0.0, 2.0, 1.0, 1.0, -3.0, 0.0, 0.0, 0.0, 5.0, 5.0];
    let found = neighbours(&table, &[2.0, 0.0], 4, &[0]);
    assert_eq!(found.iter().map(|found| found.0).collect::<Vec<_>>(), [2, 5, 1, 4]);
    close(
        "cosines",
        &found.iter().map(|found| found.1).collect::<Vec<_>>(),
        &[0.5f32.sqrt(), 0.5f32.sqrt(), 0.0, 0.0],
        1e-6,
    );
    assert_eq!(neighbours(&table, &[2.0, 0.0], 99, &[]).last(), Some(&(3, -1.0)));
    assert_eq!(neighbours(&table, &[], 3, &[]), []);
}

#[test]
fn analogies_follow_directions() {
    // man, woman, king, queen, tree: the second feature is gender, the third royalty; lengths differ.
    let table = [1.0, -1.0, 0.0, 2.0, 2.0, 0.0, 1.0, -1.0, 1.5, 3.0, 3.0, 4.5, 0.1, 0.0, -2.0];
    assert_eq!(analogy(&table, 3, [0, 1, 2], 1)[0].0, 3);
    assert_eq!(analogy(&table, 3, [2, 0, 3], 1)[0].0, 1);
    assert_eq!(analogy(&table, 3, [0, 1, 2], 9).len(), 2);
    assert_eq!(analogy(&table, 3, [0, 1, 5], 1), []);
}
