//! Graphs with features and labels of their nodes: a folder with `nodes.tsv` and `edges.tsv`, each may be gzipped.
//!
//! `nodes.tsv` has a header with the columns `node`, `label`, `features` and perhaps `split`, in any order. The features of a node
//! are the numbers of those that it has, `3 17 40`, the same with values, `3:0.5 17:2`, or the values of all features,
//! `0.1,0,2.5`. The split is `train`, `dev` (or `val`), `test`, or `none` for a node that is only a neighbour; such a node needs no
//! label. `edges.tsv` has lines `from<TAB>to`, after an optional header.

use crate::error::{counted, excerpt, listed};
use crate::file::{TextFile, read_file};
use crate::folder::names_of;
use crate::header::is_named;
use crate::split::{fingerprint_of, split_given, split_one};
use crate::{DataError, Loaded, Split, Splits, hash};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Largest number of a feature: a larger one is a mistake that would cost gigabytes.
const MOST_FEATURES: usize = 1 << 24;
/// Names that the columns of `edges.tsv` may have in a header.
const EDGE_HEADERS: [[&str; 2]; 5] =
    [["a", "b"], ["from", "to"], ["source", "target"], ["u", "v"], ["citing", "cited"]];

/// A node of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Name by which edges and users refer to the node.
    pub name: String,
    /// Part that the file assigns to the node; `None` for a node that is only a neighbour, or if the file has no such column.
    pub split: Option<Split>,
    /// Label; `None` if unknown.
    pub label: Option<String>,
    /// Numbers and values of the features that are not zero, in rising order.
    pub features: Vec<(u32, f32)>,
}

/// A graph with features and labels of its nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeGraph {
    /// Nodes in the order of the file.
    pub nodes: Vec<Node>,
    /// Number of features, all of which have smaller numbers.
    pub width: usize,
    /// Edges `(from, to)` between nodes by their indices, in the order of the file.
    pub edges: Vec<(u32, u32)>,
    /// Whether the nodes have a column with their parts.
    has_splits: bool,
}

impl NodeGraph {
    /// Creates a graph whose nodes name their own parts.
    pub(crate) fn with_splits(nodes: Vec<Node>, width: usize, edges: Vec<(u32, u32)>) -> Self {
        Self { nodes, width, edges, has_splits: true }
    }

    /// The graph as the content of `nodes.tsv` and `edges.tsv`.
    pub fn to_files(&self) -> [(&'static str, String); 2] {
        let mut nodes = "node\tsplit\tlabel\tfeatures\n".to_string();
        for Node { name, split, label, features } in &self.nodes {
            let split = split.map_or("none".to_string(), |split| split.to_string());
            let feature = |&(number, value): &(u32, f32)| match value == 1.0 {
                true => number.to_string(),
                false => format!("{number}:{value}"),
            };
            let features: Vec<String> = features.iter().map(feature).collect();
            nodes += &format!("{name}\t{split}\t{}\t{}\n", label.as_deref().unwrap_or_default(), features.join(" "));
        }
        let mut edges = "from\tto\n".to_string();
        for &(from, to) in &self.edges {
            edges += &format!("{}\t{}\n", self.nodes[from as usize].name, self.nodes[to as usize].name);
        }
        [("nodes.tsv", nodes), ("edges.tsv", edges)]
    }

    /// The labelled nodes of each part, by their indices. Without a column for it, a hash of the name chooses the part. If dev or
    /// test has no node, it is taken from train in the same way.
    ///
    /// # Errors
    /// A part without nodes; `path` names the data in the message.
    pub fn splits(&self, path: &Path) -> Result<Splits<usize>, DataError> {
        let key = |&node: &usize| hash(self.nodes[node].name.as_bytes());
        let labelled = (0..self.nodes.len()).filter(|&node| self.nodes[node].label.is_some());
        let given = |node: usize| self.nodes[node].split;
        let splits = match self.has_splits {
            false => Ok(split_one(Loaded { examples: labelled.collect(), notes: Vec::new() }, None, key)),
            true => {
                let examples: Vec<usize> = labelled.filter(|&node| given(node).is_some()).collect();
                if !examples.iter().any(|&node| given(node) == Some(Split::Train)) {
                    let found = format!("none among {}", counted(self.nodes.len(), "node"));
                    return Err(DataError::format(path, "nodes with the split train to learn from", found));
                }
                split_given(
                    path,
                    Loaded { examples, notes: Vec::new() },
                    |&node| given(node).unwrap_or(Split::Train),
                    key,
                )
            }
        };
        let few = |split: Split, examples: usize| {
            let expected = format!("nodes with the split {split}, or enough labelled nodes to take them from");
            DataError::format(path, expected, format!("{} in all parts", counted(examples, "labelled node")))
        };
        let splits = splits.map_err(|error| match error {
            DataError::TooFew { split, examples, .. } => few(split, examples),
            other => other,
        })?;
        match Split::ALL.into_iter().find(|&split| splits.get(split).is_empty()) {
            Some(split) => Err(few(split, Split::ALL.map(|split| splits.get(split).len()).iter().sum())),
            None => Ok(splits),
        }
    }
}

/// Reads a graph from a folder with `nodes.tsv` and `edges.tsv`, or from the path of that `nodes.tsv`. With `width`, all features
/// must have smaller numbers; otherwise the largest number decides.
///
/// # Errors
/// A missing file or column; a node twice; a split that is not one; a node to learn from or to score without a label; features
/// that are not numbers or out of range; an edge to a missing node.
pub fn read_graph(path: &Path, width: Option<usize>) -> Result<NodeGraph, DataError> {
    let [nodes, edges] = files(path)?;
    let mut graph = read_nodes(&nodes, width)?;
    let places: HashMap<&str, u32> =
        graph.nodes.iter().enumerate().map(|(at, node)| (node.name.as_str(), at as u32)).collect();
    graph.edges = read_edges(&edges, &nodes, &places)?;
    Ok(graph)
}

/// Computes a hash of the files of a graph, so that a resumed run can refuse changed data.
///
/// # Errors
/// A missing file.
pub fn fingerprint_graph(path: &Path) -> Result<String, DataError> {
    let [nodes, edges] = files(path)?;
    fingerprint_of([("nodes", nodes), ("edges", edges)])
}

/// Finds `nodes.tsv` and `edges.tsv`.
fn files(path: &Path) -> Result<[PathBuf; 2], DataError> {
    if !path.exists() {
        return Err(DataError::Missing { path: path.to_path_buf() });
    }
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    let find = |name: &str| {
        let candidates = [format!("{name}.tsv"), format!("{name}.tsv.gz")].map(|name| folder.join(name));
        candidates.into_iter().find(|file| file.is_file())
    };
    let nodes = if path.is_dir() { find("nodes") } else { Some(path.to_path_buf()) };
    let edges = find("edges");
    let missing: Vec<&str> = [("nodes.tsv", &nodes), ("edges.tsv", &edges)]
        .iter()
        .filter(|(_, file)| file.is_none())
        .map(|(name, _)| *name)
        .collect();
    match (nodes, edges) {
        (Some(nodes), Some(edges)) => Ok([nodes, edges]),
        _ => Err(DataError::Folder {
            path: folder.to_path_buf(),
            expected: "a graph as nodes.tsv and edges.tsv, which may be gzipped".into(),
            found: format!("no {}", listed(&missing)),
        }),
    }
}

/// The places of the columns of `nodes.tsv`.
struct Columns {
    node: usize,
    label: usize,
    features: usize,
    split: Option<usize>,
    count: usize,
}

impl Columns {
    fn read(path: &Path, line: usize, header: &str) -> Result<Self, DataError> {
        let names: Vec<&str> = header.split('\t').collect();
        let place = |name: &str| names.iter().position(|found| is_named(found, name));
        let wanted = |name: &str| {
            place(name).ok_or_else(|| {
                let expected = "a header with the columns node, label, features and perhaps split, separated by tabs";
                DataError::line(path, line, expected, format!("no column {name} in {}", excerpt(header)))
            })
        };
        let split = place("split");
        Ok(Self {
            node: wanted("node")?,
            label: wanted("label")?,
            features: wanted("features")?,
            split,
            count: names.len(),
        })
    }
}

fn read_nodes(path: &Path, width: Option<usize>) -> Result<NodeGraph, DataError> {
    let file = read_file(path)?;
    let mut lines = file.lines().filter(|(_, text)| !text.trim().is_empty());
    let (first, header) = lines.next().unwrap_or((1, ""));
    let columns = Columns::read(path, first, header)?;
    let mut graph = NodeGraph { has_splits: columns.split.is_some(), ..NodeGraph::default() };
    let mut reader = FeatureReader { path, most: width.unwrap_or(MOST_FEATURES), given: width, dense: None, width: 0 };
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (line, text) in lines {
        let fields: Vec<&str> = text.split('\t').collect();
        // An editor may have removed the tab before features that are empty.
        let lacks_last = fields.len() + 1 == columns.count && columns.features + 1 == columns.count;
        if fields.len() != columns.count && !lacks_last {
            let expected = format!("{} as in the header", counted(columns.count, "column"));
            return Err(DataError::line(path, line, expected, format!("{} in {}", fields.len(), excerpt(text))));
        }
        let field = |at: usize| fields.get(at).map_or("", |field| field.trim());
        let name = field(columns.node);
        if name.is_empty() {
            return Err(DataError::line(path, line, "the name of a node", "an empty column"));
        }
        if let Some(before) = seen.insert(name, line) {
            let found = format!("{} again, after line {before}", excerpt(name));
            return Err(DataError::line(path, line, "each node once", found));
        }
        let split = columns.split.map(|at| read_split(path, line, field(at))).transpose()?.flatten();
        let label = Some(field(columns.label)).filter(|label| !label.is_empty()).map(str::to_string);
        if let (Some(split), None) = (split, &label) {
            let expected = format!("a label, because the node belongs to {split}");
            return Err(DataError::line(path, line, expected, "an empty column"));
        }
        let features = reader.read(line, field(columns.features))?;
        graph.nodes.push(Node { name: name.to_string(), split, label, features });
    }
    graph.width = width.unwrap_or(reader.width);
    if graph.nodes.is_empty() {
        return Err(DataError::Empty { path: path.to_path_buf(), expected: "a line for each node after the header" });
    }
    if graph.width == 0 {
        return Err(DataError::format(path, "nodes with features", "none with any"));
    }
    Ok(graph)
}

/// Reads the split of a node; `None` for a node that is only a neighbour.
fn read_split(path: &Path, line: usize, name: &str) -> Result<Option<Split>, DataError> {
    if ["none", "-", ""].contains(&name) {
        return Ok(None);
    }
    let found = Split::ALL.into_iter().find(|&split| names_of(split).contains(&name));
    found.map(Some).ok_or_else(|| DataError::line(path, line, "train, dev, test or none as the split", excerpt(name)))
}

/// Reads the features of one node after the other.
struct FeatureReader<'a> {
    path: &'a Path,
    /// Every number of a feature must be below this.
    most: usize,
    /// Number of features that the caller wants.
    given: Option<usize>,
    /// Line and length of the first list of all features, after which all nodes must have such lists.
    dense: Option<(usize, usize)>,
    /// One more than the largest number so far.
    width: usize,
}

impl FeatureReader<'_> {
    fn read(&mut self, line: usize, text: &str) -> Result<Vec<(u32, f32)>, DataError> {
        let features = if text.contains(',') { self.dense(line, text)? } else { self.sparse(line, text)? };
        self.width = self.width.max(features.last().map_or(0, |&(number, _)| number as usize + 1));
        Ok(features)
    }

    /// Reads `0.1,0,2.5`: the values of all features.
    fn dense(&mut self, line: usize, text: &str) -> Result<Vec<(u32, f32)>, DataError> {
        let values = text.split(',').map(|value| self.value(line, value)).collect::<Result<Vec<f32>, _>>()?;
        let (first, count) = *self.dense.get_or_insert((line, values.len()));
        if values.len() != count {
            let expected = format!("{} as in line {first}", counted(count, "feature"));
            return Err(self.wrong(line, expected, values.len().to_string()));
        }
        if let Some(most) = self.given.filter(|&most| most != count) {
            return Err(self.wrong(line, counted(most, "feature"), count.to_string()));
        }
        self.width = self.width.max(count);
        let numbered = (0u32..).zip(values);
        Ok(numbered.filter(|(_, value)| *value != 0.0).collect())
    }

    /// Reads `3 17:0.5`: numbers of features, with the value 1 or a given one.
    fn sparse(&self, line: usize, text: &str) -> Result<Vec<(u32, f32)>, DataError> {
        if let Some((first, count)) = self.dense.filter(|_| !text.is_empty()) {
            let expected = format!("{} separated by commas as in line {first}", counted(count, "value"));
            return Err(self.wrong(line, expected, excerpt(text)));
        }
        let mut features = Vec::new();
        for word in text.split_whitespace() {
            let (number, value) = word.split_once(':').unwrap_or((word, "1"));
            let Ok(index) = number.parse::<usize>() else {
                let expected =
                    "numbers of features like 3 17 40, perhaps with values like 3:0.5, or all values like 0.1,0,2";
                return Err(self.wrong(line, expected, excerpt(word)));
            };
            if index >= self.most {
                let expected = match self.given {
                    Some(most) => format!("a feature below {most}, the number of features"),
                    None => format!("a feature below {MOST_FEATURES}"),
                };
                return Err(self.wrong(line, expected, index.to_string()));
            }
            features.push((index as u32, self.value(line, value)?));
        }
        features.sort_by_key(|&(number, _)| number);
        if let Some(twice) = features.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(self.wrong(line, "each feature once", format!("{} twice", twice[0].0)));
        }
        features.retain(|&(_, value)| value != 0.0);
        Ok(features)
    }

    fn value(&self, line: usize, text: &str) -> Result<f32, DataError> {
        let value = text.trim().parse::<f32>().ok().filter(|value| value.is_finite());
        value.ok_or_else(|| self.wrong(line, "a finite number as the value of a feature", excerpt(text)))
    }

    fn wrong(&self, line: usize, expected: impl Into<String>, found: String) -> DataError {
        DataError::line(self.path, line, expected, found)
    }
}

fn read_edges(path: &Path, nodes: &Path, places: &HashMap<&str, u32>) -> Result<Vec<(u32, u32)>, DataError> {
    let file: TextFile = read_file(path)?;
    let mut edges = Vec::new();
    let lines = file.lines().filter(|(_, text)| !text.trim().is_empty());
    for (at, (line, text)) in lines.enumerate() {
        let fields: Vec<&str> = match text.contains('\t') {
            true => text.split('\t').map(str::trim).collect(),
            false => text.split_whitespace().collect(),
        };
        let [from, to] = fields[..] else {
            let found = format!("{} in {}", counted(fields.len(), "column"), excerpt(text));
            return Err(DataError::line(path, line, "from<TAB>to, two nodes", found));
        };
        let is_header = || EDGE_HEADERS.iter().any(|[a, b]| is_named(from, a) && is_named(to, b));
        let place = |name: &str| places.get(name).copied();
        match (place(from), place(to)) {
            (Some(from), Some(to)) => edges.push((from, to)),
            _ if at == 0 && is_header() => {}
            (found, _) => {
                let name = if found.is_some() { to } else { from };
                let file = nodes.file_name().unwrap_or_default().to_string_lossy();
                let found = format!("{}, which is not there", excerpt(name));
                return Err(DataError::line(path, line, format!("nodes of {file}"), found));
            }
        }
    }
    Ok(edges)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{gzip, write};
    use tempfile::{TempDir, tempdir};

    const NODES: &str = "node\tsplit\tlabel\tfeatures\n\
        x\ttrain\tred\t0 3\ny\tval\tblue\t1:0.5 2:-1\nz\ttest\tred\t\nlone\tnone\t\t4\nw\ttrain\tblue\t2\n";

    fn folder(nodes: &str, edges: &str) -> TempDir {
        let dir = tempdir().unwrap();
        write(&dir, "nodes.tsv", nodes.as_bytes());
        write(&dir, "edges.tsv", edges.as_bytes());
        dir
    }

    #[test]
    fn a_folder_is_read() {
        let dir = folder(NODES, "from\tto\nx\ty\ny\tz\n\nx\tx\n");
        let graph = read_graph(dir.path(), None).unwrap();
        assert_eq!((graph.nodes.len(), graph.width, &graph.edges[..]), (5, 5, &[(0, 1), (1, 2), (0, 0)][..]));
        assert_eq!(graph.nodes[1].features, [(1, 0.5), (2, -1.0)]);
        assert_eq!((&graph.nodes[3].label, graph.nodes[3].split), (&None, None));
        let splits = graph.splits(dir.path()).unwrap();
        assert_eq!((splits.train, splits.dev, splits.test), (vec![0, 4], vec![1], vec![2]));
        assert_eq!(read_graph(&dir.path().join("nodes.tsv"), Some(9)).unwrap().width, 9);

        let packed = tempdir().unwrap();
        write(&packed, "nodes.tsv.gz", &gzip(NODES.as_bytes()));
        write(&packed, "edges.tsv.gz", &gzip(b"x y\n"));
        assert_eq!(read_graph(packed.path(), None).unwrap().edges, [(0, 1)]);
        let first = fingerprint_graph(packed.path()).unwrap();
        write(&packed, "edges.tsv.gz", &gzip(b"x z\n"));
        assert_ne!(fingerprint_graph(packed.path()).unwrap(), first);
    }

    #[test]
    fn written_files_give_the_graph_back() {
        let dir = folder(NODES, "x\ty\ny\tz\n");
        let graph = read_graph(dir.path(), None).unwrap();
        for (name, content) in graph.to_files() {
            write(&dir, name, content.as_bytes());
        }
        assert_eq!(read_graph(dir.path(), None).unwrap(), graph);
    }

    #[test]
    fn all_values_may_be_listed() {
        let nodes = "label\tnode\tfeatures\nred\tx\t0.5,0,-2\nblue\ty\t0,0,1e-3\n";
        let graph = read_graph(folder(nodes, "x\ty\n").path(), None).unwrap();
        assert_eq!((graph.width, &graph.nodes[0].features[..]), (3, &[(0, 0.5), (2, -2.0)][..]));
    }

    #[test]
    fn nodes_without_a_split_are_split_by_a_hash() {
        let lines: String = (0..400).map(|at| format!("n{at}\tl{}\t{}\n", at % 3, at % 7)).collect();
        let graph = read_graph(folder(&format!("node\tlabel\tfeatures\n{lines}"), "n0\tn1\n").path(), None).unwrap();
        let splits = graph.splits(Path::new("x")).unwrap();
        let sizes = Split::ALL.map(|split| splits.get(split).len());
        assert_eq!(sizes.iter().sum::<usize>(), 400);
        assert!(sizes[0] > 320 && sizes[1] > 5 && sizes[2] > 5, "{sizes:?}");
    }

    #[test]
    fn mistakes_are_named_with_file_and_line() {
        let header = "node\tsplit\tlabel\tfeatures\n";
        for (nodes, edges, message) in [
            (NODES, "x\ty\nx\tq\n", "edges.tsv, line 2: expected nodes of nodes.tsv, found \"q\", which is not there"),
            (NODES, "x\n", "edges.tsv, line 1: expected from<TAB>to, two nodes, found 1 column in \"x\""),
            (NODES, "x\ty\t0.5\n", "line 1: expected from<TAB>to, two nodes, found 3 columns"),
            ("x\ttrain\tred\t0\n", "x\tx\n", "line 1: expected a header with the columns node, label, features"),
            (
                &format!("{header}x\ttrain\tr\t0\ny\tdev\tb\t1\nx\ttest\tr\t2\n"),
                "x\ty\n",
                "nodes.tsv, line 4: expected each node once, found \"x\" again, after line 2",
            ),
            (
                &format!("{header}x\ttrian\tr\t0\n"),
                "x\tx\n",
                "line 2: expected train, dev, test or none as the split, found \"trian\"",
            ),
            (
                &format!("{header}x\ttrain\tr\t0:nan\n"),
                "x\tx\n",
                "line 2: expected a finite number as the value of a feature, found \"nan\"",
            ),
            (&format!("{header}x\ttrain\tr\t1,inf\n"), "x\tx\n", "line 2: expected a finite number"),
            (
                &format!("{header}x\ttrain\tr\t1,2\ny\tdev\tr\t1,2,3\n"),
                "x\tx\n",
                "line 3: expected 2 features as in line 2, found 3",
            ),
            (
                &format!("{header}x\ttrain\tr\t1,2\ny\tdev\tr\t1\n"),
                "x\tx\n",
                "line 3: expected 2 values separated by commas",
            ),
            (
                &format!("{header}x\ttrain\tr\t99999999\n"),
                "x\tx\n",
                "line 2: expected a feature below 16777216, found 99999999",
            ),
            (&format!("{header}x\ttrain\tr\t-1\n"), "x\tx\n", "line 2: expected numbers of features"),
            (&format!("{header}x\ttrain\tr\t1 1\n"), "x\tx\n", "line 2: expected each feature once, found 1 twice"),
            (
                &format!("{header}x\ttrain\t\t1\n"),
                "x\tx\n",
                "line 2: expected a label, because the node belongs to train",
            ),
            (&format!("{header}\ttrain\tr\t1\n"), "x\tx\n", "line 2: expected the name of a node"),
            (&format!("{header}x\ttrain\n"), "x\tx\n", "line 2: expected 4 columns as in the header, found 2"),
            (header, "x\tx\n", "expected a line for each node after the header"),
            (&format!("{header}x\ttrain\tr\t\n"), "x\tx\n", "expected nodes with features"),
        ] {
            let error = read_graph(folder(nodes, edges).path(), None).unwrap_err().to_string();
            assert!(error.contains(message), "{nodes:?} {edges:?}: {error}");
        }
        let error = read_graph(folder(NODES, "x\ty\n").path(), Some(3)).unwrap_err().to_string();
        assert!(error.contains("line 2: expected a feature below 3, the number of features, found 3"), "{error}");
        let empty = tempdir().unwrap();
        let error = read_graph(empty.path(), None).unwrap_err().to_string();
        assert!(error.contains("found no nodes.tsv, edges.tsv"), "{error}");
        assert!(read_graph(&empty.path().join("gone"), None).unwrap_err().to_string().contains("no such file"));
    }

    #[test]
    fn a_part_without_nodes_is_refused() {
        let header = "node\tsplit\tlabel\tfeatures\n";
        let told = |nodes: &str| {
            let dir = folder(&format!("{header}{nodes}"), "x\tx\n");
            read_graph(dir.path(), None).unwrap().splits(dir.path()).unwrap_err().to_string()
        };
        assert!(told("x\tdev\tr\t1\ny\ttest\tb\t2\n").contains("expected nodes with the split train to learn from"));
        assert!(told("x\ttrain\tr\t1\n").contains("expected nodes with the split"));
    }
}
