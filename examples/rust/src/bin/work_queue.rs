//! A work queue: PE 0 hands out tasks of unequal size over a channel, the others ask for more when they are done.
//!
//! ```text
//! cargo build --release -p angara-examples-rust
//! angara run -n 4 target/release/work_queue [TASKS]
//! ```
#![forbid(unsafe_code)]

use angara::pgas::{Channel, World};

/// What goes to and fro: `[task, result]`. A worker that has no result yet sends [`NONE`] as its task.
type Letter = [u64; 2];

/// No task: to a worker, that there are no more.
const NONE: u64 = u64::MAX;

/// A task: steps until a number of the Collatz sequence is 1.
fn work(task: u64) -> u64 {
    let mut x = task + 1;
    let mut steps = 0;
    while x != 1 {
        x = if x.is_multiple_of(2) { x / 2 } else { 3 * x + 1 };
        steps += 1;
    }
    steps
}

/// Hands out all tasks and returns the sum of their results, and how many tasks each PE has done.
fn manage(channel: &Channel<Letter>, pes: usize, tasks: u64) -> angara::Result<(u64, Vec<u64>)> {
    let (mut sum, mut done) = (0, vec![0; pes]);
    let (mut next, mut working) = (0, pes - 1);
    while working > 0 {
        let (worker, [task, result]) = channel.receive()?;
        if task != NONE {
            sum += result;
            done[worker] += 1;
        }
        let task = if next < tasks { next } else { NONE };
        next += 1;
        working -= usize::from(task == NONE);
        channel.send(worker, [task, 0])?;
    }
    Ok((sum, done))
}

fn main() -> angara::Result<()> {
    let tasks: u64 = std::env::args().nth(1).map_or(2000, |arg| arg.parse().expect("usage: work_queue [TASKS]"));
    let world = World::init()?;
    let (me, n) = (world.my_pe(), world.n_pes());
    let channel = world.channel::<Letter>()?;
    let expected: u64 = (0..tasks).map(work).sum();
    if n == 1 {
        println!("one PE has done {tasks} tasks by itself, the results sum up to {expected}: ok");
        return Ok(());
    }
    if me == 0 {
        let (sum, done) = manage(&channel, n, tasks)?;
        assert_eq!(sum, expected, "WRONG");
        println!("{} workers have done {:?} of {tasks} tasks, the results sum up to {sum}: ok", n - 1, &done[1..]);
    } else {
        let mut letter = [NONE, 0];
        loop {
            channel.send(0, letter)?;
            let (_, [task, _]) = channel.receive()?;
            if task == NONE {
                break;
            }
            letter = [task, work(task)];
        }
    }
    world.barrier()
}
