//! Passes over queues that are known.

use super::*;
use crate::slurm::nodes::tests::layout;
use angara_fabric::rng::splitmix;
use angara_placement::FirstFitBox;

const NOW: u64 = 1_000_000;

fn held(id: &str, count: usize, limit: u64) -> Job {
    Job {
        id: id.into(),
        state: State::Held,
        submit: NOW - 100,
        count,
        limit: Some(limit),
        end: 0,
        eligible: 0,
        partitions: vec!["p".into()],
        hosts: String::new(),
        required: String::new(),
        excluded: String::new(),
        demand: None,
        comment: "angara".into(),
        admin_comment: String::new(),
    }
}

fn running(id: &str, hosts: &str, left: u64) -> Job {
    Job { state: State::Running, hosts: hosts.into(), end: NOW + left, comment: String::new(), ..held(id, 1, left) }
}

fn plan_of(sinfo: &str, jobs: &[Job], wanted: Wanted) -> Vec<Decision> {
    let layout = layout("4x2");
    let machine = Machine::new(*layout.shape(), &[]);
    let hosts = Hosts::read(sinfo, &layout, None).expect("nodes");
    let world =
        World { layout: &layout, machine: &machine, hosts: &hosts, jobs, search: &FirstFitBox, wanted, now: NOW };
    world.plan()
}

/// All nodes in partition p, idle unless said otherwise.
fn sinfo(others: &[(usize, &str)]) -> String {
    let state = |n| others.iter().find(|other| other.0 == n).map_or("idle", |other| other.1);
    (0..8).map(|n| format!("n{n}|{}|p\n", state(n))).collect()
}

/// Decisions in short.
fn plan(others: &[(usize, &str)], jobs: &[Job]) -> String {
    let short = |decision: &Decision| match decision {
        Decision::Start { job, place } => format!("{job}: {}", place.hosts),
        Decision::Waits { job, .. } => format!("{job} waits"),
        Decision::Left { job, .. } => format!("{job} left"),
        Decision::HoldAgain { job, host } => format!("{job} held again for {host}"),
    };
    let decisions = plan_of(&sinfo(others), jobs, Wanted::Marked("angara"));
    decisions.iter().map(short).collect::<Vec<_>>().join("; ")
}

#[test]
fn jobs_get_sets_in_order_of_submission() {
    let early = Job { submit: NOW - 200, ..held("9", 2, 60) };
    assert_eq!(plan(&[], &[held("2", 4, 60), held("10", 2, 60), early]), "9: n0,n4; 2: n1,n2,n5,n6; 10: n3,n7");
}

#[test]
fn nodes_of_others_and_those_that_are_down_are_left_alone() {
    let jobs = [running("1", "n[0-1]", 60), held("2", 2, 60)];
    assert_eq!(plan(&[(2, "drained"), (6, "down*"), (5, "allocated")], &jobs), "2: n3,n7");
    let with_transit = Job { admin_comment: "angara set nodes=0 transit=3,7".into(), ..running("1", "n0", 60) };
    assert_eq!(plan(&[(2, "drained"), (6, "down*")], &[with_transit, held("2", 2, 60)]), "2: n1,n5");
}

#[test]
fn later_jobs_overtake_where_they_do_not_delay_the_first() {
    let queue = |head: usize, limit: u64| [running("1", "n[0-3]", 100), held("2", head, 60), held("3", 2, limit)];
    assert_eq!(plan(&[], &queue(8, 100)), "2 waits; 3: n4,n5", "it ends when job 1 does");
    assert_eq!(plan(&[], &queue(8, 101)), "2 waits");
    assert_eq!(plan(&[], &queue(6, 101)), "2 waits; 3: n4,n5", "two nodes are left for it beside job 2");
    let mut unlimited = queue(8, 1);
    unlimited[2].limit = None;
    assert_eq!(plan(&[], &unlimited), "2 waits");
    unlimited[0] = Job { end: 0, limit: None, ..running("1", "n[0-3]", 0) };
    assert_eq!(plan(&[], &unlimited), "2 waits; 3: n4,n5", "both end never");
}

#[test]
fn only_marked_jobs_that_are_due_are_chosen_for() {
    let mine = Job { comment: "mine".into(), ..held("1", 1, 60) };
    let later = Job { eligible: NOW + 1, ..held("2", 1, 60) };
    let elsewhere = Job { partitions: vec!["q".into()], ..held("3", 1, 60) };
    let jobs = [mine, later, elsewhere, held("4", 1, 60)];
    assert_eq!(plan(&[], &jobs), "4: n0");
    let all = plan_of(&sinfo(&[]), &jobs, Wanted::All);
    let started: Vec<&str> =
        all.iter().filter_map(|d| if let Decision::Start { job, .. } = d { Some(&**job) } else { None }).collect();
    assert_eq!(started, ["1", "4"]);
}

#[test]
fn a_restart_knows_sets_of_jobs_that_were_released() {
    let released = |comment: &str| Job { state: State::Pending, admin_comment: comment.into(), ..held("1", 2, 60) };
    let jobs = [released("angara set nodes=0,1 transit=2"), held("2", 2, 60)];
    assert_eq!(plan(&[], &jobs), "2: n3,n7");
    assert_eq!(plan(&[], &[released("by hand"), held("2", 2, 60)]), "2: n0,n4");
    assert_eq!(plan(&[(2, "drained")], &jobs), "1 held again for n2; 2: n0,n4");
    // Ended between update and release, or held again: its list of nodes is ours.
    let half = Job { required: "n6,n7".into(), admin_comment: "angara set nodes=6,7".into(), ..held("1", 2, 60) };
    assert_eq!(plan(&[], &[half]), "1: n0,n4");
}

#[test]
fn jobs_that_can_never_start_are_left_and_hinder_nobody() {
    let named = Job { required: "n3".into(), ..held("3", 1, 60) };
    let demanding = Job { demand: Some("--dependency"), ..held("4", 1, 60) };
    let jobs = [held("1", 9, 60), held("2", 8, 60), named, demanding, held("5", 7, 60), held("6", 6, 60)];
    assert_eq!(plan(&[(4, "drained")], &jobs), "1 left; 2 left; 3 left; 4 left; 5 left; 6: n1,n2,n3,n5,n6,n7");
    let why = |n: usize| match &plan_of(&sinfo(&[(4, "drained")]), &jobs, Wanted::All)[n] {
        Decision::Left { why, remedy, .. } => format!("{why}: {remedy}"),
        other => panic!("{other:?}"),
    };
    assert!(why(0).contains("9 nodes, and 4x2 has 8") && why(0).contains("scancel 1"), "{}", why(0));
    assert!(why(1).contains("8 nodes, and 7") && why(1).contains("RESUME"), "{}", why(1));
    assert!(why(2).contains("n3") && why(3).contains("--dependency"), "{} {}", why(2), why(3));
    assert!(why(4).contains("no set of 7 nodes though no job ran"), "{}", why(4));
}

#[test]
fn partitions_and_excluded_hosts_bound_a_job() {
    let sinfo = "n0|idle|p\nn1|idle|p\nn4|idle|q\nn5|idle|q\nn5|idle|p\n";
    let q = Job { partitions: vec!["q".into()], ..held("1", 2, 60) };
    let without = Job { excluded: "n0".into(), ..held("2", 1, 60) };
    let start = |jobs: &[Job]| match &plan_of(sinfo, jobs, Wanted::All)[0] {
        Decision::Start { place, .. } => place.hosts.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(start(&[q]), "n4,n5");
    assert_eq!(start(&[without]), "n1");
}

#[test]
fn sets_of_random_queues_are_disjoint_and_work() {
    for seed in 0..500_u64 {
        println!("seed {seed}");
        let mut number = 0;
        let mut draw = |below: u64| {
            number += 1;
            splitmix(seed, number) % below
        };
        let states = ["idle", "idle", "idle", "drained", "down*", "allocated"];
        let others: Vec<(usize, &str)> = (0..8).map(|n| (n, states[draw(6) as usize])).collect();
        let jobs: Vec<Job> = (1..7)
            .map(|id| match draw(4) {
                0 => running(&id.to_string(), &format!("n{}", draw(8)), draw(100)),
                1 => Job {
                    state: State::Pending,
                    admin_comment: format!("angara set nodes={} transit={}", draw(8), draw(9)),
                    ..held(&id.to_string(), 1, 60)
                },
                _ => held(&id.to_string(), 1 + draw(4) as usize, 1 + draw(200)),
            })
            .collect();
        let mut taken: Vec<NodeId> = others.iter().filter(|o| o.1 != "idle").map(|o| o.0 as NodeId).collect();
        let decisions = plan_of(&sinfo(&others), &jobs, Wanted::All);
        for job in &jobs {
            let again = decisions.iter().any(|d| matches!(d, Decision::HoldAgain { job: id, .. } if *id == job.id));
            let set = set_comment::read(&job.admin_comment, 8).filter(|_| job.state == State::Pending && !again);
            taken.extend(set.iter().flat_map(NodeSet::held).collect::<Vec<_>>());
            taken.extend(layout("4x2").nodes(&job.hosts).expect("a list"));
        }
        for decision in &decisions {
            let Decision::Start { job, place } = decision else { continue };
            let asked = jobs.iter().find(|other| other.id == *job).expect("it is there");
            assert_eq!((asked.state, place.set.nodes.len()), (State::Held, asked.count), "seed {seed}");
            for node in place.set.held() {
                assert!(!taken.contains(&node), "seed {seed}: job {job} gets node {node} of {taken:?}");
                taken.push(node);
            }
        }
    }
}
