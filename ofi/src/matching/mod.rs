//! Which message goes to which posted receive: the rules of MPI and libfabric, without any memory or network.
//!
//! A message has a source and a tag. A receive wants one source or any, and a tag of which it may ignore some bits. A message
//! goes to the receive posted first among those that want it; a receive takes the message that arrived first among those it
//! wants. Both are found by hash where the receive ignores nothing, so that a million unexpected messages may be received
//! in any order.

mod list;
#[cfg(test)]
mod tests;

use list::{Index, Links, Table};

/// Who sent a message, as a small number.
pub(crate) type Source = u32;

/// What a receive accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Want {
    /// Nobody in particular if none.
    pub(crate) source: Option<Source>,
    pub(crate) tag: u64,
    /// Bits of the tag that do not count.
    pub(crate) ignore: u64,
}

impl Want {
    #[inline]
    fn accepts(&self, source: Source, tag: u64) -> bool {
        (self.tag ^ tag) & !self.ignore == 0 && self.source.is_none_or(|s| s == source)
    }
}

/// A place in a queue, valid until what is there is taken out.
pub(crate) type Handle = Index;

struct Posted<R> {
    want: Want,
    /// Counts up with every receive.
    order: u64,
    links: Links,
    receive: R,
}

struct Unexpected<U> {
    source: Source,
    tag: u64,
    all: Links,
    by_tag: Links,
    by_both: Links,
    message: U,
}

/// Receives that wait for messages, and messages that wait for receives.
pub(crate) struct Matching<R, U> {
    posted: list::Slab<Posted<R>>,
    /// Receives that ignore nothing, by tag and source; any source is [`ANY`].
    exact: Table<(u64, Source)>,
    /// Receives that ignore bits.
    masked: list::Ends,
    order: u64,
    unexpected: list::Slab<Unexpected<U>>,
    arrived: list::Ends,
    tagged: Table<u64>,
    from: Table<(u64, Source)>,
}

/// Key of receives from anybody. No source has this number.
pub(crate) const ANY: Source = Source::MAX;

impl<R, U> Matching<R, U> {
    pub(crate) fn new() -> Matching<R, U> {
        Matching {
            posted: list::Slab::new(),
            exact: Table::default(),
            masked: list::Ends::NONE,
            order: 0,
            unexpected: list::Slab::new(),
            arrived: list::Ends::NONE,
            tagged: Table::default(),
            from: Table::default(),
        }
    }

    /// Queues a receive behind the others. No unexpected message may match it: look with [`Matching::find`] first.
    #[inline(always)]
    pub(crate) fn post(&mut self, want: Want, receive: R) {
        self.order += 1;
        let at = self.posted.insert(Posted { want, order: self.order, links: Links::NONE, receive });
        let ends = match want.ignore {
            0 => self.exact.ends((want.tag, want.source.unwrap_or(ANY))),
            _ => &mut self.masked,
        };
        list::push(&mut self.posted, ends, at, |posted| &mut posted.links);
    }

    /// The receive that a message of this source and tag goes to.
    #[inline(always)]
    pub(crate) fn receiver(&self, source: Source, tag: u64) -> Option<Handle> {
        let mut best: Option<(u64, Handle)> = None;
        let mut consider = |at: Option<Handle>| {
            if let Some(at) = at {
                let order = self.posted[at].order;
                if best.is_none_or(|(least, _)| order < least) {
                    best = Some((order, at));
                }
            }
        };
        consider(self.exact.first(&(tag, source)));
        consider(self.exact.first(&(tag, ANY)));
        let mut at = self.masked.first();
        while let Some(here) = at {
            let posted = &self.posted[here];
            if posted.want.accepts(source, tag) {
                consider(Some(here));
                break;
            }
            at = posted.links.next();
        }
        best.map(|(_, at)| at)
    }

    /// A posted receive, which stays where it is.
    pub(crate) fn posted_mut(&mut self, at: Handle) -> &mut R {
        &mut self.posted[at].receive
    }

    /// Takes a posted receive out.
    #[inline(always)]
    pub(crate) fn take_posted(&mut self, at: Handle) -> R {
        let want = self.posted[at].want;
        match want.ignore {
            0 => {
                let key = (want.tag, want.source.unwrap_or(ANY));
                list::unlink(&mut self.posted, self.exact.ends(key), at, |posted| &mut posted.links);
                self.exact.tidy(&key);
            }
            _ => list::unlink(&mut self.posted, &mut self.masked, at, |posted| &mut posted.links),
        }
        self.posted.remove(at).receive
    }

    /// The posted receives that `is` true of, in no particular order.
    pub(crate) fn posted_where(&self, is: impl Fn(&Want, &R) -> bool) -> Vec<Handle> {
        self.posted.iter().filter(|(_, posted)| is(&posted.want, &posted.receive)).map(|(at, _)| at).collect()
    }

    /// The posted receives, in no particular order, each with a number that counts up with time.
    pub(crate) fn posted(&self) -> impl Iterator<Item = (u64, &Want, &R)> {
        self.posted.iter().map(|(_, posted)| (posted.order, &posted.want, &posted.receive))
    }

    #[cfg(test)]
    fn posted_len(&self) -> usize {
        self.posted.len()
    }

    /// Queues a message that no receive wants yet.
    pub(crate) fn arrive(&mut self, source: Source, tag: u64, message: U) -> Handle {
        let (all, by_tag, by_both) = (Links::NONE, Links::NONE, Links::NONE);
        let at = self.unexpected.insert(Unexpected { source, tag, all, by_tag, by_both, message });
        list::push(&mut self.unexpected, &mut self.arrived, at, |message| &mut message.all);
        list::push(&mut self.unexpected, self.tagged.ends(tag), at, |message| &mut message.by_tag);
        list::push(&mut self.unexpected, self.from.ends((tag, source)), at, |message| &mut message.by_both);
        at
    }

    /// The message that a receive takes.
    #[inline]
    pub(crate) fn find(&self, want: &Want) -> Option<Handle> {
        if self.unexpected.len() == 0 {
            return None;
        }
        if want.ignore == 0 {
            return match want.source {
                Some(source) => self.from.first(&(want.tag, source)),
                None => self.tagged.first(&want.tag),
            };
        }
        let mut at = self.arrived.first();
        while let Some(here) = at {
            let message = &self.unexpected[here];
            if want.accepts(message.source, message.tag) {
                return Some(here);
            }
            at = message.all.next();
        }
        None
    }

    /// A message that waits, with its source and tag.
    pub(crate) fn message(&mut self, at: Handle) -> (Source, u64, &mut U) {
        let message = &mut self.unexpected[at];
        (message.source, message.tag, &mut message.message)
    }

    /// Takes a waiting message out.
    pub(crate) fn take_message(&mut self, at: Handle) -> (Source, u64, U) {
        let (source, tag) = (self.unexpected[at].source, self.unexpected[at].tag);
        list::unlink(&mut self.unexpected, &mut self.arrived, at, |message| &mut message.all);
        list::unlink(&mut self.unexpected, self.tagged.ends(tag), at, |message| &mut message.by_tag);
        self.tagged.tidy(&tag);
        list::unlink(&mut self.unexpected, self.from.ends((tag, source)), at, |message| &mut message.by_both);
        self.from.tidy(&(tag, source));
        (source, tag, self.unexpected.remove(at).message)
    }

    /// All waiting messages, in no particular order.
    pub(crate) fn into_messages(self) -> impl Iterator<Item = U> {
        self.unexpected.into_elements().map(|message| message.message)
    }

    /// The waiting messages with their source and tag, in the order of their arrival.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (Source, u64, &U)> {
        let next = |at: &Handle| self.unexpected[*at].all.next();
        let all = std::iter::successors(self.arrived.first(), next).map(|at| &self.unexpected[at]);
        all.map(|kept| (kept.source, kept.tag, &kept.message))
    }
}
