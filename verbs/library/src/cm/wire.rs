//! What connection managers say to each other. Each connection has a number at both ends, which no other one of that
//! end gets; the first message of one knows only its own.

use std::net::{IpAddr, SocketAddr};

/// Private data that fit a message of any kind.
pub(crate) const DATA_MAX: usize = 255;

/// Parameters of one end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Ends {
    /// Number of the queue pair.
    pub(crate) pair: u32,
    /// Its key, if it takes datagrams.
    pub(crate) qkey: u32,
    /// It has a shared receive queue.
    pub(crate) srq: u8,
    /// Reads and atomic operations that it answers at a time.
    pub(crate) answers: u8,
    /// Reads and atomic operations that it begins at a time.
    pub(crate) begins: u8,
    pub(crate) flow_control: u8,
    pub(crate) retries: u8,
    pub(crate) rnr_retries: u8,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    /// Asks a listener.
    Request { space: u16, datagrams: bool, src: SocketAddr, dst: SocketAddr, ends: Ends, data: Vec<u8> },
    /// The listener's program accepts.
    Reply { ends: Ends, data: Vec<u8> },
    /// The asker is ready, too.
    Ready,
    /// No, with a reason of the specification.
    Reject { reason: u8, data: Vec<u8> },
    /// The connection ends.
    Disconnect,
    /// It has ended here, too.
    Disconnected,
    /// The answer for a queue pair of datagrams, with a status of the specification.
    Datagrams { status: u8, ends: Ends, data: Vec<u8> },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    /// Number of the connection at the receiver.
    pub(crate) to: u32,
    /// The same at the sender.
    pub(crate) from: u32,
    pub(crate) body: Body,
}

struct Writer(Vec<u8>);

impl Writer {
    fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }
    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }
    fn address(&mut self, of: SocketAddr) {
        self.u16(of.port());
        match of.ip() {
            IpAddr::V4(ip) => self.bytes(&ip.octets()),
            IpAddr::V6(ip) => self.bytes(&ip.octets()),
        }
    }
    fn ends(&mut self, of: &Ends) {
        self.u32(of.pair);
        self.u32(of.qkey);
        self.0.extend([of.srq, of.answers, of.begins, of.flow_control, of.retries, of.rnr_retries]);
    }
    /// At most [`DATA_MAX`].
    fn bytes(&mut self, of: &[u8]) {
        let len = of.len().min(DATA_MAX);
        self.0.push(len as u8);
        self.0.extend(&of[..len]);
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }
    fn u8(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }
    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }
    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }
    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u8()?;
        self.take(len.into())
    }
    fn address(&mut self) -> Option<SocketAddr> {
        let port = self.u16()?;
        let bytes = self.bytes()?;
        let ip = <[u8; 4]>::try_from(bytes)
            .map(IpAddr::from)
            .or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
            .ok()?;
        Some(SocketAddr::new(ip, port))
    }
    fn ends(&mut self) -> Option<Ends> {
        let (pair, qkey) = (self.u32()? & 0xff_ffff, self.u32()?);
        let [srq, answers, begins, flow_control, retries, rnr_retries] = *self.take(6)? else { return None };
        Some(Ends { pair, qkey, srq, answers, begins, flow_control, retries, rnr_retries })
    }
    fn data(&mut self) -> Option<Vec<u8>> {
        self.bytes().map(<[u8]>::to_vec)
    }
}

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let kind = match &self.body {
            Body::Request { .. } => 1,
            Body::Reply { .. } => 2,
            Body::Ready => 3,
            Body::Reject { .. } => 4,
            Body::Disconnect => 5,
            Body::Disconnected => 6,
            Body::Datagrams { .. } => 7,
        };
        let mut out = Writer(vec![kind]);
        out.u32(self.to);
        out.u32(self.from);
        match &self.body {
            Body::Request { space, datagrams, src, dst, ends, data } => {
                out.u16(*space);
                out.0.push((*datagrams).into());
                out.address(*src);
                out.address(*dst);
                out.ends(ends);
                out.bytes(data);
            }
            Body::Reply { ends, data } => {
                out.ends(ends);
                out.bytes(data);
            }
            Body::Reject { reason, data } => {
                out.0.push(*reason);
                out.bytes(data);
            }
            Body::Datagrams { status, ends, data } => {
                out.0.push(*status);
                out.ends(ends);
                out.bytes(data);
            }
            Body::Ready | Body::Disconnect | Body::Disconnected => {}
        }
        out.0
    }

    /// Nothing if it is no message: whoever wrote it may write what he likes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Message> {
        let mut from = Reader(bytes);
        let kind = from.u8()?;
        let (to, number) = (from.u32()?, from.u32()?);
        let body = match kind {
            1 => Body::Request {
                space: from.u16()?,
                datagrams: from.u8()? != 0,
                src: from.address()?,
                dst: from.address()?,
                ends: from.ends()?,
                data: from.data()?,
            },
            2 => Body::Reply { ends: from.ends()?, data: from.data()? },
            3 => Body::Ready,
            4 => Body::Reject { reason: from.u8()?, data: from.data()? },
            5 => Body::Disconnect,
            6 => Body::Disconnected,
            7 => Body::Datagrams { status: from.u8()?, ends: from.ends()?, data: from.data()? },
            _ => return None,
        };
        from.0.is_empty().then_some(Message { to, from: number, body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_they_were_written_and_nothing_else_is() {
        let ends = Ends {
            pair: 0x123456,
            qkey: 7,
            srq: 1,
            answers: 2,
            begins: 3,
            flow_control: 4,
            retries: 5,
            rnr_retries: 6,
        };
        let address = |text: &str| text.parse().expect("an address");
        let data = b"hello".to_vec();
        let bodies = [
            Body::Request {
                space: 0x106,
                datagrams: false,
                src: address("10.162.0.1:5"),
                dst: address("[::1]:6"),
                ends,
                data: data.clone(),
            },
            Body::Reply { ends, data: vec![] },
            Body::Ready,
            Body::Reject { reason: 28, data: data.clone() },
            Body::Disconnect,
            Body::Disconnected,
            Body::Datagrams { status: 1, ends, data },
        ];
        for body in bodies {
            let message = Message { to: 3, from: 4, body };
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes), Some(message));
            for len in 0..bytes.len() {
                assert_eq!(Message::decode(&bytes[..len]), None);
            }
            assert_eq!(Message::decode(&[&bytes[..], &[0]].concat()), None);
        }
        assert_eq!(Message::decode(&[9; 9]), None);
    }
}
