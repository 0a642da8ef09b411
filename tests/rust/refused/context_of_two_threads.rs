// error: E0277
use angara::pgas::World;

fn main() -> angara::Result<()> {
    let world = World::init()?;
    let exposed = world.array::<u64>(4)?;
    let context = world.context()?;
    std::thread::scope(|scope| {
        scope.spawn(|| context.write(exposed.at(0, 0), 1));
        context.quiet()
    })
}
