//! A `fabricd` of a test, and a control connection to it.

use crate::process::{PATIENCE, Process, Running, Test};
use crate::tools;
use angara_abi::JobId;
use angara_abi::job::{Barrier, Collectives};
use angara_protocol::launch::CONTROL_SOCKET;
use angara_protocol::msg::{Event, Failure, JobSpec, Line, Map, Path, Reply, Report, Request, Status};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::{self, PathBuf};
use std::time::{Duration, Instant};

/// A running daemon. Killed when dropped.
pub struct Daemon {
    pub process: Running,
    dir: PathBuf,
}

impl Daemon {
    /// Starts `fabricd` in the test's runtime directory, where `angara run` finds it, and waits
    /// until it says that its sockets are ready.
    pub fn start(test: &Test, args: &[&str]) -> Daemon {
        Daemon::start_after(test, ":", args)
    }
    /// The same in a shell that has done `before`, such as `ulimit -n 64`.
    pub fn start_after(test: &Test, before: &str, args: &[&str]) -> Daemon {
        let dir = test.runtime_dir();
        let mut command = test.after(before, tools::tool("fabricd"));
        command.arg("--runtime-dir").arg(&dir).args(args);
        let process = test.spawn(command);
        // Readiness is one JSON line.
        process.expect_line("{");
        Daemon { process, dir }
    }
    /// Its runtime directory.
    pub fn dir(&self) -> &path::Path {
        &self.dir
    }
    /// A new control connection.
    pub fn control(&self) -> Control {
        Control::connect(&self.dir)
    }
    /// Its state.
    pub fn status(&self) -> Status {
        self.control().status()
    }
    /// Asks it to end, checks that it does so cleanly and removes its sockets.
    pub fn shutdown(self) {
        self.control().ask(&Request::Shutdown).expect("a daemon obeys");
        self.process.wait(PATIENCE).success();
        for name in [CONTROL_SOCKET, angara_protocol::launch::ADAPTER_SOCKET, angara_protocol::launch::LOCK_FILE] {
            assert!(!self.dir.join(name).exists(), "{name} survived the shutdown");
        }
    }
    /// Its main process.
    pub fn pid(&self) -> Process {
        self.process.process()
    }
}

/// A job specification with small memory and everything else as `angara run` has it by default.
pub fn spec(pes: u32, path: Path) -> JobSpec {
    JobSpec {
        pes,
        ppn: 1,
        map: Map::Linear,
        heap: 1 << 20,
        heap_may_shrink: false,
        registered: 0,
        path,
        barrier: Barrier::Auto,
        collectives: Collectives::Auto,
        name: "test".into(),
        alloc: None,
        open: false,
        heterogeneous: false,
    }
}

/// A control connection.
pub struct Control {
    stream: BufReader<UnixStream>,
    /// Events that arrived between replies.
    pub events: Vec<Event>,
}

/// A job as its creator knows it.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: JobId,
    pub key: String,
    /// Node of each PE.
    pub placement: Vec<u32>,
}

impl Control {
    /// Connects to the daemon of `dir`.
    pub fn connect(dir: &path::Path) -> Control {
        let path = dir.join(CONTROL_SOCKET);
        let stream = UnixStream::connect(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket takes a timeout");
        Control { stream: BufReader::new(stream), events: Vec::new() }
    }
    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }
    /// The connection as a stream, after an answer that made it one.
    pub fn into_stream(self) -> UnixStream {
        assert!(self.stream.buffer().is_empty(), "something of the stream has been read");
        self.stream.into_inner()
    }
    /// The next line, or `None` when the daemon closed the connection.
    pub fn line(&mut self) -> Option<Line> {
        let mut text = String::new();
        match self.stream.read_line(&mut text) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&text).unwrap_or_else(|e| panic!("daemon said {text:?}: {e}"))),
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => None,
            Err(e) => panic!("no answer from the daemon within {PATIENCE:?}: {e}"),
        }
    }
    /// The next reply; events go aside.
    pub fn reply(&mut self) -> Option<Reply> {
        loop {
            match self.line()? {
                Line::Reply(reply) => return Some(reply),
                Line::Event(event) => self.events.push(event),
            }
        }
    }
    /// Asks and waits for the answer.
    pub fn ask(&mut self, request: &Request) -> Result<Reply, Failure> {
        let mut text = serde_json::to_vec(request).expect("plain data");
        text.push(b'\n');
        self.send(&text).expect("the daemon reads its control socket");
        match self.reply().unwrap_or_else(|| panic!("the daemon closed the connection after {request:?}")) {
            Reply::Error(failure) => Err(failure),
            reply => Ok(reply),
        }
    }
    /// Gives a fault command, read for the daemon's network.
    pub fn fault(&mut self, text: &str) -> Result<Reply, Failure> {
        let shape = self.status().shape;
        let command = angara_net::fault::Command::parse(text, &shape).unwrap_or_else(|e| panic!("{e}"));
        self.ask(&Request::Fault { command })
    }
    /// The next event that `wanted` accepts.
    pub fn event(&mut self, wanted: impl Fn(&Event) -> bool) -> Event {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.events.iter().position(&wanted) {
                return self.events.remove(at);
            }
            assert!(Instant::now() < end, "no such event within {PATIENCE:?}; got {:?}", self.events);
            match self.line() {
                Some(Line::Event(event)) => self.events.push(event),
                Some(Line::Reply(reply)) => panic!("unexpected {reply:?}"),
                None => panic!("the daemon closed the connection"),
            }
        }
    }
    /// Daemon, nodes, jobs.
    pub fn status(&mut self) -> Status {
        match self.ask(&Request::Status).expect("status is always answered") {
            Reply::Status(status) => status,
            other => panic!("unexpected {other:?}"),
        }
    }
    /// Creates a job owned by this connection.
    pub fn create(&mut self, spec: JobSpec) -> Result<Job, Failure> {
        match self.ask(&Request::JobCreate(spec))? {
            Reply::Job { job, key, placement, .. } => Ok(Job { id: job, key, placement }),
            other => panic!("unexpected {other:?}"),
        }
    }
    /// Traffic of a job, pairs of PEs included.
    pub fn report(&mut self, job: JobId) -> Report {
        let mut report = match self.ask(&Request::JobReport { job }).expect("the job exists") {
            Reply::Report(report) => report,
            other => panic!("unexpected {other:?}"),
        };
        let mut next = Some((0, 0));
        while let Some((from, to)) = next {
            match self.ask(&Request::JobPairs { job, from, to }).expect("the job exists") {
                Reply::Pairs(more) => {
                    report.pairs.extend(more.pairs);
                    next = more.next;
                }
                other => panic!("unexpected {other:?}"),
            }
        }
        report
    }
    /// Ends a job.
    pub fn destroy(&mut self, job: JobId) {
        self.ask(&Request::JobDestroy { job }).expect("the job exists");
    }
    /// Limits how long the daemon may take to read and to answer.
    pub fn set_patience(&mut self, limit: Duration) {
        self.stream.get_ref().set_write_timeout(Some(limit)).expect("a socket takes a timeout");
        self.stream.get_ref().set_read_timeout(Some(limit)).expect("a socket takes a timeout");
        self.stream.get_ref().set_write_timeout(Some(limit)).expect("a socket takes a timeout");
    }
}
