//! Files that the build script has compressed into the program.

use std::io::Read;

use flate2::read::ZlibDecoder;

/// Embeds a file by its name.
macro_rules! packed {
    ($name:literal) => {
        $crate::packed::Packed(include_bytes!(concat!(env!("OUT_DIR"), "/", $name)))
    };
}
pub(crate) use packed;

/// A compressed file.
#[derive(Clone, Copy)]
pub struct Packed(pub &'static [u8]);

impl Packed {
    /// Returns the content of the file, a text.
    pub fn text(self) -> String {
        let mut text = String::new();
        ZlibDecoder::new(self.0).read_to_string(&mut text).expect("the build script has packed a text");
        text
    }
}
