//! Memory of a PE for what libc answers in memory of its own.

use std::ffi::c_char;

/// Memory that libc has once.
#[derive(Clone, Copy)]
pub(crate) enum Text {
    Time,
    Address,
    Number,
    Digits,
    Error,
    Signal,
}

/// Bytes that most texts need; `fcvt` of large numbers needs more.
const ROOM: usize = 128;

#[derive(Clone, Copy)]
struct Place {
    at: *mut c_char,
    len: usize,
}

/// A PE's answers.
pub(crate) struct Results {
    texts: [Place; 6],
    time: *mut libc::tm,
}

impl Default for Results {
    fn default() -> Results {
        Results { texts: [Place { at: std::ptr::null_mut(), len: 0 }; 6], time: std::ptr::null_mut() }
    }
}

impl Results {
    /// Returns a copy of a text of libc, or null for null.
    ///
    /// # Safety
    /// Null or a terminated text.
    pub(crate) unsafe fn keep(&mut self, which: Text, text: *const c_char) -> *mut c_char {
        if text.is_null() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise; the place has room for the text and its end.
        unsafe {
            let (len, place) = (libc::strlen(text) + 1, &mut self.texts[which as usize]);
            if place.len < len {
                // As in libc, one that was too small stays: the program may still look at it.
                let len = len.max(ROOM);
                *place = Place { at: libc::malloc(len).cast(), len };
                if place.at.is_null() {
                    libc::abort()
                }
            }
            std::ptr::copy_nonoverlapping(text, place.at, len);
            place.at
        }
    }

    /// Returns the place of the one time.
    pub(crate) fn time(&mut self) -> *mut libc::tm {
        if self.time.is_null() {
            // SAFETY: no conditions; a time of zeros is valid.
            unsafe {
                self.time = libc::calloc(1, size_of::<libc::tm>()).cast();
                if self.time.is_null() {
                    libc::abort()
                }
            }
        }
        self.time
    }

    /// # Safety
    /// The PE never runs again.
    pub(super) unsafe fn free(&mut self) {
        // SAFETY: null or from malloc.
        unsafe {
            self.texts.iter().for_each(|place| libc::free(place.at.cast()));
            libc::free(self.time.cast());
        }
        *self = Results::default();
    }
}
