//! PMI-1 as the launcher answers it: lines of `key=value` words from each rank, a space of texts that all share, and barriers.
//!
//! Pure: what comes in and goes out, and who waits, is the business of [`super::server`]. Every line is hostile until read.

use angara_net::torus::NodeId;
use std::collections::{BTreeMap, HashMap};

/// Longest name of a key, its zero byte included.
const KEY_MAX: usize = 64;
/// Longest text, its zero byte included.
const VALUE_MAX: usize = 1024;
/// Bytes that one rank may publish: libraries publish some kilobytes.
const PUBLISHED_MAX: usize = 4 << 20;
/// Key of which ranks share a node.
const MAPPING: &str = "PMI_process_mapping";

/// What a line comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// This line, without its end.
    Line(String),
    /// Nothing: more of the request follows, or nothing is due.
    Nothing,
    /// `cmd=barrier_out`, as soon as round number so is over.
    Barrier(u64),
}

/// What the launcher is to be told.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    /// A rank ends the job, with this status and for this reason.
    Abort(u32, i32, String),
    /// A rank has gone without finalize, or others wait for it in a barrier.
    Left(u32),
    /// A rank wanted more processes.
    Spawn(u32),
    /// A rank is the first to use MPI.
    Entered(u32),
}

/// A rank's part.
#[derive(Default)]
struct Rank {
    published: usize,
    /// In the barrier of the round that is not over.
    waits: bool,
    /// Between init and finalize.
    inside: bool,
    /// It will not come back.
    gone: bool,
    /// It has ended the job.
    aborted: bool,
    /// Inside a request of several lines: how many of those are due, and which one this is.
    many: Option<[u32; 2]>,
}

pub(super) struct Space {
    /// No other job's: libraries name memory after it that all users share.
    name: String,
    ranks: Vec<Rank>,
    texts: BTreeMap<String, String>,
    /// Number of barriers that are over.
    round: u64,
    told: Vec<Told>,
    /// [`Told::Left`] has been said.
    stuck: bool,
    /// [`Told::Spawn`] has.
    spawned: bool,
    /// [`Told::Entered`] has.
    entered: bool,
}

impl Space {
    /// For ranks on these nodes. No other job's has this name.
    pub(super) fn new(name: String, placement: &[NodeId]) -> Space {
        let ranks = placement.iter().map(|_| Rank::default()).collect();
        let texts = BTreeMap::from([(MAPPING.to_string(), mapping(placement))]);
        Space { name, ranks, texts, round: 0, told: Vec::new(), stuck: false, spawned: false, entered: false }
    }

    /// Takes a line of `rank`.
    pub(super) fn line(&mut self, rank: u32, line: &str) -> Answer {
        let words: HashMap<&str, &str> = line.split_ascii_whitespace().filter_map(|w| w.split_once('=')).collect();
        if self.ranks[rank as usize].many.is_some() || words.contains_key("mcmd") {
            return self.many(rank, line, &words);
        }
        let word = |key: &str| words.get(key).copied().unwrap_or_default();
        let number = |key: &str| word(key).parse::<i32>();
        let said = match word("cmd") {
            "init" if word("pmi_version") == "1" => {
                self.ranks[rank as usize].inside = true;
                if !std::mem::replace(&mut self.entered, true) {
                    self.told.push(Told::Entered(rank));
                }
                "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".into()
            }
            "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1".into(),
            "get_maxes" => format!("cmd=maxes kvsname_max=256 keylen_max={KEY_MAX} vallen_max={VALUE_MAX} rc=0"),
            "get_appnum" => "cmd=appnum appnum=0 rc=0".into(),
            "get_my_kvsname" => format!("cmd=my_kvsname kvsname={} rc=0", self.name),
            "get_universe_size" => format!("cmd=universe_size size={} rc=0", self.ranks.len()),
            "put" => match self.put(rank, word("key"), word("value")) {
                Ok(()) => "cmd=put_result rc=0 msg=success".into(),
                Err(why) => format!("cmd=put_result rc=-1 msg={why}"),
            },
            "get" => match self.texts.get(word("key")) {
                Some(text) => format!("cmd=get_result rc=0 msg=success value={text}"),
                None => "cmd=get_result rc=-1 msg=key_not_found value=unknown".into(),
            },
            "barrier_in" if !matches!(word("group"), "" | "WORLD") => {
                "cmd=barrier_out rc=-1 msg=groups_not_known".into()
            }
            "barrier_in" => return self.barrier(rank),
            "finalize" => {
                self.ranks[rank as usize].inside = false;
                "cmd=finalize_ack rc=0".into()
            }
            "abort" => {
                let why = line.split_once("message=").map_or("", |(_, why)| why.trim());
                let why = if why == "abort" { "" } else { why };
                if !std::mem::replace(&mut self.ranks[rank as usize].aborted, true) {
                    self.told.push(Told::Abort(rank, number("exitcode").unwrap_or(1), why.into()));
                }
                return Answer::Nothing;
            }
            "publish_name" => "cmd=publish_result rc=-1 info=not_offered msg=not_offered".into(),
            "lookup_name" => "cmd=lookup_result rc=-1 info=not_offered msg=not_offered".into(),
            "unpublish_name" => "cmd=unpublish_result rc=-1 info=not_offered msg=not_offered".into(),
            other => format!("cmd={} rc=-1 msg=unknown_command", plain(other)),
        };
        Answer::Line(said)
    }

    /// The answer to a line that was too long to be kept.
    pub(super) fn too_long(&mut self, rank: u32) -> Answer {
        match self.ranks[rank as usize].many {
            Some(_) => Answer::Nothing,
            None => Answer::Line("cmd=unknown rc=-1 msg=line_too_long".into()),
        }
    }

    /// A line of a request of several lines, which is one for more processes: nobody asks for anything else so.
    fn many(&mut self, rank: u32, line: &str, words: &HashMap<&str, &str>) -> Answer {
        let many = self.ranks[rank as usize].many.get_or_insert([1, 1]);
        for (due, key) in many.iter_mut().zip(["totspawns", "spawnssofar"]) {
            if let Some(number) = words.get(key).and_then(|n| n.parse().ok()) {
                *due = number;
            }
        }
        let [all, this] = *many;
        if line.trim() != "endcmd" {
            return Answer::Nothing;
        }
        self.ranks[rank as usize].many = None;
        if this < all {
            return Answer::Nothing;
        }
        if !std::mem::replace(&mut self.spawned, true) {
            self.told.push(Told::Spawn(rank));
        }
        Answer::Line("cmd=spawn_result rc=-1 msg=processes_are_added_by_nobody".into())
    }

    fn put(&mut self, rank: u32, key: &str, value: &str) -> Result<(), &'static str> {
        if key.is_empty() || key.len() >= KEY_MAX || value.len() >= VALUE_MAX {
            return Err("too_long_or_empty");
        }
        if key == MAPPING {
            return Err("the_launcher_says_that");
        }
        let published = &mut self.ranks[rank as usize].published;
        *published += key.len() + value.len();
        if *published > PUBLISHED_MAX {
            return Err("too_much");
        }
        self.texts.insert(key.into(), value.into());
        Ok(())
    }

    fn barrier(&mut self, rank: u32) -> Answer {
        let round = self.round;
        self.ranks[rank as usize].waits = true;
        if self.ranks.iter().all(|r| r.waits) {
            self.ranks.iter_mut().for_each(|r| r.waits = false);
            self.round += 1;
        }
        self.look();
        Answer::Barrier(round)
    }

    /// `rank` has closed its end: it says nothing more.
    pub(super) fn gone(&mut self, rank: u32) {
        let own = &mut self.ranks[rank as usize];
        own.gone = true;
        if std::mem::take(&mut own.inside) && !own.aborted {
            self.told.push(Told::Left(rank));
        } else {
            self.look();
        }
    }

    /// Tells whether some wait in vain.
    fn look(&mut self) {
        let gone = self.ranks.iter().position(|r| r.gone && !r.waits);
        if let (Some(gone), true, false) = (gone, self.ranks.iter().any(|r| r.waits && !r.gone), self.stuck) {
            self.stuck = true;
            self.told.push(Told::Left(gone as u32));
        }
    }

    /// Number of barriers that are over.
    pub(super) fn round(&self) -> u64 {
        self.round
    }

    /// A rank has come.
    pub(super) fn entered(&self) -> bool {
        self.entered
    }

    /// Returns what has happened since the last call.
    pub(super) fn told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }
}

/// A word that can stand in an answer.
fn plain(word: &str) -> String {
    word.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(KEY_MAX).collect()
}

/// Which ranks share a node, as PMI writes it: blocks of first node, number of nodes and ranks on each. Nodes are numbered in
/// the order in which ranks first lie on them.
fn mapping(placement: &[NodeId]) -> String {
    let mut numbers = HashMap::new();
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for node in placement {
        let next = numbers.len() as u32;
        let node = *numbers.entry(*node).or_insert(next);
        match runs.last_mut() {
            Some((last, ranks)) if *last == node => *ranks += 1,
            _ => runs.push((node, 1)),
        }
    }
    let mut blocks: Vec<[u32; 3]> = Vec::new();
    for (node, ranks) in runs {
        match blocks.last_mut() {
            Some([first, nodes, each]) if *first + *nodes == node && *each == ranks => *nodes += 1,
            _ => blocks.push([node, 1, ranks]),
        }
    }
    let blocks: String = blocks.iter().map(|[first, nodes, each]| format!(",({first},{nodes},{each})")).collect();
    let text = format!("(vector{blocks})");
    match text.len() < VALUE_MAX {
        true => text,
        // Libraries take no longer text. As if each had a node of its own, all goes over the network.
        false => format!("(vector,(0,{},1))", placement.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(space: &mut Space, rank: u32, line: &str) -> String {
        match space.line(rank, line) {
            Answer::Line(line) => line,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn nodes_are_blocks_of_ranks() {
        for (placement, blocks) in [
            (&[5, 6, 9, 1][..], "(0,4,1)"),
            (&[0, 0, 1, 1, 2], "(0,2,2),(2,1,1)"),
            (&[7, 3, 7, 3], "(0,2,1),(0,2,1)"),
            (&[4, 4, 4, 2], "(0,1,3),(1,1,1)"),
            (&[1, 2, 2, 1], "(0,1,1),(1,1,2),(0,1,1)"),
        ] {
            assert_eq!(mapping(placement), format!("(vector,{blocks})"));
        }
        let hashed: Vec<u32> = (0..4000u32).map(|i| i.wrapping_mul(2654435761) >> 20).collect();
        assert_eq!(mapping(&hashed), "(vector,(0,4000,1))");
    }

    #[test]
    fn the_commands_of_pmi_1_are_answered() {
        let mut space = Space::new("angara".into(), &[0, 1]);
        for (line, answer) in [
            ("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"),
            ("cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0"),
            ("cmd=get_appnum", "cmd=appnum appnum=0 rc=0"),
            ("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=angara rc=0"),
            ("cmd=get_universe_size", "cmd=universe_size size=2 rc=0"),
            ("cmd=put kvsname=angara key=a-0 value=x=y#z$", "cmd=put_result rc=0 msg=success"),
            ("cmd=get kvsname=angara key=a-0", "cmd=get_result rc=0 msg=success value=x=y#z$"),
            ("cmd=get kvsname=angara key=a-1", "cmd=get_result rc=-1 msg=key_not_found value=unknown"),
            (
                "cmd=get kvsname=angara key=PMI_process_mapping",
                "cmd=get_result rc=0 msg=success value=(vector,(0,2,1))",
            ),
            ("cmd=finalize", "cmd=finalize_ack rc=0"),
        ] {
            assert_eq!(said(&mut space, 1, line), answer);
        }
    }

    #[test]
    fn a_barrier_is_over_when_all_are_in_it() {
        let mut space = Space::new("angara".into(), &[0, 1, 2]);
        for round in 0..3 {
            for rank in 0..3 {
                assert_eq!(space.round(), round);
                assert_eq!(space.line(rank, "cmd=barrier_in"), Answer::Barrier(round));
            }
        }
        assert_eq!((space.round(), space.told()), (3, vec![]));
    }

    #[test]
    fn one_that_has_gone_is_told_once_when_others_wait_for_it() {
        let mut space = Space::new("angara".into(), &[0, 1, 2]);
        space.gone(2);
        assert_eq!(space.told(), []);
        space.line(0, "cmd=barrier_in");
        assert_eq!(space.told(), [Told::Left(2)]);
        space.line(1, "cmd=barrier_in");
        assert_eq!(space.told(), []);
        // In the middle of MPI that is wrong by itself.
        let mut space = Space::new("angara".into(), &[0, 1, 2]);
        for rank in 0..3 {
            said(&mut space, rank, "cmd=init pmi_version=1 pmi_subversion=1");
        }
        said(&mut space, 0, "cmd=finalize");
        space.gone(0);
        space.line(2, "cmd=abort exitcode=3");
        space.told();
        space.gone(2);
        assert_eq!(space.told(), []);
        space.gone(1);
        assert_eq!(space.told(), [Told::Left(1)]);
        // One that goes while it waits for another is no reason.
        let mut space = Space::new("angara".into(), &[0, 1]);
        space.line(0, "cmd=barrier_in");
        space.gone(0);
        space.line(1, "cmd=barrier_in");
        assert_eq!((space.told(), space.round()), (vec![], 1));
    }

    #[test]
    fn what_makes_no_sense_is_an_error_and_no_more() {
        let mut space = Space::new("angara".into(), &[0, 1]);
        let long = "k".repeat(KEY_MAX);
        let text = "v".repeat(VALUE_MAX);
        for line in [
            "",
            "=",
            "cmd",
            "cmd=",
            "cmd=init pmi_version=2 pmi_subversion=0",
            "cmd=put key= value=1",
            &format!("cmd=put key={long} value=1"),
            &format!("cmd=put key=k value={text}"),
            "cmd=put key=PMI_process_mapping value=(vector,(0,1,2))",
            "cmd=barrier_in group=NODE",
            "cmd=no such\u{7f} command",
            "cmd=lookup_name service=x",
        ] {
            let said = said(&mut space, 0, line);
            assert!(said.contains(" rc=-1") && !said.contains('\u{7f}'), "{line}: {said}");
        }
        assert_eq!(space.too_long(0), Answer::Line("cmd=unknown rc=-1 msg=line_too_long".into()));
        assert_eq!((space.round(), space.told()), (0, vec![]));
    }

    #[test]
    fn what_one_publishes_is_bounded_and_does_not_bound_others() {
        let mut space = Space::new("angara".into(), &[0, 1]);
        let text = "v".repeat(VALUE_MAX - 1);
        let put = |space: &mut Space, rank, i| said(space, rank, &format!("cmd=put key=k{i} value={text}"));
        let refused = (0..10_000).find(|i| put(&mut space, 0, *i).contains("too_much"));
        assert!(refused.is_some_and(|i| i > 4000), "{refused:?}");
        assert!(put(&mut space, 1, 0).contains("success"));
    }

    #[test]
    fn more_processes_are_refused_when_the_last_of_them_is_described() {
        let mut space = Space::new("angara".into(), &[0]);
        let first =
            ["mcmd=spawn", "nprocs=2", "execname=./a", "totspawns=2", "spawnssofar=1", "arg1=cmd=abort", "endcmd"];
        let last = ["mcmd=spawn", "nprocs=2", "totspawns=2", "spawnssofar=2"];
        for line in first.iter().chain(&last) {
            assert_eq!(space.line(0, line), Answer::Nothing, "{line}");
        }
        assert_eq!(space.too_long(0), Answer::Nothing);
        assert!(said(&mut space, 0, "endcmd").starts_with("cmd=spawn_result rc=-1"));
        assert_eq!(space.told(), [Told::Spawn(0)]);
        assert!(said(&mut space, 0, "cmd=get_appnum").contains("rc=0"));
    }

    #[test]
    fn an_abort_names_status_and_reason() {
        let mut space = Space::new("angara".into(), &[0, 1]);
        assert_eq!(space.line(1, "cmd=abort exitcode=7 message=out of cheese"), Answer::Nothing);
        assert_eq!(space.line(1, "cmd=abort exitcode=8"), Answer::Nothing);
        assert_eq!(space.line(0, "cmd=abort"), Answer::Nothing);
        assert_eq!(space.told(), [Told::Abort(1, 7, "out of cheese".into()), Told::Abort(0, 1, String::new())]);
    }
}
