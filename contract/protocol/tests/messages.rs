//! Messages that another process wrote: valid ones survive a round trip, and no input makes a parser panic.

use angara_abi::{Architecture, JobId};
use angara_protocol::msg::{AdapterReply, AdapterRequest, Alloc, JobSpec, Line, Map, Path, Request};
use proptest::prelude::*;

proptest! {
    #[test]
    fn no_bytes_make_a_message_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        let _ = serde_json::from_slice::<Request>(&bytes);
        let _ = serde_json::from_slice::<AdapterRequest>(&bytes);
        let _ = serde_json::from_slice::<AdapterReply>(&bytes);
        let _ = serde_json::from_slice::<Line>(&bytes);
    }

    #[test]
    fn a_damaged_message_is_refused_or_read_never_a_panic(
        which in 0..6usize, at: usize, byte: u8, cut: usize, pes: u32, key in "\\PC{0,40}",
    ) {
        let text = message(which, pes, &key);
        let mut bytes = text.into_bytes();
        let len = bytes.len();
        bytes[at % len] = byte;
        bytes.truncate(1 + cut % len);
        let _ = serde_json::from_slice::<Request>(&bytes);
        let _ = serde_json::from_slice::<AdapterRequest>(&bytes);
        let _ = serde_json::from_slice::<Line>(&bytes);
    }

    #[test]
    fn messages_round_trip(pes: u32, key in "\\PC{0,40}") {
        for which in 0..3 {
            let text = message(which, pes, &key);
            let request: Request = serde_json::from_str(&text).expect("own output");
            prop_assert_eq!(serde_json::to_string(&request).expect("own input"), text);
        }
        for which in 3..6 {
            let text = message(which, pes, &key);
            let request: AdapterRequest = serde_json::from_str(&text).expect("own output");
            prop_assert_eq!(serde_json::to_string(&request).expect("own input"), text);
        }
    }
}

#[test]
fn architectures_are_spelt_as_in_sentences() {
    for one in [Architecture::X86_64, Architecture::Aarch64] {
        assert_eq!(serde_json::to_string(&one).expect("plain data"), format!("\"{one}\""));
    }
    // Older clients do not say it, and shall be told that they are old.
    let old = r#"{"req":"attach","abi":13,"job":1,"key":"","pe":0,"statics":[]}"#;
    assert!(matches!(serde_json::from_str(old), Ok(AdapterRequest::Attach { abi: 13, .. })));
}

fn message(which: usize, pes: u32, key: &str) -> String {
    let key = key.to_string();
    let spec = JobSpec {
        pes,
        ppn: 1,
        map: Map::Random(7),
        heap: u64::MAX,
        heap_may_shrink: false,
        registered: 0,
        path: Path::Ring,
        barrier: angara_abi::job::Barrier::Multiphase,
        collectives: angara_abi::job::Collectives::P2p,
        name: key.clone(),
        alloc: pes.is_multiple_of(2).then_some(Alloc::Auto),
        open: false,
        heterogeneous: false,
    };
    let json = match which {
        0 => serde_json::to_string(&Request::JobCreate(spec)),
        1 => serde_json::to_string(&Request::JobAttach { job: JobId::new(pes), key }),
        2 => serde_json::to_string(&Request::JobWaits { job: JobId::new(pes) }),
        3 => serde_json::to_string(&AdapterRequest::Attach {
            abi: 1,
            job: JobId::new(pes),
            key,
            pe: 0,
            architecture: Architecture::Aarch64,
            statics: vec![4096, u64::MAX],
        }),
        4 => serde_json::to_string(&AdapterRequest::TreeOpen { root: pes, pes: vec![0, pes] }),
        _ => serde_json::to_string(&AdapterRequest::Abort { status: -1, reason: key, orderly: true }),
    };
    json.expect("plain data")
}
