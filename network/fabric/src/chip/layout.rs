//! How the inputs and outputs of a router are numbered.
//!
//! Every node has the same *queues* (inputs of the crossbar, one packet at a time leaves each) and
//! *outputs*. Queues: one per direction of travel and data channel, one per injection channel and data
//! channel, and on a chip with an adapter those of the collective channels and of the node's own credit
//! and barrier units. Outputs: one per direction, then the ejection channels. The tables here answer
//! what a queue number means, so that nobody else computes with it. The queues of a second injection channel and
//! those after it come last, so that a chip with one has the same numbers.

use angara_abi::packet::Vc;

/// Virtual channels of a link.
pub(crate) const VCS: usize = 5;
/// Those that carry data packets: response, request, adaptive.
pub(crate) const DATA_VCS: usize = 3;
pub(crate) const ADAPTIVE: usize = Vc::Adaptive as usize;
pub(crate) const UP: usize = Vc::Up as usize;

/// First of a chip's injection queues, one per virtual channel.
pub(crate) const Q_INJECT: usize = 8 * DATA_VCS;
/// Credit packets of the node's collective unit, on the Down channel.
pub(crate) const Q_CREDIT: usize = Q_INJECT + VCS;
/// First of the barrier unit's queues, one per data channel.
pub(crate) const Q_SPECIAL: usize = Q_CREDIT + 1;
/// First of the collective channels' link queues.
const Q_COLLECTIVE: usize = Q_SPECIAL + DATA_VCS;
/// A chip's (only) ejection channel.
pub(crate) const OUT_EJECT: usize = 8;

/// Requests are kept in lanes, highest priority first: collective and barrier packets, then each
/// data channel.
pub(crate) const LANES: usize = 4;
/// The lane of the adaptive channel.
pub(crate) const LANE_ADAPTIVE: usize = ADAPTIVE + 1;
/// Request numbers in a lane of a data channel: direction of travel, injection channel behind all directions that there
/// may be, and 16 more when the packet leaves the adaptive channel for this one.
const LEAVING: usize = 16;
/// Most injection channels of a node of up to four dimensions, and most outputs of one of up to six.
pub const CHANNELS_MAX: usize = 8;
const OUTS_MAX: usize = 16;

const QUEUES_MAX: usize = 128;
/// Most injection channels of a node with so many directions.
pub(crate) const fn channels_max(dirs: usize) -> usize {
    if dirs + CHANNELS_MAX <= OUTS_MAX { CHANNELS_MAX } else { OUTS_MAX - dirs }
}

/// Masks keep table look-ups free of range checks.
const QUEUE_MASK: usize = QUEUES_MAX - 1;
const LANE_MASK: usize = LANES - 1;
const NO_DIR: u8 = u8::MAX;

/// Meaning of the queue and output numbers of one network.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Directions, and number of the first ejection channel.
    pub(crate) dirs: usize,
    pub(crate) channels: usize,
    pub(crate) queues: usize,
    pub(crate) outs: usize,
    /// It has the queues of a chip's adapter.
    adapter: bool,
    /// First queue of the second injection channel.
    second: usize,
    vc: [u8; QUEUES_MAX],
    dir: [u8; QUEUES_MAX],
    lane: [u8; QUEUES_MAX],
    number: [u8; QUEUES_MAX],
    queue: [[u8; 32]; LANES],
}

impl Layout {
    /// Tables for `dirs` directions and `channels` injection channels; `adapter` adds the queues only
    /// a chip's adapter uses (8 directions).
    pub(crate) fn new(dirs: usize, channels: usize, adapter: bool) -> Layout {
        let second = if adapter { Q_COLLECTIVE + 2 * dirs } else { (dirs + 1) * DATA_VCS };
        let mut l = Layout {
            dirs,
            channels,
            queues: second + (channels - 1) * DATA_VCS,
            outs: dirs + channels,
            adapter,
            second,
            vc: [0; QUEUES_MAX],
            dir: [NO_DIR; QUEUES_MAX],
            lane: [0; QUEUES_MAX],
            number: [0; QUEUES_MAX],
            queue: [[0; 32]; LANES],
        };
        for vc in 0..DATA_VCS {
            (0..dirs).for_each(|d| l.set(vc * dirs + d, vc, d as u8, vc + 1, d));
            (0..channels)
                .for_each(|c| l.set(l.injection(c, vc), vc, NO_DIR, vc + 1, OUTS_MAX - channels_max(dirs) + c));
        }
        if adapter {
            debug_assert!(dirs == OUT_EJECT, "adapters belong to chips");
            for vc in [UP, UP + 1] {
                l.set(Q_INJECT + vc, vc, NO_DIR, 0, 13 + vc);
                (0..dirs)
                    .for_each(|d| l.set(Q_COLLECTIVE + (vc - UP) * dirs + d, vc, d as u8, 0, (vc - UP) * dirs + d));
            }
            l.set(Q_CREDIT, UP + 1, NO_DIR, 0, 18);
            (0..DATA_VCS).for_each(|vc| l.set(Q_SPECIAL + vc, vc, NO_DIR, 0, 19 + vc));
        }
        l
    }

    fn set(&mut self, queue: usize, vc: usize, dir: u8, lane: usize, number: usize) {
        (self.vc[queue], self.dir[queue]) = (vc as u8, dir);
        (self.lane[queue], self.number[queue]) = (lane as u8, number as u8);
        self.queue[lane][number] = queue as u8;
        if lane == LANE_ADAPTIVE {
            (1..LANE_ADAPTIVE).for_each(|to| self.queue[to][LEAVING + number] = queue as u8);
        }
    }

    /// The queue of an injection channel for a data channel.
    #[inline(always)]
    pub(crate) fn injection(&self, channel: usize, vc: usize) -> usize {
        match channel {
            0 => self.dirs * DATA_VCS + vc,
            _ => self.second + (channel - 1) * DATA_VCS + vc,
        }
    }
    /// The injection channel of a queue that belongs to one.
    pub(crate) fn channel(&self, queue: usize) -> usize {
        queue.checked_sub(self.second).map_or(0, |behind| 1 + behind / DATA_VCS)
    }
    /// The queue belongs to the node's barrier unit.
    pub(crate) fn is_special(&self, queue: usize) -> bool {
        self.adapter && (Q_SPECIAL..Q_COLLECTIVE).contains(&queue)
    }
    /// The queue of packets that travel in direction `dir` on virtual channel `vc`.
    #[inline(always)]
    pub(crate) fn arrival(&self, dir: usize, vc: usize) -> usize {
        if vc < DATA_VCS { vc * self.dirs + dir } else { Q_COLLECTIVE + (vc - UP) * self.dirs + dir }
    }
    /// Virtual channel of a queue.
    #[inline(always)]
    pub(crate) fn vc(&self, queue: usize) -> usize {
        self.vc[queue & QUEUE_MASK] as usize
    }
    /// Direction in which the packets of a link's queue travel; `None` for the node's own queues.
    #[inline(always)]
    pub(crate) fn dir(&self, queue: usize) -> Option<usize> {
        let dir = self.dir[queue & QUEUE_MASK];
        (dir != NO_DIR).then_some(dir as usize)
    }
    /// The queue belongs to an injection channel.
    #[inline(always)]
    pub(crate) fn is_injection(&self, queue: usize) -> bool {
        let first = self.dirs * DATA_VCS;
        (first..first + DATA_VCS).contains(&queue)
            || queue >= self.second
            || (self.adapter && (Q_INJECT..Q_CREDIT).contains(&queue))
    }
    /// Lane and number of a queue's requests for its own channel.
    #[inline(always)]
    pub(crate) fn request(&self, queue: usize) -> (usize, u32) {
        (self.lane[queue & QUEUE_MASK] as usize & LANE_MASK, self.number[queue & QUEUE_MASK] as u32)
    }
    /// Lane and number of the requests of an adaptive queue's packet for the channel `vc` of its class.
    #[inline(always)]
    pub(crate) fn leaving(&self, queue: usize, vc: usize) -> (usize, u32) {
        ((vc + 1) & LANE_MASK, LEAVING as u32 + self.number[queue & QUEUE_MASK] as u32)
    }
    /// The queue behind a request.
    #[inline(always)]
    pub(crate) fn queue(&self, lane: usize, number: u32) -> usize {
        self.queue[lane & LANE_MASK][number as usize & 31] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_leads_back_to_its_queue() {
        for (dirs, channels, adapter) in [(8, 1, true), (8, 8, true), (8, 8, false), (12, 4, false)] {
            assert!(channels <= channels_max(dirs));
            let l = Layout::new(dirs, channels, adapter);
            assert!(l.queues <= QUEUES_MAX);
            for queue in 0..l.queues {
                let (lane, number) = l.request(queue);
                assert_eq!(l.queue(lane, number), queue, "{dirs} {channels} {queue}");
                if lane == LANE_ADAPTIVE {
                    for vc in [0, 1] {
                        let (lane, number) = l.leaving(queue, vc);
                        assert_eq!(l.queue(lane, number), queue);
                    }
                }
                let own = l.dir(queue).map(|d| l.arrival(d, l.vc(queue)));
                assert!(own.is_none_or(|q| q == queue));
                if l.is_injection(queue) && l.vc(queue) < DATA_VCS {
                    assert_eq!(l.injection(l.channel(queue), l.vc(queue)), queue);
                }
            }
        }
        let chip = Layout::new(8, 1, true);
        assert!((0..5).all(|vc| chip.vc(Q_INJECT + vc) == vc && chip.is_injection(Q_INJECT + vc)));
        assert_eq!(chip.injection(0, 2), Q_INJECT + 2);
    }
}
