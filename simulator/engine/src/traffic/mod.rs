//! Traffic: who sends how much to whom, and when.
//!
//! A workload has three independent parts (paper 004, section 1.2): where messages go
//! ([`pattern`]), when they are created ([`process`]) and how long they are ([`length`]). A
//! [`Source`] puts them together for one node; it draws from streams of random numbers addressed
//! by (seed, node, purpose), so the messages of a node do not depend on who asks for them first.

mod alias;
pub mod length;
pub mod map;
pub mod matrix;
pub mod pattern;
mod probe;
pub mod process;
pub mod weights;

pub use angara_traffic::{Count, TextFile, Volumes};
pub use length::Lengths;
pub use map::Mapping;
pub use pattern::{Destinations, Pattern};
pub use probe::Probe;
pub use process::{Process, Rate};
pub use weights::RatesFile;

use crate::rng::{Purpose, Stream};

/// A message to be sent as one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Cycle in which it is created.
    pub cycle: u64,
    /// Destination rank.
    pub to: u32,
    /// Length in flits.
    pub flits: u16,
}

/// The messages of one rank, in order of their creation.
#[derive(Clone, Debug)]
pub struct Source {
    rank: u32,
    arrivals: process::Arrivals,
    destination: Stream,
    length: Stream,
}

impl Source {
    /// The source of `rank`, which creates messages at `rate`.
    pub fn new(seed: u64, rank: u32, process: Process, rate: Rate) -> Source {
        Source {
            rank,
            arrivals: process::Arrivals::new(process, rate, Stream::new(seed, rank, Purpose::Arrival)),
            destination: Stream::new(seed, rank, Purpose::Destination),
            length: Stream::new(seed, rank, Purpose::Length),
        }
    }

    /// Cycle of the next message; `u64::MAX` if there is none.
    #[inline]
    pub fn next_cycle(&self) -> u64 {
        self.arrivals.next_cycle()
    }

    /// Takes the next message. `None` if this rank has nobody to send to.
    #[inline]
    pub fn take(&mut self, destinations: &Destinations, lengths: &Lengths) -> Option<Message> {
        let cycle = self.arrivals.take();
        let flits = lengths.pick(&mut self.length);
        destinations.pick(self.rank, &mut self.destination).map(|to| Message { cycle, to, flits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_model::topology::Layout;

    fn messages(rank: u32, count: usize) -> Vec<Message> {
        let layout = Layout::torus(&[4, 4]);
        let destinations = "uniform".parse::<Pattern>().unwrap().prepare(&layout, 1).unwrap();
        let lengths: Lengths = "4:0.5,32:0.5".parse().unwrap();
        let rate = Rate::messages(0.3 / lengths.mean()).unwrap();
        let mut source = Source::new(9, rank, Process::Bernoulli, rate);
        (0..count).map(|_| source.take(&destinations, &lengths).unwrap()).collect()
    }

    #[test]
    fn a_source_repeats_itself_and_differs_from_its_neighbour() {
        assert_eq!(messages(3, 50), messages(3, 50));
        assert_ne!(messages(3, 50), messages(4, 50));
    }

    #[test]
    fn the_offered_load_is_the_one_asked_for() {
        let (mut flits, mut cycles) = (0u64, 0u64);
        for rank in 0..16 {
            let m = messages(rank, 4000);
            flits += m.iter().map(|m| u64::from(m.flits)).sum::<u64>();
            cycles += m.last().unwrap().cycle;
        }
        let load = flits as f64 / cycles as f64;
        assert!((load - 0.3).abs() < 0.01, "{load}");
    }
}
