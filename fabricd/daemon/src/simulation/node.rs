//! A daemon in the simulation: its control plane as tasks that run when they are woken, its data plane, and what is on its way
//! between the two.

use super::network::{Plug, address};
use super::random::Random;
use super::schedule::Schedule;
use crate::config::Options;
use crate::daemon::Daemon;
use crate::hosts::wires::Wires;
use crate::machine::Machine;
use angara_cluster::{Address, Cluster, Host, HostId, Membership};
use angara_net::torus::NodeId;
use angara_plane::{Answer, DataPlane, Notice};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

/// Silence after which a host counts as dead.
pub(super) const DEAD_AFTER: Duration = Duration::from_millis(700);
const HEARTBEAT: Duration = Duration::from_millis(120);

/// Wakes the simulation when tasks of any node can go on.
#[derive(Default)]
pub(super) struct Bell(pub(super) Mutex<Option<Waker>>);

/// Says that tasks of one node can go on.
struct Flag {
    set: AtomicBool,
    bell: Arc<Bell>,
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.set.store(true, Ordering::Relaxed);
        let waker = self.bell.0.lock().unwrap_or_else(|e| e.into_inner()).take();
        waker.into_iter().for_each(Waker::wake);
    }
}

/// A machine whose chance follows from a seed.
struct Simulated(RefCell<Random>);

impl Machine for Simulated {
    fn random(&self) -> io::Result<[u8; 16]> {
        Ok(self.0.borrow_mut().bytes())
    }

    fn user(&self, _: u32) -> Pin<Box<dyn Future<Output = Option<String>> + '_>> {
        Box::pin(std::future::ready(Some("user".into())))
    }

    fn memory_limits(&self, _: Option<u64>) -> Vec<(String, u64)> {
        vec![("the simulated memory".into(), 1 << 30)]
    }

    fn monotonic(&self) -> u64 {
        1
    }

    fn wall(&self) -> u64 {
        self.monotonic()
    }

    fn cores(&self) -> usize {
        4
    }
}

/// How a daemon has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Ending {
    AsTold,
    Expelled,
}

/// One life of a daemon.
pub(super) struct Node {
    pub(super) daemon: Rc<Daemon>,
    pub(super) plane: DataPlane,
    pub(super) plug: Plug,
    pub(super) tasks: LocalSet,
    pub(super) ending: Rc<Cell<Option<Ending>>>,
    flag: Arc<Flag>,
    /// What the data plane has said, and where it goes.
    said: UnboundedReceiver<Notice>,
    heard: UnboundedSender<Notice>,
    /// On their way to the control plane, in order, and when they are there.
    replies: VecDeque<(u64, Answer)>,
    notices: VecDeque<(u64, Notice)>,
    /// When the data plane runs next, and when the control plane may.
    pub(super) plane_at: u64,
    pub(super) control_at: u64,
    /// The data plane has been told to end.
    pub(super) stopped: bool,
}

/// The clock that only the simulation moves.
fn clock() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The cluster file of a schedule.
pub(super) fn cluster(schedule: &Schedule) -> Cluster {
    let host = |index: usize| Host {
        name: format!("h{index}"),
        addresses: vec![Address { host: address(index).ip().to_string(), port: address(index).port() }],
        nodes: (0..schedule.shape.nodes() as NodeId).filter(|n| schedule.owner(*n) == index).collect(),
    };
    Cluster {
        path: "simulated".into(),
        id: [7; 16],
        shape: schedule.shape,
        hosts: (0..schedule.hosts).map(host).collect(),
        current_key: 1,
        keys: Vec::new(),
        mtu: Some(4000),
        boundary_slots: None,
        heartbeat: HEARTBEAT,
        dead_after: DEAD_AFTER,
    }
}

impl Node {
    pub(super) fn start(cluster: &Cluster, host: usize, mut random: Random, bell: &Arc<Bell>, now: u64) -> Node {
        let options = Options {
            nodes: Some(cluster.hosts[host].nodes.clone()),
            cluster: Some(Membership { cluster: cluster.clone(), host: HostId::new(host as u16) }),
            channels: 8,
            seed: random.draw(),
            ..Options::new(cluster.shape, "")
        };
        let plug = Plug::default();
        let mut seeds = Random::new(random.draw());
        let wires = Wires {
            socket: plug.socket(host),
            addresses: (0..cluster.hosts.len()).map(address).collect(),
            keys: angara_trunk::KeyRing::new(1, &[3; 32]).expect("a key"),
            random: Box::new(move || Ok(seeds.bytes())),
        };
        let (notices, said) = unbounded_channel();
        let config = angara_plane::Config { clock, ..options.plane_over(Some(wires)) };
        let notify = move |notice| drop(notices.send(notice));
        let (handle, plane) = DataPlane::new(config, notify).expect("a data plane");
        let daemon = Rc::new(Daemon::new(options, handle, Box::new(Simulated(RefCell::new(random)))));
        let (heard, incoming) = unbounded_channel();
        let ending = Rc::new(Cell::new(None));
        let tasks = LocalSet::new();
        tasks.spawn_local(daemon.clone().lead_changes());
        tasks.spawn_local(serve(daemon.clone(), incoming, ending.clone()));
        let flag = Arc::new(Flag { set: AtomicBool::new(true), bell: bell.clone() });
        Node {
            daemon,
            plane,
            plug,
            tasks,
            ending,
            flag,
            said,
            heard,
            replies: VecDeque::new(),
            notices: VecDeque::new(),
            plane_at: now,
            control_at: now,
            stopped: false,
        }
    }

    /// True if tasks of the control plane can go on.
    pub(super) fn is_woken(&self) -> bool {
        self.flag.set.load(Ordering::Relaxed)
    }

    /// Lets the control plane run until all its tasks wait.
    pub(super) fn run_control(&mut self) {
        while self.flag.set.swap(false, Ordering::Relaxed) {
            let waker = Waker::from(self.flag.clone());
            let _ = Pin::new(&mut self.tasks).poll(&mut Context::from_waker(&waker));
        }
    }

    /// Lets the data plane run; what it answers and says gets there after `delay`.
    pub(super) fn run_plane(&mut self, now: u64, rounds: usize, mut delay: impl FnMut() -> u64) {
        let mut replies = Vec::new();
        self.plane_at = match self.plane.run_for(rounds, &mut replies) {
            None => {
                self.stopped = true;
                u64::MAX
            }
            Some(true) => now + 1,
            Some(false) => {
                self.plane.sleeps_for().map_or(u64::MAX, |d| now + (d.as_micros().div_ceil(1000) as u64).max(1))
            }
        };
        for reply in replies {
            let due = self.replies.back().map_or(0, |(due, _)| *due).max(now + delay());
            self.replies.push_back((due, reply));
        }
        while let Ok(notice) = self.said.try_recv() {
            let due = self.notices.back().map_or(0, |(due, _)| *due).max(now + delay());
            self.notices.push_back((due, notice));
        }
    }

    /// Hands over what has got there; how much.
    pub(super) fn deliver(&mut self, now: u64) -> u64 {
        let mut count = 0;
        while self.replies.front().is_some_and(|(due, _)| *due <= now) {
            self.replies.pop_front().into_iter().for_each(|(_, reply)| reply());
            count += 1;
        }
        while self.notices.front().is_some_and(|(due, _)| *due <= now) {
            // Fails only when the daemon has ended.
            self.notices.pop_front().into_iter().for_each(|(_, notice)| drop(self.heard.send(notice)));
            count += 1;
        }
        count
    }

    /// When something happens next without anybody's call.
    pub(super) fn next(&self) -> u64 {
        let due = |first: Option<u64>| first.unwrap_or(u64::MAX);
        let control = if self.is_woken() { self.control_at } else { u64::MAX };
        let replies = due(self.replies.front().map(|(due, _)| *due));
        self.plane_at.min(control).min(replies).min(due(self.notices.front().map(|(due, _)| *due)))
    }

    /// Returns what is still there although no job is and nobody wants anything.
    pub(super) fn leftovers(&self) -> Vec<String> {
        let mut found = self.plane.leftovers();
        found.extend(self.daemon.leftovers());
        found
    }
}

/// What the daemon's main loop does, without signals and sockets.
async fn serve(daemon: Rc<Daemon>, mut notices: UnboundedReceiver<Notice>, ending: Rc<Cell<Option<Ending>>>) {
    loop {
        tokio::select! {
            biased;
            () = daemon.stop.notified() => break,
            Some(notice) = notices.recv() => daemon.take_notice(notice),
        }
    }
    daemon.end_all_jobs("was shut down", &mut notices).await;
    crate::ask::tell(&daemon.data, angara_plane::Command::Stop);
    ending.set(Some(if daemon.cluster.expelled.get() { Ending::Expelled } else { Ending::AsTold }));
}

impl Daemon {
    fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut look = |what: &str, there: usize| {
            if there > 0 {
                found.push(format!("{there} {what}"));
            }
        };
        look("jobs", self.jobs.table.borrow().len());
        look("reservations", self.jobs.reservations.borrow().len());
        look("endpoints", self.jobs.endpoints.borrow().in_use());
        look("cuts to be made", self.cluster.cuts.borrow().len());
        look("questions under way", self.cluster.messages.as_ref().map_or(0, |s| s.questions()));
        look("pieces under way", self.cluster.messages.as_ref().map_or(0, |s| s.unacknowledged()));
        look("streams", self.cluster.streams.len());
        found
    }
}
