//! Every parameter of BookSim 2, its default, and what becomes of it.

use super::file::File;
use crate::Error;

/// What becomes of a parameter.
enum Fate {
    /// Settings follow from it.
    Setting,
    /// Routers here are like this; with another value results differ, and that is said.
    Like(&'static str),
    /// There is nothing for other values.
    Only(&'static [&'static str]),
    /// When a run ends and is believed: there are rules of our own.
    Ends,
    /// It changes no result, or only together with a value that is refused or named.
    Silent,
}
use Fate::{Ends, Like, Only, Setting, Silent};

/// Name, BookSim's default and fate.
const PARAMETERS: &[(&str, &str, Fate)] = &[
    ("topology", "torus", Setting),
    ("k", "8", Setting),
    ("n", "2", Setting),
    ("c", "1", Setting),
    ("routing_function", "none", Setting),
    ("network_file", "", Setting),
    ("num_vcs", "16", Setting),
    ("vc_buf_size", "8", Setting),
    ("hold_switch_for_packet", "0", Setting),
    ("traffic", "uniform", Setting),
    ("injection_rate", "0.1", Setting),
    ("injection_rate_uses_flits", "0", Setting),
    ("packet_size", "1", Setting),
    ("packet_size_rate", "1", Setting),
    ("injection_process", "bernoulli", Setting),
    ("burst_alpha", "0.5", Setting),
    ("burst_beta", "0.5", Setting),
    ("burst_r1", "-1", Setting),
    ("seed", "0", Setting),
    ("use_noc_latency", "1", Like("0")),
    ("output_delay", "0", Like("0")),
    ("credit_delay", "0", Like("2")),
    ("internal_speedup", "1", Like("1")),
    ("input_speedup", "1", Like("1")),
    ("output_speedup", "1", Like("1")),
    ("output_buffer_size", "-1", Like("-1")),
    ("noq", "0", Like("0")),
    ("speculative", "0", Like("0")),
    ("buf_size", "-1", Like("-1")),
    ("buffer_policy", "private", Like("private")),
    ("wait_for_tail_credit", "0", Like("0")),
    ("vc_busy_when_full", "0", Like("0")),
    ("vc_prioritize_empty", "0", Like("0")),
    ("vc_shuffle_requests", "0", Like("0")),
    ("routing_delay", "1", Like("0")),
    ("vc_alloc_delay", "1", Like("1")),
    ("sw_alloc_delay", "1", Like("1")),
    ("st_prepare_delay", "0", Like("0")),
    ("st_final_delay", "1", Like("1")),
    ("vc_allocator", "islip", Like("separable_input_first")),
    ("sw_allocator", "islip", Like("separable_input_first")),
    ("arb_type", "round_robin", Like("round_robin")),
    ("alloc_iters", "1", Like("1")),
    ("include_queuing", "1", Like("1")),
    ("router", "iq", Only(&["iq"])),
    ("subnets", "1", Only(&["1"])),
    ("classes", "1", Only(&["1"])),
    ("use_read_write", "0", Only(&["0"])),
    ("link_failures", "0", Only(&["0"])),
    ("priority", "none", Only(&["none"])),
    ("channel_file", "", Only(&[""])),
    ("sim_type", "latency", Only(&["latency", "throughput"])),
    ("warmup_periods", "3", Ends),
    ("sample_period", "1000", Ends),
    ("max_samples", "10", Ends),
    ("latency_thres", "500", Ends),
    ("warmup_thres", "0.05", Ends),
    ("acc_warmup_thres", "0.05", Ends),
    ("stopping_thres", "0.05", Ends),
    ("acc_stopping_thres", "0.05", Ends),
    ("sim_count", "1", Ends),
];

/// More that is [`Silent`]: what is printed and drawn, power, and details of what is refused or named above.
const SILENT: &[&str] = &[
    "x",
    "y",
    "xr",
    "yr",
    "in_ports",
    "out_ports",
    "fail_seed",
    "vct",
    "perm_seed",
    "class_priority",
    "measure_stats",
    "pair_stats",
    "deadlock_warn_timeout",
    "viewer_trace",
    "print_activity",
    "print_csv_results",
    "watch_file",
    "watch_flits",
    "watch_packets",
    "watch_transactions",
    "watch_out",
    "stats_out",
    "injected_flits_out",
    "received_flits_out",
    "stored_flits_out",
    "sent_flits_out",
    "outstanding_credits_out",
    "ejected_flits_out",
    "active_packets_out",
    "used_credits_out",
    "free_credits_out",
    "max_credits_out",
    "sent_packets_out",
    "sim_power",
    "power_output_file",
    "tech_file",
    "channel_width",
    "channel_sweep",
    "spec_check_elig",
    "spec_check_cred",
    "spec_mask_by_reqs",
    "spec_sw_allocator",
    "private_bufs",
    "private_buf_size",
    "private_buf_start_vc",
    "private_buf_end_vc",
    "max_held_slots",
    "feedback_aging_scale",
    "feedback_offset",
    "vc_priority_donation",
    "batch_size",
    "batch_count",
    "max_outstanding_requests",
    "write_fraction",
    "read_request_begin_vc",
    "read_request_end_vc",
    "write_request_begin_vc",
    "write_request_end_vc",
    "read_reply_begin_vc",
    "read_reply_end_vc",
    "write_reply_begin_vc",
    "write_reply_end_vc",
    "read_request_subnet",
    "read_reply_subnet",
    "write_request_subnet",
    "write_reply_subnet",
    "read_request_size",
    "write_request_size",
    "read_reply_size",
    "write_reply_size",
];

fn find(name: &str) -> Option<(&'static str, &'static Fate)> {
    let known = PARAMETERS.iter().find(|p| p.0 == name).map(|p| (p.1, &p.2));
    known.or_else(|| SILENT.contains(&name).then_some(("", &Silent)))
}

/// The value of a parameter as BookSim sees it.
pub(super) fn value<'a>(file: &'a File, name: &str) -> &'a str {
    file.given(name).unwrap_or_else(|| find(name).map_or("", |(default, _)| default))
}

/// True if both are the same number or word.
fn same(one: &str, other: &str) -> bool {
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one.trim_matches(['{', '}']) == other,
    }
}

/// Refuses parameters that BookSim does not have, and values for which there is nothing here.
pub(super) fn check(file: &File) -> Result<(), Error> {
    for name in file.names() {
        let Some((_, fate)) = find(name) else {
            return Err(file.wrong(name, "BookSim 2 has no such parameter; look for a slip of the pen"));
        };
        if let Only(values) = fate
            && !values.iter().any(|only| same(value(file, name), only))
        {
            let all: Vec<String> =
                values.iter().map(|v| if v.is_empty() { "nothing".into() } else { format!("`{v}`") }).collect();
            return Err(file
                .wrong(name, &format!("there is nothing like it here; only {} can be simulated", all.join(" and "))));
        }
    }
    Ok(())
}

/// One sentence for every parameter that makes results differ.
pub(super) fn differences(file: &File) -> Vec<String> {
    let mut all = Vec::new();
    for (name, _, fate) in PARAMETERS {
        let Like(here) = fate else { continue };
        let theirs = value(file, name);
        // Links of a mesh are one cycle long by either rule.
        let alike = *name == "use_noc_latency" && !matches!(value(file, "topology"), "torus" | "cmesh" | "flatfly");
        if !alike && !same(theirs, here) {
            let whence = if file.given(name).is_some() { "" } else { " by default" };
            all.push(format!("{name} is {theirs}{whence}; routers here are like {here}"));
        }
    }
    let ends: Vec<&str> = PARAMETERS.iter().filter(|p| matches!(p.2, Ends)).map(|p| p.0).collect();
    let given: Vec<&str> = ends.into_iter().filter(|name| file.given(name).is_some()).collect();
    if !given.is_empty() {
        all.push(format!(
            "{} say when a run ends; here that is decided by warmup, cycles and precision",
            given.join(", ")
        ));
    }
    all
}
