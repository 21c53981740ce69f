//! Fine-tuning against PyTorch: losses, and weights after two steps of AdamW.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Int, Tensor, TensorData};
use regard_nn::models::target::{Answers, Target};
use regard_nn::{Init, Pass};
use regard_ops::{AdamW, AdamWOptions, CrossEntropyOptions, Decay};

use super::base_model::{Base, Goal, ours};
use super::config::{Freeze, LoraKeys, NetworkKeys, Targets};
use super::export::export;
use super::translate::{shifted, translation_loss};
use crate::hugging_face::network::{Network, Texts, padded};
use crate::hugging_face::opened::Checkpoint;
use crate::hugging_face::store::Store;
use crate::weights;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/hugging_face").join(name)
}

fn keys(name: &str) -> NetworkKeys {
    let still = Some(0.0);
    NetworkKeys { from: Some(golden(name)), dropout: still, attention_dropout: still, ..NetworkKeys::default() }
}

fn labels() -> Goal {
    Goal::Whole(["sad", "glad", "odd"].map(String::from).to_vec(), Some("single_label_classification"))
}

fn started(name: &str, goal: &Goal, lora: &LoraKeys) -> (Base, Network) {
    let (base, _) = Base::start(&keys(name), lora, goal).unwrap();
    let network = base.model(&Init::new(1, &Device::flex().autodiff())).unwrap();
    let network = base.warm(network).unwrap();
    (base, network)
}

/// Makes two steps and returns the losses.
fn steps(mut network: Network, loss: impl Fn(&Network) -> Tensor<1>) -> (Network, Vec<f32>) {
    let options =
        AdamWOptions { learning_rate: 1e-2, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.1, l2: 0.0 };
    let mut optimiser = AdamW::new(options, None, Decay::Matrices);
    let mut losses = Vec::new();
    for _ in 0..2 {
        let found = loss(&network);
        network = optimiser.step(network, found.backward()).unwrap().0;
        losses.push(found.into_scalar::<f32>());
    }
    (network, losses)
}

fn rows(store: &Store) -> Texts {
    let shape = &store.tensors()["input_ids"].shape;
    let ids = store.read_integers("input_ids").unwrap();
    let lengths = match store.tensors().contains_key("lengths") {
        true => store.read_integers("lengths").unwrap(),
        false => vec![shape[1] as i64; shape[0]],
    };
    let rows = ids.chunks_exact(shape[1]).zip(lengths);
    Texts::new(rows.map(|(row, length)| row[..length as usize].iter().map(|&id| id as u32).collect()).collect())
}

/// The loss of the classifier on the batch of the reference.
fn classified(network: &Network, store: &Store) -> Tensor<1> {
    let Network::Encoder(model) = network else { panic!("an encoder") };
    let (texts, device) = (rows(store), Device::flex().autodiff());
    let logits =
        model.forward(padded(&texts.ids, &device).unwrap(), None, texts.lengths(), &Pass::training(1)).unwrap();
    let [batch, _, outputs] = logits.dims();
    let labels: Vec<i32> = store.read_integers("labels").unwrap().into_iter().map(|label| label as i32).collect();
    let labels = Tensor::<1, Int>::from_data(TensorData::new(labels, [batch]), &device);
    Target::One.loss(logits.reshape([batch, outputs]), Answers::One(labels), 0.0).unwrap()
}

fn assert_close(what: &str, ours: &[f32], theirs: &[f32], most: f32) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    let apart = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(apart <= most, "{what}: {apart} apart");
}

/// Compares the weights with those that PyTorch has trained, and returns how many tensors there were.
fn compare_weights(base: &Base, network: &Network, store: &Store) -> usize {
    let parameters = weights::parameters(network);
    let by_name: BTreeMap<&str, &Vec<f32>> = parameters.iter().map(|(path, (_, all))| (ours(path), all)).collect();
    let mut compared = 0;
    for entry in &base.table.entries {
        for (at, piece) in entry.pieces.iter().enumerate() {
            let name = format!("after/{}", piece.name);
            // The gradient of a bias of keys is 0, and AdamW blows up what rounding leaves of it.
            let is_key_bias = ["key.bias", "k_proj.bias", "k_lin.bias"].iter().any(|end| piece.name.ends_with(end));
            if !store.tensors().contains_key(&name) || is_key_bias {
                continue;
            }
            let (mut found, mut expected) = (entry.piece(at, by_name[entry.ours.as_str()]), store.read(&name).unwrap());
            if piece.name.ends_with("c_attn.bias") {
                let third = found.len() / 3;
                found.drain(third..2 * third);
                expected.drain(third..2 * third);
            }
            assert_close(&piece.name, &found, &expected, 1e-4);
            compared += 1;
        }
    }
    compared
}

#[test]
fn two_steps_of_classifiers_equal_those_of_pytorch() {
    for name in ["bert-classifier", "roberta-classifier", "distilbert-classifier"] {
        let store = Store::single(&golden(name).join("tuned.safetensors")).unwrap();
        let (base, network) = started(name, &labels(), &LoraKeys::default());
        let (network, losses) = steps(network, |network| classified(network, &store));
        assert_close(name, &losses, &store.read("losses").unwrap(), 1e-5);
        let compared = compare_weights(&base, &network, &store);
        assert!(compared > 30, "{name}: {compared}");
    }
}

#[test]
fn two_steps_of_a_language_model_equal_those_of_pytorch() {
    let store = Store::single(&golden("gpt2").join("tuned.safetensors")).unwrap();
    let (base, network) = started("gpt2", &Goal::Next, &LoraKeys::default());
    let ids = rows(&store).ids;
    let (network, losses) = steps(network, |network| {
        let Network::Next(model) = network else { panic!("a language model") };
        let part = |from: usize, to: usize| {
            let rows: Vec<Vec<u32>> = ids.iter().map(|row| row[from..to].to_vec()).collect();
            padded(&rows, &Device::flex().autodiff()).unwrap()
        };
        let last = ids[0].len();
        model.loss(part(0, last - 1), part(1, last), CrossEntropyOptions::default(), &Pass::training(1)).unwrap()
    });
    assert_close("losses", &losses, &store.read("losses").unwrap(), 1e-5);
    assert!(compare_weights(&base, &network, &store) > 20);
}

/// The tokens of the targets of the reference, without padding.
fn wanted(store: &Store) -> Vec<Vec<u32>> {
    let width = store.tensors()["labels"].shape[1];
    let labels = store.read_integers("labels").unwrap();
    let tokens = |row: &[i64]| row.iter().filter_map(|&label| u32::try_from(label).ok()).collect();
    labels.chunks_exact(width).map(tokens).collect()
}

/// The loss of the translator on the batch of the reference.
fn translated(network: &Network, store: &Store, smoothing: f32) -> Tensor<1> {
    let Network::Translation(model) = network else { panic!("a translator") };
    translation_loss(model, &rows(store), &wanted(store), 0, smoothing, &Pass::training(1)).unwrap()
}

#[test]
fn two_steps_of_translators_equal_those_of_pytorch() {
    for (name, least) in [("marian", 70), ("t5", 40)] {
        let store = Store::single(&golden(name).join("tuned.safetensors")).unwrap();
        let read = store.read_integers("decoder_input_ids").unwrap();
        let width = store.tensors()["decoder_input_ids"].shape[1];
        for (read, target) in read.chunks_exact(width).zip(wanted(&store)) {
            let ours: Vec<i64> = shifted(0, &target).into_iter().map(i64::from).collect();
            assert_eq!(ours, read[..target.len()], "{name}");
        }
        let (base, network) = started(name, &Goal::Translation, &LoraKeys::default());
        let plain = translated(&network, &store, 0.0).into_scalar::<f32>();
        assert_close(name, &[plain], &store.read("plain_loss").unwrap(), 1e-5);
        let before = weights::parameters(&network);
        let (network, losses) = steps(network, |network| translated(network, &store, 0.1));
        assert_close(name, &losses, &store.read("losses").unwrap(), 1e-5);
        let compared = compare_weights(&base, &network, &store);
        assert!(compared > least, "{name}: {compared}");
        // Positions and the bias of Marian's output are no parameters in transformers.
        for (path, after) in weights::parameters(&network) {
            assert_eq!(before[&path] != after, base.is_trained(ours(&path)), "{name} {path}");
        }
    }
}

fn adapters() -> LoraKeys {
    let targets = Some(Targets::Line("query, value, intermediate.dense".to_string()));
    LoraKeys { rank: 3, alpha: 6.0, targets, dropout: 0.0 }
}

/// Adapters of the queries and values, which are the usual ones of Marian.
fn usual_adapters() -> LoraKeys {
    LoraKeys { targets: None, ..adapters() }
}

/// Reads an adapter file as the reference names its tensors.
fn adapter_file(base: &Base, network: &Network) -> weights::Tensors {
    let files = base.adapter_files(network, Some("SEQ_CLS"), None);
    let tensors = weights::from_bytes(&files["adapter_model.safetensors"], Path::new("adapter")).unwrap();
    let plain = |name: String| name.strip_prefix("base_model.model.").unwrap().to_string();
    tensors.into_iter().map(|(name, tensor)| (plain(name), tensor)).collect()
}

/// Starts with the adapters of the reference.
fn adapted(name: &str, goal: &Goal, lora: &LoraKeys, store: &Store) -> (Base, Network) {
    let (base, network) = started(name, goal, lora);
    let plan = base.adapters.clone().unwrap();
    let network = weights::replace_some(network, |path, shape| {
        let name = ours(path);
        let Some((layer, rest)) = name.split_once(".adapter.parts.") else { return Ok(None) };
        let (part, matrix) = rest.split_once('.').unwrap();
        let entry = base.table.entries.iter().find(|entry| entry.ours == format!("{layer}.weight")).unwrap();
        let first = plan.layers[layer][part.parse::<usize>().unwrap()].start;
        let begins = entry.pieces.iter().scan(0, |next, piece| {
            let begin = *next;
            *next += piece.matrix()[1];
            Some((begin, piece))
        });
        let (_, piece) = begins.into_iter().find(|(begin, _)| *begin == first).unwrap();
        let theirs = if matrix == "down" { "lora_A" } else { "lora_B" };
        let stored = format!("before/{}.{theirs}.weight", piece.name.strip_suffix(".weight").unwrap());
        let values = store.read(&stored)?;
        let [rows, columns] = [shape[0], shape[1]];
        let turned = (0..rows).flat_map(|row| (0..columns).map(move |column| column * rows + row));
        Ok(Some(turned.map(|at| values[at]).collect()))
    });
    (base, network.unwrap())
}

#[test]
fn two_steps_with_adapters_equal_those_of_peft() {
    for (name, goal, lora) in
        [("bert-classifier", labels(), adapters()), ("marian", Goal::Translation, usual_adapters())]
    {
        let store = Store::single(&golden(name).join("lora.safetensors")).unwrap();
        let (base, network) = adapted(name, &goal, &lora, &store);
        let before = weights::parameters(&network);
        let (network, losses) = steps(network, |network| match goal {
            Goal::Translation => translated(network, &store, 0.1),
            _ => classified(network, &store),
        });
        assert_close("losses", &losses, &store.read("losses").unwrap(), 1e-5);
        let file = adapter_file(&base, &network);
        let expected: Vec<&String> = store.tensors().keys().filter(|name| name.starts_with("after/")).collect();
        assert_eq!(file.len(), expected.len(), "{name}");
        for (name, (shape, values)) in &file {
            let stored = format!("after/{name}");
            assert_eq!(*shape, store.tensors()[&stored].shape, "{name}");
            assert_close(name, values, &store.read(&stored).unwrap(), 1e-4);
        }
        for (path, after) in weights::parameters(&network) {
            let is_trained = base.is_trained(ours(&path));
            assert_eq!(before[&path] != after, is_trained, "{path}");
        }
    }
}

#[test]
fn merged_adapters_give_the_same_outputs() {
    let store = Store::single(&golden("bert-classifier").join("lora.safetensors")).unwrap();
    let (base, network) = adapted("bert-classifier", &labels(), &adapters(), &store);
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("merged");
    export(&base, &network, None, &to).unwrap();
    let merged = Checkpoint::open(&to).unwrap().unwrap();
    let run = |network: &Network| -> Vec<f32> {
        let outputs = network.run(&rows(&store), None, &Device::flex(), &Pass::inference()).unwrap();
        outputs.logits.unwrap().into_data().iter().collect()
    };
    use burn::module::Module;
    assert_close("logits", &run(&merged.loaded.network), &run(&network.valid()), 1e-5);
}

#[test]
fn a_new_adapter_changes_nothing_and_a_new_head_replaces_the_old_one() {
    let (_, plain) = started("bert-classifier", &labels(), &LoraKeys::default());
    let (_, adapted) = started("bert-classifier", &labels(), &adapters());
    let store = Store::single(&golden("bert-classifier").join("lora.safetensors")).unwrap();
    assert_eq!(classified(&plain, &store).into_scalar::<f32>(), classified(&adapted, &store).into_scalar::<f32>());
    let two = Goal::Whole(vec!["no".to_string(), "yes".to_string()], None);
    for name in
        ["bert-classifier", "bert-masked", "bert", "roberta-masked", "distilbert-masked", "distilbert-classifier"]
    {
        let (base, notes) = Base::start(&keys(name), &LoraKeys::default(), &two).unwrap();
        assert!(notes[1].starts_with("new, with random weights: ") && notes[1].contains("classifier"), "{notes:?}");
        let network = base.model(&Init::new(1, &Device::flex().autodiff())).unwrap();
        let network = base.warm(network).unwrap();
        let place = tempfile::tempdir().unwrap();
        let to = place.path().join("folder");
        export(&base, &network, Some([3.0, 2.0]), &to).unwrap();
        let again = Checkpoint::open(&to).unwrap().unwrap();
        let theirs = weights::parameters(&again.loaded.network);
        for (path, (_, values)) in weights::parameters(&network) {
            let expected: Vec<f32> = match ours(&path) {
                "head.output.weight" => values.iter().map(|value| value * 2.0).collect(),
                "head.output.bias" => values.iter().map(|value| value * 2.0 + 3.0).collect(),
                _ => values,
            };
            assert_eq!(theirs[&path].1, expected, "{name} {path}");
        }
    }
}

#[test]
fn lower_layers_can_be_frozen_or_slower() {
    let frozen = |freeze| NetworkKeys { freeze, layer_decay: 0.5, ..keys("bert-classifier") };
    let base = |freeze| Base::start(&frozen(freeze), &LoraKeys::default(), &labels()).map(|(base, _)| base);
    let one = base(Freeze::Layers(1)).unwrap();
    let names = [
        ("encoder.embedding.tokens.weight", false, 0.125),
        ("encoder.stack.layers.0.attention.qkv.weight", false, 0.25),
        ("encoder.stack.layers.1.attention.qkv.weight", true, 0.5),
        ("head.output.weight", true, 1.0),
    ];
    for (name, trained, rate) in names {
        assert_eq!((one.is_trained(name), one.rate(&format!("Encoder.{name}"))), (trained, rate), "{name}");
    }
    let keys_of = |freeze| NetworkKeys { freeze, layer_decay: 0.5, ..keys("t5") };
    let (decoder, _) = Base::start(&keys_of(Freeze::Layers(3)), &LoraKeys::default(), &Goal::Translation).unwrap();
    let names = [
        ("source_embedding.tokens.weight", false, 0.03125),
        ("source_embedding.position.Relative.weight", false, 0.03125),
        ("encoder.layers.1.attention.qkv.weight", false, 0.125),
        ("encoder.norm.weight", false, 0.125),
        ("decoder_position.Relative.weight", false, 0.25),
        ("decoder.0.attention.qkv.weight", false, 0.25),
        ("decoder.1.cross_attention.query.weight", true, 0.5),
        ("decoder_norm.weight", true, 1.0),
    ];
    for (name, trained, rate) in names {
        assert_eq!((decoder.is_trained(name), decoder.rate(&format!("Translation.{name}"))), (trained, rate), "{name}");
    }
    let all = base(Freeze::All(true)).unwrap();
    assert!(all.is_trained("head.output.bias") && !all.is_trained("head.hidden.weight"));
    let error = base(Freeze::Layers(3)).err().unwrap().to_string();
    assert!(error.contains("model.freeze") && error.contains("0 to 2"), "{error}");
    let keys = NetworkKeys { freeze: Freeze::All(true), ..keys("gpt2") };
    let error = Base::start(&keys, &LoraKeys::default(), &Goal::Next).err().unwrap().to_string();
    assert!(error.contains("leaves something to train"), "{error}");
}

#[test]
fn wrong_folders_and_targets_are_named() {
    let refused =
        |name: &str, goal: &Goal, lora: &LoraKeys| Base::start(&keys(name), lora, goal).err().unwrap().to_string();
    let error = refused("gpt2", &labels(), &LoraKeys::default());
    assert!(error.contains("a language model; regard train generate"), "{error}");
    let error = refused("vit", &Goal::Next, &LoraKeys::default());
    assert!(error.contains("regard train image"), "{error}");
    let error = refused("t5", &labels(), &LoraKeys::default());
    assert!(error.contains("a translator; regard train translate"), "{error}");
    let lora = LoraKeys { targets: Some(Targets::Line("qeury".to_string())), ..adapters() };
    let error = refused("bert", &labels(), &lora);
    assert!(error.contains("lora.targets") && error.contains("query, value"), "{error}");
    let keys = NetworkKeys { from: Some(PathBuf::from("/nowhere")), ..NetworkKeys::default() };
    let error = Base::start(&keys, &LoraKeys::default(), &labels()).err().unwrap().to_string();
    assert!(error.contains("/nowhere"), "{error}");
}
