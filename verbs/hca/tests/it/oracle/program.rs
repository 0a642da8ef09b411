//! Random programs: what they ask of their adapters, and when adapters make progress.

use super::model::{Life, Model, Record, SOURCE, What, source};
use super::rng::Rng;
use crate::world::{BASE, BYTES, RIGHTS, World};
use angara_hca::*;

pub(super) const CAPS: Caps = Caps { send_wr: 24, recv_wr: 24, send_sge: 3, recv_sge: 3, inline_data: 64 };

/// From here to the end of memory are receives whose bytes nobody looks at.
pub(super) const TRASH: u64 = BASE + BYTES as u64 - 5000;

/// What a program has of one adapter.
pub(super) struct Seat {
    pub(super) pd: Pd,
    pub(super) main: Region,
    /// Of another protection domain, and without rights.
    pub(super) foreign: Region,
    pub(super) read_only: Region,
    /// One that may be deregistered any time, and how much of it is given away.
    pub(super) shaky: Option<(Region, u64)>,
    pub(super) cqs: Vec<Cq>,
    pub(super) srq: Option<Srq>,
    /// Up to where memory is given away.
    pub(super) next: u64,
}

/// One end of a connection.
pub(super) struct End {
    pub(super) seat: u32,
    pub(super) qp: Qp,
    pub(super) life: Option<usize>,
    pub(super) access: u32,
    pub(super) caps_used: u32,
    pub(super) init: Init,
}

pub(super) struct Link {
    pub(super) ends: [End; 2],
    pub(super) transport: Transport,
    pub(super) endless_rnr: bool,
    pub(super) is_up: bool,
}

pub(crate) struct Program {
    pub(super) world: World,
    pub(super) model: Model,
    pub(super) rng: Rng,
    pub(super) seats: Vec<Seat>,
    pub(super) links: Vec<Link>,
    pub(super) datagrams: Vec<End>,
    pub(super) lost: Vec<u32>,
    /// Nothing that fails is asked for.
    pub(super) gentle: bool,
    /// Bytes of the longest message.
    pub(super) longest: u64,
}

impl Program {
    pub(crate) fn new(seed: u64) -> Program {
        let mut rng = Rng::new(seed);
        let adapters = 2 + rng.below(3) as u32;
        let mut world = World::new(adapters, false);
        let ways = [None, Some(Copies::Registered), Some(Copies::All)];
        world.shared.borrow_mut().copies = ways[rng.below(3) as usize];
        let seats = (0..adapters).map(|seat| Program::seat(&mut world, &mut rng, seat)).collect();
        let gentle = rng.one_in(2);
        let longest = if rng.one_in(3) { 4400 } else { 700 };
        let model = Model::new(adapters, gentle);
        let (links, datagrams, lost) = (Vec::new(), Vec::new(), Vec::new());
        let mut program = Program { world, model, rng, seats, links, datagrams, lost, gentle, longest };
        for seat in 0..adapters {
            program.model.anything_at(seat, TRASH, BASE as usize + BYTES - TRASH as usize);
        }
        for _ in 0..1 + program.rng.below(4) {
            program.link();
        }
        for _ in 0..program.rng.below(3) {
            let seat = program.rng.below(adapters.into()) as u32;
            let end = program.end(seat, Transport::Ud);
            program.initialise(&end);
            let all = Attributes::default();
            program.modify(&end, 2, 0, &all);
            program.modify(&end, 3, mask::SQ_PSN, &all);
            let end = End { life: Some(program.live(&end, Transport::Ud, true)), ..end };
            program.datagrams.push(end);
        }
        program
    }

    pub(super) fn seat(world: &mut World, rng: &mut Rng, seat: u32) -> Seat {
        let bytes: Vec<u8> = (0..SOURCE).map(|i| source(seat, BASE + i)).collect();
        world.write(seat, BASE, &bytes);
        let hca = &mut world.adapters[seat as usize];
        let (pd, other) = (hca.alloc_pd().expect("pd"), hca.alloc_pd().expect("pd"));
        let mut region = |pd, rights| hca.register(pd, BASE, BYTES as u64, BASE, rights).expect("region");
        let (main, foreign, read_only) = (region(pd, RIGHTS), region(other, RIGHTS), region(pd, 0));
        let cqs = (0..1 + rng.below(3)).map(|n| hca.create_cq(4000, Some(n)).expect("cq")).collect();
        let srq = rng.one_in(2).then(|| hca.create_srq(pd, SrqAttributes { wr: 40, sge: 3, limit: 0 }).expect("srq"));
        Seat { pd, main, foreign, read_only, shaky: None, cqs, srq, next: BASE + SOURCE }
    }

    pub(super) fn end(&mut self, seat: u32, transport: Transport) -> End {
        let own = &self.seats[seat as usize];
        let init = Init {
            pd: own.pd,
            transport,
            send_cq: self.rng.pick(&own.cqs),
            recv_cq: self.rng.pick(&own.cqs),
            srq: own.srq.filter(|_| self.rng.one_in(2)),
            signal_all: self.rng.one_in(3),
            caps: CAPS,
        };
        let qp = self.world.adapters[seat as usize].create_qp(init).expect("qp");
        let access = if self.gentle || !self.rng.one_in(6) { RIGHTS } else { self.rng.below(16) as u32 };
        End { seat, qp, life: None, access, caps_used: 0, init }
    }

    /// Makes two queue pairs, or one that talks to itself, and connects them.
    pub(super) fn link(&mut self) {
        let adapters = self.seats.len() as u64;
        let transport = if self.rng.one_in(5) { Transport::Uc } else { Transport::Rc };
        let (a, b) = (self.rng.below(adapters) as u32, self.rng.below(adapters) as u32);
        let ends = [self.end(a, transport), self.end(b, transport)];
        let endless_rnr = self.gentle || !self.rng.one_in(4);
        self.links.push(Link { ends, transport, endless_rnr, is_up: false });
        self.connect(self.links.len() - 1);
    }

    pub(super) fn modify(&mut self, end: &End, state: u32, mask: u32, to: &Attributes) {
        let to = Attributes { state, ..*to };
        let hca = &mut self.world.adapters[end.seat as usize];
        hca.modify_qp(end.qp, mask | mask::STATE, &to).unwrap_or_else(|e| panic!("to {state}: {e}"));
    }

    pub(super) fn initialise(&mut self, end: &End) {
        let to = Attributes { port: 1, access: end.access, qkey: 7, ..Attributes::default() };
        let rights = if end.init.transport == Transport::Ud { mask::QKEY } else { mask::ACCESS };
        self.modify(end, 1, mask::PKEY_INDEX | mask::PORT | rights, &to);
    }

    pub(super) fn live(&mut self, end: &End, transport: Transport, endless_rnr: bool) -> usize {
        let Init { send_cq, recv_cq, srq, signal_all, .. } = end.init;
        let life = self.model.lives.len();
        self.model.lives.push(Life {
            seat: end.seat,
            qp: end.qp,
            transport,
            peer: None,
            cqs: (send_cq, recv_cq),
            srq,
            signal_all,
            endless_rnr,
            sends: Vec::new(),
            receives: Vec::new(),
            sent: 0,
            received: 0,
            taken: 0,
            failed: (false, false),
            trouble: false,
            is_over: false,
        });
        self.model.now.insert((end.seat, end.qp), life);
        life
    }

    /// Both ends from the reset state to where they send.
    pub(super) fn connect(&mut self, link: usize) {
        let Link { transport, endless_rnr, .. } = self.links[link];
        let lives = [0, 1].map(|i| {
            let end = self.take_end(link, i);
            let life = self.live(&end, transport, endless_rnr);
            self.initialise(&end);
            self.links[link].ends[i] = End { life: Some(life), caps_used: 0, ..end };
            life
        });
        for i in [0, 1] {
            self.model.lives[lives[i]].peer = Some(lives[1 - i]);
        }
        let psn = [self.rng.below(1 << 24) as u32, self.rng.below(1 << 24) as u32];
        let first = self.rng.below(2) as usize;
        for step in [2, 3] {
            for i in [first, 1 - first] {
                self.some_progress(3);
                let end = self.take_end(link, i);
                let (to, qp) = (self.links[link].ends[1 - i].seat, self.links[link].ends[1 - i].qp);
                let path = PathAttributes { dlid: address::lid(to), port: 1, ..PathAttributes::default() };
                let rnr_retry = if endless_rnr { 7 } else { self.rng.below(3) as u8 };
                let (sq_psn, rq_psn) = (psn[i], psn[1 - i]);
                let all = Attributes { path, path_mtu: 5, dest_qp: qp.0, sq_psn, rq_psn, ..self.attributes(rnr_retry) };
                use mask::*;
                let rc = transport == Transport::Rc;
                let mask = match step {
                    2 => PATH | PATH_MTU | DEST_QP | RQ_PSN | if rc { MAX_DEST_RD_ATOMIC | MIN_RNR_TIMER } else { 0 },
                    _ => SQ_PSN | if rc { TIMEOUT | RETRY_CNT | RNR_RETRY | MAX_RD_ATOMIC } else { 0 },
                };
                if step == 3 && self.has_failed(&end) {
                    let asks = |record: &usize| {
                        let one = &self.model.records[*record];
                        one.fails.is_some() || one.is_shaky
                    };
                    let its = self.model.lives[lives[1 - i]].sends.iter().any(asks) || end.init.srq.is_some();
                    assert!(its, "it fails before it is ready to send");
                    self.links[link].ends[i] = end;
                    continue;
                }
                self.modify(&end, step, mask, &all);
                self.links[link].ends[i] = end;
                if step == 3 && self.rng.one_in(2) {
                    self.send(link, i);
                }
            }
        }
        self.links[link].is_up = true;
    }

    pub(super) fn has_failed(&self, end: &End) -> bool {
        let (now, _) = self.world.adapters[end.seat as usize].query_qp(end.qp).expect("it is there");
        now.state == State::Error as u32
    }

    pub(super) fn attributes(&mut self, rnr_retry: u8) -> Attributes {
        Attributes {
            max_dest_rd_atomic: 16,
            max_rd_atomic: 1 + self.rng.below(6) as u8,
            min_rnr_timer: 1 + self.rng.below(12) as u8,
            timeout: 8 + self.rng.below(6) as u8,
            retry_cnt: 7,
            rnr_retry,
            ..Attributes::default()
        }
    }

    /// A copy, so that the rest of the program can be used beside it.
    pub(super) fn take_end(&self, link: usize, i: usize) -> End {
        let End { seat, qp, life, access, caps_used, init } = self.links[link].ends[i];
        End { seat, qp, life, access, caps_used, init }
    }

    pub(super) fn is_lost(&self, seat: u32) -> bool {
        self.lost.contains(&seat)
    }

    /// Some adapters make progress, or time passes.
    pub(super) fn some_progress(&mut self, steps: u64) {
        for _ in 0..self.rng.below(steps + 1) {
            let seat = self.rng.below(self.seats.len() as u64) as u32;
            {
                let mut shared = self.world.shared.borrow_mut();
                shared.burst = (!self.rng.one_in(3)).then(|| 1 + self.rng.below(6) as usize);
                shared.first = self.rng.below(8) as u32;
                if self.rng.one_in(4) {
                    shared.now += self.rng.pick(&[100, 10_000, 700_000, 4_000_000]);
                }
            }
            if !self.is_lost(seat) {
                self.world.adapters[seat as usize].progress();
                self.events(seat);
            }
        }
    }

    pub(super) fn events(&mut self, seat: u32) {
        for event in self.world.adapters[seat as usize].take_events() {
            if let Event::Completion { cq, .. } = event {
                let was = self.model.armed.remove(&(seat, cq));
                assert!(was.is_some(), "an event of {cq:?}, which was not armed");
                self.model.owed.retain(|owed| *owed != (seat, cq));
            }
        }
    }

    pub(super) fn poll(&mut self, seat: u32, cq: Cq, most: usize) {
        let mut all = Vec::new();
        self.world.adapters[seat as usize].poll(cq, most, &mut |c| all.push(*c)).expect("a queue");
        for c in &all {
            let life = self.model.now.get(&(seat, Qp(c.qp))).copied();
            let before = life.map(|life| self.model.lives[life].sent);
            self.model.completed(&self.world, seat, cq, c);
            if let (Some(life), Some(before)) = (life, before) {
                let freed = (self.model.lives[life].sent - before) as u32;
                let ends = self.links.iter_mut().flat_map(|link| &mut link.ends).chain(&mut self.datagrams);
                for end in ends.filter(|end| end.life == Some(life)) {
                    end.caps_used -= freed;
                }
            }
        }
        self.events(seat);
        assert!(!self.model.owed.contains(&(seat, cq)), "no event of {cq:?} at {seat}: {all:?}");
        if all.len() < most && self.rng.one_in(3) && !self.model.armed.contains_key(&(seat, cq)) {
            // Others may have come into it between: it counts from here on what is polled later.
            let mut more = 0;
            let solicited = self.rng.one_in(2);
            let hca = &mut self.world.adapters[seat as usize];
            hca.arm(cq, solicited).expect("a queue");
            hca.poll(cq, 0, &mut |_| more += 1).expect("a queue");
            self.model.armed.insert((seat, cq), solicited);
        }
    }

    /// Memory that nobody else has, of the main region or of the shaky one.
    pub(super) fn place(&mut self, seat: u32, len: u64, shaky: bool) -> Option<(u64, u32)> {
        let own = &mut self.seats[seat as usize];
        if shaky {
            let (region, used) = own.shaky.as_mut()?;
            let at = region.at + *used;
            *used += len.next_multiple_of(8);
            return (*used <= region.len).then_some((at, region.key));
        }
        let at = own.next;
        own.next += len.next_multiple_of(8);
        (own.next <= TRASH).then_some((at, own.main.key))
    }

    pub(super) fn length(&mut self) -> u64 {
        match self.rng.below(8) {
            0 => 0,
            1 | 2 => self.rng.below(16),
            3..=5 => self.rng.below(300),
            6 => self.rng.below(self.longest),
            _ => self.longest - self.rng.below(300),
        }
    }

    /// Elements for so many bytes to come, each at a place of its own.
    pub(super) fn room(&mut self, seat: u32, len: u64, shaky: bool) -> Option<Vec<Element>> {
        let parts = 1 + self.rng.below(3).min(len);
        let mut left = len;
        (0..parts)
            .map(|part| {
                let here = if part + 1 == parts { left } else { self.rng.below(left + 1) };
                left -= here;
                let (at, key) = self.place(seat, here, shaky)?;
                Some(Element { at, len: here as u32, key })
            })
            .collect()
    }

    /// Elements of the source, and their bytes.
    pub(super) fn bytes(&mut self, seat: u32, len: u64) -> (Vec<Element>, Vec<u8>) {
        let key = self.seats[seat as usize].main.key;
        let parts = 1 + self.rng.below(3).min(len);
        let (mut left, mut bytes) = (len, Vec::new());
        let elements = (0..parts).map(|part| {
            let here = if part + 1 == parts { left } else { self.rng.below(left + 1) };
            left -= here;
            let at = BASE + self.rng.below(SOURCE - here);
            bytes.extend((at..at + here).map(|at| source(seat, at)));
            Element { at, len: here as u32, key }
        });
        (elements.collect(), bytes)
    }

    pub(super) fn imm(&mut self) -> Option<u32> {
        self.rng.one_in(2).then(|| self.rng.next() as u32)
    }

    pub(super) fn spoil(&mut self, seat: u32, elements: &mut [Element]) -> bool {
        let own = &self.seats[seat as usize];
        let keys = [own.foreign.key, 77, own.main.key ^ 1];
        match elements.iter_mut().find(|element| element.len > 0) {
            Some(element) if !self.gentle && self.rng.one_in(25) => {
                element.key = self.rng.pick(&keys);
                true
            }
            _ => false,
        }
    }

    pub(super) fn record(&mut self, seat: u32, life: Option<usize>, what: What, elements: &[Element]) -> Record {
        let pieces = elements.iter().map(|one| (one.at, one.len)).collect();
        let (signaled, solicited) = (!self.rng.one_in(3), self.rng.one_in(2));
        Record {
            seat,
            life,
            what,
            pieces,
            fails: None,
            is_shaky: false,
            signaled,
            solicited,
            is_done: false,
            is_dead: false,
        }
    }

    pub(super) fn receive(&mut self, link: usize, i: usize, generous: bool) {
        let End { seat, qp, life: Some(life), init, .. } = self.take_end(link, i) else { return };
        self.post_receive(seat, qp, life, init.srq, generous);
    }

    pub(super) fn post_receive(&mut self, seat: u32, qp: Qp, life: usize, srq: Option<Srq>, generous: bool) {
        let own = self.model.lives[life].receives.len() - self.model.lives[life].received;
        if self.is_lost(seat) || srq.is_none() && own >= CAPS.recv_wr as usize {
            return;
        }
        let is_short = !generous && !self.gentle && self.rng.one_in(8);
        let len = if is_short { self.rng.below(500) } else { 8000 };
        let shaky = is_short && self.rng.one_in(2);
        let Some(mut elements) = self.room(seat, if is_short { len } else { self.longest + 40 }, shaky) else { return };
        let mut spoilt = false;
        if is_short {
            spoilt = self.spoil(seat, &mut elements);
        }
        let room = if is_short { len as u32 } else { 8000 };
        let mut record = self.record(seat, srq.is_none().then_some(life), What::Receive { room }, &elements);
        record.fails = spoilt.then_some(Status::LocalProtection);
        record.is_shaky = shaky;
        let request =
            ReceiveRequest { wr_id: self.model.records.len() as u64, elements: elements.iter().copied().collect() };
        let hca = &mut self.world.adapters[seat as usize];
        let posted = match srq {
            Some(srq) => hca.post_srq_receive(srq, request),
            None => hca.post_receive(qp, request),
        };
        match posted {
            Ok(()) => {}
            Err(Errno::NOMEM) if srq.is_some() => return,
            Err(other) => panic!("a receive: {other}"),
        }
        for element in &elements {
            self.model.anything_at(seat, element.at, element.len as usize);
        }
        if srq.is_none() {
            let number = self.model.records.len();
            self.model.lives[life].receives.push(number);
        }
        self.model.records.push(record);
    }

    /// Posts a random request.
    pub(super) fn send(&mut self, link: usize, i: usize) {
        let End { seat, qp, life: Some(life), .. } = self.take_end(link, i) else { return };
        if self.is_lost(seat) {
            return;
        }
        let reliable = self.links[link].transport == Transport::Rc;
        let kind = if reliable { self.rng.below(8) } else { self.rng.below(5) };
        let made = match kind {
            0..=2 => self.a_send(seat, life),
            3 | 4 => self.a_write(link, i),
            5 | 6 => self.a_read(link, i),
            _ => self.an_atomic(link, i),
        };
        let Some((operation, elements, record)) = made else { return };
        self.post(seat, qp, life, (operation, elements, record));
    }

    pub(super) fn post(&mut self, seat: u32, qp: Qp, life: usize, (operation, elements, record): Asked) {
        let inline = match &record.what {
            What::Send { bytes, .. } | What::Write { bytes, .. } if bytes.len() <= 64 && record.fails.is_none() => {
                self.rng.one_in(2).then(|| bytes.clone())
            }
            _ => None,
        };
        let payload = match inline {
            Some(bytes) => Payload::Inline(bytes.into()),
            None => Payload::Elements(elements.iter().copied().collect()),
        };
        let request = SendRequest {
            wr_id: self.model.records.len() as u64,
            operation,
            payload,
            signaled: record.signaled,
            fence: self.rng.one_in(6),
            solicited: record.solicited,
        };
        let number = self.model.records.len();
        match &record.what {
            What::Write { to, at, bytes, .. } if record.fails.is_none() => self.model.may_be(*to, *at, bytes),
            What::Read { .. } | What::Add { .. } | What::Swap { .. } => {
                for (at, len) in &record.pieces {
                    self.model.anything_at(seat, *at, *len as usize);
                }
            }
            _ => {}
        }
        self.model.records.push(record);
        self.model.lives[life].sends.push(number);
        let posted = self.world.adapters[seat as usize].post_send(qp, request);
        let ends = self.links.iter_mut().flat_map(|link| &mut link.ends).chain(&mut self.datagrams);
        let end = ends.into_iter().find(|end| end.life == Some(life)).expect("an end");
        if end.caps_used == CAPS.send_wr {
            assert_eq!(posted, Err(Errno::NOMEM));
            self.model.lives[life].sends.pop();
            // Nothing will come of it.
            self.model.records[number].is_dead = true;
        } else {
            assert_eq!(posted, Ok(()));
            end.caps_used += 1;
        }
    }

    pub(super) fn a_send(&mut self, seat: u32, life: usize) -> Option<Asked> {
        let len = self.length();
        let (mut elements, bytes) = self.bytes(seat, len);
        let spoilt = self.spoil(seat, &mut elements);
        let imm = self.imm();
        let mut record = self.record(seat, Some(life), What::Send { bytes, imm }, &elements);
        record.fails = spoilt.then_some(Status::LocalProtection);
        Some((Operation::Send { imm }, elements, record))
    }

    pub(super) fn a_write(&mut self, link: usize, i: usize) -> Option<Asked> {
        let (own, peer) = (self.take_end(link, i), self.take_end(link, 1 - i));
        let len = self.length();
        let (mut elements, bytes) = self.bytes(own.seat, len);
        let shaky = !self.gentle && self.rng.one_in(4);
        let (at, key) = self.place(peer.seat, len, shaky)?;
        let (key, remote) = self.spoil_key(peer.seat, key, len, peer.access & access::REMOTE_WRITE != 0);
        let local = self.spoil(own.seat, &mut elements);
        let imm = self.imm();
        let what = What::Write { to: peer.seat, at, bytes, imm };
        let mut record = self.record(own.seat, own.life, what, &elements);
        record.fails = remote.then_some(Status::RemoteAccess);
        if local {
            record.fails = Some(Status::LocalProtection);
        }
        record.is_shaky = shaky;
        Some((Operation::Write { at, key, imm }, elements, record))
    }

    /// Another key than that, and whether the request cannot succeed.
    pub(super) fn spoil_key(&mut self, seat: u32, key: u32, len: u64, may: bool) -> (u32, bool) {
        let own = &self.seats[seat as usize];
        let keys = [own.foreign.key, own.read_only.key, 77];
        match !self.gentle && self.rng.one_in(25) && len > 0 {
            true => (self.rng.pick(&keys), true),
            false => (key, !may),
        }
    }

    pub(super) fn a_read(&mut self, link: usize, i: usize) -> Option<Asked> {
        let (own, peer) = (self.take_end(link, i), self.take_end(link, 1 - i));
        let len = self.length();
        // What an earlier request of the same queue has written, or what never changes.
        let written =
            self.model.lives[own.life?].sends.iter().rev().find_map(|record| match &self.model.records[*record] {
                Record { what: What::Write { at, bytes, .. }, fails: None, is_shaky: false, .. } => {
                    Some((*at, bytes.clone()))
                }
                _ => None,
            });
        let (from, expected) = match written.filter(|_| self.rng.one_in(2)) {
            Some(written) => written,
            None => {
                let at = BASE + self.rng.below(SOURCE - len);
                (at, (at..at + len).map(|at| source(peer.seat, at)).collect())
            }
        };
        let len = expected.len() as u64;
        let shaky = !self.gentle && self.rng.one_in(6);
        let elements = self.room(own.seat, len, shaky)?;
        let key = self.seats[peer.seat as usize].main.key;
        let (key, remote) = self.spoil_key(peer.seat, key, len, peer.access & access::REMOTE_READ != 0);
        let mut record = self.record(own.seat, own.life, What::Read { expected }, &elements);
        record.fails = remote.then_some(Status::RemoteAccess);
        record.is_shaky = shaky;
        Some((Operation::Read { at: from, key }, elements, record))
    }

    pub(super) fn an_atomic(&mut self, link: usize, i: usize) -> Option<Asked> {
        let (own, peer) = (self.take_end(link, i), self.take_end(link, 1 - i));
        let elements = self.room(own.seat, 8, false)?;
        let (mut at, mut key) = self.place(peer.seat, 8, false)?;
        let swap = self.rng.one_in(2);
        let what = if swap {
            What::Swap { old: 0 }
        } else {
            // All that add do it to the first word that one of them was given.
            let found = self.model.records.iter().find_map(|record| match record.what {
                What::Add { word } if word.0 == peer.seat => Some(word.1),
                _ => None,
            });
            at = found.unwrap_or(at);
            What::Add { word: (peer.seat, at) }
        };
        let odd = !self.gentle && self.rng.one_in(30);
        let (same, remote) = self.spoil_key(peer.seat, key, 8, peer.access & access::REMOTE_ATOMIC != 0);
        key = same;
        let mut record = self.record(own.seat, own.life, what, &elements);
        record.fails = match (remote, odd) {
            (true, _) => Some(Status::RemoteAccess),
            (_, true) => Some(Status::RemoteInvalidRequest),
            _ => None,
        };
        if record.fails.is_none() {
            self.model.anything_at(peer.seat, at, 8);
        }
        let target = if odd { at + 4 } else { at };
        let operation = match swap {
            true => Operation::CompareSwap { at: target, key, compare: 0, swap: self.rng.next() },
            false => Operation::FetchAdd { at: target, key, add: 1 },
        };
        Some((operation, elements, record))
    }

    pub(super) fn datagram(&mut self) {
        if self.datagrams.is_empty() {
            return;
        }
        let (from, to) = (self.rng.below(self.datagrams.len() as u64), self.rng.below(self.datagrams.len() as u64));
        let (from, to) = (&self.datagrams[from as usize], &self.datagrams[to as usize]);
        let (seat, qp, life, to) = (from.seat, from.qp, from.life.expect("alive"), (to.seat, to.qp));
        if self.is_lost(seat) {
            return;
        }
        let len = self.rng.below(128);
        let (elements, bytes) = self.bytes(seat, len);
        let (imm, grh) = (self.imm(), self.rng.one_in(2));
        let dgid = address::gids(address::LinkLayer::InfiniBand, to.0)[0].0;
        let path =
            PathAttributes { dlid: address::lid(to.0), port: 1, is_global: grh, dgid, ..PathAttributes::default() };
        let record = self.record(seat, Some(life), What::Datagram { bytes, imm, to, grh }, &elements);
        let operation = Operation::Datagram { to: path, qp: to.1.0, qkey: 7, imm };
        self.post(seat, qp, life, (operation, elements, record));
    }

    pub(super) fn datagram_receive(&mut self) {
        if let Some(end) = self.datagrams.first() {
            let (seat, qp, life, srq) = (end.seat, end.qp, end.life.expect("alive"), end.init.srq);
            self.post_receive(seat, qp, life, srq, true);
            self.datagrams.rotate_left(1);
        }
    }
}

pub(super) type Asked = (Operation, Vec<Element>, Record);
