//! Slurm's commands.

use super::{Hosts, Job, Layout, jobs};
use angara_control::error::Failed;
use std::process::Command;

/// Slurm as its commands show it. Those in PATH are run, with the environment (`SLURM_CONF`) of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slurm;

impl Slurm {
    /// Jobs that the controller knows, of all partitions.
    pub fn jobs(self) -> Result<Vec<Job>, Failed> {
        // As JSON, because names and comments of jobs are their users' and may look like anything.
        jobs(&self.run("squeue", &["--all", "--json"])?)
    }

    /// Nodes of the torus.
    pub fn hosts(self, layout: &Layout, partition: Option<&str>) -> Result<Hosts, Failed> {
        Hosts::read(&self.run("sinfo", &Hosts::ARGUMENTS)?, layout, partition)
    }

    /// Gives a held job the nodes of its set and a comment; then lets it go.
    pub fn release(self, job: &str, hosts: &str, count: usize, comment: &str) -> Result<(), Failed> {
        let update = [
            "update".into(),
            format!("JobId={job}"),
            format!("ReqNodeList={hosts}"),
            format!("NumNodes={count}-{count}"),
            format!("AdminComment={comment}"),
        ];
        self.run("scontrol", &update.each_ref().map(String::as_str))?;
        self.run("scontrol", &["release", job]).map(drop)
    }

    /// Holds a job that waits.
    pub fn hold(self, job: &str) -> Result<(), Failed> {
        self.run("scontrol", &["hold", job]).map(drop)
    }

    fn run(self, name: &str, arguments: &[&str]) -> Result<String, Failed> {
        let called = || format!("`{name} {}`", arguments.join(" "));
        let done = Command::new(name).args(arguments).output().map_err(|error| {
            Failed::runtime(
                format!("cannot run {}: {error}", called()),
                "install Slurm's commands (Debian: slurm-client), or put their folder into PATH",
            )
        })?;
        let (out, said) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        // Some commands of 22.05 say that nobody answers and exit with 0.
        let silent = out.trim().is_empty() && !said.is_empty() && name != "scontrol";
        if done.status.success() && !silent {
            return Ok(out.into_owned());
        }
        let said = if said.is_empty() { done.status.to_string() } else { said.join("; ") };
        let remedy = match name {
            "scontrol" => "see `scontrol ping`; nodes of jobs are changed by root, SlurmUser and Slurm's operators",
            _ => "see `scontrol ping`; SLURM_CONF names another configuration",
        };
        Err(Failed::runtime(format!("{}: {said}", called()), remedy))
    }
}
