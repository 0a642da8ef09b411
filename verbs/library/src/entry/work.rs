//! Work requests: the calls of lists, and those that make one step by step.

use super::guard::{code, value};
use super::objects::{Batch, QpOwn, qp, qp_ex};
use super::requests::*;
use crate::abi::constants::SEND_INLINE;
use crate::abi::structs::*;
use angara_hca::{Element, Errno, Operation, Payload, Result, Transport, limits};
use libc::{c_int, c_void};

/// `post_send` of the context.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe extern "C" fn post_send(
    of: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    code(|| {
        // SAFETY: see the module.
        let own = unsafe { qp(of) };
        own.adapter.with(|hca| {
            // SAFETY: see the module.
            let post = |wr: &ibv_send_wr| hca.post_send(own.id, unsafe { send_request(wr, own.transport) }?);
            // SAFETY: see the module.
            unsafe { each(first, bad, |wr| wr.next, post) }
        })
    })
}

/// `post_recv` of the context.
///
/// # Safety
/// See [`crate::entry`].
pub(crate) unsafe extern "C" fn post_recv(
    of: *mut ibv_qp,
    first: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    code(|| {
        // SAFETY: see the module.
        let own = unsafe { qp(of) };
        own.adapter.with(|hca| {
            // SAFETY: see the module.
            let post = |wr: &ibv_recv_wr| hca.post_receive(own.id, unsafe { receive_request(wr) }?);
            // SAFETY: see the module.
            unsafe { each(first, bad, |wr| wr.next, post) }
        })
    })
}

impl Batch {
    /// Changes the request that is being made.
    fn last(&mut self, change: impl FnOnce(&mut angara_hca::SendRequest) -> Result<()>) {
        let changed = self.requests.last_mut().ok_or(Errno::INVAL).and_then(change);
        if let Err(e) = changed {
            self.error.get_or_insert(e);
        }
    }
}

/// Begins a request.
///
/// # Safety
/// See [`crate::entry`].
unsafe fn add(of: *mut ibv_qp_ex, operation: Operation) {
    // SAFETY: see the module.
    let (own, wr_id, flags) = unsafe { (qp_ex(of), (*of).wr_id, (*of).wr_flags) };
    // What is inline is said by another call.
    let request = bare(wr_id, flags & !SEND_INLINE, operation);
    value((), || own.batch.own(|batch| batch.requests.push(request)));
}

/// # Safety
/// See [`crate::entry`].
unsafe fn change(of: *mut ibv_qp_ex, change: impl FnOnce(&mut angara_hca::SendRequest) -> Result<()>) {
    // SAFETY: see the module.
    let own = unsafe { qp_ex(of) };
    value((), || own.batch.own(|batch| batch.last(change)));
}

/// Functions of `struct ibv_qp_ex` that begin a request.
macro_rules! begins {
    ($($name:ident($($arg:ident: $kind:ty),*) = $operation:expr;)*) => {
        $(
            pub(crate) unsafe extern "C" fn $name(of: *mut ibv_qp_ex, $($arg: $kind),*) {
                // SAFETY: see the module.
                unsafe { add(of, $operation) }
            }
        )*
    };
}

begins! {
    wr_rdma_write(key: u32, at: u64) = Operation::Write { at, key, imm: None };
    wr_rdma_write_imm(key: u32, at: u64, imm: u32) = Operation::Write { at, key, imm: Some(imm) };
    wr_rdma_read(key: u32, at: u64) = Operation::Read { at, key };
    wr_atomic_cmp_swp(key: u32, at: u64, compare: u64, swap: u64) = Operation::CompareSwap { at, key, compare, swap };
    wr_atomic_fetch_add(key: u32, at: u64, add: u64) = Operation::FetchAdd { at, key, add };
    wr_send() = Operation::Send { imm: None };
    wr_send_imm(imm: u32) = Operation::Send { imm: Some(imm) };
}

pub(crate) unsafe extern "C" fn wr_set_ud_addr(of: *mut ibv_qp_ex, ah: *mut ibv_ah, number: u32, qkey: u32) {
    let to = |request: &mut angara_hca::SendRequest| {
        let Operation::Send { imm } = request.operation else { return Err(Errno::INVAL) };
        // SAFETY: see the module.
        request.operation = unsafe { datagram(ah, number, qkey, imm) }?;
        Ok(())
    };
    // SAFETY: see the module.
    unsafe { change(of, to) }
}

pub(crate) unsafe extern "C" fn wr_set_sge(of: *mut ibv_qp_ex, key: u32, at: u64, len: u32) {
    let to = |request: &mut angara_hca::SendRequest| {
        request.payload = Payload::Elements([Element { at, len, key }].into_iter().collect());
        Ok(())
    };
    // SAFETY: see the module.
    unsafe { change(of, to) }
}

pub(crate) unsafe extern "C" fn wr_set_sge_list(of: *mut ibv_qp_ex, count: usize, at: *const ibv_sge) {
    // SAFETY: see the module.
    unsafe {
        change(of, |request| {
            request.payload = Payload::Elements(elements(at, count)?);
            Ok(())
        });
    }
}

pub(crate) unsafe extern "C" fn wr_set_inline_data(of: *mut ibv_qp_ex, addr: *mut c_void, length: usize) {
    // SAFETY: see the module.
    unsafe { wr_set_inline_data_list(of, 1, &ibv_data_buf { addr, length }) }
}

pub(crate) unsafe extern "C" fn wr_set_inline_data_list(of: *mut ibv_qp_ex, count: usize, at: *const ibv_data_buf) {
    // SAFETY: see the module.
    unsafe {
        change(of, |request| {
            request.payload = inline_buffers(at, count)?;
            Ok(())
        });
    }
}

pub(crate) unsafe extern "C" fn wr_start(of: *mut ibv_qp_ex) {
    value((), || {
        // SAFETY: see the module.
        let own = unsafe { qp_ex(of) };
        own.batch.begin();
        own.batch.own(|batch| *batch = Batch::default());
    });
}

impl QpOwn {
    /// Posts all requests that were made, or says what was wrong with the first that was wrong.
    fn post_batch(&self) -> Result<()> {
        let Batch { requests, error } = self.batch.own(std::mem::take);
        if let Some(e) = error {
            return Err(e);
        }
        if requests.len() > limits::REQUESTS as usize {
            return Err(Errno::NOMEM);
        }
        let needs_address = |of: &Operation| self.transport == Transport::Ud && matches!(of, Operation::Send { .. });
        if requests.iter().any(|request| needs_address(&request.operation)) {
            return Err(Errno::INVAL);
        }
        self.adapter.with(|hca| requests.into_iter().try_for_each(|request| hca.post_send(self.id, request)))
    }
}

pub(crate) unsafe extern "C" fn wr_complete(of: *mut ibv_qp_ex) -> c_int {
    code(|| {
        // SAFETY: see the module.
        let own = unsafe { qp_ex(of) };
        let posted = own.post_batch();
        own.batch.end();
        posted
    })
}

pub(crate) unsafe extern "C" fn wr_abort(of: *mut ibv_qp_ex) {
    value((), || {
        // SAFETY: see the module.
        let own = unsafe { qp_ex(of) };
        own.batch.own(|batch| *batch = Batch::default());
        own.batch.end();
    });
}
