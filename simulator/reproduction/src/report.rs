//! The rows for people: a table for the terminal, and the document `docs/results/reproduction.md`.

use super::{PLOTS, Reproduction, Row, Verdict};
use angara_sim::table::Table;
use std::fmt::Write;

/// Section numbers, titles and what stands under them.
const SECTIONS: [(u8, &str, &str); 7] = [
    (
        1,
        "BookSim 2 at the same parameters",
        "Cases are named as in `simulator/reproduction/data/booksim.csv`: `t8x3` is an 8x8x8 torus, `ft8x3` a fat tree of 512 nodes, `L` flits per \
         packet, `sat` far above saturation; then the offered load in flits per node and cycle. Router: 4 virtual channels of 8 \
         flits, dimension order with a dateline on the torus, nearest common ancestor with random up-ports in the tree. Packets of \
         more than one flit are switched flit by flit (wormhole) or, in rows `vct`, by cut-through with channels of 64 flits. \
         Rows `dragonfly`, `hyperx`, `torus`, `cmesh` and `fly` are means of three seeds here and there, with the configurations in `simulator/reproduction/data/booksim`; \
         `short` has links of one cycle. Latencies are mean packet latencies in cycles, \
         waiting at the source included. T0 is the latency of an empty network, R the routers visited.",
    ),
    (
        2,
        "Complex workloads (paper 004)",
        "The paper's figures are lost; its statements are checked as orderings with the parameters of section 1.",
    ),
    (
        3,
        "Collective operations (paper 000)",
        "500 MHz, injection and ejection 300 ns, hop 129 ns unless stated, 16-byte flits, links of 7.5 GB/s. *sw* is the software \
         time of one point-to-point step.",
    ),
    (4, "Barriers (paper 001)", "Simulated barriers against the paper's formulas and their corrected readings."),
    (
        5,
        "Published numbers (paper 002)",
        "What the network alone says to them. [Real programs](programs.md) measure them by their own clocks.",
    ),
    (
        6,
        "Matrix multiplication (paper 003)",
        "Closed formulas; times are in the paper's binary units (µs = Mi words / (Ki components · Gwords/s)) unless stated.",
    ),
    (
        7,
        "Other networks (published)",
        "Kim, Dally, Scott and Abts, \"Technology-Driven, Highly-Scalable Dragonfly Topology\", ISCA 2008; Jouppi et al., \"TPU v4\", \
         ISCA 2023 (arXiv 2304.01433): packets of one flit, loads in flits and cycles. Kumar and Faraj, \"Optimization of \
         MPI_Allreduce on the Blue Gene/Q supercomputer\", EuroMPI 2013.",
    ),
];

/// The result for a terminal.
pub fn text(rows: &[Row]) -> String {
    let mut table = Table::new(&["row", "demand", "measured", "verdict"]);
    for r in rows {
        table.row(&[r.id.as_str(), &r.demand, &r.measured, r.verdict.name()]);
    }
    let mut out = table.render();
    for r in rows.iter().filter(|r| r.verdict == Verdict::Deviates) {
        let _ = writeln!(out, "\n{} deviates: {}\n  {}", r.id, r.claim, r.evidence);
    }
    let _ = writeln!(out, "\n{}", summary(rows));
    out
}

/// How many rows met their demands.
fn summary(rows: &[Row]) -> String {
    let count = |v: Verdict| rows.iter().filter(|r| r.verdict == v).count();
    let (met, deviates) = (count(Verdict::Met), count(Verdict::Deviates));
    let mut out = format!("{met} of {} demands met, {deviates} not", met + deviates);
    if count(Verdict::Programs) > 0 {
        let _ = write!(out, "; {} left to real programs", count(Verdict::Programs));
    }
    out
}

/// The document; its plots are in `plots/` beside it.
pub fn markdown(of: &Reproduction) -> String {
    let mut out = String::from("# What the model reproduces\n\n");
    out += &wrapped(
        "Written by `angara sim reproduce --out docs/results`; not to be edited. Every row is a statement of somebody else, \
         what would have to come out, and what comes out here. A deviation is a finding; what is known about it stands below its table.",
    );
    let _ = writeln!(out, "\n| section | demands met | deviations | left to programs |\n|---|---|---|---|");
    for (number, title, _) in SECTIONS {
        let rows: Vec<&Row> = of.rows.iter().filter(|r| r.section == number).collect();
        let count = |v: Verdict| rows.iter().filter(|r| r.verdict == v).count();
        if !rows.is_empty() {
            let (met, deviates) = (count(Verdict::Met), count(Verdict::Deviates));
            let _ = writeln!(
                out,
                "| {number}. {title} | {met} of {} | {deviates} | {} |",
                met + deviates,
                count(Verdict::Programs)
            );
        }
    }
    for (number, title, about) in SECTIONS {
        let rows: Vec<&Row> = of.rows.iter().filter(|r| r.section == number).collect();
        if !rows.is_empty() {
            let _ = writeln!(out, "\n## {number}. {title}\n\n{}", wrapped(about));
            section(&mut out, &rows);
            plots(&mut out, &rows, of);
        }
    }
    out
}

/// A paragraph in lines of up to 100 columns.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if column > 0 {
            let fits = column + 1 + width <= 100;
            out.push(if fits { ' ' } else { '\n' });
            column = if fits { column + 1 } else { 0 };
        }
        out += word;
        column += width;
    }
    out + "\n"
}

fn section(out: &mut String, rows: &[&Row]) {
    let _ = writeln!(out, "| row | statement | demand | measured | verdict |\n|---|---|---|---|---|");
    for r in rows {
        let verdict = if r.verdict == Verdict::Deviates { "**deviates**" } else { r.verdict.name() };
        let cells = [&r.claim, &r.demand, &r.measured].map(|c| c.replace('|', "\\|"));
        let _ = writeln!(out, "| `{}` | {} | {} | {} | {verdict} |", r.id, cells[0], cells[1], cells[2]);
    }
    let mut told: Vec<&str> = Vec::new();
    for r in rows.iter().filter(|r| !r.evidence.is_empty()) {
        if told.contains(&r.evidence.as_str()) {
            continue;
        }
        told.push(&r.evidence);
        let same: Vec<String> =
            rows.iter().filter(|o| o.evidence == r.evidence).map(|o| format!("`{}`", o.id)).collect();
        let _ = write!(out, "\n{}", wrapped(&format!("{}: {}", same.join(", "), r.evidence)));
    }
}

fn plots(out: &mut String, rows: &[&Row], of: &Reproduction) {
    for plot in PLOTS.iter().filter(|p| of.plots.iter().any(|(file, _)| *file == p.file)) {
        if rows.iter().any(|r| r.plot == Some(plot.file)) {
            let name = plot.file.trim_end_matches(".svg");
            let _ = write!(out, "\n![{name}](plots/{})\n\n{}", plot.file, wrapped(plot.about));
        }
    }
}

/// The rows of a document that [`markdown`] wrote: name, measured and verdict.
pub fn parse(document: &str) -> Vec<(String, String, String)> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.strip_prefix("| `")?.split(" | ").collect();
        let [id, _, _, measured, verdict] = cells[..] else { return None };
        let clean = |text: &str| text.trim_end_matches(" |").trim_matches(['`', '*']).replace("\\|", "|");
        Some((clean(id), clean(measured), clean(verdict)))
    };
    document.lines().filter_map(row).collect()
}
