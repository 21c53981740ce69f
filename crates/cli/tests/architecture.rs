//! Checks `ARCHITECTURE.md`: it describes every crate, its links exist, and dependencies only go down.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Each crate, lowest first, with the crates of this workspace that it may use.
const ALLOWED: [(&str, &[&str]); 10] = [
    ("regard-system", &[]),
    ("regard-figures", &["regard-system"]),
    ("regard-kernels", &[]),
    ("regard-ops", &["regard-kernels"]),
    ("regard-nn", &["regard-kernels", "regard-ops"]),
    ("regard-inspect", &["regard-system", "regard-figures", "regard-kernels", "regard-ops", "regard-nn"]),
    ("regard-data", &[]),
    (
        "regard-tasks",
        &[
            "regard-system",
            "regard-figures",
            "regard-kernels",
            "regard-ops",
            "regard-nn",
            "regard-inspect",
            "regard-data",
        ],
    ),
    ("regard-theory", &["regard-system", "regard-figures"]),
    (
        "regard",
        &[
            "regard-system",
            "regard-figures",
            "regard-kernels",
            "regard-ops",
            "regard-nn",
            "regard-inspect",
            "regard-data",
            "regard-tasks",
            "regard-theory",
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document() -> String {
    std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap()
}

fn packages() -> Vec<serde_json::Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

#[test]
fn dependencies_only_go_down() {
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        let allowed = ALLOWED.iter().find(|a| a.0 == name).unwrap_or_else(|| panic!("{name} is missing in ALLOWED")).1;
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = dependency["name"].as_str().unwrap();
            let ours = ALLOWED.iter().any(|a| a.0 == used);
            assert!(!ours || allowed.contains(&used), "{name} must not use {used}");
        }
    }
}

#[test]
fn every_crate_is_described() {
    let document = document();
    for package in packages() {
        let name = package["name"].as_str().unwrap();
        assert!(document.contains(&format!("[`{name}`](")), "ARCHITECTURE.md does not describe {name}");
    }
}

#[test]
fn every_link_exists() {
    for file in ["ARCHITECTURE.md", "README.md"] {
        let text = std::fs::read_to_string(root().join(file)).unwrap();
        let mut links = 0;
        for rest in text.split("](").skip(1) {
            let target = rest.split([')', '#']).next().unwrap();
            if target.is_empty() || target.starts_with("http") {
                continue;
            }
            links += 1;
            assert!(root().join(target).exists(), "{file} links to {target}, which does not exist");
        }
        assert!(links > 0, "{file} has no links");
    }
}
