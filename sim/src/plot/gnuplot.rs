//! Charts as scripts of gnuplot, for those who want to change them.

use super::look::{colour, dash, point_types};
use super::{Chart, Curve, ROW, SIZE, Sheet};
use std::fmt::Write;

/// The script and its data: a block of points for every curve that has some, `x y half-width`, and one of the places
/// where it is saturated, `x height`. Heights are shares of the plot's.
pub(super) fn script(chart: &Chart, sheet: &Sheet<'_>, name: &str, data: &str) -> (String, String) {
    let (mut blocks, mut curves) = (Blocks::default(), Vec::new());
    let share = f64::from(sheet.strip()) / f64::from(SIZE.1);
    for (i, curve) in sheet.curves.iter().enumerate() {
        let title = if sheet.curves.len() > 1 { format!("title {}", quoted(curve.name)) } else { "notitle".into() };
        let (filled, hollow) = point_types(i);
        let look = format!("lc rgb '{}'", hex(i));
        if !curve.points.is_empty() {
            let (index, bars) = blocks.points(chart, curve);
            let (using, with) = match (bars, chart.scatter) {
                (true, true) => ("1:2:3", "yerrorbars"),
                (true, false) => ("1:2:3", "yerrorlines"),
                (false, true) => ("1:2", "points"),
                (false, false) => ("1:2", "linespoints"),
            };
            let strokes = if chart.scatter { String::new() } else { format!(" {}", strokes(i)) };
            curves.push(format!(
                "{} index {index} using {using} with {with} lw 2 {look}{strokes} pt {filled} {title}",
                quoted(data)
            ));
        }
        if !curve.beyond.is_empty() {
            let height = 1.0 - (f64::from(ROW * curve.row) + f64::from(ROW) / 2.0 + 3.0) / f64::from(SIZE.1);
            let index = blocks.beyond(curve, height);
            // Nothing else is in the legend of a curve that is saturated everywhere.
            let title = if curve.points.is_empty() { title.as_str() } else { "notitle" };
            curves.push(format!(
                "{} index {index} using 1:2 axes x1y2 with points {look} pt {hollow} {title}",
                quoted(data)
            ));
        }
    }
    let mut out = format!("# Draws {}: gnuplot {}\n", line(&chart.title), line(&format!("{name}.gp")));
    let _ = write!(
        out,
        "# For PDF: set terminal pdfcairo size 6in,3.8in noenhanced\n\
         set terminal svg size {},{} noenhanced background 'white'\n\
         set output {}\n\
         set title {}\nset xlabel {}\nset ylabel {}\nset grid\nset key outside right top\nset bars small\n",
        SIZE.0 + 200,
        SIZE.1,
        quoted(&format!("{name}.gnuplot.svg")),
        quoted(&chart.title),
        quoted(&chart.x),
        quoted(&chart.y),
    );
    axes(&mut out, chart, sheet, share);
    let _ = writeln!(out, "plot {}", curves.join(", \\\n     "));
    (out, blocks.text)
}

/// Ends, scales and names of the axes. Saturated points stand in the upper `share` of the plot.
fn axes(out: &mut String, chart: &Chart, sheet: &Sheet<'_>, share: f64) {
    let logs = [(chart.x_log && chart.places.is_empty(), 'x'), (chart.y_log, 'y')];
    for (_, axis) in logs.iter().filter(|(log, _)| *log) {
        let _ = writeln!(out, "set logscale {axis}");
    }
    let (low, high) = sheet.ys;
    let more = share / (1.0 - share);
    let top = if chart.y_log { high * (high / low).powf(more) } else { high + (high - low) * more };
    let (left, right) = match chart.places.len() {
        0 => sheet.xs,
        places => (-0.5, places as f64 - 0.5),
    };
    let _ = writeln!(out, "set xrange [{left}:{right}]\nset yrange [{low}:{top}]");
    if !chart.places.is_empty() {
        let names: Vec<String> =
            chart.places.iter().enumerate().map(|(place, name)| format!("{} {place}", quoted(name))).collect();
        let _ = writeln!(out, "set xtics ({})", names.join(", "));
    }
    if sheet.rows > 0 {
        let place = 1.0 - share / 2.0;
        let _ = writeln!(
            out,
            "# Above the line: saturated.\nset y2range [0:1]\n\
             set arrow from graph 0, graph {share:.4} to graph 1, graph {share:.4} nohead lc rgb 'grey'\n\
             set label 'saturated' at graph -0.01, graph {place:.4} right",
            share = 1.0 - share,
        );
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

    fn beyond(&mut self, curve: &Curve<'_>, height: f64) -> usize {
        let index = self.begin(&format!("{}, saturated: x, height in the plot", line(curve.name)));
        for x in &curve.beyond {
            let _ = writeln!(self.text, "{x} {height:.4}");
        }
        index
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
        assert_eq!(blocks.len(), 4, "{data}");
        assert!(blocks[0].ends_with("0.1 1 0\n0.2 2 0.25"), "{data}");
        assert!(blocks[1].starts_with("# b, saturated") && blocks[2].starts_with("# c : x, y"), "{data}");
        assert!(script.contains("set title 'it''s `time`'") && script.contains("set output 'it''s.gnuplot.svg'"));
        assert!(
            script.contains("'it''s.dat' index 0 using 1:2:3 with yerrorlines lw 2 lc rgb '#0072b2' dt solid pt 7")
        );
        assert!(script.contains("index 1 using 1:2 axes x1y2 with points lc rgb '#d55e00' pt 4 title 'b'"), "{script}");
        assert!(script.contains("index 3 using 1:2 axes x1y2 with points lc rgb '#009e73' pt 8 notitle"), "{script}");
        let (script, _) = Chart { x_log: true, y_log: true, ..chart() }.gnuplot("a", "a.dat").unwrap();
        assert!(script.contains("set logscale x\nset logscale y\n"));
        let places = vec!["one".to_string(), "two".into()];
        let (script, _) = Chart { places, scatter: true, ..chart() }.gnuplot("a", "a.dat").unwrap();
        assert!(script.contains("set xtics ('one' 0, 'two' 1)") && script.contains("with yerrorbars"), "{script}");
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
