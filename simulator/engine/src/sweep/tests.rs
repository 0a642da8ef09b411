//! Sweeps of a network small enough to run in a moment.

use super::*;

/// A sweep file in a scratch directory of its own.
pub(crate) fn file(name: &str, text: &str) -> TomlFile {
    let path = std::env::temp_dir().join(format!("angara-sweep-{}-{name}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let file = TomlFile::read(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

pub(crate) const BASE: &str = "topology = \"torus:4x4\"\nrouter = \"generic\"\nwarmup = 100\ncycles = 300\n";

fn read(name: &str, sweep: &str) -> Result<Sweep, Error> {
    Sweep::read(&file(name, &format!("{BASE}{sweep}")), &Keys::default()).map(|(sweep, _)| sweep)
}

pub(crate) fn run(sweep: &Sweep, threads: usize) -> Vec<Row> {
    let desk = Memory::new(sweep, &|_| ());
    sweep.run(threads, &desk, &|| ControlFlow::Continue(())).unwrap();
    desk.rows().unwrap()
}

#[test]
fn every_combination_is_a_point_and_load_varies_fastest() {
    let sweep = read("all", "[sweep]\nload = [0.1, 0.2]\npattern = [\"uniform\", \"tornado\"]\n").unwrap();
    assert_eq!(sweep.names, ["pattern", "load"]);
    let values: Vec<String> = sweep.points.iter().map(|(v, _)| v.join(" ")).collect();
    assert_eq!(values, ["uniform 0.1", "uniform 0.2", "tornado 0.1", "tornado 0.2"]);
}

#[test]
fn results_do_not_depend_on_threads() {
    let sweep = read("threads", "[sweep]\nload = [0.05, 0.1, 0.2]\nseed = [1, 2]\n").unwrap();
    let result = |threads| {
        let rows = run(&sweep, threads);
        (csv(&sweep.names, &rows), serde_json::to_string(&json(&rows)).unwrap())
    };
    assert_eq!(result(1), result(3));
    assert_eq!(result(1).0.lines().count(), 7);
}

#[test]
fn charts_have_a_curve_per_combination() {
    let sweep = read("charts", "[sweep]\nload = [0.05, 0.1]\npattern = [\"uniform\", \"hotspot:3,0.2\"]\n").unwrap();
    let rows = run(&sweep, 1);
    let charts = charts(&sweep.names, &rows);
    assert_eq!(charts.iter().map(|(file, _)| file.as_str()).collect::<Vec<_>>(), ["latency", "throughput"]);
    let names: Vec<&str> = charts[1].1.curves.iter().map(|c| c.0.as_str()).collect();
    assert_eq!(names, ["uniform", "hotspot:3,0.2"]);
    assert!(charts.iter().all(|(_, chart)| chart.svg().is_ok()));
    assert!(csv(&sweep.names, &rows).contains("\n\"hotspot:3,0.2\",0.05,"));
}

#[test]
fn mistakes_are_shown_with_their_line() {
    let refused = |name: &str, text: &str| read(name, text).unwrap_err().to_string();
    let e = refused("key", "[sweep]\nlode = [1]\n");
    assert!(e.contains(".toml:6: swept setting is lode"), "{e}");
    let e = refused("plain", "lode = 1\n[sweep]\nload = [0.1]\n");
    assert!(e.contains(".toml:5: unknown field `lode`"), "{e}");
    let e = refused("value", "[sweep]\npattern = [\"zigzag\"]\n");
    assert!(e.contains(".toml:6: pattern is zigzag"), "{e}");
    let e = refused("load", "[sweep]\nload = [0.1, 7.0]\n");
    assert!(e.contains(".toml:6: load is 7"), "{e}");
    let e = refused("empty", "[sweep]\nload = []\n");
    assert!(e.contains("number of points is 0"), "{e}");
}

#[test]
fn sizes_and_workloads_are_swept_too() {
    let text = "topology = [\"torus:2x2\", \"torus:3x3\"]\nworkload = [\"all-to-all:64\", \"request-reply:1,1,1\"]\n";
    let sweep =
        Sweep::read(&file("size", &format!("router = \"generic\"\n[sweep]\n{text}")), &Keys::default()).unwrap().0;
    assert_eq!(sweep.names, ["workload", "topology"]);
    let rows = run(&sweep, 2);
    let charts = charts(&sweep.names, &rows);
    let time = &charts.iter().find(|(file, _)| file == "time").unwrap().1;
    let points: Vec<f64> = time.curves[0].1.iter().map(|p| p.0).collect();
    assert_eq!((time.x.as_str(), time.curves[0].0.as_str(), points), ("nodes", "all-to-all:64", vec![4.0, 9.0]));
    assert!(summary(&sweep.names, &rows).contains("round_trip_cycles"));
}

#[test]
fn threads_take_points_also_of_networks_that_have_only_one() {
    let text = "topology = \"torus:2x2\"\nthreads = 2\nerror-rate = \"1%\"\nwarmup = 10\ncycles = 100\n[sweep]\nload = [0.1, 0.2]\n";
    let (sweep, threads) = Sweep::read(&file("faults", text), &Keys::default()).unwrap();
    assert_eq!((threads, sweep.points.iter().all(|(_, simulation)| simulation.experiment.threads == 1)), (2, true));
    assert_eq!(run(&sweep, threads).len(), 2);
}

#[test]
fn the_most_that_was_carried_is_not_what_is_left_beyond_saturation() {
    let text = "[sweep]\nload = [0.05, 0.3, 1.0]\npattern = [\"hotspot:5,0.2\", \"hotspot:5,0.4\"]\n";
    let flags = Keys { cycles: Some(3000), ..Keys::default() };
    let sweep = Sweep::read(&file("most", &format!("{BASE}{text}")), &flags).unwrap().0;
    let mut rows = run(&sweep, 2);
    // As of a network that collapses.
    let accepted = "accepted_flits_per_node_cycle";
    assert!(rows[2].saturated());
    rows[1].result.insert(accepted.into(), 0.25.into());
    rows[2].result.insert(accepted.into(), 0.125.into());
    let shown = summary(&sweep.names, &rows);
    let most = "most carried pattern hotspot:5,0.2: 0.25 flits per node and cycle, at load 0.3\n";
    assert!(shown.contains(most) && shown.matches("most carried").count() == 2, "{shown}");

    let light = read("light", "[sweep]\nload = [0.01, 0.02]\n").unwrap();
    assert!(!summary(&light.names, &run(&light, 1)).contains("most carried"), "nothing is saturated");
}
