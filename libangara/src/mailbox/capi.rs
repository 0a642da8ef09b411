//! Mailboxes in C; `include/angara.h` documents each function.

use super::{Mailbox, Peer, SendError};
use crate::capi::{job, not_null, pe_number, run};
use crate::error::Error;
use crate::job::Job;
use std::ffi::{c_int, c_void};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

const EFULL: c_int = -12;
const EGONE: c_int = -13;

/// A life of a seat, as `angara_peer_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PeerWords {
    /// Its PE number.
    seat: u32,
    /// Which life.
    generation: u32,
}

impl From<Peer> for PeerWords {
    fn from(Peer { seat, generation }: Peer) -> PeerWords {
        PeerWords { seat, generation }
    }
}

/// See `angara.h`.
#[unsafe(no_mangle)]
pub extern "C" fn angara_mailbox_bytes(pes: c_int) -> usize {
    usize::try_from(pes).map_or(0, Mailbox::bytes)
}

/// See `angara.h`.
///
/// # Safety
/// `a` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn angara_mailbox_open(a: *const Job, at: *mut c_void) -> *mut Mailbox {
    let mut mailbox = std::ptr::null_mut();
    run(|| {
        // SAFETY: the caller's promise.
        let job = unsafe { job(a)? };
        let place = job.locate(at.cast(), Mailbox::bytes(job.n_pes())).ok_or_else(|| {
            let bytes = Mailbox::bytes(job.n_pes());
            Error::invalid(format!(
                "a mailbox of {bytes} bytes at {at:p} is not inside angara_heap(); see angara run --heap"
            ))
        })?;
        // SAFETY: `angara_open` made it of an `Arc`, one count of which is the caller's.
        let job = unsafe {
            Arc::increment_strong_count(a);
            Arc::from_raw(a)
        };
        mailbox = Box::into_raw(Box::new(Mailbox::open(job, place)?));
        Ok(0)
    });
    mailbox
}

/// See `angara.h`.
///
/// # Safety
/// `m` is null or came from `angara_mailbox_open` and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn angara_mailbox_close(m: *mut Mailbox) {
    if !m.is_null() {
        run(|| {
            // SAFETY: made by `Box::into_raw` above; the caller gives it up.
            drop(unsafe { Box::from_raw(m) });
            Ok(0)
        });
    }
}

/// Defines C functions: name, arguments, and a body that sees the mailbox.
macro_rules! api {
    ($(fn $name:ident($mailbox:ident $(, $arg:ident: $t:ty)* $(,)?) $body:block)*) => {$(
        /// See `angara.h`.
        ///
        /// # Safety
        /// As `angara.h` says: the mailbox is open and used by one thread at a time, pointers are valid for what they are
        /// used for.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(m: *mut Mailbox $(, $arg: $t)*) -> c_int {
            run(|| {
                // SAFETY: the caller's promise.
                let $mailbox = unsafe { m.as_mut() };
                let $mailbox = $mailbox.ok_or_else(|| {
                    Error::invalid("the angara_mailbox_t pointer is NULL; angara_mailbox_open() failed?")
                })?;
                $body
            })
        }
    )*};
}

api! {
    fn angara_mailbox_max(mailbox) { Ok(mailbox.message_max() as c_int) }

    fn angara_mailbox_peer(mailbox, pe: c_int, out: *mut PeerWords) {
        not_null(out, "out")?;
        let pe = pe_number(pe)?;
        if pe >= mailbox.layout.pes {
            return Err(Error::invalid(format!("PE {pe} does not exist: the job has {} PEs", mailbox.layout.pes)));
        }
        // SAFETY: not null; the caller's promise.
        unsafe { out.write(mailbox.peer(pe).into()) };
        Ok(0)
    }

    fn angara_mailbox_send(mailbox, to: PeerWords, data: *const c_void, len: usize) {
        if len > 0 {
            not_null(data, "data")?;
        }
        let bytes: &[u8] = match len {
            0 => &[],
            // SAFETY: not null; the caller's promise. Its own memory, which nobody else writes.
            _ => unsafe { std::slice::from_raw_parts(data.cast(), len) },
        };
        let to = Peer { seat: to.seat, generation: to.generation };
        match mailbox.try_send(to, &[IoSlice::new(bytes)]) {
            Ok(()) => Ok(0),
            Err(SendError::Full) => Ok(EFULL),
            Err(SendError::Gone) => Ok(EGONE),
            Err(SendError::Job(error)) => Err(error),
            Err(error) => Err(Error::invalid(error.to_string())),
        }
    }

    fn angara_mailbox_receive(mailbox, from: *mut PeerWords, buffer: *mut c_void, size: usize, len: *mut usize) {
        not_null(buffer, "buffer")?;
        not_null(len, "len")?;
        if size < mailbox.message_max() {
            let max = mailbox.message_max();
            return Err(Error::invalid(format!("a buffer of {size} bytes; a message has up to {max}")));
        }
        let got = mailbox.receive(1, &mut |peer, message| {
            // SAFETY: pointers are checked above or here; the buffer has room for every message, by the caller's promise.
            unsafe {
                message.copy_to(0, buffer.cast(), message.len());
                len.write(message.len());
                if !from.is_null() {
                    from.write(peer.into());
                }
            }
        })?;
        Ok(got as c_int)
    }

    fn angara_mailbox_wait(mailbox, milliseconds: u32) {
        mailbox.wait(Duration::from_millis(milliseconds.into())).map(c_int::from)
    }
}
