//! `cargo xtask wheel`: all that is installed as a wheel, which `pip` puts into an environment of Python.
//!
//! Programs lie where a wheel has its scripts, all else where it has its data: both are put below the prefix of the
//! environment, so that the parts find each other as in any other installation. The Python package beside them
//! starts these programs, and is the simulator.

pub(crate) mod archive;
pub(crate) mod elf;

use crate::install::{Content, InstallPlan, Item};
use crate::machine::Machine;
use crate::notices::{self, Notices};
use crate::steps::{Temporary, cannot, make_dir, require, run};
use archive::{File, Files};
use elf::Needs;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// The simulator's library, as Cargo makes it, and as Python looks for it. It uses only what every Python from 3.9 on has.
pub(crate) const SIMULATOR: (&str, &str) = ("libangara_python.so", "angara/_angara.abi3.so");
/// For which Pythons that is.
const PYTHON: &str = "cp39-abi3";
/// Where files are planned to be before they are put into the archive. Nothing is written there.
const PREFIX: &str = "/wheel";

/// What to make a wheel of.
pub(crate) struct Wheel {
    /// The repository.
    pub(crate) root: PathBuf,
    /// Directory with the built programs.
    pub(crate) from: PathBuf,
    /// Directory for the wheel.
    pub(crate) out: PathBuf,
}

impl Wheel {
    /// Makes it; the result is what to tell the user.
    pub(crate) fn build(&self) -> Result<String, String> {
        let machine = Machine::of(&self.from)?;
        require(&[(&machine.tool("strip"), "binutils, or binutils-aarch64-linux-gnu")])?;
        make_dir(&self.out)?;
        let work = Temporary(self.out.join(format!(".work-{}", std::process::id())));
        make_dir(&work.0)?;
        let mut files = self.data()?;
        self.package(&mut files)?;
        let needs = strip(&mut files, &work.0, machine)?;
        let version = env!("CARGO_PKG_VERSION");
        let tag = format!("{PYTHON}-{needs}");
        self.describe(&mut files, &tag)?;
        let bytes = archive::pack(&files, Some(&format!("angara-{version}.dist-info/RECORD")))?;
        // In one step: nobody sees a part of it.
        let (new, to) = (work.0.join("wheel"), self.out.join(format!("angara-{version}-{tag}.whl")));
        fs::write(&new, bytes).and_then(|()| fs::rename(&new, &to)).map_err(|e| cannot("write", &to, &e))?;
        Ok(format!("{}\n", to.display()))
    }

    /// What `cargo xtask install` puts below a prefix.
    fn data(&self) -> Result<Files, String> {
        let plan = InstallPlan {
            root: self.root.clone(),
            from: self.from.clone(),
            prefix: PREFIX.into(),
            destdir: None,
            sysconfdir: Path::new(PREFIX).join("etc"),
            systemd: false,
            multiarch: None,
        };
        let items = plan.items()?;
        let mut files = Files::new();
        for item in &items {
            let path = below_prefix(&item.path)?;
            // A wheel has a place of its own for these.
            let name = path.strip_prefix("share/doc/angara/").unwrap_or_default();
            if name.starts_with("LICENSE-") || ["THIRD-PARTY.txt", "sbom.cdx.json"].contains(&name) {
                continue;
            }
            match &item.content {
                Content::Link(target) => linked(&mut files, &items, item, target)?,
                _ => drop(files.insert(place(&path), file(item)?)),
            }
        }
        Ok(files)
    }

    /// The Python package.
    fn package(&self, files: &mut Files) -> Result<(), String> {
        let folder = self.root.join("simulator/python/angara");
        for (below, endings) in [("", &["py", "pyi", "typed"][..]), ("examples/", &["ipynb", "c"])] {
            let folder = folder.join(below);
            let entries = fs::read_dir(&folder).map_err(|e| cannot("read", &folder, &e))?;
            for path in entries.flatten().map(|entry| entry.path()) {
                let ending = path.extension().unwrap_or_default().to_string_lossy().into_owned();
                if path.is_file() && endings.contains(&ending.as_str()) {
                    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    let bytes = fs::read(&path).map_err(|e| cannot("read", &path, &e))?;
                    files.insert(format!("angara/{below}{name}"), File { bytes, runs: false });
                }
            }
        }
        let library = self.from.join(SIMULATOR.0);
        let bytes = fs::read(&library)
            .map_err(|e| format!("{}; `cargo build -p angara-python` makes it", cannot("read", &library, &e)))?;
        files.insert(SIMULATOR.1.into(), File { bytes, runs: false });
        Ok(())
    }

    /// What installers read, and what the licences ask to be passed on.
    fn describe(&self, files: &mut Files, tag: &str) -> Result<(), String> {
        let read = |name: &str| {
            let path = self.root.join(name);
            fs::read_to_string(&path).map_err(|e| cannot("read", &path, &e))
        };
        let mut add = |name: &str, text: String| {
            let path = format!("angara-{}.dist-info/{name}", env!("CARGO_PKG_VERSION"));
            files.insert(path, File::text(text));
        };
        let licences = ["LICENSE-APACHE", "LICENSE-MIT"];
        for name in licences {
            add(&format!("licenses/{name}"), read(name)?);
        }
        let packages = [&notices::INSTALLED[..], &["angara-python"]].concat();
        let Notices { text, sbom } = notices::gather(&self.root, Machine::of(&self.from)?, "angara", &packages)?;
        add("licenses/THIRD-PARTY.txt", text);
        add("sboms/sbom.cdx.json", sbom);
        add("METADATA", metadata(&read("packaging/wheel/README.md")?));
        add("WHEEL", format!("Wheel-Version: 1.0\nGenerator: angara xtask\nRoot-Is-Purelib: false\nTag: {tag}\n"));
        // `oshc++` is a link elsewhere.
        add("entry_points.txt", "[console_scripts]\noshc++ = angara.__main__:oshcxx\n".into());
        Ok(())
    }
}

fn metadata(description: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "Metadata-Version: 2.4\n\
         Name: angara\n\
         Version: {version}\n\
         Summary: Emulator and simulator of the Angara interconnect: OpenSHMEM and MPI programs on an emulated torus\n\
         License-Expression: MIT OR Apache-2.0\n\
         License-File: LICENSE-APACHE\n\
         License-File: LICENSE-MIT\n\
         License-File: THIRD-PARTY.txt\n\
         Keywords: openshmem,mpi,interconnect,torus,simulator\n\
         Classifier: Operating System :: POSIX :: Linux\n\
         Classifier: Programming Language :: Rust\n\
         Classifier: Topic :: System :: Distributed Computing\n\
         Requires-Python: >=3.9\n\
         Provides-Extra: simulator\n\
         Requires-Dist: numpy; extra == \"simulator\"\n\
         Provides-Extra: frames\n\
         Requires-Dist: pandas; extra == \"frames\"\n\
         Description-Content-Type: text/markdown\n\
         \n\
         {description}"
    )
}

/// The path of a planned file below the prefix.
fn below_prefix(path: &Path) -> Result<String, String> {
    let below = path.strip_prefix(PREFIX).map_err(|_| format!("{} is not below the prefix", path.display()))?;
    below.to_str().map(String::from).ok_or_else(|| format!("{} is not UTF-8", path.display()))
}

/// Where a file of the prefix is in the wheel.
fn place(path: &str) -> String {
    let data = format!("angara-{}.data", env!("CARGO_PKG_VERSION"));
    match path.strip_prefix("bin/") {
        Some(name) => format!("{data}/scripts/{name}"),
        None => format!("{data}/data/{path}"),
    }
}

fn file(item: &Item) -> Result<File, String> {
    let bytes = match &item.content {
        Content::Text(text) => text.clone().into_bytes(),
        Content::Copy(from) => fs::read(from).map_err(|e| format!("{}; build it first", cannot("read", from, &e)))?,
        Content::Link(target) => return Err(format!("{} is a link to {target}", item.path.display())),
    };
    // Libraries are mapped, not run.
    let runs = item.mode & 0o111 != 0 && item.path.starts_with(Path::new(PREFIX).join("bin"));
    Ok(File { bytes, runs })
}

/// In place of a link, of which wheels have none: for a library's name without a version, what a linker reads in its place;
/// for anything else a copy.
fn linked(files: &mut Files, items: &[Item], link: &Item, target: &str) -> Result<(), String> {
    let path = below_prefix(&link.path)?;
    if path.starts_with("bin/") {
        // A command of another name: `Wheel::describe` has an entry for it.
        return match path == "bin/oshc++" {
            true => Ok(()),
            false => Err(format!("{path} is a link, and no entry of the wheel stands for it")),
        };
    }
    if path.ends_with(".so") {
        let text = format!("/* For linkers. Programs load the library itself. */\nINPUT({target})\n");
        files.insert(place(&path), File::text(text));
        return Ok(());
    }
    let to = resolved(&link.path, target);
    let mut found = false;
    for item in items.iter().filter(|item| !matches!(item.content, Content::Link(_))) {
        let Ok(rest) = item.path.strip_prefix(&to) else { continue };
        let copy = if rest.as_os_str().is_empty() { link.path.clone() } else { link.path.join(rest) };
        files.insert(place(&below_prefix(&copy)?), file(item)?);
        found = true;
    }
    match found {
        true => Ok(()),
        false => Err(format!("{path} is a link to {target}, and nothing is installed there")),
    }
}

/// Where a link leads.
fn resolved(link: &Path, target: &str) -> PathBuf {
    let mut to = link.parent().unwrap_or(link).to_path_buf();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => drop(to.pop()),
            part => to.push(part),
        }
    }
    to
}

/// Takes away what is there to debug with; what all programs and libraries need together.
fn strip(files: &mut Files, work: &Path, machine: Machine) -> Result<Needs, String> {
    let mut all: Option<Needs> = None;
    for (path, file) in files.iter_mut().filter(|(_, file)| elf::is_elf(&file.bytes)) {
        let at = work.join("elf");
        fs::write(&at, &file.bytes).map_err(|e| cannot("write", &at, &e))?;
        let sections = ["--strip-unneeded", "--remove-section=.comment", "--remove-section=.note"];
        run(Command::new(machine.tool("strip")).args(sections).arg(&at))?;
        file.bytes = fs::read(&at).map_err(|e| cannot("read", &at, &e))?;
        let needs = elf::needs(&file.bytes).map_err(|e| format!("{path}: {e}"))?;
        all = Some(match all {
            Some(others) => others.and(needs).map_err(|e| format!("{path}: {e}"))?,
            None => needs,
        });
    }
    all.ok_or_else(|| "there are no programs".into())
}
