//! Packets of a running daemon's network, for Wireshark.

mod clocks;
mod file;
mod merge;
mod pcapng;
mod session;

pub use file::{PacketFile, STDOUT, Title, Trouble};
pub use session::{Ended, Session, Where};

use angara_abi::capture::PSEUDO_BYTES;
use angara_abi::{FLIT_BYTES, PACKET_FLITS_MAX};

/// All of any packet.
pub const WHOLE: u32 = (PACKET_FLITS_MAX * FLIT_BYTES) as u32;

impl Ended {
    /// Says what is where, and what is lost.
    pub fn tell(&self, quiet: bool) {
        for (host, (passed, dropped)) in self.tallies.iter().filter(|(_, (_, dropped))| *dropped > 0) {
            let of = host.as_ref().map_or(String::new(), |host| format!(" of host {host}"));
            angara_protocol::complain!(
                "angara: {dropped} of {passed} packets{of} are not in {}: they came faster than they were written. Keep \
                 less (--snaplen {PSEUDO_BYTES}), or name a link",
                self.name
            );
        }
        if quiet || self.failed.is_some() {
            return;
        }
        angara_protocol::complain!("angara: {} packets in {}", self.packets, self.name);
        if !self.tallies.is_empty() && self.tallies.iter().all(|(_, tally)| *tally == (0, 0)) {
            angara_protocol::complain!(
                "angara: no packet came by. PEs of one host reach each other without packets unless their job has --path ring"
            );
        }
    }
}
