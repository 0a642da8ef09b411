//! Talking to `fabricd`: finding one, starting a private one, and the control connection.

pub mod web;

use crate::error::Failed;
use crate::exec::Exec;
use crate::install;
use angara_net::torus::Shape;
use angara_protocol::inside;
use angara_protocol::launch::{CONTROL_SOCKET, default_runtime_dir};
use angara_protocol::launch::{PRIVATE_PREFIX, private_parents};
use angara_protocol::msg::{Event, Line, Reply, Request, Status};
use angara_protocol::trust::{Distrust, TrustedDir};
use rustix::io::FdFlags;
use rustix::net::{SocketFlags, SocketType};
use rustix::process::{Resource, Signal, getrlimit};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

/// A daemon that does not answer for this long is taken for stuck.
const ANSWER: Duration = Duration::from_secs(60);
/// The same where the run is over, and only the user waits.
const HURRIED: Duration = Duration::from_secs(2);
/// Time for a private daemon to come up.
const START: Duration = Duration::from_secs(30);
/// Time for a private daemon to go down.
const STOP: Duration = Duration::from_secs(10);

/// A control connection.
pub struct Control {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    line: Vec<u8>,
    events: VecDeque<Event>,
    /// How long an answer may take.
    patience: Duration,
    /// An answer did not come in time: the next line would be that of an earlier request.
    stuck: bool,
}

impl Control {
    /// Connects to the daemon in `dir`; `None` if there is none.
    pub fn find(dir: &Path) -> Result<Option<Control>, Failed> {
        Self::find_trusted(dir)?.map_err(Failed::from)
    }

    /// As [`Control::find`]; the inner error is why whoever made `dir` is not to be believed.
    pub fn find_trusted(dir: &Path) -> Result<Result<Option<Control>, Distrust>, Failed> {
        let checked = match TrustedDir::open(dir) {
            Ok(checked) => checked,
            Err(Distrust::Missing { .. }) => return Ok(Ok(None)),
            Err(distrust) => return Ok(Err(distrust)),
        };
        let connected = checked
            .connect(CONTROL_SOCKET, SocketType::STREAM, SocketFlags::NONBLOCK)
            .and_then(|fd| UnixStream::from_std(fd.into()));
        match connected {
            Ok(stream) => {
                let (reader, writer) = stream.into_split();
                let reader = BufReader::new(reader);
                let (line, events) = (Vec::new(), VecDeque::new());
                Ok(Ok(Some(Control { reader, writer, line, events, patience: ANSWER, stuck: false })))
            }
            Err(e) if matches!(e.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused) => {
                Ok(Ok(None))
            }
            Err(e) => Err(Failed::runtime(
                format!("cannot connect to {}: {e}", dir.join(CONTROL_SOCKET).display()),
                "check the directory's owner and permissions (a service's belongs to the group angara), or give another --runtime-dir",
            )),
        }
    }

    /// Connects to the daemon in `dir` or fails.
    pub fn connect(dir: &Path) -> Result<Control, Failed> {
        Self::find(dir)?.ok_or_else(|| {
            Failed::runtime(
                format!("no daemon listens in {}", dir.display()),
                format!("start one: fabricd --torus 2x2x2 --runtime-dir {}", dir.display()),
            )
        })
    }

    /// The connection as a byte stream, after an answer that made it one.
    pub fn into_stream(self) -> (BufReader<OwnedReadHalf>, OwnedWriteHalf) {
        (self.reader, self.writer)
    }

    /// From now on answers are waited for a short time only: a signal or a limit has ended the run.
    pub fn hurry(&mut self) {
        self.patience = HURRIED;
    }

    /// An answer is missing, so that nothing more can be asked here.
    pub fn is_stuck(&self) -> bool {
        self.stuck
    }

    /// Sends a request and waits for its answer; events that come first are kept. To one that is given up on the way no other
    /// may follow: such a connection is to be closed.
    pub async fn request(&mut self, request: &Request) -> Result<Reply, Failed> {
        let no_answer = |patience: Duration| {
            Failed::runtime(
                format!("the daemon did not answer within {} s", patience.as_secs()),
                "look at its log, and whether it is stopped (SIGCONT); end it with `angara shutdown` or kill",
            )
        };
        let patience = self.patience;
        if std::mem::replace(&mut self.stuck, true) {
            return Err(no_answer(patience));
        }
        let mut text = serde_json::to_string(request).expect("requests are plain data");
        text.push('\n');
        let gone = || Failed::runtime("the daemon closed the control connection", "look at its log; start it again");
        let answer = async {
            // A daemon that does not serve this user closes at once, and has said why.
            let _ = self.writer.write_all(text.as_bytes()).await;
            loop {
                match self.next_line().await? {
                    None => return Err(gone()),
                    Some(Line::Event(event)) => self.events.push_back(event),
                    Some(Line::Reply(Reply::Error(failure))) => return Err(failure.into()),
                    Some(Line::Reply(reply)) => return Ok(reply),
                }
            }
        };
        let answered = timeout(patience, answer).await;
        self.stuck = answered.is_err();
        answered.unwrap_or_else(|_| Err(no_answer(patience)))
    }

    /// The next event; `None` once the connection is closed. May be cancelled and called again.
    pub async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            match self.next_line().await {
                Ok(Some(Line::Event(event))) => return Some(event),
                Ok(Some(Line::Reply(_))) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// The next of the events that came before an answer.
    pub fn known_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    async fn next_line(&mut self) -> Result<Option<Line>, Failed> {
        let read = self.reader.read_until(b'\n', &mut self.line).await;
        if !matches!(read, Ok(n) if n > 0) {
            return Ok(None);
        }
        let line = std::mem::take(&mut self.line);
        serde_json::from_slice(&line).map(Some).map_err(|e| {
            let start = String::from_utf8_lossy(&line[..line.len().min(80)]).into_owned();
            Failed::runtime(
                format!("the daemon sent a line this program does not understand ({e}): {start}"),
                "use a daemon and an angara command of the same version",
            )
        })
    }

    /// Asks for the status and checks that both sides speak the same language.
    pub async fn status(&mut self) -> Result<Status, Failed> {
        let status = match self.request(&Request::Status).await? {
            Reply::Status(status) => status,
            other => return Err(unexpected(&other)),
        };
        if status.abi != angara_abi::ABI_VERSION {
            return Err(Failed::runtime(
                format!(
                    "the daemon (pid {}, version {}) speaks ABI version {}, this program {}",
                    status.pid,
                    status.version,
                    status.abi,
                    angara_abi::ABI_VERSION
                ),
                "restart the daemon from the same build as this program",
            ));
        }
        Ok(status)
    }
}

/// An answer of the wrong kind.
pub fn unexpected(reply: &Reply) -> Failed {
    let text = serde_json::to_string(reply).unwrap_or_default();
    Failed::runtime(
        format!("the daemon gave an unexpected answer: {}", text.chars().take(80).collect::<String>()),
        "use a daemon and an angara command of the same version",
    )
}

/// Runs `future` on a runtime of its own: for commands that ask one thing and leave.
pub fn block_on<T>(future: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    runtime()?.block_on(future)
}

/// A single-threaded runtime. One thread matters: a PE is killed when the thread that started it dies.
pub fn runtime() -> Result<tokio::runtime::Runtime, Failed> {
    let failed =
        |e| Failed::runtime(format!("cannot set up event handling: {e}"), "raise the limit on open files (ulimit -n)");
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)
}

/// The directory a command looks in.
pub fn runtime_dir(given: &Option<PathBuf>) -> PathBuf {
    given.clone().unwrap_or_else(default_runtime_dir)
}

/// Where private daemons put their directories: short paths, because socket names are limited to 107 bytes.
pub fn private_parent() -> PathBuf {
    private_parents().into_iter().find(|dir| dir.as_os_str().len() < 60).unwrap_or_else(|| "/tmp".into())
}

/// A daemon that serves one run and ends with it.
pub struct Private {
    child: Child,
    /// Its runtime directory.
    pub dir: PathBuf,
    log: File,
    stopped: bool,
}

impl Private {
    /// Starts a daemon for `shape`, with more options, and waits until it listens.
    pub async fn start(shape: Shape, options: Vec<OsString>) -> Result<Private, Failed> {
        let file = install::fabricd()?;
        let mut own = Own::new(&file, shape, options)?;
        let log = own.log.try_clone().map_err(own.start())?;
        own.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = own.command.spawn().map_err(own.start())?;
        let ready = child.stdout.take().expect("requested above");
        let mut private = Private { child, dir: own.dir, log: own.log, stopped: false };
        let mut reader = BufReader::new(ready);
        private.is_ready(&mut reader).await?;
        // Keep the pipe open: a daemon that prints more must not be killed by SIGPIPE.
        tokio::spawn(async move { while matches!(reader.read_line(&mut String::new()).await, Ok(n) if n > 0) {} });
        Ok(private)
    }

    /// Starts a daemon that will have all PEs of a job in its own process, in this environment, and waits until it listens. It has
    /// `input`; its outputs are those of the PEs.
    pub async fn start_with_pes(
        shape: Shape,
        options: Vec<OsString>,
        env: &[(OsString, OsString)],
        input: Stdio,
    ) -> Result<(Private, WithPes), Failed> {
        let file = install::program_file(inside::PROGRAM)?;
        let mut own = Own::new(&file, shape, options)?;
        let (near, far) = std::os::unix::net::UnixStream::pair().map_err(own.start())?;
        // Inherited by this one alone: nothing else is started meanwhile.
        let (far, log) = (OwnedFd::from(far), OwnedFd::from(own.log.try_clone().map_err(own.start())?));
        for fd in [&far, &log] {
            rustix::io::fcntl_setfd(fd, FdFlags::empty()).map_err(|e| own.start()(e.into()))?;
        }
        let numbers = format!("{},{}", far.as_raw_fd(), log.as_raw_fd());
        own.command.envs(env.iter().map(|(name, value)| (name, value))).env(inside::ENV_DESCRIPTORS, numbers);
        own.command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = own.command.spawn().map_err(own.start())?;
        drop((far, log));
        let outputs = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (input, Some(out), Some(err)) = outputs else { unreachable!("requested above") };
        let stream = near.set_nonblocking(true).and_then(|()| UnixStream::from_std(near)).map_err(own.start())?;
        let (reader, writer) = stream.into_split();
        let mut private = Private { child, dir: own.dir, log: own.log, stopped: false };
        let mut reader = BufReader::new(reader);
        private.is_ready(&mut reader).await?;
        Ok((private, WithPes { reader, writer, input, out, err }))
    }

    /// Waits for the line that says that it listens.
    async fn is_ready(&mut self, from: &mut (impl AsyncBufRead + Unpin)) -> Result<(), Failed> {
        match timeout(START, from.read_line(&mut String::new())).await {
            Ok(Ok(1..)) => Ok(()),
            Ok(_) => Err(self.failed("ended before it was ready").await),
            Err(_) => Err(self.failed(&format!("was not ready within {} s", START.as_secs())).await),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Ends a daemon that misbehaves and says why, from its log.
    pub async fn failed(&mut self, what: &str) -> Failed {
        if timeout(Duration::from_millis(300), self.child.wait()).await.is_err() {
            let _ = self.child.start_kill();
        }
        let status = self.child.wait().await.map(|s| s.to_string()).unwrap_or_default();
        self.clean();
        let limit = getrlimit(Resource::Fsize).current;
        let remedy = match (self.log_tail(), limit) {
            (log, Some(bytes)) if log.is_empty() => {
                format!("raise the limit on file sizes (`ulimit -f`, {bytes} bytes): what it logs and shares are files")
            }
            (log, None) if log.is_empty() => "run `angara doctor` to see what this machine lacks".to_string(),
            (log, _) => format!("see what it said:\n{log}"),
        };
        Failed::runtime(format!("the private daemon {what} ({status})"), remedy)
    }

    /// The end of what it logged.
    fn log_tail(&mut self) -> String {
        let mut text = Vec::new();
        let _ = self.log.rewind().and_then(|()| self.log.read_to_end(&mut text));
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(10)..]
            .iter()
            .map(|l| format!("    {l}\n"))
            .collect::<String>()
            .trim_end()
            .into()
    }

    /// Waits for it to end after its control connection closed, and makes sure nothing is left.
    pub async fn stop(mut self) {
        // A stopped process ends only when it goes on.
        if let Some(pid) = self.child.id().and_then(|pid| rustix::process::Pid::from_raw(pid as i32)) {
            let _ = rustix::process::kill_process(pid, Signal::CONT);
        }
        if timeout(STOP, self.child.wait()).await.is_err() {
            angara_protocol::complain!("angara: the private daemon did not end by itself; killing it");
            let _ = self.child.start_kill();
            let _ = self.child.wait().await;
        }
        self.clean();
    }

    fn clean(&mut self) {
        self.stopped = true;
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        if !self.stopped {
            let _ = self.child.start_kill();
            self.clean();
        }
    }
}

/// The ends of a daemon with PEs in its process.
pub struct WithPes {
    /// Lines of [`inside::FromPes`].
    pub reader: BufReader<OwnedReadHalf>,
    /// For lines of [`inside::ToPes`].
    pub writer: OwnedWriteHalf,
    /// Standard input, if that was to be a pipe.
    pub input: Option<ChildStdin>,
    /// Standard output of all PEs.
    pub out: ChildStdout,
    /// Standard error of all PEs.
    pub err: ChildStderr,
}

/// A daemon of this run about to be started.
struct Own {
    file: PathBuf,
    command: tokio::process::Command,
    dir: PathBuf,
    log: File,
}

impl Own {
    fn new(file: &Path, shape: Shape, options: Vec<OsString>) -> Result<Own, Failed> {
        let dir = fresh_dir()?;
        let (option, sizes) = (if shape.is_torus() { "--torus" } else { "--mesh" }, shape.dims());
        let sizes = sizes.iter().map(u8::to_string).collect::<Vec<_>>().join("x");
        let mut argv: Vec<OsString> = [
            file.file_name().unwrap_or_default().into(),
            "--private".into(),
            option.into(),
            sizes.into(),
            "--runtime-dir".into(),
            dir.clone().into(),
        ]
        .into();
        argv.extend(options);
        // Its log goes to anonymous memory: nothing to clean up, and shown if it fails.
        let log = rustix::fs::memfd_create("fabricd-log", rustix::fs::MemfdFlags::CLOEXEC).map_err(|e| {
            Failed::runtime(
                format!("memfd_create: {e}: no memory can be shared here"),
                "use a kernel, sandbox or container that allows it; see `angara doctor`",
            )
        })?;
        // SIGTERM lets it remove what it made if this process is killed.
        let exec = Exec { death: Signal::TERM, cores: None, foreground: false, file, argv: &argv };
        let mut command = tokio::process::Command::from(exec.command());
        command.process_group(0);
        Ok(Own { file: file.into(), command, dir, log: File::from(log) })
    }

    /// What is said where it cannot be started.
    fn start(&self) -> impl Fn(std::io::Error) -> Failed + use<> {
        let file = self.file.clone();
        move |e| {
            Failed::runtime(
                format!("cannot start {}: {e}", file.display()),
                "check its permissions and the process limit (ulimit -u)",
            )
        }
    }
}

/// A directory name nobody can guess; the daemon creates it for its user alone.
fn fresh_dir() -> Result<PathBuf, Failed> {
    let parent = private_parent();
    let dir = parent.join(format!("{PRIVATE_PREFIX}{:016x}", random_number()?));
    // The daemon would have to be asked why it ended.
    std::fs::create_dir(&dir).and_then(|()| std::fs::remove_dir(&dir)).map_err(|e| {
        Failed::runtime(
            format!("no directory can be made in {}, which a private daemon needs: {e}", parent.display()),
            "set XDG_RUNTIME_DIR to a directory of yours that can be written to",
        )
    })?;
    Ok(dir)
}

/// A number nobody can guess.
pub fn random_number() -> Result<u64, Failed> {
    let mut random = [0u8; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).map_err(|e| {
        Failed::runtime(format!("no random numbers: {e}"), "check that the getrandom system call is allowed")
    })?;
    Ok(u64::from_le_bytes(random))
}
