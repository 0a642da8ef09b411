//! Jobs and their PEs, from the request to the report.
//!
//! [`table`] holds them. `create` makes a job on all hosts: [`plan`] says which node each PE
//! lives on and what it needs here, and [`descriptor`] is what other hosts are told. [`job`] is the result. Then `attach` has processes
//! become its PEs, `lives` looks after PEs that leave and others that wait for them, `report` gathers traffic from all
//! hosts, and `end` ends it. `open` is about jobs whose PEs are seats that processes take and leave, `rejoin` about hosts
//! that such a job loses, [`inside`] about PEs that are in the daemon's own process. [`member`] is what any PE may ask for.

mod attach;
mod create;
pub(crate) mod descriptor;
mod end;
pub mod inside;
pub(crate) mod job;
mod lives;
pub(crate) mod member;
pub(crate) mod open;
mod patience;
pub(crate) mod plan;
mod rejoin;
mod report;
pub(crate) mod table;
