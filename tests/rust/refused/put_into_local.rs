// error: E0599
use angara::pgas::World;

fn main() -> angara::Result<()> {
    let world = World::init()?;
    let local = world.local_array::<u64>(4)?;
    world.put(local.at(0, 0), &[1])
}
