//! PEs that wait, as lines for people.

use angara_protocol::msg::Wait;
use angara_protocol::print::show_pes;

/// One line per group of PEs that wait for the same, longest first, and one for those that do not wait.
pub fn wait_lines(running: &[u32], waits: &[Wait]) -> Vec<String> {
    let mut groups: Vec<(&str, f64, Vec<u32>)> = Vec::new();
    for wait in waits {
        match groups.iter_mut().find(|g| g.0 == wait.what) {
            Some(group) => {
                group.1 = group.1.max(wait.seconds);
                group.2.push(wait.pe);
            }
            None => groups.push((&wait.what, wait.seconds, vec![wait.pe])),
        }
    }
    groups.sort_by(|a, b| b.1.total_cmp(&a.1));
    let line =
        |(what, seconds, pes): &(&str, f64, Vec<u32>)| format!("{} waited for {seconds:.1} s: {what}", show_pes(pes));
    let mut lines: Vec<String> = groups.iter().map(line).collect();
    let busy: Vec<u32> = running.iter().copied().filter(|pe| waits.iter().all(|w| w.pe != *pe)).collect();
    if !busy.is_empty() {
        lines.push(format!("{} did not wait in the library", show_pes(&busy)));
    }
    lines
}
