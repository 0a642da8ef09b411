//! What processes send each other.

use super::MappingError;

/// Most bytes of all processes: bytes times hops then stay far below 2^63.
const BYTES_MAX: u64 = 1 << 48;

/// Traffic between a process and another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The other one.
    pub process: u32,
    /// Bytes sent to it.
    pub out: u64,
    /// Bytes received from it.
    pub back: u64,
}

impl Peer {
    /// Bytes both ways.
    pub fn both(&self) -> u64 {
        self.out + self.back
    }
}

/// Bytes between processes, those that send each other nothing left out.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Ordered by sender and receiver, each pair once.
    pairs: Vec<(u32, u32, u64)>,
    /// Of each process the first of its peers; one more at the end.
    first: Vec<usize>,
    /// Peers of each process, the one with most bytes first.
    peers: Vec<Peer>,
}

impl Traffic {
    /// Sums up messages (sender, receiver, bytes) between `processes` processes. What a process sends to
    /// itself takes no link and is left out.
    ///
    /// # Errors
    /// A process beyond the last one, or more bytes than can be counted.
    pub fn new(processes: u32, messages: impl IntoIterator<Item = (u32, u32, u64)>) -> Result<Traffic, MappingError> {
        let mut all: Vec<(u32, u32, u64)> = messages.into_iter().collect();
        if let Some(stranger) = all.iter().map(|&(from, to, _)| from.max(to)).find(|&process| process >= processes) {
            return Err(MappingError::NoProcess(stranger, processes));
        }
        all.retain(|&(from, to, bytes)| from != to && bytes > 0);
        let total = all.iter().try_fold(0u64, |sum, &(.., bytes)| sum.checked_add(bytes));
        if total.is_none_or(|total| total > BYTES_MAX) {
            return Err(MappingError::TooMuch);
        }
        all.sort_unstable();
        let mut pairs: Vec<(u32, u32, u64)> = Vec::with_capacity(all.len());
        for (from, to, bytes) in all {
            match pairs.last_mut() {
                Some(last) if (last.0, last.1) == (from, to) => last.2 += bytes,
                _ => pairs.push((from, to, bytes)),
            }
        }
        let (first, peers) = peers_of(processes, &pairs);
        Ok(Traffic { pairs, first, peers })
    }

    /// Number of processes.
    pub fn processes(&self) -> u32 {
        self.first.len() as u32 - 1
    }

    /// Sender, receiver and bytes of each pair that has any, in order.
    pub fn pairs(&self) -> &[(u32, u32, u64)] {
        &self.pairs
    }

    /// Those with whom a process has traffic, the one with most first.
    pub fn peers(&self, process: u32) -> &[Peer] {
        &self.peers[self.first[process as usize]..self.first[process as usize + 1]]
    }

    /// Bytes of all processes.
    pub fn bytes(&self) -> u64 {
        self.pairs.iter().map(|&(.., bytes)| bytes).sum()
    }
}

fn peers_of(processes: u32, pairs: &[(u32, u32, u64)]) -> (Vec<usize>, Vec<Peer>) {
    let out = pairs.iter().map(|&(from, to, bytes)| (from, Peer { process: to, out: bytes, back: 0 }));
    let back = pairs.iter().map(|&(from, to, bytes)| (to, Peer { process: from, out: 0, back: bytes }));
    let mut sides: Vec<(u32, Peer)> = out.chain(back).collect();
    sides.sort_unstable_by_key(|(process, peer)| (*process, peer.process, peer.out));
    sides.dedup_by(|again, first| {
        let same = (again.0, again.1.process) == (first.0, first.1.process);
        if same {
            first.1.out += again.1.out;
            first.1.back += again.1.back;
        }
        same
    });
    sides.sort_by_key(|(process, peer)| (*process, std::cmp::Reverse(peer.both())));
    let first = (0..=processes).map(|process| sides.partition_point(|(of, _)| *of < process)).collect();
    (first, sides.into_iter().map(|(_, peer)| peer).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_summed_and_seen_from_both_ends() {
        let messages = [(0, 1, 5), (2, 0, 40), (0, 1, 2), (1, 0, 3), (1, 1, 9), (0, 2, 0)];
        let traffic = Traffic::new(4, messages).unwrap();
        assert_eq!(traffic.pairs(), [(0, 1, 7), (1, 0, 3), (2, 0, 40)]);
        let peer = |process, out, back| Peer { process, out, back };
        assert_eq!(traffic.peers(0), [peer(2, 0, 40), peer(1, 7, 3)]);
        assert_eq!(traffic.peers(1), [peer(0, 3, 7)]);
        assert_eq!((traffic.peers(3), traffic.bytes(), traffic.processes()), (&[][..], 50, 4));
    }

    #[test]
    fn strangers_and_sums_that_overflow_are_refused() {
        let refused = |messages: &[(u32, u32, u64)]| Traffic::new(3, messages.iter().copied()).unwrap_err();
        assert_eq!(refused(&[(0, 3, 1)]), MappingError::NoProcess(3, 3));
        assert_eq!(refused(&[(0, 1, u64::MAX), (0, 2, 1)]), MappingError::TooMuch);
        assert_eq!(refused(&[(0, 1, BYTES_MAX), (0, 2, 1)]), MappingError::TooMuch);
    }
}
