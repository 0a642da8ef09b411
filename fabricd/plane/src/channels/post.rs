//! From what a client posted to what the network is asked to do.
//!
//! A post arrives here as a private copy. Everything it names is checked against the job it comes
//! from: endpoints must belong to the job, places must lie inside their regions, operations must
//! be ones a client may use. What passes is a [`Posted`], which needs no further trust.

use crate::jobs::memory::JobMemory;
use crate::virtual_time::gates::Gate;
use angara_abi::account::{Class, READ_MAX};
use angara_abi::channel::Fault;
use angara_abi::desc::{self, AmoOp, Descriptor, Place, Region, flags};
use angara_abi::packet::{Address, AtomicOperand, Flit, Header, PacketType, ReadOperand, Tail, Vc};
use angara_abi::queue::Post;
use angara_abi::{FLIT_BYTES, PAYLOAD_MAX};
use angara_fabric::{Ends, Meeting, Op, Port, Source};
use angara_net::torus::{Coords, Shape};

/// A checked post: an operation of the network that may be done.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    /// Position in the channel's sequence.
    pub(crate) seq: u32,
    /// Class under which its packets are counted.
    pub(crate) class: Class,
    /// Word that receives the sequence number.
    pub(crate) completion: Option<Place>,
    /// `None` if the post only takes its place in the sequence.
    op: Option<Op<Bytes>>,
}

/// Room for the bytes that a post carries itself.
pub(crate) type Carried = [u8; PAYLOAD_MAX];

/// Where the bytes of a post are, and how many.
#[derive(Clone, Copy, Debug)]
enum Bytes {
    /// It carries them.
    Carried(u32),
    /// In memory of its PE.
    Memory(Place, u32),
}

/// Why a post was refused.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) fault: Fault,
    pub(crate) seq: u32,
    pub(crate) why: String,
}

/// Context of the checks of a post.
pub(crate) struct Context<'a> {
    pub(crate) job: &'a JobMemory,
    pub(crate) shape: &'a Shape,
    /// True if a port belongs to the job.
    pub(crate) member: &'a dyn Fn(Port) -> bool,
}

impl Posted {
    /// The operation to inject, with the bytes that came with it; `None` if the post only takes its place in the sequence.
    pub(crate) fn op<'a>(&self, carried: &'a Carried) -> Option<Op<Source<'a>>> {
        Some(self.op?.with_source(|bytes| match bytes {
            Bytes::Carried(len) => Source::Inline(&carried[..len as usize]),
            Bytes::Memory(place, len) => Source::Memory { place, len },
        }))
    }

    /// Source data is still to be read when the network has accepted the post.
    pub(crate) fn reads_memory(&self) -> bool {
        matches!(self.op.as_ref().and_then(Op::source), Some(Bytes::Memory(..)))
    }

    /// True if this brings data back into memory of its PE.
    pub(crate) fn is_read(&self) -> bool {
        self.op.as_ref().is_some_and(Op::is_read)
    }

    /// Tells whether this is a barrier, and a half one.
    pub(crate) fn barrier(&self) -> Option<bool> {
        match self.meeting()? {
            Meeting::Barrier { half } => Some(half),
            Meeting::Reduce { .. } | Meeting::Bcast { .. } => None,
        }
    }

    /// Whose memory this is for.
    pub(crate) fn target(&self) -> Option<Port> {
        self.op.as_ref().and_then(Op::target)
    }

    /// Returns what several PEs take part in, if this is a part of such.
    pub(crate) fn gate(&self) -> Option<Gate> {
        Some(match self.meeting()? {
            Meeting::Barrier { .. } => Gate::Barrier,
            Meeting::Reduce { tree } => Gate::Reduce(tree),
            Meeting::Bcast { tree } => Gate::Bcast(tree),
        })
    }

    fn meeting(&self) -> Option<Meeting> {
        self.op.as_ref().and_then(Op::meeting)
    }

    /// The network reports completion; the others end when their packets are injected.
    pub(crate) fn is_answered(&self) -> bool {
        match self.op.as_ref().map(Op::ends) {
            Some(Ends::Answered(..) | Ends::Reported) => true,
            Some(Ends::Injected) | None => false,
        }
    }
}

impl Context<'_> {
    /// Checks a post; the bytes it carries are put into `carried`.
    pub(crate) fn check(&self, post: Post, carried: &mut Carried) -> Result<Posted, Violation> {
        match post {
            Post::Descriptor(words) => {
                let seq = words[0] as u32;
                let d = Descriptor::decode(&words).map_err(|e| Violation {
                    fault: Fault::BadDescriptor,
                    seq,
                    why: e.to_string(),
                })?;
                self.descriptor(&d, carried).map_err(|(fault, why)| Violation { fault, seq, why })
            }
            Post::Packet { seq, header, tail, data } => {
                self.packet(seq, &header, &tail, &data, carried).map_err(|(fault, why)| Violation { fault, seq, why })
            }
        }
    }

    fn descriptor(&self, d: &Descriptor, carried: &mut Carried) -> Result<Posted, (Fault, String)> {
        let completion = d.completion.map(|c| self.completion(c)).transpose()?;
        let missing = || (Fault::BadDescriptor, "a place is missing".to_string());
        let remote = |len: u32| self.inside(d.remote.ok_or_else(missing)?, len, "target");
        let local = |len: u32| self.inside(d.local.ok_or_else(missing)?, len, "own memory");
        let to = || self.target(d.dst, d.endpoint);
        let adaptive = d.flags & flags::ADAPTIVE != 0;
        let own = |len: u32| Ok::<_, (Fault, String)>(Bytes::Memory(local(len)?, len));
        let op = match d.op {
            desc::Op::Nop => return Ok(Posted { seq: d.seq, class: d.class, completion, op: None }),
            desc::Op::Put => {
                let source = own(d.len)?;
                Op::Write { to: to()?, place: remote(d.len)?, source, vc: d.vc, adaptive }
            }
            desc::Op::PutInline => {
                carried[..8].copy_from_slice(&d.operand.to_le_bytes());
                let source = Bytes::Carried(d.len);
                Op::Write { to: to()?, place: remote(d.len)?, source, vc: d.vc, adaptive }
            }
            desc::Op::Get if d.flags & flags::FLUSH != 0 => {
                if d.len != 8 {
                    return Err((Fault::BadDescriptor, format!("a flush of {} bytes; it reads 8", d.len)));
                }
                Op::Flush { to: to()?, remote: remote(8)?, local: local(8)? }
            }
            desc::Op::Get => Op::Read { to: to()?, remote: remote(d.len)?, local: local(d.len)?, len: d.len },
            desc::Op::Amo => {
                let result = d.local.map(|l| self.inside(l, d.width as u32, "own memory")).transpose()?;
                let (operand, comparand) = (masked(d.operand, d.width), masked(d.comparand, d.width));
                let place = remote(d.width as u32)?;
                Op::Amo { to: to()?, place, op: d.amo, width: d.width, operand, comparand, result }
            }
            desc::Op::Fence => Op::Fence,
            desc::Op::Barrier if self.job.open => {
                return Err((Fault::BadDescriptor, "an open job has no barrier".into()));
            }
            desc::Op::Barrier => Op::Barrier { half: d.flags & flags::HALF != 0 },
            desc::Op::Reduce => Op::Reduce {
                tree: d.tree,
                reduce: d.reduce,
                op: d.reduce_op,
                elem: d.elem,
                to: if d.flags & flags::ALL != 0 { None } else { Some(to()?) },
                place: remote(d.len)?,
                source: own(d.len)?,
            },
            desc::Op::Bcast => Op::Bcast { tree: d.tree, place: remote(d.len)?, source: own(d.len)? },
        };
        Ok(Posted { seq: d.seq, class: d.class, completion, op: Some(op) })
    }

    fn packet(
        &self,
        seq: u32,
        h: &Header,
        tail: &Tail,
        data: &[Flit; 16],
        carried: &mut Carried,
    ) -> Result<Posted, (Fault, String)> {
        let bad = |why: &str| (Fault::BadPacket, why.to_string());
        let Address::Memory { endpoint, region, offset } = h.address else {
            return Err(bad("a collective packet; post a descriptor instead"));
        };
        let region = Region::from_bits(region).filter(|r| *r != Region::Bounce);
        let region = region.ok_or_else(|| bad("the target region does not exist"))?;
        let remote = Place { region, offset };
        if h.notify {
            return Err(bad("the notify bit is reserved"));
        }
        if h.kind != PacketType::Write && (h.vc != Vc::Request || h.adaptive || h.data_flits != 1) {
            return Err(bad("reads and atomics take vc1, the deterministic route and one data flit"));
        }
        let to = self.target(h.dst, endpoint)?;
        let posted = |class, op| Posted { seq, class, completion: None, op: Some(op) };
        match h.kind {
            PacketType::Write => {
                let bytes = tail.payload_bytes(h.data_flits).map_err(|e| bad(&e.to_string()))?;
                if bytes == 0 || !matches!(h.vc, Vc::Response | Vc::Request) {
                    return Err(bad("a write takes 1 to 256 bytes on vc0 or vc1"));
                }
                let place = self.inside(remote, bytes as u32, "target")?;
                for (chunk, flit) in carried.chunks_mut(FLIT_BYTES).zip(&data[..h.data_flits as usize]) {
                    chunk.copy_from_slice(&flit.to_le_bytes());
                }
                let first = tail.first_byte as usize;
                carried.copy_within(first..first + bytes, 0);
                let (vc, adaptive, source) = (h.vc, h.adaptive, Bytes::Carried(bytes as u32));
                Ok(posted(Class::Put, Op::Write { to, place, source, vc, adaptive }))
            }
            PacketType::ReadReq => {
                let r = ReadOperand::decode(data[0]).map_err(|e| bad(&e.to_string()))?;
                let len = r.len as u32;
                if len == 0 || len as usize > READ_MAX {
                    return Err(bad("a read request asks for 1 to 32768 bytes"));
                }
                let local = Region::from_bits(r.region).ok_or_else(|| bad("the return region does not exist"))?;
                let local = self.inside(Place { region: local, offset: r.offset }, len, "own memory")?;
                Ok(posted(Class::Get, Op::Read { to, remote: self.inside(remote, len, "target")?, local, len }))
            }
            PacketType::AtomicAdd | PacketType::AtomicXor => {
                let a = AtomicOperand::decode(data[0]).map_err(|e| bad(&e.to_string()))?;
                if !matches!(a.width, 4 | 8) || !offset.is_multiple_of(a.width as u64) {
                    return Err(bad("an atomic needs a naturally aligned word of 4 or 8 bytes"));
                }
                let place = self.inside(remote, a.width as u32, "target")?;
                let amo = if h.kind == PacketType::AtomicAdd { AmoOp::Add } else { AmoOp::Xor };
                let operand = masked(a.operand, a.width);
                let op = Op::Amo { to, place, op: amo, width: a.width, operand, comparand: 0, result: None };
                Ok(posted(Class::Amo, op))
            }
            other => Err(bad(&format!("clients may not inject {other:?} packets"))),
        }
    }

    fn target(&self, dst: Coords, endpoint: u16) -> Result<Port, (Fault, String)> {
        let node = self.shape.id(dst);
        let port = node.map(|node| Port { node, endpoint }).filter(|&p| (self.member)(p));
        port.ok_or_else(|| {
            let at = self.shape.show(dst);
            (Fault::BadTarget, format!("endpoint {endpoint} of node {at} is not a PE of this job"))
        })
    }

    fn inside(&self, place: Place, len: u32, what: &str) -> Result<Place, (Fault, String)> {
        if self.job.contains(place, len as usize) {
            return Ok(place);
        }
        let size = self.job.region_bytes(place.region);
        let Place { region, offset } = place;
        Err((Fault::BadRange, format!("{len} bytes at {offset:#x} of {what} are outside {region:?} ({size} bytes)")))
    }

    fn completion(&self, place: Place) -> Result<Place, (Fault, String)> {
        match place.offset.is_multiple_of(8) {
            true => self.inside(place, 8, "completion word"),
            false => Err((Fault::BadRange, format!("the completion word at {:#x} is not aligned", place.offset))),
        }
    }
}

fn masked(value: u64, width: u8) -> u64 {
    if width == 4 { value & 0xffff_ffff } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::memory::tests::job;
    use proptest::prelude::*;

    const HEAP: Place = Place { region: Region::Heap, offset: 0 };

    fn check(post: Post) -> Result<Posted, Violation> {
        let job = job(4);
        let shape = "2x2".parse().expect("shape");
        let member = |p: Port| p.endpoint == 0;
        Context { job: &job, shape: &shape, member: &member }.check(post, &mut [0; PAYLOAD_MAX])
    }

    fn descriptor(d: Descriptor) -> Result<Posted, Violation> {
        check(Post::Descriptor(Descriptor { seq: 1, ..d }.encode()))
    }

    fn fault(r: Result<Posted, Violation>) -> Option<Fault> {
        r.err().map(|v| v.fault)
    }

    fn packet(kind: PacketType, offset: u64, vc: Vc, data: Flit) -> Result<Posted, Violation> {
        let address = Address::Memory { endpoint: 0, region: 0, offset };
        let header = Header {
            kind,
            data_flits: 1,
            vc,
            adaptive: false,
            notify: false,
            dirbits: 0,
            first_step: None,
            last_step: None,
            dst: Coords([1, 1, 0, 0]),
            address,
        };
        let mut flits = [0; 16];
        flits[0] = data;
        check(Post::Packet { seq: 1, header, tail: Tail { last_byte: 15, ..Tail::default() }, data: flits })
    }

    #[test]
    fn a_put_of_eight_bytes_becomes_an_inline_write() {
        let d = Descriptor { len: 8, operand: 7, remote: Some(HEAP), ..Descriptor::new(desc::Op::PutInline) };
        let (job, shape) = (job(4), "2x2".parse().expect("shape"));
        let mut carried = [0; PAYLOAD_MAX];
        let context = Context { job: &job, shape: &shape, member: &|_| true };
        let posted = context.check(Post::Descriptor(Descriptor { seq: 1, ..d }.encode()), &mut carried).expect("valid");
        match posted.op(&carried) {
            Some(Op::Write { source: Source::Inline(bytes), .. }) => assert_eq!(bytes, 7u64.to_le_bytes()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn descriptors_that_reach_outside_are_refused() {
        let put = Descriptor { len: 8, local: Some(HEAP), remote: Some(HEAP), ..Descriptor::new(desc::Op::Put) };
        assert_eq!(fault(descriptor(put)), None);
        let far = Some(Place { region: Region::Heap, offset: 8190 });
        assert_eq!(fault(descriptor(Descriptor { remote: far, ..put })), Some(Fault::BadRange));
        assert_eq!(fault(descriptor(Descriptor { local: far, ..put })), Some(Fault::BadRange));
        assert_eq!(fault(descriptor(Descriptor { completion: far, ..put })), Some(Fault::BadRange));
        let statics = Some(Place { region: Region::Static, offset: 0 });
        assert_eq!(fault(descriptor(Descriptor { remote: statics, ..put })), Some(Fault::BadRange));
        assert_eq!(fault(descriptor(Descriptor { endpoint: 3, ..put })), Some(Fault::BadTarget));
        assert_eq!(fault(descriptor(Descriptor { dst: Coords([9, 0, 0, 0]), ..put })), Some(Fault::BadTarget));
        assert_eq!(fault(descriptor(Descriptor { len: 0, ..put })), Some(Fault::BadDescriptor));
    }

    #[test]
    fn ring_packets_are_writes_reads_or_native_atomics() {
        let add = AtomicOperand { operand: 1, width: 8 }.encode();
        assert_eq!(fault(packet(PacketType::Write, 8176, Vc::Request, 0)), None);
        assert_eq!(fault(packet(PacketType::Write, 8177, Vc::Request, 0)), Some(Fault::BadRange));
        assert_eq!(fault(packet(PacketType::Write, 0, Vc::Adaptive, 0)), Some(Fault::BadPacket));
        assert_eq!(fault(packet(PacketType::AtomicAdd, 8, Vc::Request, add)), None);
        assert_eq!(fault(packet(PacketType::AtomicAdd, 4, Vc::Request, add)), Some(Fault::BadPacket));
        assert_eq!(fault(packet(PacketType::AtomicAdd, 8, Vc::Response, add)), Some(Fault::BadPacket));
        let read = ReadOperand { offset: 0, region: Region::Bounce as u8, len: 64 };
        assert_eq!(fault(packet(PacketType::ReadReq, 0, Vc::Request, read.encode())), None);
        let long = ReadOperand { len: 40_000, ..read };
        assert_eq!(fault(packet(PacketType::ReadReq, 0, Vc::Request, long.encode())), Some(Fault::BadPacket));
        for kind in [PacketType::Ctrl, PacketType::ReadRsp, PacketType::Service, PacketType::Barrier] {
            assert_eq!(fault(packet(kind, 0, Vc::Request, 0)), Some(Fault::BadPacket), "{kind:?}");
        }
    }

    proptest! {
        #[test]
        fn any_descriptor_is_refused_or_stays_inside(words: [u64; 8]) {
            let _ = check(Post::Descriptor(words));
        }

        #[test]
        fn any_packet_is_refused_or_stays_inside(header: u128, tail: u128, data: [u128; 16]) {
            if let Ok(header) = Header::decode(header) {
                let _ = check(Post::Packet { seq: 1, header, tail: Tail::decode(tail), data });
            }
        }
    }
}
