//! Frames of boundary links as bytes: what a trunk carries for a link.
//!
//! A record is the number of route changes its sender had made (64 bits), then a sequence of frames. The times `fabric` puts beside frames are left out: clocks of two
//! hosts have nothing to do with each other, and what has arrived may go on at once. Everything is little-endian.
//!
//! ```text
//! credit  0x00 | vc << 4   count:16                           N slots of the channel are free again
//! packet  0x01 | vc << 4   flits:16 job:16 generation:16 class:8 src:16 dst:16 region:8 flags:16
//!                          bytes:16 op:64 port:32 rate:8, then the flits, 16 bytes each, and what a train carries
//! gone    0x02 | vc << 4   job:16 generation:16 from:32 to:32 count:16    packets of a stream have been ejected
//! ```

use angara_abi::account::READ_MAX;
use angara_abi::packet::Vc;
use angara_abi::{FLIT_BYTES, PACKET_FLITS_MAX, PAYLOAD_MAX};
use angara_fabric::{Frame, JobSlot, Meta};
use bytes::Bytes;

const CREDIT: u8 = 0;
const PACKET: u8 = 1;
const GONE: u8 = 2;
/// Bytes before the frames of a record.
const CHANGE: usize = 8;
/// Longest frame, what a train carries excepted.
const FRAME_MAX: usize = 64 + PACKET_FLITS_MAX * FLIT_BYTES;
/// Longest record.
const RECORD_MAX: usize = 60 * 1024;
const _: () = assert!(CHANGE + FRAME_MAX + READ_MAX <= RECORD_MAX);

/// Frames of one record being put together.
#[derive(Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    /// What a train carries: the end of its record.
    train: Bytes,
    /// Channel of the credit at the end of `bytes`, to which another may be added.
    credit: Option<u8>,
}

impl Writer {
    /// The record, without what a train at its end carries.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    pub(super) fn train(&self) -> Bytes {
        self.train.clone()
    }
    /// The route change it was begun after.
    pub(super) fn route_change(&self) -> u64 {
        self.bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b))
    }
    /// True if `frame` still fits.
    pub(super) fn takes(&self, frame: &Frame) -> bool {
        let train = if let Frame::Packet { train, .. } = frame { train.len() } else { 0 };
        self.train.is_empty() && self.bytes.len() + FRAME_MAX + train <= RECORD_MAX
    }
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    /// Begins a record.
    pub(super) fn begin(&mut self, change: u64) {
        self.clear();
        self.bytes.extend_from_slice(&change.to_le_bytes());
    }
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.train.clear();
        self.credit = None;
    }

    /// Appends a frame.
    pub(super) fn push(&mut self, frame: &Frame) {
        let open = self.credit.take();
        let out = &mut self.bytes;
        match frame {
            Frame::Credit { vc } => {
                let vc = *vc as u8;
                self.credit = Some(vc);
                if open == Some(vc) {
                    let at = out.len() - 2;
                    let count = u16::from_le_bytes([out[at], out[at + 1]]);
                    if let Some(more) = count.checked_add(1) {
                        out[at..].copy_from_slice(&more.to_le_bytes());
                        return;
                    }
                }
                out.push(CREDIT | vc << 4);
                out.extend_from_slice(&1u16.to_le_bytes());
            }
            Frame::Packet { vc, meta, flits, train } => {
                out.push(PACKET | (*vc as u8) << 4);
                out.extend_from_slice(&((flits.len() / FLIT_BYTES) as u16).to_le_bytes());
                out.extend_from_slice(&meta.job.number().to_le_bytes());
                out.extend_from_slice(&meta.generation.to_le_bytes());
                out.push(meta.class);
                out.extend_from_slice(&meta.src_endpoint.to_le_bytes());
                out.extend_from_slice(&meta.dst_endpoint.to_le_bytes());
                out.push(meta.region);
                out.extend_from_slice(&meta.flags.to_le_bytes());
                out.extend_from_slice(&meta.bytes.to_le_bytes());
                out.extend_from_slice(&meta.op.to_le_bytes());
                out.extend_from_slice(&meta.port.to_le_bytes());
                out.push(meta.rate);
                out.extend_from_slice(flits);
                self.train = train.clone();
            }
            Frame::Gone { job, generation, from, to, vc, count } => {
                out.push(GONE | vc << 4);
                out.extend_from_slice(&job.number().to_le_bytes());
                out.extend_from_slice(&generation.to_le_bytes());
                out.extend_from_slice(&from.to_le_bytes());
                out.extend_from_slice(&to.to_le_bytes());
                out.extend_from_slice(&count.to_le_bytes());
            }
        }
    }
}

/// Why a record was not understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum RecordError {
    #[error("it ends inside a frame")]
    Short,
    #[error("unknown {0} {1}")]
    Unknown(&'static str, u8),
}

/// The route change a record was begun after; `None` if it is too short to say.
pub(super) fn route_change(record: &Bytes) -> Option<u64> {
    record.first_chunk().map(|b| u64::from_le_bytes(*b))
}

/// Reads the frames of a record; credits come with their number.
pub(super) struct Reader {
    rest: Bytes,
}

impl Reader {
    pub(super) fn new(record: Bytes) -> Reader {
        let head = CHANGE.min(record.len());
        Reader { rest: record.slice(head..) }
    }

    /// The next frame and how often it counts; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(Frame, u16)>, RecordError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.u8()?;
        let vc = || Vc::from_bits(tag >> 4).ok_or(RecordError::Unknown("channel", tag >> 4));
        match tag & 15 {
            CREDIT => Ok(Some((Frame::Credit { vc: vc()? }, self.u16()?))),
            PACKET => {
                let vc = vc()?;
                let flits = self.u16()? as usize;
                let meta = Meta {
                    job: JobSlot::new(self.u16()?),
                    generation: self.u16()?,
                    class: self.u8()?,
                    src_endpoint: self.u16()?,
                    dst_endpoint: self.u16()?,
                    region: self.u8()?,
                    flags: self.u16()?,
                    bytes: self.u16()?,
                    op: self.u64()?,
                    port: self.u32()?,
                    rate: self.u8()?,
                };
                let flits = self.take(flits * FLIT_BYTES)?;
                let train = if meta.bytes as usize > PAYLOAD_MAX { meta.bytes as usize } else { 0 };
                let train = self.take(train)?;
                Ok(Some((Frame::Packet { vc, meta, flits, train }, 1)))
            }
            GONE => {
                let (job, generation, from, to) = (JobSlot::new(self.u16()?), self.u16()?, self.u32()?, self.u32()?);
                Ok(Some((Frame::Gone { job, generation, from, to, vc: tag >> 4, count: self.u16()? }, 1)))
            }
            other => Err(RecordError::Unknown("frame", other)),
        }
    }

    fn take(&mut self, n: usize) -> Result<Bytes, RecordError> {
        if n > self.rest.len() {
            return Err(RecordError::Short);
        }
        Ok(self.rest.split_to(n))
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        let mut out = [0; N];
        out.copy_from_slice(self.rest.get(..N).ok_or(RecordError::Short)?);
        bytes::Buf::advance(&mut self.rest, N);
        Ok(out)
    }
    fn u8(&mut self) -> Result<u8, RecordError> {
        self.array::<1>().map(|b| b[0])
    }
    fn u16(&mut self) -> Result<u16, RecordError> {
        self.array().map(u16::from_le_bytes)
    }
    fn u32(&mut self) -> Result<u32, RecordError> {
        self.array().map(u32::from_le_bytes)
    }
    fn u64(&mut self) -> Result<u64, RecordError> {
        self.array().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame() -> impl Strategy<Value = Frame> {
        let vc = (0..5usize).prop_map(|vc| Vc::ALL[vc]);
        let meta = (any::<(u16, u16, u8, u16, u16, u8, u16, u16, u64)>(), any::<(u32, u8)>());
        let train = prop_oneof![Just(0), PAYLOAD_MAX + 1..=READ_MAX];
        let flits = proptest::collection::vec(any::<u8>(), 0..PACKET_FLITS_MAX * FLIT_BYTES)
            .prop_map(|v| v[..v.len() / FLIT_BYTES * FLIT_BYTES].to_vec());
        prop_oneof![
            vc.clone().prop_map(|vc| Frame::Credit { vc }),
            (vc, meta, flits, train).prop_map(|(vc, (m, (port, rate)), flits, train)| Frame::Packet {
                vc,
                meta: Meta {
                    job: JobSlot::new(m.0),
                    generation: m.1,
                    class: m.2,
                    src_endpoint: m.3,
                    dst_endpoint: m.4,
                    region: m.5,
                    flags: m.6,
                    bytes: if train > 0 { train as u16 } else { m.7 % (PAYLOAD_MAX as u16 + 1) },
                    op: m.8,
                    port,
                    rate
                },
                flits: flits.into(),
                train: vec![m.2; train].into(),
            }),
            (any::<(u16, u16, u32, u32, u16)>(), 0..2u8).prop_map(|((job, generation, from, to, count), vc)| {
                Frame::Gone { job: JobSlot::new(job), generation, from, to, vc, count }
            }),
        ]
    }

    proptest! {
        #[test]
        fn frames_read_back_as_written(frames in proptest::collection::vec(frame(), 0..20)) {
            let (mut writer, mut records) = (Writer::default(), Vec::new());
            for frame in &frames {
                if !writer.is_empty() && !writer.takes(frame) {
                    records.push([writer.bytes(), &writer.train()].concat());
                    writer.clear();
                }
                if writer.is_empty() {
                    writer.begin(77);
                }
                writer.push(frame);
            }
            records.push([writer.bytes(), &writer.train()].concat());
            let mut read = Vec::new();
            for record in records {
                prop_assert!(record.len() <= RECORD_MAX);
                let record = Bytes::from(record);
                prop_assert!(frames.is_empty() || route_change(&record) == Some(77));
                let mut reader = Reader::new(record);
                while let Some((frame, count)) = reader.next().expect("well formed") {
                    read.extend(std::iter::repeat_n(frame, count as usize));
                }
            }
            prop_assert_eq!(read, frames);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let mut reader = Reader::new(bytes.into());
            while let Ok(Some(_)) = reader.next() {}
        }
    }
}
