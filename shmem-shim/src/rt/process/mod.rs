//! The life of a process of the job: how it begins and finalizes ([`init`]), ends by itself or with the job ([`exit`]),
//! fails ([`end`]) and forks ([`fork`]), how its global variables become symmetric ([`elf`], [`statics`]), what it keeps
//! of a PE ([`pe`], [`requests`]), and how one process has all PEs ([`inside`], [`host`]).

pub(crate) mod elf;
pub(crate) mod end;
pub(crate) mod exit;
mod fork;
pub(crate) mod host;
pub(crate) mod init;
mod inside;
pub(crate) mod pe;
pub(crate) mod requests;
mod statics;
