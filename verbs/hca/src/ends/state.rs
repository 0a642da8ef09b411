//! A queue pair of this adapter: its state, and how it changes.

use super::answers::Responder;
use super::sends::Initiator;
use crate::Result;
use crate::address::{lane_of, node_of_path};
use crate::completion::{Completion, Opcode, Status};
use crate::core::Core;
use crate::event::{Event, PairEvent};
use crate::handles::Qp;
use crate::network::{Memory, Network, Peer, PublicPair};
use crate::objects::limits;
use crate::pair::{Attributes, Init, State, Transport, mask};
use crate::region::access;
use crate::request::ReceiveRequest;
use rustix::io::Errno;
use std::collections::VecDeque;

pub(crate) struct Pair {
    pub(crate) qp: Qp,
    pub(crate) init: Init,
    pub(crate) state: State,
    pub(crate) attributes: Attributes,
    /// The adapter that it is connected to; none yet, or where nobody is.
    pub(crate) peer: Option<Peer>,
    pub(crate) sends: Initiator,
    pub(crate) answers: Responder,
    /// Its own receive requests, if it has no shared queue.
    pub(crate) receives: VecDeque<ReceiveRequest>,
    /// The program has been told that the peer sends already.
    pub(crate) is_established: bool,
    /// It stands among those that have something to do.
    pub(crate) is_ready: bool,
}

impl Pair {
    pub(crate) fn new(qp: Qp, init: Init) -> Pair {
        Pair {
            qp,
            init,
            state: State::Reset,
            attributes: Attributes { caps: init.caps, ..Attributes::default() },
            peer: None,
            sends: Initiator::default(),
            answers: Responder::default(),
            receives: VecDeque::new(),
            is_established: false,
            is_ready: false,
        }
    }

    /// It has something to do.
    pub(crate) fn is_due<N, M>(&mut self, core: &mut Core<N, M>) {
        if !std::mem::replace(&mut self.is_ready, true) {
            core.ready.push_back(self.qp);
        }
    }

    /// A completion of this queue pair, of a request that has come to nothing so far.
    pub(crate) fn completion<N: Network, M>(&self, core: &Core<N, M>, wr_id: u64, opcode: Opcode) -> Completion {
        Completion {
            wr_id,
            status: Status::Success,
            opcode,
            byte_len: 0,
            imm: 0,
            qp: self.qp.0,
            src_qp: 0,
            flags: 0,
            slid: 0,
            sl: 0,
            at: core.network.now(),
        }
    }

    /// To the error state: everything that is queued is flushed.
    pub(crate) fn fail<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>) {
        if self.state == State::Error {
            return;
        }
        self.state = State::Error;
        core.network.withdraw_pair(self.qp.0);
        self.flush_sends(core);
        self.flush_receives(core);
        if self.init.srq.is_some() {
            core.events.push(Event::Pair(self.qp, PairEvent::LastRequestReached));
        }
    }

    pub(crate) fn flush_receives<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>) {
        if let Some(request) = self.answers.give_up() {
            self.flush_receive(core, &request);
        }
        while let Some(request) = self.receives.pop_front() {
            self.flush_receive(core, &request);
        }
    }

    fn flush_receive<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>, request: &ReceiveRequest) {
        let flushed = Completion { status: Status::Flushed, ..self.completion(core, request.wr_id, Opcode::Receive) };
        core.complete(self.init.recv_cq, flushed, 0, false);
    }

    /// Changes attributes and state. What is refused changes nothing.
    pub(crate) fn modify<N: Network, M: Memory>(
        &mut self,
        core: &mut Core<N, M>,
        what: u32,
        to: &Attributes,
    ) -> Result<()> {
        let from = self.state;
        let next = match what & mask::STATE {
            0 => from,
            _ => State::from_number(to.state).ok_or(Errno::INVAL)?,
        };
        self.check(from, next, what, to)?;
        self.take(what, to);
        match next {
            State::Reset => {
                core.network.withdraw_pair(self.qp.0);
                // It stands in the adapter's lists once.
                let sends = Initiator { is_watched: self.sends.is_watched, ..Initiator::default() };
                *self = Pair { is_ready: self.is_ready, sends, ..Pair::new(self.qp, self.init) };
                self.forget_completions(core);
                return Ok(());
            }
            State::Error => self.fail(core),
            _ => self.state = next,
        }
        if next == State::Rtr && from != next {
            self.peer = None;
            self.finds_peer(core);
            // Numbers begin where both ends have agreed, so that what is late of a connection before is not taken for this.
            self.answers.expected = self.attributes.rq_psn;
            self.answers.is_ready();
        }
        if next == State::Rts && from == State::Rtr {
            self.sends.first = self.attributes.sq_psn;
        }
        if next.receives() {
            if from.receives() && what & mask::ACCESS != 0 {
                // Who still copies may do so by rights that are gone.
                core.network.withdraw_pair(self.qp.0);
            }
            self.publish(core);
        }
        if next == State::Sqd && from == State::Rts {
            self.sends.drains(self.attributes.sqd_async_notify);
        }
        self.is_due(core);
        Ok(())
    }

    /// Tells its peer's process what it may do by itself.
    pub(crate) fn publish<N: Network, M>(&self, core: &mut Core<N, M>) {
        if let Some(peer) = self.peer {
            core.network.publish_pair(&PublicPair {
                number: self.qp.0,
                peer,
                with: self.attributes.dest_qp,
                pd: self.init.pd.0,
                access: self.attributes.access,
            });
        }
    }

    /// Finds out who the peer of a connected pair is, unless that is known: it may have come later.
    pub(crate) fn finds_peer<N: Network, M: Memory>(&mut self, core: &mut Core<N, M>) {
        if self.peer.is_some() || self.init.transport == Transport::Ud || !self.state.receives() {
            return;
        }
        let node = node_of_path(&self.attributes.path);
        self.peer = node.and_then(|node| core.network.find(node, lane_of(self.attributes.dest_qp)));
        if self.peer.is_some() {
            self.publish(core);
        }
    }

    /// Completion queues know nothing of this queue pair any more.
    pub(crate) fn forget_completions<N, M>(&self, core: &mut Core<N, M>) {
        for cq in [self.init.send_cq, self.init.recv_cq] {
            if let Some(queue) = core.cqs.get_mut(&cq) {
                queue.entries.retain(|entry| entry.completion.qp != self.qp.0);
            }
        }
    }

    fn check(&self, from: State, next: State, what: u32, to: &Attributes) -> Result<()> {
        let refuse = |is_wrong: bool| if is_wrong { Err(Errno::INVAL) } else { Ok(()) };
        if what & mask::CUR_STATE != 0 {
            let said = State::from_number(to.cur_state).ok_or(Errno::INVAL)?;
            // Whoever says so may not have seen yet that a first message has come, or that the send queue failed.
            let is_close =
                matches!(from, State::Rts | State::Sqe) && matches!(said, State::Rtr | State::Rts | State::Sqe);
            refuse(said != from && !is_close)?;
        }
        let (required, optional) = masks(self.init.transport, from, next).ok_or(Errno::INVAL)?;
        refuse(what & required != required)?;
        refuse(what & !(required | optional | mask::STATE) != 0)?;
        refuse(what & mask::PORT != 0 && to.port != 1)?;
        refuse(what & mask::PKEY_INDEX != 0 && to.pkey_index != 0)?;
        refuse(what & mask::PATH_MTU != 0 && !(1..=5).contains(&to.path_mtu))?;
        refuse(what & mask::PATH != 0 && to.path.port > 1)?;
        refuse(what & mask::MAX_RD_ATOMIC != 0 && to.max_rd_atomic > limits::READS)?;
        refuse(what & mask::MAX_DEST_RD_ATOMIC != 0 && to.max_dest_rd_atomic > limits::READS)?;
        let rights = access::KNOWN | access::MW_BIND | access::FLUSH;
        refuse(what & mask::ACCESS != 0 && to.access & !rights != 0)?;
        refuse(what & mask::MIN_RNR_TIMER != 0 && to.min_rnr_timer > 31)?;
        refuse(what & mask::RNR_RETRY != 0 && to.rnr_retry > 7)?;
        refuse(what & mask::RETRY_CNT != 0 && to.retry_cnt > 7)?;
        refuse(what & mask::TIMEOUT != 0 && to.timeout > 31)
    }

    fn take(&mut self, what: u32, to: &Attributes) {
        let own = &mut self.attributes;
        macro_rules! take {
            ($($bit:ident: $($field:ident),+;)+) => {
                $(if what & mask::$bit != 0 { $(own.$field = to.$field;)+ })+
            };
        }
        take! {
            ACCESS: access;
            PKEY_INDEX: pkey_index;
            PORT: port;
            QKEY: qkey;
            PATH: path;
            PATH_MTU: path_mtu;
            TIMEOUT: timeout;
            RETRY_CNT: retry_cnt;
            RNR_RETRY: rnr_retry;
            RQ_PSN: rq_psn;
            MAX_RD_ATOMIC: max_rd_atomic;
            ALT_PATH: alt_path, alt_pkey_index, alt_port, alt_timeout;
            MIN_RNR_TIMER: min_rnr_timer;
            SQ_PSN: sq_psn;
            MAX_DEST_RD_ATOMIC: max_dest_rd_atomic;
            PATH_MIG_STATE: path_mig_state;
            DEST_QP: dest_qp;
            RATE_LIMIT: rate_limit;
            EN_SQD_ASYNC_NOTIFY: sqd_async_notify;
        }
    }
}

/// Attributes that a change of state needs, and those that it may have beside; nothing where there is no such change. The
/// tables of the specification for its three services.
fn masks(transport: Transport, from: State, to: State) -> Option<(u32, u32)> {
    use State::{Error, Init, Reset, Rtr, Rts, Sqd, Sqe};
    use Transport::{Rc, Uc, Ud};
    use mask::*;
    // What a service calls its rights: a key of datagrams, or what peers may do.
    let rights = if transport == Ud { QKEY } else { ACCESS };
    let connected = transport != Ud;
    let path = if connected { ALT_PATH | PATH_MIG_STATE } else { 0 };
    let rnr = if transport == Rc { MIN_RNR_TIMER } else { 0 };
    let found = match (from, to) {
        (_, Reset | Error) => (0, CUR_STATE),
        (Reset, Init) => (PKEY_INDEX | PORT | rights, 0),
        (Init, Init) => (0, PKEY_INDEX | PORT | rights),
        (Init, Rtr) => match transport {
            Ud => (0, PKEY_INDEX | QKEY),
            Uc => (PATH | PATH_MTU | DEST_QP | RQ_PSN, ALT_PATH | ACCESS | PKEY_INDEX),
            Rc => (
                PATH | PATH_MTU | DEST_QP | RQ_PSN | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER,
                ALT_PATH | ACCESS | PKEY_INDEX,
            ),
        },
        (Rtr, Rts) => {
            let retries = if transport == Rc { TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_RD_ATOMIC } else { 0 };
            (SQ_PSN | retries, CUR_STATE | rights | path | rnr | RATE_LIMIT)
        }
        (Rts, Rts) => (0, CUR_STATE | rights | path | rnr | RATE_LIMIT),
        (Rts, Sqd) => (0, EN_SQD_ASYNC_NOTIFY),
        (Sqd, Rts) => (0, CUR_STATE | rights | path | rnr),
        (Sqd, Sqd) => {
            let rc = TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_RD_ATOMIC | MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER;
            let way = if connected { PORT | PATH } else { 0 };
            (0, PKEY_INDEX | rights | path | way | if transport == Rc { rc } else { 0 })
        }
        (Sqe, Rts) if transport != Rc => (0, CUR_STATE | rights),
        _ => return None,
    };
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_these_changes_of_state_there_are() {
        let all = (0..=6).map(|n| State::from_number(n).expect("a state"));
        let steps = |transport| {
            all.clone()
                .flat_map(|from| all.clone().map(move |to| (from as u32, to as u32)))
                .filter(|(from, to)| {
                    let state = |n: &u32| State::from_number(*n).expect("a state");
                    masks(transport, state(from), state(to)).is_some() && *to != 0 && *to != 6
                })
                .collect::<Vec<_>>()
        };
        let usual = [(0, 1), (1, 1), (1, 2), (2, 3), (3, 3), (3, 4), (4, 3), (4, 4)];
        assert_eq!(steps(Transport::Rc), usual);
        assert_eq!(steps(Transport::Ud), [&usual[..], &[(5, 3)]].concat());
    }
}
