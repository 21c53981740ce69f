//! Pairs as tokens.

use regard_data::UNK;

/// Tokens of many pairs, one after the other: two vectors a pair would cost as much memory again.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    ids: Vec<u32>,
    /// Where the source and the target of each pair end.
    ends: Vec<[usize; 2]>,
}

/// A pair as tokens, without `<s>` and `</s>`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Encoded<'a> {
    pub source: &'a [u32],
    pub target: &'a [u32],
}

impl Encoded<'_> {
    /// Tokens of the longer side.
    pub fn longest(&self) -> usize {
        self.source.len().max(self.target.len())
    }
}

impl Pairs {
    /// One pair more.
    pub fn push(&mut self, Encoded { source, target }: Encoded) {
        self.ids.extend(source);
        let middle = self.ids.len();
        self.ids.extend(target);
        self.ends.push([middle, self.ids.len()]);
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// One of the pairs.
    pub fn get(&self, index: usize) -> Encoded<'_> {
        let start = if index == 0 { 0 } else { self.ends[index - 1][1] };
        let [middle, end] = self.ends[index];
        Encoded { source: &self.ids[start..middle], target: &self.ids[middle..end] }
    }

    /// All pairs in their order.
    pub fn iter(&self) -> impl Iterator<Item = Encoded<'_>> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// The number of unknown tokens, and of all.
    pub fn unknown(&self) -> (usize, usize) {
        (self.ids.iter().filter(|&&id| id == UNK).count(), self.ids.len())
    }

    /// Gives back what growing has reserved.
    pub fn shrink(&mut self) {
        self.ids.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back() {
        let mut pairs = Pairs::default();
        let all: [(&[u32], &[u32]); 3] = [(&[1, 2], &[3]), (&[], &[4, 5]), (&[6], &[])];
        all.iter().for_each(|&(source, target)| pairs.push(Encoded { source, target }));
        assert!(pairs.iter().map(|pair| (pair.source, pair.target)).eq(all));
        assert_eq!((pairs.len(), pairs.get(1).longest()), (3, 2));
    }
}
