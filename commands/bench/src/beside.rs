//! A put beside another job that transfers without end: what `--beside K` measures.
//!
//! Both jobs run on one daemon, on the ring path. The neighbour's first PE and the measured one share a node, and so do
//! their targets, so everything on the way is shared: the data plane, the host interface, every link.

use super::pair::end;
use super::shmem::{HEAP, Library};
use angara_cli::shared::WhereArgs;
use angara_control::error::Failed;
use angara_launch::example::Temporary;
use angara_net::torus::Shape;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// How long the daemon and the neighbour may take to start.
const LIMIT: Duration = Duration::from_secs(30);

/// The daemon and the neighbour. They end with it.
struct Neighbour {
    /// In the order in which they are to end.
    children: Vec<Child>,
    dir: Temporary,
}

impl Neighbour {
    fn start(bin: &Path, fabricd: &Path, program: &Path, streams: u32) -> Result<Neighbour, Failed> {
        let dir = Temporary::new(&format!("bench-beside-{streams}"))?;
        let at = dir.0.join("daemon");
        let shape = Shape::most_cubic(2 * streams as usize).dims().iter().map(u8::to_string).collect::<Vec<_>>();
        let mut daemon = Command::new(fabricd);
        daemon.args(["--torus", &shape.join("x"), "--runtime-dir"]).arg(&at).stderr(Stdio::null());
        let mut neighbour = Neighbour { children: Vec::new(), dir };
        neighbour.add(daemon, "fabricd")?;
        let mut job = Command::new(bin.join("angara"));
        job.args(["run", "-q", "--path", "ring", "--heap", HEAP, "-np", &(2 * streams).to_string(), "--runtime-dir"]);
        // It is ended in the middle of its work, and would say so.
        job.arg(&at).arg(program).arg("stream").stderr(Stdio::null());
        neighbour.add(job, "the neighbour")?;
        // PE 0 of the neighbour transfers to PE `streams`; PEs are placed in order on an empty daemon.
        std::fs::write(neighbour.dir.0.join("map"), format!("0\n{streams}\n"))
            .map_err(|e| failed("the map of PEs", &format!("cannot be written: {e}")))?;
        Ok(neighbour)
    }

    /// Starts a program and waits until it says that it works.
    fn add(&mut self, mut command: Command, name: &str) -> Result<(), Failed> {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child.map_err(|e| failed(name, &format!("cannot be started: {e}")))?;
        let out = child.stdout.take().expect("requested above");
        self.children.insert(0, child);
        first_line(out, name)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.children.iter_mut().for_each(end);
    }
}

/// Waits for a line of output.
fn first_line(out: ChildStdout, name: &str) -> Result<(), Failed> {
    let timeout = Timespec { tv_sec: LIMIT.as_secs() as i64, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&out, PollFlags::IN)], Some(&timeout));
    if !matches!(ready, Ok(n) if n > 0) {
        return Err(failed(name, &format!("says nothing after {} s", LIMIT.as_secs())));
    }
    match BufReader::new(out).read_line(&mut String::new()) {
        Ok(n) if n > 0 => Ok(()),
        _ => Err(failed(name, "ended before it was ready")),
    }
}

fn failed(name: &str, what: &str) -> Failed {
    Failed::runtime(format!("{name} {what}"), "try `fabricd --torus 2` and `angara run -n 2` by themselves")
}

/// Measures the spread of a put with its quiet beside `streams` PEs of another job; samples as the program prints them.
pub(super) fn measure(
    bin: &Path,
    fabricd: &Path,
    program: &Path,
    streams: u32,
    time: u32,
    limit: Duration,
) -> Result<String, String> {
    let neighbour = Neighbour::start(bin, fabricd, program, streams).map_err(|e| e.message)?;
    let at = WhereArgs { runtime_dir: Some(neighbour.dir.0.join("daemon")) };
    let mut library = Library::ours(bin, program, "ring", &at);
    let map = neighbour.dir.0.join("map");
    library.launch.extend(["--map".into(), format!("file:{}", map.display()).into()]);
    let (text, _) = library.run(2, &[time.to_string(), "spread".into()], limit)?;
    let lines = text.lines().filter(|line| line.starts_with("sample "));
    Ok(lines.map(|line| format!("{line} beside {streams}\n")).collect())
}
