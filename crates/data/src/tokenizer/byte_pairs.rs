//! Byte-pair encoding (Sennrich et al. 2016): the most frequent pair of neighbours becomes a new piece, repeatedly.
//!
//! Among equally frequent pairs, the one with the smaller numbers is merged first. The iteration order of hash maps is never
//! used, so the result depends on the counts alone.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

type Pair = (u32, u32);

/// The pieces in the order of their numbers, and the merges in the order in which they were learnt.
pub(super) struct BytePairs {
    pub(super) pieces: Vec<String>,
    pub(super) merges: Vec<(String, String)>,
}

/// Learns merges from counted words until there are `limit` pieces or no pair occurs twice. `first` holds the initial
/// pieces: the special ones, then at least every character of the words.
pub(super) fn learn(counts: &BTreeMap<String, u64>, first: Vec<String>, limit: usize) -> BytePairs {
    let mut ids: HashMap<String, u32> = (0u32..).zip(&first).map(|(id, piece)| (piece.clone(), id)).collect();
    let mut words = Words::new(counts, &ids);
    let mut learnt = BytePairs { pieces: first, merges: Vec::new() };
    while learnt.pieces.len() < limit {
        let Some((left, right)) = words.most_frequent() else { break };
        let (a, b) = (learnt.pieces[left as usize].clone(), learnt.pieces[right as usize].clone());
        let piece = format!("{a}{b}");
        // Two merges may give the same piece: "ab" + "c" and "a" + "bc".
        let id = *ids.entry(piece.clone()).or_insert_with(|| {
            learnt.pieces.push(piece);
            learnt.pieces.len() as u32 - 1
        });
        learnt.merges.push((a, b));
        words.merge((left, right), id);
    }
    learnt
}

/// The words cut into the current pieces, with indices that find the next pair quickly.
struct Words {
    pieces: Vec<Vec<u32>>,
    counts: Vec<u64>,
    /// Number of occurrences of each pair.
    pairs: HashMap<Pair, u64>,
    /// The words that contain or once contained the pair.
    places: HashMap<Pair, BTreeSet<usize>>,
    /// Pairs by count. An entry with an outdated count is skipped: a new entry was pushed when the count changed.
    queue: BinaryHeap<(u64, Reverse<Pair>)>,
}

impl Words {
    fn new(counts: &BTreeMap<String, u64>, ids: &HashMap<String, u32>) -> Self {
        let id = |c: char| ids.get(c.encode_utf8(&mut [0; 4]) as &str).copied();
        let mut words = Self {
            pieces: counts.keys().map(|word| word.chars().filter_map(id).collect()).collect(),
            counts: counts.values().copied().collect(),
            pairs: HashMap::new(),
            places: HashMap::new(),
            queue: BinaryHeap::new(),
        };
        for (at, (pieces, count)) in words.pieces.iter().zip(&words.counts).enumerate() {
            for pair in neighbours(pieces) {
                *words.pairs.entry(pair).or_default() += count;
                words.places.entry(pair).or_default().insert(at);
            }
        }
        words.queue = words.pairs.iter().map(|(&pair, &count)| (count, Reverse(pair))).collect();
        words
    }

    /// The next pair to merge, if one occurs at least twice.
    fn most_frequent(&mut self) -> Option<Pair> {
        while let Some((count, Reverse(pair))) = self.queue.pop() {
            if self.pairs.get(&pair) == Some(&count) {
                return (count >= 2).then_some(pair);
            }
        }
        None
    }

    fn merge(&mut self, pair: Pair, id: u32) {
        let mut changed = BTreeSet::new();
        for at in self.places.remove(&pair).unwrap_or_default() {
            let count = self.counts[at];
            for old in neighbours(&self.pieces[at]) {
                *self.pairs.entry(old).or_default() -= count;
                changed.insert(old);
            }
            self.pieces[at] = merged(&self.pieces[at], pair, id);
            for new in neighbours(&self.pieces[at]) {
                *self.pairs.entry(new).or_default() += count;
                self.places.entry(new).or_default().insert(at);
                changed.insert(new);
            }
        }
        // Merging a + a in "a a a" removes both of its pairs, though only one is merged.
        self.pairs.remove(&pair);
        for pair in changed {
            match self.pairs.get(&pair) {
                Some(&count) if count > 0 => self.queue.push((count, Reverse(pair))),
                _ => drop(self.pairs.remove(&pair)),
            }
        }
    }
}

fn neighbours(pieces: &[u32]) -> impl Iterator<Item = Pair> {
    pieces.windows(2).map(|w| (w[0], w[1]))
}

/// The pieces with each occurrence of the pair, from the left, replaced by `id`.
fn merged(pieces: &[u32], pair: Pair, id: u32) -> Vec<u32> {
    let mut result = Vec::with_capacity(pieces.len());
    let mut i = 0;
    while i < pieces.len() {
        let found = i + 1 < pieces.len() && (pieces[i], pieces[i + 1]) == pair;
        result.push(if found { id } else { pieces[i] });
        i += if found { 2 } else { 1 };
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn alphabet() -> Vec<String> {
        ('a'..='e').map(String::from).collect()
    }

    /// A direct implementation of the definition, without indices.
    fn reference(counts: &BTreeMap<String, u64>, mut pieces: Vec<String>, limit: usize) -> Vec<(String, String)> {
        let id = |pieces: &[String], text: &str| pieces.iter().position(|p| p == text).unwrap() as u32;
        let mut words: Vec<(Vec<u32>, u64)> =
            counts.iter().map(|(w, &n)| (w.chars().map(|c| id(&pieces, &c.to_string())).collect(), n)).collect();
        let mut merges = Vec::new();
        while pieces.len() < limit {
            let mut pairs = BTreeMap::<Pair, u64>::new();
            for (word, count) in &words {
                neighbours(word).for_each(|pair| *pairs.entry(pair).or_default() += count);
            }
            let Some((pair, count)) = pairs.into_iter().max_by_key(|&(pair, count)| (count, Reverse(pair))) else {
                break;
            };
            if count < 2 {
                break;
            }
            let (a, b) = (pieces[pair.0 as usize].clone(), pieces[pair.1 as usize].clone());
            let piece = format!("{a}{b}");
            if !pieces.contains(&piece) {
                pieces.push(piece.clone());
            }
            let new = id(&pieces, &piece);
            words.iter_mut().for_each(|(word, _)| *word = merged(word, pair, new));
            merges.push((a, b));
        }
        merges
    }

    #[test]
    fn the_most_frequent_pair_is_merged_first() {
        let counts = BTreeMap::from([("abc".to_string(), 3), ("bc".to_string(), 2), ("ad".to_string(), 1)]);
        let learnt = learn(&counts, alphabet(), 100);
        let merges: Vec<_> = learnt.merges.iter().map(|(a, b)| format!("{a}+{b}")).collect();
        assert_eq!(merges, ["b+c", "a+bc"]);
        assert_eq!(learnt.pieces[5..], ["bc", "abc"]);
        assert_eq!(learn(&counts, alphabet(), 6).pieces.len(), 6);
        assert_eq!(merged(&[1, 1, 1, 2], (1, 1), 9), [9, 1, 2]);
    }

    proptest! {
        #[test]
        fn learning_equals_the_definition(
            counts in prop::collection::btree_map("[a-e]{1,8}", 1u64..5, 0..30),
            limit in 5usize..60,
        ) {
            let learnt = learn(&counts, alphabet(), limit);
            prop_assert_eq!(learnt.merges, reference(&counts, alphabet(), limit));
        }
    }
}
