//! Writes files for the tests of the readers.

use crate::{Image, ImageSize};
use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use std::path::PathBuf;
use tempfile::TempDir;

pub(crate) fn write(dir: &TempDir, name: &str, content: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// A grey PNG picture of one brightness.
pub(crate) fn png(height: usize, width: usize, brightness: u8) -> Vec<u8> {
    let size = ImageSize { channels: 1, height, width };
    Image { size, pixels: vec![brightness; size.values()] }.to_png()
}
