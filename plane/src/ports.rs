//! Who sits behind each endpoint, and which posts are on their way.

use angara_abi::desc::Place;
use angara_fabric::{JobSlot, Port};

/// A PE of a job slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Owner {
    pub(super) slot: JobSlot,
    pub(super) pe: u32,
}

/// Owner of every endpoint.
#[derive(Default)]
pub(super) struct Ports {
    nodes: Vec<Vec<Option<Owner>>>,
}

impl Ports {
    pub(super) fn get(&self, port: Port) -> Option<Owner> {
        *self.nodes.get(port.node as usize)?.get(port.endpoint as usize)?
    }

    pub(super) fn set(&mut self, port: Port, owner: Option<Owner>) {
        let (node, endpoint) = (port.node as usize, port.endpoint as usize);
        if self.nodes.len() <= node {
            self.nodes.resize_with(node + 1, Vec::new);
        }
        let ports = &mut self.nodes[node];
        if ports.len() <= endpoint {
            ports.resize(endpoint + 1, None);
        }
        ports[endpoint] = owner;
    }
}

/// A post the network works on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    /// Index of the lane it came from.
    pub(super) lane: usize,
    pub(super) seq: u32,
    pub(super) completion: Option<Place>,
    /// Number in the lane's progress.
    pub(super) number: u64,
    /// Ends with the network's completion, not with injection.
    pub(super) answered: bool,
    /// Brings data back into memory of its PE.
    pub(super) read: bool,
    /// A barrier, and whether a half one.
    pub(super) barrier: Option<bool>,
    /// Whose memory it is for.
    pub(super) to: Option<Port>,
}

/// Posts on their way, by tag. A tag is used once: completions of closed jobs find nothing.
#[derive(Default)]
pub(super) struct Outstanding {
    slots: Vec<(u32, Option<Operation>)>,
    free: Vec<u32>,
    /// How many each lane has.
    of_lane: Vec<u32>,
}

impl Outstanding {
    pub(super) fn insert(&mut self, operation: Operation) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        if self.of_lane.len() <= operation.lane {
            self.of_lane.resize(operation.lane + 1, 0);
        }
        self.of_lane[operation.lane] += 1;
        let slot = &mut self.slots[index as usize];
        slot.1 = Some(operation);
        (slot.0 as u64) << 32 | index as u64
    }

    pub(super) fn get_mut(&mut self, tag: u64) -> Option<&mut Operation> {
        let (round, operation) = self.slots.get_mut(tag as u32 as usize)?;
        operation.as_mut().filter(|_| *round == (tag >> 32) as u32)
    }

    pub(super) fn remove(&mut self, tag: u64) -> Option<Operation> {
        let (round, operation) = self.slots.get_mut(tag as u32 as usize)?;
        if *round != (tag >> 32) as u32 {
            return None;
        }
        let taken = operation.take()?;
        *round = round.wrapping_add(1);
        self.of_lane[taken.lane] -= 1;
        self.free.push(tag as u32);
        Some(taken)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.iter().filter(|(_, operation)| operation.is_some()).count()
    }

    /// Forgets every post of a lane.
    pub(super) fn drop_lane(&mut self, lane: usize) {
        if self.of_lane.get(lane).is_none_or(|count| *count == 0) {
            return;
        }
        for index in 0..self.slots.len() as u32 {
            let (round, operation) = &self.slots[index as usize];
            if operation.is_some_and(|f| f.lane == lane) {
                let tag = (*round as u64) << 32 | index as u64;
                self.remove(tag);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_finished_posts_find_nothing() {
        let mut outstanding = Outstanding::default();
        let f = Operation {
            lane: 0,
            seq: 1,
            completion: None,
            number: 0,
            answered: true,
            read: false,
            barrier: None,
            to: None,
        };
        let first = outstanding.insert(f);
        assert_eq!(outstanding.remove(first).map(|f| f.seq), Some(1));
        let second = outstanding.insert(Operation { seq: 2, lane: 7, ..f });
        assert!(outstanding.get_mut(first).is_none() && outstanding.remove(first).is_none());
        outstanding.drop_lane(7);
        assert!(outstanding.get_mut(second).is_none());
        assert!(outstanding.get_mut(u64::MAX).is_none());
    }

    #[test]
    fn unknown_ports_have_no_owner() {
        let mut ports = Ports::default();
        let port = Port { node: 3, endpoint: 2 };
        assert_eq!(ports.get(port), None);
        ports.set(port, Some(Owner { slot: JobSlot::new(1), pe: 5 }));
        assert_eq!(ports.get(port), Some(Owner { slot: JobSlot::new(1), pe: 5 }));
        ports.set(port, None);
        assert_eq!(ports.get(port), None);
    }
}
