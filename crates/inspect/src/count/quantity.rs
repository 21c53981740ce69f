//! Integers with overflow as a value, which keeps formulas readable.

use std::ops::{Add, AddAssign, Mul};

/// A number up to 2¹²⁸ − 1, or `None` after an overflow, which propagates through all later operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quantity(Option<u128>);

impl Quantity {
    pub(super) const ZERO: Self = Self(Some(0));

    pub(super) fn known(number: u128) -> Self {
        Self(Some(number))
    }

    pub(super) fn get(self) -> Option<u128> {
        self.0
    }

    /// Returns `n (n + 1) / 2`, the sum of the numbers from 1 to `n`.
    pub(super) fn triangle(self) -> Self {
        let twice = self * (self + 1);
        Self(twice.0.map(|twice| twice / 2))
    }
}

impl From<usize> for Quantity {
    fn from(number: usize) -> Self {
        Self(Some(number as u128))
    }
}

impl<T: Into<Quantity>> Add<T> for Quantity {
    type Output = Quantity;

    fn add(self, other: T) -> Quantity {
        Self(self.0.zip(other.into().0).and_then(|(a, b)| a.checked_add(b)))
    }
}

impl<T: Into<Quantity>> Mul<T> for Quantity {
    type Output = Quantity;

    fn mul(self, other: T) -> Quantity {
        Self(self.0.zip(other.into().0).and_then(|(a, b)| a.checked_mul(b)))
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Converts a size to a quantity.
pub(super) fn q(number: usize) -> Quantity {
    number.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_is_none_and_propagates() {
        let large = q(usize::MAX) * usize::MAX;
        assert_eq!(large.get(), Some(u128::from(u64::MAX) * u128::from(u64::MAX)));
        assert_eq!((large * 2).get(), None);
        assert_eq!((large + large + 1).get(), None);
        assert_eq!((q(0) * (large * 2)).get(), None);
        assert_eq!(q(4).triangle().get(), Some(10));
    }
}
