// error: E0277
use angara::pgas::{Or, World};

fn main() -> angara::Result<()> {
    let world = World::init()?;
    world.all().reduce_one(Or, 1.0f64).map(drop)
}
