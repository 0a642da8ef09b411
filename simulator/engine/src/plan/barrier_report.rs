//! `angara plan barrier`: tables, JSON and a chart of the barrier cost model.

use super::barrier::{Costs, Criterion, Cube, Mode, ShapeBound};
use crate::Error;
use crate::plot::Chart;
use crate::table::{Table, number};
use angara_net::torus::Shape;
use serde::Serialize;
use std::fmt::Write;

/// Largest n searched for a crossover.
const SEARCH_MAX: u32 = 1000;
/// Largest n a table row may have: n^4 stays exact in the arithmetic used.
const N_MAX: u32 = 1000;

/// Tables to compute.
#[derive(Clone, Debug)]
pub struct Request {
    /// Network costs.
    pub costs: Costs,
    /// Readings of the formulas to show.
    pub modes: Vec<Mode>,
    /// Numbers of dimensions to show.
    pub dims: Vec<u32>,
    /// Values of n to show.
    pub sizes: Vec<u32>,
    /// Further shapes, with formula (1) and true loads.
    pub shapes: Vec<Shape>,
}

/// One network in one mode.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Reading of the formulas.
    pub mode: Mode,
    /// The torus.
    #[serde(flatten)]
    pub cube: Cube,
    /// n^dim.
    pub nodes: f64,
    /// K.
    pub diameter: f64,
    /// Packets on the busiest link of an all-to-all half-barrier.
    pub link_packets: f64,
    /// Links, not injectors, limit it.
    pub link_bound: bool,
    /// All-to-all half-barrier.
    pub all_to_all_half_ns: f64,
    /// Multiphase half-barrier, K phases.
    pub multiphase_half_ns: f64,
    /// Full multiphase barrier, 2K phases.
    pub multiphase_full_ns: f64,
    /// Packets in all of the all-to-all half-barrier.
    pub all_to_all_packets: f64,
    /// Packets in all of the full multiphase barrier.
    pub multiphase_full_packets: f64,
}

/// First n of each comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Crossover {
    /// Reading of the formulas.
    pub mode: Mode,
    /// Dimensions.
    pub dim: u32,
    /// By (3): full multiphase against half all-to-all.
    pub full_against_half: Option<u32>,
    /// By (6).
    pub inequality_6: Option<u32>,
    /// Both half.
    pub half_against_half: Option<u32>,
    /// Both full.
    pub full_against_full: Option<u32>,
}

/// Everything `plan barrier` says.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Costs in nanoseconds.
    pub costs: Costs,
    /// Networks.
    pub rows: Vec<Row>,
    /// First n on which the multiphase barrier wins.
    pub crossover: Vec<Crossover>,
    /// Other shapes.
    pub shapes: Vec<ShapeBound>,
}

/// Evaluates the model.
///
/// # Errors
/// A cost, dimension or size outside the model.
pub fn report(request: &Request) -> Result<Report, Error> {
    request.costs.check()?;
    if let Some(d) = request.dims.iter().find(|d| !(1..=6).contains(*d)) {
        return Err(Error::invalid("--dims", d, "a torus has 1 to 6 dimensions"));
    }
    if let Some(n) = request.sizes.iter().find(|n| !(2..=N_MAX).contains(*n)) {
        return Err(Error::invalid("--sizes", n, format!("give sizes from 2 to {N_MAX}")));
    }
    let costs = &request.costs;
    let mut rows = Vec::new();
    let mut crossover = Vec::new();
    for &mode in &request.modes {
        for &dim in &request.dims {
            rows.extend(request.sizes.iter().map(|&n| row(Cube { n, dim }, costs, mode)));
            let first = |c: Criterion| c.first(dim, costs, mode, SEARCH_MAX);
            crossover.push(Crossover {
                mode,
                dim,
                full_against_half: first(Criterion::FullAgainstHalf),
                inequality_6: first(Criterion::Six),
                half_against_half: first(Criterion::HalfAgainstHalf),
                full_against_full: first(Criterion::FullAgainstFull),
            });
        }
    }
    let shapes = request.shapes.iter().map(|s| ShapeBound::new(s, costs)).collect();
    Ok(Report { costs: *costs, rows, crossover, shapes })
}

fn row(cube: Cube, costs: &Costs, mode: Mode) -> Row {
    let diameter = cube.diameter(mode);
    Row {
        mode,
        cube,
        nodes: cube.nodes(),
        diameter,
        link_packets: cube.link_packets(mode),
        link_bound: cube.link_bound(costs, mode),
        all_to_all_half_ns: cube.all_to_all_half(costs, mode),
        multiphase_half_ns: cube.multiphase_half(costs, mode),
        multiphase_full_ns: cube.multiphase_full(costs, mode),
        all_to_all_packets: cube.all_to_all_packets(),
        multiphase_full_packets: cube.multiphase_packets(2.0 * diameter),
    }
}

fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::Paper => "paper",
        Mode::Corrected => "corrected",
        Mode::Exact => "exact",
    }
}

fn us(ns: f64) -> String {
    format!("{:.3}", ns / 1000.0)
}

/// A curve of the chart.
struct Curve {
    dim: u32,
    kind: &'static str,
    modes: Vec<&'static str>,
    points: Vec<(f64, f64)>,
}

/// A time of a row, ns.
type Time = fn(&Row) -> f64;

impl Report {
    /// The report for people.
    pub fn text(&self) -> String {
        let c = &self.costs;
        let mut out = format!(
            "Barriers on an empty torus (paper 001). hop {} ns, phase step {} ns, per packet: link {} ns, \
             injector {} ns, ejector {} ns; injection {} ns, ejection {} ns\n\n",
            c.lat_hop, c.lat_inc, c.rate_link, c.rate_inj, c.rate_ej, c.lat_inj, c.lat_ej
        );
        let titles = [
            "mode",
            ">torus",
            ">nodes",
            ">K",
            ">busiest link",
            "limited by",
            ">all-to-all half us",
            ">multiphase K us",
            ">multiphase 2K us",
            "2K wins",
        ];
        let mut t = Table::new(&titles);
        for r in &self.rows {
            t.row(&[
                name(r.mode).to_string(),
                format!("{}^{}", r.cube.n, r.cube.dim),
                number(r.nodes, 12),
                number(r.diameter, 6),
                number(r.link_packets, 8),
                if r.link_bound { "links" } else { "injectors" }.to_string(),
                us(r.all_to_all_half_ns),
                us(r.multiphase_half_ns),
                us(r.multiphase_full_ns),
                if r.multiphase_full_ns < r.all_to_all_half_ns { "yes" } else { "-" }.to_string(),
            ]);
        }
        out.push_str(&t.render());
        out.push_str("\nFirst n on which the multiphase barrier beats all-to-all\n\n");
        let titles = ["mode", ">dims", ">(3) 2K vs half", ">by (6)", ">K vs half", ">2K vs full"];
        let mut t = Table::new(&titles);
        let show = |n: Option<u32>| n.map_or(format!("> {SEARCH_MAX}"), |n| n.to_string());
        for x in &self.crossover {
            t.row(&[
                name(x.mode).to_string(),
                format!("{}D", x.dim),
                show(x.full_against_half),
                show(x.inequality_6),
                show(x.half_against_half),
                show(x.full_against_full),
            ]);
        }
        out.push_str(&t.render());
        self.shapes_text(&mut out);
        out
    }

    fn shapes_text(&self, out: &mut String) {
        if self.shapes.is_empty() {
            return;
        }
        out.push_str("\nFormula (1) with the true loads of direction-order routing\n\n");
        let titles = [
            "shape",
            ">nodes",
            ">K",
            "packets per link and dimension",
            ">all-to-all half us",
            ">multiphase K us",
            ">multiphase 2K us",
        ];
        let mut t = Table::new(&titles);
        for s in &self.shapes {
            let loads: Vec<String> = s.link_packets.iter().map(|&p| number(p, 8)).collect();
            t.row(&[
                s.shape.clone(),
                s.nodes.to_string(),
                s.diameter.to_string(),
                loads.join(" "),
                us(s.all_to_all_half_ns),
                us(s.multiphase_half_ns),
                us(s.multiphase_full_ns),
            ]);
        }
        let _ = write!(out, "{}", t.render());
        out.push_str("\nWork of emulating one full barrier with a PE at every node: packets times links\n\n");
        let mut t = Table::new(&["shape", ">multiphase 2K", ">tree", "auto takes"]);
        for s in &self.shapes {
            let (multiphase, tree) = (s.multiphase_packet_hops.to_string(), s.tree_packet_hops.to_string());
            t.row(&[s.shape.clone(), multiphase, tree, s.auto.clone()]);
        }
        let _ = write!(out, "{}", t.render());
    }

    /// Time over n: an all-to-all and a multiphase curve per number of dimensions and mode. Modes that agree everywhere
    /// share a curve.
    pub fn chart(&self) -> Chart {
        let half = ("all-to-all, half", (|r| r.all_to_all_half_ns) as Time);
        let full = ("multiphase 2K", (|r| r.multiphase_full_ns) as Time);
        let mut found: Vec<Curve> = Vec::new();
        for x in &self.crossover {
            for (kind, time) in [half, full] {
                let rows = self.rows.iter().filter(|r| r.mode == x.mode && r.cube.dim == x.dim);
                let mut points: Vec<_> = rows.map(|r| (f64::from(r.cube.n), time(r) / 1000.0)).collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                match found.iter_mut().find(|c| (c.dim, c.kind, &c.points) == (x.dim, kind, &points)) {
                    Some(curve) => curve.modes.push(name(x.mode)),
                    None => found.push(Curve { dim: x.dim, kind, modes: vec![name(x.mode)], points }),
                }
            }
        }
        found.sort_by_key(|c| (c.dim, c.kind));
        let label = |c: Curve| (format!("{}D {}: {}", c.dim, c.kind, c.modes.join(", ")), c.points);
        let curves = found.into_iter().map(label).collect();
        Chart {
            title: "Barrier on an empty torus".into(),
            x: "nodes per dimension".into(),
            y: "time, us".into(),
            x_log: false,
            y_log: true,
            curves,
            ..Chart::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            costs: Costs::default(),
            modes: vec![Mode::Paper, Mode::Exact],
            dims: vec![3, 4],
            sizes: vec![4, 8],
            shapes: vec!["4x2x2x2".parse().unwrap()],
        }
    }

    #[test]
    fn the_text_shows_the_known_values() {
        let text = report(&request()).unwrap().text();
        for value in ["6.244", "4.196", "2.268", "3.936", "35.432", "19.048", "5.048", "4x2x2x2"] {
            assert!(text.contains(value), "{value} in\n{text}");
        }
    }

    #[test]
    fn the_json_is_flat_and_complete() {
        let json = serde_json::to_value(report(&request()).unwrap()).unwrap();
        assert_eq!(json["rows"].as_array().unwrap().len(), 8);
        assert_eq!(json["rows"][1]["n"], 8);
        assert_eq!(json["rows"][1]["all_to_all_half_ns"], 6244.0);
        assert_eq!(json["crossover"][0]["mode"], "paper");
    }

    #[test]
    fn the_chart_has_a_curve_for_modes_that_agree() {
        let chart = report(&request()).unwrap().chart();
        let names: Vec<&str> = chart.curves.iter().map(|c| c.0.as_str()).collect();
        assert!(names.contains(&"3D multiphase 2K: paper, exact"), "{names:?}");
        let mut drawn: Vec<String> = chart.curves.iter().map(|c| format!("{:?}", c.1)).collect();
        drawn.sort();
        drawn.dedup();
        assert_eq!(drawn.len(), names.len(), "none hides another: {names:?}");
        assert!(chart.svg().unwrap().contains("multiphase 2K"));
    }

    #[test]
    fn sizes_outside_the_model_are_refused() {
        let e = report(&Request { sizes: vec![1], ..request() }).unwrap_err();
        assert_eq!(e.to_string(), "--sizes is 1: give sizes from 2 to 1000");
        assert!(report(&Request { dims: vec![7], ..request() }).is_err());
    }
}
