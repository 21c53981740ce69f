//! Memory for results that is not zeroed first.

/// Number of `f32`s in the smallest page of memory of any system.
const PAGE: usize = 1024;

/// Returns `len` numbers of unspecified value, for a kernel to overwrite.
///
/// Zeroing a result first would cost about a tenth of a training step in memory traffic. Reading one of the numbers is
/// safe but useless: it is whatever the memory held.
#[doc(hidden)]
#[allow(clippy::uninit_vec, reason = "the elements are made numbers before the length is set")]
pub fn unwritten(len: usize) -> Vec<f32> {
    let mut buffer = Vec::with_capacity(len);
    // A page that the operating system may still take back has no fixed content until it is written to.
    let memory = &mut buffer.spare_capacity_mut()[..len];
    for at in (0..len).step_by(PAGE).chain(len.checked_sub(1)) {
        memory[at].write(0.0);
    }
    settle(memory);
    // SAFETY: the capacity is at least `len`, and `settle` has given every element a value; any bits are an `f32`.
    unsafe { buffer.set_len(len) };
    buffer
}

/// Makes the bytes that the memory holds the value of every element, at no cost.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
fn settle(memory: &mut [std::mem::MaybeUninit<f32>]) {
    // SAFETY: the block has no instruction. The compiler does not look into it and must assume that it writes to the
    // memory behind its pointer (there is no `nomem` or `readonly`), which the exclusive slice allows. The bytes that it
    // seems to have written are those in memory, and they stay, since every page has been written to.
    unsafe { std::arch::asm!("/* {0} */", in(reg) memory.as_mut_ptr(), options(nostack, preserves_flags)) };
}

/// Sets every element to 0, on other processors and in interpreters that run no assembly.
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
fn settle(memory: &mut [std::mem::MaybeUninit<f32>]) {
    memory.fill(std::mem::MaybeUninit::new(0.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stay_until_they_are_overwritten() {
        for len in [0, 1, PAGE - 1, PAGE, PAGE + 1, 5 * PAGE] {
            let mut buffer = unwritten(len);
            assert_eq!(buffer.len(), len);
            let bits = |buffer: &[f32]| buffer.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&buffer), bits(&buffer), "{len}");
            buffer.fill(1.0);
            assert!(buffer.iter().all(|&x| x == 1.0), "{len}");
        }
    }
}
