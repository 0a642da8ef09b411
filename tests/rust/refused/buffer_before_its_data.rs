// error: E0502
use angara::pgas::World;

fn main() -> angara::Result<()> {
    let world = World::init()?;
    let exposed = world.array::<u64>(4)?;
    let mut buffer = [0; 4];
    world.scope(|s| {
        s.get(exposed.at(0, 0), &mut buffer)?;
        println!("{buffer:?}");
        Ok(())
    })
}
