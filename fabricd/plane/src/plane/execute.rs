//! Commands, carried out.

use super::DataPlane;
use crate::command::{Answer, Command, Timed};
use crate::trunks::Trunks;
use angara_protocol::msg::VirtualStatus;

impl DataPlane {
    /// Does what it is asked for. The answer is whoever calls to give.
    pub(crate) fn execute(&mut self, command: Command) -> Option<Answer> {
        use Command::*;
        match command {
            Stop => None,
            Ping(reply) => reply.answer(()),
            OpenJob(memory, reply) => reply.answer(self.open_job(memory)),
            CloseJob(slot, reply) => {
                self.close_job(slot);
                reply.answer(())
            }
            Attach(slot, memory, pid, reply) => reply.answer(self.attach(slot, memory, pid)),
            Detach { job, pe, lost, reply } => {
                self.detach(job, pe, lost);
                reply.answer(())
            }
            WhenQuiet(job, pe, reply) => {
                self.departures.tell_when_quiet(job, pe, reply);
                None
            }
            SetElsewhere(slot, pe, there, reply) => {
                self.set_elsewhere(slot, pe, there);
                reply.answer(())
            }
            OpenTree { job, first, root, pes, reply } => reply.answer(self.tree_loader().open(job, first, root, &pes)),
            LoadTree { slot, tree, root, pes, reply } => reply.answer(self.tree_loader().load(slot, tree, root, &pes)),
            CloseTree(job, tree, reply) => reply.answer(self.tree_loader().close(job, tree)),
            SetFault(fault, reply) => reply.answer(self.set_fault(fault)),
            ClearFault(what, reply) => reply.answer(self.outages().clear_fault(what)),
            Dead(reply) => reply.answer(self.fabric.dead()),
            ForgetFaults(what, reply) => reply.answer(self.outages().forget_coming(what)),
            Hold(reply) => {
                // What has been ejected counts, whether or not it is in memory yet: that is done in order, before or after
                // the network recovers.
                self.fabric.hold();
                reply.answer(self.fabric.ledger().to_bytes())
            }
            Recover(recovery, reply) => reply.answer(self.outages().recover(*recovery)),
            ImpairTrunks(changes, reply) => {
                if let Some(trunks) = &mut self.trunks {
                    changes.into_iter().for_each(|(to, except, change)| trunks.impair(to, except, change));
                }
                reply.answer(())
            }
            SetKeys(keys, reply) => {
                if let Some(trunks) = &mut self.trunks {
                    trunks.set_keys(&keys);
                }
                reply.answer(())
            }
            Tell(host, message) => {
                if let Some(trunks) = &mut self.trunks {
                    trunks.tell(host, &message);
                }
                None
            }
            EndVirtualTime => {
                // At the time of the PE whose turn it is: nothing of the others happens after that.
                if let Some(run) = &mut self.virtual_time {
                    run.over = true;
                }
                None
            }
            NoteWaits(reply) => {
                self.turns().note_waits();
                reply.answer(())
            }
            CheckPatience => {
                self.turns().look_at_patience();
                None
            }
            GoOnWithout(turn, reply) => reply.answer(self.turns().go_on_without(turn)),
            NoteRoutines(pe, routines, reply) => {
                if let Some(run) = &mut self.virtual_time {
                    run.called(pe, routines);
                }
                reply.answer(())
            }
            observe => self.show(observe),
        }
    }

    /// Answers what only looks.
    fn show(&mut self, command: Command) -> Option<Answer> {
        use Command::*;
        match command {
            TrunkFigures(reply) => {
                let figures = |t: &Trunks| (t.figures(), t.strangers(), t.engine());
                reply.answer(self.trunks.as_ref().map_or_else(Default::default, figures))
            }
            Times(reply) => reply.answer(self.time_report().map(|report| report.times())),
            TimesPiece(from, reply) => {
                reply.answer(self.time_report().map_or_else(Default::default, |report| report.piece(from)))
            }
            Status(reply) => {
                let time = self.virtual_status();
                reply.answer((self.faults(), time, self.figures().sets()))
            }
            Folded(slot, reply) => reply.answer(self.link_reports().folded(slot)),
            FoldPe(slot, pe, folded, reply) => {
                reply.answer(self.timed(|plane| plane.link_reports().fold_pe(slot, pe, folded)))
            }
            JobLinks(slot, pes, folded, reply) => reply.answer(self.link_reports().job_links(slot, pes, folded)),
            PeMemory(slot, pes, reply) => reply.answer(self.link_reports().pe_memory(slot, pes)),
            Counters(reply) => reply.answer(self.link_reports().counters()),
            WatchLinks(nodes, reply) => reply.answer(self.timed(|plane| plane.figures().links(nodes))),
            WatchPlane(nodes, reply) => reply.answer(self.timed(|plane| plane.figures().plane(nodes, plane.faults()))),
            WatchJobs(reply) => reply.answer(self.timed(|plane| plane.figures().jobs())),
            WatchLink(link, reply) => reply.answer(self.figures().link(link)),
            BeginCapture(capture, reply) => {
                reply.answer(self.captures.begin(capture, &self.seats.jobs, &mut self.fabric))
            }
            EndCapture(id) => {
                self.captures.end(id, &self.seats.jobs, &mut self.fabric);
                None
            }
            _ => None,
        }
    }

    fn virtual_status(&mut self) -> Option<VirtualStatus> {
        let begun = self.virtual_time.as_ref()?.has_begun();
        if begun && self.channels.lanes.active().is_empty() && !self.is_over() {
            // Credits of trees may be on their way. How many events there were does not depend on who asks when.
            self.go_on();
        }
        self.time_report().map(|report| report.status())
    }

    fn timed<T>(&mut self, figure: impl FnOnce(&mut DataPlane) -> T) -> Timed<T> {
        let begin = (self.clock)();
        let value = figure(self);
        Timed { value, took: (self.clock)().duration_since(begin) }
    }
}
