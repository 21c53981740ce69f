//! Says what to install if the feature `mpi` has no MPI library: the message of the binding lists what it tried.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
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
