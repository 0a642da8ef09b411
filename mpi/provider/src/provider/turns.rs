//! Several threads in calls, where time is virtual: one at a time makes calls, in order, and who waits stands while others go on.
//! So it stands only where it has none of its library's locks. MPICH yields there, at every look. Open MPI does not: it has
//! none where it reads a completion queue.

use super::{Provider, VAIN_OPEN_MPI};
use crate::process;
use std::sync::MutexGuard;

/// After so many looks in vain a call that has not yielded will not.
const NEVER_YIELDS: u32 = 4 * VAIN_OPEN_MPI;

/// The calling thread yields, in a call that returns only when something comes.
pub(super) extern "C" fn yields() {
    let stands = || {
        let mut provider = process::provider();
        let call = provider.state.job.adapter().blocking_call();
        provider.state.yields_in = call;
        if provider.state.is_to_stand && call == Some(provider.state.vain_in) {
            stand(provider);
        }
    };
    // A yield has no way to say that it failed; the next look does.
    let _ = std::panic::catch_unwind(stands);
}

/// A completion queue was read in vain: the calling thread stands if it is to, and has no better place for that.
#[inline]
pub(crate) fn stand_if_it_is_to(provider: MutexGuard<'static, Provider>) {
    if provider.state.is_to_stand {
        stand_unless_it_yields(provider);
    }
}

#[cold]
fn stand_unless_it_yields(provider: MutexGuard<'static, Provider>) {
    let state = &provider.state;
    let call = state.job.adapter().blocking_call();
    let yields = state.yields_in == call && (state.in_doubt || state.vain < NEVER_YIELDS);
    if call == Some(state.vain_in) && !yields {
        stand(provider);
    }
}

fn stand(mut provider: MutexGuard<'static, Provider>) {
    let (call, in_doubt) = (provider.state.vain_in, provider.state.in_doubt);
    (provider.state.is_to_stand, provider.state.vain) = (false, 0);
    let Some(stander) = provider.mailbox.stander() else { return };
    drop(provider);
    // Meanwhile it is the turn of others.
    let stood = stander.stand(!in_doubt, &|| process::provider().state.what_it_waits_for());
    let mut provider = process::provider();
    provider.mailbox.see_who_has_freed();
    let state = &mut provider.state;
    state.ends_looks();
    (state.vain_in, state.vain, state.is_to_stand) = (call, 0, false);
    state.has_stood(stood);
}
