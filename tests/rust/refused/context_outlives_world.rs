// error: E0597
use angara::pgas::World;

fn main() -> angara::Result<()> {
    let world = World::init()?;
    let context = world.context()?;
    std::thread::spawn(move || context.quiet());
    Ok(())
}
