//! Cost of a trunk compared with plain UDP: round trip, message rate and bandwidth between two busy threads.
//!
//! `cargo run --release -p angara-trunk --example pingpong [-- --engine auto|syscall|uring --address 127.0.0.1 --runs 7 --segment 8188]`
//! Each run measures floor and trunk in turn, and takes the median of many short intervals, so that turns in which
//! the other thread had to wait for a processor do not count. Printed are median, lowest and highest of the runs.

use angara_trunk::socket::floor::{self, Samples, Work, bind_to};
use angara_trunk::socket::{Socket, SocketKind};
use angara_trunk::{Association, Config, KeyRing};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const ECHO: u16 = 0;
const SINK: u16 = 1;
const MARK: u16 = 2;
const PATIENCE: Duration = Duration::from_secs(30);

struct Options {
    engine: SocketKind,
    address: IpAddr,
    runs: usize,
    /// Datagram size of the floor; the trunk finds its own.
    segment: usize,
}

fn options() -> Result<Options, String> {
    let mut options =
        Options { engine: SocketKind::Auto, address: IpAddr::from([127, 0, 0, 1]), runs: 7, segment: 8_188 };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().ok_or(format!("{name} needs a value"))?;
        match name.as_str() {
            "--engine" => options.engine = value.parse()?,
            "--address" => options.address = value.parse().map_err(|e| format!("{value}: {e}"))?,
            "--runs" => options.runs = value.parse().map_err(|e| format!("{value}: {e}"))?,
            "--segment" => options.segment = value.parse().map_err(|e| format!("{value}: {e}"))?,
            _ => return Err(format!("{name}: not an option; there are --engine, --address, --runs and --segment")),
        }
    }
    Ok(options)
}

/// One end of a trunk with its socket.
struct End {
    trunk: Association,
    socket: Box<dyn Socket>,
    peer: SocketAddr,
    batch: Vec<u8>,
    start: Instant,
}

impl End {
    fn turn(&mut self) {
        let (trunk, now) = (&mut self.trunk, self.start.elapsed());
        self.socket
            .recv(&mut |datagram| {
                let _ = trunk.handle_datagram(now, datagram);
            })
            .expect("receiving");
        trunk.handle_timeout(now);
    }

    fn flush(&mut self) {
        let now = self.start.elapsed();
        loop {
            self.batch.clear();
            let Some(segment) = self.trunk.poll_transmit(now, &mut self.batch) else { break };
            let _ = self.socket.send(self.peer, &self.batch, segment);
        }
    }

    /// Turns until the mark comes back.
    fn wait_for_record(&mut self) {
        let since = Instant::now();
        loop {
            self.flush();
            self.turn();
            if self.trunk.poll_record().is_some() {
                break;
            }
            assert!(since.elapsed() < PATIENCE, "no answer: {:?}", self.trunk.stats());
        }
    }

    fn serve(&mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            self.turn();
            while let Some((channel, record)) = self.trunk.poll_record() {
                if channel != SINK {
                    self.trunk.send(channel, &record).expect("answers fit");
                }
            }
            self.flush();
        }
    }

    /// Microseconds per echo.
    fn round_trip(&mut self, count: u32) -> f64 {
        let mut samples = Samples::new();
        for _ in 0..count {
            self.trunk.send(ECHO, &[1; 8]).expect("one at a time fits");
            self.wait_for_record();
            samples.lap();
        }
        samples.median() * 1e6
    }

    /// Records per second.
    fn stream(&mut self, size: usize, count: usize) -> f64 {
        let record = vec![7; size];
        // Long enough to hold several acknowledgements.
        let slice = (1 << 20) / (size + 4);
        let mut samples = Samples::new();
        let (mut sent, mut arrived) = (0, 0);
        while sent < count {
            while sent < count && self.trunk.backlog() < 1 << 20 {
                // As many as come together in one turn of a daemon.
                for _ in 0..32.min(count - sent) {
                    self.trunk.send(SINK, &record).expect("the backlog is watched");
                    sent += 1;
                }
                self.flush();
            }
            self.turn();
            self.flush();
            if sent - self.trunk.backlog() / (size + 4) >= arrived + slice {
                arrived += slice;
                samples.lap();
            }
            assert!(samples.last.elapsed() < PATIENCE, "stuck: {:?}", self.trunk.stats());
        }
        self.trunk.send(MARK, &[2; 8]).expect("room for a mark");
        self.wait_for_record();
        slice as f64 / samples.median()
    }
}

/// Microseconds; millions of 8-byte records, GB/s of 320-byte and 16 KiB records.
fn trunk_run(options: &Options) -> std::io::Result<[f64; 4]> {
    let start = Instant::now();
    let mut local = 0;
    let ends = floor::pair(options.engine, options.address)?.map(|(socket, peer)| {
        let keys = KeyRing::new(1, &[42; 32]).expect("a long key");
        let mut config = Config::new(local, 1 - local, [1; 16], keys, [local as u8; 32]);
        config.receive_window = config.receive_window.min(socket.receive_buffer()).max(256 << 10);
        local += 1;
        let trunk = Association::new(config, start.elapsed()).expect("a good configuration");
        End { trunk, socket, peer, batch: Vec::new(), start }
    });
    let [mut client, mut server] = ends;
    let stop = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        scope.spawn(|| {
            bind_to(1);
            server.serve(&stop);
        });
        bind_to(0);
        while !client.trunk.is_up() {
            client.turn();
            client.flush();
            assert!(start.elapsed() < PATIENCE, "no handshake");
        }
        client.round_trip(2_000);
        let result = [
            client.round_trip(10_000),
            client.stream(8, 1_000_000) / 1e6,
            client.stream(320, 500_000) * 320.0 / 1e9,
            client.stream(16 << 10, 20_000) * f64::from(16 << 10) / 1e9,
        ];
        stop.store(true, Ordering::Relaxed);
        result
    });
    if std::env::var_os("PINGPONG_STATS").is_some() {
        eprintln!("client {:?}\nserver {:?}", client.trunk.stats(), server.trunk.stats());
    }
    Ok(result)
}

fn print(name: &str, unit: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values[0], values[values.len() - 1]);
    println!("{name:<34} {:>8.2} {unit:<6} ({low:.2} .. {high:.2})", values[values.len() / 2]);
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = options()?;
    let (mut floors, mut trunks) = (Vec::new(), Vec::new());
    for _ in 0..options.runs.max(1) {
        let (engine, address) = (options.engine, options.address);
        let echo = floor::round_trip(engine, address)?;
        let relayed = floor::relayed(engine, address, Work::None)?;
        floors.push([echo, relayed, floor::bandwidth(engine, address, options.segment, Work::None)?]);
        trunks.push(trunk_run(&options)?);
    }
    print("UDP round trip, 8 B", "us", floors.iter().map(|f| f[0]).collect());
    print("the same between two more threads", "us", floors.iter().map(|f| f[1]).collect());
    print("trunk round trip, 8 B", "us", trunks.iter().map(|t| t[0]).collect());
    print("trunk rate, 8 B records", "M/s", trunks.iter().map(|t| t[1]).collect());
    let name = format!("UDP bandwidth, GSO + GRO, {} B", options.segment);
    print(&name, "GB/s", floors.iter().map(|f| f[2]).collect());
    print("trunk bandwidth, 320 B records", "GB/s", trunks.iter().map(|t| t[2]).collect());
    print("trunk bandwidth, 16 KiB records", "GB/s", trunks.iter().map(|t| t[3]).collect());
    Ok(())
}
