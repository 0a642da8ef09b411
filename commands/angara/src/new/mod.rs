//! `angara new`: a small project that builds and runs, in the language that the user names.

use crate::shared::word;
use angara_control::error::{Failed, say};
use angara_control::install;
use angara_net::words;
use clap::Args;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
EXAMPLES:
  angara new waves --lang c
  angara new waves --lang rust --crate ~/angara/libangara";

words! {
    /// What a project is written in.
    #[derive(Debug)]
    enum Lang {
        /// OpenSHMEM in C, built by CMake.
        C = "c",
        /// OpenSHMEM in C++, built by CMake.
        Cxx = "c++",
        /// MPI in C, built by CMake.
        Mpi = "mpi",
        /// shmem4py and NumPy, installed by pip.
        Python = "python",
        /// The crate angara, built by Cargo.
        Rust = "rust",
    }
}

/// Arguments of `angara new`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct NewArgs {
    /// Name of the project, and of the folder that is made for it here
    #[arg(value_name = "NAME")]
    name: String,
    /// What it is written in
    #[arg(long, value_name = "LANGUAGE", value_parser = word::<Lang>())]
    lang: Lang,
    /// For Rust: the crate angara, folder libangara of the sources [default: those that this command was built from]
    #[arg(long = "crate", value_name = "DIR")]
    source: Option<PathBuf>,
}

/// Names that CMake, Cargo or the dependency has for something else.
const TAKEN: [&str; 13] = [
    "all",
    "angara",
    "build",
    "clean",
    "deps",
    "examples",
    "help",
    "incremental",
    "install",
    "numpy",
    "package",
    "shmem4py",
    "test",
];

/// A file of a project: where it goes, and what it says.
type File = (&'static str, &'static str);

impl Lang {
    fn files(self) -> [File; 3] {
        match self {
            Lang::C => [
                ("CMakeLists.txt", include_str!("templates/c/CMakeLists.txt.in")),
                ("main.c", include_str!("templates/c/main.c")),
                (".gitignore", "/build/\n"),
            ],
            Lang::Cxx => [
                ("CMakeLists.txt", include_str!("templates/c++/CMakeLists.txt.in")),
                ("main.cpp", include_str!("templates/c++/main.cpp")),
                (".gitignore", "/build/\n"),
            ],
            Lang::Mpi => [
                ("CMakeLists.txt", include_str!("templates/mpi/CMakeLists.txt.in")),
                ("main.c", include_str!("templates/mpi/main.c")),
                (".gitignore", "/build/\n"),
            ],
            Lang::Python => [
                ("pyproject.toml", include_str!("templates/python/pyproject.toml.in")),
                ("main.py", include_str!("templates/python/main.py")),
                (".gitignore", "/venv/\n*.egg-info/\n"),
            ],
            Lang::Rust => [
                ("Cargo.toml", include_str!("templates/rust/Cargo.toml.in")),
                ("src/main.rs", include_str!("templates/rust/main.rs.in")),
                (".gitignore", "/target/\n"),
            ],
        }
    }

    /// How a user in the project's folder builds it.
    fn build(self) -> &'static str {
        match self {
            Lang::C | Lang::Cxx | Lang::Mpi => "cmake -S . -B build && cmake --build build",
            Lang::Python => "python3 -m venv venv && venv/bin/pip install .",
            Lang::Rust => "cargo build --release",
        }
    }

    /// What is run then.
    fn program(self, name: &str) -> String {
        match self {
            Lang::C | Lang::Cxx | Lang::Mpi => format!("build/{name}"),
            Lang::Python => "venv/bin/python main.py".into(),
            Lang::Rust => format!("target/release/{name}"),
        }
    }
}

/// Makes it.
pub(crate) fn main(args: NewArgs) -> Result<u8, Failed> {
    let NewArgs { name, lang, source } = args;
    check(&name)?;
    let source = match (lang, source) {
        (Lang::Rust, source) => rust_crate(source)?,
        (_, None) => String::new(),
        (_, Some(_)) => return Err(Failed::usage(format!("--crate is for Rust, and not for {lang}"), "leave it out")),
    };
    let dir = Path::new(&name);
    fs::create_dir(dir).map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => {
            Failed::usage(format!("{name} exists, and nothing of it was changed"), "choose another name, or remove it")
        }
        _ => Failed::runtime(format!("cannot create the folder {name}: {e}"), "go to a folder that you can write to"),
    })?;
    for (path, text) in lang.files() {
        let text = text.replace("@NAME@", &name).replace("@CRATE@", &source);
        if let Err(e) = write(&dir.join(path), &text) {
            let _ = fs::remove_dir_all(dir);
            return Err(Failed::unwritten(format!("{name}/{path}"), &e));
        }
    }
    say!("cd {name} && {}\nangara run -n 4 {}", lang.build(), lang.program(&name))?;
    Ok(0)
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(path, text)
}

/// A name that every build system takes.
fn check(name: &str) -> Result<(), Failed> {
    let remedy = "begin with a letter, and go on with at most 63 letters, digits, - and _";
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) || !name.chars().all(fine) || name.len() > 64 {
        return Err(Failed::usage(format!("`{}` is no name of a project", name.escape_debug()), remedy));
    }
    // Python's names end with one of these.
    if name.ends_with(['-', '_']) {
        return Err(Failed::usage(format!("`{name}` is no name of a project"), "end with a letter or a digit"));
    }
    if TAKEN.contains(&name.to_ascii_lowercase().as_str()) {
        let what = format!("`{name}` means something else to build systems");
        return Err(Failed::usage(what, format!("choose another name, such as my-{name}")));
    }
    Ok(())
}

/// The folder of the crate, as a string of TOML has it.
fn rust_crate(given: Option<PathBuf>) -> Result<String, Failed> {
    let remedy = "name the folder libangara of the sources: --crate DIR";
    let dir = match given {
        Some(dir) => dir,
        None => match install::checkout(&install::bin_dir()?) {
            Some(checkout) => checkout.root.join("libangara"),
            None => return Err(Failed::usage("the sources of the crate angara are not installed", remedy)),
        },
    };
    let whole = fs::canonicalize(&dir).ok().filter(|dir| dir.join("src/lib.rs").is_file());
    let Some(whole) = whole.filter(|dir| fs::read_to_string(dir.join("Cargo.toml")).is_ok_and(|text| is_angara(&text)))
    else {
        return Err(Failed::usage(format!("{} is not the crate angara", dir.display()), remedy));
    };
    let text = whole.to_str().filter(|text| !text.contains(char::is_control));
    let text = text.ok_or_else(|| Failed::usage(format!("{} is no text", whole.display()), remedy))?;
    Ok(text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Tells whether a manifest is that of the package.
fn is_angara(manifest: &str) -> bool {
    manifest.lines().any(|line| line.trim() == "name = \"angara\"")
}
