//! How a process takes its place.

use super::{helper, one, turns};
use crate::provider::{Names, Provider, TABLES, Window};
use crate::wire::HEAD_MAX;
use angara::mailbox::Mailbox;
use angara::open::Join;
use angara::{Job, Launch};
use angara_protocol::launch::LaunchError;
use std::sync::{Arc, Mutex};

/// Least bytes of the window for large messages.
const WINDOW_MIN: usize = 1 << 20;
/// Bytes of a seat in a domain, whatever its number of seats: a mailbox, names and a window. Only what is used takes memory.
const SEAT: usize = 96 << 20;
/// Bytes behind it for registered memory. Only addresses: what is registered counts as the program's. Ours.
const AREA: usize = 64 << 30;

static ATTACHING: Mutex<()> = Mutex::new(());

/// Takes a place in the job that the environment names, or else in a domain of the daemon, unless that has been done.
pub(crate) fn attach() -> Result<(), String> {
    let _one = ATTACHING.lock().unwrap_or_else(|e| e.into_inner());
    if one::is_there() {
        return Ok(());
    }
    let (job, key) = match Launch::from_env() {
        Ok(launch) => Job::attach(&launch, &[]).map(|job| (job, launch.key)),
        Err(LaunchError::NoLauncher) => {
            let join = Join::from_env(SEAT).map(|join| Join { registered: AREA, ..join });
            join.and_then(|join| join.join()).map(|joined| (joined.job, joined.key))
        }
        Err(other) => Err(other.into()),
    }
    .map_err(|e| e.to_string())?;
    let job = Arc::new(job);
    let provider = open(&key, job.clone())?;
    one::begin(provider, job);
    // SAFETY: a function without arguments, of a library that stays loaded.
    unsafe { libc::atexit(at_exit) };
    Ok(())
}

fn open(key: &str, job: Arc<Job>) -> Result<Provider, String> {
    let (mailbox, heap) = (Mailbox::bytes(job.n_pes()).next_multiple_of(4096), job.heap_len());
    let tables = mailbox + Names::BYTES;
    let front = tables + TABLES as usize;
    let window = heap.saturating_sub(front);
    if window < WINDOW_MIN {
        job.detach();
        let least = (front + WINDOW_MIN).div_ceil(1 << 20);
        return Err(format!("the symmetric heap of {heap} bytes is too small: start with --heap {least}M or more"));
    }
    let at = job.locate(job.heap(), heap).ok_or("the heap has no place")?;
    let mail = Mailbox::open(job.clone(), at).map_err(|e| e.to_string())?;
    if let Some(text) = eager_limit(job.n_pes(), mail.message_max()) {
        match job.my_pe() == 0 && !job.geometry().open {
            true => angara_protocol::complain!("angara: {text}"),
            false => crate::log::info(&text),
        }
    }
    let names = Names::new(at.offset + mailbox as u64);
    let window = Window::new(at.offset + front as u64, window);
    job.adapter().on_yield(turns::yields);
    let names = (names, at.offset + tables as u64);
    Ok(Provider::new(job, mail, name(key), names, window))
}

/// Returns what is to be said where messages stay with their senders that would not among fewer processes.
fn eager_limit(pes: usize, message_max: usize) -> Option<String> {
    let (here, most) = (message_max - HEAD_MAX, Mailbox::MESSAGE_MOST - HEAD_MAX);
    (here < most).then(|| {
        format!(
            "MPI: {pes} processes have mailboxes for messages of up to {here} bytes, not {most} as fewer have: receivers \
             fetch larger ones, which takes a round trip more"
        )
    })
}

/// Returns what a job is called in addresses: tells jobs apart without telling their key.
fn name(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The process ends, or libfabric does.
pub(crate) fn leave() {
    helper::ends();
    one::leave();
}

extern "C" fn at_exit() {
    let _ = std::panic::catch_unwind(leave);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_eager_limit_is_said_with_both() {
        assert_eq!(eager_limit(2, Mailbox::MESSAGE_MOST), None);
        let text = eager_limit(2000, 8192).expect("it is smaller");
        assert!(text.contains("2000 processes") && text.contains("8160 bytes, not 16352"), "{text}");
    }
}
