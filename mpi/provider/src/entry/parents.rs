//! Objects in which others are opened, or that several kinds of calls are made on: fabrics, domains and endpoints.

use super::form::Form;
use super::*;
use crate::abi::ops::*;
use crate::process::Helper;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

#[repr(C)]
pub(super) struct FabricObject {
    pub(super) fid: FidFabric,
    pub(super) users: Users,
}

impl FabricObject {
    /// # Safety
    /// See the module.
    pub(super) unsafe fn of<'a>(fid: *mut FidFabric) -> &'a FabricObject {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { &*fid.cast::<FabricObject>() }
    }
}

#[repr(C)]
pub(super) struct DomainObject {
    pub(super) fid: FidDomain,
    pub(super) id: u32,
    pub(super) api_version: u32,
    pub(super) mr_mode: i32,
    pub(super) form: Form,
    /// Where progress is automatic.
    pub(super) helper: Option<Helper>,
    pub(super) users: Users,
    pub(super) _fabric: Users,
    /// The event queue, if there is one.
    pub(super) eq: OnceLock<Users>,
}

impl DomainObject {
    /// # Safety
    /// See the module.
    pub(super) unsafe fn of<'a>(fid: *mut FidDomain) -> &'a DomainObject {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { &*fid.cast::<DomainObject>() }
    }
}

#[repr(C)]
pub(super) struct EpObject {
    pub(super) fid: FidEp,
    pub(super) id: u32,
    pub(super) form: Form,
    /// Flags of operations that are called without any.
    pub(super) tx_flags: AtomicU64,
    pub(super) rx_flags: AtomicU64,
    pub(super) _domain: Users,
    /// Objects that it reports to, and those that its addresses come from.
    pub(super) bound: Mutex<Vec<Users>>,
}

impl EpObject {
    /// # Safety
    /// See the module.
    #[inline(always)]
    pub(super) unsafe fn of<'a>(fid: *mut FidEp) -> &'a EpObject {
        // SAFETY: the caller promises what the callee asks for.
        unsafe { &*fid.cast::<EpObject>() }
    }
    #[inline(always)]
    pub(super) fn tx_flags(&self) -> u64 {
        self.tx_flags.load(Ordering::Relaxed)
    }
    #[inline(always)]
    pub(super) fn rx_flags(&self) -> u64 {
        self.rx_flags.load(Ordering::Relaxed)
    }
}
