//! Heat conduction on a plate, the Rust way: each PE owns a band of rows, puts its edge rows into
//! its neighbours' halo rows, and all agree by an all-reduce when to stop.
//!
//! ```text
//! cargo run --release --example heat -p angara            one PE
//! angara run -n 8 target/release/examples/heat [ROWS COLS]   eight PEs on a torus
//! ```

use angara::tree::ReduceOp;
use angara::{Amo, AmoOp, Class, Job, Place};

const EPSILON: f64 = 1e-3;
const STEPS_MAX: usize = 20_000;
const CHECK_EVERY: usize = 50;

struct Plate<'a> {
    job: &'a Job,
    rows: usize,
    cols: usize,
    now: usize,
}

impl Plate<'_> {
    /// Two buffers of (halo row, own rows, halo row) at the start of the symmetric heap, then one
    /// word for the sum of differences.
    fn offset(&self, buffer: usize, row: usize) -> usize {
        (buffer * (self.rows + 2) + row) * self.cols * 8
    }
    fn place(&self, offset: usize) -> Place {
        self.job.locate(self.job.heap().wrapping_add(offset), 8).expect("the plate fits the heap")
    }
    #[allow(clippy::mut_from_ref)]
    fn row(&self, buffer: usize, row: usize) -> &mut [f64] {
        let p = self.job.heap().wrapping_add(self.offset(buffer, row)) as *mut f64;
        // SAFETY: inside the heap (checked in `main`); each row is borrowed once at a time, and
        // neighbours write halo rows only between the barriers of a step.
        unsafe { std::slice::from_raw_parts_mut(p, self.cols) }
    }

    /// Sends the edge rows of the current buffer to the neighbours' halo rows.
    fn exchange(&self) -> angara::Result<()> {
        let (me, n) = (self.job.my_pe(), self.job.n_pes());
        let put = |pe, from: usize, to: usize| {
            let row = self.row(self.now, from);
            let place = self.place(self.offset(self.now, to));
            // SAFETY: the row is `cols` live doubles.
            unsafe { self.job.ctx().put(Class::Put, pe, place, row.as_ptr().cast(), self.cols * 8) }
        };
        if me > 0 {
            put(me - 1, 1, self.rows + 1)?;
        }
        if me + 1 < n {
            put(me + 1, self.rows, 0)?;
        }
        self.job.ctx().quiet()?;
        self.job.barrier(true)
    }

    /// One Jacobi step; returns the largest change.
    fn step(&mut self) -> f64 {
        let next = 1 - self.now;
        let mut change = 0f64;
        for r in 1..=self.rows {
            let (up, here, down) = (self.row(self.now, r - 1), self.row(self.now, r), self.row(self.now, r + 1));
            let out = self.row(next, r);
            for c in 1..self.cols - 1 {
                let t = 0.25 * (up[c] + down[c] + here[c - 1] + here[c + 1]);
                change = change.max((t - here[c]).abs());
                out[c] = t;
            }
            (out[0], out[self.cols - 1]) = (here[0], here[self.cols - 1]);
        }
        self.now = next;
        change
    }
}

/// Largest value of all PEs, by the network's tree where there is one: doubles that are not
/// negative order like their bits.
fn max(job: &Job, tree: Option<u8>, cell: Place, mine: f64) -> angara::Result<f64> {
    if let Some(id) = tree {
        return Ok(f64::from_bits(job.tree(id).all_reduce(ReduceOp::Max, &[mine.to_bits()])?[0]));
    }
    let word =
        |op, v, old, fetch| job.ctx().amo(Class::Amo, 0, cell, Amo { op, width: 8, operand: v, comparand: old, fetch });
    let mut seen = word(AmoOp::Fetch, 0, 0, true)?;
    while mine.to_bits() > seen {
        match word(AmoOp::CompareSwap, mine.to_bits(), seen, true)? {
            old if old == seen => break,
            old => seen = old,
        }
    }
    job.ctx().quiet()?;
    job.barrier(false)?;
    let all = f64::from_bits(word(AmoOp::Fetch, 0, 0, true)?);
    job.barrier(false)?;
    if job.my_pe() == 0 {
        word(AmoOp::Swap, 0, 0, false)?;
        job.ctx().quiet()?;
    }
    job.barrier(false)?;
    Ok(all)
}

fn main() -> angara::Result<()> {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<usize>().expect("usage: heat [ROWS COLS]"));
    let (rows, cols) = (args.next().unwrap_or(64), args.next().unwrap_or(64).max(3));
    let job = Job::from_env(64 << 20)?;
    let (me, n) = (job.my_pe(), job.n_pes());
    let mut plate = Plate { job: &job, rows: rows.div_ceil(n).max(1), cols, now: 0 };
    let cell_at = plate.offset(2, 0);
    assert!(cell_at + 16 <= job.heap_len(), "the plate needs {cell_at} bytes of heap per PE: angara run --heap");
    // The upper edge of the plate is hot, everything else cold.
    for buffer in 0..2 {
        if me == 0 {
            plate.row(buffer, 0).fill(100.0);
        }
    }
    // PE 0 opens a tree and tells the others; without a network there is none.
    let (cell, id_cell) = (plate.place(cell_at), plate.place(cell_at + 8));
    let all: Vec<usize> = (0..n).collect();
    if me == 0 {
        let id = if job.profile().far { job.tree_open(0, &all).map_or(0, |id| id as u64 + 1) } else { 0 };
        for pe in 0..n {
            // SAFETY: `id` is 8 live bytes.
            unsafe { job.ctx().put(Class::Put, pe, id_cell, (&raw const id).cast(), 8)? };
        }
        job.ctx().quiet()?;
    }
    job.barrier(false)?;
    let id = job.ctx().amo(
        Class::Amo,
        me,
        id_cell,
        Amo { op: AmoOp::Fetch, width: 8, operand: 0, comparand: 0, fetch: true },
    )?;
    let tree = (id != 0).then(|| (id - 1) as u8);

    let (mut steps, mut change) = (0, f64::INFINITY);
    while steps < STEPS_MAX && change > EPSILON {
        plate.exchange()?;
        let mine = plate.step();
        // Nobody may overwrite a halo row that is still being read: one buffer ahead is enough.
        job.barrier(true)?;
        steps += 1;
        if steps % CHECK_EVERY == 0 {
            change = max(&job, tree, cell, mine)?;
        }
    }
    // The steady state is bounded by its edges and cools downwards: check both.
    let middle: Vec<f64> = (1..=plate.rows).map(|r| plate.row(plate.now, r)[cols / 2]).collect();
    let ok = middle.windows(2).all(|w| w[0] >= w[1]) && middle.iter().all(|t| (0.0..=100.0).contains(t));
    if me == 0 {
        let how = if tree.is_some() { "the collective tree" } else { "atomics" };
        println!("{n} PEs, {} rows each: change {change:.1e} after {steps} steps, maximum by {how}", plate.rows);
    }
    println!("PE {me}: {:8.4} to {:8.4} {}", middle[0], middle[middle.len() - 1], if ok { "ok" } else { "WRONG" });
    job.barrier(false)?;
    if let Some(id) = tree {
        job.tree_close(id)?;
    }
    job.detach();
    std::process::exit(if ok { 0 } else { 1 });
}
