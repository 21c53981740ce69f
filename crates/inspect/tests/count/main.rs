//! Tests of counting against built models, PyTorch's modules, published totals and plain counting.

mod built;
mod describe;
mod operations;
mod published;
mod pytorch;
mod stored;

use regard_inspect::count::{Count, Description, Part, count};

fn counted(description: &Description) -> Count {
    count(description).unwrap()
}

/// Returns the number of parameters of the part at a path.
fn parameters(count: &Count, path: &[&str]) -> u128 {
    part(count, path).total.parameters
}

fn part<'a>(count: &'a Count, path: &[&str]) -> &'a Part {
    count.model.at(path).unwrap_or_else(|| panic!("no part {path:?}"))
}
