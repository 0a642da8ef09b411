//! Random schedules, written and read again, and one after the other.

use super::schedule::{ANY, Dependency, Kind, Operation, Rank, Schedule};
use super::{convert, write};
use angara_fabric::rng::splitmix;
use std::path::{Path, PathBuf};

/// A scratch folder that goes at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("angara-goal-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Draws of a seed.
struct Draws(u64, u64);

impl Draws {
    fn below(&mut self, n: u64) -> u64 {
        self.1 += 1;
        splitmix(self.0, self.1) % n
    }
}

fn rank(draws: &mut Draws, ranks: u32) -> Rank {
    let mut rank = Rank::default();
    let count = draws.below(9) as u32;
    for _ in 0..count {
        let kind = [Kind::Send, Kind::Recv, Kind::Calc][draws.below(3) as usize];
        let any = kind == Kind::Recv && draws.below(4) == 0;
        let (peer, tag) = (draws.below(u64::from(ranks)) as u32, draws.below(5) as u32);
        let (peer, tag) = match kind {
            Kind::Calc => (0, 0),
            _ if any => (ANY, ANY),
            _ => (peer, tag),
        };
        let [cpu, nic] = [draws.below(3) as u8, draws.below(2) as u8];
        rank.operations.push(Operation { kind, size: draws.below(1 << 40), peer, tag, cpu, nic });
    }
    // In any direction along a random order, so that there is no circle.
    let mut order: Vec<u32> = (0..count).collect();
    order.sort_by_key(|&i| splitmix(draws.0 ^ 77, u64::from(i) + draws.1));
    for _ in 0..if count > 1 { draws.below(12) } else { 0 } {
        let later = 1 + draws.below(u64::from(count) - 1) as usize;
        let earlier = draws.below(later as u64) as usize;
        let start = draws.below(3) == 0;
        rank.dependencies.push(Dependency { of: order[later], on: order[earlier], start });
    }
    rank
}

/// Writes random ranks; the file has them in the order of the binary form.
fn random(path: &Path, seed: u64, ranks: u32, binary: bool) -> Vec<Rank> {
    let mut draws = Draws(seed, 0);
    let all: Vec<Rank> = (0..ranks).map(|_| rank(&mut draws, ranks)).collect();
    let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    let mut of = |number: u32| Ok(all[number as usize].clone());
    if binary {
        write::binary(ranks, &mut of, file).unwrap();
    } else {
        write::text(ranks, &mut of, &mut std::io::BufWriter::new(file)).unwrap();
    }
    all
}

fn read(path: &Path) -> Vec<Rank> {
    let schedule = Schedule::open(path).unwrap();
    (0..schedule.ranks.len() as u32).map(|number| schedule.rank(number).unwrap()).collect()
}

/// With dependencies in the order of the binary form.
fn sorted(mut all: Vec<Rank>) -> Vec<Rank> {
    all.iter_mut().for_each(|rank| rank.dependencies.sort_by_key(|d| (d.on, d.start)));
    all
}

#[test]
fn both_forms_say_the_same_and_going_around_changes_no_byte() {
    let folder = Folder::new("forms");
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| folder.file(name));
    for seed in 0..300 {
        let all = sorted(random(&a, seed, 1 + (seed % 4) as u32, seed % 2 == 0));
        assert_eq!(read(&a), all, "seed {seed}");
        convert(std::slice::from_ref(&a), &b, false).unwrap();
        convert(std::slice::from_ref(&b), &c, true).unwrap();
        convert(std::slice::from_ref(&c), &d, false).unwrap();
        assert_eq!((read(&b), read(&c)), (all.clone(), all), "seed {seed}");
        let bytes = |path: &Path| std::fs::read(path).unwrap();
        assert!(bytes(&b) == bytes(&d), "seed {seed}: text, binary, text");
        assert!(seed % 2 == 1 || bytes(&a) == bytes(&c), "seed {seed}: binary, text, binary");
    }
}

/// Operations that have ended whenever `of` starts.
fn ended_before(rank: &Rank, of: u32) -> Vec<bool> {
    let mut before = vec![false; rank.operations.len()];
    // Whether an operation has ended, or only begun, when `of` starts.
    let mut open = vec![of];
    let mut seen = vec![false; rank.operations.len()];
    while let Some(at) = open.pop() {
        for d in rank.dependencies.iter().filter(|d| d.of == at) {
            before[d.on as usize] |= !d.start;
            if !std::mem::replace(&mut seen[d.on as usize], true) {
                open.push(d.on);
            }
        }
    }
    before
}

#[test]
fn on_each_rank_the_next_schedule_begins_when_all_of_the_one_before_has_ended() {
    let folder = Folder::new("append");
    let [a, b, c, out] = ["a", "b", "c", "out"].map(|name| folder.file(name));
    for seed in 0..100 {
        let ranks = 1 + (seed % 3) as u32;
        let parts = [(&a, 1), (&b, 2), (&c, 3)].map(|(path, k)| random(path, 1000 * k + seed, ranks, k == 2));
        convert(&[a.clone(), b.clone(), c.clone()], &out, seed % 2 == 0).unwrap();
        for (number, whole) in read(&out).iter().enumerate() {
            let of: Vec<&Rank> = parts.iter().map(|part| &part[number]).collect();
            let operations: Vec<Operation> = of.iter().flat_map(|rank| rank.operations.clone()).collect();
            assert_eq!(whole.operations, operations, "seed {seed}");
            let mut first = 0;
            for rank in of {
                let end = first + rank.operations.len();
                let inside = |i: u32| (first..end).contains(&(i as usize));
                let within = whole.dependencies.iter().filter(|d| inside(d.of) && inside(d.on)).count();
                assert_eq!(within, rank.dependencies.len(), "seed {seed}: its own dependencies are as they were");
                for i in first..end {
                    let before = ended_before(whole, i as u32);
                    assert!(before[..first].iter().all(|ended| *ended), "seed {seed}, rank {number}: {i} begins early");
                    assert!(
                        before[end..].iter().all(|ended| !*ended),
                        "seed {seed}, rank {number}: {i} waits for later"
                    );
                }
                first = end;
            }
        }
    }
}

#[test]
fn other_numbers_of_ranks_and_its_own_input_are_refused() {
    let folder = Folder::new("refused");
    let [two, three] = ["two", "three"].map(|name| folder.file(name));
    random(&two, 1, 2, false);
    random(&three, 2, 3, true);
    let why = |inputs: &[&PathBuf], out: &Path| {
        let inputs: Vec<PathBuf> = inputs.iter().map(|path| (*path).clone()).collect();
        convert(&inputs, out, false).unwrap_err().to_string()
    };
    let refused = why(&[&two, &three], &folder.file("out"));
    assert!(refused.contains("three has 3 ranks") && refused.contains("two has 2"), "{refused}");
    assert!(!folder.file("out").exists());
    assert!(why(&[&two], &two).contains("name another file"));
}
