//! Reports: what the PEs of a job have exchanged and what that put on the links, gathered from all hosts.
//!
//! Everything but the traffic between each two PEs is one answer. Pairs can be millions, so they are asked
//! for a piece at a time and read where the PEs have counted them. Nothing here holds up the data plane for
//! longer than one PE's counters take, or keeps a copy of them.

mod merge;

use crate::ask::ask;
use crate::daemon::Daemon;
use crate::hosts::protocol::{Answer, Ask};
use angara_abi::JobId;
use angara_fabric::{BarrierCheck, JobSlot};
use angara_net::HostId;
use angara_plane::PeMemory;
use angara_plane::{Command, Dead, Folded};
use angara_protocol::doubts;
use angara_protocol::msg::{BarrierReport, LinkReport, PAIRS_MAX, PairReport, Pairs, Report, TimesPiece};
use merge::merge;
use std::sync::Arc;

/// Rows that one target PE may take in an answer.
const ROWS: usize = angara_abi::account::CLASSES;

impl Daemon {
    /// Traffic of a job so far, on all hosts, without pairs.
    pub(crate) async fn full_report(&self, id: JobId) -> Option<Report> {
        let mut all = self.report(id).await?;
        if let Some(messages) = &self.cluster.messages {
            let hosts = self.jobs.table.borrow().get(&id)?.hosts.clone();
            for host in hosts {
                match messages.ask(host, Ask::Report(id)).await {
                    Ok(Answer::Report(part)) => merge(&mut all, *part, messages.name(host)),
                    Ok(_) => all.notes.push(format!("host {} gave no traffic", messages.name(host))),
                    Err(f) => {
                        all.notes.push(format!("traffic of host {} is missing: {}", messages.name(host), f.message))
                    }
                }
            }
        }
        Some(all)
    }

    /// Returns what virtual time went for, a piece of it from `from` on; nothing where it is not virtual. Such a
    /// daemon has one job.
    pub(crate) async fn times_piece(&self, from: u32) -> TimesPiece {
        ask(&self.data, |reply| Command::TimesPiece(from, reply)).await.unwrap_or_default()
    }

    /// Traffic of a job so far, as this host has counted it, without pairs; `None` if there is no such job.
    pub(crate) async fn report(&self, id: JobId) -> Option<Report> {
        let (slot, pes) = {
            let jobs = self.jobs.table.borrow();
            let memory = &jobs.get(&id)?.memory;
            (memory.slot, memory.pes)
        };
        let folded = self.fold(slot, pes).await;
        let (links, check, mut notes) =
            folded.unwrap_or_else(|e| (vec![], BarrierCheck::default(), vec![e.to_string()]));
        let virtual_time = ask(&self.data, Command::Times).await.ok().flatten();
        let doubted = ask(&self.data, Command::Status).await.ok().and_then(|(_, time, _)| Some(time?.doubted));
        let jobs = self.jobs.table.borrow();
        let job = jobs.get(&id)?;
        let ended = virtual_time.as_ref().map(|times| times.pes.iter().map(|pe| pe.end).max().unwrap_or(0));
        notes.extend(doubts::lines(&doubted.unwrap_or_default()));
        notes.splice(0..0, job.notes());
        Some(Report {
            job: id,
            name: job.spec.name.clone(),
            shape: self.options.shape,
            path: job.spec.path,
            placement: job.placement(),
            set: job.descriptor.new.set.clone(),
            wall_s: ended.map_or_else(|| job.created.elapsed().as_secs_f64(), |ps| ps as f64 / 1e12),
            virtual_time,
            pairs: Vec::new(),
            links,
            barriers: BarrierReport {
                family: job.memory.page.geometry().map_or(job.spec.barrier, |g| g.barrier),
                left: check.left,
                early: check.early,
                unfinished: check.unfinished,
                late: check.late,
            },
            notes,
        })
    }

    /// Returns what PEs of a job put on each link, one PE after the other: the data plane serves others between them.
    async fn fold(&self, slot: JobSlot, pes: usize) -> Result<(Vec<LinkReport>, BarrierCheck, Vec<String>), Dead> {
        let mut folded: Folded = ask(&self.data, |reply| Command::Folded(slot, reply)).await?;
        for pe in 0..pes {
            folded = ask(&self.data, |reply| Command::FoldPe(slot, pe, folded, reply)).await?.value;
        }
        ask(&self.data, |reply| Command::JobLinks(slot, pes, folded, reply)).await
    }

    /// Traffic between pairs of PEs of a job, on all hosts: a piece from `from` on, source and target.
    pub(crate) async fn all_pairs(&self, id: JobId, from: (u32, u32)) -> Option<Pairs> {
        let (owner, after) = self.whose(id, from.0)?;
        let Some(host) = owner else { return self.pairs(id, from).await };
        let asked = match &self.cluster.messages {
            Some(messages) => messages.ask(host, Ask::Pairs(id, from.0, from.1)).await,
            None => return self.pairs(id, from).await,
        };
        match asked {
            Ok(Answer::Pairs(pairs)) => Some(pairs),
            // That its traffic is missing is among the notes of the report.
            _ => Some(Pairs { pairs: vec![], next: after.map(|pe| (pe, 0)) }),
        }
    }

    /// The host on which a PE counts, unless it is this one, and the next PE that is on another.
    fn whose(&self, id: JobId, pe: u32) -> Option<(Option<HostId>, Option<u32>)> {
        let jobs = self.jobs.table.borrow();
        let entries = &jobs.get(&id)?.memory.entries;
        let owner = |pe: usize| {
            let messages = self.cluster.messages.as_ref()?;
            let host = *messages.owners.get(entries.get(pe)?.node as usize)?;
            (host != messages.me).then_some(host)
        };
        let first = owner(pe as usize);
        let after = (pe as usize..entries.len()).find(|pe| owner(*pe) != first);
        Some((first, after.map(|pe| pe as u32)))
    }

    /// The part of [`Daemon::all_pairs`] that PEs of this host have counted, up to the first PE of another one.
    pub(crate) async fn pairs(&self, id: JobId, from: (u32, u32)) -> Option<Pairs> {
        let (slot, first, end) = {
            let jobs = self.jobs.table.borrow();
            let memory = &jobs.get(&id)?.memory;
            let first = (from.0 as usize).min(memory.pes);
            let here = memory.here[first..].iter().take_while(|here| **here).count();
            (memory.slot, first, first + here)
        };
        let counters = ask(&self.data, |reply| Command::PeMemory(slot, first..end, reply)).await.unwrap_or_default();
        let mut pairs = Vec::new();
        for pe in counters {
            let start = if pe.pe == from.0 as usize { from.1 } else { 0 };
            if let Some(next) = add_rows(&mut pairs, &pe, start) {
                return Some(Pairs { pairs, next: Some(next) });
            }
            // Other clients' turn.
            tokio::task::yield_now().await;
        }
        let pes = self.jobs.table.borrow().get(&id)?.memory.pes;
        let next = (end < pes).then_some((end as u32, 0));
        Some(Pairs { pairs, next })
    }
}

/// Adds what one PE has counted, from target `start` on; where to go on if there is no room for all.
fn add_rows(pairs: &mut Vec<PairReport>, pe: &Arc<PeMemory>, start: u32) -> Option<(u32, u32)> {
    let from = pe.pe as u32;
    let mut last = None;
    for (to, class, traffic) in pe.counted().into_iter().filter(|(to, _, _)| *to as u32 >= start) {
        let to = to as u32;
        // All classes of a target, or none.
        if last != Some(to) && pairs.len() + ROWS > PAIRS_MAX {
            return Some((from, to));
        }
        last = Some(to);
        pairs.push(PairReport { from, to, class, traffic });
    }
    None
}
