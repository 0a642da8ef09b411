//! The processes that mpiexec has started, as those that simulate one network.

use crate::calls::{Calls, Loaded, Sending};
use angara_model::Peers;
use std::sync::{Arc, Mutex};

/// Bytes of a first message: how long all is, and the beginning. What does not fit follows in a second one.
const FIRST: usize = 16 << 10;
/// Bytes of the number at its beginning.
const HEAD: usize = size_of::<u64>();
/// Most numbers of one reduction, and bytes of a message.
const PIECE: usize = 1 << 20;

/// What stands for the largest number in a minimum: MPICH 4.0.2 was seen to compare as if numbers were signed.
const NOTHING: u64 = i64::MAX as u64;

/// Peers that can be left.
pub(crate) trait Started: Peers {
    /// Leaves the others, when all do.
    fn finish(&self);
}

/// This process among those of MPI.
struct Process<H> {
    calls: Calls<H>,
    rank: usize,
    count: usize,
    /// Memory for first messages: to be sent, and the one that arrives.
    firsts: Mutex<(Vec<Vec<u8>>, Vec<u8>)>,
}

/// Joins the processes that mpiexec has started; this one alone if it was started without.
pub(crate) fn start() -> Result<Arc<dyn Started>, String> {
    Ok(match Loaded::new()? {
        Loaded::Mpich(calls) => Arc::new(Process::new(calls)),
        Loaded::OpenMpi(calls) => Arc::new(Process::new(calls)),
    })
}

impl<H: Copy> Process<H> {
    fn new(calls: Calls<H>) -> Process<H> {
        let (rank, count) = (calls.rank(), calls.size());
        Process { calls, rank, count, firsts: Mutex::new((vec![Vec::new(); count], vec![0; FIRST])) }
    }
}

impl<H: Copy + Send + Sync> Peers for Process<H> {
    fn rank(&self) -> usize {
        self.rank
    }
    fn count(&self) -> usize {
        self.count
    }
    fn swap(&self, with: &[usize], mail: &[Vec<u8>], into: &mut [Vec<u8>]) {
        let mut firsts = self.firsts.lock().expect("one thread");
        let (out, arrived) = &mut *firsts;
        for (first, mail) in out.iter_mut().zip(mail) {
            first.clear();
            first.extend((mail.len() as u64).to_le_bytes());
            first.extend(&mail[..mail.len().min(FIRST - HEAD)]);
        }
        let mut sending: Vec<Sending<'_, H>> = Vec::new();
        for ((&to, first), mail) in with.iter().zip(out.iter()).zip(mail) {
            sending.push(self.calls.send(to, first));
            let rest = mail.get(FIRST - HEAD..).unwrap_or_default();
            sending.extend(rest.chunks(PIECE).map(|piece| self.calls.send(to, piece)));
        }
        for (&from, into) in with.iter().zip(into) {
            self.calls.receive(from, arrived);
            let (head, begin) = arrived.split_first_chunk().expect("longer than a number");
            let length = usize::try_from(u64::from_le_bytes(*head)).expect("lengths of memory");
            into.clear();
            into.extend(&begin[..length.min(FIRST - HEAD)]);
            let here = into.len();
            into.resize(length, 0);
            into[here..].chunks_mut(PIECE).for_each(|piece| self.calls.receive(from, piece));
        }
        sending.into_iter().for_each(|sending| self.calls.wait(sending));
    }
    fn least(&self, value: u64) -> u64 {
        let mut least = [0];
        self.calls.reduce(&[value.min(NOTHING)], &mut least, true);
        if least[0] == NOTHING { u64::MAX } else { least[0] }
    }
    fn sum(&self, values: &mut [u64]) {
        for piece in values.chunks_mut(PIECE) {
            let own = piece.to_vec();
            self.calls.reduce(&own, piece, false);
        }
    }
}

impl<H: Copy + Send + Sync> Started for Process<H> {
    fn finish(&self) {
        self.calls.finish();
    }
}
