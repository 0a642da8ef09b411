//! The life of a process of the job: how it begins and finalizes ([`init`]), ends ([`exit`]) and forks
//! ([`fork`]), and how its global variables become symmetric ([`elf`], [`statics`]).

pub(crate) mod elf;
pub(crate) mod exit;
mod fork;
pub(crate) mod init;
pub(crate) mod inside;
pub(crate) mod pe;
mod statics;
