//! What became of work requests.

/// Status of a completion, as `enum ibv_wc_status` numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs)] // the names of the specification
pub enum Status {
    Success = 0,
    LocalLength = 1,
    LocalQpOperation = 2,
    LocalProtection = 4,
    Flushed = 5,
    BadResponse = 7,
    LocalAccess = 8,
    RemoteInvalidRequest = 9,
    RemoteAccess = 10,
    RemoteOperation = 11,
    RetryExceeded = 12,
    RnrRetryExceeded = 13,
}

/// What was carried out, as `enum ibv_wc_opcode` numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs)] // the names of the specification
pub enum Opcode {
    Send = 0,
    RdmaWrite = 1,
    RdmaRead = 2,
    CompareSwap = 3,
    FetchAdd = 4,
    Receive = 128,
    ReceiveRdmaWithImm = 129,
}

/// Flags of a completion, as `enum ibv_wc_flags` numbers them.
pub mod flags {
    /// 40 bytes of a global routing header are in front of the payload.
    pub const GRH: u32 = 1;
    /// Immediate data came with it.
    pub const WITH_IMM: u32 = 2;
}

/// An entry of a completion queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the fields of `struct ibv_wc`
pub struct Completion {
    pub wr_id: u64,
    pub status: Status,
    pub opcode: Opcode,
    pub byte_len: u32,
    /// As it stood in the request: in network order.
    pub imm: u32,
    pub qp: u32,
    pub src_qp: u32,
    pub flags: u32,
    pub slid: u16,
    pub sl: u8,
    /// When it was made, in nanoseconds of [`crate::Network::now`].
    pub at: u64,
}
