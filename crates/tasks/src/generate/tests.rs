use burn::tensor::Device;
use proptest::prelude::*;
use regard_nn::layers::position::Position;
use regard_nn::models::transformer::TransformerConfig;

use super::*;
use crate::settings::resolve;
use crate::task::Validate;
use crate::task::testing::{answers, configured, maps};

const TEXT: &str = "the cat sat on the mat. a dog ate the hat, and the cat sat on it.\n";

fn resolved(sets: &[&str]) -> Result<Config, TaskError> {
    let small = ["model.d_model=16", "model.n_layers=1", "data.block=8"];
    let is_recurrent = sets.iter().any(|set| ["model.kind=lstm", "model.kind=gru"].contains(set));
    let attention: &[&str] = if is_recurrent { &[] } else { &["model.n_heads=2", "model.d_ff=16"] };
    configured::<Generate>(&[&small, attention, sets].concat())
}

fn config(sets: &[&str]) -> Config {
    resolved(sets).unwrap()
}

fn transformer(config: &Config, vocab: usize) -> TransformerConfig {
    let NetworkConfig::Transformer(config) = config.network(vocab) else { panic!("{config:?}") };
    config
}

fn task(sets: &[&str]) -> Generate {
    let config = config(sets);
    let tokenizer = Tokenizer::train(&config.data.tokenizer, [TEXT].into_iter()).unwrap();
    Generate { config, tokenizer }
}

fn network(task: &Generate) -> Network {
    task.model(&Init::new(3, &Device::flex())).unwrap()
}

#[test]
fn both_configurations_are_valid() {
    let default: Config = resolve(Generate::CONFIG, None, &[], &[]).unwrap();
    default.validate().unwrap();
    default.train.validate().unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/generate-shakespeare.toml");
    let nano: Config = resolve(Generate::CONFIG, Some(Path::new(path)), &[], &[]).unwrap();
    nano.validate().unwrap();
    // nanoGPT's own count, for 65 characters and our five special tokens: 4 layers of 12 d² and two norms, the last norm,
    // the tokens and the 64 positions.
    let d = 128;
    let count = 4 * (12 * d * d + 2 * d) + d + (65 + 5) * d + 64 * d;
    let model = LanguageModel::new(&transformer(&nano, 70), &Init::new(1, &Device::flex())).unwrap();
    assert_eq!(burn::module::Module::num_params(&model), count);
}

#[test]
fn nonsense_is_refused_by_name() {
    let wrong = |set: &str| resolved(&[set]).and_then(|config| config.validate()).unwrap_err().to_string();
    for (set, field) in [
        ("data.block=0", "data.block"),
        ("data.evaluate_block=8", "data.evaluate_block"),
        ("decode.temperature=-1", "decode.temperature"),
        ("decode.max_len=1000000", "decode.max_len"),
        ("model.kind=bag", "model.kind"),
        ("model.sight={ kind = \"window\", left = 3, right = 1 }", "model.sight.right"),
        ("model.first_weights={ kind = \"residual\", deviation = 0.0 }", "model.first_weights.deviation"),
    ] {
        assert!(wrong(set).contains(field), "{set}: {}", wrong(set));
    }
}

/// Reference for `loss_of`: predicts each token separately from the tokens before it in its block.
fn plain_loss(task: &Generate, ids: &[u32], model: &Network, block: usize) -> f64 {
    let mut nats = 0.0;
    for target in 1..ids.len() {
        let from = (target - 1) / block * block;
        let read = matrix(&[&ids[from..target]], &Device::flex());
        let logits = match model {
            Network::Transformer(model) => model.logits(read, &Pass::inference()).unwrap(),
            Network::Recurrent(model) => model.logits(read, &Pass::inference()).unwrap(),
        };
        let vocab = task.tokenizer.vocab();
        let all: Vec<f64> = logits.into_data().iter::<f32>().map(f64::from).collect();
        let last = &all[all.len() - vocab..];
        let sum: f64 = last.iter().map(|x| x.exp()).sum();
        nats += sum.ln() - last[ids[target] as usize];
    }
    nats / (ids.len() - 1) as f64
}

#[test]
fn a_score_counts_every_token_once() {
    for kind in ["model.kind=transformer", "model.attention=linear", "model.kind=lstm"] {
        let task = task(&[kind, "data.evaluate_block=20"]);
        let model = network(&task);
        let part = task.encoded(TEXT.to_string());
        let found = task.evaluate(&part, &model, None, &Pass::inference()).unwrap();
        for (name, block) in [("loss", 8), ("loss_longer", 20)] {
            let expected = plain_loss(&task, &part.ids, &model, block);
            assert!((found.scores[name] - expected).abs() < 1e-5, "{kind} {name}: {found:?}, {expected}");
        }
        assert_eq!(found.examples, (TEXT.len() - 1).div_ceil(8));
        let bits = found.scores["loss"] / std::f64::consts::LN_2;
        assert!((found.scores["bits_per_character"] - bits).abs() < 1e-12, "a token is a character here");
        // With a limit, only the first blocks are scored.
        let few = task.evaluate(&part, &model, Some(2), &Pass::inference()).unwrap();
        let expected = plain_loss(&task, &part.ids[..17], &model, 8);
        assert!((few.scores["loss"] - expected).abs() < 1e-5 && few.examples == 2);
    }
}

#[test]
fn bits_are_those_of_the_characters_that_were_scored() {
    // Long tokens come first, then single letters: the first blocks have more characters per token than the whole text.
    let text = format!("{}{}", "the cat ".repeat(40), "x q z ".repeat(40));
    let bpe = task(&["data.tokenizer.kind=bpe", "data.tokenizer.vocab=300"]);
    let part = bpe.encoded(text.clone());
    let found = bpe.evaluate(&part, &network(&bpe), Some(2), &Pass::inference()).unwrap();
    let characters = bpe.tokenizer.decode(&part.ids[1..17]).chars().count();
    let bits = found.scores["loss"] * 16.0 / std::f64::consts::LN_2 / characters as f64;
    assert!((found.scores["bits_per_character"] - bits).abs() < 1e-9, "{found:?}");
    assert!(characters as f64 / 16.0 > 1.2 * text.len() as f64 / part.ids.len() as f64, "{characters}");
    let words = task(&["data.tokenizer.kind=word"]);
    let found = words.evaluate(&words.encoded(TEXT.to_string()), &network(&words), None, &Pass::inference()).unwrap();
    assert!(found.scores.contains_key("loss") && !found.scores.contains_key("bits_per_character"));
    // An empty text has no scores, and ranks below any other result.
    let nothing = words.evaluate(&words.encoded(String::new()), &network(&words), None, &Pass::inference()).unwrap();
    assert!(nothing.scores.is_empty() && nothing.worth() == f64::NEG_INFINITY && nothing.examples == 0);
}

#[test]
fn learned_positions_are_those_of_the_block() {
    let task = task(&["model.position=learned"]);
    let Position::Learned(learned) = transformer(&task.config, 9).position else { panic!() };
    assert_eq!((learned.max_length, task.config.window()), (8, Some(8)));
    // Generates far more tokens than the table has rows.
    let model = network(&task);
    let mut text = String::new();
    let options = Wish { max_len: Some(50), temperature: Some(1.0), ..Wish::default() };
    let prompts = [Prompt { input: Some(task.prompt("the cat").unwrap()), seed: 1 }];
    let mut hear = |_: usize, piece: &str| text.push_str(piece);
    task.generate(&model, &prompts, &options, &Pass::inference(), &mut hear).unwrap();
    assert_eq!(text.chars().count(), 50);
}

#[test]
fn writing_is_a_function_of_the_seed_and_never_special() {
    for kind in ["transformer", "gru"] {
        let task = task(&[&format!("model.kind={kind}")]);
        let model = network(&task);
        let write = |seed, temperature| {
            let mut text = String::new();
            let options = Wish { temperature: Some(temperature), max_len: Some(200), ..Wish::default() };
            let prompts = [Prompt { input: None, seed }];
            let mut hear = |_: usize, piece: &str| text.push_str(piece);
            task.generate(&model, &prompts, &options, &Pass::inference(), &mut hear).unwrap();
            text
        };
        assert_eq!(write(1, 5.0), write(1, 5.0));
        assert_ne!(write(1, 5.0), write(2, 5.0));
        assert_eq!(write(1, 0.0), write(2, 0.0));
        // Special tokens have no text: each one drawn would leave the output shorter than 200 characters.
        assert_eq!(write(3, 50.0).chars().count(), 200);
        let found = answers(&task, &model, &["the", "a dog", "the"]).unwrap();
        assert_eq!(found[0], found[2]);
    }
}

#[test]
fn unknown_characters_are_named() {
    let task = task(&[]);
    let model = network(&task);
    let told = answers(&task, &model, &["the κατ is €5"]).unwrap_err().to_string();
    for unknown in ["\"κ\"", "\"α\"", "\"τ\"", "\"€\"", "\"5\""] {
        assert!(told.contains(unknown), "{told}");
    }
    assert!(answers(&task, &model, &[""]).unwrap_err().to_string().contains("at least one"));
    let told = maps(&task, &model, Some("the cat sat")).unwrap_err().to_string();
    assert!(told.contains("1 to 8") && told.contains("data.block") && told.contains("11"), "{told}");
    let view = maps(&task, &model, Some("the cat")).unwrap();
    assert_eq!(view.groups[0].queries[3], "␣");
    assert_eq!(maps(&task, &model, None).unwrap().groups[0].queries.len(), 8);
    for sample in task.samples(&task.encoded(TEXT.to_string()), 2) {
        maps(&task, &model, Some(&sample.given.to_string())).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn plans_hold_blocks_that_do_not_overlap(
        tokens in 0usize..400, block in 1usize..20, examples in 1usize..9, seed in 0u64..9, epoch in 0u64..9,
    ) {
        let task = task(&[
            &format!("data.block={block}"), &format!("train.batch_examples={examples}"), &format!("seed={seed}"),
        ]);
        let part = Part { text: String::new(), ids: vec![7; tokens] };
        let plan = task.plan(&part, epoch);
        prop_assert_eq!(&plan, &task.plan(&part, epoch));
        prop_assert_eq!(plan.is_empty(), tokens <= block);
        let mut places: Vec<usize> = plan.concat();
        places.sort();
        prop_assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= block));
        // A block needs the token after its last one as a target.
        prop_assert!(places.iter().all(|place| place + block < tokens));
        prop_assert!(plan.len() == 1 || plan.iter().all(|batch| batch.len() == examples));
    }
}

#[test]
fn epochs_and_seeds_have_their_own_blocks() {
    let part = Part { text: String::new(), ids: vec![7; 4000] };
    let first = task(&[]).plan(&part, 0);
    assert_ne!(first, task(&[]).plan(&part, 1));
    assert_ne!(first, task(&["seed=2"]).plan(&part, 0));
}
