//! Recordings of programs in virtual time: what each PE posted, when, and what it waited for.
//!
//! A file has a header and blocks. A block holds records of one PE, a tree of the collective subnet, or the end. Numbers
//! are varints: seven bits a byte, the lowest first. `docs/reference/formats.md` describes all of it.

mod codec;
mod read;
mod write;

pub use codec::{Cause, Post, Reached, Record};
pub use read::{Recording, RecordingError, Tape, Tree};
pub use write::Recorder;

use serde::{Deserialize, Serialize};

/// The first bytes of a file.
pub const MAGIC: [u8; 8] = *b"ANGARAtr";
/// Version of the format, behind them.
pub const VERSION: u32 = 1;
/// The last bytes of a file that is complete.
pub const END: [u8; 8] = *b"ANGARAte";
/// Most bytes of a header.
const HEADER_MAX: u32 = 16 << 20;
/// Most bytes of a block.
const BLOCK_MAX: u64 = 1 << 20;

/// Kinds of blocks; that of a PE is its number more than the last of these.
const BLOCK_END: u64 = 0;
const BLOCK_TREE: u64 = 1;
const BLOCK_PE: u64 = 2;

/// The machine of a recording, and the job on it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Header {
    /// Version of the program that wrote it.
    pub program: String,
    /// How nodes are wired: `torus:4x2` or `mesh:4x2`.
    pub topology: String,
    /// Values of the machine that differ from the chip as published, as `--set` takes them.
    pub set: String,
    /// Seed of everything random in the network.
    pub seed: u64,
    /// How barriers are done, as `--barrier` takes it.
    pub barrier: String,
    /// Picoseconds that a PE runs ahead of the network at most.
    pub ahead_ps: u64,
    /// Node and endpoint of each PE.
    pub places: Vec<(u32, u16)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use angara_abi::account::Class;
    use proptest::prelude::*;
    use std::path::PathBuf;

    fn header(pes: u32) -> Header {
        Header { topology: "torus:4".into(), places: (0..pes).map(|pe| (pe, 0)).collect(), ..Header::default() }
    }

    fn file(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("angara-recording-{}-{name}", std::process::id()))
    }

    /// A file of two PEs with N waits each.
    fn written(name: &str, waits: u64) -> (PathBuf, Vec<u8>) {
        let path = file(name);
        let mut recorder = Recorder::create(&path).unwrap();
        recorder.begin(&header(2)).unwrap();
        let tree = recorder.tree(3, 1, &[0, 1]);
        for i in 0..waits {
            for pe in 0..2 {
                recorder.post(pe, i * 1000, Post::Barrier { half: i % 2 == 0 });
                recorder.wait(pe, (i * 1000 + 5, i * 1000 + 900), &[Cause::Tree { tree, bcast: true, count: i }]);
            }
        }
        recorder.end(0, waits * 1000);
        recorder.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        (path, bytes)
    }

    #[test]
    fn what_is_written_is_read_by_pe_however_many_blocks_it_takes() {
        let (path, _) = written("both", 5000);
        let recording = Recording::open(&path).unwrap();
        assert_eq!((recording.header.places.len(), recording.trees.len()), (2, 1));
        assert_eq!((recording.trees[0].number, recording.trees[0].root), (3, 1));
        for pe in 0..2 {
            let mut tape = recording.tape(pe);
            let mut at = 0;
            for i in 0..5000 {
                let (gap, record) = tape.next(&recording).unwrap().unwrap();
                assert_eq!((at + gap, record), (i * 1000, Record::Post(Post::Barrier { half: i % 2 == 0 })));
                let (gap, record) = tape.next(&recording).unwrap().unwrap();
                assert_eq!(gap, 5);
                assert_eq!(record, Record::Wait(vec![Cause::Tree { tree: 0, bcast: true, count: i }]));
                at = i * 1000 + 900;
            }
            if pe == 0 {
                assert_eq!(tape.next(&recording).unwrap(), Some((5_000_000 - at, Record::End)));
            }
            assert_eq!(tape.next(&recording).unwrap(), None);
        }
        assert_eq!(recording.ends, [Some(5_000_000), None]);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn mistakes_name_file_and_offset() {
        let (path, bytes) = written("bad", 3);
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = bytes.clone();
            change(&mut bytes);
            std::fs::write(&path, bytes).unwrap();
            let recording = Recording::open(&path);
            recording.map(|r| r.header).unwrap_err().to_string()
        };
        for (change, wanted) in [
            (&(|b: &mut Vec<u8>| b[0] = b'x') as &dyn Fn(&mut Vec<u8>), "offset 0: `xNGARAtr` is no recording"),
            (&|b: &mut Vec<u8>| b.truncate(5), "offset 0: 5 bytes are no recording"),
            (&|b: &mut Vec<u8>| b[8] = 9, "offset 8: format 9"),
            (&|b: &mut Vec<u8>| b.truncate(b.len() - 1), "the file ends before the recording does"),
            (&|b: &mut Vec<u8>| b.truncate(b.len() / 2), "offset"),
            (&|b: &mut Vec<u8>| b.push(0), "1 bytes too many"),
            (&|b: &mut Vec<u8>| b[15] = 200, "offset 12: a header of 33"),
        ] {
            let e = with(change);
            assert!(e.contains(wanted) && e.starts_with(&path.display().to_string()), "{wanted}: {e}");
        }
        std::fs::remove_file(path).unwrap();
    }

    fn cause() -> impl Strategy<Value = Cause> {
        let reached = prop_oneof![Just(Reached::Copied), Just(Reached::Injected), Just(Reached::Complete)];
        let whole = any::<bool>();
        prop_oneof![
            (reached, 1..u64::MAX, whole).prop_map(|(reached, back, all)| Cause::Own { reached, back, all }),
            (any::<u32>(), any::<u64>()).prop_map(|(from, count)| Cause::Arrival { from, count }),
            (any::<u32>(), any::<bool>(), any::<u64>()).prop_map(|(tree, bcast, count)| Cause::Tree {
                tree,
                bcast,
                count
            }),
        ]
    }

    fn record() -> impl Strategy<Value = Record> {
        let class = Class::Amo;
        prop_oneof![
            (any::<[bool; 3]>(), any::<u32>(), any::<u32>()).prop_map(
                move |([memory, response, adaptive], to, len)| {
                    Record::Post(Post::Write { class, to, len, memory, response, adaptive })
                }
            ),
            (any::<u32>(), any::<u32>()).prop_map(move |(to, len)| Record::Post(Post::Read { class, to, len })),
            any::<u32>().prop_map(move |to| Record::Post(Post::Flush { class, to })),
            (any::<u32>(), 0..7u8, any::<bool>(), any::<bool>()).prop_map(move |(to, op, fetch, wide)| {
                let op = angara_abi::desc::AmoOp::from_bits(op).unwrap();
                Record::Post(Post::Amo { class, to, op, width: if wide { 8 } else { 4 }, fetch })
            }),
            (any::<u32>(), 0..16u8, 0..3u8, 0..4u8, any::<Option<u32>>(), any::<u32>(), any::<bool>()).prop_map(
                move |(tree, id, op, elem, to, len, memory)| {
                    let op = angara_abi::packet::ReduceOp::from_bits(op).unwrap();
                    let elem = angara_abi::packet::ReduceElem::from_bits(elem).unwrap();
                    Record::Post(Post::Reduce { class, tree, id, op, elem, to, len, memory })
                }
            ),
            (any::<u32>(), any::<u32>(), any::<bool>())
                .prop_map(move |(tree, len, memory)| Record::Post(Post::Bcast { class, tree, len, memory })),
            Just(Record::Post(Post::Fence { class })),
            Just(Record::Post(Post::Nothing)),
            Just(Record::End),
            proptest::collection::vec(cause(), 1..20).prop_map(Record::Wait),
        ]
    }

    proptest! {
        #[test]
        fn any_record_is_read_as_it_was_written(gap in any::<u64>(), record in record()) {
            let mut bytes = Vec::new();
            codec::encode(&mut bytes, gap, &record);
            let mut rest = &bytes[..];
            prop_assert_eq!(codec::decode(&mut rest), Ok((gap, record)));
            prop_assert!(rest.is_empty());
            for cut in 0..bytes.len() {
                prop_assert!(codec::decode(&mut &bytes[..cut]).is_err());
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = codec::decode(&mut &bytes[..]);
        }
    }
}
