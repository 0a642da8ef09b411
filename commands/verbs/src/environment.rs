//! The environment of RDMA programs: what has the loader put our library before libibverbs, and what that library reads.

use angara_control::error::Failed;
use angara_control::install::ENV_PRELOAD;
use angara_net::torus::Shape;
use angara_net::words;
use angara_protocol::launch::ENV_RUNTIME_DIR;
use angara_protocol::msg::Path as EnginePath;
use angara_protocol::verbs::{
    ENV_DOMAIN, ENV_DOMAIN_PATH, ENV_LINK, ENV_MEMORY, ENV_NAME, ENV_NODE, ENV_VERBOSE, NAME_MAX,
};
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::path::Path;

/// Longest name of a domain.
const DOMAIN_MAX: usize = 64;

words! {
    /// What ports say they are.
    #[derive(Debug)]
    pub enum LinkLayer {
        /// An InfiniBand fabric: ports have LIDs.
        Infiniband = "infiniband",
        /// RoCE: ports have GIDs made of addresses.
        Ethernet = "ethernet",
    }
}

words! {
    /// How data gets into and out of the memory of a process.
    #[derive(Debug)]
    pub enum Memory {
        /// Remap where that is safe, else direct where that is possible, else by the agent.
        Auto = "auto",
        /// A thread of the process that owns it copies.
        Agent = "agent",
        /// The process at the other end copies; devices cannot be opened where it may not.
        Direct = "direct",
        /// Registered pages are exchanged for pages that the network reaches; devices cannot be opened where there are none.
        Remap = "remap",
    }
}

/// What the processes are told.
pub(super) struct Environment<'a> {
    pub(super) library: &'a Path,
    /// Runtime directory of the daemon, absolute.
    pub(super) dir: &'a Path,
    pub(super) domain: &'a str,
    pub(super) path: EnginePath,
    /// Nodes of the devices; none: one device, at any.
    pub(super) nodes: Vec<u32>,
    pub(super) name: &'a str,
    pub(super) link: LinkLayer,
    pub(super) memory: Memory,
    pub(super) verbose: bool,
}

impl Environment<'_> {
    /// Checks that a network of `shape` has the nodes.
    pub(super) fn fits(&self, shape: Shape) -> Result<(), Failed> {
        match self.nodes.iter().find(|&&node| node as usize >= shape.nodes()) {
            None => Ok(()),
            Some(node) => Err(Failed::usage(
                format!("there is no node {node}: torus {shape} has {} nodes", shape.nodes()),
                format!("give --node or --nodes numbers from 0 to {}", shape.nodes() - 1),
            )),
        }
    }

    /// Each variable and its value; those without one are not to be set. `before` is the environment so far.
    pub(super) fn variables(
        &self,
        before: impl Fn(&str) -> Option<OsString>,
    ) -> Result<[(&'static str, Option<OsString>); 9], Failed> {
        let path = match self.path {
            EnginePath::Auto => "auto",
            EnginePath::Direct => "direct",
            EnginePath::Ring => "ring",
        };
        let nodes = self.nodes.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        Ok([
            (ENV_PRELOAD, Some(preload(self.library, before(ENV_PRELOAD))?)),
            (ENV_RUNTIME_DIR, Some(self.dir.into())),
            (ENV_DOMAIN, Some(self.domain.into())),
            (ENV_DOMAIN_PATH, Some(path.into())),
            (ENV_NODE, (!nodes.is_empty()).then(|| nodes.into())),
            (ENV_NAME, Some(self.name.into())),
            (ENV_LINK, Some(self.link.to_string().into())),
            (ENV_MEMORY, Some(self.memory.to_string().into())),
            (ENV_VERBOSE, self.verbose.then(|| "1".into())),
        ])
    }

    /// The same as lines for `sh`. What is set and shall not be is taken away.
    pub(super) fn for_a_shell(&self, before: impl Fn(&str) -> Option<OsString>) -> Result<String, Failed> {
        let mut text = String::new();
        for (name, value) in self.variables(&before)? {
            let Some(value) = value else {
                if before(name).is_some() {
                    let _ = writeln!(text, "unset {name};");
                }
                continue;
            };
            let value = value.into_string().map_err(|value| {
                Failed::usage(
                    format!("{name} would be {}, which is not UTF-8 and cannot be printed", value.display()),
                    "use paths of plain letters",
                )
            })?;
            let _ = writeln!(text, "export {name}='{}';", value.replace('\'', r"'\''"));
        }
        Ok(text)
    }
}

/// The library first, then what was there before, but for the library itself.
fn preload(library: &Path, before: Option<OsString>) -> Result<OsString, Failed> {
    let separates = |byte: &u8| *byte == b':' || byte.is_ascii_whitespace();
    let own = library.as_os_str();
    if own.as_encoded_bytes().iter().any(separates) {
        return Err(Failed::runtime(
            format!("{} cannot be preloaded: its path has a blank or a colon", library.display()),
            "put this installation, or the build, where the path has none",
        ));
    }
    let mut all = own.to_owned();
    let before = before.unwrap_or_default();
    let others = before.as_encoded_bytes().split(separates).filter(|other| !other.is_empty());
    for other in others.filter(|other| *other != own.as_encoded_bytes()) {
        all.push(":");
        all.push(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(other));
    }
    Ok(all)
}

/// Reads the name of a domain.
pub(super) fn domain(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    match (1..=DOMAIN_MAX).contains(&text.len()) && text.chars().all(fits) {
        true => Ok(text.into()),
        false => Err(format!("use 1 to {DOMAIN_MAX} letters, digits, `-`, `_` and `.`")),
    }
}

/// Reads the name of a device, which programs also take for the name of a file.
pub(super) fn device(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    match (1..=NAME_MAX).contains(&text.len()) && text.chars().all(fits) {
        true => Ok(text.into()),
        false => Err(format!("use 1 to {NAME_MAX} letters, digits, `-` and `_`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn environment() -> Environment<'static> {
        Environment {
            library: Path::new("/opt/angara/libangara-verbs"),
            dir: Path::new("/tmp/it's"),
            domain: "verbs",
            path: EnginePath::Ring,
            nodes: vec![0, 5],
            name: "mlx5_0",
            link: LinkLayer::Ethernet,
            memory: Memory::Agent,
            verbose: true,
        }
    }

    #[test]
    fn every_choice_is_a_variable() {
        let set: BTreeMap<_, _> = environment().variables(|_| None).unwrap().into();
        let value = |name| set[name].as_ref().map(|value| value.to_str().unwrap());
        for (name, wanted) in [
            ("LD_PRELOAD", "/opt/angara/libangara-verbs"),
            ("ANGARA_RUNTIME_DIR", "/tmp/it's"),
            ("ANGARA_DOMAIN", "verbs"),
            ("ANGARA_DOMAIN_PATH", "ring"),
            ("ANGARA_NODE", "0,5"),
            ("ANGARA_VERBS_NAME", "mlx5_0"),
            ("ANGARA_VERBS_LINK", "ethernet"),
            ("ANGARA_VERBS_MEMORY", "agent"),
            ("ANGARA_VERBS_VERBOSE", "1"),
        ] {
            assert_eq!(value(name), Some(wanted), "{name}");
        }
        assert_eq!(set.len(), 9);
    }

    #[test]
    fn a_shell_reads_what_is_printed() {
        let plain = Environment { nodes: Vec::new(), verbose: false, ..environment() };
        let before = |name: &str| (name == "ANGARA_NODE").then(|| "7".into());
        let text = plain.for_a_shell(before).unwrap();
        assert!(text.contains("unset ANGARA_NODE;\n") && !text.contains("VERBOSE"), "{text}");
        // On several lines, and on one, as without quotes around `$(…)`.
        for script in [text.clone(), text.replace('\n', " ")] {
            let said = std::process::Command::new("sh")
                .args(["-ec", &format!(r#"{script} echo "$ANGARA_RUNTIME_DIR" "${{ANGARA_NODE-none}}""#)])
                .env("ANGARA_NODE", "7")
                // The shell alone: what would be preloaded is not there.
                .stderr(std::process::Stdio::null())
                .output()
                .unwrap();
            assert_eq!(String::from_utf8_lossy(&said.stdout), "/tmp/it's none\n", "{script}");
        }
    }

    #[test]
    fn the_library_comes_first_and_once() {
        let library = Path::new("/a/b");
        for (before, after) in
            [(None, "/a/b"), (Some("/c /d"), "/a/b:/c:/d"), (Some("/c:/a/b:"), "/a/b:/c"), (Some(""), "/a/b")]
        {
            assert_eq!(preload(library, before.map(OsString::from)).unwrap(), after);
        }
        for bad in ["/a b/c", "/a:b"] {
            assert!(preload(Path::new(bad), None).unwrap_err().message.contains(bad));
        }
    }

    #[test]
    fn names_are_ones_that_programs_can_use() {
        assert!(device("mlx5_0").is_ok() && device("../x").is_err() && device("").is_err());
        assert!(device(&"x".repeat(60)).is_ok() && device(&"x".repeat(61)).is_err());
        assert!(domain("a.b-c_1").is_ok() && domain("a b").is_err());
    }

    #[test]
    fn nodes_are_those_of_the_network() {
        let two = environment();
        assert!(two.fits("2x3".parse().unwrap()).is_ok());
        let e = two.fits("2x2".parse().unwrap()).unwrap_err();
        assert!(e.message.contains("no node 5") && e.remedy.contains("0 to 3"), "{e:?}");
    }
}
