//! Processes that simulate one network together.
//!
//! Each process holds one part of the network ([`Network::among`](crate::Network::among)) and makes the same calls in
//! the same order as all others. [`Peers`] is what carries bytes and numbers between them. [`in_memory`] does so
//! between threads of one process, for tests.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// One process among those that simulate one network. All methods but the first two wait until every process has called
/// them.
pub trait Peers: Send + Sync {
    /// Number of this process, from 0.
    fn rank(&self) -> usize;
    /// Processes.
    fn count(&self) -> usize;
    /// Sends `mail[i]` to process `with[i]` and puts what that one sends into `into[i]`. If one process names another,
    /// that one names it, too.
    fn swap(&self, with: &[usize], mail: &[Vec<u8>], into: &mut [Vec<u8>]);
    /// Returns the least value of all processes. Values are below 2⁶³ − 1, or 2⁶⁴ − 1.
    fn least(&self, value: u64) -> u64;
    /// Replaces every number by its sum over all processes, modulo 2⁶⁴. All have as many numbers.
    fn sum(&self, values: &mut [u64]);
}

/// Longest wait for another thread.
const PATIENCE: Duration = Duration::from_secs(120);

/// What one thread brings to a meeting.
#[derive(Default)]
struct Brought {
    values: Vec<u64>,
    mail: Vec<(usize, Vec<u8>)>,
}

#[derive(Default)]
struct Table {
    round: u64,
    brought: Vec<Option<Brought>>,
    /// What all brought to the last meeting; nobody begins another before all have seen it.
    all: Arc<Vec<Brought>>,
}

struct Room {
    table: Mutex<Table>,
    changed: Condvar,
}

struct Thread {
    room: Arc<Room>,
    rank: usize,
    count: usize,
}

/// Returns `count` peers, one for each of as many threads.
pub fn in_memory(count: usize) -> Vec<Arc<dyn Peers>> {
    let table = Table { brought: (0..count).map(|_| None).collect(), ..Table::default() };
    let room = Arc::new(Room { table: Mutex::new(table), changed: Condvar::new() });
    (0..count).map(|rank| Arc::new(Thread { room: room.clone(), rank, count }) as Arc<dyn Peers>).collect()
}

impl Thread {
    /// Waits for all, and returns what each brought.
    fn meet(&self, mine: Brought) -> Arc<Vec<Brought>> {
        let mut table = self.lock();
        let round = table.round;
        table.brought[self.rank] = Some(mine);
        if table.brought.iter().all(Option::is_some) {
            table.all = Arc::new(table.brought.iter_mut().filter_map(Option::take).collect());
            table.round += 1;
            self.room.changed.notify_all();
            return table.all.clone();
        }
        let waited = self.room.changed.wait_timeout_while(table, PATIENCE, |table| table.round == round);
        let (table, waited) = waited.expect("no thread panics while it holds the lock");
        assert!(!waited.timed_out(), "waited {PATIENCE:?} for another part of the network");
        table.all.clone()
    }
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.room.table.lock().expect("no thread panics while it holds the lock")
    }
}

impl Peers for Thread {
    fn rank(&self) -> usize {
        self.rank
    }
    fn count(&self) -> usize {
        self.count
    }
    fn swap(&self, with: &[usize], mail: &[Vec<u8>], into: &mut [Vec<u8>]) {
        let mail = with.iter().copied().zip(mail.iter().cloned()).collect();
        let all = self.meet(Brought { mail, ..Brought::default() });
        for (from, into) in with.iter().zip(into) {
            let sent = all[*from].mail.iter().find(|(to, _)| *to == self.rank);
            into.clone_from(&sent.expect("who is named names back").1);
        }
    }
    fn least(&self, value: u64) -> u64 {
        let all = self.meet(Brought { values: vec![value], ..Brought::default() });
        all.iter().map(|b| b.values[0]).min().expect("at least this one")
    }
    fn sum(&self, values: &mut [u64]) {
        let all = self.meet(Brought { values: values.to_vec(), ..Brought::default() });
        for (i, value) in values.iter_mut().enumerate() {
            *value = all.iter().fold(0, |sum, b| sum.wrapping_add(b.values[i]));
        }
    }
}
