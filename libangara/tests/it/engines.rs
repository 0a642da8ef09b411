//! Both engines do the same: any sequence of operations leaves the same memory, returns the same
//! values, and is accounted alike.

use crate::fake::Fake;
use angara::{Amo, AmoOp, Class, Job, Place, Region};
use angara_abi::job::{Barrier, Reach};
use proptest::prelude::*;

const HEAP: usize = 1 << 20;

#[derive(Clone, Debug)]
enum Step {
    Put { at: usize, len: usize, symmetric: bool, wait: bool },
    Get { at: usize, len: usize, wait: bool },
    Amo { at: usize, op: u8, wide: bool, operand: u64, fetch: bool },
    Fence,
    Quiet,
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![1usize..=8, 1usize..=300, 1usize..=70_000, Just(200_000)];
    let at = 0usize..300_000;
    prop_oneof![
        4 => (at.clone(), len.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(at, len, symmetric, wait)| Step::Put { at, len, symmetric, wait }),
        4 => (at.clone(), len, any::<bool>()).prop_map(|(at, len, wait)| Step::Get { at, len, wait }),
        4 => (at, 0u8..7, any::<bool>(), any::<u64>(), any::<bool>())
            .prop_map(|(at, op, wide, operand, fetch)| Step::Amo { at: at & !7, op, wide, operand, fetch }),
        1 => Just(Step::Fence),
        1 => Just(Step::Quiet),
    ]
}

/// Runs `steps` on the first half of PE 0's heap; what was read, and the memory at the end.
fn run(job: &Job, steps: &[Step]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let ctx = job.ctx();
    let place = |at: usize| Place { region: Region::Heap, offset: (angara_abi::job::INTERNAL_BYTES + at) as u64 };
    let mut seen = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        match *step {
            Step::Put { at, len, symmetric, wait } => {
                let data: Vec<u8> = (0..len).map(|b| (b * 13 + i * 101) as u8).collect();
                let own = job.heap().wrapping_add(HEAP / 2);
                // SAFETY: `data` holds `len` bytes, and so does the second half of the heap; both
                // stay as they are until the quiet.
                unsafe {
                    let src = if symmetric {
                        std::ptr::copy_nonoverlapping(data.as_ptr(), own, len);
                        own.cast_const()
                    } else {
                        data.as_ptr()
                    };
                    if wait {
                        ctx.put(Class::Put, 0, place(at), src, len).expect("put");
                    } else {
                        ctx.put_nbi(Class::Put, 0, place(at), src, len).expect("put");
                    }
                }
                // Only an engine that completes at once lets the program read at once what it put.
                ctx.quiet().expect("quiet");
            }
            Step::Get { at, len, wait } => {
                let mut back = vec![0; len];
                // SAFETY: `back` holds `len` bytes and outlives the quiet.
                unsafe {
                    if wait {
                        ctx.get(Class::Get, 0, back.as_mut_ptr(), place(at), len).expect("get");
                    } else {
                        ctx.get_nbi(Class::Get, 0, back.as_mut_ptr(), place(at), len).expect("get");
                        ctx.quiet().expect("quiet");
                    }
                }
                seen.push(back);
            }
            Step::Amo { at, op, wide, operand, fetch } => {
                let (op, width) = (AmoOp::from_bits(op).expect("below 7"), if wide { 8 } else { 4 });
                let old =
                    ctx.amo(Class::Amo, 0, place(at), Amo { op, width, operand, comparand: 0, fetch }).expect("amo");
                seen.push(old.to_le_bytes().to_vec());
            }
            Step::Fence => ctx.fence().expect("fence"),
            Step::Quiet => ctx.quiet().expect("quiet"),
        }
    }
    ctx.quiet().expect("quiet");
    // SAFETY: this PE's own heap, quiescent.
    (seen, unsafe { std::slice::from_raw_parts(job.heap(), HEAP / 2 + 200_000) }.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_program_does_the_same_on_both_engines(steps in prop::collection::vec(step(), 1..30)) {
        let solo = Job::solo(HEAP, &[]).expect("solo");
        let direct = run(&solo, &steps);
        let fake = Fake::start(1, HEAP, Barrier::Auto, Reach::Ring);
        let (ring, traffic) = fake.run(|job| {
            let done = run(job, &steps);
            (done, [Class::Put, Class::Get, Class::Amo].map(|c| job.traffic(0, c)))
        }).remove(0);
        prop_assert!(direct == ring, "memory or results differ");
        prop_assert_eq!([Class::Put, Class::Get, Class::Amo].map(|c| solo.traffic(0, c)), traffic);
    }
}
