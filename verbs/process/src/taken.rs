//! Taking the adapters of this process: at first use, and until it ends. Each is a seat of a domain; a process that
//! `angara run` has started has one, and that is its PE.

use crate::adapter::Adapter;
use crate::agent;
use crate::memory::Own;
use crate::port::Port;
use crate::settings::{MemoryTier, Settings};
use angara::open::{ENV_DOMAIN, Join};
use angara::{Job, Launch};
use angara_hca::{Copies, Hca};
use angara_protocol::launch::LaunchError;
use angara_protocol::verbs::{DOMAIN, ENV_NODE};
use std::sync::{Arc, Mutex, PoisonError};

/// Adapters of the process with this number; a child that was forked needs its own.
static TAKEN: Mutex<Option<(u32, Taken)>> = Mutex::new(None);

type Taken = Result<&'static [&'static Adapter], String>;

/// All adapters of this process. The first call takes them; what it fails with, later ones fail with, too.
pub fn adapters() -> Taken {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let me = std::process::id();
    match &*taken {
        Some((pid, result)) if *pid == me => result.clone(),
        _ => {
            let result = take_all();
            *taken = Some((me, result.clone()));
            result
        }
    }
}

/// Adapters that this process has taken already.
pub fn known() -> &'static [&'static Adapter] {
    let taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    match &*taken {
        Some((pid, Ok(adapters))) if *pid == std::process::id() => adapters,
        _ => &[],
    }
}

fn take_all() -> Taken {
    let settings = Settings::from_env()?;
    let wished = match &settings.nodes[..] {
        [] => vec![None],
        nodes => nodes.iter().map(|node| Some(*node)).collect(),
    };
    let one = |(index, node)| take(&settings, index, node);
    let adapters = wished.into_iter().enumerate().map(one).collect::<Result<Vec<_>, _>>()?;
    Ok(Vec::leak(adapters))
}

fn take(settings: &Settings, index: usize, node: Option<u32>) -> Result<&'static Adapter, String> {
    let job = Arc::new(match launch()? {
        Some(launch) => as_pe(&launch, node)?,
        None => in_domain(node)?,
    });
    let here = job.pe_entry(job.my_pe()).node;
    if settings.memory != MemoryTier::Agent {
        // SAFETY: a number and four words. With Yama, others of this user may copy from and to this process from now on.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
    }
    let mut port = Port::open(job.clone(), settings.memory)?;
    let (copies, area) = (port.copies_anywhere(), port.area());
    let refused = match settings.memory {
        MemoryTier::Direct if copies != Copies::All => Some(
            "ANGARA_VERBS_MEMORY=direct: processes cannot copy from and to each other's memory here \
             (a path through the network, or process_vm_readv is forbidden); use auto or agent",
        ),
        MemoryTier::Remap if area.is_none() => Some(
            "ANGARA_VERBS_MEMORY=remap: seats of this domain have no addresses for registered memory; \
             use auto, or a daemon with fewer nodes or --channels",
        ),
        _ => None,
    };
    if let Some(why) = refused {
        job.detach();
        return Err(why.into());
    }
    let name = settings.device(index);
    if settings.is_verbose {
        let exchanges = match area {
            None => "pages stay where they are",
            Some(_) if angara_registered::is_guarded() => "pages of registered memory are exchanged",
            Some(_) => "pages of registered memory are exchanged while the program has one thread",
        };
        let way = match copies {
            Copies::All => "initiators copy where they can, agents elsewhere",
            Copies::Registered => "puts carry what is exchanged, agents store the rest",
            Copies::Nothing => "agents store what comes",
        };
        let lid = angara_hca::address::lid(here);
        angara_protocol::complain!("angara: {name} is at node {here}, LID {lid}: {exchanges}, {way}");
    }
    let says = Some(name.clone()).filter(|_| settings.is_verbose);
    let hca = Hca::new(port, Own::new(area, says), Box::new(random));
    let adapter: &'static Adapter =
        Box::leak(Box::new(Adapter::new(hca, name, settings.link, job, copies != Copies::All)));
    agent::start(adapter).map_err(|e| format!("no thread for {}: {e}", adapter.name()))?;
    // SAFETY: a function without arguments, of a library that stays loaded.
    unsafe { libc::atexit(at_exit) };
    Ok(adapter)
}

/// The PE that this process is to be, if `angara run` has started it and nobody has named a domain.
fn launch() -> Result<Option<Launch>, String> {
    if std::env::var_os(ENV_DOMAIN).is_some_and(|name| !name.is_empty()) {
        return Ok(None);
    }
    match Launch::from_env() {
        Ok(launch) => Ok(Some(launch)),
        Err(LaunchError::NoLauncher) => Ok(None),
        Err(other) => Err(other.to_string()),
    }
}

/// A place in the job of a launcher: its adapter is where its PE is.
fn as_pe(launch: &Launch, node: Option<u32>) -> Result<Job, String> {
    let job = Job::attach(launch, &[]).map_err(|e| e.to_string())?;
    let here = job.pe_entry(job.my_pe()).node;
    match node.filter(|node| *node != here) {
        None => Ok(job),
        Some(node) => {
            job.detach();
            Err(format!("{ENV_NODE}={node}: PE {} of the job is at node {here}; --map places PEs", launch.pe))
        }
    }
}

/// A seat of a domain, at this node if one is given.
fn in_domain(node: Option<u32>) -> Result<Job, String> {
    let mut join = Join::from_env(Port::SEAT).map_err(|e| e.to_string())?;
    // Whatever is asked of this process: whoever comes first decides for all.
    join.registered = Port::AREA;
    if std::env::var_os(ENV_DOMAIN).is_none_or(|name| name.is_empty()) {
        // Programs of MPI are in another one, whose seats have other sizes.
        join.domain = DOMAIN.into();
    }
    // Ranks of a launcher spread processes; a node that was asked for is more than that.
    join.hint = node.or(join.hint);
    let job = join.join().map_err(|e| e.to_string())?.job;
    let here = job.pe_entry(job.my_pe()).node;
    let Some(node) = node.filter(|node| *node != here) else { return Ok(job) };
    job.detach();
    let nodes = job.geometry().shape.nodes() as u32;
    Err(match node < nodes {
        true => format!("no adapter at node {node}: it is another host's, or all of its seats are taken"),
        false => format!("there is no node {node}: the torus has {nodes}, from 0"),
    })
}

/// The program ends in order: peers are told now, and not when the connection closes.
extern "C" fn at_exit() {
    let leave = || {
        if let Ok(taken) = TAKEN.try_lock()
            && let Some((pid, Ok(adapters))) = &*taken
            && *pid == std::process::id()
        {
            adapters.iter().for_each(|adapter| adapter.leave());
        }
    };
    let _ = std::panic::catch_unwind(leave);
}

fn random() -> u32 {
    let mut bytes = [0; 4];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(4) => u32::from_ne_bytes(bytes),
        // Taken at first: there were random numbers then. 0 is no key; the caller asks again.
        _ => 0,
    }
}
