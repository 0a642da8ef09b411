//! What happened in a run, for sums over many.

/// What happened in a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in crate::simulation) struct Totals {
    pub(in crate::simulation) schedules: u64,
    pub(in crate::simulation) events: u64,
    pub(in crate::simulation) crashes: u64,
    pub(in crate::simulation) expelled: u64,
    pub(in crate::simulation) splits: u64,
    pub(in crate::simulation) jobs: u64,
    pub(in crate::simulation) jobs_live: u64,
    pub(in crate::simulation) jobs_well: u64,
    pub(in crate::simulation) jobs_ended: u64,
    /// Ended because a daemon was shut down, and said so.
    pub(in crate::simulation) jobs_told: u64,
    pub(in crate::simulation) jobs_refused: u64,
    /// Ended early by nobody's will, and looked at whether there was a cause.
    pub(in crate::simulation) judged: u64,
    pub(in crate::simulation) ops: u64,
    pub(in crate::simulation) changes: u64,
    pub(in crate::simulation) commands: u64,
    pub(in crate::simulation) commands_refused: u64,
    pub(in crate::simulation) datagrams: u64,
    pub(in crate::simulation) lost: u64,
    pub(in crate::simulation) doubled: u64,
    pub(in crate::simulation) overtaken: u64,
    pub(in crate::simulation) late_answers: u64,
    pub(in crate::simulation) steps: u64,
    pub(in crate::simulation) seconds: u64,
    /// Trunks that are bad, and faults in force, when everything is about to be repaired.
    pub(in crate::simulation) left_bad: u64,
    pub(in crate::simulation) left_faulty: u64,
    pub(in crate::simulation) left_jobs: u64,
}

impl Totals {
    pub(in crate::simulation) fn add(&mut self, o: &Totals) {
        let pairs: [(&mut u64, u64); 26] = [
            (&mut self.schedules, o.schedules),
            (&mut self.events, o.events),
            (&mut self.crashes, o.crashes),
            (&mut self.expelled, o.expelled),
            (&mut self.splits, o.splits),
            (&mut self.jobs, o.jobs),
            (&mut self.jobs_live, o.jobs_live),
            (&mut self.jobs_well, o.jobs_well),
            (&mut self.jobs_ended, o.jobs_ended),
            (&mut self.jobs_told, o.jobs_told),
            (&mut self.jobs_refused, o.jobs_refused),
            (&mut self.judged, o.judged),
            (&mut self.ops, o.ops),
            (&mut self.changes, o.changes),
            (&mut self.commands, o.commands),
            (&mut self.commands_refused, o.commands_refused),
            (&mut self.datagrams, o.datagrams),
            (&mut self.lost, o.lost),
            (&mut self.doubled, o.doubled),
            (&mut self.overtaken, o.overtaken),
            (&mut self.late_answers, o.late_answers),
            (&mut self.steps, o.steps),
            (&mut self.seconds, o.seconds),
            (&mut self.left_bad, o.left_bad),
            (&mut self.left_faulty, o.left_faulty),
            (&mut self.left_jobs, o.left_jobs),
        ];
        pairs.into_iter().for_each(|(to, more)| *to += more);
    }
}
