//! Routers and links that are down from the beginning, or slower than others, as people write them.

use crate::topology::contract::{self, End, LinkRate, Topology, TopologyError};
use angara_fabric::rng::{STEP, below, mix};
use angara_net::units;
use std::collections::{HashMap, HashSet};

/// What is down.
#[derive(Default)]
pub(super) struct Down {
    pub(super) routers: HashSet<u32>,
    /// Both directions of every link, by the router and port where it begins.
    pub(super) links: HashSet<(u32, u8)>,
}

const FORMS: &str = "write 'link ROUTER ROUTER down', 'link ROUTER PORT down', 'node ROUTER down', '2% links down' or \
                     'link ROUTER ROUTER rate=25%'";

/// Names of a network's routers.
struct Names<'t> {
    topology: &'t dyn Topology,
    known: HashMap<String, u32>,
}

/// A name without what people leave out.
fn short(name: &str) -> &str {
    let name = name.strip_prefix("router ").unwrap_or(name);
    name.strip_prefix('(').and_then(|name| name.strip_suffix(')')).unwrap_or(name)
}

impl<'t> Names<'t> {
    /// Where two routers could be meant, a whole name goes before a short one, and that before a number.
    fn new(topology: &'t dyn Topology) -> Names<'t> {
        let mut known = HashMap::new();
        let routers = 0..topology.routers() as u32;
        let forms: [fn(&dyn Topology, u32) -> String; 3] =
            [|t, r| t.router_name(r), |t, r| short(&t.router_name(r)).to_string(), |_, r| r.to_string()];
        for (form, r) in forms.iter().flat_map(|form| routers.clone().map(move |r| (form, r))) {
            known.entry(form(topology, r)).or_insert(r);
        }
        Names { topology, known }
    }
    fn router(&self, words: &[&str]) -> Result<u32, String> {
        let name = words.join(" ");
        self.known.get(&name).copied().ok_or_else(|| {
            let last = self.topology.routers() as u32 - 1;
            let [first, last] = [0, last].map(|r| self.topology.router_name(r));
            format!("there is no router `{name}`; they are called {first} to {last}")
        })
    }
    /// The links of a router to another one, or behind a port.
    fn links(&self, from: u32, words: &[&str]) -> Result<Vec<(u32, u8)>, String> {
        let (t, name) = (self.topology, words.join(" "));
        let to = self.router(words);
        let fits = |&(port, there): &(u8, u32)| to == Ok(there) || t.port_name(port) == name;
        let found: Vec<(u32, u8)> = links_of(t, from).filter(fits).map(|(port, _)| (from, port)).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let some: Vec<String> = links_of(t, from)
            .take(6)
            .map(|(port, to)| format!("{} to {}", t.port_name(port), t.router_name(to)))
            .collect();
        let has = if some.is_empty() { "none that leaves".into() } else { format!("{}, …", some.join(", ")) };
        Err(format!("{} has no link `{name}`; it has {has}", t.router_name(from)))
    }
}

/// Ports of the links of a router, and where they lead.
fn links_of(t: &dyn Topology, router: u32) -> impl Iterator<Item = (u8, u32)> {
    (0..t.ports() as u8).filter_map(move |port| match t.output(router, port) {
        End::Router { router, .. } => Some((port, router)),
        _ => None,
    })
}

impl Down {
    /// Reads faults; `seed` draws the links of a share.
    pub(super) fn read(topology: &dyn Topology, faults: &[String], seed: u64) -> Result<Down, TopologyError> {
        let mut down = Down::default();
        let names = if faults.is_empty() { None } else { Some(Names::new(topology)) };
        let mut share_before = None;
        for (text, names) in faults.iter().zip(names.iter().cycle()) {
            let refuse = |why: String| TopologyError { text: text.clone(), why };
            let words: Vec<&str> = text.split_whitespace().collect();
            match words[..] {
                [.., at] if at.starts_with('@') => {
                    return Err(refuse("this is about what is down from the beginning; leave the time out".into()));
                }
                ["node", ref router @ .., "down"] if !router.is_empty() => {
                    down.routers.insert(names.router(router).map_err(refuse)?);
                }
                ["link", ref ends @ .., "down"] if ends.len() > 1 => {
                    let links = ends_of(names, ends).map_err(refuse)?;
                    links.into_iter().for_each(|link| down.cut(topology, link));
                }
                [share, "links", "down"] => {
                    let ppm = units::share(share)
                        .ok_or_else(|| refuse(format!("`{share}` is no share; write it such as 2% or 0.02")))?;
                    if let Some(before) = share_before.replace(text) {
                        return Err(refuse(format!("`{before}` is drawn already; give one share")));
                    }
                    drawn(topology, ppm, seed).into_iter().for_each(|link| down.cut(topology, link));
                }
                _ if text.contains('=') => return Err(refuse(WHOLE.into())),
                _ => return Err(refuse(FORMS.into())),
            }
        }
        Ok(down)
    }
    /// Both directions of a link.
    fn cut(&mut self, t: &dyn Topology, (router, port): (u32, u8)) {
        if let End::Router { router: to, port: back } = t.output(router, port) {
            self.links.extend([(router, port), (to, back)]);
        }
    }
}

const WHOLE: &str = "links of router generic are up or down, or have a rate such as rate=25%, and carry all packets right; \
                     use router angara";

/// Tells whether this is the rate of a link.
pub(in crate::topology) fn is_rate(text: &str) -> bool {
    text.split_whitespace().any(|word| word.starts_with("rate="))
}

/// What goes down under way, without its time, and when, in picoseconds.
pub(in crate::topology) fn later(text: &str) -> Option<Result<(&str, u64), TopologyError>> {
    (text.contains('@') && !is_rate(text)).then(|| timed(text))
}

/// A fault without its time, and that in picoseconds: 0 without one.
fn timed(text: &str) -> Result<(&str, u64), TopologyError> {
    let Some((fault, delay)) = text.split_once('@') else { return Ok((text, 0)) };
    let why = || format!("`@{delay}` is not a time; write it such as @2us (ns, us, ms or s)");
    let refused = |why: String| TopologyError { text: text.into(), why };
    match (fault.trim(), units::time(delay.trim())) {
        ("", _) => Err(refused(FORMS.into())),
        (_, None) => Err(refused(why())),
        (fault, Some(at)) => Ok((fault, at)),
    }
}

/// Rates of links as people write them, each of one direction: `link 0,0 0,1 rate=25%`, `node 0,0 rate=50%` for those that
/// begin or end there, `rate=10%` for every link between routers, each from the beginning or from a time on (`… @2us`).
/// What goes down under way is left to [`later`].
pub(in crate::topology) fn rates(topology: &dyn Topology, texts: &[String]) -> Result<Vec<LinkRate>, TopologyError> {
    let mut all = topology.rates();
    let names = if texts.is_empty() { None } else { Some(Names::new(topology)) };
    let texts = texts.iter().filter(|text| later(text).is_none());
    for (text, names) in texts.zip(names.iter().cycle()) {
        let refuse = |why: String| TopologyError { text: text.clone(), why };
        let (fault, since) = timed(text)?;
        let words: Vec<&str> = fault.split_whitespace().collect();
        if words.last() == Some(&"down") && !is_rate(fault) {
            return Err(refuse("what is down from the beginning belongs to the shape; give it to with_faults".into()));
        }
        let Some((rate, place)) = words.split_last().and_then(|(last, rest)| Some((last.strip_prefix("rate=")?, rest)))
        else {
            return Err(refuse(FORMS.into()));
        };
        let ppm = contract::rate(rate).map_err(refuse)?;
        let routers = 0..topology.routers() as u32;
        let every = || routers.clone().flat_map(|r| links_of(topology, r).map(move |(port, to)| ((r, port), to)));
        let links: Vec<(u32, u8)> = match place {
            [] => every().map(|(link, _)| link).collect(),
            ["link", ends @ ..] if ends.len() > 1 => ends_of(names, ends).map_err(refuse)?,
            ["node", router @ ..] if !router.is_empty() => {
                let node = names.router(router).map_err(refuse)?;
                every().filter(|(link, to)| link.0 == node || *to == node).map(|(link, _)| link).collect()
            }
            _ => return Err(refuse(FORMS.into())),
        };
        for from in links {
            if let End::Router { router, port } = topology.output(from.0, from.1) {
                all.push(LinkRate { from, to: (router, port), ppm, since });
            }
        }
    }
    Ok(all)
}

/// The links that the words after `link` name: names may have several words.
fn ends_of(names: &Names, words: &[&str]) -> Result<Vec<(u32, u8)>, String> {
    let mut why = names.router(&words[..1]).err();
    for (from, rest) in (1..words.len()).map(|k| words.split_at(k)) {
        if let Ok(from) = names.router(from) {
            match names.links(from, rest) {
                Ok(links) => return Ok(links),
                Err(no_link) => why = Some(no_link),
            }
        }
    }
    Err(why.unwrap_or_else(|| FORMS.into()))
}

/// A share of all links, rounded to the nearest number of them: those that come first after exchanges at random.
fn drawn(t: &dyn Topology, ppm: u32, seed: u64) -> Vec<(u32, u8)> {
    let mut links = Vec::new();
    for (r, port) in (0..t.routers() as u32).flat_map(|r| (0..t.ports() as u8).map(move |port| (r, port))) {
        if matches!(t.output(r, port), End::Router { router, port: back } if (r, port) < (router, back)) {
            links.push((r, port));
        }
    }
    let count = ((links.len() as u64 * u64::from(ppm) + 500_000) / 1_000_000) as usize;
    let mut word = mix(seed);
    for i in 0..count {
        word = mix(word.wrapping_add(STEP));
        let j = i + below(word, (links.len() - i) as u64) as usize;
        links.swap(i, j);
    }
    links.truncate(count);
    links
}
