//! Jobs whose PEs are programs of several architectures (`angara run --heterogeneous`): what means something else there is
//! refused.
//!
//! Most types of C are the same on x86-64 and aarch64. Two are not: `long double` (80 bits of the x87 against binary128) and
//! plain `char`, which is signed on the one and unsigned on the other, so that its order differs. Which routines are
//! concerned is known by their names when this library is compiled ([`differs`]); all others have nothing to look at.
//! Variables lie at different places in two executables, so only the heap is symmetric.

use super::process::elf::{self, Segment};
use super::{Runtime, die, try_state};
use crate::ctypes::Name;

/// Why a routine does different things on two architectures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Differs {
    /// It moves `long double`, or computes with it.
    LongDouble,
    /// It compares values of `char`.
    CharOrder,
}

/// Returns why, if at all, the routine `name` does different things on two architectures.
pub(crate) const fn differs(name: &str) -> Option<Differs> {
    if contains(name, "longdouble") {
        Some(Differs::LongDouble)
    } else if contains(name, "_char_max_") || contains(name, "_char_min_") {
        Some(Differs::CharOrder)
    } else {
        None
    }
}

const fn contains(text: &str, part: &str) -> bool {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    let mut from = 0;
    while from + part.len() <= text.len() {
        let mut same = 0;
        while same < part.len() && text[from + same] == part[same] {
            same += 1;
        }
        if same == part.len() {
            return true;
        }
        from += 1;
    }
    false
}

/// Ends a heterogeneous job in which a PE calls a routine that is not the same for all.
#[inline]
pub(crate) fn refuse(name: Name, why: Differs) {
    if try_state().is_some_and(Runtime::heterogeneous) {
        differ(name, why);
    }
}

#[cold]
#[inline(never)]
fn differ(name: Name, why: Differs) -> ! {
    let why = match why {
        Differs::LongDouble => {
            "long double has 80 bits on x86-64 and 128 on aarch64; use double, or give the bytes to shmem_putmem and its \
             like where PEs of one architecture talk"
        }
        Differs::CharOrder => {
            "plain char is signed on x86-64 and unsigned on aarch64, so its order differs; use signed char (schar) or \
             unsigned char (uchar)"
        }
    };
    die(name, None, format_args!("in a job of several architectures (--heterogeneous) this is refused: {why}"))
}

/// Returns why address `p`, which is not symmetric, is not.
#[cold]
pub(super) fn why_not_symmetric(p: *const u8) -> String {
    let segments = elf::symmetric_segments().unwrap_or_default();
    let what = match segments.iter().find(|s| s.pages.contains(&(p as usize))).map(Segment::is_writable) {
        Some(true) => "it is a global or static variable of the program",
        Some(false) => "it is a constant of the program",
        None => "it does not lie in the symmetric heap",
    };
    format!(
        "{what}, and in a job of several architectures (--heterogeneous) only memory from shmem_malloc is symmetric"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::groups;

    /// All routines of the specification that name one of the types, and no others.
    #[test]
    fn routines_are_known_by_their_names() {
        let names: Vec<&str> = groups().iter().flat_map(|g| g.sigs.iter().map(|s| s.name)).collect();
        let of = |why| names.iter().filter(move |n| differs(n) == Some(why)).copied().collect::<Vec<_>>();
        assert_eq!(of(Differs::CharOrder), ["shmem_char_max_reduce", "shmem_char_min_reduce"]);
        let long: Vec<&str> = names.iter().filter(|n| n.contains("longdouble")).copied().collect();
        assert_eq!(of(Differs::LongDouble), long);
        for name in ["shmem_longdouble_g", "shmem_ctx_longdouble_iput", "shmem_longdouble_min_to_all"] {
            assert!(long.contains(&name), "{name}");
        }
    }

    /// What [`crate::api`] emits for a routine with and without a context is known by the part that both have.
    #[test]
    fn stems_are_known_like_whole_names() {
        assert_eq!(differs("longdouble_put_nbi"), Some(Differs::LongDouble));
        assert_eq!(differs("schar_put"), None);
        assert_eq!(differs("shmem_uchar_max_reduce"), None);
        assert_eq!(differs("shmem_schar_max_reduce"), None);
        assert_eq!(differs(""), None);
    }
}
