//! A program as text, which `tests/c/mpi/oracle.c` reads.

use super::types::{Access, Collective, Message, Op, Program, Receive, Step, comm_rank};
use std::fmt::Write as _;

impl Program {
    /// As `tests/c/mpi/oracle.c` reads it. What receives may take is known once all messages are.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("program {}\n", self.number);
        for (i, step) in self.steps.iter().enumerate() {
            writeln!(text, "{} {i} {}", step.rank, self.words(step)).expect("a string");
        }
        text
    }
    fn send(&self, m: usize) -> String {
        let Message { comm, from: _, to, tag, bytes, mode, .. } = &self.messages[m];
        let to = comm_rank(self.ranks, *comm, *to);
        format!("{mode} {comm} {to} {tag} {bytes} {}", self.message_data(m))
    }
    fn receive(&self, r: usize) -> String {
        let Receive { comm, from, tag, .. } = &self.receives[r];
        let from = from.map_or(-1, |from| comm_rank(self.ranks, *comm, from) as i32);
        format!("{comm} {from} {}", tag.unwrap_or(-1))
    }

    /// Room for whatever it may get, and sometimes for more.
    fn most(&self, r: usize) -> usize {
        let receive = &self.receives[r];
        let bytes = match receive.group {
            Some(group) => self.messages.iter().filter(|m| m.group == Some(group)).map(|m| m.bytes).max(),
            None => Some(self.messages[receive.partner].bytes),
        };
        bytes.expect("a message") + if r.is_multiple_of(3) { 100 } else { 0 }
    }

    fn words(&self, step: &Step) -> String {
        let ranks = |all: &[usize]| all.iter().fold(all.len().to_string(), |text, rank| format!("{text} {rank}"));
        let called = |c: usize| {
            let Collective { name, comm, root, words, .. } = &self.collectives[c];
            let root = comm_rank(self.ranks, *comm, *root);
            format!("{name} {comm} {root} {words} {}", self.part(c, 0) / 64)
        };
        match &step.op {
            Op::Sleep(ns) => format!("sleep {ns}"),
            Op::Send(m) => format!("send {}", self.send(*m)),
            Op::Isend(m) => format!("isend {} {}", self.messages[*m].slot.expect("a slot"), self.send(*m)),
            Op::Recv(r) => format!("recv {} {}", self.receive(*r), self.most(*r)),
            Op::Irecv(r) => {
                format!("irecv {} {} {}", self.receives[*r].slot.expect("a slot"), self.receive(*r), self.most(*r))
            }
            Op::Ask(how, r) => format!("ask {how} {}", self.receive(*r)),
            Op::Sendrecv(m, r) => {
                format!("sendrecv {} {} {}", &self.send(*m)[2..], self.receive(*r)[2..].trim(), self.most(*r))
            }
            Op::Wait(how, slots) => {
                let slots: Vec<usize> = slots.iter().map(|(slot, _)| *slot).collect();
                format!("{how} {}", ranks(&slots))
            }
            Op::Coll(c) => format!("coll {}", called(*c)),
            Op::Icoll(c) => {
                format!("icoll {} {}", self.collectives[*c].slots[step.rank].expect("a slot"), called(*c))
            }
            Op::Epoch { how, window, targets, accesses } => {
                let mut text = match *how {
                    "start" => format!("epoch start {window} {}", ranks(targets)),
                    "fence" | "all" => format!("epoch {how} {window}"),
                    _ => format!("epoch {how} {window} {}", targets[0]),
                };
                write!(text, " {}", accesses.len()).expect("a string");
                for Access { what, target, offset, bytes, data } in accesses {
                    let rest = match what {
                        'f' | 'l' => String::new(),
                        'g' => format!(" {offset} {bytes}"),
                        _ => format!(" {offset} {bytes} {data}"),
                    };
                    write!(text, " {what} {target}{rest}").expect("a string");
                }
                text
            }
            Op::Post { window, origins } => format!("post {window} {}", ranks(origins)),
            Op::Exposed(window) => format!("exposed {window}"),
            Op::Window(window, bytes) => format!("window {window} {bytes}"),
        }
    }
}
