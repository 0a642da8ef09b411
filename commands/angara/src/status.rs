//! `angara status` and `angara shutdown`.

use angara_abi::JobId;
use angara_control::daemon::{Control, block_on, private_parent, runtime_dir, unexpected};
use angara_control::error::{self, Failed, say};
use angara_control::report::table::{Table, age, bytes};
use angara_control::report::{self, heatmap};
use angara_control::waits::wait_lines;
use angara_protocol::launch::CONTROL_SOCKET;
use angara_protocol::launch::PRIVATE_PREFIX;
use angara_protocol::msg::{LinkReport, Reply, Request, Status, Wait};
use angara_protocol::print::plain_line;
use angara_protocol::trust::{Distrust, TrustedDir};
use clap::builder::TypedValueParser;
use clap::{Args, value_parser};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where the service unit puts its sockets; that of one user appends `-USER`.
const SYSTEM_DIR: &str = "/run/angara";

/// Arguments of `angara status`.
#[derive(Args)]
pub(crate) struct StatusArgs {
    /// Only the daemon in this directory [default: yours, the system's, and those of your running jobs]
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
    /// Machine-readable
    #[arg(long)]
    json: bool,
    /// Also list every node
    #[arg(long)]
    nodes: bool,
    /// Also draw the link counters as a heat map
    #[arg(long)]
    heat: bool,
    /// Also say what each PE of your jobs waits for, or of this one
    #[arg(long, value_name = "JOB", value_parser = value_parser!(u32).map(JobId::new))]
    waits: Option<Option<JobId>>,
}

/// Facts about one daemon.
#[derive(Serialize)]
struct Seen {
    runtime_dir: PathBuf,
    status: Status,
    links: Vec<LinkReport>,
    /// Waits of PEs, by job.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    waits: BTreeMap<JobId, Vec<Wait>>,
}

/// Shows the daemons.
pub(crate) fn main(args: StatusArgs) -> Result<u8, Failed> {
    let dirs = match &args.runtime_dir {
        Some(dir) => vec![dir.clone()],
        None => candidates(),
    };
    let squatted = args.runtime_dir.is_none().then(|| distrusted(&dirs[0])).flatten();
    let (found, closed) = block_on(async {
        let (mut found, mut closed) = (Vec::new(), Vec::new());
        for dir in &dirs {
            let control = match Control::find(dir) {
                Ok(control) => control,
                Err(e) if args.runtime_dir.is_some() => return Err(e),
                // Another user's directory.
                Err(e) => {
                    closed.push((dir, e));
                    None
                }
            };
            let Some(mut control) = control else { continue };
            let seen = async {
                let status = control.status().await?;
                let waits = waits(&mut control, &status, args.waits).await?;
                match control.request(&Request::Counters).await? {
                    Reply::Counters { links } => Ok(Seen { runtime_dir: dir.clone(), status, links, waits }),
                    other => Err(unexpected(&other)),
                }
            };
            match seen.await {
                Ok(seen) => found.push(seen),
                Err(e) if args.runtime_dir.is_some() => return Err(e),
                // It may have ended while we asked.
                Err(e) => angara_protocol::complain!("angara: {}: {}", dir.display(), e.message),
            }
        }
        Ok((found, closed))
    })?;
    if let Some(Some(job)) = args.waits
        && found.iter().all(|seen| !seen.waits.contains_key(&job))
    {
        return Err(Failed::runtime(format!("there is no job {job}"), "see `angara status` for the jobs that run"));
    }
    if args.json {
        error::print_json(&found)?;
    } else if found.is_empty() {
        let open: Vec<PathBuf> = dirs.iter().filter(|dir| closed.iter().all(|c| c.0 != *dir)).cloned().collect();
        match closed.is_empty() {
            true => say!("no daemon is running (looked in {})", list(&open))?,
            // One that does not serve this user may be.
            false => say!("no daemon of yours is running (looked in {}); others cannot be asked:", list(&open))?,
        }
        closed.iter().filter(|c| squatted.as_ref() != Some(&c.1)).for_each(|c| c.1.print("angara"));
        say!("`angara run` starts a private one for each run; `fabricd --torus 2x2x2` starts one that stays")?;
    } else {
        found.iter().try_for_each(|seen| error::print(show(seen, &args)))?;
    }
    match squatted {
        // What was found elsewhere has been shown; but where this user's own daemon would be, somebody else is.
        Some(e) => Err(e),
        None => Ok(if found.is_empty() && args.runtime_dir.is_some() { 1 } else { 0 }),
    }
}

/// Why the owner of a directory is not to be believed, if so.
fn distrusted(dir: &Path) -> Option<Failed> {
    match TrustedDir::open(dir) {
        Ok(_) | Err(Distrust::Missing { .. }) => None,
        Err(distrust) => Some(distrust.into()),
    }
}

/// What the PEs of this user's jobs wait for, or of job `wanted`; nothing if nobody asked.
async fn waits(
    control: &mut Control,
    status: &Status,
    wanted: Option<Option<JobId>>,
) -> Result<BTreeMap<JobId, Vec<Wait>>, Failed> {
    let mut all = BTreeMap::new();
    let Some(wanted) = wanted else { return Ok(all) };
    let me = rustix::process::getuid().as_raw();
    for job in status.jobs.iter().filter(|j| wanted.map_or(j.uid == me, |id| j.job == id)).map(|j| j.job) {
        match control.request(&Request::JobWaits { job }).await {
            Ok(Reply::Waits { waits }) => drop(all.insert(job, waits)),
            Ok(other) => return Err(unexpected(&other)),
            Err(e) if wanted.is_some() => return Err(e),
            // It may have ended while we asked.
            Err(_) => {}
        }
    }
    Ok(all)
}

/// Directories in which a daemon of this user may listen.
fn candidates() -> Vec<PathBuf> {
    let mut dirs = vec![runtime_dir(&None), SYSTEM_DIR.into()];
    dirs.extend(std::env::var("USER").ok().map(|user| format!("{SYSTEM_DIR}-{user}").into()));
    if let Ok(entries) = std::fs::read_dir(private_parent()) {
        let mut private: Vec<PathBuf> = entries
            .flatten()
            .filter(|e| e.file_name().to_string_lossy().starts_with(PRIVATE_PREFIX))
            .map(|e| e.path())
            .filter(|p| TrustedDir::open(p).is_ok() && p.join(CONTROL_SOCKET).exists())
            .collect();
        private.sort();
        dirs.extend(private);
    }
    // A private daemon's environment names its directory, too.
    let mut seen = std::collections::HashSet::new();
    dirs.retain(|dir| seen.insert(dir.clone()));
    dirs
}

fn list(dirs: &[PathBuf]) -> String {
    dirs.iter().map(|d| d.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn show(seen: &Seen, args: &StatusArgs) -> String {
    let s = &seen.status;
    let mut out = format!(
        "daemon in {} (pid {}, version {}, ABI {}{})\n  torus {}, {} of {} nodes here{}, up {}, data plane used {:.1} s of CPU, {} client violations\n",
        plain_line(&seen.runtime_dir.to_string_lossy()),
        s.pid,
        plain_line(&s.version),
        s.abi,
        if s.private { ", private" } else { "" },
        s.shape,
        s.nodes_here,
        s.shape.nodes(),
        if s.nodes == s.nodes_here { String::new() } else { format!(" ({} on all hosts in reach)", s.nodes) },
        age(s.uptime_s),
        s.data_plane_cpu_s,
        s.violations,
    );
    if let Some(url) = &s.web {
        out.push_str(&format!("  page: {} (`angara web` prints its URL with the token)\n", plain_line(url)));
    }
    if let Some(place) = &s.metrics {
        out.push_str(&format!("  metrics: {}\n", plain_line(place)));
    }
    for fault in &s.faults {
        out.push_str(&format!("  fault: {}\n", plain_line(fault)));
    }
    if s.jobs.is_empty() {
        out.push_str("  no jobs\n");
    } else {
        let mut jobs = Table::new(&[">job", "name", ">user", ">PEs", ">attached", ">memory", ">age"]).keys(2);
        for j in &s.jobs {
            jobs.row(&[
                j.job.to_string(),
                j.name.clone(),
                j.uid.to_string(),
                j.pes.to_string(),
                j.attached.to_string(),
                bytes(j.memory),
                age(j.age_s),
            ]);
        }
        out.push_str(&jobs.render());
        out.push_str(&sets(s));
    }
    for (job, waits) in &seen.waits {
        let pes = s.jobs.iter().find(|j| j.job == *job).map_or(0, |j| j.pes);
        out.push_str(&format!("  job {job}:\n"));
        wait_lines(&(0..pes).collect::<Vec<_>>(), waits)
            .iter()
            .for_each(|l| out.push_str(&format!("    {}\n", plain_line(l))));
    }
    if args.nodes {
        out.push_str(&node_table(seen));
    }
    let links = report::links(s.shape, &seen.links, 32);
    out.push_str(&if links.is_empty() { "  no link has carried anything\n".to_string() } else { links });
    if args.heat {
        out.push_str(&heatmap::links(s.shape, &seen.links, heatmap::colour()));
    }
    out
}

/// The nodes that jobs have for themselves, and how many are left.
fn sets(status: &Status) -> String {
    let mut out = String::new();
    for (job, set) in status.jobs.iter().filter_map(|j| Some((j, j.set.as_ref()?))) {
        out.push_str(&format!("  set of job {}: {}", job.job, set.show(&status.shape)));
        if let Some(made) = job.tables_made {
            out.push_str(&format!("; table made {made} {}", if made == 1 { "time" } else { "times" }));
        }
        out.push('\n');
    }
    if !out.is_empty() {
        let (left, all) = (status.nodes_without_set, status.shape.nodes());
        out.push_str(&format!("  {left} of {all} nodes work and are in no set\n"));
    }
    out
}

fn node_table(seen: &Seen) -> String {
    let shape = seen.status.shape;
    let mut nodes = Table::new(&[">node", "at", ">flits sent", ">flits received", "links down"]);
    for node in 0..shape.nodes() as u32 {
        let sum = |f: &dyn Fn(&LinkReport) -> bool| {
            seen.links.iter().filter(|l| f(l)).map(heatmap::flits).sum::<u64>().to_string()
        };
        let down = seen.links.iter().filter(|l| l.node == node && !l.up).map(|l| l.dir.to_string());
        nodes.row(&[
            node.to_string(),
            shape.show(shape.coords(node)),
            sum(&|l| l.node == node),
            sum(&|l| l.to == node),
            down.collect::<Vec<_>>().join(" "),
        ]);
    }
    nodes.render()
}
