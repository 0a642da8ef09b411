// error: E0277
use angara::pgas::World;

fn main() -> angara::Result<()> {
    let world = World::init()?;
    let exposed = world.array::<f64>(4)?;
    world.fetch_add(exposed.at(0, 0), 1.0).map(drop)
}
