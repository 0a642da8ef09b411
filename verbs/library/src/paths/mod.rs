//! Files in `/sys` and `/dev` that programs look for by themselves.

use std::path::Path;

/// What a file says that is only here.
pub(crate) fn contents(at: &Path) -> Option<Vec<u8>> {
    at.ends_with("rdma_cm/abi_version").then(|| b"4\n".to_vec())
}
