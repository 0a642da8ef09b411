//! Notes of every call ([`record`], into a file, [`recorder`]) and of the program's own accesses ([`accesses`]), with the
//! line of the program that each comes from ([`caller`]).

pub(crate) mod accesses;
pub(crate) mod caller;
pub(crate) mod record;
pub(crate) mod recorder;
