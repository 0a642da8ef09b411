//! How many bytes processes send each other, from a file: a report of `angara run`, a recording, or a
//! matrix in the forms of [`rows`].
//!
//! Reports and recordings count payload; packets without any, such as requests, count with their flits.
//! A matrix gives bytes. One whose numbers are not all whole gives rates: the largest becomes
//! [`LARGEST`] bytes.

use crate::{Error, REPORT_FORMAT, TextFile, rows};
use angara_abi::FLIT_BYTES;
use angara_abi::account::{Load, Traffic};
use angara_net::packed::Unpacked;
use angara_protocol::msg::PairReport;
use angara_protocol::recording::{MAGIC, Post, Record, Recording};
use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// Bytes of the largest rate of a matrix of rates.
pub const LARGEST: u64 = 65_536;
/// How a report begins that is compressed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// How many processes there are to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Count {
    /// N.
    Exactly(u32),
    /// As many as the file has, but no more than this. Lines of pairs are of this many.
    UpTo(u32),
}

/// Bytes between processes.
#[derive(Clone, PartialEq, Debug)]
pub struct Volumes {
    /// Number of processes.
    pub processes: u32,
    /// Sender, receiver and bytes of each pair that has any, in order.
    pub pairs: Vec<(u32, u32, u64)>,
    /// Bytes that a rate of 1 became, if the file has rates.
    pub scale: Option<f64>,
}

/// What is read of a report.
#[derive(Deserialize)]
struct Reported {
    format: u32,
    placement: Vec<u32>,
    pairs: Vec<PairReport>,
}

/// Sums of pairs.
type Sums = BTreeMap<(u32, u32), u64>;

impl Volumes {
    /// Reads a file, as an answer to `option`, which messages name.
    ///
    /// # Errors
    /// It cannot be read, is none of the kinds, has another number of processes, or no traffic.
    pub fn read(option: &str, path: &Path, count: Count) -> Result<Volumes, Error> {
        let bytes = std::fs::read(path).map_err(|source| Error::File { path: path.into(), source })?;
        let volumes = if bytes.starts_with(&MAGIC) {
            recorded(option, path, count)?
        } else {
            let plain =
                unpacked(bytes).map_err(|e| refuse(option, path, format!("it cannot be unpacked: {e}; {GIVE}")))?;
            let text = String::from_utf8(plain);
            let text = text.map_err(|_| refuse(option, path, format!("it is neither of these; {GIVE}")))?;
            let file = TextFile::of(&path.to_string_lossy(), &text);
            if text.trim_start().starts_with('{') { reported(&file, count)? } else { matrix(file, count)? }
        };
        match volumes.pairs.is_empty() {
            false => Ok(volumes),
            true => Err(refuse(option, path, format!("no process sends another one anything; {GIVE}"))),
        }
    }
}

/// What kinds of files there are, for messages.
const GIVE: &str = "give a file of `angara run --report` or `--record`, or a matrix of bytes";

fn refuse(option: &str, path: &Path, why: String) -> Error {
    Error::invalid(option, path.display(), why)
}

/// Most bytes of an unpacked file: all of it is text in memory.
const TEXT_MAX: u64 = 512 << 20;

fn unpacked(bytes: Vec<u8>) -> std::io::Result<Vec<u8>> {
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }
    let mut all = Vec::new();
    let from = Unpacked::new(MultiGzDecoder::new(&bytes[..]), bytes.len() as u64);
    from.at_most(TEXT_MAX).read_to_end(&mut all)?;
    Ok(all)
}

/// Why a file of `has` processes is not what is asked for.
fn misfit(kind: &str, has: u32, count: Count) -> Option<String> {
    match count {
        Count::Exactly(wanted) if has != wanted => {
            Some(format!("{kind} of {has} processes, not {wanted}; give one of {wanted}, or -n {has}"))
        }
        Count::UpTo(most) if has > most => {
            Some(format!("{kind} of {has} processes, and there is room for {most}; give more nodes, or more --ppn"))
        }
        _ => None,
    }
}

fn finish(processes: u32, sums: Sums, scale: Option<f64>) -> Volumes {
    let pairs = sums.into_iter().filter(|&((from, to), bytes)| from != to && bytes > 0);
    Volumes { processes, pairs: pairs.map(|((from, to), bytes)| (from, to, bytes)).collect(), scale }
}

/// Adds both ways of an operation.
fn add(sums: &mut Sums, (from, to): (u32, u32), traffic: Traffic) {
    for (way, load) in [((from, to), traffic.out), ((to, from), traffic.back)] {
        let sum = sums.entry(way).or_default();
        *sum = sum.saturating_add(weight(load));
    }
}

/// Payload, or else all bytes.
fn weight(load: Load) -> u64 {
    if load.bytes > 0 { load.bytes } else { load.flits.saturating_mul(FLIT_BYTES as u64) }
}

fn reported(file: &TextFile, count: Count) -> Result<Volumes, Error> {
    let report: Reported = serde_json::from_str(file.text()).map_err(|e| {
        let why = format!("this is no report of `angara run --report` ({e}); {GIVE}");
        file.wrong(e.line().max(1), why)
    })?;
    if report.format != REPORT_FORMAT {
        let why = format!("format is {}; write the report again with this version", report.format);
        return Err(file.wrong(1, why));
    }
    let processes = report.placement.len() as u32;
    if let Some(why) = misfit("a report", processes, count) {
        return Err(file.wrong(1, why));
    }
    let mut sums = Sums::new();
    for pair in &report.pairs {
        if pair.from.max(pair.to) >= processes {
            let why = format!("pairs has {} and {}, and one of them has no place", pair.from, pair.to);
            return Err(file.wrong(1, format!("{why}; write the report again")));
        }
        add(&mut sums, (pair.from, pair.to), pair.traffic);
    }
    Ok(finish(processes, sums, None))
}

fn recorded(option: &str, path: &Path, count: Count) -> Result<Volumes, Error> {
    let recording = Recording::open(path)?;
    let processes = recording.header.places.len() as u32;
    if let Some(why) = misfit("a recording", processes, count) {
        return Err(refuse(option, path, why));
    }
    let mut sums = Sums::new();
    for from in 0..processes {
        let mut tape = recording.tape(from as usize);
        while let Some((_, record)) = tape.next(&recording)? {
            let (to, traffic) = match record {
                Record::Post(Post::Write { to, len, .. }) => (to, Traffic::put(len as usize)),
                Record::Post(Post::Read { to, len, .. }) => (to, Traffic::get(len as usize)),
                Record::Post(Post::Amo { to, width, fetch, .. }) => (to, Traffic::amo(width.into(), !fetch, fetch)),
                _ => continue,
            };
            if to >= processes {
                let why = format!("PE {from} has a post to PE {to}, and there are {processes}; record it again");
                return Err(refuse(option, path, why));
            }
            add(&mut sums, (from, to), traffic);
        }
    }
    Ok(finish(processes, sums, None))
}

fn matrix(file: TextFile, count: Count) -> Result<Volumes, Error> {
    let rows_of_the_file = square(&file);
    let processes = match count {
        Count::Exactly(count) => count,
        Count::UpTo(most) => rows_of_the_file.unwrap_or(most),
    };
    if let Some(why) = rows_of_the_file.and_then(|has| misfit("a matrix", has, count)) {
        return Err(file.wrong(1, why));
    }
    let rows = rows(&file, (processes, "processes")).map_err(|e| match e {
        Error::Line { path, line, message } => {
            let message = format!("{message} (read as a matrix, as it is neither a report nor a recording)");
            Error::Line { path, line, message }
        }
        other => other,
    })?;
    let largest = rows.iter().flat_map(|(row, _)| row).map(|(_, rate)| *rate).fold(0.0, f64::max);
    let whole = rows.iter().flat_map(|(row, _)| row).all(|(_, rate)| rate.fract() == 0.0);
    let scale = (!whole).then(|| LARGEST as f64 / largest);
    let mut sums = Sums::new();
    for (from, (row, line)) in (0..).zip(rows) {
        for (to, rate) in row {
            let bytes = (rate * scale.unwrap_or(1.0)).ceil();
            if bytes >= 2f64.powi(48) {
                return Err(file.wrong(line, format!("{rate} bytes from {from} to {to}; give less than 2^48")));
            }
            sums.insert((from, to), bytes as u64);
        }
    }
    Ok(finish(processes, sums, scale))
}

/// The size of a file that is a square of numbers; `None` if it may be lines of pairs.
fn square(file: &TextFile) -> Option<u32> {
    if file.text().lines().any(|line| line.trim_start().starts_with('%')) {
        return None;
    }
    let columns: Vec<usize> = file.lines().map(|(_, words)| words.count()).collect();
    let size = columns.len();
    columns.iter().all(|count| *count == size).then_some(size as u32).filter(|size| *size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn written(name: &str, text: &[u8]) -> PathBuf {
        let path = std::env::temp_dir().join(format!("angara-volumes-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        path
    }

    fn read(name: &str, text: &str, count: Count) -> Result<Volumes, String> {
        let path = written(name, text.as_bytes());
        let shown = path.display().to_string();
        let result = Volumes::read("--traffic", &path, count).map_err(|e| e.to_string().replace(&shown, "F"));
        std::fs::remove_file(&path).unwrap();
        result
    }

    const REPORT: &str = "{\"format\": 2, \"placement\": [0, 0, 3], \"pairs\": [\n[0,2,\"put\",1,1,5,80,0,1,0],\n\
                          [1,2,\"get\",1,1,3,0,1,10,100],\n[0,2,\"sync\",1,1,3,8,0,0,0],[1,1,\"put\",1,1,3,8,0,0,0]]}";

    #[test]
    fn a_file_that_unpacks_to_fill_memory_is_refused() {
        use std::io::Write;
        let file = std::env::temp_dir().join(format!("angara-volumes-bomb-{}", std::process::id()));
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        (0..128).for_each(|_| packed.write_all(&[b'0'; 1 << 20]).unwrap());
        std::fs::write(&file, packed.finish().unwrap()).unwrap();
        let e = Volumes::read("map", &file, Count::UpTo(9)).unwrap_err().to_string();
        assert!(e.contains("it unpacks to more than"), "{e}");
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn a_report_has_payload_between_processes_whatever_their_nodes() {
        let volumes = read("report", REPORT, Count::UpTo(8)).unwrap();
        // The request of the get has no payload, nor has the answer of the first put; they count with their flits.
        assert_eq!(volumes.pairs, [(0, 2, 88), (1, 2, 48), (2, 0, 16), (2, 1, 100)]);
        assert_eq!((volumes.processes, volumes.scale), (3, None));
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut packed, REPORT.as_bytes()).unwrap();
        let path = written("gz", &packed.finish().unwrap());
        assert_eq!(Volumes::read("--traffic", &path, Count::Exactly(3)).unwrap(), volumes);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_matrix_has_bytes_or_rates() {
        let dense = read("dense", "0 10 0\n0 0 5\n1 0 7\n", Count::UpTo(8)).unwrap();
        assert_eq!((dense.processes, &dense.pairs[..]), (3, &[(0, 1, 10), (1, 2, 5), (2, 0, 1)][..]));
        let pairs = read("pairs", "0 1 10\n1 2 5\n# none\n2 0 1\n3 0 2\n", Count::UpTo(8)).unwrap();
        assert_eq!((pairs.processes, &pairs.pairs[..3]), (8, &dense.pairs[..]));
        assert_eq!(read("exact", "0 1 10\n1 2 5\n% \n2 0 1\n", Count::Exactly(4)).unwrap().processes, 4);
        let rates = read("rates", "0 1 0.5\n1 0 0.125\n", Count::Exactly(2)).unwrap();
        assert_eq!((rates.pairs, rates.scale), (vec![(0, 1, 65_536), (1, 0, 16_384)], Some(131_072.0)));
    }

    #[test]
    fn other_files_are_refused() {
        for (text, count, said) in [
            (REPORT, Count::Exactly(8), "F:1: a report of 3 processes, not 8; give one of 8, or -n 3"),
            (REPORT, Count::UpTo(2), "F:1: a report of 3 processes, and there is room for 2; give more nodes"),
            (&REPORT.replace("[0,2,\"s", "[0,3,\"s"), Count::UpTo(8), "F:1: pairs has 0 and 3"),
            (&REPORT.replace(": 2, ", ": 1, "), Count::UpTo(8), "F:1: format is 1"),
            ("{\"format\": 2,\n 3}", Count::UpTo(8), "F:2: this is no report"),
            ("0 1\n1 0\n", Count::Exactly(3), "F:1: a matrix of 2 processes, not 3"),
            ("0 1 4\n0 9 4\n", Count::Exactly(8), "F:2: `9` is no target; there are processes 0 to 7"),
            (
                "hello\nworld\nand all\n",
                Count::UpTo(8),
                "F:1: `hello` is no rate; give a number that is at least 0 (read as a matrix",
            ),
            ("0 0\n0 4\n", Count::UpTo(8), "--traffic is F: no process sends another one anything"),
            ("0 1 1e300\n", Count::UpTo(8), "F:1: 1"),
        ] {
            let e = read("bad", text, count).unwrap_err();
            assert!(e.starts_with(said), "{text}: {e}");
        }
        let path = written("binary", &[0xff, 0xfe, 0, 1]);
        let e = Volumes::read("--traffic", &path, Count::UpTo(8)).unwrap_err().to_string();
        assert!(e.contains("it is neither of these; give a file of `angara run --report`"), "{e}");
        std::fs::remove_file(&path).unwrap();
        let e = Volumes::read("--traffic", &path, Count::UpTo(8)).unwrap_err();
        assert_eq!(e.parts().1.as_deref(), Some("give the path of a file that exists"));
    }
}
