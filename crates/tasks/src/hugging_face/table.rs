//! The table of a family: which tensors of a checkpoint make up which parameter of our model. The same table loads and exports.

use std::collections::BTreeSet;

use regard_nn::layers::linear::Bias;

use super::store::Store;
use crate::error::TaskError;

/// How the values of a tensor are ordered in our parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// In the same order.
    Same,
    /// Transposed: `[d_out, d_in]`, or `[d_out, …]` with the rest as one axis, is our `[d_in, d_out]`.
    Transposed,
}

/// A tensor of the checkpoint that is a part of one of our parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    pub name: String,
    pub shape: Vec<usize>,
    pub layout: Layout,
}

impl Piece {
    /// Returns the rows and columns that the tensor has in our parameter.
    pub fn matrix(&self) -> [usize; 2] {
        let all: usize = self.shape.iter().product();
        match self.layout {
            Layout::Same => {
                let columns = self.shape.last().copied().unwrap_or(1);
                [all.checked_div(columns).unwrap_or(0), columns]
            }
            Layout::Transposed => {
                let columns = self.shape.first().copied().unwrap_or(1);
                [all.checked_div(columns).unwrap_or(0), columns]
            }
        }
    }
}

/// A parameter of our model and the tensors that make it up, side by side along its last axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub ours: String,
    pub pieces: Vec<Piece>,
}

/// A parameter that a formula gives, such as fixed positions.
pub(super) struct Computed {
    pub ours: String,
    pub values: Box<dyn Fn() -> Vec<f32> + Send + Sync>,
}

/// The table of one checkpoint.
#[derive(Default)]
pub(super) struct Table {
    pub entries: Vec<Entry>,
    /// Parameters that are computed, not stored.
    pub computed: Vec<Computed>,
    /// Tensors that may be stored although they repeat another: the name, and the name of the other.
    pub ties: Vec<(String, String)>,
    /// Tensors that the model does not use: masks and numbers that are computed, and heads for other tasks.
    pub unused: Vec<String>,
}

/// Builds the table of a checkpoint.
pub(super) struct Builder<'a> {
    source: Source<'a>,
    table: Table,
}

/// Where the tensors of a table come from.
enum Source<'a> {
    /// The files of a checkpoint, whose names the table follows.
    Store(&'a Store),
    /// A network that will be written as a new checkpoint: names are those of today's `transformers`. The names of the tensors of
    /// the checkpoint that the network began with decide about optional parts.
    New(&'a BTreeSet<String>),
}

impl<'a> Builder<'a> {
    pub fn new(store: &'a Store) -> Self {
        Self { source: Source::Store(store), table: Table::default() }
    }

    /// Creates the table of a checkpoint that will be written.
    pub fn to_write(origin: &'a BTreeSet<String>) -> Self {
        Self { source: Source::New(origin), table: Table::default() }
    }

    /// Returns whether the checkpoint will be written.
    pub fn is_new(&self) -> bool {
        matches!(self.source, Source::New(_))
    }

    /// Returns whether the checkpoint has a tensor.
    pub fn has(&self, name: &str) -> bool {
        match self.source {
            Source::Store(store) => store.tensors().contains_key(name),
            Source::New(origin) => origin.contains(name),
        }
    }

    /// Adds a parameter that is one tensor in the same order.
    pub fn same(&mut self, ours: impl Into<String>, theirs: impl Into<String>, shape: &[usize]) {
        self.add(ours, vec![Piece { name: theirs.into(), shape: shape.to_vec(), layout: Layout::Same }]);
    }

    /// Adds a parameter that is one tensor, transposed.
    pub fn transposed(&mut self, ours: impl Into<String>, theirs: impl Into<String>, shape: &[usize]) {
        self.add(ours, vec![Piece { name: theirs.into(), shape: shape.to_vec(), layout: Layout::Transposed }]);
    }

    /// Adds a linear layer `[d_in, d_out]` that PyTorch stores as `[d_out, d_in]`.
    pub fn linear(&mut self, ours: &str, theirs: &str, sizes: [usize; 2], bias: Bias) {
        let [d_in, d_out] = sizes;
        self.side_by_side(ours, &[(theirs.to_string(), d_out)], d_in, bias);
    }

    /// Adds a linear layer whose columns are several layers of the checkpoint, each with its number of outputs.
    pub fn side_by_side(&mut self, ours: &str, theirs: &[(String, usize)], d_in: usize, bias: Bias) {
        let weight = |(name, d_out): &(String, usize)| Piece {
            name: format!("{name}.weight"),
            shape: vec![*d_out, d_in],
            layout: Layout::Transposed,
        };
        self.add(format!("{ours}.weight"), theirs.iter().map(weight).collect());
        if bias == Bias::Learned {
            let bias = |(name, d_out): &(String, usize)| Piece {
                name: format!("{name}.bias"),
                shape: vec![*d_out],
                layout: Layout::Same,
            };
            self.add(format!("{ours}.bias"), theirs.iter().map(bias).collect());
        }
    }

    /// Adds a norm over `width` features. Old checkpoints call weight and bias `gamma` and `beta`.
    pub fn norm(&mut self, ours: &str, theirs: &str, width: usize, bias: Bias) {
        let name = |new: &str, old: &str| {
            let old = format!("{theirs}.{old}");
            if !self.is_new() && self.has(&old) { old } else { format!("{theirs}.{new}") }
        };
        let (weight, shift) = (name("weight", "gamma"), name("bias", "beta"));
        self.same(format!("{ours}.weight"), weight, &[width]);
        if bias == Bias::Learned {
            self.same(format!("{ours}.bias"), shift, &[width]);
        }
    }

    /// Adds a parameter that `values` computes.
    pub fn computed(&mut self, ours: impl Into<String>, values: impl Fn() -> Vec<f32> + Send + Sync + 'static) {
        self.table.computed.push(Computed { ours: ours.into(), values: Box::new(values) });
    }

    /// Says that the checkpoint may also store `name`, which must equal `other`.
    pub fn tied(&mut self, name: impl Into<String>, other: impl Into<String>) {
        let name = name.into();
        if !self.is_new() && self.has(&name) {
            self.table.ties.push((name, other.into()));
        }
    }

    /// Says that the model does not use the tensors that `is_unused` selects.
    pub fn unused(&mut self, is_unused: impl Fn(&str) -> bool) {
        if let Source::Store(store) = self.source {
            self.table.unused.extend(store.tensors().keys().filter(|name| is_unused(name)).cloned());
        }
    }

    /// Returns the table, or an error if the checkpoint has other tensors, other shapes or other types than the model needs.
    pub fn finish(self) -> Result<Table, TaskError> {
        let Self { source, table } = self;
        let Source::Store(store) = source else { return Ok(table) };
        let refuse = |problem: String| Err(TaskError::folder(store.path(), problem));
        let mut used: BTreeSet<&str> = table.unused.iter().map(String::as_str).collect();
        for piece in table.entries.iter().flat_map(|entry| &entry.pieces) {
            used.insert(&piece.name);
            let Some(info) = store.tensors().get(&piece.name) else {
                return refuse(format!("{} is missing, expected with shape {:?}", piece.name, piece.shape));
            };
            if info.shape != piece.shape {
                let (found, expected) = (&info.shape, &piece.shape);
                return refuse(format!("{} has shape {found:?}, expected {expected:?} by config.json", piece.name));
            }
            if info.float().is_none() {
                return refuse(format!("{} has element type {}, expected F32, F16 or BF16", piece.name, info.dtype));
            }
        }
        for (name, other) in &table.ties {
            used.insert(name);
            let shapes = [name, other].map(|name| store.tensors().get(name).map(|info| (&info.shape, &info.dtype)));
            if shapes[0] != shapes[1] {
                return refuse(format!("{name} should repeat {other}, but has another shape or type"));
            }
        }
        if let Some((name, info)) = store.tensors().iter().find(|(name, _)| !used.contains(name.as_str())) {
            let problem =
                format!("{name} with shape {:?} is no part of the model that config.json describes", info.shape);
            return refuse(problem);
        }
        Ok(table)
    }

    fn add(&mut self, ours: impl Into<String>, pieces: Vec<Piece>) {
        self.table.entries.push(Entry { ours: ours.into(), pieces });
    }
}

impl Entry {
    /// Reads the values of our parameter.
    pub fn read(&self, store: &Store) -> Result<Vec<f32>, TaskError> {
        if let [Piece { name, layout: Layout::Same, .. }] = self.pieces.as_slice() {
            return store.read(name);
        }
        let columns: usize = self.pieces.iter().map(|piece| piece.matrix()[1]).sum();
        let rows = self.pieces.first().map_or(0, |piece| piece.matrix()[0]);
        let mut values = vec![0.0; rows * columns];
        let mut first = 0;
        for piece in &self.pieces {
            // Each piece of the file goes to its place at once: there is never a second copy of the whole tensor.
            store.read_rows(&piece.name, piece.row(), |row, found| {
                piece.visit(row, found.len(), |theirs, row, column| {
                    values[row * columns + first + column] = found[theirs]
                });
            })?;
            first += piece.matrix()[1];
        }
        Ok(values)
    }

    /// Returns the values of the tensor with index `at` among the pieces, from those of our parameter.
    pub fn piece(&self, at: usize, values: &[f32]) -> Vec<f32> {
        let columns: usize = self.pieces.iter().map(|piece| piece.matrix()[1]).sum();
        let first: usize = self.pieces[..at].iter().map(|piece| piece.matrix()[1]).sum();
        let piece = &self.pieces[at];
        let mut found = vec![0.0; piece.shape.iter().product()];
        piece.visit(0, found.len(), |theirs, row, column| found[theirs] = values[row * columns + first + column]);
        found
    }
}

impl Piece {
    /// Returns the number of values in a row of the tensor, which is a row or a column of our parameter.
    fn row(&self) -> usize {
        let [rows, columns] = self.matrix();
        match self.layout {
            Layout::Same => columns,
            Layout::Transposed => rows,
        }
    }

    /// Calls `with` for each of `count` values from the row `first` of the tensor: its index among them, and its row and column in our
    /// parameter. Goes through blocks, so that neither side of a transposition skips through memory.
    fn visit(&self, first: usize, count: usize, mut with: impl FnMut(usize, usize, usize)) {
        const BLOCK: usize = 32;
        let width = self.row();
        let height = count.checked_div(width).unwrap_or(0);
        for block_row in (0..height).step_by(BLOCK) {
            for block_column in (0..width).step_by(BLOCK) {
                for row in block_row..(block_row + BLOCK).min(height) {
                    for column in block_column..(block_column + BLOCK).min(width) {
                        let (theirs, row) = (row * width + column, first + row);
                        match self.layout {
                            Layout::Same => with(theirs, row, column),
                            Layout::Transposed => with(theirs, column, row),
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use safetensors::Dtype;
    use safetensors::tensor::TensorView;

    use super::*;

    #[test]
    fn large_tensors_come_to_their_places_in_pieces() {
        // Several pieces each, which are no multiple of the rows. All values are exact in bf16.
        let shapes = [[700, 301], [450, 301]];
        let values =
            shapes.map(|[height, width]| (0..height * width).map(|at| (at % 251) as f32).collect::<Vec<f32>>());
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("model.safetensors");
        for (dtype, bytes) in [(Dtype::F32, 4), (Dtype::BF16, 2)] {
            let stored = values
                .each_ref()
                .map(|all| all.iter().flat_map(|value| value.to_le_bytes()[4 - bytes..].to_vec()).collect::<Vec<u8>>());
            let view = |at: usize| TensorView::new(dtype, shapes[at].to_vec(), &stored[at]).unwrap();
            let views = [("a", view(0)), ("b", view(1)), ("again", view(0))];
            std::fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
            let store = Store::single(&path).unwrap();
            let piece = |name: &str, at: usize, layout| Piece { name: name.into(), shape: shapes[at].to_vec(), layout };
            let turned = [piece("a", 0, Layout::Transposed), piece("b", 1, Layout::Transposed)];
            let entry = Entry { ours: "ours".into(), pieces: turned.to_vec() };
            let found = entry.read(&store).unwrap();
            for (row, found) in found.chunks_exact(1150).enumerate() {
                for (column, found) in found.iter().enumerate() {
                    let (at, column) = if column < 700 { (0, column) } else { (1, column - 700) };
                    assert_eq!(*found, values[at][column * 301 + row], "{dtype:?} {row} {column}");
                }
            }
            assert!(entry.piece(0, &found) == values[0] && entry.piece(1, &found) == values[1]);
            let same = Entry { ours: "ours".into(), pieces: vec![piece("b", 1, Layout::Same)] };
            assert!(same.read(&store).unwrap() == values[1]);
            assert!(store.are_equal("a", "again").unwrap() && !store.are_equal("a", "b").unwrap());
        }
        let mut other = values[0].clone();
        *other.last_mut().unwrap() += 1.0;
        let stored = [&values[0], &other].map(|all| all.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
        let view = |at: usize| TensorView::new(Dtype::F32, shapes[0].to_vec(), &stored[at]).unwrap();
        std::fs::write(&path, safetensors::serialize([("a", view(0)), ("b", view(1))], None).unwrap()).unwrap();
        assert!(!Store::single(&path).unwrap().are_equal("a", "b").unwrap(), "only the last value differs");
    }
}
