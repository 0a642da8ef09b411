//! Teams, contexts and active sets: which PEs an operation is about.
//!
//! A team is `start + i * stride` for `i < size` in PEs of the job; a strided part of a strided
//! part is one again, so splitting needs no communication and no memory at other PEs. Handles are
//! small integers in pointer clothes. All contexts share one injection channel: ordering and
//! completion on one context then cover the others too, which OpenSHMEM allows.

use super::check::list;
use super::record::{call, met};
use super::{Runtime, collective_of, die, lock, memory, state, streams};
use crate::ctypes::*;
use angara_protocol::calls::{Action, Meeting};
use std::sync::Mutex;

/// `SHMEM_TEAM_WORLD`.
pub(crate) const TEAM_WORLD: shmem_team_t = 1;
/// `SHMEM_TEAM_SHARED`.
const TEAM_SHARED: shmem_team_t = 2;
/// `SHMEM_TEAM_INVALID`.
pub(crate) const TEAM_INVALID: shmem_team_t = 0;
/// `SHMEM_CTX_DEFAULT`; 0 is `SHMEM_CTX_INVALID`.
pub(crate) const CTX_DEFAULT: shmem_ctx_t = 1;
const CTX_INVALID: shmem_ctx_t = 0;
/// `SHMEM_TEAM_NUM_CONTEXTS`.
const NUM_CONTEXTS: long = 1;
/// Handles of one kind alive at a time; a program that leaks them learns it here.
const HANDLES_MAX: usize = 1 << 16;

/// Members of a group: `size` of them from `start` on, `stride` apart.
#[derive(Clone, Copy)]
pub(crate) struct Triplet {
    pub(crate) start: int,
    pub(crate) stride: int,
    pub(crate) size: int,
}

/// Some PEs of the job, numbered from 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Group {
    pub(crate) start: usize,
    pub(crate) stride: isize,
    pub(crate) size: usize,
    /// Where its collectives talk ([`super::streams`]).
    pub(crate) stream: u64,
}

impl Group {
    /// PE `i` of the group as a PE of the job.
    #[inline]
    pub(crate) fn world(&self, i: usize) -> usize {
        debug_assert!(i < self.size);
        self.start.wrapping_add_signed(self.stride.wrapping_mul(i as isize))
    }
    /// The same for a number that may not be one.
    pub(crate) fn pe(&self, i: int) -> Option<usize> {
        usize::try_from(i).ok().filter(|i| *i < self.size).map(|i| self.world(i))
    }
    /// The number of a PE of the job in the group.
    pub(crate) fn index(&self, world: usize) -> Option<usize> {
        if self.size == 1 || self.stride == 0 {
            return (world == self.start).then_some(0);
        }
        let distance = world as isize - self.start as isize;
        let i = distance / self.stride;
        (distance % self.stride == 0 && i >= 0 && (i as usize) < self.size).then_some(i as usize)
    }
    /// The group of these PEs, if they are evenly spaced.
    fn of(pes: &[usize], stream: u64) -> Option<Group> {
        let start = *pes.first()?;
        let stride = pes.get(1).map_or(1, |second| *second as isize - start as isize);
        let group = Group { start, stride, size: pes.len(), stream };
        pes.iter().enumerate().all(|(i, pe)| group.world(i) == *pe).then_some(group)
    }
    /// Some of its members, if all of them exist.
    fn part(&self, members: Triplet) -> Option<Group> {
        let Triplet { start, stride, size } = members;
        let (first, count) = (self.pe(start)?, usize::try_from(size).ok().filter(|n| *n > 0)?);
        let last = start as i64 + (count as i64 - 1) * stride as i64;
        self.pe(int::try_from(last).ok()?)?;
        if stride == 0 && count > 1 {
            return None;
        }
        Some(Group { start: first, stride: self.stride * stride as isize, size: count, stream: self.stream })
    }
    /// "the job has" or "the team has".
    pub(crate) fn noun(&self, n: usize) -> &'static str {
        if self.size == n { "the job has" } else { "the team has" }
    }
}

#[derive(Clone, Copy)]
struct Team {
    group: Group,
    config: shmem_team_config_t,
}

#[derive(Clone, Copy)]
struct Context {
    team: shmem_team_t,
    group: Group,
}

/// Handles this PE has given out. Index 0 is the first handle after the predefined ones.
struct Handles<T>(Vec<Option<T>>);

impl<T: Copy> Handles<T> {
    fn insert(&mut self, value: T, first: usize) -> Option<usize> {
        let index = match self.0.iter().position(Option::is_none) {
            Some(free) => free,
            None if self.0.len() < HANDLES_MAX => {
                self.0.push(None);
                self.0.len() - 1
            }
            None => return None,
        };
        self.0[index] = Some(value);
        Some(index + first)
    }
    fn get(&self, handle: usize, first: usize) -> Option<T> {
        handle.checked_sub(first).and_then(|i| self.0.get(i).copied().flatten())
    }
    fn remove(&mut self, handle: usize, first: usize) -> Option<T> {
        handle.checked_sub(first).and_then(|i| self.0.get_mut(i)).and_then(Option::take)
    }
}

const FIRST_TEAM: usize = TEAM_SHARED + 1;
const FIRST_CTX: usize = CTX_DEFAULT + 1;

/// Teams and contexts of this PE.
pub(crate) struct Table {
    world: Group,
    shared: Group,
    teams: Mutex<Handles<Team>>,
    contexts: Mutex<Handles<Context>>,
}

impl Table {
    /// `shared`: PEs reached with plain loads and stores, in order.
    pub(crate) fn new(me: usize, n: usize, shared: &[usize]) -> Table {
        Table {
            world: Group { start: 0, stride: 1, size: n, stream: streams::WORLD },
            shared: Group::of(shared, streams::WORLD).unwrap_or(Group {
                start: me,
                stride: 1,
                size: 1,
                stream: streams::WORLD,
            }),
            teams: Mutex::new(Handles(Vec::new())),
            contexts: Mutex::new(Handles(Vec::new())),
        }
    }

    fn team(&self, team: shmem_team_t) -> Option<Team> {
        let config = shmem_team_config_t { num_contexts: int::MAX };
        match team {
            TEAM_INVALID => None,
            TEAM_WORLD => Some(Team { group: self.world, config }),
            TEAM_SHARED => Some(Team { group: self.shared, config }),
            _ => lock(&self.teams).get(team, FIRST_TEAM),
        }
    }

    /// The group of a team, for a collective.
    pub(crate) fn of_team(&self, s: &Runtime, name: Name, team: shmem_team_t) -> Group {
        match self.team(team) {
            Some(t) if team == TEAM_SHARED => Group { stream: s.stream(streams::SHARED), ..t.group },
            Some(t) => t.group,
            None => {
                die(name, None, format_args!("{team:#x} is not a team of this PE (destroyed, or SHMEM_TEAM_INVALID)"))
            }
        }
    }

    /// True for a context, false for `SHMEM_CTX_INVALID`, on which ordering and sessions do nothing.
    pub(crate) fn is_live(&self, s: &Runtime, name: Name, ctx: shmem_ctx_t) -> bool {
        if ctx > CTX_DEFAULT {
            self.of_context(s, name, ctx);
        }
        ctx != CTX_INVALID
    }

    /// The group a context numbers its PEs in.
    pub(crate) fn of_context(&self, _s: &Runtime, name: Name, ctx: shmem_ctx_t) -> Group {
        match ctx {
            CTX_DEFAULT => self.world,
            _ => match lock(&self.contexts).get(ctx, FIRST_CTX) {
                Some(c) => c.group,
                None => die(
                    name,
                    None,
                    format_args!("{ctx:#x} is not a context of this PE (destroyed, or SHMEM_CTX_INVALID)"),
                ),
            },
        }
    }
}

/// Members of a collective: a team or a deprecated active set.
pub(crate) trait Members: Copy {
    /// Result of its routines.
    type Answer;
    /// All is well.
    const DONE: Self::Answer;
    /// The group, which must include this PE.
    fn group(self, s: &Runtime, name: Name) -> Group;
    /// Completes what is noted of the collective with what only these members know.
    fn noted(self, _s: &Runtime, action: Action) -> Action {
        action
    }
}

impl Members for shmem_team_t {
    type Answer = int;
    const DONE: int = 0;
    fn group(self, s: &Runtime, name: Name) -> Group {
        s.teams.of_team(s, name, self)
    }
}

/// A deprecated active set, as the caller gave it.
#[derive(Clone, Copy)]
pub(crate) struct Set {
    start: int,
    log_stride: int,
    size: int,
    /// Memory that the program lends for synchronisation; nothing here needs it, but notes of calls name it.
    work: *const long,
}

impl Set {
    pub(crate) fn active(start: int, log_stride: int, size: int, psync: *mut long) -> Set {
        Set { start, log_stride, size, work: psync }
    }
}

impl Members for Set {
    type Answer = ();
    const DONE: () = ();
    fn noted(self, s: &Runtime, action: Action) -> Action {
        match action {
            Action::Meet { meeting, members, root, dest, dest_len, source, source_len, .. } => {
                let work = s.job.locate(self.work.cast(), 1);
                Action::Meet { meeting, members, root, dest, dest_len, source, source_len, work }
            }
            other => other,
        }
    }
    fn group(self, s: &Runtime, name: Name) -> Group {
        let world = Group { stream: s.stream(streams::ACTIVE_SETS), ..s.world() };
        let stride = match self.size {
            // One PE is no distance from the next.
            1 => Some(1),
            _ => u32::try_from(self.log_stride).ok().and_then(|l| 1i32.checked_shl(l)).filter(|v| *v > 0),
        };
        let group = stride.and_then(|stride| world.part(Triplet { start: self.start, stride, size: self.size }));
        match group {
            Some(g) if g.index(s.me).is_some() => g,
            _ => die(
                name,
                None,
                format_args!(
                    "the active set (PE_start {}, logPE_stride {}, PE_size {}) must consist of PEs 0 to {} \
                     and include the caller",
                    self.start,
                    self.log_stride,
                    self.size,
                    s.n - 1
                ),
            ),
        }
    }
}

pub(crate) fn my_pe(name: Name, team: shmem_team_t) -> int {
    let s = state(name);
    s.teams.team(team).and_then(|t| t.group.index(s.me)).map_or(-1, |i| i as int)
}

pub(crate) fn n_pes(name: Name, team: shmem_team_t) -> int {
    state(name).teams.team(team).map_or(-1, |t| t.group.size as int)
}

/// # Safety
/// `config` is null or writable.
pub(crate) unsafe fn get_config(name: Name, team: shmem_team_t, mask: long, config: *mut shmem_team_config_t) -> int {
    match state(name).teams.team(team) {
        Some(t) if !config.is_null() && mask & NUM_CONTEXTS != 0 => {
            // SAFETY: the caller's contract.
            unsafe { config.write(t.config) };
            0
        }
        Some(_) => 0,
        None => -1,
    }
}

pub(crate) fn translate(name: Name, from: shmem_team_t, pe: int, to: shmem_team_t) -> int {
    let teams = &state(name).teams;
    let world = teams.team(from).and_then(|t| t.group.pe(pe));
    world.and_then(|w| teams.team(to)?.group.index(w)).map_or(-1, |i| i as int)
}

/// A team to be made, as the caller asks for it.
#[derive(Clone, Copy)]
pub(crate) struct NewTeam {
    /// Its configuration; may be null.
    pub(crate) config: *const shmem_team_config_t,
    /// Which fields of the configuration count.
    pub(crate) mask: long,
    /// Where its handle goes.
    pub(crate) team: *mut shmem_team_t,
}

/// # Safety
/// The configuration of `new` is null or readable, its handle writable.
unsafe fn create(s: &Runtime, group: Group, new: NewTeam) -> int {
    let mut team = Team { group, config: shmem_team_config_t::default() };
    if new.mask & NUM_CONTEXTS != 0 && !new.config.is_null() {
        // SAFETY: the caller's contract.
        team.config = unsafe { *new.config };
    }
    let handle = match group.index(s.me) {
        Some(_) => lock(&s.teams.teams).insert(team, FIRST_TEAM),
        None => Some(TEAM_INVALID),
    };
    // SAFETY: the caller's contract.
    unsafe { new.team.write(handle.unwrap_or(TEAM_INVALID)) };
    if handle.is_some() { 0 } else { -1 }
}

/// # Safety
/// As [`create`].
pub(crate) unsafe fn split_strided(name: Name, parent: shmem_team_t, members: Triplet, new: NewTeam) -> int {
    // SAFETY: the caller's contract.
    unsafe { new.team.write(TEAM_INVALID) };
    let body = |s: &'static Runtime| {
        if s.teams.team(parent).is_none() {
            return -1;
        }
        let (s, parent) = collective_of(s, name, parent);
        let Triplet { start, stride, size } = members;
        s.agree(name, &parent, || list(&[("start", &start), ("stride", &stride), ("size", &size)]));
        let [stream, _] = s.new_streams(name, &parent, 1);
        match parent.part(members) {
            // SAFETY: the caller's contract.
            Some(group) => unsafe { create(&s, Group { stream, ..group }, new) },
            None => -1,
        }
    };
    call(name, |s, _| split(s, parent), body)
}

/// Returns what is noted of a split of `parent`.
fn split(s: &Runtime, parent: shmem_team_t) -> Action {
    s.teams.team(parent).map_or(Action::Other, |team| met(Meeting::Other, &team.group))
}

/// Rows of `xrange` PEs along x, the rest along y.
///
/// # Safety
/// As [`create`] for both.
pub(crate) unsafe fn split_2d(name: Name, parent: shmem_team_t, xrange: int, x: NewTeam, y: NewTeam) -> int {
    // SAFETY: the caller's contract.
    unsafe {
        x.team.write(TEAM_INVALID);
        y.team.write(TEAM_INVALID);
    }
    // SAFETY: the caller promises what the callee asks for.
    call(name, |s, _| split(s, parent), |s| unsafe { split_rows(s, name, parent, xrange, (x, y)) })
}

/// # Safety
/// As [`split_2d`].
unsafe fn split_rows(
    s: &'static Runtime,
    name: Name,
    parent: shmem_team_t,
    xrange: int,
    (x, y): (NewTeam, NewTeam),
) -> int {
    if s.teams.team(parent).is_none() {
        return -1;
    }
    let (s, parent) = collective_of(s, name, parent);
    let me = s.my_index(name, &parent) as int;
    // Rows have no PE in common, so one stream serves all of them; columns likewise.
    let [stream_x, stream_y] = s.new_streams(name, &parent, 2);
    if xrange < 1 {
        return -1;
    }
    let (n, width) = (parent.size as int, xrange.min(parent.size as int));
    let (my_x, my_y) = (me % width, me / width);
    let row = parent.part(Triplet { start: my_y * width, stride: 1, size: width.min(n - my_y * width) });
    let column = parent.part(Triplet { start: my_x, stride: width, size: (n - my_x + width - 1) / width });
    let (Some(row), Some(column)) = (row, column) else { return -1 };
    // SAFETY: the caller's contract.
    unsafe { create(&s, Group { stream: stream_x, ..row }, x) | create(&s, Group { stream: stream_y, ..column }, y) }
}

pub(crate) fn destroy(name: Name, team: shmem_team_t) {
    let s = state(name);
    match team {
        TEAM_INVALID => {}
        TEAM_WORLD | TEAM_SHARED => die(name, None, "a predefined team cannot be destroyed"),
        _ => {
            let gone = lock(&s.teams.teams).remove(team, FIRST_TEAM);
            match gone {
                Some(gone) => s.forget_stream(gone.group.stream),
                None => die(name, None, format_args!("{team:#x} is not a team of this PE")),
            }
            for c in &mut lock(&s.teams.contexts).0 {
                if c.is_some_and(|c| c.team == team) {
                    *c = None;
                }
            }
        }
    }
}

pub(crate) fn ptr(name: Name, team: shmem_team_t, dest: *const u8, pe: int) -> *mut void {
    match state(name).teams.team(team).and_then(|t| t.group.pe(pe)) {
        Some(world) => memory::ptr(name, dest, world as int),
        None => std::ptr::null_mut(),
    }
}

/// # Safety
/// `ctx` is writable.
pub(crate) unsafe fn ctx_create(name: Name, team: shmem_team_t, _options: long, ctx: *mut shmem_ctx_t) -> int {
    let s = state(name);
    let made = s.teams.team(team).and_then(|t| {
        let context = Context { team, group: t.group };
        lock(&s.teams.contexts).insert(context, FIRST_CTX)
    });
    // SAFETY: the caller's contract.
    unsafe { ctx.write(made.unwrap_or(CTX_INVALID)) };
    if made.is_some() { 0 } else { -1 }
}

pub(crate) fn ctx_destroy(name: Name, ctx: shmem_ctx_t) {
    let s = state(name);
    match ctx {
        CTX_INVALID => {}
        CTX_DEFAULT => die(name, None, "the default context cannot be destroyed"),
        _ => {
            // Destroying a context completes what was issued on it.
            super::rma::quiet(name, ctx);
            lock(&s.teams.contexts).remove(ctx, FIRST_CTX);
        }
    }
}

/// # Safety
/// `team` is writable.
pub(crate) unsafe fn ctx_team(name: Name, ctx: shmem_ctx_t, team: *mut shmem_team_t) -> int {
    let s = state(name);
    let found = match ctx {
        CTX_DEFAULT => Some(TEAM_WORLD),
        _ => lock(&s.teams.contexts).get(ctx, FIRST_CTX).map(|c| c.team),
    };
    // SAFETY: the caller's contract.
    unsafe { team.write(found.unwrap_or(TEAM_INVALID)) };
    if found.is_some() { 0 } else { -1 }
}

/// A session announces a batch of operations on a context; nothing here is faster for knowing.
pub(crate) fn session(
    name: Name,
    ctx: shmem_ctx_t,
    _options: long,
    _config: *const shmem_ctx_session_config_t,
    _mask: long,
) {
    let s = state(name);
    s.teams.is_live(s, name, ctx);
}
/// Ends a session.
pub(crate) fn session_stop(name: Name, ctx: shmem_ctx_t) {
    let s = state(name);
    s.teams.is_live(s, name, ctx);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_parts_number_their_pes() {
        let part = |of: Group, start, stride, size| of.part(Triplet { start, stride, size });
        let world = Group { start: 0, stride: 1, size: 12, stream: 0 };
        let odd = part(world, 1, 2, 6).unwrap();
        let back = part(odd, 5, -2, 3).unwrap();
        assert_eq!((0..3).map(|i| back.world(i)).collect::<Vec<_>>(), [11, 7, 3]);
        assert_eq!((back.index(7), back.index(5), back.index(0)), (Some(1), None, None));
        assert_eq!(part(world, 8, 3, 3), None);
        assert_eq!(part(world, 0, 0, 2), None);
        assert_eq!(part(odd, 2, 0, 1).unwrap().index(5), Some(0));
        assert!(part(world, -1, 1, 1).is_none() && part(world, 0, 1, 0).is_none());
        assert!(part(world, 0, i32::MAX, i32::MAX).is_none());
    }

    #[test]
    fn pes_of_a_host_are_a_group_if_they_are_evenly_spaced() {
        assert_eq!(Group::of(&[2, 3, 4], 0), Some(Group { start: 2, stride: 1, size: 3, stream: 0 }));
        assert_eq!(Group::of(&[1, 4, 7], 0), Some(Group { start: 1, stride: 3, size: 3, stream: 0 }));
        assert_eq!(Group::of(&[5], 1), Some(Group { start: 5, stride: 1, size: 1, stream: 1 }));
        assert_eq!((Group::of(&[], 0), Group::of(&[0, 1, 3], 0)), (None, None));
    }
}
