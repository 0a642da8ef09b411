//! Which receive gets which message, and which calls can therefore end.

use super::types::Program;
use std::collections::BTreeMap;

impl Program {
    /// For each receive that is posted, the message that it gets of those that are started: of its source the first
    /// that
    /// fits and that no earlier receive has got. Without receives from any source there is one such matching only.
    pub(super) fn matching(&self) -> (BTreeMap<usize, usize>, BTreeMap<usize, usize>) {
        let order = |at: &dyn Fn(usize) -> Option<usize>, len: usize| -> Vec<usize> {
            let mut all: Vec<(usize, usize)> = (0..len).filter_map(|i| Some((at(i)?, i))).collect();
            all.sort_unstable();
            all.into_iter().map(|(_, i)| i).collect()
        };
        let messages = order(&|m| self.messages[m].started, self.messages.len());
        let (mut of_receive, mut of_message) = (BTreeMap::new(), BTreeMap::new());
        for r in order(&|r| self.receives[r].posted, self.receives.len()) {
            let receive = &self.receives[r];
            if receive.group.is_some() {
                continue;
            }
            let fits = |m: &&usize| receive.fits(&self.messages[**m]) && !of_message.contains_key(*m);
            if let Some(&m) = messages.iter().find(fits) {
                of_receive.insert(r, m);
                of_message.insert(m, r);
            }
        }
        (of_receive, of_message)
    }

    /// Gives each receive that has got another message than its own that message's place. False if then another receive
    /// that is posted could not get its message.
    pub(super) fn settle(&mut self) -> bool {
        for (r, m) in self.matching().0 {
            let (own, other) = (self.receives[r].partner, self.messages[m].partner);
            if own == m {
                continue;
            }
            let posted = self.receives[other].posted.is_some();
            if !posted {
                self.receives[other].tag = Some(self.messages[own].tag);
            } else if !self.receives[other].fits(&self.messages[own]) {
                return false;
            }
            (self.receives[r].partner, self.receives[other].partner) = (m, own);
            (self.messages[m].partner, self.messages[own].partner) = (r, other);
        }
        true
    }

    pub(super) fn partners(&self) -> Vec<(usize, usize)> {
        self.messages.iter().map(|m| m.partner).zip(self.receives.iter().map(|r| r.partner)).collect()
    }
    pub(super) fn undo(&mut self, partners: &[(usize, usize)], tags: &[Option<i32>]) {
        for (i, (m, r)) in partners.iter().enumerate() {
            (self.messages[i].partner, self.receives[i].partner) = (*m, *r);
            self.receives[i].tag = tags[i];
        }
    }
    fn group_of(&self, group: usize) -> (usize, usize, usize) {
        let started = self.messages.iter().filter(|m| m.group == Some(group) && m.started.is_some()).count();
        let posted = self.receives.iter().filter(|r| r.group == Some(group) && r.posted.is_some()).count();
        (started, posted, self.messages.iter().filter(|m| m.group == Some(group)).count())
    }

    pub(super) fn can_end_send(&self, m: usize) -> bool {
        let message = &self.messages[m];
        let matched = || match message.group {
            // Any receive may take another one's message, until there is one for each.
            Some(group) => {
                let (_, posted, all) = self.group_of(group);
                posted == all
            }
            None => self.matching().1.contains_key(&m),
        };
        message.started.is_some() && (message.mode == 'b' || matched())
    }

    pub(super) fn can_end_receive(&self, r: usize) -> bool {
        let receive = &self.receives[r];
        let Some(posted) = receive.posted else { return false };
        match receive.group {
            Some(group) => {
                let before = self.receives.iter().filter(|r| r.group == Some(group) && r.posted <= Some(posted));
                before.filter(|r| r.posted.is_some()).count() <= self.group_of(group).0
            }
            None => self.matching().0.contains_key(&r),
        }
    }
}
