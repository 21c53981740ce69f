//! Sums of parts in an order that does not depend on who computes them.
//!
//! The parts of a batch are added in a binary tree over their indices: 0 with 1, 2 with 3, then both sums, and so on. A thread or
//! a process that has a few neighbouring parts adds those that meet in a subtree, and only their sum has to travel. Whoever
//! adds the rest gets the same bits as if one process had added everything.

/// A sum that other sums can be added to.
pub trait Sum {
    /// Adds the sum over parts that come later.
    fn add(&mut self, later: Self);
}

/// The sum over `count` consecutive parts, a subtree.
#[derive(Debug)]
pub struct Block<S> {
    /// Index of the first part.
    pub first: usize,
    /// Number of parts.
    pub count: usize,
    /// Sum over them.
    pub sum: S,
}

/// Consecutive parts that are added as far as they meet in a subtree.
#[derive(Debug)]
pub struct OrderedSum<S>(Vec<Block<S>>);

impl<S> Default for OrderedSum<S> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Sum> OrderedSum<S> {
    /// Adds the block that follows those so far.
    ///
    /// # Panics
    /// Panics if the block does not follow.
    pub fn push(&mut self, block: Block<S>) {
        if let Some(last) = self.0.last() {
            assert_eq!(last.first + last.count, block.first, "parts come in order");
        }
        self.0.push(block);
        // Subtrees have 2ⁿ parts and begin at a multiple of that. Two neighbours meet if they are the halves of a larger one.
        while let [.., left, right] = self.0.as_slice()
            && left.count == right.count
            && left.first.is_multiple_of(2 * left.count)
        {
            let right = self.0.pop().expect("there are two");
            let left = self.0.last_mut().expect("there are two");
            left.sum.add(right.sum);
            left.count += right.count;
        }
    }

    /// Returns the blocks that do not meet, in order.
    pub fn into_blocks(self) -> Vec<Block<S>> {
        self.0
    }

    /// Returns the sum over all parts, which must begin at 0; `None` if there are none. The last subtrees are incomplete.
    pub fn total(mut self) -> Option<S> {
        let mut total = self.0.pop()?;
        while let Some(mut left) = self.0.pop() {
            left.sum.add(total.sum);
            total = left;
        }
        Some(total.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of additions, written with brackets.
    impl Sum for String {
        fn add(&mut self, later: Self) {
            *self = format!("({self}{later})");
        }
    }

    fn part(first: usize) -> Block<String> {
        let letter = char::from(b'a' + first as u8);
        Block { first, count: 1, sum: letter.to_string() }
    }

    #[test]
    fn parts_are_added_in_a_tree() {
        let total = |count| {
            let mut sum = OrderedSum::default();
            (0..count).for_each(|at| sum.push(part(at)));
            sum.total()
        };
        assert_eq!(total(0), None);
        assert_eq!(total(1).unwrap(), "a");
        assert_eq!(total(3).unwrap(), "((ab)c)");
        assert_eq!(total(4).unwrap(), "((ab)(cd))");
        assert_eq!(total(7).unwrap(), "(((ab)(cd))((ef)g))");
    }

    #[test]
    fn the_order_does_not_depend_on_who_adds() {
        for count in 1..20 {
            let mut alone = OrderedSum::default();
            (0..count).for_each(|at| alone.push(part(at)));
            let alone = alone.total();
            for each in 1..=count {
                let mut all = OrderedSum::default();
                let mut sent = 0;
                for first in (0..count).step_by(each) {
                    let mut own = OrderedSum::default();
                    (first..count.min(first + each)).for_each(|at| own.push(part(at)));
                    let blocks = own.into_blocks();
                    sent += blocks.len();
                    blocks.into_iter().for_each(|block| all.push(block));
                }
                assert_eq!(all.total(), alone, "{count} parts, {each} each");
                // Whole subtrees travel as one.
                assert!(!each.is_power_of_two() || !count.is_multiple_of(each) || sent == count / each);
            }
        }
    }

    #[test]
    #[should_panic(expected = "in order")]
    fn a_missing_part_is_noticed() {
        let mut sum = OrderedSum::default();
        sum.push(part(0));
        sum.push(part(2));
    }
}
