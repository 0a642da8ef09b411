//! Open MPI's OpenSHMEM examples from Debian's source package: they compile with our wrappers and say what
//! they must.
//!
//! The package comes from its registry, through apt with lists and keys of its own directory, so that nothing
//! of the machine is changed. Where that is not possible, this says so and checks nothing. What was fetched is
//! kept below `target` for the next time.

use angara_tests::{Test, tools};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The archive and the release whose package this is.
const SOURCE: &str = "Types: deb-src\nURIs: http://deb.debian.org/debian\nSuites: bookworm\nComponents: main\n\
                      Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n";
const TARBALL: &str = "openmpi_4.1.4.orig.tar.xz";
const EXAMPLES: &str = "openmpi-4.1.4/examples";

/// What each example prints with four PEs, in whatever order; `ring` counts down from 10.
const OUTPUT: [(&str, &[&str]); 8] = [
    ("hello_oshmem_c.c", &["I am 0 of 4", "I am 1 of 4", "I am 2 of 4", "I am 3 of 4"]),
    ("hello_oshmem_cxx.cc", &["I am 0 of 4", "I am 1 of 4", "I am 2 of 4", "I am 3 of 4"]),
    ("ring_oshmem_c.c", &["Process 0 decremented value: 0", "Process 3 exiting"]),
    ("oshmem_circular_shift.c", &["Process 0 gets message from 1", "Process 3 gets message from 0"]),
    ("oshmem_max_reduction.c", &["0/4 dst = 3 4 5", "3/4 dst = 3 4 5"]),
    ("oshmem_shmalloc.c", &[]),
    ("oshmem_strided_puts.c", &["target on PE 1 is 1 3 5 7 9"]),
    ("oshmem_symmetric_data.c", &["Target on PE 3 is \t0 \t1 \t2"]),
];

/// Runs a step; what it said if it failed.
fn step(command: &mut Command) -> Result<(), String> {
    let done = command.stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    if done.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&done.stderr).trim().to_string()) }
}

fn fetch(dir: &Path) -> Result<(), String> {
    let make = |name: &str| std::fs::create_dir_all(dir.join(name)).map_err(|e| e.to_string());
    make("lists/partial").and_then(|()| make("cache/archives/partial"))?;
    let list = dir.join("source.sources");
    std::fs::write(&list, SOURCE).map_err(|e| e.to_string())?;
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.current_dir(dir).args(["-q", "-o", "Dir::Etc::sourceparts=-", "-o", "Acquire::http::Timeout=10"]);
        // Without that a list that cannot be had is only a warning.
        apt.args(["-o", "APT::Update::Error-Mode=any", "-o", "Acquire::Retries=0"]);
        apt.arg("-o").arg(format!("Dir::Etc::sourcelist={}", list.display()));
        apt.arg("-o").arg(format!("Dir::State::lists={}", dir.join("lists").display()));
        apt.arg("-o").arg(format!("Dir::Cache={}", dir.join("cache").display()));
        apt
    };
    step(apt().arg("update"))?;
    step(apt().args(["source", "--download-only", "openmpi"]))?;
    step(Command::new("tar").current_dir(dir).args(["xf", TARBALL, EXAMPLES]))
}

fn examples() -> Option<PathBuf> {
    let dir = tools::profile_dir().join("angara-tests/openmpi");
    if !dir.join(EXAMPLES).is_dir()
        && let Err(why) = fetch(&dir)
    {
        println!("skipped: Debian's source package of Open MPI cannot be had here: {why}");
        return None;
    }
    Some(dir.join(EXAMPLES))
}

#[test]
fn open_mpi_examples_say_what_they_must() {
    let Some(examples) = examples() else { return };
    for (source, output) in OUTPUT {
        let test = Test::new("openmpi");
        let program = test.file("program");
        let mut compile = Command::new(tools::tool(if source.ends_with(".cc") { "oshc++" } else { "oshcc" }));
        compile.arg(examples.join(source)).arg("-o").arg(&program);
        step(&mut compile).unwrap_or_else(|why| panic!("{source} does not compile:\n{why}"));
        for path in ["direct", "ring"] {
            let mut command = test.angara(["run", "-n", "4", "--path", path, "--timeout", "200", "--"]);
            command.arg(&program);
            let done = test.run(command).success();
            for line in output {
                assert!(done.stdout.contains(line), "{source}: no {line:?}\n{done}");
            }
        }
        test.assert_clean();
    }
}
