//! C = A B on a cube of PEs, as a 3D torus has them: PE (x, y, z) multiplies block (x, z) of A by block (z, y) of B, and the
//! products along z are added up.
//!
//! ```text
//! cargo build --release -p angara-examples-rust
//! angara run -n 8 --torus 2x2x2 target/release/matmul_3d [SIDE OF A BLOCK]
//! ```
//!
//! Broadcasts and reductions run on teams: the PEs of a line of the cube.
#![forbid(unsafe_code)]

use angara::pgas::{Sum, Team, World};

/// The element of a matrix in `row` and `column`: small whole numbers, so that sums are exact.
fn element(matrix: u64, row: usize, column: usize) -> f64 {
    ((matrix + 3 * row as u64 + 7 * column as u64) % 11) as f64
}

fn block(matrix: u64, side: usize, row: usize, column: usize) -> Vec<f64> {
    let at = |i: usize| element(matrix, row * side + i / side, column * side + i % side);
    (0..side * side).map(at).collect()
}

fn multiply(a: &[f64], b: &[f64], side: usize) -> Vec<f64> {
    let mut c = vec![0.0; side * side];
    for row in 0..side {
        for k in 0..side {
            let factor = a[row * side + k];
            for column in 0..side {
                c[row * side + column] += factor * b[k * side + column];
            }
        }
    }
    c
}

/// The PEs of the cube that differ from this one in one coordinate alone, in its order.
fn line<'w>(all: &Team<'w>, others: [usize; 2], edge: usize, along: usize) -> angara::Result<Team<'w>> {
    let color = (others[0] * edge + others[1]) as u32;
    Ok(all.split(Some(color), along as i64)?.expect("every PE gives a color"))
}

fn main() -> angara::Result<()> {
    let side: usize = std::env::args().nth(1).map_or(24, |arg| arg.parse().expect("usage: matmul_3d [SIDE]"));
    let world = World::init()?;
    let (all, me, n) = (world.all(), world.my_pe(), world.n_pes());
    let edge = (1..=n).find(|edge| edge * edge * edge >= n).unwrap_or(1);
    assert!(edge.pow(3) == n, "{n} PEs are no cube; run it with 1, 8, 27 or 64: angara run -n 8");
    let [x, y, z] = [me % edge, me / edge % edge, me / edge / edge];
    let (along_x, along_y, along_z) =
        (line(all, [y, z], edge, x)?, line(all, [x, z], edge, y)?, line(all, [x, y], edge, z)?);

    // Block (x, z) of A lies on the PE of its line along y with y = z, block (z, y) of B on the one along x with x = z.
    let mut a = if y == z { block(1, side, x, z) } else { vec![0.0; side * side] };
    let mut b = if x == z { block(2, side, z, y) } else { vec![0.0; side * side] };
    along_y.broadcast(z, &mut a)?;
    along_x.broadcast(z, &mut b)?;
    let mut c = multiply(&a, &b, side);
    along_z.reduce(0, Sum, &mut c)?;

    if z == 0 {
        for (i, value) in c.iter().enumerate() {
            let (row, column) = (x * side + i / side, y * side + i % side);
            let expected: f64 = (0..edge * side).map(|k| element(1, row, k) * element(2, k, column)).sum();
            assert_eq!(*value, expected, "WRONG at {row}, {column}");
        }
    }
    world.barrier()?;
    if me == 0 {
        println!("{0} x {0} by a cube of {n} PEs: ok", edge * side);
    }
    Ok(())
}
