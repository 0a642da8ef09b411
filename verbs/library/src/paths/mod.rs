//! Files in `/sys` and `/dev` that programs look for by themselves, which the kernel has for adapters of hardware.
//!
//! [`tree`] says what there is, [`calls`] are functions of libc that look there first. Nothing is on a disk: what is opened is a
//! file in memory, and a directory is one for as long as it is open.

pub mod calls;
pub mod descriptors;
pub(crate) mod real;
pub(crate) mod tree;

use crate::cm::desk;
use crate::process::adapters;
use angara_hca::Result;
use rustix::fd::OwnedFd;
use std::path::Path;
use tree::Node;

/// What a file says that is only here.
pub(crate) fn contents(at: &Path) -> Option<Vec<u8>> {
    if at.ends_with("rdma_cm/abi_version") {
        return Some(b"4\n".to_vec());
    }
    match tree::find(at.to_str()?, true)?.node {
        Node::File(text) => Some(text.into_bytes()),
        _ => None,
    }
}

/// The device of the connection manager.
pub(crate) const CONNECTION_MANAGER: &str = "/dev/infiniband/rdma_cm";

/// Opens [`CONNECTION_MANAGER`], with flags of `open`.
pub(crate) fn open_connection_manager(flags: i32) -> Result<OwnedFd> {
    desk::open(adapters()?, flags)
}
