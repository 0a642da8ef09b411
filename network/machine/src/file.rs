//! Reading machine files, and those that are shipped.

use crate::keys::{KEYS, Key, Values};
use angara_fabric::Params;
use angara_net::torus::Shape;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::{Spanned, Value};

/// Machines that everybody has, by name.
pub const SHIPPED: &[(&str, &str)] = &[
    ("desmos", include_str!("../machines/desmos.toml")),
    ("angara-k1", include_str!("../machines/angara-k1.toml")),
    ("bluegene-p", include_str!("../machines/bluegene-p.toml")),
    ("gemini", include_str!("../machines/gemini.toml")),
    ("tpu-v4", include_str!("../machines/tpu-v4.toml")),
    ("tpu-v5p", include_str!("../machines/tpu-v5p.toml")),
];

/// A machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// Name of a shipped one, or the file.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Its network, if the file says.
    pub shape: Option<Shape>,
    /// Everything else.
    pub values: Values,
}

/// Why there is no such machine. The text names the value and what to write instead.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// Neither shipped nor a file.
    #[error("unknown machine `{name}`: there are {}; or name a file that ends in .toml", shape_names())]
    Unknown {
        /// As given.
        name: String,
    },
    /// The file cannot be read.
    #[error("cannot read {path}: {error}; give a machine file, as `angara machine desmos` prints one")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// The file has a mistake.
    #[error("{path}:{line}: {message}")]
    File {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The mistake.
        message: String,
    },
    /// A value given beside the file has a mistake, or contradicts it.
    #[error("{0}")]
    Value(String),
}

/// A file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    about: Option<String>,
    torus: Option<Spanned<String>>,
    mesh: Option<Spanned<String>>,
    #[serde(default)]
    network: Table,
    #[serde(default)]
    adapter: Table,
    #[serde(default)]
    node: Table,
    #[serde(default)]
    mpi: Table,
}

type Table = BTreeMap<Spanned<String>, Spanned<Value>>;

/// The shipped machines with their shapes: `desmos (4x2x2x2), angara-k1 (3x3x4), …`.
pub fn shape_names() -> String {
    let shown = SHIPPED.iter().map(|(name, _)| {
        let machine = Machine::named(name).expect("a test reads every shipped file");
        format!("{name} ({})", machine.shape.expect("shipped machines have a shape"))
    });
    shown.collect::<Vec<_>>().join(", ")
}

impl Machine {
    /// A shipped machine, or the one of a file.
    ///
    /// # Errors
    /// There is none, or its file has a mistake.
    pub fn named(name: &str) -> Result<Machine, MachineError> {
        let lower = name.to_ascii_lowercase();
        if let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == lower) {
            return Machine::parse(Path::new(name), text);
        }
        let path = Path::new(name);
        if path.extension().is_none_or(|e| e != "toml") {
            return Err(MachineError::Unknown { name: name.into() });
        }
        let text = std::fs::read_to_string(path).map_err(|error| MachineError::Read { path: path.into(), error })?;
        Machine::parse(path, &text)
    }

    /// The chip with its defaults, on no particular network.
    pub fn plain() -> Machine {
        let about = "the chip as published".into();
        Machine { name: "default".into(), about, shape: None, values: Values::default() }
    }

    fn parse(path: &Path, text: &str) -> Result<Machine, MachineError> {
        let at = |span: Option<Range<usize>>, message: &str| {
            let end = span.map_or(0, |s| s.start.min(text.len()));
            let line = text.as_bytes()[..end].iter().filter(|&&b| b == b'\n').count() + 1;
            MachineError::File { path: path.into(), line, message: message.trim_end().replace('\n', "; ") }
        };
        let written: Written = toml::from_str(text).map_err(|e| at(e.span(), e.message()))?;
        let shape = match (&written.torus, &written.mesh) {
            (Some(_), Some(mesh)) => return Err(at(Some(mesh.span()), "a torus or a mesh, not both")),
            (Some(sizes), None) => Some((sizes.span(), sizes.get_ref().clone())),
            (None, Some(sizes)) => Some((sizes.span(), format!("mesh:{}", sizes.get_ref()))),
            (None, None) => None,
        };
        let shape = shape
            .map(|(span, sizes)| sizes.parse::<Shape>().map_err(|e| at(Some(span), &format!("`{sizes}`: {e}"))))
            .transpose()?;
        let mut values = Values::default();
        let before = values.clone();
        let tables = [
            ("network", &written.network),
            ("adapter", &written.adapter),
            ("node", &written.node),
            ("mpi", &written.mpi),
        ];
        for (table, content) in tables {
            for (name, value) in content {
                let text = match value.get_ref() {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                set(&mut values, Some(table), name.get_ref(), &text).map_err(|e| at(Some(name.span()), &e))?;
            }
        }
        values.keep_cable_share(&before, written.network.keys().map(|name| name.get_ref().as_str()));
        values.params().map_err(|e| at(None, &e))?;
        let (name, about) = (path.display().to_string(), written.about.unwrap_or_default());
        Ok(Machine { name, about, shape, values })
    }

    /// With all of these changes, in order.
    ///
    /// # Errors
    /// As [`Machine::change`].
    pub fn with(mut self, changes: &[String]) -> Result<Machine, MachineError> {
        self.change(&changes.join(","))?;
        Ok(self)
    }

    /// Changes values: `link=15GB/s,hop=60ns`. Of a hop that is changed alone the cable keeps its share.
    ///
    /// # Errors
    /// An unknown key, a bad value, or a contradiction.
    pub fn change(&mut self, text: &str) -> Result<(), MachineError> {
        let (before, mut names) = (self.values.clone(), Vec::new());
        for part in text.split(',').filter(|part| !part.trim().is_empty()) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| MachineError::Value(format!("`{part}`: write KEY=VALUE, such as link=15GB/s")))?;
            set(&mut self.values, None, name.trim(), value.trim()).map_err(MachineError::Value)?;
            names.push(name.trim());
        }
        self.values.keep_cable_share(&before, names);
        self.params().map(drop)
    }

    /// As the model takes it.
    ///
    /// # Errors
    /// Two values that contradict each other.
    pub fn params(&self) -> Result<Params, MachineError> {
        self.values.params().map_err(MachineError::Value)
    }

    /// Returns what differs from the chip's defaults, as [`Machine::change`] takes it; empty if nothing does.
    pub fn changes(&self) -> String {
        self.changes_in(|_| true)
    }

    /// The same, of these tables alone.
    pub fn changes_in(&self, wanted: impl Fn(&str) -> bool) -> String {
        let defaults = Values::default();
        let all = KEYS.iter().filter(|key| wanted(key.table));
        let is_changed = |key: &&Key| match key.follows(&self.values) {
            Some(follows) => !follows,
            None => key.show(&self.values) != key.show(&defaults),
        };
        let changed = all.filter(is_changed);
        changed.map(|key| format!("{}={}", key.name, key.show(&self.values))).collect::<Vec<_>>().join(",")
    }

    /// The complete file: what is not in it would be the default.
    pub fn to_toml(&self) -> String {
        let mut out = format!("about = {}\n", Value::String(self.about.clone()));
        if let Some(shape) = self.shape {
            let sizes = shape.to_string();
            match sizes.strip_prefix("mesh:") {
                Some(sizes) => out.push_str(&format!("mesh = \"{sizes}\"\n")),
                None => out.push_str(&format!("torus = \"{sizes}\"\n")),
            }
        }
        let defaults = Values::default();
        let mut table = "";
        for key in KEYS {
            if key.table != table {
                table = key.table;
                out.push_str(&format!("\n[{table}]\n"));
            }
            let shown = key.show(&self.values);
            let source = if shown == key.show(&defaults) { key.source } else { "changed" };
            let value = if key.is_number() { shown } else { format!("\"{shown}\"") };
            // What others make of it is said, but not set.
            let mark = if key.follows(&self.values) == Some(true) { "# " } else { "" };
            out.push_str(&format!("{:<28} # {} ({source})\n", format!("{mark}{} = {value}", key.name), key.about));
        }
        out
    }
}

fn set(values: &mut Values, table: Option<&str>, name: &str, text: &str) -> Result<(), String> {
    let keys = KEYS.iter().filter(|key| table.is_none_or(|t| t == key.table));
    let known: Vec<&Key> = keys.collect();
    match known.iter().find(|key| key.name == name) {
        Some(key) => key.set(values, text),
        None => {
            let names: Vec<&str> = known.iter().map(|key| key.name).collect();
            let place = table.map_or(String::new(), |t| format!(" in [{t}]"));
            Err(format!("unknown key `{name}`{place}; there are {}", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Machine, String> {
        Machine::parse(Path::new("m.toml"), text).map_err(|e| e.to_string())
    }

    #[test]
    fn changes_make_the_same_machine_again() {
        // A link that would get more than the 16 packets that were asked for, which are the chip's own number.
        for text in ["injection=566ns,packets=16", "link=128GB/s,core=128GB/s", "link=128GB/s,core=128GB/s,slots=8", ""]
        {
            let (mut machine, mut again) = (Machine::plain(), Machine::plain());
            machine.change(text).expect("changes");
            again.change(&machine.changes()).expect("its own changes");
            assert_eq!(again.values.params(), machine.values.params(), "{text}: {}", machine.changes());
            let read = parse(&machine.to_toml()).expect("its own file");
            assert_eq!(read.values.params(), machine.values.params(), "{text}");
        }
    }

    #[test]
    fn shipped_machines_are_the_published_ones() {
        let shapes: Vec<String> =
            SHIPPED.iter().map(|(name, _)| Machine::named(name).expect(name).shape.expect(name).to_string()).collect();
        assert_eq!(shapes, ["4x2x2x2", "3x3x4", "8x8x8", "4x4x4", "4x4x4", "4x4x8"]);
        for name in ["desmos", "angara-k1"] {
            assert_eq!(Machine::named(name).expect(name).params().expect(name), Params::default(), "{name}");
        }
        // What one setting keeps another from would not be what is published.
        for (name, _) in SHIPPED {
            assert_eq!(Machine::named(name).expect(name).values.bottlenecks(), [""; 0], "{name}");
        }
        assert!(Machine::named("Desmos").is_ok());
        assert!(shape_names().starts_with("desmos (4x2x2x2), angara-k1 (3x3x4), bluegene-p (8x8x8), "));
    }

    #[test]
    fn a_file_that_is_printed_is_the_same_machine() {
        let mut machine =
            parse("about = \"a \\\"fast\\\" one\"\nmesh = \"4x4\"\n[node]\nsame-node = \"memory\"\n").expect("valid");
        machine.change("link=15GB/s, hop=60ns,flight=20ns").expect("valid");
        assert_eq!(parse(&machine.to_toml()), Ok(machine.clone()));
        let mut same = Machine::plain();
        same.change(&machine.changes()).expect("valid");
        assert_eq!(same.values, machine.values);
        assert_eq!(machine.changes(), "hop=60ns,flight=20ns,link=15GB/s,same-node=memory");
    }

    #[test]
    fn of_a_hop_that_is_changed_alone_the_cable_keeps_its_share() {
        let flight = |machine: &Machine| machine.params().expect("valid").link_ps;
        let file = parse("[network]\nhop = \"64.5ns\"\n").expect("valid");
        assert_eq!(flight(&file), 40_000);
        let with = |changes: &[&str]| {
            let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
            flight(&Machine::plain().with(&changes).expect("valid"))
        };
        assert_eq!(with(&["hop=258ns"]), 160_000);
        assert_eq!(with(&["flight=20ns", "hop=60ns"]), 20_000);
        assert_eq!(with(&["link=15GB/s"]), 80_000);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (text, part) in [
            ("torus = \"4x0\"\n", "m.toml:1: `4x0`"),
            ("torus = \"4\"\nmesh = \"4\"\n", "m.toml:2: a torus or a mesh"),
            ("\nspeed = 3\n", "m.toml:2: unknown field `speed`"),
            ("[speed]\nhop = \"1ns\"\n", "m.toml:1: unknown field `speed`, expected one of"),
            (
                "[adapter]\nquiet = \"read\"\nhop = \"1ns\"\n",
                "m.toml:3: unknown key `hop` in [adapter]; there are ports, port-rate, injection-gap",
            ),
            ("[network]\nslots = 8\nhop = 129\n", "m.toml:3: hop = `129`: give a time"),
            ("[network]\nhop = \"50ns\"\nflight = \"80ns\"\n", "hop = 50ns contains flight = 80ns"),
            ("[network]\nejection = \"9ns\"\n", "ejection = 9ns contains a router's 49ns"),
            ("torus = ", "m.toml:1: "),
        ] {
            let e = parse(text).expect_err(text);
            assert!(e.contains(part), "{text}: {e}");
        }
        let e = Machine::named("cray").expect_err("none").to_string();
        assert!(e.contains("`cray`") && e.contains("desmos (4x2x2x2)") && e.contains(".toml"), "{e}");
        assert!(Machine::named("/nonexistent.toml").expect_err("none").to_string().contains("angara machine desmos"));
        let e = Machine::plain().change("speed=9").expect_err("none").to_string();
        assert!(e.contains("unknown key `speed`; there are injection"), "{e}");
        assert!(Machine::plain().change("hop").expect_err("none").to_string().contains("KEY=VALUE"));
    }
}
