//! Report files: written row by row, read as a whole.
//!
//! Rows of pairs of PEs come last and are written as the daemon sends them, so that neither side holds millions
//! of them. A file whose name ends in `.gz` is compressed, and so is one that gets large, which is then
//! called `.gz`. Any `gzip` reads it.

use super::{Details, History, RunReport, times};
use crate::error::Failed;
use angara_net::packed::Unpacked;
use angara_protocol::msg::PairReport;
use angara_protocol::whole_file::{WholeFile, write_whole};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Version of the format: raised when an earlier reader would misread a file.
pub(super) const FORMAT: u32 = 2;
/// A file that gets longer than this is compressed.
const LARGE: usize = 16 << 20;
/// How compressed data begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// What kind of file it takes.
const REMEDY: &str = "give a file written by `angara run --report FILE.json`";

/// Fails early if the file of `option` cannot be written: not after an hour's run.
pub fn check_writable(file: &Path, option: &str) -> Result<(), Failed> {
    let existed = file.exists();
    std::fs::OpenOptions::new().create(true).append(true).open(file).map_err(|e| {
        let remedy = format!("give {option} a file in a directory you can write to");
        Failed::usage(format!("cannot write {}: {e}", file.display()), remedy)
    })?;
    if !existed {
        let _ = std::fs::remove_file(file);
    }
    Ok(())
}

fn unwritten(file: &Path, e: io::Error) -> Failed {
    Failed::unwritten(format!("the report {}", file.display()), &e)
}

/// Where the text goes.
enum Sink {
    /// Until it is known whether it gets large.
    Kept(Vec<u8>),
    Plain(BufWriter<WholeFile>),
    Compressed(GzEncoder<BufWriter<WholeFile>>),
}

/// A report file that is being written.
pub struct Writer {
    file: PathBuf,
    sink: Sink,
    /// Name without `.gz`, under which a report of an earlier run may lie.
    earlier: Option<PathBuf>,
    /// Longest text that is not compressed.
    large: usize,
    rows: u64,
}

impl Writer {
    /// Begins with everything but pairs.
    pub fn new(file: &Path, report: &RunReport) -> Result<Writer, Failed> {
        Writer::with_limit(file, report, LARGE)
    }

    fn with_limit(file: &Path, report: &RunReport, large: usize) -> Result<Writer, Failed> {
        let sink = match file.metadata() {
            _ if is_gz(file) => Sink::Compressed(GzEncoder::new(create(file)?, Compression::default())),
            // A pipe or a device keeps its name.
            Ok(meta) if !meta.is_file() => Sink::Plain(create(file)?),
            _ => Sink::Kept(Vec::new()),
        };
        let mut writer = Writer { file: file.into(), sink, earlier: None, large, rows: 0 };
        let text = serde_json::to_string_pretty(report).expect("a report is plain data");
        // Pairs become the last member of the object.
        let open = text.trim_end_matches(['}', '\n']);
        writer.put(format!("{open},\n").as_bytes())?;
        if report.traffic.virtual_time.is_some() {
            let Details { waits, routines, link_times } = &report.details;
            writer.rows("waits", waits)?;
            writer.rows("routines", routines)?;
            writer.rows("link_times", link_times)?;
        }
        if let Some(History { flit_ps, frames, steps, changes }) = &report.history {
            writer.put(b"  \"history\": {\n")?;
            writer.rows("frames", frames)?;
            writer.rows("steps", steps)?;
            writer.rows("changes", changes)?;
            writer.put(format!("  \"flit_ps\": {flit_ps}\n  }},\n").as_bytes())?;
        }
        writer.put(b"  \"pairs\": [")?;
        Ok(writer)
    }

    /// A member with one row per line.
    fn rows<T: Serialize>(&mut self, name: &str, rows: &[T]) -> Result<(), Failed> {
        let mut text = format!("  \"{name}\": [").into_bytes();
        for (i, row) in rows.iter().enumerate() {
            text.extend_from_slice(if i == 0 { b"\n    " } else { b",\n    " });
            serde_json::to_writer(&mut text, row).expect("a row is plain data");
        }
        text.extend_from_slice(if rows.is_empty() { b"],\n" } else { b"\n  ],\n" });
        self.put(&text)
    }

    /// Adds pairs.
    pub fn pairs(&mut self, pairs: &[PairReport]) -> Result<(), Failed> {
        let mut text = Vec::new();
        for pair in pairs {
            text.extend_from_slice(if self.rows == 0 { b"\n    " } else { b",\n    " });
            serde_json::to_writer(&mut text, pair).expect("a pair is plain data");
            self.rows += 1;
        }
        self.put(&text)
    }

    fn put(&mut self, text: &[u8]) -> Result<(), Failed> {
        if let Sink::Kept(kept) = &mut self.sink {
            kept.extend_from_slice(text);
            if kept.len() <= self.large {
                return Ok(());
            }
            let kept = std::mem::take(kept);
            let name = compressed(&self.file);
            self.earlier = Some(std::mem::replace(&mut self.file, name));
            self.sink = Sink::Compressed(GzEncoder::new(create(&self.file)?, Compression::default()));
            return self.put(&kept);
        }
        let put = match &mut self.sink {
            Sink::Plain(out) => out.write_all(text),
            Sink::Compressed(out) => out.write_all(text),
            Sink::Kept(_) => unreachable!("returned above"),
        };
        put.map_err(|e| unwritten(&self.file, e))
    }

    /// Completes the file; the result is its name.
    pub fn finish(mut self) -> Result<PathBuf, Failed> {
        self.put(if self.rows == 0 { b"]\n}\n" } else { b"\n  ]\n}\n" })?;
        let Writer { file, sink, earlier, .. } = self;
        let whole = |out: BufWriter<WholeFile>| out.into_inner().map_err(|e| e.into_error())?.finish();
        let done = match sink {
            Sink::Kept(text) => write_whole(&file, text),
            Sink::Plain(out) => whole(out),
            Sink::Compressed(out) => out.finish().and_then(whole),
        };
        let done = done.and_then(|()| earlier.map_or(Ok(()), |earlier| std::fs::remove_file(earlier).or_else(missing)));
        done.map_err(|e| unwritten(&file, e))?;
        Ok(file)
    }
}

fn create(file: &Path) -> Result<BufWriter<WholeFile>, Failed> {
    WholeFile::create(file).map(BufWriter::new).map_err(|e| unwritten(file, e))
}

fn missing(e: io::Error) -> io::Result<()> {
    if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) }
}

fn is_gz(file: &Path) -> bool {
    file.extension().is_some_and(|e| e.eq_ignore_ascii_case("gz"))
}

/// `out.json.gz` of `out.json`.
fn compressed(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".gz");
    name.into()
}

/// Reads a report file; `out.json` also finds `out.json.gz`.
pub fn read(file: &Path) -> Result<RunReport, Failed> {
    let shown = file.display();
    let cannot = |e: io::Error| Failed::usage(format!("cannot read {shown}: {e}"), REMEDY);
    let open = || match File::open(file) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => File::open(compressed(file)).map_err(|_| e),
        opened => opened,
    };
    let opened = open().map_err(cannot)?;
    let bytes = opened.metadata().map_err(cannot)?.len();
    let mut raw = BufReader::new(opened);
    let packed = raw.fill_buf().map_err(cannot)?.starts_with(&GZIP);
    let mut text: Box<dyn BufRead> =
        if packed { Box::new(BufReader::new(Unpacked::new(MultiGzDecoder::new(raw), bytes))) } else { Box::new(raw) };
    if text.fill_buf().map_err(cannot)?.trim_ascii_start().first().is_some_and(|first| *first != b'{') {
        let what = format!("{shown} is not a report: it does not begin with a brace, as JSON of one does");
        return Err(Failed::usage(what, REMEDY));
    }
    let mut report: RunReport = serde_json::from_reader(&mut text)
        .map_err(|e| Failed::usage(format!("{shown} is not a report{}: {e}", earlier(file)), REMEDY))?;
    if report.format != FORMAT {
        let what = format!("{shown} has format {}, this program reads {FORMAT}", report.format);
        return Err(Failed::usage(what, "use the angara that wrote it"));
    }
    report.traffic.pairs = std::mem::take(&mut report.pairs);
    let t = &report.traffic;
    let (nodes, pes) = (t.shape.nodes() as u32, t.placement.len() as u32);
    if t.placement.iter().chain(t.links.iter().flat_map(|l| [&l.node, &l.to])).any(|n| *n >= nodes) {
        return Err(Failed::usage(format!("{shown} names nodes outside {}", t.shape), REMEDY));
    }
    if !times::fits(t.shape, &report.details.link_times) {
        return Err(Failed::usage(format!("{shown} names links that {} has not", t.shape), REMEDY));
    }
    if t.pairs.iter().any(|p| p.from >= pes || p.to >= pes) {
        return Err(Failed::usage(format!("{shown} names PEs beyond the {pes} it places"), REMEDY));
    }
    if let Some(why) = report.history.as_ref().and_then(|history| history.check(t.shape).err()) {
        return Err(Failed::usage(format!("{shown}: {why}"), REMEDY));
    }
    Ok(report)
}

/// A word about a file from before files named their format.
fn earlier(file: &Path) -> &'static str {
    let mut start = [0; 40];
    let read = File::open(file).and_then(|mut f| f.rewind().and_then(|()| f.read(&mut start)));
    let start = String::from_utf8_lossy(&start);
    match read {
        Ok(_) if start.trim_start_matches(['{', ' ', '\n']).starts_with("\"job\"") => {
            " of this version, but of an earlier one (run the program again)"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;
    use angara_abi::account::{Class, Traffic};
    use angara_protocol::msg::Report;

    /// Writes `pairs` in two pieces; the file that came out.
    fn written(name: &str, large: usize, pairs: &[PairReport]) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("angara-report-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mut report = sample();
        report.traffic.pairs.clear();
        let mut writer = Writer::with_limit(&dir.join(name), &report, large).unwrap();
        let (a, b) = pairs.split_at(pairs.len() / 2);
        writer.pairs(a).unwrap();
        writer.pairs(b).unwrap();
        writer.finish().unwrap()
    }

    fn pairs(n: u32) -> Vec<PairReport> {
        let pair = |i| PairReport { from: i % 2, to: 1, class: Class::Put, traffic: Traffic::put(i as usize) };
        (0..n).map(pair).collect()
    }

    #[test]
    fn a_report_survives_the_file_and_is_the_daemons_at_top_level() {
        for n in [0, 1, 100] {
            let file = written(&format!("plain{n}.json"), LARGE, &pairs(n));
            let text = std::fs::read_to_string(&file).unwrap();
            let back = read(&file).unwrap();
            assert_eq!(back.hottest[0].link, "0,0 +X");
            assert_eq!(back.traffic.pairs, pairs(n));
            let plain: Report = serde_json::from_str(&text).unwrap();
            assert_eq!(plain, back.traffic);
            assert!(text.starts_with("{\n  \"format\": 2,\n"), "{text}");
        }
        let text = std::fs::read_to_string(written("row.json", LARGE, &pairs(1))).unwrap();
        assert!(text.ends_with("\"pairs\": [\n    [0,1,\"put\",1,0,0,0,0,0,0]\n  ]\n}\n"), "{text}");
    }

    #[test]
    fn large_ones_are_compressed_and_found_by_either_name() {
        let small = written("out.json", LARGE, &pairs(10));
        let large = written("out.json", 1000, &pairs(100));
        assert_eq!(large, compressed(&small));
        assert!(!small.exists(), "a report of an earlier run is left");
        assert!(std::fs::read(&large).unwrap().starts_with(&GZIP));
        assert_eq!(read(&small).unwrap().traffic.pairs, pairs(100));
        assert_eq!(read(&large).unwrap().traffic.pairs, pairs(100));
        let asked = written("asked.json.gz", LARGE, &pairs(3));
        assert!(asked.ends_with("asked.json.gz") && std::fs::read(&asked).unwrap().starts_with(&GZIP));
        assert_eq!(read(&asked).unwrap().traffic.pairs, pairs(3));
        assert_eq!(written("/dev/null", 10, &pairs(100)), Path::new("/dev/null"));
    }

    #[test]
    fn a_report_that_unpacks_to_fill_memory_is_refused() {
        let file = std::env::temp_dir().join(format!("angara-report-bomb-{}.json.gz", std::process::id()));
        let mut packed = GzEncoder::new(File::create(&file).unwrap(), Compression::fast());
        packed.write_all(b"{\"command\": [\"").unwrap();
        (0..128).for_each(|_| packed.write_all(&[b'a'; 1 << 20]).unwrap());
        packed.finish().unwrap();
        let e = read(&file).map(drop).unwrap_err();
        assert!(e.message.contains("it unpacks to more than"), "{}", e.message);
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn what_is_no_report_is_named() {
        let good = written("good.json", LARGE, &pairs(1));
        let text = std::fs::read_to_string(&good).unwrap();
        let with = |name: &str, text: String| {
            let file = good.with_file_name(name);
            std::fs::write(&file, text).unwrap();
            read(&file).unwrap_err().message
        };
        let old = text.replacen("\"format\": 2,", "", 1).replace("[0,1,", "{\"from\":0,\"to\":1,");
        assert!(with("old.json", old).contains("of an earlier one"));
        assert!(with("new.json", text.replacen("\"format\": 2", "\"format\": 3", 1)).contains("has format 3"));
        assert!(with("far.json", text.replace("[0,1,", "[0,2,")).contains("PEs beyond the 2"));
        assert!(with("Cargo.toml", "[workspace]\n".into()).contains("does not begin with a brace"));
        assert!(with("cut.json", text[..text.len() - 5].into()).contains("is not a report: EOF"));
        let gz = written("cut.json.gz", LARGE, &pairs(100));
        let bytes = std::fs::read(&gz).unwrap();
        std::fs::write(&gz, &bytes[..bytes.len() - 20]).unwrap();
        assert!(read(&gz).is_err());
    }
}
