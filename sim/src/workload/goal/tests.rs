use super::schedule::Schedule;
use crate::Error;
use crate::run::Keys;
use crate::workload::Chosen;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A file with these bytes.
fn file(bytes: &[u8]) -> PathBuf {
    static FILES: AtomicUsize = AtomicUsize::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("angara-goal-test-{}-{number}", std::process::id()));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// When each rank ends, ps.
fn run(machine: &str, schedule: &[u8]) -> Result<Vec<u64>, Error> {
    let path = file(schedule);
    let ran = (|| {
        let workload = format!("goal:{}", path.display()).parse::<Chosen>()?;
        let mut keys: Keys = toml::from_str(machine).unwrap();
        keys.workload = Some(workload);
        let experiment = keys.resolve().map_err(|e| e.0)?;
        experiment.workload.workload.run(&experiment, &mut |_| ControlFlow::Continue(()))
    })();
    std::fs::remove_file(&path).unwrap();
    Ok(ran?.json["ranks"].as_array().unwrap().iter().map(|rank| rank["end_ps"].as_u64().unwrap()).collect())
}

/// A generic network.
const FAT_TREE: &str = "topology = \"fat-tree:2,2\"\nrouter = \"generic\"\nlength = 4\n";

/// The binary form of a text.
fn binary(text: &str) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let path = file(text.as_bytes());
    let schedule = Schedule::open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    let mut bytes = vec![0; schedule.file.metadata().unwrap().len() as usize];
    schedule.file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

const PING: &str = "num_ranks 2\nrank 0 {\nl1: calc 1000 cpu 0\nl2: send 64b to 1 tag 5 cpu 0 nic 0\nl2 requires l1\n\
                    l3: recv 64b from 1 tag 6\nl3 irequires l2\n}\nrank 1 {\nl1: recv 64b from 0 tag 5\n\
                    l2: send 64b to 0 tag 6\nl2 requires l1\n}\n";

#[test]
fn messages_and_calculations_take_their_time_on_any_network() {
    let dragonfly = "topology = \"dragonfly:1\"\nrouter = \"generic\"\nlength = 2\n";
    for (network, cycle) in [(FAT_TREE, 2000), ("topology = \"torus:4\"\n", 0), (dragonfly, 2000)] {
        let ends = run(network, PING.as_bytes()).unwrap();
        let way = ends[1] - 1_000_000;
        assert!(way > 0, "{ends:?}");
        // Back it takes as long as there; a router in cycles sees in the next cycle what has come.
        assert_eq!(ends[0], 1_000_000 + 2 * way + cycle, "{network}");
    }
}
