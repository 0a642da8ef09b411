//! Nodes as `sinfo` shows them.

use super::Layout;
use angara_control::error::Failed;
use angara_net::torus::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// What a node is good for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Condition {
    /// A job can have it.
    Idle,
    /// A job or a reservation has it.
    Busy,
    /// It takes no job: down, drained, silent.
    Dead,
}

impl Condition {
    /// A state as `sinfo --format=%T` writes it, with its mark at the end.
    fn of(state: &str) -> Condition {
        let name = state.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let marks = &state[name.len()..];
        // Silent, going to be switched off, or about to boot. `~`, `#` and `-` (asleep, waking, planned) can be had.
        if marks.contains(['*', '!', '%', '@', '^']) {
            return Condition::Dead;
        }
        match name {
            _ if marks.contains('$') => Condition::Busy,
            "idle" | "planned" => Condition::Idle,
            "allocated" | "mixed" | "completing" | "reserved" | "maint" => Condition::Busy,
            _ => Condition::Dead,
        }
    }
}

/// Nodes of the torus in Slurm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    /// By node.
    pub conditions: BTreeMap<NodeId, Condition>,
    /// Nodes of each partition.
    pub partitions: BTreeMap<String, BTreeSet<NodeId>>,
}

impl Hosts {
    /// Arguments of `sinfo` for [`Hosts::read`].
    pub const ARGUMENTS: [&str; 4] = ["--all", "--noheader", "--Node", "--format=%N|%T|%R"];

    /// Reads what `sinfo` printed; only nodes of `partition` count, if one is given.
    pub fn read(text: &str, layout: &Layout, partition: Option<&str>) -> Result<Hosts, Failed> {
        let mut hosts = Hosts::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let fields: Vec<&str> = line.split('|').map(str::trim).collect();
            let &[name, state, of] = &fields[..] else {
                return Err(Failed::runtime(
                    format!("sinfo printed `{line}`, not a node, its state and its partition"),
                    "check which sinfo is first in PATH",
                ));
            };
            if partition.is_some_and(|wanted| wanted != of) {
                continue;
            }
            let Some(node) = layout.node(name) else {
                return Err(Failed::runtime(
                    format!("Slurm has a node `{name}` (partition {of}) that is no host of the cluster file"),
                    "add it there, or give --partition with one that has only nodes of the torus",
                ));
            };
            hosts.conditions.insert(node, Condition::of(state));
            hosts.partitions.entry(of.to_string()).or_default().insert(node);
        }
        if let Some(wanted) = partition.filter(|_| hosts.conditions.is_empty()) {
            return Err(Failed::runtime(format!("Slurm has no nodes in a partition `{wanted}`"), "see `sinfo`"));
        }
        Ok(hosts)
    }

    /// The condition of a node. One that Slurm does not know is dead to it.
    pub fn condition(&self, node: NodeId) -> Condition {
        self.conditions.get(&node).copied().unwrap_or(Condition::Dead)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Eight hosts n0 to n7 of a torus.
    pub(crate) fn layout(shape: &str) -> Layout {
        let torus: angara_net::torus::Shape = shape.parse().expect("a shape");
        let mut text =
            format!("id = \"000102030405060708090a0b0c0d0e0f\"\ntorus = \"{shape}\"\n[[key]]\nid = 1\nfile = \"k\"\n");
        for n in 0..torus.nodes() {
            text += &format!("[[host]]\nname = \"n{n}\"\naddresses = [\"127.0.0.{}\"]\nnodes = \"{n}\"\n", n + 1);
        }
        Layout::of(&cluster(&text)).expect("one node each")
    }

    pub(crate) fn cluster(text: &str) -> angara_cluster::Cluster {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("angara-ansu-{}-{number}.toml", std::process::id()));
        std::fs::write(&path, text).expect("a file");
        let cluster = angara_cluster::Cluster::load(&path);
        std::fs::remove_file(&path).expect("it is there");
        cluster.expect("a cluster file")
    }

    #[test]
    fn states_of_slurm_22_05() {
        // Slurm 22.05.8: one node drained, one with a job, one in two partitions.
        let text = "n0|idle|p\nn1|allocated|p\nn2|mixed|p\nn5|drained|p\nn6|idle*|p\nn7|idle|p\nn7|idle|q\n";
        let hosts = Hosts::read(text, &layout("4x2"), None).expect("read");
        use Condition::{Busy, Dead, Idle};
        let conditions: Vec<Condition> = (0..8).map(|node| hosts.condition(node)).collect();
        assert_eq!(conditions, [Idle, Busy, Busy, Dead, Dead, Dead, Dead, Idle], "n3 and n4 are not known to Slurm");
        assert_eq!(hosts.partitions["q"], BTreeSet::from([7]));
        for (state, condition) in [
            ("idle~", Idle),
            ("planned", Idle),
            ("draining", Dead),
            ("down*", Dead),
            ("maint", Busy),
            ("idle$", Busy),
            ("allocated@", Dead),
            ("unknown", Dead),
        ] {
            assert_eq!(Condition::of(state), condition, "{state}");
        }
    }

    #[test]
    fn strangers_are_named_unless_their_partition_is_left_out() {
        let text = "n0|idle|p\nlogin|idle|q\n";
        let error = Hosts::read(text, &layout("4x2"), None).expect_err("login is no host");
        assert!(error.message.contains("`login`") && error.remedy.contains("--partition"), "{error:?}");
        assert_eq!(Hosts::read(text, &layout("4x2"), Some("p")).expect("read").conditions.len(), 1);
        assert!(Hosts::read(text, &layout("4x2"), Some("r")).expect_err("no r").message.contains("`r`"));
        assert!(Hosts::read("n0 idle p\n", &layout("4x2"), None).is_err());
    }

    #[test]
    fn a_host_with_several_nodes_is_refused() {
        let text = "id = \"000102030405060708090a0b0c0d0e0f\"\ntorus = \"2x2\"\n[[key]]\nid = 1\nfile = \"k\"\n\
                    [[host]]\nname = \"a\"\naddresses = [\"127.0.0.1\"]\nnodes = \"0-2\"\n\
                    [[host]]\nname = \"b\"\naddresses = [\"127.0.0.2\"]\nnodes = \"3\"\n";
        let error = Layout::of(&cluster(text)).expect_err("a has three");
        assert!(error.message.contains("`a` has 3 nodes") && error.message.contains(".toml"), "{error:?}");
    }
}
