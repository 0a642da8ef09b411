//! Instructions that programs' operations cost: `cargo bench -p angara-fabric --bench live`.
//!
//! Each case is posted, carried and applied as a data plane does it. The bench counts instructions per operation
//! with callgrind and fails if they are more than 10 % off the recorded budget. Without valgrind it only says so.

use angara_abi::account::Class;
use angara_abi::desc::{AmoOp, Place, Region};
use angara_abi::packet::{ReduceElem, ReduceOp, Vc};
use angara_fabric::{BarrierFamily, Config, Effect, Fabric, JobSlot, Op, Port, Source};
use std::process::ExitCode;

/// Name, whether on a network that programs run on, what a round of it does, instructions per operation as counted with
/// rustc 1.95 on x86-64.
type Case = (&'static str, bool, fn(&mut Network) -> u64, f64);

const CASES: [Case; 11] = [
    ("put-8", true, |n| n.write(1, 8), 2749.0),
    ("put-256-burst", true, |n| n.write(16, 256), 2531.0),
    ("put-train", true, |n| n.train(), 72970.0),
    ("get-8", true, |n| n.read(8), 4415.0),
    ("get-train", true, |n| n.read(30_000), 35200.0),
    ("fetch-add", true, Network::fetch_add, 4374.0),
    ("barrier-multiphase", true, |n| n.barrier(BarrierFamily::Multiphase), 595320.0),
    ("barrier-tree", true, |n| n.barrier(BarrierFamily::Tree), 113800.0),
    ("reduce-to-all", true, Network::reduce, 78320.0),
    ("put-8-by-steps", false, |n| n.write(1, 8), 6466.0),
    ("get-8-by-steps", false, |n| n.read(8), 11823.0),
];

/// The only job.
const JOB: JobSlot = JobSlot::new(0);

/// Rounds of a whole run.
const ROUNDS: u64 = 4_000;

fn heap(offset: u64) -> Place {
    Place { region: Region::Heap, offset }
}

/// A network with one PE on each of its eight nodes.
struct Network {
    fabric: Fabric,
    ports: Vec<Port>,
    rounds: u64,
}

impl Network {
    fn new(trains: bool) -> Network {
        let config = Config { trains, ..Config::new("2x2x2".parse().expect("a shape")) };
        let mut fabric = Fabric::new(config).expect("a network");
        let ports: Vec<Port> = (0..8).map(|node| Port { node, endpoint: 0 }).collect();
        fabric.open_job(JOB, &ports).expect("a free slot");
        let rows = fabric.build_tree(0, &ports).expect("a tree");
        fabric.load_tree(0, JOB, &rows).expect("a free tree");
        Network { fabric, ports, rounds: 0 }
    }

    fn post(&mut self, from: usize, class: Class, op: Op<Source<'_>>) {
        self.fabric.inject(self.ports[from], JOB, class, op, 0, 0).expect("room for an operation");
    }

    /// Lets everything happen, memory included.
    fn run(&mut self) {
        let f = &mut self.fabric;
        loop {
            f.run_free();
            while let Some(effect) = f.poll_effect() {
                match effect {
                    Effect::Write { data, .. } => drop(std::hint::black_box(f.payload(data).len())),
                    Effect::Fetch { token, len, .. } => f.supply(token, &[0; 32768][..len as usize]),
                    Effect::Amo { token: Some(token), .. } => f.supply(token, &[0; 8]),
                    _ => {}
                }
            }
            while f.poll_completion().is_some() {}
            if f.poll_timeout().is_none() {
                return;
            }
        }
    }

    fn write(&mut self, burst: u64, bytes: usize) -> u64 {
        let (to, data) = (self.ports[7], [1; 256]);
        for _ in 0..burst {
            let source = Source::Inline(&data[..bytes]);
            self.post(0, Class::Put, Op::Write { to, place: heap(0), source, vc: Vc::Request, adaptive: false });
        }
        self.run();
        burst
    }

    fn train(&mut self) -> u64 {
        let source = Source::Memory { place: heap(0), len: 65_536 };
        let to = self.ports[7];
        self.post(0, Class::Put, Op::Write { to, place: heap(0), source, vc: Vc::Request, adaptive: false });
        self.run();
        1
    }

    fn read(&mut self, len: u32) -> u64 {
        let to = self.ports[7];
        self.post(0, Class::Get, Op::Read { to, remote: heap(0), local: heap(0), len });
        self.run();
        1
    }

    fn fetch_add(&mut self) -> u64 {
        let (to, result) = (self.ports[7], Some(heap(8)));
        let (op, width, operand, comparand) = (AmoOp::Add, 8, 1, 0);
        self.post(0, Class::Amo, Op::Amo { to, place: heap(0), op, width, operand, comparand, result });
        self.run();
        1
    }

    /// A barrier of all, each with a put before it.
    fn barrier(&mut self, family: BarrierFamily) -> u64 {
        if self.rounds == 1 {
            self.fabric.set_barrier_family(JOB, family).expect("no barrier so far");
        }
        for from in 0..self.ports.len() {
            let (to, source) = (self.ports[7 - from], Source::Inline(&[1; 8]));
            self.post(from, Class::Put, Op::Write { to, place: heap(0), source, vc: Vc::Request, adaptive: false });
            self.post(from, Class::Sync, Op::Barrier { half: false });
        }
        self.run();
        1
    }

    fn reduce(&mut self) -> u64 {
        let reduce = ((self.rounds - 1) % 16) as u8;
        for from in 0..self.ports.len() {
            let (op, elem, source) = (ReduceOp::Sum, ReduceElem::I64, Source::Inline(&[1; 64]));
            let op = Op::Reduce { tree: 0, reduce, op, elem, to: None, place: heap(0), source };
            self.post(from, Class::Sync, op);
        }
        self.run();
        1
    }
}

/// 1/`part` of a case; operations.
fn simulate(live: bool, round: fn(&mut Network) -> u64, part: u64) -> u64 {
    let (mut network, mut operations) = (Network::new(live), 0);
    for _ in 0..ROUNDS / part {
        network.rounds += 1;
        operations += round(&mut network);
    }
    operations
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [what, name, part] = &words[..]
        && what == "simulate"
    {
        let (_, live, round, _) = CASES.iter().find(|c| c.0 == name).expect("one of the cases");
        println!("{}", simulate(*live, *round, part.parse().expect("a number")));
        return ExitCode::SUCCESS;
    }
    if !angara_callgrind::is_here() {
        println!("no valgrind here: instructions are not counted and no budget is checked");
        return ExitCode::SUCCESS;
    }
    let mut kept = true;
    for (name, _, _, budget) in CASES {
        print!("{name:<20}");
        kept &= angara_callgrind::keeps(name, budget);
    }
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
