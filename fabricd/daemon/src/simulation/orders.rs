//! One host and what others ask it in an order that is hard to come by: here by hand.

use super::node::{Bell, Node, cluster};
use super::random::Random;
use super::schedule::Schedule;
use crate::hosts::ballot::{Agreed, Commit};
use crate::hosts::protocol::{Answer, Ask};
use crate::jobs::descriptor::{JobDescriptor, NewJob, OpenJob};
use angara_abi::JobId;
use angara_abi::job::{Barrier, Collectives};
use angara_fabric::{JobSlot, Ledger};
use angara_net::HostId;
use angara_protocol::msg::{Failure, JobSpec, Map, Path};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Host 2 of three with a node each. Its clock stands still, so it does nothing by itself.
struct Alone(Node);

/// Where the answer to a question will be.
type Answered = Rc<RefCell<Option<Result<Answer, Failure>>>>;

/// The only job that others speak of, by its key.
fn descriptor(coordinator: HostId, key: &str) -> JobDescriptor {
    let id = JobId::new(3);
    let spec = JobSpec {
        pes: 2,
        ppn: 8,
        map: Map::List(vec![0, 1]),
        heap: 65_536,
        heap_may_shrink: false,
        registered: 0,
        path: Path::Ring,
        barrier: Barrier::Multiphase,
        collectives: Collectives::P2p,
        name: "simulated".into(),
        alloc: None,
        open: false,
        heterogeneous: false,
    };
    let slot = JobSlot::new(0);
    let (generation, uid, user, nodes, heap_stride) = (1, 0, None, vec![0, 1], 1 << 20);
    let new =
        NewJob { id, slot, generation, uid, user, key: key.into(), spec, nodes, set: None, heap_stride, number: 1 };
    let open = OpenJob { id, endpoints: vec![0, 0], barrier: Barrier::Multiphase, hosts: vec![coordinator] };
    JobDescriptor { coordinator, over: false, new, open }
}

impl Alone {
    /// Runs `test` with a host that has followed change 1 of host 0, and the job in it.
    fn with(test: impl FnOnce(&mut Alone, HostId, HostId)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let (first, second) = (HostId::new(0), HostId::new(1));
            let shape = "3".parse().expect("a shape");
            let schedule = Schedule { shape, hosts: 3, acts: Vec::new(), repaired: 0 };
            let mut host = Alone(Node::start(&cluster(&schedule), 2, Random::new(1), &Arc::<Bell>::default(), 0));
            host.prepare(1, first);
            assert!(matches!(host.commit(1, first, vec![descriptor(first, "one")]), Answer::Done));
            assert_eq!(host.key().as_deref(), Some("one"));
            test(&mut host, first, second);
        });
    }

    /// Asks without letting the data plane run.
    fn ask(&mut self, from: HostId, ask: Ask) -> Answered {
        let (answered, daemon) = (Answered::default(), self.0.daemon.clone());
        let answer = answered.clone();
        self.0.tasks.spawn_local(async move {
            let said = daemon.answer_host(from, ask).await;
            *answer.borrow_mut() = Some(said);
        });
        self.0.run_control();
        answered
    }

    /// Lets everything run until the answer is there.
    fn answer(&mut self, answered: &Answered) -> Answer {
        for _ in 0..100 {
            if let Some(answer) = answered.borrow_mut().take() {
                return answer.expect("an answer");
            }
            self.0.run_plane(0, 1, || 0);
            self.0.deliver(0);
            self.0.run_control();
        }
        panic!("no answer");
    }

    fn prepare(&mut self, number: u64, leader: HostId) {
        let answered = self.ask(leader, Ask::Prepare((number, leader)));
        assert!(matches!(self.answer(&answered), Answer::Prepared(_)));
    }

    fn to_commit(number: u64, leader: HostId, jobs: Vec<JobDescriptor>) -> Ask {
        let members = (0..3).map(|host| (HostId::new(host), 7)).collect();
        let agreed = Agreed { number, members, ..Agreed::default() };
        let ledger = Ledger::default().to_bytes();
        Ask::Commit(Box::new(Commit { ballot: (number, leader), agreed, ledger, jobs }))
    }

    fn commit(&mut self, number: u64, leader: HostId, jobs: Vec<JobDescriptor>) -> Answer {
        let answered = self.ask(leader, Alone::to_commit(number, leader, jobs));
        self.answer(&answered)
    }

    /// Of the job that it has.
    fn key(&self) -> Option<String> {
        self.0.daemon.jobs.table.borrow().values().next().map(|job| job.key.clone())
    }
}

#[test]
fn an_order_after_a_promise_of_more_does_nothing() {
    Alone::with(|host, first, second| {
        host.prepare(2, first);
        host.prepare(3, second);
        let answer = host.commit(2, first, Vec::new());
        assert!(matches!(answer, Answer::Refused(more) if more == (3, second)), "{answer:?}");
        assert_eq!(host.key().as_deref(), Some("one"));
        assert!(host.0.plane.is_held());
    });
}

#[test]
fn a_promise_of_more_in_the_middle_of_an_order_counts() {
    Alone::with(|host, first, second| {
        host.prepare(2, first);
        // The job has ended elsewhere: its end here takes the data plane, and time.
        let ordered = host.ask(first, Alone::to_commit(2, first, Vec::new()));
        let held = host.ask(second, Ask::Prepare((3, second)));
        assert!(matches!(host.answer(&held), Answer::Prepared(_)));
        let answer = host.answer(&ordered);
        assert!(matches!(answer, Answer::Refused(more) if more == (3, second)), "{answer:?}");
        assert!(host.0.plane.is_held());
    });
}

#[test]
fn another_job_of_the_same_number_is_another_job() {
    Alone::with(|host, first, _| {
        host.prepare(2, first);
        assert!(matches!(host.commit(2, first, vec![descriptor(first, "two")]), Answer::Done));
        assert_eq!(host.key().as_deref(), Some("two"));
    });
}
