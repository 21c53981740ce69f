//! A graph of papers that cite each other, to learn the topics of papers from a few labelled ones.
//!
//! A paper has words: some of its topic, more that all topics share. It mostly cites papers of its own topic, those first that
//! are already cited often. Words alone tell the topic of some papers; the papers that they cite and that cite them tell more.

use crate::graphs::{Node, NodeGraph};
use crate::{Split, hash};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeSet;

const TOPICS: [&str; 6] = ["astronomy", "ecology", "genetics", "law", "music", "robotics"];
/// Number of words of each topic, which follow each other.
const OWN_WORDS: usize = 40;
/// Number of words that all topics share, after those of the topics.
const SHARED_WORDS: usize = 260;
/// Fewest and most words of a paper.
const WORDS: (usize, usize) = (6, 14);
/// Share of a paper's words that are of its topic.
const OWN: f64 = 0.16;
/// Fewest and most papers that a paper cites.
const CITATIONS: (usize, usize) = (1, 5);
/// Share of citations that stay within the topic.
const SAME_TOPIC: f64 = 0.8;
/// Training papers of each topic in a small graph.
const LABELLED: usize = 20;

/// Draws a graph of `count` papers. One in twenty, or 20 of each topic if that is more, are to learn from; a sixth is dev and a
/// third is test, at most 10,000 each.
pub fn citations(count: usize, seed: u64) -> NodeGraph {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let topics: Vec<usize> = (0..count).map(|_| random.random_range(0..TOPICS.len())).collect();
    // Each paper of a topic once, and once more for each citation of it.
    let mut cited: Vec<Vec<u32>> = vec![Vec::new(); TOPICS.len()];
    let (mut edges, mut features) = (Vec::new(), Vec::with_capacity(count));
    for (paper, &topic) in topics.iter().enumerate() {
        let mut chosen = BTreeSet::new();
        for _ in 0..random.random_range(CITATIONS.0..=CITATIONS.1) {
            let other = match random.random::<f64>() < SAME_TOPIC {
                true => topic,
                false => random.random_range(0..TOPICS.len()),
            };
            let known = &cited[other];
            if !known.is_empty() {
                chosen.insert(known[random.random_range(0..known.len())]);
            }
        }
        for to in chosen {
            edges.push((paper as u32, to));
            cited[topics[to as usize]].push(to);
        }
        cited[topic].push(paper as u32);
        let word = |random: &mut ChaCha8Rng| match random.random::<f64>() < OWN {
            true => topic * OWN_WORDS + random.random_range(0..OWN_WORDS),
            false => TOPICS.len() * OWN_WORDS + random.random_range(0..SHARED_WORDS),
        };
        let words = random.random_range(WORDS.0..=WORDS.1);
        let words: BTreeSet<u32> = (0..words).map(|_| word(&mut random) as u32).collect();
        features.push(words.into_iter().map(|word| (word, 1.0)).collect::<Vec<_>>());
    }
    let splits = splits(&topics, &mut random);
    let node = |(paper, features): (usize, Vec<(u32, f32)>)| Node {
        name: format!("p{paper}"),
        split: splits[paper],
        label: Some(TOPICS[topics[paper]].to_string()),
        features,
    };
    let nodes = features.into_iter().enumerate().map(node).collect();
    NodeGraph::with_splits(nodes, TOPICS.len() * OWN_WORDS + SHARED_WORDS, edges)
}

/// A hash of the papers. It changes if a version of this crate draws others.
pub fn citations_fingerprint(count: usize) -> String {
    let graph = citations(count.min(300), 1);
    let nodes = graph.nodes.iter().map(|node| format!("{} {:?} {:?}", node.name, node.label, node.features));
    let text: String = nodes.chain([format!("{:?} {count}", graph.edges)]).collect();
    format!("{:016x}", hash(text.as_bytes()))
}

/// Chooses the part of each paper at random, with as many training papers of each topic as there are to be.
fn splits(topics: &[usize], random: &mut ChaCha8Rng) -> Vec<Option<Split>> {
    let count = topics.len();
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(random);
    let mut splits = vec![None; count];
    let mut left = [(count / 20 / TOPICS.len()).max(LABELLED.min(count / 4 / TOPICS.len()).max(1)); TOPICS.len()];
    let mut rest = Vec::new();
    for paper in order {
        match &mut left[topics[paper]] {
            0 => rest.push(paper),
            left => {
                *left -= 1;
                splits[paper] = Some(Split::Train);
            }
        }
    }
    let (dev, test) = ((count / 6).clamp(1, 10_000), (count / 3).clamp(1, 10_000));
    let held_out = std::iter::repeat_n(Split::Dev, dev).chain(std::iter::repeat_n(Split::Test, test));
    rest.into_iter().zip(held_out).for_each(|(paper, split)| splits[paper] = Some(split));
    splits
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn papers_cite_papers_of_their_topic() {
        let graph = citations(1_200, 1);
        assert_eq!(graph, citations(1_200, 1), "a seed gives the same papers");
        let label = |node: u32| graph.nodes[node as usize].label.as_deref();
        let same = graph.edges.iter().filter(|(from, to)| label(*from) == label(*to)).count();
        let share = same as f64 / graph.edges.len() as f64;
        assert!((0.78..0.90).contains(&share) && graph.edges.len() > 2_400, "{share} of {}", graph.edges.len());
        assert!(graph.edges.iter().all(|(from, to)| to < from), "papers cite older ones");
        let splits = graph.splits(Path::new("built-in")).unwrap();
        assert_eq!((splits.train.len(), splits.dev.len(), splits.test.len()), (120, 200, 400));
        let most = graph.nodes.iter().flat_map(|node| &node.features).map(|&(word, _)| word as usize).max().unwrap();
        assert!(most < graph.width);
    }

    #[test]
    fn small_graphs_have_all_parts() {
        for count in [24, 60, 200] {
            let graph = citations(count, 1);
            assert!(graph.splits(Path::new("built-in")).is_ok(), "{count}");
        }
    }
}
