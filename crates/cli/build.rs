//! Asks the linker to keep one copy of equal functions, and says what to install if the feature `mpi` has no MPI library.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    fold_equal_functions();
    find_mpi();
}

/// Folds functions with equal instructions, of which generic code has many. The default linker of rustup's toolchain for Linux
/// can do that; another one may not know the option.
fn fold_equal_functions() {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let target = variable("TARGET");
    let is_default = target == "x86_64-unknown-linux-gnu"
        && env::var_os("RUSTC_LINKER").is_none()
        && !variable("CARGO_ENCODED_RUSTFLAGS").contains("link");
    let root = Command::new(variable("RUSTC")).args(["--print", "sysroot"]).output();
    let root = root.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string()).unwrap_or_default();
    let linker = Path::new(&root).join("lib/rustlib").join(target).join("bin/gcc-ld/ld.lld");
    if is_default && linker.exists() {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
    }
}

/// The message of the binding lists what it tried, not what to install.
fn find_mpi() {
    for name in ["MPICC", "MPI_PKG_CONFIG", "CRAY_MPICH_DIR", "PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    if env::var_os("CARGO_FEATURE_MPI").is_none() {
        return;
    }
    let is_named = ["MPI_PKG_CONFIG", "CRAY_MPICH_DIR"].iter().any(|name| env::var_os(name).is_some());
    let compiler = env::var("MPICC").unwrap_or_else(|_| "mpicc".to_string());
    let has_compiler = Command::new(&compiler).arg("-show").output().is_ok_and(|output| output.status.success());
    assert!(
        is_named || has_compiler,
        "the feature `mpi` needs an MPI library and libclang, and there is no `{compiler}`; install them (Debian and \
         Ubuntu: apt-get install libopenmpi-dev openmpi-bin libclang-dev; Fedora: dnf install openmpi-devel clang-devel, \
         then module load mpi; macOS: brew install open-mpi llvm), or set MPICC to the compiler of your MPI"
    );
}
