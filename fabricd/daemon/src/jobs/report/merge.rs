//! One report from those of all hosts of a job.

use angara_protocol::msg::{LinkReport, Report};

/// Adds what the host called `name` has counted.
pub(crate) fn merge(all: &mut Report, part: Report, name: &str) {
    all.links = merge_links(std::mem::take(&mut all.links), part.links);
    all.barriers.left += part.barriers.left;
    all.barriers.early += part.barriers.early;
    all.barriers.unfinished += part.barriers.unfinished;
    all.barriers.late += part.barriers.late;
    all.notes.extend(part.notes.into_iter().map(|n| format!("host {name}: {n}")));
}

/// Traffic of links known to several hosts: each counts what its own nodes sent.
pub(crate) fn merge_links(mut all: Vec<LinkReport>, part: Vec<LinkReport>) -> Vec<LinkReport> {
    for link in part {
        match all.iter_mut().find(|l| l.node == link.node && l.dir == link.dir) {
            Some(known) => {
                for (class, load) in link.load {
                    known.load.entry(class).or_default().add(load);
                }
                known.crc_errors += link.crc_errors;
                known.replays += link.replays;
                known.duplicates += link.duplicates;
                known.reordered += link.reordered;
                known.up &= link.up;
            }
            None => all.push(link),
        }
    }
    all.sort_by(|a, b| (a.node, &a.dir).cmp(&(b.node, &b.dir)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_abi::account::{Class, Load};

    fn link(node: u32, packets: u64, up: bool) -> LinkReport {
        let load = Load { packets, flits: packets * 3, bytes: packets * 8 };
        let load = [(Class::Put, load)].into();
        LinkReport {
            node,
            dir: "+X".parse().expect("a direction"),
            to: node + 1,
            load,
            crc_errors: 1,
            replays: 0,
            duplicates: 0,
            reordered: 2,
            up,
        }
    }

    #[test]
    fn a_link_two_hosts_know_is_one() {
        let merged = merge_links(vec![link(3, 5, true)], vec![link(3, 2, false), link(1, 1, true)]);
        assert_eq!(merged.iter().map(|l| l.node).collect::<Vec<_>>(), [1, 3]);
        let both = &merged[1];
        assert_eq!((both.load[&Class::Put].packets, both.crc_errors, both.reordered, both.up), (7, 2, 4, false));
    }
}
