//! `angara run`: a job from the first check to the last cleanup.
//!
//! 1. `options` turns the command line into a plan and finds the program;
//! 2. `place` finds a daemon whose torus fits, or starts a private one, and creates the job;
//! 3. `spawn` starts one process per PE through `exec`, on the cores `bind` chose, its output
//!    collected by `forward`;
//! 4. `supervise` waits for processes, daemon messages, signals and the timeout, and decides with
//!    `outcome` why the job ended;
//! 5. then everything is taken down: processes, the job, the private daemon, its directory.

pub mod absent;
mod faults;
pub mod host;
pub mod options;
pub mod outcome;
mod place;
pub mod plan;
pub mod processes;
mod supervise;
mod unattached;
pub mod user;

use crate::mpi::Start;
use crate::mpi::server::Server;
use angara_abi::JobId;
use angara_control::cores::Cores;
use angara_control::daemon::{self, Control};
use angara_control::error::{Failed, no_thread};
use angara_control::report::RunOptions;
use angara_control::report::{self, History, RunReport, Writer};
use angara_control::signals::{Signals, Wish};
use angara_net::torus::Shape;
use angara_protocol::launch::Launch;
use angara_protocol::msg::{CaptureSpec, Reply, Request, Status, VirtualStatus};
use angara_recordings::capture::{PacketFile, Session, WHOLE, Where};
use angara_recordings::notes::Notes;
use angara_recordings::trace::Trace;
use faults::Tolls;
use options::{Check, MapArg, Options, PesAs, Stay};
use outcome::{Cause, Seen};
use place::Place;
use plan::JobPlan;
use processes::forward::{Input, Output, copy_input};
use processes::program::Program;
use processes::spawn::{self, Processes};
use processes::terminal::Terminal;
use processes::{bind, inside, remote};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use supervise::supervise;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Checks what can be checked without running it.
pub fn check(args: &Options) -> Result<(), Failed> {
    JobPlan::new(args).map(drop)
}

/// Finds a program as `angara run` does.
pub fn find(program: &OsString) -> Result<(), Failed> {
    angara_control::program::find_program(program, std::env::var_os("PATH")).map(drop)
}

/// Runs a job; the result is the exit code.
pub fn main(args: Options) -> Result<u8, Failed> {
    let mut plan = JobPlan::new(&args)?;
    let terminal = args.debug.map(Terminal::new).transpose()?.flatten();
    if let Some(file) = &args.report {
        report::check_writable(file, "--report")?;
    }
    if let Some(file) = &args.record {
        report::check_writable(file, "--record")?;
    }
    let trace = args.trace.as_deref().map(|file| Trace::new(file, args.trace_links.unwrap_or(0)));
    let mut trace = trace.transpose()?;
    let races = args.check.contains(&Check::Races);
    plan.notes = note_calls(trace.as_ref(), races)?.map(Arc::new);
    plan.env.extend(plan.notes.iter().flat_map(|notes| notes.variables()));
    let packets = args.capture.as_deref().map(PacketFile::create).transpose()?;
    spawn::raise_file_limit(args.pes);
    // Orphans of the PEs become our children, so that none is left behind.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    daemon::runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let limit = Limit::new(&args);
        let found = tokio::select! {
            place = place::find(&args, &plan) => place,
            ended = limit.or_signal(&mut signals) => return ended.before_the_job(),
        };
        let place = found?;
        let shape = place.shape;
        let ended = run_on(place, &args, &plan, (&mut signals, limit), (terminal, packets, trace.as_mut())).await;
        let ended = both(ended, args.record.as_deref().map_or(Ok(()), plan::check_recorded));
        let Some(notes) = plan.notes.take() else { return ended };
        let noted = Noted { notes, trace, races, pes: args.pes, shape, quiet: args.quiet };
        noted.look(ended, &mut signals).await
    })
}

/// Until when a job is to have begun: waits for a daemon's answers end then, and at a signal.
#[derive(Clone, Copy)]
struct Limit(Option<(Duration, Instant)>);

/// What has ended a wait for an answer.
enum Ended {
    Signal(i32),
    Timeout(Duration),
}

impl Limit {
    fn new(args: &Options) -> Limit {
        Limit(args.timeout.map(|limit| (limit, Instant::now() + limit)))
    }

    async fn or_signal(self, signals: &mut Signals) -> Ended {
        let over = async {
            match self.0 {
                Some((limit, at)) => {
                    tokio::time::sleep_until(at).await;
                    limit
                }
                None => std::future::pending().await,
            }
        };
        tokio::pin!(over);
        loop {
            tokio::select! {
                wish = signals.next() => if let Wish::End(signal) = wish {
                    return Ended::Signal(signal);
                },
                limit = &mut over => return Ended::Timeout(limit),
            }
        }
    }
}

impl Ended {
    /// The exit code of a run whose job was not made.
    fn before_the_job(self) -> Result<u8, Failed> {
        match self {
            Ended::Signal(signal) => Ok(Cause::Signal(signal, Vec::new(), Vec::new()).code()),
            Ended::Timeout(limit) => Err(Failed {
                code: Cause::Timeout(0.0, Vec::new(), Vec::new()).code(),
                message: format!(
                    "the job was not made within {} s (--timeout): no daemon answered",
                    limit.as_secs_f64()
                ),
                remedy: "see whether fabricd is stopped, or searches for nodes; give --timeout more".into(),
            }),
        }
    }

    /// Why a job has failed whose PEs were being started.
    fn while_it_starts(self) -> Cause {
        match self {
            Ended::Signal(signal) => Cause::Signal(signal, Vec::new(), Vec::new()),
            Ended::Timeout(limit) => Cause::Timeout(limit.as_secs_f64(), Vec::new(), Vec::new()),
        }
    }
}

/// What is to be made of the calls that PEs have noted.
struct Noted {
    notes: Arc<Notes>,
    trace: Option<Trace>,
    races: bool,
    pes: u32,
    shape: Shape,
    quiet: bool,
}

impl Noted {
    /// Writes the timeline and looks for races, unless a signal ends it. `ended` is how the job did.
    async fn look(self, ended: Result<u8, Failed>, signals: &mut Signals) -> Result<u8, Failed> {
        let notes = self.notes.clone();
        let (tell, mut done) = oneshot::channel();
        let work = move || {
            let done = (self.write(), self.check());
            // Before the process can end: whoever drops the last of it removes the notes.
            drop(self);
            let _ = tell.send(done);
        };
        std::thread::Builder::new().name("notes".into()).spawn(work).map_err(no_thread)?;
        let (written, races) = loop {
            tokio::select! {
                done = &mut done => break done.map_err(|_| Failed::runtime("the notes of calls were too much", "report this as a defect"))?,
                wish = signals.next() => if let Wish::End(signal) = wish {
                    // The thread ends with the process.
                    notes.remove();
                    angara_protocol::complain!("angara: ended while it looked through the noted calls");
                    return Ok(Cause::Signal(signal, Vec::new(), Vec::new()).code());
                },
            }
        };
        match (races, both(ended, written)) {
            (Ok(0), ended) => ended,
            (Ok(_), Ok(0)) => Ok(RACES),
            (Ok(_), ended) => ended,
            (Err(e), ended) => both(ended, Err(e)),
        }
    }

    fn write(&self) -> Result<(), Failed> {
        let Some(trace) = &self.trace else { return Ok(()) };
        let missing = trace.write(&self.notes, self.pes, self.shape)?;
        if let Some(missing) = missing
            && !self.quiet
        {
            angara_protocol::complain!("angara: the timeline is not complete: {missing}");
        }
        Ok(())
    }

    /// How many pairs of lines have a race.
    fn check(&self) -> Result<usize, Failed> {
        if self.races { angara_recordings::races::check(&self.notes, self.pes, self.quiet) } else { Ok(0) }
    }
}

/// The exit code where the job was well but for races.
const RACES: u8 = 1;

/// Where PEs note their calls, if they have to.
fn note_calls(trace: Option<&Trace>, races: bool) -> Result<Option<Notes>, Failed> {
    let beside = match (trace, races) {
        (Some(trace), _) => trace.file().to_owned(),
        (None, true) => std::env::temp_dir().join("angara-races"),
        (None, false) => return Ok(None),
    };
    let failed = |e: std::io::Error| {
        let why = format!("cannot note calls in {}: {e}", beside.parent().unwrap_or(&beside).display());
        Failed::runtime(why, "make a directory for it that you can write to; TMPDIR names one")
    };
    Notes::new(&beside, races).map(Some).map_err(failed)
}

/// The exit code of a job, and whether something about it could be written.
fn both(code: Result<u8, Failed>, written: Result<(), Failed>) -> Result<u8, Failed> {
    match (code, written) {
        (code, Ok(())) => code,
        (Ok(0), Err(e)) => Err(e),
        // The job's own failure says more.
        (code, Err(e)) => {
            e.print("angara");
            code
        }
    }
}

/// Runs the job on the daemon in `place`.
async fn run_on(
    mut place: Place,
    args: &Options,
    plan: &JobPlan,
    (signals, limit): (&mut Signals, Limit),
    (terminal, packets, mut trace): (Option<Terminal>, Option<PacketFile>, Option<&mut Trace>),
) -> Result<u8, Failed> {
    let begun = async {
        let begun = begin(&mut place, args, plan).await?;
        if let Some(trace) = &mut trace {
            trace.begin(&place.dir, plan.virtual_time.is_some()).await?;
        }
        Ok((capture(&place, begun.0.job, packets).await?, begun))
    };
    let begun = tokio::select! {
        begun = begun => begun.map_err(Err),
        ended = limit.or_signal(signals) => Err(Ok(ended)),
    };
    let (session, (created, out, err)) = match begun {
        Ok(begun) => begun,
        Err(why) => {
            if why.is_ok() {
                place.control.hurry();
            }
            place.leave().await;
            return why.map_or_else(Err, Ended::before_the_job);
        }
    };
    let mut processes = Processes::new(terminal);
    if plan.mpi.start == Start::Pmi {
        processes.offer_mpi(Server::new(&created.placement));
    }
    let failed = tokio::select! {
        failed = start_all(&created, &mut place, args, plan, (&out, &err), &mut processes) => Ok(failed),
        ended = limit.or_signal(signals) => Err(ended.while_it_starts()),
    };
    if let Some(child) = processes.has_terminal() {
        signals.watch(child)?;
    }
    let Created { job, placement, tolls, .. } = created;
    let Output { lines: out_lines, done: mut out_done } = out;
    let Output { lines: err_lines, done: err_done } = err;
    drop((out_lines, err_lines));
    let mut cause = supervise(&mut processes, &mut place, job, (args, plan), signals, &mut out_done, failed).await;

    if matches!(cause, Some(Cause::Signal(..) | Cause::Timeout(..))) {
        place.control.hurry();
    }
    if plan.notes.is_none() {
        // Else agents still send what their PEs have noted.
        processes.release_hosts();
    }
    spawn::kill_descendants(place.private.as_ref().and_then(|p| p.pid()));
    let written = async {
        processes.drained().await;
        let _ = err_done.await;
        if out_done.is_terminated() { Ok(()) } else { out_done.await.unwrap_or(Ok(())) }
    };
    tokio::select! {
        // A slow reader may take its time; only the user ends the wait.
        result = written => cause = cause.or(result.err().and_then(Cause::unwritten)),
        _ = signals.next() => {}
    }
    processes.release_hosts();
    let (code, outcome) = say_outcome(cause.as_ref(), &mut place, &placement, args, plan).await;
    faults::tell(&mut place, job, args, &tolls).await;
    let stays = match cause {
        // The user has seen enough.
        Some(Cause::Signal(..)) => None,
        _ => Some(signals),
    };
    let reported = end(place, (job, session, trace), args, plan, (code, outcome), stays).await;
    both(Ok(code), reported)
}

/// Says why the job ended, if not by itself, and whether another run may differ; returns the exit code, and how the job ended
/// for its report.
async fn say_outcome(
    cause: Option<&Cause>,
    place: &mut Place,
    placement: &[angara_net::torus::NodeId],
    args: &Options,
    plan: &JobPlan,
) -> (u8, String) {
    let outcome = match cause.map(|c| c.explain(place.shape, placement)) {
        None => "ok".to_string(),
        Some(None) => "ended early".into(),
        Some(Some(text)) => {
            angara_protocol::complain!("angara: {text}");
            text
        }
    };
    let in_doubt = plan.virtual_time.is_some() && place.alive && place.tell_doubts().await;
    match cause.map_or(0, Cause::code) {
        0 if in_doubt && args.strict => {
            angara_protocol::complain!("angara: the status is 1, because of --strict");
            (1, "in doubt".into())
        }
        code => (code, outcome),
    }
}

/// Starts every PE; if one cannot be started, which and why.
async fn start_all(
    created: &Created,
    place: &mut Place,
    args: &Options,
    plan: &JobPlan,
    (out, err): (&Output, &Output),
    processes: &mut Processes,
) -> Option<Seen> {
    let Created { job, key, cores, remote: others, .. } = created;
    if let Some(with) = place.with_pes.take() {
        inside::start(with, (*job, key), (args, plan), (out, err), processes);
        return None;
    }
    let here: Vec<u32> = (0..args.pes).filter(|pe| others.iter().all(|h| !h.pes.contains(pe))).collect();
    let cores = match plan.virtual_time.as_ref().map(|v| v.core) {
        Some(core) => core.map(|core| vec![vec![core]; here.len()]),
        None => bind::assign(args.bind, &Cores::here(), here.len(), cores),
    };
    let program = Program {
        file: plan.program.clone(),
        argv: args.command.clone(),
        env: plan.env.clone(),
        directory: None,
        label: args.label,
        wraps: plan.wraps.clone(),
        notes: plan.notes.clone(),
    };
    for host in others {
        if let Some(pe) = args.debug.filter(|pe| host.pes.contains(pe)) {
            let why = format!("it runs on host {}; --debug is for PEs of this host, use --wrap there", host.host);
            return Some(Seen::NotStarted(pe, why));
        }
        let start = remote::Start::new(&program, args.bind, *job, key, args.pes);
        let inward = (args.debug.is_none(), plan.notes.clone());
        if let Err(e) = remote::start(&place.dir, start, host, (out, err), inward, processes).await {
            return Some(Seen::NotStarted(host.pes[0], format!("{}: {}", e.message, e.remedy)));
        }
    }
    // Labels need a pipe for each.
    if plan.virtual_time.is_some()
        && !args.label
        && let Err(e) = processes.write_together((&out.lines, &err.lines))
    {
        return Some(Seen::NotStarted(0, e.to_string()));
    }
    if let Start::Mpirun(mpirun) = &plan.mpi.start {
        let launch = Launch { runtime_dir: place.dir.clone(), job: *job, key: key.clone(), pe: 0, pes: args.pes };
        return match processes.spawn_together(mpirun, &program, &launch, cores, (&out.lines, &err.lines)) {
            Ok(stdin) => {
                stdin.map(|stdin| tokio::spawn(copy_input(stdin)));
                None
            }
            Err(e) => Some(Seen::NotStarted(0, e.to_string())),
        };
    }
    for (index, &pe) in here.iter().enumerate() {
        let launch = Launch { runtime_dir: place.dir.clone(), job: *job, key: key.clone(), pe, pes: args.pes };
        let own = cores.as_ref().map(|c| &c[index][..]);
        let input = match args.debug {
            Some(debugged) if debugged == pe => Input::Debug,
            None if pe == 0 => Input::here(),
            _ => Input::Nothing,
        };
        match processes.spawn(&program, &launch, own, input, (&out.lines, &err.lines)) {
            Ok(Some(stdin)) => {
                tokio::spawn(copy_input(stdin));
            }
            Ok(None) => {}
            Err(e) => return Some(Seen::NotStarted(pe, e.to_string())),
        }
    }
    processes.all_started();
    None
}

/// Writes the report, if one is wanted, and takes down the job and its place.
async fn end(
    mut place: Place,
    (job, session, trace): (JobId, Option<Session>, Option<&mut Trace>),
    args: &Options,
    plan: &JobPlan,
    how: (u8, String),
    stays: Option<&mut Signals>,
) -> Result<(), Failed> {
    let reported = match &args.report {
        Some(file) => write_report(&mut place, job, file, args, plan, how).await,
        None => Ok(()),
    };
    if let Some(trace) = trace {
        trace.end(&mut place.control, job).await;
    }
    if plan.virtual_time.is_some() && place.alive && !args.quiet {
        tell_time(&mut place).await;
    }
    if let Some(signals) = stays {
        keep_page(&place, args, signals).await;
    }
    if place.alive
        && let Err(e) = place.control.request(&Request::JobDestroy { job }).await
        // A daemon in one process with its PEs may have ended with them meanwhile, and the job with it.
        && plan.pes_as != PesAs::Coroutines
    {
        e.print("angara");
    }
    let captured = match session {
        Some(session) => {
            let ended = session.stop().await;
            ended.tell(args.quiet);
            ended.failed.map_or(Ok(()), Err)
        }
        None => Ok(()),
    };
    place.leave().await;
    reported.and(captured)
}

/// Keeps a page of our own for whoever looks at it, until the user has seen enough.
async fn keep_page(place: &Place, args: &Options, signals: &mut Signals) {
    if args.web.is_none() || args.web_stay == Stay::No || place.private.is_none() || !place.alive {
        return;
    }
    angara_protocol::complain!("angara: the program has ended; its page stays until Ctrl-C (--web-stay no)");
    while let Wish::Stop = signals.next().await {}
}

/// Begins to write the packets of the job, before it sends any.
async fn capture(place: &Place, job: JobId, packets: Option<PacketFile>) -> Result<Option<Session>, Failed> {
    let Some(packets) = packets else { return Ok(None) };
    let mut control = Control::connect(&place.dir)?;
    let status = control.status().await?;
    let spec = CaptureSpec { job: Some(job), snaplen: WHOLE, ..CaptureSpec::default() };
    let at = Where { dir: &place.dir, everywhere: true };
    Session::begin(control, &status, at, spec, packets, None).await.map(Some)
}

/// Says what virtual time has come to, and what it took.
async fn tell_time(place: &mut Place) {
    let Ok(Status { virtual_time: Some(status), .. }) = place.control.status().await else { return };
    let VirtualStatus { time_ps, stops, events, wall_s, .. } = status;
    // Nobody was there whose time it could be.
    if stops == 0 {
        return;
    }
    let each = 1e6 * wall_s / stops as f64;
    angara_protocol::complain!(
        "angara: {:.3} us of virtual time in {wall_s:.3} s: PEs have stopped {stops} times, {each:.1} us each; \
         {events} events of the network",
        time_ps as f64 / 1e6
    );
}

/// Writes what the daemon has counted, while it still knows the job.
async fn write_report(
    place: &mut Place,
    job: JobId,
    file: &Path,
    args: &Options,
    plan: &JobPlan,
    (code, outcome): (u8, String),
) -> Result<(), Failed> {
    if !place.alive {
        let what = format!("no report in {}: the daemon that counts went away", file.display());
        return Err(Failed::runtime(what, "run again"));
    }
    let mut head = match place.control.request(&Request::JobReport { job }).await? {
        Reply::Report(report) => RunReport::new(command_of(args), options_of(args, plan), report, code, outcome),
        other => return Err(daemon::unexpected(&other)),
    };
    let mut next = plan.virtual_time.as_ref().map(|_| 0);
    while let Some(from) = next {
        match place.control.request(&Request::JobTimes { job, from }).await? {
            Reply::Times(piece) => next = head.details.add(piece),
            other => return Err(daemon::unexpected(&other)),
        }
    }
    match &plan.virtual_time {
        Some(_) if args.history => head.add_history_of_virtual_time(),
        None if args.history => head.history = Some(history(place, job).await?),
        _ => {}
    }
    let mut writer = Writer::new(file, &head)?;
    let mut next = Some((0, 0));
    while let Some((from, to)) = next {
        match place.control.request(&Request::JobPairs { job, from, to }).await? {
            Reply::Pairs(piece) => {
                writer.pairs(&piece.pairs)?;
                next = piece.next;
            }
            other => return Err(daemon::unexpected(&other)),
        }
    }
    let written = writer.finish()?;
    if written != file && !args.quiet {
        angara_protocol::complain!("angara: the report is large, so it is compressed: {}", written.display());
    }
    Ok(())
}

/// What the daemon remembers of a job.
async fn history(place: &mut Place, job: JobId) -> Result<History, Failed> {
    let (mut history, mut next) = (History::default(), Some(0));
    while let Some(after) = next {
        match place.control.request(&Request::JobHistory { job, after }).await? {
            Reply::History(piece) => next = history.add(piece),
            other => return Err(daemon::unexpected(&other)),
        }
    }
    Ok(history)
}

/// The daemon's answer to a job request.
struct Created {
    job: JobId,
    key: String,
    placement: Vec<angara_net::torus::NodeId>,
    cores: angara_protocol::msg::CoreAdvice,
    /// PEs on other hosts.
    remote: Vec<angara_protocol::msg::JobHost>,
    /// What had happened on links before.
    tolls: Tolls,
}

/// Sets the faults and creates the job.
async fn create(place: &mut Place, args: &Options, plan: &JobPlan) -> Result<Created, Failed> {
    place.set_faults(&args.faults).await?;
    let spec = plan.job(args, place.shape, &place.in_force)?;
    match place.control.request(&Request::JobCreate(spec)).await? {
        Reply::Job { job, key, placement, cores, remote, confined } => {
            if confined {
                options::say(
                    args,
                    "other jobs there have nodes of their own, so this one got some, too (as by --alloc auto)".into(),
                );
            }
            if args.history && plan.virtual_time.is_none() {
                let begun = place.control.request(&Request::JobRemember { job }).await;
                begun.map_err(|e| Failed { code: 2, ..e })?;
            }
            let tolls = Tolls::read(place, job, args).await?;
            Ok(Created { job, key, placement, cores, remote, tolls })
        }
        other => Err(daemon::unexpected(&other)),
    }
}

/// The job, and the writers of standard output and error.
async fn begin(place: &mut Place, args: &Options, plan: &JobPlan) -> Result<(Created, Output, Output), Failed> {
    let start = |file| Output::start(file).map_err(no_thread);
    let (out, err) = (start(own(std::io::stdout().as_fd())?)?, start(own(std::io::stderr().as_fd())?)?);
    Ok((create(place, args, plan).await?, out, err))
}

/// A run's command, as its report has it.
fn command_of(args: &Options) -> Vec<String> {
    args.command.iter().map(|a| a.to_string_lossy().into_owned()).collect()
}

/// The options that decide what a run does, as its report has them.
fn options_of(args: &Options, plan: &JobPlan) -> RunOptions {
    let map = match &args.map {
        MapArg::Linear => "linear".into(),
        MapArg::Nodes(_) => "by the launcher".into(),
        MapArg::Random(seed) => format!("random:{seed}"),
        MapArg::File(f) => format!("file:{}", f.display()),
        MapArg::Auto(f) => format!("auto:{}", f.display()),
    };
    RunOptions {
        pes: args.pes,
        ppn: args.ppn,
        map,
        bind: args.bind,
        barrier: args.barrier,
        collectives: args.collectives,
        heap: plan.heap.0,
        faults: args.faults.clone(),
        machine: args.machine.as_ref().map(|machine| machine.name.clone()),
        set: args.set.clone(),
    }
}

/// A file of our own for one of our outputs, without the standard library's buffering.
fn own(fd: std::os::fd::BorrowedFd<'_>) -> Result<File, Failed> {
    let failed =
        |e| Failed::runtime(format!("cannot duplicate an output: {e}"), "raise the limit on open files (ulimit -n)");
    fd.try_clone_to_owned().map(File::from).map_err(failed)
}
