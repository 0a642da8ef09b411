//! Trunks to the other hosts of a cluster: as many series as it has hosts.

use super::{Family, Labels, Scrape, Value};
use angara_protocol::msg::PeerStatus;
use prometheus_client::registry::Unit;

/// Families of trunks; none without a cluster.
pub(super) fn families(scrape: &Scrape) -> Vec<Family> {
    let Some(cluster) = &scrape.sample.cluster else { return Vec::new() };
    let label = |peer: &PeerStatus| -> Labels { vec![("peer", peer.host.clone())] };
    let each = |figure: fn(&PeerStatus) -> Value| {
        cluster.peers.iter().map(|peer| (label(peer), figure(peer))).collect::<Vec<_>>()
    };
    let refused = cluster.peers.iter().flat_map(|peer| {
        peer.refused.iter().map(|(cause, n)| {
            let mut labels = label(peer);
            labels.push(("cause", cause.clone()));
            (labels, Value::Whole(*n))
        })
    });
    vec![
        Family::gauge("angara_trunk_up", "Whether the host at the other end answers.")
            .each(each(|p| Value::Whole(p.up.into()))),
        Family::gauge(
            "angara_trunk_member",
            "Whether the nodes of the host at the other end take part in the network.",
        )
        .each(each(|p| Value::Whole(p.member.into()))),
        Family::gauge("angara_trunk_links", "Links that cross a trunk.").each(each(|p| Value::Whole(p.links.into()))),
        Family::gauge("angara_trunk_round_trip", "Smoothed round-trip time of a trunk.")
            .unit(Unit::Seconds)
            .each(each(|p| Value::Part(p.rtt_us / 1e6))),
        Family::gauge("angara_trunk_loss", "Part of the datagrams sent that were lost.")
            .unit(Unit::Other("ratio".into()))
            .each(each(|p| Value::Part(p.loss))),
        Family::counter("angara_trunk_sent_datagrams", "Datagrams sent.")
            .each(each(|p| Value::Whole(p.sent.datagrams))),
        Family::counter("angara_trunk_sent", "Bytes of datagrams sent.")
            .unit(Unit::Bytes)
            .each(each(|p| Value::Whole(p.sent.bytes))),
        Family::counter("angara_trunk_received_datagrams", "Datagrams accepted.")
            .each(each(|p| Value::Whole(p.received.datagrams))),
        Family::counter("angara_trunk_received", "Bytes of datagrams accepted.")
            .unit(Unit::Bytes)
            .each(each(|p| Value::Whole(p.received.bytes))),
        Family::counter("angara_trunk_replays", "Datagrams whose contents were sent again.")
            .each(each(|p| Value::Whole(p.replays))),
        Family::gauge("angara_trunk_backlog", "Bytes sent and not acknowledged, or waiting to be sent.")
            .unit(Unit::Bytes)
            .each(each(|p| Value::Whole(p.backlog))),
        Family::counter("angara_trunk_refused_datagrams", "Datagrams of this host that were dropped.").each(refused),
        Family::counter("angara_trunk_strangers", "Datagrams from nobody in the cluster file.")
            .whole(cluster.strangers),
        Family::counter("angara_cluster_changes", "Changes of hosts, trunks and faults that hosts have agreed on.")
            .whole(cluster.change),
        Family::gauge("angara_cluster_holding", "Time for which nothing has moved because hosts commit a change.")
            .unit(Unit::Seconds)
            .part(cluster.holding_s.unwrap_or(0.0)),
    ]
}
