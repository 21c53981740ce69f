//! Tests searches against exhaustive enumeration, sampling against its distribution, and cached decoders against whole models.

use std::sync::atomic::{AtomicBool, Ordering};

use burn::tensor::{Device, Int, Tensor, TensorData};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use regard_nn::layers::position::Position;
use regard_nn::layers::position::floater::FloaterConfig;
use regard_nn::layers::position::learned::{Beyond, LearnedConfig};
use regard_nn::layers::position::recurrent::RecurrentPositionConfig;
use regard_nn::layers::position::relative::RelativeConfig;
use regard_nn::layers::position::rope::RopeConfig;
use regard_nn::models::encoder_decoder::EncoderDecoder;
use regard_nn::models::language_model::LanguageModel;
use regard_nn::models::recurrent_language_model::{RecurrentLanguageModel, RecurrentLanguageModelConfig};
use regard_nn::models::recurrent_translator::{RecurrentTranslator, RecurrentTranslatorConfig};
use regard_nn::models::recurrent_writer::{Alignment, Attend};
use regard_nn::models::transformer::TransformerConfig;
use regard_nn::{Init, NnError, Pass};
use regard_ops::log_softmax;
use regard_tasks::decode::{
    BeamOptions, Decoder, Ending, Hypothesis, LanguageModelDecoder, RecurrentDecoder, RecurrentLanguageModelDecoder,
    SampleOptions, TransformerDecoder, beam, greedy, sample,
};

const START: u32 = 0;
const END: u32 = 1;

/// A decoder with fixed random log-probabilities after each prefix.
#[derive(Debug, Clone)]
struct Table {
    vocab: usize,
    /// Seed and tokens of each row, including the start token.
    rows: Vec<(u64, Vec<u32>)>,
    /// Number of rows computed so far.
    work: usize,
}

impl Table {
    fn new(vocab: usize, seeds: &[u64]) -> Self {
        Self { vocab, rows: seeds.iter().map(|&seed| (seed, Vec::new())).collect(), work: 0 }
    }

    fn after(&self, (seed, tokens): &(u64, Vec<u32>)) -> Vec<f32> {
        let prefix = tokens.iter().fold(*seed, |hash, &t| hash.wrapping_mul(31).wrapping_add(u64::from(t) + 7));
        let mut random = ChaCha8Rng::seed_from_u64(prefix);
        let logits: Vec<f64> = (0..self.vocab).map(|_| StandardNormal.sample(&mut random)).collect();
        let sum: f64 = logits.iter().map(|x| x.exp()).sum();
        logits.iter().map(|x| (x - sum.ln()) as f32).collect()
    }
}

impl Decoder for Table {
    fn rows(&self) -> usize {
        self.rows.len()
    }

    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError> {
        assert_eq!(last.len(), self.rows.len());
        self.work += last.len();
        self.rows.iter_mut().zip(last).for_each(|((_, tokens), &token)| tokens.push(token));
        Ok(self.rows.iter().flat_map(|row| self.after(row)).collect())
    }

    fn select(&mut self, rows: &[usize]) -> Result<(), NnError> {
        self.rows = rows.iter().map(|&row| self.rows[row].clone()).collect();
        Ok(())
    }
}

/// Wrapper for a decoder of any type.
struct Any<'a>(&'a mut dyn Decoder);

impl Decoder for Any<'_> {
    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError> {
        self.0.next(last)
    }

    fn select(&mut self, rows: &[usize]) -> Result<(), NnError> {
        self.0.select(rows)
    }

    fn begin(&mut self, prompts: &[Vec<u32>]) -> Result<Vec<f32>, NnError> {
        self.0.begin(prompts)
    }
}

/// Returns every sequence of up to `max_len` tokens: ended ones before cut ones, the best first.
fn all_sequences(table: &Table, seed: u64, max_len: usize, alpha: f64) -> Vec<(Vec<u32>, f64, Ending)> {
    let penalty = |length: usize| ((5.0 + length as f64) / 6.0).powf(alpha);
    let mut all = Vec::new();
    let mut prefixes = vec![(vec![START], 0.0f64)];
    for length in 0..max_len {
        let mut longer = Vec::new();
        for (prefix, sum) in prefixes {
            for (token, x) in table.after(&(seed, prefix.clone())).into_iter().enumerate() {
                let (token, sum) = (token as u32, sum + f64::from(x));
                if token == END {
                    all.push((prefix[1..].to_vec(), sum / penalty(length + 1), Ending::End));
                } else {
                    longer.push(([prefix.as_slice(), &[token]].concat(), sum));
                }
            }
        }
        prefixes = longer;
    }
    all.extend(prefixes.into_iter().map(|(p, sum)| (p[1..].to_vec(), sum / penalty(max_len), Ending::Cut)));
    all.sort_by(|a, b| a.2.cmp(&b.2).then(b.1.total_cmp(&a.1)));
    all
}

fn tokens(found: &[Hypothesis]) -> Vec<(Vec<u32>, Ending)> {
    found.iter().map(|hypothesis| (hypothesis.tokens.clone(), hypothesis.ending)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_beam_as_wide_as_the_space_finds_all_of_it_in_order(seed in any::<u64>(), alpha in 0.0..3.0f64, max_len in 1..4usize) {
        let mut table = Table::new(4, &[seed]);
        let want = all_sequences(&table, seed, max_len, alpha);
        let options = BeamOptions { size: 64, length_penalty: alpha };
        let found = beam(&mut table, START, END, &[max_len], &options).unwrap().remove(0);
        prop_assert_eq!(found.len(), want.len());
        for (found, want) in found.iter().zip(&want) {
            prop_assert_eq!((&found.tokens, found.ending), (&want.0, want.2));
            prop_assert!((found.score - want.1).abs() < 1e-6);
        }
    }

    #[test]
    fn a_beam_of_one_is_greedy(seed in any::<u64>(), alpha in 0.0..3.0f64, max_len in 0..12usize) {
        let mut table = Table::new(6, &[seed]);
        let mut prefix = vec![START];
        let mut sum = 0.0;
        let ending = loop {
            if prefix.len() > max_len {
                break Ending::Cut;
            }
            let next = table.after(&(seed, prefix.clone()));
            let best = (0..6).max_by(|&a, &b| next[a].total_cmp(&next[b])).unwrap();
            sum += f64::from(next[best]);
            if best as u32 == END {
                break Ending::End;
            }
            prefix.push(best as u32);
        };
        let found = greedy(&mut table, START, END, &[max_len]).unwrap();
        prop_assert_eq!(tokens(&found), vec![(prefix[1..].to_vec(), ending)]);
        prop_assert!((found[0].log_probability - sum).abs() < 1e-6);
        let options = BeamOptions { size: 1, length_penalty: alpha };
        let again = beam(&mut Table::new(6, &[seed]), START, END, &[max_len], &options).unwrap().remove(0);
        prop_assert_eq!(tokens(&found), tokens(&again));
    }

    /// Other rows change nothing, and a greedy sequence costs one row for each of its tokens and its end.
    #[test]
    fn a_batch_gives_the_same_as_each_row_alone(
        rows in prop::collection::vec((any::<u64>(), 0..8usize), 1..6),
        size in 1..5usize,
        alpha in 0.0..2.0f64,
    ) {
        let (seeds, limits): (Vec<u64>, Vec<usize>) = rows.into_iter().unzip();
        let options = BeamOptions { size, length_penalty: alpha };
        let together = beam(&mut Table::new(5, &seeds), START, END, &limits, &options).unwrap();
        for ((seed, limit), found) in seeds.iter().zip(&limits).zip(&together) {
            let alone = beam(&mut Table::new(5, &[*seed]), START, END, &[*limit], &options).unwrap().remove(0);
            prop_assert_eq!(found, &alone);
            prop_assert!(!found.is_empty() && found.len() <= size);
        }
        let mut table = Table::new(5, &seeds);
        let found = greedy(&mut table, START, END, &limits).unwrap();
        let steps: usize = found.iter().map(|h| h.tokens.len() + usize::from(h.ending == Ending::End)).sum();
        prop_assert_eq!(table.work, steps);
    }

    #[test]
    fn the_distribution_of_a_sample_is_its_definition(
        seed in any::<u64>(),
        temperature in 0.05..4.0f32,
        top_k in prop::option::of(1..12usize),
        top_p in prop::option::of(0.01..=1.0f32),
    ) {
        let log_probabilities = Table::new(9, &[]).after(&(seed, vec![]));
        let options = SampleOptions { temperature, top_k, top_p, ..SampleOptions::default() };
        let mut want: Vec<(u32, f64)> = log_probabilities.iter().enumerate()
            .map(|(token, &x)| (token as u32, (f64::from(x) / f64::from(temperature)).exp())).collect();
        want.sort_by(|a, b| b.1.total_cmp(&a.1));
        want.truncate(top_k.unwrap_or(9));
        let sum: f64 = want.iter().map(|x| x.1).sum();
        let mut before = 0.0;
        if let Some(top_p) = top_p {
            want.retain(|x| {
                let keep = before < f64::from(top_p);
                before += x.1 / sum;
                keep
            });
        }
        let sum: f64 = want.iter().map(|x| x.1).sum();
        let got = options.distribution(&log_probabilities);
        prop_assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(&want) {
            prop_assert_eq!(got.0, want.0);
            prop_assert!((got.1 - want.1 / sum).abs() < 1e-6);
        }
    }
}

/// The empty sequence has probability 0.4, the longer one 0.6 · 0.6 = 0.36, which the length penalty outweighs.
#[test]
fn a_length_penalty_favours_long_sequences() {
    struct Two(usize);
    impl Decoder for Two {
        fn rows(&self) -> usize {
            self.0
        }
        fn next(&mut self, last: &[u32]) -> Result<Vec<f32>, NnError> {
            let row = |&token: &u32| match token {
                START => [f32::NEG_INFINITY, 0.4f32.ln(), 0.6f32.ln()],
                _ => [f32::NEG_INFINITY, 0.6f32.ln(), 0.4f32.ln()],
            };
            Ok(last.iter().flat_map(row).collect())
        }
        fn select(&mut self, rows: &[usize]) -> Result<(), NnError> {
            self.0 = rows.len();
            Ok(())
        }
    }
    let best = |length_penalty| {
        let found = beam(&mut Two(1), START, END, &[3], &BeamOptions { size: 4, length_penalty }).unwrap().remove(0);
        (found[0].tokens.clone(), found[0].score)
    };
    let (short, score) = best(0.0);
    assert_eq!(short, vec![] as Vec<u32>);
    assert!((score - 0.4f64.ln()).abs() < 1e-6);
    let (long, score) = best(1.0);
    assert_eq!(long, vec![2]);
    assert!((score - 0.36f64.ln() / (7.0 / 6.0)).abs() < 1e-6);
}

#[test]
fn nan_ends_in_a_cut_and_wrong_use_is_refused() {
    #[derive(Debug)]
    struct Lost;
    impl Decoder for Lost {
        fn rows(&self) -> usize {
            1
        }
        fn next(&mut self, _: &[u32]) -> Result<Vec<f32>, NnError> {
            Ok(vec![f32::NAN; 3])
        }
        fn select(&mut self, _: &[usize]) -> Result<(), NnError> {
            Ok(())
        }
    }
    let found = greedy(&mut Lost, START, END, &[5]).unwrap();
    assert_eq!(tokens(&found), vec![(vec![], Ending::Cut)]);
    let options = SampleOptions::default();
    let refused = |decoder: &mut dyn Decoder, prompts: &[Vec<u32>]| {
        let mut random = vec![ChaCha8Rng::seed_from_u64(1); prompts.len()];
        sample(&mut Any(decoder), prompts, &options, &mut random, |_, _| {}).unwrap_err().to_string()
    };
    assert!(refused(&mut Lost, &[vec![START]]).contains("at least one possible token"));

    let mut table = Table::new(3, &[1, 2]);
    let error = greedy(&mut table, START, END, &[5]).unwrap_err().to_string();
    assert_eq!(error, "max_len: expected 2, one per row, got 1");
    let none = BeamOptions { size: 0, ..BeamOptions::default() };
    assert!(beam(&mut table, START, END, &[1, 1], &none).unwrap_err().to_string().starts_with("size = 0"));
    assert!(refused(&mut table, &[vec![START]]).contains("one per row"));
    assert!(refused(&mut Lost, &[vec![]]).starts_with("prompt"));
    assert!(refused(&mut table, &[vec![START], vec![START, 3]]).starts_with("prompts"));
    for options in [
        SampleOptions { temperature: f32::NAN, ..SampleOptions::default() },
        SampleOptions { top_k: Some(0), ..SampleOptions::default() },
        SampleOptions { top_p: Some(0.0), ..SampleOptions::default() },
    ] {
        assert!(options.validate().is_err(), "{options:?}");
    }
}

/// The share of each token among 20,000 draws lies within four standard errors of its probability.
#[test]
fn tokens_are_drawn_as_often_as_their_probability_says() {
    let log_probabilities = Table::new(8, &[]).after(&(5, vec![]));
    let draws = 20_000;
    for (temperature, top_k, top_p) in
        [(1.0, None, None), (0.7, Some(3), None), (1.5, None, Some(0.8)), (1.0, Some(5), Some(0.6))]
    {
        let options = SampleOptions { temperature, top_k, top_p, ..SampleOptions::default() };
        let mut random = ChaCha8Rng::seed_from_u64(17);
        let mut counts = [0usize; 8];
        for _ in 0..draws {
            counts[options.draw(&log_probabilities, &mut random).unwrap() as usize] += 1;
        }
        let mut want = [0.0; 8];
        for (token, p) in options.distribution(&log_probabilities) {
            want[token as usize] = p;
        }
        for (count, p) in counts.iter().zip(want) {
            let error = (p * (1.0 - p) / draws as f64).sqrt();
            let share = *count as f64 / draws as f64;
            assert!((share - p).abs() <= 4.0 * error, "{options:?}: {share}, expected {p} ± {error}");
        }
    }
    let cold = SampleOptions { temperature: 0.0, ..SampleOptions::default() };
    let best = (0..8).max_by(|&a, &b| log_probabilities[a].total_cmp(&log_probabilities[b])).unwrap();
    assert_eq!(cold.distribution(&log_probabilities), vec![(best as u32, 1.0)]);
}

#[test]
fn a_sample_follows_its_prompt_and_stops() {
    let options = SampleOptions { max_len: 12, stop: vec![END], ..SampleOptions::default() };
    let mut lengths = Vec::new();
    for seed in 0..40 {
        let mut table = Table::new(5, &[seed]);
        let mut random = [ChaCha8Rng::seed_from_u64(seed)];
        let mut drawn = Vec::new();
        sample(&mut table, &[vec![START, 3, 2]], &options, &mut random, |_, token| drawn.push(token)).unwrap();
        assert!(!drawn.contains(&END));
        let read = &table.rows[0].1;
        assert_eq!(read[..3], [START, 3, 2]);
        let taken = drawn.len().min(read.len() - 3);
        assert_eq!(read[3..], drawn[..taken]);
        lengths.push(drawn.len());
    }
    assert!(lengths.contains(&12) && lengths.iter().any(|&length| length < 5), "{lengths:?}");
}

#[test]
fn samples_in_a_batch_equal_those_drawn_alone() {
    let options = SampleOptions { max_len: 9, stop: vec![END], ..SampleOptions::default() };
    let seeds: Vec<u64> = (0..12).collect();
    let draw = |seeds: &[u64]| {
        let mut random: Vec<ChaCha8Rng> = seeds.iter().map(|&seed| ChaCha8Rng::seed_from_u64(seed)).collect();
        let prompts = vec![vec![START, 2]; seeds.len()];
        let mut drawn = vec![Vec::new(); seeds.len()];
        let mut table = Table::new(5, seeds);
        sample(&mut table, &prompts, &options, &mut random, |row, token| drawn[row].push(token)).unwrap();
        (drawn, table.work)
    };
    let (together, work) = draw(&seeds);
    let alone: Vec<Vec<u32>> = seeds.iter().flat_map(|&seed| draw(&[seed]).0).collect();
    assert_eq!(together, alone);
    assert!(together.iter().any(|row| row.len() < 9) && together.iter().any(|row| row.len() == 9));
    assert!(work < 12 * 10, "finished rows cost nothing");
}

fn device() -> Device {
    Device::flex().autodiff()
}

fn matrix(rows: &[Vec<u32>]) -> Tensor<2, Int> {
    let data: Vec<i32> = rows.iter().flatten().map(|&token| token as i32).collect();
    Tensor::from_data(TensorData::new(data, [rows.len(), rows[0].len()]), &device())
}

/// Returns the logits after the last token.
fn after_last(logits: Tensor<3>) -> Vec<f32> {
    let [_, tokens, _] = logits.dims();
    logits.narrow(1, tokens - 1, 1).into_data().iter().collect()
}

#[track_caller]
fn close(got: &[f32], want: &[f32]) {
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() < 2e-5, "{got}, expected {want}");
    }
}

/// Feeds tokens and selections to a decoder as a search does. Each answer must equal that of `whole`, which gets the sentence and
/// all tokens of each row.
fn follow(decoder: &mut impl Decoder, prefix: &[u32], whole: impl Fn(&[usize], &[Vec<u32>]) -> Vec<f32>) {
    let mut sentences: Vec<usize> = (0..decoder.rows()).collect();
    let mut read: Vec<Vec<u32>> = vec![prefix.to_vec(); sentences.len()];
    if !prefix.is_empty() {
        let found = decoder.begin(&vec![prefix.to_vec(); sentences.len()]).unwrap();
        close(&found, &whole(&sentences, &read));
    }
    let selections: [&[usize]; 6] = [&[0, 0, 1, 1], &[1, 0, 3, 2], &[0, 1, 2, 3], &[2, 3], &[1, 0, 1], &[2]];
    for (step, rows) in selections.into_iter().enumerate() {
        let last: Vec<u32> = (0..sentences.len()).map(|row| ((step * 5 + row * 3) % 7) as u32).collect();
        read.iter_mut().zip(&last).for_each(|(read, &token)| read.push(token));
        close(&decoder.next(&last).unwrap(), &whole(&sentences, &read));
        decoder.select(rows).unwrap();
        assert_eq!(decoder.rows(), rows.len());
        sentences = rows.iter().map(|&row| sentences[row]).collect();
        read = rows.iter().map(|&row| read[row].clone()).collect();
    }
    assert!(decoder.next(&[0, 0]).is_err());
    assert!(decoder.select(&[1]).is_err());
}

fn transformer() -> TransformerConfig {
    TransformerConfig { vocab: 7, n_layers: 2, d_model: 8, n_heads: 2, d_ff: 12, ..TransformerConfig::default() }
}

const SOURCES: [[u32; 4]; 2] = [[3, 1, 4, 2], [5, 6, 0, 0]];

fn source_rows(sentences: &[usize]) -> (Tensor<2, Int>, Option<Vec<usize>>) {
    let rows: Vec<Vec<u32>> = sentences.iter().map(|&sentence| SOURCES[sentence].to_vec()).collect();
    (matrix(&rows), Some(sentences.iter().map(|&sentence| [4, 2][sentence]).collect()))
}

#[test]
fn a_cached_translator_equals_the_whole_model() {
    let model = EncoderDecoder::new(&transformer(), &Init::new(1, &device())).unwrap();
    let pass = Pass::inference();
    let encode = |sentences: &[usize]| {
        let (ids, lengths) = source_rows(sentences);
        model.encode(ids, lengths, &pass).unwrap()
    };
    let mut decoder = TransformerDecoder::new(model.writer(), encode(&[0, 1]), pass);
    follow(&mut decoder, &[], |sentences, read| {
        after_last(model.logits(&encode(sentences), matrix(read), &pass).unwrap())
    });
}

#[test]
fn a_stepwise_recurrent_translator_equals_the_whole_model() {
    for (attention, attend) in
        [(Alignment::None, Attend::After), (Alignment::Additive, Attend::Before), (Alignment::General, Attend::After)]
    {
        let config = RecurrentTranslatorConfig {
            vocab: 7,
            n_layers: 2,
            d_model: 4,
            d_hidden: 6,
            attention,
            attend,
            ..RecurrentTranslatorConfig::default()
        };
        let model = RecurrentTranslator::new(&config, &Init::new(1, &device())).unwrap();
        let pass = Pass::inference();
        let encode = |sentences: &[usize]| {
            let (ids, lengths) = source_rows(sentences);
            model.encode(ids, lengths, &pass).unwrap()
        };
        let mut decoder = RecurrentDecoder::new(model.writer(), encode(&[0, 1]), pass);
        follow(&mut decoder, &[], |sentences, read| {
            after_last(model.logits(&encode(sentences), matrix(read), &pass).unwrap())
        });
    }
}

#[test]
fn a_cached_language_model_equals_the_whole_model() {
    let model = LanguageModel::new(&transformer(), &Init::new(1, &device())).unwrap();
    let whole = |_: &[usize], read: &[Vec<u32>]| after_last(model.logits(matrix(read), &Pass::inference()).unwrap());
    follow(&mut LanguageModelDecoder::new(&model, 2, None, Pass::inference()).unwrap(), &[2, 5, 1], whole);
    follow(&mut LanguageModelDecoder::new(&model, 2, Some(9), Pass::inference()).unwrap(), &[2, 5, 1], whole);
    assert!(LanguageModelDecoder::new(&model, 1, Some(1), Pass::inference()).is_err());
}

/// With a window of 4, a fifth token makes the decoder read the last 2 tokens anew.
#[test]
fn a_window_slides_by_halves() {
    let model = LanguageModel::new(&transformer(), &Init::new(1, &device())).unwrap();
    let mut decoder = LanguageModelDecoder::new(&model, 1, Some(4), Pass::inference()).unwrap();
    let mut seen: Vec<u32> = Vec::new();
    let all: Vec<u32> = (0..13).map(|i| i * 3 % 7).collect();
    for (i, &token) in all.iter().enumerate() {
        seen.push(token);
        if seen.len() > 4 {
            seen = all[i - 1..=i].to_vec();
        }
        let want = after_last(model.logits(matrix(&[seen.clone()]), &Pass::inference()).unwrap());
        close(&decoder.next(&[token]).unwrap(), &want);
    }
    let mut fresh = LanguageModelDecoder::new(&model, 1, Some(4), Pass::inference()).unwrap();
    fresh.begin(&[all[..9].to_vec()]).unwrap();
    let want = after_last(model.logits(matrix(&[all[7..10].to_vec()]), &Pass::inference()).unwrap());
    close(&fresh.next(&all[9..10]).unwrap(), &want);
}

#[test]
fn a_stepwise_recurrent_language_model_equals_the_whole_model() {
    let config = RecurrentLanguageModelConfig { vocab: 7, n_layers: 2, d_model: 4, d_hidden: 6, ..Default::default() };
    let model = RecurrentLanguageModel::new(&config, &Init::new(1, &device())).unwrap();
    let whole = |_: &[usize], read: &[Vec<u32>]| after_last(model.logits(matrix(read), &Pass::inference()).unwrap());
    follow(&mut RecurrentLanguageModelDecoder::new(&model, 2, Pass::inference()), &[2, 5, 1], whole);
}

/// The log-probability that beam search reports equals that of the whole sentence in the model.
#[test]
fn a_beam_reports_the_log_probability_of_its_sentence() {
    let model = EncoderDecoder::new(&transformer(), &Init::new(4, &device())).unwrap();
    let pass = Pass::inference();
    let (ids, lengths) = source_rows(&[0, 1]);
    let encode = || model.encode(ids.clone(), lengths.clone(), &pass).unwrap();
    let options = BeamOptions { size: 5, length_penalty: 0.0 };
    let found =
        beam(&mut TransformerDecoder::new(model.writer(), encode(), pass), START, END, &[6, 4], &options).unwrap();
    for (sentence, found) in found.iter().enumerate() {
        assert_eq!(found.len(), 5);
        for hypothesis in found {
            let read = [&[START], hypothesis.tokens.as_slice()].concat();
            let logits = model.logits(&encode().select(&[sentence]).unwrap(), matrix(&[read]), &pass).unwrap();
            let rows: Vec<f32> = log_softmax(logits).unwrap().into_data().iter().collect();
            let written = hypothesis.tokens.iter().copied().chain((hypothesis.ending == Ending::End).then_some(END));
            let sum: f64 = written.enumerate().map(|(i, token)| f64::from(rows[i * 7 + token as usize])).sum();
            assert!((hypothesis.log_probability - sum).abs() < 1e-4, "{} {sum}", hypothesis.log_probability);
        }
    }
}

/// Rows of different lengths, each with its own cache, give the same as each alone. All kinds of position encoding are tested,
/// because each row is at a different position.
#[test]
fn prompts_of_different_lengths_are_read_together() {
    let positions = [
        Position::None,
        Position::Sinusoidal,
        Position::Learned(LearnedConfig { max_length: 12, beyond: Beyond::Refuse, first: 0 }),
        Position::Relative(RelativeConfig { max_distance: 3, ..Default::default() }),
        Position::Rope(RopeConfig::default()),
        Position::Alibi,
        Position::Floater(FloaterConfig::default()),
        Position::Rnn(RecurrentPositionConfig::default()),
    ];
    let prompts = [vec![2, 5, 1, 4, 3], vec![6], vec![3, 3]];
    for position in positions {
        let config = TransformerConfig { position, ..transformer() };
        let model = LanguageModel::new(&config, &Init::new(1, &device())).unwrap();
        let alone = |read: &[u32]| after_last(model.logits(matrix(&[read.to_vec()]), &Pass::inference()).unwrap());
        let mut decoder = LanguageModelDecoder::new(&model, 3, None, Pass::inference()).unwrap();
        let want: Vec<f32> = prompts.iter().flat_map(|prompt| alone(prompt)).collect();
        close(&decoder.begin(&prompts).unwrap(), &want);
        decoder.select(&[2, 0]).unwrap();
        let read = [[prompts[2].clone(), vec![1]].concat(), [prompts[0].clone(), vec![6]].concat()];
        let want: Vec<f32> = read.iter().flat_map(|read| alone(read)).collect();
        close(&decoder.next(&[1, 6]).unwrap(), &want);
    }
    let config = RecurrentLanguageModelConfig { vocab: 7, d_model: 4, d_hidden: 6, ..Default::default() };
    let model = RecurrentLanguageModel::new(&config, &Init::new(1, &device())).unwrap();
    let alone =
        |read: &Vec<u32>| after_last(model.logits(matrix(std::slice::from_ref(read)), &Pass::inference()).unwrap());
    let mut decoder = RecurrentLanguageModelDecoder::new(&model, 3, Pass::inference());
    close(&decoder.begin(&prompts).unwrap(), &prompts.iter().flat_map(alone).collect::<Vec<_>>());
}

#[test]
fn a_search_can_be_cancelled() {
    let cancelled = AtomicBool::new(false);
    let pass = Pass::inference().until(&cancelled);
    let model = LanguageModel::new(&transformer(), &Init::new(1, &device())).unwrap();
    let mut decoder = LanguageModelDecoder::new(&model, 1, None, pass).unwrap();
    let options = SampleOptions { max_len: 1_000_000, ..SampleOptions::default() };
    let mut drawn = 0;
    let ended = sample(&mut decoder, &[vec![START]], &options, &mut [ChaCha8Rng::seed_from_u64(1)], |_, _| {
        drawn += 1;
        cancelled.store(drawn == 5, Ordering::Relaxed);
    });
    assert_eq!((ended, drawn), (Err(NnError::Cancelled), 5));
    let translator = EncoderDecoder::new(&transformer(), &Init::new(1, &device())).unwrap();
    let (ids, lengths) = source_rows(&[0]);
    let source = translator.encode(ids, lengths, &pass).unwrap();
    let ended = greedy(&mut TransformerDecoder::new(translator.writer(), source, pass), START, END, &[5]);
    assert_eq!(ended, Err(NnError::Cancelled));
}
