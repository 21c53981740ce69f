//! Parity: how close the outputs of a checkpoint are to reference outputs, such as those of `transformers`.
//!
//! The reference is a safetensors file with the inputs `input_ids` `[batch, seq]`, or `pixel_values` of pictures, optionally
//! `attention_mask`, `token_type_ids` and `decoder_input_ids`, and any of the outputs `logits`, `last_hidden_state`,
//! `pooler_output`, `hidden_states.N`, `attentions.N` `[batch, heads, queries, keys]`, `cross_attentions.N`,
//! `encoder_attentions.N` and `generated_ids`. Positions count from the first token that is not padding.

use std::collections::BTreeMap;
use std::path::Path;

use burn::tensor::{Device, Tensor, TensorData};
use regard_nn::{AttentionKind, AttentionMap, Capture, Pass, Side};
use serde::Serialize;
use serde_json::Value;

use super::generate::continued;
use super::load::Loaded;
use super::network::{Network, NetworkConfig, Outputs, Texts};
use super::store::Store;
use crate::error::TaskError;

/// The comparison of one tensor with its reference. Padding is left out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Name of the tensor.
    pub name: String,
    /// Number of compared values.
    pub values: usize,
    /// Largest absolute difference.
    pub largest: f64,
    /// Largest absolute difference, divided by the largest absolute value of the reference.
    pub relative: f64,
    /// For logits, the share of rows with the same largest value; for generated tokens, the share of equal tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agreement: Option<f64>,
}

/// Which tokens of the rows of a batch are not padding.
struct Rows {
    /// First token of each row and the token after its last.
    real: Vec<(usize, usize)>,
}

impl Rows {
    fn cut(&self, ids: &[i64], seq: usize) -> Result<Vec<Vec<u32>>, TaskError> {
        let row = |(at, &(start, end)): (usize, &(usize, usize))| {
            let ids = &ids[at * seq + start..at * seq + end];
            ids.iter().map(|&id| u32::try_from(id).map_err(|_| not_a_token(id))).collect()
        };
        self.real.iter().enumerate().map(row).collect()
    }
}

fn not_a_token(id: i64) -> TaskError {
    TaskError::input("reference", "token ids, 0 or more", id.to_string())
}

/// Whole numbers with their rows and columns.
type Integers = ([usize; 2], Vec<i64>);

/// A reference file.
struct Reference {
    store: Store,
}

impl Reference {
    fn shape(&self, name: &str) -> Option<&[usize]> {
        self.store.tensors().get(name).map(|info| info.shape.as_slice())
    }

    fn matrix(&self, name: &str) -> Result<Option<Integers>, TaskError> {
        match self.shape(name) {
            None => Ok(None),
            Some(&[rows, columns]) if rows > 0 && columns > 0 => {
                Ok(Some(([rows, columns], self.store.read_integers(name)?)))
            }
            Some(other) => Err(self.wrong(name, "[batch, seq]", other)),
        }
    }

    fn wrong(&self, name: &str, expected: &str, found: &[usize]) -> TaskError {
        TaskError::folder(self.store.path(), format!("{name} has shape {found:?}, expected {expected}"))
    }

    /// Reads the rows of `input_ids` without padding.
    fn texts(&self) -> Result<Option<(Texts, Rows, usize)>, TaskError> {
        let Some(([batch, seq], ids)) = self.matrix("input_ids")? else { return Ok(None) };
        let mask = match self.matrix("attention_mask")? {
            None => vec![1; ids.len()],
            Some((shape, mask)) if shape == [batch, seq] => mask,
            Some((shape, _)) => return Err(self.wrong("attention_mask", &format!("[{batch}, {seq}]"), &shape)),
        };
        let mut real = Vec::with_capacity(batch);
        for row in mask.chunks_exact(seq) {
            let start = row.iter().position(|&seen| seen != 0);
            let end = row.iter().rposition(|&seen| seen != 0);
            let (Some(start), Some(last)) = (start, end) else {
                let problem = "attention_mask has a row without a token; expected at least one per row";
                return Err(TaskError::folder(self.store.path(), problem));
            };
            if row[start..=last].contains(&0) {
                let problem =
                    "attention_mask hides tokens between others; expected padding only before or after a text";
                return Err(TaskError::folder(self.store.path(), problem));
            }
            real.push((start, last + 1));
        }
        let rows = Rows { real };
        let types = match self.matrix("token_type_ids")? {
            Some((shape, types)) if shape == [batch, seq] => Some(rows.cut(&types, seq)?),
            Some((shape, _)) => return Err(self.wrong("token_type_ids", &format!("[{batch}, {seq}]"), &shape)),
            None => None,
        };
        Ok(Some((Texts { ids: rows.cut(&ids, seq)?, types }, rows, seq)))
    }
}

/// Compares a checkpoint with the reference outputs in a file.
pub(super) fn verify(loaded: &Loaded, reference: &Path, pass: &Pass) -> Result<Vec<Comparison>, TaskError> {
    let reference = Reference { store: Store::single(reference)? };
    let device = Device::flex();
    let capture = Capture::default();
    let watched = pass.with_capture(&capture);
    let (outputs, sides, texts) = match &loaded.network {
        Network::Image(_) => {
            let Some(&[batch, channels, height, width]) = reference.shape("pixel_values") else {
                return Err(lacks(&reference, "pixel_values [batch, channels, height, width]"));
            };
            if let NetworkConfig::Image { channels: own, size, .. } = loaded.config
                && [channels, height, width] != [own, size, size]
            {
                let found = [batch, channels, height, width];
                return Err(reference.wrong("pixel_values", &format!("[batch, {own}, {size}, {size}]"), &found));
            }
            let pixels = TensorData::new(reference.store.read("pixel_values")?, [batch, channels, height, width]);
            let outputs = loaded.network.see(Tensor::from_data(pixels, &device), &watched)?;
            let seq = outputs.last.dims()[1];
            let rows = || Rows { real: vec![(0, seq); batch] };
            (outputs, Sides { queries: rows(), keys: rows(), seq, keys_seq: seq }, None)
        }
        Network::Translation(_) => {
            let Some((texts, rows, seq)) = reference.texts()? else { return Err(lacks(&reference, "input_ids")) };
            let Some(([batch, target], ids)) = reference.matrix("decoder_input_ids")? else {
                return Err(lacks(&reference, "decoder_input_ids [batch, target]"));
            };
            if batch != texts.ids.len() {
                let expected = format!("[{}, target]", texts.ids.len());
                return Err(reference.wrong("decoder_input_ids", &expected, &[batch, target]));
            }
            let whole = Rows { real: vec![(0, target); batch] };
            let targets = Texts::new(whole.cut(&ids, target)?);
            let outputs = loaded.network.run(&texts, Some(&targets), &device, &watched)?;
            (outputs, Sides { queries: whole, keys: rows, seq: target, keys_seq: seq }, Some(texts))
        }
        _ => {
            let Some((texts, rows, seq)) = reference.texts()? else { return Err(lacks(&reference, "input_ids")) };
            let outputs = loaded.network.run(&texts, None, &device, &watched)?;
            let again = Rows { real: rows.real.clone() };
            (outputs, Sides { queries: rows, keys: again, seq, keys_seq: seq }, Some(texts))
        }
    };
    let maps = capture.into_maps();
    let mut found = Vec::new();
    for (name, info) in reference.store.tensors() {
        if let Some(compared) = compared(name, &info.shape, &reference, &outputs, &maps, &sides)? {
            found.push(compared);
        }
    }
    if let (Some(shape), Some(texts)) = (reference.shape("generated_ids"), &texts) {
        found.push(generated(loaded, &reference, shape, texts, &sides, pass)?);
    }
    match found.is_empty() {
        true => Err(lacks(&reference, "an output to compare, such as logits")),
        false => Ok(found),
    }
}

/// The tokens of queries and keys in the padded tensors of the reference.
struct Sides {
    queries: Rows,
    keys: Rows,
    seq: usize,
    keys_seq: usize,
}

fn lacks(reference: &Reference, what: &str) -> TaskError {
    TaskError::folder(reference.store.path(), format!("has no {what}"))
}

/// Compares the tensor `name` of the reference, if it is an output.
fn compared(
    name: &str,
    shape: &[usize],
    reference: &Reference,
    outputs: &Outputs,
    maps: &[AttentionMap],
    sides: &Sides,
) -> Result<Option<Comparison>, TaskError> {
    let (kind, layer) = match name.rsplit_once('.') {
        Some((kind, layer)) => (kind, layer.parse::<usize>().ok()),
        None => (name, None),
    };
    let states = |x: &Tensor<3>| {
        let [batch, seq, width] = x.dims();
        let values: Vec<f32> = x.to_data().iter().collect();
        let longest = sides.queries.real.iter().map(|(start, end)| end - start).max().unwrap_or(0);
        let fits = (shape == [batch, sides.seq, width] && seq >= longest) || (seq == 1 && shape == [batch, width]);
        if !fits {
            return Err(reference.wrong(name, &format!("[{batch}, {}, {width}]", sides.seq), shape));
        }
        let mut pairs = Pairs::new(reference.store.read(name)?);
        for row in 0..batch {
            let (start, end) = if shape.len() == 2 { (0, 1) } else { sides.queries.real[row] };
            let theirs_seq = if shape.len() == 2 { 1 } else { sides.seq };
            for place in 0..end - start {
                let ours = &values[(row * seq + place) * width..][..width];
                pairs.add_row(ours, (row * theirs_seq + start + place) * width, kind == "logits");
            }
        }
        Ok(pairs.finish(name))
    };
    match (kind, layer) {
        ("logits", None) => outputs.logits.as_ref().map(states).transpose(),
        ("pooler_output", None) => outputs.pooled.as_ref().map(states).transpose(),
        ("last_hidden_state", None) => states(&outputs.last).map(Some),
        ("hidden_states", Some(layer)) => match outputs.states.get(layer) {
            Some(found) => states(found).map(Some),
            None => Err(lacks_layer(reference, name, outputs.states.len())),
        },
        ("attentions" | "cross_attentions" | "encoder_attentions", Some(layer)) => {
            attention(name, kind, layer, shape, reference, maps, sides).map(Some)
        }
        _ => Ok(None),
    }
}

fn lacks_layer(reference: &Reference, name: &str, all: usize) -> TaskError {
    TaskError::folder(reference.store.path(), format!("{name} is beyond the {all} of the model"))
}

/// Compares the attention weights of a layer.
fn attention(
    name: &str,
    kind: &str,
    layer: usize,
    shape: &[usize],
    reference: &Reference,
    maps: &[AttentionMap],
    sides: &Sides,
) -> Result<Comparison, TaskError> {
    let is_wanted = |map: &&AttentionMap| {
        let site = map.site;
        let fits = match kind {
            "cross_attentions" => site.kind == AttentionKind::Cross,
            "encoder_attentions" => site.side == Some(Side::Encoder),
            _ => site.kind == AttentionKind::SelfAttention && site.side != Some(Side::Encoder),
        };
        fits && site.layer == layer
    };
    let (queries, keys, queries_seq, keys_seq) = match kind {
        "cross_attentions" => (&sides.queries, &sides.keys, sides.seq, sides.keys_seq),
        "encoder_attentions" => (&sides.keys, &sides.keys, sides.keys_seq, sides.keys_seq),
        _ => (&sides.queries, &sides.queries, sides.seq, sides.seq),
    };
    let &[batch, heads, _, _] = shape else {
        return Err(reference.wrong(name, "[batch, heads, queries, keys]", shape));
    };
    if shape != [queries.real.len(), heads, queries_seq, keys_seq] {
        let expected = format!("[{}, heads, {queries_seq}, {keys_seq}]", queries.real.len());
        return Err(reference.wrong(name, &expected, shape));
    }
    let by_head: BTreeMap<(usize, usize), &AttentionMap> =
        maps.iter().filter(is_wanted).map(|map| ((map.sequence, map.head), map)).collect();
    if by_head.len() != batch * heads {
        let problem = format!("{name} has {heads} heads, the model has {}", by_head.len() / batch.max(1));
        return Err(TaskError::folder(reference.store.path(), problem));
    }
    let mut pairs = Pairs::new(reference.store.read(name)?);
    for ((row, head), map) in by_head {
        let ((start, end), (first_key, last_key)) = (queries.real[row], keys.real[row]);
        for place in 0..end - start {
            let ours = map.rows.get(place).and_then(|weights| weights.get(..last_key - first_key));
            let Some(ours) = ours else { return Err(lacks_layer(reference, name, map.rows.len())) };
            let at = ((row * heads + head) * queries_seq + start + place) * keys_seq + first_key;
            pairs.add_row(ours, at, false);
        }
    }
    Ok(pairs.finish(name))
}

/// Compares the tokens that the model writes, always the most probable one, with those of the reference.
fn generated(
    loaded: &Loaded,
    reference: &Reference,
    shape: &[usize],
    texts: &Texts,
    sides: &Sides,
    pass: &Pass,
) -> Result<Comparison, TaskError> {
    let Some(([rows, width], ids)) = reference.matrix("generated_ids")? else {
        return Err(lacks(reference, "generated_ids"));
    };
    let is_translator = matches!(loaded.network, Network::Translation(_));
    let before = if is_translator { 1 } else { sides.seq };
    if rows != texts.ids.len() || width <= before {
        let expected = format!("[{}, more than {before}]", texts.ids.len());
        return Err(reference.wrong("generated_ids", &expected, shape));
    }
    let written = continued(loaded, texts, width - before, 1, pass)?;
    let end = ending(&loaded.settings);
    let (mut equal, mut all) = (0, 0);
    for (theirs, ours) in ids.chunks_exact(width).map(|row| &row[before..]).zip(&written) {
        for (place, &id) in theirs.iter().enumerate() {
            all += 1;
            equal += usize::from(ours.get(place).is_some_and(|&own| i64::from(own) == id));
            // What follows the end is padding.
            if end.contains(&id) {
                break;
            }
        }
    }
    let agreement = Some(equal as f64 / f64::from(u32::try_from(all.max(1)).unwrap_or(u32::MAX)));
    let largest = if equal == all { 0.0 } else { 1.0 };
    Ok(Comparison { name: "generated_ids".to_string(), values: all, largest, relative: largest, agreement })
}

/// Returns the ids of the tokens that end a text.
pub(super) fn ending(settings: &Value) -> Vec<i64> {
    match &settings["eos_token_id"] {
        Value::Array(ids) => ids.iter().filter_map(Value::as_i64).collect(),
        id => id.as_i64().into_iter().collect(),
    }
}

/// Values of ours beside those of the reference.
struct Pairs {
    theirs: Vec<f32>,
    values: usize,
    largest: f64,
    scale: f64,
    rows: usize,
    equal: usize,
}

impl Pairs {
    fn new(theirs: Vec<f32>) -> Self {
        Self { theirs, values: 0, largest: 0.0, scale: 0.0, rows: 0, equal: 0 }
    }

    /// Compares a row of ours with the values of the reference from index `at` on, and where both have their largest value.
    fn add_row(&mut self, ours: &[f32], at: usize, by_largest: bool) {
        let theirs = &self.theirs[at..at + ours.len()];
        for (&ours, &theirs) in ours.iter().zip(theirs) {
            let difference = f64::from((ours - theirs).abs());
            // A value that is not a number is as far away as can be.
            self.largest = if difference.is_nan() { f64::INFINITY } else { self.largest.max(difference) };
            self.scale = self.scale.max(f64::from(theirs.abs()));
        }
        self.values += ours.len();
        if by_largest {
            let best = |row: &[f32]| (0..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best });
            self.rows += 1;
            self.equal += usize::from(best(ours) == best(theirs));
        }
    }

    fn finish(self, name: &str) -> Comparison {
        let relative = if self.largest == 0.0 { 0.0 } else { self.largest / self.scale.max(f64::MIN_POSITIVE) };
        let agreement = (self.rows > 0).then(|| self.equal as f64 / self.rows as f64);
        Comparison { name: name.to_string(), values: self.values, largest: self.largest, relative, agreement }
    }
}
