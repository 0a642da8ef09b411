//! Two associations over real sockets on this machine.

use angara_trunk::socket::{Socket, SocketKind, open};
use angara_trunk::{Association, Config, Event, Impairment, KeyRing};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

struct End {
    association: Association,
    socket: Box<dyn Socket>,
    peer: SocketAddr,
    out: Vec<u8>,
}

impl End {
    fn turn(&mut self, now: Duration) {
        let association = &mut self.association;
        self.socket
            .recv(&mut |datagram| {
                // Refused datagrams are counted, and the count is checked at the end.
                let _ = association.handle_datagram(now, datagram);
            })
            .unwrap();
        association.handle_timeout(now);
        loop {
            self.out.clear();
            let Some(segment) = association.poll_transmit(now, &mut self.out) else { break };
            // A full socket loses the batch, which the association survives.
            let _ = self.socket.send(self.peer, &self.out, segment);
        }
    }
}

fn pair(address: &str, kind: SocketKind) -> Option<[End; 2]> {
    let address: SocketAddr = address.parse().unwrap();
    let sockets = [open(address, kind), open(address, kind)];
    let [a, b] = match sockets {
        [Ok(a), Ok(b)] => [a, b],
        [Err(e), _] | [_, Err(e)] => {
            eprintln!("skipped: no socket on {address}: {e}");
            return None;
        }
    };
    let addresses = [a.local_addr(), b.local_addr()];
    let end = |local: u16, socket: Box<dyn Socket>, peer| {
        let keys = KeyRing::new(1, b"sixteen bytes or more").unwrap();
        let mut config = Config::new(local, 1 - local, [7; 16], keys, [local as u8; 32]);
        config.receive_window = config.receive_window.min(socket.receive_buffer().max(256 << 10));
        let association = Association::new(config, Duration::ZERO).unwrap();
        End { association, socket, peer, out: Vec::new() }
    };
    Some([end(0, a, addresses[1]), end(1, b, addresses[0])])
}

fn record(i: u32) -> Vec<u8> {
    let len = [0, 8, 100, 1_000, 65_535][i as usize % 5];
    let mut record = vec![i as u8; len];
    let head = len.min(4);
    record[..head].copy_from_slice(&i.to_le_bytes()[..head]);
    record
}

fn echo(address: &str, kind: SocketKind, what: Impairment) {
    const RECORDS: u32 = 2_000;
    let Some(mut ends) = pair(address, kind) else { return };
    ends.iter_mut().for_each(|e| e.association.impair(what));
    let start = Instant::now();
    let (mut sent, mut returned) = (0, 0);
    while returned < RECORDS {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "{returned} of {sent} are back: {:?}",
            ends[0].association.stats()
        );
        for end in &mut ends {
            end.turn(start.elapsed());
        }
        let [a, b] = &mut ends;
        while a.association.is_up() && sent < RECORDS && a.association.backlog() < 1 << 20 {
            a.association.send(sent as u16 % 3, &record(sent)).unwrap();
            sent += 1;
        }
        while b.association.backlog() < 1 << 20
            && let Some((channel, bytes)) = b.association.poll_record()
        {
            b.association.send(channel, &bytes).unwrap();
        }
        while let Some((channel, bytes)) = a.association.poll_record() {
            assert_eq!((channel, &bytes[..]), (returned as u16 % 3, &record(returned)[..]), "record {returned}");
            returned += 1;
        }
    }
    let begun = ends.each_mut().map(|e| e.association.poll_event());
    assert_eq!(begun, [Some(Event::Up { session: 1 }); 2]);
    for end in &mut ends {
        let stats = end.association.stats();
        if what == Impairment::default() {
            // Both ends open the session at once, so one handshake is left over.
            assert!(stats.refused.total() < 4, "{stats:?}");
            assert!(stats.mtu > 8_000, "loopback carries large datagrams: {stats:?}");
        } else {
            assert!(stats.refused.replay > 0 && stats.refused.tag > 0 && stats.retransmissions > 0, "{stats:?}");
        }
    }
}

#[test]
fn records_come_back_over_ipv4() {
    echo("127.0.0.1:0", SocketKind::Syscall, Impairment::default());
}

#[test]
fn records_come_back_over_ipv6() {
    echo("[::1]:0", SocketKind::Syscall, Impairment::default());
}

#[test]
fn records_come_back_through_io_uring() {
    echo("127.0.0.1:0", SocketKind::Uring, Impairment::default());
    echo("[::1]:0", SocketKind::Uring, Impairment::default());
}

#[test]
fn records_come_back_through_a_bad_line() {
    let what =
        Impairment { drop: 50_000, corrupt: 20_000, duplicate: 50_000, reorder: 50_000, ..Impairment::default() };
    let what = Impairment { seed: Some(1), ..what };
    echo("127.0.0.1:0", SocketKind::Syscall, what);
}

#[test]
fn there_is_always_an_engine() {
    echo("127.0.0.1:0", SocketKind::Auto, Impairment::default());
}

/// A socket of its own per peer, or one for all; to be woken by a datagram, by a doorbell, or by the time limit.
#[test]
fn a_sleeper_is_woken_by_datagrams_and_doorbells() {
    use rustix::event::{EventfdFlags, eventfd};
    let (soon, late) = (Duration::from_millis(2), Duration::from_secs(20));
    let doorbell = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    for (kind, connected) in [
        (SocketKind::Syscall, false),
        (SocketKind::Syscall, true),
        (SocketKind::Uring, false),
        (SocketKind::Uring, true),
    ] {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let (Ok(mut a), Ok(mut b)) = (open(any, kind), open(any, kind)) else {
            eprintln!("skipped: the kernel has no {kind:?}");
            continue;
        };
        let (from, to) = (a.local_addr(), b.local_addr());
        if connected {
            a.connect(&[to]).unwrap();
            b.connect(&[from]).unwrap();
            assert!(open(to, kind).is_err(), "two sockets with one address");
        }
        let mut stranger = open(any, kind).unwrap();
        for round in 0..50u8 {
            let what = format!("{kind:?}, connected {connected}, round {round}");
            assert_eq!(b.recv(&mut |_| panic!("nothing was sent")).unwrap(), 0);
            b.wait(doorbell.as_fd(), soon).unwrap();
            assert_eq!(b.recv(&mut |_| panic!("nothing was sent")).unwrap(), 0);
            for sender in [&mut a, &mut stranger] {
                sender.send(to, &[round; 2_500], 1_000).unwrap();
                let before = Instant::now();
                b.wait(doorbell.as_fd(), late).unwrap();
                assert!(before.elapsed() < late, "{what}: nothing has come");
                let mut sizes = Vec::new();
                while b.recv(&mut |datagram| sizes.push((datagram[0], datagram.len()))).unwrap() > 0 {}
                assert_eq!(sizes, [(round, 1_000), (round, 1_000), (round, 500)], "{what}");
            }
            rustix::io::write(&doorbell, &1u64.to_ne_bytes()).unwrap();
            let before = Instant::now();
            b.wait(doorbell.as_fd(), late).unwrap();
            assert!(before.elapsed() < late, "{what}: the doorbell was not heard");
            rustix::io::read(&doorbell, &mut [0; 8]).unwrap();
        }
    }
}
