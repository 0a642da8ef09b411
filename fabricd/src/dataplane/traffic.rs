//! Traffic of a job: what each pair of PEs exchanged, and what that put on each link.
//!
//! On the direct path nothing crosses the emulated links, so what the PEs counted is folded
//! through the route tables: packets out along the route to the target, answers back along the
//! other one. On the ring path the links count packets themselves. When routes change, everything
//! counted so far is first folded with the routes it was counted under.

use super::engine::{Engine, EngineJob};
use abi::account::{CLASSES, Class, Load, Traffic};
use abi::msg::{LinkReport, PairReport};
use abi::torus::Direction;
use fabric::{BarrierCheck, Link, Routes};
use std::collections::BTreeMap;

/// Loads by class.
type Loads = [Load; CLASSES];

/// What has been folded so far.
#[derive(Default)]
pub(super) struct Account {
    counted: BTreeMap<(usize, usize, Class), Traffic>,
    links: BTreeMap<Link, Loads>,
    /// Traffic of pairs that had no route any more when it was folded.
    stranded: Loads,
}

impl EngineJob {
    /// Folds what was counted since the last time into links.
    pub(super) fn fold(&mut self, routes: &Routes) {
        for pe in self.pes.iter().flatten() {
            for (target, class, now) in pe.counted() {
                let before = self.account.counted.insert((pe.pe, target, class), now).unwrap_or_default();
                if !self.memory.direct(target) {
                    continue;
                }
                let (here, there) = (self.memory.entries[pe.pe].node, self.memory.entries[target].node);
                let new = since(now, before);
                self.account.carry(routes.path(here, there), class, new.out);
                self.account.carry(routes.path(there, here), class, new.back);
            }
        }
    }
}

impl Account {
    fn carry(&mut self, path: Option<Vec<Link>>, class: Class, load: Load) {
        if load == Load::default() {
            return;
        }
        match path {
            None => self.stranded[class as usize].add(load),
            Some(links) => {
                for link in links {
                    self.links.entry(link).or_default()[class as usize].add(load);
                }
            }
        }
    }
}

/// What was counted between two readings. A client may have written nonsense: never below zero.
fn since(now: Traffic, before: Traffic) -> Traffic {
    let load = |a: Load, b: Load| Load {
        packets: a.packets.saturating_sub(b.packets),
        flits: a.flits.saturating_sub(b.flits),
        bytes: a.bytes.saturating_sub(b.bytes),
    };
    Traffic {
        ops: now.ops.saturating_sub(before.ops),
        out: load(now.out, before.out),
        back: load(now.back, before.back),
    }
}

impl Engine {
    /// Pairs, links and remarks of a job.
    pub(crate) fn report(&mut self, slot: u16) -> (Vec<PairReport>, Vec<LinkReport>, BarrierCheck, Vec<String>) {
        let Some(job) = self.jobs.get_mut(&slot) else { return Default::default() };
        job.fold(&self.routes);
        let job = &self.jobs[&slot];
        let pair = |(&(from, to, class), &traffic): (&(usize, usize, Class), &Traffic)| PairReport {
            from: from as u32,
            to: to as u32,
            class,
            traffic,
        };
        let pairs = job.account.counted.iter().filter(|(_, t)| t.ops != 0).map(pair).collect();
        let none = Loads::default();
        let links = self.links().filter_map(|link| {
            let mut loads = *job.account.links.get(&link).unwrap_or(&none);
            let counted = self.fabric.job_link_counters(slot, link);
            loads.iter_mut().zip(counted).for_each(|(l, c)| l.add(c));
            self.link_report(link, loads)
        });
        let mut notes = Vec::new();
        let stranded = job.account.stranded.iter().map(|l| l.packets).sum::<u64>();
        if stranded > 0 {
            notes.push(format!("{stranded} packets of pairs without a route are in no link's figures"));
        }
        let check = self.fabric.barrier_check(slot);
        if !check.held() {
            notes.push("the model's barriers did not keep their guarantee; see the counters".into());
        }
        (pairs, links.collect(), check, notes)
    }

    /// Links of the whole network that carried anything, failed, or are down.
    pub(crate) fn counters(&mut self) -> Vec<LinkReport> {
        let links = self.links().filter_map(|link| {
            let loads = self.fabric.link_counters(link).tx;
            self.link_report(link, loads)
        });
        links.collect()
    }

    fn links(&self) -> impl Iterator<Item = Link> {
        let shape = self.shape;
        (0..shape.nodes() as u32)
            .flat_map(|node| Direction::ALL.map(|dir| Link { node, dir }))
            .filter(move |l| shape.neighbour(l.node, l.dir).is_some())
    }

    fn link_report(&self, link: Link, loads: Loads) -> Option<LinkReport> {
        let counters = self.fabric.link_counters(link);
        let up = self.fabric.routes().link_up(link);
        let idle = loads.iter().all(|l| *l == Load::default());
        let trouble = counters.crc_errors + counters.replays + counters.duplicates + counters.reordered;
        if idle && up && trouble == 0 {
            return None;
        }
        Some(LinkReport {
            node: link.node,
            dir: link.dir.to_string(),
            to: self.shape.neighbour(link.node, link.dir)?,
            load: Class::ALL.into_iter().zip(loads).filter(|(_, l)| *l != Load::default()).collect(),
            crc_errors: counters.crc_errors,
            replays: counters.replays,
            duplicates: counters.duplicates,
            reordered: counters.reordered,
            up,
        })
    }

    /// Routes have changed: counts old traffic under the old ones, then shows who is reachable.
    pub(super) fn routes_changed(&mut self) {
        for job in self.jobs.values_mut() {
            job.fold(&self.routes);
        }
        self.routes = self.fabric.routes().clone();
        self.stale = true;
        let slots: Vec<u16> = self.jobs.keys().copied().collect();
        for slot in slots {
            self.show_reach(slot, None);
            if let Some(job) = self.jobs.get(&slot) {
                for pe in 0..job.memory.pes {
                    job.memory.sync.alert(pe);
                }
            }
        }
    }
}
