//! What PEs write. Bytes go out in the order in which PEs write them; with labels by whole lines, each with the number of its
//! PE in front.

use crate::watch::WRITES;
use rustix::event::{PollFd, PollFlags};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

/// Longest line kept whole.
const LINE_MAX: usize = 1 << 20;

/// Standard output or error of all PEs.
pub(crate) struct Output {
    to: BorrowedFd<'static>,
    label: bool,
    /// With labels: what has no end of line yet, and whether the next byte begins a line.
    lines: BTreeMap<u32, Line>,
    /// PE whose last line out has no end.
    open: Option<u32>,
}

#[derive(Default)]
struct Line {
    pending: Vec<u8>,
    /// A piece of an overlong line has gone out before.
    inside: bool,
}

impl Output {
    pub(crate) fn new(to: BorrowedFd<'static>, label: bool) -> Output {
        Output { to, label, lines: BTreeMap::new(), open: None }
    }

    /// Takes what a PE has written.
    pub(crate) fn take(&mut self, pe: u32, bytes: &[u8]) {
        if !self.label {
            return self.write(bytes);
        }
        let line = self.lines.entry(pe).or_default();
        let ready = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if line.pending.len() + bytes.len() > LINE_MAX => bytes.len(),
            None => 0,
        };
        line.pending.extend_from_slice(&bytes[..ready]);
        let whole = if ready > 0 { std::mem::take(&mut line.pending) } else { Vec::new() };
        line.pending.extend_from_slice(&bytes[ready..]);
        self.labelled(pe, &whole);
    }

    /// Writes what a PE that has ended has left without an end of line.
    pub(crate) fn finish(&mut self, pe: u32) {
        let rest = self.lines.get_mut(&pe).map(|line| std::mem::take(&mut line.pending)).unwrap_or_default();
        if !rest.is_empty() {
            self.labelled(pe, &rest);
            self.open = Some(pe);
        }
        self.lines.remove(&pe);
    }

    fn labelled(&mut self, pe: u32, text: &[u8]) {
        if text.is_empty() {
            return;
        }
        let mut out = Vec::with_capacity(text.len() + text.len() / 8 + 8);
        if self.open.take().is_some_and(|other| other != pe) {
            out.push(b'\n');
        }
        let line = self.lines.entry(pe).or_default();
        for part in text.split_inclusive(|byte| *byte == b'\n') {
            if !line.inside {
                out.extend_from_slice(format!("[{pe}] ").as_bytes());
            }
            out.extend_from_slice(part);
            line.inside = !part.ends_with(b"\n");
        }
        self.write(&out);
    }

    /// Nobody is told of an output that is closed: the launcher, who reads it, has closed it.
    fn write(&mut self, mut bytes: &[u8]) {
        WRITES.store(true, Ordering::Relaxed);
        while !bytes.is_empty() {
            match rustix::io::write(self.to, bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(rustix::io::Errno::INTR) => {}
                // A PE may have made the pipe non-blocking, which it has in common with all.
                Err(rustix::io::Errno::AGAIN) => {
                    let _ = rustix::event::poll(&mut [PollFd::new(&self.to, PollFlags::OUT)], None);
                }
                Err(_) => break,
            }
        }
        WRITES.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn written(label: bool, write: impl FnOnce(&mut Output)) -> String {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let fd: &'static std::io::PipeWriter = Box::leak(Box::new(writer));
        let mut output = Output::new(std::os::fd::AsFd::as_fd(fd), label);
        write(&mut output);
        let mut bytes = vec![0; 1000];
        let got = reader.read(&mut bytes).expect("something");
        String::from_utf8_lossy(&bytes[..got]).into_owned()
    }

    #[test]
    fn lines_with_labels_are_whole_and_never_glued_together() {
        let text = written(true, |output| {
            output.take(1, b"a");
            output.take(2, b"x\ny");
            output.take(1, b"b\n\n");
            output.finish(2);
            output.take(1, b"c\n");
        });
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("[2] x"), "{text}");
        assert_eq!(lines.collect::<Vec<_>>(), ["[1] ab", "[1] ", "[2] y", "[1] c"]);
    }

    #[test]
    fn without_labels_bytes_stay_as_they_are() {
        assert_eq!(written(false, |output| output.take(1, b"a\0b")), "a\0b");
    }
}
