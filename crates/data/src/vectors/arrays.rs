//! Vectors in arrays: `x.npy` holds the inputs and `y.npy` beside it the targets.

use super::names::{self, Role};
use super::npy::{self, Array, Element};
use super::{Target, Vectors, finite};
use crate::{DataError, Loaded};
use std::ops::Range;
use std::path::Path;

/// Reads inputs `[examples, steps, features]` or `[examples, features]`, which are one step each. Targets `[examples]` are one
/// for each example, `[examples, steps]` one for each step; integers and text are labels, floats are values.
pub(super) fn read(path: &Path) -> Result<Loaded<Vectors>, DataError> {
    if names::role(path) == Some(Role::Targets) {
        let expected = "an array of inputs, such as x.npy, with the targets beside it";
        return Err(DataError::format(path, expected, "the name of an array of targets"));
    }
    let x = npy::read(path)?;
    let (examples, steps, width) = match x.shape[..] {
        [examples, steps, width] => (examples, steps, width),
        [examples, width] => (examples, 1, width),
        _ => {
            let expected = "the shape [examples, steps, features] or [examples, features]";
            return Err(DataError::format(path, expected, format!("{:?}", x.shape)));
        }
    };
    let y = names::targets(path).map(|file| npy::read(&file)).transpose()?;
    if let Some(y) = &y
        && y.shape != [examples]
        && y.shape != [examples, steps]
    {
        let expected = format!("the shape [{examples}] or [{examples}, {steps}], to fit {}", path.display());
        return Err(DataError::format(&y.path, expected, format!("{:?}", y.shape)));
    }
    let size = steps * width;
    let example = |at: usize| {
        let features = numbers(&x, at * size..(at + 1) * size)?;
        let target = y.as_ref().map(|y| target(y, at, steps)).transpose()?;
        Ok(Vectors { features, width, target, split: None, line: None })
    };
    Ok(Loaded { examples: (0..examples).map(example).collect::<Result<_, _>>()?, notes: Vec::new() })
}

fn target(y: &Array, at: usize, steps: usize) -> Result<Target, DataError> {
    let each = y.shape.len() == 2;
    let range = if each { at * steps..(at + 1) * steps } else { at..at + 1 };
    if y.is_float() {
        let values = numbers(y, range)?;
        return Ok(if each { Target::Values(values) } else { Target::Value(values[0]) });
    }
    let mut labels = range.map(|index| label(y, index)).collect::<Result<Vec<_>, _>>()?;
    Ok(if each { Target::Labels(labels) } else { Target::Label(labels.remove(0)) })
}

fn label(y: &Array, index: usize) -> Result<String, DataError> {
    let label = match y.element(index) {
        Element::Whole(number) => number.to_string(),
        Element::Real(number) => number.to_string(),
        Element::Text(text) => text.trim().to_string(),
    };
    match label.is_empty() {
        true => Err(DataError::format(&y.path, format!("a label at {}", y.indices(index)), "an empty text")),
        false => Ok(label),
    }
}

fn numbers(array: &Array, range: Range<usize>) -> Result<Vec<f32>, DataError> {
    if array.is_text() {
        return Err(DataError::format(&array.path, "numbers", format!("text ({})", array.descr())));
    }
    let number = |index: usize| {
        let number = match array.element(index) {
            Element::Whole(number) => number as f64,
            Element::Real(number) => number,
            Element::Text(_) => f64::NAN,
        };
        finite(number).ok_or_else(|| {
            let expected = format!("a finite number below 3.4e38 at {}", array.indices(index));
            DataError::format(&array.path, expected, number.to_string())
        })
    };
    range.map(number).collect()
}
