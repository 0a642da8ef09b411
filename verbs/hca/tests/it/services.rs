//! What each service does, where all goes well and where not.

use crate::world::{BASE, RIGHTS, Side, World, send};
use angara_hca::*;

const LONG: u32 = 3000;

fn pattern(len: u32) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn one(all: &[Completion]) -> &Completion {
    assert_eq!(all.len(), 1, "{all:?}");
    &all[0]
}

/// On both ways that bytes go.
fn both(test: impl Fn(&mut World)) {
    for direct in [false, true] {
        test(&mut World::new(2, direct));
    }
}

#[test]
fn a_send_fills_a_receive_and_completes_at_both_ends() {
    both(|world| {
        for (transport, shared) in [(Transport::Rc, false), (Transport::Rc, true), (Transport::Uc, false)] {
            let (a, b) = world.connected(transport, shared);
            world.write(0, BASE, &pattern(LONG));
            world.receive(1, b, 5, BASE + 100, LONG + 1);
            world.post(0, a, 6, Operation::Send { imm: Some(77) }, BASE, LONG);
            world.settle();
            let sent = *one(&world.poll(0, a.send));
            assert_eq!((sent.wr_id, sent.status, sent.opcode), (6, Status::Success, Opcode::Send));
            let came = *one(&world.poll(1, b.receive));
            assert_eq!((came.wr_id, came.status, came.byte_len), (5, Status::Success, LONG));
            assert_eq!((came.imm, came.flags, came.src_qp), (77, flags::WITH_IMM, a.qp.0));
            assert_eq!(world.read(1, BASE + 100, LONG as usize), pattern(LONG));
        }
    });
}

#[test]
fn one_sided_operations_need_nothing_of_the_target() {
    both(|world| {
        let (a, b) = world.connected(Transport::Rc, false);
        world.write(0, BASE, &pattern(LONG));
        let key = b.region.key;
        world.post(0, a, 1, Operation::Write { at: BASE + 8000, key, imm: None }, BASE, LONG);
        world.post(0, a, 2, Operation::Read { at: BASE + 8000, key }, BASE + 20_000, LONG);
        world.post(0, a, 3, Operation::FetchAdd { at: BASE + 40_000, key, add: 5 }, BASE + 30_000, 8);
        world.post(0, a, 4, Operation::CompareSwap { at: BASE + 40_000, key, compare: 5, swap: 9 }, BASE + 30_008, 8);
        world.settle();
        let all = world.poll(0, a.send);
        assert_eq!(
            all.iter().map(|c| (c.wr_id, c.status)).collect::<Vec<_>>(),
            [1, 2, 3, 4].map(|n| (n, Status::Success))
        );
        assert_eq!(world.read(1, BASE + 8000, LONG as usize), pattern(LONG));
        assert_eq!(world.read(0, BASE + 20_000, LONG as usize), pattern(LONG));
        assert_eq!(world.read(0, BASE + 30_000, 16), [0u64.to_ne_bytes(), 5u64.to_ne_bytes()].concat());
        assert_eq!(world.read(1, BASE + 40_000, 8), 9u64.to_ne_bytes());
        assert!(world.poll(1, b.receive).is_empty());
    });
}

#[test]
fn a_send_waits_for_a_receive_as_long_as_it_tries() {
    both(|world| {
        let (a, b) = world.connected(Transport::Rc, true);
        world.post(0, a, 1, Operation::Send { imm: None }, BASE, LONG);
        world.post(0, a, 2, Operation::Write { at: BASE, key: b.region.key, imm: Some(3) }, BASE, 4);
        for _ in 0..100 {
            for hca in &mut world.adapters {
                hca.progress();
            }
        }
        assert!(world.poll(0, a.send).is_empty());
        world.receive(1, b, 7, BASE, LONG);
        world.receive(1, b, 8, BASE, 0);
        world.settle();
        assert_eq!(world.poll(0, a.send).iter().map(|c| c.wr_id).collect::<Vec<_>>(), [1, 2]);
        let came = world.poll(1, b.receive);
        assert_eq!(
            came.iter().map(|c| (c.wr_id, c.opcode)).collect::<Vec<_>>(),
            [(7, Opcode::Receive), (8, Opcode::ReceiveRdmaWithImm)]
        );
    });
}

#[test]
fn without_a_receive_the_retries_end() {
    both(|world| {
        let (a, b) = (world.side(0, Transport::Rc, false), world.side(1, Transport::Rc, false));
        world.ready(0, a, (1, b.qp), Transport::Rc, (7, 2));
        world.ready(1, b, (0, a.qp), Transport::Rc, (7, 2));
        world.post(0, a, 1, Operation::Send { imm: None }, BASE, 8);
        world.post(0, a, 2, Operation::Send { imm: None }, BASE, 8);
        world.settle();
        let all = world.poll(0, a.send);
        assert_eq!(
            all.iter().map(|c| (c.wr_id, c.status)).collect::<Vec<_>>(),
            [(1, Status::RnrRetryExceeded), (2, Status::Flushed)]
        );
        // The code 12 says 0.64 ms; it is tried three times in all.
        let now = world.shared.borrow().now;
        assert!((1_280_000..10_000_000).contains(&now), "{now}");
    });
}

#[test]
fn who_is_not_ready_or_has_left_ends_in_an_error_within_the_retry_time() {
    both(|world| {
        let (a, b) = (world.side(0, Transport::Rc, false), world.side(1, Transport::Rc, false));
        world.ready(0, a, (1, b.qp), Transport::Rc, (3, 7));
        world.post(0, a, 1, Operation::Write { at: BASE, key: b.region.key, imm: None }, BASE, 8);
        world.settle();
        assert_eq!(one(&world.poll(0, a.send)).status, Status::RetryExceeded);
        let now = world.shared.borrow().now;
        assert!((200_000_000..400_000_000).contains(&now), "3 times 67 ms, not {now}");

        let (a, b) = world.connected(Transport::Rc, false);
        world.post(0, a, 1, Operation::Send { imm: None }, BASE, 8);
        world.adapters[0].progress();
        world.lose(1);
        world.settle();
        assert_eq!(one(&world.poll(0, a.send)).status, Status::RetryExceeded);
        let _ = b;
    });
}

#[test]
fn what_a_peer_may_not_do_fails_at_both_ends_and_changes_nothing() {
    both(|world| {
        let key = |world: &mut World, b: &crate::world::Side, rights| {
            world.adapters[1].register(b.pd, BASE, 4096, BASE, rights).expect("region").key
        };
        for case in 0..5 {
            let (a, b) = world.connected(Transport::Rc, false);
            world.write(0, BASE, &[1; 16]);
            world.write(1, BASE, &[0; 16]);
            let read_only = key(world, &b, access::REMOTE_READ);
            let gone = key(world, &b, access::LOCAL_WRITE | access::REMOTE_WRITE);
            world.adapters[1].deregister(gone).expect("it was there");
            let (operation, status) = match case {
                0 => (Operation::Write { at: BASE, key: read_only, imm: None }, Status::RemoteAccess),
                1 => (Operation::Write { at: BASE, key: gone, imm: None }, Status::RemoteAccess),
                2 => (Operation::Write { at: BASE - 1, key: b.region.key, imm: None }, Status::RemoteAccess),
                3 => (Operation::FetchAdd { at: BASE, key: read_only, add: 1 }, Status::RemoteAccess),
                _ => (Operation::FetchAdd { at: BASE + 4, key: b.region.key, add: 1 }, Status::RemoteInvalidRequest),
            };
            world.receive(1, b, 9, BASE, 8);
            world.post(0, a, 1, operation, BASE, 8);
            world.post(0, a, 2, Operation::Send { imm: None }, BASE, 8);
            world.settle();
            let all = world.poll(0, a.send);
            assert_eq!(all.iter().map(|c| c.status).collect::<Vec<_>>(), [status, Status::Flushed], "case {case}");
            assert_eq!(one(&world.poll(1, b.receive)).status, Status::Flushed);
            assert_eq!(world.read(1, BASE, 16), [0; 16], "case {case}");
            let events = world.adapters[1].take_events();
            let event = if case == 4 { PairEvent::InvalidRequest } else { PairEvent::Access };
            assert!(events.contains(&Event::Pair(b.qp, event)), "{events:?}");
        }
    });
}

#[test]
fn a_message_longer_than_its_receive_fails_at_both_ends() {
    both(|world| {
        let (a, b) = world.connected(Transport::Rc, false);
        world.receive(1, b, 9, BASE, 8);
        world.post(0, a, 1, Operation::Send { imm: None }, BASE, 9);
        world.settle();
        assert_eq!(one(&world.poll(0, a.send)).status, Status::RemoteInvalidRequest);
        assert_eq!(one(&world.poll(1, b.receive)).status, Status::LocalLength);
    });
}

#[test]
fn datagrams_come_with_a_header_or_are_dropped() {
    both(|world| {
        let (a, b) = (world.side(0, Transport::Ud, false), world.side(1, Transport::Ud, false));
        world.ready(0, a, (1, b.qp), Transport::Ud, (0, 0));
        world.ready(1, b, (0, a.qp), Transport::Ud, (0, 0));
        world.write(0, BASE, &pattern(100));
        let to = PathAttributes { dlid: address::lid(1), port: 1, ..PathAttributes::default() };
        let operation = |qkey| Operation::Datagram { to, qp: b.qp.0, qkey, imm: Some(4) };
        world.post(0, a, 1, operation(7), BASE, 100);
        world.settle();
        world.receive(1, b, 9, BASE, 140);
        world.post(0, a, 2, operation(8), BASE, 100);
        world.post(0, a, 3, operation(7), BASE, 100);
        world.settle();
        assert_eq!(world.poll(0, a.send).len(), 3);
        let came = *one(&world.poll(1, b.receive));
        assert_eq!((came.wr_id, came.byte_len, came.src_qp, came.imm), (9, 140, a.qp.0, 4));
        assert_eq!(came.slid, address::lid(0));
        assert_eq!(world.read(1, BASE + 40, 100), pattern(100));
    });
}

#[test]
fn a_place_in_the_send_queue_is_free_when_its_completion_is_polled() {
    let mut world = World::new(2, true);
    let (a, b) = world.connected(Transport::Rc, false);
    let write = |id, signaled| {
        let operation = Operation::Write { at: BASE, key: b.region.key, imm: None };
        SendRequest { signaled, ..send(a, id, operation, BASE, 4) }
    };
    for id in 0..64 {
        world.adapters[0].post_send(a.qp, write(id, id % 16 == 15)).expect("room");
    }
    world.settle();
    assert_eq!(world.adapters[0].post_send(a.qp, write(64, true)), Err(Errno::NOMEM));
    let mut polled = 0;
    world.adapters[0].poll(a.send, 1, &mut |_| polled += 1).expect("a queue");
    for id in 0..16 {
        world.adapters[0].post_send(a.qp, write(id, false)).expect("16 places");
    }
    assert_eq!(world.adapters[0].post_send(a.qp, write(64, true)), Err(Errno::NOMEM));
}

#[test]
fn an_armed_queue_tells_once() {
    let mut world = World::new(2, false);
    let (a, b) = world.connected(Transport::Rc, false);
    world.adapters[1].arm(b.receive, true).expect("a queue");
    for id in 0..3 {
        world.receive(1, b, id, BASE, 8);
        let request = SendRequest { solicited: id > 0, ..send(a, id, Operation::Send { imm: None }, BASE, 8) };
        world.adapters[0].post_send(a.qp, request).expect("posted");
        world.settle();
        let told = world.adapters[1].take_events().contains(&Event::Completion { channel: 2, cq: b.receive });
        assert_eq!(told, id == 1);
    }
}

#[test]
fn a_write_whose_first_parts_were_dropped_is_written_whole() {
    let len = 1500;
    let mut world = World::new(2, false);
    let (a, b) = (world.side(0, Transport::Rc, false), world.side(1, Transport::Rc, false));
    world.ready(0, a, (1, b.qp), Transport::Rc, (7, 7));
    world.write(0, BASE, &pattern(len));
    world.post(0, a, 1, Operation::Write { at: BASE, key: b.region.key, imm: None }, BASE, len);
    // The target is not ready yet when the first parts come, and is when the others do.
    world.shared.borrow_mut().burst = Some(2);
    world.adapters[1].progress();
    world.shared.borrow_mut().burst = None;
    world.ready(1, b, (0, a.qp), Transport::Rc, (7, 7));
    world.settle();
    assert_eq!(one(&world.poll(0, a.send)).status, Status::Success);
    assert_eq!(world.read(1, BASE, len as usize), pattern(len));
}

#[test]
fn an_unreliable_pair_goes_on_where_nobody_is_ready() {
    both(|world| {
        let (a, b) = (world.side(0, Transport::Uc, false), world.side(1, Transport::Uc, false));
        world.ready(0, a, (1, b.qp), Transport::Uc, (0, 0));
        for id in 0..3 {
            world.post(0, a, id, Operation::Send { imm: None }, BASE, LONG);
        }
        world.settle();
        assert_eq!(world.poll(0, a.send).iter().filter(|c| c.status == Status::Success).count(), 3);
    });
}

#[test]
fn nothing_is_written_to_a_region_that_was_deregistered() {
    for read in [false, true] {
        let mut world = World::new(2, false);
        let (a, b) = world.connected(Transport::Rc, false);
        let (own, target) = if read { (0, a) } else { (1, b) };
        let gone = world.adapters[own].register(target.pd, BASE + 9000, 4096, BASE + 9000, RIGHTS).expect("region");
        world.write(1 - own as u32, BASE, &pattern(LONG));
        let place = Side { region: gone, ..target };
        match read {
            true => world.post(0, place, 1, Operation::Read { at: BASE, key: b.region.key }, BASE + 9000, LONG),
            false => {
                world.receive(1, place, 2, BASE + 9000, LONG);
                world.post(0, a, 1, Operation::Send { imm: None }, BASE, LONG);
            }
        }
        // Some parts have come.
        world.adapters[1].progress();
        world.adapters[0].progress();
        world.adapters[own].deregister(gone.key).expect("it was there");
        let then = world.read(own as u32, BASE + 9000, 4096);
        assert_ne!(then[..100], [0; 100]);
        world.settle();
        assert_eq!(world.read(own as u32, BASE + 9000, 4096), then);
        let status = if read { Status::LocalProtection } else { Status::RemoteOperation };
        assert_eq!(one(&world.poll(0, a.send)).status, status);
    }
}

#[test]
fn late_messages_of_a_connection_are_not_taken_for_the_next_ones() {
    let mut world = World::new(2, false);
    let (a, b) = world.connected(Transport::Rc, false);
    world.receive(1, b, 1, BASE, 100);
    world.post(0, a, 1, Operation::Send { imm: Some(1) }, BASE, 8);
    // Nobody has looked at it when both begin anew.
    for (seat, side, to) in [(0, a, (1, b.qp)), (1, b, (0, a.qp))] {
        world.again(seat, side, to, if seat == 0 { (500, 9000) } else { (9000, 500) });
    }
    world.receive(1, b, 2, BASE, 100);
    world.post(0, a, 2, Operation::Send { imm: Some(2) }, BASE, 8);
    world.settle();
    assert_eq!(one(&world.poll(0, a.send)).wr_id, 2);
    let came = *one(&world.poll(1, b.receive));
    assert_eq!((came.wr_id, came.imm), (2, 2));
}

#[test]
fn a_request_that_finds_no_room_for_too_long_fails() {
    let mut world = World::new(2, false);
    let (a, b) = world.connected(Transport::Rc, false);
    let (c, _) = world.connected(Transport::Rc, false);
    // The peer is there, but looks at nothing.
    world.post(0, a, 1, Operation::Write { at: BASE, key: b.region.key, imm: None }, BASE, LONG);
    world.post(0, c, 2, Operation::Write { at: BASE, key: b.region.key, imm: None }, BASE, LONG);
    for _ in 0..1000 {
        world.shared.borrow_mut().now += 10_000_000;
        world.adapters[0].progress();
    }
    assert_eq!(one(&world.poll(0, a.send)).status, Status::RetryExceeded);
    assert_eq!(one(&world.poll(0, c.send)).status, Status::RetryExceeded);
}

#[test]
fn a_pair_may_be_connected_to_itself() {
    both(|world| {
        let a = world.side(0, Transport::Rc, false);
        world.ready(0, a, (0, a.qp), Transport::Rc, (7, 7));
        world.write(0, BASE, &pattern(LONG));
        world.receive(0, a, 1, BASE + 4000, LONG);
        world.receive(0, a, 2, BASE + 8000, LONG);
        let key = a.region.key;
        world.post(0, a, 3, Operation::Send { imm: None }, BASE, LONG);
        world.post(0, a, 4, Operation::Write { at: BASE + 12_000, key, imm: Some(5) }, BASE, LONG);
        world.post(0, a, 5, Operation::Read { at: BASE + 12_000, key }, BASE + 16_000, LONG);
        world.post(0, a, 6, Operation::FetchAdd { at: BASE + 20_000, key, add: 1 }, BASE + 20_008, 8);
        world.settle();
        let sent = world.poll(0, a.send);
        assert_eq!(
            sent.iter().map(|c| (c.wr_id, c.status)).collect::<Vec<_>>(),
            [3, 4, 5, 6].map(|n| (n, Status::Success))
        );
        assert_eq!(world.poll(0, a.receive).iter().map(|c| c.wr_id).collect::<Vec<_>>(), [1, 2]);
        for at in [4000, 12_000, 16_000] {
            assert_eq!(world.read(0, BASE + at, LONG as usize), pattern(LONG));
        }
    });
}

#[test]
fn events_of_shared_queues_and_draining_come_once() {
    both(|world| {
        let (a, b) = world.connected(Transport::Rc, true);
        let srq = b.srq.expect("shared");
        for id in 0..4 {
            world.receive(1, b, id, BASE, LONG);
        }
        world.adapters[1].modify_srq(srq, None, Some(3)).expect("a limit");
        for id in 0..3 {
            world.post(0, a, id, Operation::Send { imm: None }, BASE, LONG);
        }
        world.settle();
        let events = world.adapters[1].take_events();
        assert_eq!(events.iter().filter(|event| **event == Event::SrqLimit(srq)).count(), 1, "{events:?}");
        // Draining: what has begun ends first, what is posted then waits.
        world.receive(1, b, 9, BASE, LONG);
        world.receive(1, b, 10, BASE, LONG);
        world.post(0, a, 3, Operation::Send { imm: None }, BASE, LONG);
        let hca = &mut world.adapters[0];
        let to = Attributes { state: 4, sqd_async_notify: true, ..Attributes::default() };
        hca.modify_qp(a.qp, mask::STATE | mask::EN_SQD_ASYNC_NOTIFY, &to).expect("drains");
        world.post(0, a, 4, Operation::Send { imm: None }, BASE, 8);
        world.settle();
        let drained = Event::Pair(a.qp, PairEvent::SendQueueDrained);
        assert_eq!(world.adapters[0].take_events().iter().filter(|event| **event == drained).count(), 1);
        assert_eq!(world.poll(0, a.send).len(), 4);
        let to = Attributes { state: 3, ..Attributes::default() };
        world.adapters[0].modify_qp(a.qp, mask::STATE, &to).expect("goes on");
        world.settle();
        assert_eq!(one(&world.poll(0, a.send)).wr_id, 4);
        // Whoever uses a shared queue is told that it takes nothing more of it.
        let to = Attributes { state: 6, ..Attributes::default() };
        for _ in 0..2 {
            world.adapters[1].modify_qp(b.qp, mask::STATE, &to).expect("fails");
        }
        let events = world.adapters[1].take_events();
        let last = Event::Pair(b.qp, PairEvent::LastRequestReached);
        assert_eq!(events.iter().filter(|event| **event == last).count(), 1, "{events:?}");
    });
}

#[test]
fn a_queue_without_room_tells_once_and_keeps_what_it_has() {
    let mut world = World::new(2, false);
    let (a, b) = world.connected(Transport::Rc, false);
    world.adapters[0].resize_cq(a.send, 2).expect("smaller");
    for id in 0..4 {
        world.post(0, a, id, Operation::Write { at: BASE, key: b.region.key, imm: None }, BASE, 8);
    }
    world.settle();
    assert_eq!(world.adapters[0].take_events(), [Event::CqError(a.send)]);
    assert_eq!(world.poll(0, a.send).iter().map(|c| c.wr_id).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn a_poll_has_what_it_has_ended_itself() {
    let mut world = World::new(2, false);
    let (a, b) = world.connected(Transport::Rc, false);
    world.post(0, a, 1, Operation::Write { at: BASE, key: b.region.key, imm: None }, BASE, 8);
    world.lose(1);
    // Not every look asks for the time, and a peer that has left may have answered before.
    let mut poll = || {
        world.shared.borrow_mut().now += 50_000_000;
        world.poll(0, a.send)
    };
    let found = (0..100).map(|_| poll()).find(|found| !found.is_empty()).unwrap_or_default();
    assert_eq!(one(&found).status, Status::RetryExceeded);
}

#[test]
fn a_pair_may_have_rights_for_requests_that_nobody_can_make() {
    let mut world = World::new(1, false);
    let side = world.side(0, Transport::Rc, false);
    let mut change =
        |access| world.adapters[0].modify_qp(side.qp, mask::ACCESS, &Attributes { access, ..Attributes::default() });
    assert_eq!(change(access::LOCAL_WRITE | access::REMOTE_READ | access::FLUSH), Ok(()));
    assert_eq!(change(1 << 15), Err(Errno::INVAL));
}

#[test]
fn what_an_adapter_hears_from_itself_is_no_silence() {
    let mut world = World::new(1, false);
    let (a, b) = (world.side(0, Transport::Rc, false), world.side(0, Transport::Rc, false));
    world.ready(0, a, (0, b.qp), Transport::Rc, (7, 7));
    world.ready(0, b, (0, a.qp), Transport::Rc, (7, 7));
    for id in 0..10 {
        world.post(0, a, id, Operation::Read { at: BASE, key: b.region.key }, BASE, 200_000);
    }
    // All together takes longer than a silence may.
    for _ in 0..1000 {
        world.shared.borrow_mut().now += 500_000_000;
        world.adapters[0].progress();
    }
    let done = world.poll(0, a.send);
    assert_eq!(done.len(), 10);
    assert!(done.iter().all(|done| done.status == Status::Success), "{done:?}");
}
