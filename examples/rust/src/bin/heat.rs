//! Heat in a plate whose upper edge is hot: each PE owns a band of rows, and puts its edge rows into its neighbours' halos.
//!
//! ```text
//! cargo build --release -p angara-examples-rust
//! angara run -n 8 target/release/heat [ROWS COLUMNS]
//! angara run -n 8 --clock virtual target/release/heat
//! ```
#![forbid(unsafe_code)]

use angara::pgas::{Exposed, Is, Max, Signal, World};
use std::process::ExitCode;

const EPSILON: f64 = 1e-3;
const STEPS_MAX: u64 = 20_000;
/// Steps from one reduction to the next.
const CHECK_EVERY: u64 = 50;

/// Rows above and below this PE's band, and how many have come.
struct Halo<'w> {
    rows: Exposed<'w, f64>,
    come: Exposed<'w, u64>,
}

const ABOVE: usize = 0;
const BELOW: usize = 1;

/// Puts `row` into a neighbour's halo and counts it there. Two rows a side, used in turn, so that a fast neighbour does not
/// overwrite what a slow one still reads.
fn send(world: &World, halo: &Halo, pe: usize, side: usize, step: u64, row: &[f64]) -> angara::Result<()> {
    let slot = side * 2 + (step % 2) as usize;
    world.put_signal(halo.rows.at(pe, slot * row.len()), row, halo.come.at(pe, side), Signal::Set(step + 1))
}

/// Waits for a neighbour's row of this step.
fn receive(world: &World, halo: &Halo, side: usize, step: u64, row: &mut [f64]) -> angara::Result<()> {
    world.wait_until(&halo.come, side, Is::AtLeast(step + 1))?;
    halo.rows.read((side * 2 + (step % 2) as usize) * row.len(), row);
    Ok(())
}

/// One Jacobi step on a band between two halo rows; returns the largest change.
fn relax(old: &[f64], new: &mut [f64], columns: usize) -> f64 {
    let mut change = 0f64;
    for row in 1..old.len() / columns - 1 {
        for column in 1..columns - 1 {
            let at = row * columns + column;
            new[at] = 0.25 * (old[at - columns] + old[at + columns] + old[at - 1] + old[at + 1]);
            change = change.max((new[at] - old[at]).abs());
        }
    }
    change
}

fn main() -> angara::Result<ExitCode> {
    let mut numbers = std::env::args().skip(1).map(|arg| arg.parse::<usize>());
    let (Ok(rows), Ok(columns)) = (numbers.next().unwrap_or(Ok(64)), numbers.next().unwrap_or(Ok(64))) else {
        eprintln!("usage: heat [ROWS COLUMNS]");
        return Ok(ExitCode::from(2));
    };
    let (columns, world) = (columns.max(3), World::init()?);
    let (me, n) = (world.my_pe(), world.n_pes());
    let band = rows.div_ceil(n).max(1);
    let halo = Halo { rows: world.array(4 * columns)?, come: world.array(2)? };

    // The band with a row above and a row below. The upper edge of the plate is hot.
    let mut old = vec![0.0; (band + 2) * columns];
    if me == 0 {
        old[..columns].fill(100.0);
    }
    let mut new = old.clone();
    let (mut steps, mut change) = (0, f64::INFINITY);
    while steps < STEPS_MAX && change > EPSILON {
        let (first, last) = (columns, band * columns);
        if me > 0 {
            send(&world, &halo, me - 1, BELOW, steps, &old[first..first + columns])?;
        }
        if me + 1 < n {
            send(&world, &halo, me + 1, ABOVE, steps, &old[last..last + columns])?;
            receive(&world, &halo, BELOW, steps, &mut old[last + columns..])?;
        }
        if me > 0 {
            receive(&world, &halo, ABOVE, steps, &mut old[..columns])?;
        }
        let mine = relax(&old, &mut new, columns);
        std::mem::swap(&mut old, &mut new);
        if me == 0 {
            old[..columns].fill(100.0);
        }
        steps += 1;
        if steps % CHECK_EVERY == 0 {
            change = world.all().reduce_one(Max, mine)?;
        }
    }

    // Temperatures fall from the hot edge on.
    let middle: Vec<f64> = (1..=band).map(|row| old[row * columns + columns / 2]).collect();
    let all = world.all().collect(&middle)?;
    let falls = all.windows(2).all(|pair| pair[0] >= pair[1]) && all.iter().all(|t| (0.0..=100.0).contains(t));
    if me == 0 {
        let verdict = if falls { "ok" } else { "WRONG" };
        println!("{n} PEs, {band} rows each: change {change:.1e} after {steps} steps");
        println!("{:.4} below the hot edge, {:.4} at the cold one: {verdict}", all[0], all[all.len() - 1]);
    }
    Ok(if falls { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
