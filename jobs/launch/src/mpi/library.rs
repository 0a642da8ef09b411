//! Which MPI library a program is linked with.
//!
//! The name of the library does not tell: MPICH and Intel MPI share `libmpi.so.12`, and everybody's library of the standard
//! interface is `libmpi_abi.so`. So the program's own loader says which file it would load, and the file says whose it is.

use super::elf;
use angara_control::error::Failed;
use angara_control::install;
use angara_protocol::launch::ENV_JOB;
use rustix::fs::{MemfdFlags, memfd_create};
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a loader may take to say what it would load.
const LIMIT: Duration = Duration::from_secs(10);
/// Time between two looks whether it has.
const LOOK: Duration = Duration::from_micros(200);

/// Whose library it is, which decides how processes are started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LibraryKind {
    /// MPICH, and MVAPICH.
    Mpich,
    /// Intel MPI.
    Intel,
    OpenMpi,
}

impl std::fmt::Display for LibraryKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LibraryKind::Mpich => "MPICH",
            LibraryKind::Intel => "Intel MPI",
            LibraryKind::OpenMpi => "Open MPI",
        })
    }
}

impl LibraryKind {
    /// Of a library's file.
    pub fn of(library: &Path) -> Option<LibraryKind> {
        // Intel's is made of MPICH, so that its own name counts first.
        let mut marks = [
            ("Intel(R) MPI Library", LibraryKind::Intel, false),
            ("MPICH Version", LibraryKind::Mpich, false),
            ("MVAPICH", LibraryKind::Mpich, false),
            ("Open MPI v", LibraryKind::OpenMpi, false),
        ];
        elf::texts(library, |texts| {
            for text in texts {
                marks.iter_mut().filter(|(mark, ..)| text.starts_with(mark)).for_each(|mark| mark.2 = true);
            }
        })?;
        marks.into_iter().find(|mark| mark.2).map(|mark| mark.1)
    }
}

/// A library that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Library {
    pub kind: LibraryKind,
    pub file: PathBuf,
}

/// What a program's file says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Linked {
    /// It is linked with this one.
    Mpi(Library),
    /// It is linked with our OpenSHMEM or driver, and not with MPI.
    Shmem,
    /// It is linked with Open MPI's OpenSHMEM, which has a way to our network.
    Oshmem(Library),
    /// Neither: it may yet start or load an MPI program, as a shell or Python does.
    Unknown,
}

/// Beginnings of the names of libraries that lead to no other ones but such.
const SYSTEM: [&str; 9] = [
    "libc.so",
    "libm.so",
    "libdl.so",
    "librt.so",
    "libpthread.so",
    "libgcc_s.so",
    "libstdc++.so",
    "libtinfo.so",
    "ld-linux",
];
/// Names, before `.so`, of libraries that are MPI, and not only made for it.
const MPI: [&str; 6] = ["libmpi", "libmpi_abi", "libmpich", "libmpi_cray", "libmpi_mt", "libmpi_ilp64"];
/// The same of OpenSHMEM.
const SHMEM: [&str; 3] = ["libsma", OSHMEM, "libangara"];
/// That of Open MPI, and the part of it that uses UCX.
const OSHMEM: &str = "liboshmem";
const OSHMEM_UCX: &str = "mca_spml_ucx.so";
/// Directories below that of Open MPI's library in which its parts may lie.
const DEPTH: u32 = 3;

/// Looks at `program`. `variables` are those that its processes will have and this one has not.
pub fn linked(program: &Path, variables: &[(OsString, OsString)]) -> Result<Linked, Failed> {
    let Some(elf) = elf::read(program) else { return Ok(Linked::Unknown) };
    let Some(loader) = &elf.loader else { return Ok(Linked::Unknown) };
    linked_by(loader, program, &elf.needed, variables)
}

/// The same with a loader that the file itself need not name, as a library does not.
pub fn linked_by(
    loader: &Path,
    program: &Path,
    needed: &[String],
    variables: &[(OsString, OsString)],
) -> Result<Linked, Failed> {
    if needed.iter().all(|name| SYSTEM.iter().any(|system| name.starts_with(system))) {
        return Ok(Linked::Unknown);
    }
    let all = listed(loader, program, variables);
    if let Some(other) = all.iter().find(|(name, file)| is_other_shmem(name, file.as_deref())) {
        return match other {
            (name, None) => Err(not_found(program, name)),
            (_, Some(file)) if stem(&other.0) == OSHMEM && has_component(file, OSHMEM_UCX) => {
                Ok(Linked::Oshmem(Library { kind: LibraryKind::OpenMpi, file: file.clone() }))
            }
            (_, Some(file)) => Err(other_shmem(program, file)),
        };
    }
    let shmem = || needed.iter().any(|name| SHMEM.contains(&stem(name)));
    let direct = needed.iter().any(|name| MPI.contains(&stem(name)));
    if shmem() && !direct {
        return Ok(Linked::Shmem);
    }
    let mut unknown = None;
    for (name, file) in all.iter().filter(|(name, _)| MPI.contains(&stem(name))) {
        let Some(file) = file else { return Err(not_found(program, name)) };
        match LibraryKind::of(file) {
            Some(kind) => return Ok(Linked::Mpi(Library { kind, file: file.clone() })),
            None => unknown = Some(file),
        }
    }
    match unknown {
        Some(file) => Err(Failed::runtime(
            format!("{} is linked with {}, an MPI library that is not known here", program.display(), file.display()),
            "say whose it behaves like, with --mpi mpich, intel or openmpi; or start it with that library's own mpirun",
        )),
        None => Ok(Linked::Unknown),
    }
}

/// `libmpi` of `libmpi.so.12`.
fn stem(name: &str) -> &str {
    name.split(".so").next().unwrap_or(name)
}

/// True if it is a file of an MPI library, by its name.
pub fn is_mpi(file: &Path) -> bool {
    file.file_name().is_some_and(|name| MPI.contains(&stem(&name.to_string_lossy())))
}

/// True if a library is an OpenSHMEM, and not ours. One that is not found may be ours if it is called like it.
fn is_other_shmem(name: &str, file: Option<&Path>) -> bool {
    match (stem(name), file) {
        (OSHMEM, _) => true,
        ("libsma", Some(file)) => !is_ours(file),
        _ => false,
    }
}

/// True if a library is one of ours: it reads what our launcher tells it.
fn is_ours(file: &Path) -> bool {
    // Mostly it is the one beside this program, and need not be read.
    let own = install::bin_dir().ok().and_then(|bin| install::lib_dir(&bin)).map(|dir| dir.join(install::LIBRARY));
    if own.is_some_and(|own| own.canonicalize().is_ok_and(|own| file.canonicalize().is_ok_and(|file| file == own))) {
        return true;
    }
    elf::constants(file, |bytes| contains(bytes, ENV_JOB.as_bytes())).unwrap_or(false)
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(bytes, part).is_some()
}

fn other_shmem(program: &Path, file: &Path) -> Failed {
    let oshcc = install::bin_dir().map_or("oshcc".into(), |bin| bin.join("oshcc").display().to_string());
    Failed::runtime(
        format!(
            "{} is linked with {}, another OpenSHMEM, which knows nothing of our network",
            program.display(),
            file.display()
        ),
        format!("compile it with {oshcc}; or start it with the launcher of that library"),
    )
}

/// True if `program` is linked with a library of ours that its loader would not find.
pub fn lacks_ours(program: &Path, variables: &[(OsString, OsString)]) -> bool {
    let Some(elf) = elf::read(program) else { return false };
    let ours = |name: &str| matches!(stem(name), "libsma" | "libangara");
    let Some(loader) = elf.loader.filter(|_| elf.needed.iter().any(|name| ours(name))) else { return false };
    listed(&loader, program, variables).iter().any(|(name, file)| ours(name) && file.is_none())
}

/// True if the Open MPI, or its OpenSHMEM, in the file `library` has this part, which is a file of its own.
pub fn has_component(library: &Path, component: &str) -> bool {
    let dir = std::fs::canonicalize(library).ok().and_then(|file| file.parent().map(Path::to_path_buf));
    let inside = |dir: PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut places: Vec<PathBuf> = dir.into_iter().flat_map(inside).filter(|path| is_open_mpis(path)).collect();
    for _ in 0..DEPTH {
        if places.iter().any(|dir| dir.join(component).exists()) {
            return true;
        }
        places = places.into_iter().filter(|path| path.is_dir()).flat_map(inside).collect();
    }
    false
}

fn is_open_mpis(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("openmpi"))
}

/// Every library that `library` would bring along, as [`listed`] has it.
pub fn dependencies(library: &Path, variables: &[(OsString, OsString)]) -> Vec<(String, Option<PathBuf>)> {
    // A library names no loader. Ours is the system's, unless this program is a static one.
    let loader = elf::read(Path::new("/proc/self/exe")).and_then(|own| own.loader);
    loader.map(|loader| listed(&loader, library, variables)).unwrap_or_default()
}

fn not_found(program: &Path, name: &str) -> Failed {
    // Where a wheel of Python's registry puts both.
    let near = program.parent().and_then(Path::parent).map(|prefix| prefix.join("lib"));
    let dir = near.filter(|dir| dir.join(name).exists()).map_or("DIRECTORY".into(), |dir| dir.display().to_string());
    Failed::runtime(
        format!("{} is linked with {name}, which the loader does not find", program.display()),
        format!("name the directory it lies in: -x LD_LIBRARY_PATH={dir}"),
    )
    .with_code(127)
}

/// Every library that `loader` would load for `program`, by name, and its file if it is found.
fn listed(loader: &Path, program: &Path, variables: &[(OsString, OsString)]) -> Vec<(String, Option<PathBuf>)> {
    // Named from the root or here, not to be looked for in PATH.
    let program = std::path::absolute(program).unwrap_or_else(|_| program.into());
    let mut command = Command::new(loader);
    // Asked by its option, musl's loader lists what there is, and others stop at the first library that is missing. Asked by
    // the variable those list all, and musl's would start the program.
    match loader.file_name().is_some_and(|name| name.to_string_lossy().contains("musl")) {
        true => command.arg("--list"),
        false => command.env("LD_TRACE_LOADED_OBJECTS", "1"),
    };
    command.arg(program).envs(variables.iter().map(|(k, v)| (k, v)));
    let said = output(command).unwrap_or_default();
    said.lines().filter_map(parse).collect()
}

/// `name => file (address)`, or `name => not found`.
fn parse(line: &str) -> Option<(String, Option<PathBuf>)> {
    let (name, file) = line.trim().split_once(" => ")?;
    let file = file.rsplit_once(" (").map_or(file, |(file, _)| file);
    let name = name.rsplit('/').next().unwrap_or(name);
    Some((name.into(), (file != "not found").then(|| file.into())))
}

/// Returns what a short command prints, standard error included; nothing if it does not end in time.
pub fn output(mut command: Command) -> Option<String> {
    let mut file = File::from(memfd_create("angara-output", MemfdFlags::CLOEXEC).ok()?);
    let end = || file.try_clone().map(Stdio::from);
    let mut child = command.stdin(Stdio::null()).stdout(end().ok()?).stderr(end().ok()?).spawn().ok()?;
    let until = Instant::now() + LIMIT;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() >= until {
            // It may have ended just now.
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(LOOK);
    }
    let mut said = Vec::new();
    file.rewind().ok()?;
    file.read_to_end(&mut said).ok()?;
    Some(String::from_utf8_lossy(&said).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of programs and libraries that a C compiler makes.
    struct Made(PathBuf);

    impl Made {
        /// Nothing without a compiler.
        fn new(name: &str) -> Option<Made> {
            if Command::new("cc").arg("--version").output().is_err() {
                println!("skipped: no C compiler");
                return None;
            }
            let dir = std::env::temp_dir().join(format!("angara-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&dir).unwrap();
            Some(Made(dir))
        }

        fn cc(&self, name: &str, source: &str, options: &[&str]) -> PathBuf {
            let (file, c) = (self.0.join(name), self.0.join("source.c"));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&c, source).unwrap();
            let mut cc = Command::new("cc");
            cc.current_dir(&self.0).arg("-o").arg(&file).arg(&c).arg("-Wl,--no-as-needed").args(options);
            let done = cc.output().unwrap();
            assert!(done.status.success(), "{name}: {}", String::from_utf8_lossy(&done.stderr));
            file
        }

        /// A library that carries `texts`, as those of MPI do.
        fn library(&self, name: &str, texts: &[&str], options: &[&str]) -> PathBuf {
            let lines = texts.iter().enumerate().map(|(i, text)| format!("const char text{i}[] = \"{text}\";\n"));
            let soname = format!("-Wl,-soname,{}", name.rsplit('/').next().unwrap());
            let source = lines.collect::<String>();
            self.cc(name, &source, &[&["-shared", "-fPIC", &soname], options].concat())
        }

        fn program(&self, options: &[&str]) -> PathBuf {
            self.cc("program", "int main(void) { return 0; }", options)
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn kind(program: &Path) -> Option<LibraryKind> {
        match linked(program, &[]).unwrap() {
            Linked::Mpi(library) => Some(library.kind),
            _ => None,
        }
    }

    #[test]
    fn a_program_is_recognised_by_the_library_that_would_be_loaded() {
        let Some(made) = Made::new("linked") else { return };
        // Before what `cargo test` has the loader search, where our own libraries lie.
        let rpath = format!("-Wl,--disable-new-dtags,-rpath,{}", made.0.display());
        let intel = ["Intel(R) MPI Library %s for Linux* OS", "MPICH Version: %s"];
        for (name, texts, whose) in [
            ("libmpi.so.12", &["MPICH Version:      %s"][..], LibraryKind::Mpich),
            ("libmpi.so.12", &intel, LibraryKind::Intel),
            ("libmpi.so.40", &["Open MPI v%d.%d.%d"], LibraryKind::OpenMpi),
            ("libmpi_abi.so.1", &["no mark", "MPICH Version:      %s"], LibraryKind::Mpich),
            ("libmpi_abi.so.1", &intel, LibraryKind::Intel),
        ] {
            let library = made.library(name, texts, &[]);
            let found = linked(&made.program(&[&format!("-l:{name}"), "-L.", &rpath]), &[]).unwrap();
            assert_eq!(found, Linked::Mpi(Library { kind: whose, file: library }), "{name} {texts:?}");
        }
        // Through another library.
        made.library("libmpi.so.40", &["Open MPI v%d.%d.%d"], &[]);
        made.library("libhdf5.so.1", &["hdf"], &["-l:libmpi.so.40", "-L.", &rpath]);
        assert_eq!(kind(&made.program(&["-l:libhdf5.so.1", "-L.", &rpath])), Some(LibraryKind::OpenMpi));
        // Beside OpenSHMEM.
        made.library("libsma.so", &["ANGARA_JOB"], &[]);
        let both = made.program(&["-l:libsma.so", "-l:libmpi.so.40", "-L.", &rpath]);
        assert_eq!(kind(&both), Some(LibraryKind::OpenMpi));
        let shmem = made.program(&["-l:libsma.so", "-L.", &rpath]);
        assert_eq!(linked(&shmem, &[]), Ok(Linked::Shmem));
        // Somebody else's of the same name.
        made.library("libsma.so", &["shmem"], &[]);
        let e = linked(&shmem, &[]).unwrap_err();
        assert!(e.message.contains("libsma.so, another OpenSHMEM"), "{e:?}");
    }

    #[test]
    fn a_library_that_is_found_by_a_variable_only_is_found() {
        let Some(made) = Made::new("variable") else { return };
        let library = made.library("there/libmpi.so.12", &["MPICH Version: %s"], &[]);
        let program = made.program(&["-l:libmpi.so.12", "-Lthere"]);
        let e = linked(&program, &[]).unwrap_err();
        assert!(e.message.contains("libmpi.so.12") && e.remedy.contains("LD_LIBRARY_PATH") && e.code == 127, "{e:?}");
        let variable = ("LD_LIBRARY_PATH".into(), made.0.join("there").into_os_string());
        assert_eq!(linked(&program, &[variable]), Ok(Linked::Mpi(Library { kind: LibraryKind::Mpich, file: library })));
    }

    #[test]
    fn a_library_of_unknown_make_is_named() {
        let Some(made) = Made::new("unknown") else { return };
        made.library("libmpi.so.0", &["HPE MPT"], &[]);
        let rpath = format!("-Wl,-rpath,{}", made.0.display());
        let e = linked(&made.program(&["-l:libmpi.so.0", "-L.", &rpath]), &[]).unwrap_err();
        assert!(e.message.contains("libmpi.so.0") && e.remedy.contains("--mpi"), "{e:?}");
    }

    #[test]
    fn other_files_say_nothing() {
        let Some(made) = Made::new("other") else { return };
        assert_eq!(linked(&made.program(&[]), &[]), Ok(Linked::Unknown));
        let script = made.0.join("script");
        std::fs::write(&script, "#!/bin/sh\nexit 3\n").unwrap();
        assert_eq!(linked(&script, &[]), Ok(Linked::Unknown));
        // Cut short and scrambled: never more than an answer.
        let library = made.library("libmpi.so.12", &["MPICH Version: %s"], &[]);
        let bytes = std::fs::read(made.program(&["-l:libmpi.so.12", "-L."])).unwrap();
        for i in 0..200 {
            let mut bad = bytes[..bytes.len() * i / 200].to_vec();
            if i % 2 == 0 {
                bad = bytes.clone();
                (0..40).for_each(|j| bad[(i * 7919 + j * 104729) % 4096] ^= 0xa5);
            }
            std::fs::write(&library, &bad).unwrap();
            let _ = (elf::read(&library), LibraryKind::of(&library));
        }
    }

    #[test]
    fn a_version_is_the_number_that_stands_there_most_often() {
        let texts = ["2.0", "0.13.99", "5.0.2", "x 1.2.3", "5.0.2", "1..2", "1.2.3.4", "1.2.x"];
        assert_eq!(elf::version(&mut texts.into_iter()), Some("5.0.2".into()));
        assert_eq!(elf::version(&mut ["2.0"].into_iter()), None);
    }
}
