//! What calls are about: which of their arguments are peers, tags, counts, datatypes and communicators.
//!
//! Handles differ between libraries, so the library is asked what they mean, by routines that work without other PEs, after the
//! call: then it has proved that they are valid.

use crate::real::{Real, world};
use angara_protocol::calls::{Action, MpiKind};
use libc::c_int;
use std::ffi::{CStr, c_void};
use std::slice;
use std::sync::OnceLock;

/// Where the arguments of a routine are, from 0 on.
#[derive(Clone, Copy)]
struct Layout {
    kind: MpiKind,
    to: Option<u8>,
    from: Option<u8>,
    tag: Option<u8>,
    /// Elements and their datatype.
    elements: Option<(Count, u8)>,
    peers: Peers,
}

/// How many elements.
#[derive(Clone, Copy)]
enum Count {
    /// The argument.
    One(u8),
    /// The argument, for each PE of the communicator.
    Each(u8),
    /// As many as the sum of an array with one number for each PE of the communicator.
    Sum(u8),
    /// One element.
    Single,
}

/// Among whom ranks count.
#[derive(Clone, Copy)]
enum Peers {
    None,
    /// A communicator.
    Comm(u8),
    Window(u8),
}

const NONE: Layout =
    Layout { kind: MpiKind::Other, to: None, from: None, tag: None, elements: None, peers: Peers::None };

/// A collective on the communicator at this place.
const fn together(comm: u8) -> Layout {
    Layout { kind: MpiKind::Collective, peers: Peers::Comm(comm), ..NONE }
}

/// The same that moves `count` elements of the type at this place.
const fn moving(count: Count, datatype: u8, comm: u8) -> Layout {
    Layout { elements: Some((count, datatype)), ..together(comm) }
}

/// A put or the like: elements, type, target, window.
const fn one_sided(count: Count, datatype: u8, to: u8, window: u8) -> Layout {
    Layout {
        kind: MpiKind::OneSided,
        to: Some(to),
        elements: Some((count, datatype)),
        peers: Peers::Window(window),
        ..NONE
    }
}

impl Layout {
    /// Of a routine without `MPI_` and `_c`.
    fn of(routine: &str) -> Layout {
        let kind = |kind| Layout { kind, ..NONE };
        // The nonblocking form of a routine has a request behind the same arguments.
        let blocking = routine.strip_prefix('I').map(|rest| rest[..1].to_uppercase() + &rest[1..]);
        let routine = match routine {
            "Iprobe" | "Improbe" => return Layout { kind: MpiKind::Test, ..Layout::of("Probe") },
            "Intercomm_create" | "Intercomm_merge" | "Intercomm_create_from_groups" => {
                return kind(MpiKind::Collective);
            }
            _ => blocking.as_deref().unwrap_or(routine),
        };
        let known = [message, collective, one_sided_call].into_iter().find_map(|family| family(routine));
        known.unwrap_or(NONE)
    }
}

/// A message between two PEs, or a wait for some.
fn message(routine: &str) -> Option<Layout> {
    use Count::One;
    let kind = |kind| Layout { kind, ..NONE };
    Some(match routine {
        "Send" | "Ssend" | "Bsend" | "Rsend" => Layout {
            kind: MpiKind::Send,
            to: Some(3),
            tag: Some(4),
            elements: Some((One(1), 2)),
            peers: Peers::Comm(5),
            ..NONE
        },
        "Recv" => Layout {
            kind: MpiKind::Receive,
            from: Some(3),
            tag: Some(4),
            elements: Some((One(1), 2)),
            peers: Peers::Comm(5),
            ..NONE
        },
        "Mrecv" => Layout { elements: Some((One(1), 2)), ..kind(MpiKind::Receive) },
        "Sendrecv" => Layout {
            kind: MpiKind::Exchange,
            to: Some(3),
            from: Some(8),
            tag: Some(4),
            elements: Some((One(1), 2)),
            peers: Peers::Comm(10),
        },
        "Sendrecv_replace" => Layout {
            kind: MpiKind::Exchange,
            to: Some(3),
            from: Some(5),
            tag: Some(4),
            elements: Some((One(1), 2)),
            peers: Peers::Comm(7),
        },
        "Probe" | "Mprobe" => Layout { from: Some(0), tag: Some(1), peers: Peers::Comm(2), ..kind(MpiKind::Wait) },
        "Wait" | "Waitall" | "Waitany" | "Waitsome" => kind(MpiKind::Wait),
        "Test" | "Testall" | "Testany" | "Testsome" | "Request_get_status" => kind(MpiKind::Test),
        _ => return None,
    })
}

/// What all PEs of a communicator do together.
fn collective(routine: &str) -> Option<Layout> {
    use Count::{Each, One, Sum};
    Some(match routine {
        "Barrier" => together(0),
        "Bcast" => moving(One(1), 2, 4),
        "Gather" => moving(One(1), 2, 7),
        "Gatherv" => moving(One(1), 2, 8),
        "Scatter" => moving(One(4), 5, 7),
        "Scatterv" => moving(One(5), 6, 8),
        "Allgather" => moving(Each(4), 5, 6),
        "Allgatherv" => moving(Sum(4), 6, 7),
        "Alltoall" => moving(Each(4), 5, 6),
        "Alltoallv" => moving(Sum(5), 7, 8),
        "Alltoallw" => together(8),
        "Reduce" => moving(One(2), 3, 6),
        "Allreduce" | "Scan" | "Exscan" => moving(One(2), 3, 5),
        "Reduce_scatter" => moving(Sum(2), 3, 5),
        "Reduce_scatter_block" => moving(Each(2), 3, 5),
        "Neighbor_allgather" | "Neighbor_alltoall" => together(6),
        "Neighbor_allgatherv" => together(7),
        "Neighbor_alltoallv" | "Neighbor_alltoallw" => together(8),
        "Comm_dup"
        | "Comm_idup"
        | "Comm_dup_with_info"
        | "Comm_split"
        | "Comm_split_type"
        | "Comm_create"
        | "Cart_create"
        | "Cart_sub"
        | "Graph_create"
        | "Dist_graph_create"
        | "Dist_graph_create_adjacent" => together(0),
        "Comm_create_group" | "Comm_create_from_group" => Layout { kind: MpiKind::Collective, ..NONE },
        "Win_create" => together(4),
        "Win_allocate" | "Win_allocate_shared" => together(3),
        "Win_create_dynamic" => together(1),
        _ => return None,
    })
}

/// What one PE does to the memory of another, or to a window.
fn one_sided_call(routine: &str) -> Option<Layout> {
    use Count::{One, Single};
    let kind = |kind| Layout { kind, ..NONE };
    Some(match routine {
        "Put" | "Rput" | "Accumulate" | "Raccumulate" => {
            one_sided(One(1), 2, 3, 7 + u8::from(routine.ends_with("ccumulate")))
        }
        "Get" | "Rget" => {
            let put = one_sided(One(1), 2, 3, 7);
            Layout { to: None, from: put.to, ..put }
        }
        "Get_accumulate" | "Rget_accumulate" => one_sided(One(1), 2, 6, 11),
        "Fetch_and_op" => one_sided(Single, 2, 3, 6),
        "Compare_and_swap" => one_sided(Single, 3, 4, 6),
        "Win_lock" => Layout { to: Some(1), peers: Peers::Window(3), ..kind(MpiKind::OneSided) },
        "Win_unlock" | "Win_flush" | "Win_flush_local" => {
            Layout { to: Some(0), peers: Peers::Window(1), ..kind(MpiKind::OneSided) }
        }
        name if name.starts_with("Win_") => kind(MpiKind::OneSided),
        _ => return None,
    })
}

/// Whether a routine of the MPI library that works without other PEs does it: its name, then each argument and its type.
macro_rules! ask {
    ($name:literal, $($arg:expr => $of:ty),*) => {{
        static REAL: Real = Real::new($name);
        let function = REAL.find();
        // SAFETY: the MPI library's function of this name, which has these arguments: handles are passed on as they came.
        let done: c_int = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn($($of),*) -> c_int>(function)($($arg),*)
        };
        done == 0
    }};
}

/// A handle that a routine writes: an integer of four bytes or a pointer.
fn handle(write: impl FnOnce(*mut usize) -> bool) -> Option<usize> {
    let mut handle = 0;
    write(&raw mut handle).then_some(handle)
}

fn integer(write: impl FnOnce(*mut c_int) -> bool) -> Option<c_int> {
    let mut integer = 0;
    write(&raw mut integer).then_some(integer)
}

/// The group in which ranks of a communicator or of a window count.
enum Group {
    /// Ranks are PEs.
    All,
    /// Another one, by its handle.
    Some(usize),
}

/// `MPI_COMM_WORLD` and its group.
fn all() -> Option<(usize, usize)> {
    static ALL: OnceLock<Option<(usize, usize)>> = OnceLock::new();
    *ALL.get_or_init(|| {
        static GROUP: Real = Real::new(c"PMPI_Comm_group");
        let world = world(GROUP.find());
        let group = handle(|group| ask!(c"PMPI_Comm_group", world => usize, group => *mut usize))?;
        Some((world, group))
    })
}

/// True if an argument is this handle, which is an integer of four bytes or a pointer.
fn is(argument: usize, handle: usize) -> bool {
    match u32::try_from(handle) {
        Ok(handle) => argument as u32 == handle,
        Err(_) => argument == handle,
    }
}

impl Group {
    fn of(peers: Peers, args: &[usize]) -> Option<Group> {
        let (world, _) = all()?;
        if let Peers::Comm(at) = peers
            && is(args[usize::from(at)], world)
        {
            return Some(Group::All);
        }
        handle(|group| match peers {
            Peers::None => false,
            Peers::Comm(at) => {
                let comm = args[usize::from(at)];
                let between = integer(|between| ask!(c"PMPI_Comm_test_inter", comm => usize, between => *mut c_int));
                match between {
                    Some(0) => ask!(c"PMPI_Comm_group", comm => usize, group => *mut usize),
                    Some(_) => ask!(c"PMPI_Comm_remote_group", comm => usize, group => *mut usize),
                    None => false,
                }
            }
            Peers::Window(at) => ask!(c"PMPI_Win_get_group", args[usize::from(at)] => usize, group => *mut usize),
        })
        .map(Group::Some)
    }

    fn handle(&self) -> Option<usize> {
        match self {
            Group::All => all().map(|(_, group)| group),
            Group::Some(handle) => Some(*handle),
        }
    }

    fn size(&self) -> Option<u32> {
        let group = self.handle()?;
        let size = integer(|size| ask!(c"PMPI_Group_size", group => usize, size => *mut c_int))?;
        u32::try_from(size).ok()
    }

    /// The PE of a rank; nothing for `MPI_ANY_SOURCE`, `MPI_PROC_NULL` and the like, which are negative.
    fn pe(&self, rank: c_int) -> Option<u32> {
        let pe = match self {
            _ if rank < 0 => return None,
            Group::All => rank,
            Group::Some(group) => {
                let (_, all) = all()?;
                integer(|pe| {
                    let rank = &raw const rank;
                    ask!(c"PMPI_Group_translate_ranks", *group => usize, 1 => c_int, rank => *const c_int, all => usize, pe => *mut c_int)
                })?
            }
        };
        u32::try_from(pe).ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Group::Some(handle) = self {
            let _ = ask!(c"PMPI_Group_free", &raw mut *handle => *mut usize);
        }
    }
}

/// Returns what a call of `routine` with these arguments was about, which has ended well.
pub(crate) fn about(routine: &CStr, args: &[usize]) -> Action {
    let name = routine.to_str().unwrap_or_default();
    let (name, is_large) = match name.strip_suffix("_c") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let layout = Layout::of(name.strip_prefix("MPI_").unwrap_or(name));
    // An argument that is an `int` has its value in the lower half of the word.
    let int = |at: u8| args[usize::from(at)] as c_int;
    let group = Group::of(layout.peers, args);
    let peer = |at: Option<u8>| group.as_ref()?.pe(int(at?));
    let members = if matches!(layout.peers, Peers::Comm(_)) { group.as_ref().and_then(Group::size) } else { None };
    let elements = |count| match count {
        Count::Single => 1,
        Count::One(at) | Count::Each(at) => {
            let one = if is_large { args[usize::from(at)] as i64 } else { int(at).into() };
            let times = if matches!(count, Count::Each(_)) { members.unwrap_or(0) } else { 1 };
            one.max(0) as u64 * u64::from(times)
        }
        Count::Sum(at) => sum(args[usize::from(at)], members.unwrap_or(0) as usize, is_large),
    };
    let size = |datatype: u8| {
        integer(|size| ask!(c"PMPI_Type_size", args[usize::from(datatype)] => usize, size => *mut c_int))
    };
    let bytes = layout.elements.and_then(|(count, datatype)| Some(elements(count) * size(datatype)?.max(0) as u64));
    Action::Mpi {
        kind: layout.kind,
        to: peer(layout.to),
        from: peer(layout.from),
        tag: layout.tag.map(int).filter(|tag| *tag >= 0),
        bytes: bytes.unwrap_or(0),
        pes: members.unwrap_or(0),
    }
}

/// The sum of an array that the program gave, if it did.
fn sum(array: usize, len: usize, is_large: bool) -> u64 {
    let positive = |n: i64| n.max(0) as u64;
    match (array, is_large) {
        (0, _) => 0,
        (_, true) => {
            // SAFETY: the library has read an array of that length there, as the call ended well.
            let array = unsafe { slice::from_raw_parts(array as *const i64, len) };
            array.iter().map(|n| positive(*n)).sum()
        }
        (_, false) => {
            // SAFETY: the library has read an array of that length there, as the call ended well.
            let array = unsafe { slice::from_raw_parts(array as *const c_int, len) };
            array.iter().map(|n| positive((*n).into())).sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonblocking_forms_are_about_the_same() {
        let kinds = [
            "Isend",
            "Irecv",
            "Iprobe",
            "Improbe",
            "Imrecv",
            "Ialltoallv",
            "Intercomm_create",
            "Ibarrier",
            "Comm_idup",
        ]
        .map(|name| Layout::of(name).kind);
        use MpiKind::*;
        assert_eq!(kinds, [Send, Receive, Test, Test, Receive, Collective, Collective, Collective, Collective]);
        let (a, b) = (Layout::of("Raccumulate"), Layout::of("Rput"));
        assert!(matches!((a.peers, b.peers), (Peers::Window(8), Peers::Window(7))));
    }
}
