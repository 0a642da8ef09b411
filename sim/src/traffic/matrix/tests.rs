//! Forms of the file, what is drawn from them, and what is refused.

use super::*;
use crate::rng::{Purpose, Stream};
use crate::traffic::{Process, Rate};

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
fn three_lines_of_three_are_a_matrix_of_three_nodes_only() {
    assert!(prepared("0 1 2\n1 0 2\n2 0 1\n", 3).unwrap().1.iter().all(|rate| (rate - 0.1).abs() < 1e-12));
    let as_pairs = prepared("% Noxim's\n0 1 2\n1 0 2\n2 0 2\n", 3).unwrap();
    assert_eq!(as_pairs.0[0].pick(&mut Stream::new(1, 1, Purpose::Destination)), Some(1));
    assert!(prepared("0 1 2\n1 0 2\n2 0 1\n", 4).is_ok(), "pairs, and a silent node");
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
        ("0 1 0.1 0.2\n", "m:1: por is 0.2: "),
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
