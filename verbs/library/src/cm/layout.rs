//! Structs of `rdma/rdma_user_cm.h` that programs get.

use super::bytes::{ADDRESS, Fields, Record, address_len};
use super::id::{Id, State};
use super::wire::Ends;
use angara_hca::address::{LinkLayer, gids, guid, lid};
use angara_hca::{Errno, Result, access, limits, mask};

/// The key of all queue pairs of datagrams that connection managers make known.
pub(crate) const QKEY: u32 = 0x0123_4567;
/// Codes of verbs: 4096 bytes; 40 Gbit/s; 4.096 µs times 2 to that power.
const MTU: u8 = 5;
const RATE: u8 = 7;
const LIFE_TIME: u8 = 14;
/// The only partition.
const PKEY: u16 = 0xffff;
/// The entry of the table of GIDs that paths over Ethernet use: version 2, of the IPv4 address.
const ETHERNET_GID: usize = 3;
const HOP_LIMIT: u8 = 64;
const CONN_DATA: usize = 8;
const DATAGRAM_DATA: usize = 40;
/// Of the union of both kinds of parameters.
pub(crate) const PARAM: usize = 304;

/// Where paths of an identifier lead: its adapter's place and node, and the node of the peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) link: LinkLayer,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Way {
    fn gid(&self, node: u32) -> [u8; 16] {
        let all = gids(self.link, node);
        all[if self.link == LinkLayer::Ethernet { ETHERNET_GID } else { 0 }].0
    }
    fn lid(&self, node: u32) -> u16 {
        if self.link == LinkLayer::Ethernet { 0 } else { lid(node) }
    }

    /// `struct ib_uverbs_ah_attr`.
    fn address(&self, out: &mut Record, at: usize, traffic_class: u8) {
        if self.link == LinkLayer::Ethernet {
            out.bytes(at, &self.gid(self.to));
            out.u8(at + 20, ETHERNET_GID as u8);
            out.u8(at + 21, HOP_LIMIT);
            out.u8(at + 22, traffic_class);
            out.u8(at + 29, 1);
        }
        out.u16(at + 24, self.lid(self.to));
        out.u8(at + 30, 1);
    }

    /// `struct ib_user_path_rec`.
    fn path(&self, out: &mut Record, at: usize, traffic_class: u8) {
        out.bytes(at, &self.gid(self.to));
        out.bytes(at + 16, &self.gid(self.from));
        out.bytes(at + 32, &self.lid(self.to).to_be_bytes());
        out.bytes(at + 34, &self.lid(self.from).to_be_bytes());
        out.u32(at + 44, 1);
        out.u32(at + 48, MTU.into());
        out.u16(at + 52, PKEY);
        out.u8(at + 54, if self.link == LinkLayer::Ethernet { HOP_LIMIT } else { 0 });
        out.u8(at + 55, traffic_class);
        out.u8(at + 56, 1);
        for (offset, value) in [(58, 2), (59, 2), (60, RATE), (61, 2), (62, LIFE_TIME)] {
            out.u8(at + offset, value);
        }
    }
}

/// `struct rdma_ucm_query_route_resp`. `way`: nothing as long as it has no adapter.
pub(crate) fn route(id: &Id, way: Option<Way>) -> Record {
    let mut out = Record::new(208);
    if let Some(way) = way {
        out.bytes(0, &guid(way.from).to_be_bytes());
        way.path(&mut out, 8, id.options.traffic_class);
        out.u32(192, id.dst.is_some().into());
        out.u8(196, 1);
        out.u32(200, id.adapter() as u32);
    }
    out.address(136, id.src);
    out.address(136 + ADDRESS, id.dst);
    out
}

/// `struct rdma_ucm_query_addr_resp`, with addresses, or with GIDs as addresses of InfiniBand.
pub(crate) fn addresses(id: &Id, way: Option<Way>, as_gids: bool) -> Record {
    const STORAGE: usize = 128;
    const IB: u16 = 27;
    let mut out = Record::new(280);
    if let Some(way) = way {
        out.bytes(0, &guid(way.from).to_be_bytes());
        out.u8(8, 1);
        out.u16(10, PKEY);
        out.u32(16 + 2 * STORAGE, id.adapter() as u32);
    }
    let ends = [(12, 16, id.src), (14, 16 + STORAGE, id.dst)];
    for (is_far, (len_at, at, address)) in ends.into_iter().enumerate() {
        match (as_gids, way) {
            (false, _) => {
                out.u16(len_at, address_len(address));
                out.address(at, address);
            }
            (true, Some(way)) => {
                out.u16(len_at, 48);
                out.u16(at, IB);
                out.u16(at + 2, PKEY);
                out.bytes(at + 8, &way.gid(if is_far == 1 { way.to } else { way.from }));
            }
            (true, None) => {}
        }
    }
    out
}

/// `struct rdma_ucm_query_path_resp` with one path, in the form of the wire.
pub(crate) fn paths(id: &Id, way: Option<Way>) -> Record {
    let mut out = Record::new(8 + 72);
    let Some(way) = way.filter(|_| id.dst.is_some()) else { return Record::new(8) };
    out.u32(0, 1);
    // Flags: outbound, both ways, the primary one.
    out.u32(8, 0b1_1011);
    let at = 16;
    out.bytes(at + 8, &way.gid(way.to));
    out.bytes(at + 24, &way.gid(way.from));
    out.bytes(at + 40, &way.lid(way.to).to_be_bytes());
    out.bytes(at + 42, &way.lid(way.from).to_be_bytes());
    out.u8(at + 48, id.options.traffic_class);
    out.u8(at + 49, 0x81);
    out.u16(at + 50, PKEY);
    for (offset, value) in [(54, MTU), (55, RATE), (56, LIFE_TIME)] {
        out.u8(at + offset, 0x80 | value);
    }
    out
}

/// `struct ib_uverbs_qp_attr` for a change to a state.
pub(crate) fn pair(id: &Id, way: Way, state: u32) -> Result<Record> {
    let [init, rtr, rts] = [angara_hca::State::Init, angara_hca::State::Rtr, angara_hca::State::Rts].map(|s| s as u32);
    let mut out = Record::new(144);
    let mut what = mask::STATE;
    if state == init {
        what |= mask::PKEY_INDEX | mask::PORT | if id.datagrams { mask::QKEY } else { mask::ACCESS };
        out.u32(20, if id.datagrams { QKEY } else { 0 });
        let rights = access::REMOTE_WRITE | access::REMOTE_READ | access::REMOTE_ATOMIC;
        out.u32(36, if id.datagrams { 0 } else { rights });
        out.u8(133, 1);
    } else if state != rtr && state != rts {
        return Err(Errno::INVAL);
    } else if id.datagrams {
        what |= if state == rts { mask::SQ_PSN } else { 0 };
    } else if !matches!(id.state, State::Requested | State::Accepted | State::Answered | State::Connected) {
        return Err(Errno::INVAL);
    } else if state == rtr {
        what |= mask::PATH | mask::PATH_MTU | mask::DEST_QP | mask::RQ_PSN;
        what |= mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER;
        way.address(&mut out, 40, id.options.traffic_class);
        out.u32(12, MTU.into());
        out.u32(24, id.peer.map_or(0, |(_, number)| number & 0xff_ffff));
        out.u32(32, id.theirs.pair);
        out.u8(131, id.own.answers.min(limits::READS));
    } else {
        what |= mask::SQ_PSN | mask::TIMEOUT | mask::RETRY_CNT | mask::RNR_RETRY | mask::MAX_RD_ATOMIC;
        out.u32(28, id.number & 0xff_ffff);
        out.u8(130, id.own.begins.min(limits::READS));
        out.u8(134, id.options.ack_timeout.unwrap_or(LIFE_TIME + 1) & 31);
        out.u8(135, id.own.retries & 7);
        out.u8(136, id.own.rnr_retries & 7);
    }
    out.u32(0, what);
    out.u32(4, state);
    out.u32(8, state);
    Ok(out)
}

/// Reads `struct rdma_ucm_conn_param`, with its private data, of which at most `most` bytes may be.
pub(crate) fn read_ends(from: Fields<'_>, at: usize, most: usize) -> Result<(Ends, Vec<u8>)> {
    let len: usize = from.u8(at + 264).into();
    if len > most {
        return Err(Errno::INVAL);
    }
    let ends = Ends {
        pair: from.u32(at) & 0xff_ffff,
        qkey: from.u32(at + 4),
        srq: from.u8(at + 265),
        answers: from.u8(at + 266),
        begins: from.u8(at + 267),
        flow_control: from.u8(at + 268),
        retries: from.u8(at + 269),
        rnr_retries: from.u8(at + 270),
    };
    Ok((ends, from.bytes(at + CONN_DATA, len)?))
}

/// Data as a message of the specification carries them: always as many bytes.
fn data(out: &mut Record, at: usize, data: &[u8], len: usize) {
    out.bytes(at, &data[..data.len().min(len)]);
    out.u8(at + 256, len as u8);
}

/// `struct rdma_ucm_conn_param` of an event, with `len` bytes of private data.
pub(crate) fn conn_event(ends: &Ends, private: &[u8], len: usize) -> Record {
    let mut out = Record::new(PARAM);
    out.u32(0, ends.pair);
    out.u32(4, ends.qkey);
    data(&mut out, CONN_DATA, private, len);
    let rest = [ends.srq, ends.answers, ends.begins, ends.flow_control, ends.retries, ends.rnr_retries];
    out.bytes(265, &rest);
    out
}

/// `struct rdma_ucm_ud_param` of an event.
pub(crate) fn datagram_event(ends: &Ends, way: Way, private: &[u8], len: usize) -> Record {
    let mut out = Record::new(PARAM);
    out.u32(0, ends.pair);
    out.u32(4, ends.qkey);
    way.address(&mut out, 8, 0);
    data(&mut out, DATAGRAM_DATA, private, len);
    out
}
