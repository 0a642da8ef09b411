//! Jobs of which nothing reaches the network: an MPI library that sends its messages another way, or a program that uses
//! neither OpenSHMEM nor MPI although something was asked of the network.

use super::options::{Check, Clock, Options};
use super::place::Place;
use super::plan::JobPlan;
use super::processes::spawn::descendants;
use crate::mpi::reach;
use angara_abi::JobId;
use angara_control::error::Failed;
use angara_protocol::msg::{Path, Request};

/// Returns what is wrong with the MPI library that a process of the job has loaded, if the program's file did not name
/// it. A process that enters MPI has done so.
pub(super) fn library(plan: &JobPlan, spare: Option<u32>) -> Option<Failed> {
    if plan.mpi.kind.is_some() || plan.mpi.elsewhere {
        return None;
    }
    let maps = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/maps")).ok();
    let all = descendants(std::process::id(), spare);
    let found = all.into_iter().find_map(|pid| reach::loaded(&maps(pid)?))?;
    match reach::reaches(&found, &plan.env) {
        true => None,
        false if reach::reaches_ucx(&found, &plan.env) => Some(reach::untold(&found)),
        false => Some(reach::unreachable(&found)),
    }
}

/// What is to be said of a job that has ended well, if none of its processes has ever attached. `in_mpi`: some have used MPI.
pub(super) async fn at_the_end(
    place: &mut Place,
    job: JobId,
    (args, plan): (&Options, &JobPlan),
    in_mpi: bool,
) -> Option<Failed> {
    let mpi = plan.mpi.kind.filter(|_| in_mpi && !plan.mpi.elsewhere);
    let asked = asked(args);
    if mpi.is_none() && asked.is_empty() || !place.alive || came(place, job).await? > 0 {
        return None;
    }
    // What other hosts know of their PEs comes before their answers.
    place.control.request(&Request::JobReport { job }).await.ok()?;
    if came(place, job).await? > 0 {
        return None;
    }
    Some(match mpi {
        Some(kind) if plan.mpi.adapters.is_some() => Failed::runtime(
            format!(
                "{kind} sent its messages another way: no rank has opened its RDMA adapter of the emulated network"
            ),
            "leave out what chooses another way, such as UCX_NET_DEVICES, MPIR_CVAR_CH4_NETMOD or OMPI_MCA_pml; -x \
             UCX_LOG_LEVEL=info has UCX say more",
        ),
        Some(kind) => Failed::runtime(
            format!("{kind} sent its messages another way: no rank has opened the provider of the emulated network"),
            "leave out what chooses another way, such as MPIR_CVAR_CH4_NETMOD, I_MPI_FABRICS or OMPI_MCA_pml; -x \
             FI_LOG_LEVEL=info has the library say more",
        ),
        None => Failed::runtime(
            format!("nothing has used the network, of which {} was asked", asked.join(", ")),
            "compile the program with oshcc, or with an MPI library that uses libfabric or UCX; or leave the option out",
        ),
    })
}

/// How many PEs have ever attached.
async fn came(place: &mut Place, job: JobId) -> Option<u32> {
    let status = place.control.status().await.ok()?;
    status.jobs.iter().find(|status| status.job == job).map(|status| status.came)
}

/// Options that ask something of the network.
fn asked(args: &Options) -> Vec<&'static str> {
    let all = [
        ("--path ring", args.path == Path::Ring),
        ("--fault", !args.faults.is_empty()),
        ("--set", !args.set.is_empty()),
        ("--report", args.report.is_some()),
        ("--capture", args.capture.is_some()),
        ("--trace", args.trace.is_some()),
        ("--check=races", args.check.contains(&Check::Races)),
        ("--clock virtual", args.clock == Clock::Virtual),
    ];
    all.into_iter().filter(|(_, given)| *given).map(|(option, _)| option).collect()
}
