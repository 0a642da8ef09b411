//! Cores of the extensions that use the chip beyond OpenSHMEM: half-barriers, and collectives carried
//! out by the routers while the program does something else.
//!
//! A tree is a number, the same on every PE of the team that opened it. All of them start the same
//! operations on it in the same order; an operation that was started is a request, which exactly one
//! call of wait ends.

use super::group::Group;
use super::members::{collective, collective_of};
use super::process::pe::this;
use super::process::requests::Request;
use super::record::{call, compound, met};
use super::{Runtime, bytes, die, ok, state};
use crate::ctypes::*;
use angara::tree::{ReduceElem, ReduceOp};
use angara_abi::order;
use angara_net::torus::{Coords, Direction};
use angara_protocol::calls::{Action, Meeting};

/// Time since some moment in the past, which stays the same while this machine runs. The C library's own look at the
/// clock, which debuggers such as valgrind know.
pub(crate) fn monotonic() -> libc::timespec {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a clock every Linux has, and a place for its value.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now
}

/// [`monotonic`] in seconds. Also without a job.
pub(crate) fn wtime(_name: Name) -> double {
    let now = monotonic();
    now.tv_sec as double + now.tv_nsec as double * 1e-9
}

/// The program computes for so long, as it says: that passes in virtual time, and on the machine's clock this thread works.
pub(crate) fn compute(name: Name, nanoseconds: u64) {
    call(name, |_, ()| Action::Other, |s| ok(name, None, s.job.compute(nanoseconds)));
}

/// Every PE has entered, and data sent before has been received everywhere.
pub(crate) fn half_barrier_all(name: Name) {
    let body = |s: &'static Runtime| {
        let s = collective(s, name);
        s.agree(name, &s.world(), String::new);
        ok(name, None, s.job.barrier(true));
    };
    call(name, |s, ()| met(Meeting::Sync, &s.world()), body);
}

/// Traffic of this PE to `pe` so far in class 0 put, 1 get, 2 atomics, 3 the library's own.
///
/// # Safety
/// The pointers are null or writable.
pub(crate) unsafe fn traffic(
    name: Name,
    pe: int,
    class: int,
    ops: *mut size_t,
    packets: *mut size_t,
    bytes: *mut size_t,
) -> int {
    let s = state(name);
    let known = usize::try_from(pe).ok().filter(|pe| *pe < s.n);
    let class = u8::try_from(class).ok().and_then(angara::Class::from_bits);
    let (Some(pe), Some(class)) = (known, class) else { return -1 };
    let t = s.job.traffic(pe, class);
    let both = |f: fn(&angara_abi::account::Load) -> u64| (f(&t.out) + f(&t.back)) as size_t;
    for (to, value) in [(ops, t.ops as size_t), (packets, both(|l| l.packets)), (bytes, both(|l| l.bytes))] {
        if !to.is_null() {
            // SAFETY: the caller's contract.
            unsafe { to.write(value) };
        }
    }
    0
}

/// Traffic of links for the job so far: the link that leaves the node at `coords` along `dimension`
/// towards larger coordinates if `direction` is positive, else smaller ones; all links if `coords` is null.
/// -1 if there is no such link.
///
/// # Safety
/// `coords` is null or readable for as many as the network has dimensions, the others null or writable.
pub(crate) unsafe fn link_traffic(
    name: Name,
    coords: *const int,
    dimension: int,
    direction: int,
    packets: *mut size_t,
    bytes: *mut size_t,
) -> int {
    let s = state(name);
    let shape = s.job.geometry().shape;
    let mut only = None;
    if !coords.is_null() {
        let mut at = Coords::default();
        for (i, c) in at.0.iter_mut().enumerate().take(shape.dims().len()) {
            // SAFETY: the caller's contract.
            let Ok(given) = u8::try_from(unsafe { *coords.add(i) }) else { return -1 };
            *c = given;
        }
        let dim = usize::try_from(dimension).ok().filter(|d| *d < shape.dims().len() && direction != 0);
        let (Some(node), Some(dim)) = (shape.id(at), dim) else { return -1 };
        let link = (node, Direction::new(dim, direction > 0));
        if shape.neighbour(link.0, link.1).is_none() {
            return -1;
        }
        only = Some(link);
    }
    let load = ok(name, None, s.job.link_traffic(only));
    for (to, value) in [(packets, load.packets), (bytes, load.bytes)] {
        if !to.is_null() {
            // SAFETY: the caller's contract.
            unsafe { to.write(value as size_t) };
        }
    }
    0
}

/// Opens a tree over the team, rooted at PE `root` of it; -1 if all trees are taken. Collective.
pub(crate) fn tree_open(name: Name, team: shmem_team_t, root: int) -> int {
    let body = |s: &'static Runtime| {
        let (s, group) = collective_of(s, name, team);
        (open_tree(&s, name, &group, root), group)
    };
    call(name, |_, (_, group)| met(Meeting::Other, group), body).0
}

/// Opens a tree over `group`: its first PE asks for one, and tells the others.
fn open_tree(s: &Runtime, name: Name, group: &Group, root: int) -> int {
    let Some(root) = group.pe(root) else { die(name, None, format_args!("the team has no PE {root}")) };
    s.agree(name, group, || format!("root {root}"));
    if group.world(0) != s.me {
        let read = |p: *mut u8| {
            // SAFETY: messages of this exchange have 8 bytes.
            unsafe { order::Watched::look(p.cast::<i64>()) }
        };
        return s.receive(name, group.stream, group.world(0), read) as int;
    }
    let pes: Vec<usize> = (0..group.size).map(|i| group.world(i)).collect();
    // No tree left is no error: there are 16 for all jobs of the network.
    let id = s.job.tree_open(root, &pes).map_or(-1, i64::from);
    for pe in &pes[1..] {
        // SAFETY: a local of 8 bytes.
        unsafe { s.send(name, group.stream, *pe, (&raw const id).cast(), 8) };
    }
    id as int
}

/// Gives a tree back; nothing may be under way on it. Collective over the team that opened it.
pub(crate) fn tree_close(name: Name, team: shmem_team_t, tree: int) {
    let body = |s: &'static Runtime| {
        let (s, group) = collective_of(s, name, team);
        let tree = tree_id(name, tree);
        s.group_sync(name, &group);
        ok(name, None, s.job.tree_close(tree));
        group
    };
    call(name, |_, group| met(Meeting::Other, group), body);
}

fn tree_id(name: Name, tree: int) -> u8 {
    match u8::try_from(tree) {
        Ok(id) if (id as usize) < angara_abi::TREES => id,
        _ => die(name, None, format_args!("{tree} is not a tree")),
    }
}

/// Starts combining `nelems` integers of all PEs of the tree elementwise.
///
/// # Safety
/// `source` is readable for the elements.
pub(crate) unsafe fn tree_reduce_nb(
    name: Name,
    tree: int,
    op: int,
    elem: int,
    source: *const u8,
    nelems: usize,
) -> long {
    // SAFETY: the caller's contract.
    call(name, |_, _| Action::Other, |s| unsafe { start_reduce(s, name, tree, (op, elem), (source, nelems)) })
}

/// # Safety
/// As [`tree_reduce_nb`].
unsafe fn start_reduce(
    s: &'static Runtime,
    name: Name,
    tree: int,
    (op, elem): (int, int),
    (source, nelems): (*const u8, usize),
) -> long {
    let op = u8::try_from(op).ok().and_then(ReduceOp::from_bits);
    let elem = u8::try_from(elem).ok().and_then(ReduceElem::from_bits);
    let (Some(op), Some(elem)) = (op, elem) else {
        die(name, None, "the operation or the type of elements is none of those in shmemx.h")
    };
    let len = bytes(name, nelems, elem.bytes());
    // SAFETY: the caller's contract; a pointer to nothing may be null.
    let source = if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(source, len) } };
    let pending = ok(name, None, s.job.tree(tree_id(name, tree)).all_reduce_raw_nb(op, elem, source));
    this().requests.hold(Request::Reduce(pending, len))
}

/// Starts writing `nelems` bytes at `source` of PE `pe` to `dest` of every PE of the tree.
///
/// # Safety
/// At `pe`, `source` is readable for the bytes.
pub(crate) unsafe fn tree_broadcast_nb(
    name: Name,
    tree: int,
    dest: *mut u8,
    source: *const u8,
    nelems: usize,
    pe: int,
) -> long {
    let body = |s: &'static Runtime| {
        let Some(from) = usize::try_from(pe).ok().filter(|pe| *pe < s.n) else {
            die(name, None, format_args!("PE {pe} does not exist: the job has PEs 0 to {}", s.n - 1))
        };
        let (tree, place) = (s.job.tree(tree_id(name, tree)), s.place_to(name, dest, nelems));
        // SAFETY: the caller's contract.
        let arrival = ok(name, None, unsafe { tree.broadcast_nb(from, place, source, nelems) });
        this().requests.hold(Request::Broadcast(arrival))
    };
    call(name, |_, _| Action::Other, body)
}

fn no_request(name: Name, request: long) -> ! {
    die(name, None, format_args!("{request} is not a request under way"))
}

/// 1 if waiting for the request would not wait.
pub(crate) fn test(name: Name, request: long) -> int {
    this().requests.test(request).unwrap_or_else(|| no_request(name, request)) as int
}

/// Waits for the request and ends it; the result of a reduction is written to `dest`.
///
/// # Safety
/// `dest` is writable for the elements of a reduction.
pub(crate) unsafe fn wait(name: Name, request: long, dest: *mut u8) {
    compound(name, || {
        match this().requests.take(request) {
            Some(Request::Reduce(pending, len)) => {
                // SAFETY: the caller's contract; a pointer to nothing may be null.
                let into = if len == 0 { &mut [] } else { unsafe { std::slice::from_raw_parts_mut(dest, len) } };
                ok(name, None, pending.wait(into));
            }
            Some(Request::Broadcast(arrival)) => ok(name, None, arrival.wait()),
            None => no_request(name, request),
        }
    });
}
