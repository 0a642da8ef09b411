//! Output and input of the PEs.
//!
//! Each PE's standard output and error are pipes. One task per pipe collects whole lines and hands
//! them to one writer thread per output, so lines of two PEs never mix; a slow reader of our output
//! slows the writer, then the tasks, then the PEs, and nothing is lost or piles up. A last line
//! without a newline is written when the pipe closes. A line above [`LINE_MAX`] is written in pieces.
//! Bytes are passed as they are.

use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::ChildStdin;
use tokio::sync::{mpsc, oneshot};

/// Longest line kept whole.
pub const LINE_MAX: usize = 1 << 20;
/// Bytes read from a pipe at once.
const READ: usize = 64 * 1024;
/// Chunks waiting for a writer.
const QUEUE: usize = 16;

/// Lines from one PE on their way out.
pub struct Chunk {
    pub pe: u32,
    /// As they came.
    pub bytes: Vec<u8>,
    /// The pipe closed inside a line: a line of another PE must not be glued to it.
    pub unfinished: bool,
}

/// An output of this process, written by its own thread.
pub struct Output {
    /// Where the tasks send their lines; the thread ends when all senders are gone.
    pub lines: mpsc::Sender<Chunk>,
    /// The thread's end: an error if the output could not be written.
    pub done: oneshot::Receiver<std::io::Result<()>>,
}

impl Output {
    /// Starts the writer of `file`.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub fn start(file: File) -> std::io::Result<Output> {
        let (lines, chunks) = mpsc::channel(QUEUE);
        let (tell, done) = oneshot::channel();
        let body = move || {
            let _ = tell.send(write_chunks(file, chunks));
        };
        std::thread::Builder::new().name("output".into()).spawn(body)?;
        Ok(Output { lines, done })
    }
}

/// Writes chunks in order. If a PE's output ended inside a line, the next PE's starts on a new one;
/// else no byte is added.
fn write_chunks(mut file: File, mut chunks: mpsc::Receiver<Chunk>) -> std::io::Result<()> {
    let mut open_line: Option<u32> = None;
    while let Some(chunk) = chunks.blocking_recv() {
        if open_line.is_some_and(|pe| pe != chunk.pe) {
            write_all(&mut file, b"\n")?;
        }
        write_all(&mut file, &chunk.bytes)?;
        open_line = chunk.unfinished.then_some(chunk.pe);
    }
    Ok(())
}

/// `write_all` that also works if someone made the shared file description non-blocking.
fn write_all(file: &mut File, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                poll(&mut [PollFd::new(&file.as_fd(), PollFlags::OUT)], None)?;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Collects bytes into whole lines, each with the label in front.
struct Lines {
    label: Vec<u8>,
    pending: Vec<u8>,
    /// The next byte starts a line (a piece of an overlong line may have gone out before).
    at_start: bool,
}

impl Lines {
    fn new(label: Option<String>) -> Lines {
        Lines { label: label.map(String::into_bytes).unwrap_or_default(), pending: Vec::new(), at_start: true }
    }

    /// Takes bytes, gives the text that is ready to go out.
    fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let ready = match bytes.iter().rposition(|&b| b == b'\n') {
            Some(end) => end + 1,
            None if self.pending.len() + bytes.len() > LINE_MAX => bytes.len(),
            None => 0,
        };
        let mut whole = Vec::new();
        if ready > 0 {
            whole = std::mem::take(&mut self.pending);
            whole.extend_from_slice(&bytes[..ready]);
        }
        self.pending.extend_from_slice(&bytes[ready..]);
        self.labelled(whole)
    }

    /// Returns what is left at the end.
    fn finish(&mut self) -> Vec<u8> {
        let rest = std::mem::take(&mut self.pending);
        self.labelled(rest)
    }

    fn labelled(&mut self, text: Vec<u8>) -> Vec<u8> {
        if self.label.is_empty() || text.is_empty() {
            return text;
        }
        let mut out = Vec::with_capacity(text.len() + text.len() / 8 + self.label.len());
        for line in text.split_inclusive(|&b| b == b'\n') {
            if self.at_start {
                out.extend_from_slice(&self.label);
            }
            out.extend_from_slice(line);
            self.at_start = line.ends_with(b"\n");
        }
        out
    }
}

/// Forwards one pipe until it closes or nobody takes the output any more.
pub async fn pump(mut from: impl AsyncRead + Unpin, to: mpsc::Sender<Chunk>, pe: u32, label: Option<String>) {
    let mut lines = Lines::new(label);
    let mut buffer = vec![0; READ];
    loop {
        let bytes = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(n) => lines.push(&buffer[..n]),
        };
        if !bytes.is_empty() && to.send(Chunk { pe, bytes, unfinished: false }).await.is_err() {
            return;
        }
    }
    let bytes = lines.finish();
    if !bytes.is_empty() {
        let _ = to.send(Chunk { pe, bytes, unfinished: true }).await;
    }
}

/// How PE 0 gets this process's standard input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// A file or pipe: PE 0 inherits it.
    Inherit,
    /// A terminal: PEs are in process groups of their own and may not read it, so it is copied.
    Copy,
    /// A terminal of which this process is in the background.
    Nothing,
    /// This PE has all of this process's files, and the terminal, if standard input is one.
    Debug,
}

impl Input {
    /// Looks at standard input.
    pub fn here() -> Input {
        use std::io::IsTerminal;
        if !std::io::stdin().is_terminal() {
            return Input::Inherit;
        }
        // Fields 5 and 8 of /proc/self/stat: our process group, the terminal's foreground group.
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        if fields.get(2).is_some() && fields.get(2) == fields.get(5) { Input::Copy } else { Input::Nothing }
    }
}

/// Copies standard input to PE 0 until either side ends. Reading a terminal cannot be interrupted,
/// so a thread does it; it ends with the process.
pub async fn copy_input(mut to: ChildStdin) {
    let (send, mut receive) = mpsc::channel::<Vec<u8>>(1);
    let body = move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = std::io::stdin().lock().read(&mut buffer) {
            if send.blocking_send(buffer[..n].to_vec()).is_err() {
                break;
            }
        }
    };
    if let Err(e) = std::thread::Builder::new().name("input".into()).spawn(body) {
        // PE 0 sees the end of its input.
        angara_protocol::complain!(
            "angara: standard input does not reach PE 0: {e}; raise the limit on processes (ulimit -u)"
        );
    }
    while let Some(bytes) = receive.recv().await {
        if to.write_all(&bytes).await.is_err() {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_go_out_until_the_end() {
        let mut l = Lines::new(None);
        assert_eq!(l.push(b"ab"), b"");
        assert_eq!(l.push(b"c\nde\nf"), b"abc\nde\n");
        assert_eq!(l.push(b"\x00\xff"), b"");
        assert_eq!(l.finish(), b"f\x00\xff");
        assert_eq!(l.finish(), b"");
    }

    #[test]
    fn labels_stand_before_every_line_once() {
        let mut l = Lines::new(Some("[3] ".into()));
        assert_eq!(l.push(b"a\n\nb"), b"[3] a\n[3] \n");
        assert_eq!(l.finish(), b"[3] b");
        let mut l = Lines::new(Some("[3] ".into()));
        let long = vec![b'x'; LINE_MAX + 1];
        assert_eq!(l.push(&long).len(), LINE_MAX + 1 + 4);
        assert_eq!(l.push(b"y\nz\n"), b"y\n[3] z\n");
    }

    #[test]
    fn lines_of_two_pes_never_mix() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let out = Output::start(File::from(writer)).unwrap();
        let lines = 5000;
        let text = |c: char| {
            (0..lines).flat_map(|i| format!("{}{i}\n", c.to_string().repeat(50)).into_bytes()).collect::<Vec<u8>>()
        };
        let (a, b) = (text('a'), text('b'));
        let read = std::thread::spawn(move || {
            let mut all = Vec::new();
            File::from(reader).read_to_end(&mut all).unwrap();
            all
        });
        runtime.block_on(async move {
            let two = out.lines.clone();
            tokio::join!(pump(&a[..], out.lines, 0, None), pump(&b[..a.len() - 1], two, 1, None));
            out.done.await.unwrap().unwrap();
        });
        let all = String::from_utf8(read.join().unwrap()).unwrap();
        for c in ['a', 'b'] {
            let own: Vec<&str> = all.lines().filter(|l| l.starts_with(c)).collect();
            assert_eq!(own.len(), lines);
            assert!(own.iter().enumerate().all(|(i, l)| **l == format!("{}{i}", c.to_string().repeat(50))));
        }
    }

    #[test]
    fn a_closed_output_ends_the_writer_with_an_error() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        drop(reader);
        let out = Output::start(File::from(writer)).unwrap();
        let result = runtime.block_on(async move {
            pump(&b"text\n"[..], out.lines, 0, None).await;
            out.done.await.unwrap()
        });
        assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    }
}
