// error: E0506
use angara::pgas::World;

fn main() -> angara::Result<()> {
    let world = World::init()?;
    let exposed = world.array::<u64>(4)?;
    let mut data = [1];
    world.scope(|s| {
        s.put(exposed.at(0, 0), &data)?;
        data[0] = 2;
        Ok(())
    })
}
