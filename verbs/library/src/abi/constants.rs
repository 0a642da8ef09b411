//! Numbers of `infiniband/verbs.h` that `angara_hca` does not have.

/// `abi_compat` of a context with the extended table in front.
pub const ABI_IS_EXTENDED: usize = usize::MAX;
/// A channel adapter.
pub const NODE_CA: i32 = 1;
/// Bits of `device_cap_flags`.
pub mod capability {
    pub const CURR_QP_STATE_MOD: u32 = 1 << 7;
    pub const PORT_ACTIVE_EVENT: u32 = 1 << 10;
    pub const SYS_IMAGE_GUID: u32 = 1 << 11;
    pub const RC_RNR_NAK_GEN: u32 = 1 << 12;
    pub const SRQ_RESIZE: u32 = 1 << 13;
}
pub const ATOMIC_HCA: u32 = 1;
pub const MTU_4096: u32 = 5;
/// States of a port.
pub const PORT_DOWN: u32 = 1;
pub const PORT_ACTIVE: u32 = 4;
/// States of its cable.
pub const PHYSICAL_DISABLED: u8 = 3;
pub const PHYSICAL_LINK_UP: u8 = 5;
pub const LINK_INFINIBAND: u8 = 1;
pub const LINK_ETHERNET: u8 = 2;
/// Four lanes.
pub const WIDTH_4X: u8 = 2;
/// FDR, 14 Gbit/s a lane.
pub const SPEED_FDR: u8 = 16;
/// What that makes, in 100 Mbit/s.
pub const SPEED_HUNDREDS: u64 = 560;
/// GIDs are made of IP addresses.
pub const PORT_IP_BASED_GIDS: u32 = 1 << 26;
/// There is a connection manager.
pub const PORT_CM_SUP: u32 = 1 << 16;
/// Asynchronous events; those of queue pairs are in `angara_hca`.
pub mod event {
    pub const CQ_ERR: u32 = 0;
    pub const DEVICE_FATAL: u32 = 8;
    pub const PORT_ACTIVE: u32 = 9;
    pub const PORT_ERR: u32 = 10;
    pub const SRQ_ERR: u32 = 14;
    pub const SRQ_LIMIT_REACHED: u32 = 15;
    pub const QP_LAST_WQE_REACHED: u32 = 16;
}
/// What can be read of a completion, and what cannot here.
pub mod wc {
    pub const BYTE_LEN: u64 = 1;
    pub const IMM: u64 = 1 << 1;
    pub const QP_NUM: u64 = 1 << 2;
    pub const SRC_QP: u64 = 1 << 3;
    pub const SLID: u64 = 1 << 4;
    pub const SL: u64 = 1 << 5;
    pub const DLID_PATH_BITS: u64 = 1 << 6;
    pub const TIMESTAMP: u64 = 1 << 7;
    pub const WALLCLOCK: u64 = 1 << 11;
    /// All that there are.
    pub const KNOWN: u64 = BYTE_LEN | IMM | QP_NUM | SRC_QP | SLID | SL | DLID_PATH_BITS | TIMESTAMP | WALLCLOCK;
}
/// Bits of `comp_mask` of `ibv_create_cq_ex`, and of its flags.
pub const CQ_MASK_FLAGS: u32 = 1;
pub const CQ_MASK_PD: u32 = 2;
pub const CQ_SINGLE_THREADED: u32 = 1;
pub const CQ_IGNORE_OVERRUN: u32 = 2;
/// Bits of `comp_mask` of `ibv_create_qp_ex`.
pub const QP_MASK_PD: u32 = 1;
pub const QP_MASK_CREATE_FLAGS: u32 = 1 << 2;
pub const QP_MASK_SEND_OPS: u32 = 1 << 6;
/// Bits of `send_ops_flags`.
pub mod send_ops {
    pub const WRITE: u64 = 1;
    pub const WRITE_IMM: u64 = 1 << 1;
    pub const SEND: u64 = 1 << 2;
    pub const SEND_IMM: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const COMPARE_SWAP: u64 = 1 << 5;
    pub const FETCH_ADD: u64 = 1 << 6;
}
/// Bits of `comp_mask` of `ibv_create_srq_ex`.
pub const SRQ_MASK_TYPE: u32 = 1;
pub const SRQ_MASK_PD: u32 = 2;
pub const SRQ_TYPE_BASIC: u32 = 0;
/// Bits of `ibv_modify_srq`.
pub const SRQ_MAX_WR: i32 = 1;
pub const SRQ_LIMIT: i32 = 2;
/// Bits of `ibv_rereg_mr`.
pub const REREG_TRANSLATION: i32 = 1;
pub const REREG_PD: i32 = 2;
pub const REREG_ACCESS: i32 = 4;
/// What it returns: wrong input, or a failed command.
pub const REREG_ERR_INPUT: i32 = -1;
pub const REREG_ERR_CMD: i32 = -4;
/// Bits of `comp_mask` of `ibv_reg_mr_ex`.
pub const REG_IOVA: u64 = 1;
pub const REG_ADDR: u64 = 2;
/// Operations of send requests.
pub mod wr {
    pub const RDMA_WRITE: u32 = 0;
    pub const RDMA_WRITE_WITH_IMM: u32 = 1;
    pub const SEND: u32 = 2;
    pub const SEND_WITH_IMM: u32 = 3;
    pub const RDMA_READ: u32 = 4;
    pub const ATOMIC_CMP_AND_SWP: u32 = 5;
    pub const ATOMIC_FETCH_AND_ADD: u32 = 6;
}
/// Flags of send requests.
pub const SEND_FENCE: u32 = 1;
pub const SEND_SIGNALED: u32 = 2;
pub const SEND_SOLICITED: u32 = 4;
pub const SEND_INLINE: u32 = 8;
/// `ibv_is_fork_initialized`: nothing has to be done for it.
pub const FORK_UNNEEDED: i32 = 2;
/// `ibv_query_rt_values_ex` of the clock.
pub const VALUES_RAW_CLOCK: u32 = 1;
