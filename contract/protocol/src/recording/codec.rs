//! Records as bytes.

use angara_abi::account::Class;
use angara_abi::desc::AmoOp;
use angara_abi::packet::{ReduceElem, ReduceOp};

/// What a PE posted, without its bytes. PEs are named by their numbers, trees by the order in which they were loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "fields are those of `angara_fabric::Op`, which documents them")]
pub enum Post {
    /// It only takes its place in the sequence.
    Nothing,
    /// Writes memory. `memory`: the adapter fetches the bytes; `response`: on the response channel.
    Write { class: Class, to: u32, len: u32, memory: bool, response: bool, adaptive: bool },
    /// Reads memory.
    Read { class: Class, to: u32, len: u32 },
    /// A read behind all that was written to `to`.
    Flush { class: Class, to: u32 },
    /// Changes a word. `fetch`: its old value comes back.
    Amo { class: Class, to: u32, op: AmoOp, width: u8, fetch: bool },
    /// Later posts wait for earlier ones.
    Fence { class: Class },
    /// Enters the barrier.
    Barrier { half: bool },
    /// Contributes to a reduction.
    Reduce { class: Class, tree: u32, id: u8, op: ReduceOp, elem: ReduceElem, to: Option<u32>, len: u32, memory: bool },
    /// Broadcasts on a tree.
    Bcast { class: Class, tree: u32, len: u32, memory: bool },
}

/// How far a post has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reached {
    /// Its bytes have been fetched.
    Copied,
    /// Its packets are in the network.
    Injected,
    /// Its answer has come; without one, its packets are in the network.
    Complete,
    /// If it is a read, its answer has come.
    Delivered,
}

const ALL_REACHED: [Reached; 4] = [Reached::Copied, Reached::Injected, Reached::Complete, Reached::Delivered];

/// What ended a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// A post of the PE itself; the latest is 1 back.
    Own {
        /// How far it has come.
        reached: Reached,
        /// Which.
        back: u64,
        /// ... and all before it.
        all: bool,
    },
    /// A packet from a PE, or of an answer to this PE itself.
    Arrival {
        /// Whose operation it belongs to.
        from: u32,
        /// How many of these have come, with it.
        count: u64,
    },
    /// A packet of a tree.
    Tree {
        /// Which tree.
        tree: u32,
        /// A broadcast, not a reduction.
        bcast: bool,
        /// How many of them have come, with it.
        count: u64,
    },
}

/// One record of a PE.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// It posts.
    Post(Post),
    /// It waits for all of these.
    Wait(Vec<Cause>),
    /// Its program has ended.
    End,
}

const NOTHING: u8 = 0;
const WRITE: u8 = 1;
const READ: u8 = 2;
const FLUSH: u8 = 3;
const AMO: u8 = 4;
const FENCE: u8 = 5;
const BARRIER: u8 = 6;
const REDUCE: u8 = 7;
const BCAST: u8 = 8;
const WAIT: u8 = 9;
const END: u8 = 10;

const OWN: u8 = 0;
const ARRIVAL: u8 = 1;
const TREE: u8 = 2;

/// Most causes of a wait.
pub(super) const CAUSES_MAX: usize = 1 << 16;

/// Appends a number.
pub(super) fn put(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Takes a number; errors say what is wrong with it.
pub(super) fn take(from: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = take_byte(from)?;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return Err("a number of more than 64 bits".into());
        }
        number |= bits << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err("a number of more than 10 bytes".into())
}

fn take_byte(from: &mut &[u8]) -> Result<u8, String> {
    let (byte, rest) = from.split_first().ok_or("the block ends within a record")?;
    *from = rest;
    Ok(*byte)
}

fn take_u32(from: &mut &[u8]) -> Result<u32, String> {
    let number = take(from)?;
    u32::try_from(number).map_err(|_| format!("{number} is more than 32 bits"))
}

fn bits(flags: &[bool]) -> u8 {
    flags.iter().enumerate().map(|(bit, flag)| u8::from(*flag) << bit).sum()
}

/// A byte of two parts: a code below, bits above.
fn head(code: u8, above: u8) -> u8 {
    code | above << 4
}

/// Appends a record that comes `gap` picoseconds behind the one before it.
pub(super) fn encode(to: &mut Vec<u8>, gap: u64, record: &Record) {
    // Class in the two bits behind the code, flags in the other two.
    let classed = |code, class: Class, flags: &[bool]| head(code, class as u8 | bits(flags) << 2);
    macro_rules! begin {
        ($first:expr) => {{
            to.push($first);
            put(to, gap);
        }};
    }
    match *record {
        Record::Post(post) => match post {
            Post::Nothing => begin!(NOTHING),
            Post::Write { class, to: pe, len, memory, response, adaptive } => {
                begin!(classed(WRITE, class, &[memory, response]));
                put(to, u64::from(pe));
                put(to, u64::from(len) << 1 | u64::from(adaptive));
            }
            Post::Read { class, to: pe, len } => {
                begin!(classed(READ, class, &[]));
                put(to, u64::from(pe));
                put(to, u64::from(len));
            }
            Post::Flush { class, to: pe } => {
                begin!(classed(FLUSH, class, &[]));
                put(to, u64::from(pe));
            }
            Post::Amo { class, to: pe, op, width, fetch } => {
                begin!(classed(AMO, class, &[fetch, width == 8]));
                put(to, u64::from(pe));
                to.push(op as u8);
            }
            Post::Fence { class } => begin!(classed(FENCE, class, &[])),
            Post::Barrier { half } => begin!(head(BARRIER, bits(&[half]))),
            Post::Reduce { class, tree, id, op, elem, to: pe, len, memory } => {
                begin!(classed(REDUCE, class, &[memory]));
                put(to, u64::from(tree));
                to.extend([id, head(op as u8, elem as u8)]);
                put(to, pe.map_or(0, |pe| u64::from(pe) + 1));
                put(to, u64::from(len));
            }
            Post::Bcast { class, tree, len, memory } => {
                begin!(classed(BCAST, class, &[memory]));
                put(to, u64::from(tree));
                put(to, u64::from(len));
            }
        },
        Record::Wait(ref causes) => {
            begin!(WAIT);
            put(to, causes.len() as u64);
            causes.iter().for_each(|cause| encode_cause(to, *cause));
        }
        Record::End => begin!(END),
    }
}

fn encode_cause(to: &mut Vec<u8>, cause: Cause) {
    match cause {
        Cause::Own { reached, back, all } => {
            to.push(head(OWN, reached as u8 | bits(&[all]) << 2));
            put(to, back);
        }
        Cause::Arrival { from, count } => {
            to.push(ARRIVAL);
            put(to, u64::from(from));
            put(to, count);
        }
        Cause::Tree { tree, bcast, count } => {
            to.push(head(TREE, bits(&[bcast])));
            put(to, u64::from(tree));
            put(to, count);
        }
    }
}

/// Takes a record and the time before it.
pub(super) fn decode(from: &mut &[u8]) -> Result<(u64, Record), String> {
    let first = take_byte(from)?;
    let gap = take(from)?;
    let (class, flags) = (first >> 4 & 3, [first & 0x40 != 0, first & 0x80 != 0]);
    let class = Class::from_bits(class).ok_or("a class of packets that does not exist")?;
    let [one, two] = flags;
    let post = match first & 0xf {
        NOTHING => Post::Nothing,
        WRITE => {
            let to = take_u32(from)?;
            let length = take(from)?;
            let len = u32::try_from(length >> 1).map_err(|_| format!("{} bytes are more than 4 GiB", length >> 1))?;
            Post::Write { class, to, len, memory: one, response: two, adaptive: length & 1 != 0 }
        }
        READ => Post::Read { class, to: take_u32(from)?, len: take_u32(from)? },
        FLUSH => Post::Flush { class, to: take_u32(from)? },
        AMO => {
            let (to, op) = (take_u32(from)?, take_byte(from)?);
            let op = AmoOp::from_bits(op).ok_or_else(|| format!("{op} is no atomic operation"))?;
            Post::Amo { class, to, op, width: if two { 8 } else { 4 }, fetch: one }
        }
        FENCE => Post::Fence { class },
        BARRIER => Post::Barrier { half: first & 0x10 != 0 },
        REDUCE => {
            let (tree, id, how) = (take_u32(from)?, take_byte(from)?, take_byte(from)?);
            let (op, elem) = (ReduceOp::from_bits(how & 0xf), ReduceElem::from_bits(how >> 4));
            let (op, elem) = op.zip(elem).ok_or_else(|| format!("{how} is no reduction"))?;
            let (to, len) = (take(from)?, take_u32(from)?);
            let to = to.checked_sub(1).map(|to| u32::try_from(to).map_err(|_| format!("{to} is no PE"))).transpose()?;
            Post::Reduce { class, tree, id, op, elem, to, len, memory: one }
        }
        BCAST => Post::Bcast { class, tree: take_u32(from)?, len: take_u32(from)?, memory: one },
        WAIT => return Ok((gap, Record::Wait(decode_causes(from)?))),
        END => return Ok((gap, Record::End)),
        other => return Err(format!("{other} is no kind of record")),
    };
    Ok((gap, Record::Post(post)))
}

fn decode_causes(from: &mut &[u8]) -> Result<Vec<Cause>, String> {
    let count = take(from)?;
    if count == 0 || count > CAUSES_MAX as u64 {
        return Err(format!("a wait for {count} causes"));
    }
    (0..count).map(|_| decode_cause(from)).collect()
}

fn decode_cause(from: &mut &[u8]) -> Result<Cause, String> {
    let first = take_byte(from)?;
    let flags = first >> 4;
    Ok(match first & 0xf {
        OWN => {
            let reached = ALL_REACHED[usize::from(flags & 3)];
            let back = take(from)?;
            if back == 0 {
                return Err("a wait for a post that was not made".into());
            }
            Cause::Own { reached, back, all: flags & 4 != 0 }
        }
        ARRIVAL => Cause::Arrival { from: take_u32(from)?, count: take(from)? },
        TREE => Cause::Tree { tree: take_u32(from)?, bcast: flags & 1 != 0, count: take(from)? },
        other => return Err(format!("{other} is no kind of cause")),
    })
}
