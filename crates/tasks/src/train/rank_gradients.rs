//! The gradients of one update of the weights, from batches that several processes share.
//!
//! Every rank takes its parts of a batch through the model. To add their gradients, each rank gets a stretch of all gradients
//! from everyone, adds them in the order of the parts, and after the last batch gives the sum to everyone. So each number
//! travels twice, whatever the number of ranks, and the sums have the same bits as those of one process with as many parts.

use std::ops::Range;

use burn::module::Module;
use regard_ops::{ParameterGradients, combine, trained_sizes};
use regard_system::Ranks;
use serde::{Deserialize, Serialize};

use super::agreement::all;
use super::ordered_sum::{Block, OrderedSum};
use super::step_gradients::{Gradients, Means, Passed, extend};
use crate::error::TaskError;

/// Number of gradients that are exchanged at once. A rank needs memory for about three times as many, whatever the size of the model.
const BUCKET: usize = 4 << 20;

/// The gradients of the batches of one step: this rank's stretch of their means over all targets.
#[derive(Debug)]
pub(super) struct RankGradients {
    ranks: Ranks,
    layout: Layout,
    /// Number of gradients in a bucket, which are exchanged at once.
    bucket: usize,
    /// Sum of each bucket.
    sums: Vec<Option<Passed<Stretch>>>,
    means: Option<Passed<()>>,
    /// Whether each parameter has a gradient on any rank.
    is_there: Vec<bool>,
}

/// What a rank tells the others about its parts of a batch.
#[derive(Debug, Serialize, Deserialize)]
struct Notice {
    is_asked_to_stop: bool,
    blocks: Vec<NoticeBlock>,
}

/// Everything about a sum over parts except its gradients.
#[derive(Debug, Serialize, Deserialize)]
struct NoticeBlock {
    first: usize,
    count: usize,
    /// Bits of the mean loss, which may be NaN.
    loss_bits: u64,
    targets: usize,
    tokens: usize,
    /// Indices of trained parameters that have no gradient.
    absent: Vec<usize>,
}

impl NoticeBlock {
    fn new(block: &Block<Passed<ParameterGradients>>, layout: &Layout) -> Self {
        let Block { first, count, sum: Passed { means: Means { loss, targets, tokens }, gradients } } = block;
        let trained = gradients.numbers().zip(&layout.sizes).enumerate().filter(|(_, (_, size))| **size > 0);
        let absent = trained.filter(|(_, (gradient, _))| gradient.is_none()).map(|(at, _)| at).collect();
        let (first, count, targets, tokens) = (*first, *count, *targets, *tokens);
        Self { first, count, loss_bits: loss.to_bits(), targets, tokens, absent }
    }

    fn block<G>(&self, gradients: G) -> Block<Passed<G>> {
        let Self { first, count, loss_bits, targets, tokens, .. } = *self;
        let means = Means { loss: f64::from_bits(loss_bits), targets, tokens };
        Block { first, count, sum: Passed { means, gradients } }
    }
}

impl RankGradients {
    /// Prepares the sum for a model.
    pub fn new(ranks: &Ranks, model: &impl Module) -> Self {
        Self::in_buckets(ranks, trained_sizes(model), BUCKET)
    }

    fn in_buckets(ranks: &Ranks, sizes: Vec<usize>, bucket: usize) -> Self {
        let layout = Layout::new(sizes);
        let buckets = layout.len().div_ceil(bucket);
        let is_there = vec![false; layout.sizes.len()];
        Self { ranks: ranks.clone(), layout, bucket, sums: (0..buckets).map(|_| None).collect(), means: None, is_there }
    }

    /// Adds a batch, of which this rank has `own` parts. Returns whether any rank is asked to stop.
    pub fn add(
        &mut self,
        own: OrderedSum<Passed<ParameterGradients>>,
        is_asked_to_stop: bool,
    ) -> Result<bool, TaskError> {
        let own = own.into_blocks();
        let blocks = own.iter().map(|block| NoticeBlock::new(block, &self.layout)).collect();
        let notices = all(&self.ranks, &Notice { is_asked_to_stop, blocks })?;
        let blocks = || notices.iter().flat_map(|notice| &notice.blocks);
        let mut means = OrderedSum::default();
        for block in blocks() {
            means.push(block.block(()));
            for (at, is_there) in self.is_there.iter_mut().enumerate() {
                *is_there |= self.layout.sizes[at] > 0 && !block.absent.contains(&at);
            }
        }
        extend(&mut self.means, means.total());
        let gradients: Vec<Vec<Option<&[f32]>>> =
            own.iter().map(|block| block.sum.gradients.numbers().collect()).collect();
        let (mut sent, mut received) = (Vec::new(), Vec::new());
        for bucket in 0..self.sums.len() {
            let stretches = self.stretches(bucket);
            let stretch = stretches[self.ranks.rank()].clone();
            sent.clear();
            for stretch in &stretches {
                gradients.iter().for_each(|gradients| self.layout.copy(gradients, stretch, &mut sent));
            }
            let to: Vec<usize> = stretches.iter().map(|to| own.len() * to.len()).collect();
            let from: Vec<usize> = notices.iter().map(|notice| notice.blocks.len() * stretch.len()).collect();
            received.resize(from.iter().sum(), 0.0);
            self.ranks.world().exchange(&sent, &to, &mut received, &from);
            let segments = self.layout.segments(&stretch);
            let mut sum = OrderedSum::default();
            for (at, block) in blocks().enumerate() {
                let numbers = &received[at * stretch.len()..][..stretch.len()];
                let segment = |&(parameter, length)| Segment { length, is_there: !block.absent.contains(&parameter) };
                let segments = segments.iter().map(segment).collect();
                sum.push(block.block(Stretch { numbers: numbers.to_vec(), segments }));
            }
            extend(&mut self.sums[bucket], sum.total());
        }
        Ok(notices.iter().any(|notice| notice.is_asked_to_stop))
    }

    /// Gives the sums to all ranks and returns those of all parameters; `None` if nothing was added.
    pub fn into_sum(self) -> Option<Passed<ParameterGradients>> {
        let means = self.means.as_ref()?.means;
        let new = |(&size, &is_there): (&usize, &bool)| is_there.then(|| Vec::with_capacity(size));
        let mut gradients: Vec<Option<Vec<f32>>> = self.layout.sizes.iter().zip(&self.is_there).map(new).collect();
        let mut numbers = Vec::new();
        for (bucket, sum) in self.sums.iter().enumerate() {
            let stretches = self.stretches(bucket);
            let (all, own) = (stretches[0].start..stretches[stretches.len() - 1].end, &stretches[self.ranks.rank()]);
            numbers.resize(all.len(), 0.0);
            if let Some(sum) = sum {
                numbers[own.start - all.start..own.end - all.start].copy_from_slice(&sum.gradients.numbers);
            }
            let lengths: Vec<usize> = stretches.iter().map(Range::len).collect();
            self.ranks.world().spread(&mut numbers, &lengths);
            let mut rest = numbers.as_slice();
            for (parameter, length) in self.layout.segments(&all) {
                let (segment, after) = rest.split_at(length);
                rest = after;
                if let Some(gradient) = &mut gradients[parameter] {
                    gradient.extend_from_slice(segment);
                }
            }
        }
        Some(Passed { means, gradients: ParameterGradients::of(gradients) })
    }

    /// Returns the stretch of each rank in a bucket.
    fn stretches(&self, bucket: usize) -> Vec<Range<usize>> {
        let (first, size) = (bucket * self.bucket, self.ranks.size());
        let length = self.bucket.min(self.layout.len() - first);
        (0..size).map(|rank| first + length * rank / size..first + length * (rank + 1) / size).collect()
    }
}

/// Places of the trained parameters in a row of all their elements.
#[derive(Debug)]
struct Layout {
    /// Number of elements of each parameter; 0 if it is not trained.
    sizes: Vec<usize>,
    /// Place after the last element of each parameter.
    ends: Vec<usize>,
}

impl Layout {
    fn new(sizes: Vec<usize>) -> Self {
        let mut end = 0;
        let ends = sizes.iter().map(|size| {
            end += size;
            end
        });
        Self { ends: ends.collect(), sizes }
    }

    /// Returns the number of elements of all parameters.
    fn len(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the index of each parameter in a stretch, and the number of its elements there.
    fn segments(&self, stretch: &Range<usize>) -> Vec<(usize, usize)> {
        let (mut found, mut at) = (Vec::new(), stretch.start);
        let mut parameter = self.ends.partition_point(|&end| end <= at);
        while at < stretch.end {
            let end = self.ends[parameter].min(stretch.end);
            if end > at {
                found.push((parameter, end - at));
            }
            (at, parameter) = (end, parameter + 1);
        }
        found
    }

    /// Appends a stretch of the gradients, with zeros for those that are absent.
    fn copy(&self, gradients: &[Option<&[f32]>], stretch: &Range<usize>, to: &mut Vec<f32>) {
        let mut at = stretch.start;
        for (parameter, length) in self.segments(stretch) {
            let first = at - (self.ends[parameter] - self.sizes[parameter]);
            match gradients[parameter] {
                Some(gradient) => to.extend_from_slice(&gradient[first..first + length]),
                None => to.resize(to.len() + length, 0.0),
            }
            at += length;
        }
    }
}

/// Consecutive gradients.
#[derive(Debug)]
struct Stretch {
    numbers: Vec<f32>,
    segments: Vec<Segment>,
}

/// The part of a stretch that belongs to one parameter.
#[derive(Debug)]
struct Segment {
    length: usize,
    /// Whether the parameter has a gradient. Its numbers are 0 otherwise.
    is_there: bool,
}

impl Gradients for Stretch {
    fn combine(&mut self, own: f32, other: Self, theirs: f32) {
        let (mut sums, mut news) = (self.numbers.as_mut_slice(), other.numbers.as_slice());
        for (segment, later) in self.segments.iter_mut().zip(other.segments) {
            let (sum, new);
            (sum, sums) = sums.split_at_mut(segment.length);
            (new, news) = news.split_at(segment.length);
            match (segment.is_there, later.is_there) {
                (true, is_there) => combine(sum, own, is_there.then_some(new), theirs),
                (false, true) => {
                    sum.copy_from_slice(new);
                    combine(sum, theirs, None, own);
                }
                (false, false) => {}
            }
            segment.is_there |= later.is_there;
        }
    }
}

impl Gradients for () {
    fn combine(&mut self, _: f32, (): Self, _: f32) {}
}

#[cfg(test)]
mod tests {
    use burn::module::Param;
    use burn::tensor::{Device, Tensor};
    use regard_system::simulated::ranks;

    use super::*;
    use crate::train::step_gradients::StepGradients;

    #[derive(Module, Debug)]
    struct Four {
        first: Param<Tensor<1>>,
        frozen: Param<Tensor<1>>,
        second: Param<Tensor<2>>,
        third: Param<Tensor<1>>,
    }

    fn module() -> Four {
        let device = Device::flex().autodiff();
        let row = |size: usize| Param::from_tensor(Tensor::zeros([size], &device));
        let frozen = Param::from_tensor(Tensor::<1>::zeros([5], &device)).set_require_grad(false);
        Four { first: row(7), frozen, second: Param::from_tensor(Tensor::zeros([4, 3], &device)), third: row(1) }
    }

    /// Returns the gradients of part `part` of batch `batch`. Some parts lack those of some parameters, some numbers are unusual.
    fn part(batch: usize, part: usize) -> Block<Passed<ParameterGradients>> {
        let seed = 100 * batch + part;
        let number = |at: usize| match (seed + at) % 11 {
            0 => -0.0,
            1 => f32::NAN,
            2 => 1e30,
            _ => ((seed * 7919 + at * 104_729) % 1000) as f32 / 997.0 - 0.5,
        };
        let gradient = |first: usize, size: usize, is_there: bool| {
            is_there.then(|| (first..first + size).map(number).collect::<Vec<f32>>())
        };
        let gradients =
            vec![gradient(0, 7, true), None, gradient(7, 12, !seed.is_multiple_of(3)), gradient(19, 1, seed % 4 == 3)];
        let means = Means { loss: number(50).into(), targets: 3 + seed % 5, tokens: 10 + seed };
        let sum = Passed { means, gradients: ParameterGradients::of(gradients) };
        Block { first: part, count: 1, sum }
    }

    /// Returns the sums over a step of batches with these numbers of parts, as bits.
    fn bits(sum: &Passed<ParameterGradients>) -> (u64, usize, usize, Vec<Option<Vec<u32>>>) {
        let Means { loss, targets, tokens } = sum.means;
        // Any two NaN are equal here: a processor may choose which of two it keeps.
        let bits = |value: &f32| if value.is_nan() { u32::MAX } else { value.to_bits() };
        let gradients = sum.gradients.numbers().map(|numbers| Some(numbers?.iter().map(bits).collect())).collect();
        let loss = if loss.is_nan() { u64::MAX } else { loss.to_bits() };
        (loss, targets, tokens, gradients)
    }

    #[test]
    fn ranks_add_as_threads_do() {
        for batches in [&[1][..], &[4], &[7, 2], &[12, 5, 12]] {
            let mut alone = None;
            for (batch, &parts) in batches.iter().enumerate() {
                let mut sum = OrderedSum::default();
                (0..parts).for_each(|at| sum.push(part(batch, at)));
                extend(&mut alone, sum.total());
            }
            let alone = bits(&alone.unwrap());
            for (size, bucket) in [(1, 100), (2, 100), (2, 3), (3, 8), (4, 19), (5, 1)] {
                let shared = ranks(size, |ranks| {
                    let mut shared = RankGradients::in_buckets(&ranks, trained_sizes(&module()), bucket);
                    for (batch, &parts) in batches.iter().enumerate() {
                        let each = parts.div_ceil(size);
                        let mut own = OrderedSum::default();
                        (0..parts).skip(ranks.rank() * each).take(each).for_each(|at| own.push(part(batch, at)));
                        assert!(shared.add(own, ranks.rank() == 1).unwrap() == (size > 1));
                    }
                    bits(&shared.into_sum().unwrap())
                });
                assert!(shared.iter().all(|shared| *shared == alone), "{batches:?}, {size} ranks, buckets of {bucket}");
            }
        }
    }

    #[test]
    fn nothing_added_is_no_sum() {
        assert!(ranks(2, |ranks| RankGradients::new(&ranks, &module()).into_sum().is_none())[0]);
        assert!(StepGradients::default().into_sum().is_none());
    }

    #[test]
    fn the_stretches_of_the_ranks_cover_all_gradients() {
        for size in [1, 3, 30] {
            let covered = ranks(size, |ranks| {
                let sum = RankGradients::in_buckets(&ranks, trained_sizes(&module()), 6);
                (0..sum.sums.len()).flat_map(|bucket| sum.stretches(bucket)).flatten().collect::<Vec<usize>>()
            });
            assert_eq!(covered[0], (0..20).collect::<Vec<_>>(), "{size} ranks");
        }
    }
}
