//! How much of a daemon one user may have, so that several can share it: the limits, each with a name under which
//! it can be set (`--limit NAME=N`, `[limit]` in the configuration file).

use angara_net::units::show_bytes;
use std::cell::Cell;
use std::fmt::Write;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Connections of a user, beside one for each PE of the user's jobs.
    Connections,
    /// Bytes the daemon keeps for a user: of requests that are not whole, and as many of answers that are not read.
    Pending,
    /// Requests of a user that are worked on at once; others wait for their turn.
    Requests,
    /// Jobs of a user.
    Jobs,
    /// PEs of a user, all jobs together.
    Pes,
    /// Nodes that the node sets of a user's jobs hold.
    Nodes,
    /// Notes of a job; of more only the number is kept.
    Notes,
    /// Captures of a user at once.
    Captures,
    /// Bytes of a job's name.
    Name,
    /// Lines a second that a user can have logged; of more only the number is.
    LogLines,
}

/// A limit as the configuration has it.
struct Key {
    limit: Limit,
    name: &'static str,
    default: u64,
    most: u64,
    what: &'static str,
}

/// For PEs and nodes: whatever three quarters of the channels or nodes are.
const THREE_QUARTERS: u64 = 0;

const KEYS: [Key; 10] = [
    key(Limit::Connections, "connections", 256, 1 << 20, "connections of a user, beside one for each PE of its jobs"),
    key(
        Limit::Pending,
        "pending",
        16 << 20,
        1 << 30,
        "bytes kept of a user's half requests, and of its unread answers",
    ),
    key(Limit::Requests, "requests", 8, 1 << 16, "requests of a user worked on at once"),
    key(Limit::Jobs, "jobs", 256, angara_fabric::JOBS_MAX as u64, "jobs of a user"),
    key(Limit::Pes, "pes", THREE_QUARTERS, u32::MAX as u64, "PEs of a user [default: 3/4 of all channels]"),
    key(
        Limit::Nodes,
        "nodes",
        THREE_QUARTERS,
        u32::MAX as u64,
        "nodes that a user's node sets hold [default: 3/4 of all]",
    ),
    key(Limit::Notes, "notes", 1000, 1 << 20, "notes kept of a job"),
    key(Limit::Captures, "captures", 4, angara_fabric::LISTENERS_MAX as u64, "captures of a user at once"),
    key(Limit::Name, "name", 255, 1 << 16, "bytes of a job's name"),
    key(Limit::LogLines, "log-lines", 20, 1 << 20, "lines a second that a user can have logged"),
];

const fn key(limit: Limit, name: &'static str, default: u64, most: u64, what: &'static str) -> Key {
    Key { limit, name, default, most, what }
}

/// The value of every limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    values: [u64; KEYS.len()],
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { values: KEYS.map(|k| k.default) }
    }
}

impl Limits {
    /// The value of a limit; for [`Limit::Pes`] and [`Limit::Nodes`] see [`Limits::share`].
    pub fn get(&self, limit: Limit) -> u64 {
        self.values[at(limit)]
    }

    /// The same where there are `all` in all: channels for PEs, or nodes.
    pub fn share(&self, limit: Limit, all: u64) -> u64 {
        match self.get(limit) {
            THREE_QUARTERS => (all * 3).div_ceil(4),
            set => set,
        }
    }

    /// Sets the limit called `name`: a number, or a size such as `4M`.
    ///
    /// # Errors
    /// There is no such limit, or it does not take this value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let index = KEYS.iter().position(|k| k.name == name).ok_or_else(|| {
            let names = KEYS.map(|k| k.name).join(", ");
            format!("there is no limit `{name}`; the limits are {names}")
        })?;
        let key = &KEYS[index];
        let number = angara_net::units::bytes(value).filter(|n| (1..=key.most).contains(n));
        self.values[index] =
            number.ok_or_else(|| format!("{name} is {value}; give 1 to {} ({})", key.most, key.what))?;
        Ok(())
    }

    /// One line for each, with its value.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for (key, value) in KEYS.iter().zip(self.values) {
            let shown = match (key.limit, value) {
                (Limit::Pes | Limit::Nodes, THREE_QUARTERS) => "3/4".into(),
                (Limit::Pending, bytes) => show_bytes(bytes),
                (_, n) => n.to_string(),
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "limit         {} = {shown} ({})", key.name, key.what);
        }
        text
    }
}

/// How often each limit was met.
#[derive(Default)]
pub(crate) struct Met([Cell<u64>; KEYS.len()]);

impl Met {
    /// Once more. Says how that limit is raised.
    pub(crate) fn count(&self, limit: Limit) -> String {
        let met = &self.0[at(limit)];
        met.set(met.get() + 1);
        format!("raise the daemon's limit (`{}` under [limit] in its configuration)", KEYS[at(limit)].name)
    }

    /// By name.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        KEYS.iter().zip(&self.0).map(|(key, met)| (key.name, met.get())).collect()
    }
}

fn at(limit: Limit) -> usize {
    KEYS.iter().position(|k| k.limit == limit).expect("every limit has a key")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_set_by_name_and_refused_with_what_would_be_right() {
        let mut limits = Limits::default();
        limits.set("pending", "4M").expect("a size");
        limits.set("jobs", "3").expect("a number");
        assert_eq!((limits.get(Limit::Pending), limits.get(Limit::Jobs)), (4 << 20, 3));
        assert_eq!([16, 1].map(|all| limits.share(Limit::Pes, all)), [12, 1]);
        limits.set("pes", "7").expect("a number");
        assert_eq!((limits.share(Limit::Pes, 16), limits.share(Limit::Nodes, 16)), (7, 12));
        assert!(limits.set("seats", "1").expect_err("unknown").contains("connections, pending"));
        assert!(limits.set("jobs", "0").expect_err("too few").contains("1 to 1024"));
        assert!(limits.set("jobs", "many").expect_err("no number").contains("many"));
    }

    #[test]
    fn every_limit_has_its_key_and_its_row_in_the_documents() {
        let page = include_str!("../../../../docs/explain/threat-model.md");
        for (index, key) in KEYS.iter().enumerate() {
            assert_eq!(at(key.limit), index, "{}", key.name);
            assert!(
                page.contains(&format!("| `{}` |", key.name)),
                "{} is not in docs/explain/threat-model.md",
                key.name
            );
        }
    }
}
