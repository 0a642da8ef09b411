//! What `angara verbs` tells RDMA programs, by way of the library that is preloaded into them.

/// Name of the domain that a process joins.
pub const ENV_DOMAIN: &str = "ANGARA_DOMAIN";
/// `auto`, `direct` or `ring`: how processes of the domain reach each other.
pub const ENV_DOMAIN_PATH: &str = "ANGARA_DOMAIN_PATH";
/// Nodes of the process's devices: `5`, or `0,5` for two; unset: one device, and the daemon chooses its node.
pub const ENV_NODE: &str = "ANGARA_NODE";
/// Name of the first device.
pub const ENV_NAME: &str = "ANGARA_VERBS_NAME";
/// What ports say they are: `infiniband` or `ethernet`.
pub const ENV_LINK: &str = "ANGARA_VERBS_LINK";
/// How memory of other processes is reached: `auto`, `agent`, `direct` or `remap`.
pub const ENV_MEMORY: &str = "ANGARA_VERBS_MEMORY";
/// `1`: processes say which way they reach memory.
pub const ENV_VERBOSE: &str = "ANGARA_VERBS_VERBOSE";

/// The domain unless told otherwise.
pub const DOMAIN: &str = "verbs";
/// The first device unless told otherwise.
pub const NAME: &str = "angara0";
/// Longest name of the first device: programs have room for 63 bytes, and others may get a longer number.
pub const NAME_MAX: usize = 60;
