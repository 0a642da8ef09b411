//! Names and rates, as programs print them.

use libc::{c_char, c_int};
use std::ffi::CStr;

const UNKNOWN: &CStr = c"unknown";

/// The text of a number, whose first has the number `first`.
fn at(texts: &[&'static CStr], first: c_int, number: c_int) -> *const c_char {
    let index = number.checked_sub(first).and_then(|index| usize::try_from(index).ok());
    index.and_then(|index| texts.get(index)).unwrap_or(&UNKNOWN).as_ptr()
}

/// `ibv_node_type_str`.
pub extern "C" fn node_type_str(number: c_int) -> *const c_char {
    const TEXTS: [&CStr; 7] = [
        c"InfiniBand channel adapter",
        c"InfiniBand switch",
        c"InfiniBand router",
        c"iWARP NIC",
        c"usNIC",
        c"usNIC UDP",
        c"unspecified",
    ];
    at(&TEXTS, 1, number)
}

/// `ibv_port_state_str`.
pub extern "C" fn port_state_str(number: c_int) -> *const c_char {
    const TEXTS: [&CStr; 6] = [c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active defer"];
    at(&TEXTS, 0, number)
}

/// `ibv_event_type_str`.
pub extern "C" fn event_type_str(number: c_int) -> *const c_char {
    const TEXTS: [&CStr; 21] = [
        c"CQ error",
        c"local work queue catastrophic error",
        c"invalid request local work queue error",
        c"local access violation work queue error",
        c"communication established",
        c"send queue drained",
        c"path migrated",
        c"path migration request error",
        c"local catastrophic error",
        c"port active",
        c"port error",
        c"LID change",
        c"P_Key change",
        c"SM change",
        c"SRQ catastrophic error",
        c"SRQ limit reached",
        c"last WQE reached",
        c"client reregistration",
        c"GID table change",
        c"WQ fatal",
        c"Device link speed change",
    ];
    at(&TEXTS, 0, number)
}

/// `ibv_wc_status_str`.
pub extern "C" fn wc_status_str(number: c_int) -> *const c_char {
    const TEXTS: [&CStr; 24] = [
        c"success",
        c"local length error",
        c"local QP operation error",
        c"local EE context operation error",
        c"local protection error",
        c"Work Request Flushed Error",
        c"memory management operation error",
        c"bad response error",
        c"local access error",
        c"remote invalid request error",
        c"remote access error",
        c"remote operation error",
        c"transport retry counter exceeded",
        c"RNR retry counter exceeded",
        c"local RDD violation error",
        c"remote invalid RD request",
        c"aborted error",
        c"invalid EE context number",
        c"invalid EE context state",
        c"fatal error",
        c"response timeout error",
        c"general error",
        c"TM error",
        c"TM software rendezvous",
    ];
    at(&TEXTS, 0, number)
}

/// `ibv_wr_opcode_str`.
pub extern "C" fn wr_opcode_str(number: c_int) -> *const c_char {
    const TEXTS: [&CStr; 16] = [
        c"rdma-write",
        c"rdma-write-with-imm",
        c"send",
        c"send-with-imm",
        c"rdma-read",
        c"atomic-cmp-and-swp",
        c"atomic-fetch-and-add",
        c"local-inv",
        c"bind-mw",
        c"send-with-inv",
        c"tso",
        c"driver1",
        UNKNOWN,
        UNKNOWN,
        c"flush",
        c"atomic-write",
    ];
    at(&TEXTS, 0, number)
}

/// A rate: its number, how many times 2.5 Gbit/s it is (0: nobody says), and in Mbit/s.
struct Rate(c_int, c_int, c_int);

const RATES: [Rate; 23] = [
    Rate(2, 1, 2_500),
    Rate(5, 2, 5_000),
    Rate(3, 4, 10_000),
    Rate(6, 8, 20_000),
    Rate(4, 12, 30_000),
    Rate(7, 16, 40_000),
    Rate(8, 24, 60_000),
    Rate(9, 32, 80_000),
    Rate(10, 48, 120_000),
    Rate(11, 0, 14_062),
    Rate(12, 0, 56_250),
    Rate(13, 0, 112_500),
    Rate(14, 0, 168_750),
    Rate(15, 0, 25_781),
    Rate(16, 0, 103_125),
    Rate(17, 0, 206_250),
    Rate(18, 0, 309_375),
    Rate(19, 11, 28_125),
    Rate(20, 20, 53_125),
    Rate(21, 160, 425_000),
    Rate(22, 240, 637_500),
    Rate(23, 320, 850_000),
    Rate(24, 480, 1_275_000),
];

/// `ibv_rate_to_mult`.
pub extern "C" fn rate_to_mult(rate: c_int) -> c_int {
    RATES.iter().find(|known| known.0 == rate && known.1 > 0).map_or(-1, |known| known.1)
}

/// `mult_to_ibv_rate`.
pub extern "C" fn mult_to_rate(mult: c_int) -> c_int {
    RATES.iter().find(|known| known.1 == mult && mult > 0).map_or(0, |known| known.0)
}

/// `ibv_rate_to_mbps`.
pub extern "C" fn rate_to_mbps(rate: c_int) -> c_int {
    RATES.iter().find(|known| known.0 == rate).map_or(-1, |known| known.2)
}

/// `mbps_to_ibv_rate`.
pub extern "C" fn mbps_to_rate(mbps: c_int) -> c_int {
    RATES.iter().find(|known| known.2 == mbps).map_or(0, |known| known.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(of: *const c_char) -> &'static str {
        // SAFETY: all of them are texts of this file.
        unsafe { CStr::from_ptr(of) }.to_str().expect("plain text")
    }

    #[test]
    fn numbers_have_their_texts_and_others_none() {
        assert_eq!(text(node_type_str(1)), "InfiniBand channel adapter");
        assert_eq!(text(port_state_str(4)), "active");
        assert_eq!(text(event_type_str(16)), "last WQE reached");
        assert_eq!(text(wc_status_str(13)), "RNR retry counter exceeded");
        assert_eq!(text(wr_opcode_str(15)), "atomic-write");
        for number in [-1, 24, c_int::MIN, c_int::MAX] {
            assert_eq!(text(wc_status_str(number)), "unknown");
        }
        assert_eq!(text(node_type_str(0)), "unknown");
    }

    #[test]
    fn rates_lead_back() {
        for known in &RATES {
            assert_eq!(mbps_to_rate(rate_to_mbps(known.0)), known.0);
            if rate_to_mult(known.0) > 0 {
                assert_eq!(mult_to_rate(rate_to_mult(known.0)), known.0);
            }
        }
        assert_eq!((rate_to_mult(11), rate_to_mbps(1), mult_to_rate(0), mbps_to_rate(1)), (-1, -1, 0, 0));
    }
}
