//! Libraries that reach networks through UCX: MPICH built as `ch4:ucx`, Open MPI where its user asks for it, and Open MPI's
//! OpenSHMEM. UCX knows no providers, but RDMA adapters, so the library of RDMA programs is preloaded into the ranks. The adapter
//! of a rank is its PE of the job.

use super::library::LibraryKind;
use crate::run::options::{Clock, Options};
use angara_control::error::Failed;
use angara_control::install::{self, ENV_PRELOAD};
use angara_protocol::verbs::{ENV_DOMAIN, ENV_NODE};
use std::ffi::OsString;
use std::path::Path;

/// Heap of a rank unless the user says otherwise: mailbox and tables of its adapter. Only what is used takes memory.
pub const HEAP: u64 = 96 << 20;

/// Says by which transports UCX may send.
pub const ENV_TRANSPORTS: &str = "UCX_TLS";
/// Those that lead to an adapter of ours, as UCX names them alone and together, and what a process sends itself.
const OURS: [&str; 8] = ["rc_verbs", "rc_v", "rc", "ud_verbs", "ud_v", "ud", "ib", "self"];
/// Those of them that are asked for.
const TRANSPORTS: &str = "rc_verbs,ud_verbs,self";
/// What goes beside the value of another transport, which only makes connections.
const AUXILIARY: &str = ":aux";

/// Which part of Open MPI sends messages.
const ENV_PML: &str = "OMPI_MCA_pml";
/// What MPICH sends by, where it has been built with both.
const ENV_NETMOD: &str = "MPIR_CVAR_CH4_NETMOD";
/// The value of either that means UCX.
const NAME: &str = "ucx";

/// Where the transports that a user has named would lead.
#[derive(PartialEq, Eq, Debug)]
enum Transports {
    /// To our adapters, and nowhere else.
    Ours,
    /// Never to them.
    Elsewhere,
    /// To them, and past them by this one.
    Both(String),
}

impl Transports {
    fn of(value: &str) -> Transports {
        // What is excluded leaves all others.
        if value.starts_with('^') {
            return Transports::Both(value.into());
        }
        let names = || value.split(',').map(str::trim).filter(|name| !name.is_empty());
        let is_ours = |name: &&str| OURS.contains(&name.strip_suffix(AUXILIARY).unwrap_or(name));
        let leads_out = |name: &str| is_ours(&name) && name != "self";
        match names().find(|name| !is_ours(name)) {
            None => Transports::Ours,
            Some("all") => Transports::Both("all".into()),
            Some(other) if names().any(leads_out) => Transports::Both(other.into()),
            Some(_) => Transports::Elsewhere,
        }
    }
}

/// Tells whether the user has asked a library that has several ways for this one.
pub fn is_asked(kind: LibraryKind, given: impl Fn(&str) -> Option<OsString>) -> bool {
    let name = match kind {
        LibraryKind::OpenMpi => ENV_PML,
        LibraryKind::Mpich => ENV_NETMOD,
        LibraryKind::Intel => return false,
    };
    given(name).is_some_and(|value| value == NAME)
}

/// Tells whether the user has named transports that lead past the network on purpose. Fails where some would and some would not.
pub fn is_elsewhere(given: impl Fn(&str) -> Option<OsString>) -> Result<bool, Failed> {
    if let Some(node) = given(ENV_NODE).filter(|node| !node.is_empty()) {
        return Err(Failed::usage(
            format!("{ENV_NODE}={}: a rank's adapter is at the node of its PE", node.display()),
            format!("leave {ENV_NODE} out; --map and --ppn place PEs"),
        ));
    }
    let Some(value) = given(ENV_TRANSPORTS).filter(|value| !value.is_empty()) else { return Ok(false) };
    match Transports::of(&value.to_string_lossy()) {
        Transports::Ours => Ok(false),
        Transports::Elsewhere => Ok(true),
        Transports::Both(other) => Err(Failed::usage(
            format!(
                "{ENV_TRANSPORTS}={}: by {other} some messages would go past the emulated network",
                value.display()
            ),
            format!("leave {ENV_TRANSPORTS} out, or name only {TRANSPORTS}, or none of them to go past it altogether"),
        )),
    }
}

/// Variables that lead a library of this kind to its adapter; those that the user has set, which `given` looks up, are left
/// alone.
pub fn variables(kind: LibraryKind, given: impl Fn(&str) -> Option<OsString>) -> Vec<(OsString, OsString)> {
    let mut all = vec![(ENV_TRANSPORTS, TRANSPORTS)];
    match kind {
        LibraryKind::OpenMpi => all.extend([
            // Debian's is told by a file of its own to leave UCX alone, and others leave it alone unless an adapter has
            // the name of one that they know.
            (ENV_PML, NAME),
            ("OMPI_MCA_osc", NAME),
            ("OMPI_MCA_spml", NAME),
            ("OMPI_MCA_opal_common_ucx_tls", "any"),
            ("OMPI_MCA_opal_common_ucx_devices", "any"),
            // Memory that ranks share, and sockets.
            ("OMPI_MCA_btl", "self"),
        ]),
        LibraryKind::Mpich | LibraryKind::Intel => all.push((ENV_NETMOD, NAME)),
    }
    let is_new = |(name, _): &(&str, &str)| given(name).is_none_or(|value| value.is_empty());
    let mut all: Vec<_> = all.into_iter().filter(is_new).map(|(name, value)| (name.into(), value.into())).collect();
    // A shell may be in a domain of another daemon.
    if given(ENV_DOMAIN).is_some() {
        all.push((ENV_DOMAIN.into(), OsString::new()));
    }
    all
}

/// On another host than that of the launcher: has the library of RDMA programs preloaded as this host has it.
pub fn find_here(variables: &mut [(OsString, OsString)]) {
    let all = variables.iter_mut().filter(|(name, _)| name == ENV_PRELOAD);
    let Some((_, value)) = all.last() else { return };
    let (Some(text), Ok(own)) = (value.to_str(), install::verbs_library()) else { return };
    let here = |file: &str| match install::is_verbs_library(Path::new(file)) && !Path::new(file).exists() {
        true => own.to_string_lossy().into_owned(),
        false => file.into(),
    };
    *value = text.split(':').map(here).collect::<Vec<_>>().join(":").into();
}

/// Fails where the options ask for what cannot be had with adapters.
pub fn check(args: &Options, kind: LibraryKind) -> Result<(), Failed> {
    if args.clock == Clock::Virtual {
        return Err(Failed::usage(
            format!(
                "--clock virtual: the program's {kind} sends through UCX, to an RDMA adapter whose own thread serves it while \
                 the program computes, and no such thread has a virtual time"
            ),
            "leave --clock virtual out, or build the program with an MPI library that uses libfabric (pip install mpich has \
             a compiler wrapper in its bin), or, for OpenSHMEM, with our oshcc",
        ));
    }
    if args.trace.is_some() {
        return Err(Failed::usage(
            format!("--trace: the program's {kind} sends through UCX, and calls of UCX are not noted"),
            "leave --trace out; --capture has every packet of the ring path",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(kind: LibraryKind, user: &[(&str, &str)]) -> String {
        let given = |name: &str| user.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
        let all = variables(kind, given);
        all.iter().map(|(n, v)| format!("{}={} ", n.display(), v.display())).collect()
    }

    #[test]
    fn transports_lead_to_the_network_past_it_or_both() {
        for (value, is) in [
            ("rc_verbs,ud_verbs,self", Transports::Ours),
            ("rc,ud:aux,self", Transports::Ours),
            ("self", Transports::Ours),
            ("tcp,self", Transports::Elsewhere),
            ("rc,sm,self", Transports::Both("sm".into())),
            ("all", Transports::Both("all".into())),
            ("^tcp", Transports::Both("^tcp".into())),
        ] {
            assert_eq!(Transports::of(value), is, "{value}");
        }
        let given = |value: &'static str| move |name: &str| (name == ENV_TRANSPORTS).then(|| value.into());
        assert!(!is_elsewhere(given("rc,self")).unwrap() && is_elsewhere(given("tcp")).unwrap());
        let refused = is_elsewhere(given("rc,sm")).unwrap_err();
        assert!(refused.message.contains("UCX_TLS=rc,sm: by sm") && refused.code == 2, "{refused:?}");
        let refused = is_elsewhere(|name| (name == ENV_NODE).then(|| "3".into())).unwrap_err();
        assert!(refused.message.contains("ANGARA_NODE=3"), "{refused:?}");
    }

    #[test]
    fn libraries_are_led_to_ucx_and_what_the_user_has_set_stays() {
        let all = with(LibraryKind::Mpich, &[]);
        assert_eq!(all, "UCX_TLS=rc_verbs,ud_verbs,self MPIR_CVAR_CH4_NETMOD=ucx ");
        let all =
            with(LibraryKind::OpenMpi, &[("UCX_TLS", "rc,self"), ("OMPI_MCA_btl", "^tcp"), ("ANGARA_DOMAIN", "d")]);
        assert!(all.contains("OMPI_MCA_pml=ucx ") && all.contains("ANGARA_DOMAIN= "), "{all}");
        assert!(!all.contains("UCX_TLS") && !all.contains("OMPI_MCA_btl"), "{all}");
    }

    #[test]
    fn a_library_with_several_ways_is_asked_for_this_one() {
        let given = |name: &str| (name == "OMPI_MCA_pml").then(|| "ucx".into());
        assert!(is_asked(LibraryKind::OpenMpi, given) && !is_asked(LibraryKind::Mpich, given));
    }
}
