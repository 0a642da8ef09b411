//! `angara-pes`, see the library of the same package.

use std::process::ExitCode;

#[cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]
fn main() -> ExitCode {
    angara_one_process::main()
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
fn main() -> ExitCode {
    let here = std::env::consts::ARCH;
    eprintln!("angara-pes: coroutines are for x86-64 Linux with glibc, and this is {here}; use --pes-as processes");
    ExitCode::from(2)
}
