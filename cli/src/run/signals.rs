//! Signals the launcher acts on.

use crate::error::Failed;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT, SIGTERM, SIGHUP and SIGQUIT end the job, SIGTSTP stops it.
pub(crate) struct Signals {
    streams: Vec<(i32, Signal)>,
}

/// What a signal means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// End the job; the signal's number.
    End(i32),
    /// Stop it, as Ctrl-Z does.
    Stop,
}

/// Number of SIGTSTP on Linux.
const TSTP: i32 = 20;

impl Signals {
    /// Takes over the signals, except those the parent told us to ignore (nohup).
    pub(crate) fn new() -> Result<Signals, Failed> {
        let ignored = ignored_signals();
        let mut streams = Vec::new();
        for number in [2, 15, 1, 3, TSTP] {
            if ignored >> (number - 1) & 1 == 0 {
                let stream = signal(SignalKind::from_raw(number)).map_err(|e| {
                    Failed::runtime(format!("cannot handle signal {number}: {e}"), "report this as a defect")
                })?;
                streams.push((number, stream));
            }
        }
        Ok(Signals { streams })
    }

    /// The next signal. May be cancelled.
    pub(crate) async fn next(&mut self) -> Wish {
        std::future::poll_fn(|cx| {
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

/// Bit n-1 is set if signal n is ignored.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0)
}
