//! What the programs beside this one do wrong, done right.

use angara::pgas::{Local, Sum, World};

#[derive(Clone, Copy)]
#[repr(C)]
struct Whole {
    a: u64,
    b: [f32; 2],
}
// SAFETY: plain numbers without padding.
unsafe impl angara::pgas::Zeroable for Whole {}
// SAFETY: as above.
unsafe impl angara::pgas::Pod for Whole {}

fn main() -> angara::Result<()> {
    let world = World::init()?;
    let exposed = world.array::<u64>(4)?;
    let mut buffer = [0; 4];
    let data = [1, 2];
    world.scope(|s| {
        s.put(exposed.at(0, 0), &data)?;
        s.get(exposed.at(0, 0), &mut buffer)
    })?;
    println!("{buffer:?}");
    let context = world.context()?;
    let counted = &exposed;
    std::thread::scope(|scope| scope.spawn(move || context.add(counted.at(0, 3), 1)).join().expect("no panic"))?;
    let mut local: Local<u64> = world.local(exposed)?;
    local[0] += local.iter().sum::<u64>();
    world.array::<Whole>(1)?.store(0, Whole { a: 1, b: [0.0; 2] });
    world.all().reduce_one(Sum, 1.5)?;
    Ok(())
}
