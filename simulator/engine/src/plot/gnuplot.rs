//! Charts as scripts of gnuplot, for those who want to change them.

use super::Chart;
use super::axis::decades;
use super::draw::{Curve, ROW, SIZE, Sheet};
use super::look::{colour, dash, point_types};
use std::fmt::Write;

/// Bottom margin and room for a heading above the plot, in SVG units.
const BELOW: u32 = 70;
const ABOVE: u32 = 44;
/// Most numbers along a logarithmic axis.
const NUMBERS_MAX: usize = 12;

/// The script and its data: a block of points for every curve that has some, `x y half-width`. Saturated points have no
/// `y` and stand in the script.
pub(super) fn script(chart: &Chart, sheet: &Sheet<'_>, name: &str, data: &str) -> (String, String) {
    let (mut blocks, mut curves) = (Blocks::default(), Vec::new());
    for (i, curve) in sheet.curves.iter().enumerate() {
        let title = if sheet.curves.len() > 1 { format!("title {}", quoted(curve.name)) } else { "notitle".into() };
        let (filled, hollow) = point_types(i);
        let look = format!("lc rgb '{}'", hex(i));
        if curve.points.is_empty() {
            curves.push(format!("NaN with points {look} pt {hollow} {title}"));
            continue;
        }
        let (index, bars) = blocks.points(chart, curve);
        let block = format!("{} index {index}", quoted(data));
        if bars {
            curves.push(format!("{block} using 1:2:3 with yerrorbars {look} pt 0 notitle"));
        }
        let with = match chart.scatter {
            true => "points".to_string(),
            false => format!("linespoints lw 2 {}", strokes(i)),
        };
        curves.push(format!("{block} using 1:2 with {with} {look} pt {filled} {title}"));
    }
    let height = SIZE.1 + sheet.strip();
    let mut out = format!("# Draws {}: gnuplot {}\n", line(&chart.title), line(&format!("{name}.gp")));
    let _ = write!(
        out,
        "# For PDF: set terminal pdfcairo size 6in,3.8in noenhanced\n\
         set terminal svg size {},{height} noenhanced background 'white'\n\
         set output {}\n\
         set xlabel {}\nset ylabel {}\nset grid\nset key outside right top\nset errorbars 0.5\n\
         set bmargin at screen {:.4}\nset tmargin at screen {:.4}\n",
        SIZE.0 + 200,
        quoted(&format!("{name}.gnuplot.svg")),
        quoted(&chart.x),
        quoted(&chart.y),
        f64::from(BELOW) / f64::from(height),
        1.0 - f64::from(ABOVE + sheet.strip()) / f64::from(height),
    );
    axes(&mut out, chart, sheet);
    saturated(&mut out, chart, sheet);
    let _ = writeln!(out, "plot {}", curves.join(", \\\n     "));
    (out, blocks.text)
}

/// The heading, and below it the rows of saturated points, in parts of the plot's height.
fn saturated(out: &mut String, chart: &Chart, sheet: &Sheet<'_>) {
    let share = |above: u32| f64::from(above) / f64::from(SIZE.1 - BELOW - ABOVE);
    let strip = share(sheet.strip());
    let _ = writeln!(out, "set title {} offset graph 0, graph {strip:.4}", quoted(&chart.title));
    if sheet.rows == 0 {
        return;
    }
    let _ = writeln!(
        out,
        "set object rectangle from graph 0, graph 1 to graph 1, graph {:.4} noclip fillstyle empty border lc rgb 'grey'\n\
         set label 'saturated' at graph -0.01, graph {:.4} right",
        1.0 + strip,
        1.0 + strip / 2.0,
    );
    for (i, curve) in sheet.curves.iter().enumerate() {
        let height = 1.0 + strip - share(ROW * curve.row + ROW / 2 + 3);
        for x in &curve.beyond {
            let look = format!("lc rgb '{}' pt {}", hex(i), point_types(i).1);
            let _ = writeln!(out, "set label '' at first {x}, graph {height:.4} point {look}");
        }
    }
}

/// Ends, scales and names of the axes.
fn axes(out: &mut String, chart: &Chart, sheet: &Sheet<'_>) {
    let logs = [(chart.x_log && chart.places.is_empty(), 'x', sheet.xs), (chart.y_log, 'y', sheet.ys)];
    for (_, axis, (low, high)) in logs.iter().filter(|(log, ..)| *log) {
        let _ = writeln!(out, "set logscale {axis}");
        // Gnuplot itself has a number per decade.
        let numbers: Vec<String> = decades(*low, *high, NUMBERS_MAX, false).iter().map(f64::to_string).collect();
        if numbers.len() > 2 {
            let _ = writeln!(out, "set {axis}tics ({})", numbers.join(", "));
        }
    }
    if chart.places.is_empty() && !chart.x_at.is_empty() {
        let numbers: Vec<String> = chart.x_at.iter().map(f64::to_string).collect();
        let _ = writeln!(out, "set xtics ({})", numbers.join(", "));
    }
    let (left, right) = match chart.places.len() {
        0 => sheet.xs,
        places => (-0.5, places as f64 - 0.5),
    };
    let _ = writeln!(out, "set xrange [{left}:{right}]\nset yrange [{}:{}]", sheet.ys.0, sheet.ys.1);
    if !chart.places.is_empty() {
        let names: Vec<String> =
            chart.places.iter().enumerate().map(|(place, name)| format!("{} {place}", quoted(name))).collect();
        let _ = writeln!(out, "set xtics ({})", names.join(", "));
    }
}

/// The data file.
#[derive(Default)]
struct Blocks {
    text: String,
    number: usize,
}

impl Blocks {
    /// Begins a block and returns its number.
    fn begin(&mut self, comment: &str) -> usize {
        if self.number > 0 {
            self.text.push_str("\n\n");
        }
        let _ = writeln!(self.text, "# {comment}");
        self.number += 1;
        self.number - 1
    }

    /// Adds the points of a curve; returns the block's number and whether any point has an error bar.
    fn points(&mut self, chart: &Chart, curve: &Curve<'_>) -> (usize, bool) {
        let index = self.begin(&format!("{}: x, y, half-width of the confidence interval", line(curve.name)));
        let half = |point: &(f64, f64)| {
            chart.sure.iter().find(|(name, at, _)| name == curve.name && at == point).map(|(_, _, half)| *half)
        };
        for point in &curve.points {
            let _ = writeln!(self.text, "{} {} {}", point.0, point.1, half(point).unwrap_or(0.0));
        }
        (index, curve.points.iter().any(|p| half(p).is_some_and(|half| half > 0.0)))
    }
}

fn hex(i: usize) -> String {
    let colour = colour(i);
    format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
}

fn strokes(i: usize) -> String {
    match dash(i) {
        [] => "dt solid".into(),
        lengths => format!("dt ({})", lengths.iter().map(i32::to_string).collect::<Vec<_>>().join(",")),
    }
}

/// Text on one line.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Text as gnuplot reads it. Nothing but a quote means anything inside quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", line(text).replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn chart() -> Chart {
        Chart {
            title: "it's `time`".into(),
            x: "load".into(),
            y: "cycles_per_hop".into(),
            curves: vec![
                ("a".into(), vec![(0.1, 1.0), (0.2, 2.0)]),
                ("b".into(), vec![]),
                ("c\n".into(), vec![(0.1, 3.0)]),
            ],
            sure: vec![("a".into(), (0.2, 2.0), 0.25)],
            beyond: vec![("b".into(), 0.1), ("c\n".into(), 0.2)],
            ..Chart::default()
        }
    }

    #[test]
    fn a_script_draws_every_curve_with_its_bars_and_saturated_points() {
        let (script, data) = chart().gnuplot("it's", "it's.dat").unwrap();
        let blocks: Vec<&str> = data.split("\n\n\n").collect();
        assert_eq!(blocks.len(), 2, "{data}");
        assert!(blocks[0].ends_with("0.1 1 0\n0.2 2 0.25") && blocks[1].starts_with("# c : x, y"), "{data}");
        assert!(script.contains("set title 'it''s `time`'") && script.contains("set output 'it''s.gnuplot.svg'"));
        assert!(script.contains("'it''s.dat' index 0 using 1:2:3 with yerrorbars lc rgb '#0072b2' pt 0 notitle"));
        assert!(script.contains("index 0 using 1:2 with linespoints lw 2 dt solid lc rgb '#0072b2' pt 7 title 'a'"));
        assert!(script.contains("NaN with points lc rgb '#d55e00' pt 4 title 'b'"), "{script}");
        let label = |x: f64, look: &str| {
            script.lines().any(|l| l.starts_with(&format!("set label '' at first {x}, graph 1.")) && l.ends_with(look))
        };
        assert!(label(0.1, "point lc rgb '#d55e00' pt 4") && label(0.2, "point lc rgb '#009e73' pt 8"), "{script}");
        let (script, _) = Chart { x_at: vec![8.0, 16.0], ..chart() }.gnuplot("a", "a.dat").unwrap();
        assert!(script.contains("set xtics (8, 16)\n"), "{script}");
        let (script, _) = Chart { x_log: true, y_log: true, ..chart() }.gnuplot("a", "a.dat").unwrap();
        assert!(script.contains("set logscale x\nset logscale y\n"), "{script}");
        let wide = Chart { y_log: true, curves: vec![("a".into(), vec![(1.0, 1.0), (2.0, 90.0)])], ..chart() };
        assert!(
            wide.gnuplot("a", "a.dat").unwrap().0.contains("set logscale y\nset ytics (1, 2, 5, 10, 20, 50, 100)\n")
        );
        let places = vec!["one".to_string(), "two".into()];
        let (script, _) = Chart { places, scatter: true, ..chart() }.gnuplot("a", "a.dat").unwrap();
        assert!(
            script.contains("set xtics ('one' 0, 'two' 1)") && script.contains("with points lc rgb '#0072b2' pt 7"),
            "{script}"
        );
    }

    #[test]
    fn gnuplot_understands_it() {
        if Command::new("gnuplot").arg("--version").output().is_err() {
            return println!("-- no gnuplot here: its scripts are only compared as text");
        }
        let dir = std::env::temp_dir().join(format!("angara-gnuplot-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let many = (0..24).map(|k| (format!("curve {k}"), vec![(1.0, f64::from(k) + 1.0)])).collect();
        for chart in [chart(), Chart { y_log: true, x_log: true, ..chart() }, Chart { curves: many, ..chart() }] {
            let (script, data) = chart.gnuplot("it's", "it's.dat").unwrap();
            std::fs::write(dir.join("it's.gp"), script).unwrap();
            std::fs::write(dir.join("it's.dat"), data).unwrap();
            let said = Command::new("gnuplot").arg("it's.gp").current_dir(&dir).output().unwrap();
            let complaints = String::from_utf8_lossy(&said.stderr).into_owned();
            assert!(said.status.success() && complaints.is_empty(), "{complaints}");
            assert!(std::fs::read_to_string(dir.join("it's.gnuplot.svg")).unwrap().contains("</svg>"));
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
