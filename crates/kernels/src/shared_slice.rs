//! A slice that several threads write to at disjoint places.

use std::marker::PhantomData;

use pulp::Simd;

use crate::vector::load;

/// A mutable slice that threads share, each for elements of its own.
///
/// Every access is checked against the length. The caller promises that no two threads use the same element at the same
/// time, unless both only read it.
#[derive(Clone, Copy)]
pub(crate) struct SharedSlice<'a> {
    pointer: *mut f32,
    len: usize,
    lifetime: PhantomData<&'a mut [f32]>,
}

// SAFETY: it stands for a mutable slice; its unsafe methods make the caller promise that accesses are disjoint.
unsafe impl Send for SharedSlice<'_> {}
// SAFETY: as above.
unsafe impl Sync for SharedSlice<'_> {}

impl<'a> SharedSlice<'a> {
    pub(crate) fn new(slice: &'a mut [f32]) -> Self {
        Self { pointer: slice.as_mut_ptr(), len: slice.len(), lifetime: PhantomData }
    }

    /// Returns the elements `start..start + count` for writing.
    ///
    /// # Safety
    /// No other live reference covers any of them.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn slice(&self, start: usize, count: usize) -> &'a mut [f32] {
        assert!(start <= self.len && count <= self.len - start);
        // SAFETY: inside the slice by the assertion, exclusive by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.add(start), count) }
    }

    /// Returns the elements `start..start + count` for reading.
    ///
    /// # Safety
    /// No thread writes to them while the returned slice lives.
    #[inline(always)]
    pub(crate) unsafe fn read(self, start: usize, count: usize) -> &'a [f32] {
        assert!(start <= self.len && count <= self.len - start);
        // SAFETY: inside the slice by the assertion, not written by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.pointer.add(start), count) }
    }

    /// Loads the elements `start..start + count` into the first lanes of a vector, with zeros in the others.
    ///
    /// # Safety
    /// No other thread writes to them at the same time.
    #[inline(always)]
    pub(crate) unsafe fn load<S: Simd>(self, simd: S, start: usize, count: usize) -> S::f32s {
        // SAFETY: the caller's promise.
        load(simd, unsafe { self.read(start, count) })
    }

    /// Writes the first `count` lanes of `value` to the elements `start..start + count`.
    ///
    /// # Safety
    /// No other thread reads or writes them at the same time.
    #[inline(always)]
    pub(crate) unsafe fn store<S: Simd>(self, simd: S, start: usize, count: usize, value: S::f32s) {
        // SAFETY: the caller's promise; the reference ends here.
        match S::as_mut_simd_f32s(unsafe { self.slice(start, count) }) {
            ([whole], []) => *whole = value,
            (_, part) => simd.partial_store_f32s(part, value),
        }
    }

    /// Adds the first `count` lanes of `value` to the elements `start..start + count`.
    ///
    /// # Safety
    /// No other thread reads or writes them at the same time.
    #[inline(always)]
    pub(crate) unsafe fn add<S: Simd>(self, simd: S, start: usize, count: usize, value: S::f32s) {
        // SAFETY: the caller's promise.
        unsafe { self.store(simd, start, count, simd.add_f32s(self.load(simd, start, count), value)) };
    }

    /// Returns the address of an element; `index` is not checked.
    #[inline(always)]
    pub(crate) fn pointer(self, index: usize) -> *mut f32 {
        self.pointer.wrapping_add(index)
    }
}
