//! What happens to a PE, and whether it stands for that.

use super::gates::Gate;
use angara_abi::channel::{Channel, status};
use angara_abi::clock::WaitsFor;
use angara_abi::desc::{Place, Region};
use angara_fabric::{Cause, Port};
use std::sync::atomic::Ordering;

/// Events at a PE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Touch {
    /// One of its posts has come further. If it is complete, its completion word.
    Post(Option<Place>),
    /// N bytes of its memory were written.
    Memory(Place, u64),
    /// Something of a tree, which wrote N bytes.
    Tree(Option<(Place, u64)>),
}

impl Touch {
    /// Tells whether a PE that waits for this has to look; its channel shows how far its posts have come, and `word`
    /// reads an integer of its memory.
    pub(super) fn concerns(
        self,
        waits_for: WaitsFor,
        channel: &Channel,
        word: impl Fn(Place, u8) -> Option<u64>,
    ) -> bool {
        let written = match self {
            Touch::Post(_) => None,
            Touch::Memory(place, len) => Some((place, len)),
            Touch::Tree(written) => written,
        };
        let has_come = |at, seq: u32| {
            let now = channel.status_u32(at).load(Ordering::Relaxed);
            now != 0 && now.wrapping_sub(seq) as i32 >= 0
        };
        match waits_for {
            WaitsFor::Adapter => true,
            WaitsFor::Time | WaitsFor::Return => false,
            WaitsFor::Memory => written.is_some_and(|(place, _)| place.region != Region::Bounce),
            WaitsFor::Bytes(place, len) => written.is_some_and(|(at, bytes)| overlap((place, len), (at, bytes))),
            WaitsFor::Word(place, with) => {
                written.is_some_and(|at| overlap((place, with.width.into()), at))
                    // Who waits for a word that is not there has to see for itself.
                    && word(place, with.width).is_none_or(|word| with.holds(word))
            }
            WaitsFor::Completion(place) => self == Touch::Post(Some(place)),
            WaitsFor::Copied(seq) => has_come(status::COPIED, seq),
            WaitsFor::Injected(seq) => has_come(status::INJECTED, seq),
            WaitsFor::Delivered(seq) => has_come(status::DELIVERED, seq),
            WaitsFor::Tree => matches!(self, Touch::Tree(_)),
            WaitsFor::Message(mailbox, generation) => match written {
                Some((place, len)) => {
                    let word = |offset| word(Place { offset, ..place }, 8);
                    let (start, range) = ((mailbox.offset, generation), (place.offset, len));
                    place.region == mailbox.region && WaitsFor::is_of_message(start, range, word)
                }
                None => matches!(self, Touch::Post(Some(_))),
            },
        }
    }
}

/// Whose doing something is that happens to a PE.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    /// An operation of its own, on whose memory.
    Own(Option<Port>),
    /// An operation of whoever posted it, if that is known.
    Other(Option<Cause>),
    /// Its next barrier.
    Barrier,
    /// What brings it N results of a kind, from the first.
    Tree(Gate, u64),
}

pub(super) fn overlap(a: (Place, u64), b: (Place, u64)) -> bool {
    let begins_before_the_end_of = |x: (Place, u64), y: (Place, u64)| x.0.offset < y.0.offset.saturating_add(y.1);
    a.0.region == b.0.region && begins_before_the_end_of(a, b) && begins_before_the_end_of(b, a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_overlaps_concerns_who_waits_for_bytes() {
        let at = |region, offset, len| (Place { region, offset }, len);
        let watched = at(Region::Heap, 100, 8);
        for (offset, len, wanted) in
            [(92, 8, false), (92, 9, true), (100, 1, true), (107, 100, true), (108, 8, false), (0, u64::MAX, true)]
        {
            assert_eq!(overlap(watched, at(Region::Heap, offset, len)), wanted, "{len} bytes at {offset}");
            assert_eq!(overlap(at(Region::Heap, offset, len), watched), wanted, "{len} bytes at {offset}");
        }
        assert!(!overlap(watched, at(Region::Static, 100, 8)));
        assert!(!overlap(at(Region::Heap, u64::MAX, u64::MAX), watched), "what a page says may be anything");
    }

    #[test]
    fn who_waits_for_a_message_is_due_when_it_is_complete_and_at_no_raw_part_of_it() {
        let (_fds, channel) =
            Channel::create(&angara_abi::shm::Source::Files, "angara-test-message").expect("a channel");
        let mailbox = Place { region: Region::Heap, offset: 4096 };
        let waits_for = WaitsFor::Message(mailbox, 3);
        // The first word of a trailer of this generation; raw bytes have another one there.
        let word = |place: Place, _| Some(if place.offset == 4096 + 1024 - 16 { 3 << 32 | 9 } else { 7 << 32 });
        let at = |offset, len| Touch::Memory(Place { region: Region::Heap, offset }, len);
        for (what, wanted) in [
            (at(4096 + 100, 156), true),
            (at(4096 + 768, 256), true),
            (at(4096 + 512, 256), false),
            (at(4096 + 512, 100), false),
            (at(4096 + 64, 8), true),
            (at(64, 8), false),
            (Touch::Memory(Place { region: Region::Static, offset: 4096 + 64 }, 8), false),
            (at(u64::MAX, u64::MAX), false),
            (Touch::Post(None), false),
            (Touch::Post(Some(mailbox)), true),
        ] {
            assert_eq!(what.concerns(waits_for, &channel, word), wanted, "{what:?}");
            assert!(!what.concerns(WaitsFor::Return, &channel, word), "{what:?}");
        }
    }
}
