//! An exchange: every endpoint has N bytes for others, and the network takes so long for all of them.
//!
//! It is no workload of the command line: the messages come from a program, which compares placements.

use super::Watch;
use super::closed::{Closed, packets_for};
use crate::Error;
use crate::run::Experiment;
use angara_fabric::Tick;
use angara_model::{Injection, TrafficClass};
use std::collections::VecDeque;

/// Packets of one endpoint under way at once: more than the network holds of one source.
const WINDOW: usize = 256;

/// What came of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exchanged {
    /// When the last packet had arrived, ps.
    pub time: Tick,
    /// Packets that were sent.
    pub packets: u64,
}

/// The smallest divisor of all messages with which their packets are at most `packets_max`, or hardly more: each
/// message has at least one.
pub fn divisor(experiment: &Experiment, bytes: &[u64], packets_max: u64) -> u64 {
    const MANY: u64 = 1 << 20;
    let packet = MANY / packets_for(experiment, MANY).count() as u64;
    let packets = |divisor: u64| bytes.iter().map(|bytes| bytes.div_ceil(divisor).div_ceil(packet)).sum::<u64>();
    let mut divisor = packets(1).div_ceil(packets_max).max(1);
    // A message that does not fill its last packet has one more than its share.
    while packets(divisor) > packets_max.max(bytes.len() as u64) {
        divisor += (divisor / 4).max(1);
    }
    divisor
}

/// Sends messages (source, target, bytes) between endpoints, all from the beginning. Packets of a source to its targets
/// take turns.
///
/// # Errors
/// A network that cannot be built, a pair without a route, or [`Error::Interrupted`] if `watch` broke.
pub fn exchange(
    experiment: &Experiment,
    messages: &[(u32, u32, u64)],
    watch: &mut Watch<'_>,
) -> Result<Exchanged, Error> {
    let mut closed = Closed::new(experiment)?;
    let endpoints = closed.network().endpoints();
    // Of each source its targets, with lengths of packets that are left.
    let mut left: Vec<VecDeque<(u32, VecDeque<u16>)>> = vec![VecDeque::new(); endpoints];
    let mut total = 0;
    for &(from, to, bytes) in messages.iter().filter(|(from, to, _)| from != to) {
        let lengths: VecDeque<u16> = packets_for(experiment, bytes).collect();
        total += lengths.len() as u64;
        left[from as usize].push_back((to, lengths));
    }
    let mut post = |closed: &mut Closed, from: u32, at: Tick| {
        let Some((to, mut lengths)) = left[from as usize].pop_front() else { return };
        let flits = lengths.pop_front().expect("a message has a packet");
        if !lengths.is_empty() {
            left[from as usize].push_back((to, lengths));
        }
        let (class, adaptive) = (TrafficClass::Request, experiment.adaptive);
        closed.send(Injection { src: from, dst: to, flits, class, adaptive, at, ..Injection::default() });
    };
    for from in 0..endpoints as u32 {
        (0..WINDOW).for_each(|_| post(&mut closed, from, 0));
    }
    let mut done = Exchanged { time: 0, packets: 0 };
    while let Some(delivery) = closed.next_delivery()? {
        done = Exchanged { time: done.time.max(delivery.tail), packets: done.packets + 1 };
        post(&mut closed, delivery.src, delivery.tail);
        closed.look(watch, "exchanging", done.packets, total)?;
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Keys;
    use std::ops::ControlFlow;

    fn experiment(settings: &str) -> Experiment {
        toml::from_str::<Keys>(settings).unwrap().resolve().map_err(|e| e.0).unwrap().experiment
    }

    fn ran(messages: &[(u32, u32, u64)]) -> Exchanged {
        let experiment = experiment("topology = \"torus:8\"\nrouter = \"angara\"");
        exchange(&experiment, messages, &mut |_| ControlFlow::Continue(())).unwrap()
    }

    #[test]
    fn packets_follow_each_other_and_share_links() {
        let one = ran(&[(0, 1, 256)]);
        // As a message of a list: injection, hop, ejection, and the packet's 18 flits.
        assert!(one.packets == 1 && (729_000..775_000).contains(&one.time), "{one:?}");
        let flits = 18.0 * 6_400.0 / 3.0;
        let (near, far) = (ran(&[(0, 1, 256_000)]), ran(&[(0, 1, 256_000), (7, 2, 256_000)]));
        assert_eq!((near.packets, far.packets), (1000, 2000));
        // A thousand packets cross a link one after the other, and two streams share one.
        assert!((near.time as f64 - 1000.0 * flits).abs() < 1e6, "{near:?}");
        assert!((far.time as f64 - 2000.0 * flits).abs() < 2e6, "{far:?}");
        assert_eq!(ran(&[(3, 3, 500)]), Exchanged { time: 0, packets: 0 });
    }

    #[test]
    fn large_messages_are_divided_and_small_ones_stay() {
        let experiment = experiment("topology = \"torus:8\"\nrouter = \"angara\"");
        let packets = |bytes: &[u64], divisor: u64| {
            bytes.iter().map(|b| packets_for(&experiment, b.div_ceil(divisor)).count() as u64).sum::<u64>()
        };
        for (bytes, most) in [(&[256_000, 100, 512_000][..], 100), (&[1 << 40, 1], 1000), (&[256; 50], 10)] {
            let by = divisor(&experiment, bytes, most);
            assert!(packets(bytes, by) <= most.max(bytes.len() as u64), "{by}");
        }
        assert_eq!(divisor(&experiment, &[256_000], 1000), 1);
        assert_eq!(divisor(&experiment, &[256; 50], 50), 1);
    }
}
