//! Which message ended a call of MPI, and where it came from.

use super::wakers::{Cause, Origin};
use angara_protocol::calls::{Action, Call, MpiKind, Step};
use std::collections::HashMap;

/// Messages by sender, receiver and number.
type ByNumber = HashMap<(u32, u32, u64), Origin>;

/// Messages of a job, in the order of time.
#[derive(Default)]
pub(super) struct Messages {
    /// Messages sent and not received, with their senders.
    sent: ByNumber,
    /// Messages offered, wanted, and not fetched, with the PEs that want them.
    wanted: ByNumber,
    /// Messages that have come to each PE since its last call ended.
    came: HashMap<u32, Vec<Came>>,
}

/// Something that a call may have waited for.
struct Came {
    at: u64,
    by: Origin,
    /// The message, and not that the receiver has fetched it.
    is_received: bool,
    bytes: u64,
}

/// From a call that sent to the one that received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Arrow {
    /// Call that sent.
    pub(super) from: Origin,
    /// Call that received.
    pub(super) to: Origin,
}

impl Messages {
    /// Adds a step of a message noted by PE `pe`. Returns an arrow if the message has come, `None` for other calls,
    /// too.
    pub(super) fn add(&mut self, pe: u32, call: &Call) -> Option<Arrow> {
        let Action::Message { step, pe: other, number, bytes } = call.action else { return None };
        let here = Origin { pe, thread: call.thread, start: call.start, end: call.end };
        let (by, is_received) = match step {
            Step::Sent => {
                self.sent.insert((pe, other, number), here);
                return None;
            }
            Step::Wanted => {
                self.wanted.insert((other, pe, number), here);
                return None;
            }
            // A message that was sent before notes began has no sender.
            Step::Received => (self.sent.remove(&(other, pe, number))?, true),
            Step::Fetched => (self.wanted.remove(&(pe, other, number))?, false),
        };
        self.came.entry(pe).or_default().push(Came { at: call.end, by, is_received, bytes });
        is_received.then_some(Arrow { from: by, to: here })
    }

    /// Returns what ended a call of MPI. What the program did not say of its messages is filled in: bytes that were
    /// received, and whom they came from.
    pub(super) fn settle(&mut self, pe: u32, call: &mut Call) -> Option<Cause> {
        let Action::Mpi { kind, from, bytes, .. } = &mut call.action else { return None };
        let came = self.came.remove(&pe).unwrap_or_default();
        let within = || came.iter().filter(|came| (call.start..=call.end).contains(&came.at));
        let received = || within().filter(|came| came.is_received);
        if let (MpiKind::Receive | MpiKind::Wait | MpiKind::Test, Some(last)) = (*kind, received().next_back()) {
            *bytes = received().map(|came| came.bytes).sum();
            if *kind == MpiKind::Receive {
                *from = Some(last.by.pe);
            }
        }
        let last = match kind {
            // It may take in what it does not wait for.
            MpiKind::Send => within().rfind(|came| !came.is_received),
            MpiKind::Test => None,
            _ => within().next_back(),
        };
        last.map(|came| Cause::Write(came.by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(at: u64, step: Step, pe: u32, number: u64) -> Call {
        call(at, at, Action::Message { step, pe, number, bytes: 8 })
    }

    fn call(start: u64, end: u64, action: Action) -> Call {
        Call { routine: 1, site: 0, thread: 0, depth: 0, start, end, action }
    }

    fn mpi(kind: MpiKind) -> Action {
        Action::Mpi { kind, to: None, from: None, tag: None, bytes: 100, pes: 0 }
    }

    #[test]
    fn a_receive_ends_by_the_message_that_came_last() {
        let mut all = Messages::default();
        assert_eq!(all.add(1, &note(10, Step::Sent, 0, 1)), None);
        assert_eq!(all.add(2, &note(20, Step::Sent, 0, 1)), None);
        let arrow = all.add(0, &note(30, Step::Received, 1, 1)).expect("it has come");
        assert_eq!((arrow.from.pe, arrow.from.start, arrow.to.pe, arrow.to.end), (1, 10, 0, 30));
        assert!(all.add(0, &note(40, Step::Received, 2, 1)).is_some());
        assert_eq!(all.add(0, &note(41, Step::Received, 3, 1)), None, "sent before notes began");
        let mut receive = call(5, 50, mpi(MpiKind::Receive));
        let Some(Cause::Write(by)) = all.settle(0, &mut receive) else { panic!("no cause") };
        assert_eq!((by.pe, by.start), (2, 20));
        assert!(matches!(receive.action, Action::Mpi { from: Some(2), bytes: 16, .. }), "{receive:?}");
        assert_eq!(all.settle(0, &mut call(50, 60, mpi(MpiKind::Wait))), None, "it was the other call's");
    }

    #[test]
    fn a_send_ends_by_whoever_fetches_and_not_by_what_comes_meanwhile() {
        let mut all = Messages::default();
        all.add(0, &note(10, Step::Sent, 1, 1));
        all.add(1, &note(12, Step::Sent, 0, 1));
        all.add(1, &note(20, Step::Wanted, 0, 77));
        all.add(0, &note(30, Step::Fetched, 1, 77));
        all.add(0, &note(31, Step::Received, 1, 1));
        let mut send = call(9, 32, mpi(MpiKind::Send));
        let Some(Cause::Write(by)) = all.settle(0, &mut send) else { panic!("no cause") };
        assert_eq!((by.pe, by.start), (1, 20));
        assert!(matches!(send.action, Action::Mpi { bytes: 100, .. }));
    }
}
