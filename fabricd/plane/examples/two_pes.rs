//! A network of its own in one process, without a daemon: two PEs on two nodes, and a put from one to the other.
//!
//! ```sh
//! cargo run --release -p angara-plane --example two_pes
//! ```
//!
//! Whoever embeds a data plane makes the memory of jobs and PEs, sends commands, and has it run. The PEs could be threads or
//! processes; here the same thread posts for one, has the data plane run, and reads the memory of the other.

use angara_abi::JobId;
use angara_abi::account::Class;
use angara_abi::desc::{Descriptor, Op, Place, Region};
use angara_abi::job::{Barrier, Collectives, Geometry, PeEntry, Seat};
use angara_abi::queue::Producer;
use angara_fabric::JobSlot;
use angara_net::torus::Shape;
use angara_plane::{Command, Config, DataPlane, Identity, JobMemory, Notice, PeMemory, Reply};
use std::error::Error;
use std::sync::{Arc, mpsc};

/// Rounds after which a put must have arrived.
const ROUNDS: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let shape: Shape = "2".parse()?;
    let (handle, mut plane) = DataPlane::new(Config::new(shape), |notice| match notice {
        Notice::ChannelError { pe, reason, .. } => println!("PE {pe}: {reason}"),
        _ => println!("the data plane has said something"),
    })?;

    // The memory of a job with a PE on either node, each with a heap of two pages.
    let pes = 2;
    let geometry = Geometry {
        pes,
        shape,
        heap_stride: 2 * angara_abi::PAGE,
        static_stride: 0,
        barrier: Barrier::Auto,
        collectives: Collectives::Auto,
        crowded: false,
        open: false,
        registered: 0,
        heterogeneous: false,
    };
    let identity = Identity { id: JobId::new(1), slot: JobSlot::new(0), generation: 1, uid: 0 };
    let entry = |node| PeEntry { node, coords: shape.coords(node), endpoint: 0, seat: Seat::FREE };
    let on_ring = true; // or the PEs would reach each other's memory themselves
    let job = JobMemory::create(
        identity,
        &geometry,
        vec![entry(0), entry(1)],
        vec![true; pes],
        on_ring,
        &angara_abi::shm::Source::Files,
    )?;
    let job = Arc::new(job);
    let (opened, outcome) = mpsc::channel();
    handle.send(Command::OpenJob(job.clone(), Reply::new(move |done| drop(opened.send(done)))))?;
    let mut channels = Vec::new();
    for pe in 0..pes {
        let (memory, _descriptors) = PeMemory::create(&job, pe, None)?;
        let memory = Arc::new(memory);
        handle.send(Command::Attach(job.slot, memory.clone(), std::process::id() as i32, Reply::ignored()))?;
        channels.push(memory);
    }
    run(&mut plane);
    outcome.recv()??;

    // PE 0 writes into its own heap, and posts a put to PE 1.
    let place = Place { region: Region::Heap, offset: angara_abi::PAGE as u64 };
    let text = b"hello over one link";
    let (own, at) = job.resolve(0, place, text.len(), None).ok_or("no such place")?;
    own.write(at, text)?;
    let put = Descriptor {
        class: Class::Put,
        len: text.len() as u32,
        dst: shape.coords(1),
        local: Some(place),
        remote: Some(place),
        ..Descriptor::new(Op::Put)
    };
    Producer::default().post(&channels[0].channel, put.encode()).map_err(|e| format!("{e:?}"))?;
    run(&mut plane);

    let (theirs, at) = job.resolve(1, place, text.len(), None).ok_or("no such place")?;
    let mut found = vec![0; text.len()];
    theirs.read(at, &mut found)?;
    println!("PE 1 has: {}", String::from_utf8(found)?);
    let (counters, counted) = mpsc::channel();
    handle.send(Command::Counters(Reply::new(move |links| drop(counters.send(links)))))?;
    run(&mut plane);
    for link in counted.recv()? {
        let bytes: u64 = link.load.values().map(|load| load.bytes).sum();
        println!("link {} {} carried {bytes} bytes", link.node, link.dir);
    }
    Ok(())
}

/// Has the data plane run until it would sleep, and gives the answers to commands.
fn run(plane: &mut DataPlane) {
    let mut answers = Vec::new();
    plane.run_for(ROUNDS, &mut answers);
    answers.into_iter().for_each(|answer| answer());
}
