//! Clocks of the hosts that are captured together: what their time stamps lack to ours.

use super::session::Where;
use crate::notes::clocks::Look;
use angara_control::daemon::{Control, unexpected};
use angara_control::error::Failed;
use angara_protocol::msg::{Reply, Request};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Looks at a clock, one after the other, of which the fastest counts.
const LOOKS: usize = 8;
/// Time between two such rows: clocks drift apart by some microseconds in each second.
const PAUSE: Duration = Duration::from_secs(10);

/// Corrections of the hosts' time stamps, to be added, ns.
pub(super) type Lacks = Arc<Vec<AtomicI64>>;

/// Correction of another host's clock to ours, and its possible error, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lack {
    pub(super) ns: i64,
    pub(super) error: u64,
}

impl Lack {
    /// From a look in which the other one's time was `theirs` when ours was about in the middle. A clock that agrees with ours
    /// as well as can be seen lacks nothing.
    fn of(look: Look) -> Lack {
        let (ours, theirs) = (i128::from(look.there), i128::from(look.here));
        let ns = (ours - theirs).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        Lack { ns: if ns.unsigned_abs() <= look.error { 0 } else { ns }, error: look.error }
    }
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Looks at the clock of a host.
pub(super) async fn look(control: &mut Control, host: &str) -> Result<Lack, Failed> {
    let mut best: Option<Look> = None;
    for _ in 0..LOOKS {
        let asked = now();
        let theirs = match control.request(&Request::Clock { host: host.into() }).await? {
            Reply::Clock { ns } => ns,
            other => return Err(unexpected(&other)),
        };
        let look = Look::between(asked, now(), theirs);
        best = Some(best.filter(|best| best.error <= look.error).unwrap_or(look));
    }
    Ok(Lack::of(best.expect("there are some looks")))
}

/// Looks again and again, until this is dropped.
pub(super) struct Looks(#[expect(dead_code, reason = "its end ends the task")] JoinSet<()>);

impl Looks {
    /// At the clocks of these hosts but the first, whose clock is ours.
    pub(super) fn begin(at: Where<'_>, hosts: Vec<String>, lacks: Lacks) -> Result<Looks, Failed> {
        let mut tasks = JoinSet::new();
        for (number, host) in hosts.into_iter().enumerate().skip(1) {
            let (mut control, lacks) = (Control::connect(at.dir)?, lacks.clone());
            tasks.spawn(async move {
                loop {
                    sleep(PAUSE).await;
                    // A host that is lost has no more packets.
                    let Ok(lack) = look(&mut control, &host).await else { return };
                    lacks[number].store(lack.ns, Ordering::Relaxed);
                }
            });
        }
        Ok(Looks(tasks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_agrees_is_left_alone() {
        let look = |there, here| Lack::of(Look { there, here, error: 10 });
        assert_eq!(look(1000, 1009), Lack { ns: 0, error: 10 });
        assert_eq!(look(1000, 1011).ns, -11);
        assert_eq!(look(1011, 1000).ns, 11);
        assert_eq!(look(u64::MAX, 0).ns, i64::MAX);
    }
}
