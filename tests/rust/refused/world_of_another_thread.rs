// error: E0277
use angara::pgas::World;

fn main() -> angara::Result<()> {
    let world = World::init()?;
    let exposed = world.array::<u64>(4)?;
    std::thread::scope(|scope| scope.spawn(|| world.write(exposed.at(0, 0), 1)).join().expect("no panic"))
}
