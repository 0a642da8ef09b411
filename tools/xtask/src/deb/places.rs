//! Which package has which file, and where Debian wants it.
//!
//! Other packages have `oshcc`, `oshc++` and `oshrun` in `/usr/bin`, so all programs lie in `/usr/lib/angara/bin`, and
//! `/usr/bin` has links to them, those three with a name that nobody else has. Where their usual names are free, these are
//! alternatives: see `packaging/debian/alternatives.sh`. `/usr/lib/angara` has `bin`, `lib`, `include`
//! and `share`, partly as links, because that is the layout in which programs look for each other.

use crate::install::{Content, Item};
use crate::notices::INSTALLED;
use std::path::{Path, PathBuf};

/// Stands for the directory, below `/usr/lib`, for libraries of the packages' machine.
const MULTIARCH: &str = "@multiarch@";

/// All packages, as `packaging/debian/control` names them.
pub(super) const PACKAGES: [&str; 4] = [ANGARA, SMA, DRIVER, DEV];
const ANGARA: &str = "angara";
const SMA: &str = "libsma1";
const DRIVER: &str = "libangara1";
const DEV: &str = "libangara-dev";

/// Packages of the workspace whose results are in this one.
pub(super) fn built_from(package: &str) -> &'static [&'static str] {
    match package {
        SMA => &["shmem-shim"],
        DRIVER => &["angara"],
        // `oshcc`; the libraries are links.
        DEV => &["angara-cli"],
        _ => &INSTALLED,
    }
}

/// How a path below `/usr` begins, which package it goes into (none: nobody needs it), and how it begins there. The first
/// that fits counts.
const RULES: [(&str, Option<&str>, &str); 23] = [
    ("bin/oshc", Some(DEV), "lib/angara/bin/oshc"),
    ("bin/", Some(ANGARA), "lib/angara/bin/"),
    ("include/", Some(DEV), "include/"),
    ("lib/@multiarch@/libsma.so.", Some(SMA), "lib/@multiarch@/libsma.so."),
    ("lib/@multiarch@/libangara.so.", Some(DRIVER), "lib/@multiarch@/libangara.so."),
    // What only programs of these packages load lies apart from what everybody may link.
    ("lib/@multiarch@/libangara_clock.so", Some(ANGARA), "lib/angara/lib/libangara_clock.so"),
    ("lib/@multiarch@/libangara_mpi", Some(ANGARA), "lib/angara/lib/libangara_mpi"),
    ("lib/@multiarch@/libfabric/", Some(ANGARA), "lib/angara/lib/libfabric/"),
    ("lib/@multiarch@/", Some(DEV), "lib/@multiarch@/"),
    ("lib/angara/libibverbs.so", Some(ANGARA), "lib/angara/lib/angara/libibverbs.so"),
    ("lib/angara/", Some(DEV), "lib/angara/"),
    // Their text is in every system, and `copyright` leads there.
    ("share/doc/angara/LICENSE-", None, ""),
    ("share/man/man1/oshrun.1", Some(ANGARA), "share/man/man1/oshrun.angara.1"),
    ("share/man/man1/oshcc.1", Some(DEV), "share/man/man1/oshcc.angara.1"),
    ("share/man/man1/oshc++.1", Some(DEV), "share/man/man1/oshc++.angara.1"),
    ("share/bash-completion/completions/oshrun", Some(ANGARA), "share/bash-completion/completions/oshrun.angara"),
    ("share/fish/vendor_completions.d/oshrun.fish", Some(ANGARA), "share/fish/vendor_completions.d/oshrun.angara.fish"),
    ("share/zsh/site-functions/", Some(ANGARA), "share/zsh/vendor-completions/"),
    ("lib/systemd/", Some(ANGARA), "lib/systemd/"),
    ("lib/sysusers.d/", Some(ANGARA), "lib/sysusers.d/"),
    ("lib/tmpfiles.d/", Some(ANGARA), "lib/tmpfiles.d/"),
    ("share/", Some(ANGARA), "share/"),
    ("/etc/", Some(ANGARA), "/etc/"),
];

/// Package, place and target of links that only packages have.
const LINKS: [(&str, &str, &str); 9] = [
    (ANGARA, "bin/angara", "../lib/angara/bin/angara"),
    (ANGARA, "bin/fabricd", "../lib/angara/bin/fabricd"),
    (ANGARA, "bin/oshrun.angara", "../lib/angara/bin/oshrun"),
    (DEV, "bin/oshcc.angara", "../lib/angara/bin/oshcc"),
    (DEV, "bin/oshc++.angara", "../lib/angara/bin/oshc++"),
    (ANGARA, "lib/angara/share", "../../share"),
    (DEV, "lib/angara/lib/libsma.so", "../../@multiarch@/libsma.so"),
    (DEV, "lib/angara/lib/libangara.so", "../../@multiarch@/libangara.so"),
    // Where Wireshark looks for dissectors.
    (ANGARA, "lib/@multiarch@/wireshark/plugins/angara.lua", "../../../../share/angara/wireshark/angara.lua"),
];

/// Returns what each package has: its name, and the file as it lies there.
pub(super) fn sorted(items: Vec<Item>, multiarch: &str) -> Result<Vec<(&'static str, Item)>, String> {
    let mut placed = Vec::new();
    for item in items {
        if let Some(found) = place(item, multiarch)? {
            placed.push(found);
        }
    }
    placed.extend(LINKS.map(|(package, path, target)| {
        let (path, target) = (path.replace(MULTIARCH, multiarch), target.replace(MULTIARCH, multiarch));
        let (path, content) = (Path::new("/usr").join(path), Content::Link(target));
        (package, Item { path, content, mode: 0, config: false })
    }));
    Ok(placed)
}

fn place(mut item: Item, multiarch: &str) -> Result<Option<(&'static str, Item)>, String> {
    let path = item.path.strip_prefix("/usr").unwrap_or(&item.path).to_string_lossy().replace(multiarch, MULTIARCH);
    let fits = RULES.iter().find_map(|(from, package, to)| Some((package, to, path.strip_prefix(from)?)));
    let Some((package, to, rest)) = fits else {
        return Err(format!("no package has {}; add it to tools/xtask/src/deb/places.rs", item.path.display()));
    };
    let Some(package) = package else { return Ok(None) };
    item.path = PathBuf::from("/usr").join(format!("{to}{rest}").replace(MULTIARCH, multiarch));
    if let Content::Text(text) = &mut item.content
        && path.contains("oshrun")
        && !path.contains("/man/")
    {
        *text = completes_ours(text);
    }
    // Only programs are run.
    if item.mode == 0o755 && !item.path.starts_with("/usr/lib/angara/bin") {
        item.mode = 0o644;
    }
    Ok(Some((package, item)))
}

/// Has what completes `oshrun` in one of the shells complete `oshrun.angara`: the name stands at the end of lines that bind
/// it (bash, zsh), or behind `-c` (fish).
fn completes_ours(text: &str) -> String {
    text.replace(" oshrun\n", " oshrun.angara\n").replace("complete -c oshrun ", "complete -c oshrun.angara ")
}
