//! The commands of `rdma/rdma_user_cm.h`, as bytes.

use super::arrivals::room;
use super::bytes::{Fields, Record};
use super::id::{Fabric, space};
use super::layout;
use super::manager::{Manager, way};
use angara_hca::{Errno, Result};

/// Numbers of commands.
pub(crate) mod number {
    pub(crate) const CREATE_ID: u32 = 0;
    pub(crate) const DESTROY_ID: u32 = 1;
    pub(crate) const BIND_IP: u32 = 2;
    pub(crate) const RESOLVE_IP: u32 = 3;
    pub(crate) const RESOLVE_ROUTE: u32 = 4;
    pub(crate) const QUERY_ROUTE: u32 = 5;
    pub(crate) const CONNECT: u32 = 6;
    pub(crate) const LISTEN: u32 = 7;
    pub(crate) const ACCEPT: u32 = 8;
    pub(crate) const REJECT: u32 = 9;
    pub(crate) const DISCONNECT: u32 = 10;
    pub(crate) const INIT_QP_ATTR: u32 = 11;
    pub(crate) const GET_EVENT: u32 = 12;
    pub(crate) const GET_OPTION: u32 = 13;
    pub(crate) const SET_OPTION: u32 = 14;
    pub(crate) const NOTIFY: u32 = 15;
    pub(crate) const JOIN_IP_MCAST: u32 = 16;
    pub(crate) const LEAVE_MCAST: u32 = 17;
    pub(crate) const MIGRATE_ID: u32 = 18;
    pub(crate) const QUERY: u32 = 19;
    pub(crate) const BIND: u32 = 20;
    pub(crate) const RESOLVE_ADDR: u32 = 21;
    pub(crate) const JOIN_MCAST: u32 = 22;
}

/// Bytes of `struct rdma_ucm_cmd_hdr`: the command, bytes of what follows, room for its result.
pub(crate) const HEAD: usize = 8;

/// What a program gets back, and where it wants that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) at: u64,
    pub(crate) bytes: Record,
}

/// Bytes that a command has at least, behind its head.
fn least(command: u32) -> usize {
    match command {
        number::CREATE_ID => 24,
        number::DESTROY_ID | number::QUERY_ROUTE | number::INIT_QP_ATTR | number::MIGRATE_ID | number::QUERY => 16,
        number::BIND_IP => 40,
        number::RESOLVE_IP => 64,
        number::RESOLVE_ROUTE | number::LISTEN | number::NOTIFY => 8,
        number::CONNECT => 276,
        number::ACCEPT => 284,
        number::REJECT => 264,
        number::DISCONNECT => 4,
        number::SET_OPTION => 24,
        number::BIND => 136,
        number::RESOLVE_ADDR => 272,
        _ => 0,
    }
}

fn one(value: u32) -> Record {
    Record(value.to_ne_bytes().to_vec())
}

impl Manager {
    /// Carries out a command of a channel, all but that for events. `value` is what an option is set to, `other` the
    /// channel that an identifier comes from.
    pub(crate) fn command(
        &mut self,
        fabric: &dyn Fabric,
        channel: u64,
        command: u32,
        body: Fields<'_>,
        (value, other): (&[u8], Option<u64>),
    ) -> Result<Option<Answer>> {
        if body.0.len() < least(command) {
            return Err(Errno::INVAL);
        }
        let answer = |bytes| Ok(Some(Answer { at: body.u64(0), bytes }));
        match command {
            number::CREATE_ID => {
                let id = self.new_id(channel, body)?;
                return Ok(Some(Answer { at: body.u64(8), bytes: one(id) }));
            }
            number::DESTROY_ID => {
                self.id(channel, body.u32(8))?;
                return answer(one(self.destroy(fabric, body.u32(8))));
            }
            number::BIND_IP => {
                self.bind(fabric, channel, body.u32(36), body.address(8)?.ok_or(Errno::AFNOSUPPORT)?)?;
            }
            number::BIND => self.bind(fabric, channel, body.u32(0), body.address(8)?.ok_or(Errno::AFNOSUPPORT)?)?,
            number::LISTEN => self.listen(fabric, channel, body.u32(0), body.u32(4))?,
            number::RESOLVE_IP => {
                let ends = (body.address(0)?, body.address(28)?.ok_or(Errno::AFNOSUPPORT)?);
                self.resolve(fabric, channel, body.u32(56), ends)?;
            }
            number::RESOLVE_ADDR => {
                let src = if body.u16(8) == 0 { None } else { body.address(16)? };
                let ends = (src, body.address(144)?.ok_or(Errno::AFNOSUPPORT)?);
                self.resolve(fabric, channel, body.u32(0), ends)?;
            }
            number::RESOLVE_ROUTE => self.resolve_route(channel, body.u32(0))?,
            number::QUERY_ROUTE | number::QUERY => return answer(self.query(fabric, channel, command, body)?),
            number::CONNECT => {
                let datagrams = self.id(channel, body.u32(272))?.datagrams;
                let most = if datagrams { room::DATAGRAM_REQUEST } else { room::REQUEST };
                self.connect(fabric, channel, body.u32(272), layout::read_ends(body, 0, most)?)?;
            }
            number::ACCEPT => {
                let datagrams = self.id(channel, body.u32(280))?.datagrams;
                let most = if datagrams { room::DATAGRAM_REPLY } else { room::REPLY };
                let ends = layout::read_ends(body, 8, most)?;
                self.accept(fabric, channel, body.u32(280), body.u64(0), ends)?;
            }
            number::REJECT => {
                let datagrams = self.id(channel, body.u32(0))?.datagrams;
                let len: usize = body.u8(4).into();
                if len > if datagrams { room::DATAGRAM_REPLY } else { room::REJECT } {
                    return Err(Errno::INVAL);
                }
                self.reject(fabric, channel, body.u32(0), (body.u8(5), body.bytes(8, len)?))?;
            }
            number::DISCONNECT => self.disconnect(fabric, channel, body.u32(0))?,
            number::INIT_QP_ATTR => {
                let id = self.id(channel, body.u32(8))?;
                let way = way(fabric, id, id.adapter());
                return answer(layout::pair(id, way, body.u32(12))?);
            }
            number::SET_OPTION => {
                self.set_option(channel, body.u32(8), (body.u32(12), body.u32(16)), value)?;
            }
            number::NOTIFY => self.notify(channel, body.u32(0), body.u32(4))?,
            number::MIGRATE_ID => {
                let from = other.ok_or(Errno::BADF)?;
                return answer(one(self.migrate(from, channel, body.u32(8))?));
            }
            number::JOIN_IP_MCAST | number::LEAVE_MCAST | number::JOIN_MCAST => return Err(Errno::OPNOTSUPP),
            number::GET_OPTION => return Err(Errno::NOSYS),
            _ => return Err(Errno::INVAL),
        }
        Ok(None)
    }

    fn new_id(&mut self, channel: u64, body: Fields<'_>) -> Result<u32> {
        const DATAGRAMS: u8 = 4;
        match body.u16(16) {
            // The port space of queue pairs without addresses of IP is refused, so that librdmacm uses those.
            space::TCP => self.create(channel, body.u64(0), space::TCP, body.u8(18) == DATAGRAMS),
            space::UDP => self.create(channel, body.u64(0), space::UDP, true),
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    fn query(&mut self, fabric: &dyn Fabric, channel: u64, command: u32, body: Fields<'_>) -> Result<Record> {
        let id = self.id(channel, body.u32(8))?;
        // One that is bound to all addresses has no adapter yet.
        let is_somewhere = id.src.is_some_and(|src| !super::id::is_any(&src));
        let way = is_somewhere.then(|| way(fabric, id, id.adapter()));
        match (command, body.u32(12)) {
            (number::QUERY_ROUTE, _) => Ok(layout::route(id, way)),
            (_, 0) => Ok(layout::addresses(id, way, false)),
            (_, 1) => Ok(layout::paths(id, way)),
            (_, 2) => Ok(layout::addresses(id, way, true)),
            _ => Err(Errno::NOSYS),
        }
    }
}
