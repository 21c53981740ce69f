//! The instruction sets, and the choice of one at run time.
//!
//! A kernel is written once, generic over [`pulp::Simd`], and [`dispatch`] compiles it for each instruction set.
//! `REGARD_ISA` (`avx512`, `avx2`, `neon`, `scalar`) forces one, also for our products by the `gemm` crate.

use std::sync::atomic::{AtomicU8, Ordering};

use pulp::{Scalar, Simd, WithSimd};

/// An instruction set that our kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Isa {
    /// Plain Rust, one lane.
    Scalar = 1,
    /// x86-64 with AVX2 and FMA, 8 lanes.
    Avx2 = 2,
    /// x86-64 with AVX-512 F, BW, CD, DQ and VL, 16 lanes.
    Avx512 = 3,
    /// AArch64, 4 lanes.
    Neon = 4,
}

/// The error for an instruction set that was asked for but is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("instruction set `{asked}` is not available here; this machine has: {available}")]
pub struct IsaUnavailable {
    asked: String,
    available: String,
}

/// The instruction set of this process: 0 until it is first needed, then an [`Isa`] that never changes.
static CURRENT: AtomicU8 = AtomicU8::new(0);

impl Isa {
    /// All instruction sets, the fastest first.
    const ALL: [Isa; 4] = [Isa::Avx512, Isa::Avx2, Isa::Neon, Isa::Scalar];

    /// Returns the instruction sets that this machine can run, the fastest first.
    pub fn available() -> Vec<Isa> {
        Self::ALL.into_iter().filter(|isa| isa.is_available()).collect()
    }

    /// Returns the instruction set in use: the one named by `REGARD_ISA`, else the fastest. It never changes within a
    /// process.
    ///
    /// A `REGARD_ISA` that names no available set is ignored; [`Isa::from_environment`] reports it.
    pub fn current() -> Isa {
        #[cfg(test)]
        if let Some(isa) = on_this_thread::get() {
            return isa;
        }
        match CURRENT.load(Ordering::Relaxed) {
            1 => Isa::Scalar,
            2 => Isa::Avx2,
            3 => Isa::Avx512,
            4 => Isa::Neon,
            _ => {
                let isa = Self::from_environment().unwrap_or_else(|_| Self::fastest());
                CURRENT.store(isa as u8, Ordering::Relaxed);
                isa
            }
        }
    }

    /// Returns the instruction set that `REGARD_ISA` names, or the fastest if the variable is not set.
    pub fn from_environment() -> Result<Isa, IsaUnavailable> {
        match std::env::var("REGARD_ISA") {
            Ok(name) if !name.is_empty() => Self::named(&name),
            _ => Ok(Self::fastest()),
        }
    }

    /// Returns the instruction set of that name, if this machine has it.
    fn named(name: &str) -> Result<Isa, IsaUnavailable> {
        let found = Self::ALL.into_iter().find(|isa| isa.name() == name && isa.is_available());
        found.ok_or_else(|| IsaUnavailable::new(name.to_string()))
    }

    /// Returns the name by which `REGARD_ISA` selects it.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Neon => "neon",
        }
    }

    fn fastest() -> Isa {
        Self::ALL.into_iter().find(|isa| isa.is_available()).unwrap_or(Isa::Scalar)
    }

    fn is_available(self) -> bool {
        match self {
            Isa::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => pulp::x86::V3::try_new().is_some(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => pulp::x86::V4::try_new().is_some(),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => pulp::aarch64::Neon::try_new().is_some(),
            _ => false,
        }
    }
}

impl IsaUnavailable {
    fn new(asked: String) -> Self {
        let available = Isa::available().iter().map(|isa| isa.name()).collect::<Vec<_>>().join(", ");
        Self { asked, available }
    }
}

/// Runs `kernel` as compiled for the instruction set in use.
pub(crate) fn dispatch<K: WithSimd>(kernel: K) -> K::Output {
    match Isa::current() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => match pulp::x86::V4::try_new() {
            Some(simd) => Simd::vectorize(simd, kernel),
            None => Simd::vectorize(Scalar::new(), kernel),
        },
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => match pulp::x86::V3::try_new() {
            Some(simd) => Simd::vectorize(simd, kernel),
            None => Simd::vectorize(Scalar::new(), kernel),
        },
        #[cfg(target_arch = "aarch64")]
        Isa::Neon => match pulp::aarch64::Neon::try_new() {
            Some(simd) => Simd::vectorize(simd, kernel),
            None => Simd::vectorize(Scalar::new(), kernel),
        },
        _ => Simd::vectorize(Scalar::new(), kernel),
    }
}

/// The instruction set that a test has chosen for its own threads. Tests run at the same time in one process, so none may
/// change the set of the process.
#[cfg(test)]
mod on_this_thread {
    use std::cell::Cell;

    use super::Isa;

    thread_local! {
        static CHOSEN: Cell<Option<Isa>> = const { Cell::new(None) };
    }

    pub(super) fn get() -> Option<Isa> {
        CHOSEN.get()
    }

    pub(super) fn set(isa: Option<Isa>) {
        CHOSEN.set(isa);
    }
}

/// Runs `test` once on every instruction set of this machine, in a pool of threads that use it.
#[cfg(test)]
pub(crate) fn on_every_isa(mut test: impl FnMut(Isa) + Send) {
    let threads = rayon::current_num_threads();
    for isa in Isa::available() {
        pool_on(threads, Some(isa)).install(|| test(isa));
    }
}

/// Returns a pool of `threads` threads that use the instruction set of this one. Tests take their pools from here: the
/// threads of any other pool do not use the set that [`on_every_isa`] has chosen.
#[cfg(test)]
pub(crate) fn pool(threads: usize) -> rayon::ThreadPool {
    pool_on(threads, on_this_thread::get())
}

#[cfg(test)]
fn pool_on(threads: usize, isa: Option<Isa>) -> rayon::ThreadPool {
    let choose = move |_| on_this_thread::set(isa);
    rayon::ThreadPoolBuilder::new().num_threads(threads).start_handler(choose).build().unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalar_is_always_there_and_last() {
        assert_eq!(Isa::available().last(), Some(&Isa::Scalar));
    }

    #[test]
    fn a_missing_set_is_refused_by_name() {
        let missing = Isa::ALL.into_iter().find(|isa| !isa.is_available()).unwrap();
        let message = Isa::named(missing.name()).unwrap_err().to_string();
        assert!(message.contains(missing.name()) && message.contains("scalar"), "{message}");
    }

    #[test]
    fn a_test_chooses_for_its_own_threads_alone() {
        let outside = Isa::current();
        on_every_isa(|isa| {
            let inside = || rayon::broadcast(|_| Isa::current());
            assert!(inside().into_iter().chain(pool(2).install(inside)).all(|found| found == isa), "{isa:?}");
            // Another test that runs meanwhile, on its thread and on the global pool.
            let elsewhere = std::thread::spawn(|| (Isa::current(), rayon::broadcast(|_| Isa::current())));
            let (thread, pool) = elsewhere.join().unwrap();
            assert!(thread == outside && pool.into_iter().all(|found| found == outside), "{isa:?}");
        });
        assert_eq!(Isa::current(), outside);
    }
}
