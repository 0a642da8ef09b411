//! Teams and contexts.

use crate::ctypes::*;
use crate::rt::group::Triplet;
use crate::rt::handles;
use crate::rt::team::{self, NewTeam};

api! { TEAMS;
    current fn shmem_team_my_pe(team: shmem_team_t) -> int = team::my_pe(team);
    current fn shmem_team_n_pes(team: shmem_team_t) -> int = team::n_pes(team);
    current fn shmem_team_get_config(team: shmem_team_t, config_mask: long, config: *mut shmem_team_config_t) -> int = team::get_config(team, config_mask, config);
    current fn shmem_team_translate_pe(src_team: shmem_team_t, src_pe: int, dest_team: shmem_team_t) -> int = team::translate(src_team, src_pe, dest_team);
    current fn shmem_team_split_strided(parent_team: shmem_team_t, start: int, stride: int, size: int, config: *const shmem_team_config_t, config_mask: long, new_team: *mut shmem_team_t) -> int = team::split_strided(parent_team, Triplet { start, stride, size }, NewTeam { config, mask: config_mask, team: new_team });
    current fn shmem_team_split_2d(parent_team: shmem_team_t, xrange: int, xaxis_config: *const shmem_team_config_t, xaxis_mask: long, xaxis_team: *mut shmem_team_t, yaxis_config: *const shmem_team_config_t, yaxis_mask: long, yaxis_team: *mut shmem_team_t) -> int = team::split_2d(parent_team, xrange, NewTeam { config: xaxis_config, mask: xaxis_mask, team: xaxis_team }, NewTeam { config: yaxis_config, mask: yaxis_mask, team: yaxis_team });
    current fn shmem_team_destroy(team: shmem_team_t) = team::destroy(team);
    current fn shmem_team_ptr(team: shmem_team_t, dest: *const void, pe: int) -> *mut void = team::ptr(team, dest.cast(), pe);
}
api! { CONTEXTS;
    current fn shmem_ctx_create(options: long, ctx: *mut shmem_ctx_t) -> int = team::ctx_create(handles::TEAM_WORLD, options, ctx);
    current fn shmem_team_create_ctx(team: shmem_team_t, options: long, ctx: *mut shmem_ctx_t) -> int = team::ctx_create(team, options, ctx);
    current fn shmem_ctx_destroy(ctx: shmem_ctx_t) = team::ctx_destroy(ctx);
    current fn shmem_ctx_get_team(ctx: shmem_ctx_t, team: *mut shmem_team_t) -> int = team::ctx_team(ctx, team);
    current fn shmem_ctx_session_start(ctx: shmem_ctx_t, options: long, config: *const shmem_ctx_session_config_t, config_mask: long) = team::session(ctx, options, config, config_mask);
    current fn shmem_ctx_session_stop(ctx: shmem_ctx_t) = team::session_stop(ctx);
}

#[cfg(test)]
pub(crate) const LISTS: &[&[&[crate::api::Sig]]] = &[&[TEAMS, CONTEXTS]];
