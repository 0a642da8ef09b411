//! The daemon a job runs on: a running one whose torus fits, or a private one.

use super::absent::{Absent, IN_DOUBT, WENT_ON};
use super::options::{Options, PesAs, say};
use super::plan::JobPlan;
use super::processes::inside;
use angara_abi::JobId;
use angara_cluster::Cluster;
use angara_control::daemon::web::with_token;
use angara_control::daemon::{Control, Private, WithPes, runtime_dir, unexpected};
use angara_control::error::Failed;
use angara_net::fault::Command;
use angara_net::torus::Shape;
use angara_protocol::doubts;
use angara_protocol::msg::{Event, Reply, Request, Status, Wait};
use angara_protocol::print::show_pes;
use std::path::{Path, PathBuf};

/// Where the job runs.
pub(super) struct Place {
    /// Control connection; the job ends when it closes.
    pub control: Control,
    /// Runtime directory.
    pub dir: PathBuf,
    /// Shape of the network.
    pub shape: Shape,
    /// Process id of the daemon.
    pub pid: u32,
    /// The daemon, if it is ours.
    pub private: Option<Private>,
    /// Its other ends, if the PEs are to be in its process.
    pub with_pes: Option<WithPes>,
    /// The connection is open.
    pub alive: bool,
    /// Faults that were in force before this run set its own.
    pub in_force: Vec<String>,
    /// What ends the faults that we set on a daemon that is not ours.
    faults: Vec<Command>,
    /// PEs without which the others went on.
    pub absent: Absent,
}

/// Finds or starts the daemon, and says where its page is if one is wanted.
pub(super) async fn find(args: &Options, plan: &JobPlan) -> Result<Place, Failed> {
    let mut place = find_any(args, plan).await?;
    if args.web.is_some() {
        match page(&mut place).await {
            Ok(url) => {
                angara_protocol::complain!("angara: page at {url}");
                if !args.quiet {
                    let dir = place.dir.display();
                    angara_protocol::complain!(
                        "angara: one that may set faults: angara web --faults --runtime-dir {dir}"
                    );
                }
            }
            Err(e) => {
                place.leave().await;
                return Err(e);
            }
        }
    }
    Ok(place)
}

/// The URL of a daemon's page.
async fn page(place: &mut Place) -> Result<String, Failed> {
    let none = || {
        Failed::usage(
            format!("the daemon in {} (pid {}) has no page", place.dir.display(), place.pid),
            "start it with --web 127.0.0.1:8290, or leave --runtime-dir and --cluster out",
        )
    };
    let url = place.control.status().await?.web.ok_or_else(none)?;
    with_token(&url, &place.dir, true)
}

async fn find_any(args: &Options, plan: &JobPlan) -> Result<Place, Failed> {
    let dir = runtime_dir(&args.runtime_dir);
    if let Some(file) = &args.cluster {
        return in_cluster(file, dir, plan).await;
    }
    if args.runtime_dir.is_some() {
        let mut control = Control::connect(&dir)?;
        let status = control.status().await?;
        return match misfit(&status, plan) {
            None => Ok(place(control, dir, &status, None)),
            Some(why) => Err(Failed::usage(
                format!("the daemon in {} {why}", dir.display()),
                "leave --runtime-dir out to get a private daemon, or start one with that torus",
            )),
        };
    }
    // A fault would hit every job of a shared daemon, so a job with faults gets its own.
    let running = match args.faults.is_empty() && !plan.alone() {
        true => Control::find_trusted(&dir)?,
        false => Ok(None),
    };
    let running = running.unwrap_or_else(|distrust| {
        angara_protocol::complain!("angara: {distrust}; this run gets a daemon of its own. Try: {}", distrust.remedy());
        None
    });
    if let Some(mut control) = running {
        let status = control.status().await?;
        let pageless = (args.web.is_some() && status.web.is_none()).then(|| "has no page".to_string());
        match misfit(&status, plan).or(pageless) {
            None => {
                say(
                    args,
                    format!("using the daemon in {} (pid {}, torus {})", dir.display(), status.pid, status.shape),
                );
                return Ok(place(control, dir, &status, None));
            }
            Some(why) => say(args, format!("the daemon in {} {why}", dir.display())),
        }
    }
    let mut options = plan.daemon_options();
    options.extend(args.web.iter().flat_map(|address| ["--web".into(), address.into()]));
    let (mut private, with_pes) = match plan.pes_as {
        PesAs::Coroutines => {
            let env = plan.env.clone();
            let (private, with) = Private::start_with_pes(plan.shape, options, &env, inside::input()).await?;
            (private, Some(with))
        }
        _ => (Private::start(plan.shape, options).await?, None),
    };
    let dir = private.dir.clone();
    let mut control = match Control::connect(&dir) {
        Ok(control) => control,
        Err(_) => return Err(private.failed("does not listen").await),
    };
    let status = control.status().await?;
    let pes = if with_pes.is_some() { ", with all PEs in its process" } else { "" };
    say(args, format!("started a private fabricd for this run{pes} (pid {}, torus {})", status.pid, status.shape));
    if plan.virtual_time.is_some() {
        say(args, in_virtual_time(args));
    }
    Ok(Place { with_pes, ..place(control, dir, &status, Some(private)) })
}

/// The daemon in `dir`, which must be one of the cluster that `file` describes.
async fn in_cluster(file: &Path, dir: PathBuf, plan: &JobPlan) -> Result<Place, Failed> {
    let what = "give a file that `angara cluster init` wrote, and that a daemon of this host runs with";
    Cluster::load(file).map_err(|e| Failed::usage(format!("--cluster: {e}"), what))?;
    let mut control = Control::find(&dir)?.ok_or_else(|| {
        Failed::runtime(
            format!("no daemon listens in {}", dir.display()),
            format!("start one: fabricd --cluster {} --runtime-dir {}", file.display(), dir.display()),
        )
    })?;
    let status = control.status().await?;
    let cluster = match control.request(&Request::Cluster).await? {
        Reply::Cluster(cluster) => cluster,
        other => return Err(unexpected(&other)),
    };
    let real = |p: &Path| std::fs::canonicalize(p).unwrap_or_else(|_| p.into());
    if real(file) != real(Path::new(&cluster.file)) {
        return Err(Failed::usage(
            format!(
                "the daemon in {} is one of the cluster of {}, not of {}",
                dir.display(),
                cluster.file,
                file.display()
            ),
            "give that file, or the --runtime-dir of another daemon",
        ));
    }
    match misfit(&status, plan) {
        None => Ok(place(control, dir, &status, None)),
        Some(why) => {
            let down: Vec<&str> = cluster.peers.iter().filter(|p| !p.up).map(|p| &p.host[..]).collect();
            let remedy = match down.is_empty() {
                true => "start fewer PEs, or more on each node (--ppn)".into(),
                false => format!("start fabricd on {}, or fewer PEs; see `angara cluster status`", down.join(", ")),
            };
            Err(Failed::usage(format!("the cluster {why}"), remedy))
        }
    }
}

/// Returns what takes how long, which is not the network's.
fn in_virtual_time(args: &Options) -> String {
    let compute = args.compute.clone().unwrap_or_default();
    let differs = if compute.differs() { "; two runs differ" } else { "" };
    format!("virtual time: computing takes {compute}{differs}; a call takes {} ns", args.call_cost.unwrap_or(1.0))
}

/// Why a daemon cannot take this job.
fn misfit(status: &Status, plan: &JobPlan) -> Option<String> {
    match plan.wanted {
        Some(wanted) if wanted != status.shape => Some(format!("has torus {}, not {wanted}", status.shape)),
        _ if status.nodes < plan.nodes => Some(format!("has {} nodes, the job needs {}", status.nodes, plan.nodes)),
        _ => None,
    }
}

fn place(control: Control, dir: PathBuf, status: &Status, private: Option<Private>) -> Place {
    Place {
        control,
        dir,
        shape: status.shape,
        pid: status.pid,
        private,
        with_pes: None,
        alive: true,
        in_force: status.faults.clone(),
        faults: Vec::new(),
        absent: Absent::default(),
    }
}

impl Place {
    /// Sets the faults of this run.
    pub(super) async fn set_faults(&mut self, faults: &[String]) -> Result<(), Failed> {
        for text in faults {
            let command = Command::parse(text, &self.shape)
                .map_err(|mistake| Failed::usage(mistake.brief(), mistake.remedy()))?;
            let end = command.undo(&self.shape);
            self.control.request(&Request::Fault { command }).await.map_err(|e| Failed { code: 2, ..e })?;
            if !self.faults.contains(&end) {
                self.faults.push(end);
            }
        }
        Ok(())
    }

    /// Returns what the PEs of `job` wait for; nothing if the daemon does not say. Asked on a connection of its own,
    /// so that the caller need not wait for the answer.
    pub(super) async fn waits(&self, job: JobId) -> Vec<Wait> {
        let Ok(Some(mut control)) = Control::find(&self.dir) else { return Vec::new() };
        match control.request(&Request::JobWaits { job }).await {
            Ok(Reply::Waits { waits }) => waits,
            _ => Vec::new(),
        }
    }

    /// Clears our faults, closes the connection (which ends the job if it still exists) and waits
    /// for a private daemon to go.
    pub(super) async fn leave(mut self) {
        let mut control = Some(self.control);
        if self.alive && control.as_ref().is_some_and(Control::is_stuck) {
            // Closed first: that ends the job. What is still to be said is said on another one.
            drop(control.take());
            control = Control::find(&self.dir).ok().flatten();
            control.iter_mut().for_each(Control::hurry);
        }
        if let Some(control) = control.as_mut().filter(|_| self.alive) {
            let faults = if self.private.is_none() { std::mem::take(&mut self.faults) } else { Vec::new() };
            for command in faults {
                if let Err(e) = control.request(&Request::Fault { command }).await {
                    e.print("angara");
                }
            }
            if self.private.is_some() {
                // It ends by itself after a job; this run may have failed before it made one.
                let _ = control.request(&Request::Shutdown).await;
            }
        }
        drop(control);
        if let Some(private) = self.private {
            private.stop().await;
        }
    }
}

impl Place {
    /// At the end: says that another run may differ, or that times rest on a guess. True if so.
    pub(super) async fn tell_doubts(&mut self) -> bool {
        // What the daemon said before its answer is known then.
        let Ok(status) = self.control.status().await else { return !self.absent.0.is_empty() };
        while let Some(event) = self.control.known_event() {
            if let Event::WentOn { absence, .. } = event {
                self.absent.tell(absence).await;
            }
        }
        if !self.absent.0.is_empty() {
            let pes = show_pes(&self.absent.0);
            angara_protocol::complain!("{WENT_ON} {pes} for a time: another one may differ");
        }
        let doubts = doubts::lines(&status.virtual_time.map_or_else(Vec::new, |time| time.doubted));
        doubts.iter().for_each(|line| angara_protocol::complain!("{IN_DOUBT} {line}"));
        !self.absent.0.is_empty() || !doubts.is_empty()
    }
}
