//! Costs of an MPI library for a rank where time is virtual: the launcher passes the machine's `[mpi]` table to each
//! rank.

use std::fmt;
use std::str::FromStr;

/// Names the costs to ranks.
pub const ENV_MPI: &str = "ANGARA_MPI_COSTS";

/// Times in picoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MpiCosts {
    /// Cost of sending a message, at the sender, before it leaves.
    pub send: u64,
    /// Cost of receiving a message, at the receiver, after it has come.
    pub receive: u64,
    /// Cost of a call that looks whether something has come.
    pub look: u64,
    /// From the beginning of one message of a rank to the beginning of the next, at least.
    pub gap: u64,
    /// Cost of copying 1 KiB between the program's buffer and a message that is not large, at either end.
    pub copy: u64,
    /// Cost of agreeing on a large message, at the receiver.
    pub rendezvous: u64,
    /// Least bytes of a large message; no more than a ring of the mailbox allows.
    pub eager: u64,
}

impl MpiCosts {
    fn words(self) -> [u64; 7] {
        [self.send, self.receive, self.look, self.gap, self.copy, self.rendezvous, self.eager]
    }
    /// Copying N bytes.
    pub fn copying(&self, bytes: usize) -> u64 {
        // A message that is not large has at most some KiB.
        (self.copy as u128 * bytes as u128 / 1024) as u64
    }
    /// As the environment says, if it does.
    pub fn from_env() -> Option<MpiCosts> {
        std::env::var(ENV_MPI).ok()?.parse().ok()
    }
}

impl fmt::Display for MpiCosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.words().map(|word| word.to_string());
        f.write_str(&words.join(" "))
    }
}

impl FromStr for MpiCosts {
    type Err = ();
    fn from_str(text: &str) -> Result<MpiCosts, ()> {
        let words: Vec<u64> = text.split(' ').map(str::parse).collect::<Result<_, _>>().map_err(drop)?;
        let [send, receive, look, gap, copy, rendezvous, eager] = words.try_into().map_err(drop)?;
        Ok(MpiCosts { send, receive, look, gap, copy, rendezvous, eager })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_told_and_read() {
        let costs = MpiCosts { send: 1, receive: 2, look: 3, gap: 4, copy: 2048, rendezvous: 6, eager: 7 };
        assert_eq!(costs.to_string().parse(), Ok(costs));
        assert_eq!((costs.copying(0), costs.copying(1), costs.copying(1024)), (0, 2, 2048));
        for wrong in ["", "1 2 3", "1 2 3 4 5 6 -7", "a"] {
            assert_eq!(wrong.parse::<MpiCosts>(), Err(()), "{wrong}");
        }
    }
}
