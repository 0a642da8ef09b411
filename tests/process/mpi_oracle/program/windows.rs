//! Epochs of windows: operations of which no order matters, and what is held after them.

use super::types::{Access, COUNTERS, FETCHED, Op, Program, Region, SIZES, add, data};
use angara_tests::Rng;

const WINDOW: usize = 1 << 20;

impl Program {
    /// Operations of one epoch. What is put has a place of its own, so that no order can matter.
    fn accesses(
        &mut self,
        rng: &mut Rng,
        origin: usize,
        window: usize,
        targets: &[usize],
        flushes: bool,
    ) -> Vec<Access> {
        let mut all = Vec::new();
        for _ in 0..rng.below(6) {
            let target = rng.pick(targets);
            let index = if window == 2 { 0 } else { target };
            let held = if window == 2 { origin } else { target };
            let memory = self.memory.entry((window, held)).or_insert_with(|| vec![0; COUNTERS]);
            let end = memory.len();
            let mut access = Access { what: 'p', target: index, offset: end, bytes: 8, data: 0 };
            match rng.below(5) {
                0 | 1 => {
                    access.what = rng.pick(&['p', 'a']);
                    access.bytes = rng.pick(&SIZES);
                    if access.what == 'a' {
                        access.bytes = access.bytes / 8 * 8;
                        access.offset = end.next_multiple_of(8);
                    }
                    if access.offset + access.bytes > WINDOW {
                        continue;
                    }
                    let mut bytes = vec![0; access.offset - end];
                    self.names += 1;
                    access.data = self.number * 10_000 + 5_000 + self.names;
                    bytes.extend(data(access.data, access.bytes));
                    memory.extend(bytes);
                    let Access { offset, bytes, data, .. } = access;
                    let visible = Some(origin);
                    self.regions.push(Region { window, target: held, offset, bytes, data, visible });
                    all.push(access);
                    if flushes {
                        all.push(Access { what: 'f', target: index, offset: 0, bytes: 0, data: 0 });
                    }
                }
                2 => {
                    let fits = |r: &&Region| {
                        // In an epoch without a flush, what is put in it cannot be got yet.
                        let old = flushes || !all.iter().any(|a| a.data == r.data);
                        r.window == window && r.target == held && r.visible.is_none_or(|o| o == origin) && old
                    };
                    let fitting: Vec<&Region> = self.regions.iter().filter(fits).collect();
                    if fitting.is_empty() {
                        continue;
                    }
                    let region = fitting[rng.below(fitting.len() as u64) as usize];
                    let Region { offset, bytes, data, .. } = *region;
                    all.push(Access { what: 'g', target: index, offset, bytes, data });
                }
                3 => {
                    access.what = 'a';
                    access.bytes = 8 * (1 + rng.below(7) as usize);
                    access.offset = 0;
                    access.data = self.name();
                    let memory = self.memory.get_mut(&(window, held)).expect("made above");
                    add(&mut memory[..access.bytes], &data(access.data, access.bytes));
                    all.push(access);
                }
                _ => {
                    (access.what, access.offset) = ('o', FETCHED);
                    access.data = self.name();
                    let memory = self.memory.get_mut(&(window, held)).expect("made above");
                    add(&mut memory[FETCHED..COUNTERS], &data(access.data, 8));
                    all.push(access);
                }
            }
        }
        all
    }

    pub(super) fn passive(&mut self, rng: &mut Rng) {
        let (rank, window) = (self.rank(rng), rng.pick(&[1, 1, 2]));
        let target = if window == 2 { rank } else { self.rank(rng) };
        let how = rng.pick(&["shared", "exclusive", "all"]);
        let everybody: Vec<usize> = (0..self.ranks).collect();
        let targets = if how == "all" && window != 2 { everybody } else { vec![target] };
        let accesses = self.accesses(rng, rank, window, &targets, true);
        let named = if window == 2 { vec![0] } else { targets };
        self.push(rank, Op::Epoch { how, window, targets: named, accesses });
    }

    pub(super) fn active(&mut self, rng: &mut Rng) {
        let everybody: Vec<usize> = (0..self.ranks).collect();
        let window = 0;
        if rng.one_in(2) {
            for rank in 0..self.ranks {
                let accesses = self.accesses(rng, rank, window, &everybody, false);
                self.push(rank, Op::Epoch { how: "fence", window, targets: everybody.clone(), accesses });
            }
            self.regions.iter_mut().filter(|r| r.window == window).for_each(|r| r.visible = None);
            return;
        }
        // Over libfabric, with any provider, MPICH 5.0.2 hangs where a rank posts for an origin that has not yet
        // started
        // its epoch at another rank.
        if self.collectives.iter().any(|c| c.comm == 0 && c.started.contains(&None)) {
            return;
        }
        self.barrier();
        let first = self.rank(rng);
        let split = 1 + rng.below(self.ranks as u64 - 1) as usize;
        let turned: Vec<usize> = (0..self.ranks).map(|i| (first + i) % self.ranks).collect();
        let (origins, targets) = turned.split_at(split);
        for target in targets {
            self.push(*target, Op::Post { window, origins: origins.to_vec() });
        }
        for origin in origins {
            let accesses = self.accesses(rng, *origin, window, targets, false);
            self.push(*origin, Op::Epoch { how: "start", window, targets: targets.to_vec(), accesses });
        }
        for target in targets {
            self.push(*target, Op::Exposed(window));
        }
    }

    /// What windows hold at the end.
    pub(super) fn windows(&mut self) {
        if self.memory.is_empty() {
            return;
        }
        self.barrier();
        let held: Vec<_> = self.memory.iter().map(|((window, rank), held)| (*window, *rank, held.len())).collect();
        for (window, rank, bytes) in held {
            self.push(rank, Op::Window(window, bytes));
        }
    }
}
