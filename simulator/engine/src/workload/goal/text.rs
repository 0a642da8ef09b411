//! The text form of a schedule. It is written in its binary form to a temporary file, rank by rank.

use super::binary::{RANKS_MAX, Writer, check};
use super::schedule::{ANY, Dependency, Kind, Operation, Rank};
use crate::Error;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most bytes of a line.
const LINE_MAX: u64 = 1 << 16;
/// How operations are written, for messages.
const OPERATIONS: &str = "write send BYTESb to RANK, recv BYTESb from RANK or calc NS";

/// What a text says, rank by rank.
struct Reader<'a> {
    path: &'a Path,
    lines: BufReader<File>,
    line: usize,
    bytes: Vec<u8>,
    /// Within a comment that goes on over lines.
    comment: bool,
    ranks: Option<u32>,
    /// Number of the rank that is open.
    open: Option<u32>,
    rank: Rank,
    /// Line of each of its operations.
    at: Vec<usize>,
    labels: HashMap<String, u32>,
}

/// The binary form of a text, in a file without a name.
pub(super) fn to_binary(path: &Path) -> Result<File, Error> {
    let mut reader = Reader::open(path)?;
    let mut writer: Option<Writer> = None;
    while let Some(number) = reader.next_rank()? {
        let count = reader.ranks.unwrap_or(0);
        let wrote = match &mut writer {
            Some(writer) if writer.has(number) => {
                return Err(reader.wrong(format!("rank {number} ends here a second time; give each rank once")));
            }
            Some(writer) => writer.rank(number, &reader.rank),
            None => unnamed_file().and_then(|file| {
                let mut new = Writer::new(file, count)?;
                new.rank(number, &reader.rank)?;
                writer = Some(new);
                Ok(())
            }),
        };
        wrote.map_err(cannot_write)?;
    }
    let count = reader.ranks.unwrap_or(0);
    let missing = (0..count).find(|rank| !writer.as_ref().is_some_and(|writer| writer.has(*rank)));
    match (missing, writer) {
        (None, Some(writer)) => writer.finish().map_err(cannot_write),
        (Some(rank), _) => {
            Err(reader.wrong(format!("the file ends without rank {rank} of {count}; add rank {rank} {{ … }}")))
        }
        (None, None) => Err(reader.wrong("no schedule; begin with num_ranks COUNT".into())),
    }
}

/// The line of an operation.
pub(super) fn line_of(path: &Path, rank: u32, operation: u32) -> Option<usize> {
    let mut reader = Reader::open(path).ok()?;
    loop {
        if reader.next_rank().ok()?? == rank {
            return reader.at.get(operation as usize).copied();
        }
    }
}

fn cannot_write(source: std::io::Error) -> Error {
    Error::File { path: std::env::temp_dir(), source }
}

/// A file that goes when it is closed.
pub(super) fn unnamed_file() -> std::io::Result<File> {
    static FILES: AtomicU64 = AtomicU64::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("angara-goal-{}-{number}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

impl<'a> Reader<'a> {
    fn open(path: &'a Path) -> Result<Reader<'a>, Error> {
        let file = File::open(path).map_err(|source| Error::File { path: path.into(), source })?;
        Ok(Reader {
            path,
            lines: BufReader::new(file),
            line: 0,
            bytes: Vec::new(),
            comment: false,
            ranks: None,
            open: None,
            rank: Rank::default(),
            at: Vec::new(),
            labels: HashMap::new(),
        })
    }

    fn wrong(&self, message: String) -> Error {
        Error::Setting { path: self.path.into(), line: self.line.max(1), message }
    }

    /// Reads on until a rank ends; its number, `None` at the end of the file.
    fn next_rank(&mut self) -> Result<Option<u32>, Error> {
        self.rank = Rank::default();
        self.at.clear();
        self.labels.clear();
        while let Some(line) = self.next_line()? {
            let words = words(&line, &mut self.comment);
            if let Some(ended) = self.items(&words).map_err(|why| self.wrong(why))? {
                if let Some(circle) = self.rank.circle() {
                    let lines: Vec<String> = circle.iter().map(|i| self.at[*i as usize].to_string()).collect();
                    let why = format!("operations that wait for each other in a circle, in lines {}", lines.join(", "));
                    self.line = self.at[circle[0] as usize];
                    return Err(self.wrong(format!("{why}; take one of their requires away")));
                }
                return Ok(Some(ended));
            }
        }
        match self.open {
            Some(rank) => Err(self.wrong(format!("the file ends within rank {rank}; end it with }}"))),
            None => Ok(None),
        }
    }

    fn next_line(&mut self) -> Result<Option<String>, Error> {
        self.bytes.clear();
        let read = (&mut self.lines).take(LINE_MAX).read_until(b'\n', &mut self.bytes);
        let len = read.map_err(|source| Error::File { path: self.path.into(), source })?;
        self.line += usize::from(len > 0);
        if len as u64 == LINE_MAX {
            return Err(self.wrong(format!("a line of {LINE_MAX} bytes or more; give shorter ones")));
        }
        match std::str::from_utf8(&self.bytes) {
            Ok(line) => Ok((len > 0).then(|| line.to_owned())),
            Err(_) => Err(self.wrong("no text; give a GOAL schedule, as text or as txt2bin writes it".into())),
        }
    }

    /// What a line says; the number of the rank that ends there.
    fn items(&mut self, mut words: &[&str]) -> Result<Option<u32>, String> {
        let mut ended = None;
        while let Some(&word) = words.first() {
            if ended.is_some() {
                return Err(format!("`{word}` behind }}; write it in a line of its own"));
            }
            words = match (word, self.open, words) {
                ("num_ranks", None, [_, count, rest @ ..]) => {
                    let count = number(count).filter(|n| (1..=u64::from(RANKS_MAX)).contains(n));
                    let count = count.ok_or(format!("`{}` ranks; give 1 to {RANKS_MAX}", words[1]))?;
                    if self.ranks.replace(count as u32).is_some() {
                        return Err("num_ranks a second time; give it once".into());
                    }
                    rest
                }
                ("rank", None, [_, rank, "{", rest @ ..]) => {
                    let count = self.ranks.ok_or("a rank before their number; begin with num_ranks COUNT")?;
                    let known = number(rank).filter(|rank| *rank < u64::from(count));
                    self.open = Some(known.ok_or(format!("rank `{rank}`; give 0 to {}", count - 1))? as u32);
                    rest
                }
                ("}", Some(rank), [_, rest @ ..]) => {
                    (ended, self.open) = (Some(rank), None);
                    rest
                }
                (_, Some(_), _) => {
                    self.statement(words)?;
                    &[]
                }
                _ => return Err(format!("`{word}` outside of ranks; write num_ranks COUNT and rank NUMBER {{")),
            };
        }
        Ok(ended)
    }

    fn statement(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            [of, word @ ("requires" | "irequires"), on] => {
                let label = |name: &str| {
                    let why = format!("no operation above in this rank has the label `{name}`; give it one");
                    self.labels.get(name).copied().ok_or(why)
                };
                let dependency = Dependency { of: label(of)?, on: label(on)?, start: *word == "irequires" };
                self.rank.dependencies.push(dependency);
                Ok(())
            }
            [label, ":", rest @ ..] => {
                let good = label.starts_with(|c: char| c.is_ascii_alphabetic())
                    && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                if !good {
                    return Err(format!("`{label}` is no label; give a letter, then letters, digits and _"));
                }
                if self.labels.insert((*label).to_owned(), self.rank.operations.len() as u32).is_some() {
                    return Err(format!("the label `{label}` a second time in this rank; give another one"));
                }
                self.operation(rest)
            }
            _ => self.operation(words),
        }
    }

    fn operation(&mut self, words: &[&str]) -> Result<(), String> {
        let mut operation = Operation { kind: Kind::Calc, size: 0, peer: 0, tag: 0, cpu: 0, nic: 0 };
        let rest = match words {
            ["calc", ns, rest @ ..] => {
                operation.size = number(ns).ok_or(format!("`{ns}` is no time; give whole nanoseconds"))?;
                rest
            }
            [word @ ("send" | "recv"), rest @ ..] => {
                operation.kind = if *word == "send" { Kind::Send } else { Kind::Recv };
                self.message(&mut operation, rest)?
            }
            [] => return Err(format!("no operation; {OPERATIONS}")),
            [word, ..] => return Err(format!("`{word}` is no operation; {OPERATIONS}")),
        };
        fields(&mut operation, rest)?;
        check(&operation)?;
        if self.rank.operations.len() == u32::MAX as usize {
            return Err(format!("more than {} operations in a rank; split it", u32::MAX));
        }
        self.rank.operations.push(operation);
        self.at.push(self.line);
        Ok(())
    }

    /// Reads `10b to 1`; what is behind it.
    fn message<'w>(&self, operation: &mut Operation, words: &'w [&'w str]) -> Result<&'w [&'w str], String> {
        let (bytes, rest) = match words {
            [bytes, "b", rest @ ..] => (*bytes, rest),
            [bytes, rest @ ..] => (bytes.strip_suffix('b').unwrap_or(""), rest),
            [] => return Err(format!("a message without its size; {OPERATIONS}")),
        };
        operation.size = number(bytes).ok_or(format!("`{}` is no size; give bytes as in 10b", words[0]))?;
        let way = if operation.kind == Kind::Send { "to" } else { "from" };
        let [word, peer, rest @ ..] = rest else { return Err(format!("no rank; write {way} RANK")) };
        if *word != way {
            return Err(format!("`{word}`; write {way} RANK"));
        }
        if operation.kind == Kind::Recv && *peer == "-1" {
            operation.peer = ANY;
            return Ok(rest);
        }
        let count = self.ranks.unwrap_or(0);
        let known = number(peer).filter(|peer| *peer < u64::from(count));
        operation.peer = known.ok_or(format!("{way} rank `{peer}`; give 0 to {}", count - 1))? as u32;
        Ok(rest)
    }
}

/// Reads `tag 5 cpu 1 nic 0`, each once at most and in any order.
fn fields(operation: &mut Operation, words: &[&str]) -> Result<(), String> {
    for (i, field) in words.chunks(2).enumerate() {
        let [name, value] = field else { return Err(format!("`{}` without its number; give one", field[0])) };
        if words[..2 * i].iter().step_by(2).any(|before| before == name) {
            return Err(format!("`{name}` a second time; give it once"));
        }
        let within = |most: u64| {
            let known = number(value).filter(|number| *number <= most);
            known.ok_or(format!("{name} `{value}`; give 0 to {most}"))
        };
        match *name {
            "tag" if operation.kind == Kind::Recv && *value == "-1" => operation.tag = ANY,
            "tag" if operation.kind != Kind::Calc => operation.tag = within(u64::from(ANY) - 1)? as u32,
            "cpu" => operation.cpu = within(255)? as u8,
            "nic" => operation.nic = within(255)? as u8,
            other => return Err(format!("`{other}` is no field here; there are tag (of messages), cpu and nic")),
        }
    }
    Ok(())
}

/// A number without a sign.
fn number(text: &str) -> Option<u64> {
    text.starts_with(|c: char| c.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Words of a line without its comments; `comment` is true while one goes on.
fn words<'l>(line: &'l str, comment: &mut bool) -> Vec<&'l str> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        if *comment {
            let Some((_, behind)) = rest.split_once("*/") else { return words };
            (*comment, rest) = (false, behind);
        }
        rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with("//") {
            return words;
        }
        if let Some(inside) = rest.strip_prefix("/*") {
            (*comment, rest) = (true, inside);
            continue;
        }
        let ends = |c: char| c.is_whitespace() || [':', '{', '}', '/'].contains(&c);
        let end = rest.find(ends).unwrap_or(rest.len()).max(1);
        let (word, behind) = rest.split_at(end);
        words.push(word);
        rest = behind;
    }
}
