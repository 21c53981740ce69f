//! Loading: a folder of `transformers` becomes one of our networks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use regard_inspect::count::{CountError, Description};
use regard_nn::{Init, Inventory};
use serde_json::Value;

use super::config::ConfigFile;
use super::families::family;
use super::network::{Network, NetworkConfig};
use super::store::{Store, read_json};
use super::table::{Builder, Table};
use crate::error::TaskError;
use crate::folder::CONFIG;
use crate::memory;
use crate::weights::{Storage, load_with};

/// Largest `config.json` that is read, in bytes.
const MOST_CONFIG: u64 = 10_000_000;

/// A checkpoint as one of our networks, with what is needed to write it again.
pub(super) struct Loaded {
    pub folder: PathBuf,
    /// The `config.json`.
    pub settings: Value,
    pub config: NetworkConfig,
    pub network: Network,
    pub inventory: Inventory,
    pub store: Store,
    pub table: Table,
}

/// Returns the `config.json` of a folder if it is one of `transformers`. A damaged file counts as one of our own, which are checked
/// elsewhere.
pub(super) fn settings(folder: &Path) -> Result<Option<Value>, TaskError> {
    let path = folder.join(CONFIG);
    if !path.is_file() {
        return Ok(None);
    }
    let is_ours = |settings: &Value| settings.get("model_type").is_none();
    match read_json(&path, MOST_CONFIG) {
        Ok(settings) if is_ours(&settings) => Ok(None),
        Ok(settings) => Ok(Some(settings)),
        Err(TaskError::Folder { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Describes the model of a `config.json` for counting, without a check of settings that do not change its size.
pub fn describe(settings: &Value) -> Result<Description, CountError> {
    let file = ConfigFile(settings);
    family(file)?.describe(file)
}

impl Loaded {
    /// Loads a folder. Everything is checked before the network is built.
    pub fn open(folder: &Path, settings: Value, storage: Storage, device: &Device) -> Result<Self, TaskError> {
        let Planned { config, store, table } = planned(folder, &settings)?;
        let init = Init::for_weights(device);
        let network = config.init(&init)?;
        let network = fill(network, storage, &store, &table)?;
        let inventory = init.inventory();
        Ok(Self { folder: folder.to_path_buf(), settings, config, network, inventory, store, table })
    }
}

/// A checkpoint whose files have been checked.
pub(super) struct Planned {
    pub config: NetworkConfig,
    pub store: Store,
    pub table: Table,
}

/// Checks the files of a folder.
pub(super) fn planned(folder: &Path, settings: &Value) -> Result<Planned, TaskError> {
    let refuse = |error: CountError| TaskError::folder(folder.join(CONFIG), error.to_string());
    let file = ConfigFile(settings);
    let family = family(file).map_err(refuse)?;
    family.check(file).map_err(refuse)?;
    let described = family.describe(file).map_err(refuse)?;
    described.validate().map_err(refuse)?;
    memory::check_weights(&described)?;
    let store = Store::open(folder)?;
    check_layers(&described, store.tensors().len(), folder)?;
    let mut table = Builder::new(&store);
    let config = family.plan(file, &mut table).map_err(refuse)?;
    config.transformer().validate().map_err(|error| refuse(error.into()))?;
    let table = table.finish()?;
    for (name, other) in &table.ties {
        if !store.are_equal(name, other)? {
            let problem = format!("{name} differs from {other}, which it should repeat by config.json");
            return Err(TaskError::folder(store.path(), problem));
        }
    }
    Ok(Planned { config, store, table })
}

/// Fills the parameters of a network.
fn fill(network: Network, storage: Storage, store: &Store, table: &Table) -> Result<Network, TaskError> {
    let by_name: BTreeMap<&str, _> = table.entries.iter().map(|entry| (entry.ours.as_str(), entry)).collect();
    let mut left = by_name.len();
    let read = |name: &str, shape: &[usize]| {
        // The first part of a name is the kind of network.
        let name = name.split_once('.').map_or(name, |(_, rest)| rest);
        let wrong = |problem: String| TaskError::folder(store.path(), problem);
        let values = match (by_name.get(name), table.computed.iter().find(|one| one.ours == name)) {
            (Some(entry), _) => {
                left -= 1;
                entry.read(store)?
            }
            (None, Some(computed)) => (computed.values)(),
            (None, None) => return Err(wrong(format!("no tensor for {name}"))),
        };
        if values.len() != shape.iter().product::<usize>() {
            return Err(wrong(format!("{} numbers for {name}, expected {shape:?}", values.len())));
        }
        match values.iter().all(|value| value.is_finite()) {
            true => Ok(values),
            false => {
                let theirs = by_name.get(name).map_or(name, |entry| entry.pieces[0].name.as_str());
                Err(wrong(format!("{theirs} has values that are not finite: the checkpoint is damaged")))
            }
        }
    };
    let network = load_with(network, read, storage)?;
    match left {
        0 => Ok(network),
        _ => Err(TaskError::folder(store.path(), format!("{left} tensors have no place in the network"))),
    }
}

/// Returns an error if there are more layers than tensors: the table of a huge number of layers would fill the memory.
fn check_layers(described: &Description, tensors: usize, folder: &Path) -> Result<(), TaskError> {
    use regard_inspect::count::Architecture;
    let (Architecture::Encoder(config) | Architecture::Decoder(config) | Architecture::EncoderDecoder(config)) =
        &described.architecture
    else {
        return Ok(());
    };
    let layers = config.n_layers.max(config.n_decoder_layers.unwrap_or(0));
    if layers <= tensors {
        return Ok(());
    }
    let problem = format!("{layers} layers, but the checkpoint has only {tensors} tensors");
    Err(TaskError::folder(folder.join(CONFIG), problem))
}
