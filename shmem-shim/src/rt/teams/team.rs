//! Routines of teams and contexts. All contexts share one injection channel: ordering and completion on one context then
//! cover the others too, which OpenSHMEM allows.

use super::group::{Group, Triplet, stream};
use super::handles::{CTX_DEFAULT, CTX_INVALID, Context, TEAM_INVALID, TEAM_SHARED, TEAM_WORLD, Team};
use super::members::collective_of;
use crate::ctypes::*;
use crate::rt::check::list;
use crate::rt::ops;
use crate::rt::record::{call, met};
use crate::rt::{Runtime, die, memory, rma, state};
use angara_protocol::calls::{Action, Meeting};

/// `SHMEM_TEAM_NUM_CONTEXTS`.
const NUM_CONTEXTS: long = 1;

impl Runtime {
    /// Returns names for `count` (1 or 2) teams to be made out of `parent`. Collective over `parent`, and orders what
    /// its PEs did before against what they do after: programs rely on that.
    fn new_streams(&self, name: Name, parent: &Group, count: u64) -> [u64; 2] {
        if !self.names_teams() {
            self.group_sync(name, parent);
            return [stream::WORLD; 2];
        }
        let mut first = 0u64;
        if parent.world(0) == self.me {
            first = self.teams.new_names(self.me, count);
        }
        // SAFETY: one element, which fits into a message.
        unsafe { self.doubling(name, parent, (&raw mut first).cast(), 1, ops::Ops::<u64>::OR) };
        [first, first + count - 1]
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
        Some(_) => s.teams.insert_team(team),
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
        _ => match s.teams.remove_team(team) {
            Some(gone) => s.p2p().forget(gone.group.stream),
            None => die(name, None, format_args!("{team:#x} is not a team of this PE")),
        },
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
    let made = s.teams.team(team).and_then(|t| s.teams.insert_context(Context { team, group: t.group }));
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
            rma::quiet(name, ctx);
            s.teams.remove_context(ctx);
        }
    }
}

/// # Safety
/// `team` is writable.
pub(crate) unsafe fn ctx_team(name: Name, ctx: shmem_ctx_t, team: *mut shmem_team_t) -> int {
    let s = state(name);
    let found = s.teams.context(ctx).map(|c| c.team);
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
    s.is_live(name, ctx);
}

pub(crate) fn session_stop(name: Name, ctx: shmem_ctx_t) {
    let s = state(name);
    s.is_live(name, ctx);
}
