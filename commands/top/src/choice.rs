//! What the user has chosen.

use super::sample::Order;

/// What the large table lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum View {
    Links,
    Nodes,
    Jobs,
}

impl View {
    /// The next one, round and round.
    pub(super) fn next(self) -> View {
        match self {
            View::Links => View::Nodes,
            View::Nodes => View::Jobs,
            View::Jobs => View::Links,
        }
    }

    /// Returns what it is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            View::Links => "links",
            View::Nodes => "nodes",
            View::Jobs => "jobs",
        }
    }
}

/// What the user has chosen.
pub(super) struct Choice {
    pub(super) order: Order,
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) typing: bool,
    pub(super) paused: bool,
    /// The keys are shown.
    pub(super) help: bool,
    pub(super) view: View,
    /// Name of the row that was clicked on.
    pub(super) selected: Option<String>,
    /// Rows above the first one that is shown.
    pub(super) scrolled: usize,
}

impl Choice {
    /// Links in this order.
    pub(super) fn new(order: Order, filter: String) -> Choice {
        let (typing, paused, help) = (false, false, false);
        Choice { order, filter, typing, paused, help, view: View::Links, selected: None, scrolled: 0 }
    }

    /// Another view, from its beginning.
    pub(super) fn look_at(&mut self, view: View) {
        (self.view, self.scrolled, self.selected) = (view, 0, None);
    }
}
