// error: E0597
use angara::pgas::World;

fn main() -> angara::Result<()> {
    let world = World::init()?;
    let exposed = world.array::<u64>(4)?;
    std::thread::spawn(move || println!("{}", exposed.load(0)));
    Ok(())
}
