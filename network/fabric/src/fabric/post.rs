//! Posting: what an adapter accepts from its host.

use super::Fabric;
use crate::adapter::OpRecord;
use crate::op::{Op, Source};
use crate::types::*;
use angara_abi::account::Class;
use angara_net::torus::NodeId;

impl Fabric {
    /// Checks an operation against what the adapter accepts.
    pub(crate) fn check_op(&self, from: Port, job: JobSlot, op: &Op<Source<'_>>) -> Result<(), InjectError> {
        let target = |to: Port| {
            if to.node as usize >= self.adapters.chip.net.nodes || to.endpoint as usize >= ENDPOINTS_MAX {
                return Err(InjectError::Invalid("the target port does not exist"));
            }
            if self.adapters.port_index(to).is_some_and(|i| self.adapters.ports[i].job != job) {
                return Err(InjectError::Invalid("the target port belongs to another job"));
            }
            let reach = |from: NodeId, to: NodeId| match self.adapters.chip.reachable(from, to) {
                true => Ok(()),
                false => Err(InjectError::Unreachable { from, to, outage: self.adapters.chip.routes.outage(from, to) }),
            };
            reach(from.node, to.node)?;
            // Nobody would hear of an answer given up in another fabric before routes change again.
            if self.adapters.chip.split && op.answered_by().is_some() { reach(to.node, from.node) } else { Ok(()) }
        };
        op.check().map_err(InjectError::Invalid)?;
        if self.adapters.chip.carry && matches!(op.source(), Some(Source::Length(_))) {
            return Err(InjectError::Invalid("a length without bytes needs a fabric without payload"));
        }
        if let Some(tree) = op.tree() {
            self.trees.check_tree(&self.adapters, tree, job, from)?;
        }
        op.target().map_or(Ok(()), target)
    }

    /// Posts an operation on port `from` at `issue` (a time in the past counts as now).
    /// `tag` comes back in the operation's completions.
    pub fn inject(
        &mut self,
        from: Port,
        job: JobSlot,
        class: Class,
        op: Op<Source<'_>>,
        issue: Tick,
        tag: u64,
    ) -> Result<(), InjectError> {
        let port = self.adapters.port_index(from).filter(|i| self.adapters.ports[*i].job == job);
        let port = port.filter(|_| self.adapters.chip.owned[from.node as usize]).ok_or(InjectError::NotOpen(from))?;
        if self.adapters.ports[port].ops.len() >= self.adapters.chip.params.ops_per_port as usize
            || self.adapters.ops.is_full()
        {
            return Err(InjectError::Busy);
        }
        self.check_op(from, job, &op)?;
        self.adapters.chip.special |= op.meeting().is_some();
        let mut record = OpRecord::new(port as u32, job, class, tag, issue.max(self.adapters.chip.now));
        if let Some(bytes) = record.take(op, self.adapters.chip.carry) {
            record.payload = self.adapters.chip.payloads.alloc();
            self.adapters.chip.payloads.get_mut(record.payload)[..bytes.len()].copy_from_slice(bytes);
        }
        let issue = record.issue;
        let op = self.adapters.ops.alloc(record);
        self.adapters.ports[port].ops.push_back(op);
        if self.adapters.ports[port].ops.len() == 1 || self.adapters.chip.ports() > 1 {
            if self.adapters.at_rest() {
                self.pass_alone(|fabric| fabric.on_pump(port));
            } else {
                self.adapters.schedule_pump(port, issue);
            }
        }
        Ok(())
    }

    /// True if nothing that was posted on `port` is on its way any more, nor an answer to it; so of one that is not
    /// open.
    pub fn is_quiet(&self, port: Port) -> bool {
        self.adapters.port_index(port).is_none_or(|index| self.adapters.ports[index].is_quiet())
    }

    /// The network is at rest: the first packet that enters goes through at once, and time with it. What enters behind it
    /// takes its own time.
    pub(crate) fn pass_alone(&mut self, enter: impl FnOnce(&mut Fabric)) {
        self.adapters.let_one_through();
        enter(self);
        let Some((h, at)) = self.adapters.take_alone() else { return };
        if let Some(injected) = self.adapters.chip.injected(h) {
            self.adapters.injected(injected);
        }
        let chip = &mut self.adapters.chip;
        let node = chip.packets[h].dst;
        if chip.events.is_empty() {
            chip.now = at;
            chip.handled += 1;
            self.on_deliver(node, h);
        } else {
            chip.will_deliver(at, node, h);
        }
    }
}
