//! Builds for other systems than this one: linked with the glibc of an older Debian, for this processor or another, and
//! with no path of this machine in them.
//!
//! Headers and libraries of that glibc come from Debian's archive, unpacked below `target/sysroot`; nothing of them is run.
//! Compiler and linker are those of this machine.

use crate::machine::Machine;
use crate::steps::{built, cannot, cargo_build, make_dir, require, run};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Debian whose glibc it is: 2.31.
const SUITE: &str = "bullseye";
/// Its archive. That of its security updates does not keep all processors.
const ARCHIVE: &str = "http://deb.debian.org/debian";

/// Functions of which glibc 2.29 has new versions. The older ones give the same results, and are in every glibc. What
/// differs is how they report errors to programs of System V, which nobody here asks for.
const MATHEMATICS: [&str; 5] = ["exp", "exp2", "log", "log2", "pow"];

/// Functions that glibc has only since 2.29 or 2.30. Rust's standard library does without where they are not there, and here it
/// never finds them.
const LATER: [&str; 2] = ["gettid", "posix_spawn_file_actions_addchdir_np"];

/// Builds everything, and the simulator for Python beside it; the directory with the programs.
pub(crate) fn build(root: &Path, target: &Path, machine: Machine) -> Result<PathBuf, String> {
    let compiler = machine.tool("gcc");
    require(&[(&compiler, "gcc, or gcc-aarch64-linux-gnu with libc6-dev-arm64-cross"), ("mmdebstrap", "mmdebstrap")])?;
    let sysroot = sysroot(&target.join("sysroot"), machine)?;
    let older = older_mathematics(&sysroot, machine)?;
    let target = target.join("portable");
    // By itself: together with the commands it would have their code in it.
    for packages in [&[][..], &["--package", "angara-python"]] {
        let mut cargo = cargo_build(root, &target);
        cargo.args(["--release", "--target", machine.triple()]).args(packages);
        // A release has the lines in an archive of their own.
        cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only");
        settings(&mut cargo, root, &target, machine, &sysroot, &older);
        built(&mut cargo, &machine.without_rust())?;
    }
    Ok(target.join(machine.triple()).join("release"))
}

/// Says to compilers and linker where that glibc is, and by which names to call the directories of this machine.
fn settings(cargo: &mut Command, root: &Path, target: &Path, machine: Machine, sysroot: &Path, older: &Path) {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"))).unwrap_or_default();
    // The last that fits counts.
    let names = [(home.as_path(), "cargo"), (root, "angara"), (target, "target")];
    let libraries = format!("{}/usr/lib/{}", sysroot.display(), machine.multiarch());
    let sysroot = format!("--sysroot={}", sysroot.display());
    let mut rust: Vec<String> = vec![format!("-Clink-arg={sysroot}")];
    // A compiler looks beside itself first.
    rust.push(format!("-Clink-arg=-B{libraries}"));
    // The compiler's own library wants this machine's glibc; where the program will run, there is another of it.
    rust.push("-Clink-arg=-Wl,--allow-shlib-undefined".into());
    rust.push(format!("-Clink-arg={}", older.display()));
    let wrapped = MATHEMATICS.iter().chain(&LATER);
    rust.extend(wrapped.map(|name| format!("-Clink-arg=-Wl,--wrap={name}")));
    rust.extend(names.map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())));
    let mut c = vec![sysroot];
    c.extend(names.map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display())));
    let triple = machine.triple().replace('-', "_");
    let own = format!("CARGO_TARGET_{}", triple.to_uppercase());
    cargo.env(format!("{own}_LINKER"), machine.tool("gcc")).env(format!("CFLAGS_{triple}"), c.join(" "));
    cargo.env(format!("CC_{triple}"), machine.tool("gcc"));
    // Flags of the user's own would come in the place of these.
    cargo.env_remove("RUSTFLAGS");
    cargo.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\x1f"));
}

/// Headers and libraries of the older Debian below `dir`, from its archive if they are not there yet.
fn sysroot(dir: &Path, machine: Machine) -> Result<PathBuf, String> {
    let root = dir.join(format!("{SUITE}-{}", machine.debian()));
    if root.exists() {
        return Ok(root);
    }
    angara_protocol::complain!("xtask: headers and libraries of Debian's {SUITE}, for {}", machine.name());
    make_dir(dir)?;
    let new = dir.join(format!(".new-{}", std::process::id()));
    let mut bootstrap = Command::new("mmdebstrap");
    // Nothing is run in it. Its own user for downloads may not read every directory.
    bootstrap.args(["--quiet", "--variant=extract", "--include=libc6-dev,linux-libc-dev"]);
    bootstrap.args(["--aptopt=APT::Sandbox::User \"root\"", &format!("--architectures={}", machine.debian())]);
    let done = run(bootstrap.arg(SUITE).arg(&new).arg(ARCHIVE)).and_then(|_| inside(&new, machine));
    if let Err(why) = done {
        // What is left of it is in nobody's way.
        let _ = fs::remove_dir_all(&new);
        return Err(format!("{why}; it takes Debian's archive, and its keys (apt-get install debian-archive-keyring)"));
    }
    fs::rename(&new, &root).map_err(|e| cannot("make", &root, &e))?;
    Ok(root)
}

/// Links from its root lead to this machine's libraries: makes them lead to its own.
fn inside(sysroot: &Path, machine: Machine) -> Result<(), String> {
    let multiarch = machine.multiarch();
    for dir in [format!("usr/lib/{multiarch}"), format!("lib/{multiarch}"), "lib".into(), "lib64".into()] {
        // Not every machine has each.
        let Ok(entries) = fs::read_dir(sysroot.join(&dir)) else { continue };
        let up: PathBuf = Path::new(&dir).components().map(|_| "..").collect();
        for link in entries.flatten().map(|entry| entry.path()) {
            let Ok(to) = fs::read_link(&link) else { continue };
            let Ok(below) = to.strip_prefix("/") else { continue };
            fs::remove_file(&link)
                .and_then(|()| symlink(up.join(below), &link))
                .map_err(|e| cannot("link", &link, &e))?;
        }
    }
    Ok(())
}

/// A library of functions that go on in the older ones of [`MATHEMATICS`], and of the system call of `gettid` for those who
/// insist on it. What uses none of them is not linked with it.
fn older_mathematics(sysroot: &Path, machine: Machine) -> Result<PathBuf, String> {
    let (first, jump, gettid) = match machine {
        Machine::X86_64 => ("GLIBC_2.2.5", "jmp", "\tmov $186, %eax\n\tsyscall\n\tret\n"),
        Machine::Aarch64 => ("GLIBC_2.17", "b", "\tmov x8, #178\n\tsvc #0\n\tret\n"),
    };
    let dir = sysroot.join("older");
    make_dir(&dir)?;
    let archive = dir.join("libolder.a");
    let mut objects: Vec<OsString> = Vec::new();
    let mathematics = MATHEMATICS.map(|name| {
        let plt = if machine == Machine::X86_64 { "@PLT" } else { "" };
        (name, format!("\t{jump} older_{name}{plt}\n.symver older_{name}, {name}@{first}\n"))
    });
    for (name, code) in mathematics.into_iter().chain([("gettid", gettid.into())]) {
        let text = format!(
            ".text\n.globl __wrap_{name}\n.hidden __wrap_{name}\n.type __wrap_{name}, %function\n\
             __wrap_{name}:\n{code}\
             .size __wrap_{name}, . - __wrap_{name}\n.section .note.GNU-stack,\"\",%progbits\n"
        );
        let (source, object) = (dir.join(format!("{name}.s")), dir.join(format!("{name}.o")));
        fs::write(&source, text).map_err(|e| cannot("write", &source, &e))?;
        run(Command::new(machine.tool("as")).arg(&source).arg("-o").arg(&object))?;
        objects.push(object.into());
    }
    // Made anew: an older one may have other members.
    let _ = fs::remove_file(&archive);
    run(Command::new(machine.tool("ar")).arg("rcsD").arg(&archive).args(&objects))?;
    Ok(archive)
}
