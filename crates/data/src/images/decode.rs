//! PNG and JPEG pictures. The header is checked before memory is allocated for the pixels.

use super::{Image, ImageSize, hash_of, resize};
use std::io::Cursor;
use zune_jpeg::JpegDecoder;
use zune_jpeg::errors::DecodeErrors;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Largest number of pixels: a photograph has fewer, and 200 MB hold them.
const MOST_PIXELS: usize = 1 << 26;
/// Largest number of bytes that the PNG decoder may allocate by itself, such as for colour profiles and text.
const MOST_BYTES: usize = 1 << 28;

/// What was expected and what was found.
pub(super) type Wrong = (String, String);

/// The header of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) height: usize,
    pub(super) width: usize,
    /// Whether the picture is stored in grey.
    pub(super) is_grey: bool,
}

/// A picture in its own size, with transparent parts over white.
#[derive(Debug, PartialEq)]
pub(super) struct Decoded {
    /// 1 or 3.
    pub(super) channels: usize,
    pub(super) height: usize,
    pub(super) width: usize,
    /// Values `[height, width, channels]`.
    pub(super) pixels: Vec<u8>,
}

/// Reads the header alone.
pub(super) fn header(bytes: &[u8]) -> Result<Header, Wrong> {
    match Format::of(bytes)? {
        Format::Png => {
            let reader = open_png(bytes)?;
            let info = reader.info();
            let is_grey = match &info.palette {
                Some(palette) => palette.chunks_exact(3).all(|colour| colour[0] == colour[1] && colour[1] == colour[2]),
                None => matches!(info.color_type, png::ColorType::Grayscale | png::ColorType::GrayscaleAlpha),
            };
            Ok(Header { height: info.height as usize, width: info.width as usize, is_grey })
        }
        Format::Jpeg => Ok(open_jpeg(bytes)?.1),
    }
}

/// Decodes a whole picture.
pub(super) fn decode(bytes: &[u8]) -> Result<Decoded, Wrong> {
    match Format::of(bytes)? {
        Format::Png => decode_png(bytes),
        Format::Jpeg => decode_jpeg(bytes),
    }
}

enum Format {
    Png,
    Jpeg,
}

impl Format {
    /// The format by the first bytes; names of files are often wrong.
    fn of(bytes: &[u8]) -> Result<Self, Wrong> {
        let found = match bytes {
            [0x89, b'P', b'N', b'G', ..] => return Ok(Self::Png),
            [0xff, 0xd8, ..] => return Ok(Self::Jpeg),
            [] => "an empty file",
            [b'G', b'I', b'F', ..] => "a GIF; convert it to PNG",
            [b'B', b'M', ..] => "a BMP; convert it to PNG",
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "a WebP; convert it to PNG",
            [b'I', b'I', 42, 0, ..] | [b'M', b'M', 0, 42, ..] => "a TIFF; convert it to PNG",
            _ => "other bytes at the beginning",
        };
        Err(("a PNG or JPEG picture".into(), found.into()))
    }
}

fn check_size(height: usize, width: usize) -> Result<(), Wrong> {
    match height.checked_mul(width) {
        Some(1..=MOST_PIXELS) => Ok(()),
        Some(0) => Err(("a picture with pixels".into(), format!("a header that says {height} × {width}"))),
        _ => {
            let found = format!("a header that says {height} × {width} (height × width)");
            Err((format!("a picture of at most {MOST_PIXELS} pixels"), found))
        }
    }
}

fn png_error(error: png::DecodingError) -> Wrong {
    let found = match &error {
        png::DecodingError::IoError(cause) if cause.kind() == std::io::ErrorKind::UnexpectedEof => {
            "a truncated file".into()
        }
        error => format!("damage: {error}"),
    };
    ("a whole PNG picture".into(), found)
}

fn open_png(bytes: &[u8]) -> Result<png::Reader<Cursor<&[u8]>>, Wrong> {
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: MOST_BYTES });
    decoder.set_transformations(png::Transformations::EXPAND | png::Transformations::STRIP_16);
    let info = decoder.read_header_info().map_err(png_error)?;
    check_size(info.height as usize, info.width as usize)?;
    decoder.read_info().map_err(png_error)
}

fn decode_png(bytes: &[u8]) -> Result<Decoded, Wrong> {
    let mut reader = open_png(bytes)?;
    let (height, width) = (reader.info().height as usize, reader.info().width as usize);
    let samples = reader.output_color_type().0.samples();
    let mut pixels = vec![0; height * width * samples];
    if reader.output_buffer_size() != Some(pixels.len()) {
        return Err(("a PNG picture with 8 bits for each value".into(), "another output size".into()));
    }
    reader.next_frame(&mut pixels).map_err(png_error)?;
    // Damage or truncation after the pixels is damage, too.
    reader.finish().map_err(png_error)?;
    let channels = if samples < 3 { 1 } else { 3 };
    if samples.is_multiple_of(2) {
        pixels = over_white(&pixels, channels);
    }
    Ok(Decoded { channels, height, width, pixels })
}

/// Lays pixels whose last value is their opacity over white.
fn over_white(pixels: &[u8], channels: usize) -> Vec<u8> {
    let mut opaque = Vec::with_capacity(pixels.len() / (channels + 1) * channels);
    for pixel in pixels.chunks_exact(channels + 1) {
        let alpha = u32::from(pixel[channels]);
        let over = |&value: &u8| ((u32::from(value) * alpha + 255 * (255 - alpha) + 127) / 255) as u8;
        opaque.extend(pixel[..channels].iter().map(over));
    }
    opaque
}

fn jpeg_error(error: DecodeErrors) -> Wrong {
    let found = match error {
        DecodeErrors::ExhaustedData | DecodeErrors::IoErrors(_) => "a truncated file".into(),
        error => format!("damage: {error}"),
    };
    ("a whole JPEG picture".into(), found)
}

/// The decoder of a JPEG in memory.
type Jpeg<'a> = JpegDecoder<ZCursor<&'a [u8]>>;

fn open_jpeg(bytes: &[u8]) -> Result<(Jpeg<'_>, Header), Wrong> {
    // The size is checked below, with a message that names it. Without the strict mode damaged pictures are filled with grey.
    let options = DecoderOptions::default().set_strict_mode(true).set_max_height(usize::MAX).set_max_width(usize::MAX);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(jpeg_error)?;
    let info = decoder.info().ok_or_else(|| jpeg_error(DecodeErrors::ExhaustedData))?;
    let (height, width) = (usize::from(info.height), usize::from(info.width));
    check_size(height, width)?;
    let is_grey = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let colours = if is_grey { ColorSpace::Luma } else { ColorSpace::RGB };
    decoder.set_options(options.jpeg_set_out_colorspace(colours));
    Ok((decoder, Header { height, width, is_grey }))
}

fn decode_jpeg(bytes: &[u8]) -> Result<Decoded, Wrong> {
    let (mut decoder, Header { height, width, is_grey }) = open_jpeg(bytes)?;
    // The decoder does not miss the end of the last rows. Inside a scan, a marker is never part of the data.
    let last = |marker: [u8; 2]| bytes.windows(2).rposition(|pair| pair == marker);
    if last([0xff, 0xd9]) <= last([0xff, 0xda]) {
        return Err(jpeg_error(DecodeErrors::ExhaustedData));
    }
    let pixels = decoder.decode().map_err(jpeg_error)?;
    let channels = if is_grey { 1 } else { 3 };
    match pixels.len() == height * width * channels {
        true => Ok(Decoded { channels, height, width, pixels }),
        false => Err(("a grey or colour JPEG picture".into(), "another colour space".into())),
    }
}

impl Decoded {
    /// Hash of the picture in its own size. Without colours it is the same whether the file is in grey or in colour.
    pub(super) fn hash(&self) -> u64 {
        let is_coloured = |pixel: &[u8]| pixel.iter().any(|&value| value != pixel[0]);
        let has_colours = self.pixels.chunks_exact(self.channels).any(is_coloured);
        let channels = if has_colours { self.channels } else { 1 };
        let planes = (0..channels).flat_map(|channel| self.pixels.iter().skip(channel).step_by(self.channels).copied());
        hash_of(ImageSize { channels, height: self.height, width: self.width }, planes)
    }

    /// The picture in another size, grey or in colour.
    pub(super) fn fitted(self, size: ImageSize) -> Image {
        let coloured = self.with_channels(size.channels);
        let resized = resize::resize(coloured, size.height, size.width);
        let Decoded { channels, pixels, .. } = resized;
        let planes = (0..channels).flat_map(|channel| pixels.iter().skip(channel).step_by(channels).copied());
        Image { size, pixels: planes.collect() }
    }

    fn with_channels(self, channels: usize) -> Self {
        let pixels = match (self.channels, channels) {
            // Luma of ITU-R 601 in 16 fractional bits.
            (3, 1) => {
                let luma = |[r, g, b]: [u32; 3]| ((19_595 * r + 38_470 * g + 7_471 * b + (1 << 15)) >> 16) as u8;
                self.pixels.chunks_exact(3).map(|rgb| luma([rgb[0], rgb[1], rgb[2]].map(u32::from))).collect()
            }
            (1, 3) => self.pixels.iter().flat_map(|&grey| [grey; 3]).collect(),
            _ => self.pixels,
        };
        Self { channels, pixels, ..self }
    }
}
