// error: E0277
use angara::pgas::World;

#[derive(Clone, Copy)]
struct Padded {
    a: u8,
    b: u64,
}

fn main() -> angara::Result<()> {
    let world = World::init()?;
    let padded = Padded { a: 1, b: 2 };
    println!("{} {}", padded.a, padded.b);
    drop(world.array::<Padded>(1)?);
    Ok(())
}
