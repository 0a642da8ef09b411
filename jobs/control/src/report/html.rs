//! `angara report FILE --html OUT`: the page of a daemon, with what a finished run has put on the links.

use super::{RunReport, total};
use crate::error::Failed;
use angara_abi::account::Class;
use angara_net::Link;
use angara_protocol::print::plain_line;
use angara_protocol::whole_file::write_whole;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Writes it.
pub fn write(report: &RunReport, file: &Path) -> Result<(), Failed> {
    let page = angara_page::standalone(&recorded(report).to_string());
    write_whole(file, page).map_err(|e| Failed::unwritten(format!("the page {}", file.display()), &e))
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
            "title": format!("{}, {pes} PEs, {:.3} s, {}", plain_line(&report.command.join(" ")), t.wall_s, plain_line(&report.outcome)),
        },
        "placement": t.placement,
        "set": t.set,
        "classes": classes,
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
