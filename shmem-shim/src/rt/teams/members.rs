//! Which PEs an operation is about: those that a context numbers, and the members of a collective.
//!
//! In each team a PE can be in one collective at a time: two threads would take each other's signals, which is refused
//! rather than left to chance.

use super::group::{Group, Triplet, stream};
use super::handles::{CTX_DEFAULT, CTX_INVALID, TEAM_SHARED};
use crate::ctypes::*;
use crate::rt::{Runtime, die};
use angara_protocol::calls::Action;

impl Runtime {
    /// Returns `pe` of context `ctx` as a PE of the job.
    #[inline]
    pub(crate) fn target(&self, name: Name, ctx: shmem_ctx_t, pe: int) -> usize {
        if ctx == CTX_DEFAULT && (pe as usize) < self.n { pe as usize } else { self.target_slow(name, ctx, pe) }
    }

    #[cold]
    fn target_slow(&self, name: Name, ctx: shmem_ctx_t, pe: int) -> usize {
        let group = self.of_context(name, ctx);
        match group.pe(pe) {
            Some(world) => world,
            None => die(
                name,
                None,
                format_args!("PE {pe} does not exist: {} PEs 0 to {}", group.noun(self.n), group.size - 1),
            ),
        }
    }

    /// Returns true for a context, and false for `SHMEM_CTX_INVALID`, on which ordering and sessions do nothing.
    pub(crate) fn is_live(&self, name: Name, ctx: shmem_ctx_t) -> bool {
        if ctx > CTX_DEFAULT {
            self.of_context(name, ctx);
        }
        ctx != CTX_INVALID
    }

    /// Returns the group a context numbers its PEs in.
    fn of_context(&self, name: Name, ctx: shmem_ctx_t) -> Group {
        match self.teams.context(ctx) {
            Some(c) => c.group,
            None => {
                die(name, None, format_args!("{ctx:#x} is not a context of this PE (destroyed, or SHMEM_CTX_INVALID)"))
            }
        }
    }

    /// Returns the group of a team, for a collective.
    fn of_team(&self, name: Name, team: shmem_team_t) -> Group {
        match self.teams.team(team) {
            Some(t) if team == TEAM_SHARED => Group { stream: self.stream(stream::SHARED), ..t.group },
            Some(t) => t.group,
            None => {
                die(name, None, format_args!("{team:#x} is not a team of this PE (destroyed, or SHMEM_TEAM_INVALID)"))
            }
        }
    }

    /// Returns whether teams have names of their own.
    pub(crate) fn names_teams(&self) -> bool {
        self.checking || self.p2p().streams().is_some()
    }

    /// Returns `name` if teams have names, else that of the team of all PEs.
    fn stream(&self, name: u64) -> u64 {
        if self.names_teams() { name } else { stream::WORLD }
    }

    /// Returns the number of this PE in a group, and ends the job if it is not in it.
    pub(crate) fn my_index(&self, name: Name, group: &Group) -> usize {
        match group.index(self.me) {
            Some(i) => i,
            None => die(name, None, "this PE is not a member of the team"),
        }
    }
}

/// Members of a collective: a team or a deprecated active set.
pub(crate) trait Members: Copy {
    /// Result of its collective routines.
    type Answer;
    /// The result when all is well.
    const DONE: Self::Answer;
    /// Returns the group, which must include this PE.
    fn group(self, s: &Runtime, name: Name) -> Group;
    /// Returns what is noted of the collective, completed with what only these members know.
    fn noted(self, _s: &Runtime, action: Action) -> Action {
        action
    }
}

impl Members for shmem_team_t {
    type Answer = int;
    const DONE: int = 0;
    fn group(self, s: &Runtime, name: Name) -> Group {
        s.of_team(name, self)
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
        let world = Group { stream: s.stream(stream::ACTIVE_SETS), ..s.world() };
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

/// The job, for the duration of a collective.
pub(crate) struct Collective(&'static Runtime, u64);

impl std::ops::Deref for Collective {
    type Target = Runtime;
    fn deref(&self) -> &Runtime {
        self.0
    }
}

impl Drop for Collective {
    fn drop(&mut self) {
        self.0.busy.leave(self.1);
    }
}

/// Enters a collective of all PEs.
pub(crate) fn collective(s: &'static Runtime, name: Name) -> Collective {
    enter(name, s, stream::WORLD)
}

/// Enters a collective of a group, which it returns, too.
pub(crate) fn collective_of(s: &'static Runtime, name: Name, of: impl Members) -> (Collective, Group) {
    let group = of.group(s, name);
    (enter(name, s, group.stream), group)
}

fn enter(name: Name, s: &'static Runtime, stream: u64) -> Collective {
    s.job.entering(name);
    if !s.busy.enter(stream) {
        die(
            name,
            None,
            "another thread of this PE is in a collective routine of the same team (allocation belongs to the \
             team of all PEs, and so do active sets to each other); let one thread at a time call them, after \
             shmem_init_thread with SHMEM_THREAD_MULTIPLE",
        );
    }
    Collective(s, stream)
}
