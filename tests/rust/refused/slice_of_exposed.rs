// error: E0308
use angara::pgas::World;

fn main() -> angara::Result<()> {
    let world = World::init()?;
    let exposed = world.array::<u64>(4)?;
    let slice: &[u64] = &exposed;
    println!("{slice:?}");
    Ok(())
}
