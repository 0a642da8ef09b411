//! Why a job ended, what to say about it, and the exit code.

use angara_control::error::Failed;
use angara_control::waits::wait_lines;
use angara_net::torus::{NodeId, Shape};
use angara_protocol::launch::ENDED_WITH_JOB;
use angara_protocol::msg::Wait;
use angara_protocol::print::show_pes;
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Something that may be the reason for a failure, in the order it was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A PE's process ended with a failure.
    Exit(u32, ExitStatus),
    /// A PE asked to end the job: shmem_global_exit, or an error the library met.
    Abort(u32, i32, String),
    /// A PE left the job without finalize, or after it (true) while others went on.
    Lost(u32, bool),
    /// A host with PEs of the job does not answer any more; why.
    Host(String, String),
    /// The launcher's other half on a host ended, without a word about the PEs there.
    OtherHalf(String),
    /// A PE could not be started; why.
    NotStarted(u32, String),
    /// A PE has left MPI while others wait for it.
    LeftMpi(u32),
    /// The mpirun that has started all PEs failed.
    Together(ExitStatus),
}

/// Why a job ended before all PEs had left with exit code 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Cause {
    /// A PE's process failed.
    Exit(u32, ExitStatus),
    /// A PE ended the job.
    Abort(u32, i32, String),
    /// A PE left the job without finalize, or after it (true), while others went on.
    Lost(u32, bool),
    /// A host was lost.
    Host(String, String),
    /// The user ended it, with the same as below.
    Signal(i32, Vec<u32>, Vec<Wait>),
    /// `--timeout`, with the PEs that still ran and what those of them wait for that do.
    Timeout(f64, Vec<u32>, Vec<Wait>),
    /// The daemon went away.
    Daemon(String),
    /// Nobody takes our output any more.
    OutputClosed,
    /// Our output cannot be written; why.
    Output(String),
    /// A PE could not be started.
    Spawn(u32, String),
    /// A PE has left MPI while others wait for it.
    LeftMpi(u32),
    /// The mpirun that has started all PEs failed.
    Together(ExitStatus),
    /// Nothing of the job has reached the network, or could; why.
    Unattached(Failed),
}

/// How a process ends that is told to end, or notices that its job has: as by SIGTERM.
fn is_told(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::TERM.as_raw()) || status.code() == Some(ENDED_WITH_JOB)
}

/// Chooses the reason among what was noticed within a moment. When one PE fails, others fail
/// because of it, and the messages race. A host that was lost explains everything else, a PE that could not be started
/// all but that. A process killed by a signal is never a consequence, unless that was SIGTERM: those told to end are
/// the reason only if there is no other. A lost connection before any request to end names the PE the others ran into;
/// otherwise the first one counts. A PE that asked to end the job and then exits is one failure, not two.
pub fn decide(seen: &[Seen]) -> Option<Cause> {
    let told = |s: &Seen| matches!(s, Seen::Exit(_, status) if is_told(*status));
    let others: Vec<Seen> = seen.iter().filter(|s| !told(s)).cloned().collect();
    decide_among(if others.is_empty() { seen } else { &others })
}

fn decide_among(seen: &[Seen]) -> Option<Cause> {
    let aborted = |pe: u32| seen.iter().find(|s| matches!(s, Seen::Abort(p, ..) if *p == pe));
    let failed = |pe: u32| seen.iter().find(|s| matches!(s, Seen::Exit(p, _) if *p == pe));
    let cause = |s: &Seen| match s {
        Seen::Exit(pe, status) => match aborted(*pe) {
            Some(Seen::Abort(pe, status, why)) => Cause::Abort(*pe, *status, why.clone()),
            _ => Cause::Exit(*pe, *status),
        },
        Seen::Abort(pe, status, why) => Cause::Abort(*pe, *status, why.clone()),
        Seen::Lost(pe, finalized) => Cause::Lost(*pe, *finalized),
        Seen::Host(host, why) => Cause::Host(host.clone(), why.clone()),
        Seen::OtherHalf(host) => Cause::Host(host.clone(), "its launcher's other half ended".into()),
        Seen::NotStarted(pe, why) => Cause::Spawn(*pe, why.clone()),
        Seen::LeftMpi(pe) => Cause::LeftMpi(*pe),
        Seen::Together(status) => Cause::Together(*status),
    };
    let left = |s: &Seen| matches!(s, Seen::Lost(..) | Seen::LeftMpi(_));
    let explains: [fn(&Seen) -> bool; 3] =
        [|s| matches!(s, Seen::Host(..)), |s| matches!(s, Seen::OtherHalf(_)), |s| matches!(s, Seen::NotStarted(..))];
    if let Some(first) = explains.iter().find_map(|e| seen.iter().find(|s| e(s))) {
        return Some(cause(first));
    }
    // A process may crash on its way out after it has asked to end the job, as MPICH's do.
    let killed = |s: &&Seen| matches!(s, Seen::Exit(pe, status) if status.signal().is_some() && aborted(*pe).is_none());
    if let Some(killed) = seen.iter().find(killed) {
        return Some(cause(killed));
    }
    let first = seen.iter().find(|s| !matches!(s, Seen::Exit(..)));
    if let Some(Seen::Lost(pe, _) | Seen::LeftMpi(pe)) = first
        && let Some(exit) = failed(*pe)
    {
        return Some(cause(exit));
    }
    // Of a rank that leaves both the daemon and the server of MPI take notice; the latter knows what it has left out.
    let without_finalize = || seen.iter().find(|s| matches!(s, Seen::LeftMpi(_)));
    seen.iter().find(|s| !left(s)).or_else(without_finalize).or(seen.first()).map(cause)
}

impl Cause {
    /// Returns what failed to be written to standard output; nothing if its reader had seen enough.
    pub fn unwritten(error: std::io::Error) -> Option<Cause> {
        let closed = error.kind() == std::io::ErrorKind::BrokenPipe;
        (!closed).then(|| Cause::Output(error.to_string()))
    }

    /// Exit code of the launcher.
    pub fn code(&self) -> u8 {
        match self {
            Cause::Exit(_, status) | Cause::Together(status) => exit_code(*status),
            Cause::Abort(_, 0, _) => 0,
            Cause::Abort(_, status, _) => (*status as u8).max(1),
            Cause::Signal(signal, ..) => 128 + *signal as u8,
            Cause::Timeout(..) => 124,
            Cause::OutputClosed => 128 + 13,
            Cause::Lost(..) | Cause::LeftMpi(_) | Cause::Host(..) => 1,
            Cause::Unattached(why) => why.code,
            Cause::Daemon(_) | Cause::Spawn(..) | Cause::Output(_) => 1,
        }
    }

    /// One sentence, naming PE, node and reason; `None` where nothing needs saying.
    pub fn explain(&self, shape: Shape, placement: &[NodeId]) -> Option<String> {
        let who = |pe: &u32| match placement.get(*pe as usize) {
            Some(node) => format!("PE {pe} on node ({})", shape.show(shape.coords(*node))),
            None => format!("PE {pe}"),
        };
        Some(match self {
            Cause::Exit(pe, status) => match (status.signal(), status.code()) {
                (Some(signal), _) => format!(
                    "{} was killed by signal {signal}{}{}; the job was ended",
                    who(pe),
                    signal_name(signal),
                    if status.core_dumped() { ", core dumped" } else { "" }
                ),
                (None, code) => format!("{} exited with code {}; the job was ended", who(pe), code.unwrap_or(1)),
            },
            Cause::Abort(_, 0, _) => return None,
            Cause::Abort(pe, status, why) if why.is_empty() => {
                format!("{} ended the job with status {status}", who(pe))
            }
            Cause::Abort(pe, status, why) => format!("{} ended the job with status {status}: {why}", who(pe)),
            Cause::Lost(pe, true) => {
                format!("{} exited after shmem_finalize while others waited for it; the job was ended", who(pe))
            }
            Cause::Lost(pe, false) => {
                format!(
                    "{} left the job without shmem_finalize (or MPI_Finalize) while others went on; the job was ended",
                    who(pe)
                )
            }
            Cause::LeftMpi(pe) => {
                format!("{} ended without MPI_Finalize while others went on; the job was ended", who(pe))
            }
            // It has said itself which rank it was.
            Cause::Together(status) => match status.signal() {
                Some(signal) => format!("mpirun was killed by signal {signal}{}", signal_name(signal)),
                None => format!("mpirun ended with code {}", exit_code(*status)),
            },
            Cause::Host(host, why) => format!("host {host} was lost: {why}; the job was ended"),
            Cause::Signal(signal, running, waits) => {
                // A job that hangs is often ended like this.
                let why = if waits.is_empty() { String::new() } else { waiting(running, waits) };
                format!("ended by signal {signal}{}{why}", signal_name(*signal))
            }
            Cause::Timeout(seconds, running, waits) => format!(
                "--timeout {seconds} s is over; still running: {}; the job was ended{}",
                show_pes(running),
                waiting(running, waits)
            ),
            Cause::Unattached(Failed { message, remedy, .. }) => format!("{message}\nangara: try: {remedy}"),
            Cause::Daemon(why) => format!("{why}; the job was ended"),
            Cause::OutputClosed => return None,
            Cause::Output(why) => format!("cannot write to standard output: {why}; the job was ended"),
            Cause::Spawn(pe, why) => format!("cannot start {}: {why}; the job was ended", who(pe)),
        })
    }
}

/// [`wait_lines`] behind a first line.
fn waiting(running: &[u32], waits: &[Wait]) -> String {
    wait_lines(running, waits).iter().map(|line| format!("\nangara: {line}")).collect()
}

/// The exit code a shell would show.
pub fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128 + signal as u8,
        (None, None) => 1,
    }
}

/// ` (SIGSEGV, segmentation fault)`, or nothing for an unusual one.
fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP, terminal closed)",
        2 => " (SIGINT, interrupted)",
        3 => " (SIGQUIT, quit)",
        4 => " (SIGILL, illegal instruction)",
        5 => " (SIGTRAP, breakpoint)",
        6 => " (SIGABRT, aborted)",
        7 => " (SIGBUS, bus error)",
        8 => " (SIGFPE, arithmetic error)",
        9 => " (SIGKILL, killed, perhaps out of memory)",
        11 => " (SIGSEGV, segmentation fault)",
        13 => " (SIGPIPE, broken pipe)",
        15 => " (SIGTERM, terminated)",
        24 => " (SIGXCPU, CPU time limit)",
        31 => " (SIGSYS, forbidden system call)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(n: i32) -> ExitStatus {
        ExitStatus::from_raw(n << 8)
    }
    fn killed(n: i32) -> ExitStatus {
        ExitStatus::from_raw(n)
    }

    #[test]
    fn the_first_failure_counts_unless_it_is_a_consequence() {
        use Seen::*;
        let why = || "unreachable".to_string();
        assert_eq!(decide(&[]), None);
        assert_eq!(decide(&[Exit(2, code(7)), Exit(0, code(1))]), Some(Cause::Exit(2, code(7))));
        // shmem_global_exit(3): the exit is seen before the daemon's message.
        assert_eq!(decide(&[Exit(2, code(3)), Abort(2, 3, why())]), Some(Cause::Abort(2, 3, why())));
        // PE 5 segfaults; PE 1 notices and aborts, and its message comes first.
        assert_eq!(
            decide(&[Lost(5, false), Abort(1, 1, why()), Exit(1, code(1)), Exit(5, killed(11))]),
            Some(Cause::Exit(5, killed(11)))
        );
        // The same where PE 1, which has noticed, crashes after its message.
        let crashed = [Lost(5, false), Abort(1, 15, why()), Exit(1, killed(11)), Exit(5, killed(9))];
        assert_eq!(decide(&crashed), Some(Cause::Exit(5, killed(9))));
        // PE 5 exits with 7 without finalize; PE 1 runs into it.
        assert_eq!(
            decide(&[Exit(1, code(1)), Lost(5, false), Abort(1, 1, why()), Exit(5, code(7))]),
            Some(Cause::Exit(5, code(7)))
        );
        // The same, noticed by the server of MPI; with 0 nothing else explains why others wait.
        assert_eq!(decide(&[LeftMpi(5), Exit(5, code(7))]), Some(Cause::Exit(5, code(7))));
        assert_eq!(decide(&[LeftMpi(5)]), Some(Cause::LeftMpi(5)));
        assert_eq!(decide(&[Lost(5, false), LeftMpi(5)]), Some(Cause::LeftMpi(5)));
        assert_eq!(decide(&[Lost(1, false), Together(code(7))]), Some(Cause::Together(code(7))));
        // Those that are told to end, or notice that the job has ended, are not why.
        for end in [killed(15), code(143)] {
            assert_eq!(decide(&[Exit(0, end), Exit(5, killed(9))]), Some(Cause::Exit(5, killed(9))));
            assert_eq!(decide(&[Lost(1, false), Exit(0, end)]), Some(Cause::Lost(1, false)));
            assert_eq!(decide(&[Exit(3, end)]), Some(Cause::Exit(3, end)), "somebody has told it");
        }
        // PE 5 leaves with 0 and without finalize; the PE that ran into it says so.
        assert_eq!(decide(&[Lost(5, false), Abort(1, 1, why())]), Some(Cause::Abort(1, 1, why())));
        assert_eq!(decide(&[Lost(5, true)]), Some(Cause::Lost(5, true)));
        // The agents of a host that is shut down: all that is seen of its PEs comes of that.
        let host = |why: &str| Host("h1".into(), why.into());
        let all = [Exit(3, killed(9)), NotStarted(2, why()), OtherHalf("h1".into()), host("its daemon was shut down")];
        assert_eq!(decide(&all), Some(Cause::Host("h1".into(), "its daemon was shut down".into())));
        assert_eq!(decide(&all[..2]), Some(Cause::Spawn(2, why())));
    }

    #[test]
    fn exit_codes_are_the_programs() {
        assert_eq!(Cause::Exit(0, code(7)).code(), 7);
        assert_eq!(Cause::Exit(0, killed(11)).code(), 139);
        assert_eq!(Cause::Together(code(7)).code(), 7);
        assert_eq!(Cause::Abort(0, 0, String::new()).code(), 0);
        assert_eq!(Cause::Abort(0, 256, String::new()).code(), 1);
        assert_eq!(Cause::Signal(2, vec![], vec![]).code(), 130);
    }

    #[test]
    fn messages_name_pe_node_and_reason() {
        let shape: Shape = "2x2x2".parse().unwrap();
        let placement: Vec<u32> = (0..8).collect();
        let text = |c: Cause| c.explain(shape, &placement);
        assert_eq!(
            text(Cause::Exit(3, code(7))).unwrap(),
            "PE 3 on node (1,1,0) exited with code 7; the job was ended"
        );
        assert!(
            text(Cause::Exit(5, killed(11))).unwrap().contains("PE 5 on node (1,0,1) was killed by signal 11 (SIGSEGV")
        );
        assert_eq!(
            text(Cause::Timeout(1.5, vec![1], vec![])).unwrap(),
            "--timeout 1.5 s is over; still running: PE 1; the job was ended\nangara: PE 1 did not wait in the library"
        );
        let wait = |pe, seconds, what: &str| Wait { pe, seconds, what: what.into(), looks: 0 };
        let waits = vec![wait(0, 1.0, "shmem_barrier_all: all PEs"), wait(1, 1.2, "x == 5"), wait(7, 1.25, "x == 5")];
        assert_eq!(
            text(Cause::Timeout(1.5, vec![0, 1, 2, 7], waits)).unwrap(),
            "--timeout 1.5 s is over; still running: PEs 0-2,7; the job was ended\n\
             angara: PEs 1,7 waited for 1.2 s: x == 5\n\
             angara: PE 0 waited for 1.0 s: shmem_barrier_all: all PEs\n\
             angara: PE 2 did not wait in the library"
        );
        assert_eq!(text(Cause::Abort(1, 0, "x".into())), None);
        assert_eq!(text(Cause::Signal(2, vec![0, 1], vec![])).unwrap(), "ended by signal 2 (SIGINT, interrupted)");
        assert_eq!(
            text(Cause::Signal(2, vec![0, 1], vec![wait(1, 0.5, "x == 5")])).unwrap(),
            "ended by signal 2 (SIGINT, interrupted)\n\
             angara: PE 1 waited for 0.5 s: x == 5\n\
             angara: PE 0 did not wait in the library"
        );
    }
}
