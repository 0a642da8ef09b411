// error: E0277
use angara::pgas::World;

fn main() -> angara::Result<()> {
    let world = World::init()?;
    drop(world.array::<&str>(1)?);
    Ok(())
}
