//! The daemon, its data plane, adapters, collectives, jobs, memory and limits.

use super::{Family, JOBS_MAX, Labels, MetricKind, Scrape, Value};
use crate::watch::sample::Sample;
use angara_net::NodeSet;
use angara_plane::observe::figures::PlaneFigures;
use angara_protocol::msg::JobStatus;
use prometheus_client::registry::Unit;

/// Families of everything but links and trunks.
pub(super) fn families(scrape: &Scrape) -> Vec<Family> {
    let mut families = daemon(scrape);
    families.extend(plane(&scrape.sample.plane));
    families.extend(collectives(&scrape.sample.plane));
    families.extend(jobs(&scrape.sample.jobs));
    families.extend(sets(&scrape.sample));
    families
}

fn daemon(scrape: &Scrape) -> Vec<Family> {
    let sample = &scrape.sample;
    let labels = vec![
        ("version", env!("CARGO_PKG_VERSION").to_string()),
        ("abi", angara_abi::ABI_VERSION.to_string()),
        ("shape", scrape.shape.to_string()),
    ];
    let refused = sample.refused.iter().map(|(name, n)| (vec![("limit", name.to_string())], Value::Whole(*n)));
    vec![
        Family::new(MetricKind::Info, "angara_daemon", "The daemon and its network.").each([(labels, Value::Whole(1))]),
        Family::gauge("angara_nodes", "Nodes of this host.").whole(scrape.nodes_here as u64),
        Family::gauge("angara_faults", "Faults in force or still to come.").whole(sample.plane.faults.len() as u64),
        Family::counter("angara_limit_refusals", "How often a user has met a limit.").each(refused),
        Family::gauge("process_start_time", "Start of the daemon, since 1970.").unit(Unit::Seconds).whole(scrape.start),
        Family::gauge("process_resident_memory", "Memory of the daemon that is in use.")
            .unit(Unit::Bytes)
            .whole(sample.memory.resident),
        Family::gauge("process_open_fds", "Descriptors of the daemon.").whole(sample.memory.descriptors),
    ]
}

fn plane(plane: &PlaneFigures) -> Vec<Family> {
    let kind = |name: &str, n: u64| (vec![("kind", name.to_string())], Value::Whole(n));
    let cause = |name: &str, n: u64| (vec![("cause", name.to_string())], Value::Whole(n));
    // Every figure by name, so that a new one is not left out unseen; those without a family here have one elsewhere.
    let PlaneFigures {
        rounds,
        cpu_s,
        violations,
        events,
        time_ps: _,
        in_flight,
        channels,
        adapters,
        barriers: _,
        trees: _,
        faults: _,
        sets: _,
    } = plane;
    let (packets, payloads) = *in_flight;
    let (served, waiting, stopped) = *channels;
    vec![
        Family::counter("angara_data_plane_cpu", "Processor time of the data plane.").unit(Unit::Seconds).part(*cpu_s),
        Family::counter("angara_data_plane_rounds", "Rounds of the data plane, with work (busy) and without (idle).")
            .each([kind("busy", rounds.busy), kind("idle", rounds.idle)]),
        Family::counter("angara_data_plane_sleeps", "How often the data plane went to sleep.").whole(rounds.sleeps),
        Family::counter("angara_data_plane_events", "Events that the network has handled.").whole(*events),
        Family::gauge("angara_network_packets", "Packets in the network now.").whole(packets as u64),
        Family::gauge("angara_network_payloads", "Payload slots in use now.").whole(payloads as u64),
        Family::gauge("angara_channels", "Channels that are served.").whole(served as u64),
        Family::gauge("angara_channels_waiting", "Channels whose next post waits for room in the network.")
            .whole(waiting as u64),
        Family::gauge("angara_channels_stopped", "Channels in their error state.").whole(stopped as u64),
        Family::counter("angara_adapter_packets_ejected", "Packets that adapters have delivered to this host.")
            .whole(adapters.ejected),
        Family::counter("angara_adapter_packets_dropped", "Packets that adapters have dropped.")
            .each([cause("foreign", adapters.foreign_drops), cause("unreachable", adapters.unreachable_drops)]),
        Family::counter("angara_adapter_violations", "Posts that were refused because they cannot be right.")
            .whole(*violations),
    ]
}

fn collectives(plane: &PlaneFigures) -> Vec<Family> {
    let left = plane.barriers.iter().map(|(_, left, _)| left).sum();
    let phases = plane.barriers.iter().map(|(_, _, phases)| *phases).max().unwrap_or(0);
    let (results, broadcasts) = plane.trees.iter().fold((0, 0), |(r, b), tree| (r + tree.results, b + tree.broadcasts));
    vec![
        Family::counter("angara_barrier_exits", "Barriers of adapters, counted once for each node that left.")
            .whole(left),
        Family::gauge("angara_barrier_phases", "Phases of the longest of each node's latest barriers.").whole(phases),
        Family::gauge("angara_trees", "Trees of the collective subnet in use.").whole(plane.trees.len() as u64),
        Family::gauge("angara_tree_nodes", "Nodes of these trees, the roots left out.")
            .whole(plane.trees.iter().map(|tree| tree.up.len() as u64).sum()),
        Family::gauge("angara_tree_results", "Results sent on the trees in use.").whole(results),
        Family::gauge("angara_tree_broadcasts", "Broadcasts delivered on the trees in use.").whole(broadcasts),
    ]
}

/// The jobs with series of their own.
fn own_series(jobs: &[JobStatus]) -> Vec<&JobStatus> {
    let mut own: Vec<&JobStatus> = jobs.iter().collect();
    own.sort_by(|a, b| b.age_s.total_cmp(&a.age_s));
    own.truncate(JOBS_MAX);
    own
}

fn job_label(job: &JobStatus) -> Labels {
    vec![("job", job.job.number().to_string())]
}

fn jobs(jobs: &[JobStatus]) -> Vec<Family> {
    let sum = |figure: fn(&JobStatus) -> u64| jobs.iter().map(figure).sum::<u64>();
    let own = own_series(jobs);
    let each =
        |figure: fn(&JobStatus) -> Value| own.iter().map(|job| (job_label(job), figure(job))).collect::<Vec<_>>();
    let info = own.iter().map(|job| {
        let mut labels = job_label(job);
        let path = format!("{:?}", job.path).to_lowercase();
        labels.extend([("name", job.name.clone()), ("uid", job.uid.to_string()), ("path", path)]);
        (labels, Value::Whole(1))
    });
    vec![
        Family::gauge("angara_jobs", "Jobs that run.").whole(jobs.len() as u64),
        Family::gauge("angara_pes", "PEs of all jobs.").whole(sum(|job| job.pes.into())),
        Family::gauge("angara_pes_attached", "PEs of all jobs that are attached.")
            .whole(sum(|job| job.attached.into())),
        Family::gauge("angara_jobs_memory", "Memory reserved for all jobs.")
            .unit(Unit::Bytes)
            .whole(sum(|job| job.memory)),
        Family::new(MetricKind::Info, "angara_job", "A job that runs.").each(info),
        Family::gauge("angara_job_pes", "PEs of a job.").each(each(|job| Value::Whole(job.pes.into()))),
        Family::gauge("angara_job_pes_attached", "PEs of a job that are attached.")
            .each(each(|job| Value::Whole(job.attached.into()))),
        Family::gauge("angara_job_memory", "Memory reserved for a job.")
            .unit(Unit::Bytes)
            .each(each(|job| Value::Whole(job.memory))),
        Family::gauge("angara_job_age", "Time since a job was created.")
            .unit(Unit::Seconds)
            .each(each(|job| Value::Part(job.age_s))),
    ]
}

fn sets(sample: &Sample) -> Vec<Family> {
    let own: Vec<_> = own_series(&sample.jobs).into_iter().filter_map(|job| Some((job, job.set.as_ref()?))).collect();
    let each = |figure: fn(&JobStatus, &NodeSet) -> u64| {
        own.iter().map(|(job, set)| (job_label(job), Value::Whole(figure(job, set)))).collect::<Vec<_>>()
    };
    vec![
        Family::gauge("angara_nodes_without_set", "Nodes of the whole network that work and are in no job's node set.")
            .whole(sample.plane.sets.nodes_without as u64),
        Family::gauge("angara_job_set_nodes", "Nodes of a job's node set that processes run on.")
            .each(each(|_, set| set.nodes.len() as u64)),
        Family::gauge("angara_job_set_transit_nodes", "Nodes of a job's node set that only pass packets on.")
            .each(each(|_, set| set.transit.len() as u64)),
        Family::counter("angara_job_set_tables_made", "How often the route table of a job's node set has been made.")
            .each(each(|job, _| job.tables_made.unwrap_or(0))),
    ]
}
