//! `angara capture`: packets of a running daemon's network, for Wireshark.

use crate::shared::WhereArgs;
use angara_abi::JobId;
use angara_abi::packet::Vc;
use angara_control::daemon::{Control, block_on, runtime_dir};
use angara_control::error::Failed;
use angara_control::signals::{Signals, Wish};
use angara_protocol::msg::CaptureSpec;
use angara_recordings::capture::{PacketFile, STDOUT, Session, WHOLE, Where};
use clap::Args;
use rustix::process::{Signal, getpid, kill_process};
use std::io::IsTerminal;
use std::path::PathBuf;

const EXAMPLES: &str = "\
EXAMPLES:
  angara capture -w - | wireshark -k -i -
  angara capture --link 0,0,0+X --count 1000 -w link.pcapng
  angara run -n 8 --capture heat.pcapng ./heat2d

Ctrl-C ends a capture and completes its file. Wireshark reads the packets with the dissector angara.lua.";

/// Arguments of `angara capture`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CaptureArgs {
    /// File to write, in the format pcapng; - is standard output, for a pipe
    #[arg(short, long = "write", value_name = "FILE.pcapng|-")]
    write: PathBuf,
    /// Only packets of this job [default: of your jobs; root and the daemon's user: of all]
    #[arg(long, value_name = "JOB")]
    job: Option<JobId>,
    /// Only packets on the link that leaves a node in a direction, such as 0,0,0+X
    #[arg(long, value_name = "LINK", allow_hyphen_values = true)]
    link: Option<String>,
    /// Only packets at this node and on links from and to it: coordinates such as 1,0,0, or a number
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Only packets on this virtual channel: response, request, adaptive, up, down, or 0 to 4
    #[arg(long, value_name = "VC", value_parser = channel)]
    vc: Option<u8>,
    /// Bytes kept of each packet: 16 of header, its payload, 16 of tail
    #[arg(long, value_name = "N", default_value_t = WHOLE)]
    snaplen: u32,
    /// Number of packets to end after
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Of a cluster: only packets that the host of this daemon hears of [default: all hosts that can be reached]
    #[arg(long)]
    here: bool,
    /// Say nothing but what went wrong
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    at: WhereArgs,
}

/// A virtual channel by name or number.
fn channel(text: &str) -> Result<u8, String> {
    let named = Vc::ALL.into_iter().find(|vc| format!("{vc:?}").eq_ignore_ascii_case(text));
    let number = || text.parse().ok().and_then(Vc::from_bits);
    let found = named.or_else(number).map(|vc| vc as u8);
    found.ok_or_else(|| "use response, request, adaptive, up, down, or 0 to 4".into())
}

/// Captures until there are enough packets, a signal comes, the job ends or the reader goes.
pub(crate) fn main(args: CaptureArgs) -> Result<u8, Failed> {
    let to_stdout = args.write.as_os_str() == STDOUT;
    if to_stdout && std::io::stdout().is_terminal() {
        let what = "-w - writes packets to standard output, which is a terminal";
        return Err(Failed::usage(what, "pipe it: angara capture -w - | wireshark -k -i -"));
    }
    block_on(async {
        let mut signals = Signals::new()?;
        let dir = runtime_dir(&args.at.runtime_dir);
        let mut control = Control::connect(&dir)?;
        let status = control.status().await?;
        let file = PacketFile::create(&args.write)?;
        let CaptureArgs { job, link, node, vc, snaplen, .. } = args;
        let spec = CaptureSpec { job, link, node, vc, snaplen, host: None };
        let at = Where { dir: &dir, everywhere: !args.here };
        let mut session = Session::begin(control, &status, at, spec, file, args.count).await?;
        if !args.quiet {
            angara_protocol::complain!("angara: capturing; Ctrl-C ends it");
        }
        let ended = loop {
            tokio::select! {
                ended = session.wait() => break ended,
                wish = signals.next() => match wish {
                    Wish::End(_) => break session.stop().await,
                    // Stop as the signal would if nobody had caught it.
                    Wish::Stop => drop(kill_process(getpid(), Signal::STOP)),
                },
            }
        };
        ended.tell(args.quiet);
        ended.failed.map_or(Ok(0), Err)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_read_by_name_and_number() {
        for (text, vc) in [("response", 0), ("Request", 1), ("2", 2), ("up", 3), ("4", 4)] {
            assert_eq!(channel(text), Ok(vc));
        }
        assert!(channel("5").is_err() && channel("vc0").unwrap_err().contains("adaptive"));
    }
}
