//! What a network cannot do with its settings, although nothing is wrong with them: said with every result.

use super::Experiment;
use angara_model::topology::{Comparison, End};
use angara_model::{Generic, Profile, Setup, Switching, Topology};
use std::collections::{BTreeMap, BTreeSet};

/// Cycles from a grant until the credits of the packet are back, besides those of the link in both directions: the head
/// arrives 2 cycles after it left the link, asks for the switch a cycle later, and its credits take 3.
const CREDITS_BACK: u32 = 6;
/// With wormhole switching the later flits of a packet ask at once.
const CREDITS_BACK_WITHIN: u32 = 5;

/// Notes on a network and its packets.
pub fn of(experiment: &Experiment) -> Vec<String> {
    let Profile::Generic(router) = &experiment.network.profile else { return experiment.caps.clone() };
    let channel = Channel::new(router, experiment);
    let shape: &dyn Topology = &*experiment.network.shape;
    let queues = shape.comparison(router.vcs.into());
    let detours = queues.and_then(|queues| channel.detours(&queues));
    detours.into_iter().chain(channel.long_links(shape)).chain(slow_links(experiment)).collect()
}

/// What loads of links that are slower than others mean.
fn slow_links(experiment: &Experiment) -> Option<String> {
    let Setup { shape, faults, .. } = &experiment.network;
    // The last word on a link and time counts.
    let rates: BTreeMap<((u32, u8), u64), u32> =
        shape.rates(faults).ok()?.iter().map(|link| ((link.from, link.since), link.ppm)).collect();
    let slow = || rates.iter().filter(|(_, ppm)| **ppm < 1_000_000);
    let (&((router, port), _), &ppm) = slow().min_by_key(|(_, ppm)| **ppm)?;
    let count = slow().map(|((link, _), _)| link).collect::<BTreeSet<_>>().len();
    let links = if count == 1 { "1 link is".into() } else { format!("{count} links are") };
    let [at_times, then] = if rates.keys().any(|(_, since)| *since > 0) { [" at times", " then"] } else { [""; 2] };
    Some(format!(
        "{links}{at_times} slower than the others: loads count flits, and {} {} is full at {} flits per cycle{then}",
        shape.router_name(router),
        shape.port_name(port),
        f64::from(ppm) / 1e6
    ))
}

/// A virtual channel, and what passes through it.
struct Channel {
    vcs: u32,
    buffer: u32,
    longest: u32,
    /// Packets have this length only, and each takes room for all of it at once.
    step: u32,
    cut_through: bool,
    /// Least cycles of a link.
    link: u32,
}

/// Links of one name and delay.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    name: &'static str,
    there: u32,
    back: u32,
    channels: u32,
}

impl Channel {
    fn new(router: &Generic, experiment: &Experiment) -> Channel {
        let lengths = &experiment.lengths;
        let longest = u32::from(lengths.max());
        let cut_through = router.switching == Switching::CutThrough;
        // Of packets of several lengths some combination may fill the buffer. Programs have shorter ones, too.
        let same = lengths.mean() == f64::from(longest) && experiment.settings.workload == "open-loop";
        let step = if cut_through && same { longest } else { 1 };
        let (vcs, buffer, link) = (router.vcs.into(), router.buffer_flits.into(), router.link.into());
        Channel { vcs, buffer, longest, step, cut_through, link }
    }
    /// Most flits that its credits are taken for.
    fn holds(&self) -> u32 {
        self.buffer / self.step * self.step
    }
    /// The least buffer that holds N flits.
    fn for_flits(&self, flits: u32) -> u32 {
        flits.div_ceil(self.step) * self.step
    }

    /// Why packets take no detours, or hardly any.
    fn detours(&self, queues: &Comparison) -> Option<String> {
        let threshold = u32::from(queues.threshold);
        // The last packet of a channel counts as a whole before all of it has come.
        let input = if self.cut_through { self.holds() } else { self.buffer + self.longest - 1 };
        let (most, own) =
            (queues.credits * self.holds() + queues.inputs * input, queues.own * self.holds() + queues.inputs * input);
        if own > threshold {
            return None;
        }
        let takes = if most > threshold { "hardly a packet takes a detour" } else { "no packet ever takes a detour" };
        let buffer = self.for_flits((threshold + 1).div_ceil(queues.own + queues.inputs));
        let rest =
            if most > own { format!(", {most} with those that have arrived from elsewhere") } else { String::new() };
        let smaller = own.checked_sub(1).map_or(String::new(), |t| format!("ugal-threshold <= {t} or "));
        Some(format!(
            "{takes}: the queue of the shortest way must exceed ugal-threshold = {threshold}, and the packets that choose \
             fill at most {own} flits of it{rest}; give {smaller}buffer >= {buffer}"
        ))
    }

    /// Links whose credits come back later than the buffers behind them are full.
    fn long_links(&self, shape: &dyn Topology) -> Vec<String> {
        self.kinds(shape).iter().filter_map(|(kind, count)| self.long_link(kind, *count)).collect()
    }
    fn round_trip(&self, there: u32, back: u32) -> u32 {
        there + back + if self.cut_through || self.longest == 1 { CREDITS_BACK } else { CREDITS_BACK_WITHIN }
    }
    /// The links that may be too long, in both directions, and how many there are.
    fn kinds(&self, shape: &dyn Topology) -> BTreeMap<Kind, u32> {
        let places = || (0..shape.routers() as u32).flat_map(|r| (0..shape.ports() as u8).map(move |p| (r, p)));
        let mut kinds = BTreeMap::new();
        let longest = places().map(|(r, p)| self.link.max(shape.delay(r, p).into())).max().unwrap_or(1);
        for (r, p) in places() {
            let channels = shape.channels_on(r, p, self.vcs);
            if channels * self.holds() >= self.round_trip(longest, longest) {
                continue;
            }
            if let End::Router { router, port } = shape.output(r, p) {
                let [there, back] = [(r, p), (router, port)].map(|(r, p)| self.link.max(shape.delay(r, p).into()));
                *kinds.entry(Kind { name: shape.links_name(p), there, back, channels }).or_default() += 1;
            }
        }
        kinds
    }
    fn long_link(&self, &Kind { name, there, back, channels }: &Kind, count: u32) -> Option<String> {
        let cycles = self.round_trip(there, back);
        let held = channels * self.holds();
        if held >= cycles {
            return None;
        }
        // The next packet gets a channel when the one before it has left, and the switch a cycle later.
        let in_turn = f64::from(self.longest) / f64::from(self.longest + 1);
        let one = (f64::from(self.holds()) / f64::from(cycles)).min(in_turn);
        let all = one * f64::from(channels);
        let delay = if there == back { format!("{there}") } else { format!("{there} there and {back} back") };
        let buffer = self.for_flits(cycles.div_ceil(channels));
        let several = match channels {
            1 => "the channel that packets use there holds".into(),
            n => format!("{n} channels hold"),
        };
        let alone = if channels == 1 { String::new() } else { format!(", {:.1} % with one channel", 100.0 * one) };
        Some(format!(
            "{count} {name} of {delay} cycles are longer than their buffers: credits are back after {cycles} cycles, and \
             {several} {held} flits, so a link carries at most {:.1} % of its rate{alone}; give buffer >= {buffer}",
            100.0 * all
        ))
    }
}

#[cfg(test)]
mod tests {
    use crate::settings::Keys;
    use crate::workload::simulate;

    fn notes(settings: &str) -> Vec<String> {
        let keys: Keys = toml::from_str(settings).unwrap();
        let experiment = keys.resolve().map_err(|e| e.0).unwrap().experiment;
        super::of(&experiment)
    }

    #[test]
    fn slow_links_are_named_whatever_else_fails() {
        let slow = "topology = \"torus:4x4\"\nrouter = \"generic\"\nfault = [\"link 0,0 +X rate=25%\"";
        let expected =
            ["1 link is slower than the others: loads count flits, and (0,0) +X is full at 0.25 flits per cycle"];
        assert_eq!(notes(&format!("{slow}]")), expected);
        assert_eq!(notes(&format!("{slow}, \"node 3,3 down @2us\"]")), expected);
        let at_times = "2 links are at times slower than the others: loads count flits, and (0,0) +X is full at 0.1 flits \
                        per cycle then";
        let more = "\"link 0,0 +X rate=10% @1us\", \"link 0,0 +X rate=100% @2us\", \"link 1,1 +X rate=50% @1us\"]";
        assert_eq!(notes(&format!("{slow}, {more}")), [at_times]);
    }

    #[test]
    fn a_machine_whose_settings_cap_each_other_is_named() {
        assert!(notes("set = [\"link=15GB/s\"]")[0].contains("set core, too"));
        assert_eq!(notes("set = [\"link=15GB/s,core=16GB/s\"]"), [""; 0]);
    }

    #[test]
    fn a_threshold_that_no_queue_exceeds_is_named() {
        let of = |rest: &str| notes(&format!("topology = \"dragonfly:2,1,1\"\nrouting = \"ugal\"\nvcs = 3\n{rest}"));
        assert_eq!(
            of("buffer = 8"),
            ["no packet ever takes a detour: the queue of the shortest way must exceed ugal-threshold = 30, and the \
              packets that choose fill at most 8 flits of it, 16 with those that have arrived from elsewhere; give \
              ugal-threshold <= 7 or buffer >= 31"]
        );
        assert!(of("buffer = 16")[0].starts_with("hardly a packet takes a detour: "), "{:?}", of("buffer = 16"));
        assert_eq!([of("buffer = 31"), of("buffer = 8\nugal-threshold = 7")], [[""; 0]; 2]);
        assert_eq!(of("buffer = 30").len() + of("buffer = 8\nugal-threshold = 8").len(), 2);
        // A buffer of 31 flits holds 15 packets of two, 30 flits.
        assert!(of("buffer = 31\nlength = 2")[0].ends_with("buffer >= 32"), "{:?}", of("buffer = 31\nlength = 2"));
        assert_eq!(of("buffer = 32\nlength = 2"), [""; 0]);
        // A queue of the exit's router has 11 channels.
        let global =
            |rest: &str| notes(&format!("topology = \"dragonfly:2,1,1\"\nrouting = \"ugal-g\"\nvcs = 3\n{rest}"));
        assert!(global("buffer = 4").is_empty());
        let hyperx = |rest: &str| notes(&format!("topology = \"hyperx:4x4,1\"\nrouting = \"ugal\"\nvcs = 2\n{rest}"));
        assert!(hyperx("buffer = 4").is_empty());
        assert!(hyperx("buffer = 4\nugal-threshold = 8")[0].ends_with("ugal-threshold <= 7 or buffer >= 5"));
    }

    #[test]
    fn links_longer_than_their_buffers_are_named() {
        let long = notes("topology = \"dragonfly:2\"\nvcs = 2\nbuffer = 103");
        assert_eq!(
            long,
            [
                "72 links between groups of 100 cycles are longer than their buffers: credits are back after 206 cycles, and \
              the channel that packets use there holds 103 flits, so a link carries at most 50.0 % of its rate; give \
              buffer >= 206"
            ]
        );
        assert_eq!(notes("topology = \"dragonfly:2\"\nvcs = 2\nbuffer = 206"), [""; 0]);
        let both = notes("topology = \"dragonfly:2\"\nrouting = \"valiant\"\nvcs = 3\nbuffer = 8");
        assert!(both[0].contains("links between groups") && both[0].contains("2 channels hold 16 flits"), "{both:?}");
        assert!(both[0].contains("7.8 % of its rate, 3.9 % with one channel; give buffer >= 103"), "{both:?}");
        assert!(both[1].contains("links within groups of 10 cycles") && both[1].contains("26 cycles"), "{both:?}");
        let express = notes("topology = \"express:8x8,4\"\nvcs = 1\nbuffer = 8\n");
        assert!(express[0].starts_with("32 express links of 4 cycles"), "{express:?}");
        assert_eq!(notes("topology = \"torus:8x8x8\"\nrouter = \"generic\""), [""; 0]);
        assert_eq!(notes(""), [""; 0]);
    }

    /// Two routers, and all traffic of one over their link: what arrives is the share that the note says.
    #[test]
    fn links_carry_what_the_note_says() {
        let file = std::env::temp_dir().join(format!("angara-notes-{}.graph", std::process::id()));
        std::fs::write(&file, "terminals 4\na b 20 9\n").unwrap();
        let carried = |rest: &str| {
            let network =
                format!("topology = \"graph:{}\"\nrouting = \"updown\"\npattern = \"opposite\"\n", file.display());
            let report = simulate(&format!("{network}load = 1.0\nwarmup = 1000\ncycles = 4000\n{rest}"));
            // Four endpoints of each router send over one link.
            4.0 * report.json["accepted_flits_per_node_cycle"].as_f64().unwrap()
        };
        for (rest, share) in [
            ("vcs = 1\nbuffer = 7", 7.0 / 35.0),
            ("vcs = 2\nbuffer = 7", 14.0 / 35.0),
            ("vcs = 1\nbuffer = 15\nlength = 5", 15.0 / 35.0),
            ("vcs = 1\nbuffer = 10\nlength = 16\nswitching = \"wormhole\"", 10.0 / 34.0),
        ] {
            let got = carried(rest);
            assert!(got <= share * 1.002 && got > share * 0.93, "{rest}: {got} of {share}");
        }
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn text_and_numbers_of_a_run_have_its_notes() {
        let short = "topology = \"dragonfly:1\"\nvcs = 2\nwarmup = 0\ncycles = 100\n";
        let report = simulate(short);
        let note = report.json["notes"][0].as_str().unwrap();
        assert!(
            note.contains("links between groups") && report.text.contains(&format!("  note                  {note}\n"))
        );
        assert_eq!(simulate(&format!("{short}buffer = 300\n")).json["notes"], serde_json::json!([]));
    }
}
