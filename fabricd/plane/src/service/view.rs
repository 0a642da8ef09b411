//! Parts of a data plane that posts and effects go through.

use crate::channels::lanes::Channels;
use crate::jobs::seats::Seats;
use crate::notice::{Notice, Reports};
use crate::registers::RegisterPages;
use crate::virtual_time::record::Record;
use crate::virtual_time::standing::VirtualRun;
use crate::virtual_time::touch::{By, Touch};
use angara_abi::channel::Fault;
use angara_abi::wait::{Kernel, Linux};
use angara_fabric::{Fabric, Port};
use angara_net::torus::{NodeId, Shape};
use std::sync::atomic::Ordering;

/// What is lent to whoever serves channels.
pub(crate) struct Service<'p> {
    pub(crate) shape: &'p Shape,
    pub(crate) fabric: &'p mut Fabric,
    pub(crate) seats: &'p Seats,
    pub(crate) channels: &'p mut Channels,
    pub(crate) registers: &'p mut RegisterPages,
    pub(crate) time: Option<&'p mut VirtualRun>,
    pub(crate) reports: &'p mut Reports,
}

impl Service<'_> {
    /// Puts a channel into its sticky error state: nothing more is taken from it.
    pub(crate) fn break_lane(&mut self, index: usize, fault: Fault, seq: u32, why: &str) {
        let Some(lane) = self.channels.lanes.get_mut(index).filter(|l| !l.broken) else { return };
        lane.broken = true;
        lane.pending = None;
        lane.memory.channel.set_error(fault, seq);
        if let Some(clock) = &lane.memory.clock {
            clock.end();
            Linux.futex_wake(clock.goes());
        }
        lane.job.sync.alert(lane.pe);
        let (job, pe, node) = (lane.job.id, lane.pe as u32, lane.port.node);
        let reason = format!("{} (post {seq}): {why}", fault.describe());
        if fault != Fault::Unreachable {
            self.count_violation(node);
        }
        // Who is told also logs it.
        self.reports.say(Notice::ChannelError { job, pe, reason });
    }

    pub(super) fn count_violation(&mut self, node: NodeId) {
        self.reports.gauges.violations.fetch_add(1, Ordering::Relaxed);
        self.registers.count_error(node);
    }

    /// Something happened at a port, now, by somebody's doing: whoever waits there for it is due. Bytes are written already.
    #[inline]
    pub(crate) fn touched(&mut self, at: Port, what: Touch, by: By) {
        if let Some(run) = &mut self.time {
            run.touched_at((at, self.fabric.now()), what, by, self.seats, &self.channels.lanes);
        }
    }

    #[inline]
    pub(super) fn record(&mut self) -> Option<&mut Record> {
        self.time.as_mut()?.record.as_mut()
    }
}
