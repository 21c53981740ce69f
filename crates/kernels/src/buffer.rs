//! Memory for results.

/// A page of memory has at least this many `f32`s on every system.
const PAGE: usize = 1024;

/// `len` numbers of unspecified value, to be overwritten by a kernel.
///
/// Zeroing a result first would cost about a tenth of a training step in memory traffic. Reading one of the numbers is
/// safe and useless: it is whatever the memory held.
#[doc(hidden)]
#[allow(clippy::uninit_vec, reason = "the elements are made numbers before the length is set")]
pub fn unwritten(len: usize) -> Vec<f32> {
    let mut buffer = Vec::with_capacity(len);
    // A page that the system may still take back has no fixed content until it is written to.
    let memory = &mut buffer.spare_capacity_mut()[..len];
    for at in (0..len).step_by(PAGE).chain(len.checked_sub(1)) {
        memory[at].write(0.0);
    }
    settle(memory);
    // SAFETY: the capacity is at least `len`, and `settle` has given every element a value; any bits are an `f32`.
    unsafe { buffer.set_len(len) };
    buffer
}

/// Gives every element some value: the one that its memory holds, at no cost.
#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
fn settle(memory: &mut [std::mem::MaybeUninit<f32>]) {
    // SAFETY: the block has no instruction. To the compiler, which does not look into it, it may write to the memory
    // behind the pointer that it takes (no `nomem` or `readonly` here), and the slice gives it the right to. What it says to
    // have written are the bytes that are there: they stay, since every page was written to.
    unsafe { std::arch::asm!("/* {0} */", in(reg) memory.as_mut_ptr(), options(nostack, preserves_flags)) };
}

/// Gives every element the value 0: other processors, and interpreters that run no assembly.
#[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
fn settle(memory: &mut [std::mem::MaybeUninit<f32>]) {
    memory.fill(std::mem::MaybeUninit::new(0.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_stays_and_can_be_overwritten() {
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
