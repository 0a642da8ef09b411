//! Watching a running job: processes, messages of the daemon, signals, the timeout.

use super::options::{Options, PesAs};
use super::outcome::{Cause, Seen, decide, exit_code};
use super::place::Place;
use super::plan::JobPlan;
use super::processes::spawn::{End, Processes};
use super::unattached;
use crate::mpi::library::LibraryKind;
use angara_abi::JobId;
use angara_control::signals::{Signals, Wish};
use angara_protocol::msg::{Event, Wait};
use angara_protocol::print::show_pes;
use rustix::process::Signal;
use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

/// After a failure, other messages about it arrive within this time.
const SETTLE: Duration = Duration::from_millis(100);
/// A PE that left without finalize may be the last line of a job that ends anyway.
const LOST: Duration = Duration::from_secs(1);
/// How long the process of such a PE may take to end, on a busy machine, and so to say why it left.
const LEAVES: Duration = Duration::from_secs(10);
/// Time between asking processes to end and killing them.
const GRACE: Duration = Duration::from_secs(1);
/// The same where a `mpirun` ends the processes, which gives them a time of its own, and then tidies up.
const MPIRUN_GRACE: Duration = Duration::from_secs(8);
/// How long the daemon may take to say what PEs wait for, before the job ends without that.
const ASK: Duration = Duration::from_secs(1);
/// The same after shmem_global_exit, whose caller may have much to do before it has ended.
const EXIT_GRACE: Duration = Duration::from_secs(10);
/// How long killed processes may take to be gone, those of other hosts included.
const GONE: Duration = Duration::from_secs(15);

/// How far along the end of a job is.
enum Phase {
    Running,
    /// Something failed; at the instant the reason is decided.
    Settling(Instant),
    /// Processes were asked to end; at the instant they are killed.
    Ending(Instant),
    /// They were killed; at the instant those that nothing was heard of are given up.
    Killed(Instant),
}

struct Watch<'a> {
    processes: &'a mut Processes,
    place: &'a mut Place,
    plan: &'a JobPlan,
    job: JobId,
    phase: Phase,
    seen: Vec<Seen>,
    /// When the first PE has left without a word.
    lost: Option<Instant>,
    clean_exits: HashSet<u32>,
    cause: Option<Cause>,
    /// A PE has ended the program in order.
    orderly: bool,
}

/// Waits until every process has ended, or was killed and given up. Returns why the job failed, if it did.
pub(super) async fn supervise(
    processes: &mut Processes,
    place: &mut Place,
    job: JobId,
    (args, plan): (&Options, &JobPlan),
    signals: &mut Signals,
    output: &mut oneshot::Receiver<std::io::Result<()>>,
    failed: Result<Option<Seen>, Cause>,
) -> Option<Cause> {
    let mut watch = Watch {
        processes,
        place,
        plan,
        job,
        phase: Phase::Running,
        seen: Vec::new(),
        lost: None,
        clean_exits: HashSet::new(),
        cause: None,
        orderly: false,
    };
    match failed {
        Ok(None) => {}
        Ok(Some(why)) => {
            watch.seen.push(why);
            watch.settle(SETTLE);
        }
        Err(cause) => watch.end(cause).await,
    }
    let limit = args.timeout.map(|t| (t, Instant::now() + t));
    let mut output_open = true;
    while !watch.processes.all_done() {
        let timer = match watch.phase {
            Phase::Running => limit.map(|t| t.1),
            Phase::Settling(at) | Phase::Ending(at) | Phase::Killed(at) => Some(at),
        };
        let alive = watch.place.alive;
        tokio::select! {
            biased;
            Some((pe, end)) = watch.processes.next_end() => watch.ended(pe, end).await,
            wish = signals.next() => watch.wish(wish, signals).await,
            event = watch.place.control.event(), if alive => watch.event(event).await,
            result = &mut *output, if output_open => {
                output_open = false;
                if let Ok(Err(e)) = result {
                    watch.end(Cause::unwritten(e).unwrap_or(Cause::OutputClosed)).await;
                }
            }
            () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => match watch.phase {
                Phase::Running => {
                    let (running, waits) = watch.waits().await;
                    watch.end(Cause::Timeout(limit.map_or(0.0, |t| t.0.as_secs_f64()), running, waits)).await;
                }
                Phase::Settling(_) => watch.settled().await,
                Phase::Ending(_) => watch.kill().await,
                Phase::Killed(_) => {
                    watch.give_up();
                    break;
                }
            },
        }
    }
    watch.last_words().await;
    // Open MPI's mpirun does not tell.
    let in_mpi = watch.processes.in_mpi() || plan.mpi.library.as_ref().is_some_and(|l| l.kind == LibraryKind::OpenMpi);
    if watch.cause.is_none() {
        watch.cause = unattached::at_the_end(watch.place, job, (args, plan), in_mpi).await.map(Cause::Unattached);
    }
    watch.cause
}

impl Watch<'_> {
    /// A failure was noticed: decide why after `wait`, or earlier if already waiting for less.
    fn settle(&mut self, wait: Duration) {
        let at = Instant::now() + wait;
        self.phase = match self.phase {
            Phase::Running => Phase::Settling(at),
            Phase::Settling(earlier) => Phase::Settling(earlier.min(at)),
            Phase::Ending(at) => Phase::Ending(at),
            Phase::Killed(at) => Phase::Killed(at),
        };
    }

    async fn settled(&mut self) {
        match decide(&self.seen) {
            // How its process ends says more.
            Some(Cause::Lost(pe, _)) if self.is_leaving(pe) => {
                self.phase = Phase::Settling(Instant::now() + SETTLE);
            }
            Some(cause) => self.end(cause).await,
            None => self.phase = Phase::Running,
        }
    }

    /// True while the process of a PE that has left is still there, for at most [`LEAVES`].
    fn is_leaving(&self, pe: u32) -> bool {
        self.lost.is_some_and(|lost| lost.elapsed() < LEAVES) && self.processes.still_running().contains(&pe)
    }

    /// Asks every process to end. The first cause is the one that is reported.
    async fn end(&mut self, cause: Cause) {
        if self.cause.is_none() {
            self.cause = Some(cause);
            self.processes.signal(Signal::TERM).await;
            // A stopped process acts on SIGTERM only when it goes on.
            self.processes.signal(Signal::CONT).await;
            let grace = match self.processes.by_mpirun() {
                _ if self.orderly => EXIT_GRACE,
                true => MPIRUN_GRACE,
                false => GRACE,
            };
            self.phase = Phase::Ending(Instant::now() + grace);
        }
    }

    async fn kill(&mut self) {
        self.processes.signal(Signal::KILL).await;
        // An agent that does not listen ends everything when its stream does.
        self.processes.release_hosts();
        if !matches!(self.phase, Phase::Killed(_)) {
            self.phase = Phase::Killed(Instant::now() + GONE);
        }
    }

    /// Says which processes may be left, and waits for them no more.
    fn give_up(&mut self) {
        let left = self.processes.give_up();
        let left = left.iter().map(|(host, pes)| {
            let place = host.as_ref().map_or("this host".into(), |host| format!("host {host}"));
            format!("{} on {place}", show_pes(pes))
        });
        let left = left.collect::<Vec<_>>().join(", ");
        angara_protocol::complain!(
            "angara: {left} did not end within {GONE:?} of being killed; look for what is left there"
        );
    }

    async fn ended(&mut self, pe: u32, end: End) {
        let status = match end {
            End::Exit(status) => status,
            End::NotStarted(why) => {
                self.seen.push(Seen::NotStarted(pe, why));
                return self.settle(SETTLE);
            }
            End::Lost(host) => {
                if self.cause.is_none() {
                    self.seen.push(Seen::OtherHalf(host));
                    self.settle(SETTLE);
                }
                return;
            }
            End::Aborted(status, why) => {
                self.seen.push(Seen::Abort(pe, status, why));
                return self.settle(SETTLE);
            }
            End::LeftMpi => {
                self.seen.push(Seen::LeftMpi(pe));
                return self.settle(LOST);
            }
            End::WantsMore => {
                angara_protocol::complain!(
                    "angara: PE {pe} asks for more processes (MPI_Comm_spawn), which a job does not get; start all of them with -n"
                );
                return;
            }
            End::EntersMpi => {
                let spare = self.place.private.as_ref().and_then(|private| private.pid());
                if let Some(why) = unattached::library(self.plan, spare) {
                    self.end(Cause::Unattached(why)).await;
                }
                return;
            }
            End::Together(status) => {
                if status.success() {
                    // Every rank has left with 0.
                    self.seen.retain(|s| !matches!(s, Seen::Lost(..)));
                } else if self.cause.is_none() {
                    self.seen.push(Seen::Together(status));
                    self.settle(SETTLE);
                }
                return;
            }
        };
        if status.success() {
            self.clean_exits.insert(pe);
        } else if self.cause.is_none() {
            self.seen.push(Seen::Exit(pe, status));
            self.settle(SETTLE);
        }
        debug_assert!(status.success() || exit_code(status) != 0);
    }

    /// PEs that still run, and what those of them wait for that do.
    async fn waits(&mut self) -> (Vec<u32>, Vec<Wait>) {
        let running = self.processes.still_running();
        let waits = timeout(ASK, self.place.waits(self.job)).await.unwrap_or_default();
        (running, waits)
    }

    async fn wish(&mut self, wish: Wish, signals: &mut Signals) {
        match wish {
            Wish::End(_) if self.cause.is_some() => self.kill().await,
            Wish::End(signal) => {
                let found = tokio::select! {
                    found = self.waits() => Some(found),
                    _ = signals.next() => None,
                };
                let hurry = found.is_none();
                let (running, waits) = found.unwrap_or_default();
                self.end(Cause::Signal(signal, running, waits)).await;
                if hurry {
                    self.kill().await;
                }
            }
            Wish::Stop => self.processes.stop().await,
        }
    }

    async fn event(&mut self, event: Option<Event>) {
        match event {
            None => {
                self.place.alive = false;
                // A daemon in one process with its PEs goes because of how one of them has ended, if it has said so before.
                let told =
                    |s: &Seen| matches!(s, Seen::Exit(_, status) if status.signal() != Some(Signal::KILL.as_raw()));
                let explained = self.plan.pes_as == PesAs::Coroutines && self.seen.iter().any(told);
                if self.cause.is_none() && !explained {
                    let pid = self.place.pid;
                    let why = match &mut self.place.private {
                        Some(private) => private.failed("went away").await.message,
                        None => format!("the daemon (pid {pid}) went away"),
                    };
                    self.end(Cause::Daemon(why)).await;
                }
            }
            Some(Event::Abort { pe, status, reason, orderly, .. }) => {
                self.orderly |= orderly;
                self.seen.push(Seen::Abort(pe, status, reason));
                self.settle(SETTLE);
            }
            Some(Event::PeLost { pe, finalized, .. }) => {
                self.seen.push(Seen::Lost(pe, finalized));
                self.lost.get_or_insert_with(Instant::now);
                // It says itself how the rank has ended, and ends the others.
                self.settle(if self.processes.by_mpirun() { MPIRUN_GRACE } else { LOST });
            }
            Some(Event::HostLost { host, reason, .. }) => {
                self.seen.push(Seen::Host(host, reason));
                self.settle(SETTLE);
            }
            Some(Event::DaemonEnds { reason, .. }) => {
                self.place.alive = false;
                self.end(Cause::Daemon(format!("the daemon (pid {}) {reason}", self.place.pid))).await;
            }
            Some(Event::WentOn { absence, .. }) => self.place.absent.tell(absence).await,
            Some(Event::ChannelError { pe, reason, .. }) => {
                angara_protocol::complain!("angara: the adapter stopped serving PE {pe}: {reason}");
            }
        }
    }

    /// All processes have ended. The daemon's words about it may still be on their way; without a
    /// failing exit a lost connection alone means nothing: every process left with code 0.
    async fn last_words(&mut self) {
        let unexplained =
            |s: &Seen| matches!(s, Seen::Exit(..) | Seen::NotStarted(..) | Seen::OtherHalf(_) | Seen::Together(_));
        let explained = |s: &Seen| matches!(s, Seen::Abort(..) | Seen::Host(..));
        let until = Instant::now() + SETTLE;
        while self.place.alive
            && self.cause.is_none()
            && self.seen.iter().any(unexplained)
            && !self.seen.iter().any(explained)
        {
            tokio::select! {
                event = self.place.control.event() => self.event(event).await,
                () = sleep_until(until) => break,
            }
        }
        if self.cause.is_some() {
            if self.plan.pes_as == PesAs::Coroutines && self.place.alive {
                // It may have ended with its PEs; then nothing more is asked of it.
                let ended = timeout(SETTLE, async { while self.place.control.event().await.is_some() {} }).await;
                self.place.alive = ended.is_err();
            }
            return;
        }
        self.seen.retain(|s| !matches!(s, Seen::Lost(pe, _) | Seen::LeftMpi(pe) if self.clean_exits.contains(pe)));
        self.cause = decide(&self.seen);
    }
}
