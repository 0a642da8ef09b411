//! Sample sort: PEs agree on splitters, exchange their parts, and sort what they have got.
//!
//! ```text
//! cargo build --release -p angara-examples-rust
//! angara run -n 4 target/release/sample_sort [NUMBERS OF EACH PE]
//! ```
#![forbid(unsafe_code)]

use angara::pgas::{Sum, World, Xor};

/// Numbers of each PE among which splitters are chosen.
const SAMPLES: usize = 32;

/// Numbers that look like chance, another sequence on each PE.
fn numbers(pe: usize, count: usize) -> Vec<u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(pe as u64 + 1);
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    std::iter::repeat_with(next).take(count).collect()
}

fn main() -> angara::Result<()> {
    let count: usize = std::env::args().nth(1).map_or(50_000, |arg| arg.parse().expect("usage: sample_sort [NUMBERS]"));
    let world = World::init()?;
    let (all, me, n) = (world.all(), world.my_pe(), world.n_pes());
    let mut mine = numbers(me, count);
    let sum_before = all.reduce_one(Sum, mine.iter().fold(0u64, |sum, x| sum.wrapping_add(*x)))?;
    let bits_before = all.reduce_one(Xor, mine.iter().fold(0, |bits, x| bits ^ x))?;

    // Every PE has the same splitters: numbers at equal distances among all samples.
    mine.sort_unstable();
    let step = (mine.len() / SAMPLES).max(1);
    let mut samples = all.collect(&mine.iter().copied().step_by(step).collect::<Vec<_>>())?;
    samples.sort_unstable();
    let splitters: Vec<u64> = (1..n).map(|pe| samples[pe * samples.len() / n]).collect();

    // Part `pe` has the numbers from the splitter before it on.
    let mut parts = vec![Vec::new(); n];
    for x in mine {
        parts[splitters.partition_point(|splitter| *splitter <= x)].push(x);
    }
    let mut mine = all.all_to_all_parts(&parts)?.concat();
    mine.sort_unstable();

    // Nothing was lost, and each PE's numbers follow those of the PE before it.
    let sum_after = all.reduce_one(Sum, mine.iter().fold(0u64, |sum, x| sum.wrapping_add(*x)))?;
    let bits_after = all.reduce_one(Xor, mine.iter().fold(0, |bits, x| bits ^ x))?;
    let (first, last) = (mine.first().copied(), mine.last().copied());
    let edges = all.collect(&[first, last].into_iter().flatten().collect::<Vec<_>>())?;
    assert!(edges.is_sorted() && (sum_before, bits_before) == (sum_after, bits_after), "WRONG");
    let most = all.reduce_one(angara::pgas::Max, mine.len() as u64)?;
    if me == 0 {
        println!("{} numbers sorted by {n} PEs, at most {most} on one: ok", count * n);
    }
    Ok(())
}
