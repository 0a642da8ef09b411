// error: E0382
use angara::pgas::World;

fn main() -> angara::Result<()> {
    let world = World::init()?;
    let exposed = world.array::<u64>(4)?;
    let local = world.local(exposed)?;
    world.put(exposed.at(0, 0), &[1])?;
    println!("{}", local[0]);
    Ok(())
}
