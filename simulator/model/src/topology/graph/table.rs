//! Ways from a file: the next hop of every packet, by router and destination.

use super::read::{lines, shown};
use super::wiring::{Wiring, digest};
use crate::topology::contract::{Class, Classes, VCS_MAX};
use std::collections::HashMap;

/// The next hop from every router to every other one.
pub(super) struct Table {
    /// Port and class from router r to router d at d·routers + r.
    hops: Vec<Option<(u8, u8)>>,
    routers: usize,
    /// 0 if packets may use all channels.
    classes: u32,
}

impl Table {
    /// Reads lines `ROUTER DESTINATION PORT|NEXT [CLASS]` for a graph. A number is a port where `port` is written before
    /// it, as in `0 5 port 2`.
    pub(super) fn read(wiring: &Wiring, file: &str, text: &str) -> Result<Table, String> {
        let n = wiring.routers();
        let numbers: HashMap<&str, u32> = wiring.labels.iter().map(String::as_str).zip(0..).collect();
        let mut hops: Vec<Option<(u8, u8)>> = vec![None; n * n];
        let mut line_of: HashMap<usize, usize> = HashMap::new();
        let mut with_class: Option<(bool, usize)> = None;
        let mut classes = 0;
        for (line, words) in lines(text) {
            let wrong = |why: String| format!("{file}, line {line}: {why}");
            let router = |word: &str| {
                let last = &wiring.labels[n - 1];
                let hint = if wiring.named {
                    String::from("names are those of the graph")
                } else {
                    format!("the last one is {last}")
                };
                numbers.get(word).copied().ok_or_else(|| wrong(format!("there is no router {}; {hint}", shown(word))))
            };
            let (from, to, rest) = match words[..] {
                [from, to, ref rest @ ..] if !rest.is_empty() => (router(from)?, router(to)?, rest),
                _ => {
                    return Err(wrong(
                        "write ROUTER DESTINATION NEXT [CLASS] or ROUTER DESTINATION port N [CLASS]".into(),
                    ));
                }
            };
            let links = wiring.links(from);
            let (port, rest) = match rest {
                ["port", word, rest @ ..] => {
                    let named = word.parse().ok();
                    let port = links.iter().position(|l| named == Some(l.out));
                    let why = || wrong(format!("port {}: no link of router {} has it", shown(word), shown(words[0])));
                    (port.ok_or_else(why)?, rest)
                }
                [word, rest @ ..] => {
                    let next = router(word)?;
                    let port = links.iter().position(|l| l.to == next);
                    let why = || wrong(format!("router {} has no link to {}", shown(words[0]), shown(word)));
                    (port.ok_or_else(why)?, rest)
                }
                [] => unreachable!("there is a word"),
            };
            let class = match rest {
                [] => None,
                [word] => {
                    let class = word.parse().ok().filter(|&c: &u8| c < VCS_MAX);
                    Some(class.ok_or_else(|| wrong(format!("class {}: give 0 to {}", shown(word), VCS_MAX - 1)))?)
                }
                [_, more, ..] => return Err(wrong(format!("{} after the class; leave it out", shown(more)))),
            };
            if from == to {
                return Err(wrong(format!("router {} is the destination; leave the line out", shown(words[0]))));
            }
            match with_class {
                Some((with, before)) if with != class.is_some() => {
                    let [here, there] = if with { ["no class", "one"] } else { ["a class", "none"] };
                    return Err(wrong(format!(
                        "{here}, and line {before} has {there}; give one in every line or in none"
                    )));
                }
                _ => with_class = Some((class.is_some(), line)),
            }
            let at = to as usize * n + from as usize;
            if let Some(before) = line_of.insert(at, line) {
                return Err(wrong(format!("the same routers are in line {before} already; leave one out")));
            }
            hops[at] = Some((port as u8, class.unwrap_or(0)));
            classes = classes.max(class.map_or(0, |c| u32::from(c) + 1));
        }
        let table = Table { hops, routers: n, classes };
        table.check_arrival(wiring, file)?;
        Ok(table)
    }

    /// Refuses ways that end or go round.
    fn check_arrival(&self, wiring: &Wiring, file: &str) -> Result<(), String> {
        let ends: Vec<u32> = (0..self.routers as u32).filter(|&r| wiring.terminals(r) > 0).collect();
        for (&src, &dst) in ends.iter().flat_map(|s| ends.iter().map(move |d| (s, d))) {
            let (mut at, mut passed) = (src, vec![src]);
            while at != dst {
                let label = |r: u32| shown(&wiring.labels[r as usize]);
                let Some((port, _)) = self.hops[dst as usize * self.routers + at as usize] else {
                    return Err(format!("{file}: no line from router {} to {}; add one", label(at), label(dst)));
                };
                at = wiring.links(at)[usize::from(port)].to;
                if passed.contains(&at) {
                    let ring: Vec<String> =
                        passed.iter().skip_while(|&&r| r != at).chain([&at]).map(|&r| label(r)).collect();
                    let ring = ring.join(" → ");
                    return Err(format!("{file}: packets to router {} go round by {ring}; change a line", label(dst)));
                }
                passed.push(at);
            }
        }
        Ok(())
    }

    #[inline(always)]
    pub(super) fn hop(&self, router: u32, to: u32) -> (u32, Class) {
        let hop = self.hops[to as usize * self.routers + router as usize];
        let (port, class) = hop.expect("packets go where their way has been checked");
        (port.into(), if self.classes == 0 { Class::Any } else { Class::Step(class) })
    }
    pub(super) fn classes(&self) -> Classes {
        if self.classes == 0 { Classes::One } else { Classes::Steps(self.classes) }
    }
    pub(super) fn digest(&self) -> u64 {
        let hop = |h: &Option<(u8, u8)>| h.map_or(0, |(port, class)| 1 + u64::from(port) * 256 + u64::from(class));
        digest(self.hops.iter().map(hop).chain([self.classes.into()]))
    }
}
