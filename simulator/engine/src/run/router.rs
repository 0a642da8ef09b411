//! Routers, and what they do with packets, by the names that settings and results have for them.

use angara_model::topology;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::str::FromStr;

angara_net::words! {
    /// Kind of router.
    #[derive(Debug, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Router {
        /// The Angara EC8430.
        Angara = "angara",
        /// A textbook input-queued router, comparable with BookSim.
        Generic = "generic",
    }
}

angara_net::words! {
    /// How rings are kept from deadlock.
    #[derive(Debug, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Deadlock {
        /// Bubble flow control in packet slots (angara).
        Bubble = "bubble",
        /// Two classes of virtual channels (generic).
        Dateline = "dateline",
    }
}

angara_net::words! {
    /// When a packet may leave a router.
    #[derive(Debug, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Switching {
        /// When the next buffer has room for the whole of it.
        CutThrough = "cut-through",
        /// Flit by flit.
        Wormhole = "wormhole",
    }
}

/// How packets find their way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Routing {
    /// Dimension or direction order (torus, mesh).
    Dor,
    /// Minimal adaptive with escape (torus, mesh, HyperX).
    Adaptive,
    /// Nearest common ancestor, random up (fat tree, folded Clos).
    Nca,
    /// Along a shortest way (graphs: of several next hops one drawn at random).
    Minimal,
    /// By a router or group drawn at random (graphs, dragonfly, HyperX).
    Valiant,
    /// Minimal or Valiant, by the queues of the first router (dragonfly, HyperX).
    Ugal,
    /// As UGAL, by the queues of all links that leave the group (dragonfly).
    UgalG,
    /// As UGAL, and once more by the queues of another router of the group (dragonfly).
    Par,
    /// Up and then down the levels of a graph.
    UpDown,
    /// Any shortest way without a turn west (mesh of two sizes).
    WestFirst,
    /// Any shortest way whose turns the column allows (mesh of two sizes).
    OddEven,
    /// As a file says (graphs).
    Table(String),
}

impl Routing {
    /// Those that need no file, with the model's.
    const NAMED: &'static [(&'static str, Routing, topology::Routing)] = &[
        ("dor", Routing::Dor, topology::Routing::Dor),
        ("adaptive", Routing::Adaptive, topology::Routing::Adaptive),
        ("nca", Routing::Nca, topology::Routing::Nca),
        ("minimal", Routing::Minimal, topology::Routing::Minimal),
        ("valiant", Routing::Valiant, topology::Routing::Valiant),
        ("ugal", Routing::Ugal, topology::Routing::Ugal),
        ("ugal-g", Routing::UgalG, topology::Routing::UgalG),
        ("par", Routing::Par, topology::Routing::Par),
        ("updown", Routing::UpDown, topology::Routing::UpDown),
        ("west-first", Routing::WestFirst, topology::Routing::WestFirst),
        ("odd-even", Routing::OddEven, topology::Routing::OddEven),
    ];

    /// The model's routing by this name; of a table the kind only.
    pub fn of_model(&self) -> topology::Routing {
        Routing::NAMED.iter().find(|named| named.1 == *self).map_or(topology::Routing::Table, |named| named.2)
    }
}

/// A table's file is not known.
impl From<topology::Routing> for Routing {
    fn from(routing: topology::Routing) -> Routing {
        let named = Routing::NAMED.iter().find(|named| named.2 == routing);
        named.map_or_else(|| Routing::Table("FILE".into()), |named| named.1.clone())
    }
}

impl Display for Routing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self, Routing::NAMED.iter().find(|named| named.1 == *self)) {
            (_, Some((name, ..))) => f.write_str(name),
            (Routing::Table(path), None) => write!(f, "table:{path}"),
            (other, None) => write!(f, "{other:?}"),
        }
    }
}

impl FromStr for Routing {
    type Err = crate::Error;
    fn from_str(text: &str) -> Result<Routing, crate::Error> {
        let named = Routing::NAMED.iter().find(|named| named.0 == text).map(|named| named.1.clone());
        let table = || text.strip_prefix("table:").filter(|path| !path.is_empty()).map(|p| Routing::Table(p.into()));
        named.or_else(table).ok_or_else(|| {
            let names: Vec<&str> = Routing::NAMED.iter().map(|named| named.0).collect();
            crate::Error::invalid("routing", text, format!("write {} or table:FILE", names.join(", ")))
        })
    }
}

impl Serialize for Routing {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}
