//! `angara plan matmul`: tables, JSON and charts of the matrix multiplication model.

use super::analysis::{self, LevelLoad, SizeLoad, Threshold, Units};
use super::formulas::{Sizes, optimal_words, random_words_reused};
use super::htmt;
use super::ksection::{self, Point};
use super::machine::{Machine, TorusNode};
use super::zip3::{self, Measured, Placement};
use crate::Error;
use crate::plot::Chart;
use crate::table::{Table, binary, number};
use angara_net::torus::Shape;
use serde::Serialize;
use std::fmt::Write;

/// Tables to compute.
#[derive(Clone, Debug)]
pub struct Request {
    /// Order of the matrices of table 2.
    pub n: u64,
    /// Orders of table 3.
    pub sizes: Vec<u64>,
    /// Units of times.
    pub units: Units,
    /// The torus to analyse beside Merrimac.
    pub torus: Shape,
    /// Its nodes.
    pub node: TorusNode,
    /// Order of the matrices whose zip3 placement is counted.
    pub zip3_n: u32,
    /// Seed of the random placement.
    pub seed: u64,
}

/// One machine.
#[derive(Clone, Debug, Serialize)]
pub struct MachineReport {
    /// Table 1.
    pub machine: Machine,
    /// Last column of table 1: outside bandwidth per node, GB/s.
    pub per_node_gbytes: Vec<f64>,
    /// Table 2.
    pub n: u64,
    /// Rows of table 2.
    pub levels: Vec<LevelLoad>,
    /// T_COMP at `n`, µs.
    pub compute_us: f64,
    /// Table 3.
    pub sizes: Vec<SizeLoad>,
    /// N from which on the peak can be reached.
    pub threshold: Threshold,
    /// k-section bandwidth.
    pub k_section: Vec<Point>,
    /// The same over the links alone, where nodes can inject less.
    pub k_section_links: Option<Vec<Point>>,
}

/// A counted placement.
#[derive(Clone, Debug, Serialize)]
pub struct Zip3Row {
    /// Modules.
    pub modules: u64,
    /// Blocks along i, k and j.
    pub split: [u64; 3],
    /// (5): N²(K0+K1+K2).
    pub formula_words: u64,
    /// Counted.
    pub zip3: Measured,
    /// (6): no placement needs less.
    pub bound_words: f64,
    /// Counted with random placement.
    pub random: Measured,
    /// Expected for it.
    pub random_words: f64,
}

/// HTMT.
#[derive(Clone, Debug, Serialize)]
pub struct HtmtReport {
    /// PF/s of N = 208000 in 16.2 s.
    pub largest_petaflops: f64,
    /// PF/s of N = 8000 in 0.75 ms.
    pub block_petaflops: f64,
    /// Peak, PF/s.
    pub peak_petaflops: f64,
    /// Cannon's algorithm on the grid.
    pub steps: Vec<htmt::Step>,
    /// Smallest power of two at 1 PF.
    pub smallest: u64,
}

/// Everything `plan matmul` says.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Units of times.
    pub units: Units,
    /// Merrimac and the torus.
    pub machines: Vec<MachineReport>,
    /// Order of the counted matrices.
    pub zip3_n: u32,
    /// The zip3 placement.
    pub zip3: Vec<Zip3Row>,
    /// HTMT.
    pub htmt: HtmtReport,
}

/// Evaluates the model.
///
/// # Errors
/// Sizes or a machine outside the model.
pub fn report(request: &Request) -> Result<Report, Error> {
    if let Some(n) = request.sizes.iter().chain([&request.n]).find(|n| !(1..=1 << 20).contains(*n)) {
        return Err(Error::invalid("matrix order", n, "give 1 to 1048576"));
    }
    let merrimac = Machine::merrimac();
    let torus = Machine::torus(&request.torus, request.node)?;
    let mut machines = vec![
        machine(merrimac.clone(), request, ksection::switched(&merrimac), None)?,
        machine(torus, request, ksection::torus(&request.torus, &request.node, false), None)?,
    ];
    machines[1].k_section_links = Some(ksection::torus(&request.torus, &request.node, true));
    let mut rows = Vec::new();
    let bits_max = (3 * request.zip3_n.max(1).ilog2()).min(19);
    for bits in 1..=bits_max {
        rows.push(zip3_row(request, bits)?);
    }
    let steps = [512, 1024, 2048, 8000].map(|n| htmt::step(n, request.units)).to_vec();
    let htmt = HtmtReport {
        largest_petaflops: htmt::petaflops(208_000, 16.2),
        block_petaflops: htmt::petaflops(8_000, 0.75e-3),
        peak_petaflops: htmt::peak(),
        steps,
        smallest: htmt::smallest(request.units),
    };
    Ok(Report { units: request.units, machines, zip3_n: request.zip3_n, zip3: rows, htmt })
}

fn machine(
    m: Machine,
    request: &Request,
    curve: Vec<Point>,
    links: Option<Vec<Point>>,
) -> Result<MachineReport, Error> {
    let sizes = request.sizes.iter().map(|&n| analysis::size(&m, n, request.units)).collect::<Result<_, _>>()?;
    Ok(MachineReport {
        per_node_gbytes: (0..m.levels.len()).map(|l| m.per_node(l)).collect(),
        n: request.n,
        levels: analysis::levels(&m, request.n, request.units)?,
        compute_us: analysis::compute_us(&m, request.n, request.units),
        sizes,
        threshold: analysis::threshold(&m)?,
        k_section: curve,
        k_section_links: links,
        machine: m,
    })
}

fn zip3_row(request: &Request, bits: u32) -> Result<Zip3Row, Error> {
    let (n, modules) = (request.zip3_n, 1u64 << bits);
    let split = zip3::split(bits);
    let sizes = Sizes::cube(u64::from(n));
    Ok(Zip3Row {
        modules,
        split,
        formula_words: u64::from(n) * u64::from(n) * split.iter().sum::<u64>(),
        zip3: zip3::measure(n, modules, Placement::Zip3)?,
        bound_words: optimal_words(sizes, modules),
        random: zip3::measure(n, modules, Placement::Random { seed: request.seed })?,
        random_words: random_words_reused(sizes, modules),
    })
}

fn three(parts: [u64; 3]) -> String {
    parts.map(|p| p.to_string()).join(",")
}

impl Report {
    /// The report for people.
    pub fn text(&self) -> String {
        let mut out = String::from("Communication of a matrix multiplication (paper 003)\n");
        for m in &self.machines {
            m.text(self.units, &mut out);
        }
        let _ = writeln!(out, "\nzip3 placement, counted, matrices of order {}\n", self.zip3_n);
        let titles =
            [">modules", "split i,k,j", ">N^2 sum", ">counted", ">over bound", ">load", ">random counted", ">expected"];
        let mut t = Table::new(&titles);
        for r in &self.zip3 {
            let load = if r.zip3.least == r.zip3.most {
                r.zip3.most.to_string()
            } else {
                format!("{}-{}", r.zip3.least, r.zip3.most)
            };
            t.row(&[
                binary(r.modules as f64),
                three(r.split),
                r.formula_words.to_string(),
                r.zip3.words.to_string(),
                format!("{:.3}", r.zip3.words as f64 / r.bound_words),
                load,
                r.random.words.to_string(),
                number(r.random_words, 8),
            ]);
        }
        out.push_str(&t.render());
        self.htmt.text(&mut out);
        out
    }

    /// PF over N for every machine.
    pub fn performance_chart(&self) -> Chart {
        let curves = self.machines.iter().map(|m| {
            let points = m.sizes.iter().map(|s| (s.n as f64, s.petaflops)).collect();
            (m.machine.name.clone(), points)
        });
        Chart {
            title: "Matrix multiplication: what the network allows".into(),
            x: "order of the matrices".into(),
            y: "PF/s".into(),
            x_log: true,
            y_log: true,
            curves: curves.collect(),
            ..Chart::default()
        }
    }

    /// k-section bandwidth of every machine.
    pub fn k_section_chart(&self) -> Chart {
        let mut curves = Vec::new();
        for m in &self.machines {
            curves.push((m.machine.name.clone(), m.k_section.clone()));
            if let Some(links) = &m.k_section_links {
                curves.push((format!("{}, links alone", m.machine.name), links.clone()));
            }
        }
        ksection::chart(curves)
    }
}

impl MachineReport {
    fn text(&self, units: Units, out: &mut String) {
        let _ = writeln!(out, "\n{}\n", self.machine.name);
        let mut t = Table::new(&["level", ">parts", ">elements", ">K", ">GF/s", ">outside GB/s", ">per node GB/s"]);
        for (l, per_node) in self.machine.levels.iter().zip(&self.per_node_gbytes) {
            t.row(&[
                l.name.clone(),
                l.parts.to_string(),
                binary(l.elements as f64),
                binary(l.count as f64),
                number(l.gflops, 6),
                number(l.gbytes, 6),
                number(*per_node, 5),
            ]);
        }
        out.push_str(&t.render());
        let unit = if units == Units::Binary { "binary units" } else { "SI units" };
        let _ = writeln!(out, "\nN = {}, arithmetic {} us ({unit})\n", self.n, number(self.compute_us, 4));
        let titles = [
            "level",
            ">K",
            ">Gwords/s",
            "split",
            ">sum",
            ">words",
            ">over bound",
            ">T us",
            ">used",
            ">balanced Gw/s",
            ">random words",
            ">reused",
            ">T us",
        ];
        let mut t = Table::new(&titles);
        for l in &self.levels {
            t.row(&[
                l.level.clone(),
                binary(l.components as f64),
                number(l.gwords, 4),
                three(l.split),
                l.split.iter().sum::<u64>().to_string(),
                binary(l.words),
                format!("{:.3}", l.ratio),
                number(l.time_us, 4),
                format!("{:.0}%", 100.0 * l.utilisation),
                number(l.balanced_gwords, 4),
                binary(l.random_words),
                binary(l.random_reused_words),
                number(l.random_time_us, 4),
            ]);
        }
        out.push_str(&t.render());
        self.sizes_text(out);
    }

    fn sizes_text(&self, out: &mut String) {
        out.push('\n');
        let mut t = Table::new(&[">N", ">arithmetic us", ">network us", ">PF/s", "limit"]);
        for s in &self.sizes {
            let limit = if s.communicate_us > s.compute_us { s.limit.as_str() } else { "arithmetic" };
            t.row(&[
                s.n.to_string(),
                number(s.compute_us, 4),
                number(s.communicate_us, 4),
                number(s.petaflops, 3),
                limit.to_string(),
            ]);
        }
        out.push_str(&t.render());
        let t = &self.threshold;
        let _ = writeln!(out, "  peak possible from N = {} (power of two: {}), level {}", t.n, t.power_of_two, t.level);
        let show = |p: &[Point]| {
            p.iter().map(|p| format!("{}:{}", binary(p.k as f64), number(p.gwords, 4))).collect::<Vec<_>>()
        };
        let _ = writeln!(out, "  k-section bandwidth, Gwords/s: {}", show(&self.k_section).join(" "));
        if let Some(links) = &self.k_section_links {
            let _ = writeln!(out, "  over the links alone:          {}", show(links).join(" "));
        }
    }
}

impl HtmtReport {
    fn text(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "\nHTMT: N = 208000 in 16.2 s is {:.3} PF, N = 8000 in 0.75 ms is {:.3} PF, peak {:.3} PF\n",
            self.largest_petaflops, self.block_petaflops, self.peak_petaflops
        );
        let mut t = Table::new(&[">N", ">multiply ns (14)", ">pass ns (15)", ">ratio", ">total us", ">PF/s"]);
        for s in &self.steps {
            t.row(&[
                s.n.to_string(),
                number(s.multiply_ns, 4),
                number(s.pass_ns, 4),
                format!("{:.2}", s.ratio),
                number(s.total_us, 4),
                number(s.petaflops, 4),
            ]);
        }
        out.push_str(&t.render());
        let _ = writeln!(out, "  smallest power of two at 1 PF or more: {}", self.smallest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            n: 1024,
            sizes: vec![256, 512, 1024, 2048, 4096, 8192],
            units: Units::Binary,
            torus: "4x4x4".parse().unwrap(),
            node: TorusNode::default(),
            zip3_n: 16,
            seed: 1,
        }
    }

    #[test]
    fn the_text_holds_the_papers_tables() {
        let text = report(&request()).unwrap().text();
        let known =
            ["64,64,128", "32,64,64", "16,16,32", "8,8,8", "2,2,4", "0.417", "307.2", "N = 2458", "3072", "1.21"];
        for value in known {
            assert!(text.contains(value), "{value} in\n{text}");
        }
    }

    #[test]
    fn both_charts_draw() {
        let r = report(&request()).unwrap();
        assert!(r.performance_chart().svg().unwrap().contains("Merrimac"));
        assert!(r.k_section_chart().svg().unwrap().contains("links alone"));
    }

    #[test]
    fn the_json_carries_every_part() {
        let json = serde_json::to_value(report(&request()).unwrap()).unwrap();
        assert_eq!(json["machines"][0]["levels"][3]["split"], serde_json::json!([8, 8, 8]));
        assert_eq!(json["machines"][1]["machine"]["levels"][0]["name"], "core");
        assert_eq!(json["zip3"][5]["zip3"]["words"], 3072);
        assert_eq!(json["htmt"]["smallest"], 1024);
    }
}
