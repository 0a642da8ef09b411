//! Sweeps of a network small enough to run in a moment.

use super::*;

/// A sweep file in a scratch directory of its own.
fn file(name: &str, text: &str) -> TomlFile {
    let path = std::env::temp_dir().join(format!("angara-sweep-{}-{name}.toml", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let file = TomlFile::read(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

const BASE: &str = "topology = \"torus:4x4\"\nrouter = \"generic\"\nwarmup = 100\ncycles = 300\n";

fn read(name: &str, sweep: &str) -> Result<Sweep, Error> {
    Sweep::read(&file(name, &format!("{BASE}{sweep}")), &Keys::default())
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
        let outcomes = sweep.run(threads, || ()).unwrap();
        (csv(&sweep, &outcomes), serde_json::to_string(&rows(&sweep, &outcomes)).unwrap())
    };
    assert_eq!(result(1), result(3));
    assert_eq!(result(1).0.lines().count(), 7);
}

#[test]
fn charts_have_a_curve_per_combination() {
    let sweep = read("charts", "[sweep]\nload = [0.05, 0.1]\npattern = [\"uniform\", \"hotspot:3,0.2\"]\n").unwrap();
    let outcomes = sweep.run(1, || ()).unwrap();
    let [latency, accepted] = charts(&sweep, &outcomes).unwrap();
    let names: Vec<&str> = accepted.curves.iter().map(|c| c.0.as_str()).collect();
    assert_eq!(names, ["uniform", "hotspot:3,0.2"]);
    assert!(latency.svg().is_ok() && accepted.svg().is_ok());
    assert!(csv(&sweep, &outcomes).contains("\n\"hotspot:3,0.2\",0.05,"));
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
    assert!(e.contains(".toml:6: message rate is 7"), "{e}");
    let e = refused("empty", "[sweep]\nload = []\n");
    assert!(e.contains("number of points is 0"), "{e}");
}
