//! Links: sums per direction, and those that have carried most.

use super::{Family, Labels, Scrape, Value};
use angara_net::Link;
use angara_net::torus::{Direction, NodeId};
use angara_plane::observe::figures::LinkFigures;
use prometheus_client::registry::Unit;
use std::cmp::Reverse;

/// A link that is kept here.
struct Row<'s> {
    node: NodeId,
    dir: Direction,
    figures: &'s LinkFigures,
}

type Figure = fn(&LinkFigures) -> u64;

/// Name of one link's metric, of the sums, unit, help of both, figure.
type Counted = (&'static str, &'static str, Option<Unit>, &'static str, &'static str, Figure);

/// What is counted of links.
const COUNTED: [Counted; 5] = [
    (
        "angara_link_packets",
        "angara_links_packets",
        None,
        "Packets sent over a link.",
        "Packets sent over all links of a direction.",
        |f| f.load.packets,
    ),
    (
        "angara_link_flits",
        "angara_links_flits",
        None,
        "Flits sent over a link, headers and tails included.",
        "Flits sent over all links of a direction, headers and tails included.",
        |f| f.load.flits,
    ),
    (
        "angara_link",
        "angara_links",
        Some(Unit::Bytes),
        "Payload sent over a link.",
        "Payload sent over all links of a direction.",
        |f| f.load.bytes,
    ),
    (
        "angara_link_crc_errors",
        "angara_links_crc_errors",
        None,
        "Packets whose checksum was wrong at the far end of a link.",
        "Packets whose checksum was wrong at the far end of links of a direction.",
        |f| f.crc_errors,
    ),
    (
        "angara_link_replays",
        "angara_links_replays",
        None,
        "Packets sent again over a link.",
        "Packets sent again over all links of a direction.",
        |f| f.replays,
    ),
];

/// Families of links.
pub(super) fn families(scrape: &Scrape) -> Vec<Family> {
    let rows: Vec<Row<'_>> = scrape.sample.links.iter().enumerate().filter_map(|(index, f)| row(index, f)).collect();
    let mut own: Vec<&Row<'_>> = rows.iter().collect();
    if own.len() > scrape.links {
        own.sort_by_key(|row| Reverse((row.figures.load.flits, Reverse((row.node, row.dir.index())))));
        own.truncate(scrape.links);
    }
    let mut families = Vec::new();
    for (one, sum, unit, help_one, help_sum, figure) in COUNTED {
        let with_unit = |family: Family| match &unit {
            Some(unit) => family.unit(unit.clone()),
            None => family,
        };
        let sums = directions(&rows, |rows| rows.map(|row| figure(row.figures)).sum());
        families.push(with_unit(Family::counter(sum, help_sum)).each(sums));
        let each = own.iter().map(|row| (labels(scrape, row), Value::Whole(figure(row.figures))));
        families.push(with_unit(Family::counter(one, help_one)).each(each));
    }
    let up = own.iter().map(|row| (labels(scrape, row), Value::Whole(row.figures.up.into())));
    families.push(Family::gauge("angara_link_up", "Whether a link works.").each(up));
    let down = directions(&rows, |rows| rows.filter(|row| !row.figures.up).count() as u64);
    families.push(Family::gauge("angara_links_down", "Links of a direction that do not work.").each(down));
    let there = directions(&rows, |rows| rows.count() as u64);
    families.push(Family::gauge("angara_links", "Links of a direction whose sending end is on this host.").each(there));
    families.push(
        Family::gauge("angara_links_with_own_series", "Links that have series of their own.").whole(own.len() as u64),
    );
    families
}

fn row(index: usize, figures: &LinkFigures) -> Option<Row<'_>> {
    let Link { node, dir } = Link::from_index(index);
    figures.here.then_some(Row { node, dir, figures })
}

fn labels(scrape: &Scrape, row: &Row<'_>) -> Labels {
    let at = scrape.shape.show(scrape.shape.coords(row.node));
    vec![("node", row.node.to_string()), ("at", at), ("direction", row.dir.to_string())]
}

/// A figure for each direction that has links.
fn directions(rows: &[Row<'_>], figure: impl Fn(&mut dyn Iterator<Item = &Row<'_>>) -> u64) -> Vec<(Labels, Value)> {
    let there = Direction::ALL.into_iter().filter(|dir| rows.iter().any(|row| row.dir == *dir));
    let of = |dir: Direction| figure(&mut rows.iter().filter(|row| row.dir == dir));
    there.map(|dir| (vec![("direction", dir.to_string())], Value::Whole(of(dir)))).collect()
}
