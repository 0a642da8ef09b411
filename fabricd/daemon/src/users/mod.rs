//! The users of a daemon: who they are ([`accounts`]), what each has right now ([`usage`]), and what one may have
//! ([`quota`]).

pub(crate) mod accounts;
pub mod quota;
pub(crate) mod usage;
