//! `angara report FILE --html OUT`: the page of a daemon, with what a finished run has put on the links.

use super::document::{Document, date};
use super::table::Table;
use super::{Comparison, RunReport, took, total, word_of};
use crate::error::Failed;
use angara_abi::account::Class;
use angara_net::Link;
use angara_protocol::print::plain_line;
use angara_protocol::whole_file::write_whole;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Looks of the tables below the picture, in the colours of the page.
const STYLE: &str = "\
#tables { flex: none; max-height: 60%; overflow: auto; padding: 6px 14px; border-top: 1px solid var(--line); background: var(--panel); }
#tables summary { cursor: pointer; }
#tables h2 { margin: 14px 0 4px; }
#tables table { width: auto; }
#tables th, #tables td { padding: 1px 14px 1px 0; max-width: none; }
#tables th.n, #tables td.n { padding: 1px 14px 1px 0; }
#tables pre { line-height: 1.2; margin: 0; }";

/// Writes the page of the report that was read from `source`.
pub fn write(report: &RunReport, source: &Path, file: &Path) -> Result<(), Failed> {
    let page = angara_page::standalone(&recorded(report).to_string());
    let tables = tables(report, source);
    // The last one: what is recorded has no such words, but a script may.
    let end = page.rfind("</body>").unwrap_or(page.len());
    put(format!("{}{tables}{}", &page[..end], &page[end..]), file)
}

/// Writes a page that compares two reports, which were read from `sources`.
pub fn write_both(comparison: &Comparison, sources: [&Path; 2], file: &Path) -> Result<(), Failed> {
    let [a, b] = sources.map(|source| source.display().to_string());
    let mut document = Document::default();
    document.line(format!("A was written {}, B {}.", written(sources[0]), written(sources[1])));
    document.line(format!("angara {}: angara report {a} {b}", env!("CARGO_PKG_VERSION")));
    document.append(comparison.for_a_page());
    put(document.page(&format!("{a} and {b}")), file)
}

fn put(page: String, file: &Path) -> Result<(), Failed> {
    write_whole(file, page).map_err(|e| Failed::unwritten(format!("the page {}", file.display()), &e))
}

/// When a file was written, in words.
fn written(file: &Path) -> String {
    let at = std::fs::metadata(file).and_then(|meta| meta.modified()).ok();
    let since = at.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or("at an unknown time".into(), |since| date(since.as_secs()))
}

/// What `angara report` prints, to be opened below the picture.
fn tables(report: &RunReport, source: &Path) -> String {
    let options = &report.options;
    let mut about = Table::new(&["the run", ""]);
    let faults = if options.faults.is_empty() { "none".into() } else { options.faults.join("; ") };
    for (name, value) in [
        ("command", report.command.join(" ")),
        ("machine", options.machine_name()),
        ("network", report.traffic.shape.to_string()),
        ("PEs", format!("{}, up to {} on a node, map {}", options.pes, options.ppn, options.map)),
        ("barrier", word_of(&options.barrier)),
        ("collectives", word_of(&options.collectives)),
        ("faults", faults),
        ("report", format!("{}, written {}", source.display(), written(source))),
    ] {
        about.row(&[name, &value]);
    }
    let mut document = Document::default();
    document.table(about);
    document.append(super::document(report, false, false));
    let (style, html) = (STYLE, document.html());
    format!(
        "<style>\n{style}\n</style>\n<section id=\"tables\" aria-label=\"Tables\"><details><summary>Tables</summary>\n{html}</details></section>\n"
    )
}

/// Returns what the page would have been told by a daemon.
fn recorded(report: &RunReport) -> Value {
    let t = &report.traffic;
    let (mut links, mut errors, mut down, mut classes) = (vec![], vec![], vec![], Map::new());
    for link in &t.links {
        let index = Link { node: link.node, dir: link.dir }.index() as u64;
        let load = total(link);
        links.extend([index, load.packets, load.flits, load.bytes]);
        if link.crc_errors + link.replays + link.duplicates + link.reordered > 0 {
            errors.extend([index, link.crc_errors, link.replays, link.duplicates, link.reordered]);
        }
        if !link.up {
            down.push(index);
        }
        let rows = Class::ALL.iter().filter_map(|class| Some(json!({ "class": class, "load": link.load.get(class)? })));
        classes.insert(index.to_string(), rows.collect());
    }
    let set = t.set.as_ref().map(|set| json!({ "nodes": set.nodes.len(), "transit": set.transit.len() }));
    let (name, pes) = (plain_line(&t.name), t.placement.len());
    json!({
        "network": {
            "version": env!("CARGO_PKG_VERSION"),
            "dims": t.shape.dims(),
            "torus": t.shape.is_torus(),
            "hosts": [],
            "here": 0,
            "owners": [],
            "flit_ps": report.history.as_ref().map(|history| history.flit_ps),
            "title": format!("{}, {pes} PEs, {}, {}", plain_line(&report.command.join(" ")), took(t), plain_line(&report.outcome)),
        },
        "placement": t.placement,
        "set": t.set,
        "classes": classes,
        "past": report.history.as_ref().map(|history| json!({
            "frames": history.frames,
            "steps": history.steps,
            "changes": history.changes,
            "jobs": [{ "job": 0, "name": name, "uid": 0, "pes": pes, "from": 0, "to": null }],
            "more": false,
        })),
        "event": {
            "t": t.wall_s,
            "full": true,
            "links": links,
            "errors": errors,
            "down": down,
            "barriers": [],
            "trees": [],
            "faults": report.options.faults.iter().map(|fault| plain_line(fault)).collect::<Vec<_>>(),
            "jobs": [{
                "job": 0, "name": name, "uid": 0, "pes": pes, "attached": pes, "memory": 0, "age_s": t.wall_s, "path": t.path,
                "set": set,
            }],
            "plane": {
                "cpu_s": 0, "busy": 0, "idle": 0, "sleeps": 0, "events": 0, "packets": 0, "channels": 0, "waiting": 0,
                "violations": 0,
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::sample;
    use super::*;

    #[test]
    fn the_page_has_the_tables_behind_the_picture() {
        let mut report = sample();
        report.command.push("<script>".into());
        report.options.machine = Some("desmos".into());
        let html = tables(&report, Path::new("/nonexistent/r.json"));
        for part in
            ["<td>machine</td><td>desmos</td>", "Traffic by class", "Hottest links", "&lt;script&gt;", "unknown time"]
        {
            assert!(html.contains(part), "{part} missing in\n{html}");
        }
        assert!(!html.contains("<script"), "{html}");
    }
}
