//! Forms of the file, what is drawn from them, and what is refused.

use super::*;
use crate::rng::{Purpose, Stream};
use crate::settings::Keys;
use crate::sweep::Sweep;
use crate::toml_file::TomlFile;
use crate::traffic::{Process, Rate};
use crate::workload::simulate;
use std::path::PathBuf;

/// A file of this test with these contents.
fn written(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("angara-matrix-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

const SMALL: &str = "topology = \"torus:4x4\"\nrouter = \"generic\"\nwarmup = 1000\ncycles = 20000\n";

fn prepared(text: &str, count: u32) -> Result<(Vec<Alias>, Vec<f64>), String> {
    let (rows, weights) = Matrix(TextFile::of("m", text)).prepare(count).map_err(|e| e.to_string())?;
    let rates = weights.rates(Rate::messages(0.1).unwrap(), Process::Bernoulli, 0.1).map_err(|e| e.to_string())?;
    Ok((rows, rates.into_iter().map(Rate::per_cycle).collect()))
}

/// How often each rank is drawn by `from` in 30,000 draws.
fn histogram(rows: &[Alias], from: u32) -> Vec<u32> {
    let mut stream = Stream::new(5, from, Purpose::Destination);
    let mut counts = vec![0; rows.len()];
    (0..30_000).for_each(|_| counts[rows[from as usize].pick(&mut stream).unwrap() as usize] += 1);
    counts
}

#[test]
fn a_matrix_has_a_line_per_source() {
    let (rows, rates) = prepared("0 1 2\n0 0 0\n3, 0, 3\n", 3).unwrap();
    let counts = histogram(&rows, 0);
    assert!(counts[0] == 0 && counts[1].abs_diff(10_000) < 400, "{counts:?}");
    assert_eq!(rows[1].pick(&mut Stream::new(1, 1, Purpose::Destination)), None);
    // Sums 3, 0 and 6, whose mean of 3 is the load.
    assert!(rates.iter().zip([0.1, 0.0, 0.2]).all(|(a, b)| (a - b).abs() < 1e-12), "{rates:?}");
}

#[test]
fn all_the_same_is_uniform() {
    let row = "1 ".repeat(16) + "\n";
    let (rows, rates) = prepared(&row.repeat(16), 16).unwrap();
    assert!(rates.iter().all(|rate| (rate - 0.1).abs() < 1e-12));
    assert!((0..16).all(|from| histogram(&rows, from).iter().all(|count| count.abs_diff(1875) < 250)));
}

#[test]
fn lines_of_pairs_are_the_same_as_their_matrix() {
    let dense = prepared("0 1 2 0\n0 0 0 0\n3 0 3 0\n0 0 0 1\n", 4).unwrap();
    let pairs = "# SRC DST RATE\n0 1 1\n0 2 2\n2,0,3\n2 2 3\n3 3 1\n";
    let sparse = prepared(pairs, 4).unwrap();
    assert_eq!(format!("{dense:?}"), format!("{sparse:?}"));
    let noxim = "% src dst pir por t_on t_off t_period\n0 1 1 1 0 10000 10000\n0 2 2 2\n2 0 3\n2 2 3 3 0\n3 3 1\n";
    assert_eq!(format!("{dense:?}"), format!("{:?}", prepared(noxim, 4).unwrap()));
}

#[test]
fn lines_of_as_many_numbers_as_nodes_are_a_matrix() {
    assert!(prepared("0 1 2\n1 0 2\n2 0 1\n", 3).unwrap().1.iter().all(|rate| (rate - 0.1).abs() < 1e-12));
    let as_pairs = prepared("% Noxim's\n0 1 2\n1 0 2\n2 0 2\n", 3).unwrap();
    assert_eq!(as_pairs.0[0].pick(&mut Stream::new(1, 1, Purpose::Destination)), Some(1));
    assert!(prepared("0 1 2\n1 0 2\n2 0 1\n", 4).is_ok(), "pairs, and a silent node");
    let e = prepared("0 1 1 1\n1 0 1 1\n1 1 0 1\n", 4).unwrap_err();
    assert!(e.starts_with("m:3: 3 lines, where a matrix for 4 nodes has 4; add") && e.contains("begins with %"), "{e}");
    let e = prepared(&"0 1 1 1\n".repeat(5), 4).unwrap_err();
    assert!(e.starts_with("m:5: line 5 of a matrix for 4 nodes; end it before"), "{e}");
}

#[test]
fn a_report_has_the_flits_between_its_nodes() {
    let report = "{\"format\": 2, \"job\": 1, \"shape\": \"2x2\", \"placement\": [0, 0, 3], \"pairs\": [\n\
                  [0,2,\"put\",1,1,5,80,0,1,0],\n[1,2,\"get\",1,1,1,0,1,10,0],\n[2,0,\"put\",1,1,4,0,0,0,0]]}";
    let (rows, rates) = prepared(report, 4).unwrap();
    assert_eq!((histogram(&rows, 0)[3], histogram(&rows, 3)[0]), (30_000, 30_000));
    // 6 flits one way; 1, 10 and 4 the other.
    assert!((rates[0] * 15.0 - rates[3] * 6.0).abs() < 1e-9 && rates[1] == 0.0, "{rates:?}");
    for (text, count, said) in [
        (report, 16, "m:1: shape is 2x2 of 4 nodes, the network has 16; give --topology torus:2x2"),
        (&report.replace("[0, 0, 3]", "[0, 9, 3]"), 4, "m:1: pairs has 1 and 2"),
        (&report.replace("format\": 2", "format\": 1"), 4, "m:1: format is 1"),
        ("{\"format\": 2,\n 3}", 4, "m:2: this is no report"),
        ("{\"format\": 2, \"shape\": \"2x2\", \"placement\": [], \"pairs\": []}", 4, "m:1: pairs holds no flits"),
    ] {
        let e = prepared(text, count).unwrap_err();
        assert!(e.starts_with(said), "{e}");
    }
}

#[test]
fn mistakes_are_refused_with_their_line() {
    for (text, said) in [
        ("0 1 1 1\n1 0 1 1\n1 1 -2 1\n1 1 1 0\n", "m:3: `-2` is no rate"),
        ("1 1\n", "m:1: 2 numbers, where a matrix for 4 nodes has 4"),
        ("1 1 1 1 1 1 1 1\n", "m:1: 8 numbers"),
        ("0 1 1\n\n0 4 1\n", "m:3: `4` is no target; the network has nodes 0 to 3"),
        ("-1 1 1\n", "m:1: `-1` is no source"),
        ("0 1 x\n", "m:1: `x` is no rate"),
        ("0 1 1\n0 1 2\n", "m:2: 0 1 has its rate in line 1"),
        ("0 1 1\n0 2\n", "m:2: `0 2` is no pair"),
        ("0 1 0\n", "m:1: all rates are 0"),
        ("", "m:1: all rates are 0"),
        ("0 1 1e308\n0 2 1e308\n", "m:1: the rates of this source have no finite sum"),
        ("% a table\n0 1 0.1 0.2\n", "m:2: por is 0.2: "),
        ("0 1 0.1 0.1 5 10 20\n", "m:1: t_on is 5: "),
        ("0 1 0.1 0.1 0 10 20\n", "m:1: t_off is 10: "),
        ("0 1 0.1 0.1 0 10\n", "m:1: t_off is 10: "),
        ("0 1 1\n0 2 0.1 0.1 0 10 10 3\n", "m:2: 8 columns; "),
        ("0 1 1\n", "m:1: rank 0 has the rate 1 and would create 4.0000 messages"),
    ] {
        let load = if text == "0 1 1\n" { 1.0 } else { 0.1 };
        let e = Matrix(TextFile::of("m", text))
            .prepare(4)
            .and_then(|(_, weights)| weights.rates(Rate::messages(load).unwrap(), Process::Bernoulli, load).map(drop));
        let e = e.unwrap_err().to_string();
        assert!(e.starts_with(said), "{text}: {e}");
    }
}

#[test]
fn a_network_carries_the_matrix_as_it_carries_the_pattern() {
    let ones = written("ones", &("1 ".repeat(16) + "\n").repeat(16));
    let matrix = simulate(&format!("{SMALL}load = 0.2\npattern = \"matrix:{}\"", ones.display()));
    let uniform = simulate(&format!("{SMALL}load = 0.2"));
    for field in ["packet_latency_cycles", "accepted_flits_per_node_cycle", "mean_routers_visited"] {
        let [a, b] = [&matrix, &uniform].map(|report| report.json[field].as_f64().unwrap());
        assert!((a / b - 1.0).abs() < 0.02, "{field}: {a} {b}");
    }
    assert_eq!(matrix.json["settings"]["pattern"], format!("matrix:{}", ones.display()));
    std::fs::remove_file(ones).unwrap();
}

#[test]
fn the_mean_of_all_sources_is_the_load() {
    // One source of sixteen sends, over one link: 2 routers, 10 cycles.
    let (one, rates) = (written("one", "3 2 7\n"), written("rates", &("0 ".repeat(15) + "4")));
    let report = simulate(&format!("{SMALL}load = 0.01\npattern = \"matrix:{}\"", one.display()));
    assert_eq!(report.json["packet_latency_cycles"], 10.0);
    let offered = report.json["offered_flits_per_node_cycle"].as_f64().unwrap();
    assert!((offered - 0.01).abs() < 0.0005, "{offered}");
    let tornado = format!("{SMALL}load = 0.05\npattern = \"neighbor\"\nrates = \"{}\"", rates.display());
    let report = simulate(&tornado);
    let offered = report.json["offered_flits_per_node_cycle"].as_f64().unwrap();
    assert!((offered - 0.05).abs() < 0.001 && report.json["packet_latency_cycles"] == 14.0, "{:?}", report.json);
    let both = format!("{SMALL}rates = \"{}\"\npattern = \"matrix:{}\"", rates.display(), one.display());
    let e = toml::from_str::<Keys>(&both).unwrap().resolve().unwrap_err();
    assert!(e.1 == "rates" && e.0.to_string().contains("the rows of pattern matrix are the rates"), "{}", e.0);
    [one, rates].iter().for_each(|path| std::fs::remove_file(path).unwrap());
}

#[test]
fn the_contents_of_files_count_for_a_sweep() {
    let path = written("sweep", "");
    let sweep = written("sweep.toml", &format!("topology = \"torus:2x2\"\npattern = \"matrix:{}\"\n", path.display()));
    let digest = |text: &str| {
        std::fs::write(&path, text).unwrap();
        Sweep::read(&TomlFile::read(&sweep).unwrap(), &Keys::default()).unwrap().0.digest()
    };
    let first = digest("0 1 1\n");
    assert_ne!(first, digest("0 2 1\n"));
    assert_eq!(first, digest("0 1 1\n"));
    std::fs::write(&sweep, format!("topology = \"torus:2x2\"\nworkload = \"list:{}\"\n", path.display())).unwrap();
    assert_ne!(digest("0 1 1 1\n"), digest("0 1 1 2\n"));
    std::fs::write(&sweep, format!("topology = \"torus:2x2\"\nrates = \"{}\"\n", path.display())).unwrap();
    assert_ne!(digest("0 1 1 1\n"), digest("0 1 1 2\n"));
    std::fs::write(&sweep, format!("topology = \"torus:2x2\"\nworkload = \"jobs:{}\"\n", path.display())).unwrap();
    let job = "[[job]]\nname = \"a\"\nnodes = \"0..4\"\nlength = 1\nload = 0.1\n";
    assert_ne!(digest(job), digest(&job.replace("0.1", "0.2")));
    [path, sweep].iter().for_each(|path| std::fs::remove_file(path).unwrap());
}
