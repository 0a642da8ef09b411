//! A bystander for tests with hostile clients: a job whose memory has a known content.

use crate::client::{Client, attach_all};
use crate::daemon::{Control, Daemon, Job, spec};
use angara_abi::job::INTERNAL_BYTES;
use angara_protocol::msg::Path;

/// Bytes at the start of each user heap that the job itself uses while it is checked.
const BUSY: usize = 4096;

/// A well-behaved job on a daemon under attack. All its memory but a few words has a pattern, and
/// it goes on talking to itself through the rings.
pub struct Victim {
    control: Control,
    pub job: Job,
    /// Its PEs.
    pub clients: Vec<Client>,
    rounds: u64,
}

fn pattern(at: usize) -> u8 {
    ((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8
}

impl Victim {
    /// Starts a job of three PEs and fills its memory.
    pub fn start(daemon: &Daemon) -> Victim {
        let mut control = daemon.control();
        let (job, clients) = attach_all(daemon.dir(), &mut control, spec(3, Path::Ring));
        let victim = Victim { control, job, clients, rounds: 0 };
        let heap = &victim.clients[0].heap;
        let bytes: Vec<u8> = (0..heap.len()).map(pattern).collect();
        heap.write(0, &bytes).expect("inside");
        for client in &victim.clients {
            let bytes: Vec<u8> = (0..client.bounce.len() - 2 * BUSY).map(pattern).collect();
            client.bounce.write(2 * BUSY, &bytes).expect("inside");
        }
        victim
    }

    /// Fails if anyone wrote to the job's memory, a channel is in error, or puts do not work.
    pub fn check(&mut self, when: &str) {
        self.rounds += 1;
        for pe in 0..3 {
            let (to, value) = ((pe + 1) % 3, self.rounds * 3 + pe as u64);
            let done = self.clients[pe].put_and_quiet(to, 8 * pe, value);
            done.unwrap_or_else(|e| panic!("{when}: the bystander's PE {pe} cannot reach PE {to}: {e}"));
        }
        let (heap, stride) = (&self.clients[0].heap, self.clients[0].stride);
        let busy = |at: usize| (INTERNAL_BYTES..INTERNAL_BYTES + BUSY).contains(&(at % stride));
        let mut bytes = vec![0; heap.len()];
        heap.read(0, &mut bytes).expect("inside");
        if let Some(at) = (0..bytes.len()).find(|&at| bytes[at] != pattern(at) && !busy(at)) {
            panic!("{when}: byte {at:#x} of the bystander's heaps is {:#x}, not {:#x}", bytes[at], pattern(at));
        }
        for client in &self.clients {
            let mut bytes = vec![0; client.bounce.len() - 2 * BUSY];
            client.bounce.read(2 * BUSY, &mut bytes).expect("inside");
            let changed = (0..bytes.len()).find(|&at| bytes[at] != pattern(at));
            assert_eq!(changed, None, "{when}: the bounce region of the bystander's PE {} changed", client.pe);
            assert_eq!(client.channel.error(), None, "{when}: PE {}", client.pe);
        }
        assert!(self.control.events.is_empty(), "{when}: {:?}", self.control.events);
    }

    /// Ends the job in good order.
    pub fn end(mut self) {
        self.clients.into_iter().for_each(Client::detach);
        self.control.destroy(self.job.id);
    }
}
