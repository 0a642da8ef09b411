//! `angara-pes`: what `angara run --pes-as coroutines` starts in place of a private daemon. It is that daemon, and all PEs of the
//! job are in it: the data plane's thread lets one after the other run, each on a stack of its own.
//!
//! | module | what is in it |
//! |---|---|
//! | `link` | the socket to the launcher |
//! | `turns` | the PEs, and how they are let run |
//! | `desk` | what PEs call on their own stacks |
//! | `lines` | lines of the program |
//! | `output` | what they write |
//! | `watch` | a PE that does not come back |
//! | `farewell` | the end where it cannot be left |

#![cfg(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu"))]

mod desk;
mod farewell;
mod lines;
mod link;
mod output;
mod turns;
mod watch;

use angara_abi::program_clock::preloaded;
use angara_abi::shm::Arena;
use angara_cluster::args::Args;
use angara_protocol::inside::{StartPes, ToPes};
use fabricd::config::{log_filter, resolve};
use fabricd::inside::{Images, Inside, Wish};
use fabricd::{Options, Ready, log, run_around};
use farewell::Farewell;
use link::Link;
use rustix::process::{Signal, getpid};
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock, mpsc};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use turns::{Seated, Turns};
use watch::Watched;

/// Exit status for bad usage.
const USAGE: u8 = 2;
/// Bytes of addresses that are reserved at first, and at least: a system may allow less. None of it takes memory.
const ARENA: [usize; 2] = [32 << 40, 1 << 30];

/// Where the daemon's log goes.
static LOG: OnceLock<File> = OnceLock::new();

/// Runs the daemon and the PEs that the socket asks for; returns the exit status.
pub fn main() -> ExitCode {
    // The program's clocks are virtual, not this process's own.
    if let Some(clock) = preloaded() {
        clock.becomes_real();
    }
    let (socket, log_file) = match link::inherited() {
        Ok(inherited) => inherited,
        Err(why) => return fail(&why, USAGE),
    };
    let _ = LOG.set(log_file);
    angara_cluster::signals::survive_file_size_limit();
    let args = match Args::of_this_process() {
        Ok(args) => args,
        Err(e) => return fail(&e, USAGE),
    };
    let options = match resolve(&args) {
        Ok(options) => Options { ready: Ready::Silent, ..options },
        Err(e) => return fail(&e, USAGE),
    };
    let (filter, _) = log_filter(&args);
    let writer = || -> log::Writer {
        LOG.get().map_or_else(|| Box::new(std::io::stderr()) as log::Writer, |file| Box::new(file))
    };
    if let Err(e) = log::start(&filter, false, writer, false) {
        return fail(&e, USAGE);
    }
    match serve(options, socket) {
        Ok(()) => ExitCode::SUCCESS,
        Err((why, code)) => fail(&why, code),
    }
}

fn fail(why: &dyn std::fmt::Display, code: u8) -> ExitCode {
    angara_protocol::complain!("angara-pes: {why}");
    ExitCode::from(code)
}

fn reserve() -> std::io::Result<Arc<Arena>> {
    let mut bytes = ARENA[0];
    loop {
        match Arena::reserve(bytes) {
            Err(_) if bytes > ARENA[1] => bytes /= 2,
            reserved => return reserved,
        }
    }
}

fn serve(options: Options, socket: UnixStream) -> Result<(), (String, u8)> {
    let failed = |what: &str, e: std::io::Error| (format!("{what}: {e}"), 1);
    let arena = reserve().map_err(|e| failed("cannot reserve addresses (see `ulimit -v`)", e))?;
    let link = Link::new(&socket).map_err(|e| failed("cannot use the socket", e))?;
    let (wishes, incoming) = unbounded_channel();
    let (tell, seated) = mpsc::channel();
    let watched = Arc::new(Watched::new());
    let farewell = Arc::new(Farewell::new(link.clone(), watched.clone(), &options.runtime_dir));
    let copies = farewell.copies.clone();
    let turns =
        Turns { seated, wishes: wishes.clone(), link: link.clone(), watched: watched.clone(), copies, made: None };
    let inside = Inside { coroutines: Box::new(turns), arena: arena.clone(), wishes: incoming };
    let (runtime_dir, patience) = (options.runtime_dir.clone(), options.virtual_time.and_then(|v| v.patience.0));
    let (watch, ends) = (watched.clone(), farewell.clone());
    thread("watch", move || watch.watch(patience, |why| ends.take_turn(why, 1 << 8)))?;
    signalled(farewell.clone())?;
    let ready = link.clone();
    thread("launcher", move || {
        link::hear(socket, |word| match word {
            ToPes::Start(start) => begin(*start, &wishes, &link, &tell, (&arena, &runtime_dir)),
            ToPes::Signal(libc::SIGSTOP) => drop(rustix::process::kill_process(getpid(), Signal::STOP)),
            ToPes::Signal(libc::SIGCONT) => {}
            ToPes::Signal(signal) => {
                watched.stop();
                farewell.take_turn("had not come back to the library when the job was ended", signal);
                for pe in link.all_end(signal) {
                    // A daemon that has gone knows.
                    let _ = wishes.send(Wish::Gone(pe, Box::new(|| ())));
                }
            }
        });
        // The launcher has gone, or has nothing more to say to PEs.
        farewell.after_the_daemon();
    })?;
    let result = run_around(options, Some(inside), move |_| ready.ready());
    result.map_err(|e| (e.to_string(), e.exit_code()))
}

/// Sees to it that a signal to this process ends it, as the launcher's death does: the daemon hears of both, and may have to wait
/// for a PE.
fn signalled(farewell: Arc<Farewell>) -> Result<(), (String, u8)> {
    let failed = |e: std::io::Error| (format!("cannot catch signals: {e}"), 1);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let entered = runtime.enter();
    let [mut terminated, mut hung_up] =
        [signal(SignalKind::terminate()).map_err(failed)?, signal(SignalKind::hangup()).map_err(failed)?];
    drop(entered);
    thread("signals", move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminated.recv() => {}
                _ = hung_up.recv() => {}
            }
        });
        farewell.after_the_daemon();
    })
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), (String, u8)> {
    let started = std::thread::Builder::new().name(name.into()).spawn(body);
    started.map(drop).map_err(|e| (format!("cannot start a thread: {e}"), 1))
}

/// Has all PEs seated, and the data plane make them.
fn begin(
    start: StartPes,
    wishes: &UnboundedSender<Wish>,
    link: &Link,
    tell: &mpsc::Sender<Seated>,
    (arena, runtime_dir): (&Arc<Arena>, &PathBuf),
) {
    let program = match turns::read(&start) {
        Ok(program) => program,
        Err((why, remedy)) => return link.refuse(why, remedy),
    };
    link.starts(start.pes);
    let layout = program.layout();
    let images = Images {
        segments: program.segments().iter().map(|s| s.len as u64).collect(),
        stride: layout.slice_bytes,
        first: layout.variables_at,
        align: layout.align,
    };
    let (reply, seats) = oneshot::channel();
    let wish = Wish::Seat { job: (start.job, start.key.clone()), images, reply };
    if wishes.send(wish).is_err() {
        return;
    }
    match seats.blocking_recv() {
        Ok(Ok(seats)) => {
            let (arena, runtime_dir) = (arena.clone(), runtime_dir.clone());
            // The data plane has ended if it does not listen.
            let _ = tell.send(Seated { start, program, seats, runtime_dir, arena });
        }
        Ok(Err(f)) => link.refuse(f.message, f.remedy),
        Err(_) => {}
    }
}
