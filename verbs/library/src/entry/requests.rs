//! Requests of C programs as those of the adapter.

use super::objects::path;
use crate::abi::constants::*;
use crate::abi::structs::*;
use angara_hca::{
    Element, Errno, Operation, PathAttributes, Payload, ReceiveRequest, Result, SendRequest, Transport, limits,
};
use libc::c_int;
use smallvec::SmallVec;

impl From<&ibv_sge> for Element {
    fn from(of: &ibv_sge) -> Element {
        Element { at: of.addr, len: of.length, key: of.lkey }
    }
}

/// An array of a program.
///
/// # Safety
/// It has as many elements, or is null and has none.
unsafe fn array<'a, T>(at: *const T, count: usize) -> &'a [T] {
    if count == 0 || at.is_null() {
        return &[];
    }
    // SAFETY: the caller promises it.
    unsafe { std::slice::from_raw_parts(at, count) }
}

/// Pieces of registered memory.
///
/// # Safety
/// There are as many.
pub(crate) unsafe fn elements(at: *const ibv_sge, count: usize) -> Result<SmallVec<[Element; 2]>> {
    if count > limits::ELEMENTS as usize {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller promises it.
    Ok(unsafe { array(at, count) }.iter().map(Element::from).collect())
}

/// Bytes that are copied at once.
///
/// # Safety
/// All pieces can be read.
unsafe fn gather(pieces: impl Iterator<Item = (*const u8, usize)>) -> Result<Payload> {
    let mut out = Vec::new();
    for (at, len) in pieces {
        if len > limits::INLINE as usize - out.len() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller promises it.
        out.extend_from_slice(unsafe { array(at, len) });
    }
    Ok(Payload::Inline(out.into()))
}

/// Bytes of buffers.
///
/// # Safety
/// There are as many buffers, which can be read.
pub(crate) unsafe fn inline_buffers(at: *const ibv_data_buf, count: usize) -> Result<Payload> {
    // SAFETY: the caller promises it.
    unsafe { gather(array(at, count).iter().map(|buf| (buf.addr.cast_const().cast(), buf.length))) }
}

/// # Safety
/// There are as many pieces, which can be read.
unsafe fn inline_elements(at: *const ibv_sge, count: usize) -> Result<Payload> {
    // SAFETY: the caller promises it.
    let pieces = unsafe { array(at, count) }.iter();
    let bytes = |piece: &ibv_sge| (std::ptr::with_exposed_provenance(piece.addr as usize), piece.length as usize);
    // SAFETY: the caller promises it.
    unsafe { gather(pieces.map(bytes)) }
}

/// Where a datagram goes.
///
/// # Safety
/// The address handle is one.
pub(crate) unsafe fn datagram(ah: *mut ibv_ah, qp: u32, qkey: u32, imm: Option<u32>) -> Result<Operation> {
    if ah.is_null() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller promises it.
    Ok(Operation::Datagram { to: *unsafe { path(ah) }, qp, qkey, imm })
}

/// What a request asks for.
///
/// # Safety
/// The union is as the opcode says.
unsafe fn operation(of: &ibv_send_wr, transport: Transport) -> Result<Operation> {
    let imm = matches!(of.opcode, wr::RDMA_WRITE_WITH_IMM | wr::SEND_WITH_IMM).then_some(of.imm_data);
    // SAFETY: the caller promises it.
    unsafe {
        Ok(match of.opcode {
            wr::SEND | wr::SEND_WITH_IMM if transport == Transport::Ud => {
                let to = of.wr.ud;
                datagram(to.ah, to.remote_qpn, to.remote_qkey, imm)?
            }
            wr::SEND | wr::SEND_WITH_IMM => Operation::Send { imm },
            wr::RDMA_WRITE | wr::RDMA_WRITE_WITH_IMM => {
                Operation::Write { at: of.wr.rdma.remote_addr, key: of.wr.rdma.rkey, imm }
            }
            wr::RDMA_READ => Operation::Read { at: of.wr.rdma.remote_addr, key: of.wr.rdma.rkey },
            wr::ATOMIC_CMP_AND_SWP => {
                let Atomic { remote_addr, compare_add, swap, rkey } = of.wr.atomic;
                Operation::CompareSwap { at: remote_addr, key: rkey, compare: compare_add, swap }
            }
            wr::ATOMIC_FETCH_AND_ADD => {
                let Atomic { remote_addr, compare_add, rkey, .. } = of.wr.atomic;
                Operation::FetchAdd { at: remote_addr, key: rkey, add: compare_add }
            }
            _ => return Err(Errno::INVAL),
        })
    }
}

/// A request without a payload yet.
pub(crate) fn bare(wr_id: u64, flags: u32, operation: Operation) -> SendRequest {
    SendRequest {
        wr_id,
        operation,
        payload: Payload::Elements(SmallVec::new()),
        signaled: flags & SEND_SIGNALED != 0,
        fence: flags & SEND_FENCE != 0,
        solicited: flags & SEND_SOLICITED != 0,
    }
}

/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe fn send_request(of: &ibv_send_wr, transport: Transport) -> Result<SendRequest> {
    let pieces = usize::try_from(of.num_sge).map_err(|_| Errno::INVAL)?;
    // SAFETY: see the module.
    let mut request = bare(of.wr_id, of.send_flags, unsafe { operation(of, transport) }?);
    // SAFETY: see the module.
    request.payload = unsafe {
        if of.send_flags & SEND_INLINE != 0 {
            inline_elements(of.sg_list, pieces)?
        } else {
            Payload::Elements(elements(of.sg_list, pieces)?)
        }
    };
    Ok(request)
}

/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe fn receive_request(of: &ibv_recv_wr) -> Result<ReceiveRequest> {
    let pieces = usize::try_from(of.num_sge).map_err(|_| Errno::INVAL)?;
    // SAFETY: see the module.
    Ok(ReceiveRequest { wr_id: of.wr_id, elements: unsafe { elements(of.sg_list, pieces) }? })
}

/// Hands each request of a list to `post`, up to the first that fails, which the program is told.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe fn each<T>(
    first: *mut T,
    bad: *mut *mut T,
    next: impl Fn(&T) -> *mut T,
    mut post: impl FnMut(&T) -> Result<()>,
) -> Result<()> {
    let mut at = first;
    // SAFETY: lists end with null.
    while let Some(request) = unsafe { at.as_ref() } {
        if let Err(e) = post(request) {
            // SAFETY: see the module.
            unsafe { *bad = at };
            return Err(e);
        }
        at = next(request);
    }
    Ok(())
}

/// An address vector of C.
pub(crate) fn path_of(of: &ibv_ah_attr) -> PathAttributes {
    PathAttributes {
        dgid: of.grh.dgid.raw,
        flow_label: of.grh.flow_label,
        sgid_index: of.grh.sgid_index,
        hop_limit: of.grh.hop_limit,
        traffic_class: of.grh.traffic_class,
        dlid: of.dlid,
        sl: of.sl,
        src_path_bits: of.src_path_bits,
        static_rate: of.static_rate,
        is_global: of.is_global != 0,
        port: of.port_num,
    }
}

/// The same in C.
pub(crate) fn ah_attr_of(of: &PathAttributes) -> ibv_ah_attr {
    let grh = ibv_global_route {
        dgid: ibv_gid { raw: of.dgid },
        flow_label: of.flow_label,
        sgid_index: of.sgid_index,
        hop_limit: of.hop_limit,
        traffic_class: of.traffic_class,
    };
    ibv_ah_attr {
        grh,
        dlid: of.dlid,
        sl: of.sl,
        src_path_bits: of.src_path_bits,
        static_rate: of.static_rate,
        is_global: of.is_global.into(),
        port_num: of.port,
    }
}

/// The service of a number of `enum ibv_qp_type`. Others are refused as by adapters without them.
pub(crate) fn transport_of(number: u32) -> Result<Transport> {
    let known = [Transport::Rc, Transport::Uc, Transport::Ud];
    known.into_iter().find(|known| *known as u32 == number).ok_or(Errno::OPNOTSUPP)
}

/// A flag of C.
pub(crate) fn is_set(flag: c_int) -> bool {
    flag != 0
}
