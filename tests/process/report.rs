//! Reports as files: other people's tools read them, and they fit where they are shown.

use angara_tests::cluster::{Cluster, Hosts};
use angara_tests::{Test, tools};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

fn run(test: &Test, file: &Path) {
    let mut command = test.angara(["run", "-q", "-n", "4", "--torus", "2x2x2x2", "--timeout", "200", "--report"]);
    command.arg(file).arg("--").arg(tools::compile("tests/c/traffic.c"));
    test.run(command).success();
}

fn shown(test: &Test, file: &Path, columns: &str) -> String {
    let mut command = test.angara(["report", "--all"]);
    command.arg(file).env("COLUMNS", columns);
    test.run(command).success().stdout
}

#[test]
fn a_compressed_report_is_read_by_gzip_and_by_us() {
    let test = Test::new("report-gz");
    let file = test.file("out.json.gz");
    run(&test, &file);
    let unpacked = Command::new("gzip").arg("-dc").arg(&file).output().expect("gzip");
    assert!(unpacked.status.success(), "{}", String::from_utf8_lossy(&unpacked.stderr));
    let report: serde_json::Value = serde_json::from_slice(&unpacked.stdout).expect("JSON");
    assert_eq!(report["format"], 2);
    assert!(!report["pairs"].as_array().expect("rows").is_empty());
    let plain = test.file("plain.json");
    std::fs::write(&plain, &unpacked.stdout).expect("written");
    assert_eq!(shown(&test, &file, "100"), shown(&test, &plain, "100"));
    // By its name without the ending, too.
    assert_eq!(shown(&test, &test.file("out.json"), "100"), shown(&test, &plain, "100"));
    test.assert_clean();
}

#[test]
fn a_report_fits_the_terminal() {
    let test = Test::new("report-width");
    let file = test.file("out.json");
    run(&test, &file);
    for columns in [60, 80, 120] {
        let text = shown(&test, &file, &columns.to_string());
        // The first line names the program, however long.
        let longest = text.lines().skip(1).max_by_key(|l| l.chars().count()).expect("lines");
        assert!(longest.chars().count() <= columns, "{columns}: {longest}");
        for part in ["Traffic between PEs", "Hottest links", "payload bytes", "-W"] {
            assert!(text.contains(part), "{part} missing at {columns}: {text}");
        }
    }
    test.assert_clean();
}

/// A run in virtual time, on a machine with these settings.
fn in_virtual_time(test: &Test, name: &str, more: &[&str]) -> String {
    let file = test.file(name).to_str().expect("UTF-8").to_string();
    let mut command =
        test.angara(["run", "-q", "-n", "4", "--timeout", "200", "--clock", "virtual", "--report", &file]);
    command.args(more).arg("--").arg(tools::compile("tests/c/virtual_time/pingpong.c"));
    test.run(command).success();
    file
}

#[test]
fn two_reports_are_compared() {
    let test = Test::new("report-two");
    let a = in_virtual_time(&test, "a.json", &["--torus", "2x2"]);
    let b = in_virtual_time(&test, "b.json", &["--torus", "2x2", "--set", "hop=60ns", "--map", "random:1"]);
    let text = test.run(test.angara(["report", &a, &b])).success().stdout;
    for part in [
        "B  ",
        "default with hop=60ns",
        "end of the last PE",
        "Critical path, us",
        "Routines, all PEs, us",
        "Flits per link",
        "Payload bytes between PEs",
        "the same: network, PEs",
    ] {
        assert!(text.contains(part), "{part} missing in\n{text}");
    }
    let same = test.run(test.angara(["report", &a, &a])).success().stdout;
    assert!(same.contains("the same: all 4") && !same.contains(" differ, "), "{same}");

    for what in ["pes", "waits", "routines", "links", "path"] {
        let csv = test.run(test.angara(["report", &a, &b, "--csv", what])).success().stdout;
        assert!(csv.starts_with("name,what,a,b,difference\n") && csv.lines().count() > 2, "{csv}");
    }
    let page = test.file("both.html");
    let page_name = page.to_str().expect("UTF-8");
    test.run(test.angara(["report", &a, &b, "--html", page_name])).success();
    let html = std::fs::read_to_string(&page).expect("a page");
    for part in ["end of the last PE", "was written 20", "</html>"] {
        assert!(html.contains(part), "{part} missing in\n{html}");
    }
    assert!(!html.contains("src=") && !html.contains("http"), "it needs something else: {html}");
    test.run(test.angara(["report", &a, "--html", page_name])).success();
    let html = std::fs::read_to_string(&page).expect("a page");
    for part in ["<summary>Tables</summary>", "Waiting for whom", "Critical path", "<td>machine</td><td>default</td>"] {
        assert!(html.contains(part), "{part} missing");
    }
    test.assert_clean();
}

#[test]
fn reports_that_cannot_be_compared_say_why() {
    let test = Test::new("report-refused");
    let a = in_virtual_time(&test, "a.json", &["--torus", "2x2"]);
    let ring = in_virtual_time(&test, "ring.json", &["--torus", "4"]);
    test.run(test.angara(["report", &a, &ring])).failure(&["ring.json is of 4 PEs on 4", "the same --torus and -n"]);
    test.run(test.angara(["report", &a, &ring, "--heat"])).failure(&["cannot be used with"]);
    let text = std::fs::read_to_string(&a).expect("a report");
    let write = |name: &str, text: &str| {
        std::fs::write(test.file(name), text).expect("written");
        test.file(name).to_str().expect("UTF-8").to_string()
    };
    let short = write("short.json", &text[..text.len() / 2]);
    test.run(test.angara(["report", &a, &short])).failure(&["short.json is not a report", "EOF", "--report FILE.json"]);
    let later = write("later.json", &text.replacen("\"format\": 2", "\"format\": 9", 1));
    test.run(test.angara(["report", &a, &later])).failure(&["has format 9", "use the angara that wrote it"]);
    let other = write("other.json", "pe,end_ps\n");
    test.run(test.angara(["report", &a, &other])).failure(&["other.json is not a report"]);
    test.run(test.angara(["report", &a, "/nonexistent"])).failure(&["cannot read /nonexistent"]);

    // A run in real time has no times to compare, but traffic.
    let real = test.file("real.json");
    let mut command = test.angara(["run", "-q", "-n", "4", "--torus", "2x2", "--timeout", "200", "--report"]);
    command.arg(&real).arg("--").arg(tools::compile("tests/c/traffic.c"));
    test.run(command).success();
    let real = real.to_str().expect("UTF-8");
    let text = test.run(test.angara(["report", &a, real])).success().stdout;
    assert!(text.contains("A ran in virtual time, B in real time: times are not compared"), "{text}");
    test.run(test.angara(["report", &a, real, "--csv", "pes"])).failure(&["--csv pes is for two runs in virtual time"]);
    test.run(test.angara(["report", &a, real, "--csv", "links"])).success();
    test.assert_clean();
}

/// Flits of each link: of all pictures of a history together, and in a report's table.
fn sums(report: &Value) -> [BTreeMap<u64, u64>; 2] {
    let (mut pictures, mut table) = (BTreeMap::new(), BTreeMap::new());
    for row in
        report["history"]["frames"].as_array().expect("frames").iter().flat_map(|f| f["links"].as_array()).flatten()
    {
        *pictures.entry(row[0].as_u64().expect("a link")).or_default() += row[1].as_u64().expect("flits");
    }
    let directions = ["+X", "+Y", "+Z", "+W", "-X", "-Y", "-Z", "-W"];
    for link in report["links"].as_array().expect("links") {
        let direction = directions.iter().position(|name| link["dir"] == *name).expect("a direction") as u64;
        let flits =
            link["load"].as_object().expect("classes").values().map(|load| load["flits"].as_u64().expect("flits"));
        table.insert(8 * link["node"].as_u64().expect("a node") + direction, flits.sum());
    }
    [pictures, table]
}

#[test]
fn a_history_has_every_flit_and_nonsense_in_it_is_named() {
    let test = Test::new("report-history");
    let program = tools::compile("tests/c/traffic.c");
    let run = |name: &str, more: &[&str]| {
        let file = test.file(name);
        let mut command = test.angara(["run", "-q", "-n", "4", "--torus", "2x2", "--timeout", "200"]);
        command.args(more).args(["--history", "--report"]).arg(&file).arg("--").arg(&program);
        test.run(command).success();
        let text = std::fs::read_to_string(&file).expect("a report");
        let report: Value = serde_json::from_str(&text).expect("JSON");
        let [pictures, table] = sums(&report);
        assert_eq!(pictures, table, "{name}");
        assert!(report["history"]["flit_ps"].as_f64().is_some_and(|ps| ps > 0.0), "{name}");
        (text, report)
    };
    for (name, path) in [("ring.json", "ring"), ("direct.json", "direct")] {
        let (_, report) = run(name, &["--path", path]);
        assert!(report["history"]["frames"][0].get("ps").is_none(), "{name}: this time is the wall's");
    }
    let (text, report) = run("virtual.json", &["--clock", "virtual"]);
    let (_, again) = run("again.json", &["--clock", "virtual"]);
    assert_eq!(report["history"], again["history"], "two runs in virtual time");

    let frame = text.lines().find(|line| line.trim_start().starts_with("{\"id\":1,")).expect("a line for each frame");
    let spoilt = |name: &str, from: &str, to: &str, said: &[&str]| {
        assert!(text.contains(from), "{name}: no {from} in {frame}");
        std::fs::write(test.file(name), text.replacen(from, to, 1)).expect("written");
        let mut command = test.angara(["report"]);
        command.arg(test.file(name)).arg("--html").arg(test.file("spoilt.html"));
        let code = test.run(command).failure(&[&[name], said].concat()).code();
        assert_eq!(code, 2, "{name}");
        assert!(!test.file("spoilt.html").exists(), "{name}");
    };
    let links = "\"links\":[[";
    spoilt("link.json", links, "\"links\":[[4000000000,7],[", &["history.frames[0].links[0]", "no link 4000000000"]);
    spoilt("short.json", links, "\"links\":[[1],[", &["invalid length 1", "line"]);
    spoilt("negative.json", links, "\"links\":[[0,-7],[", &["-7", "line"]);
    spoilt(
        "huge.json",
        "{\"id\":1,\"from\":0.0",
        "{\"id\":1,\"from\":1e300",
        &["history.frames[0]", "does not come after"],
    );
    spoilt("none.json", "{\"id\":1,", "{", &["missing field `id`", "line"]);
    spoilt("flit.json", "\n  \"flit_ps\": ", "\n  \"flit_ps\": -", &["history.flit_ps"]);
    test.assert_clean();
}

#[test]
fn a_history_is_part_of_a_report_and_of_one_host() {
    let test = Test::new("report-no-history");
    let refused = test.run(test.angara(["run", "-n", "2", "--history", "true"]));
    assert_eq!(refused.failure(&["--history is written into a report", "add --report FILE.json"]).code(), 2);
    let cluster = Cluster::start(&test, "2x2", Hosts::loopback(2), &[]);
    let mut command = test.angara(["run", "-n", "4", "--history", "--report"]);
    command.arg(test.file("r.json")).arg("--cluster").arg(cluster.file(0)).arg("--runtime-dir").arg(cluster.dir(0));
    command.arg("--").arg(tools::compile("tests/c/traffic.c"));
    let refused = test.run(command).failure(&["--history is for one host", "leave --history out"]);
    assert_eq!(refused.code(), 2);
    cluster.shutdown();
    test.assert_clean();
}
