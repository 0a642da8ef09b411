//! The document's plots, drawn from what the claims' jobs found.

use super::booksim::references;
use super::claim::Results;
use super::complex::{FFT_LOADS, PROCESS_LOADS, SHARES, bimodal_cases, hot_cases};
use super::{collective, spmv};
use angara_fabric::BarrierFamily;
use angara_sim::plan::matmul::ksection;
use angara_sim::plan::matmul::machine::{Machine, TorusNode};
use angara_sim::plot::Chart;
use angara_sim::workload::collective::{Collective, Method};
use angara_sim::workload::heat;

type Curve = (String, Vec<(f64, f64)>);

pub struct Plot {
    /// File name.
    pub file: &'static str,
    /// Content of the plot, for the text under it.
    pub about: &'static str,
    draw: fn(&Results) -> Chart,
}

impl Plot {
    /// The chart, of what `results` hold; without curves where they hold nothing.
    pub fn chart(&self, results: &Results) -> Chart {
        let mut chart = (self.draw)(results);
        chart.curves.retain(|(name, points)| !points.is_empty() || chart.beyond.iter().any(|b| b.0 == *name));
        chart
    }
}

/// Every plot.
pub const PLOTS: [Plot; 15] = [
    Plot {
        file: "booksim-L1.svg",
        about: "Single flits, uniform: lines with dots are this program, the dots of the same case BookSim's.",
        draw: |r| booksim(r, "Single flits, uniform traffic", &["t8x3_L1", "t4x4_L1", "t16x3_L1", "ft8x3_L1"]),
    },
    Plot {
        file: "booksim-L16.svg",
        about: "16 flits, virtual cut-through.",
        draw: |r| booksim(r, "16 flits, virtual cut-through", &["vct_t8x3_L16", "vct_t4x4_L16", "vct_ft8x3_L16"]),
    },
    Plot {
        file: "booksim-ratio.svg",
        about: "Latency here over BookSim's, all cases that are not saturated there.",
        draw: ratios,
    },
    Plot {
        file: "processes.svg",
        about: "Arrivals: 4096 nodes, 32-flit messages.",
        draw: |r| {
            let curves = [("t16x3", "torus"), ("ft8x4", "fat tree")].into_iter().flat_map(|(n, name)| {
                [("bern", "Bernoulli"), ("pois", "Poisson"), ("batch", "batches of 4")].map(|(p, process)| {
                    let at = |load: &str| (load.to_string(), format!("{n}_L32_{p}_{load}"));
                    curve(r, format!("{name}, {process}"), PROCESS_LOADS.iter().map(|l| at(l)))
                })
            });
            chart("Arrival processes", LOAD, curves.collect())
        },
    },
    Plot {
        file: "uniform-4096.svg",
        about: "Single flits on 4096 nodes.",
        draw: |r| {
            let of = |(n, name): (&str, &str)| {
                let at = |load: &str| (load.to_string(), format!("{n}_L1_{load}"));
                curve(r, name.into(), ["0.1", "0.2", "0.3"].iter().map(|l| at(l)))
            };
            chart("Uniform traffic, 4096 nodes", LOAD, [("t16x3", "torus"), ("ft16x3", "fat tree")].map(of).into())
        },
    },
    Plot {
        file: "bimodal.svg",
        about: "Lengths 4 and 32 at equal load in flits, 512 nodes.",
        draw: |r| {
            let of = |(n, name): (&str, &str)| {
                let shares = ["0.1", "0.3", "0.5", "0.7", "0.9"].map(String::from);
                curve(r, name.into(), shares.into_iter().zip(bimodal_cases(n)))
            };
            let curves = [("t8x3", "torus"), ("ft8x3", "fat tree")].map(of).into();
            chart("Two message lengths, load 0.35", "share of short messages", curves)
        },
    },
    Plot {
        file: "locality.svg",
        about: "Local traffic, 512 nodes, load 0.5; share 0 is uniform traffic.",
        draw: locality,
    },
    Plot {
        file: "hotspot.svg",
        about: "A hot spot at parts of the load its node can take, 512 nodes.",
        draw: |r| {
            let curves = [("t8x3", "torus"), ("ft8x3", "fat tree")].into_iter().flat_map(|(n, name)| {
                ["0.5", "0.9"].map(|x| {
                    let points = SHARES.iter().map(|s| s.to_string()).zip(hot_cases(n, x));
                    curve(r, format!("{name}, {x} of the bound"), points)
                })
            });
            chart("Hot spot", "share of all messages to one node", curves.collect())
        },
    },
    Plot {
        file: "fft-512.svg",
        about: "The two exchanges of a 3D FFT on 512 nodes. Hollow marks at the top, here and above: saturated. Bars: 95 % confidence.",
        draw: |r| fft(r, "3D FFT, 512 nodes", 16, [("t8x3", "torus"), ("ft8x3", "fat tree")]),
    },
    Plot {
        file: "fft-4096.svg",
        about: "The same on 4096 nodes.",
        draw: |r| fft(r, "3D FFT, 4096 nodes", 64, [("t16x3", "torus"), ("ft8x4", "fat tree")]),
    },
    Plot {
        file: "collectives.svg",
        about: "8 bytes on 4D tori, idle network, by the collective trees and by messages between pairs with 700 ns of \
                software per step.",
        draw: collectives,
    },
    Plot {
        file: "heat.svg",
        about: "Heat equation: speed with trees over that with recursive doubling and 700 ns of software per step.",
        draw: heat_gain,
    },
    Plot {
        file: "spmv.svg",
        about: "Sparse matrix times vector: speed with 16 trees over that with recursive doubling, idle 4D tori.",
        draw: |r| {
            over_nodes(
                "Sparse matrix times vector",
                "trees over recursive doubling",
                vec![("20.48 M rows".into(), spmv::points(r))],
            )
        },
    },
    Plot { file: "barriers.svg", about: "Barriers on empty 3D tori, simulated and by formula.", draw: barriers },
    Plot {
        file: "k-section.svg",
        about: "Bandwidth out of one of k parts: a switched machine and a torus of 4096 nodes.",
        draw: |_| k_section(),
    },
];

const LOAD: &str = "offered load, flits per node and cycle";

/// A curve of latencies, with what is known about its points.
#[derive(Default)]
struct Latencies {
    name: String,
    points: Vec<(f64, f64)>,
    /// Half-widths of the points' confidence intervals.
    sure: Vec<f64>,
    /// Where the network is saturated.
    beyond: Vec<f64>,
}

fn chart(title: &str, x: &str, all: Vec<Latencies>) -> Chart {
    let mut chart = Chart { title: title.into(), x: x.into(), y: "mean latency, cycles".into(), ..Chart::default() };
    for Latencies { name, points, sure, beyond } in all {
        chart.sure.extend(points.iter().zip(sure).map(|(point, half)| (name.clone(), *point, half)));
        chart.beyond.extend(beyond.into_iter().map(|x| (name.clone(), x)));
        chart.curves.push((name, points));
    }
    chart
}

/// Latencies over a number.
fn curve(results: &Results, name: String, points: impl Iterator<Item = (String, String)>) -> Latencies {
    let mut curve = Latencies { name, ..Latencies::default() };
    for (x, case) in points {
        let (Ok(x), Some(latency)) = (x.parse(), results.find(&case, "latency")) else { continue };
        if results.find(&case, "saturated") == Some(0.0) {
            curve.points.push((x, latency));
            curve.sure.push(results.find(&case, "confidence").unwrap_or(0.0));
        } else {
            curve.beyond.push(x);
        }
    }
    curve
}

/// Cases called `prefix`_load, here and in the reference.
fn booksim(results: &Results, title: &str, prefixes: &[&str]) -> Chart {
    let mut curves = Vec::new();
    for prefix in prefixes {
        let all = references();
        let family: Vec<_> = all
            .iter()
            .filter(|r| r.case.rsplit_once('_').is_some_and(|(name, load)| name == *prefix && load != "sat"))
            .filter(|r| r.accepted >= 0.98 * r.offered && results.find(&r.case, "latency").is_some())
            .collect();
        let points = family.iter().map(|r| (r.offered.to_string(), r.case.clone()));
        curves.push(curve(results, prefix.replace('_', " "), points));
        curves.push(Latencies {
            name: format!("{}, BookSim", prefix.replace('_', " ")),
            points: family.iter().map(|r| (r.offered, r.latency)).collect(),
            ..Latencies::default()
        });
    }
    chart(title, LOAD, curves)
}

fn ratios(results: &Results) -> Chart {
    let mut curves = ["single flits", "wormhole", "cut-through"].map(|name| (name.to_string(), Vec::new()));
    for r in references().iter().filter(|r| r.accepted >= 0.98 * r.offered) {
        let kind = match r.case.as_str() {
            c if c.contains("_L1_") => 0,
            c if c.starts_with("vct") => 2,
            _ => 1,
        };
        if let Some(latency) = results.find(&r.case, "latency") {
            curves[kind].1.push((r.latency, latency / r.latency));
        }
    }
    curves.iter_mut().for_each(|(_, points)| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    Chart {
        title: "All cases".into(),
        x: "latency in BookSim, cycles".into(),
        y: "latency here over BookSim's".into(),
        curves: curves.to_vec(),
        scatter: true,
        ..Chart::default()
    }
}

fn locality(results: &Results) -> Chart {
    let of = |(n, name, radius, shares): (&str, &str, u32, &[&str])| {
        let uniform = ("0".to_string(), format!("{n}_loc_u_0.5"));
        let local = shares.iter().map(|share| (share.to_string(), format!("{n}_loc_{radius}_{share}_0.5")));
        curve(results, format!("{name}, D = {radius}"), std::iter::once(uniform).chain(local))
    };
    let curves = [
        ("t8x3", "torus", 4, &["0.3", "0.6"][..]),
        ("t8x3", "torus", 2, &["0.3", "0.6"]),
        ("ft8x3", "fat tree", 2, &["0.3", "0.6"]),
        ("ft8x3", "fat tree", 1, &["0.3", "0.6", "0.9"]),
    ];
    chart("Local traffic, load 0.5", "R, share of local messages", curves.map(of).into())
}

fn fft(results: &Results, title: &str, columns: u32, networks: [(&str, &str); 2]) -> Chart {
    let mut curves = Vec::new();
    for (n, name) in networks {
        for (pattern, stage) in [("fftrow", "first"), ("fftcol", "second")] {
            let points = FFT_LOADS.iter().map(|load| (load.to_string(), format!("{n}_{pattern}{columns}_{load}")));
            curves.push(curve(results, format!("{name}, {stage} exchange"), points));
        }
    }
    chart(title, LOAD, curves)
}

fn over_nodes(title: &str, y: &str, curves: Vec<Curve>) -> Chart {
    let (title, x, y) = (title.into(), "nodes".into(), y.into());
    Chart { title, x, y, x_log: true, curves, ..Chart::default() }
}

fn collectives(results: &Results) -> Chart {
    let kinds = [
        (Collective::Broadcast, Method::Trees, "broadcast, trees"),
        (Collective::Broadcast, Method::PointToPoint, "broadcast, pairs"),
        (Collective::AllReduce, Method::Trees, "all-reduce, trees"),
        (Collective::AllReduce, Method::ReduceBroadcast, "reduce and broadcast, pairs"),
    ];
    let curves = kinds.map(|(what, how, name)| {
        let sw = if how == Method::Trees { 0.0 } else { collective::SW };
        let at = |&n: &usize| {
            let job = collective::timed(what, how, n, sw, 129.0).name;
            Some((n as f64, results.find(&job, "ns")? / 1000.0))
        };
        (name.to_string(), collective::SIZES.iter().filter_map(at).collect())
    });
    Chart { y_log: true, ..over_nodes("Collectives, 8 bytes", "time, µs", curves.to_vec()) }
}

fn heat_gain(results: &Results) -> Chart {
    let of = |cells: u64| {
        let at = |&n: &usize| Some((n as f64, collective::heat_ratio(results, cells, n)?));
        let points = collective::HEAT_SIZES.iter().filter_map(at).collect();
        (format!("{:.2} M cells", cells as f64 / 1e6), points)
    };
    over_nodes("Heat equation", "trees over recursive doubling", heat::GRIDS.map(of).to_vec())
}

fn barriers(results: &Results) -> Chart {
    let kinds = [
        (BarrierFamily::Multiphase, true, "multiphase half"),
        (BarrierFamily::Multiphase, false, "multiphase full"),
        (BarrierFamily::AllToAll, true, "all-to-all half"),
    ];
    let mut curves = Vec::new();
    for (family, half, name) in kinds {
        for (value, what) in [("ns", "simulated"), ("formula", "formula")] {
            let at = |n: u32| {
                let job = super::barriers::timed(family, half, super::barriers::shape(n, 3)).name;
                Some((f64::from(n.pow(3)), results.find(&job, value)? / 1000.0))
            };
            curves.push((format!("{name}, {what}"), [2, 4, 8, 16].into_iter().filter_map(at).collect()));
        }
    }
    Chart { y_log: true, ..over_nodes("Barriers, 3D tori", "time, µs", curves) }
}

/// k-section bandwidth of Merrimac and of a torus with as many nodes.
fn k_section() -> Chart {
    let torus = "16x16x16".parse().expect("a shape");
    let node = TorusNode::default();
    ksection::chart(vec![
        ("Merrimac".into(), ksection::switched(&Machine::merrimac())),
        ("torus 16x16x16, links alone".into(), ksection::torus(&torus, &node, true)),
        ("torus 16x16x16, with injection".into(), ksection::torus(&torus, &node, false)),
    ])
}
