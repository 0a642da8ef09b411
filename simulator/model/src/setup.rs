//! Configuration of a network: shape, router profile, and why they are refused.

pub use crate::profile::{ANGARA_FLITS_MAX, Angara, Generic, LINK_MAX, Profile, Rate, Switching};

use crate::generic::places;
use crate::parallel::PartsError;
use crate::routers::slow::longest_span;
use crate::topology::{AnyTopology, Classes, TopologyError, VCS_MAX};
use angara_fabric::raw::{channels_max, chip_shape};
use angara_fabric::{BALANCED_NODES, FaultError, SLOTS_MAX, Tick};
use angara_net::NodeSet;
use angara_net::fault::{Fault, Mistake};

/// A network to simulate.
#[derive(Clone, PartialEq, Debug)]
pub struct Setup {
    /// How its routers are wired.
    pub shape: AnyTopology,
    /// Kind of router.
    pub profile: Profile,
    /// Decides every free choice (ties between routes, link errors).
    pub seed: u64,
    /// `angara`: what is or becomes broken, as [`Fault::parse`] reads it. `generic`: links that are slower than others, as
    /// [`AnyTopology::rates`] reads them, and what goes down under way, as [`AnyTopology::left_later`] does; what is down
    /// from the beginning belongs to the shape.
    pub faults: Vec<String>,
    /// `angara`: node sets that divide the machine from the beginning; packets stay in theirs.
    pub sets: Vec<NodeSet>,
}

/// Why a configuration was refused.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum SetupError {
    /// Virtual channels of the generic router.
    #[error("vcs = {0}: the generic router has 1 to {VCS_MAX} virtual channels; give so many")]
    Vcs(u8),
    /// No room for two classes.
    #[error(
        "vcs = {vcs} on {shape}: rings need the dateline rule, which splits the virtual channels in two; give an even number"
    )]
    Dateline {
        /// Virtual channels asked for.
        vcs: u8,
        /// The shape.
        shape: AnyTopology,
    },
    /// No room for the two parts of a way.
    #[error(
        "vcs = {vcs} on {shape}: a way by another router uses one half of the virtual channels, then the other; give an even number"
    )]
    Halves {
        /// Virtual channels asked for.
        vcs: u8,
        /// The shape.
        shape: AnyTopology,
    },
    /// No room for a class per hop.
    #[error(
        "vcs = {vcs} on {shape}: routes go through {hops} classes of virtual channels, so that nothing deadlocks, and each class needs one; {} a network with shorter routes; a graph also takes routing updown",
        if *hops <= VCS_MAX.into() { format!("give vcs >= {hops}, or") } else { format!("there are at most {VCS_MAX}: give") }
    )]
    Steps {
        /// Virtual channels asked for.
        vcs: u8,
        /// Classes.
        hops: u32,
        /// The shape.
        shape: AnyTopology,
    },
    /// No room for escape channels and others.
    #[error(
        "vcs = {vcs} on {shape} with routing adaptive: {} of the virtual channels are for escape, and others are needed; give vcs >= {needed}",
        needed - 1
    )]
    Escape {
        /// Virtual channels asked for.
        vcs: u8,
        /// Virtual channels needed.
        needed: u32,
        /// The shape.
        shape: AnyTopology,
    },
    /// No number for every channel.
    #[error(
        "vcs = {vcs} on {shape}: {} routers of {} ports have more channels than 32-bit numbers; give at most {most} routers, or fewer virtual channels",
        shape.routers(), shape.ports()
    )]
    Numbers {
        /// Virtual channels asked for.
        vcs: u8,
        /// The shape.
        shape: AnyTopology,
        /// Most routers.
        most: u64,
    },
    /// A packet in several routers may hold an escape channel while its head waits behind another packet.
    #[error(
        "routing adaptive on {0} with wormhole switching: packets that wait in several routers can keep each other from the escape channels; use cut-through switching, or another routing"
    )]
    AdaptiveWormhole(AnyTopology),
    /// Only a packet as a whole chooses anew while it waits.
    #[error(
        "a turn model on {0} with wormhole switching: packets choose anew while they wait, which is simulated with cut-through switching only; use that, or routing dor"
    )]
    TurnsWormhole(AnyTopology),
    /// Packets longer than a buffer.
    #[error(
        "buffer = {buffer} flits: packets of {packet} flits never fit (virtual cut-through); give buffer >= {packet}, or use wormhole switching"
    )]
    Buffer {
        /// Buffer, flits.
        buffer: u16,
        /// Longest packet, flits.
        packet: u16,
    },
    /// Links that are too long to simulate.
    #[error("link = {0} cycles: the generic router has links of up to {LINK_MAX}; give longer cycles or shorter hops")]
    Link(u16),
    /// Zero-length packets or cycles.
    #[error("{0} = 0: must be at least 1")]
    Zero(&'static str),
    /// Fewer slots than the bubble rule needs.
    #[error("slots = {0}: entering a ring takes 2 free packet slots (bubble rule); give 2 to 1024")]
    Slots(u16),
    /// Too many channels.
    #[error("channels = {0}: give 1 to {1} endpoints per node of this network")]
    Channels(u8, usize),
    /// Too many ports.
    #[error("ports = {0}: a node has 1 to {1} injection ports, and 1 if it has several endpoints")]
    Ports(u8, usize),
    /// The angara router routes by direction order, which only a torus or mesh has.
    #[error("router angara on {0}: it routes by direction order; use torus:… or mesh:…")]
    NotAGrid(AnyTopology),
    /// The chip has one endpoint, and one link in every direction.
    #[error(
        "router angara on {0}: the chip has one node and one link per direction; leave out c= and x=, or use router generic"
    )]
    NotPlain(AnyTopology),
    /// Balanced routes of too large a network.
    #[error("routes = balanced on {0}: give at most 4 dimensions and {BALANCED_NODES} nodes")]
    Balanced(AnyTopology),
    /// A rate or fault of the generic router that cannot be.
    #[error("{}: {}", .0.text, .0.why)]
    Topology(#[from] TopologyError),
    /// So long a packet on so slow a link.
    #[error(
        "packets of {0} flits take {1} cycles on the slowest link; give at most {SPAN_MAX}: faster, or shorter packets"
    )]
    Span(u16, u64),
    /// Node sets with the generic router.
    #[error("node sets with the generic router: only the angara router has route tables")]
    SetProfile,
    /// Node sets of a network larger than the chip's addresses.
    #[error("node sets on {0}: give at most 4 dimensions of at most 255 and 32768 nodes")]
    SetShape(AnyTopology),
    /// A node in two sets, or in none that there can be.
    #[error("node {0} is in two node sets, or not in {1}: give each set nodes of its own")]
    SetNode(u32, AnyTopology),
    /// Faults of a network larger than the chip's addresses.
    #[error("faults on {0}: give at most 4 dimensions of at most 255 and 32768 nodes")]
    FaultShape(AnyTopology),
    /// A failure under way changes the routes of all parts at once, and a repeated packet is at both ends of its link:
    /// windows of time do not allow either.
    #[error(
        "threads = {0} with fault `{1}`: several threads take only links and nodes that are down from the beginning; give 1 (points of a sweep run at once)"
    )]
    Threads(usize, String),
    /// It cannot be simulated in N parts.
    #[error(transparent)]
    Parts(#[from] PartsError),
    /// A fault that cannot be.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// A text that is no fault of it.
    #[error(transparent)]
    Text(#[from] Mistake),
    /// An ejection shorter than the router it contains.
    #[error("ejection = {0} ps is less than router = {1} ps, which it contains")]
    Ejection(Tick, Tick),
    /// A delay that would make the simulation slow.
    #[error("{what} = {value} ps: must be at most {max} ps")]
    Delay {
        /// Parameter.
        what: &'static str,
        /// Its value.
        value: Tick,
        /// Limit.
        max: Tick,
    },
}

impl Setup {
    /// Checks everything that can be checked before building.
    pub fn validate(&self) -> Result<(), SetupError> {
        self.validated().map(drop)
    }

    /// The same. Returns what is left of generic routers under way, and from which time on.
    pub(crate) fn validated(&self) -> Result<Vec<(Tick, AnyTopology)>, SetupError> {
        match &self.profile {
            Profile::Generic(_) if !self.sets.is_empty() => Err(SetupError::SetProfile),
            Profile::Generic(g) => {
                g.validate(&self.shape)?;
                self.check_rates(g)?;
                let later = self.shape.left_later(&self.faults, self.seed)?;
                later.iter().try_for_each(|(_, left)| g.validate(left))?;
                Ok(later)
            }
            Profile::Angara(a) => a.validate(&self.shape).map(|()| Vec::new()),
        }
    }

    /// Refuses rates of links that cannot be simulated.
    fn check_rates(&self, g: &Generic) -> Result<(), SetupError> {
        let rates = self.shape.rates(&self.faults)?;
        let span = match g.switching {
            Switching::CutThrough => longest_span(&rates, g.packet_flits_max),
            Switching::Wormhole { .. } => return Ok(()), // flit by flit
        };
        if span > SPAN_MAX { Err(SetupError::Span(g.packet_flits_max, span)) } else { Ok(()) }
    }

    /// Refuses sets that are not of different nodes of a network of `nodes`.
    pub(crate) fn check_sets(&self, nodes: usize) -> Result<(), SetupError> {
        if self.sets.is_empty() {
            return Ok(());
        }
        if nodes != self.shape.endpoints() {
            return Err(SetupError::SetShape(self.shape.clone()));
        }
        let mut seen = vec![false; nodes];
        for node in self.sets.iter().flat_map(NodeSet::held) {
            match seen.get_mut(node as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(SetupError::SetNode(node, self.shape.clone())),
            }
        }
        Ok(())
    }

    /// Refuses faults that `threads` threads, or processes, cannot simulate.
    pub fn check_threads(&self, threads: usize) -> Result<(), SetupError> {
        if threads <= 1 {
            return Ok(());
        }
        let (AnyTopology::Grid(grid), Profile::Angara(_)) = (&self.shape, &self.profile) else { return Ok(()) };
        let shape = chip_shape(grid.dims(), grid.wraps());
        for text in &self.faults {
            let fault = Fault::parse(text, &shape)?;
            let lasting = fault.is_down() && fault.at.unwrap_or(0) == 0;
            if !lasting {
                return Err(SetupError::Threads(threads, text.clone()));
            }
        }
        Ok(())
    }
}

impl Generic {
    fn validate(&self, shape: &AnyTopology) -> Result<(), SetupError> {
        if !(1..=VCS_MAX).contains(&self.vcs) {
            return Err(SetupError::Vcs(self.vcs));
        }
        match shape.classes() {
            Classes::Halves if !self.vcs.is_multiple_of(2) => {
                let (vcs, shape) = (self.vcs, shape.clone());
                return Err(match shape {
                    AnyTopology::Grid(_) => SetupError::Dateline { vcs, shape },
                    _ => SetupError::Halves { vcs, shape },
                });
            }
            Classes::Steps(hops) if u32::from(self.vcs) < hops => {
                return Err(SetupError::Steps { vcs: self.vcs, hops, shape: shape.clone() });
            }
            Classes::Escape(_) if u32::from(self.vcs) < shape.classes().count() => {
                let (vcs, needed, shape) = (self.vcs, shape.classes().count(), shape.clone());
                return Err(SetupError::Escape { vcs, needed, shape });
            }
            Classes::Escape(n) if self.switching != Switching::CutThrough => {
                let shape = shape.clone();
                return Err(if n == 0 {
                    SetupError::TurnsWormhole(shape)
                } else {
                    SetupError::AdaptiveWormhole(shape)
                });
            }
            _ => {}
        }
        let (ports, channels) = places(shape.ports(), self.vcs);
        let most = (1 << 32) / (ports * channels) as u64;
        if shape.routers() as u64 > most {
            return Err(SetupError::Numbers { vcs: self.vcs, shape: shape.clone(), most });
        }
        let (buffer, packet, link) = (self.buffer_flits.into(), self.packet_flits_max.into(), self.link.into());
        for (what, value) in [("buffer", buffer), ("packet_flits_max", packet), ("cycle", self.cycle), ("link", link)] {
            if value == 0 {
                return Err(SetupError::Zero(what));
            }
        }
        if self.link > LINK_MAX {
            return Err(SetupError::Link(self.link));
        }
        if self.switching == Switching::CutThrough && self.buffer_flits < self.packet_flits_max {
            return Err(SetupError::Buffer { buffer: self.buffer_flits, packet: self.packet_flits_max });
        }
        Ok(())
    }
}

/// Most cycles of a packet on a link.
const SPAN_MAX: u64 = 65_536;

/// Longest single delay of the angara profile.
const DELAY_MAX: Tick = 4_000_000;

impl Angara {
    fn validate(&self, shape: &AnyTopology) -> Result<(), SetupError> {
        let grid = match shape {
            AnyTopology::Grid(grid) if grid.is_plain() => grid,
            AnyTopology::Grid(_) => return Err(SetupError::NotPlain(shape.clone())),
            _ => return Err(SetupError::NotAGrid(shape.clone())),
        };
        let most = if self.bubble_in_flits { SLOTS_MAX / ANGARA_FLITS_MAX } else { SLOTS_MAX };
        if !(2..=most).contains(&self.slots) {
            return Err(SetupError::Slots(self.slots));
        }
        let most = channels_max(grid.ndims());
        if !(1..=most).contains(&self.channels.into()) {
            return Err(SetupError::Channels(self.channels, most));
        }
        let most = if self.channels > 1 { 1 } else { most };
        if !(1..=most).contains(&self.rest.ports.into()) {
            return Err(SetupError::Ports(self.rest.ports, most));
        }
        for (what, rate) in [("flit_internal", self.flit_internal), ("flit_link", self.flit_link)] {
            if rate.num == 0 || rate.den == 0 {
                return Err(SetupError::Zero(what));
            }
        }
        if self.router == 0 {
            return Err(SetupError::Zero("router"));
        }
        if self.ejection < self.router {
            return Err(SetupError::Ejection(self.ejection, self.router));
        }
        for (what, value) in [
            ("injection", self.injection),
            ("ejection", self.ejection),
            ("router", self.router),
            ("link", self.link),
            ("credit", self.credit),
            ("escape", self.escape),
            ("flit_internal", self.flit_internal.span(ANGARA_FLITS_MAX as u32)),
            ("flit_link", self.flit_link.span(ANGARA_FLITS_MAX as u32)),
        ] {
            if value > DELAY_MAX {
                return Err(SetupError::Delay { what, value, max: DELAY_MAX });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flit_times_never_accumulate_rounding() {
        let link = Angara::default().flit_link;
        assert_eq!(link.span(1), 2134);
        assert_eq!(link.span(3), 6400);
        assert_eq!(link.span(18), 38_400);
        assert_eq!(link.slower(Rate { num: 2000, den: 1 }), link);
    }

    #[test]
    fn impossible_networks_are_refused_with_the_remedy() {
        let mut config = Setup {
            shape: "torus:4x4".parse().unwrap(),
            profile: Profile::Generic(Generic { vcs: 3, ..Generic::default() }),
            seed: 1,
            faults: Vec::new(),
            sets: Vec::new(),
        };
        assert!(config.validate().unwrap_err().to_string().contains("even number"));
        let refused = |shape: &str, vcs| {
            let profile = Profile::Generic(Generic { vcs, ..Generic::default() });
            let setup = Setup { shape: shape.parse().unwrap(), profile, seed: 1, faults: Vec::new(), sets: Vec::new() };
            setup.validate().err().map(|e| e.to_string()).unwrap_or_default()
        };
        assert_eq!(refused("mesh:4x4", 32), "");
        assert_eq!(refused("cayley:40:1", 20), "");
        assert!(refused("mesh:4x4", 33).contains("1 to 32"));
        assert!(refused("cayley:40:1", 16).contains("give vcs >= 20, or a network"));
        assert!(refused("cayley:80:1", 32).contains("40 classes"));
        assert!(refused("cayley:80:1", 32).contains("at most 32: give a network"));
        assert_eq!(refused("mesh:2x2x2x2x32x4096", 16), "");
        assert!(refused("mesh:2x2x2x2x64x4096", 16).contains("give at most 2097152 routers"));
        config.profile = Profile::Generic(Generic { packet_flits_max: 16, ..Generic::default() });
        assert!(config.validate().unwrap_err().to_string().contains("buffer >= 16"));
        config.profile = Profile::Angara(Angara { slots: 1, ..Angara::default() });
        assert!(config.validate().unwrap_err().to_string().contains("slots = 1"));
        for shape in ["torus:4x4,c=2", "mesh:4x4,x=2"] {
            config.shape = shape.parse().unwrap();
            assert!(config.validate().unwrap_err().to_string().contains("leave out c= and x="));
        }
        config.shape = "fat-tree:2,2".parse().unwrap();
        assert!(config.validate().unwrap_err().to_string().contains("direction order"));
    }
}
