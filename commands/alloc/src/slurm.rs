//! `angara alloc slurm`: arguments, and the loop.

use super::machine::{Policy, outage};
use angara_batch::slurm::{Condition, Decision, Hosts, Layout, Place, Slurm, State, Wanted, World};
use angara_cli::shared::interrupt::{self, Interrupt};
use angara_cluster::Cluster;
use angara_control::error::{Failed, say};
use angara_net::torus::NodeId;
use angara_net::units;
use angara_placement::Machine;
use angara_protocol::complain;
use clap::Args;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Args, Debug)]
pub(crate) struct SlurmArgs {
    /// Cluster file: hosts are nodes of Slurm by the same name, one node of the torus each
    #[arg(long, value_name = "FILE")]
    cluster: PathBuf,
    /// How sets are searched for
    #[arg(long, value_enum, default_value = "first-fit-box")]
    policy: Policy,
    /// Dead link or node, such as `link 0,0 +X down`; may be repeated. Nodes that are down or drained in Slurm are dead
    /// without it
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<String>,
    /// Only nodes and jobs of this partition [default: all, and all nodes must be hosts of the cluster file]
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// Comment of the held jobs whose nodes are chosen (`sbatch --hold --comment=angara`); others stay on hold
    #[arg(long, value_name = "COMMENT", default_value = "angara")]
    mark: String,
    /// Choose nodes of every held job
    #[arg(long, conflicts_with = "mark")]
    all_held: bool,
    /// Time between two looks at the queue
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    interval: Duration,
    /// Look once
    #[arg(long)]
    once: bool,
    /// Look once, print what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = units::time(text).map(|ps| Duration::from_nanos(ps / 1000));
    let fits = |time: &Duration| (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(time);
    time.filter(fits).ok_or_else(|| "give a time from 100ms to 1h, such as 2s".into())
}

/// Does what the arguments say.
pub(crate) fn main(args: &SlurmArgs) -> Result<u8, Failed> {
    let cluster = Cluster::load(&args.cluster)
        .map_err(|e| Failed::usage(e.to_string(), "mend the file; `angara cluster init` writes one"))?;
    let layout = Layout::of(&cluster)?;
    let outages = args.faults.iter().map(|text| outage(text, &cluster.shape)).collect::<Result<Vec<_>, _>>()?;
    let machine = Machine::new(cluster.shape, &outages);
    let mut watcher = Watcher { args, layout, machine, said: BTreeSet::new(), refused: BTreeMap::new() };
    let interrupt = interrupt::watch();
    // What is wrong from the beginning ends the command; what goes wrong later may pass.
    let failed = watcher.pass(&interrupt)?;
    if args.once || args.dry_run {
        return Ok(interrupt.status().unwrap_or(u8::from(failed)));
    }
    loop {
        let next = Instant::now() + args.interval;
        while Instant::now() < next && interrupt.asked().is_continue() {
            interrupt.wait(next - Instant::now());
        }
        if let Some(status) = interrupt.status() {
            return Ok(status);
        }
        match watcher.pass(&interrupt) {
            Ok(_) if watcher.forget("slurm") => say!("Slurm answers again")?,
            Ok(_) => {}
            // A signal to the whole group ends Slurm's commands, too.
            Err(_) if interrupt.asked().is_break() => {}
            Err(error) => watcher.complain("slurm", &error.message, &error.remedy),
        }
    }
}

struct Watcher<'a> {
    args: &'a SlurmArgs,
    layout: Layout,
    machine: Machine,
    /// What was said about a job or a host, so that it is said once.
    said: BTreeSet<(String, String)>,
    /// When Slurm refused to change or release a job last.
    refused: BTreeMap<String, Instant>,
}

/// So long a job that Slurm refused is left alone: its nodes are for others meanwhile.
const PAUSE: Duration = Duration::from_secs(60);

impl Watcher<'_> {
    /// Looks at the queue and does what there is to do. True if Slurm refused some of it.
    fn pass(&mut self, interrupt: &Interrupt) -> Result<bool, Failed> {
        let hosts = Slurm.hosts(&self.layout, self.args.partition.as_deref())?;
        let mut jobs = Slurm.jobs()?;
        self.refused.retain(|_, when| when.elapsed() < PAUSE);
        jobs.retain(|job| job.state != State::Held || !self.refused.contains_key(&job.id));
        self.unknown(&hosts);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let wanted = if self.args.all_held { Wanted::All } else { Wanted::Marked(&self.args.mark) };
        let (layout, machine, search) = (&self.layout, &self.machine, self.args.policy.search());
        let world = World { layout, machine, hosts: &hosts, jobs: &jobs, search, wanted, now };
        let decisions = world.plan();
        // Jobs that are gone are forgotten, and so are those that were left and are not any more.
        let about: BTreeSet<&str> = decisions.iter().map(job_of).collect();
        self.said.retain(|(who, _)| {
            about.contains(who.as_str()) || self.refused.contains_key(who) || who.starts_with("host ") || who == "slurm"
        });
        let mut failed = false;
        for decision in &decisions {
            if interrupt.asked().is_break() {
                break;
            }
            failed |= !self.carry_out(decision)?;
        }
        Ok(failed)
    }

    /// Hosts of the cluster file that Slurm does not know are dead for it.
    fn unknown(&mut self, hosts: &Hosts) {
        for node in 0..self.layout.shape().nodes() as NodeId {
            let name = self.layout.name(node).to_string();
            if !hosts.conditions.contains_key(&node) {
                let message = format!("Slurm does not know host `{name}` of the cluster file: no job gets it");
                let remedy = "add it to slurm.conf or to the partition, or take it out of the cluster file";
                self.complain(&format!("host {name}"), &message, remedy);
            } else if hosts.condition(node) != Condition::Dead {
                self.forget(&format!("host {name}"));
            }
        }
    }

    /// False if Slurm refused.
    fn carry_out(&mut self, decision: &Decision) -> Result<bool, Failed> {
        let dry = self.args.dry_run;
        let would = if dry { "would be " } else { "" };
        let done = match decision {
            Decision::Start { job, place } => {
                let done = if dry { Ok(()) } else { release(job, place) };
                if done.is_ok() {
                    let set = place.comment.trim_start_matches("angara set ");
                    say!(
                        "job {job} {would}released onto {}: {set} ({})",
                        place.hosts,
                        self.args.policy.search().name()
                    )?;
                }
                done.map_err(|error| (job, error))
            }
            Decision::HoldAgain { job, host } => {
                let done = if dry { Ok(()) } else { Slurm.hold(job) };
                if done.is_ok() {
                    say!("job {job} {would}held again: host {host} of its set is dead, and it has not started")?;
                }
                done.map_err(|error| (job, error))
            }
            Decision::Waits { job, why } => {
                if self.said.insert((job.clone(), "waits".into())) {
                    say!("job {job} waits: {why}")?;
                }
                Ok(())
            }
            Decision::Left { job, why, remedy } => {
                self.complain(job, &format!("job {job} stays on hold: {why}"), remedy);
                Ok(())
            }
        };
        if let Err((job, error)) = &done {
            self.refused.insert(job.to_string(), Instant::now());
            self.complain(job, &format!("job {job}: {}", error.message), &error.remedy);
        }
        Ok(done.is_ok())
    }

    /// Says something about somebody once.
    fn complain(&mut self, who: &str, message: &str, remedy: &str) {
        if self.said.insert((who.into(), message.into())) {
            complain!("angara: {message}");
            complain!("angara: try: {remedy}");
        }
    }

    /// What was said about somebody is worth saying again.
    /// True if there was anything.
    fn forget(&mut self, who: &str) -> bool {
        let before = self.said.len();
        self.said.retain(|(of, _)| of != who);
        self.said.len() < before
    }
}

fn job_of(decision: &Decision) -> &str {
    match decision {
        Decision::Start { job, .. }
        | Decision::Waits { job, .. }
        | Decision::Left { job, .. }
        | Decision::HoldAgain { job, .. } => job,
    }
}

fn release(job: &str, place: &Place) -> Result<(), Failed> {
    Slurm.release(job, &place.hosts, place.set.nodes.len(), &place.comment)
}
