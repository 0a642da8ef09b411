use super::schedule::Schedule;
use crate::Error;
use crate::settings::Keys;
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
        let simulation = keys.resolve().map_err(|e| e.0)?;
        simulation.run(&mut |_| ControlFlow::Continue(()))
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

#[test]
fn the_binary_form_is_that_of_txt2bin() {
    // Rank 1 of the first schedule, as txt2bin of LogGOPSim writes it, behind the table of ranks.
    let bytes = binary(PING);
    assert_eq!(bytes[..14], [0x7f, 0x10, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[14..46].iter().filter(|b| **b != 0).copied().collect::<Vec<_>>(), [0x26, 0xaf, 0xaf, 0x0d, 0x01]);
    assert_eq!(run(FAT_TREE, &bytes).unwrap(), run(FAT_TREE, PING.as_bytes()).unwrap());
}

/// A schedule of two ranks.
fn two(first: &str, second: &str) -> String {
    format!("num_ranks 2\nrank 0 {{\n{first}\n}}\nrank 1 {{\n{second}\n}}\n")
}

/// When rank 0 ends that does this alone, ns.
fn calculations(first: &str) -> u64 {
    run(FAT_TREE, two(first, "").as_bytes()).unwrap()[0] / 1000
}

#[test]
fn operations_start_when_they_may() {
    // A cpu does one thing at a time, two do two.
    assert_eq!(calculations("calc 100\ncalc 50"), 150);
    assert_eq!(calculations("calc 100\ncalc 50 cpu 1"), 100);
    assert_eq!(calculations("a: calc 100\nb: calc 50 cpu 1\nb requires a"), 150);
    assert_eq!(calculations("a: calc 100\nb: calc 50 cpu 1\nb irequires a"), 100);
    // One that waits for two starts after both.
    assert_eq!(calculations("a: calc 10\nb: calc 70 cpu 1\nc: calc 5 cpu 2\nc requires a\nc requires b"), 75);
    // A message to oneself comes at once, a send is done when it starts.
    assert_eq!(calculations("s: send 5b to 0 tag 1\nr: recv 5b from 0 tag 1\nc: calc 7\nc requires r"), 7);
}

#[test]
fn messages_match_by_source_tag_and_order() {
    // Two of tag 1, and one of tag 2 that is taken first.
    let sends = "c: calc 1000\na: send 16b to 1 tag 1\na requires c\nb: send 16b to 1 tag 2\nd: calc 5000\n\
                 e: send 16b to 1 tag 1\ne requires d\nd requires a";
    let end = |recvs: &str| run(FAT_TREE, two(sends, recvs).as_bytes()).unwrap()[1] / 1000;
    let all = end("recv 16b from 0 tag 2\nrecv 16b from 0 tag 1\nrecv 16b from 0 tag 1");
    assert!((6000..6100).contains(&all), "{all}");
    assert_eq!(end("recv 16b from -1 tag -1\nrecv 16b from -1 tag -1\nrecv 16b from 0 tag 1"), all);
    // The first recv of tag 1 takes the first message of tag 1.
    let first = end(
        "a: recv 16b from 0 tag 1\nb: calc 9000 cpu 1\nb requires a\nrecv 16b from 0 tag 2\nrecv 16b from -1 tag 1",
    );
    assert!((10_000..10_100).contains(&first), "{first}");
}

#[test]
fn mistakes_of_texts_name_their_line() {
    for (text, part) in [
        ("", ":1: no schedule; begin with num_ranks"),
        ("rank 0 {\n", ":1: a rank before their number"),
        ("num_ranks 0\n", ":1: `0` ranks; give 1 to"),
        ("num_ranks 2\nrank 0 {\n}\n", ":3: the file ends without rank 1 of 2"),
        ("num_ranks 1\nrank 0 {\ncalc 5\n", ":3: the file ends within rank 0"),
        ("num_ranks 1\nrank 0 {\n}\nrank 0 {\n}\n", ":5: rank 0 ends here a second time"),
        ("num_ranks 2\nrank 2 {\n}\n", ":2: rank `2`; give 0 to 1"),
        (&two("jump 5", ""), ":3: `jump` is no operation; write send"),
        (&two("send 5 to 1", ""), ":3: `5` is no size"),
        (&two("send 5b from 1", ""), ":3: `from`; write to RANK"),
        (&two("send 5b to 2", ""), ":3: to rank `2`; give 0 to 1"),
        (&two("send 5b to 1 tag -1", ""), ":3: tag `-1`; give 0 to"),
        (&two("send 5b to 1 tag 1 tag 1", ""), ":3: `tag` a second time"),
        (&two("calc 5 cpu 256", ""), ":3: cpu `256`; give 0 to 255"),
        (&two("calc 5 nicc 1", ""), ":3: `nicc` is no field"),
        (&two("calc -5", ""), ":3: `-5` is no time"),
        (&two("calc 1000000000000001", ""), ":3: calc 1000000000000001; give at most"),
        (&two("a: calc 5\na: calc 6", ""), ":4: the label `a` a second time"),
        (&two("a: calc 5\na requires b", ""), ":4: no operation above in this rank has the label `b`"),
        (
            &two("a: calc 5\n/* x\n*/ b: calc 5 // y\na requires b\nb irequires a", ""),
            "wait for each other in a circle",
        ),
        (
            &two("send 5b to 1 tag 3", "calc 5\nrecv 5b from 0 tag 4"),
            ":7: rank 1 waits for ever: recv from rank 0, tag 4",
        ),
        (&two("calc 5\nsend 5b to 1 tag 3", ""), ":4: the send from rank 0 to rank 1, tag 3, has no recv"),
        (&two(&"x".repeat(70_000), ""), ":3: a line of 65536 bytes"),
    ] {
        let e = run(FAT_TREE, text.as_bytes()).expect_err(text).to_string();
        assert!(e.contains(part), "{text}: {e}");
    }
    let e = run("topology = \"torus:2\"\n", b"num_ranks 3\nrank 0 {\n}\nrank 1 {\n}\nrank 2 {\n}\n").unwrap_err();
    assert!(e.to_string().contains("3 ranks; give a network of as many nodes"), "{e}");
}

#[test]
fn mistakes_of_binary_files_name_their_offset() {
    let bytes = binary(PING);
    let with = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes.clone();
        change(&mut bytes);
        run(FAT_TREE, &bytes).expect_err("a mistake").to_string()
    };
    let first = 8 + 38 + 8 + 4;
    for (change, part) in [
        (&(|b: &mut Vec<u8>| b.truncate(10)) as &dyn Fn(&mut Vec<u8>), "offset 10: the file ends here"),
        (&|b: &mut Vec<u8>| b.truncate(b.len() - 1), "the file ends here"),
        (
            &|b: &mut Vec<u8>| b[..2].copy_from_slice(&2342u16.to_le_bytes()),
            "offset 0: a run of LogGOPSim with --save-mem",
        ),
        (&|b: &mut Vec<u8>| b[8] = 0, "offset 8: 0 ranks"),
        (&|b: &mut Vec<u8>| b[30..46].fill(0), "offset 30: rank 1 is missing"),
        (&|b: &mut Vec<u8>| b[first + 4] = 9, "offset 58: operation 0 of rank 0: type 9"),
        (&|b: &mut Vec<u8>| b[first] = 1, "offset 58: operation 0 of rank 0: it waits for 1 operations, but 0 name it"),
        (&|b: &mut Vec<u8>| b[first - 4] = 1, "offset 50: rank 0: the list of its operations that wait for none"),
        (&|b: &mut Vec<u8>| b[first + 39 + 5] = 7, "offset 97: operation 1 of rank 0: rank 7"),
        (&|b: &mut Vec<u8>| b[first + 3 * 39] = 9, "dependant 9, and the rank has 3 operations"),
    ] {
        let e = with(change);
        assert!(e.contains(part), "{part}: {e}");
    }
    // Whatever byte is wrong: no panic.
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x55;
        let path = file(&bytes);
        let _ = Schedule::open(&path);
        std::fs::remove_file(path).unwrap();
    }
}
