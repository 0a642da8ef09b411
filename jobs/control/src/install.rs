//! Where the parts of this installation lie.
//!
//! Two layouts are understood: everything in one directory, as cargo leaves it in `target/release`
//! (or wherever it was told to build), and `bin`, `lib` and `include` beside each other. Both are found
//! from the executable's own place, so a tree can be copied or moved.

use crate::error::Failed;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The OpenSHMEM library.
pub const LIBRARY: &str = "libsma.so";
/// The provider of libfabric that carries MPI.
pub const PROVIDER: &str = "libangara-fi.so";
/// The library that RDMA programs have in place of libibverbs, where cargo has built it.
const VERBS_BUILT: &str = "libangara-verbs";
/// The same below the prefix of an installation.
const VERBS_INSTALLED: &str = "lib/angara/libibverbs.so.1";
/// The package that has it.
const VERBS_PACKAGE: &str = "angara-verbs-library";
/// The header that tells whether a directory is the right one.
pub const HEADER: &str = "shmem.h";

/// Directory of the running executable, symbolic links resolved. As it was when first asked for: the system forgets
/// the name of a file that is replaced, as `angara bench` does to its own when it builds.
pub fn bin_dir() -> Result<PathBuf, Failed> {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    if let Some(dir) = DIR.get() {
        return Ok(dir.clone());
    }
    let exe = std::env::current_exe().and_then(std::fs::canonicalize);
    let exe = exe.map_err(|e| {
        Failed::runtime(format!("cannot find this program's own file: {e}"), "check that /proc is mounted")
    })?;
    Ok(DIR.get_or_init(|| exe.parent().unwrap_or(Path::new("/")).to_path_buf()).clone())
}

/// First of `<bin>/<own>` and `<bin>/../<other>` that holds `file`.
fn beside(bin: &Path, own: &str, other: &str, file: &str) -> Option<PathBuf> {
    let parent = bin.parent().unwrap_or(bin);
    [bin.join(own), parent.join(other)].into_iter().find(|d| d.join(file).exists()).map(|d| d.components().collect())
}

/// Directory of `shmem.h`.
pub fn include_dir(bin: &Path) -> Option<PathBuf> {
    beside(bin, "include", "include", HEADER)
}

/// Directory of `libsma.so`.
pub fn lib_dir(bin: &Path) -> Option<PathBuf> {
    beside(bin, "", "lib", LIBRARY)
}

/// Directory of the provider of libfabric.
pub fn provider_dir(bin: &Path) -> Option<PathBuf> {
    beside(bin, "lib/libfabric", "lib/libfabric", PROVIDER)
}

/// Libraries that the loader puts before others, separated by colons or blanks.
pub const ENV_PRELOAD: &str = "LD_PRELOAD";

/// Libraries that are preloaded, by their names without `.so`.
pub fn preloaded(name: &str) -> Result<PathBuf, Failed> {
    let bin = bin_dir()?;
    let file = format!("{name}.so");
    beside(&bin, "", "lib", &file)
        .map(|dir| dir.join(&file))
        .ok_or_else(|| Failed::runtime(format!("no {file} beside {} or in ../lib", bin.display()), build_hint(&bin)))
}

/// The library that RDMA programs have in place of libibverbs: as cargo builds it, or as it is installed, in a directory where
/// no program finds it by itself.
pub fn verbs_library() -> Result<PathBuf, Failed> {
    let bin = bin_dir()?;
    verbs_library_of(&bin).ok_or_else(|| {
        let (own, installed) = (bin.join(VERBS_BUILT), bin.parent().unwrap_or(&bin).join(VERBS_INSTALLED));
        Failed::runtime(
            format!("no library for RDMA programs: neither {} nor {} exists", own.display(), installed.display()),
            build_hint_for(&bin, VERBS_PACKAGE),
        )
    })
}

/// True if a file has the name of that library in one layout or the other.
pub fn is_verbs_library(file: &Path) -> bool {
    file.ends_with(VERBS_BUILT) || file.ends_with(VERBS_INSTALLED)
}

fn verbs_library_of(bin: &Path) -> Option<PathBuf> {
    [bin.join(VERBS_BUILT), bin.parent()?.join(VERBS_INSTALLED)].into_iter().find(|file| file.is_file())
}

/// The daemon's program: beside this one, else in PATH.
pub fn fabricd() -> Result<PathBuf, Failed> {
    program_file("fabricd")
}

/// A program of this project: beside this one, else in PATH.
pub fn program_file(name: &str) -> Result<PathBuf, Failed> {
    let bin = bin_dir()?;
    let own = bin.join(name);
    if own.is_file() {
        return Ok(own);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|d| d.join(name)).find(|f| f.is_file()).ok_or_else(|| {
        Failed::runtime(format!("no program {name}: {} does not exist", own.display()), build_hint(&bin))
    })
}

/// Returns what to type to get the missing parts.
pub fn build_hint(bin: &Path) -> String {
    match checkout(bin) {
        Some(checkout) => checkout.hint(),
        None => "install the whole tree: angara, fabricd, oshcc and libsma.so belong together \
                 (the wheel, or the packages angara and libangara-dev)"
            .into(),
    }
}

/// Returns what to type to get what `package` has, which not every build does.
pub fn build_hint_for(bin: &Path, package: &str) -> String {
    match checkout(bin) {
        Some(checkout) => checkout.hint_for(&format!(" -p {package}")),
        None => build_hint(bin),
    }
}

/// The source of a build.
#[derive(Debug, PartialEq, Eq)]
pub struct Checkout {
    /// The repository.
    pub root: PathBuf,
    /// The profile it was built in.
    pub profile: OsString,
    /// Cargo's directory for what it builds.
    pub target: PathBuf,
}

/// The source of the command `angara` in a checkout.
const SOURCE: &str = "/commands/angara/src/main.rs";

/// If `bin` is where cargo has put this build: its checkout, wherever the target directory lies.
pub fn checkout(bin: &Path) -> Option<Checkout> {
    // Cargo writes it beside a program that it built; nothing that was installed has it.
    let list = std::fs::read_to_string(bin.join("angara.d")).ok()?;
    let is_source = |d: &&Path| d.join("Cargo.toml").is_file() && d.join("shmem-shim").is_dir();
    // It names the files of the program's source, with a backslash before each space. A tree that was moved knows itself
    // better.
    let list = list.replace("\\ ", "\0");
    let files = list.split_whitespace().map(|word| word.replace('\0', " "));
    let built_from = files.filter_map(|file| file.strip_suffix(SOURCE).map(PathBuf::from)).next();
    let root = bin.ancestors().skip(1).chain(built_from.as_deref()).find(is_source)?.to_path_buf();
    let profile = match bin.file_name()? {
        name if name == "debug" => OsStr::new("dev"),
        name => name,
    };
    Some(Checkout { root, profile: profile.into(), target: bin.parent()?.into() })
}

impl Checkout {
    /// Cargo, about to build everything into the directory this program lies in.
    pub fn cargo_build(&self) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // Else cargo would put one more directory between.
        cargo.arg("build").arg("--profile").arg(&self.profile).arg("--target-dir").arg(&self.target);
        cargo.current_dir(&self.root).env_remove("CARGO_BUILD_TARGET");
        cargo
    }

    /// The same, for people.
    pub fn hint(&self) -> String {
        self.hint_for("")
    }

    fn hint_for(&self, packages: &str) -> String {
        let profile = match self.profile.to_str() {
            Some("dev") => String::new(),
            Some("release") => " --release".into(),
            _ => format!(" --profile {}", self.profile.display()),
        };
        let target = match self.target == self.root.join("target") {
            true => String::new(),
            false => format!(" --target-dir={}", self.target.display()),
        };
        format!("cargo build{profile}{packages}{target} (in {})", self.root.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_layouts_are_found() {
        let root = std::env::temp_dir().join(format!("angara-install-{}", std::process::id()));
        let make = |p: &str| {
            let p = root.join(p);
            std::fs::create_dir_all(p.parent().unwrap()).unwrap();
            std::fs::write(p, "").unwrap();
        };
        make("flat/include/shmem.h");
        make("flat/libsma.so");
        make("tree/include/shmem.h");
        make("tree/lib/libsma.so");
        make("tree/bin/angara");
        make("flat/lib/libfabric/libangara-fi.so");
        make("tree/lib/libfabric/libangara-fi.so");
        assert_eq!(include_dir(&root.join("flat")), Some(root.join("flat/include")));
        assert_eq!(lib_dir(&root.join("flat")), Some(root.join("flat")));
        assert_eq!(include_dir(&root.join("tree/bin")), Some(root.join("tree/include")));
        assert_eq!(lib_dir(&root.join("tree/bin")), Some(root.join("tree/lib")));
        assert_eq!(lib_dir(&root.join("none/bin")), None);
        assert_eq!(provider_dir(&root.join("flat")), Some(root.join("flat/lib/libfabric")));
        assert_eq!(provider_dir(&root.join("tree/bin")), Some(root.join("tree/lib/libfabric")));
        assert_eq!(provider_dir(&root.join("none/bin")), None);
        assert_eq!(verbs_library_of(&root.join("tree/bin")), None);
        make("flat/libangara-verbs");
        make("tree/lib/angara/libibverbs.so.1");
        assert_eq!(verbs_library_of(&root.join("flat")), Some(root.join("flat/libangara-verbs")));
        assert_eq!(verbs_library_of(&root.join("tree/bin")), Some(root.join("tree/lib/angara/libibverbs.so.1")));
        for (file, is) in
            [("/x/libangara-verbs", true), ("/x/lib/angara/libibverbs.so.1", true), ("/x/libibverbs.so.1", false)]
        {
            assert_eq!(is_verbs_library(Path::new(file)), is, "{file}");
        }
        // No build of cargo: the examples of a checkout somewhere are none of its business.
        assert_eq!(checkout(&root.join("flat")), None);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_build_names_its_checkout_wherever_it_lies() {
        let root = std::env::temp_dir().join(format!("angara-checkout-{}", std::process::id()));
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        for (profile, name, words) in
            [("debug", "dev", ""), ("release", "release", " --release"), ("lto", "lto", " --profile lto")]
        {
            let bin = root.join("out").join(profile);
            std::fs::create_dir_all(&bin).unwrap();
            let list = format!(
                "angara: contract/net/src/lib.rs {}/commands/angara/src/main.rs\n",
                ours.display().to_string().replace(' ', "\\ ")
            );
            std::fs::write(bin.join("angara.d"), list).unwrap();
            let found = checkout(&bin).unwrap();
            let target = root.join("out");
            assert_eq!(found.root, ours);
            assert_eq!(found.profile, name);
            assert_eq!(found.target, target);
            let told = format!("cargo build{words} --target-dir={} (in {})", target.display(), ours.display());
            assert_eq!(found.hint(), told);
        }
        let usual = Checkout { root: "/x".into(), profile: "release".into(), target: "/x/target".into() };
        assert_eq!(usual.hint(), "cargo build --release (in /x)");
        std::fs::remove_dir_all(root).unwrap();
    }
}
