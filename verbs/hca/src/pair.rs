//! Queue pairs as programs see them: what they are made of, their states and attributes.

use crate::handles::{Cq, Pd, Srq};

/// Service of a queue pair, as `enum ibv_qp_type` numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum Transport {
    Rc = 2,
    Uc = 3,
    Ud = 4,
}

/// State of a queue pair, as `enum ibv_qp_state` numbers them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum State {
    Reset = 0,
    Init = 1,
    Rtr = 2,
    Rts = 3,
    Sqd = 4,
    Sqe = 5,
    Error = 6,
}

impl State {
    /// The state of a number of `enum ibv_qp_state`.
    pub fn from_number(number: u32) -> Option<State> {
        [State::Reset, State::Init, State::Rtr, State::Rts, State::Sqd, State::Sqe, State::Error]
            .into_iter()
            .find(|state| *state as u32 == number)
    }

    /// A queue pair in this state takes what peers send.
    pub(crate) fn receives(self) -> bool {
        matches!(self, State::Rtr | State::Rts | State::Sqd | State::Sqe)
    }
}

/// Sizes of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[allow(missing_docs)] // fields of `struct ibv_qp_cap`
pub struct Caps {
    pub send_wr: u32,
    pub recv_wr: u32,
    pub send_sge: u32,
    pub recv_sge: u32,
    pub inline_data: u32,
}

/// What a queue pair is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Init {
    /// Protection domain.
    pub pd: Pd,
    /// Service.
    pub transport: Transport,
    /// Where completions of send requests go.
    pub send_cq: Cq,
    /// Where completions of receive requests go.
    pub recv_cq: Cq,
    /// Where receive requests come from, if not from a queue of its own.
    pub srq: Option<Srq>,
    /// Every send request makes a completion.
    pub signal_all: bool,
    /// Sizes.
    pub caps: Caps,
}

/// The way to a peer: an address vector.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[allow(missing_docs)] // fields of `struct ibv_ah_attr`
pub struct PathAttributes {
    pub dgid: [u8; 16],
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: bool,
    pub port: u8,
}

/// Attributes of a queue pair. Which of them count is said by a [`mask`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[allow(missing_docs)] // fields of `struct ibv_qp_attr`
pub struct Attributes {
    pub state: u32,
    pub cur_state: u32,
    pub path_mtu: u32,
    pub path_mig_state: u32,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp: u32,
    pub access: u32,
    pub caps: Caps,
    pub path: PathAttributes,
    pub alt_path: PathAttributes,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub sqd_async_notify: bool,
    pub sq_draining: bool,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

/// Which attributes count, as `enum ibv_qp_attr_mask` numbers them.
#[allow(missing_docs)]
pub mod mask {
    pub const STATE: u32 = 1;
    pub const CUR_STATE: u32 = 1 << 1;
    pub const EN_SQD_ASYNC_NOTIFY: u32 = 1 << 2;
    pub const ACCESS: u32 = 1 << 3;
    pub const PKEY_INDEX: u32 = 1 << 4;
    pub const PORT: u32 = 1 << 5;
    pub const QKEY: u32 = 1 << 6;
    pub const PATH: u32 = 1 << 7;
    pub const PATH_MTU: u32 = 1 << 8;
    pub const TIMEOUT: u32 = 1 << 9;
    pub const RETRY_CNT: u32 = 1 << 10;
    pub const RNR_RETRY: u32 = 1 << 11;
    pub const RQ_PSN: u32 = 1 << 12;
    pub const MAX_RD_ATOMIC: u32 = 1 << 13;
    pub const ALT_PATH: u32 = 1 << 14;
    pub const MIN_RNR_TIMER: u32 = 1 << 15;
    pub const SQ_PSN: u32 = 1 << 16;
    pub const MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
    pub const PATH_MIG_STATE: u32 = 1 << 18;
    pub const CAP: u32 = 1 << 19;
    pub const DEST_QP: u32 = 1 << 20;
    pub const RATE_LIMIT: u32 = 1 << 25;
}
