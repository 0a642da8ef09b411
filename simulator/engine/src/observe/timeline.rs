//! The way of one packet through every block: as text, and for a trace viewer.
//!
//! Between two events a packet is in one block (a queue, the crossbar, a link); the block and how long
//! it was there is what one wants to see. [`text`] draws a line per block with a bar over the whole
//! time; [`chrome`] writes the JSON that chrome://tracing and Perfetto load.

use super::Way;
use crate::run::Experiment;
use crate::run::report::Report;
use angara_model::{AnyTopology, Stage, TraceEvent};
use serde_json::{Value, json};
use std::fmt::Write;

/// Columns of the bar of a text diagram.
const COLUMNS: u64 = 40;

/// Where a packet is after `stage` happened, and whether it waits there for others.
fn block(stage: Stage) -> (&'static str, bool) {
    match stage {
        Stage::Created => ("source queue", true),
        Stage::Injected => ("injection", false),
        Stage::Arrived => ("input buffer", true),
        Stage::Requested => ("waits for an output", true),
        Stage::Escaping => ("waits, may escape", true),
        Stage::ChannelGranted => ("switch allocation", true),
        Stage::SwitchGranted => ("crossbar", false),
        Stage::LinkEntered => ("link", false),
        Stage::Replayed => ("link, once more", false),
        Stage::Ejected => ("ejection", false),
        Stage::Dropped => ("dropped", false),
        Stage::Delivered => ("delivered", false),
    }
}

/// A stay in one block.
struct Stay<'a> {
    event: &'a TraceEvent,
    /// How long, ps; 0 for the last one.
    span: u64,
    /// The next thing is that it asks for an output.
    routing: bool,
}

impl Stay<'_> {
    /// In which block, and whether it waits there for others.
    fn block(&self) -> (&'static str, bool) {
        if self.routing { ("routing", false) } else { block(self.event.stage) }
    }
}

/// Stays of a way; where several things happen at one instant the last one tells the block, but what
/// was granted is still shown.
fn stays(way: &Way) -> Vec<Stay<'_>> {
    let ends = way.events.iter().skip(1).map(|e| e.time).chain(way.events.last().map(|e| e.time));
    let asks = way.events.iter().skip(1).map(|e| e.stage == Stage::Requested).chain([false]);
    let stay = |((event, end), asks)| {
        let event: &TraceEvent = event;
        Stay { event, span: end - event.time, routing: asks && event.stage == Stage::Arrived }
    };
    way.events.iter().zip(ends).zip(asks).map(stay).collect()
}

fn place(shape: &AnyTopology, e: &TraceEvent) -> String {
    let way = match e.stage {
        Stage::Created | Stage::Injected | Stage::Arrived | Stage::Requested | Stage::Escaping => "in",
        _ => "out",
    };
    format!("{} {way} {} vc{}", shape.router_name(e.router), shape.port_name(e.port), e.vc)
}

/// A diagram of `way` with a line per block; times in ns.
pub fn text(shape: &AnyTopology, way: &Way) -> String {
    let mut out = format!("packet {}: node {} to node {}, {} flits\n", way.number, way.src, way.dst, way.flits);
    let (Some(first), Some(last)) = (way.events.first(), way.events.last()) else {
        out.push_str("  still in its source's queue\n");
        return out;
    };
    let (from, whole) = (first.time, (last.time - first.time).max(1));
    let places: Vec<String> = way.events.iter().map(|e| place(shape, e)).collect();
    let width = places.iter().map(String::len).max().unwrap_or(0).max(5);
    let _ =
        writeln!(out, "{:>12} {:>10}  {:width$}  {:21} 0 … {} ns", "ns", "stays", "where", "in", nanoseconds(whole));
    for (stay, place) in stays(way).iter().zip(&places) {
        let (block, waits) = stay.block();
        let column = |time: u64| ((time - from) * COLUMNS / whole) as usize;
        let (a, b) = (column(stay.event.time), column(stay.event.time + stay.span));
        let mark = if waits { "·" } else { "█" };
        let bar = match stay.span {
            0 => format!("{}|", " ".repeat(a)),
            _ => format!("{}{}", " ".repeat(a.min(COLUMNS as usize - 1)), mark.repeat((b - a).max(1))),
        };
        let (at, span) = (nanoseconds(stay.event.time - from), nanoseconds(stay.span));
        let _ = writeln!(out, "{at:>12} {span:>10}  {place:width$}  {block:21} {bar}");
    }
    let waiting: u64 = stays(way).iter().filter(|s| s.block().1).map(|s| s.span).sum();
    let share = 100.0 * waiting as f64 / whole as f64;
    let end = if last.stage == Stage::Delivered { "delivered after" } else { "not delivered within" };
    let _ = writeln!(
        out,
        "  {end} {} ns, {} ns of them ({share:.0} %) in queues and allocators",
        nanoseconds(whole),
        nanoseconds(waiting)
    );
    out
}

fn nanoseconds(ps: u64) -> String {
    format!("{}.{}", ps / 1000, ps % 1000 / 100)
}

/// All `ways` as a Chrome trace: a process per packet, a thread per router it visits.
pub fn chrome(shape: &AnyTopology, ways: &[Way]) -> Value {
    let mut events = Vec::new();
    for way in ways {
        let name = format!("packet {}: {} → {}, {} flits", way.number, way.src, way.dst, way.flits);
        let meta = |what: &str, thread: usize, name: &str| json!({"ph": "M", "name": what, "pid": way.number, "tid": thread, "args": {"name": name}});
        events.push(meta("process_name", 0, &name));
        let mut thread = 0;
        let mut router = None;
        for stay in stays(way) {
            let e = stay.event;
            if router != Some(e.router) {
                router = Some(e.router);
                thread += 1;
                events.push(meta("thread_name", thread, &shape.router_name(e.router)));
            }
            let (block, waits) = stay.block();
            let micro = |ps: u64| ps as f64 / 1e6;
            events.push(json!({
                "ph": "X", "name": block, "cat": if waits { "waiting" } else { "moving" },
                "pid": way.number, "tid": thread, "ts": micro(e.time), "dur": micro(stay.span),
                "args": {"port": shape.port_name(e.port), "vc": e.vc, "stage": format!("{:?}", e.stage)},
            }));
        }
    }
    json!({"displayTimeUnit": "ns", "traceEvents": events})
}

/// Adds the ways of followed packets to the text and the object.
pub fn add_ways(experiment: &Experiment, report: &mut Report) {
    let shape = &experiment.network.shape;
    let ways = std::mem::take(&mut report.observed.ways);
    for way in &ways {
        report.text.push('\n');
        report.text.push_str(&text(shape, way));
    }
    if let Some(missing) = &report.observed.missing {
        report.line("NOT FOLLOWED", format!("{missing}: no such packet was sent"));
    }
    if experiment.observe.packets.is_some() {
        let way = |w: &Way| {
            let event = |e: &TraceEvent| json!({"time_ns": e.time as f64 / 1000.0, "stage": format!("{:?}", e.stage), "router": e.router, "port": e.port, "vc": e.vc});
            json!({"packet": w.number, "from": w.src, "to": w.dst, "flits": w.flits, "events": w.events.iter().map(event).collect::<Vec<_>>()})
        };
        report.set("trace", ways.iter().map(way).collect::<Vec<_>>());
    }
    report.observed.ways = ways;
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_model::{Generic, Injection, Network, Profile, Setup};

    fn way() -> (AnyTopology, Way) {
        let shape: AnyTopology = "torus:4x4".parse().unwrap();
        let profile = Profile::Generic(Generic::default());
        let mut net =
            Network::new(&Setup { shape: shape.clone(), profile, seed: 1, faults: Vec::new(), sets: Vec::new() })
                .unwrap();
        net.inject(Injection { src: 0, dst: 1, flits: 1, traced: true, ..Injection::default() });
        net.run_until_idle();
        (shape, Way { number: 0, src: 0, dst: 1, flits: 1, events: net.take_trace() })
    }

    #[test]
    fn a_diagram_shows_every_block() {
        let (shape, way) = way();
        let expected = "\
packet 0: node 0 to node 1, 1 flits
          ns      stays  where               in                    0 … 20.0 ns
         0.0        0.0  (0,0) in node vc0   source queue          |
         0.0        4.0  (0,0) in node vc0   injection             ████████
         4.0        0.0  (0,0) in node vc0   input buffer                  |
         4.0        2.0  (0,0) out +X vc0    switch allocation             ····
         6.0        2.0  (0,0) out +X vc0    crossbar                          ████
         8.0        4.0  (0,0) out +X vc0    link                                  ████████
        12.0        0.0  (1,0) in -X vc0     input buffer                                  |
        12.0        2.0  (1,0) out node vc0  switch allocation                             ····
        14.0        2.0  (1,0) out node vc0  crossbar                                          ████
        16.0        4.0  (1,0) out node vc0  ejection                                              ████████
        20.0        0.0  (1,0) out node vc0  delivered                                                     |
  delivered after 20.0 ns, 4.0 ns of them (20 %) in queues and allocators
";
        assert_eq!(text(&shape, &way), expected);
    }

    #[test]
    fn a_chrome_trace_covers_the_whole_time() {
        let (shape, way) = way();
        let trace = chrome(&shape, &[way]);
        let events = trace["traceEvents"].as_array().unwrap();
        let spans: f64 = events.iter().filter_map(|e| e["dur"].as_f64()).sum();
        assert!((spans - 0.020).abs() < 1e-9, "microseconds");
        let threads: Vec<&str> =
            events.iter().filter(|e| e["name"] == "thread_name").filter_map(|e| e["args"]["name"].as_str()).collect();
        assert_eq!(threads, ["(0,0)", "(1,0)"]);
    }

    #[test]
    fn the_angara_router_tells_its_way_too() {
        let report = crate::workload::simulate(
            "topology = \"torus:4x4\"\nrouter = \"angara\"\nload = 0.0\nprobe = \"0,5,100\"\nwarmup = 0\ncycles = 1000\ntrace = 0\n",
        );
        let way = &report.observed.ways[0];
        let shown = text(&"torus:4x4".parse().unwrap(), way);
        let blocks: Vec<Stage> = way.events.iter().map(|e| e.stage).collect();
        assert_eq!(blocks.iter().filter(|s| **s == Stage::LinkEntered).count(), 2, "{shown}");
        assert_eq!((blocks.first(), blocks.last()), (Some(&Stage::Created), Some(&Stage::Delivered)), "{shown}");
        // Two hops of 129 ns, in and out 300 ns each, 17 more flits.
        assert!(shown.contains("delivered after 89") && shown.contains("49.0  (1,0) in -X vc1     routing"), "{shown}");
    }
}
