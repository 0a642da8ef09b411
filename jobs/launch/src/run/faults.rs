//! What the faults of a run did: counted on the links that they are about.

use super::options::{Options, say};
use super::place::Place;
use angara_abi::JobId;
use angara_control::error::Failed;
use angara_net::Link;
use angara_net::fault::{Action, Command, Failing, Impair, Site, Target};
use angara_net::torus::Shape;
use angara_protocol::msg::{LinkReport, Reply, Request};
use std::collections::BTreeMap;

/// Counters of links.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Toll {
    packets: u64,
    wrong: u64,
    again: u64,
    doubled: u64,
    overtaken: u64,
}

impl Toll {
    fn of(link: &LinkReport) -> Toll {
        let packets = link.load.values().map(|load| load.packets).sum();
        let (wrong, again, doubled, overtaken) = (link.crc_errors, link.replays, link.duplicates, link.reordered);
        Toll { packets, wrong, again, doubled, overtaken }
    }
    fn add(self, other: Toll) -> Toll {
        Toll {
            packets: self.packets + other.packets,
            wrong: self.wrong + other.wrong,
            again: self.again + other.again,
            doubled: self.doubled + other.doubled,
            overtaken: self.overtaken + other.overtaken,
        }
    }
    /// Without what was counted before. Traffic is the job's own, errors are all since the daemon's start.
    fn since(self, before: Toll) -> Toll {
        Toll {
            packets: self.packets,
            wrong: self.wrong.saturating_sub(before.wrong),
            again: self.again.saturating_sub(before.again),
            doubled: self.doubled.saturating_sub(before.doubled),
            overtaken: self.overtaken.saturating_sub(before.overtaken),
        }
    }
}

/// What was counted on each link.
#[derive(Default)]
pub(super) struct Tolls(BTreeMap<Link, Toll>);

impl Tolls {
    /// Of a job so far; nothing if the run has no faults that it could be asked for.
    pub(super) async fn read(place: &mut Place, job: JobId, args: &Options) -> Result<Tolls, Failed> {
        if args.faults.is_empty() || args.quiet || !place.alive {
            return Ok(Tolls::default());
        }
        match place.control.request(&Request::JobReport { job }).await? {
            Reply::Report(report) => Ok(Tolls::of(&report.links)),
            other => Err(angara_control::daemon::unexpected(&other)),
        }
    }

    fn of(links: &[LinkReport]) -> Tolls {
        Tolls(links.iter().map(|link| (Link { node: link.node, dir: link.dir }, Toll::of(link))).collect())
    }

    fn at(&self, links: &[Link]) -> Toll {
        links.iter().filter_map(|link| self.0.get(link)).fold(Toll::default(), |sum, toll| sum.add(*toll))
    }
}

/// Says of each place that the run's faults are about what happened there since `before`.
pub(super) async fn tell(place: &mut Place, job: JobId, args: &Options, before: &Tolls) {
    if let Ok(now) = Tolls::read(place, job, args).await {
        lines(&args.faults, &place.shape, &now, before).into_iter().for_each(|line| say(args, line));
    }
}

fn lines(faults: &[String], shape: &Shape, now: &Tolls, before: &Tolls) -> Vec<String> {
    let mut sites: BTreeMap<Site, Vec<Failing>> = BTreeMap::new();
    for command in faults.iter().filter_map(|text| Command::parse(text, shape).ok()) {
        // Of trunks the daemon tells: `angara cluster status`.
        let Target::Network(actions) = command.target else { continue };
        for action in actions {
            if let Action::Set(fault) = action {
                sites.entry(fault.site).or_default().push(fault.failing);
            }
        }
    }
    let line = |(site, failing): (&Site, &Vec<Failing>)| {
        let mut links = site.links(shape);
        if let (Site::Link(link), true) = (site, failing.contains(&Failing::Down)) {
            links.extend(link.reverse(shape));
        }
        let toll = now.at(&links).since(before.at(&links));
        let effects: Vec<String> = failing.iter().map(ToString::to_string).collect();
        format!("{} {}: {}", site.show(shape), effects.join(" "), sentence(*site, failing, toll))
    };
    sites.iter().map(line).collect()
}

fn sentence(site: Site, failing: &[Failing], toll: Toll) -> String {
    let over = match site {
        Site::Link(_) if failing.contains(&Failing::Down) => "crossed it in either direction",
        Site::Link(_) => "crossed it",
        Site::Node(_) => "crossed its links",
        Site::EveryLink => "crossed links",
    };
    if toll.packets == 0 {
        return format!("no packet of the job {over}");
    }
    let does = |wanted: fn(&Impair) -> bool| failing.iter().any(|f| matches!(f, Failing::Impaired(how) if wanted(how)));
    let wrong = match (does(|how| matches!(how, Impair::Corrupt(_))), does(|how| matches!(how, Impair::Drop(_)))) {
        (true, true) => Some("corrupted or lost"),
        (true, false) => Some("corrupted"),
        (false, true) => Some("lost"),
        (false, false) => None,
    };
    let plural = |n: u64| if n == 1 { "" } else { "s" };
    let mut words = vec![format!("{} packet{} {over}", toll.packets, plural(toll.packets))];
    words.extend(wrong.map(|wrong| format!("{} transmission{} {wrong}", toll.wrong, plural(toll.wrong))));
    words.extend(does(|how| matches!(how, Impair::Duplicate(_))).then(|| format!("{} doubled", toll.doubled)));
    words.extend(does(|how| matches!(how, Impair::Reorder(_))).then(|| format!("{} overtaken", toll.overtaken)));
    words.extend((toll.again > 0).then(|| format!("{} sent again", toll.again)));
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_abi::account::{Class, Load};

    #[test]
    fn each_place_is_told_once_with_what_happened_since() {
        let shape: Shape = "2x2".parse().expect("a shape");
        let link = |node, dir: &str, packets, crc_errors, replays| LinkReport {
            node,
            dir: dir.parse().expect("a direction"),
            to: 0,
            load: [(Class::Put, Load { packets, flits: packets, bytes: 0 })].into(),
            crc_errors,
            replays,
            duplicates: 0,
            reordered: packets / 33,
            up: true,
        };
        let before = Tolls::of(&[link(0, "+X", 0, 10, 20)]);
        let now = Tolls::of(&[link(0, "+X", 100, 14, 29), link(1, "+X", 7, 0, 0)]);
        let said = |faults: &[&str]| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            lines(&faults, &shape, &now, &before)
        };
        assert_eq!(
            said(&["link 0,0 +X corrupt=20%", "link 0,0 +X reorder=1%"]),
            [
                "link 0,0 +X corrupt=20% reorder=1%: 100 packets crossed it, 4 transmissions corrupted, 3 overtaken, 9 sent again"
            ]
        );
        assert_eq!(said(&["link 0,0 +Y delay=1us"]), ["link 0,0 +Y delay=1us: no packet of the job crossed it"]);
        assert_eq!(said(&["link 1,0 +X rate=1M"]), ["link 1,0 +X rate=1M: 7 packets crossed it"]);
        let every = said(&["every link drop=1%"]);
        assert_eq!(every, ["every link drop=1%: 107 packets crossed links, 4 transmissions lost, 9 sent again"]);
        assert!(said(&["link 0,0 +X down"])[0].contains("100 packets crossed it in either direction"));
        assert!(said(&["trunk all drop=1%"]).is_empty());
    }
}
