//! Jobs that do and do not disturb each other, and files that are refused.

use crate::settings::Keys;
use crate::workload::simulate;
use serde_json::Value;

/// Settings with the workload `jobs:FILE`, and what `then` makes of them.
fn with<T>(name: &str, jobs: &str, settings: &str, then: impl Fn(&str) -> T) -> T {
    let path = std::env::temp_dir().join(format!("angara-jobs-{}-{name}", std::process::id()));
    std::fs::write(&path, jobs).unwrap();
    let result = then(&format!("{settings}\nworkload = \"jobs:{}\"\n", path.display()));
    std::fs::remove_file(&path).unwrap();
    result
}

fn job(name: &str, nodes: &str, rest: &str) -> String {
    format!("[[job]]\nname = \"{name}\"\nnodes = \"{nodes}\"\nlength = 4\n{rest}\n")
}

const RING: &str = "topology = \"torus:8\"\nrouter = \"generic\"\nwarmup = 1000\ncycles = 5000\n";

fn field<'a>(report: &'a serde_json::Map<String, Value>, job: &str, name: &str) -> &'a Value {
    &report["jobs"][job][name]
}

#[test]
fn jobs_that_share_no_link_do_not_notice_each_other() {
    let jobs = job("a", "0..2", "load = 0.2") + &job("b", "4..6", "load = 0.3\npattern = \"others\"");
    let report = with("apart", &jobs, RING, simulate);
    assert_eq!(field(&report.json, "a", "slowdown"), 1.0);
    assert_eq!(field(&report.json, "b", "slowdown"), 1.0);
    let accepted = |job| field(&report.json, job, "accepted_flits_per_node_cycle").as_f64().unwrap();
    assert!((accepted("a") - 0.2).abs() < 0.03 && (accepted("b") - 0.3).abs() < 0.03);
    assert!(report.text.contains("1.000"), "{}", report.text);
}

#[test]
fn jobs_that_share_links_slow_each_other_down() {
    // Every way from 0 to 3 passes the nodes of the other job.
    let jobs =
        job("far", "0,3", "load = 0.3\npattern = \"others\"") + &job("near", "1,2", "load = 0.6\npattern = \"others\"");
    let report = with("share", &jobs, RING, simulate);
    for name in ["far", "near"] {
        let slowdown = field(&report.json, name, "slowdown").as_f64().unwrap();
        assert!((1.02..3.0).contains(&slowdown), "{name}: {slowdown}");
    }
    assert!(report.json["largest_slowdown"].as_f64().unwrap() > 1.02);
}

#[test]
fn a_job_alone_is_open_loop_traffic_on_its_nodes() {
    let jobs = job("all", "0..16", "load = 0.1\nshape = \"torus:4x4\"\npattern = \"tornado\"");
    let settings = "topology = \"torus:4x4\"\nrouter = \"generic\"\nwarmup = 1000\ncycles = 20000\n";
    let report = with("alone", &jobs, settings, simulate);
    let open = simulate(&format!("{settings}load = 0.1\nlength = 4\npattern = \"tornado\""));
    let latency = |value: &Value| value.as_f64().unwrap();
    let here = latency(field(&report.json, "all", "packet_latency_cycles"));
    let there = latency(&open.json["packet_latency_cycles"]);
    assert!((here / there - 1.0).abs() < 0.02, "{here} {there}");
    assert_eq!(field(&report.json, "all", "slowdown"), 1.0);
}

#[test]
fn too_much_load_is_called_saturated_and_has_no_slowdown() {
    let jobs = job("hot", "0..8", "load = 1.0\npattern = \"hotspot:0,1\"");
    let report = with("hot", &jobs, RING, simulate);
    assert_eq!(
        (field(&report.json, "hot", "saturated"), field(&report.json, "hot", "slowdown")),
        (&true.into(), &Value::Null)
    );
    assert!(report.text.contains("saturated, also alone"), "{}", report.text);
}

#[test]
fn maps_place_the_ranks_of_a_job() {
    let routers = |map| {
        let jobs = job("a", "0..64", &format!("load = 0.1\npattern = \"fftrow:4\"\nmap = \"{map}\""));
        let report = with(map, &jobs, "topology = \"torus:8x8\"\ncycles = 2000", simulate);
        field(&report.json, "a", "mean_routers_visited").as_f64().unwrap()
    };
    assert!(routers("hilbert") < routers("linear") && routers("linear") < routers("random"));
}

#[test]
fn files_are_refused_with_their_line() {
    let good = job("a", "0..4", "load = 0.1");
    for (name, jobs, said) in [
        ("none", String::new(), ":1: 0 jobs; write"),
        ("key", format!("{good}lode = 1\n"), ":6: unknown field `lode`"),
        ("missing", "[[job]]\nname = \"a\"\nnodes = \"0\"\nlength = 1\n".into(), ":1: missing field `load`"),
        ("twice", good.clone() + &good.replace("0..4", "4..8"), ":7: name `a` is empty or that of another job"),
        ("owner", good.clone() + &job("b", "3", "load = 0.1"), ":8: node 3 belongs to job a already"),
        ("beyond", good.replace("0..4", "6..9"), ":3: nodes `6..9`: the network has nodes 0 to 7"),
        ("range", good.replace("0..4", "4..4"), ":3: nodes `4..4`: write numbers"),
        ("load", good.replace("0.1", "5.0"), ":5: load 5: bernoulli creates messages of 4 flits; give 0 to 4"),
        ("negative", good.replace("0.1", "-0.1"), ":5: load -0.1"),
        ("length", good.replace("length = 4", "length = 19"), ":4: length 19 is more than the 18 flits"),
        ("shape", format!("{good}shape = \"mesh:5\"\n"), ":6: shape mesh:5 has 5 ranks, nodes names 4"),
        ("pattern", format!("{good}pattern = \"hotspot:4,0.1\"\n"), ":6: pattern is hotspot:4,0.1: node 4 does not"),
        ("matrix", format!("{good}pattern = \"matrix:/nonexistent/m\"\n"), ":6: pattern is matrix:/nonexistent/m"),
    ] {
        let e = with(name, &jobs, "topology = \"torus:8\"\n", |settings| match toml::from_str::<Keys>(settings) {
            Ok(keys) => keys.resolve().unwrap_err().0.to_string(),
            Err(e) => e.message().to_string(),
        });
        assert!(e.contains(said), "{name}: {e}");
    }
    let settings = |more: &str| format!("topology = \"torus:8\"\n{more}\n");
    for (more, said) in [
        ("map = \"random\"", "a map of its own"),
        ("trace = \"0..3\"", "several networks"),
        ("load = 0.1", "does not read it"),
    ] {
        let e = with("settings", &good, &settings(more), |settings| {
            toml::from_str::<Keys>(settings).unwrap().resolve().unwrap_err().0.to_string()
        });
        assert!(e.contains(said), "{e}");
    }
}
