//! Logs good and bad.

use super::*;
use flate2::{Compression, write::GzEncoder};

/// A file that is gone after the test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str, bytes: &[u8]) -> Temporary {
        let path = std::env::temp_dir().join(format!("swf-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Temporary(path)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

const READING: Reading = Reading { nodes: 64, processors: 2, oversized: Oversized::Refuse };

const LOG: &str = "; Version: 2.2\n; MaxNodes: 64\n\
    1 100 -1 50 8 -1 -1 8 60 -1 1 3 1 -1 1 -1 -1 -1\n\
    \n\
    2 100 7 20 -1 11.5 -1 3 10 -1 1 3 1 -1 1 -1 -1 -1 extra 9\n\
    3 150 -1 -1 4 -1 -1 4 -1 -1 5 3 1 -1 1 -1 -1 -1\n\
    ; in between\n\
    4 160 -1 0 4 -1 -1 4 -1 -1 0 3 1 -1 1 -1 -1 -1\n\
    5 170 -1 9 4 -1 -1 4 -1 -1 3 3 1 -1 1 -1 -1 -1\n\
    6 180 -1 9 1 -1 -1 4 -1 -1 1 3 1 -1 1 -1 -1 -1\n";

fn read(name: &str, bytes: &[u8], reading: &Reading) -> Result<(Vec<Job>, Notes), Failed> {
    jobs(&Temporary::new(name, bytes).0, reading)
}

#[test]
fn jobs_are_read_plain_and_compressed() {
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(LOG.as_bytes()).unwrap();
    let plain = read("plain", LOG.as_bytes(), &READING).unwrap();
    assert_eq!(plain, read("gz", &gz.finish().unwrap(), &READING).unwrap());
    let job = |number, submit, nodes, run, estimate| Job { number, submit, nodes, run, estimate };
    assert_eq!(plain.0, [job(1, 0, 4, 50, 60), job(2, 0, 2, 20, 20), job(6, 80, 1, 9, 9)]);
    assert_eq!(plain.1, Notes { unknown: 1, instant: 1, parts: 1, oversized: 0, raised: 1 });
}

#[test]
fn what_is_read_is_written_back() {
    let file = Temporary::new("back", LOG.as_bytes());
    let mut reader = Reader::open(&file.0).unwrap();
    let mut out = Vec::new();
    while let Some(mut line) = reader.line().unwrap() {
        if let Line::Record(record) = &mut line {
            record.set_wait(5);
        }
        write(&mut out, &line).unwrap();
    }
    let expected = LOG.replace("\n\n", "\n").replace(" 100 -1", " 100 5").replace("100 7", "100 5");
    let expected =
        ["150", "160", "170", "180"].iter().fold(expected, |e, t| e.replace(&format!("{t} -1"), &format!("{t} 5")));
    assert_eq!(String::from_utf8(out).unwrap(), expected);
    let job = Job { number: 3, submit: 4, nodes: 5, run: 6, estimate: 7 };
    let file = Temporary::new("of", Record::of(&job).fields.join(" ").as_bytes());
    let reading = Reading { processors: 1, ..READING };
    assert_eq!(jobs(&file.0, &reading).unwrap().0, [Job { submit: 0, ..job }]);
}

#[test]
fn mistakes_are_named_with_line_and_remedy() {
    let line = "1 100 -1 50 8 -1 -1 8 60 -1 1 3 1 -1 1 -1 -1 -1\n";
    for (name, text, what, remedy) in [
        ("few", "; a\n1 2 3\n".to_string(), "line 2: 3 fields; a job has 18", "-1"),
        ("text", line.replace("50", "soon"), "line 1: field 4 is `soon`", "-1"),
        ("nan", line.replace("50", "NaN"), "line 1: field 4 is `NaN`", "-1"),
        ("huge", line.replace("50", "1e300"), "line 1: field 4 is `1e300`", "-1"),
        ("run", line.replace("50", "-5"), "line 1: run time (field 4) is -5", "at least 0"),
        ("submit", line.replace("100", "-1"), "line 1: submit time (field 2) is -1", "order"),
        (
            "back",
            format!("{line}{}", line.replace("100", "99")),
            "line 2: submit time (field 2) is 99, less than 100",
            "sort",
        ),
        ("large", line.replace(" 8 ", " 130 "), "line 1: job 1 takes 65 nodes; 64 work", "--oversized skip"),
        ("long", "1 ".repeat(40_000), "line 1: longer than 65536 bytes", "Standard Workload Format"),
        ("empty", "; nothing\n".to_string(), "has no job that ran", "--log"),
    ] {
        let failed = read(name, text.as_bytes(), &READING).unwrap_err();
        assert!(failed.message.contains(what) && failed.remedy.contains(remedy) && failed.code == 2, "{failed:?}");
    }
    let cut = &{
        let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
        gz.write_all(LOG.as_bytes()).unwrap();
        gz.finish().unwrap()
    };
    let failed = read("cut", &cut[..cut.len() / 2], &READING).unwrap_err();
    assert!(failed.message.contains("cannot be read"), "{failed:?}");
    let reading = Reading { oversized: Oversized::Skip, ..READING };
    let (kept, notes) = read("skip", format!("{line}{}", line.replace(" 8 ", " 130 ")).as_bytes(), &reading).unwrap();
    assert_eq!((kept.len(), notes.oversized), (1, 1));
}
