//! Properties of every scheduler, on random queues.

use super::{Conservative, Desk, Easy, Fcfs, Scheduler};
use crate::queue::Job;
use crate::queue::engine::{Outcome, Ran, Record, simulate};
use crate::queue::lublin::{self, Wanted};
use angara_fabric::Outage;
use angara_placement::{BestFitBox, Closed, FirstFitBox, Fragmentation, Machine, Search, Unconstrained, Utilisation};
use proptest::prelude::*;
use std::collections::HashMap;
use std::ops::ControlFlow;

/// With those that may miss a set once more nodes are free.
const ALL: [&dyn Search; 6] = [&FirstFitBox, &BestFitBox, &Unconstrained, &Closed, &Fragmentation, &Utilisation];
const SEARCHES: [&dyn Search; 3] = [&FirstFitBox, &BestFitBox, &Unconstrained];

fn machine() -> Machine {
    Machine::new("4x3x2".parse().unwrap(), &[Outage::Node(5)])
}

fn run(jobs: &[Job], scheduler: &mut dyn Scheduler, search: &dyn Search) -> Outcome {
    let record = Record { samples: 10, sets: 0..u64::MAX };
    simulate(&machine(), jobs, scheduler, search, &record, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn jobs(exact: bool) -> impl Strategy<Value = Vec<Job>> {
    let job = (0u64..12, 1usize..=24, 1u64..40, 0u64..30);
    prop::collection::vec(job, 1..60).prop_map(move |rows| {
        let mut submit = 0;
        let make = |(number, (wait, nodes, run, more))| {
            submit += wait;
            Job { number, submit, nodes, run, estimate: run + if exact { 0 } else { more } }
        };
        (0..).zip(rows).map(make).collect()
    })
}

/// Jobs that started later than their first reservation said: job, promise, start.
fn late(outcome: &Outcome) -> Vec<(usize, u64, u64)> {
    let promised = |(job, ran): (usize, &Option<Ran>)| ran.and_then(|ran| Some((job, ran.promised?, ran.start)));
    outcome.ran.iter().enumerate().filter_map(promised).filter(|(_, by, start)| start > by).collect()
}

/// Notes what reservations are made, and looks at the head before each pass.
struct Watched<'a, S> {
    inner: S,
    check: &'a mut dyn FnMut(&Desk, &S),
}

impl<S: Scheduler> Scheduler for Watched<'_, S> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }
    fn ended(&mut self, job: u32, desk: &Desk) {
        self.inner.ended(job, desk);
    }
    fn pass(&mut self, desk: &mut Desk) {
        self.inner.pass(desk);
        (self.check)(desk, &self.inner);
    }
}

/// All that must hold of any schedule.
fn sound(jobs: &[Job], outcome: &Outcome) -> Result<(), TestCaseError> {
    let machine = machine();
    let mut spans = vec![];
    for (index, job) in jobs.iter().enumerate() {
        let Some(ran) = outcome.ran[index] else {
            prop_assert!(job.nodes > 12, "only sizes that no box has are rejected: {:?}", job);
            continue;
        };
        let set = &outcome.sets[&index];
        prop_assert!(ran.start >= job.submit && set.nodes.len() == job.nodes && set.transit.len() == ran.transit);
        prop_assert!(set.held().all(|node| !machine.is_dead(node)));
        spans.extend(set.held().map(|node| (node, ran.start, ran.start + job.run)));
    }
    spans.sort_unstable();
    for pair in spans.windows(2) {
        prop_assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "a node of two jobs: {:?}", pair);
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_node_is_used_by_two_jobs_at_once(jobs in jobs(false)) {
        for search in SEARCHES {
            let schedulers: [&mut dyn Scheduler; 4] = [&mut Fcfs, &mut Easy::default(), &mut Conservative::new(100), &mut Conservative::new(2)];
            for scheduler in schedulers {
                sound(&jobs, &run(&jobs, scheduler, search))?;
            }
        }
    }

    #[test]
    fn fcfs_starts_in_order(jobs in jobs(false)) {
        for search in SEARCHES {
            let starts: Vec<u64> = run(&jobs, &mut Fcfs, search).ran.iter().flatten().map(|r| r.start).collect();
            prop_assert!(starts.is_sorted(), "{:?}", starts);
        }
    }

    #[test]
    fn easy_never_delays_the_head_beyond_its_first_reservation(jobs in jobs(false)) {
        for search in ALL {
            let mut last: Option<(u32, u64)> = None;
            let mut later = vec![];
            let mut check = |_: &Desk, easy: &Easy| {
                let reserved = easy.reserved();
                if let (Some(before), Some(now)) = (last, reserved)
                    && before.0 == now.0 && before.1 < now.1
                {
                    later.push((before, now));
                }
                last = reserved;
            };
            let outcome = run(&jobs, &mut Watched { inner: Easy::default(), check: &mut check }, search);
            sound(&jobs, &outcome)?;
            prop_assert_eq!(late(&outcome), vec![], "{}", search.name());
            prop_assert!(later.is_empty(), "{}: {:?}", search.name(), later);
        }
    }

    #[test]
    fn conservative_keeps_every_first_reservation(
        jobs in jobs(false),
        depth in prop::sample::select(vec![1, 2, 100]),
    ) {
        for search in ALL {
            let mut last = HashMap::new();
            let mut later = vec![];
            let mut check = |_: &Desk, scheduler: &Conservative| {
                for (job, start) in scheduler.reservations() {
                    let before = last.insert(job, start);
                    later.extend(before.filter(|before| *before < start).map(|before| (job, before, start)));
                }
            };
            let outcome = run(&jobs, &mut Watched { inner: Conservative::new(depth), check: &mut check }, search);
            sound(&jobs, &outcome)?;
            prop_assert_eq!(late(&outcome), vec![], "{}", search.name());
            prop_assert!(later.is_empty(), "{} moved back: {:?}", search.name(), later);
        }
    }

    #[test]
    fn conservative_starts_jobs_as_reserved_if_estimates_are_exact(jobs in jobs(true)) {
        for search in SEARCHES {
            let outcome = run(&jobs, &mut Conservative::new(100), search);
            for ran in outcome.ran.iter().flatten() {
                prop_assert_eq!(Some(ran.start), ran.promised, "{}", search.name());
            }
        }
    }
}

fn job(number: u64, submit: u64, nodes: usize, run: u64) -> Job {
    Job { number, submit, nodes, run, estimate: run }
}

fn starts(outcome: &Outcome) -> Vec<u64> {
    outcome.ran.iter().map(|ran| ran.unwrap().start).collect()
}

#[test]
fn each_scheduler_lets_others_overtake() {
    // 23 nodes work. The second job waits for the first; the fourth fits before it, the fifth beside it.
    let jobs = [job(0, 0, 20, 100), job(1, 1, 21, 50), job(2, 2, 20, 10), job(3, 3, 3, 90), job(4, 4, 2, 200)];
    let run = |scheduler: &mut dyn Scheduler| starts(&run(&jobs, scheduler, &Unconstrained));
    assert_eq!(run(&mut Fcfs), [0, 100, 150, 150, 160]);
    assert_eq!(run(&mut Easy::default()), [0, 100, 150, 3, 93]);
    assert_eq!(run(&mut Conservative::new(9)), [0, 100, 150, 3, 93]);
}

#[test]
fn conservative_protects_the_second_job_and_easy_does_not() {
    let jobs = [job(0, 0, 20, 100), job(1, 1, 21, 50), job(2, 2, 22, 10), job(3, 3, 2, 200)];
    let run = |scheduler: &mut dyn Scheduler| starts(&run(&jobs, scheduler, &Unconstrained));
    assert_eq!(run(&mut Easy::default()), [0, 100, 203, 3]);
    assert_eq!(run(&mut Conservative::new(9)), [0, 100, 150, 160]);
    assert_eq!(run(&mut Conservative::new(1)), [0, 100, 150, 160], "one reservation: later jobs have none to start by");
}

#[test]
fn fragmentation_is_seen() {
    // A ring of 6: two jobs of 2 with a single job between end so that 4 are free in two pieces of 2 and 2.
    let machine = Machine::new("mesh:6".parse().unwrap(), &[]);
    let jobs = [job(0, 0, 2, 5), job(1, 0, 1, 50), job(2, 0, 3, 5), job(3, 6, 4, 10)];
    let record = Record { samples: 100, sets: 0..u64::MAX };
    let go = &mut |_| ControlFlow::Continue(());
    let outcome = simulate(&machine, &jobs, &mut Easy::default(), &FirstFitBox, &record, go).unwrap();
    assert_eq!((starts(&outcome), outcome.sets.len()), (vec![0, 0, 0, 50], 4));
    assert!(outcome.ran[3].unwrap().blocked && !outcome.ran[2].unwrap().blocked);
    assert_eq!(outcome.blocked.iter().map(|b| (b.span, b.nodes)).collect::<Vec<_>>(), [((6, 50), 4)]);
    let sample = outcome.samples.iter().find(|s| s.time == 6).unwrap();
    assert_eq!((sample.free, sample.largest_box), (5, 3));
}

/// Runs 300 jobs on a machine of 128 nodes, with every search and several seeds.
fn breaks_no_promise(scheduler: &dyn Fn() -> Box<dyn Scheduler>) {
    let machine = Machine::new("8x4x4".parse().unwrap(), &[]);
    let go = &mut |_| ControlFlow::Continue(());
    for search in ALL {
        let mut promised = 0;
        for seed in 1..=4 {
            let wanted = Wanted { jobs: 300, nodes: machine.working(), load: Some(1.1), overestimate: 2.0, seed };
            let jobs = lublin::jobs(&wanted);
            let outcome = simulate(&machine, &jobs, &mut *scheduler(), search, &Record::default(), go).unwrap();
            promised += outcome.ran.iter().flatten().filter(|ran| ran.promised.is_some()).count();
            assert_eq!(late(&outcome), [], "seed {seed}, {}", search.name());
        }
        assert!(promised > 30, "{}: {promised} promises", search.name());
    }
}

#[test]
fn easy_breaks_no_promise_with_boxes_of_a_real_machine() {
    breaks_no_promise(&|| Box::new(Easy::default()));
}

#[test]
fn conservative_breaks_no_promise_with_boxes_of_a_real_machine() {
    breaks_no_promise(&|| Box::new(Conservative::new(256)));
}
