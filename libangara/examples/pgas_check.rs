//! Everything that `angara::pgas` promises, looked at by every PE of a job; and mistakes, one of which is an argument.
//!
//! ```text
//! angara run -n 8 target/release/examples/pgas_check
//! angara run -n 3 target/release/examples/pgas_check mismatch
//! ```

use angara::pgas::{And, Exposed, Is, Max, Min, Or, Product, Signal, Sum, World, Xor};
use angara::{Error, Result};

/// A kilobyte as one element.
type Large = [u64; 128];

fn puts_and_gets(world: &World) -> Result<()> {
    let (me, n) = (world.my_pe(), world.n_pes());
    let (right, left) = ((me + 1) % n, (me + n - 1) % n);
    let bytes = world.array::<u8>(1000)?;
    let longs = world.array::<u64>(2000)?;
    let large = world.array::<Large>(2)?;
    assert!(bytes.to_vec().iter().all(|b| *b == 0) && (bytes.len(), large.is_empty()) == (1000, false));
    world.barrier()?;

    let mine: Vec<u64> = (0..1500).map(|i| (me * 10_000 + i) as u64).collect();
    world.put(longs.at(right, 400), &mine)?;
    world.put(bytes.at(right, 3), &[me as u8; 5])?;
    world.write(large.at(right, 1), [me as u64; 128])?;
    world.write(longs.at(right, 1), 17 + me as u64)?;
    world.write(bytes.at(right, 0), 9)?;
    world.barrier()?;
    assert!((0..1500).all(|i| longs.load(400 + i) == (left * 10_000 + i) as u64));
    assert_eq!((longs.load(1), bytes.load(0), bytes.load(7), bytes.load(8)), (17 + left as u64, 9, left as u8, 0));
    assert_eq!(large.load(1), [left as u64; 128]);
    world.barrier()?;

    // Own elements by any way.
    longs.store(0, 5);
    longs.write(2, &[6, 7]);
    assert_eq!((longs.load(0), world.read(longs.at(me, 3))?), (5, 7));
    world.barrier()?;
    let mut back = vec![0; 1500];
    world.get(longs.at(left, 400), &mut back)?;
    let from = (left + n - 1) % n;
    assert!(back.iter().enumerate().all(|(i, x)| *x == (from * 10_000 + i) as u64));
    assert_eq!((world.read(large.at(left, 1))?, world.read(bytes.at(left, 0))?), ([from as u64; 128], 9));

    // To itself, and nothing at all.
    world.put(longs.at(me, 10), &[1, 2, 3])?;
    world.get(longs.at(me, 11), &mut back[..2])?;
    assert_eq!(back[..2], [2, 3]);
    world.put(longs.at(right, 2000), &[])?;
    world.barrier()
}

fn strides(world: &World) -> Result<()> {
    let (me, n) = (world.my_pe(), world.n_pes());
    let (right, left) = ((me + 1) % n, (me + n - 1) % n);
    let array = world.array::<i32>(100)?;
    let mine: Vec<i32> = (0..30).map(|i| me as i32 * 100 + i).collect();
    world.put_strided(array.at(right, 1), 7, &mine, 3)?;
    world.barrier()?;
    let expected = |i: usize| if i % 7 == 1 && i / 7 < 10 { left as i32 * 100 + i as i32 / 7 * 3 } else { 0 };
    assert!((0..100).all(|i| array.load(i) == expected(i)));
    for step in [1, 2] {
        let mut back = vec![-1; 20];
        world.get_strided(array.at(me, 1), 7, &mut back[..10 * step - (step - 1)], step)?;
        assert!((0..10).all(|i| back[i * step] == expected(1 + 7 * i)), "{back:?}");
    }
    assert!(world.put_strided(array.at(right, 0), 0, &mine, 1).is_err());
    assert!(world.put_strided(array.at(right, 99), 7, &mine, 3).is_err());
    world.barrier()
}

fn atomics(world: &World) -> Result<()> {
    let (me, n) = (world.my_pe(), world.n_pes());
    let (counts, small) = (world.array::<i64>(4)?, world.array::<u32>(3)?);
    let floats = world.array::<f64>(1)?;
    for pe in 0..n {
        world.add(counts.at(pe, 0), 1)?;
        world.fetch_add(counts.at(pe, 1), -2)?;
        world.or(small.at(pe, 0), 1 << (me % 32))?;
        world.fetch_xor(small.at(pe, 1), 3)?;
        world.add(small.at(pe, 2), u32::MAX)?; // minus one
    }
    // Each PE takes a ticket.
    let ticket = world.fetch_add(counts.at(0, 2), 1)?;
    assert!((0..n as i64).contains(&ticket));
    // One of them wins.
    let won = world.compare_swap(counts.at(n - 1, 3), 0, me as i64 + 1)? == 0;
    world.barrier()?;
    let all = 0..n as i64;
    assert_eq!((counts.load(0), counts.load(1), world.fetch(counts.at(0, 2))?), (all.end, -2 * all.end, all.end));
    assert_eq!(small.load(0), (0..n.min(32)).fold(0, |bits, pe| bits | 1 << pe));
    assert_eq!((small.load(1), small.load(2)), (3 * (n as u32 % 2), (n as u32).wrapping_neg()));
    assert_eq!(world.all().reduce_one(Sum, u64::from(won))?, 1);
    world.set(floats.at((me + 1) % n, 0), 0.5 + me as f64)?;
    world.barrier()?;
    assert_eq!(world.swap(floats.at(me, 0), -1.0)?, 0.5 + ((me + n - 1) % n) as f64);
    assert_eq!(world.fetch(floats.at(me, 0))?, -1.0);
    world.barrier()
}

fn signals(world: &World) -> Result<()> {
    let (me, n) = (world.my_pe(), world.n_pes());
    let (data, words) = (world.array::<u64>(64)?, world.array::<u64>(n + 1)?);
    let (right, left) = ((me + 1) % n, (me + n - 1) % n);
    for round in 1..=20 {
        let mine = [round * 1000 + me as u64; 64];
        world.put_signal(data.at(right, 0), &mine, words.at(right, 0), Signal::Add(1))?;
        assert!(world.wait_until(&words, 0, Is::AtLeast(round))? >= round);
        assert_eq!(data.to_vec(), [round * 1000 + left as u64; 64]);
        world.barrier()?;
    }
    assert_eq!(world.test(&words, 0, Is::Equal(20))?, Some(20));
    assert_eq!((world.test(&words, 0, Is::Below(20))?, world.test(&words, 0, Is::Other(20))?), (None, None));
    // Somebody's word comes first, and all come.
    world.put_signal(data.at(right, 0), &[7], words.at(right, 1 + me), Signal::Set(9))?;
    let index = world.wait_any(&words, 1..n + 1, Is::Above(8))?;
    assert_eq!((index, data.load(0)), (1 + left, 7));
    assert!(world.put_signal(data.at(right, 0), &[7], words.at((right + 1) % n, 0), Signal::Set(9)).is_err() || n == 1);
    world.barrier()
}

fn scopes(world: &World) -> Result<()> {
    let (me, n) = (world.my_pe(), world.n_pes());
    let (right, left) = ((me + 1) % n, (me + n - 1) % n);
    let (array, other) = (world.array::<u64>(9000)?, world.array::<u64>(9000)?);
    let mine = vec![me as u64 + 1; 8000];
    (0..9000).for_each(|i| other.store(i, (me * 10_000 + i) as u64));
    world.barrier()?;
    let (mut near, mut far) = (vec![0; 8000], vec![0; 3]);
    world.scope(|s| {
        s.put(array.at(right, 100), &mine)?;
        s.get(other.at(left, 500), &mut near)?;
        s.get(other.at(right, 1), &mut far)
    })?;
    assert!(near.iter().enumerate().all(|(i, x)| *x == (left * 10_000 + 500 + i) as u64));
    assert_eq!(far, [1, 2, 3].map(|i| (right * 10_000 + i) as u64));
    world.barrier()?;
    assert!((100..8100).all(|i| array.load(i) == left as u64 + 1));
    // A scope that panics has completed what it issued.
    let mut caught = vec![0; 8000];
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        world.scope(|s| -> Result<()> {
            s.get(other.at(right, 0), &mut caught)?;
            std::panic::resume_unwind(Box::new("on purpose"))
        })
    }));
    assert!(panicked.is_err() && caught[7999] == (right * 10_000 + 7999) as u64);
    world.barrier()
}

fn slices(world: &World) -> Result<()> {
    let (me, n) = (world.my_pe(), world.n_pes());
    let mut local = world.local_array::<f32>(500)?;
    for round in 0..3 {
        local.iter_mut().enumerate().for_each(|(i, x)| *x = (me * 1000 + i + round) as f32);
        let exposed = world.expose(local)?;
        let mut theirs = vec![0.0; 500];
        world.get(exposed.at((me + 1) % n, 0), &mut theirs)?;
        assert_eq!(theirs[499], ((me + 1) % n * 1000 + 499 + round) as f32);
        world.write(exposed.at((me + 1) % n, round), -1.0)?;
        local = world.local(exposed)?;
        assert_eq!(local.iter().filter(|x| **x < 0.0).count(), 1 + usize::from(n == 0));
    }
    // A local slice may be what is put, and where a get goes.
    let target = world.array::<f32>(500)?;
    world.put(target.at((me + 1) % n, 0), &local)?;
    world.barrier()?;
    world.get(target.at(me, 0), &mut local)?;
    world.scope(|s| s.get(target.at((me + 1) % n, 0), &mut local))?;
    assert_eq!(local[499], (me * 1000 + 499 + 2) as f32);
    world.barrier()
}

fn memory(world: &World) -> Result<()> {
    // What has been dropped everywhere is used again, and is zero then.
    let before = world.array::<u64>(1)?;
    for round in 0..200u64 {
        let array = world.array::<u64>(100_000)?;
        assert!((0..100_000).step_by(999).all(|i| array.load(i) == 0), "round {round}");
        (0..100_000).step_by(333).for_each(|i| array.store(i, round + 1));
    }
    // What some PE keeps stays.
    let kept: Vec<Exposed<u64>> = (0..70).map(|_| world.array::<u64>(10)).collect::<Result<_>>()?;
    kept.iter().enumerate().for_each(|(i, array)| array.store(9, i as u64));
    if world.my_pe() == 0 {
        let leaked = world.array::<u64>(10)?;
        leaked.store(0, 77);
        std::mem::forget(leaked);
    } else {
        drop(world.array::<u64>(10)?);
    }
    assert!(world.array::<u8>(usize::MAX / 2).is_err() && world.array::<u64>(usize::MAX / 2).is_err());
    assert_eq!(world.array::<u64>(0)?.len(), 0);
    before.store(0, 1);
    assert!(kept.iter().enumerate().all(|(i, array)| array.load(9) == i as u64));
    world.barrier()
}

fn teams(world: &World) -> Result<()> {
    let (all, me, n) = (world.all(), world.my_pe(), world.n_pes());
    let sum = |n: usize| (n * n.saturating_sub(1) / 2) as u64;
    let mut values: Vec<u64> = (0..1000).map(|i| (me + i) as u64).collect();
    all.all_reduce(Sum, &mut values)?;
    assert!(values.iter().enumerate().all(|(i, v)| *v == sum(n) + (n * i) as u64));
    let number = me as i32;
    assert_eq!((all.reduce_one(Min, number)?, all.reduce_one(Max, number)?), (0, n as i32 - 1));
    assert_eq!((all.reduce_one(And, !0u32)?, all.reduce_one(Or, 1u8)?), (!0, 1));
    assert_eq!(all.reduce_one(Xor, 1i64)?, n as i64 % 2);
    assert_eq!(all.reduce_one(Product, 1.0f64)?, 1.0);
    // A function that does not commute sees PEs in their order.
    let digits = all
        .reduce_one(|a: [u32; 2], b: [u32; 2]| if a[1] + 1 == b[0] { [a[0], b[1]] } else { [9, 9] }, [me as u32; 2])?;
    assert_eq!(digits, [0, n as u32 - 1]);
    for root in [0, n - 1, n / 2] {
        let mut values = vec![me as u64; 5000];
        all.broadcast(root, &mut values)?;
        assert_eq!(values, vec![root as u64; 5000]);
        let mut values = [me as f64, 1.0];
        all.reduce(root, Sum, &mut values)?;
        assert!(me != root || values == [sum(n) as f64, n as f64]);
    }
    let uneven = all.collect(&vec![me as u16; me % 3])?;
    let expected: Vec<u16> = (0..n).flat_map(|pe| vec![pe as u16; pe % 3]).collect();
    assert_eq!(uneven, expected);
    let mine: Vec<u32> = (0..3 * n).map(|i| (me * 1000 + i) as u32).collect();
    let theirs = all.all_to_all(&mine)?;
    assert!((0..3 * n).all(|i| theirs[i] == (i / 3 * 1000 + me * 3 + i % 3) as u32));
    assert!(n == 1 || all.all_to_all(&mine[1..]).is_err());
    let mut scanned = [me as u64 + 1, 1];
    all.scan(Sum, &mut scanned)?;
    assert_eq!(scanned, [sum(me + 2), me as u64 + 1]);
    let mut before = [me as u64 + 1];
    all.exclusive_scan(Sum, 0, &mut before)?;
    assert_eq!(before, [sum(me + 1)]);

    // Parts, and parts of parts.
    let row = all.split(Some((me % 3) as u32), -(me as i64))?.expect("a color");
    let members: Vec<usize> = (0..n).filter(|pe| pe % 3 == me % 3).rev().collect();
    assert_eq!((row.members(), row.n_pes(), row.members()[row.my_pe()]), (&members[..], members.len(), me));
    assert_eq!(row.reduce_one(Sum, me as u64)?, members.iter().sum::<usize>() as u64);
    let half = row.split((row.my_pe() % 2 == 0).then_some(5), 0)?;
    assert_eq!(half.is_some(), row.my_pe() % 2 == 0);
    if let Some(half) = half {
        assert_eq!(half.collect(&[me])?, members.iter().copied().step_by(2).collect::<Vec<_>>());
        half.barrier()?;
    }
    row.barrier()?;
    world.barrier()
}

fn channels(world: &World) -> Result<()> {
    let (me, n) = (world.my_pe(), world.n_pes());
    let (numbers, letters) = (world.channel::<u64>()?, world.channel::<Large>()?);
    for i in 0..300 {
        (0..n).try_for_each(|pe| numbers.send(pe, (me * 1000 + i) as u64))?;
    }
    letters.send((me + 1) % n, [me as u64; 128])?;
    let (from, letter) = letters.receive()?;
    assert_eq!((from, letter), ((me + n - 1) % n, [from as u64; 128]));
    let mut next = vec![0; n];
    for _ in 0..300 * n {
        let (from, number) = numbers.receive()?;
        assert_eq!(number, (from * 1000 + next[from]) as u64);
        next[from] += 1;
    }
    assert_eq!(numbers.try_receive()?, None);
    assert!(numbers.send(n, 0).is_err());
    world.barrier()
}

fn threads(world: &World) -> Result<()> {
    let (me, n) = (world.my_pe(), world.n_pes());
    let counts = world.array::<u64>(2)?;
    let contexts = (0..3).map(|_| world.context()).collect::<Result<Vec<_>>>()?;
    std::thread::scope(|scope| {
        let counts = &counts;
        let threads: Vec<_> = contexts
            .into_iter()
            .map(|context| {
                scope.spawn(move || {
                    for _ in 0..100 {
                        context.add(counts.at((me + 1) % n, 0), 1)?;
                    }
                    context.write(counts.at((me + 1) % n, 1), 5)
                    // Not quiet: the barrier of the world completes it, too.
                })
            })
            .collect();
        (0..100).try_for_each(|_| world.add(counts.at((me + 1) % n, 0), 1))?;
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    world.barrier()?;
    assert_eq!(counts.to_vec(), [400, 5]);
    world.barrier()
}

fn refusals(world: &World) -> Result<()> {
    let (me, n) = (world.my_pe(), world.n_pes());
    let array = world.array::<u64>(10)?;
    let says = |error: Result<()>, parts: &[&str]| {
        let text = error.expect_err("an error").to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    };
    let pe = n.to_string();
    says(world.put(array.at(n, 0), &[1]), &[&pe]);
    says(world.write(array.at(usize::MAX, 0), 1), &[]);
    says(world.get(array.at(n, 0), &mut [1]), &[&pe]);
    says(world.fetch_add(array.at(n, 0), 1).map(drop), &[&pe]);
    says(world.put(array.at(me, 8), &[1, 2, 3]), &["3 elements", "from 8", "10 elements"]);
    says(world.read(array.at(me, 10)).map(drop), &["one element", "from 10"]);
    says(world.write(array.at(me, usize::MAX), 1), &["not inside"]);
    says(world.all().broadcast(n, &mut [1]), &["broadcast", &pe]);
    says(World::init().map(drop), &["has, or had, a world"]);
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| array.load(10)));
    assert!(panic.is_err());
    world.barrier()
}

/// What a program does wrong, by the name of the mistake. Errors are returned.
fn mistake(world: World, name: &str) -> Result<()> {
    let (me, n) = (world.my_pe(), world.n_pes());
    match name {
        "length" => drop(world.array::<u64>(10 + usize::from(me == n - 1))?),
        "type" if me == 0 => drop(world.array::<u32>(10)?),
        "type" => drop(world.array::<u64>(10)?),
        "mismatch" if me == n - 1 => drop(world.all().collect(&[1])?),
        "mismatch" => world.all().broadcast(0, &mut [1])?,
        "arrays" => {
            let (a, b) = (world.array::<u64>(1)?, world.array::<u64>(1)?);
            let array = if me == 0 { a } else { b };
            drop(world.local(array)?);
        }
        "values" => world.all().all_reduce(Sum, &mut vec![1; 1 + me])?,
        "leave" if me == 0 => return Ok(()),
        "leave" => {
            world.all().broadcast(0, &mut [1])?;
        }
        // No mistake: who has left in order can be written to.
        "early" => {
            let array = world.array::<u64>(1000)?;
            if me > 0 {
                let has_left = || world.driver().pe_entry(0).seat.is_over();
                world.driver().wait(has_left, &|| "PE 0 to leave".into())?;
                world.put(array.at(0, 0), &[1; 1000])?;
                assert_eq!(world.read(array.at(0, 999))?, 1);
            }
            return Ok(());
        }
        "exit" if me == 0 => std::process::exit(3),
        "panic" if me == 0 => panic!("a mistake of PE {me}"),
        "deadlock" if me == 0 => {
            let word = world.array::<u64>(1)?;
            world.wait_until(&word, 0, Is::Equal(1))?;
        }
        "deadlock" => drop(world.array::<u64>(1)?),
        _ => {}
    }
    world.barrier()
}

fn main() -> Result<()> {
    let world = World::init()?;
    if let Some(name) = std::env::args().nth(1).filter(|name| name != "all") {
        return mistake(world, &name);
    }
    let parts: [fn(&World) -> Result<()>; 11] =
        [puts_and_gets, strides, atomics, signals, scopes, slices, memory, teams, channels, refusals, threads];
    for (i, part) in parts.iter().enumerate() {
        part(&world).map_err(|e| Error::Invalid(format!("part {i}: {e}")))?;
    }
    println!("PE {}: ok", world.my_pe());
    Ok(())
}
