// error: E0597
use angara::pgas::World;

fn main() -> angara::Result<()> {
    let world = World::init()?;
    let exposed = world.array::<u64>(4)?;
    world.scope(|s| {
        let mut buffer = [0; 4];
        s.get(exposed.at(0, 0), &mut buffer)
    })
}
