//! Vectors in a long CSV or TSV: each row is one vector of the example that its `id` names.

use super::series::WithoutId;
use super::{Target, TargetKind, Vectors};
use crate::columns::{Row, Rows, Separator};
use crate::error::{excerpt, listed};
use crate::file::TextFile;
use crate::header::{check_width, is_named, place};
use crate::{DataError, Loaded, Split};
use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;

/// Places of the columns.
struct Columns {
    /// None if all rows are one series.
    id: Option<usize>,
    step: Option<usize>,
    split: Option<usize>,
    target: Option<(usize, TargetKind)>,
    /// Place and name of each feature.
    features: Vec<(usize, String)>,
    /// Number of fields in every row.
    width: usize,
}

/// The rows of one example.
struct Example {
    id: String,
    split: Option<Split>,
    rows: Vec<Step>,
}

/// A row: one vector.
struct Step {
    line: usize,
    /// Value of the column `step`; 0 without one.
    at: f64,
    features: Vec<f32>,
    target: Option<Target>,
}

pub(super) fn read(file: &TextFile, without_id: WithoutId) -> Result<Loaded<Vectors>, DataError> {
    let (path, separator) = (file.path(), Separator::of(file));
    let mut rows = Rows::of(file, separator);
    let Some(header) = rows.next().transpose()? else { return Ok(Loaded::default()) };
    let columns = Columns::find(path, &header, without_id)?;
    let mut examples: Vec<Example> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for row in rows {
        let row = row?;
        check_width(path, &row, columns.width, separator)?;
        let id = columns.id.map_or(Ok(""), |at| columns.text(path, &row, at, "id"))?;
        let step = columns.step(path, &row)?;
        let split = columns.split(path, &row)?;
        let Some(&at) = places.get(id) else {
            places.insert(id.to_string(), examples.len());
            examples.push(Example { id: id.to_string(), split, rows: vec![step] });
            continue;
        };
        if columns.step.is_none() && at + 1 != examples.len() {
            let line = examples[at].rows[examples[at].rows.len() - 1].line;
            let expected = format!("the rows of id {} together, since there is no column step", excerpt(id));
            return Err(DataError::line(path, row.line, expected, format!("one that does not follow line {line}")));
        }
        examples[at].add(path, step, split)?;
    }
    let examples = examples.into_iter().map(|example| example.finish(path, &columns)).collect::<Result<_, _>>()?;
    Ok(Loaded { examples, notes: Vec::new() })
}

impl Columns {
    fn find(path: &Path, header: &Row, without_id: WithoutId) -> Result<Self, DataError> {
        let fail = |expected: &str, found: String| Err(DataError::line(path, header.line, expected, found));
        let names: Vec<&str> = header.fields.iter().map(|field| field.trim()).collect();
        if let Some(at) = names.iter().position(|name| name.is_empty()) {
            let found = format!("none for column {}; pandas leaves out its index with index=False", at + 1);
            return fail("a name for each column in the header", found);
        }
        let mut targets = Vec::new();
        for kind in TargetKind::ALL {
            targets.extend(place(path, header, kind.name())?.map(|at| (at, kind)));
        }
        let target = match targets[..] {
            [] => None,
            [one] => Some(one),
            _ => return fail("only one of label, labels, value, values in the header", listed(&names)),
        };
        let id = place(path, header, "id")?;
        if id.is_none() && without_id == WithoutId::Refused {
            let found = format!("{}; rows with the same id are the vectors of one example", listed(&names));
            return fail("a header with id", found);
        }
        let (step, split) = (place(path, header, "step")?, place(path, header, "split")?);
        let others = [id, step, split, target.map(|(at, _)| at)];
        let features: Vec<(usize, String)> =
            (0..names.len()).filter(|&at| !others.contains(&Some(at))).map(|at| (at, names[at].to_string())).collect();
        if features.is_empty() {
            return fail("a header with at least one column of features", listed(&names));
        }
        Ok(Self { id, step, split, target, features, width: names.len() })
    }

    /// The text of a field, which must not be empty.
    fn text<'a>(&self, path: &Path, row: &'a Row, at: usize, name: &str) -> Result<&'a str, DataError> {
        match row.fields[at].trim() {
            "" => Err(DataError::line(path, row.line, format!("text in column {name}"), "an empty field")),
            text => Ok(text),
        }
    }

    fn split(&self, path: &Path, row: &Row) -> Result<Option<Split>, DataError> {
        let Some(at) = self.split else { return Ok(None) };
        let text = self.text(path, row, at, "split")?;
        let split = Split::ALL.into_iter().find(|split| is_named(text, &split.to_string()));
        let error = || DataError::line(path, row.line, "train, dev or test in column split", excerpt(text));
        split.ok_or_else(error).map(Some)
    }

    fn step(&self, path: &Path, row: &Row) -> Result<Step, DataError> {
        let at = match self.step {
            Some(at) => number::<f64>(path, row, at, "step")?,
            None => 0.0,
        };
        let features = self.features.iter().map(|(at, name)| number(path, row, *at, name)).collect::<Result<_, _>>()?;
        let target = match self.target {
            None => None,
            Some((at, kind @ (TargetKind::Label | TargetKind::Labels))) => {
                Some(Target::Label(self.text(path, row, at, kind.name())?.to_string()))
            }
            Some((at, kind)) => Some(Target::Value(number(path, row, at, kind.name())?)),
        };
        Ok(Step { line: row.line, at, features, target })
    }
}

/// Reads a number of type `f32`, or `f64` for steps: a time in milliseconds has more digits than `f32`.
fn number<T: FromStr + Copy + Into<f64>>(path: &Path, row: &Row, at: usize, name: &str) -> Result<T, DataError> {
    let text = row.fields[at].trim();
    text.parse::<T>().ok().filter(|&number| number.into().is_finite()).ok_or_else(|| {
        let found = match text {
            "" => "an empty field".to_string(),
            _ if text.replace(',', ".").parse::<f32>().is_ok_and(f32::is_finite) => {
                format!("{}; write it with a point", excerpt(text))
            }
            _ => excerpt(text),
        };
        DataError::line(path, row.line, format!("a finite number in column {name}"), found)
    })
}

impl Example {
    /// Adds a row, which must be in the same part.
    fn add(&mut self, path: &Path, step: Step, split: Option<Split>) -> Result<(), DataError> {
        if let (Some(first), Some(split)) = (self.split, split)
            && first != split
        {
            let expected = format!("split {first} as in line {}, which has the same id", self.rows[0].line);
            return Err(DataError::line(path, step.line, expected, split.to_string()));
        }
        self.rows.push(step);
        Ok(())
    }

    /// Sorts the rows and joins them.
    fn finish(mut self, path: &Path, columns: &Columns) -> Result<Vectors, DataError> {
        let line = self.rows[0].line;
        if let Some((_, kind @ (TargetKind::Label | TargetKind::Value))) = columns.target {
            let first = &self.rows[0];
            if let Some(other) = self.rows.iter().find(|row| row.target != first.target) {
                let expected = format!("the {} of line {line}, which has the same id", kind.name());
                let found = format!("another; call the column {}s if each row has its own", kind.name());
                return Err(DataError::line(path, other.line, expected, found));
            }
        }
        if columns.step.is_some() {
            self.rows.sort_by(|a, b| a.at.total_cmp(&b.at));
            if let Some(pair) = self.rows.windows(2).find(|pair| pair[0].at == pair[1].at) {
                let expected = format!("each step of id {} once", excerpt(&self.id));
                let found = format!("step {} on line {}, too", pair[1].at, pair[0].line);
                return Err(DataError::line(path, pair[1].line, expected, found));
            }
        }
        let width = columns.features.len();
        let mut features = Vec::with_capacity(self.rows.len() * width);
        let (mut labels, mut values) = (Vec::new(), Vec::new());
        for row in self.rows {
            features.extend(row.features);
            match row.target {
                Some(Target::Label(label)) => labels.push(label),
                Some(Target::Value(value)) => values.push(value),
                _ => (),
            }
        }
        let target = columns.target.and_then(|(_, kind)| match kind {
            TargetKind::Label => labels.pop().map(Target::Label),
            TargetKind::Value => values.pop().map(Target::Value),
            TargetKind::Labels => Some(Target::Labels(labels)),
            TargetKind::Values => Some(Target::Values(values)),
        });
        Ok(Vectors { features, width, target, split: self.split, line: Some(line) })
    }
}
