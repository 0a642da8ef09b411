//! Names of endpoints: a page of each seat's heap says which services its endpoints offer, and at which host.
//!
//! ```text
//! generation  u64           of the process that wrote the page; the last word of the first half that it writes
//! count       u64           addresses of its host
//! hosts       16 bytes each
//! services    256 u64       at byte 2048: endpoint << 32 | service, 0 if unused; each is written by one atomic
//! ```
//!
//! Nothing is asked of the one that is looked for: whoever wants a name gets the pages of those who are there.

use super::fault::Outcome;
use super::here::Here;
use crate::abi::constants::errno;
use crate::address::{Name, host_bytes, host_of};
use crate::memory::UserMemory;
use crate::wire::Reader;
use angara::mailbox::Peer;
use angara::{Amo, AmoOp, Class, Place, Region};
use std::net::IpAddr;

const BYTES: usize = Names::BYTES;
const SERVICES: usize = 2048;
const SERVICES_MAX: usize = (BYTES - SERVICES) / 8;
const HOSTS: usize = 16;
const HOSTS_MAX: usize = (SERVICES - HOSTS) / 16;

/// This process's page.
pub(crate) struct Names {
    /// Where it is in every PE's heap region.
    start: u64,
    /// This host's addresses; what nobody needs is not asked of the system.
    hosts: Option<Vec<IpAddr>>,
    services: Vec<(u16, u32)>,
    /// Services that have been written.
    written: usize,
}

impl Names {
    /// Bytes of the page.
    pub(crate) const BYTES: usize = 4096;

    /// A page at `start`; the same on every PE.
    pub(crate) fn new(start: u64) -> Names {
        Names { start, hosts: None, services: Vec::new(), written: 0 }
    }

    fn place(&self, at: usize) -> Place {
        Place { region: Region::Heap, offset: self.start + at as u64 }
    }

    fn hosts(&mut self) -> &[IpAddr] {
        self.hosts.get_or_insert_with(|| {
            let mut hosts = crate::lookup::own_hosts();
            hosts.truncate(HOSTS_MAX);
            hosts
        })
    }
}

/// Which hosts a search is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    /// This one alone.
    Here,
    /// The one with that address.
    Host(IpAddr),
    Anywhere,
}

/// Names here, and those of others in the job.
pub(super) struct Directory<'a> {
    pub(super) here: &'a Here,
    pub(super) names: &'a mut Names,
}

impl Directory<'_> {
    /// Writes a word of this process's own page.
    fn write_name(&self, at: usize, word: u64) -> angara::Result<()> {
        let swap = Amo { op: AmoOp::Swap, width: 8, operand: word, comparand: 0, fetch: false };
        self.here.job.ctx().amo(Class::Put, self.here.me.seat as usize, self.names.place(at), swap).map(drop)
    }

    /// Gives an endpoint of this process a name by which others find it. [`Name::ANY`] is none.
    ///
    /// Errors are `EADDRNOTAVAIL` for a host that is not this one, `EADDRINUSE` for a service that another endpoint of this
    /// host offers in the domain, `ENOSPC` for one too many. The adapter may fail beside that.
    pub(super) fn publish(&mut self, ep: u32, name: Name) -> angara::Result<Outcome> {
        if let Some(host) = name.host
            && !self.names.hosts().contains(&host)
        {
            crate::log::warn(&format!("{name}: this host has no such address"));
            return Ok(Err(errno::EADDRNOTAVAIL));
        }
        if name.service == 0 {
            return Ok(Ok(()));
        }
        if self.names.services.len() >= SERVICES_MAX {
            return Ok(Err(errno::ENOSPC));
        }
        if self.names.services.iter().any(|(service, _)| *service == name.service)
            || self.search(name.service, Where::Here).is_some()
        {
            crate::log::warn(&format!("{name}: another endpoint of this host has that service"));
            return Ok(Err(errno::EADDRINUSE));
        }
        self.names.services.push((name.service, ep));
        self.write_names().map(Ok)
    }

    /// An endpoint's names are nobody's any more.
    pub(super) fn unpublish(&mut self, ep: u32) -> angara::Result<()> {
        let before = self.names.services.len();
        self.names.services.retain(|(_, of)| *of != ep);
        if self.names.services.len() < before { self.write_names() } else { Ok(()) }
    }

    fn write_names(&mut self) -> angara::Result<()> {
        let hosts: Vec<[u8; 16]> = self.names.hosts().iter().map(|host| host_bytes(*host)).collect();
        self.write_name(8, hosts.len() as u64)?;
        for (i, host) in hosts.iter().enumerate() {
            let word = |half: usize| Reader(&host[8 * half..]).u64().unwrap_or(0);
            self.write_name(HOSTS + 16 * i, word(0))?;
            self.write_name(HOSTS + 16 * i + 8, word(1))?;
        }
        self.here.job.ctx().quiet()?;
        self.write_name(0, u64::from(self.here.me.generation))?;
        self.here.job.ctx().quiet()?;
        // A service that moves down when another is given up stands in two places for a moment, and is never missing.
        for i in 0..self.names.services.len().max(self.names.written) {
            let word = self.names.services.get(i).map_or(0, |(service, ep)| u64::from(*ep) << 32 | u64::from(*service));
            self.write_name(SERVICES + 8 * i, word)?;
        }
        self.names.written = self.names.services.len();
        self.here.job.ctx().quiet()
    }

    /// The endpoint that has a name now.
    pub(super) fn resolve(&mut self, name: Name) -> Option<(Peer, u32)> {
        match name.host {
            Some(host) => self.search(name.service, Where::Host(host)),
            None => self.search(name.service, Where::Here).or_else(|| self.search(name.service, Where::Anywhere)),
        }
    }

    fn search(&mut self, service: u16, at: Where) -> Option<(Peer, u32)> {
        if service == 0 {
            return None;
        }
        let own = self.names.hosts().to_vec();
        for seat in 0..self.here.job.n_pes() {
            let entry = self.here.job.pe_entry(seat).seat;
            let Some(ep) = self.offered_at(seat, service).filter(|_| entry.taken()) else { continue };
            // The hosts were written before the service, so they are there.
            let Some((generation, hosts)) = self.hosts_at(seat) else { continue };
            let fits = match at {
                Where::Here => own == hosts || own.iter().any(|host| hosts.contains(host)),
                Where::Host(host) => hosts.contains(&host),
                Where::Anywhere => true,
            };
            if fits && generation == entry.life() {
                return Some((Peer { seat: seat as u32, generation }, ep));
            }
        }
        None
    }

    /// Bytes of a seat's page, if somebody is there.
    fn page_of(&self, seat: usize, at: usize, len: usize) -> Option<Vec<u8>> {
        if !self.here.job.pe_entry(seat).seat.taken() {
            return None;
        }
        let page = UserMemory::owned(vec![0; len].into_boxed_slice());
        // A seat whose process leaves meanwhile has no names.
        page.fetch(0, &self.here.job, (seat, self.names.place(at)), len).ok()?;
        let mut bytes = vec![0; len];
        page.read(0, &mut bytes);
        Some(bytes)
    }

    fn offered_at(&self, seat: usize, service: u16) -> Option<u32> {
        let services = self.page_of(seat, SERVICES, BYTES - SERVICES)?;
        let mut words = services.chunks_exact(8).map_while(|word| Reader(word).u64());
        words.find(|word| *word as u32 == u32::from(service)).map(|word| (word >> 32) as u32)
    }

    /// The generation that wrote a page, and the addresses of its host.
    fn hosts_at(&self, seat: usize) -> Option<(u32, Vec<IpAddr>)> {
        let bytes = self.page_of(seat, 0, SERVICES)?;
        let mut reader = Reader(&bytes);
        let (generation, count) = (u32::try_from(reader.u64()?).ok()?, reader.u64()?);
        let count = usize::try_from(count).ok().filter(|count| *count <= HOSTS_MAX)?;
        let hosts = (0..count).map(|_| host_of(reader.take(16)?.try_into().ok()?)).collect::<Option<Vec<_>>>()?;
        Some((generation, hosts))
    }
}
