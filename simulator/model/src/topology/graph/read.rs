//! Files of graphs: an edge list of our own, and the `anynet` files of BookSim.

use super::wiring::{Draft, Edge};
use crate::topology::contract::{DELAY_MAX, FULL_RATE, PORTS_MAX, rate};
use std::collections::{BTreeMap, HashMap};
use std::io::Read;

/// Largest file, bytes.
const FILE_MAX: u64 = 16 << 20;
/// Longest name of a router, characters.
const NAME_MAX: usize = 64;

/// Contents of a file that is text of a sensible size.
pub(super) fn contents(path: &str) -> Result<String, String> {
    if path.is_empty() {
        return Err(String::new());
    }
    let unreadable = |e: std::io::Error| format!("{path} cannot be read ({e}); give a file that can");
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = Vec::new();
    file.take(FILE_MAX + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_MAX {
        return Err(format!("{path} has more than {} MiB; give a smaller network", FILE_MAX >> 20));
    }
    String::from_utf8(text).map_err(|_| format!("{path} is no text; give a file of lines of words"))
}

/// A word of a file as errors show it.
pub(super) fn shown(word: &str) -> String {
    let start: String = word.chars().take(40).collect();
    let more = if start.len() < word.len() { "…" } else { "" };
    format!("`{}{more}`", start.escape_debug())
}

/// Lines that say something, with their numbers: words without comments.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, Vec<&str>)> {
    text.lines().zip(1..).filter_map(|(line, number)| {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        (!words.is_empty()).then_some((number, words))
    })
}

fn delay(word: &str) -> Result<u8, String> {
    match word.parse() {
        Ok(delay) if (1..=DELAY_MAX).contains(&delay) => Ok(delay),
        _ => Err(format!("delay {}: give 1 to {DELAY_MAX} cycles", shown(word))),
    }
}

/// Rate of the links of a line of an edge list, by its last word, and its other words.
fn slow<'a, 'w>(words: &'w [&'a str]) -> Result<(u32, &'w [&'a str]), String> {
    match words {
        [rest @ .., last] if last.ends_with('%') && rest.len() >= 2 && words[0] != "terminals" => {
            Ok((rate(last)?, rest))
        }
        _ => Ok((FULL_RATE, words)),
    }
}

/// How many links a line of an edge list stands for, by its last word, and its other words.
fn parallel<'a, 'w>(words: &'w [&'a str]) -> Result<(usize, &'w [&'a str]), String> {
    let [rest @ .., last] = words else { return Ok((1, words)) };
    match last.strip_prefix('x').filter(|number| number.starts_with(|c: char| c.is_ascii_digit())) {
        Some(number) if rest.len() >= 2 && words[0] != "terminals" => match number.parse() {
            Ok(n) if (1..=PORTS_MAX).contains(&n) => Ok((n, rest)),
            _ => Err(format!("{} parallel links: give x1 to x{PORTS_MAX}", shown(last))),
        },
        _ => Ok((1, words)),
    }
}

fn terminals(word: &str) -> Result<u32, String> {
    match word.parse() {
        Ok(n) if n as usize <= PORTS_MAX => Ok(n),
        _ => Err(format!("{} terminals: give 0 to {PORTS_MAX}", shown(word))),
    }
}

fn name(word: &str) -> Result<&str, String> {
    let fits = |c: char| c.is_alphanumeric() || "_-.:/+,".contains(c);
    if matches!(word, "router" | "node") {
        return Err(format!("{} begins a line of BookSim; write anynet:FILE for its files", shown(word)));
    }
    if word.chars().all(fits) && word.chars().count() <= NAME_MAX {
        return Ok(word);
    }
    Err(format!("router {}: give a number or a name of at most {NAME_MAX} letters and digits", shown(word)))
}

/// Routers in order of appearance.
#[derive(Default)]
struct Names<'a> {
    known: HashMap<&'a str, u32>,
    list: Vec<&'a str>,
}

impl<'a> Names<'a> {
    fn number(&mut self, word: &'a str) -> u32 {
        *self.known.entry(word).or_insert_with(|| {
            self.list.push(word);
            self.list.len() as u32 - 1
        })
    }
    /// The numbers routers have if all are called by numbers.
    fn as_numbers(&self) -> Option<Vec<u32>> {
        let number = |word: &&str| word.parse().ok().filter(|n: &u32| n.to_string() == **word);
        self.list.iter().map(number).collect()
    }
}

/// Reads lines `ROUTER ROUTER [DELAY [DELAY BACK]] [xLINKS] [RATE%]`, `terminals N` and `terminals ROUTER N`.
pub(super) fn edges(file: &str, text: &str) -> Result<Draft, String> {
    let mut names = Names::default();
    let mut links = Vec::new();
    let (mut all, mut some) = (None, BTreeMap::new());
    for (line, words) in lines(text) {
        let wrong = |why: String| format!("{file}, line {line}: {why}");
        let (ppm, words) = slow(&words).map_err(wrong)?;
        let (count, words) = parallel(words).map_err(wrong)?;
        match words[..] {
            ["router" | "node", ..] => drop(name(words[0]).map_err(wrong)?),
            ["terminals", n] => {
                if all.replace(terminals(n).map_err(wrong)?).is_some() {
                    return Err(wrong("terminals of all routers are given twice; leave one line out".into()));
                }
            }
            ["terminals", router, n] => {
                let r = names.number(name(router).map_err(wrong)?);
                if some.insert(r, terminals(n).map_err(wrong)?).is_some() {
                    let why = format!("terminals of router {} are given twice; leave one line out", shown(router));
                    return Err(wrong(why));
                }
            }
            ["terminals", ..] => return Err(wrong("write `terminals N` or `terminals ROUTER N`".into())),
            [a, b] | [a, b, _] | [a, b, _, _] => {
                let [from, to] = [name(a), name(b)].map(|n| n.map(|n| names.number(n)));
                let there = words.get(2).map_or(Ok(1), |w| delay(w)).map_err(wrong)?;
                let back = words.get(3).map_or(Ok(there), |w| delay(w)).map_err(wrong)?;
                let (from, to) = (from.map_err(wrong)?, to.map_err(wrong)?);
                links.extend((0..count).map(|_| Edge { from, to, delays: [there, back], ppm, line }));
            }
            _ => {
                let why = format!(
                    "{} in a line of {} words; write ROUTER ROUTER [DELAY [DELAY]] [xLINKS] [RATE%]",
                    shown(words[0]),
                    words.len()
                );
                return Err(wrong(why));
            }
        }
    }
    let count = names.list.len();
    let mut labels: Vec<String> = names.list.iter().map(|name| name.to_string()).collect();
    let mut order: Vec<u32> = (0..count as u32).collect();
    let mut named = true;
    if let Some(numbers) = names.as_numbers() {
        if let Some(gap) = (0..count as u32).find(|n| !numbers.contains(n)) {
            let most = numbers.iter().max().unwrap_or(&0);
            return Err(format!(
                "{file}: there is a router {most} and no router {gap}; number routers from 0 without gaps, or name them"
            ));
        }
        labels = (0..count).map(|n| n.to_string()).collect();
        (order, named) = (numbers, false);
    }
    for link in &mut links {
        (link.from, link.to) = (order[link.from as usize], order[link.to as usize]);
    }
    let mut terminals = vec![all.unwrap_or(0); count];
    for (r, n) in some {
        terminals[order[r as usize] as usize] = n;
    }
    Ok(Draft { labels, named, links, terminals })
}

/// Reads lines `router R node N … router S [LATENCY] …` and `node N router R` of BookSim. The latency of a link is that
/// of the direction named; the other one takes a cycle unless its own router's line says otherwise.
pub(super) fn anynet(file: &str, text: &str) -> Result<Draft, String> {
    let mut delays: BTreeMap<(u32, u32), (u8, usize)> = BTreeMap::new();
    let mut order: Vec<(u32, u32, usize)> = Vec::new();
    let mut nodes: BTreeMap<u32, (u32, usize)> = BTreeMap::new();
    let mut routers = 0;
    for (line, words) in lines(text) {
        let wrong = |why: String| format!("{file}, line {line}: {why}");
        let clauses = clauses(&words).map_err(wrong)?;
        let ((head_is_router, head, _), rest) = clauses.split_first().expect("a line has words");
        for &(is_router, number, latency) in rest {
            let ends = [(*head_is_router, *head), (is_router, number)];
            ends.iter().filter(|e| e.0).for_each(|e| routers = routers.max(e.1 + 1));
            match ends {
                [(true, a), (true, b)] => {
                    let delay = latency.map_or(Ok(1), delay).map_err(wrong)?;
                    if let Some((_, before)) = delays.insert((a, b), (delay, line)) {
                        let why = format!("router {a} to router {b} is in line {before} already; leave one out");
                        return Err(wrong(why));
                    }
                    if !delays.contains_key(&(b, a)) || a == b {
                        order.push((a, b, line));
                    }
                }
                [(true, router), (false, node)] | [(false, node), (true, router)] => {
                    if let Some(latency) = latency.filter(|&l| l != "1") {
                        let why =
                            format!("node {node} with latency {}; nodes have none here: leave it out", shown(latency));
                        return Err(wrong(why));
                    }
                    match nodes.insert(node, (router, line)) {
                        Some((before, at)) if before != router => {
                            let why = format!("node {node} is at router {before} already (line {at}); leave one out");
                            return Err(wrong(why));
                        }
                        _ => {}
                    }
                }
                [(false, a), (false, b)] => {
                    return Err(wrong(format!("node {a} with node {b}; nodes are joined to routers only")));
                }
            }
        }
        if *head_is_router {
            routers = routers.max(*head + 1);
        }
    }
    let mut terminals = vec![0; routers as usize];
    let mut last = 0;
    for ((&node, &(router, line)), expected) in nodes.iter().zip(0..) {
        if node != expected {
            return Err(format!(
                "{file}: there is a node {node} and no node {expected}; number nodes from 0 without gaps"
            ));
        }
        if router < last {
            return Err(format!(
                "{file}, line {line}: node {node} is at router {router}, the one before at router {last}; number nodes \
                 in ascending order of routers"
            ));
        }
        (last, terminals[router as usize]) = (router, terminals[router as usize] + 1);
    }
    let delay = |a, b| delays.get(&(a, b)).map_or(1, |d| d.0);
    let edge = |&(from, to, line)| Edge { from, to, delays: [delay(from, to), delay(to, from)], ppm: FULL_RATE, line };
    let links = order.iter().map(edge).collect();
    Ok(Draft { labels: (0..routers).map(|r| r.to_string()).collect(), named: false, links, terminals })
}

/// Part of a line: whether it is a router, its number, and the latency written after it.
type Clause<'a> = (bool, u32, Option<&'a str>);

/// Parts of a line.
fn clauses<'a>(words: &[&'a str]) -> Result<Vec<Clause<'a>>, String> {
    let mut found = Vec::new();
    let mut words = words.iter().copied().peekable();
    while let Some(kind) = words.next() {
        let is_router = match kind {
            "router" => true,
            "node" => false,
            _ => return Err(format!("{} where `router` or `node` stands", shown(kind))),
        };
        let word = words.next().ok_or_else(|| format!("`{kind}` without a number; write {kind} NUMBER"))?;
        let number = word.parse().ok().filter(|&n: &u32| n < 1 << 24);
        let number = number.ok_or_else(|| format!("{kind} {}: give a number from 0", shown(word)))?;
        let latency = words.next_if(|w| !w.starts_with(char::is_alphabetic));
        if let (Some(latency), true) = (latency, found.is_empty()) {
            return Err(format!(
                "{} after the first {kind} of a line; latencies follow what it is joined to",
                shown(latency)
            ));
        }
        found.push((is_router, number, latency));
    }
    Ok(found)
}
