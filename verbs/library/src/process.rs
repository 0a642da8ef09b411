//! The adapters of this process.

use crate::cm::desk;
use crate::entry::events;
use angara_hca::{Errno, Result};
use std::sync::Once;

pub(crate) use angara_verbs_process::Adapter;

/// All adapters of this process, which are taken at the first call. Why there are none is said once.
pub(crate) fn adapters() -> Result<&'static [&'static Adapter]> {
    static SAID: Once = Once::new();
    angara_verbs_process::deliver_with(|adapter, mut events| {
        desk::deliver(adapter, &mut events);
        events::deliver(adapter, events);
    });
    angara_verbs_process::tick_with(desk::tick);
    angara_verbs_process::adapters().map_err(|why| {
        SAID.call_once(|| angara_protocol::complain!("angara: no RDMA adapter: {why}"));
        Errno::NODEV
    })
}
