//! Starting the launcher's other half, which runs a job's programs here for a launcher on another host.

use super::protocol::Tell;
use crate::daemon::Daemon;
use crate::failure::failure;
use crate::jobs::job::unknown;
use crate::users::accounts::{self, Identity};
use angara_abi::JobId;
use angara_net::HostId;
use angara_protocol::modes::{AGENT, USER};
use angara_protocol::msg::Failure;
use rustix::process::{Pid, Signal, kill_process};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// Bytes of its complaints that are logged.
const COMPLAINT: u64 = 2048;
/// How long it may take to end what it has started.
const ENDING: Duration = Duration::from_secs(10);
/// Where everything is looked for that names no directory.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

impl Daemon {
    /// Starts the launcher's other half for the PEs of a job that live here, as the job's user.
    pub(crate) async fn start_agent(self: &Rc<Self>, from: HostId, id: JobId, stream: u64) -> Result<(), Failure> {
        let user = self.jobs.table.borrow().get(&id).map(|j| (j.uid, j.user.clone()));
        let (uid, name) = user.ok_or_else(|| unknown(id))?;
        let identity = accounts::identity(uid, name.as_deref()).await?;
        let launcher = launcher()?;
        let mut child = command(&launcher, identity.as_ref(), &self.options.runtime_dir).spawn().map_err(|e| {
            failure(
                format!("cannot start {}: {e}", launcher.display()),
                "install the angara command beside fabricd; see `ulimit -u`",
            )
        })?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut input), Some(output), Some(mut errors)) = pipes else {
            return Err(failure("the launcher has no pipes", "see `ulimit -n`"));
        };
        tracing::info!(job = id.number(), uid, user = name.unwrap_or_default(), "starting programs for another host");
        let mut incoming = self.cluster.streams.open(stream, from);
        let daemon = self.clone();
        let half = OtherHalf {
            job: id,
            uid,
            pid: child.id().and_then(|id| Pid::from_raw(id as i32)),
            own: identity.is_none(),
        };
        tokio::task::spawn_local(async move {
            let Some(messages) = &daemon.cluster.messages else { return };
            let feed = async {
                while let Some(bytes) = incoming.recv().await {
                    if input.write_all(&bytes).await.is_err() {
                        break;
                    }
                    daemon.cluster.streams.take(messages, stream, bytes.len());
                }
                // Its end tells the agent to end everything.
                drop(input);
                half.must_end().await;
            };
            let mut complaint = Vec::new();
            let listen = async {
                // What cannot be read is missing in the log, no more.
                let _ = (&mut errors).take(COMPLAINT).read_to_end(&mut complaint).await;
                let _ = tokio::io::copy(&mut errors, &mut tokio::io::sink()).await;
            };
            let speak = async {
                daemon.cluster.streams.send_all(messages, stream, output).await;
                daemon.cluster.streams.close(stream);
            };
            tokio::select! {
                () = feed => {
                    // It is its user's process now, to be continued or killed by her.
                    messages.tell(&[from], &Tell::StreamEnd(stream));
                    return daemon.cluster.streams.close(stream);
                }
                _ = async { tokio::join!(listen, speak) } => {}
            }
            let status = child.wait().await.map_or_else(|e| e.to_string(), |s| s.to_string());
            half.log_end(&status, &complaint);
        });
        Ok(())
    }
}

/// A launcher's other half that runs.
struct OtherHalf {
    job: JobId,
    uid: u32,
    pid: Option<Pid>,
    /// It is of this daemon's user. Somebody else's may have become any program of hers, which root's signals must not reach.
    own: bool,
}

impl OtherHalf {
    fn signal(&self, signal: Signal) {
        // Fails only if it is already gone; it has not been waited for, so the number is nobody else's.
        if let Some(pid) = self.pid.filter(|_| self.own) {
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits for its end, which somebody else notices. Returns if it does not end, and may not be killed.
    async fn must_end(&self) {
        // While it is stopped it cannot end.
        self.signal(Signal::CONT);
        tokio::time::sleep(ENDING).await;
        let (job, uid, pid, own) = (self.job.number(), self.uid, self.pid, self.own);
        tracing::warn!(job, uid, ?pid, own, "the launcher's other half did not end within {ENDING:?}");
        if own {
            // The kernel kills its PEs with it.
            self.signal(Signal::KILL);
            std::future::pending::<()>().await;
        }
    }

    fn log_end(&self, status: &str, complaint: &[u8]) {
        let said = String::from_utf8_lossy(complaint);
        if !said.is_empty() || !status.ends_with(": 0") {
            let (job, uid) = (self.job.number(), self.uid);
            tracing::warn!(job, uid, %status, said = said.trim(), "the launcher's other half had trouble");
        }
    }
}

/// The command line of the other half, run by this daemon's user or as somebody else.
fn command(launcher: &Path, identity: Option<&Identity>, runtime_dir: &Path) -> Command {
    let mut command = Command::new(launcher);
    match identity {
        None => command.process_group(0),
        // Nothing of root's: environment, directory, and (done over there) session and terminal.
        Some(user) => command.arg(USER).args(user.words()).env_clear().env("PATH", PATH).current_dir("/"),
    };
    command
        .arg(AGENT)
        .env(angara_protocol::launch::ENV_RUNTIME_DIR, runtime_dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// The `angara` command, which lies beside this program.
fn launcher() -> Result<PathBuf, Failure> {
    let here = std::env::current_exe().ok();
    // A replaced executable is shown with a suffix; the new one is as good.
    let dir = here.as_deref().and_then(Path::parent);
    let file = dir.map(|d| d.join("angara")).filter(|f| f.is_file());
    file.ok_or_else(|| failure("the angara command is not beside fabricd", "install both in one directory"))
}
