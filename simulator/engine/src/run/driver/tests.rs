//! Runs of small networks.

use super::*;
use crate::settings::Keys;
use std::ops::ControlFlow;

pub(super) fn simulate(text: &str) -> Outcome {
    let keys: Keys = toml::from_str(text).unwrap();
    run(&keys.resolve().map_err(|e| e.0).unwrap().experiment, &mut |_| ControlFlow::Continue(())).unwrap()
}

const SMALL: &str = "topology = \"torus:4x4\"\nrouter = \"generic\"\n";

#[test]
fn a_light_load_has_the_latency_of_an_empty_network() {
    let o = simulate(&format!("{SMALL}load = 0.02\n"));
    // T0 = 4 R + 2 cycles for single flits; the mean of R on a 4x4 torus is 3.
    let (latency, routers) = (o.packet_latency_cycles.unwrap(), o.mean_routers_visited.unwrap());
    assert!((routers - 3.0).abs() < 0.05, "{routers}");
    assert!((latency - (4.0 * routers + 2.0)).abs() < 0.3, "{latency}");
    assert!(!o.saturated && o.confidence.unwrap() <= 0.01 * latency);
    assert!((o.accepted_flits_per_node_cycle - 0.02).abs() < 0.002);
}

#[test]
fn the_same_seed_gives_the_same_numbers_and_another_one_others() {
    let numbers = |seed| {
        let o = simulate(&format!("{SMALL}load = 0.2\nseed = {seed}\nwarmup = 500\ncycles = 2000\n"));
        (o.packet_latency_cycles, o.packets, o.packet_hops)
    };
    assert_eq!(numbers(1), numbers(1));
    assert_ne!(numbers(1), numbers(2));
}

#[test]
fn fixed_lengths_of_time_are_kept() {
    let o = simulate(&format!("{SMALL}load = 0.1\nwarmup = 333\ncycles = 1234\n"));
    assert_eq!((o.warmup_cycles, o.measured_cycles), (333, 1234));
    let o = simulate(&format!("{SMALL}load = 1.0\nwarmup = 7000\ncycles = 1000\n"));
    assert_eq!((o.warmup_cycles, o.measured_cycles, o.saturated), (7000, 1000, true));
    let o = simulate(&format!("{SMALL}load = 0.1\nwarmup = 0\ncycles = 50\n"));
    assert_eq!((o.warmup_cycles, o.measured_cycles), (0, 50));
}

#[test]
fn too_much_load_is_called_saturated_and_measured() {
    let o = simulate(&format!("{SMALL}pattern = \"hotspot:5,0.5\"\nload = 0.5\n"));
    assert!(o.saturated);
    // The hot node takes one flit per cycle and gets (0.5 + 0.5/16) of all.
    let bound = 1.0 / (16.0 * (0.5 + 0.5 / 16.0));
    assert!((o.accepted_flits_per_node_cycle / bound - 1.0).abs() < 0.1, "{}", o.accepted_flits_per_node_cycle);
    assert!(o.warmup_cycles + o.measured_cycles < 100_000, "said early");
}

#[test]
fn a_port_asked_for_a_little_too_much_is_saturated_at_every_seed() {
    // Node 0 of 64 is asked for 64 · 0.3 · (0.04 + 0.96 / 64) = 1.056 flits per cycle, all others for 0.29.
    for seed in [1, 2, 3, 4] {
        let o = simulate(&format!(
            "topology = \"torus:8x8\"\nrouter = \"generic\"\npattern = \"hotspot:0,0.04\"\nload = 0.3\nseed = {seed}\n"
        ));
        assert!(o.saturated, "seed {seed}: {o:?}");
    }
}

#[test]
fn a_run_goes_on_when_what_seemed_to_pile_up_arrives() {
    // Batches of 64 messages at 8 nodes: what waits grows for ten thousand cycles, and goes away.
    let o = simulate(
        "topology = \"torus:8\"\nrouter = \"generic\"\nprocess = \"batch-poisson:64\"\nload = 0.4\nprecision = 0.05\n\
         cycles-max = 200000\nseed = 2\n",
    );
    let cycles = o.warmup_cycles + o.measured_cycles;
    let precise = o.confidence.unwrap() <= 0.05 * o.packet_latency_cycles.unwrap();
    assert!(!o.saturated && (precise || cycles >= 200_000), "{cycles} cycles, {:?}", o.confidence);
}

#[test]
fn messages_that_sources_could_not_create_pile_up_too() {
    // Sources have 2000 messages waiting after some 20,000 cycles. What is under way grows no more, but what is due does.
    let o = simulate(&format!("{SMALL}load = 1.0\nwarmup = 40000\ncycles = 10000\n"));
    assert!(o.saturated && o.backlog_growth.unwrap() > 0.05, "{:?}", o.backlog_growth);
}

#[test]
fn what_is_under_way_follows_littles_law() {
    let o = simulate(&format!("{SMALL}load = 0.3\nwarmup = 2000\ncycles = 50000\n"));
    let expected = o.packet_latency_cycles.unwrap() * o.packets as f64 / o.measured_cycles as f64;
    // Taken every 16 cycles, when those of the last ones are there already.
    assert!((o.mean_under_way / expected - 1.0).abs() < 0.02, "{} {expected}", o.mean_under_way);
    assert!(o.created.abs_diff(o.packets) < 1000 && o.sources.unwrap().jain > 0.99);
}

#[test]
fn no_load_is_no_trouble() {
    let o = simulate(&format!("{SMALL}load = 0.0\ncycles-max = 1000\n"));
    assert_eq!((o.packets, o.packet_latency_cycles, o.saturated), (0, None, false));
    assert!(o.text().contains("nothing arrived"));
}

#[test]
fn a_probe_is_measured_alone() {
    let o = simulate(&format!("{SMALL}load = 0.0\nprobe = \"0,5,100\"\ncycles-max = 1000\n"));
    let p = o.probe.unwrap();
    // Two hops pass three routers: 14 cycles.
    assert_eq!((p.mean_cycles, p.min_cycles, p.max_cycles, o.packets), (14.0, 14.0, 14.0, 0));
}

#[test]
fn a_mapping_changes_who_talks_to_whom() {
    let run = |map| simulate(&format!("{SMALL}pattern = \"fftrow:4\"\nload = 0.05\nmap = \"{map}\"\n"));
    let (linear, random) = (run("linear"), run("random"));
    assert!(linear.mean_routers_visited < random.mean_routers_visited);
}

#[test]
fn link_errors_are_repaired_and_counted() {
    let settings = "topology = \"torus:4x4\"\nrouter = \"angara\"\nload = 0.1\nerror-rate = \"2%\"\nwarmup = 1000\ncycles = 5000\n";
    let keys: Keys = toml::from_str(settings).unwrap();
    let mut experiment = keys.resolve().map_err(|e| e.0).unwrap().experiment;
    experiment.observe.links = true;
    let o = run(&experiment, &mut |_| ControlFlow::Continue(())).unwrap();
    let links = o.links.unwrap();
    assert!(links.crc_errors > 0 && links.replays >= links.crc_errors, "{links:?}");
    let clean = simulate(&settings.replace("2%", "0%"));
    assert!(o.packet_latency_cycles > clean.packet_latency_cycles);
    assert_eq!((o.unreachable, o.saturated), (0, false));
}

#[test]
fn what_goes_to_a_dead_node_is_dropped_and_said() {
    let o = simulate(
        "topology = \"torus:4x4\"\nrouter = \"angara\"\nload = 0.1\nfault = \"node 1,1 down\"\nwarmup = 1000\ncycles = 5000\n",
    );
    // The dead node's own messages and one in 16 of everybody else's.
    let share = o.unreachable as f64 / (o.packets + o.unreachable) as f64;
    assert!((0.08..0.16).contains(&share) && !o.saturated, "{share}");
    assert!(o.text().contains("messages dropped: no route was left"));
}

#[test]
fn generic_routers_drop_what_goes_to_a_dead_one() {
    for topology in ["torus:4x4", "fat-tree:2,4"] {
        let node = if topology == "torus:4x4" { "1,1" } else { "rank 3 router 0" };
        let o = simulate(&format!(
            "topology = \"{topology}\"\nrouter = \"generic\"\nload = 0.1\nfault = \"node {node} down\"\nwarmup = 500\n\
             cycles = 3000\n"
        ));
        let share = o.unreachable as f64 / (o.packets + o.unreachable) as f64;
        assert!((0.08..0.3).contains(&share) && !o.saturated, "{topology}: {share}");
    }
}
