//! What the page is told, as JSON (`docs/reference/formats.md` describes it).

use crate::watch::past::{Past, has_ended};
use crate::watch::sample::Sample;
use angara_abi::JobId;
use angara_abi::account::{Class, Load};
use angara_fabric::ChannelUse;
use angara_net::torus::Shape;
use angara_net::{Link, NodeSet};
use angara_plane::observe::figures::{LinkDetail, TreeFigures};
use angara_protocol::msg::{JobStatus, PeerStatus};
use angara_protocol::print::plain_line;
use serde::Serialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// As it is shown.
pub(crate) fn number_of(job: JobId) -> u64 {
    job.number().into()
}

/// Returns what is open of a link.
pub(crate) fn link_json(detail: &LinkDetail) -> Value {
    let class = |(class, load): &(Class, Load)| json!({ "class": class, "load": load });
    let channel = |c: &ChannelUse| {
        let name = format!("{:?}", c.vc).to_lowercase();
        json!({ "vc": name, "slots": c.slots, "of": c.of, "packets": c.packets, "flits": c.flits })
    };
    let classes: Vec<_> = detail.classes.iter().map(class).collect();
    let channels: Vec<_> = detail.channels.iter().map(channel).collect();
    json!({ "classes": classes, "channels": channels })
}

/// What is kept of the past: frames after one of them, as many as an answer has room for, and steps that end after a time.
pub(crate) fn past_json(past: &Past, after: u64, since: f64, now: f64) -> Value {
    let (frames, more) = past.piece(after);
    let steps: Vec<_> = past.steps().filter(|step| step.span.to > since).collect();
    json!({
        "now": now,
        "more": more,
        "frames": frames,
        "steps": steps,
        "jobs": past.jobs,
        "changes": past.changes,
        "kept": { "frames": past.frames(0).count(), "bytes": past.held() },
    })
}

/// What has changed from one sample to another. Figures are totals, so one that is lost does no harm.
pub(crate) struct Delta<'s> {
    /// `None`: everything is new.
    pub(crate) last: Option<&'s Sample>,
    pub(crate) now: &'s Sample,
    pub(crate) shape: Shape,
}

#[derive(Serialize)]
struct Event<'s> {
    /// Seconds since the daemon's start.
    t: f64,
    /// Virtual time, in picoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    ps: Option<u64>,
    /// Everything is in here.
    full: bool,
    /// Link, packets, flits, bytes, of each link that has carried something since.
    links: Vec<u64>,
    /// Link, CRC errors, replays, duplicates, overtaken packets, of each link that has had some since.
    errors: Vec<u64>,
    /// Links that do not work.
    down: Vec<u64>,
    /// Node, barriers left, phases of the latest, of each node that has left one since.
    barriers: Vec<u64>,
    trees: Vec<Tree>,
    faults: &'s [String],
    jobs: Vec<Job>,
    plane: Plane,
    #[serde(skip_serializing_if = "Option::is_none")]
    trunks: Option<&'s [PeerStatus]>,
}

#[derive(Serialize)]
struct Tree {
    tree: u8,
    job: Option<u64>,
    root: Option<u32>,
    /// Links towards the root, by the number of the link.
    up: Vec<u64>,
    results: u64,
    broadcasts: u64,
}

#[derive(Serialize)]
struct Job {
    job: u64,
    name: String,
    uid: u32,
    pes: u32,
    attached: u32,
    /// No PE is there any more.
    ended: bool,
    memory: u64,
    age_s: f64,
    path: angara_protocol::msg::Path,
    #[serde(skip_serializing_if = "Option::is_none")]
    set: Option<Set>,
}

/// The node set of a job. Which nodes it holds does not change, and is asked for.
#[derive(Serialize)]
struct Set {
    nodes: usize,
    transit: usize,
    tables_made: u64,
}

#[derive(Serialize)]
struct Plane {
    cpu_s: f64,
    busy: u64,
    idle: u64,
    sleeps: u64,
    events: u64,
    packets: usize,
    channels: usize,
    waiting: usize,
    violations: u64,
}

impl Delta<'_> {
    /// Nothing but time has passed.
    pub(crate) fn is_nothing(&self) -> bool {
        let Some(last) = self.last else { return false };
        last.links == self.now.links
            && (Arc::ptr_eq(&last.far, &self.now.far) || last.far == self.now.far)
            && last.plane.barriers == self.now.plane.barriers
            && last.plane.faults == self.now.plane.faults
            && last.plane.sets == self.now.plane.sets
            && last.jobs.len() == self.now.jobs.len()
            && last.jobs.iter().zip(&self.now.jobs).all(|(a, b)| (a.job, a.attached) == (b.job, b.attached))
    }

    /// The event.
    pub(crate) fn json(&self) -> String {
        let (mut links, mut errors, mut down) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..self.now.links.len() {
            let now = self.now.figures(index);
            let last = self.last.map(|last| last.figures(index)).unwrap_or_default();
            let index = index as u64;
            if now.load != last.load {
                links.extend([index, now.load.packets, now.load.flits, now.load.bytes]);
            }
            let suffered = [now.crc_errors, now.replays, now.duplicates, now.reordered];
            if suffered != [last.crc_errors, last.replays, last.duplicates, last.reordered] {
                errors.push(index);
                errors.extend(suffered);
            }
            if !now.up && self.exists(index) {
                down.push(index);
            }
        }
        let event = Event {
            t: self.now.at.as_secs_f64(),
            ps: self.now.plane.time_ps,
            full: self.last.is_none(),
            links,
            errors,
            down,
            barriers: self.barriers(),
            trees: self.trees(),
            faults: &self.now.plane.faults,
            jobs: self.jobs(),
            plane: self.plane(),
            trunks: self.now.cluster.as_ref().map(|cluster| &cluster.peers[..]),
        };
        // Plain data.
        serde_json::to_string(&event).unwrap_or_default()
    }

    fn exists(&self, link: u64) -> bool {
        Link::from_index(link as usize).exists(&self.shape)
    }

    fn barriers(&self) -> Vec<u64> {
        let last = |node| {
            let barriers = &self.last?.plane.barriers;
            barriers.binary_search_by_key(&node, |(node, _, _)| *node).ok().map(|at| barriers[at])
        };
        let new = self.now.plane.barriers.iter().filter(|now| last(now.0) != Some(**now));
        new.flat_map(|(node, left, phases)| [u64::from(*node), *left, *phases]).collect()
    }

    fn trees(&self) -> Vec<Tree> {
        let tree = |tree: &TreeFigures| Tree {
            tree: tree.number,
            job: tree.job.map(number_of),
            root: tree.root,
            up: tree.up.iter().map(|(node, dir)| Link { node: *node, dir: *dir }.index() as u64).collect(),
            results: tree.results,
            broadcasts: tree.broadcasts,
        };
        self.now.plane.trees.iter().map(tree).collect()
    }

    fn jobs(&self) -> Vec<Job> {
        let set = |status: &JobStatus| {
            let NodeSet { nodes, transit } = status.set.as_ref()?;
            let tables_made = status.tables_made.unwrap_or(0);
            Some(Set { nodes: nodes.len(), transit: transit.len(), tables_made })
        };
        let job = |status: &JobStatus| Job {
            job: number_of(status.job),
            name: plain_line(&status.name),
            uid: status.uid,
            pes: status.pes,
            attached: status.attached,
            ended: has_ended(status),
            memory: status.memory,
            age_s: status.age_s,
            path: status.path,
            set: set(status),
        };
        self.now.jobs.iter().map(job).collect()
    }

    fn plane(&self) -> Plane {
        let plane = &self.now.plane;
        Plane {
            cpu_s: plane.cpu_s,
            busy: plane.rounds.busy,
            idle: plane.rounds.idle,
            sleeps: plane.rounds.sleeps,
            events: plane.events,
            packets: plane.in_flight.0,
            channels: plane.channels.0,
            waiting: plane.channels.1,
            violations: plane.violations,
        }
    }
}
