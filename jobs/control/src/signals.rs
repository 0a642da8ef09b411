//! Signals the launcher acts on.

use crate::error::Failed;
use angara_cluster::signals::ignored_signals;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT, SIGTERM, SIGHUP and SIGQUIT end the job, SIGTSTP stops it.
pub struct Signals {
    streams: Vec<(i32, Signal)>,
    /// A child whose stop counts as ours, and what tells of it.
    child: Option<(Pid, Signal)>,
}

/// Meaning of a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// End the job; the signal's number.
    End(i32),
    /// Stop it, as Ctrl-Z does.
    Stop,
}

/// Number of SIGTSTP on Linux.
const TSTP: i32 = 20;

/// Takes over signal `number`.
fn take_over(number: i32) -> Result<Signal, Failed> {
    signal(SignalKind::from_raw(number))
        .map_err(|e| Failed::runtime(format!("cannot handle signal {number}: {e}"), "report this as a defect"))
}

impl Signals {
    /// Takes over the signals, except those the parent told us to ignore (nohup).
    pub fn new() -> Result<Signals, Failed> {
        Signals::of(&[2, 15, 1, 3, TSTP])
    }

    /// The same without SIGTSTP, which then stops this process as it does any other.
    pub fn ends() -> Result<Signals, Failed> {
        Signals::of(&[2, 15, 1, 3])
    }

    fn of(numbers: &[i32]) -> Result<Signals, Failed> {
        let ignored = ignored_signals();
        let mut streams = Vec::new();
        for &number in numbers {
            if ignored >> (number - 1) & 1 == 0 {
                streams.push((number, take_over(number)?));
            }
        }
        Ok(Signals { streams, child: None })
    }

    /// From now on a stop of `child`, which has the terminal, is a wish to stop.
    pub fn watch(&mut self, child: Pid) -> Result<(), Failed> {
        self.child = Some((child, take_over(SignalKind::child().as_raw_value())?));
        Ok(())
    }

    /// The next signal. May be cancelled.
    pub async fn next(&mut self) -> Wish {
        std::future::poll_fn(|cx| {
            if let Some((child, stream)) = &mut self.child {
                // Registered first, so that a stop after the look below is not missed.
                while stream.poll_recv(cx).is_ready() {}
                let look = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
                if let Ok(Some(_)) = waitid(WaitId::Pid(*child), look) {
                    return std::task::Poll::Ready(Wish::Stop);
                }
            }
            for (number, stream) in &mut self.streams {
                if stream.poll_recv(cx).is_ready() {
                    return std::task::Poll::Ready(if *number == TSTP { Wish::Stop } else { Wish::End(*number) });
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}
