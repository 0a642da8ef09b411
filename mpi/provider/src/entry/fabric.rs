//! The way in: the provider itself, what it offers, and fabrics.

use super::form::Form;
use super::parents::FabricObject;
use super::*;
use crate::abi::constants::*;
use crate::abi::ops::*;
use crate::abi::structs::*;
use crate::address::{Address, Name};
use crate::info::{Hints, Meant, NAME, Offer, answer};
use libc::{c_char, c_int, c_void};
use std::sync::OnceLock;

/// Room behind each struct that is given out, for what later versions append.
const ROOM: usize = 256;

struct Provider(*mut FiProvider);
// SAFETY: written once, before anybody else knows of it; libfabric alone changes it afterwards.
unsafe impl Send for Provider {}
// SAFETY: written once, before anybody else knows of it; libfabric alone changes it afterwards.
unsafe impl Sync for Provider {}

static PROVIDER: OnceLock<Provider> = OnceLock::new();

/// Returns what libfabric calls first.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut c_void {
    let provider = PROVIDER.get_or_init(|| {
        stay();
        let provider = Box::new(FiProvider {
            version: version(1, 0),
            fi_version: crate::log::host_version(),
            context: [0; 4],
            name: c"angara".as_ptr(),
            getinfo,
            fabric,
            cleanup,
        });
        let provider = Box::into_raw(provider);
        crate::log::set_provider(provider);
        Provider(provider)
    });
    provider.0.cast()
}

/// libfabric unloads providers when it ends, but what this one has registered to be called at exit is called later.
fn stay() {
    // SAFETY: asks where this function is, and loads what is loaded.
    unsafe {
        let mut at: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(stay as *const c_void, &mut at) != 0 && !at.dli_fname.is_null() {
            libc::dlopen(at.dli_fname, libc::RTLD_NOW | libc::RTLD_NODELETE);
        }
    }
}

unsafe extern "C" fn cleanup() {
    let _ = catch_unwind(crate::process::leave);
}

/// # Safety
/// Null or what libfabric made of a program's hints.
unsafe fn read_hints(hints: *const Info) -> Hints {
    // SAFETY: passed on: each pointer is null or to its struct.
    unsafe {
        let Some(info) = hints.as_ref() else { return Hints::default() };
        let (fabric, form) = (info.fabric_attr.as_ref(), Form::of(info.addr_format));
        Hints {
            caps: info.caps,
            addr_format: info.addr_format,
            tx: info.tx_attr.as_ref().copied(),
            rx: info.rx_attr.as_ref().copied(),
            ep: info.ep_attr.as_ref().copied(),
            domain: info.domain_attr.as_ref().copied(),
            provider: fabric.and_then(|f| text(f.prov_name)),
            domain_name: info.domain_attr.as_ref().and_then(|d| text(d.name)),
            fabric_name: fabric.and_then(|f| text(f.name)),
            source: form.read_within(info.src_addr, info.src_addrlen),
            destination: form.read_within(info.dest_addr, info.dest_addrlen),
        }
    }
}

/// Whose addresses a node and a service are.
struct Asked {
    node: Option<String>,
    service: Option<String>,
    flags: u64,
}

impl Asked {
    /// Puts the addresses that are asked for into an offer.
    fn complete(&self, offer: &mut Offer) -> Result<(), String> {
        if self.node.is_none() && self.service.is_none() {
            return Ok(());
        }
        let numeric = self.flags & NUMERICHOST != 0;
        let found = crate::lookup::address(self.node.as_deref(), self.service.as_deref(), numeric)?;
        if self.flags & SOURCE == 0 {
            offer.destination = Some(found);
            return Ok(());
        }
        if let Address::Name(Name { host: Some(host), .. }) = found
            && !crate::lookup::own_hosts().contains(&host)
        {
            return Err(format!("source {found}: this host has no such address"));
        }
        offer.source = found;
        Ok(())
    }
}

/// Memory that libfabric frees.
fn give<T>(value: T) -> *mut T {
    // SAFETY: zeroed memory with room for the value and more.
    unsafe {
        let p = libc::calloc(1, size_of::<T>() + ROOM).cast::<T>();
        assert!(!p.is_null(), "out of memory");
        p.write(value);
        p
    }
}

fn give_bytes(bytes: &[u8]) -> *mut c_void {
    // SAFETY: memory with room for as many bytes.
    unsafe {
        let p = libc::calloc(1, bytes.len());
        assert!(!p.is_null(), "out of memory");
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), p.cast(), bytes.len());
        p
    }
}

fn give_name() -> *mut c_char {
    // SAFETY: a string.
    unsafe { libc::strdup(c"angara".as_ptr()) }
}

fn give_out(offer: Offer, api_version: u32) -> *mut Info {
    let Offer { info, tx, rx, ep, domain, source, destination } = offer;
    let form = Form::of(info.addr_format);
    let (source, destination) = (form.write(source), destination.map(|address| form.write(address)));
    let fabric = FabricAttr {
        fabric: std::ptr::null_mut(),
        name: give_name(),
        // libfabric fills it in.
        prov_name: std::ptr::null_mut(),
        prov_version: version(1, 0),
        api_version,
    };
    give(Info {
        tx_attr: give(tx),
        rx_attr: give(rx),
        ep_attr: give(ep),
        domain_attr: give(DomainAttr { name: give_name(), ..domain }),
        fabric_attr: give(fabric),
        src_addr: give_bytes(&source),
        src_addrlen: source.len(),
        dest_addr: destination.as_ref().map_or(std::ptr::null_mut(), |bytes| give_bytes(bytes)),
        dest_addrlen: destination.as_ref().map_or(0, Vec::len),
        ..info
    })
}

unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const Info,
    info: *mut *mut Info,
) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let (hints, node, service) = unsafe { (read_hints(hints), text(node), text(service)) };
        let asked = Asked { node, service, flags };
        let hints =
            if flags & PROV_ATTR_ONLY != 0 { Hints { provider: hints.provider, ..Hints::default() } } else { hints };
        // Hosts are looked up only where this provider is meant.
        let offer = answer(version, &hints, &Meant::here()).and_then(|mut offer| {
            asked.complete(&mut offer)?;
            Ok(offer)
        });
        match offer {
            Ok(offer) => {
                let to = offer.destination.map_or(String::new(), |to| format!(" to {to}"));
                crate::log::info(&format!("offered: from {}{to}", offer.source));
                // SAFETY: libfabric has callers pass open objects and valid buffers.
                unsafe { *info = give_out(offer, version) };
                Ok(())
            }
            Err(why) => {
                crate::log::info(&format!("not offered: {why}"));
                Err(errno::ENODATA)
            }
        }
    })
}

static FABRIC_FI: FiOps = fi_ops(close, no_bind, no_control);
static FABRIC_OPS: OpsFabric = OpsFabric {
    size: size_of::<OpsFabric>(),
    domain: super::domain::open,
    passive_ep: absent,
    eq_open: super::eq::open,
    wait_open: absent,
    trywait,
    domain2: super::domain::open2,
};

/// Whether the program may sleep on the descriptors of these. Those before one that has something stay armed, which does no
/// harm: they ring at most once in vain.
unsafe extern "C" fn trywait(_: *mut FidFabric, fids: *mut *mut Fid, count: c_int) -> c_int {
    guarded(|| {
        for at in 0..usize::try_from(count).map_err(|_| errno::EINVAL)? {
            // SAFETY: libfabric has callers pass `count` open objects; the class says which kind each is.
            unsafe {
                let fid = *fids.add(at);
                match (*fid).fclass {
                    CLASS_CQ => super::cq::try_wait(fid.cast())?,
                    CLASS_CNTR => super::cntr::try_wait(fid.cast())?,
                    CLASS_EQ => super::eq::try_wait(fid.cast())?,
                    _ => return Err(errno::EINVAL),
                }
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn fabric(attr: *const FabricAttr, out: *mut *mut FidFabric, context: *mut c_void) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        let (name, api_version) = unsafe { (text((*attr).name), (*attr).api_version) };
        if name.is_some_and(|name| name != NAME) {
            return Err(errno::EINVAL);
        }
        let fid = Fid { fclass: CLASS_FABRIC, context, ops: &FABRIC_FI };
        let fid = FidFabric { fid, ops: &FABRIC_OPS, api_version };
        let fabric = Box::new(FabricObject { fid, users: Users::default() });
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { *out = Box::into_raw(fabric).cast() };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut Fid) -> c_int {
    guarded(|| {
        // SAFETY: libfabric has callers pass open objects and valid buffers.
        unsafe { FabricObject::of(fid.cast()) }.users.none()?;
        // SAFETY: made by `fabric` above, and closed once.
        drop(unsafe { Box::from_raw(fid.cast::<FabricObject>()) });
        Ok(())
    })
}
