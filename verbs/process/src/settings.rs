//! What the environment says about adapters. `docs/reference/environment.md` lists the variables.

use angara_hca::address::LinkLayer;
use angara_protocol::trust::is_privileged;
use angara_protocol::verbs::{ENV_LINK, ENV_MEMORY, ENV_NAME, ENV_NODE, ENV_VERBOSE, NAME, NAME_MAX};

/// How bytes get into the program's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryTier {
    /// Pages are exchanged where that is safe, else initiators copy where they can, else the agent does.
    Auto,
    /// The agent alone.
    Agent,
    /// Initiators copy, or the program is told that they cannot. Pages stay where they are.
    Direct,
    /// Pages of registered memory are exchanged, or the program is told that they cannot.
    Remap,
}

/// Adapters of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Name of the first device; those of others count on.
    pub name: String,
    /// Nodes asked for, one for each adapter; none: one adapter, wherever most seats are free.
    pub nodes: Vec<u32>,
    /// The link layer that ports show.
    pub link: LinkLayer,
    /// How bytes get into memory.
    pub memory: MemoryTier,
    /// Whether to say which way is taken.
    pub is_verbose: bool,
}

impl Settings {
    /// As the environment says. Errors name the variable, its value and what it can be.
    pub fn from_env() -> Result<Settings, String> {
        if is_privileged() {
            return Err("a program with rights that its caller lacks cannot have an emulated adapter".into());
        }
        Settings::read(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Settings, String> {
        let number = |text: &str| text.trim().parse::<u32>().ok();
        let nodes = match variable(ENV_NODE) {
            None => Vec::new(),
            Some(text) => text
                .split(',')
                .map(number)
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| format!("{ENV_NODE}={text}: use the number of a node, or several with commas"))?,
        };
        let link = match variable(ENV_LINK).as_deref() {
            None | Some("infiniband") => LinkLayer::InfiniBand,
            Some("ethernet") => LinkLayer::Ethernet,
            Some(other) => return Err(format!("{ENV_LINK}={other}: use infiniband or ethernet")),
        };
        let memory = match variable(ENV_MEMORY).as_deref() {
            None | Some("auto") => MemoryTier::Auto,
            Some("agent") => MemoryTier::Agent,
            Some("direct") => MemoryTier::Direct,
            Some("remap") => MemoryTier::Remap,
            Some(other) => return Err(format!("{ENV_MEMORY}={other}: use auto, agent, direct or remap")),
        };
        let name = variable(ENV_NAME).unwrap_or_else(|| NAME.into());
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.len() > NAME_MAX || !name.chars().all(fits) {
            return Err(format!("{ENV_NAME}={name}: use up to {NAME_MAX} letters, digits, `-` and `_`"));
        }
        let is_verbose = variable(ENV_VERBOSE).is_some_and(|value| value != "0");
        Ok(Settings { name, nodes, link, memory, is_verbose })
    }

    /// Name of the device of adapter number `index`: a number at the end of the first one's name counts on.
    pub fn device(&self, index: usize) -> String {
        let stem = self.name.trim_end_matches(|c: char| c.is_ascii_digit());
        match self.name[stem.len()..].parse::<usize>() {
            _ if index == 0 => self.name.clone(),
            Ok(first) => format!("{stem}{}", first + index),
            Err(_) => format!("{}{index}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(of: &[(&str, &str)]) -> Result<Settings, String> {
        Settings::read(|name| of.iter().find(|(is, _)| *is == name).map(|(_, value)| (*value).to_string()))
    }

    #[test]
    fn unset_variables_have_defaults_and_wrong_ones_are_named() {
        let usual = read(&[]).expect("defaults");
        assert_eq!(
            (usual.name.as_str(), usual.link, usual.memory),
            ("angara0", LinkLayer::InfiniBand, MemoryTier::Auto)
        );
        assert_eq!(read(&[("ANGARA_NODE", "0,5")]).expect("two nodes").nodes, [0, 5]);
        for (name, value) in [
            ("ANGARA_NODE", "a"),
            ("ANGARA_VERBS_LINK", "x"),
            ("ANGARA_VERBS_MEMORY", "x"),
            ("ANGARA_VERBS_NAME", "a/b"),
        ] {
            let error = read(&[(name, value)]).expect_err("refused");
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }

    #[test]
    fn names_of_devices_count_on() {
        let named = |name: &str| Settings { name: name.into(), ..read(&[]).expect("defaults") };
        assert_eq!((named("mlx5_2").device(0), named("mlx5_2").device(1)), ("mlx5_2".into(), "mlx5_3".into()));
        assert_eq!((named("hca").device(0), named("hca").device(1)), ("hca".into(), "hca1".into()));
    }
}
