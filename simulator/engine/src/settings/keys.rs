//! The settings of a simulation, by the same names in a TOML file and on the command line.

use crate::observe::Selection;
use crate::run::router::{Deadlock, Router, Routing, Switching};
use crate::traffic::{Lengths, Mapping, Pattern, Probe, Process, RatesFile};
use crate::workload::Chosen;
use angara_model::AnyTopology;
use angara_net::units;
use serde::{Deserialize, Deserializer};
use std::fmt::Display;
use std::str::FromStr;

/// Reads a value written as text.
fn text<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// Reads a fraction, a number or `30%`.
fn share<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "a number, or text such as \"30%\"")]
    enum Written {
        Number(f64),
        Text(String),
    }
    match Written::deserialize(from)? {
        Written::Number(number) => Ok(Some(number)),
        Written::Text(text) => fraction(&text).map(Some).map_err(serde::de::Error::custom),
    }
}

/// Reads a fraction as a command line has it.
///
/// # Errors
/// Another text.
pub fn fraction(text: &str) -> Result<f64, String> {
    units::fraction(text).ok_or_else(|| format!("`{text}`: give a number such as 0.3, or 30%"))
}

/// Reads a text or a list of them.
fn list<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "text, or a list of texts")]
    enum Written {
        One(String),
        Many(Vec<String>),
    }
    Ok(Some(match Written::deserialize(from)? {
        Written::One(text) => vec![text],
        Written::Many(texts) => texts,
    }))
}

/// Declares the settings once: fields, and how two sets are laid over each other.
macro_rules! keys {
    ($($(#[doc = $about:literal])* #[arg($($option:tt)*)] $(#[serde($($serde:tt)*)])? $name:ident: $type:ty,)*) => {
        /// Settings of a simulation; what is not given has a default.
        #[derive(Deserialize, Clone, Debug, Default, PartialEq)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub struct Keys {
            $(
                $(#[doc = $about])*
                $(#[serde($($serde)*)])?
                pub $name: Option<$type>,
            )*
        }

        impl Keys {
            /// These settings, and those of `base` where none is given here.
            pub fn over(self, base: Keys) -> Keys {
                Keys { $($name: self.$name.or(base.$name),)* }
            }
            /// True if the setting `name`, as in a file, is given.
            pub fn gives(&self, name: &str) -> bool {
                $((stringify!($name).replace('_', "-") == name && self.$name.is_some()) ||)* false
            }
            /// Names and values of the settings that are given.
            pub fn given(&self) -> Vec<(String, String)> {
                let mut given = Vec::new();
                $(if let Some(value) = &self.$name {
                    given.push((stringify!($name).replace('_', "-"), format!("{value:?}")));
                })*
                given
            }
            /// These settings without `name`, as in a file.
            pub fn without(mut self, name: &str) -> Keys {
                $(if stringify!($name).replace('_', "-") == name { self.$name = None; })*
                self
            }
            /// Names of all settings, as in a file.
            pub fn names() -> Vec<String> {
                vec![$(stringify!($name).replace('_', "-"),)*]
            }
            /// What each of [`Keys::names`] is, with unit and default, as the help of its option says.
            pub fn about() -> Vec<String> {
                let mut about = vec![$(concat!($($about),*).trim().to_owned(),)*];
                // Its option has these, too.
                let topology = Keys::names().iter().position(|name| name == "topology").expect("a setting");
                about[topology] += &format!(": {} [default: torus:8x8x8]", AnyTopology::forms());
                about
            }
        }
    };
}

/// Hands the settings of a simulation to a macro, a row each: its documentation, which is its help; its option, as clap's
/// attribute `arg` has it; how a file is read, if not as any other value of its type; its name and type. The names in a row
/// are those of the place from which this is called.
#[macro_export]
macro_rules! settings {
    ($with:ident) => {
        $with! {
        /// A machine: desmos, angara-k1, bluegene-p, gemini, tpu-v4, tpu-v5p, or a file of shape and times as `angara machine desmos` prints one
        #[arg(long, value_name = "NAME|FILE.toml")]
        machine: String,
        /// Changes values of the machine, may be repeated, such as link=15GB/s,hop=60ns
        #[arg(long, value_name = "KEY=VALUE")]
        #[serde(deserialize_with = "list")]
        set: Vec<String>,
        /// How routers are wired
        #[arg(long, value_name = "SHAPE", help = format!("{} [default: torus:8x8x8]", AnyTopology::forms()))]
        #[serde(deserialize_with = "text")]
        topology: AnyTopology,
        /// Kind of router [default: angara on a torus or mesh of up to four sizes, otherwise generic]
        #[arg(long, value_parser = word::<Router>())]
        router: Router,
        /// Virtual channels per port (generic) [default: 4]
        #[arg(long, value_name = "N")]
        vcs: u8,
        /// cut-through: a packet leaves a router when the next buffer has room for all of it; wormhole: flit by flit, also into smaller buffers (generic) [default: cut-through]
        #[arg(long, value_parser = word::<Switching>())]
        switching: Switching,
        /// Whether a packet that has the switch keeps it while it has flits and credits (wormhole) [default: false]
        #[arg(long, value_name = "BOOL")]
        hold_switch: bool,
        /// Buffer of a virtual channel: flits (generic) [default: 8, or with cut-through the longest packet if it is longer] or packet slots (angara) [default: 8]
        #[arg(long, value_name = "N")]
        buffer: u16,
        /// How rings are kept from deadlock; bubble belongs to angara, dateline to generic
        #[arg(long, value_parser = word::<Deadlock>())]
        deadlock: Deadlock,
        /// dor, adaptive (torus, mesh, HyperX), nca, minimal, valiant, ugal, ugal-g, par, updown, west-first, odd-even (mesh of two sizes) or table:FILE [default: what the topology takes; dor on a torus, minimal on a graph, updown round faults (generic)]
        #[arg(long, value_name = "ROUTING")]
        #[serde(deserialize_with = "text")]
        routing: Routing,
        /// Flits by which the queue of the shortest way must exceed twice that of a detour (dragonfly with routing ugal, ugal-g or par) [default: 30]; by which hops times queue must (HyperX with ugal) [default: 2]
        #[arg(long, value_name = "FLITS")]
        ugal_threshold: u16,
        /// What nodes do: open-loop, or a program such as all-to-all:BYTES; `angara sim workloads` lists them [default: open-loop]
        #[arg(long, value_name = "WORKLOAD")]
        workload: Chosen,
        /// Flits per message, or a mixture LENGTH:SHARE,… [default: 1 (generic), 18 (angara)]
        #[arg(long, value_name = "LENGTHS")]
        length: Lengths,
        /// Offered flits per node and cycle [default: 0.1]
        #[arg(long, value_name = "FLITS", value_parser = fraction)]
        #[serde(deserialize_with = "share")]
        load: f64,
        /// uniform, others, tornado, bitcomp, transpose, bitrev, shuffle, butterfly, opposite, neighbor, halo, bad-dragon, permutation, hotspot:NODE,SHARE[,NODE,SHARE…], local:RADIUS,SHARE, fftrow:COLUMNS, fftcol:COLUMNS, matrix:FILE [default: uniform]
        #[arg(long, value_name = "PATTERN")]
        pattern: Pattern,
        /// Relative rates of the ranks, one number for each; their mean is --load [default: all the same]
        #[arg(long, value_name = "FILE")]
        #[serde(deserialize_with = "text")]
        rates: RatesFile,
        /// bernoulli, poisson, batch-poisson[:SIZE] or on-off:ON,OFF [default: bernoulli]
        #[arg(long, value_name = "PROCESS")]
        process: Process,
        /// Which rank of the pattern runs on which node [default: linear]
        #[arg(long, value_parser = word::<Mapping>())]
        map: Mapping,
        /// Extra messages between two nodes, measured alone: FROM,TO or FROM,TO,PERIOD in cycles
        #[arg(long, value_name = "PROBE")]
        #[serde(deserialize_with = "text")]
        probe: Probe,
        /// What fails, may be repeated: 'link 0,0,0 +X down', 'node 1,0,0 down'; with angara 'link 0,0 +X corrupt=1%'; with generic on any network, by the names of its routers, 'link A B down', 'link A B rate=25%', and '2% links down' drawn by the seed; each also later: '… @2us'
        #[arg(long, value_name = "FAULT")]
        #[serde(deserialize_with = "list")]
        fault: Vec<String>,
        /// Share of packets that every link corrupts (angara), such as 0.1% or 50ppm
        #[arg(long, value_name = "RATE")]
        error_rate: String,
        /// Packets to follow: a number in order of creation (7), several (0..20), SRC->DST (the first after warm-up)
        #[arg(long, value_name = "PACKETS")]
        trace: Selection,
        /// Decides everything random [default: 1]
        #[arg(long)]
        seed: u64,
        /// Threads; results do not depend on them [default: 1]
        #[arg(long, value_name = "N")]
        threads: usize,
        /// Cycles before measuring [default: until the latency has settled]
        #[arg(long, value_name = "CYCLES")]
        warmup: u64,
        /// Cycles measured [default: until the mean latency is known to --precision]
        #[arg(long, value_name = "CYCLES")]
        cycles: u64,
        /// Wanted relative half-width of the 95 % confidence interval of the mean latency [default: 0.01]
        #[arg(long, value_name = "SHARE", value_parser = fraction)]
        #[serde(deserialize_with = "share")]
        precision: f64,
        /// Most cycles of a run in all [default: 400000]
        #[arg(long, value_name = "CYCLES")]
        cycles_max: u64,
        /// Search the largest load that is carried instead of simulating one, to within RESOLUTION flits per node and cycle [0.01 if not given]
        #[arg(long, value_name = "RESOLUTION", num_args = 0..=1, default_missing_value = "0.01", require_equals = true,
              value_parser = fraction)]
        #[serde(deserialize_with = "share")]
        find_saturation: f64,
        /// Length of a router cycle, ns (generic) [default: 2]
        #[arg(long, value_name = "NS")]
        cycle_ns: f64,
        /// Host to router, ns (angara) [default: 300]
        #[arg(long, value_name = "NS")]
        injection_ns: f64,
        /// Router to host, ns (angara) [default: 300]
        #[arg(long, value_name = "NS")]
        ejection_ns: f64,
        /// Head flit through a router, ns (angara) [default: 49]
        #[arg(long, value_name = "NS")]
        router_ns: f64,
        /// Flight time of a link, ns (angara) [default: 80]
        #[arg(long, value_name = "NS")]
        link_ns: f64,
        /// Until a freed buffer slot is known upstream, ns (angara) [default: 80]
        #[arg(long, value_name = "NS")]
        credit_ns: f64,
        /// Wait of an adaptive packet before it may escape, ns (angara) [default: 64]
        #[arg(long, value_name = "NS")]
        escape_ns: f64,
        }
    };
}

settings!(keys);
