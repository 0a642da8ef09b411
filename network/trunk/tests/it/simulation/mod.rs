//! Two associations over a simulated network that does everything a network can do, and two hosts that do
//! what hosts can: random schedules in virtual time.
//!
//! `TRUNK_SCHEDULES=100000 cargo test --release -p angara-trunk simulation::` runs more of them,
//! `TRUNK_SEED=… TRUNK_SCHEDULES=1` one again.

mod world;

use crate::net::Random;
use crate::number::number;
use world::{Seen, World};

#[test]
fn every_schedule_ends_with_all_records_in_order() {
    let first = number("TRUNK_SEED", 1);
    let schedules = number("TRUNK_SCHEDULES", 2_000);
    let mut total = Seen::default();
    for seed in first..first + schedules {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(Random::new(seed));
            world.run();
            world.seen()
        });
        match run {
            Ok(seen) => total.add(&seen),
            Err(_) => panic!(
                "schedule {seed} failed; again: TRUNK_SEED={seed} TRUNK_SCHEDULES=1 cargo test --release -p angara-trunk simulation::"
            ),
        }
    }
    println!("{schedules} schedules from seed {first}: {total:?}");
    // Schedules in which nothing goes wrong prove nothing.
    if schedules >= 100 {
        assert!(total.records > 0 && total.retransmissions > 0 && total.sessions > 2 * schedules, "{total:?}");
        assert!(total.damaged > 0 && total.replays > 0 && total.restarts > 0 && total.downs > 0, "{total:?}");
    }
}
