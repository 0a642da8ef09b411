//! What ends connections, and a whole run.

use super::model::{Record, What};
use super::program::{End, Program, TRASH};
use crate::world::RIGHTS;
use angara_hca::*;

/// More than any run takes.
const STEPS: usize = 300_000;

impl Program {
    /// A whole life.
    pub(crate) fn run(mut self) {
        for _ in 0..40 + self.rng.below(160) {
            self.step();
        }
        self.end_well();
    }

    fn step(&mut self) {
        let (link, i) = (self.rng.below(self.links.len() as u64) as usize, self.rng.below(2) as usize);
        match self.rng.below(24) {
            0..=6 if self.links[link].is_up => self.send(link, i),
            7..=11 if self.links[link].is_up => self.receive(link, i, false),
            12 => self.datagram(),
            13 => self.datagram_receive(),
            14..=16 => self.poll_any(),
            17 => self.regions(),
            18 if !self.gentle || self.rng.one_in(4) => self.trouble(link, i),
            _ => self.some_progress(12),
        }
    }

    fn poll_any(&mut self) {
        let seat = self.rng.below(self.seats.len() as u64) as u32;
        if self.is_lost(seat) {
            return;
        }
        let cq = self.rng.pick(&self.seats[seat as usize].cqs);
        let most = 1 + self.rng.below(6) as usize;
        self.poll(seat, cq, most);
    }

    /// Registers the shaky region of an adapter, or changes it, or deregisters it.
    fn regions(&mut self) {
        let seat = self.rng.below(self.seats.len() as u64) as u32;
        if self.is_lost(seat) {
            return;
        }
        let own = &mut self.seats[seat as usize];
        let pd = own.pd;
        match own.shaky.take() {
            None => {
                let len = 4096;
                let Some((at, _)) = self.place(seat, len, false) else { return };
                let region = self.world.adapters[seat as usize].register(pd, at, len, at, RIGHTS).expect("room");
                self.seats[seat as usize].shaky = Some((region, 0));
            }
            Some((region, _)) => {
                let hca = &mut self.world.adapters[seat as usize];
                if self.rng.one_in(3) {
                    let change = match self.rng.below(2) {
                        0 => RegionChange { access: Some(0), ..RegionChange::default() },
                        _ => RegionChange { range: Some((TRASH, 100)), ..RegionChange::default() },
                    };
                    hca.reregister(region.key, change).expect("a region");
                } else {
                    hca.deregister(region.key).expect("a region");
                    assert_eq!(hca.deregister(region.key), Err(Errno::INVAL));
                }
                self.model.freeze(&self.world, seat, region.at, region.len as usize, "deregistered");
            }
        }
    }

    fn trouble(&mut self, link: usize, i: usize) {
        let end = self.take_end(link, i);
        if self.is_lost(end.seat) {
            return;
        }
        match self.rng.below(8) {
            0 if !self.gentle => self.lose(end.seat),
            0 | 1 => self.break_off(&end),
            2 | 3 => self.drain(&end),
            4 if self.links[link].transport == Transport::Rc => self.reset(link, i),
            4 | 5 => self.destroy(link, i),
            _ => self.again(link),
        }
    }

    fn lose(&mut self, seat: u32) {
        if !self.lost.is_empty() {
            return;
        }
        self.world.lose(seat);
        self.lost.push(seat);
        let lives: Vec<usize> =
            (0..self.model.lives.len()).filter(|life| self.model.lives[*life].seat == seat).collect();
        for life in lives {
            let peer = self.model.lives[life].peer;
            self.model.lives[life].trouble = true;
            self.model.disturbed(peer);
        }
        self.model.owed.retain(|(its, _)| *its != seat);
    }

    fn break_off(&mut self, end: &End) {
        let Some(life) = end.life else { return };
        self.modify(end, 6, 0, &Attributes::default());
        let peer = self.model.lives[life].peer;
        self.model.lives[life].trouble = true;
        self.model.disturbed(peer);
        self.model.no_writes_to(&self.world, life);
        self.events(end.seat);
    }

    /// To where the send queue drains, and back.
    fn drain(&mut self, end: &End) {
        for state in [4, 3] {
            let hca = &mut self.world.adapters[end.seat as usize];
            let to = Attributes { state, ..Attributes::default() };
            // It may have failed by now.
            let _ = hca.modify_qp(end.qp, mask::STATE, &to);
            self.some_progress(6);
        }
    }

    fn reset(&mut self, link: usize, i: usize) {
        let end = self.take_end(link, i);
        self.modify(&end, 0, 0, &Attributes::default());
        if let Some(life) = end.life {
            self.model.ends(&self.world, life);
        }
        self.links[link].ends[i] = End { life: None, ..end };
        self.links[link].is_up = false;
    }

    fn destroy(&mut self, link: usize, i: usize) {
        let end = self.take_end(link, i);
        let hca = &mut self.world.adapters[end.seat as usize];
        hca.destroy_qp(end.qp).expect("a queue pair");
        assert_eq!(hca.destroy_qp(end.qp), Err(Errno::INVAL));
        assert!(hca.query_qp(end.qp).is_err());
        if let Some(life) = end.life {
            self.model.ends(&self.world, life);
        }
        let qp = self.world.adapters[end.seat as usize].create_qp(end.init).expect("another");
        assert_ne!(qp, end.qp, "the number of one that was just destroyed");
        self.links[link].ends[i] = End { life: None, qp, ..end };
        self.links[link].is_up = false;
    }

    /// Both ends begin anew.
    fn again(&mut self, link: usize) {
        if self.links[link].ends.iter().any(|end| self.lost.contains(&end.seat)) {
            return;
        }
        for i in [0, 1] {
            match self.links[link].transport {
                Transport::Rc => self.reset(link, i),
                // What is late of an unreliable connection is taken for a message of the next one.
                _ => self.destroy(link, i),
            }
            self.some_progress(4);
        }
        self.connect(link);
    }

    /// Receives for all that is on its way, and polls until nothing comes any more.
    fn end_well(&mut self) {
        for _ in 0..400 {
            let open = self.model.records.iter().filter(|record| !record.is_done && !record.is_dead).count();
            for link in 0..self.links.len() {
                for i in [0, 1] {
                    self.enough(link, i);
                }
            }
            self.rest();
            for seat in 0..self.seats.len() as u32 {
                for cq in self.seats[seat as usize].cqs.clone() {
                    if !self.is_lost(seat) {
                        self.poll(seat, cq, 10_000);
                    }
                }
            }
            if self.model.records.iter().filter(|record| !record.is_done && !record.is_dead).count() == open {
                break;
            }
        }
        self.model.at_the_end(&self.world, &self.lost);
    }

    fn enough(&mut self, link: usize, i: usize) {
        let End { seat, qp, life: Some(life), init, .. } = self.take_end(link, i) else { return };
        if self.is_lost(seat) {
            return;
        }
        let (state, _) = self.world.adapters[seat as usize].query_qp(qp).expect("it is there");
        if state.state == State::Sqd as u32 {
            self.drain(&self.take_end(link, i));
        }
        if state.state == State::Error as u32 {
            return;
        }
        for _ in 0..30 {
            let key = self.seats[seat as usize].main.key;
            let elements = [Element { at: TRASH, len: 4440, key }];
            let request =
                ReceiveRequest { wr_id: self.model.records.len() as u64, elements: elements.into_iter().collect() };
            let hca = &mut self.world.adapters[seat as usize];
            let posted = match init.srq {
                Some(srq) => hca.post_srq_receive(srq, request),
                None => hca.post_receive(qp, request),
            };
            if posted == Err(Errno::NOMEM) {
                return;
            }
            posted.expect("a receive");
            let its = init.srq.is_none().then_some(life);
            let record: Record = self.record(seat, its, What::Receive { room: 8000 }, &[]);
            let number = self.model.records.len();
            self.model.records.push(record);
            if init.srq.is_none() {
                self.model.lives[life].receives.push(number);
            }
        }
    }

    /// All make progress in any order, until nothing is left to do; time passes where all wait for it.
    fn rest(&mut self) {
        self.world.shared.borrow_mut().burst = None;
        let mut idle = 0;
        for _ in 0..STEPS {
            let alive: Vec<u32> = (0..self.seats.len() as u32).filter(|seat| !self.is_lost(*seat)).collect();
            let seat = self.rng.pick(&alive);
            let done = self.world.adapters[seat as usize].progress();
            self.events(seat);
            idle = if done { 0 } else { idle + 1 };
            if idle < 12 {
                continue;
            }
            // Whoever was not asked may have something to do.
            if alive.iter().any(|seat| self.world.adapters[*seat as usize].progress()) {
                idle = 0;
                continue;
            }
            let next = alive.iter().filter_map(|seat| self.world.adapters[*seat as usize].deadline()).min();
            let now = self.world.shared.borrow().now;
            let Some(next) = next else { return };
            // Some wait for ever, for a receive.
            self.world.shared.borrow_mut().now = next.max(now + 1);
            idle = 0;
        }
        panic!("it does not come to rest: {:?}", self.model.lives);
    }
}
