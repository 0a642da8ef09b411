// error: E0505
use angara::pgas::World;

fn main() -> angara::Result<()> {
    let world = World::init()?;
    let exposed = world.array::<u64>(4)?;
    drop(world);
    println!("{}", exposed.load(0));
    Ok(())
}
