//! Keeps `docs/reference/registers.md` and the code in step.
//!
//! The tables between `<!-- table: NAME -->` and `<!-- end -->` are generated here: offsets from
//! the constants, bit positions by encoding one field at a time with all its bits set and looking
//! which bits of the result changed. A difference fails the test and prints the fresh table.

use crate::account::{CLASSES, CONTEXTS};
use crate::channel::{self, page, status};
use crate::csr;
use crate::desc::{AmoOp, Descriptor, OFFSET_MAX, Op, Place, Region};
use crate::job::{self, at, bounce};
use crate::packet::{Address, Header, PacketType, ReduceElem, ReduceOp, Tail, Vc};
use angara_net::torus::{Coords, Direction};
use std::fmt::Write;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/registers.md");

/// Where the field is that makes the difference between two encodings: `[high:low]`.
fn span(changed: u128) -> String {
    assert_ne!(changed, 0, "the probe changed nothing");
    let (low, high) = (changed.trailing_zeros(), 127 - changed.leading_zeros());
    let full = (changed >> low).count_ones() == high - low + 1;
    assert!(full, "field is not contiguous: {changed:#x}");
    if low == high { format!("[{low}]") } else { format!("[{high}:{low}]") }
}

fn table(head: &str, rows: &[(String, &str)]) -> String {
    let mut text = format!("| {head} | |\n|---|---|\n");
    for (key, meaning) in rows {
        writeln!(text, "| `{key}` | {meaning} |").expect("a string takes everything");
    }
    text
}

fn empty_header(kind: PacketType) -> Header {
    let address = match kind {
        PacketType::Reduce => {
            Address::Tree { tree: 0, reduce: 0, op: ReduceOp::Sum, elem: ReduceElem::I32, all: false, offset: 0 }
        }
        _ => Address::Memory { endpoint: 0, region: 0, offset: 0 },
    };
    Header {
        kind,
        data_flits: 0,
        vc: Vc::Response,
        adaptive: false,
        notify: false,
        dirbits: 0,
        first_step: None,
        last_step: None,
        dst: Coords([0; 4]),
        address,
    }
}

fn header_table() -> String {
    let zero = empty_header(PacketType::Ctrl);
    let base = zero.encode();
    let bits = |h: Header| span(h.encode() ^ base);
    let west = Direction::from_index(7);
    // Fields whose largest value does not fill the field are completed from the next one's start.
    let kind = bits(Header { kind: PacketType::Reduce, ..zero });
    assert_eq!(kind, "[3]", "type 8 sets the top bit of the type field");
    table(
        "bits of the header flit",
        &[
            ("[3:0]".into(), "packet type"),
            (bits(Header { data_flits: 31, ..zero }), "data flits that follow, 0 to 16"),
            ("[11:9]".into(), "virtual channel of injection"),
            (bits(Header { adaptive: true, ..zero }), "may take the adaptive channel"),
            (bits(Header { notify: true, ..zero }), "target reports the delivery"),
            ("[15:14]".into(), "layout version, 0"),
            (bits(Header { dirbits: 255, ..zero }), "directions still to travel, +X +Y +Z +W −X −Y −Z −W"),
            (bits(Header { first_step: west, ..zero }), "first step: `8 + direction`, 0 for none"),
            (bits(Header { last_step: west, ..zero }), "last step, same form"),
            (bits(Header { dst: Coords([255; 4]), ..zero }), "target node: X, Y, Z, W, eight bits each"),
        ],
    )
}

fn memory_table() -> String {
    let zero = empty_header(PacketType::Ctrl);
    let bits = |endpoint, region, offset| {
        let address = Address::Memory { endpoint, region, offset };
        span(Header { address, ..zero }.encode() ^ zero.encode())
    };
    table(
        "bits",
        &[
            (bits(1023, 0, 0), "endpoint (channel) at the target node"),
            (bits(0, 63, 0), "memory region of that endpoint"),
            (bits(0, 0, OFFSET_MAX), "byte offset in the region"),
        ],
    )
}

fn tree_table() -> String {
    let zero = empty_header(PacketType::Reduce);
    let bits = |tree, reduce, elem, all, offset| {
        let address = Address::Tree { tree, reduce, op: ReduceOp::Sum, elem, all, offset };
        span(Header { address, ..zero }.encode() ^ zero.encode())
    };
    let none = ReduceElem::I32;
    table(
        "bits",
        &[
            (bits(15, 0, none, false, 0), "TreeId"),
            (bits(0, 15, none, false, 0), "ReduceId"),
            ("[74:72]".into(), "operation: 0 sum, 1 maximum, 2 minimum"),
            (bits(0, 0, ReduceElem::U64, false, 0), "element: 0 i32, 1 u32, 2 i64, 3 u64"),
            (bits(0, 0, none, true, 0), "result to every participant (all-reduce)"),
            ("[79:78]".into(), "zero"),
            (bits(0, 0, none, false, OFFSET_MAX), "destination offset in every receiver's region"),
        ],
    )
}

fn tail_table() -> String {
    let zero = Tail::default();
    let bits = |t: Tail| span(t.encode());
    table(
        "bits of the tail flit",
        &[
            ("[31:0]".into(), "CRC-32C over all flits, this field taken as zero"),
            (bits(Tail { link_seq: !0, ..zero }), "link sequence number, rewritten at each hop"),
            (bits(Tail { src: !0, ..zero }), "node that injected the packet"),
            (bits(Tail { first_byte: 15, ..zero }), "first valid byte of the first data flit"),
            (bits(Tail { last_byte: 15, ..zero }), "last valid byte of the last data flit"),
            (bits(Tail { end_crc: !0, ..zero }), "end-to-end CRC-32C over the data, 0 when unused"),
            (bits(Tail { tag: !0, ..zero }), "injection ring: low bits of the post sequence; link: trace id"),
        ],
    )
}

fn types_table() -> String {
    let meaning = [
        "link-local control",
        "write payload into the target's memory, unacknowledged",
        "ask for memory",
        "data answering a read or a fetching atomic",
        "atomic add, no answer",
        "atomic exclusive-or, no answer",
        "broadcast towards the root",
        "broadcast from the root",
        "contribution to a reduction",
        "collective credits",
        "service-processor extension: the atomics the chip lacks",
        "special or message of a barrier",
    ];
    let rows: Vec<_> = (0..16)
        .filter_map(|code| PacketType::from_bits(code).map(|t| (format!("{code} {t:?}"), meaning[code as usize])))
        .collect();
    table("packet type", &rows)
}

fn descriptor_table() -> String {
    let zero = Descriptor::new(Op::Nop);
    let zero = Descriptor { class: crate::account::Class::Put, vc: Vc::Response, reduce_op: ReduceOp::Sum, ..zero };
    let zero = Descriptor { elem: ReduceElem::I32, ..zero };
    let base = zero.encode();
    let bits = |d: Descriptor| {
        let words = d.encode();
        let changed: Vec<_> = (0..8).filter(|&i| words[i] != base[i]).collect();
        assert_eq!(changed.len(), 1, "one field lies in one word");
        format!("q{} {}", changed[0], span((words[changed[0]] ^ base[changed[0]]) as u128))
    };
    let all = Place { region: Region::Heap, offset: OFFSET_MAX };
    let offset = |d: fn(Descriptor, Place) -> Descriptor| {
        let start = d(zero, Place { offset: 0, ..all }).encode();
        let end = d(zero, all).encode();
        let word = (0..8).find(|&i| start[i] != end[i]).expect("an offset");
        format!("q{word} {}", span((start[word] ^ end[word]) as u128))
    };
    table(
        "word and bits",
        &[
            (bits(Descriptor { seq: !0, ..zero }), "post sequence"),
            ("q0 [39:32]".into(), "operation"),
            ("q0 [43:40]".into(), "accounting class: 0 put, 1 get, 2 atomic, 3 sync"),
            ("q0 [47:44]".into(), "virtual channel of the request"),
            (bits(Descriptor { flags: !0, ..zero }), "flags: 1 half-barrier, 2 result to all, 4 adaptive, 8 flush"),
            (bits(Descriptor { len: !0, ..zero }), "length in bytes"),
            (bits(Descriptor { endpoint: 1023, ..zero }), "target endpoint"),
            ("q1 [55:48]".into(), "atomic operation"),
            (bits(Descriptor { width: 255, ..zero }), "operand width: 4 or 8"),
            (
                offset(|d, p| Descriptor { local: Some(p), ..d }),
                "own memory: offset; region in `[53:48]`, present in `[63]`",
            ),
            (offset(|d, p| Descriptor { remote: Some(p), ..d }), "target memory, same form"),
            (bits(Descriptor { dst: Coords([255; 4]), ..zero }), "target node: X, Y, Z, W, eight bits each"),
            (bits(Descriptor { tree: 15, ..zero }), "TreeId"),
            (bits(Descriptor { reduce: 15, ..zero }), "ReduceId"),
            ("q4 [43:40]".into(), "reduce operation"),
            ("q4 [47:44]".into(), "reduce element"),
            (
                offset(|d, p| Descriptor { completion: Some(p), ..d }),
                "own word that receives the sequence as a u64 on completion, same form",
            ),
            (bits(Descriptor { operand: !0, ..zero }), "operand, or inline data"),
            (bits(Descriptor { comparand: !0, ..zero }), "comparand"),
        ],
    )
}

fn operations_table() -> String {
    let ops = Op::ALL.iter().map(|o| (format!("operation {} {o:?}", *o as u8), o.facts().does));
    let amos = (0..16).filter_map(|c| {
        AmoOp::from_bits(c).map(|o| {
            let how = if o.is_native() { "the chip's own when no result is wanted" } else { "service processor" };
            (format!("atomic {c} {o:?}"), how)
        })
    });
    let holds = ["heap slice, the library's area first", "symmetric static data", "bounce region of the poster itself"];
    let regions =
        (0..16).filter_map(|c| Region::from_bits(c).map(|r| (format!("region {c} {r:?}"), holds[c as usize])));
    let carries = [
        "vc0: responses, and writes that may overtake",
        "vc1: requests, atomics, ordered writes",
        "minimal adaptive with escape",
        "collective subnet, towards the root",
        "collective subnet, from the root",
    ];
    let vcs =
        (0..16).filter_map(|c| Vc::from_bits(c).map(|v| (format!("virtual channel {c} {v:?}"), carries[c as usize])));
    let faults =
        (0..16).filter_map(|c| channel::Fault::from_code(c).map(|f| (format!("fault {c} {f:?}"), f.describe())));
    table("code", &ops.chain(amos).chain(regions).chain(vcs).chain(faults).collect::<Vec<_>>())
}

fn hex(offset: usize) -> String {
    format!("{offset:#05x}")
}

fn page_table() -> String {
    table(
        "offset in the channel page",
        &[
            (hex(0), "header: magic `ANGARA\\0C`, version u32, size u32"),
            (hex(page::TX_TAIL), "u32 doorbell: ring flits made visible"),
            (hex(page::MAILBOX_SEQ), "u32 CSR command sequence, written last"),
            (hex(page::MAILBOX_CSR), "u32 byte offset of the CSR to write"),
            (hex(page::MAILBOX_VALUE), "u64 value to write"),
        ],
    )
}

fn status_table() -> String {
    table(
        "offset in the status page",
        &[
            (hex(0), "header: magic `ANGARA\\0S`, version u32, size u32"),
            (hex(status::TX_HEAD), "u32 ring flits taken"),
            (hex(status::DMA_HEAD), "u32 descriptors taken"),
            (hex(status::COPIED), "u32 latest post whose source data has been copied"),
            (hex(status::INJECTED), "u32 latest post all of whose packets are injected (guarantee 2)"),
            (hex(status::DELIVERED), "u32 latest post up to which every read has delivered its data"),
            (hex(status::ERR), "u32 sticky error: 0 or a fault code"),
            (hex(status::ERR_SEQ), "u32 post that caused it"),
            (hex(status::MAILBOX_ACK), "u32 CSR command acknowledged"),
            (hex(status::MAILBOX_RESULT), "u32 its outcome: 0 or a fault code"),
            (hex(status::TREE_RESULTS), "u32 × 16 reduce results delivered, per tree"),
            (hex(status::TREE_BCASTS), "u32 × 16 broadcasts delivered, per tree"),
        ],
    )
}

fn csr_table() -> String {
    let c = |offset: u32| format!("{offset:#06x}");
    let link = |register| format!("{:#06x} + {:#x}·d", csr::LINK_BASE + register, csr::LINK_STRIDE);
    let tree = |register| format!("{:#06x} + {:#x}·t", csr::TREE_BASE + register, csr::TREE_STRIDE);
    table(
        "offset in the CSR page",
        &[
            (c(0), "header: magic `ANGARA\\0R`, version u32, size u32"),
            (c(csr::ID), "ID: 0x00081c63, device and vendor of the EC8430"),
            (
                c(csr::CAPS),
                "CAPS: `[7:0]` dimensions, `[23:8]` channels, `[31:24]` trees, `[39:32]` reduces, `[55:40]` payload bytes",
            ),
            (c(csr::COORDS), "COORDS: own coordinates, eight bits each"),
            (c(csr::DIMS), "DIMS: sizes, eight bits each; bit 32 mesh"),
            (c(csr::NODE), "NODE: node id"),
            (c(csr::STATUS), "STATUS: 1 while the node forwards packets"),
            (c(csr::ERRORS), "ERRORS: violations by clients; a command writing 0 clears it"),
            (c(csr::SCRATCH), "SCRATCH: free for software"),
            (link(csr::LINK_STATE), "link d: 1 up, 0 down, 2 not present"),
            (link(csr::LINK_TX_PACKETS), "link d: packets sent"),
            (link(csr::LINK_TX_FLITS), "link d: flits sent"),
            (link(csr::LINK_TX_BYTES), "link d: payload bytes sent"),
            (link(csr::LINK_RX_PACKETS), "link d: packets received"),
            (link(csr::LINK_CRC_ERRORS), "link d: packets received with a wrong CRC"),
            (link(csr::LINK_REPLAYS), "link d: packets sent again"),
            (
                tree(csr::TREE_ROW),
                "tree t: `[7:0]` directions down, `[11:8]` direction to root, `[12]` root, `[13]` processor takes part, `[14]` valid, `[19:16]` number of directions down",
            ),
            (tree(csr::TREE_RESULTS), "tree t: reduce results sent up or to the processor"),
            (tree(csr::TREE_BCASTS), "tree t: broadcast packets sent on"),
            (c(csr::BARRIER_DONE), "barriers this node has left"),
            (c(csr::BARRIER_PHASES), "phases K of the latest barrier"),
        ],
    )
}

fn job_table() -> String {
    let pe = |field: usize| format!("{:#05x} + {}·pe", at::PE_TABLE + field, at::PE_BYTES);
    table(
        "offset in the job page",
        &[
            (hex(0), "header: magic `ANGARA\\0J`, version u32, size u32"),
            (hex(at::PES), "u32 PEs"),
            (hex(at::NODES), "u32 nodes of the network"),
            (hex(at::DIMS), "u8 × 4 sizes of the network"),
            (hex(at::NDIMS), "u32 dimensions in use"),
            (hex(at::WRAP), "u32 1 torus, 0 mesh"),
            (
                hex(at::BARRIER),
                "u32 barrier family: 0 auto, 1 multiphase, 2 counter, 3 dissemination, 4 all-to-all, 5 tree, 6 hypercube, 7 master, 8 counting",
            ),
            (hex(at::COLLECTIVES), "u32 collectives: 0 auto, 1 tree, 2 point-to-point"),
            (hex(at::STATE), "u32 0 running, 1 ended"),
            (hex(at::ATTACHED), "u32 PEs that take part"),
            (hex(at::CROWDED), "u32 1: more PEs than cores, waiting must not spin"),
            (hex(at::EXITS), "u32 1: a PE has ended the program in order"),
            (hex(at::EXIT_STATUS), "i32 exit status it gave"),
            (hex(at::HEAP_STRIDE), "u64 bytes from one heap slice to the next"),
            (hex(at::STATIC_STRIDE), "u64 bytes from one static slice to the next; 0 until the first PE attached"),
            (hex(at::OPEN), "u32 1: PEs are seats that processes take and leave"),
            (hex(at::HETEROGENEOUS), "u32 1: PEs may be of several architectures; only the heap is symmetric"),
            (hex(at::DAEMON_SLEEPS), "u32 non-zero: a post must ring the doorbell eventfd"),
            (hex(at::DAEMON_CORE), "u32 core the data plane was seen on last, plus one"),
            (pe(0), "u32 node of the PE"),
            (pe(4), "u8 × 4 coordinates of that node"),
            (pe(8), "u32 endpoint of the PE at that node"),
            (
                pe(12),
                "u32 seat of the PE: `[2:0]` 0 free, 1 taken, 2 resting, 3 left, 4 deserted; `[31:3]` lives that are over",
            ),
        ],
    )
}

fn sync_table() -> String {
    use crate::job::SyncPage;
    table(
        "offset in the synchronisation page",
        &[
            (hex(0), "header: magic `ANGARA\\0Y`, version u32, size u32"),
            (hex(SyncPage::DEADLINES), "u32 changes of deadlines of PEs that stand in virtual time"),
            (hex(SyncPage::ARRIVED), "u32 PEs that have arrived at the on-host barrier"),
            (hex(SyncPage::GENERATION), "u32 its generation"),
            (hex(SyncPage::BARRIER_CELL), "wait cell of the barrier: u32 event (futex), u32 sleepers"),
            (
                format!("{} + 128·core", hex(SyncPage::GATHERED)),
                "u32 PEs of a core that have arrived, before one of them arrives for all",
            ),
            (
                format!("{} + {}·pe", hex(SyncPage::CELLS), size_of::<crate::wait::WaitCell>()),
                "wait cell of a PE: its memory",
            ),
            (
                format!("{} + {}·(PEs + pe)", hex(SyncPage::CELLS), size_of::<crate::wait::WaitCell>()),
                "wait cell of a PE: its adapter",
            ),
            (
                format!("{} + {}·(2·PEs + pe)", hex(SyncPage::CELLS), size_of::<crate::wait::WaitCell>()),
                "wait cell of a PE: a completion word",
            ),
            (
                format!("{} + 384·PEs + {}·pe", hex(SyncPage::CELLS), size_of::<crate::note::WaitNote>()),
                "what a PE waits for: u64 since (ns, 0: nothing), u32 length, u32 looks in vain for other PEs, text",
            ),
            (format!("{} + 768·PEs + 4·pe", hex(SyncPage::CELLS)), "u32 core a PE is bound to, plus one"),
        ],
    )
}

fn sizes_table() -> String {
    table(
        "size",
        &[
            (format!("{}", channel::PAGE_BYTES), "bytes of a channel page and of a status page"),
            (format!("{}", channel::RING_BYTES), "bytes of an injection ring (4096 flits)"),
            (format!("{}", channel::DMA_BYTES), "bytes of a descriptor queue (1024 descriptors of 64)"),
            (format!("{}", csr::CSR_BYTES), "bytes of a CSR page"),
            (format!("{}", job::INTERNAL_BYTES), "bytes at the start of a heap slice that belong to the library"),
            (format!("{}", job::BOUNCE_BYTES), "bytes of a bounce region"),
            (format!("{}", bounce::COMPLETIONS), "completion words (u64) at its start"),
            (format!("{}", bounce::RESULTS), "offset of as many result words of fetching atomics"),
            (format!("{}", bounce::STAGING), "offset of its staging area"),
            (
                format!("{}", CONTEXTS * CLASSES * 64),
                "bytes of a counter region per destination PE: 16 context slots × 4 classes × one 64-byte row",
            ),
            (format!("{}", job::PES_MAX), "most PEs of a job"),
        ],
    )
}

#[test]
fn the_register_document_agrees_with_the_code() {
    let text = std::fs::read_to_string(DOCUMENT).expect("docs/reference/registers.md lies beside the crates");
    let tables = [
        ("header", header_table()),
        ("memory-address", memory_table()),
        ("tree-address", tree_table()),
        ("tail", tail_table()),
        ("types", types_table()),
        ("descriptor", descriptor_table()),
        ("codes", operations_table()),
        ("channel-page", page_table()),
        ("status-page", status_table()),
        ("csr", csr_table()),
        ("job-page", job_table()),
        ("sync-page", sync_table()),
        ("sizes", sizes_table()),
    ];
    let mut stale = String::new();
    for (name, want) in &tables {
        let marker = format!("<!-- table: {name} -->\n");
        let have = text.split_once(&marker).and_then(|(_, rest)| rest.split_once("<!-- end -->")).map(|(t, _)| t);
        if have.map(str::trim) != Some(want.trim()) {
            write!(stale, "\n{marker}{want}<!-- end -->\n").expect("a string takes everything");
        }
    }
    assert!(stale.is_empty(), "docs/reference/registers.md is stale; these tables are right:\n{stale}");
    assert_eq!(text.matches("<!-- table:").count(), tables.len(), "a table nobody checks");
}
