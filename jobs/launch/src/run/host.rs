//! A job whose processes another launcher starts, such as `mpiexec`: a hidden mode of this program that
//! creates the job for them and keeps it until they have gone.
//!
//! PE 0 starts it, see `angara::launcher`. It starts itself again and leaves, so that PE 0 has no child to
//! wait for; the second one prints where the job is and lives as long as its standard input is open.
//! `ANGARA_OPTIONS` may hold options of `angara run` (`--torus 4x4 --path ring --report out.json`).

use super::options::{Check, Clock, MapArg, Options};
use super::plan::{ENV_CHECK, ENV_TABLE, JobPlan};
use super::{Created, capture, create, end, own, place};
use angara_abi::JobId;
use angara_cluster::Cluster;
use angara_control::daemon;
use angara_control::error::Failed;
use angara_net::torus::NodeId;
use angara_protocol::launch::ENV_TIMEOUT;
use angara_protocol::modes::HOST;
use angara_protocol::msg::{Event, Reply, Request};
use angara_recordings::capture::PacketFile;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::time::{Instant, sleep};

/// What PE 0 says of the job.
pub struct Hosted {
    /// Number of PEs.
    pub pes: String,
    /// Hosts of all PEs, with commas; nothing for a job on one host.
    pub hosts: String,
    /// This is the process that stays.
    pub stays: bool,
}

/// Reads a command line of `angara run`, its name included; an error is text.
pub type ReadOptions = fn(Vec<OsString>) -> Result<Options, String>;

/// Given to the process that stays.
pub const STAY: &str = "stay";
/// Options of the job.
const ENV_OPTIONS: &str = "ANGARA_OPTIONS";
/// Time between two looks whether PEs are left, at first and at last.
const LOOK_FIRST: Duration = Duration::from_millis(5);
const LOOK_LAST: Duration = Duration::from_millis(160);
/// How long PEs may take after shmem_global_exit, whose caller may have much to do before it has ended.
const EXIT_GRACE: Duration = Duration::from_secs(10);
/// How long PEs may take after a failure: the launcher ends them too, and sees the status of the one that failed.
const GRACE: Duration = Duration::from_secs(1);

/// Never returns.
pub fn main(args: &Hosted, read: ReadOptions) -> ! {
    let result = if args.stays { stay_for(args, read) } else { start_again(args) };
    match result {
        Ok(()) => exit(0),
        Err(e) => {
            e.print("angara");
            exit(e.code.into())
        }
    }
}

/// A process group of its own: an interrupt from the terminal is for the PEs, whose end is noticed.
fn start_again(args: &Hosted) -> Result<(), Failed> {
    // What PE 0 has open is not for whoever stays, who would keep others waiting for the end of a pipe.
    angara_protocol::trust::keep_descriptors();
    let started = Command::new("/proc/self/exe").args([HOST, &args.pes, &args.hosts, STAY]).process_group(0).spawn();
    started.map(drop).map_err(|e| Failed::runtime(format!("cannot start angara again: {e}"), "see `ulimit -u`"))
}

fn stay_for(given: &Hosted, read: ReadOptions) -> Result<(), Failed> {
    let options = std::env::var(ENV_OPTIONS).unwrap_or_default();
    let mut line: Vec<OsString> = ["angara", "-q", "-n"].map(OsString::from).to_vec();
    line.push(given.pes.clone().into());
    line.extend(options.split_whitespace().map(OsString::from));
    line.extend(["--", "/proc/self/exe"].map(OsString::from));
    let mut args = read(line).map_err(|e| {
        Failed::usage(format!("{ENV_OPTIONS}: {e}"), "give options of `angara run`, separated by blanks")
    })?;
    if let (Some(file), Some(hosts)) = (&args.cluster, Some(&given.hosts).filter(|hosts| !hosts.is_empty())) {
        let cluster = Cluster::load(file).map_err(|e| Failed::usage(e.to_string(), "mend the cluster file"))?;
        args.map = MapArg::Nodes(nodes_of(&cluster, hosts, args.ppn)?);
    }
    if let Some((option, remedy)) = needs_a_launcher(&args) {
        return Err(Failed::usage(format!("{ENV_OPTIONS}: the launcher starts the PEs, not {option}"), remedy));
    }
    let plan = JobPlan::new(&args)?;
    let packets = args.capture.as_deref().map(PacketFile::create).transpose()?;
    daemon::runtime()?.block_on(async {
        let mut input = Receiver::from_file(own(std::io::stdin().as_fd())?)
            .map_err(|e| Failed::usage(format!("standard input is no pipe: {e}"), "start the program with mpiexec"))?;
        let mut place = place::find(&args, &plan).await?;
        let made = async {
            let created = create(&mut place, &args, &plan).await?;
            Ok((capture(&place, created.job, packets).await?, created))
        };
        let (session, Created { job, key, .. }) = match made.await {
            Ok(made) => made,
            Err(e) => {
                place.leave().await;
                return Err(e);
            }
        };
        let dir: String = place.dir.as_os_str().as_bytes().iter().map(|b| format!("{b:02x}")).collect();
        // PE 0 reads the line, or is gone; then its end of the other pipe is closed too.
        let _ = writeln!(std::io::stdout(), "{job}:{key}:{dir}");
        keep(&mut place, job, &mut input).await;
        end(place, (job, session, None), &args, &plan, (0, "ok".into()), None).await
    })
}

/// An option that says how PEs are started, which is another launcher's business, and what does the same there.
fn needs_a_launcher(args: &Options) -> Option<(&'static str, String)> {
    let tool = || "put the tool before the program there, such as mpiexec -n 8 valgrind ./program".to_string();
    let own = || "start the program with `angara run`".to_string();
    let variable = |name, value| format!("set {name}={value} for the program");
    let asked = [
        (!args.wrap.is_empty(), "--wrap", tool()),
        (args.debug.is_some(), "--debug", tool()),
        (args.trace.is_some(), "--trace", own()),
        (args.clock == Clock::Virtual, "--clock virtual", own()),
        (args.check.contains(&Check::Races), "--check=races", own()),
        (args.check.contains(&Check::Calls), "--check", variable(ENV_CHECK, "1")),
        (args.timeout.is_some(), "--timeout", variable(ENV_TIMEOUT, "SECONDS")),
        (args.collectives_table.is_some(), "--collectives-table", variable(ENV_TABLE, "FILE")),
        (!args.env.is_empty(), "--env", "use what your launcher has for variables".into()),
        (args.label, "--label", "use what your launcher has for labels, such as mpiexec -l".into()),
    ];
    asked.into_iter().find(|(given, ..)| *given).map(|(_, option, remedy)| (option, remedy))
}

/// Nodes for PEs whose hosts the launcher has chosen: the nodes of each host in turn, `ppn` PEs on each.
fn nodes_of(cluster: &Cluster, hosts: &str, ppn: u32) -> Result<Vec<NodeId>, Failed> {
    let mut taken = vec![0; cluster.hosts.len()];
    let mut nodes = Vec::new();
    for name in hosts.split(',') {
        let id = cluster.host(name).map_err(|e| {
            Failed::usage(e.to_string(), "start the daemons with the same cluster file that ANGARA_OPTIONS names")
        })?;
        let index = id.index();
        let own = &cluster.hosts[index].nodes;
        let node = own.get(taken[index] / ppn as usize).ok_or_else(|| {
            let pes = hosts.split(',').filter(|h| *h == name).count();
            Failed::usage(
                format!("the launcher put {pes} PEs on host {name}, which has {} nodes for {ppn} each", own.len()),
                format!("add --ppn {} to ANGARA_OPTIONS, or start fewer there", pes.div_ceil(own.len())),
            )
        })?;
        taken[index] += 1;
        nodes.push(*node);
    }
    Ok(nodes)
}

/// Returns when the PEs have gone, or are to be ended.
async fn keep(place: &mut place::Place, job: JobId, input: &mut Receiver) {
    let (mut byte, mut first_gone, mut until, mut look) = ([0u8], false, None, LOOK_FIRST);
    loop {
        tokio::select! {
            event = place.control.event(), if until.is_none() => match event {
                Some(event) => match patience(&event) {
                    Some(patience) => until = Some(Instant::now() + patience),
                    None if matches!(event, Event::DaemonEnds { .. }) => {
                        place.alive = false;
                        return;
                    }
                    None => {}
                },
                None => {
                    angara_protocol::complain!("angara: the daemon of this job has ended, and the job with it; see its log");
                    place.alive = false;
                    return;
                }
            },
            // PE 0 has gone. The others may go on; if they wait for it, there will be an event.
            _ = input.read(&mut byte), if !first_gone => first_gone = true,
            // The daemon tells nobody of a PE that leaves in order.
            () = sleep(look), if first_gone || until.is_some() => {
                look = (look * 2).min(LOOK_LAST);
                let Ok(Reply::Status(status)) = place.control.request(&Request::Status).await else { return };
                let over = status.jobs.iter().all(|j| j.job != job || j.attached == 0);
                if over || until.is_some_and(|until| Instant::now() >= until) {
                    return;
                }
            }
        }
    }
}

/// Says what happened to the job, and how long its PEs may take to end because of it; nothing if they go on.
fn patience(event: &Event) -> Option<Duration> {
    match event {
        Event::Abort { pe, status, reason, orderly, .. } => {
            let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            // Of a success nothing needs saying.
            if *status != 0 || !orderly {
                angara_protocol::complain!("angara: PE {pe} ended the job with status {status}{why}");
            }
            return Some(if *orderly { EXIT_GRACE } else { GRACE });
        }
        Event::PeLost { pe, finalized: true, .. } => {
            angara_protocol::complain!(
                "angara: PE {pe} exited after shmem_finalize while others waited for it; the job was ended"
            );
        }
        Event::PeLost { pe, .. } => {
            angara_protocol::complain!("angara: PE {pe} left the job without shmem_finalize; the job was ended");
        }
        Event::HostLost { host, reason, .. } => {
            angara_protocol::complain!("angara: host {host} was lost: {reason}; the job was ended");
        }
        Event::DaemonEnds { reason, .. } => {
            angara_protocol::complain!("angara: the daemon of this job {reason}; the job was ended");
            return None;
        }
        // Virtual time has one host.
        Event::WentOn { .. } => return None,
        Event::ChannelError { pe, reason, .. } => {
            angara_protocol::complain!("angara: the adapter stopped serving PE {pe}: {reason}");
            return None;
        }
    }
    Some(GRACE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_cluster::{blocks, create_key, render};

    #[test]
    fn pes_are_placed_on_the_hosts_where_the_launcher_started_them() {
        let dir = std::env::temp_dir().join(format!("angara-host-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let shape = "4x2".parse().unwrap();
        let hosts = ["a", "b"].map(|h| (h.to_string(), h.parse().unwrap()));
        let text = render(shape, &hosts, &blocks::cut(shape, 2).unwrap(), "k").unwrap();
        std::fs::write(dir.join("c.toml"), text).unwrap();
        create_key(&dir.join("k")).unwrap();
        let cluster = Cluster::load(&dir.join("c.toml")).unwrap();
        std::fs::remove_dir_all(dir).unwrap();
        // Each host has one half of each row.
        assert_eq!(nodes_of(&cluster, "a,a,b,b,a", 1).unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(nodes_of(&cluster, "b,a,b,a,b", 2).unwrap(), [2, 0, 2, 0, 3]);
        let e = nodes_of(&cluster, "a,a,a,a,a", 1).unwrap_err();
        assert!(e.message.contains("5 PEs on host a, which has 4 nodes") && e.remedy.contains("--ppn 2"), "{e:?}");
        assert!(nodes_of(&cluster, "c", 1).unwrap_err().message.contains("no host `c`"));
    }
}
