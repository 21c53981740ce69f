//! Recordings as callers give them.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regard_data::{Sound, Split, decode_wav, is_wav, member_of, read_archive, read_sound};
use serde_json::Value;

use super::Speech;
use crate::error::TaskError;
use crate::input::{Given, InputKind};
use crate::pictures::{built_in, check_path};

/// A recording as a caller has given it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum GivenSound {
    /// A WAV file, with its name.
    Sound(Sound, String),
    /// A recording of the built-in data, by its split and its index from 0.
    BuiltIn(Split, usize),
}

impl Speech {
    /// Reads a recording: the path of a WAV file, `{"audio": base64}` with the content of one, or the name of a built-in
    /// recording.
    pub(super) fn read_given(&self, given: &Given) -> Result<GivenSound, TaskError> {
        let text = match given {
            Given::Text(text) | Given::Json(Value::String(text)) => text,
            Given::Json(_) => {
                let encoded = given.value(InputKind::Sound)?.and_then(Value::as_str);
                let wrong = |got: String| TaskError::input("audio", "a WAV file as base64", got);
                let encoded = encoded.ok_or_else(|| wrong("something else than a text".to_string()))?;
                let bytes = STANDARD.decode(encoded.trim()).map_err(|error| wrong(error.to_string()))?;
                return Ok(GivenSound::Sound(decode_wav(&bytes, Path::new("audio"))?, "the sound".to_string()));
            }
        };
        if let Some((split, index)) = built_in(text)? {
            return Ok(GivenSound::BuiltIn(split, index));
        }
        check_path(text, "the path of a WAV file")?;
        Ok(GivenSound::Sound(self.read_path(Path::new(text))?, text.clone()))
    }

    /// Reads a WAV file. The archive of the model's own data is unpacked once for all its recordings.
    fn read_path(&self, path: &Path) -> Result<Sound, TaskError> {
        let own = member_of(path).filter(|(archive, _)| Some(archive) == self.config.data.path.as_ref());
        let Some((archive, name)) = own else { return Ok(read_sound(path)?) };
        let members = match self.archive.get() {
            Some(members) => members,
            None => {
                let members = read_archive(&archive, |name| is_wav(name))?;
                self.archive.get_or_init(|| members)
            }
        };
        match members.binary_search_by(|member| member.name.as_str().cmp(&name)) {
            Ok(at) => Ok(decode_wav(&members[at].bytes, path)?),
            Err(_) => Ok(read_sound(path)?),
        }
    }
}
