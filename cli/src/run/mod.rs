//! `angara run`: a job from the first check to the last cleanup.
//!
//! 1. `options` turns the command line into a plan and finds the program;
//! 2. `place` finds a daemon whose torus fits, or starts a private one, and creates the job;
//! 3. `spawn` starts one process per PE through `exec`, on the cores `bind` chose, its output
//!    collected by `forward`;
//! 4. `supervise` waits for processes, daemon messages, signals and the timeout, and decides with
//!    `outcome` why the job ended;
//! 5. then everything is taken down: processes, the job, the private daemon, its directory.

pub(crate) mod bind;
pub(crate) mod exec;
pub(crate) mod forward;
pub(crate) mod host;
pub(crate) mod options;
pub(crate) mod outcome;
mod place;
pub(crate) mod remote;
mod signals;
mod spawn;
mod supervise;
pub(crate) mod user;

use crate::error::Failed;
use crate::{daemon, report};
use abi::launch::Launch;
use abi::msg::{Reply, Report, Request};
use forward::{Input, Output, copy_input};
use options::{Plan, RunArgs};
use outcome::{Cause, Seen};
use place::Place;
use remote::Start;
use signals::{Signals, Wish};
use spawn::{Processes, Program};
use std::fs::File;
use std::os::fd::AsFd;
use supervise::supervise;

/// Runs a job; the result is the exit code.
pub(crate) fn main(args: RunArgs) -> Result<u8, Failed> {
    let plan = Plan::new(&args)?;
    if let Some(file) = &args.report {
        report::check_writable(file)?;
    }
    spawn::raise_file_limit(args.pes);
    // Orphans of the PEs become our children, so that none is left behind.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    daemon::runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let place = loop {
            tokio::select! {
                place = place::find(&args, &plan) => break place?,
                wish = signals.next() => if let Wish::End(signal) = wish {
                    return Ok(Cause::Signal(signal).code());
                },
            }
        };
        run_on(place, &args, &plan, &mut signals).await
    })
}

/// Runs the job on the daemon in `place`.
async fn run_on(mut place: Place, args: &RunArgs, plan: &Plan, signals: &mut Signals) -> Result<u8, Failed> {
    let Created { job, key, placement, cores, remote: others } = match create(&mut place, args, plan).await {
        Ok(created) => created,
        Err(e) => {
            place.leave().await;
            return Err(e);
        }
    };
    let out = Output::start(own(std::io::stdout().as_fd())?);
    let err = Output::start(own(std::io::stderr().as_fd())?);
    let here: Vec<u32> = (0..args.pes).filter(|pe| others.iter().all(|h| !h.pes.contains(pe))).collect();
    let cores = bind::assign(args.bind, &bind::Cores::here(), here.len(), &cores);
    let program = Program {
        file: plan.program.clone(),
        argv: args.command.clone(),
        env: plan.env.clone(),
        directory: None,
        label: args.label,
    };
    let mut processes = Processes::new();
    let mut failed = None;
    for host in &others {
        let start = Start::new(&program, args.bind, job, &key, args.pes);
        if let Err(e) = remote::start(&place.dir, start, host, (&out, &err), &mut processes).await {
            failed = Some(Seen::NotStarted(host.pes[0], format!("{}: {}", e.message, e.remedy)));
            break;
        }
    }
    for (index, &pe) in here.iter().enumerate().filter(|_| failed.is_none()) {
        let launch = Launch { runtime_dir: place.dir.clone(), job, key: key.clone(), pe, pes: args.pes };
        let own = cores.as_ref().map(|c| &c[index][..]);
        let input = if pe == 0 { Input::here() } else { Input::Nothing };
        match processes.spawn(&program, &launch, own, input, (&out.lines, &err.lines)) {
            Ok(stdin) => {
                if let Some(stdin) = stdin {
                    tokio::spawn(copy_input(stdin));
                }
            }
            Err(e) => {
                failed = Some(Seen::NotStarted(pe, e.to_string()));
                break;
            }
        }
    }
    let Output { lines: out_lines, done: mut out_done } = out;
    let Output { lines: err_lines, done: err_done } = err;
    drop((out_lines, err_lines));
    let cause = supervise(&mut processes, &mut place, job, args, signals, &mut out_done, failed).await;

    processes.release_hosts();
    spawn::kill_descendants(place.private.as_ref().and_then(|p| p.pid()));
    tokio::select! {
        // A slow reader may take its time; only the user ends the wait.
        _ = async { processes.drained().await; let _ = err_done.await; if !out_done.is_terminated() { let _ = out_done.await; } } => {}
        _ = signals.next() => {}
    }
    let code = cause.as_ref().map_or(0, Cause::code);
    let outcome = match cause.as_ref().map(|c| c.explain(place.shape, &placement)) {
        None => "ok".to_string(),
        Some(None) => "ended early".into(),
        Some(Some(text)) => {
            eprintln!("angara: {text}");
            text
        }
    };
    let traffic = last_report(&mut place, job).await;
    place.leave().await;
    match (&args.report, traffic) {
        (None, _) => Ok(code),
        (Some(file), Some(traffic)) => report::write(file, args, plan, traffic, code, outcome).map(|()| code),
        (Some(file), None) => {
            let what = format!("no report in {}: the daemon that counts went away", file.display());
            Failed::runtime(what, "run again").print("angara");
            Ok(code.max(1))
        }
    }
}

/// Ends the job; its traffic comes with the daemon's goodbye.
async fn last_report(place: &mut Place, job: u32) -> Option<Report> {
    if !place.alive {
        return None;
    }
    match place.control.request(&Request::JobDestroy { job }).await {
        Ok(Reply::Report(report)) => Some(report),
        Ok(other) => {
            daemon::unexpected(&other).print("angara");
            None
        }
        Err(e) => {
            e.print("angara");
            None
        }
    }
}

/// The daemon's answer to a job request.
struct Created {
    job: u32,
    key: String,
    placement: Vec<abi::torus::NodeId>,
    cores: abi::msg::CoreAdvice,
    /// PEs on other hosts.
    remote: Vec<abi::msg::JobHost>,
}

/// Sets the faults and creates the job.
async fn create(place: &mut Place, args: &RunArgs, plan: &Plan) -> Result<Created, Failed> {
    place.set_faults(&args.faults).await?;
    let spec = plan.job(args, place.shape)?;
    match place.control.request(&Request::JobCreate(spec)).await? {
        Reply::Job { job, key, placement, cores, remote } => Ok(Created { job, key, placement, cores, remote }),
        other => Err(daemon::unexpected(&other)),
    }
}

/// A file of our own for one of our outputs, without the standard library's buffering.
fn own(fd: std::os::fd::BorrowedFd<'_>) -> Result<File, Failed> {
    let failed =
        |e| Failed::runtime(format!("cannot duplicate an output: {e}"), "raise the limit on open files (ulimit -n)");
    fd.try_clone_to_owned().map(File::from).map_err(failed)
}
