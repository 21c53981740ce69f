//! WAV files: samples as whole numbers of 8, 16, 24 or 32 bits or as floats of 32 or 64, of any rate and number of channels.
//!
//! A file is a list of chunks, each with a name of four letters and a length. `fmt ` describes the samples and `data` has them;
//! other chunks are skipped. Every length is checked against the bytes that there are.

use super::Sound;
use crate::DataError;
use std::path::Path;

/// Smallest and largest number of samples per second.
const RATES: std::ops::RangeInclusive<u32> = 1_000..=768_000;
/// Largest number of channels.
const MOST_CHANNELS: u16 = 64;
/// Largest size of a float sample. Full scale is 1; some programs write floats on the scale of 16-bit samples.
const LARGEST: f32 = 65_536.0;
/// Length of a data chunk whose writer could not go back to fill it in: the samples reach to the end of the file.
const UNKNOWN: u32 = u32::MAX;

/// How a sample is stored.
#[derive(Clone, Copy)]
enum Form {
    Integer { bytes: usize },
    Float { bytes: usize },
}

/// Description of the samples.
struct Format {
    form: Form,
    channels: usize,
    rate: u32,
}

/// What was expected and what was found.
type Unlike = (String, String);

/// Whether the name says WAV.
pub fn is_wav(name: impl AsRef<Path>) -> bool {
    let extension = name.as_ref().extension().map(|extension| extension.to_string_lossy().to_lowercase());
    matches!(extension.as_deref(), Some("wav" | "wave"))
}

/// Decodes a WAV file; the mean of its channels is the sound. `what` names the file in errors.
///
/// # Errors
/// Bytes that are not WAV, a compressed format, absurd rates and numbers of channels, a length beyond the end of the file,
/// no samples, and float samples that are not numbers or far too large.
pub fn decode_wav(bytes: &[u8], what: &Path) -> Result<Sound, DataError> {
    decode(bytes).map_err(|(expected, found)| DataError::format(what, expected, found))
}

/// Encodes a sound as WAV with 16-bit samples; what is louder than full scale is cut.
pub fn encode_wav(sound: &Sound) -> Vec<u8> {
    let size = 2 * sound.samples.len() as u32;
    let mut bytes = Vec::with_capacity(44 + size as usize);
    bytes.extend(b"RIFF");
    bytes.extend((36 + size).to_le_bytes());
    bytes.extend(b"WAVEfmt ");
    bytes.extend(16u32.to_le_bytes());
    bytes.extend([1u16, 1].map(u16::to_le_bytes).concat());
    bytes.extend([sound.rate, 2 * sound.rate].map(u32::to_le_bytes).concat());
    bytes.extend([2u16, 16].map(u16::to_le_bytes).concat());
    bytes.extend(b"data");
    bytes.extend(size.to_le_bytes());
    for sample in &sound.samples {
        bytes.extend(((sample * 32_768.0).round().clamp(-32_768.0, 32_767.0) as i16).to_le_bytes());
    }
    bytes
}

fn decode(bytes: &[u8]) -> Result<Sound, Unlike> {
    let start = bytes.get(..12).filter(|start| start.starts_with(b"RIFF") && start.ends_with(b"WAVE"));
    if start.is_none() {
        let found = match bytes {
            [] => "an empty file",
            [b'R', b'I', b'F', b'F', ..] => "a RIFF file of another kind, or a truncated one",
            [b'O', b'g', b'g', b'S', ..] => "Ogg; convert it: ffmpeg -i in.ogg out.wav",
            [b'f', b'L', b'a', b'C', ..] => "FLAC; convert it: ffmpeg -i in.flac out.wav",
            [b'I', b'D', b'3', ..] | [0xff, 0xe0..=0xff, ..] => "MP3; convert it: ffmpeg -i in.mp3 out.wav",
            _ => "other bytes",
        };
        return Err(("a WAV file".into(), found.into()));
    }
    let (mut rest, mut format) = (&bytes[12..], None);
    while let Some((head, after)) = rest.split_at_checked(8) {
        let size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        match &head[..4] {
            b"fmt " => format = Some(read_format(after, size)?),
            b"data" => {
                let format = format.ok_or_else(|| ("a fmt chunk before the data".into(), "none".into()))?;
                return samples(&format, content(after, size)?);
            }
            _ => {}
        }
        // Chunks begin at even places.
        let length = size as usize + (size % 2) as usize;
        rest = after.get(length..).unwrap_or(&[]);
    }
    Err(("a data chunk with samples".into(), "none before the end of the file".into()))
}

/// The samples of a data chunk.
fn content(after: &[u8], size: u32) -> Result<&[u8], Unlike> {
    if size == UNKNOWN {
        return Ok(after);
    }
    after.get(..size as usize).ok_or_else(|| {
        let expected = format!("{size} bytes of samples, as the header says");
        (expected, format!("{}: the file is truncated or its header is wrong", after.len()))
    })
}

fn read_format(after: &[u8], size: u32) -> Result<Format, Unlike> {
    let short = || ("a fmt chunk of 16 bytes or more".to_string(), "a shorter one".to_string());
    let chunk = after.get(..size as usize).filter(|chunk| chunk.len() >= 16).ok_or_else(short)?;
    let two = |at: usize| u16::from_le_bytes([chunk[at], chunk[at + 1]]);
    let (channels, bits, block) = (two(2), two(14), two(12));
    let rate = u32::from_le_bytes([chunk[4], chunk[5], chunk[6], chunk[7]]);
    // An extensible format has the real one at the start of a longer code.
    let kind = match two(0) {
        0xfffe if chunk.len() >= 26 => two(24),
        kind => kind,
    };
    let form = match (kind, bits) {
        (1, 8 | 16 | 24 | 32) => Form::Integer { bytes: usize::from(bits / 8) },
        (3, 32 | 64) => Form::Float { bytes: usize::from(bits / 8) },
        (1 | 3, _) => {
            let expected = "whole numbers of 8, 16, 24 or 32 bits, or floats of 32 or 64".to_string();
            return Err((expected, format!("{bits} bits")));
        }
        _ => {
            let expected = "samples that are not compressed".to_string();
            return Err((expected, format!("format {kind}; convert it: ffmpeg -i in.wav -c:a pcm_s16le out.wav")));
        }
    };
    if !(1..=MOST_CHANNELS).contains(&channels) {
        return Err((format!("1 to {MOST_CHANNELS} channels"), channels.to_string()));
    }
    if !RATES.contains(&rate) {
        return Err((format!("{} to {} samples per second", RATES.start(), RATES.end()), rate.to_string()));
    }
    if u32::from(block) != u32::from(channels) * u32::from(bits / 8) {
        let expected = format!("{} bytes for {channels} samples of {bits} bits", channels * (bits / 8));
        return Err((expected, block.to_string()));
    }
    Ok(Format { form, channels: usize::from(channels), rate })
}

fn samples(format: &Format, bytes: &[u8]) -> Result<Sound, Unlike> {
    let width = match format.form {
        Form::Integer { bytes } | Form::Float { bytes } => bytes,
    };
    let block = width * format.channels;
    if bytes.is_empty() {
        return Err(("samples".into(), "none: the sound is empty".into()));
    }
    if !bytes.len().is_multiple_of(block) {
        let expected = format!("samples of {block} bytes for all channels");
        return Err((expected, format!("{} bytes: the last sample is not whole", bytes.len())));
    }
    let mut samples = Vec::with_capacity(bytes.len() / block);
    for (at, block) in bytes.chunks_exact(block).enumerate() {
        let sum: f32 = block.chunks_exact(width).map(|sample| value(format.form, sample)).sum();
        let mean = sum / format.channels as f32;
        if mean.is_nan() || mean.abs() > LARGEST {
            return Err((format!("samples that are numbers up to {LARGEST}"), format!("{mean} at sample {at}")));
        }
        samples.push(mean);
    }
    Ok(Sound { rate: format.rate, samples })
}

/// One sample, 1 for full scale.
fn value(form: Form, bytes: &[u8]) -> f32 {
    match (form, bytes) {
        // Samples of 8 bits are the only ones without a sign.
        (Form::Integer { .. }, &[a]) => (f32::from(a) - 128.0) / 128.0,
        (Form::Integer { .. }, &[a, b]) => f32::from(i16::from_le_bytes([a, b])) / 32_768.0,
        (Form::Integer { .. }, &[a, b, c]) => i32::from_le_bytes([0, a, b, c]) as f32 / 2_147_483_648.0,
        (Form::Integer { .. }, &[a, b, c, d]) => i32::from_le_bytes([a, b, c, d]) as f32 / 2_147_483_648.0,
        (Form::Float { .. }, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
        (_, bytes) => bytes.try_into().map_or(f64::NAN, f64::from_le_bytes) as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A WAV file with the given fmt fields and samples.
    fn wav(kind: u16, channels: u16, rate: u32, bits: u16, data: &[u8]) -> Vec<u8> {
        let block = channels.wrapping_mul(bits / 8);
        let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0".to_vec();
        bytes.extend([kind, channels].map(u16::to_le_bytes).concat());
        bytes.extend([rate, rate.wrapping_mul(u32::from(block))].map(u32::to_le_bytes).concat());
        bytes.extend([block, bits].map(u16::to_le_bytes).concat());
        bytes.extend(b"data");
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend(data);
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Sound, String> {
        decode_wav(bytes, Path::new("a.wav")).map_err(|error| error.to_string())
    }

    #[test]
    fn all_forms_of_samples_have_the_same_scale() {
        let halves: [(u16, u16, Vec<u8>); 6] = [
            (1, 8, vec![192, 64]),
            (1, 16, [16_384i16, -16_384].map(i16::to_le_bytes).concat()),
            (1, 24, vec![0, 0, 0x40, 0, 0, 0xc0]),
            (1, 32, [1i32 << 30, -(1 << 30)].map(i32::to_le_bytes).concat()),
            (3, 32, [0.5f32, -0.5].map(f32::to_le_bytes).concat()),
            (3, 64, [0.5f64, -0.5].map(f64::to_le_bytes).concat()),
        ];
        for (kind, bits, data) in halves {
            let sound = read(&wav(kind, 1, 8_000, bits, &data)).unwrap();
            assert_eq!((sound.rate, sound.samples), (8_000, vec![0.5, -0.5]), "{bits} bits of kind {kind}");
            // The same two samples as two channels are one sample, their mean.
            assert_eq!(read(&wav(kind, 2, 8_000, bits, &data)).unwrap().samples, [0.0]);
        }
    }

    #[test]
    fn other_chunks_are_skipped() {
        let plain = wav(1, 1, 8_000, 16, &[0, 64]);
        let odd = [&plain[..36], b"LIST\x03\0\0\0abc\0", &plain[36..], b"more"].concat();
        assert_eq!(read(&odd).unwrap().samples, [0.5]);
        let mut unknown = plain.clone();
        unknown[40..44].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(read(&unknown).unwrap().samples, [0.5]);
        // An extensible format: the real one is in its longer code.
        let mut extensible = b"RIFF\0\0\0\0WAVEfmt \x28\0\0\0".to_vec();
        extensible.extend([&[0xfe, 0xff], &plain[22..36], &[22, 0, 16, 0, 4, 0, 0, 0, 1, 0], &[0; 14]].concat());
        extensible.extend(&plain[36..]);
        assert_eq!(read(&extensible).unwrap().samples, [0.5]);
    }

    #[test]
    fn what_is_written_can_be_read() {
        let sound = Sound { rate: 11_025, samples: vec![0.0, 0.25, -1.0, 32_767.0 / 32_768.0, 7.0] };
        let back = read(&encode_wav(&sound)).unwrap();
        assert_eq!((back.rate, &back.samples[..4]), (11_025, &sound.samples[..4]));
        assert_eq!(back.samples[4], sound.samples[3]);
    }

    #[test]
    fn damaged_files_are_refused() {
        let good = wav(1, 1, 8_000, 16, &[1, 2, 3, 4]);
        for cut in 0..good.len() {
            assert!(read(&good[..cut]).is_err(), "cut at {cut}");
        }
        let fails = |bytes: Vec<u8>, words: &str| {
            let told = read(&bytes).unwrap_err();
            assert!(told.starts_with("a.wav: expected") && told.contains(words), "{told}");
        };
        let mut lies = good.clone();
        lies[40] = 200;
        fails(lies, "expected 200 bytes of samples, as the header says, found 4: the file is truncated");
        fails(wav(1, 1, 8_000, 16, &[]), "the sound is empty");
        fails(wav(1, 1, 8_000, 16, &[1, 2, 3]), "the last sample is not whole");
        fails(wav(1, 0, 8_000, 16, &[1, 2]), "1 to 64 channels, found 0");
        fails(wav(1, 65_535, 8_000, 8, &[1, 2]), "1 to 64 channels, found 65535");
        fails(wav(1, 1, 0, 16, &[1, 2]), "samples per second, found 0");
        fails(wav(1, 1, u32::MAX, 16, &[1, 2]), "samples per second, found 4294967295");
        fails(wav(1, 1, 8_000, 12, &[1, 2]), "found 12 bits");
        fails(wav(17, 1, 8_000, 4, &[1, 2]), "not compressed, found format 17");
        fails(wav(3, 1, 8_000, 32, &[0.5f32, f32::NAN].map(f32::to_le_bytes).concat()), "NaN at sample 1");
        fails(wav(3, 1, 8_000, 32, &f32::INFINITY.to_le_bytes()), "inf at sample 0");
        fails(wav(3, 1, 8_000, 64, &1e300f64.to_le_bytes()), "inf at sample 0");
        fails(b"OggS and more bytes".to_vec(), "Ogg; convert it");
        fails(Vec::new(), "an empty file");
        let mut block = good;
        block[32] = 7;
        fails(block, "expected 2 bytes for 1 samples of 16 bits, found 7");
    }

    proptest! {
        #[test]
        fn bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..48, byte: u8) {
            let _ = read(&bytes);
            let mut changed = wav(1, 2, 8_000, 16, &bytes);
            changed[at.min(43)] = byte;
            let _ = read(&changed);
        }
    }
}
