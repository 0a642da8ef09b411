//! What every source and every destination is asked for and gets.
//!
//! A network may carry nearly everything and still starve one source, or be asked more of one
//! destination than its port takes. The mean latency of a short run does not show that.

use super::Together;
use super::stats::student_t;
use serde::Serialize;
use std::fmt;

/// Snapshots of what waits; with twice as many, every other one goes.
const SNAPSHOTS: usize = 16;
/// Standard errors by which a port is asked for more than it takes, before that is concluded.
const SURE: f64 = 4.0;
/// The same for the growth of what waits, in standard errors of a mean of few increments. There are two such
/// numbers for every endpoint.
const SURE_GROWTH: f64 = 8.0;
/// Share of the messages of an endpoint by which its backlog grows at least.
const GROWTH: f64 = 0.01;

/// One of the two roles of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Source,
    Destination,
}

/// Traffic of an endpoint in one of its roles, since the beginning.
#[derive(Clone, Copy, Default, Debug)]
struct Account {
    /// Flits created.
    created: u64,
    /// Flits that arrived.
    arrived: u64,
    /// Messages created.
    messages: u32,
    /// Messages created that have not arrived.
    waiting: u32,
}

/// All accounts, and some of their past.
pub(super) struct Balance {
    sources: Vec<Account>,
    destinations: Vec<Account>,
    /// Messages that waited for the sources, then for the destinations, at equal distances of time.
    snapshots: Vec<Vec<u32>>,
    /// Calls of [`Balance::tick`] between two snapshots, and those since the last one.
    every: usize,
    ticks: usize,
    /// Batches so far.
    batch: u32,
    /// By source: messages that left the network in a batch, and which.
    returned: Vec<(u32, u32)>,
    /// What this process saw in the present batch, where there are others. By side and endpoint: flits created, flits
    /// arrived, messages created, messages that left the network.
    seen: Option<Vec<[u64; 4]>>,
}

/// The accounts at some time.
#[derive(Clone)]
pub(super) struct Mark {
    sources: Vec<Account>,
    destinations: Vec<Account>,
}

/// What a port can do, and how much what it is asked for fluctuates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    /// Flits per cycle that an endpoint can send, and receive.
    pub(super) takes: [f64; 2],
    /// Variance of the flits asked for in a long time, by their mean.
    pub(super) dispersion: f64,
}

/// An endpoint for which the network does not suffice.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Overload {
    side: Side,
    endpoint: usize,
    why: Reason,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Reason {
    /// Flits per cycle it is asked for and can do, and the standard error of the first.
    Port { asked: f64, takes: f64, error: f64 },
    /// Its waiting messages grow: how many wait.
    Growth { waiting: u32 },
}

impl Overload {
    /// True if it is a port that cannot do what it is asked for.
    pub(super) fn is_port(&self) -> bool {
        matches!(self.why, Reason::Port { .. })
    }
    /// True if it is more than chance.
    pub(super) fn sure(&self) -> bool {
        match self.why {
            Reason::Port { asked, takes, error } => asked > takes + SURE * error,
            Reason::Growth { .. } => true,
        }
    }
}

impl fmt::Display for Overload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = self.endpoint;
        match (self.why, self.side) {
            (Reason::Port { asked, takes, error }, side) => {
                let verb = if side == Side::Source { "sends" } else { "receives" };
                write!(f, "node {node} is asked for {asked:.4} ± {error:.4} flits per cycle and {verb} at most {takes}")
            }
            (Reason::Growth { waiting }, Side::Source) => {
                write!(f, "messages from node {node} pile up, {waiting} at the end")
            }
            (Reason::Growth { waiting }, Side::Destination) => {
                write!(f, "messages to node {node} pile up, {waiting} at the end")
            }
        }
    }
}

/// How evenly the sources are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Fairness {
    /// Flits per cycle that arrived from the source served least.
    pub least: f64,
    /// The same of the one served most.
    pub most: f64,
    /// Jain's index, (Σx)² / (n·Σx²): 1 if all are served alike, 1/n if only one is.
    pub jain: f64,
}

impl Balance {
    /// `endpoints` without traffic, of which this process sees a part if it is one of `several`.
    pub(super) fn new(endpoints: usize, several: bool) -> Balance {
        Balance {
            sources: vec![Account::default(); endpoints],
            destinations: vec![Account::default(); endpoints],
            snapshots: Vec::new(),
            every: 1,
            ticks: 0,
            batch: 0,
            returned: vec![(0, 0); if several { 0 } else { endpoints }],
            seen: several.then(|| vec![[0; 4]; 2 * endpoints]),
        }
    }
    /// Counts for both ends of a message what other processes will hear of.
    fn note(&mut self, src: u32, dst: u32, what: [u64; 4]) {
        let (endpoints, seen) = (self.sources.len(), self.seen.as_mut().expect("there are several processes"));
        for at in [src as usize, endpoints + dst as usize] {
            seen[at].iter_mut().zip(what).for_each(|(sum, more)| *sum += more);
        }
    }
    /// A message of `source` has left the network.
    #[inline]
    fn returned(&mut self, source: u32) {
        let (batch, returned) = &mut self.returned[source as usize];
        if *batch != self.batch {
            (*batch, *returned) = (self.batch, 0);
        }
        *returned += 1;
    }
    /// Adds what all processes saw in this batch.
    fn gather(&mut self, together: &Together) {
        let Some(seen) = &mut self.seen else { return };
        together.sum(seen.as_flattened_mut());
        for (account, seen) in self.sources.iter_mut().chain(&mut self.destinations).zip(seen) {
            let [created, arrived, messages, left] = std::mem::take(seen);
            account.created += created;
            account.arrived += arrived;
            account.messages = account.messages.wrapping_add(messages as u32);
            account.waiting = account.waiting.wrapping_add(messages as u32).wrapping_sub(left as u32);
        }
    }
    /// A message was created.
    #[inline]
    pub(super) fn created(&mut self, src: u32, dst: u32, flits: u16) {
        if self.seen.is_some() {
            return self.note(src, dst, [u64::from(flits), 0, 1, 0]);
        }
        for account in [&mut self.sources[src as usize], &mut self.destinations[dst as usize]] {
            account.created += u64::from(flits);
            account.messages += 1;
            account.waiting += 1;
        }
    }
    /// A message arrived.
    #[inline]
    pub(super) fn arrived(&mut self, src: u32, dst: u32, flits: u16) {
        if self.seen.is_some() {
            return self.note(src, dst, [0, u64::from(flits), 0, 1]);
        }
        self.returned(src);
        for account in [&mut self.sources[src as usize], &mut self.destinations[dst as usize]] {
            account.arrived += u64::from(flits);
            account.waiting -= 1;
        }
    }
    /// A message was dropped.
    pub(super) fn lost(&mut self, src: u32, dst: u32) {
        if self.seen.is_some() {
            return self.note(src, dst, [0, 0, 0, 1]);
        }
        self.returned(src);
        self.sources[src as usize].waiting -= 1;
        self.destinations[dst as usize].waiting -= 1;
    }
    /// Messages from `source` under way at the beginning of the batch, and those created since. Arrivals are heard of at
    /// the end of a batch only, by however many processes.
    #[inline]
    pub(super) fn waiting(&self, source: u32) -> u32 {
        let (source, account) = (source as usize, &self.sources[source as usize]);
        match &self.seen {
            Some(seen) => account.waiting + seen[source][2] as u32,
            None => {
                let (batch, returned) = self.returned[source];
                account.waiting + if batch == self.batch { returned } else { 0 }
            }
        }
    }
    /// A batch has ended; all batches are of one length.
    pub(super) fn tick(&mut self, together: &Together) {
        self.gather(together);
        self.batch = self.batch.wrapping_add(1);
        self.ticks += 1;
        if self.ticks < self.every {
            return;
        }
        self.ticks = 0;
        self.snapshots.push(self.sources.iter().chain(&self.destinations).map(|a| a.waiting).collect());
        if self.snapshots.len() == 2 * SNAPSHOTS {
            let mut keep = false;
            self.snapshots.retain(|_| {
                keep = !keep;
                !keep
            });
            self.every *= 2;
        }
    }
    /// The accounts now.
    pub(super) fn mark(&self) -> Mark {
        Mark { sources: self.sources.clone(), destinations: self.destinations.clone() }
    }
    fn sides<'a>(&'a self, since: &'a Mark) -> [(Side, &'a [Account], &'a [Account]); 2] {
        [(Side::Source, &self.sources, &since.sources), (Side::Destination, &self.destinations, &since.destinations)]
    }
    /// The endpoint that is most clearly asked for more than it gets in the `cycles` since `since`; that may be chance.
    pub(super) fn overload(&self, since: &Mark, cycles: u64, ports: Ports) -> Option<Overload> {
        self.port_overload(since, cycles, ports).or_else(|| self.growth(since))
    }
    fn port_overload(&self, since: &Mark, cycles: u64, ports: Ports) -> Option<Overload> {
        let mut worst: Option<(f64, Overload)> = None;
        for ((side, now, before), takes) in self.sides(since).into_iter().zip(ports.takes) {
            for (endpoint, (now, before)) in now.iter().zip(before).enumerate() {
                let flits = (now.created - before.created) as f64;
                let (asked, error) = (flits / cycles as f64, (flits * ports.dispersion).sqrt() / cycles as f64);
                let beyond = (asked - takes) / error;
                if asked > takes && worst.is_none_or(|(most, _)| beyond > most) {
                    worst = Some((beyond, Overload { side, endpoint, why: Reason::Port { asked, takes, error } }));
                }
            }
        }
        worst.map(|(_, overload)| overload)
    }
    /// The endpoint whose messages pile up most clearly.
    fn growth(&self, since: &Mark) -> Option<Overload> {
        let n = self.sources.len();
        let increments = self.snapshots.len().checked_sub(1).filter(|&n| n + 1 >= SNAPSHOTS)?;
        let mut worst: Option<(f64, Overload)> = None;
        for (offset, (side, now, before)) in [0, n].into_iter().zip(self.sides(since)) {
            for (endpoint, (account, before)) in now.iter().zip(before).enumerate() {
                let waited = |i: usize| f64::from(self.snapshots[i][offset + endpoint]);
                let grown = waited(increments) - waited(0);
                let created = f64::from(account.messages.wrapping_sub(before.messages));
                if grown <= GROWTH * created {
                    continue;
                }
                let steps: Vec<f64> = (0..increments).map(|i| waited(i + 1) - waited(i)).collect();
                let t = student_t(&steps);
                if t > SURE_GROWTH && worst.is_none_or(|(most, _)| t > most) {
                    let why = Reason::Growth { waiting: account.waiting };
                    worst = Some((t, Overload { side, endpoint, why }));
                }
            }
        }
        worst.map(|(_, overload)| overload)
    }
    /// How the sources that created anything were served in the `cycles` since `since`.
    pub(super) fn fairness(&self, since: &Mark, cycles: u64) -> Option<Fairness> {
        let mut served = Vec::new();
        for (now, before) in self.sources.iter().zip(&since.sources) {
            if now.created > before.created {
                served.push((now.arrived - before.arrived) as f64 / cycles.max(1) as f64);
            }
        }
        let (sum, squares) = served.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
        (squares > 0.0).then(|| Fairness {
            least: served.iter().copied().fold(f64::INFINITY, f64::min),
            most: served.iter().copied().fold(0.0, f64::max),
            jain: sum * sum / (served.len() as f64 * squares),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORTS: Ports = Ports { takes: [1.0, 1.0], dispersion: 1.0 };

    /// Two endpoints; every cycle `created` of 100 messages are created from 0 to 1 and `arrived` arrive.
    fn after(batches: u64, created: u32, arrived: u32) -> (Balance, Mark) {
        let mut balance = Balance::new(2, false);
        let mark = balance.mark();
        for batch in 0..batches {
            (0..created).for_each(|_| balance.created(0, 1, 1));
            // Batches differ, as they do.
            let late = u32::from(batch % 3 == 0).min(created - arrived.min(created));
            (0..arrived + late).for_each(|_| balance.arrived(0, 1, 1));
            balance.tick(&Together::default());
        }
        (balance, mark)
    }

    #[test]
    fn a_port_asked_for_more_than_it_takes_is_named() {
        let (balance, mark) = after(1000, 104, 100);
        let overload = balance.overload(&mark, 100_000, PORTS).unwrap();
        assert!(overload.sure());
        assert!(overload.to_string().starts_with("node 0 is asked for 1.0400"), "{overload}");
        let short = Ports { dispersion: 100.0, ..PORTS };
        assert!(!balance.overload(&mark, 100_000, short).unwrap().sure(), "bursts may come to that");
    }

    #[test]
    fn messages_that_pile_up_are_named() {
        let (balance, mark) = after(1000, 50, 40);
        let overload = balance.overload(&mark, 100_000, PORTS).unwrap();
        assert!(overload.sure() && overload.to_string().contains("pile up"), "{overload}");
        let (balance, mark) = after(1000, 50, 50);
        assert_eq!(balance.overload(&mark, 100_000, PORTS), None);
    }

    #[test]
    fn jains_index_is_that_of_the_sources_with_traffic() {
        let mut balance = Balance::new(4, false);
        let mark = balance.mark();
        for (src, flits) in [(0, 30), (1, 10)] {
            balance.created(src, 3, flits);
            balance.arrived(src, 3, flits);
        }
        let fairness = balance.fairness(&mark, 10).unwrap();
        assert_eq!(fairness, Fairness { least: 1.0, most: 3.0, jain: 16.0 / 20.0 });
        assert_eq!(Balance::new(2, false).fairness(&Balance::new(2, false).mark(), 1), None);
    }
}
