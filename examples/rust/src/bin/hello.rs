//! Every PE says where it is, and greets its right neighbour by a put.
//!
//! ```text
//! cargo build --release -p angara-examples-rust
//! angara run -n 4 target/release/hello
//! ```
#![forbid(unsafe_code)]

use angara::pgas::World;

fn main() -> angara::Result<()> {
    let world = World::init()?;
    let (me, n) = (world.my_pe(), world.n_pes());
    // One number on every PE.
    let greeting = world.array::<u64>(1)?;
    world.write(greeting.at((me + 1) % n, 0), me as u64)?;
    // Behind a barrier everything that was put is there.
    world.barrier()?;
    let node = world.driver().pe_entry(me).node;
    println!("PE {me} of {n} on node {node}: greeted by PE {}", greeting.load(0));
    Ok(())
}
