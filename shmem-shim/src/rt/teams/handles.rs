//! Handles of teams and contexts that a PE has given out: small integers in pointer clothes.

use super::group::{Group, stream};
use crate::ctypes::*;
use crate::rt::mutex::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// `SHMEM_TEAM_WORLD`.
pub(crate) const TEAM_WORLD: shmem_team_t = 1;
/// `SHMEM_TEAM_SHARED`.
pub(crate) const TEAM_SHARED: shmem_team_t = 2;
/// `SHMEM_TEAM_INVALID`.
pub(crate) const TEAM_INVALID: shmem_team_t = 0;
/// `SHMEM_CTX_DEFAULT`.
pub(crate) const CTX_DEFAULT: shmem_ctx_t = 1;
// The same as variables, for bindings that are made from the declarations in `shmem.h`.
// SAFETY: names of OpenSHMEM, which no other library defines, here and below.
#[unsafe(no_mangle)]
pub(crate) static SHMEM_TEAM_WORLD: shmem_team_t = TEAM_WORLD;
#[unsafe(no_mangle)]
pub(crate) static SHMEM_TEAM_SHARED: shmem_team_t = TEAM_SHARED;
#[unsafe(no_mangle)]
pub(crate) static SHMEM_CTX_DEFAULT: shmem_ctx_t = CTX_DEFAULT;
/// `SHMEM_CTX_INVALID`.
pub(crate) const CTX_INVALID: shmem_ctx_t = 0;
/// Handles of one kind alive at a time; a program that leaks them learns it here.
const HANDLES_MAX: usize = 1 << 16;

#[derive(Clone, Copy)]
pub(crate) struct Team {
    pub(crate) group: Group,
    pub(crate) config: shmem_team_config_t,
}

#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(crate) team: shmem_team_t,
    /// The group it numbers its PEs in.
    pub(crate) group: Group,
}

/// Handles of one kind. Index 0 is the first handle after the predefined ones.
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
    /// Number of teams that this PE has named.
    named: AtomicU64,
}

impl Table {
    /// `shared`: PEs reached with plain loads and stores, in order.
    pub(crate) fn new(me: usize, n: usize, shared: &[usize]) -> Table {
        let alone = Group { start: me, stride: 1, size: 1, stream: stream::WORLD };
        Table {
            world: Group::all(n),
            shared: Group::of(shared, stream::WORLD).unwrap_or(alone),
            teams: Mutex::new(Handles(Vec::new())),
            contexts: Mutex::new(Handles(Vec::new())),
            named: AtomicU64::new(0),
        }
    }

    /// Returns a team, unless it was destroyed.
    pub(crate) fn team(&self, team: shmem_team_t) -> Option<Team> {
        let config = shmem_team_config_t { num_contexts: int::MAX };
        match team {
            TEAM_INVALID => None,
            TEAM_WORLD => Some(Team { group: self.world, config }),
            TEAM_SHARED => Some(Team { group: self.shared, config }),
            _ => lock(&self.teams).get(team, FIRST_TEAM),
        }
    }

    /// Returns a handle of a new team, unless there are too many.
    pub(crate) fn insert_team(&self, team: Team) -> Option<shmem_team_t> {
        lock(&self.teams).insert(team, FIRST_TEAM)
    }

    /// Takes back the handle of a team, and those of its contexts.
    pub(crate) fn remove_team(&self, team: shmem_team_t) -> Option<Team> {
        let gone = lock(&self.teams).remove(team, FIRST_TEAM)?;
        for c in &mut lock(&self.contexts).0 {
            if c.is_some_and(|c| c.team == team) {
                *c = None;
            }
        }
        Some(gone)
    }

    /// Returns a context, unless it was destroyed.
    pub(crate) fn context(&self, ctx: shmem_ctx_t) -> Option<Context> {
        match ctx {
            CTX_DEFAULT => Some(Context { team: TEAM_WORLD, group: self.world }),
            _ => lock(&self.contexts).get(ctx, FIRST_CTX),
        }
    }

    /// Returns a handle of a new context, unless there are too many.
    pub(crate) fn insert_context(&self, context: Context) -> Option<shmem_ctx_t> {
        lock(&self.contexts).insert(context, FIRST_CTX)
    }

    /// Takes back the handle of a context.
    pub(crate) fn remove_context(&self, ctx: shmem_ctx_t) {
        lock(&self.contexts).remove(ctx, FIRST_CTX);
    }

    /// Returns the first of `count` new names that PE `me`, whose table this is, gives to teams.
    pub(crate) fn new_names(&self, me: usize, count: u64) -> u64 {
        stream::named_by(me, self.named.fetch_add(count, Ordering::Relaxed) + 1)
    }
}
