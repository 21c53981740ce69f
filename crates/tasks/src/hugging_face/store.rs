//! The tensors of a checkpoint: one `model.safetensors`, or several with an index. All headers are checked before any tensor is
//! read, and a tensor is read from its file straight into its place.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use half::{bf16, f16};
use regard_inspect::count::{HEADER_LIMIT, shards};
use serde_json::{Map, Value};

use crate::error::TaskError;
use crate::folder::MODEL;

/// Index of a checkpoint in several files.
const INDEX: &str = "model.safetensors.index.json";
/// Largest index that is read, in bytes.
const MOST_INDEX: u64 = 100_000_000;
/// Number of values that are converted at a time.
const PIECE: usize = 1 << 16;

/// The element types that can be computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Float {
    F32,
    F16,
    Bf16,
}

/// What the header of a file says about a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Info {
    /// Element type as the file names it, such as `BF16`.
    pub dtype: String,
    pub shape: Vec<usize>,
    file: usize,
    /// First byte in the file, and the number of bytes.
    start: u64,
    bytes: u64,
}

impl Info {
    /// Returns the element type, if it can be computed with.
    pub fn float(&self) -> Option<Float> {
        match self.dtype.as_str() {
            "F32" => Some(Float::F32),
            "F16" => Some(Float::F16),
            "BF16" => Some(Float::Bf16),
            _ => None,
        }
    }
}

impl Float {
    pub(super) fn width(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    pub(super) fn decode(self, bytes: &[u8], to: &mut Vec<f32>) {
        match self {
            Self::F32 => to.extend(bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))),
            Self::F16 => to.extend(bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32())),
            Self::Bf16 => to.extend(bytes.chunks_exact(2).map(|b| bf16::from_le_bytes([b[0], b[1]]).to_f32())),
        }
    }

    fn encode(self, values: &[f32], to: &mut Vec<u8>) {
        match self {
            Self::F32 => to.extend(values.iter().flat_map(|value| value.to_le_bytes())),
            Self::F16 => to.extend(values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes())),
            Self::Bf16 => to.extend(values.iter().flat_map(|&value| bf16::from_f32(value).to_le_bytes())),
        }
    }
}

/// The tensors of a checkpoint by name.
#[derive(Debug)]
pub(super) struct Store {
    folder: PathBuf,
    files: Vec<PathBuf>,
    tensors: BTreeMap<String, Info>,
}

impl Store {
    /// Reads the headers of a folder's files.
    pub fn open(folder: &Path) -> Result<Self, TaskError> {
        let single = folder.join(MODEL);
        let index = folder.join(INDEX);
        if !single.is_file() && !index.is_file() {
            let problem = match folder.join("pytorch_model.bin").is_file() {
                true => {
                    "has its weights in pytorch_model.bin, which can run code when it is read; save it as safetensors with \
                         transformers, save_pretrained(folder)"
                }
                false => "has no model.safetensors and no model.safetensors.index.json",
            };
            return Err(TaskError::folder(folder, problem));
        }
        let mut store = Self { folder: folder.to_path_buf(), files: Vec::new(), tensors: BTreeMap::new() };
        if single.is_file() {
            store.add(&single)?;
            return Ok(store);
        }
        let map = read_json(&index, MOST_INDEX)?;
        let names = shards(&map).map_err(|error| TaskError::folder(&index, error.to_string()))?;
        for name in &names {
            let path = folder.join(name);
            if !path.is_file() {
                return Err(TaskError::folder(&path, "missing, although the index names it: the folder is incomplete"));
            }
            store.add(&path)?;
        }
        let mapped = map["weight_map"].as_object().into_iter().flatten();
        for (tensor, file) in mapped {
            let found = store.tensors.get(tensor).map(|info| &store.files[info.file]);
            if found != Some(&folder.join(file.as_str().unwrap_or_default())) {
                return Err(TaskError::folder(
                    &index,
                    format!("{tensor} is said to be in {file}, which does not have it"),
                ));
            }
        }
        Ok(store)
    }

    /// Reads the header of one file of any name.
    pub fn single(path: &Path) -> Result<Self, TaskError> {
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut store = Self { folder, files: Vec::new(), tensors: BTreeMap::new() };
        store.add(path)?;
        Ok(store)
    }

    /// Returns the place for messages: the only file, or the folder.
    pub fn path(&self) -> &Path {
        match self.files.as_slice() {
            [only] => only,
            _ => &self.folder,
        }
    }

    /// Returns all tensors by name.
    pub fn tensors(&self) -> &BTreeMap<String, Info> {
        &self.tensors
    }

    /// Returns the names in the order of their values in the files.
    pub fn in_order(&self) -> Vec<&str> {
        let mut names: Vec<(&String, &Info)> = self.tensors.iter().collect();
        names.sort_by_key(|(_, info)| (info.file, info.start));
        names.into_iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Reads a tensor of floating-point numbers.
    pub fn read(&self, name: &str) -> Result<Vec<f32>, TaskError> {
        let (info, float) = self.floats(name)?;
        let mut values = Vec::with_capacity(info.shape.iter().product());
        self.pieces(info, 1, |bytes| {
            float.decode(bytes, &mut values);
            Ok(())
        })?;
        Ok(values)
    }

    /// Reads a tensor of floating-point numbers in pieces of whole rows of `row` values each, and calls `with` for every piece with the
    /// number of its first row.
    pub fn read_rows(&self, name: &str, row: usize, mut with: impl FnMut(usize, &[f32])) -> Result<(), TaskError> {
        let (info, float) = self.floats(name)?;
        let (mut first, mut values) = (0, Vec::new());
        self.pieces(info, row, |bytes| {
            values.clear();
            float.decode(bytes, &mut values);
            with(first, &values);
            first += values.len() / row.max(1);
            Ok(())
        })
    }

    /// Returns whether two tensors have the same shape, type and bytes.
    pub fn are_equal(&self, name: &str, other: &str) -> Result<bool, TaskError> {
        let [one, two] = [self.info(name)?, self.info(other)?];
        if (&one.shape, &one.dtype) != (&two.shape, &two.dtype) {
            return Ok(false);
        }
        let [mut left, mut right] = [self.bytes(one)?, self.bytes(two)?];
        let [mut own, mut others] = [(); 2].map(|()| vec![0; PIECE]);
        let mut rest = one.bytes;
        while rest > 0 {
            let size = rest.min(PIECE as u64) as usize;
            left.read_exact(&mut own[..size]).map_err(TaskError::io(&self.files[one.file]))?;
            right.read_exact(&mut others[..size]).map_err(TaskError::io(&self.files[two.file]))?;
            if own[..size] != others[..size] {
                return Ok(false);
            }
            rest -= size as u64;
        }
        Ok(true)
    }

    /// Reads a tensor of whole numbers.
    pub fn read_integers(&self, name: &str) -> Result<Vec<i64>, TaskError> {
        let info = self.info(name)?;
        let mut values = Vec::with_capacity(info.shape.iter().product());
        let (dtype, path) = (info.dtype.as_str(), &self.files[info.file]);
        if !matches!(dtype, "I64" | "I32" | "U8" | "BOOL") {
            return Err(TaskError::folder(path, format!("{name} has element type {dtype}, expected I64")));
        }
        self.pieces(info, 1, |bytes| {
            match dtype {
                "I64" => values.extend(bytes.as_chunks::<8>().0.iter().map(|&bytes| i64::from_le_bytes(bytes))),
                "I32" => {
                    values.extend(bytes.as_chunks::<4>().0.iter().map(|&bytes| i64::from(i32::from_le_bytes(bytes))))
                }
                _ => values.extend(bytes.iter().map(|&byte| i64::from(byte))),
            }
            Ok(())
        })?;
        Ok(values)
    }

    /// Copies the bytes of a tensor.
    pub fn copy(&self, name: &str, to: &mut dyn Write) -> Result<(), TaskError> {
        self.pieces(self.info(name)?, 1, |bytes| to.write_all(bytes).map_err(TaskError::io(&self.folder)))
    }

    fn info(&self, name: &str) -> Result<&Info, TaskError> {
        self.tensors.get(name).ok_or_else(|| TaskError::folder(self.path(), format!("{name} is missing")))
    }

    /// Returns a tensor of floating-point numbers and its type.
    fn floats(&self, name: &str) -> Result<(&Info, Float), TaskError> {
        let info = self.info(name)?;
        let problem = || format!("{name} has element type {}, expected F32, F16 or BF16", info.dtype);
        let float = info.float().ok_or_else(|| TaskError::folder(&self.files[info.file], problem()))?;
        Ok((info, float))
    }

    /// Returns a reader of a tensor's bytes.
    fn bytes(&self, info: &Info) -> Result<impl Read, TaskError> {
        let path = &self.files[info.file];
        let mut file = File::open(path).map_err(TaskError::io(path))?;
        file.seek(SeekFrom::Start(info.start)).map_err(TaskError::io(path))?;
        Ok(file.take(info.bytes))
    }

    /// Calls `with` for the bytes of a tensor, a whole number of rows of `row` values at a time.
    fn pieces(
        &self,
        info: &Info,
        row: usize,
        mut with: impl FnMut(&[u8]) -> Result<(), TaskError>,
    ) -> Result<(), TaskError> {
        let (path, mut file) = (&self.files[info.file], self.bytes(info)?);
        let mut left = info.bytes;
        // Eight bytes, the widest type, for each value.
        let piece = 8 * PIECE.next_multiple_of(row.max(1)) as u64;
        let mut buffer = vec![0; piece.min(left) as usize];
        while left > 0 {
            let size = left.min(buffer.len() as u64) as usize;
            file.read_exact(&mut buffer[..size]).map_err(TaskError::io(path))?;
            with(&buffer[..size])?;
            left -= size as u64;
        }
        Ok(())
    }

    /// Checks the header of a file and adds its tensors.
    fn add(&mut self, path: &Path) -> Result<(), TaskError> {
        let refuse = |problem: String| TaskError::folder(path, problem);
        let mut file = File::open(path).map_err(TaskError::io(path))?;
        let size = file.metadata().map_err(TaskError::io(path))?.len();
        let mut length = [0; 8];
        if size < 8 {
            return Err(refuse(format!("not a safetensors file: {size} bytes")));
        }
        file.read_exact(&mut length).map_err(TaskError::io(path))?;
        let length = u64::from_le_bytes(length);
        let most = HEADER_LIMIT.min(size - 8);
        if length > most {
            let problem =
                format!("not a safetensors file: its header should have {length} bytes, but at most {most} fit");
            return Err(refuse(problem));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(TaskError::io(path))?;
        let header: Map<String, Value> = serde_json::from_slice(&header)
            .map_err(|error| refuse(format!("not a safetensors file: its header is not JSON: {error}")))?;
        let data = size - 8 - length;
        let mut found: Vec<(String, Info, [u64; 2])> = Vec::new();
        for (name, tensor) in header.into_iter().filter(|(name, _)| name != "__metadata__") {
            let (info, range) = described(&tensor, self.files.len(), 8 + length)
                .map_err(|problem| refuse(format!("{name}: {problem}")))?;
            if range[1] > data {
                let problem = format!("{name} ends at byte {} of {data}: the file is truncated", range[1]);
                return Err(refuse(problem));
            }
            found.push((name, info, range));
        }
        found.sort_by_key(|(_, _, range)| *range);
        let mut end = 0;
        for (name, _, range) in &found {
            if range[0] != end {
                let what = if range[0] < end { "overlaps the tensor before it" } else { "follows a gap" };
                return Err(refuse(format!("{name} begins at byte {}, expected {end}: it {what}", range[0])));
            }
            end = range[1];
        }
        if end != data {
            return Err(refuse(format!("{} bytes after the last tensor belong to none", data - end)));
        }
        self.files.push(path.to_path_buf());
        for (name, info, _) in found {
            if self.tensors.insert(name.clone(), info).is_some() {
                return Err(refuse(format!("{name} is also in another file of this checkpoint")));
            }
        }
        Ok(())
    }
}

/// Reads the entry of a tensor in a header; `first` is the place of the first value in the file.
fn described(tensor: &Value, file: usize, first: u64) -> Result<(Info, [u64; 2]), String> {
    let dtype = tensor["dtype"].as_str().ok_or("it has no dtype")?.to_string();
    let width: u64 = match dtype.as_str() {
        "F64" | "I64" | "U64" => 8,
        "F32" | "I32" | "U32" => 4,
        "F16" | "BF16" | "I16" | "U16" => 2,
        "I8" | "U8" | "BOOL" => 1,
        other => return Err(format!("element type {other} is not known; expected F32, F16 or BF16")),
    };
    let sizes = tensor["shape"].as_array().ok_or("it has no shape")?;
    let shape: Vec<usize> = sizes
        .iter()
        .map(|size| size.as_u64().and_then(|size| usize::try_from(size).ok()))
        .collect::<Option<_>>()
        .ok_or_else(|| format!("its shape is {}, expected a list of sizes", tensor["shape"]))?;
    let bytes = shape.iter().try_fold(width, |bytes, &size| bytes.checked_mul(size as u64));
    let range = match tensor["data_offsets"].as_array().map(Vec::as_slice) {
        Some([start, end]) => start.as_u64().zip(end.as_u64()).map(|(start, end)| [start, end]),
        _ => None,
    };
    let range = range.filter(|[start, end]| start <= end);
    let [start, end] = range.ok_or_else(|| format!("its data_offsets are {}", tensor["data_offsets"]))?;
    if bytes != Some(end - start) {
        let needed = bytes.map_or("more than 2⁶⁴".to_string(), |bytes| bytes.to_string());
        return Err(format!("shape {shape:?} of {dtype} needs {needed} bytes, but it has {}", end - start));
    }
    let start = first.checked_add(start).ok_or("its data_offsets are too large")?;
    Ok((Info { dtype, shape, file, start, bytes: end - (start - first) }, [start - first, end]))
}

/// Reads a JSON file of at most `most` bytes.
pub(super) fn read_json(path: &Path, most: u64) -> Result<Value, TaskError> {
    let size = std::fs::metadata(path).map_err(TaskError::io(path))?.len();
    if size > most {
        return Err(TaskError::folder(path, format!("{size} bytes, expected at most {most}")));
    }
    let content = std::fs::read(path).map_err(TaskError::io(path))?;
    let wrong = |error: serde_json::Error| TaskError::folder(path, format!("not JSON: {error}"));
    serde_json::from_slice(&content).map_err(wrong)
}

/// A tensor to write.
pub(super) struct Written<'a> {
    pub name: &'a str,
    pub dtype: &'a str,
    pub shape: &'a [usize],
    pub content: Content<'a>,
}

/// Where the values of a tensor to write come from.
pub(super) enum Content<'a> {
    /// Numbers, rounded to the type of the tensor.
    Values(Float, Box<dyn Fn() -> Result<Vec<f32>, TaskError> + 'a>),
    /// The bytes of a tensor of another file.
    Copied(&'a Store),
}

/// Writes tensors in this order as a safetensors file, with the metadata that `transformers` asks for.
pub(super) fn write(tensors: &[Written], path: &Path, to: &mut dyn Write) -> Result<(), TaskError> {
    let io = |result: std::io::Result<()>| result.map_err(TaskError::io(path));
    let mut header = String::from(r#"{"__metadata__":{"format":"pt"}"#);
    let mut end = 0u64;
    for one in tensors {
        let start = end;
        end += match &one.content {
            Content::Values(float, _) => (float.width() * one.shape.iter().product::<usize>()) as u64,
            Content::Copied(store) => store.info(one.name)?.bytes,
        };
        let (name, dtype, shape) = (Value::from(one.name), Value::from(one.dtype), Value::from(one.shape.to_vec()));
        header += &format!(r#",{name}:{{"dtype":{dtype},"shape":{shape},"data_offsets":[{start},{end}]}}"#);
    }
    header.push('}');
    let mut header = header.into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    io(to.write_all(&(header.len() as u64).to_le_bytes()))?;
    io(to.write_all(&header))?;
    for one in tensors {
        match &one.content {
            Content::Values(float, values) => {
                for piece in values()?.chunks(PIECE) {
                    let mut bytes = Vec::with_capacity(float.width() * piece.len());
                    float.encode(piece, &mut bytes);
                    io(to.write_all(&bytes))?;
                }
            }
            Content::Copied(store) => store.copy(one.name, to)?,
        }
    }
    Ok(())
}
