//! Tokenised pairs for the loss, and sentences with all their translations for scoring.

use std::collections::BTreeMap;

use regard_data::Pair;

/// Number of pairs in a chunk.
const CHUNK: usize = 4_096;

/// The tokens of many pairs, stored in chunks: two vectors per pair would double the memory, and so would one vector that
/// grows with all of them.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    /// Chunks of [`CHUNK`] pairs; the last one may have fewer.
    chunks: Vec<Chunk>,
}

#[derive(Debug, Default)]
struct Chunk {
    ids: Vec<u32>,
    /// Ends of the source and the target of each pair in `ids`.
    ends: Vec<[usize; 2]>,
}

/// The tokens of a pair, without `<s>` and `</s>`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Encoded<'a> {
    pub source: &'a [u32],
    pub target: &'a [u32],
}

impl Encoded<'_> {
    /// Number of tokens of the longer side.
    pub fn longest(&self) -> usize {
        self.source.len().max(self.target.len())
    }
}

impl Pairs {
    /// Appends a pair.
    pub fn push(&mut self, Encoded { source, target }: Encoded) {
        if self.chunks.last().is_none_or(|chunk| chunk.ends.len() == CHUNK) {
            if let Some(Chunk { ids, ends }) = self.chunks.last_mut() {
                ids.shrink_to_fit();
                ends.shrink_to_fit();
            }
            self.chunks.push(Chunk::default());
        }
        let Some(Chunk { ids, ends }) = self.chunks.last_mut() else { return };
        ids.extend(source);
        let middle = ids.len();
        ids.extend(target);
        ends.push([middle, ids.len()]);
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.ends.len()).sum()
    }

    /// The pair at `index`.
    pub fn get(&self, index: usize) -> Encoded<'_> {
        let (Chunk { ids, ends }, at) = (&self.chunks[index / CHUNK], index % CHUNK);
        let start = if at == 0 { 0 } else { ends[at - 1][1] };
        let [middle, end] = ends[at];
        Encoded { source: &ids[start..middle], target: &ids[middle..end] }
    }

    /// Iterates over all pairs in order.
    pub fn iter(&self) -> impl Iterator<Item = Encoded<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Iterates over the tokens of all pairs.
    pub fn ids(&self) -> impl Iterator<Item = &u32> {
        self.chunks.iter().flat_map(|chunk| &chunk.ids)
    }
}

/// A distinct source with all its translations.
#[derive(Debug, Clone)]
pub(crate) struct Sentence {
    pub source: String,
    pub references: Vec<String>,
}

/// Groups pairs by source: each distinct source with all its translations.
pub(crate) fn sentences<'a>(pairs: impl Iterator<Item = &'a Pair>) -> Vec<Sentence> {
    let mut sentences: Vec<Sentence> = Vec::new();
    let mut known: BTreeMap<&str, usize> = BTreeMap::new();
    for pair in pairs {
        let at = *known.entry(pair.source()).or_insert_with(|| {
            sentences.push(Sentence { source: pair.source().to_string(), references: Vec::new() });
            sentences.len() - 1
        });
        sentences[at].references.push(pair.target().to_string());
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushed_pairs_are_returned() {
        let mut pairs = Pairs::default();
        let all: [(&[u32], &[u32]); 3] = [(&[1, 2], &[3]), (&[], &[4, 5]), (&[6], &[])];
        all.iter().for_each(|&(source, target)| pairs.push(Encoded { source, target }));
        assert!(pairs.iter().map(|pair| (pair.source, pair.target)).eq(all));
        assert_eq!((pairs.len(), pairs.get(1).longest()), (3, 2));
        (0..2 * CHUNK as u32).for_each(|n| pairs.push(Encoded { source: &[n], target: &[n, 1] }));
        let last = pairs.get(2 * CHUNK + 2);
        assert_eq!((pairs.len(), last.source), (2 * CHUNK + 3, &[2 * CHUNK as u32 - 1][..]));
        assert_eq!(pairs.ids().count(), 6 * CHUNK + 6);
        assert_eq!(pairs.ids().filter(|id| **id == 1).count(), 2 * CHUNK + 3);
    }
}
