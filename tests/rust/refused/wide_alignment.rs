// error: E0080
use angara::pgas::World;

#[derive(Clone, Copy)]
#[repr(C, align(8192))]
struct Wide([u8; 8192]);
// SAFETY: plain bytes without padding.
unsafe impl angara::pgas::Zeroable for Wide {}
// SAFETY: as above.
unsafe impl angara::pgas::Pod for Wide {}

fn main() -> angara::Result<()> {
    let world = World::init()?;
    println!("{}", world.array::<Wide>(1)?.load(0).0[0]);
    Ok(())
}
