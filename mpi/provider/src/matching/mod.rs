//! Which message goes to which posted receive: the rules of MPI and libfabric, without any memory or network.
//!
//! A message has a source and a tag. A receive wants one source or any, and a tag of which it may ignore some bits. A message
//! goes to the receive posted first among those that want it; a receive takes the message that arrived first among those it
//! wants. Few are looked at one by one. Many are found by hash, one table for each [`Wildcards`] of receive, so that a million may
//! wait and be received in any order: MPI libraries ignore bits of every tag, but the same ones again and again.

mod list;
#[cfg(test)]
mod tests;

use list::{Chains, Index, Links, Table};

/// Small number of a message's sender.
pub(crate) type Source = u32;

/// Messages that a receive accepts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Want {
    /// Sender; any if `None`.
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

/// Receives or messages that are looked at one by one.
const FEW: usize = 8;
/// Most kinds of receives that have tables at a time. MPI has four: one tag or any, one source or any.
const KINDS: usize = 8;

/// Key of receives from anybody. No source has this number.
pub(crate) const ANY: Source = Source::MAX;

type Key = (u64, Source);

/// Class of receives that are told apart by the rest of the tag, and by the source if that counts.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Wildcards {
    ignore: u64,
    from_anybody: bool,
}

impl Wildcards {
    #[inline]
    fn of(want: &Want) -> Wildcards {
        Wildcards { ignore: want.ignore, from_anybody: want.source.is_none() }
    }
    #[inline]
    fn key(&self, source: Source, tag: u64) -> Key {
        (tag & !self.ignore, if self.from_anybody { ANY } else { source })
    }
}

/// A place in a queue, valid until what is there is taken out.
pub(crate) type Handle = Index;

struct Posted<R> {
    want: Want,
    /// Counts up with every receive.
    order: u64,
    /// The group that it is in, or [`KINDS`] if it is looked at one by one.
    group: u8,
    links: Links,
    receive: R,
}

/// Posted receives of one kind.
struct Group {
    kind: Wildcards,
    table: Table<Key>,
}

struct Unexpected<U> {
    source: Source,
    tag: u64,
    links: Links,
    message: U,
}

/// All waiting messages as receives of one kind look for them.
struct View {
    kind: Wildcards,
    table: Table<Key>,
    chains: Chains,
}

impl View {
    fn push(&mut self, at: Handle, source: Source, tag: u64) {
        let ends = self.table.ends(self.kind.key(source, tag));
        self.chains.reach(at);
        list::push(&mut self.chains, ends, at, |links| links);
    }
    fn unlink(&mut self, at: Handle, source: Source, tag: u64) {
        let key = self.kind.key(source, tag);
        list::unlink(&mut self.chains, self.table.ends(key), at, |links| links);
        self.table.tidy(&key);
    }
}

/// Receives that wait for messages, and messages that wait for receives.
pub(crate) struct Matching<R, U> {
    posted: list::Slab<Posted<R>>,
    /// Receives that are looked at one by one.
    few: list::Ends,
    few_len: usize,
    groups: Vec<Group>,
    order: u64,
    unexpected: list::Slab<Unexpected<U>>,
    arrived: list::Ends,
    /// Made when receives look for one of many messages, and kept until no message waits.
    views: Vec<View>,
    #[cfg(test)]
    steps: std::cell::Cell<u64>,
}

impl<R, U> Matching<R, U> {
    pub(crate) fn new() -> Matching<R, U> {
        Matching {
            posted: list::Slab::new(),
            few: list::Ends::NONE,
            few_len: 0,
            groups: Vec::new(),
            order: 0,
            unexpected: list::Slab::new(),
            arrived: list::Ends::NONE,
            views: Vec::new(),
            #[cfg(test)]
            steps: std::cell::Cell::default(),
        }
    }

    /// N elements were looked at, or put into tables and out.
    #[inline(always)]
    #[cfg_attr(not(test), expect(unused_variables, reason = "only tests count"))]
    fn steps(&self, count: usize) {
        #[cfg(test)]
        self.steps.set(self.steps.get() + count as u64);
    }

    /// Queues a receive behind the others. No unexpected message may match it: look with [`Matching::find`] first.
    #[inline(always)]
    pub(crate) fn post(&mut self, want: Want, receive: R) {
        self.order += 1;
        let group = if self.few_len < FEW { None } else { self.group(Wildcards::of(&want)) };
        let number = group.unwrap_or(KINDS) as u8;
        let posted = Posted { want, order: self.order, group: number, links: Links::NONE, receive };
        let at = self.posted.insert(posted);
        let ends = match group {
            Some(group) => {
                let Group { kind, table } = &mut self.groups[group];
                table.ends(kind.key(want.source.unwrap_or(ANY), want.tag))
            }
            None => {
                self.few_len += 1;
                &mut self.few
            }
        };
        list::push(&mut self.posted, ends, at, |posted| &mut posted.links);
    }

    /// The group of a kind, which is made if there is room for one more.
    #[inline(never)]
    fn group(&mut self, kind: Wildcards) -> Option<usize> {
        self.steps(1);
        if let Some(at) = self.groups.iter().position(|group| group.kind == kind) {
            return Some(at);
        }
        let group = Group { kind, table: Table::default() };
        if self.groups.len() < KINDS {
            self.groups.push(group);
            return Some(self.groups.len() - 1);
        }
        let at = self.groups.iter().position(|group| group.table.is_empty())?;
        self.groups[at] = group;
        Some(at)
    }

    /// The receive that a message of this source and tag goes to.
    #[inline(always)]
    pub(crate) fn receiver(&self, source: Source, tag: u64) -> Option<Handle> {
        let mut best = None;
        let mut at = self.few.first();
        while let Some(here) = at {
            self.steps(1);
            let posted = &self.posted[here];
            if posted.want.accepts(source, tag) {
                best = Some((posted.order, here));
                break;
            }
            at = posted.links.next();
        }
        if self.groups.is_empty() { best.map(|(_, at)| at) } else { self.receiver_in_groups(best, source, tag) }
    }

    /// The same, where many are posted: `best` is of those that are looked at one by one.
    #[inline(never)]
    fn receiver_in_groups(&self, best: Option<(u64, Handle)>, source: Source, tag: u64) -> Option<Handle> {
        let firsts = self.groups.iter().filter_map(|Group { kind, table }| {
            self.steps(1);
            table.first(&kind.key(source, tag))
        });
        let ordered = firsts.map(|at| (self.posted[at].order, at));
        best.into_iter().chain(ordered).min().map(|(_, at)| at)
    }

    /// A posted receive, which stays where it is.
    pub(crate) fn posted_mut(&mut self, at: Handle) -> &mut R {
        &mut self.posted[at].receive
    }

    /// Takes a posted receive out.
    #[inline(always)]
    pub(crate) fn take_posted(&mut self, at: Handle) -> R {
        let Posted { want, group, .. } = self.posted[at];
        match self.groups.get_mut(usize::from(group)) {
            None => {
                self.few_len -= 1;
                list::unlink(&mut self.posted, &mut self.few, at, |posted| &mut posted.links);
            }
            Some(Group { kind, table }) => {
                let key = kind.key(want.source.unwrap_or(ANY), want.tag);
                list::unlink(&mut self.posted, table.ends(key), at, |posted| &mut posted.links);
                table.tidy(&key);
            }
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
    pub(crate) fn arrive(&mut self, source: Source, tag: u64, message: U) {
        let at = self.unexpected.insert(Unexpected { source, tag, links: Links::NONE, message });
        list::push(&mut self.unexpected, &mut self.arrived, at, |message| &mut message.links);
        for view in &mut self.views {
            view.push(at, source, tag);
        }
        self.steps(self.views.len());
    }

    /// The message that a receive takes.
    #[inline]
    pub(crate) fn find(&mut self, want: &Want) -> Option<Handle> {
        if self.unexpected.len() == 0 { None } else { self.find_waiting(want) }
    }

    #[inline(never)]
    fn find_waiting(&mut self, want: &Want) -> Option<Handle> {
        let kind = Wildcards::of(want);
        let known = self.views.iter().position(|view| view.kind == kind);
        if let Some(at) = known {
            return self.views[at].table.first(&kind.key(want.source.unwrap_or(ANY), want.tag));
        }
        let mut at = self.arrived.first();
        let mut looked = 0;
        while let Some(here) = at {
            if looked >= FEW && self.views.len() < KINDS {
                return self.look_by(kind).first(&kind.key(want.source.unwrap_or(ANY), want.tag));
            }
            looked += 1;
            self.steps(1);
            let message = &self.unexpected[here];
            if want.accepts(message.source, message.tag) {
                return Some(here);
            }
            at = message.links.next();
        }
        None
    }

    /// A table for receives of one more kind.
    fn look_by(&mut self, kind: Wildcards) -> &Table<Key> {
        let mut view = View { kind, table: Table::default(), chains: Chains::default() };
        let mut at = self.arrived.first();
        while let Some(here) = at {
            self.steps(1);
            let message = &self.unexpected[here];
            view.push(here, message.source, message.tag);
            at = message.links.next();
        }
        self.views.push(view);
        &self.views[self.views.len() - 1].table
    }

    /// A message that waits, with its source and tag.
    pub(crate) fn message(&mut self, at: Handle) -> (Source, u64, &mut U) {
        let message = &mut self.unexpected[at];
        (message.source, message.tag, &mut message.message)
    }

    /// Takes a waiting message out.
    pub(crate) fn take_message(&mut self, at: Handle) -> (Source, u64, U) {
        let (source, tag) = (self.unexpected[at].source, self.unexpected[at].tag);
        list::unlink(&mut self.unexpected, &mut self.arrived, at, |message| &mut message.links);
        let message = self.unexpected.remove(at).message;
        if self.unexpected.len() == 0 {
            self.views = Vec::new();
        }
        for view in &mut self.views {
            view.unlink(at, source, tag);
        }
        self.steps(self.views.len());
        (source, tag, message)
    }

    /// All waiting messages, in no particular order.
    pub(crate) fn into_messages(self) -> impl Iterator<Item = U> {
        self.unexpected.into_elements().map(|message| message.message)
    }

    /// The waiting messages with their source and tag, in the order of their arrival.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (Source, u64, &U)> {
        let next = |at: &Handle| self.unexpected[*at].links.next();
        let all = std::iter::successors(self.arrived.first(), next).map(|at| &self.unexpected[at]);
        all.map(|kept| (kept.source, kept.tag, &kept.message))
    }
}
