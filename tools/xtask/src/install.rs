//! Putting files in place, and taking them away again.

use crate::help;
use crate::machine::Machine;
use crate::notices::{self, Notices};
use crate::steps::cannot;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The list of what was installed, below the prefix.
const MANIFEST: &str = "share/angara/manifest";

/// All programs that users or other programs start.
pub(crate) const PROGRAMS: [&str; 11] = [
    "angara",
    "angara-alloc",
    "angara-bench",
    "angara-pes",
    "angara-sim",
    "angara-top",
    "angara-verbs",
    "angara-whatif",
    "fabricd",
    "oshcc",
    "oshrun",
];

/// What to install and where.
pub(crate) struct InstallPlan {
    pub(crate) root: PathBuf,
    pub(crate) from: PathBuf,
    pub(crate) prefix: PathBuf,
    pub(crate) destdir: Option<PathBuf>,
    pub(crate) sysconfdir: PathBuf,
    pub(crate) systemd: bool,
    /// Directory below `lib` for libraries that every program finds by itself there, such as `x86_64-linux-gnu`.
    pub(crate) multiarch: Option<&'static str>,
}

/// What a file holds.
pub(crate) enum Content {
    Copy(PathBuf),
    Text(String),
    Link(String),
}

/// A file to install.
pub(crate) struct Item {
    /// Where it will be used from, without the destdir.
    pub(crate) path: PathBuf,
    pub(crate) content: Content,
    pub(crate) mode: u32,
    /// Belongs to the administrator once it is there.
    pub(crate) config: bool,
}

impl InstallPlan {
    /// Does it; the result is what to tell the user.
    pub(crate) fn install(&self) -> Result<String, String> {
        let items = self.items()?;
        let manifest = self.prefix.join(MANIFEST);
        // Directories made by an earlier install are still ours.
        let earlier = fs::read_to_string(staged(self.destdir.as_deref(), &manifest)).unwrap_or_default();
        let mut made: BTreeSet<PathBuf> =
            earlier.lines().filter_map(|l| l.strip_prefix("dir ")).map(PathBuf::from).collect();
        let mut list = String::new();
        for item in &items {
            self.make_parents(&item.path, &mut made)?;
            let to = staged(self.destdir.as_deref(), &item.path);
            if item.config && to.exists() {
                continue;
            }
            put(item, &to).map_err(|e| cannot("install", &to, &e))?;
            if !item.config {
                list.push_str(&format!("file {}\n", item.path.display()));
            }
        }
        self.remove_former(&earlier, &list)?;
        self.make_parents(&manifest, &mut made)?;
        list.push_str(&format!("file {}\n", manifest.display()));
        made.iter().rev().for_each(|dir| list.push_str(&format!("dir {}\n", dir.display())));
        let text = Item { path: manifest.clone(), content: Content::Text(list), mode: 0o644, config: false };
        let to = staged(self.destdir.as_deref(), &manifest);
        put(&text, &to).map_err(|e| cannot("write", &to, &e))?;
        Ok(self.told(items.len() + 1))
    }

    /// Takes away what an earlier install has put there and this one has not.
    fn remove_former(&self, earlier: &str, list: &str) -> Result<(), String> {
        let now: BTreeSet<&str> = list.lines().collect();
        let files = earlier.lines().filter(|l| !now.contains(l)).filter_map(|l| l.strip_prefix("file ")).map(Path::new);
        for file in files.filter(|f| *f != self.prefix.join(MANIFEST)) {
            let at = staged(self.destdir.as_deref(), file);
            match fs::remove_file(&at) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(cannot("remove", &at, &e)),
                _ => {}
            }
        }
        Ok(())
    }

    /// All that is installed, but for the manifest.
    pub(crate) fn items(&self) -> Result<Vec<Item>, String> {
        let mut items = Vec::new();
        let mut add = |path: PathBuf, content, mode| items.push(Item { path, content, mode, config: false });
        let below = |dir: &str| self.prefix.join(dir);
        for program in PROGRAMS {
            add(below("bin").join(program), Content::Copy(self.from.join(program)), 0o755);
        }
        add(below("bin/oshc++"), Content::Link("oshcc".into()), 0);
        for (path, content, mode) in self.libraries()? {
            add(below("lib").join(path), content, mode);
        }
        for (from, to, ending) in [
            ("shmem-shim/include", "include", "h"),
            ("shmem-shim/include/mpp", "include/mpp", "h"),
            ("libangara/include", "include", "h"),
            ("packaging/wireshark", "share/angara/wireshark", "lua"),
            ("examples/c", "share/angara/examples/c", "c"),
            ("examples/c++", "share/angara/examples/c++", "cpp"),
            ("examples/fortran", "share/angara/examples/fortran", "f90"),
            ("examples/mpi", "share/angara/examples/mpi", "c"),
            ("examples/python", "share/angara/examples/python", "py"),
            ("packaging/prometheus", "share/angara/prometheus", "yml"),
            ("packaging/grafana", "share/angara/grafana", "json"),
            ("docs", "share/doc/angara/docs", "md"),
            ("docs/guide", "share/doc/angara/docs/guide", "md"),
            ("docs/guide/pictures", "share/doc/angara/docs/guide/pictures", "png"),
            ("docs/guide/pictures", "share/doc/angara/docs/guide/pictures", "svg"),
            ("docs/explain", "share/doc/angara/docs/explain", "md"),
            ("docs/reference", "share/doc/angara/docs/reference", "md"),
            ("docs/results", "share/doc/angara/docs/results", "md"),
            ("docs/results/plots", "share/doc/angara/docs/results/plots", "svg"),
        ] {
            for file in files(&self.root.join(from), ending)? {
                let name = file.file_name().unwrap_or_default().to_owned();
                add(below(to).join(name), Content::Copy(file), 0o644);
            }
        }
        for name in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
            add(below("share/doc/angara").join(name), Content::Copy(self.root.join(name)), 0o644);
        }
        let Notices { text, sbom } =
            notices::gather(&self.root, Machine::of(&self.from)?, "angara", &notices::INSTALLED)?;
        add(below("share/doc/angara/THIRD-PARTY.txt"), Content::Text(text), 0o644);
        add(below("share/doc/angara/sbom.cdx.json"), Content::Text(sbom), 0o644);
        for (path, text) in help::files(&self.from)? {
            add(below("share").join(path), Content::Text(text), 0o644);
        }
        if self.systemd {
            for (file, to) in [
                ("fabricd.service", "lib/systemd/system/fabricd.service"),
                ("fabricd@.service", "lib/systemd/system/fabricd@.service"),
                ("fabricd.socket", "lib/systemd/system/fabricd.socket"),
                ("fabricd-cluster.service", "lib/systemd/system/fabricd-cluster.service"),
                ("fabricd-cluster.socket", "lib/systemd/system/fabricd-cluster.socket"),
                ("sysusers.conf", "lib/sysusers.d/angara.conf"),
                ("tmpfiles.conf", "lib/tmpfiles.d/angara.conf"),
            ] {
                add(below(to), Content::Text(self.filled_in(file)?), 0o644);
            }
            let path = self.sysconfdir.join("angara/fabricd.toml");
            let content = Content::Text(self.filled_in("fabricd.toml")?);
            items.push(Item { path, content, mode: 0o644, config: true });
        }
        Ok(items)
    }

    /// Returns what lies below `lib`: path, contents, mode.
    fn libraries(&self) -> Result<Vec<(PathBuf, Content, u32)>, String> {
        let mut items = Vec::new();
        let own = Path::new(self.multiarch.unwrap_or_default());
        for library in ["libsma.so", "libangara.so"] {
            let versioned = self.versioned(library)?;
            items.push((own.join(&versioned), Content::Copy(self.from.join(library)), 0o755));
            items.push((own.join(library), Content::Link(versioned), 0));
        }
        for preloaded in ["clock", "mpi", "mpi_4", "mpi_41", "mpi_large"] {
            let preloaded = format!("libangara_{preloaded}.so");
            items.push((own.join(&preloaded), Content::Copy(self.from.join(&preloaded)), 0o755));
        }
        // libfabric looks for providers by this ending, in a directory of theirs.
        let provider = Path::new("libfabric/libangara-fi.so");
        items.push((own.join(provider), Content::Copy(self.from.join("libangara_fi.so")), 0o755));
        // `angara verbs` puts it before libibverbs. No program finds it there by itself, so it is in nobody's way.
        items.push(("angara/libibverbs.so.1".into(), Content::Copy(self.from.join("libangara-verbs")), 0o755));
        for dir in ["pkgconfig", "angara/pkgconfig", "cmake/Angara", "cmake/OpenSHMEM"] {
            for template in files(&self.from.join("lib").join(dir), "in")? {
                let text = fs::read_to_string(&template).map_err(|e| cannot("read", &template, &e))?;
                let name = template.file_stem().unwrap_or_default().to_owned();
                items.push((own.join(dir).join(name), Content::Text(self.located(&text)), 0o644));
            }
        }
        // Programs that look for Open MPI's library by name find this one in a tree that nobody searches unasked.
        let sma = self.versioned("libsma.so")?;
        let target = Path::new("../..").join(own).join(&sma);
        items.push(("angara/include".into(), Content::Link("../../include".into()), 0));
        for name in ["liboshmem.so", &sma] {
            let path = Path::new("angara/lib").join(name);
            items.push((path, Content::Link(target.to_string_lossy().into_owned()), 0));
        }
        Ok(items)
    }

    /// A file of `packaging/` that says where libraries are. Where every program looks anyway, it names no run path.
    fn located(&self, text: &str) -> String {
        let marks = match self.multiarch {
            Some(dir) => [("@libdir@", format!("/lib/{dir}")), ("@up@", "/..".into()), ("@rpath@", String::new())],
            None => {
                [("@libdir@", "/lib".to_string()), ("@up@", String::new()), ("@rpath@", " -Wl,-rpath,${libdir}".into())]
            }
        };
        marks.iter().fold(text.to_string(), |text, (mark, value)| text.replace(mark, value))
    }

    /// The name by which programs look for a library: cargo leaves a link of that name beside it.
    fn versioned(&self, library: &str) -> Result<String, String> {
        let entries = fs::read_dir(&self.from).map_err(|e| cannot("read", &self.from, &e))?;
        let names = entries.flatten().map(|e| e.file_name().to_string_lossy().into_owned());
        let is = |n: &String| {
            n.strip_prefix(library).and_then(|v| v.strip_prefix('.')).is_some_and(|v| v.parse::<u32>().is_ok())
        };
        names
            .filter(is)
            .max()
            .ok_or_else(|| format!("there is no {library}.1 or so in {}; build it first", self.from.display()))
    }

    /// A file of `systemd/` with this installation's directories.
    fn filled_in(&self, name: &str) -> Result<String, String> {
        let file = self.root.join("systemd").join(name);
        let text = fs::read_to_string(&file).map_err(|e| cannot("read", &file, &e))?;
        let text = text.replace("@bindir@", &self.prefix.join("bin").to_string_lossy());
        Ok(text.replace("@sysconfdir@", &self.sysconfdir.to_string_lossy()))
    }

    fn make_parents(&self, path: &Path, made: &mut BTreeSet<PathBuf>) -> Result<(), String> {
        let missing = path.ancestors().skip(1).take_while(|dir| !staged(self.destdir.as_deref(), dir).exists());
        let missing: Vec<&Path> = missing.collect();
        for dir in missing.into_iter().rev() {
            let to = staged(self.destdir.as_deref(), dir);
            fs::create_dir_all(&to).map_err(|e| cannot("make", &to, &e))?;
            made.insert(dir.to_path_buf());
        }
        Ok(())
    }

    fn told(&self, files: usize) -> String {
        let mut out = format!("installed {files} files for {}\n", self.prefix.display());
        if self.systemd {
            let lib = self.prefix.join("lib");
            out.push_str(&format!(
                "as root, once:\n  systemd-sysusers {0}/sysusers.d/angara.conf\n  systemd-tmpfiles --create {0}/tmpfiles.d/angara.conf\n",
                lib.display()
            ));
            if !self.prefix.starts_with("/usr") {
                out.push_str(&format!("  systemctl link {}/systemd/system/fabricd*\n", lib.display()));
            }
            out.push_str(&format!(
                "  systemctl daemon-reload; systemctl enable --now fabricd.socket fabricd     # options: {}\n",
                self.sysconfdir.join("angara/fabricd.toml").display()
            ));
        }
        out
    }
}

/// Takes away what the manifest names; the result is what to tell the user.
pub(crate) fn uninstall(prefix: &Path, destdir: Option<&Path>) -> Result<String, String> {
    let manifest = staged(destdir, &prefix.join(MANIFEST));
    let list = fs::read_to_string(&manifest).map_err(|e| {
        format!("{}; is this the --prefix (and --destdir) it was installed with?", cannot("read", &manifest, &e))
    })?;
    let (mut files, mut kept) = (0, Vec::new());
    for line in list.lines() {
        let Some((kind, path)) = line.split_once(' ') else { continue };
        let at = staged(destdir, Path::new(path));
        match kind {
            "file" => match fs::remove_file(&at) {
                Ok(()) => files += 1,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(cannot("remove", &at, &e)),
            },
            // What somebody else put there stays, and so does the directory.
            "dir" if fs::remove_dir(&at).is_err() && at.exists() => kept.push(path.to_string()),
            _ => {}
        }
    }
    let mut out = format!("removed {files} files of {}\n", prefix.display());
    kept.iter().for_each(|dir| out.push_str(&format!("kept {dir}: it is not empty\n")));
    Ok(out)
}

/// Where `path` lies while a package is made.
fn staged(destdir: Option<&Path>, path: &Path) -> PathBuf {
    match destdir {
        Some(destdir) => destdir.join(path.strip_prefix("/").unwrap_or(path)),
        None => path.to_path_buf(),
    }
}

/// Regular files of a directory with this ending, in order.
fn files(dir: &Path, ending: &str) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(|e| cannot("read", dir, &e))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.retain(|f| f.is_file() && f.extension().is_some_and(|e| e == ending));
    files.sort();
    Ok(files)
}

/// Replaces `to` in one step: a program that runs keeps its old file.
pub(crate) fn put(item: &Item, to: &Path) -> io::Result<()> {
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = to.with_file_name(name);
    match fs::remove_file(&new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    match &item.content {
        Content::Copy(from) => {
            fs::copy(from, &new)
                .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}; build it first", from.display())))?;
        }
        Content::Text(text) => fs::write(&new, text)?,
        Content::Link(target) => {
            symlink(target, &new)?;
            return fs::rename(new, to);
        }
    }
    fs::set_permissions(&new, fs::Permissions::from_mode(item.mode))?;
    fs::rename(new, to)
}
