// error: E0080
use angara::pgas::World;

fn main() -> angara::Result<()> {
    let world = World::init()?;
    println!("{}", world.array::<()>(1)?.len());
    Ok(())
}
