//! NumPy's array files, format versions 1 to 3: a magic number, the version, the length of the header, a header written as
//! a Python dictionary, and the elements. See the documentation of `numpy.lib.format`.

use crate::DataError;
use crate::error::{counted, excerpt};
use crate::file::read_unpacked;
use std::path::{Path, PathBuf};

const MAGIC: &[u8] = b"\x93NUMPY";

/// An array with at least one element.
pub(super) struct Array {
    pub(super) path: PathBuf,
    pub(super) shape: Vec<usize>,
    header: Header,
    bytes: Vec<u8>,
    /// Offset of the first element in `bytes`.
    start: usize,
}

/// An element.
#[derive(Debug, PartialEq)]
pub(super) enum Element {
    Whole(i128),
    Real(f64),
    Text(String),
}

/// The type of the elements. The number is the bytes of each.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Signed(usize),
    /// Unsigned integers, and booleans as 0 and 1.
    Unsigned(usize),
    Float(usize),
    /// Characters of four bytes, filled up with zeros.
    Text(usize),
}

#[derive(Debug, PartialEq)]
struct Header {
    kind: Kind,
    descr: String,
    is_fortran: bool,
    shape: Vec<usize>,
}

/// What was expected and what was found.
type Wrong = (String, String);

/// Reads an array file. The shape is compared with the length of the file before anything is allocated for it.
pub(super) fn read(path: &Path) -> Result<Array, DataError> {
    let bytes = read_unpacked(path)?;
    let checked = parse(&bytes).and_then(|(header, start)| header.check(bytes.len() - start).map(|()| (header, start)));
    let (header, start) = checked.map_err(|(expected, found)| DataError::format(path, expected, found))?;
    Ok(Array { path: path.to_path_buf(), shape: header.shape.clone(), header, bytes, start })
}

impl Array {
    /// The name of the element type, such as `<f4`.
    pub(super) fn descr(&self) -> &str {
        &self.header.descr
    }

    pub(super) fn is_float(&self) -> bool {
        matches!(self.header.kind, Kind::Float(_))
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self.header.kind, Kind::Text(_))
    }

    /// The element with this index in C order: the last axis changes fastest.
    pub(super) fn element(&self, index: usize) -> Element {
        let mut place = index;
        if self.header.is_fortran {
            let (mut rest, mut stride) = (index, self.shape.iter().product::<usize>());
            place = 0;
            for &n in self.shape.iter().rev() {
                stride /= n;
                place += rest % n * stride;
                rest /= n;
            }
        }
        let size = self.header.kind.size();
        let raw = &self.bytes[self.start + place * size..][..size];
        // Missing high bytes are zero.
        let wide = || {
            let mut wide = [0; 8];
            wide[..size].copy_from_slice(raw);
            u64::from_le_bytes(wide)
        };
        match self.header.kind {
            Kind::Unsigned(_) => Element::Whole(wide().into()),
            Kind::Signed(_) => {
                let shift = 64 - 8 * size as u32;
                Element::Whole((((wide() << shift) as i64) >> shift).into())
            }
            Kind::Float(4) => Element::Real(f32::from_bits(wide() as u32).into()),
            Kind::Float(_) => Element::Real(f64::from_bits(wide())),
            Kind::Text(_) => {
                let codes = raw.chunks_exact(4).map(|code| u32::from_le_bytes([code[0], code[1], code[2], code[3]]));
                let text: String =
                    codes.map(|code| char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
                Element::Text(text.trim_end_matches('\0').to_string())
            }
        }
    }

    /// The indices of an element, for a message: `[2, 0, 1]`.
    pub(super) fn indices(&self, index: usize) -> String {
        let mut rest = index;
        let mut indices: Vec<usize> = self.shape.iter().rev().map(|n| (rest % n, rest /= n).0).collect();
        indices.reverse();
        format!("{indices:?}")
    }
}

impl Kind {
    fn size(self) -> usize {
        match self {
            Self::Signed(size) | Self::Unsigned(size) | Self::Float(size) | Self::Text(size) => size,
        }
    }

    /// Reads the type of the elements, such as `<f4`.
    fn parse(descr: &str) -> Result<Self, Wrong> {
        let wrong = |found: &str| {
            let expected = "little-endian floats of 4 or 8 bytes, integers or text as elements";
            (expected.to_string(), format!("{}{found}", excerpt(descr)))
        };
        let mut signs = descr.chars();
        let (order, kind) = (signs.next(), signs.next());
        let size = signs.as_str().parse::<usize>().ok();
        let kind = match (kind, size) {
            (Some('i'), Some(size @ (1 | 2 | 4 | 8))) => Self::Signed(size),
            (Some('u'), Some(size @ (1 | 2 | 4 | 8))) | (Some('b'), Some(size @ 1)) => Self::Unsigned(size),
            (Some('f'), Some(size @ (4 | 8))) => Self::Float(size),
            (Some('U'), Some(size @ 1..=10_000)) => Self::Text(4 * size),
            (Some('O'), _) => return Err(wrong(", Python objects; convert them with x.astype('float32')")),
            _ => return Err(wrong("; convert them with x.astype('float32')")),
        };
        match order {
            Some('<') => Ok(kind),
            Some('|') if kind.size() == 1 => Ok(kind),
            Some('>') => Err(wrong(", which is big-endian; convert it with x.astype(x.dtype.newbyteorder('<'))")),
            _ => Err(wrong("")),
        }
    }
}

impl Header {
    /// Checks the shape against the number of bytes after the header.
    fn check(&self, found: usize) -> Result<(), Wrong> {
        if self.shape.contains(&0) {
            return Err(("at least one element".into(), format!("the shape {:?}", self.shape)));
        }
        let elements = self.shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
        let expected = elements.and_then(|all| all.checked_mul(self.kind.size()));
        if expected == Some(found) {
            return Ok(());
        }
        let bytes = expected.map_or("more bytes than any file has".to_string(), |bytes| counted(bytes, "byte"));
        Err((format!("{bytes} for the shape {:?} of {}", self.shape, self.descr), found.to_string()))
    }
}

/// Reads the header and returns it with the offset of the first element.
fn parse(bytes: &[u8]) -> Result<(Header, usize), Wrong> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        let found = match bytes {
            [b'P', b'K', ..] => "a ZIP file, such as numpy.savez writes; write x.npy and y.npy with numpy.save",
            [] => "an empty file",
            _ => "other bytes at the beginning",
        };
        return Err(("a NumPy array file".into(), found.into()));
    };
    let truncated = || ("a whole header".to_string(), "the end of the file".to_string());
    let (length, start) = match rest {
        [1, _, a, b, ..] => (usize::from(u16::from_le_bytes([*a, *b])), MAGIC.len() + 4),
        [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, MAGIC.len() + 6),
        [1..=3, ..] | [] => return Err(truncated()),
        [version, ..] => return Err(("format version 1, 2 or 3".into(), version.to_string())),
    };
    let end = start.checked_add(length).filter(|&end| end <= bytes.len()).ok_or_else(truncated)?;
    let text = String::from_utf8_lossy(&bytes[start..end]);
    Ok((dictionary(&text)?, end))
}

/// Reads the header's dictionary: `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`.
fn dictionary(text: &str) -> Result<Header, Wrong> {
    let wrong = |expected: &str| (format!("{expected} in the header"), excerpt(text.trim_end()));
    let mut cursor = Cursor(text);
    let (mut descr, mut is_fortran, mut shape) = (None, None, None);
    if !cursor.eat("{") {
        return Err(wrong("a dictionary"));
    }
    while !cursor.eat("}") {
        let key = cursor.string().filter(|_| cursor.eat(":")).ok_or_else(|| wrong("a key"))?;
        match key {
            "descr" => descr = Some(cursor.string().ok_or_else(|| wrong("one type for all elements as 'descr'"))?),
            "fortran_order" if cursor.eat("True") => is_fortran = Some(true),
            "fortran_order" if cursor.eat("False") => is_fortran = Some(false),
            "shape" => shape = Some(cursor.tuple().ok_or_else(|| wrong("sizes in brackets as 'shape'"))?),
            _ => return Err(wrong("only 'descr', 'fortran_order' and 'shape'")),
        }
        if !cursor.eat(",") && !cursor.0.trim_start().starts_with('}') {
            return Err(wrong("a comma between two keys"));
        }
    }
    match (descr, is_fortran, shape) {
        (Some(descr), Some(is_fortran), Some(shape)) => {
            Ok(Header { kind: Kind::parse(descr)?, descr: descr.to_string(), is_fortran, shape })
        }
        _ => Err(wrong("'descr', 'fortran_order' and 'shape'")),
    }
}

/// The rest of a text that is being parsed.
struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    /// Skips spaces and then a sign, if it comes next.
    fn eat(&mut self, sign: &str) -> bool {
        let rest = self.0.trim_start().strip_prefix(sign);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// A string in single or double quotes, without escapes.
    fn string(&mut self) -> Option<&'a str> {
        let quote = ["'", "\""].into_iter().find(|quote| self.eat(quote))?;
        let (string, rest) = self.0.split_once(quote)?;
        self.0 = rest;
        Some(string)
    }

    /// Sizes such as `()`, `(3,)` and `(2, 3)`.
    fn tuple(&mut self) -> Option<Vec<usize>> {
        if !self.eat("(") {
            return None;
        }
        let (sizes, rest) = self.0.split_once(')')?;
        self.0 = rest;
        let sizes = sizes.trim();
        if sizes.is_empty() {
            return Some(Vec::new());
        }
        let sizes = sizes.strip_suffix(',').unwrap_or(sizes);
        sizes.split(',').map(|size| size.trim().parse().ok()).collect()
    }
}
