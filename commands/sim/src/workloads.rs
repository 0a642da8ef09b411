//! `angara sim workloads`: what nodes can do.

use crate::shared::output::say;
use angara_sim::Error;
use angara_sim::table::Table;
use angara_sim::workload::KINDS;

pub(crate) fn main() -> Result<(), Error> {
    let mut table = Table::new(&["workload", "what nodes do"]);
    for kind in KINDS {
        table.row(&[kind.form, kind.about]);
    }
    say(&table.render())
}
