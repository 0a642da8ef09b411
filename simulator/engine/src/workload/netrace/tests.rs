//! Traces written here byte by byte, and what becomes of them.

use super::file::parsed;
use crate::settings::Keys;
use crate::workload::{Report, simulate};
use std::io::Write;

/// A packet as a trace has it: cycle, number, type, source, destination, those that wait for it.
struct Line(u64, u32, u8, u8, u8, &'static [u32]);

const READ: u8 = 1;
const DATA: u8 = 2;

/// A trace that promises `promised` packets.
fn trace(promised: u64, notes: &str, regions: u32, lines: &[Line]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(0x484A_5455u32.to_le_bytes());
    out.extend(1.0f32.to_le_bytes());
    let mut name = [0u8; 30];
    name[..4].copy_from_slice(b"test");
    out.extend(name);
    out.extend([16, 0]);
    out.extend(1000u64.to_le_bytes());
    out.extend(promised.to_le_bytes());
    out.extend((notes.len() as u32).to_le_bytes());
    out.extend(regions.to_le_bytes());
    out.extend([0; 8]);
    out.extend(notes.as_bytes());
    (0..regions).for_each(|_| out.extend([0; 24]));
    for &Line(cycle, id, kind, from, to, waiting) in lines {
        out.extend(cycle.to_le_bytes());
        out.extend(id.to_le_bytes());
        out.extend(0xdead_beefu32.to_le_bytes());
        out.extend([kind, from, to, 0x23, waiting.len() as u8]);
        waiting.iter().for_each(|id| out.extend(id.to_le_bytes()));
    }
    out
}

/// A request at 0, whose answer waits for it; a request in cycle 100 that waits for the answer, and a last packet for both.
fn conversation() -> Vec<u8> {
    let lines = [
        Line(0, 10, READ, 0, 1, &[11, 14]),
        Line(3, 11, DATA, 1, 0, &[12, 14]),
        Line(100, 12, READ, 0, 2, &[]),
        Line(100, 14, READ, 3, 3, &[]),
    ];
    trace(4, "for tests\0", 2, &lines)
}

/// What `then` makes of settings with the trace `bytes`.
fn with<T>(name: &str, bytes: &[u8], settings: &str, then: impl Fn(&str) -> T) -> T {
    let path = std::env::temp_dir().join(format!("angara-netrace-{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    let (file, rest) = (path.display().to_string(), settings.replace("FILE", path.to_str().unwrap()));
    let result = then(&format!("topology = \"torus:4x4\"\n{rest}"));
    std::fs::remove_file(&file).unwrap();
    result
}

fn report(name: &str, bytes: &[u8], more: &str) -> Report {
    with(name, bytes, &format!("workload = \"netrace:FILE{more}\"\nrouter = \"generic\"\n"), simulate)
}

fn number(report: &Report, field: &str) -> f64 {
    report.json[field].as_f64().unwrap()
}

#[test]
fn packets_leave_when_those_they_depend_on_have_arrived() {
    // Alone, a packet of L flits over R routers takes 4 R + 2 + (L - 1) cycles: the request 10, the answer 14. A packet
    // leaves in the cycle after the one that it waits for has arrived.
    let quick =
        |cycle| [Line(0, 0, READ, 0, 1, &[1]), Line(cycle, 1, DATA, 1, 0, &[2]), Line(cycle, 2, READ, 0, 1, &[])];
    for (cycle, more, end) in [(3, "", 36), (8, ",independent", 22), (100, "", 125), (100, ",independent", 114)] {
        let report = report(&format!("{cycle}{more}"), &trace(3, "", 1, &quick(cycle)), more);
        assert_eq!(
            (number(&report, "time_cycles"), number(&report, "packets")),
            (f64::from(end), 3.0),
            "{cycle}{more}"
        );
        assert_eq!(number(&report, "last_packet_cycle"), cycle as f64);
    }
}

#[test]
fn a_packet_waits_for_all_and_not_longer() {
    let report = report("all", &conversation(), "");
    assert_eq!(number(&report, "time_cycles"), 114.0, "to node 2 over 3 routers from cycle 100 on");
    assert_eq!(number(&report, "packet_latency_cycles"), (10.0 + 14.0 + 14.0 + 6.0) / 4.0);
    assert!(report.text.contains("4 packets of test, "), "{}", report.text);
}

#[test]
fn types_have_the_sizes_of_the_library() {
    let long = [2, 3, 4, 6, 16, 30];
    for kind in 0..=255 {
        let bytes = trace(1, "", 0, &[Line(0, 0, kind, 0, 1, &[])]);
        match parsed(&bytes) {
            Ok(trace) => assert_eq!(trace.packets[0].bytes, if long.contains(&kind) { 72 } else { 8 }, "{kind}"),
            Err(e) => {
                assert!(matches!(kind, 0 | 7..=12 | 17..=24 | 26 | 31..), "{kind}: {e}");
                assert!(e.contains(&format!("byte 72, packet 0: type {kind} is none")), "{e}");
            }
        }
    }
}

#[test]
fn the_angara_router_adds_header_and_tail() {
    for (kind, flits) in [(READ, 3), (DATA, 7)] {
        let bytes = trace(1, "", 0, &[Line(0, 0, kind, 0, 1, &[])]);
        let report = with(&format!("angara{kind}"), &bytes, "workload = \"netrace:FILE\"\n", simulate);
        assert_eq!(number(&report, "flit_hops") / number(&report, "packet_hops"), f64::from(flits));
    }
}

#[test]
fn compressed_traces_are_unpacked() {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    encoder.write_all(&conversation()).unwrap();
    let packed = encoder.finish().unwrap();
    let (plain, unpacked) = (report("plain", &conversation(), ""), report("packed", &packed, ""));
    assert_eq!(plain.json["latency_by_routers"], unpacked.json["latency_by_routers"]);
    let e = refusal("cut", &packed[..packed.len() / 2]);
    assert!(e.contains("cannot be unpacked"), "{e}");
}

#[test]
fn a_file_that_unpacks_to_fill_memory_is_refused() {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    (0..80).for_each(|_| encoder.write_all(&[0; 1 << 20]).unwrap());
    let packed = encoder.finish().unwrap();
    assert!(packed.len() < 1000);
    let e = refusal("bomb", &packed);
    assert!(e.contains("it unpacks to more than 64.0M"), "{e}");
}

fn refusal(name: &str, bytes: &[u8]) -> String {
    with(name, bytes, "workload = \"netrace:FILE\"\n", |settings| match toml::from_str::<Keys>(settings) {
        Ok(keys) => keys.resolve().unwrap_err().0.to_string(),
        Err(e) => e.message().to_string(),
    })
}

#[test]
fn broken_traces_are_refused_with_their_place() {
    let one = |line: Line| trace(1, "", 0, &[Line(5, 3, READ, 0, 1, &[]), line]);
    let swapped: Vec<u8> = conversation().iter().enumerate().map(|(i, b)| if i == 0 { !b } else { *b }).collect();
    let mut version = conversation();
    version[4..8].copy_from_slice(&1.1f32.to_le_bytes());
    for (name, bytes, said) in [
        ("empty", vec![], "byte 0: a header of 72 bytes, of which 0 are there"),
        ("magic", swapped, "byte 0: 0x484a54aa, not the 0x484a5455"),
        ("version", version, "byte 4: version 1.1; only 1.0"),
        ("notes", conversation()[..75].to_vec(), "byte 72: notes of 10 bytes, of which 3"),
        ("regions", conversation()[..100].to_vec(), "byte 82: a list of regions of 48 bytes, of which 18"),
        ("packet", conversation()[..150].to_vec(), "byte 130: packet 0 of 21 bytes, of which 20"),
        ("dependants", conversation()[..155].to_vec(), "byte 151: the dependants of packet 0 of 8 bytes, of which 4"),
        ("count", trace(2, "", 0, &[Line(0, 0, READ, 0, 1, &[])]), "the end after 1 packets of 2"),
        ("none", trace(0, "", 0, &[]), "byte 72: the end after 0 packets of 0"),
        ("order", one(Line(4, 4, READ, 0, 1, &[])), "byte 93, packet 1: cycle 4 after cycle 5; sort"),
        ("number", one(Line(5, 3, READ, 0, 1, &[])), "byte 93, packet 1: number 3 after number 3"),
        ("late", one(Line(1 << 41, 4, READ, 0, 1, &[])), "byte 93, packet 1: cycle 2199023255552 is above"),
        (
            "earlier",
            one(Line(5, 4, READ, 0, 1, &[3])),
            "byte 93, packet 1: packet 3 is to wait for it, but is not later",
        ),
        ("itself", one(Line(5, 4, READ, 0, 1, &[4])), "packet 4 is to wait for it, but is not later"),
        ("unknown", one(Line(5, 4, READ, 0, 1, &[9])), "packet 9 is to wait for it, but is not in the trace"),
        (
            "node",
            one(Line(5, 4, READ, 0, 16, &[])),
            "packet 1 (number 4) goes from node 0 to node 16; the network has nodes 0 to 15",
        ),
    ] {
        let e = refusal(name, &bytes);
        assert!(e.contains(said) && e.contains(&format!("-{name}")), "{name}: {e}");
    }
}

/// No byte of a trace makes the reader do more than refuse it.
#[test]
fn any_byte_may_be_wrong() {
    let good = conversation();
    for i in 0..good.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut bad = good.clone();
            bad[i] = value;
            let _ = parsed(&bad);
            let _ = parsed(&bad[..i]);
        }
    }
}
