//! Reports as files: other people's tools read them, and they fit where they are shown.

use angara_tests::{Test, tools};
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
