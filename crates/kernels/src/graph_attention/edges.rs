//! The edges of a graph, ordered by target and by source.

use std::ops::Range;

use crate::attention::SparseRows;
use crate::error::KernelError;

/// The edges `source → target` of a graph as compressed sparse rows, and their transpose. They are checked once.
///
/// Edges are numbered in the order of their targets, then of their sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edges {
    n_sources: usize,
    by_target: Rows,
    /// Source of each edge, in the order of the targets.
    sources: Vec<u32>,
    by_source: Rows,
    /// Number and target of each edge, in the order of the sources.
    outgoing: Vec<(usize, u32)>,
}

impl Edges {
    /// Creates the edges from rows: row `i` of `targets` lists the sources of the edges to node `i`, in rising order and
    /// below `n_sources`.
    pub fn new(targets: SparseRows<'_>, n_sources: usize) -> Result<Self, KernelError> {
        let what = "graph";
        let Some(n_targets) = targets.offsets.len().checked_sub(1) else {
            return Err(KernelError::Invalid { what, why: "expected at least one offset, got none".to_string() });
        };
        if n_targets.max(n_sources) > u32::MAX as usize {
            let why = format!("{n_sources} sources and {n_targets} targets; there may be 2³² − 1 of each");
            return Err(KernelError::Invalid { what, why });
        }
        targets.check(n_targets, n_sources)?;
        let mut offsets = vec![0; n_sources + 1];
        for &source in targets.columns {
            offsets[source + 1] += 1;
        }
        for source in 0..n_sources {
            offsets[source + 1] += offsets[source];
        }
        let mut next = offsets.clone();
        let mut outgoing = vec![(0, 0); targets.columns.len()];
        for (target, ends) in targets.offsets.windows(2).enumerate() {
            for edge in ends[0]..ends[1] {
                let place = &mut next[targets.columns[edge]];
                outgoing[*place] = (edge, target as u32);
                *place += 1;
            }
        }
        Ok(Self {
            n_sources,
            by_target: Rows(targets.offsets.to_vec()),
            sources: targets.columns.iter().map(|&source| source as u32).collect(),
            by_source: Rows(offsets),
            outgoing,
        })
    }

    /// Returns the number of edges.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Returns whether there is no edge.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Returns the number of nodes that edges may come from.
    pub fn n_sources(&self) -> usize {
        self.n_sources
    }

    /// Returns the number of nodes that edges may lead to.
    pub fn n_targets(&self) -> usize {
        self.by_target.len()
    }

    /// Returns the numbers of the edges that lead to a target.
    pub fn incoming(&self, target: usize) -> Range<usize> {
        self.by_target.entries(target)
    }

    /// Returns the source of each edge.
    pub fn sources(&self) -> &[u32] {
        &self.sources
    }

    pub(crate) fn by_target(&self) -> &Rows {
        &self.by_target
    }

    pub(crate) fn by_source(&self) -> &Rows {
        &self.by_source
    }

    /// Returns number and target of each edge that leaves a source.
    #[inline(always)]
    pub(crate) fn outgoing(&self, source: usize) -> &[(usize, u32)] {
        &self.outgoing[self.by_source.entries(source)]
    }
}

/// The offsets of compressed rows, one more than the number of rows; they never fall.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows(Vec<usize>);

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.0.len() - 1
    }

    #[inline(always)]
    pub(crate) fn entries(&self, row: usize) -> Range<usize> {
        self.0[row]..self.0[row + 1]
    }

    /// Returns the entries of consecutive rows.
    pub(crate) fn entries_of(&self, rows: Range<usize>) -> Range<usize> {
        self.0[rows.start]..self.0[rows.end]
    }

    /// Returns the number of blocks of consecutive rows with about `entries` each; a row belongs to the block of its first entry.
    pub(crate) fn blocks(&self, entries: usize) -> usize {
        self.0[self.len()] / entries + 1
    }

    /// Returns the rows of a block. Each row is in exactly one block; a block may be empty.
    pub(crate) fn block(&self, entries: usize, block: usize) -> Range<usize> {
        let first = |entry: usize| self.0.partition_point(|&offset| offset < entry).min(self.len());
        first(block * entries)..first((block + 1) * entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outgoing_edges_are_the_transpose() {
        let (offsets, columns) = ([0, 2, 2, 5], [1, 3, 0, 1, 2]);
        let edges = Edges::new(SparseRows { offsets: &offsets, columns: &columns }, 5).unwrap();
        assert_eq!((edges.n_targets(), edges.n_sources(), edges.len()), (3, 5, 5));
        let outgoing: Vec<_> = (0..5).map(|source| edges.outgoing(source).to_vec()).collect();
        assert_eq!(outgoing, [vec![(2, 2)], vec![(0, 0), (3, 2)], vec![(4, 2)], vec![(1, 0)], vec![]]);
    }

    #[test]
    fn blocks_hold_each_row_once() {
        for offsets in [vec![0], vec![0, 0, 0], vec![0, 1, 50, 50, 51, 53, 53, 60], vec![0, 0, 8, 16, 16]] {
            let rows = Rows(offsets);
            for entries in [1, 4, 7, 100] {
                let all: Vec<usize> = (0..rows.blocks(entries)).flat_map(|b| rows.block(entries, b)).collect();
                assert_eq!(all, (0..rows.len()).collect::<Vec<_>>(), "{rows:?} {entries}");
            }
        }
    }

    #[test]
    fn bad_rows_are_refused() {
        let refused = |offsets: &[usize], columns: &[usize], sources| {
            Edges::new(SparseRows { offsets, columns }, sources).is_err()
        };
        assert!(refused(&[], &[], 3), "no offsets");
        assert!(refused(&[0, 2], &[0, 3], 3), "a source too many");
        assert!(refused(&[0, 2], &[1, 1], 3), "an edge twice");
        assert!(refused(&[0, 2, 1], &[0], 3), "falling offsets");
        assert!(refused(&[0, 5, 2], &[0, 1], 3), "offsets past the end that fall later");
        assert!(refused(&[0, 1], &[0, 1], 3), "an edge without a target");
        assert!(refused(&[1, 2], &[0, 1], 3), "an edge before the first target");
    }
}
