//! Checks `ARCHITECTURE.md`: it describes every crate, its links and those of other documents exist, and dependencies only go down.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Each crate, lowest first, with the crates of this workspace that it may use, all named without `regard-`.
const ALLOWED: [(&str, &str); 11] = [
    ("system", ""),
    ("figures", "system"),
    ("kernels", ""),
    ("ops", "kernels"),
    ("nn", "kernels ops"),
    ("inspect", "system figures kernels ops nn"),
    ("data", ""),
    ("tasks", "system figures kernels ops nn inspect data"),
    ("theory", "system figures"),
    ("serve", "nn inspect data tasks theory"),
    ("regard", "system figures kernels ops nn inspect data tasks serve theory"),
];
/// The crates that must not use Burn.
const WITHOUT_BURN: [&str; 5] = ["system", "figures", "kernels", "data", "theory"];

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
    let short = |name: &str| name.strip_prefix("regard-").unwrap_or(name).to_string();
    for package in packages() {
        let name = short(package["name"].as_str().unwrap());
        let allowed = ALLOWED.iter().find(|a| a.0 == name).unwrap_or_else(|| panic!("{name} is missing in ALLOWED")).1;
        for dependency in package["dependencies"].as_array().unwrap() {
            let used = short(dependency["name"].as_str().unwrap());
            let ours = ALLOWED.iter().any(|a| a.0 == used);
            assert!(!ours || allowed.split(' ').any(|allowed| allowed == used), "{name} must not use {used}");
            assert!(!WITHOUT_BURN.contains(&name.as_str()) || !used.starts_with("burn"), "{name} must not use Burn");
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
    let documents = [
        "ARCHITECTURE.md",
        "README.md",
        "docs/in-context-learning.md",
        "docs/results.md",
        "docs/scale.md",
        "docs/serving.md",
        "docs/sources.md",
    ];
    for file in documents {
        let path = root().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut links = 0;
        for rest in text.split("](").skip(1) {
            let target = rest.split([')', '#']).next().unwrap();
            if target.is_empty() || target.starts_with("http") {
                continue;
            }
            links += 1;
            assert!(path.with_file_name(target).exists(), "{file} links to {target}, which does not exist");
        }
        assert!(links > 0, "{file} has no links");
    }
}
