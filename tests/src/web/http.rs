//! As much of HTTP as tests need.

use crate::process::PATIENCE;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// What a server said.
#[derive(Clone, Debug)]
pub struct Answer {
    /// `200`.
    pub status: u16,
    /// Status line and headers, as they came.
    pub head: String,
    /// What follows them; of a body in chunks, what is in these.
    pub body: String,
}

impl Answer {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (given, value) = line.split_once(':')?;
            given.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// The address in a URL such as `http://127.0.0.1:8290/`.
pub fn address(url: &str) -> SocketAddr {
    let bare = url.trim_start_matches("http://");
    bare.split('/').next().and_then(|a| a.parse().ok()).unwrap_or_else(|| panic!("{url} has no address"))
}

/// Connects, with time limits.
pub fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&to, PATIENCE).unwrap_or_else(|e| panic!("{to}: {e}"));
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a socket takes a timeout");
    stream
}

/// Sends a request with these headers (`Name: value`), besides those every request has.
pub fn ask(to: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
    let host = match headers.iter().any(|h| h.to_ascii_lowercase().starts_with("host:")) {
        true => String::new(),
        false => format!("Host: {to}\r\n"),
    };
    let more: String = headers.iter().map(|h| format!("{h}\r\n")).collect();
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let text = format!("{method} {path} HTTP/1.1\r\n{host}{more}{length}Connection: close\r\n\r\n{body}");
    raw(to, text.as_bytes())
}

/// Sends bytes as they are, and reads until the answer is whole or the server closes. Panics if it says nothing that is HTTP.
pub fn raw(to: SocketAddr, bytes: &[u8]) -> Answer {
    let mut stream = connect(to);
    // A server may refuse before it has read all.
    let _ = stream.write_all(bytes);
    let (mut all, mut piece) = (Vec::new(), [0; 16 << 10]);
    // Some servers do not close, though they are asked to.
    while !is_whole(&all) {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => all.extend_from_slice(&piece[..n]),
            Err(e) if all.is_empty() => panic!("no answer from {to} within {PATIENCE:?}: {e}"),
            Err(_) => break,
        }
    }
    parse(&all).unwrap_or_else(|| panic!("{to} answered {:?}", String::from_utf8_lossy(&all)))
}

/// As many bytes as it says have come.
fn is_whole(all: &[u8]) -> bool {
    let Some(end) = all.windows(4).position(|w| w == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&all[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    length.is_some_and(|length| all.len() >= end + 4 + length)
}

fn parse(all: &[u8]) -> Option<Answer> {
    let text = String::from_utf8_lossy(all).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { joined(body) } else { body.to_string() };
    Some(Answer { status, head: head.to_string(), body })
}

/// A body that came in chunks.
fn joined(mut rest: &str) -> String {
    let mut whole = String::new();
    while let Some((length, more)) = rest.split_once("\r\n") {
        let Ok(n) = usize::from_str_radix(length, 16) else { break };
        let Some(chunk) = more.get(..n).filter(|_| n > 0) else { break };
        whole.push_str(chunk);
        rest = more[n..].trim_start_matches("\r\n");
    }
    whole
}
