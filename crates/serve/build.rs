//! Compresses the files of the inspector's page and the description of the routes, which takes two thirds of their bytes away.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

use flate2::Compression;
use flate2::write::ZlibEncoder;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=page");
    println!("cargo::rerun-if-changed=src/openapi.json");
    let target = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let page = fs::read_dir("page").expect("the folder of the page is there");
    let files = page.map(|file| file.expect("the folder can be read").path());
    for path in files.chain([PathBuf::from("src/openapi.json")]) {
        let content = fs::read(&path).expect("the file can be read");
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&content).expect("memory takes all bytes");
        let packed = encoder.finish().expect("memory takes all bytes");
        let name = path.file_name().expect("a file has a name");
        fs::write(Path::new(&target).join(name), packed).expect("cargo's folder can be written to");
    }
}
