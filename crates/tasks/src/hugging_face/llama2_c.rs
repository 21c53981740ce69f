//! Import of llama2.c's `.bin` files: a header of seven numbers, then all weights in f32. They become a folder that `transformers`
//! loads, with a Llama and a tokeniser.
//!
//! llama2.c rotates neighbouring features of queries and keys, `transformers` the two halves of a head; their rows are reordered.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use regard_system::{create_folder, save_atomically};
use serde_json::{Map, Value, json};

use super::store::{Content, Float, Written, write};
use crate::error::TaskError;
use crate::folder::{CONFIG, MODEL, TOKENIZER, check_free};

/// Bytes of the header: seven 32-bit numbers.
const HEADER: u64 = 28;
/// Largest tokeniser that is read, in bytes.
const MOST_TOKENIZER: u64 = 100_000_000;
/// Number of the first token that stands for a byte; those before are the unknown token, the beginning and the end.
const FIRST_BYTE: usize = 3;

/// The sizes in the header of a model.
struct Sizes {
    dim: usize,
    hidden: usize,
    layers: usize,
    heads: usize,
    kv_heads: usize,
    vocab: usize,
    seq: usize,
    /// Whether the output layer has the embedding's weights.
    shared: bool,
}

/// A tensor in a `.bin` file: its name in `transformers`, its shape, and the index of its first value.
struct Place {
    name: String,
    shape: Vec<usize>,
    first: u64,
    /// Number of heads whose rows are reordered; 0 for none.
    turned: usize,
}

/// Writes the model of llama2.c at `model` as a new folder of `transformers`. Without `tokenizer`, it is the only other `.bin` file
/// in the folder of the model.
pub fn import_llama2_c(model: &Path, tokenizer: Option<&Path>, to: &Path) -> Result<(), TaskError> {
    let sizes = Sizes::read(model)?;
    let places = sizes.places(model)?;
    let found;
    let tokenizer = match tokenizer {
        Some(path) => path,
        None => {
            found = beside(model)?;
            &found
        }
    };
    let tokens = read_tokens(tokenizer, sizes.vocab)?;
    check_free(to)?;
    create_folder(to).map_err(TaskError::io(to))?;
    let mut tensors: Vec<Written> = Vec::new();
    for place in &places {
        let values = Box::new(move || place.read(model));
        let content = Content::Values(Float::F32, values);
        tensors.push(Written { name: &place.name, dtype: "F32", shape: &place.shape, content });
    }
    tensors.sort_by_key(|tensor| tensor.name);
    let mut bytes = Vec::new();
    write(&tensors, &to.join(MODEL), &mut bytes)?;
    save_atomically(&to.join(MODEL), &bytes)?;
    save_atomically(&to.join(TOKENIZER), format!("{}\n", tokenizer_json(&tokens)).as_bytes())?;
    let config =
        serde_json::to_string_pretty(&sizes.config()).map_err(|error| TaskError::folder(to, error.to_string()))?;
    Ok(save_atomically(&to.join(CONFIG), format!("{config}\n").as_bytes())?)
}

impl Sizes {
    fn read(path: &Path) -> Result<Self, TaskError> {
        let mut header = [0; HEADER as usize];
        let mut file = File::open(path).map_err(TaskError::io(path))?;
        file.read_exact(&mut header)
            .map_err(|_| TaskError::folder(path, "not a model of llama2.c: it has less than a header of 28 bytes"))?;
        let (numbers, _) = header.as_chunks::<4>();
        let names = ["dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "vocab_size", "seq_len"];
        let mut sizes = [0; 7];
        for ((size, &bytes), name) in sizes.iter_mut().zip(numbers).zip(names) {
            let number = i32::from_le_bytes(bytes);
            // A negative vocabulary means that the output layer has its own weights.
            let is_allowed = number > 0 || (name == "vocab_size" && number < 0 && number != i32::MIN);
            if !is_allowed || number.unsigned_abs() > 1 << 24 {
                let problem = format!("not a model of llama2.c: {name} is {number}, expected 1 to 2²⁴");
                return Err(TaskError::folder(path, problem));
            }
            *size = number.unsigned_abs() as usize;
        }
        let [dim, hidden, layers, heads, kv_heads, vocab, seq] = sizes;
        if !dim.is_multiple_of(2 * heads) || !heads.is_multiple_of(kv_heads) {
            let problem = format!("{heads} heads and {kv_heads} key heads do not divide {dim} features into pairs");
            return Err(TaskError::folder(path, problem));
        }
        let shared = i32::from_le_bytes(numbers[5]) > 0;
        Ok(Self { dim, hidden, layers, heads, kv_heads, vocab, seq, shared })
    }

    fn config(&self) -> Value {
        json!({
            "architectures": ["LlamaForCausalLM"],
            "attention_bias": false,
            "bos_token_id": 1,
            // llama2.c ends a text at its beginning or end token.
            "eos_token_id": [1, 2],
            "hidden_act": "silu",
            "hidden_size": self.dim,
            "intermediate_size": self.hidden,
            "max_position_embeddings": self.seq,
            "mlp_bias": false,
            "model_type": "llama",
            "num_attention_heads": self.heads,
            "num_hidden_layers": self.layers,
            "num_key_value_heads": self.kv_heads,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0,
            "tie_word_embeddings": self.shared,
            "torch_dtype": "float32",
            "vocab_size": self.vocab,
        })
    }

    /// Returns the tensors of the file, or an error if its size is not theirs.
    fn places(&self, path: &Path) -> Result<Vec<Place>, TaskError> {
        let (dim, d_head) = (self.dim, self.dim / self.heads);
        let kv = self.kv_heads * d_head;
        let size = std::fs::metadata(path).map_err(TaskError::io(path))?.len();
        // Every layer has at least some bytes, so that a wrong number of layers is found before it fills the memory.
        if self.layers as u64 > size {
            return Err(TaskError::folder(path, format!("{} layers do not fit in {size} bytes", self.layers)));
        }
        let (mut places, mut first) = (Vec::new(), 0u64);
        let mut add = |name: &str, shape: &[usize], layers: Option<usize>, turned: usize| {
            for layer in 0..layers.unwrap_or(1) {
                let name = match layers {
                    Some(_) => format!("model.layers.{layer}.{name}.weight"),
                    None => name.to_string(),
                };
                places.push(Place { name, shape: shape.to_vec(), first, turned });
                first += shape.iter().map(|&size| size as u64).product::<u64>();
            }
        };
        let all = Some(self.layers);
        add("model.embed_tokens.weight", &[self.vocab, dim], None, 0);
        add("input_layernorm", &[dim], all, 0);
        add("self_attn.q_proj", &[dim, dim], all, self.heads);
        add("self_attn.k_proj", &[kv, dim], all, self.kv_heads);
        add("self_attn.v_proj", &[kv, dim], all, 0);
        add("self_attn.o_proj", &[dim, dim], all, 0);
        add("post_attention_layernorm", &[dim], all, 0);
        add("mlp.gate_proj", &[self.hidden, dim], all, 0);
        add("mlp.down_proj", &[dim, self.hidden], all, 0);
        add("mlp.up_proj", &[self.hidden, dim], all, 0);
        add("model.norm.weight", &[dim], None, 0);
        // The cosines and sines of the rotations, which are computed.
        let rotations = places.len();
        let mut add_rest = |name: &str, shape: &[usize]| {
            places.push(Place { name: name.to_string(), shape: shape.to_vec(), first, turned: 0 });
            first += shape.iter().map(|&size| size as u64).product::<u64>();
        };
        add_rest("rotations", &[2, self.seq, d_head / 2]);
        if !self.shared {
            add_rest("lm_head.weight", &[self.vocab, dim]);
        }
        places.remove(rotations);
        let expected = HEADER as u128 + 4 * u128::from(first);
        if expected != u128::from(size) {
            let problem = format!("not a model of llama2.c: {size} bytes, expected {expected} by its header");
            return Err(TaskError::folder(path, problem));
        }
        Ok(places)
    }
}

impl Place {
    fn read(&self, path: &Path) -> Result<Vec<f32>, TaskError> {
        let count: usize = self.shape.iter().product();
        let mut file = File::open(path).map_err(TaskError::io(path))?;
        file.seek(SeekFrom::Start(HEADER + 4 * self.first)).map_err(TaskError::io(path))?;
        let mut bytes = vec![0; 4 * count];
        file.read_exact(&mut bytes).map_err(TaskError::io(path))?;
        let mut values = Vec::with_capacity(count);
        Float::F32.decode(&bytes, &mut values);
        if self.turned == 0 {
            return Ok(values);
        }
        let (rows, columns) = (self.shape[0], self.shape[1]);
        let d_head = rows / self.turned;
        let half = d_head / 2;
        let mut found = Vec::with_capacity(count);
        for row in 0..rows {
            let (head, at) = (row / d_head, row % d_head);
            let theirs = head * d_head + if at < half { 2 * at } else { 2 * (at - half) + 1 };
            found.extend_from_slice(&values[theirs * columns..][..columns]);
        }
        Ok(found)
    }
}

/// Returns the only other `.bin` file in the folder of a model.
fn beside(model: &Path) -> Result<PathBuf, TaskError> {
    let folder = model.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).map_err(TaskError::io(folder))?;
    let is_bin = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "bin");
    let others: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| is_bin(path) && path.file_name() != model.file_name())
        .collect();
    match others.as_slice() {
        [only] => Ok(only.clone()),
        _ => {
            let problem = format!("{} other .bin files beside it; name its tokenizer with --tokenizer", others.len());
            Err(TaskError::folder(model, problem))
        }
    }
}

/// Reads the tokens and their scores: the length of the longest, then for each its score, its length and its bytes.
fn read_tokens(path: &Path, vocab: usize) -> Result<Vec<(String, f32)>, TaskError> {
    let size = std::fs::metadata(path).map_err(TaskError::io(path))?.len();
    if size > MOST_TOKENIZER {
        return Err(TaskError::folder(
            path,
            format!("{size} bytes, expected a tokenizer of llama2.c of at most 100 MB"),
        ));
    }
    let content = std::fs::read(path).map_err(TaskError::io(path))?;
    let damaged = |what: &str| TaskError::folder(path, format!("not a tokenizer of llama2.c: {what}"));
    let mut rest = content.get(4..).ok_or_else(|| damaged("it has less than 4 bytes"))?;
    let mut tokens = Vec::new();
    while !rest.is_empty() {
        let (score, after) = rest.split_first_chunk::<4>().ok_or_else(|| damaged("it ends within a token"))?;
        let (length, after) = after.split_first_chunk::<4>().ok_or_else(|| damaged("it ends within a token"))?;
        let length =
            usize::try_from(i32::from_le_bytes(*length)).map_err(|_| damaged("a token has a negative length"))?;
        let text = after.get(..length).ok_or_else(|| damaged("it ends within a token"))?;
        let text = std::str::from_utf8(text).map_err(|_| damaged("a token is not UTF-8"))?;
        tokens.push((text.to_string(), f32::from_le_bytes(*score)));
        rest = &after[length..];
    }
    if tokens.len() != vocab || vocab <= FIRST_BYTE + 256 {
        return Err(damaged(&format!("{} tokens, expected {vocab} by the model and more than 259", tokens.len())));
    }
    Ok(tokens)
}

/// Returns the `tokenizer.json` of llama2.c's tokens: byte-pair encoding by scores, with bytes for unknown characters.
fn tokenizer_json(tokens: &[(String, f32)]) -> Value {
    let name = |(at, (text, _)): (usize, &(String, f32))| match at {
        0 => "<unk>".to_string(),
        1 => "<s>".to_string(),
        2 => "</s>".to_string(),
        _ if at < FIRST_BYTE + 256 => format!("<0x{:02X}>", at - FIRST_BYTE),
        _ => text.replace(' ', "\u{2581}"),
    };
    let names: Vec<String> = tokens.iter().enumerate().map(name).collect();
    // The first of several equal tokens is the one that is found.
    let mut vocab = Map::new();
    for (at, name) in names.iter().enumerate() {
        vocab.entry(name.clone()).or_insert(Value::from(at));
    }
    let mut merges: Vec<(f32, usize, [String; 2])> = Vec::new();
    for (at, name) in names.iter().enumerate().skip(FIRST_BYTE + 256) {
        for (cut, _) in name.char_indices().skip(1) {
            let (left, right) = name.split_at(cut);
            if vocab.contains_key(left) && vocab.contains_key(right) {
                merges.push((tokens[at].1, at, [left.to_string(), right.to_string()]));
            }
        }
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let merges: Vec<[String; 2]> = merges.into_iter().map(|(_, _, pair)| pair).collect();
    let special = |id: usize| {
        json!({
            "id": id, "content": names[id], "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true,
        })
    };
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": [special(0), special(1), special(2)],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "\u{2581}"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"},
        ]},
        "pre_tokenizer": null,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "<s>", "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 1}},
            ],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
        },
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ]},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": vocab, "merges": merges,
        },
    })
}
