//! Vectors in memory that several threads write to at disjoint places.

use std::marker::PhantomData;

use pulp::Simd;

/// A slice that the parts of a [`super::team::Team`] read and write, each its own rows and units.
///
/// Every access is checked against the length; what the caller promises is that no two threads use the same element
/// without a barrier between them, unless all of them read.
#[derive(Clone, Copy)]
pub(super) struct Shared<'a> {
    pointer: *mut f32,
    len: usize,
    lifetime: PhantomData<&'a mut [f32]>,
}

// SAFETY: it is a mutable slice in all but name; the unsafe methods make the caller promise disjointness.
unsafe impl Send for Shared<'_> {}
// SAFETY: as above.
unsafe impl Sync for Shared<'_> {}

impl<'a> Shared<'a> {
    pub(super) fn new(slice: &'a mut [f32]) -> Self {
        Self { pointer: slice.as_mut_ptr(), len: slice.len(), lifetime: PhantomData }
    }

    /// The elements `start..start + count` in the first lanes of a vector, zeros in the others.
    ///
    /// # Safety
    /// No other thread writes to them before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn load<S: Simd>(self, simd: S, start: usize, count: usize) -> S::f32s {
        // SAFETY: the caller's promise.
        load(simd, unsafe { self.read(start, count) })
    }

    /// Writes the first `count` lanes of `value` to `start..start + count`.
    ///
    /// # Safety
    /// No other thread reads or writes them before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn store<S: Simd>(self, simd: S, start: usize, count: usize, value: S::f32s) {
        assert!(start <= self.len && count <= self.len - start);
        // SAFETY: inside the slice by the assertion, exclusive by the caller's promise.
        let slice = unsafe { std::slice::from_raw_parts_mut(self.pointer.add(start), count) };
        match S::as_mut_simd_f32s(slice) {
            ([whole], []) => *whole = value,
            (_, part) => simd.partial_store_f32s(part, value),
        }
    }

    /// Adds the first `count` lanes of `value` to `start..start + count`.
    ///
    /// # Safety
    /// No other thread reads or writes them before the next barrier.
    #[inline(always)]
    pub(super) unsafe fn add<S: Simd>(self, simd: S, start: usize, count: usize, value: S::f32s) {
        // SAFETY: the caller's promise.
        unsafe { self.store(simd, start, count, simd.add_f32s(self.load(simd, start, count), value)) };
    }

    /// Where an element is or would be; only for [`prefetch`].
    #[inline(always)]
    pub(super) fn address(self, index: usize) -> *const f32 {
        self.pointer.wrapping_add(index)
    }

    /// The elements `start..start + count`.
    ///
    /// # Safety
    /// No thread writes to them while the slice lives.
    #[inline(always)]
    pub(super) unsafe fn read(self, start: usize, count: usize) -> &'a [f32] {
        assert!(start <= self.len && count <= self.len - start);
        // SAFETY: inside the slice by the assertion, not written by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.pointer.add(start), count) }
    }
}

/// A slice of at most one vector, zeros in the lanes it does not fill.
#[inline(always)]
pub(super) fn load<S: Simd>(simd: S, slice: &[f32]) -> S::f32s {
    match S::as_simd_f32s(slice) {
        ([whole], []) => *whole,
        (_, part) => simd.partial_load_f32s(part),
    }
}

/// Asks for the cache line of an address that a later step will read; any address will do.
#[inline(always)]
pub(super) fn prefetch(address: *const f32) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, and every x86-64 processor has it.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
