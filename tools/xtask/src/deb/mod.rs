//! `cargo xtask deb`: packages for Debian, of the files that `cargo xtask install` installs.
//!
//! Each package is staged in a directory, then Debian's own tools do what they do for every package: `strip`,
//! `dpkg-shlibdeps` (what the libraries need), `dpkg-gencontrol` and `dpkg-deb`.

mod check;
mod places;

use crate::install::{Content, InstallPlan, Item, put};
use crate::machine::Machine;
use crate::notices::{self, Notices};
use crate::steps::{Temporary, cannot, make_dir, require, run};
use crate::wheel::elf::{self, Needs};
use places::PACKAGES;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use check::check;

/// Programs this takes, and the package of Debian that has each.
const TOOLS: [(&str, &str); 3] =
    [("dpkg-deb", "dpkg"), ("dpkg-shlibdeps", "dpkg-dev"), ("dpkg-gencontrol", "dpkg-dev")];

/// What to make packages of.
pub(crate) struct Packages {
    /// The repository.
    pub(crate) root: PathBuf,
    /// Directory with the built programs.
    pub(crate) from: PathBuf,
    /// Directory for the packages.
    pub(crate) out: PathBuf,
    /// Version of the packages, as Debian writes it.
    pub(crate) version: String,
}

/// Makes them; the result is what to tell the user.
pub(crate) fn build(plan: &Packages) -> Result<String, String> {
    let made = plan.build()?;
    Ok(made.iter().map(|file| format!("{}\n", file.display())).collect())
}

fn write(path: &Path, text: &str, mode: u32) -> Result<(), String> {
    let content = Content::Text(text.into());
    let item = Item { path: path.into(), content, mode, config: false };
    if let Some(dir) = path.parent() {
        make_dir(dir)?;
    }
    put(&item, path).map_err(|e| cannot("write", path, &e))
}

impl Packages {
    fn build(&self) -> Result<Vec<PathBuf>, String> {
        let machine = Machine::of(&self.from)?;
        require(&TOOLS)?;
        require(&[(&machine.tool("strip"), "binutils, or binutils-aarch64-linux-gnu")])?;
        run(Command::new("dpkg").arg("--validate-version").arg(&self.version))
            .map_err(|e| format!("--version {}: {e}; write one like {}", self.version, default_version()))?;
        make_dir(&self.out)?;
        // Debian's tools look for `debian/` in the directory they run in.
        let work = Temporary(self.out.join(format!(".work-{}", std::process::id())));
        let debian = work.0.join("debian");
        make_dir(&debian)?;
        write(&debian.join("control"), &self.source("control")?.replace("@arch@", machine.debian()), 0o644)?;
        write(&debian.join("changelog"), &self.changelog()?, 0o644)?;
        let plan = InstallPlan {
            root: self.root.clone(),
            from: self.from.clone(),
            prefix: "/usr".into(),
            destdir: None,
            sysconfdir: "/etc".into(),
            systemd: true,
            multiarch: Some(machine.multiarch()),
        };
        let mut all: BTreeMap<&str, Vec<Item>> = BTreeMap::new();
        for (package, item) in places::sorted(plan.items()?, machine.multiarch())? {
            all.entry(package).or_default().push(item);
        }
        let mut made = Vec::new();
        for package in PACKAGES {
            let items = all.remove(package).unwrap_or_default();
            made.push(self.package(&work.0, package, &items, machine)?);
        }
        Ok(made)
    }

    /// Makes one package; its file.
    fn package(&self, work: &Path, package: &str, items: &[Item], machine: Machine) -> Result<PathBuf, String> {
        let stage = work.join("debian").join(package);
        let at = |path: &Path| stage.join(path.strip_prefix("/").unwrap_or(path));
        for item in items {
            let to = at(&item.path);
            make_dir(to.parent().unwrap_or(&stage))?;
            put(item, &to).map_err(|e| cannot("write", &to, &e))?;
        }
        let is_binary = |item: &&Item| {
            matches!(item.content, Content::Copy(_))
                && (item.mode == 0o755 || item.path.to_string_lossy().contains(".so"))
        };
        let binaries: Vec<PathBuf> = items.iter().filter(is_binary).map(|item| at(&item.path)).collect();
        self.documents(&stage, package, machine)?;
        let pages =
            items.iter().map(|item| at(&item.path)).filter(|path| path.to_string_lossy().contains("/share/man/"));
        compress(pages.collect())?;
        if !binaries.is_empty() {
            let sections = ["--strip-unneeded", "--remove-section=.comment", "--remove-section=.note"];
            run(Command::new(machine.tool("strip")).args(sections).args(&binaries))?;
            self.needed(work, package, &binaries, machine)?;
        }
        self.control(work, &stage, package, items)?;
        let mut build = Command::new("dpkg-deb");
        build.args(["--root-owner-group", "--build"]).arg(&stage).arg(&self.out);
        run(&mut build)?;
        Ok(self.out.join(format!("{package}_{}_{}.deb", self.version_in_names(), machine.debian())))
    }

    /// Says which packages of others the programs and libraries need.
    fn needed(&self, work: &Path, package: &str, binaries: &[PathBuf], machine: Machine) -> Result<(), String> {
        let substvars = format!("debian/{package}.substvars");
        if machine == Machine::here() {
            let needed = binaries.iter().map(|b| format!("-e{}", b.display()));
            let mut command = Command::new("dpkg-shlibdeps");
            return run(command.arg(format!("-T{substvars}")).args(needed).current_dir(work)).map(drop);
        }
        // It asks the packages of that machine, which are not installed here.
        let mut all = None::<Needs>;
        for file in binaries {
            let bytes = fs::read(file).map_err(|e| cannot("read", file, &e))?;
            let needs = elf::needs(&bytes)?;
            all = Some(all.map_or(Ok(needs), |others| others.and(needs))?);
        }
        let depends = all.map_or(String::new(), Needs::debian);
        write(&work.join(substvars), &format!("shlibs:Depends={depends}\n"), 0o644)
    }

    /// Returns what Debian wants to know of a package: `DEBIAN/`.
    fn control(&self, work: &Path, stage: &Path, package: &str, items: &[Item]) -> Result<(), String> {
        let debian = stage.join("DEBIAN");
        make_dir(&debian)?;
        for (name, mode) in [("postinst", 0o755), ("prerm", 0o755), ("postrm", 0o755), ("triggers", 0o644)] {
            if self.root.join("packaging/debian").join(format!("{package}.{name}")).exists() {
                let text = self.source(&format!("{package}.{name}"))?;
                let text = text.replace("@ALTERNATIVES@\n", &self.source("alternatives.sh")?);
                write(&debian.join(name), &text, mode)?;
            }
        }
        let config: String = items.iter().filter(|i| i.config).map(|i| format!("{}\n", i.path.display())).collect();
        if !config.is_empty() {
            write(&debian.join("conffiles"), &config, 0o644)?;
        }
        let library = items.iter().find_map(|i| library(&i.path).filter(|_| matches!(i.content, Content::Copy(_))));
        if let Some((name, version)) = library {
            if package != format!("{name}{version}") {
                return Err(format!("{name}.so.{version} is in the package {package}; rename that to {name}{version}"));
            }
            let since = self.version.split('-').next().unwrap_or_default();
            write(&debian.join("shlibs"), &format!("{name} {version} {package} (>= {since})\n"), 0o644)?;
            write(&debian.join("triggers"), "activate-noawait ldconfig\n", 0o644)?;
        }
        let sums = sums(stage, &config)?;
        write(&debian.join("md5sums"), &sums, 0o644)?;
        let substvars = format!("-Tdebian/{package}.substvars");
        let mut control = Command::new("dpkg-gencontrol");
        control.arg(format!("-p{package}")).arg(format!("-Pdebian/{package}")).arg(substvars).current_dir(work);
        control.env("DEB_HOST_ARCH", Machine::of(&self.from)?.debian());
        run(&mut control).map(drop)
    }

    /// Licence, notices of others and changes, which every package has.
    fn documents(&self, stage: &Path, package: &str, machine: Machine) -> Result<(), String> {
        let doc = stage.join("usr/share/doc").join(package);
        let mit = self.root.join("LICENSE-MIT");
        let mit = fs::read_to_string(&mit).map_err(|e| cannot("read", &mit, &e))?;
        let indented = |line: &str| if line.trim().is_empty() { " .\n".to_string() } else { format!(" {line}\n") };
        let mit: String = mit.trim_end().lines().map(indented).collect();
        let copyright = self.source("copyright")?.replace("@MIT@\n", &mit);
        write(&doc.join("copyright"), &copyright, 0o644)?;
        if !doc.join("THIRD-PARTY.txt").exists() {
            let Notices { text, sbom } = notices::gather(&self.root, machine, package, places::built_from(package))?;
            write(&doc.join("THIRD-PARTY.txt"), &text, 0o644)?;
            write(&doc.join("sbom.cdx.json"), &sbom, 0o644)?;
        }
        compress(vec![doc.join("THIRD-PARTY.txt")])?;
        // The name tells packages that were made for Debian alone from those with a version of their own.
        let name = if self.version.contains('-') { "changelog.Debian" } else { "changelog" };
        write(&doc.join(name), &self.changelog()?, 0o644)?;
        compress(vec![doc.join(name)])
    }

    fn changelog(&self) -> Result<String, String> {
        let control = self.source("control")?;
        let maintainer = control.lines().find_map(|l| l.strip_prefix("Maintainer: "));
        let maintainer = maintainer.ok_or("packaging/debian/control names no maintainer")?;
        let mut date = Command::new("date");
        date.args(["--rfc-email", "--utc"]).env("LC_ALL", "C");
        if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
            date.arg(format!("--date=@{epoch}"));
        }
        let date = run(&mut date)?;
        let version = &self.version;
        Ok(format!("angara ({version}) unstable; urgency=medium\n\n  * Version {version}.\n\n -- {maintainer}  {date}"))
    }

    /// Names of files leave out the epoch, as Debian's do.
    fn version_in_names(&self) -> &str {
        self.version.split_once(':').map_or(&self.version, |(_, version)| version)
    }

    /// A file of `packaging/debian`.
    fn source(&self, name: &str) -> Result<String, String> {
        let file = self.root.join("packaging/debian").join(name);
        fs::read_to_string(&file).map_err(|e| cannot("read", &file, &e))
    }
}

/// Version of packages of this source. Revisions of Debian's own packages begin with 1, so those would be upgrades.
pub(crate) fn default_version() -> String {
    format!("{}-0.1", env!("CARGO_PKG_VERSION"))
}

/// `libx.so.1` is version 1 of `libx`. What lies where no program looks by itself is nobody else's to depend on.
fn library(path: &Path) -> Option<(String, String)> {
    if path.starts_with("/usr/lib/angara") {
        return None;
    }
    let (name, version) = path.file_name()?.to_str()?.split_once(".so.")?;
    Some((name.into(), version.into()))
}

fn compress(files: Vec<PathBuf>) -> Result<(), String> {
    if files.is_empty() {
        return Ok(());
    }
    run(Command::new("gzip").arg("-9n").args(files)).map(drop)
}

/// Sums of all files but those in `config`, as `dpkg --verify` reads them.
fn sums(stage: &Path, config: &str) -> Result<String, String> {
    let mut find = Command::new("find");
    find.args([".", "-path", "./DEBIAN", "-prune", "-o", "-type", "f", "-print"]).current_dir(stage);
    let all = run(&mut find)?;
    let of_package = |line: &&str| !config.lines().any(|c| Some(c) == line.strip_prefix('.'));
    let mut files: Vec<&str> = all.lines().filter(of_package).filter_map(|l| l.strip_prefix("./")).collect();
    files.sort_unstable();
    run(Command::new("md5sum").args(files).current_dir(stage))
}
