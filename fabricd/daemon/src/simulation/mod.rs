//! All daemons of a cluster in one process, under one clock and one seed.
//!
//! What runs is what a daemon runs: its control plane (commits, messages between hosts, jobs, fault commands, seats)
//! as tasks of one thread, and its data plane with the network and the trunks in it. What is simulated is what lies around:
//! the clock, the machine's chance, the datagram network, when each data plane and each control plane gets to run, how long
//! their answers to each other take, and the processes that are PEs.
//!
//! `SIMULATION_SCHEDULES=200000 cargo test --release -p angara-fabricd simulation` runs more of them,
//! `SIMULATION_SEED=… SIMULATION_SCHEDULES=1` a certain one.

mod blame;
mod network;
mod node;
mod orders;
mod program;
mod random;
mod schedule;
mod world;

use angara_abi::job::Barrier;
use random::Trace;
use schedule::{Act, JobPlan, Schedule};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use world::{Totals, World};

/// Schedules of an ordinary run.
const USUAL: u64 = 1_200;

/// How long a shorter schedule that fails is looked for.
const SHRINKING: Duration = Duration::from_secs(60);

/// Runs a schedule: what happened, and its trace; or what must not be.
fn run(seed: u64, schedule: Schedule) -> Result<(Totals, Trace), String> {
    let body = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.expect("a runtime").block_on(async {
            let mut world = World::new(seed, schedule);
            world.run().await.map(|()| (world.totals, world.trace))
        })
    };
    notice_panics();
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err("the simulation itself panicked".into()));
    PANIC.take().map_or(result, Err)
}

thread_local! {
    /// The first panic of this thread. A task that panics ends, and nobody else hears of it.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn notice_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANIC.with_borrow_mut(|first| _ = first.get_or_insert_with(|| info.to_string()));
            before(info);
        }));
    });
}

/// The schedule without what is not needed for it to fail.
fn shrink(seed: u64, schedule: &Schedule) -> Schedule {
    let until = Instant::now() + SHRINKING;
    let mut least = schedule.clone();
    let mut size = least.acts.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < least.acts.len() && Instant::now() < until {
            let mut without = least.clone();
            without.acts.drain(at..(at + size).min(least.acts.len()));
            match run(seed, without.clone()) {
                Err(_) => least = without,
                Ok(_) => at += size,
            }
        }
        size /= 2;
    }
    least
}

/// Returns what to say of a seed that fails.
fn report(seed: u64, why: &str) -> String {
    let schedule = Schedule::new(seed);
    let least = shrink(seed, &schedule);
    let why_least = run(seed, least.clone()).err().unwrap_or_default();
    let acts: Vec<String> = least.acts.iter().map(|(at, act)| format!("  {at:6} ms  {act:?}")).collect();
    format!(
        "SIMULATION_SEED={seed} SIMULATION_SCHEDULES=1 cargo test --release -p angara-fabricd simulation\n\
         {why}\n\
         {} of {} events are enough on {} with {} hosts, repaired at {} ms:\n{}\n{why_least}",
        least.acts.len(),
        schedule.acts.len(),
        least.shape,
        least.hosts,
        least.repaired,
        acts.join("\n"),
    )
}

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |v| v.parse().unwrap_or_else(|_| panic!("{name}={v} is not a number")))
}

/// How many seeds of an explicit schedule, which an ordinary run tries so often: a like share if fewer random ones are
/// asked for.
fn seeds(usual: u64) -> std::ops::RangeInclusive<u64> {
    let asked = number("SIMULATION_SCHEDULES", USUAL).min(USUAL);
    1..=(usual * asked).div_ceil(USUAL)
}

/// Runs N schedules on all cores: what happened in all of them, and the sum of their traces.
fn run_all(first: u64, count: u64) -> (Totals, u64) {
    let (next, failed) = (AtomicU64::new(first), AtomicBool::new(false));
    let worker = || {
        let (mut totals, mut traces) = (Totals::default(), 0u64);
        while !failed.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                break;
            }
            match run(seed, Schedule::new(seed)) {
                Ok((one, trace)) => {
                    totals.add(&one);
                    traces = traces.wrapping_add(trace.0);
                }
                Err(why) => {
                    failed.store(true, Ordering::Relaxed);
                    eprintln!("seed {seed} fails; looking for the shortest schedule that does\n{why}");
                    return Err(report(seed, &why));
                }
            }
        }
        Ok((totals, traces))
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(count as usize);
    let results: Vec<Result<(Totals, u64), String>> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        all.into_iter().map(|t| t.join().unwrap_or_else(|_| Err("the simulation itself panicked".into()))).collect()
    });
    let mut sum = (Totals::default(), 0u64);
    for result in results {
        let (totals, traces) = result.unwrap_or_else(|why| panic!("{why}"));
        sum.0.add(&totals);
        sum.1 = sum.1.wrapping_add(traces);
    }
    sum
}

#[test]
fn whatever_happens_the_cluster_stays_of_one_mind_and_no_job_hangs() {
    if std::env::var_os("SIMULATION_LOG").is_some() {
        let log = tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).without_time().with_ansi(false);
        // Another test may have done so.
        let _ = log.try_init();
    }
    let (first, count) = (number("SIMULATION_SEED", 1), number("SIMULATION_SCHEDULES", USUAL));
    let began = Instant::now();
    let (totals, traces) = run_all(first, count);
    println!("{count} schedules from {first} in {:.1?}, traces {traces:016x}: {totals:#?}", began.elapsed());
    assert_eq!(totals.schedules, count);
    assert!(totals.events >= 30 * count && totals.crashes >= count && totals.splits >= count);
    assert!(totals.jobs_live >= count, "{} of {count} schedules have had a job that ran", totals.jobs_live);
    if count >= USUAL {
        for (what, n) in [
            ("jobs that ended well", totals.jobs_well),
            ("jobs that ended early", totals.jobs_ended),
            ("datagrams lost", totals.lost),
            ("datagrams doubled", totals.doubled),
            ("datagrams overtaken", totals.overtaken),
            ("answers that took time", totals.late_answers),
            ("changes", totals.changes),
            ("operations", totals.ops),
        ] {
            assert!(n >= count / 10, "{n} {what} in {count} schedules");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in 1..=30 {
        let once = run(seed, Schedule::new(seed)).map(|(totals, trace)| (totals, trace.0));
        assert_eq!(once, run(seed, Schedule::new(seed)).map(|(totals, trace)| (totals, trace.0)), "seed {seed}");
    }
}

#[test]
fn a_daemon_that_is_shut_down_says_so_wherever_it_ends_a_job() {
    let plan = JobPlan { nodes: vec![0, 7], barrier: Barrier::Auto, rounds: 1_000, ops: 4, think: 20 };
    for (seed, host) in seeds(100).flat_map(|seed| [(seed, 0), (seed, 1)]) {
        let acts = vec![(1_500, Act::Job(0, plan.clone())), (1_700, Act::Shutdown(host, 500))];
        let schedule = Schedule { shape: "4x2".parse().expect("a shape"), hosts: 2, acts, repaired: 2_300 };
        let (totals, _) = run(seed, schedule).unwrap_or_else(|why| panic!("seed {seed}, host {host}: {why}"));
        assert_eq!((totals.jobs_ended, totals.jobs_told), (1, 1), "seed {seed}, host {host}");
    }
}

#[test]
fn a_pe_that_leaves_late_does_nothing_to_a_later_job_of_the_same_number() {
    let long = JobPlan { nodes: vec![0, 1, 0, 1], barrier: Barrier::Tree, rounds: 6, ops: 2, think: 150 };
    let short = JobPlan { nodes: vec![1, 1], barrier: Barrier::Hypercube, rounds: 5, ops: 1, think: 20 };
    // A daemon that was started again counts its jobs from 1.
    let acts = vec![
        (1_691, Act::Job(1, long)),
        (1_848, Act::Crash(1, 1)),
        (1_849, Act::Job(1, short)),
        (1_879, Act::Bad(1, 0, [30, 0, 1])),
    ];
    for seed in seeds(200).chain([31_821]) {
        let shape = "2".parse().expect("a shape");
        let schedule = Schedule { shape, hosts: 2, acts: acts.clone(), repaired: 5_375 };
        run(seed, schedule).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
fn a_daemon_that_is_shut_down_opens_no_job_again_that_it_has_left() {
    let plan = |nodes: &[u32], barrier, rounds, ops| JobPlan { nodes: nodes.to_vec(), barrier, rounds, ops, think: 20 };
    // The change that the fault leads to names a job that the host which is on hold for it leaves, since it is told to end.
    let acts = vec![
        (1_591, Act::Job(0, plan(&[2, 0, 0, 5], Barrier::Multiphase, 7, 3))),
        (1_952, Act::Job(0, plan(&[2, 0], Barrier::Tree, 12, 4))),
        (2_210, Act::Fault(1, "link 0,0 -Y down".into())),
        (2_231, Act::Freeze(1, 500)),
        (2_259, Act::Shutdown(1, 50)),
        (2_284, Act::Stall(0, 9_000)),
    ];
    for seed in seeds(200).chain([57_969]) {
        let shape = "3x2".parse().expect("a shape");
        let schedule = Schedule { shape, hosts: 3, acts: acts.clone(), repaired: 10_034 };
        run(seed, schedule).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
fn hosts_that_have_been_cut_off_are_told_when_trunks_are_restored() {
    let plan = JobPlan { nodes: vec![0, 7], barrier: Barrier::Auto, rounds: 2, ops: 1, think: 20 };
    for (seed, host) in seeds(100).flat_map(|seed| [(seed, 0), (seed, 3)]) {
        let acts = vec![
            (1_500, Act::Job(0, plan.clone())),
            (2_500, Act::Fault(host, "trunk all down".into())),
            // Some are late to see that their trunks are up, and say only then that they had lost touch.
            (5_480, Act::Slow(1, 600)),
            (5_490, Act::Stall(2, 10 + 5 * seed)),
            (5_500, Act::Fault(host, "trunk all up".into())),
            (5_500 + seed, Act::Freeze(1, 50)),
        ];
        let schedule = Schedule { shape: "4x2".parse().expect("a shape"), hosts: 4, acts, repaired: 20_000 };
        let (totals, _) = run(seed, schedule).unwrap_or_else(|why| panic!("seed {seed}, host {host}: {why}"));
        assert_eq!(totals.commands_refused, 0, "seed {seed}, host {host}");
    }
}

/// A job that goes on for a while.
fn lasting(nodes: &[u32]) -> JobPlan {
    JobPlan { nodes: nodes.to_vec(), barrier: Barrier::Multiphase, rounds: 12, ops: 3, think: 150 }
}

/// Runs acts on three hosts with two nodes each, with N seeds in an ordinary run.
fn run_each(usual: u64, acts: &[(u64, Act)], repaired: u64, check: impl Fn(Totals) -> bool) {
    for seed in seeds(usual) {
        let shape = "3x2".parse().expect("a shape");
        let schedule = Schedule { shape, hosts: 3, acts: acts.to_vec(), repaired };
        let (totals, _) = run(seed, schedule).unwrap_or_else(|why| panic!("seed {seed}, {acts:?}: {why}"));
        assert!(check(totals), "seed {seed}, {acts:?}: {totals:?}");
    }
}

#[test]
fn trunks_that_were_cut_and_restored_at_once_are_good() {
    for pause in [1, 20, 60, 95] {
        let acts = [
            (1_500, Act::Job(0, lasting(&[0, 2, 4]))),
            (1_700, Act::Fault(0, "trunk all down".into())),
            (1_700 + pause, Act::Fault(0, "trunk all up".into())),
        ];
        run_each(50, &acts, 5_000, |totals| totals.left_bad == 0);
    }
}

#[test]
fn a_link_that_failed_before_it_was_mended_is_in_service() {
    for pause in [30, 60, 100, 150, 250] {
        let acts = [
            (1_500, Act::Job(0, JobPlan { think: 1, rounds: 200, ..lasting(&[2, 1, 2, 1]) })),
            (1_700, Act::Fault(0, "link 2,0 -X corrupt=100%".into())),
            (1_700 + pause, Act::Fault(0, "link 2,0 -X clear".into())),
        ];
        // It is refused if it comes before the fault is in force.
        run_each(50, &acts, 5_000, |totals| totals.left_faulty == 0 || totals.commands_refused > 0);
    }
}

#[test]
fn a_job_gets_the_slot_of_one_that_is_still_ending_elsewhere() {
    for pause in [5, 15, 40, 80] {
        let acts = [
            (1_500, Act::Job(0, lasting(&[0, 2, 4]))),
            (1_690, Act::Slow(1, 600)),
            (1_700, Act::Leave(0)),
            (1_700 + pause, Act::Job(0, lasting(&[0, 2, 4]))),
        ];
        run_each(50, &acts, 5_000, |totals| totals.jobs_refused == 0);
    }
}

#[test]
fn a_daemon_that_was_started_again_gives_the_number_of_a_job_away_once_more() {
    for (slow, pause) in [(1, 2), (1, 30), (1, 60), (2, 2), (2, 30), (2, 60)] {
        let acts = [
            (1_500, Act::Job(0, lasting(&[2, 4, 2, 4]))),
            (1_700, Act::Bad(1, 2, [5, 0, 20])),
            (1_710, Act::Slow(slow, 900)),
            (1_740, Act::EndPe(0, 2 - slow, true)),
            (1_741, Act::Crash(0, 1)),
            (1_741 + pause, Act::Job(0, JobPlan { rounds: 6, ..lasting(&[2, 4, 2, 4]) })),
        ];
        // It is refused if the hosts have not found each other by then.
        run_each(40, &acts, 5_000, |totals| totals.jobs_well + totals.jobs_refused == 1);
    }
}

#[test]
fn a_daemon_that_is_expelled_while_touch_with_it_is_lost_hears_of_it() {
    let fault = |host, text: &str| Act::Fault(host, text.into());
    let first = JobPlan { nodes: vec![6, 5, 4, 1], barrier: Barrier::Auto, rounds: 12, ops: 4, think: 1 };
    let second = JobPlan { nodes: vec![6, 0], barrier: Barrier::Counting, rounds: 2, ops: 1, think: 20 };
    let acts = vec![
        (1_525, Act::Job(1, first)),
        (1_692, Act::Shutdown(1, 1)),
        (2_135, Act::Bad(1, 2, [5, 0, 3])),
        (2_186, Act::Bad(1, 0, [5, 0, 1])),
        (2_289, Act::Job(3, second)),
        (2_509, Act::Step(0, -2_074)),
        (2_794, fault(0, "trunk h2 drop=5% dup=3% seed=2794")),
        (3_048, Act::Split(3, 900)),
        (3_070, fault(2, "link 2,0 +Y up")),
        (3_084, fault(1, "link 2,0 +X down")),
        (3_550, fault(0, "link 0,1 +Y down")),
        (3_725, Act::Crash(2, 20)),
        (3_859, fault(2, "node 1,0 clear")),
        (4_000, Act::Stall(2, 9_000)),
        (4_458, Act::Split(1, 150)),
        (7_879, Act::Crash(3, 100)),
        (8_233, fault(0, "link 3,1 -Y down")),
        (8_280, Act::Freeze(0, 1_200)),
        (8_369, Act::Slow(3, 600)),
        (8_701, Act::Bad(1, 2, [0, 0, 3])),
    ];
    for seed in seeds(100).chain([122_056]) {
        let shape = "4x2".parse().expect("a shape");
        let schedule = Schedule { shape, hosts: 4, acts: acts.clone(), repaired: 12_377 };
        run(seed, schedule).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
fn a_host_that_only_passes_packets_on_and_loses_touch_ends_no_job_of_others() {
    let plan =
        |nodes: &[u32], barrier, rounds, ops, think| JobPlan { nodes: nodes.to_vec(), barrier, rounds, ops, think };
    let acts = vec![
        (1_558, Act::Job(2, plan(&[4, 5, 5], Barrier::Master, 4, 4, 1))),
        (1_619, Act::Job(1, plan(&[2, 3], Barrier::Counting, 10, 3, 20))),
        (3_065, Act::Fault(1, "link 1,1 -Y down".into())),
        (3_457, Act::EndPe(1, 0, false)),
        (4_322, Act::Bad(0, 2, [0, 10, 3])),
        (4_670, Act::Fault(1, "link 1,1 -X down".into())),
        (5_155, Act::Slow(0, 150)),
        (5_234, Act::Fault(2, "link 0,0 +X clear".into())),
        (5_542, Act::Job(1, plan(&[5, 2], Barrier::AllToAll, 9, 1, 1))),
        (5_746, Act::Job(2, plan(&[5, 5, 0], Barrier::Counting, 12, 1, 20))),
        (5_936, Act::Freeze(1, 1_200)),
    ];
    for seed in seeds(200).chain([263_299]) {
        let shape = "3x2".parse().expect("a shape");
        let schedule = Schedule { shape, hosts: 3, acts: acts.clone(), repaired: 10_119 };
        run(seed, schedule).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
}

#[test]
fn a_change_that_names_a_job_which_a_host_has_left_ends_it() {
    let acts = [
        (1_500, Act::Job(0, JobPlan { rounds: 1_000, ..lasting(&[0, 4]) })),
        (1_700, Act::Forget(2, 0)),
        (1_900, Act::Fault(0, "link 0,0 +Y down".into())),
    ];
    run_each(50, &acts, 5_000, |totals| totals.left_jobs == 0);
}
