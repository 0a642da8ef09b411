//! `cargo xtask install` and `uninstall`: what `make install` is elsewhere. `cargo xtask deb` and `wheel`: the same as
//! packages of Debian, and as one of Python; `release` makes all of a version. `cross` builds for aarch64, `cost` says what
//! building and testing take, `structure` how the sources hang together.
//!
//! Programs, library, headers, documents and examples go below a prefix, in the layout in which
//! `angara` and `oshcc` look for each other; with `--systemd` also the units, with the prefix filled in.
//! A list of all that was put there lies in `share/angara/manifest` and is what `uninstall` goes by.
#![forbid(unsafe_code)]

mod cost;
mod cross;
mod deb;
mod debug_info;
mod help;
mod install;
mod machine;
mod notices;
mod portable;
mod release;
mod steps;
mod structure;
mod wheel;

use cost::Part;
use deb::Packages;
use install::InstallPlan;
use machine::Machine;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use steps::{built, cargo_build};
use structure::List;
use wheel::Wheel;

const USAGE: &str = "\
cargo xtask install [--prefix DIR] [--destdir DIR] [--sysconfdir DIR] [--systemd] [--from DIR]
cargo xtask uninstall [--prefix DIR] [--destdir DIR]
cargo xtask deb [--out DIR] [--version VERSION] [--check] [--from DIR]
cargo xtask cross [--check]
cargo xtask wheel [--out DIR] [--portable] [--machine MACHINE] [--from DIR]
cargo xtask release [--out DIR] [--machine MACHINE] [--from DIR]
cargo xtask cost [--only PARTS] [--check]
cargo xtask structure [--json | --list KIND]

  --prefix DIR      where it will be used from [default: /usr/local]
  --destdir DIR     put this before every path, to make a package
  --sysconfdir DIR  configuration of the services [default: /etc below /usr, else PREFIX/etc]
  --systemd         also units, sysusers.d and tmpfiles.d
  --from DIR        directory with the built programs [default: builds target/release]
  --portable        link with glibc 2.31, so that it runs on older systems, too; takes it from Debian's archive
  --machine MACHINE x86_64 or aarch64; another than this one is always portable [default: this one; of release both]
  --out DIR         directory for the packages [default: target/debian, wheel or artefacts]
  --version VERSION version of the packages, as Debian writes it [default: the project's, with -0.1]
  --check           ask lintian, then install, use, upgrade and purge the packages in a Debian made for it;
                    needs root and Debian's archive; of cross: run the OpenSHMEM programs under QEMU;
                    of cost: fail if the demo takes longer to build than it may
  --only PARTS      what to measure: demo, release, change, test, or several with commas [default: all]
  --list KIND       each with its place: circles, peers, functions, files, folders, comments or unsafe
                    [default: a table of numbers]
  --json            all of that, for programs";

/// What to do, from the command line.
#[derive(Default)]
struct Options {
    prefix: Option<PathBuf>,
    destdir: Option<PathBuf>,
    sysconfdir: Option<PathBuf>,
    from: Option<PathBuf>,
    out: Option<PathBuf>,
    version: Option<String>,
    machine: Option<Machine>,
    parts: Option<Vec<Part>>,
    list: Option<List>,
    json: bool,
    systemd: bool,
    check: bool,
    portable: bool,
}

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(text) => match angara_protocol::print::out(&text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => fail(&format!("cannot write to standard output: {e}")),
        },
        Err(e) => fail(&e),
    }
}

fn fail(why: &str) -> ExitCode {
    angara_protocol::complain!("xtask: {why}");
    ExitCode::FAILURE
}

fn run(args: Vec<String>) -> Result<String, String> {
    let mut args = args.into_iter();
    let task = args.next().unwrap_or_default();
    let takes: &[&str] = match task.as_str() {
        "install" => &["--prefix", "--destdir", "--sysconfdir", "--systemd", "--from"],
        "uninstall" => &["--prefix", "--destdir"],
        "deb" => &["--out", "--version", "--check", "--from"],
        "cross" => &["--check"],
        "cost" => &["--only", "--check"],
        "structure" => &["--json", "--list"],
        "wheel" => &["--out", "--portable", "--machine", "--from"],
        "release" => &["--out", "--machine", "--from"],
        "-h" | "--help" | "help" => return Ok(format!("{USAGE}\n")),
        "" => return Err(format!("tell me what to do\n{USAGE}")),
        _ => return Err(format!("unknown task `{task}`\n{USAGE}")),
    };
    let Some(options) = options(args, &task, takes)? else { return Ok(format!("{USAGE}\n")) };
    let prefix = options.prefix.unwrap_or_else(|| "/usr/local".into());
    for dir in [Some(&prefix), options.sysconfdir.as_ref()].into_iter().flatten() {
        if !dir.is_absolute() {
            return Err(format!("{} is not absolute; it is written into units and the manifest", dir.display()));
        }
    }
    if task == "uninstall" {
        return install::uninstall(&prefix, options.destdir.as_deref());
    }
    if task == "structure" {
        return structure::structure(&root(), options.list, options.json);
    }
    if task == "cross" {
        return cross::cross(&root(), &target()?, options.check);
    }
    if task == "cost" {
        let parts = options.parts.unwrap_or(Part::ALL.to_vec());
        if options.check && !parts.contains(&Part::Demo) {
            return Err("--check is about the demo; add it to --only".into());
        }
        return cost::cost(&root(), &target()?, &parts, options.check);
    }
    if options.from.is_some() && (options.portable || options.machine.is_some()) {
        return Err("--from is for programs that are built, and they know for which machine".into());
    }
    let folder = match task.as_str() {
        "deb" => "debian",
        // `release` is Cargo's.
        "release" => "artefacts",
        task => task,
    };
    let out = options.out.map_or_else(|| Ok(target()?.join(folder)), Ok::<_, String>)?;
    if task == "release" {
        let machines = options.machine.map_or_else(|| vec![Machine::X86_64, Machine::Aarch64], |one| vec![one]);
        let build = |machine| portable::build(&root(), &target()?, machine);
        let from = match options.from {
            Some(from) => vec![from],
            None => machines.into_iter().map(build).collect::<Result<_, String>>()?,
        };
        return release::make(&root(), &from, &out);
    }
    let machine = options.machine.unwrap_or(Machine::here());
    let from = match options.from {
        Some(from) => from,
        None if options.portable || machine != Machine::here() => portable::build(&root(), &target()?, machine)?,
        None => build(&task)?,
    };
    if task == "wheel" {
        return Wheel { root: root(), from, out }.build();
    }
    if task == "deb" {
        let version = options.version.unwrap_or_else(deb::default_version);
        let packages = Packages { root: root(), from, out, version };
        return if options.check { deb::check(packages) } else { deb::build(&packages) };
    }
    let sysconfdir = options.sysconfdir.unwrap_or_else(|| match prefix.starts_with("/usr") {
        true => "/etc".into(),
        false => prefix.join("etc"),
    });
    let (destdir, systemd) = (options.destdir, options.systemd);
    InstallPlan { root: root(), from, prefix, destdir, sysconfdir, systemd, multiarch: None }.install()
}

/// The options of `task`, which takes those in `takes`; nothing if help is what was asked for.
fn options(mut args: impl Iterator<Item = String>, task: &str, takes: &[&str]) -> Result<Option<Options>, String> {
    let mut options = Options::default();
    while let Some(arg) = args.next() {
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name.to_string(), Some(value.to_string())),
            None => (arg, None),
        };
        if matches!(name.as_str(), "-h" | "--help") {
            return Ok(None);
        }
        if !takes.contains(&name.as_str()) {
            return Err(format!("unknown option {name} of {task}\n{USAGE}"));
        }
        if matches!(name.as_str(), "--systemd" | "--check" | "--portable" | "--json")
            && let Some(value) = value
        {
            return Err(format!("{name} takes no value, such as `{value}`\n{USAGE}"));
        }
        let mut text = |what: &str| {
            let text = value.clone().or_else(|| args.next()).filter(|v| !v.is_empty());
            text.ok_or_else(|| format!("{name} needs a {what}\n{USAGE}"))
        };
        match name.as_str() {
            "--systemd" => options.systemd = true,
            "--check" => options.check = true,
            "--portable" => options.portable = true,
            "--json" => options.json = true,
            "--list" => options.list = Some(List::named(&text("kind of what to list")?)?),
            "--machine" => options.machine = Some(Machine::named(&text("machine")?)?),
            "--only" => options.parts = Some(parts(&text("list of parts")?)?),
            "--version" => options.version = Some(text("version")?),
            "--prefix" => options.prefix = Some(text("directory")?.into()),
            "--sysconfdir" => options.sysconfdir = Some(text("directory")?.into()),
            "--destdir" => options.destdir = Some(absolute(text("directory")?.as_ref())?),
            "--from" => options.from = Some(absolute(text("directory")?.as_ref())?),
            _ => options.out = Some(absolute(text("directory")?.as_ref())?),
        }
    }
    Ok(Some(options))
}

fn parts(list: &str) -> Result<Vec<Part>, String> {
    let known = Part::ALL.map(Part::name).join(", ");
    let part = |name| Part::named(name).ok_or_else(|| format!("--only {list}: `{name}` is no part; there are {known}"));
    list.split(',').map(part).collect()
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("xtask lies in the repository").to_path_buf()
}

/// Cargo's directory for what it builds: this program lies in target/PROFILE.
fn target() -> Result<PathBuf, String> {
    let exe = std::env::current_exe().map_err(|e| format!("cannot find this program's file: {e}"))?;
    let target = exe.ancestors().nth(2).ok_or("this program does not lie in target/PROFILE")?;
    Ok(target.to_path_buf())
}

/// Builds everything for use, and what `task` packs beside it; the directory with the programs.
fn build(task: &str) -> Result<PathBuf, String> {
    let target = target()?;
    // By itself: together with the commands it would have their code in it.
    let simulator: Option<&[&str]> = (task == "wheel").then_some(&["--package", "angara-python"]);
    for packages in std::iter::once::<&[&str]>(&[]).chain(simulator) {
        built(cargo_build(&root(), &target).arg("--release").args(packages), "")?;
    }
    Ok(target.join("release"))
}
