//! Wait objects of queues and counters: which ones there are, and what programs ask of them.

use super::*;
use crate::abi::constants::*;
use crate::provider::Bell;

/// Returns the bell of an object with this wait object.
pub(super) fn bell(wait_obj: i32) -> Outcome<Bell> {
    match wait_obj {
        // Waiting happens inside calls only: there is no object of the system that another call could wait on.
        WAIT_NONE | WAIT_UNSPEC | WAIT_YIELD => Ok(Bell::default()),
        WAIT_FD => Bell::with_descriptor(),
        _ => {
            crate::log::info("wait objects other than FI_WAIT_NONE, UNSPEC, FD and YIELD are not offered");
            Err(errno::ENOSYS)
        }
    }
}

/// Answers `FI_GETWAIT` and `FI_GETWAITOBJ`.
///
/// # Safety
/// `arg` has room for what the command gives, an `int` or an `enum`.
pub(super) unsafe fn control(command: c_int, arg: *mut c_void, wait_obj: i32, descriptor: Option<i32>) -> Outcome {
    let answer = match command {
        CONTROL_GETWAITOBJ => wait_obj,
        CONTROL_GETWAIT => descriptor.ok_or(errno::ENODATA)?,
        _ => return Err(errno::ENOSYS),
    };
    if arg.is_null() {
        return Err(errno::EINVAL);
    }
    // SAFETY: the caller promises that there is room.
    unsafe { arg.cast::<c_int>().write(answer) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_wait_objects_are_offered_and_one_has_a_descriptor() {
        let has_descriptor = |wait_obj| bell(wait_obj).map(|bell| bell.descriptor().is_some());
        let all: Vec<_> = (-1..8).map(has_descriptor).collect();
        let no = Err(errno::ENOSYS);
        assert_eq!(all, [no, Ok(false), Ok(false), no, Ok(true), no, Ok(false), no, no]);
    }

    #[test]
    fn a_program_gets_the_descriptor_and_the_kind() {
        let ask = |command, descriptor| {
            let mut out: c_int = -1;
            // SAFETY: an integer.
            unsafe { control(command, (&raw mut out).cast(), WAIT_FD, descriptor) }.map(|()| out)
        };
        assert_eq!([ask(CONTROL_GETWAIT, Some(7)), ask(CONTROL_GETWAITOBJ, None)], [Ok(7), Ok(WAIT_FD)]);
        assert_eq!(ask(CONTROL_GETWAIT, None), Err(errno::ENODATA));
        assert_eq!(ask(CONTROL_ENABLE, Some(7)), Err(errno::ENOSYS));
    }
}
