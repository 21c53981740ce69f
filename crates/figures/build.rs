//! Compresses the fonts, half of whose bytes the program would carry for nothing.

use std::io::Write;
use std::path::Path;
use std::{env, fs};

use flate2::Compression;
use flate2::write::ZlibEncoder;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let folder = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    for (name, font) in [("sans", dejavu::sans::regular()), ("mono", dejavu::sans_mono::regular())] {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(font).expect("memory takes all bytes");
        let packed = encoder.finish().expect("memory takes all bytes");
        fs::write(Path::new(&folder).join(name), packed).expect("cargo's folder can be written to");
    }
}
