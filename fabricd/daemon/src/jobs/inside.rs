//! PEs that are coroutines of the data plane, in the daemon's own process: they take seats, ask and leave without sockets.
//!
//! The process that has daemon and PEs in one ([`Inside`]) is made for one run of one user, so what its PEs write is no more
//! hostile to it than to themselves.

use super::job::{Attached, Program};
use super::member::{Member, Seat};
use crate::daemon::Daemon;
use crate::failure::{failure, no_memory};
use angara_abi::shm::{Arena, Part};
use angara_abi::{ABI_VERSION, Architecture, JobId};
use angara_plane::{Command, Coroutines, JobMemory, PeMemory, RegisterPage, Reply};
use angara_protocol::msg::{AdapterReply, AdapterRequest, Failure};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{Mutex, mpsc, oneshot};

/// Who has PEs in the daemon's process.
pub struct Inside {
    /// The PEs, for the data plane.
    pub coroutines: Box<dyn Coroutines>,
    /// Where all memory of the job comes from.
    pub arena: Arc<Arena>,
    /// What is to be done for the PEs.
    pub wishes: mpsc::UnboundedReceiver<Wish>,
}

/// What PEs in this process want of the daemon.
pub enum Wish {
    /// All of them take their seats.
    Seat {
        /// The job and its key.
        job: (JobId, String),
        /// How their programs lie in memory.
        images: Images,
        /// What belongs to them.
        reply: oneshot::Sender<Result<Seats, Failure>>,
    },
    /// One of them asks for something.
    Ask(usize, AdapterRequest, Box<dyn FnOnce(AdapterReply) + Send>),
    /// One of them has ended, whether it has said goodbye or not; what is to be done when the network has taken note of it.
    Gone(usize, Box<dyn FnOnce() + Send>),
}

/// Copies of a program in one arena.
#[derive(Clone, Debug)]
pub struct Images {
    /// Bytes of its symmetric segments.
    pub segments: Vec<u64>,
    /// Bytes of one copy.
    pub stride: usize,
    /// Where in a copy the segments begin.
    pub first: usize,
    /// Power of two of which each copy's address is a multiple, as `stride` is.
    pub align: usize,
}

/// What belongs to PEs that have their seats.
pub struct Seats {
    pub job: Arc<JobMemory>,
    /// To each: its own, and the register page of its node.
    pub pes: Vec<(Arc<PeMemory>, Part)>,
}

/// Does what the PEs want, until nobody can want anything any more.
pub(crate) async fn serve(daemon: Rc<Daemon>, mut wishes: mpsc::UnboundedReceiver<Wish>) {
    let mut members: Vec<Rc<Mutex<Member>>> = Vec::new();
    while let Some(wish) = wishes.recv().await {
        match wish {
            Wish::Seat { job, images, reply } => {
                let seated = seat_all(&daemon, job, &images, &mut members).await;
                // Nobody listens who has given up.
                let _ = reply.send(seated);
            }
            Wish::Ask(pe, request, answer) => {
                let Some(member) = members.get(pe).cloned() else { continue };
                let daemon = daemon.clone();
                tokio::task::spawn_local(async move {
                    let reply = member.lock().await.answer(request).await;
                    answer(reply.unwrap_or_else(AdapterReply::Error));
                    // The data plane may sleep.
                    let _ = daemon.data.send(Command::Ping(Reply::ignored()));
                });
            }
            Wish::Gone(pe, then) => {
                let Some(member) = members.get(pe).cloned() else { continue };
                tokio::task::spawn_local(async move {
                    member.lock().await.leave().await;
                    then();
                });
            }
        }
    }
}

async fn seat_all(
    daemon: &Rc<Daemon>,
    (id, key): (JobId, String),
    images: &Images,
    members: &mut Vec<Rc<Mutex<Member>>>,
) -> Result<Seats, Failure> {
    let uid = rustix::process::getuid().as_raw();
    let job = daemon.jobs.table.borrow().get(&id).map(|job| job.memory.clone());
    let job = job.ok_or_else(|| failure(format!("there is no job {id}"), "start the program with `angara run`"))?;
    job.set_images(&images.segments, (images.stride, images.first), images.align).map_err(|e| match e {
        angara_plane::StaticsError::Io(e) => no_memory("the copies of the program", &e),
        e => failure(format!("the copies of the program do not fit: {e:?}"), "report this as a defect"),
    })?;
    let mut pes = Vec::with_capacity(job.pes);
    for pe in 0..job.pes {
        let program = Program { architecture: Architecture::HERE, statics: &images.segments };
        let (memory, own, _) = daemon.claim(uid, (ABI_VERSION, id, &key, pe as u32), program)?;
        let mut member = Member { daemon: daemon.clone(), uid, seat: Some(Seat::of(&memory, pe)) };
        let attached = Attached { close: Box::new(|| ()), process: None, pid: std::process::id() as i32 };
        match daemon.attach(&memory, &own, attached).await {
            Ok(RegisterPage::Here(page)) => pes.push((own, page)),
            Ok(RegisterPage::File(_)) => unreachable!("memory comes from an arena"),
            Err(f) => {
                member.leave().await;
                return Err(f);
            }
        }
        members.push(Rc::new(Mutex::new(member)));
    }
    Ok(Seats { job, pes })
}
