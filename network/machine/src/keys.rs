//! What a machine file may say: one row per key, with its unit, default and source.

use crate::window::{PACKET_BYTES, READ_HOPS, WINDOW_MAX, Window};
use angara_abi::account::READ_MAX;
use angara_abi::{PACKET_FLITS_MAX, PAYLOAD_MAX};
use angara_fabric::{FlitTime, NodePath, PORTS_MAX, Params, Quiet, Tick};
use angara_net::units;
use angara_protocol::mpi::MpiCosts;
use std::ops::RangeInclusive;

/// Everything that a machine file says besides the shape. Times are in picoseconds.
#[derive(Clone, PartialEq, Debug)]
pub struct Values {
    injection: Tick,
    ejection: Tick,
    hop: Tick,
    flight: Tick,
    credit: Tick,
    escape: Tick,
    barrier_phase: Tick,
    link: FlitTime,
    core: FlitTime,
    /// As many as a link needs, unless said.
    slots: Option<u16>,
    collective_slots: Option<u16>,
    age_limit: u16,
    adaptive: bool,
    balanced: bool,
    ports: u16,
    /// That of the core, unless said.
    port: Option<FlitTime>,
    gap: Tick,
    dma_start: Tick,
    descriptor_fetch: Tick,
    host_read: Tick,
    host_write: Tick,
    jitter: Tick,
    /// As many as a link needs, unless said.
    packets: Option<u16>,
    reads: Option<u16>,
    quiet: Quiet,
    by_memory: bool,
    memory_latency: Tick,
    memory_rate: FlitTime,
    mpi: MpiCosts,
    eager: u16,
}

impl Default for Values {
    /// The chip as [`Params`] has it; where nothing is published, nothing is added.
    fn default() -> Values {
        let p = Params::default();
        Values {
            injection: p.inject_ps,
            ejection: p.eject_ps,
            hop: p.router_ps + p.link_ps,
            flight: p.link_ps,
            credit: p.credit_ps,
            escape: p.escape_ps,
            barrier_phase: p.barrier_ps,
            link: p.link_flit,
            core: p.core_flit,
            slots: None,
            collective_slots: None,
            age_limit: p.age_limit.into(),
            adaptive: p.adaptive,
            balanced: p.balanced,
            ports: p.ports.into(),
            port: None,
            gap: p.gap_ps,
            dma_start: p.dma_start_ps,
            descriptor_fetch: 0,
            host_read: p.host_read_ps,
            host_write: 0,
            jitter: p.jitter_ps,
            packets: None,
            reads: None,
            quiet: p.quiet,
            by_memory: false,
            memory_latency: 100_000,
            memory_rate: FlitTime::of_rate(10_000),
            mpi: MpiCosts { look: 50_000, ..MpiCosts::default() },
            eager: EAGER_MAX,
        }
    }
}

/// Bytes of the largest message that a ring of a mailbox takes in jobs of up to 1,024 PEs.
const EAGER_MAX: u16 = 16_384;

impl Values {
    /// Returns what an MPI library costs.
    pub fn mpi(&self) -> MpiCosts {
        MpiCosts { eager: self.eager.into(), ..self.mpi }
    }

    /// After changes of the values `before`, by their names: a hop that was changed without `flight` is shorter or longer
    /// in all its parts.
    pub(crate) fn keep_cable_share<'a>(&mut self, before: &Values, names: impl IntoIterator<Item = &'a str>) {
        if !names.into_iter().any(|name| name == "flight") && before.hop > 0 {
            let share = u128::from(before.flight) * u128::from(self.hop) / u128::from(before.hop);
            self.flight = Tick::try_from(share).unwrap_or(Tick::MAX);
        }
    }

    fn port(&self) -> FlitTime {
        self.port.unwrap_or(self.core)
    }

    /// The slower of a link and the chip behind it.
    fn slower(&self) -> FlitTime {
        if self.link.rate() <= self.core.rate() { self.link } else { self.core }
    }

    fn windows(&self) -> [Window; 4] {
        let (p, slot) = (Params::default(), self.hop + self.credit);
        // Up to the grant of the first router.
        let way_in = self.injection + self.host_read + self.hop.saturating_sub(self.flight);
        let there_and_back = 2 * (way_in + READ_HOPS * self.hop + self.ejection + self.host_write);
        let window = |name, said, least, packets, time| {
            let unit = self.slower().of(packets * PACKET_FLITS_MAX as u64);
            Window { name, said, least, bytes: packets * PACKET_BYTES, unit, time }
        };
        let of_read = (READ_MAX / PAYLOAD_MAX) as u64;
        [
            window("slots", self.slots, p.slots, 1, slot),
            window("collective-slots", self.collective_slots, p.collective_slots, 1, slot),
            window("packets", self.packets, p.staged_per_port, 1, way_in),
            window("reads", self.reads, p.reads_per_port, of_read, there_and_back),
        ]
    }

    /// Returns what one setting keeps another one from, in words, each with the remedy.
    pub fn bottlenecks(&self) -> Vec<String> {
        let (link, core) = (show_rate(self.link), show_rate(self.core));
        let mut found = Vec::new();
        if self.link.rate() > self.core.rate() {
            found.push(format!("link = {link} carries no more than core = {core} lets through; set core, too"));
        }
        let wanted = show_rate(self.slower());
        found.extend(self.windows().iter().filter(|w| u64::from(w.count()) < w.needed()).map(|window| {
            let (name, enough) = (window.name, window.needed() <= u64::from(WINDOW_MAX));
            let remedy = match window.said {
                Some(_) if enough => format!("leave it out, which is {} here", window.needed()),
                _ => format!("more than {WINDOW_MAX} are not possible, so take shorter times"),
            };
            format!("{name} = {} lets {} of {wanted} through; {remedy}", window.count(), show_rate(window.rate()))
        }));
        let port = self.port();
        let words = format!("port-rate = {}", show_rate(port));
        if port.rate() > self.core.rate() {
            found.push(format!("{words} is more than core = {core} lets through; set core, too"));
        } else if port.rate() < self.slower().rate() {
            found.push(format!("{words} lets no more of {wanted} into a link; leave it out, which is {core} here"));
        }
        // A packet's bytes in each gap.
        let of_gap = PACKET_BYTES * 1_000_000 / self.gap.max(1);
        if of_gap < self.slower().rate() {
            let (gap, rate) = (show_time(self.gap), show_rate(FlitTime::of_rate(of_gap.max(1))));
            found.push(format!("injection-gap = {gap} lets {rate} of {wanted} through; take a shorter one"));
        }
        found
    }

    /// As the model takes them.
    ///
    /// # Errors
    /// Two values that contradict each other, named.
    pub fn params(&self) -> Result<Params, String> {
        let router_ps = self.hop.checked_sub(self.flight).filter(|ps| *ps > 0);
        let router_ps = router_ps.ok_or_else(|| {
            format!("hop = {} contains flight = {} and must be longer", show_time(self.hop), show_time(self.flight))
        })?;
        if self.ejection < router_ps {
            return Err(format!(
                "ejection = {} contains a router's {} (hop less flight) and cannot be shorter",
                show_time(self.ejection),
                show_time(router_ps)
            ));
        }
        let node_path = NodePath { latency_ps: self.memory_latency, flit: self.memory_rate };
        let [slots, collective_slots, staged_per_port, reads_per_port] = self.windows().map(|window| window.count());
        Ok(Params {
            inject_ps: self.injection,
            eject_ps: self.ejection + self.host_write,
            router_ps,
            link_ps: self.flight,
            credit_ps: self.credit,
            escape_ps: self.escape,
            barrier_ps: self.barrier_phase,
            link_flit: self.link,
            core_flit: self.core,
            slots,
            collective_slots,
            age_limit: self.age_limit as u8,
            adaptive: self.adaptive,
            balanced: self.balanced,
            ports: self.ports as u8,
            port_flit: self.port.filter(|port| port.rate() < self.core.rate()),
            gap_ps: self.gap,
            dma_start_ps: self.dma_start + self.descriptor_fetch,
            host_read_ps: self.host_read,
            jitter_ps: self.jitter,
            staged_per_port,
            reads_per_port,
            quiet: self.quiet,
            node_path: self.by_memory.then_some(node_path),
            ..Params::default()
        })
    }
}

/// How a value is read and written.
enum Field {
    /// Up to this many picoseconds.
    Time(RangeInclusive<Tick>, fn(&mut Values) -> &mut Tick),
    /// Bytes per second.
    Rate(fn(&mut Values) -> &mut FlitTime),
    /// The same, of the core unless said.
    RateOfCore(fn(&mut Values) -> &mut Option<FlitTime>),
    Count(RangeInclusive<u16>, fn(&mut Values) -> &mut u16),
    /// The count of a [`Window`], by its number.
    Window(RangeInclusive<u16>, usize, fn(&mut Values) -> &mut Option<u16>),
    /// One of two words; the second is true.
    Word([&'static str; 2], fn(&mut Values) -> bool, fn(&mut Values, bool)),
}

/// The table that is about an MPI library, not about the machine.
pub const MPI_TABLE: &str = "mpi";

/// A key of a machine file.
pub struct Key {
    /// The table that it stands in.
    pub table: &'static str,
    /// Its name; no two tables share one.
    pub name: &'static str,
    /// What it says.
    pub about: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
    field: Field,
}

/// One second: no machine is slower.
const SLOWEST: Tick = 1_000_000_000_000;
const TIME: RangeInclusive<Tick> = 0..=SLOWEST;
const SOME: RangeInclusive<Tick> = 1..=SLOWEST;

const fn key(table: &'static str, name: &'static str, field: Field, source: &'static str, about: &'static str) -> Key {
    Key { table, name, about, source, field }
}

const TABLE: &str = "paper 000, section 2";
const OURS: &str = "ours";
const UNKNOWN: &str = "ours: unknown, so nothing is added";

/// Every key, by table.
pub const KEYS: &[Key] = &[
    key("network", "injection", Field::Time(TIME, |v| &mut v.injection), TABLE, "host to router"),
    key("network", "ejection", Field::Time(SOME, |v| &mut v.ejection), TABLE, "router to host"),
    key("network", "hop", Field::Time(SOME, |v| &mut v.hop), TABLE, "a head flit from router to router"),
    key(
        "network",
        "flight",
        Field::Time(SOME, |v| &mut v.flight),
        TABLE,
        "the cable's share of `hop`, which it keeps if only `hop` is changed",
    ),
    key("network", "link", Field::Rate(|v| &mut v.link), "12 lanes of 6.25 Gbit/s, 8b/10b", "flits on a link"),
    key("network", "core", Field::Rate(|v| &mut v.core), "128 bits at 500 MHz", "flits inside the chip"),
    key("network", "credit", Field::Time(SOME, |v| &mut v.credit), OURS, "until a freed slot is known upstream"),
    key(
        "network",
        "escape",
        Field::Time(SOME, |v| &mut v.escape),
        OURS,
        "wait of an adaptive packet before it may escape",
    ),
    key(
        "network",
        "barrier-phase",
        Field::Time(TIME, |v| &mut v.barrier_phase),
        "paper 001",
        "added by the adapter at each phase of a barrier",
    ),
    key(
        "network",
        "slots",
        Field::Window(2..=WINDOW_MAX, 0, |v| &mut v.slots),
        OURS,
        "packets that a data virtual channel buffers; more for faster or longer links, as many as they need",
    ),
    key(
        "network",
        "collective-slots",
        Field::Window(2..=WINDOW_MAX, 1, |v| &mut v.collective_slots),
        OURS,
        "packets that a collective virtual channel buffers; more in the same way",
    ),
    key(
        "network",
        "age-limit",
        Field::Count(1..=255, |v| &mut v.age_limit),
        OURS,
        "grants to others before a waiting packet precedes all",
    ),
    key(
        "network",
        "routing",
        Field::Word(["dor", "adaptive"], |v| v.adaptive, |v, b| v.adaptive = b),
        "paper 002, section 2",
        "ways of writes: `dor` (one per pair) or `adaptive` (fences and quiet then wait)",
    ),
    key(
        "network",
        "routes",
        Field::Word(["parity", "balanced"], |v| v.balanced, |v, b| v.balanced = b),
        OURS,
        "which of a pair's equally short ways: as the `parity` of its coordinates says, or a table that is `balanced` for all-to-all",
    ),
    key(
        "adapter",
        "ports",
        Field::Count(1..=PORTS_MAX as u16, |v| &mut v.ports),
        OURS,
        "injection ports of a node, and as many ejection ports; each serves directions of its own",
    ),
    key(
        "adapter",
        "port-rate",
        Field::RateOfCore(|v| &mut v.port),
        OURS,
        "flits through each of them; that of `core` unless said",
    ),
    key(
        "adapter",
        "injection-gap",
        Field::Time(TIME, |v| &mut v.gap),
        UNKNOWN,
        "least time between the packets through an injection port",
    ),
    key(
        "adapter",
        "dma-start",
        Field::Time(TIME, |v| &mut v.dma_start),
        UNKNOWN,
        "start of the DMA engine, per put or get of more than 256 bytes",
    ),
    key(
        "adapter",
        "descriptor-fetch",
        Field::Time(TIME, |v| &mut v.descriptor_fetch),
        UNKNOWN,
        "reading a descriptor, for the same",
    ),
    key(
        "adapter",
        "host-read",
        Field::Time(TIME, |v| &mut v.host_read),
        UNKNOWN,
        "latency of what the adapter reads from memory, beyond `injection`",
    ),
    key(
        "adapter",
        "host-write",
        Field::Time(TIME, |v| &mut v.host_write),
        UNKNOWN,
        "latency of what it hands to the host, beyond `ejection`",
    ),
    key(
        "adapter",
        "jitter",
        Field::Time(TIME, |v| &mut v.jitter),
        OURS,
        "injections take up to so much longer, as a seed draws it; no machine's, it shows races",
    ),
    key(
        "adapter",
        "packets",
        Field::Window(1..=WINDOW_MAX, 2, |v| &mut v.packets),
        OURS,
        "packets of a PE on their way into the network, through each port; more in the same way",
    ),
    key(
        "adapter",
        "reads",
        Field::Window(1..=WINDOW_MAX, 3, |v| &mut v.reads),
        OURS,
        "unanswered read requests of a PE through each port, up to 32 KiB each; more in the same way",
    ),
    key(
        "adapter",
        "quiet",
        Field::Word(
            ["read", "delivered"],
            |v| v.quiet == Quiet::Delivered,
            |v, b| v.quiet = if b { Quiet::Delivered } else { Quiet::Read },
        ),
        OURS,
        "how quiet knows: `read` (a read behind the writes) or `delivered` (an oracle tells; a bound, no machine)",
    ),
    key(
        "node",
        "same-node",
        Field::Word(["adapter", "memory"], |v| v.by_memory, |v, b| v.by_memory = b),
        OURS,
        "how PEs of one node reach each other: through the `adapter`, or the node's `memory`",
    ),
    key(
        "node",
        "memory-latency",
        Field::Time(TIME, |v| &mut v.memory_latency),
        OURS,
        "of an operation through the node's memory",
    ),
    key("node", "memory-rate", Field::Rate(|v| &mut v.memory_rate), OURS, "bytes through the node's memory"),
    key(
        "mpi",
        "send-overhead",
        Field::Time(TIME, |v| &mut v.mpi.send),
        UNKNOWN,
        "an MPI library's part in a message, at the sender",
    ),
    key("mpi", "receive-overhead", Field::Time(TIME, |v| &mut v.mpi.receive), UNKNOWN, "the same at the receiver"),
    key("mpi", "look", Field::Time(SOME, |v| &mut v.mpi.look), OURS, "a call such as `MPI_Test` or `MPI_Iprobe`"),
    key(
        "mpi",
        "message-gap",
        Field::Time(TIME, |v| &mut v.mpi.gap),
        UNKNOWN,
        "least time from one message of a rank to the next",
    ),
    key(
        "mpi",
        "copy",
        Field::Time(TIME, |v| &mut v.mpi.copy),
        UNKNOWN,
        "copying 1 KiB of a message up to `eager-limit`, at either end",
    ),
    key(
        "mpi",
        "rendezvous",
        Field::Time(TIME, |v| &mut v.mpi.rendezvous),
        UNKNOWN,
        "agreeing on a larger message, at the receiver",
    ),
    key(
        "mpi",
        "eager-limit",
        Field::Count(64..=EAGER_MAX, |v| &mut v.eager),
        OURS,
        "bytes up to which a message is sent at once; jobs of more than 1,024 ranks have less",
    ),
];

impl Key {
    /// The key of this name.
    pub fn find(name: &str) -> Option<&'static Key> {
        KEYS.iter().find(|key| key.name == name)
    }

    /// Reads a value.
    ///
    /// # Errors
    /// What would be understood.
    pub fn set(&self, values: &mut Values, text: &str) -> Result<(), String> {
        let refused = |expects: String| format!("{} = `{text}`: give {expects}", self.name);
        match &self.field {
            Field::Time(range, at) => {
                let time = units::time(text).filter(|ps| range.contains(ps));
                *at(values) = time.ok_or_else(|| refused("a time up to 1s, such as 129ns".into()))?;
            }
            Field::Rate(at) => *at(values) = rate(text).map_err(refused)?,
            Field::RateOfCore(at) => *at(values) = Some(rate(text).map_err(refused)?),
            Field::Count(range, at) => {
                let count = text.parse().ok().filter(|n| range.contains(n));
                *at(values) =
                    count.ok_or_else(|| refused(format!("a number from {} to {}", range.start(), range.end())))?;
            }
            Field::Window(range, _, at) => {
                let count = text.parse().ok().filter(|n| range.contains(n));
                let expects = || refused(format!("a number from {} to {}", range.start(), range.end()));
                *at(values) = Some(count.ok_or_else(expects)?);
            }
            Field::Word(words, _, set) => {
                let word = words.iter().position(|word| *word == text);
                set(values, word.ok_or_else(|| refused(words.join(" or ")))? == 1);
            }
        }
        Ok(())
    }

    /// The value as a file says it: a number, or text.
    pub fn show(&self, values: &Values) -> String {
        let mut values = values.clone();
        match &self.field {
            Field::Time(_, at) => show_time(*at(&mut values)),
            Field::Rate(at) => show_rate(*at(&mut values)),
            Field::RateOfCore(at) => show_rate(at(&mut values).unwrap_or(values.core)),
            Field::Count(_, at) => at(&mut values).to_string(),
            Field::Window(_, window, _) => values.windows()[*window].count().to_string(),
            Field::Word(words, get, _) => words[usize::from(get(&mut values))].into(),
        }
    }

    /// True if a file says the value as a number.
    pub fn is_number(&self) -> bool {
        matches!(self.field, Field::Count(..) | Field::Window(..))
    }

    /// True if the value is what others make of it; nothing if it does not depend on others.
    pub fn follows(&self, values: &Values) -> Option<bool> {
        let mut free = values.clone();
        match &self.field {
            Field::Window(_, window, at) => {
                *at(&mut free) = None;
                Some(free.windows()[*window].count() == values.windows()[*window].count())
            }
            Field::RateOfCore(at) => {
                *at(&mut free) = None;
                Some(self.show(&free) == self.show(values))
            }
            _ => None,
        }
    }
}

/// A rate; what is expected if it is none.
fn rate(text: &str) -> Result<FlitTime, String> {
    let rate = megabytes(text).ok_or_else(|| "a rate from 1MB/s to 1TB/s, such as 7.5GB/s".to_owned())?;
    Ok(FlitTime::of_rate(rate))
}

/// Megabytes per second (powers of 1000) of `7.5GB/s` and the like.
fn megabytes(text: &str) -> Option<u64> {
    let (number, scale) = [("MB/s", 1.0), ("GB/s", 1e3), ("TB/s", 1e6)]
        .into_iter()
        .find_map(|(unit, scale)| text.trim().strip_suffix(unit).map(|n| (n.trim(), scale)))?;
    let digits = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let rate = number.parse::<f64>().ok().filter(|_| digits)? * scale;
    (1.0..=1e6).contains(&rate).then_some(rate.round() as u64)
}

fn show_rate(flit: FlitTime) -> String {
    let megabytes = flit.rate();
    if megabytes >= 1000 { format!("{}GB/s", megabytes as f64 / 1e3) } else { format!("{megabytes}MB/s") }
}

fn show_time(ps: Tick) -> String {
    format!("{}ns", ps as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_what_is_read() {
        for key in KEYS {
            let mut values = Values::default();
            let shown = key.show(&values);
            key.set(&mut values, &shown).expect("its own default");
            assert_eq!(values.params(), Values::default().params(), "{} = {shown}", key.name);
            let follows = matches!(key.field, Field::Window(..) | Field::RateOfCore(_));
            assert_eq!(values == Values::default(), !follows, "{}", key.name);
        }
    }

    #[test]
    fn names_are_unique_and_tables_stand_together() {
        let mut names: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), KEYS.len());
        let mut tables: Vec<&str> = KEYS.iter().map(|key| key.table).collect();
        tables.dedup();
        assert_eq!(tables, ["network", "adapter", "node", "mpi"]);
    }

    #[test]
    fn defaults_are_the_chip() {
        assert_eq!(Values::default().params(), Ok(Params::default()));
    }

    #[test]
    fn values_reach_the_model_in_its_units() {
        let mut values = Values::default();
        let set = [("hop", "60ns"), ("flight", "20ns"), ("link", "15GB/s"), ("quiet", "delivered"), ("slots", "4")];
        for (name, text) in
            set.into_iter().chain([("dma-start", "1us"), ("descriptor-fetch", "0.5us"), ("same-node", "memory")])
        {
            Key::find(name).expect("a key").set(&mut values, text).expect("a value");
        }
        let p = values.params().expect("no contradiction");
        assert_eq!((p.router_ps, p.link_ps, p.link_flit), (40_000, 20_000, FlitTime { num: 3200, den: 3 }));
        assert_eq!((p.quiet, p.slots, p.dma_start_ps), (Quiet::Delivered, 4, 1_500_000));
        assert_eq!(p.node_path.map(|n| n.latency_ps), Some(100_000));
    }

    fn changed(text: &str) -> Values {
        let mut values = Values::default();
        for (name, value) in text.split(',').filter_map(|change| change.split_once('=')) {
            Key::find(name).expect("a key").set(&mut values, value).expect("a value");
        }
        values
    }

    #[test]
    fn faster_links_get_the_slots_and_packets_that_they_need() {
        for (changes, slots, packets) in [
            ("", 8, 16),
            ("link=15GB/s", 8, 16),
            ("link=15GB/s,core=16GB/s", 13, 21),
            ("link=128GB/s,core=1TB/s", 95, 158),
        ] {
            let p = changed(changes).params().expect("no contradiction");
            assert_eq!((p.slots, p.collective_slots, p.staged_per_port), (slots, slots, packets), "{changes}");
        }
        let fastest = changed("link=400GB/s,core=400GB/s");
        assert_eq!(fastest.bottlenecks(), [""; 0], "nothing is in its way");
        assert_eq!(Key::find("slots").expect("a key").follows(&fastest), Some(true));
    }

    #[test]
    fn what_caps_another_setting_is_named() {
        for (changes, parts) in [
            ("", &[][..]),
            ("link=15GB/s,core=16GB/s", &[]),
            ("link=15GB/s", &["link = 15GB/s carries no more than core = 8GB/s lets through"]),
            ("link=128GB/s,core=128GB/s,reads=4", &["reads = 4 lets"]),
            // Paper 002 has the same 3.5 GB/s.
            ("slots=4", &["slots = 4 lets 3.492GB/s of 7.5GB/s through; leave it out, which is 8 here"]),
            ("link=128GB/s,core=128GB/s,slots=16,packets=16", &["slots = 16 lets 20.4", "packets = 16 lets 12.2"]),
            (
                "link=15GB/s,core=8GB/s,injection-gap=100ns",
                &["set core", "injection-gap = 100ns lets 2.88GB/s of 8GB/s"],
            ),
            (
                "link=1TB/s,core=1TB/s,hop=1us",
                &["slots = 1024 lets", "collective-slots = 1024", "packets = 1024", "reads = 1024"],
            ),
        ] {
            let found = changed(changes).bottlenecks();
            assert_eq!(found.len(), parts.len(), "{changes}: {found:?}");
            for (one, part) in found.iter().zip(parts) {
                assert!(one.contains(part), "{changes}: {one}");
            }
        }
    }

    #[test]
    fn mistakes_are_named_with_what_would_be_understood() {
        let mut values = Values::default();
        for (name, text, part) in [
            ("hop", "129", "such as 129ns"),
            ("hop", "0ns", "such as 129ns"),
            ("link", "fast", "such as 7.5GB/s"),
            ("link", "0MB/s", "1MB/s"),
            ("slots", "1", "2 to 1024"),
            ("quiet", "soon", "read or delivered"),
        ] {
            let e = Key::find(name).expect("a key").set(&mut values, text).expect_err(text);
            assert!(e.contains(part) && e.contains(text), "{e}");
        }
        values.flight = values.hop;
        assert!(values.params().expect_err("no router").contains("flight = 129ns"));
    }

    #[test]
    fn the_reference_lists_every_key_with_its_default() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/machines.md");
        let page = std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{file}: {e}"));
        for key in KEYS {
            let row = format!("| `{}` | {} | {} | {} |", key.name, key.show(&Values::default()), key.about, key.source);
            assert!(page.contains(&row), "docs/reference/machines.md lacks\n{row}");
        }
    }
}
