//! Signals, for programs that start others.

use rustix::process::Signal;
use std::fs::read_to_string;
use std::sync::Arc;

/// From now on a write beyond the limit on file sizes (`ulimit -f`) fails and is reported; by default it kills the
/// process. Programs that this one starts find the default again.
pub fn survive_file_size_limit() {
    const XFSZ: i32 = Signal::XFSZ.as_raw();
    // Whoever had it ignored wants that for those programs, too.
    if ignored_signals() >> (XFSZ - 1) & 1 == 0 {
        // Nobody looks at the flag: the failed write says it all. Without the handler things are as they were.
        let _ = signal_hook::flag::register(XFSZ, Arc::default());
    }
}

/// Bit n-1 is set if this process ignores signal n.
pub fn ignored_signals() -> u64 {
    let status = read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|l| l.strip_prefix("SigIgn:"));
    mask.and_then(|m| u64::from_str_radix(m.trim(), 16).ok()).unwrap_or(0)
}
