//! Several threads in calls, where time is virtual: one at a time makes calls, in order, and who waits stands while others go on.
//! So it stands only where it has none of its library's locks. MPICH yields there, at every look. Open MPI does not: it has
//! none where it reads a completion queue.

use super::one::provider;
use crate::provider::Provider;
use std::sync::MutexGuard;

/// The calling thread yields, in a call that returns only when something comes.
pub(super) extern "C" fn yields() {
    let stands = || {
        let mut provider = provider();
        let call = provider.state.here.job.adapter().blocking_call();
        if provider.state.looks.yields(call) {
            stand(provider);
        }
    };
    // A yield has no way to say that it failed; the next look does.
    let _ = std::panic::catch_unwind(stands);
}

/// A completion queue was read in vain: the calling thread stands if it is to, and has no better place for that.
#[inline]
pub(crate) fn stand_if_it_is_to(provider: MutexGuard<'static, Provider>) {
    if provider.state.looks.is_to_stand() {
        stand_unless_it_yields(provider);
    }
}

#[cold]
fn stand_unless_it_yields(provider: MutexGuard<'static, Provider>) {
    let call = provider.state.here.job.adapter().blocking_call();
    if provider.state.looks.stands_without_yield(call) {
        stand(provider);
    }
}

fn stand(mut one: MutexGuard<'static, Provider>) {
    let Some((stander, call, might_go_on)) = one.begin_to_stand() else { return };
    drop(one);
    // Meanwhile it is the turn of others.
    let stood = stander.stand(might_go_on, &|| provider().state.under_way().what_it_waits_for());
    provider().is_back(call, stood);
}
