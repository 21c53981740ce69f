//! Classification of the nodes of a graph: a label for each node, from its features and from those of the nodes around it.
//!
//! A graph is one example with many answers. By default a step sees the whole graph and learns from all training nodes at once;
//! with `data.neighbours` it sees a few drawn neighbours of some training nodes, for graphs whose activations do not fit in memory.
//! Scores are always computed on the whole graph.

mod block;
mod choice;
mod config;
mod picture;
#[cfg(test)]
mod tests;
mod weights;
mod whole;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use burn::tensor::Device;
use regard_data::{NodeGraph, Split, Splits, Vocabulary, batches, excerpt, listed, read_graph};
use regard_inspect::count::{Architecture, Description, GraphModel, Sizes};
use regard_nn::models::graph::{GraphClassifier, GraphClassifierConfig, GraphNetworkConfig, NodeBatch};
use regard_nn::models::target;
use regard_nn::{AttentionKind, Init, LayerPath, Pass, Site};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::block::Block;
pub use self::config::Config;
use self::picture::Neighbourhood;
use self::whole::{Source, Whole};
use crate::answers::{Answer, Answers, TargetKind};
use crate::auto::{Choice, Facts};
use crate::error::TaskError;
use crate::folder::Files;
use crate::input::{Given, InputKind};
use crate::notes;
use crate::rows::{device_of, spread};
use crate::survey::{RawExample, RawInput};
use crate::task::{Evaluation, Legend, Loss, Parts, Prediction, Sample, Task};

/// File with what the model knows about its graph.
const FILE: &str = "graph.json";
/// Largest number of nodes whose neighbourhoods are computed together.
const TOGETHER: usize = 64;

/// What the model knows about its graph beside the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    /// Number of features of a node.
    features: usize,
}

/// A node of the model's graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    node: usize,
}

/// The nodes of a split, and the graph that they are in.
#[derive(Debug)]
pub struct Part {
    whole: Arc<Whole>,
    /// What the network runs on.
    batch: NodeBatch,
    /// Nodes of the split.
    nodes: Vec<usize>,
    answers: Vec<Answer>,
    /// Labels that the training split does not have.
    unseen: Vec<String>,
}

/// The task of the nodes of a graph; see the [module](self).
#[derive(Debug)]
pub struct Nodes {
    config: Config,
    answers: Answers,
    known: Known,
    /// The graph of the run, once it is read.
    source: OnceLock<Source>,
    /// Stream of the random numbers that draw neighbours.
    drawing: LayerPath,
}

impl Nodes {
    fn new(config: Config, answers: Answers, known: Known) -> Self {
        let drawing = Init::for_weights(&Device::flex()).enter("neighbours").path();
        Self { config, answers, known, source: OnceLock::new(), drawing }
    }

    /// Returns the graph of the run, which is read once.
    fn source(&self) -> Result<&Source, TaskError> {
        if let Some(source) = self.source.get() {
            return Ok(source);
        }
        let read = Source::load(&self.config, Some(self.known.features))?;
        Ok(self.source.get_or_init(|| read))
    }

    /// Returns the graph of the run, for questions about its nodes.
    fn asked(&self) -> Result<&Arc<Whole>, TaskError> {
        let source = self.source().map_err(|error| match &self.config.data.path {
            Some(path) => {
                let why = "this model answers for nodes of the graph that it was trained on, which cannot be read";
                TaskError::folder(path, format!("{why}: {error}; put the graph back, or train a model on another one"))
            }
            None => error,
        })?;
        Ok(&source.whole)
    }

    fn network(&self) -> GraphClassifierConfig {
        GraphClassifierConfig { d_in: self.known.features, outputs: self.answers.outputs(), network: self.config.model }
    }

    /// Reads the answers of some nodes.
    fn part_of(&self, whole: &Arc<Whole>, batch: &NodeBatch, nodes: Vec<usize>) -> Part {
        let label = |&node: &usize| whole.labels[node].as_deref().unwrap_or_default();
        let unseen = self.answers.unseen(nodes.iter().map(label));
        let answers = nodes.iter().map(|node| Answer::One(self.answers.index(label(node), &unseen))).collect();
        Part { whole: whole.clone(), batch: batch.clone(), nodes, answers, unseen }
    }

    fn encoded_parts(&self) -> Result<Parts<Part>, TaskError> {
        let Source { whole, train, splits, .. } = self.source()?;
        let part = |split, batch| self.part_of(whole, batch, splits.get(split).to_vec());
        let parts = Split::ALL.map(|split| part(split, if split == Split::Train { train } else { &whole.batch }));
        let mut told = splits.notes.clone();
        let nodes = whole.names.len();
        let edges = whole.batch.graph.n_edges();
        let alone = (0..nodes).filter(|&node| whole.degree(node) == 0).count();
        told.push(format!(
            "graph: {nodes} nodes, {edges} edges that a node sees along, {} features",
            self.known.features
        ));
        if alone > 0 {
            told.push(format!("nodes without neighbours, which only their own features tell about: {alone}"));
        }
        told.push(notes::sizes("nodes", parts[0].nodes.len(), parts[1].nodes.len(), Some(parts[2].nodes.len())));
        let label = |&node: &usize| whole.labels[node].as_deref();
        told.extend(self.answers.note(splits.train.iter().filter_map(label)));
        for (split, part) in Split::ALL.iter().zip(&parts).skip(1) {
            told.extend(notes::unseen(*split, "labels", &part.unseen));
        }
        let [train, dev, test] = parts;
        Ok(Parts { train, dev, test: Some(test), notes: told })
    }

    /// Computes the probabilities of the labels of some nodes, a row each.
    fn outputs(
        &self,
        model: &GraphClassifier,
        batch: &NodeBatch,
        nodes: &[usize],
        pass: &Pass,
    ) -> Result<Vec<Vec<f32>>, TaskError> {
        if nodes.is_empty() {
            return Ok(Vec::new());
        }
        let found: Vec<f32> = model.predict(batch, nodes, pass)?.into_data().iter().collect();
        Ok(found.chunks_exact(self.answers.outputs()).map(<[f32]>::to_vec).collect())
    }

    /// Computes the probabilities of the labels of a few nodes from their neighbourhood, and the weights of the edges to them.
    fn around(
        &self,
        model: &GraphClassifier,
        whole: &Whole,
        nodes: &[usize],
        pass: &Pass,
    ) -> Result<Vec<Prediction>, TaskError> {
        let block = Block::around(&whole.batch, nodes, self.config.model.reach())?;
        let places: Vec<usize> = (0..nodes.len()).collect();
        let (outputs, edges) = weights::of(nodes.len(), pass, |pass| self.outputs(model, &block.batch, &places, pass))?;
        let answer = |(at, output): (usize, &Vec<f32>)| {
            let mut more = self.answers.document(output);
            more.extend(edges.document(at, |place| &whole.names[block.nodes[place]]));
            Prediction::new(self.answer(output), more)
        };
        Ok(outputs.iter().enumerate().map(answer).collect())
    }

    fn answer(&self, output: &[f32]) -> String {
        self.answers.text(&self.answers.decide(output), &[])
    }
}

/// Returns the labelled nodes of a graph as the files have them.
fn raw_example(data: &NodeGraph, node: usize) -> RawExample {
    let found = &data.nodes[node];
    let label = found.label.clone().unwrap_or_default();
    let input = RawInput::Node { name: found.name.clone(), graph: (data.nodes.len(), data.edges.len()) };
    RawExample { input, answer: label.clone(), labels: vec![label] }
}

impl Task for Nodes {
    const NAME: &'static str = "graph";
    const CONFIG: &'static str = include_str!("../../../../configs/graph.toml");
    type Config = Config;
    type Model = GraphClassifier;
    type Part = Part;
    type Input = Asked;
    const INPUT: InputKind = InputKind::Node;

    fn choose(facts: &Facts, asked: &crate::auto::Asked<Config>) -> Option<Choice> {
        Some(choice::choose(facts, asked))
    }

    fn start(config: Config) -> Result<(Self, Parts<Part>), TaskError> {
        let source = Source::load(&config, None)?;
        let label = |&node: &usize| source.whole.labels[node].as_deref();
        let answers = Answers::of_labels(source.splits.train.iter().filter_map(label))?;
        let task = Self::new(config, answers, Known { features: source.width });
        let _ = task.source.set(source);
        let parts = task.encoded_parts()?;
        Ok((task, parts))
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let known = serde_json::to_vec_pretty(&self.known).expect("plain values can be written as JSON");
        BTreeMap::from([self.answers.file(), (FILE.to_string(), known)])
    }

    fn open(config: Config, files: &Files) -> Result<Self, TaskError> {
        let known: Known = files.json(FILE)?;
        Ok(Self::new(config, Answers::open(TargetKind::Label, files)?, known))
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn parts(&self) -> Result<Parts<Part>, TaskError> {
        self.encoded_parts()
    }

    fn part(&self, path: &Path) -> Result<Part, TaskError> {
        let data = read_graph(path, Some(self.known.features))?;
        let whole = Arc::new(Whole::new(&data, &self.config)?);
        let labelled = (0..whole.names.len()).filter(|&node| whole.labels[node].is_some()).collect();
        Ok(self.part_of(&whole, &whole.batch, labelled))
    }

    fn raw(config: &Config) -> Result<Option<Splits<RawExample>>, TaskError> {
        let (data, place) = Source::data(config, None)?;
        Ok(Some(data.splits(&place)?.map(|node| raw_example(&data, node))))
    }

    fn described(&self) -> Option<Description> {
        // An opened model knows the size of its graph once it has read it; its weights do not depend on that.
        let train = self.source.get().map(|source| &source.train);
        let (mut nodes, mut edges, mut entries) =
            train.map_or((1, 1, 1), |batch| (batch.graph.n_nodes(), batch.graph.n_edges(), batch.features.entries()));
        if !self.config.data.neighbours.is_empty() {
            let (drawn, seen) = block::most(self.config.train.batch_examples, &self.config.data.neighbours);
            entries = (entries / nodes.max(1) + 1).saturating_mul(drawn.min(nodes));
            (nodes, edges) = (drawn.min(nodes), seen.min(edges));
        }
        let model = GraphModel { classifier: self.network(), edges: edges.max(1), entries: entries.max(1) };
        let sizes = Sizes::of(nodes.max(1));
        Some(Description { sizes, ..Description::new(Architecture::Graph(model)) })
    }

    fn model(&self, init: &Init) -> Result<GraphClassifier, TaskError> {
        Ok(self.network().init(init)?)
    }

    /// Returns the attention weights of all edges as a table, unless there are very many.
    fn extras(&self, model: &GraphClassifier) -> Result<BTreeMap<String, Vec<u8>>, TaskError> {
        let whole = &self.source()?.whole;
        let is_attention = matches!(self.config.model, GraphNetworkConfig::Gat(_));
        if !is_attention || whole.batch.graph.n_edges() > weights::MOST_WRITTEN {
            return Ok(BTreeMap::new());
        }
        let nodes = whole.names.len();
        let run = |pass: &Pass| self.outputs(model, &whole.batch, &[0], pass);
        let (_, edges) = weights::of(nodes, &Pass::inference(), run)?;
        Ok(BTreeMap::from([(weights::FILE.to_string(), edges.table(&whole.names).into_bytes())]))
    }

    fn plan(&self, train: &Part, epoch: u64) -> Vec<Vec<usize>> {
        match self.config.data.neighbours.is_empty() {
            true => vec![(0..train.nodes.len()).collect()],
            false => batches(&vec![1; train.nodes.len()], self.config.train.budget(), self.config.seed, epoch),
        }
    }

    fn loss(
        &self,
        train: &Part,
        batch: &[usize],
        model: &GraphClassifier,
        _: &mut Value,
        pass: &Pass,
    ) -> Result<Loss, TaskError> {
        let nodes: Vec<usize> = batch.iter().map(|&at| train.nodes[at]).collect();
        let answers: Vec<&Answer> = batch.iter().map(|&at| &train.answers[at]).collect();
        let target::Answers::One(labels) = self.answers.tensor(&answers, &device_of(model)) else {
            unreachable!("the answers of this task are labels");
        };
        let smoothing = self.config.train.label_smoothing;
        let neighbours = &self.config.data.neighbours;
        if neighbours.is_empty() {
            let mean = model.loss(&train.batch, &nodes, labels, smoothing, pass)?;
            return Ok(Loss { mean, targets: nodes.len(), tokens: train.batch.graph.n_nodes() });
        }
        let random = |node: usize| pass.at("node", node).random(&self.drawing);
        let block = Block::drawn(&train.batch, &nodes, neighbours, random)?;
        let places: Vec<usize> = (0..nodes.len()).collect();
        let mean = model.loss(&block.batch, &places, labels, smoothing, pass)?;
        Ok(Loss { mean, targets: nodes.len(), tokens: block.nodes.len() })
    }

    /// Returns whether neighbours are drawn: each thread would otherwise compute the whole graph.
    fn is_divisible(&self) -> bool {
        !self.config.data.neighbours.is_empty()
    }

    fn evaluate(
        &self,
        part: &Part,
        model: &GraphClassifier,
        limit: Option<usize>,
        pass: &Pass,
    ) -> Result<Evaluation, TaskError> {
        pass.report(0, 1)?;
        let chosen: Vec<usize> = spread(part.nodes.len(), limit).collect();
        let nodes: Vec<usize> = chosen.iter().map(|&at| part.nodes[at]).collect();
        // A training split without the edges of held-out nodes is scored as it was learnt.
        let outputs = self.outputs(model, &part.batch, &nodes, pass)?;
        let truth: Vec<&Answer> = chosen.iter().map(|&at| &part.answers[at]).collect();
        let outputs: Vec<&[f32]> = outputs.iter().map(Vec::as_slice).collect();
        let (main, better) = self.answers.main();
        let mut evaluation = Evaluation::new(self.answers.scores(&truth, &outputs, &part.unseen), main, better);
        evaluation.examples = nodes.len();
        evaluation.contents = self.answers.contents(&truth, &outputs, &part.unseen)?;
        let right = |(truth, output): (&&Answer, &&[f32])| self.answers.decide(output) == **truth;
        let right: Vec<bool> = truth.iter().zip(&outputs).map(right).collect();
        evaluation.contents.extend(picture::by_degree(&part.whole, &nodes, &right)?);
        Ok(evaluation)
    }

    /// Reads the name of a node, as `{"node": name}` or by itself.
    fn input(&self, given: &Given) -> Result<Asked, TaskError> {
        let name = match given.value(InputKind::Node)? {
            None => given.to_string(),
            Some(Value::String(name)) => name.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(other) => return Err(TaskError::input("node", "the name of a node", excerpt(&other.to_string()))),
        };
        let whole = self.asked()?;
        let found = whole.find(name.trim()).map(|node| Asked { node });
        found.ok_or_else(|| {
            let some: Vec<&String> = whole.names.iter().take(3).collect();
            let expected = format!("a node of the graph, which has {}, such as {}", whole.names.len(), listed(&some));
            TaskError::input("node", expected, excerpt(&name))
        })
    }

    fn given(&self, input: &Asked) -> Given {
        let name = self.asked().ok().and_then(|whole| whole.names.get(input.node).cloned());
        Given::Json(json!({ InputKind::Node.key(): name }))
    }

    fn predict(&self, model: &GraphClassifier, inputs: &[Asked], pass: &Pass) -> Result<Vec<Prediction>, TaskError> {
        let whole = self.asked()?;
        // A node may be asked for twice, but is in a block once.
        let mut different: Vec<usize> = inputs.iter().map(|asked| asked.node).collect();
        different.sort_unstable();
        different.dedup();
        let mut found: BTreeMap<usize, Prediction> = BTreeMap::new();
        let groups = different.chunks(TOGETHER);
        let count = groups.len();
        for (done, nodes) in groups.enumerate() {
            pass.report(done, count)?;
            found.extend(nodes.iter().copied().zip(self.around(model, whole, nodes, pass)?));
        }
        let missing = || TaskError::input("prediction", "one per node", "fewer");
        inputs.iter().map(|asked| found.get(&asked.node).cloned().ok_or_else(missing)).collect()
    }

    fn samples(&self, part: &Part, count: usize) -> Vec<Sample> {
        // Spread over the split, since nodes may be sorted by label.
        let sample = |at: usize| {
            let given = part.whole.names[part.nodes[at]].as_str().into();
            Sample { given, expected: self.answers.text(&part.answers[at], &part.unseen) }
        };
        spread(part.nodes.len(), Some(count)).map(sample).collect()
    }

    /// Returns a held-out node that sees several others, with different labels.
    fn telling(&self, _: &GraphClassifier) -> Result<Asked, TaskError> {
        let Source { whole, splits, .. } = self.source()?;
        let is_mixed = |node: usize| {
            let others = whole.batch.graph.sources(node).filter(|&source| source != node);
            let labels: std::collections::BTreeSet<_> = others.map(|source| &whole.labels[source]).collect();
            labels.len() > 1
        };
        let nodes = || splits.test.iter().chain(&splits.dev).copied();
        let suits = |&node: &usize| (5..=12).contains(&whole.degree(node)) && is_mixed(node);
        let widest = || nodes().filter(|&node| whole.degree(node) <= 24).max_by_key(|&node| whole.degree(node));
        let found = nodes().find(suits).or_else(widest).or_else(|| nodes().next());
        found.map(|node| Asked { node }).ok_or_else(|| TaskError::input("graph", "a held-out node", "none"))
    }

    fn look(&self, model: &GraphClassifier, asked: &Asked, pass: &Pass) -> Result<Legend, TaskError> {
        let whole = self.asked()?;
        let n_layers = self.config.model.n_layers();
        let block = Block::around(&whole.batch, &[asked.node], self.config.model.reach())?;
        let sites = (0..n_layers).map(|layer| Site { side: None, layer, kind: AttentionKind::Edges });
        let output = match pass.capture() {
            // Mean outputs of heads are those of all nodes: the outermost nodes of a neighbourhood do not see what they should.
            Some(capture) if !sites.into_iter().any(|site| capture.wants(&site)) => {
                self.outputs(model, &whole.batch, &[asked.node], pass)?.concat()
            }
            _ => self.outputs(model, &block.batch, &[0], pass)?.concat(),
        };
        let answer = self.answer(&output);
        let sure = Prediction::new(answer.clone(), self.answers.document(&output)).certainty();
        let title = format!("{} → {answer}{sure}", whole.names[asked.node]);
        let labels = self.answers.labels().map_or(&[][..], Vocabulary::names);
        Ok(Neighbourhood::new(whole, &block, labels, n_layers).legend(title))
    }
}
