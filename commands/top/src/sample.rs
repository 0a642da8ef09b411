//! What a daemon says of itself, twice: what happened in between, as rates.

use angara_control::daemon::{Control, unexpected};
use angara_control::error::Failed;
use angara_control::report::heatmap::flits;
use angara_net::Link;
use angara_protocol::msg::{ClusterStatus, LinkReport, PeerStatus, Reply, Request, Status};
use clap::ValueEnum;
use std::collections::HashMap;
use std::time::Instant;

/// One look.
pub(super) struct Sample {
    at: Instant,
    pub(super) status: Status,
    links: Vec<LinkReport>,
    /// The trunks, where there are other hosts.
    cluster: Option<ClusterStatus>,
}

impl Sample {
    /// Asks the daemon.
    pub(super) async fn take(control: &mut Control) -> Result<Sample, Failed> {
        let status = control.status().await?;
        let links = match control.request(&Request::Counters).await? {
            Reply::Counters { links } => links,
            other => return Err(unexpected(&other)),
        };
        // A daemon without other hosts refuses.
        let cluster = match status.nodes_here as usize == status.shape.nodes() {
            true => None,
            false => match control.request(&Request::Cluster).await {
                Ok(Reply::Cluster(cluster)) => Some(cluster),
                Ok(other) => return Err(unexpected(&other)),
                Err(_) => None,
            },
        };
        Ok(Sample { at: Instant::now(), status, links, cluster })
    }
}

/// By what links are ordered.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Bytes a second now.
    Rate,
    /// Bytes since the daemon's start.
    Total,
    /// CRC errors and replays since the daemon's start.
    Errors,
    /// Node and direction.
    Name,
}

impl Order {
    /// The next one, round and round.
    pub(super) fn next(self) -> Order {
        let all = Order::value_variants();
        let now = all.iter().position(|order| *order == self).unwrap_or(0);
        all[(now + 1) % all.len()]
    }

    /// Returns what it is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Rate => "rate",
            Order::Total => "total",
            Order::Errors => "errors",
            Order::Name => "name",
        }
    }
}

/// A link, and what it carried between two looks.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct LinkRow {
    /// `0,0,0+X`.
    pub(super) name: String,
    /// Node at the receiving end.
    pub(super) to: String,
    /// Number of the sending node, and of the direction: the order by name.
    pub(super) place: Link,
    /// Number of the node at the receiving end.
    pub(super) to_node: u32,
    /// A second.
    pub(super) packets: f64,
    /// A second.
    pub(super) flits: f64,
    /// A second.
    pub(super) bytes: f64,
    /// Bytes since the daemon's start.
    pub(super) total: u64,
    /// Since the daemon's start.
    pub(super) crc_errors: u64,
    /// Since the daemon's start.
    pub(super) replays: u64,
    pub(super) up: bool,
}

/// A trunk, and what it carried between two looks.
pub(super) struct TrunkRow {
    pub(super) peer: PeerStatus,
    /// Bytes a second.
    pub(super) sent: f64,
    /// Bytes a second.
    pub(super) received: f64,
}

/// What is shown.
pub(super) struct Frame {
    /// When it was seen.
    pub(super) at: Instant,
    pub(super) status: Status,
    /// All links that are there or were.
    pub(super) links: Vec<LinkRow>,
    pub(super) trunks: Vec<TrunkRow>,
    /// Name of this host, where there are others.
    pub(super) host: Option<String>,
    /// Share of a core that the data plane used.
    pub(super) data_plane: f64,
}

fn per_second(before: u64, now: u64, seconds: f64) -> f64 {
    // Counters of a daemon that was started anew begin again.
    now.saturating_sub(before) as f64 / seconds
}

impl Frame {
    /// Returns what happened from `before` to `now`.
    pub(super) fn between(before: &Sample, now: &Sample) -> Frame {
        let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
        let shape = now.status.shape;
        let place = |link: &LinkReport| Link { node: link.node, dir: link.dir };
        let earlier: HashMap<Link, &LinkReport> = before.links.iter().map(|link| (place(link), link)).collect();
        let row = |link: &LinkReport| {
            let was = earlier.get(&place(link));
            let packets = |link: &LinkReport| link.load.values().map(|load| load.packets).sum::<u64>();
            let bytes = |link: &LinkReport| link.load.values().map(|load| load.bytes).sum::<u64>();
            let rate = |of: &dyn Fn(&LinkReport) -> u64| per_second(was.map_or(0, |was| of(was)), of(link), seconds);
            LinkRow {
                name: format!("{}{}", shape.show(shape.coords(link.node)), link.dir),
                to: shape.show(shape.coords(link.to)),
                place: place(link),
                to_node: link.to,
                packets: rate(&packets),
                flits: rate(&flits),
                bytes: rate(&bytes),
                total: bytes(link),
                crc_errors: link.crc_errors,
                replays: link.replays,
                up: link.up,
            }
        };
        let trunk = |peer: &PeerStatus| {
            let was = before.cluster.iter().flat_map(|c| &c.peers).find(|was| was.host == peer.host);
            let rate = |of: &dyn Fn(&PeerStatus) -> u64| per_second(was.map_or(0, of), of(peer), seconds);
            TrunkRow { peer: peer.clone(), sent: rate(&|p| p.sent.bytes), received: rate(&|p| p.received.bytes) }
        };
        Frame {
            at: now.at,
            status: now.status.clone(),
            links: now.links.iter().map(row).collect(),
            trunks: now.cluster.iter().flat_map(|c| &c.peers).map(trunk).collect(),
            host: now.cluster.as_ref().map(|c| c.host.clone()),
            data_plane: (now.status.data_plane_cpu_s - before.status.data_plane_cpu_s).max(0.0) / seconds,
        }
    }

    /// Links whose name or target contains `filter`, in this order; without a filter those that have carried something
    /// or are in trouble.
    pub(super) fn links(&self, order: Order, filter: &str) -> Vec<&LinkRow> {
        let wanted = |link: &&LinkRow| match filter {
            "" => link.total > 0 || link.crc_errors + link.replays > 0 || !link.up,
            filter => link.name.contains(filter) || link.to.contains(filter),
        };
        let mut rows: Vec<&LinkRow> = self.links.iter().filter(wanted).collect();
        rows.sort_by(|a, b| {
            let first = match order {
                Order::Rate => b.bytes.total_cmp(&a.bytes),
                Order::Total => b.total.cmp(&a.total),
                Order::Errors => (b.crc_errors + b.replays).cmp(&(a.crc_errors + a.replays)),
                Order::Name => std::cmp::Ordering::Equal,
            };
            first.then_with(|| a.place.cmp(&b.place))
        });
        rows
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use angara_abi::account::{Class, Load};
    use std::time::Duration;

    /// A look at a network of 2x2 after N seconds, with links that have carried N bytes.
    pub(crate) fn sample(start: Instant, seconds: u64, links: &[(u32, &str, u64)]) -> Sample {
        let status = serde_json::json!({
            "version": "1", "abi": angara_abi::ABI_VERSION, "pid": 7, "uptime_s": 1.0 + seconds as f64, "shape": "2x2", "nodes": 4,
            "nodes_here": 4, "data_plane_cpu_s": 0.25 * seconds as f64, "private": false,
            "jobs": [{"job": 1, "name": "heat2d", "uid": 0, "pes": 4, "attached": 4, "came": 4, "memory": 1 << 20, "age_s": 3.0}],
            "faults": ["link 0,0 +Y down"], "violations": 0,
        });
        let link = |(node, dir, bytes): &(u32, &str, u64)| LinkReport {
            node: *node,
            dir: dir.parse().expect("a direction"),
            to: node ^ 1,
            load: [(Class::Put, Load { packets: bytes / 256, flits: bytes / 16, bytes: *bytes })].into(),
            crc_errors: 0,
            replays: [0, 1, 0, 3][*node as usize],
            duplicates: 0,
            reordered: 0,
            up: *dir != "+Y",
        };
        Sample {
            at: start + Duration::from_secs(seconds),
            status: serde_json::from_value(status).expect("a status"),
            links: links.iter().map(link).collect(),
            cluster: None,
        }
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let start = Instant::now();
        let before = sample(start, 0, &[(0, "+X", 512)]);
        let now = sample(start, 2, &[(0, "+X", 4608), (1, "-X", 1024), (2, "+X", 0), (3, "+Y", 0)]);
        let frame = Frame::between(&before, &now);
        let names = |order, filter: &str| -> Vec<String> {
            frame.links(order, filter).iter().map(|link| link.name.clone()).collect()
        };
        assert_eq!(names(Order::Rate, ""), ["0,0+X", "1,0-X", "1,1+Y"], "the idle link is left out");
        assert_eq!(names(Order::Errors, ""), ["1,1+Y", "1,0-X", "0,0+X"]);
        assert_eq!(names(Order::Name, "+X"), ["0,0+X", "0,1+X"]);
        let first = frame.links(Order::Rate, "")[0];
        assert_eq!((first.bytes, first.packets, first.total), (2048.0, 8.0, 4608));
        assert_eq!(frame.data_plane, 0.25);
    }

    #[test]
    fn counters_that_begin_again_are_no_negative_rates() {
        let start = Instant::now();
        let frame = Frame::between(&sample(start, 0, &[(0, "+X", 512)]), &sample(start, 1, &[(0, "+X", 256)]));
        assert_eq!(frame.links[0].bytes, 0.0);
    }
}
