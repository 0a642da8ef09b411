//! An endpoint that sends to itself, in a job of one PE without a daemon.

use super::fault::Fault;
use super::objects::*;
use super::peers::in_the_way;
use super::*;
use crate::abi::constants::*;
use crate::address::Name;
use crate::memory::UserMemory;
use crate::wire::Remote;
use angara::Job;
use angara::mailbox::{Mailbox, Peer};
use std::sync::Arc;

struct Alone {
    provider: Provider,
    ep: u32,
    queue: u32,
    domain: u32,
    /// The address of the endpoint.
    me: u64,
}

impl Alone {
    fn new() -> Alone {
        let job = Arc::new(Job::solo(64 << 20, &[]).expect("a job of one PE"));
        let len = Mailbox::bytes(1).next_multiple_of(4096);
        let at = job.locate(job.heap(), job.heap_len()).expect("the heap");
        let mailbox = Mailbox::open(job.clone(), at).expect("a mailbox");
        let tables = len + Names::BYTES;
        let (names, front) = (Names::new(at.offset + len as u64), tables + TABLES as usize);
        let window = Window::new(at.offset + front as u64, job.heap_len() - front);
        let mut provider = Provider::new(job, mailbox, 1, (names, at.offset + tables as u64), window);
        let state = &mut provider.state;
        let domain = state.objects.domains.insert(Domain::default());
        let queue = state.objects.queues.insert(Queue::default());
        let mut endpoint = Endpoint::new(domain, true);
        (endpoint.tx, endpoint.rx) =
            (Some(Binding { queue, selective: true }), Some(Binding { queue, selective: false }));
        endpoint.enabled = true;
        let ep = state.objects.eps.insert(endpoint);
        let mut av = Addresses::default();
        let me = av.insert(Target { peer: state.here.me, ep, source: state.peers.sources.number(state.here.me, ep) });
        let av = state.objects.avs.insert(av);
        state.objects.eps.get_mut(ep).expect("it is open").av = Some(av);
        Alone { provider, ep, queue, domain, me }
    }

    fn send(&mut self, bytes: &[u8], tag: Option<u64>, flags: u64) -> Outcome {
        let memory = UserMemory::owned(bytes.into());
        let call = SendCall { memory, to: self.me, tag, data: None, context: 1, flags, silent: false };
        self.provider.send(self.ep, call)
    }

    /// Posts a receive into memory that the caller keeps.
    fn receive(&mut self, memory: &UserMemory, tag: Option<u64>, context: usize, flags: u64) -> Outcome {
        let tagged = tag.map(|tag| Tagged { tag, ignore: 0 });
        let memory = memory.part(0, memory.len());
        self.provider.receive(self.ep, Receive { memory, from: self.me, tagged, context, flags })
    }

    /// Returns what is under way, as it is said when somebody asks.
    fn waits(&self) -> String {
        self.provider.state.under_way().in_words().unwrap_or_default()
    }

    fn progress(&mut self) {
        for _ in 0..50 {
            self.provider.progress();
        }
    }

    fn queue(&mut self) -> &mut Queue {
        self.provider.state.objects.queues.get_mut(self.queue).expect("it is open")
    }
}

/// Each answer goes out with its receive, not when nothing is left to receive.
#[test]
fn whoever_sent_a_message_that_waited_is_told_when_it_is_received() {
    let mut alone = Alone::new();
    let large = vec![5; 100_000];
    for (bytes, flags) in [(&large[..], COMPLETION), (&large[..8], COMPLETION | MATCH_COMPLETE)] {
        alone.send(bytes, Some(1), flags).expect("it is sent");
        alone.progress();
        let memory = room(bytes.len());
        alone.receive(&memory, Some(1), 2, 0).expect("it is received");
        // A large message to oneself may go through the window, which takes some looks.
        for _ in 0..50 {
            if alone.queue().ready.is_empty() {
                alone.provider.progress();
            }
        }
        assert_eq!(alone.provider.unsent(), 0);
        alone.progress();
        let ended: Vec<usize> = alone.queue().ready.drain(..).map(|done| done.context).collect();
        assert_eq!(ended, [2, 1], "the receive and the send");
    }
}

/// A message counts as delivered when the endpoint has taken it, even if the program does not want it yet.
#[test]
fn a_message_is_delivered_without_a_receive_and_matched_by_one() {
    for (flags, ended_before) in [(DELIVERY_COMPLETE, &[1][..]), (MATCH_COMPLETE, &[])] {
        for len in [0, 200, 16_000] {
            let mut alone = Alone::new();
            let ended = |alone: &mut Alone| -> Vec<usize> {
                alone.progress();
                alone.queue().ready.drain(..).map(|done| done.context).collect()
            };
            alone.send(&pattern(len), Some(1), COMPLETION | flags).expect("it is sent");
            assert!(alone.queue().ready.is_empty(), "the peer has not looked");
            assert_eq!(ended(&mut alone), ended_before, "{len} bytes, {flags:#x}");
            let memory = room(len);
            alone.receive(&memory, Some(1), 2, 0).expect("it is received");
            let mut all = [ended_before, &ended(&mut alone)[..]].concat();
            all.sort_unstable();
            assert_eq!(all, [1, 2], "{len} bytes, {flags:#x}");
            assert!(bytes(&memory) == pattern(len) && alone.provider.state.requests.len() == 0);
        }
    }
}

#[test]
fn a_match_that_an_endpoint_waits_with_fails_when_that_is_closed() {
    let mut alone = Alone::new();
    let (other, to) = disabled(&mut alone);
    alone.provider.enable(other);
    for (context, flags) in [(1, MATCH_COMPLETE), (2, DELIVERY_COMPLETE)] {
        let memory = UserMemory::owned(pattern(30).into());
        let flags = flags | COMPLETION;
        let call = SendCall { memory, to, tag: None, data: None, context, flags, silent: false };
        alone.provider.send(alone.ep, call).expect("sent");
    }
    alone.progress();
    alone.provider.close_endpoint(other);
    alone.progress();
    let failed: Vec<_> = alone.queue().failed.drain(..).map(|f| (f.done.context, f.fault.error)).collect();
    let ended: Vec<usize> = alone.queue().ready.drain(..).map(|done| done.context).collect();
    assert_eq!((failed, ended), (vec![(1, errno::ECONNREFUSED)], vec![2]));
}

fn room(len: usize) -> UserMemory {
    UserMemory::owned(vec![0; len].into_boxed_slice())
}

fn bytes(memory: &UserMemory) -> Vec<u8> {
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes);
    bytes
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn messages_of_any_size_arrive_whether_they_are_awaited_or_not() {
    let mut alone = Alone::new();
    for len in [0, 1, 240, 4096, 16300, 16384, 300_000] {
        for early in [false, true] {
            let (sent, memory) = (pattern(len), room(len));
            if early {
                alone.receive(&memory, Some(9), 5, 0).expect("posted");
            }
            // The payload of a long message stays with the sender: it has to live.
            let source = UserMemory::owned(sent.clone().into());
            let part = source.part(0, len);
            let call = SendCall {
                memory: part,
                to: alone.me,
                tag: Some(9),
                data: Some(3),
                context: 1,
                flags: 0,
                silent: false,
            };
            alone.provider.send(alone.ep, call).expect("sent");
            alone.progress();
            if !early {
                alone.receive(&memory, Some(9), 5, 0).expect("posted");
                alone.progress();
            }
            let done = alone.queue().ready.pop_front().expect("a completion");
            assert_eq!((done.context, done.len, done.tag, done.data, done.source), (5, len, 9, 3, alone.me), "{len}");
            assert_eq!(done.flags, RECV | TAGGED | REMOTE_CQ_DATA);
            assert!(bytes(&memory) == sent, "{len} bytes, {early}");
            assert!(alone.queue().ready.is_empty(), "sends are reported only where that is asked for");
        }
    }
    assert_eq!((alone.provider.state.offers.all.len(), alone.provider.state.fetches.len()), (0, 0));
}

#[test]
fn errors_are_reported_with_what_did_not_fit() {
    let mut alone = Alone::new();
    let memory = room(10);
    alone.receive(&memory, None, 5, 0).expect("posted");
    alone.send(&pattern(25), None, COMPLETION).expect("sent");
    alone.progress();
    let failed = alone.queue().failed.pop_front().expect("an error");
    assert_eq!((failed.fault.error, failed.excess, failed.done.len, failed.done.context), (errno::ETRUNC, 15, 10, 5));
    assert_eq!(bytes(&memory), pattern(10));
    assert_eq!(alone.queue().ready.pop_front().map(|done| done.flags), Some(SEND | MSG));
    alone.receive(&memory, Some(1), 6, 0).expect("posted");
    assert_eq!(alone.provider.cancel(alone.ep, 6), Ok(()));
    assert_eq!(alone.provider.cancel(alone.ep, 6), Err(errno::ENOENT));
    assert_eq!(alone.queue().failed.pop_front().map(|failed| failed.fault.error), Some(errno::ECANCELED));
    assert_eq!(alone.send(&[], None, 1 << 40), Err(errno::EBADFLAGS));
    let to = alone.me + 1;
    let call = SendCall { memory: room(0), to, tag: None, data: None, context: 1, flags: 0, silent: false };
    assert_eq!(alone.provider.send(alone.ep, call), Err(errno::EINVAL), "nobody has that address");
}

#[test]
fn a_buffer_for_several_messages_is_given_back_once() {
    let mut alone = Alone::new();
    let memory = room(200);
    alone.receive(&memory, None, 8, MULTI_RECV).expect("posted");
    for part in pattern(180).chunks(60) {
        alone.send(part, None, 0).expect("sent");
    }
    alone.progress();
    let done: Vec<Done> = alone.queue().ready.drain(..).collect();
    assert_eq!(done.iter().map(|d| d.len).collect::<Vec<_>>(), [60, 60, 60]);
    assert_eq!(done.iter().map(|d| d.flags & MULTI_RECV != 0).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(done.iter().map(|d| d.buf - memory.address()).collect::<Vec<_>>(), [0, 60, 120]);
    assert_eq!(bytes(&memory)[..180], pattern(180));
    assert_eq!(alone.provider.state.objects.multis.len(), 0);
}

#[test]
fn a_look_keeps_or_drops_what_it_sees() {
    let mut alone = Alone::new();
    let memory = room(5);
    alone.receive(&memory, Some(4), 7, PEEK).expect("looked");
    assert_eq!(alone.queue().failed.pop_front().map(|failed| failed.fault.error), Some(errno::ENOMSG));
    alone.send(b"abcde", Some(4), 0).expect("sent");
    alone.send(b"fghij", Some(4), 0).expect("sent");
    alone.receive(&memory, Some(4), 7, PEEK | CLAIM).expect("claimed");
    assert_eq!(alone.queue().ready.pop_front().map(|done| done.len), Some(5));
    alone.receive(&memory, Some(4), 8, PEEK | DISCARD).expect("dropped");
    assert_eq!(alone.queue().ready.pop_front().map(|done| done.context), Some(8));
    alone.receive(&memory, Some(4), 7, CLAIM).expect("received");
    assert_eq!(bytes(&memory), b"abcde");
    assert_eq!(alone.provider.state.objects.eps.get(alone.ep).map(|ep| ep.held), Some(0));
}

#[test]
fn who_never_receives_keeps_bounded_memory_and_loses_nothing() {
    let mut alone = Alone::new();
    let (len, mut sent) = (16_000, 0usize);
    let source = UserMemory::owned(pattern(len).into());
    // More than an endpoint holds, and then many that wait at their sender.
    while alone.provider.state.offers.all.len() < 20_000 {
        let (memory, me) = (source.part(0, len), alone.me);
        let call = SendCall { memory, to: me, tag: Some(sent as u64), data: None, context: 1, flags: 0, silent: false };
        match alone.provider.send(alone.ep, call) {
            Ok(()) => sent += 1,
            Err(e) => assert_eq!(e, errno::EAGAIN),
        }
        alone.provider.progress();
    }
    let held = alone.provider.state.objects.eps.get(alone.ep).map_or(0, |ep| ep.held);
    assert!(held <= HELD_MAX + (1 << 20), "{held} bytes are kept");
    let memory = room(len);
    for tag in (0..sent).rev() {
        alone.receive(&memory, Some(tag as u64), tag, 0).expect("posted");
        while alone.queue().ready.is_empty() {
            alone.provider.progress();
        }
        assert_eq!(alone.queue().ready.pop_front().map(|done| (done.context, done.len)), Some((tag, len)));
    }
    // The fetched messages are reported through a ring with room for a few.
    (0..200).for_each(|_| alone.progress());
    assert_eq!(alone.provider.state.offers.all.len(), 0);
    assert!(alone.provider.state.peers.all[0].xoff.is_empty(), "payload is taken again");
}

#[test]
fn what_was_injected_is_kept_a_million_times_and_reads_go_on_beside_that() {
    let mut alone = Alone::new();
    // The receiver has said that it takes no payload any more.
    let (me, ep) = (alone.provider.state.here.me, alone.ep);
    alone.provider.state.peers.all[me.seat as usize].xoff.push(ep);
    let mut sent = 0;
    loop {
        match alone.send(&[7; 1], Some(sent), INJECT) {
            Ok(()) => sent += 1,
            Err(e) => {
                assert_eq!((e, alone.provider.state.offers.copied), (errno::EAGAIN, 2 << 30));
                break;
            }
        }
        alone.provider.progress();
    }
    let (memory, back) = (room(50_000), room(50_000));
    let all = Registered {
        memory: memory.part(0, 50_000),
        access: REMOTE_READ,
        by_address: false,
        counters: Vec::new(),
        exposure: Exposure::default(),
    };
    alone.provider.state.objects.domains.get_mut(alone.domain).expect("it is open").keys.insert(77, all);
    let remotes = vec![Remote { addr: 0, len: 50_000, key: 77 }];
    let to = alone.me;
    let read = Access { memory: back, to, remotes, data: None, context: 2, flags: COMPLETION, silent: false };
    alone.provider.read(alone.ep, read).expect("begun");
    alone.progress();
    assert_eq!(alone.queue().ready.pop_front().map(|done| done.context), Some(2), "{:?}", alone.queue().failed);
    // One that is received makes room for one more.
    alone.receive(&memory, Some(0), 5, 0).expect("posted");
    alone.progress();
    assert_eq!(alone.queue().ready.pop_front().map(|done| (done.context, done.len)), Some((5, 1)));
    assert_eq!(alone.send(&[7; 1], Some(sent), INJECT), Ok(()));
    // They stay for receivers. The only one closes too, and takes none of them.
    let mut kept = alone.provider.close_endpoint(ep);
    assert!(kept.len() == 1 << 20 && alone.provider.keeps(&mut kept), "{}", kept.len());
    while alone.provider.keeps(&mut kept) {
        alone.provider.progress();
    }
    assert_eq!((alone.provider.state.offers.copied, alone.provider.state.offers.all.len()), (0, 0));
}

#[test]
fn registered_memory_is_written_read_and_changed() {
    let mut alone = Alone::new();
    let counter = alone.provider.state.objects.counters.insert(Counter::default());
    let (memory, access) = (room(100_000), REMOTE_READ | REMOTE_WRITE);
    let registered = Registered {
        memory: memory.part(0, 100_000),
        access,
        by_address: false,
        counters: vec![(counter, REMOTE_WRITE)],
        exposure: Exposure::default(),
    };
    alone.provider.state.objects.domains.get_mut(alone.domain).expect("it is open").keys.insert(77, registered);
    let call = |alone: &Alone, memory: UserMemory, addr: u64, key: u64| {
        let remotes = vec![Remote { addr, len: memory.len() as u64, key }];
        Access { memory, to: alone.me, remotes, data: None, context: 2, flags: COMPLETION, silent: false }
    };
    for len in [8, 10_000, 90_000] {
        let (source, back) = (UserMemory::owned(pattern(len).into()), room(len));
        let write = call(&alone, source.part(0, len), 5, 77);
        alone.provider.write(alone.ep, write).expect("written");
        alone.progress();
        let read = call(&alone, back.part(0, len), 5, 77);
        alone.provider.read(alone.ep, read).expect("read");
        alone.progress();
        assert!(bytes(&back) == pattern(len), "{len}");
        let flags: Vec<u64> = alone.queue().ready.drain(..).map(|done| done.flags).collect();
        assert_eq!(flags, [RMA | WRITE, RMA | READ]);
    }
    assert_eq!(alone.provider.state.objects.counters.get(counter).map(|counter| counter.value), Some(3));
    for (addr, key, error) in [(0, 78, errno::ENOKEY), (99_999, 77, errno::EFAULT)] {
        let write = call(&alone, room(2), addr, key);
        alone.provider.write(alone.ep, write).expect("sent");
        alone.progress();
        assert_eq!(alone.queue().failed.pop_front().map(|failed| failed.fault.error), Some(error));
    }
    memory.write(0, &40u64.to_ne_bytes());
    let (operand, result) = (UserMemory::owned(Box::new(2u64.to_ne_bytes())), room(8));
    let access = call(&alone, operand, 0, 77);
    let add =
        AtomicCall { access, datatype: 7, op: 2, compare: UserMemory::nothing(), result: Some(result.part(0, 8)) };
    alone.provider.atomic(alone.ep, add).expect("sent");
    alone.progress();
    assert_eq!((bytes(&result), &bytes(&memory)[..8]), (40u64.to_ne_bytes().to_vec(), 42u64.to_ne_bytes().as_slice()));
}

#[test]
fn a_generation_that_is_not_there_is_refused() {
    let mut alone = Alone::new();
    let state = &mut alone.provider.state;
    let stale = Peer { generation: state.here.me.generation + 1, ..state.here.me };
    let target = Target { peer: stale, ep: alone.ep, source: state.peers.sources.number(stale, alone.ep) };
    let av = state.objects.eps.get(alone.ep).and_then(|ep| ep.av).expect("it is bound");
    let to = state.objects.avs.get_mut(av).expect("it is open").insert(target);
    let call = SendCall { memory: room(1), to, tag: None, data: None, context: 1, flags: 0, silent: false };
    assert_eq!(alone.provider.send(alone.ep, call), Err(errno::ECONNREFUSED));
    // Nor is it waited for, as long as the program likes to.
    let tagged = Some(Tagged { tag: 1, ignore: 0 });
    let call = Receive { memory: room(1), from: to, tagged, context: 2, flags: 0 };
    assert_eq!(alone.provider.receive(alone.ep, call), Ok(()));
    let failed = alone.queue().failed.pop_front().expect("an end");
    assert_eq!((failed.done.context, failed.fault.error), (2, errno::ECONNREFUSED));
    assert_eq!(alone.waits(), "");
}

/// A second endpoint, not enabled yet, and its address.
fn disabled(alone: &mut Alone) -> (u32, u64) {
    let state = &mut alone.provider.state;
    let binding = Some(Binding { queue: alone.queue, selective: false });
    let mut endpoint = Endpoint::new(alone.domain, false);
    (endpoint.tx, endpoint.rx) = (binding, binding);
    endpoint.av = state.objects.eps.get(alone.ep).and_then(|ep| ep.av);
    let av = endpoint.av.expect("it is bound");
    let ep = state.objects.eps.insert(endpoint);
    let target = Target { peer: state.here.me, ep, source: state.peers.sources.number(state.here.me, ep) };
    (ep, state.objects.avs.get_mut(av).expect("it is open").insert(target))
}

#[test]
fn what_comes_before_an_endpoint_is_enabled_waits_for_that() {
    let mut alone = Alone::new();
    let (late, to) = disabled(&mut alone);
    let memory = room(8);
    let all = Registered {
        memory: memory.part(0, 8),
        access: REMOTE_READ | REMOTE_WRITE,
        by_address: false,
        counters: Vec::new(),
        exposure: Exposure::default(),
    };
    alone.provider.state.objects.domains.get_mut(alone.domain).expect("it is open").keys.insert(77, all);
    // A message, one whose end the sender wants to know, one that is fetched, and a write.
    let sent = [pattern(30), pattern(31), pattern(100_000)];
    for (i, (bytes, flags)) in sent.iter().zip([0, DELIVERY_COMPLETE | COMPLETION, COMPLETION]).enumerate() {
        let memory = UserMemory::owned(bytes.clone().into());
        let call = SendCall { memory, to, tag: None, data: None, context: 10 + i, flags, silent: false };
        alone.provider.send(alone.ep, call).expect("sent");
    }
    let operand = UserMemory::owned(Box::new(*b"written!"));
    let remotes = vec![Remote { addr: 0, len: 8, key: 77 }];
    let write = Access { memory: operand, to, remotes, data: None, context: 13, flags: COMPLETION, silent: false };
    alone.provider.write(alone.ep, write).expect("sent");
    alone.progress();
    assert!(alone.queue().ready.is_empty() && alone.queue().failed.is_empty(), "nothing has ended");
    assert_eq!(bytes(&memory), [0; 8]);
    alone.provider.enable(late);
    for bytes_sent in &sent {
        let memory = room(100_000);
        let call = Receive { memory: memory.part(0, 100_000), from: ADDR_UNSPEC, tagged: None, context: 20, flags: 0 };
        alone.provider.receive(late, call).expect("posted");
        alone.progress();
        assert!(bytes(&memory)[..bytes_sent.len()] == **bytes_sent, "{} bytes, in order", bytes_sent.len());
    }
    assert_eq!(bytes(&memory), b"written!");
    assert!(alone.queue().failed.is_empty());
    let mut ended: Vec<usize> = alone.queue().ready.drain(..).map(|done| done.context).collect();
    ended.sort_unstable();
    assert_eq!(ended, [11, 12, 13, 20, 20, 20]);
    assert_eq!(alone.provider.state.objects.eps.get(late).map(|ep| ep.held), Some(0));
}

#[test]
fn what_came_for_an_endpoint_that_is_closed_before_it_is_enabled_fails() {
    let mut alone = Alone::new();
    let (late, to) = disabled(&mut alone);
    for (len, flags) in [(30, DELIVERY_COMPLETE | COMPLETION), (100_000, COMPLETION)] {
        let memory = UserMemory::owned(pattern(len).into());
        let call = SendCall { memory, to, tag: None, data: None, context: len, flags, silent: false };
        alone.provider.send(alone.ep, call).expect("sent");
    }
    alone.progress();
    alone.provider.close_endpoint(late);
    alone.progress();
    let failed: Vec<_> = alone.queue().failed.drain(..).map(|f| (f.done.context, f.fault.error)).collect();
    assert_eq!(failed, [(30, errno::ECONNREFUSED), (100_000, errno::ECONNREFUSED)]);
}

#[test]
fn a_payload_that_cannot_be_read_is_an_error_that_says_why_on_both_sides() {
    let mut alone = Alone::new();
    let target = room(20_000);
    alone.receive(&target, None, 5, 0).expect("posted");
    // SAFETY: it is never touched by this process: the kernel finds that nothing is there.
    let memory = unsafe { UserMemory::new(std::ptr::without_provenance_mut(8), 20_000) };
    let call = SendCall { memory, to: alone.me, tag: None, data: None, context: 1, flags: COMPLETION, silent: false };
    alone.provider.send(alone.ep, call).expect("sent");
    alone.progress();
    let failed: Vec<_> = alone.queue().failed.drain(..).map(|failed| (failed.done.context, failed.fault)).collect();
    assert_eq!(failed, [(5, Fault::io(errno::EFAULT)), (1, Fault::io(errno::EFAULT))]);
}

#[test]
fn a_peer_that_has_sent_something_is_there_before_this_host_knows_of_it() {
    for (life, open, from, to) in [
        (3, true, None, None),
        (3, false, None, None),
        (2, true, None, Some(errno::EAGAIN)),
        (2, false, Some(errno::ECONNREFUSED), Some(errno::ECONNREFUSED)),
        (4, true, Some(errno::ECONNREFUSED), Some(errno::ECONNREFUSED)),
    ] {
        assert_eq!((in_the_way(life, 3, open, true), in_the_way(life, 3, open, false)), (from, to), "{life} {open}");
    }
}

#[test]
fn a_name_leads_to_its_endpoint_as_long_as_that_has_it() {
    let mut alone = Alone::new();
    let (me, ep) = (alone.provider.state.here.me, alone.ep);
    let named = |service| Name { host: None, service };
    let state = &mut alone.provider.state;
    assert_eq!(state.resolve_name(named(9228)), None);
    assert_eq!(state.publish(ep, named(9228)), Ok(()));
    assert_eq!(state.publish(ep, named(80)), Ok(()));
    assert_eq!(state.publish(ep, named(9228)), Err(errno::EADDRINUSE));
    assert_eq!(state.publish(ep, Name::ANY), Ok(()), "no name");
    let nowhere = Some("192.0.2.7".parse().expect("an address"));
    assert_eq!(state.publish(ep, Name { host: nowhere, service: 7 }), Err(errno::EADDRNOTAVAIL));
    let (late, _) = disabled(&mut alone);
    let state = &mut alone.provider.state;
    assert_eq!(state.publish(late, named(81)), Ok(()));
    assert_eq!(
        [80, 81, 9228, 0, 82].map(|service| state.resolve_name(named(service))),
        [Some((me, ep)), Some((me, late)), Some((me, ep)), None, None]
    );
    assert_eq!(state.resolve_name(Name { host: nowhere, service: 80 }), None);
    if let Some(host) = crate::lookup::own_hosts().first() {
        assert_eq!(state.resolve_name(Name { host: Some(*host), service: 80 }), Some((me, ep)));
    }
    alone.provider.close_endpoint(ep);
    let state = &mut alone.provider.state;
    assert_eq!([80, 81, 9228].map(|service| state.resolve_name(named(service))), [None, Some((me, late)), None]);
}

#[test]
fn what_is_under_way_is_said_in_words() {
    let mut alone = Alone::new();
    assert_eq!(alone.waits(), "");
    let memory = UserMemory::owned(vec![0; 100].into_boxed_slice());
    for tag in 1..8 {
        alone.receive(&memory, Some(tag << 40 | tag), 1, 0).expect("posted");
    }
    let text = alone.waits();
    assert!(text.starts_with("MPI: receive from PE 0, tag 1 (0x10000000001), up to 100 bytes; receive from"), "{text}");
    assert!(text.ends_with("tag 5 (0x50000000005), up to 100 bytes; and 2 more"), "{text}");
    alone.send(&[0; 3], Some(0xffff_fff0), 0).expect("sent");
    alone.send(&[0; 1 << 17], Some(9), 0).expect("sent");
    alone.progress();
    let text = alone.waits();
    assert!(text.starts_with("MPI: send to PE 0, tag 9 (0x9), 131072 bytes; receive"), "{text}");
    assert!(text.ends_with("; no receive takes 3 bytes from PE 0, tag -16 (0xfffffff0) and 1 more"), "{text}");
}

#[test]
fn a_program_may_sleep_where_there_is_nothing_to_read_and_is_woken_once() {
    let mut alone = Alone::new();
    let queue = alone.queue;
    assert!(alone.provider.goes_without_help(), "nobody has slept yet");
    assert_eq!(alone.provider.may_sleep_on_queue(queue), Err(errno::EINVAL), "on what?");
    alone.queue().bell = Bell::with_descriptor().expect("a descriptor");
    alone.provider.may_sleep_on_queue(queue).expect("it is empty");
    alone.progress();
    assert!(!alone.provider.goes_without_help(), "somebody else may poll meanwhile");
    let memory = room(8);
    alone.receive(&memory, Some(1), 2, 0).expect("posted");
    alone.send(&[1; 8], Some(1), 0).expect("sent");
    while !alone.provider.helps() {}
    assert!(!alone.queue().bell.is_armed(), "it was rung");
    assert_eq!(alone.provider.may_sleep_on_queue(queue), Err(errno::EAGAIN));
    assert_eq!(alone.queue().ready.pop_front().map(|done| done.context), Some(2));
    alone.queue().signalled = true;
    assert_eq!(alone.provider.may_sleep_on_queue(queue), Err(errno::EAGAIN));
    alone.provider.may_sleep_on_queue(queue).expect("a signal wakes once");
    // An error is something to read, too.
    alone.receive(&memory, Some(1), 3, 0).expect("posted");
    alone.provider.cancel(alone.ep, 3).expect("cancelled");
    assert!(!alone.queue().bell.is_armed());
    assert_eq!(alone.provider.may_sleep_on_queue(queue), Err(errno::EAGAIN));
    assert!(alone.queue().failed.pop_front().is_some());
    // Who polls needs no help, and who stops polling does.
    alone.progress();
    assert!(alone.provider.goes_without_help());
    alone.provider.wants_help();
    assert!(!alone.provider.goes_without_help());
    alone.provider.may_sleep_on_queue(queue).expect("it is empty");
    alone.provider.ends_by(&angara::Error::JobEnded);
    assert!(!alone.queue().bell.is_armed(), "whoever sleeps learns that nothing will come");
    assert_eq!(alone.provider.may_sleep_on_queue(queue), Err(errno::EAGAIN));
}

#[test]
fn nobody_sleeps_on_a_counter_that_he_has_not_read() {
    let mut alone = Alone::new();
    let bell = Bell::with_descriptor().expect("a descriptor");
    let counter = alone.provider.state.objects.counters.insert(Counter { bell, ..Counter::default() });
    alone.provider.state.objects.eps.get_mut(alone.ep).expect("it is open").counters[Side::Recv as usize] =
        Some(counter);
    alone.provider.may_sleep_on_counter(counter).expect("it is 0");
    let memory = room(8);
    alone.receive(&memory, Some(1), 2, 0).expect("posted");
    alone.send(&[1; 8], Some(1), 0).expect("sent");
    alone.progress();
    assert_eq!(alone.provider.may_sleep_on_counter(counter), Err(errno::EAGAIN));
    let it = alone.provider.state.objects.counters.get_mut(counter).expect("it is open");
    assert!(!it.bell.is_armed(), "it was rung");
    it.read = (it.value, it.errors);
    assert_eq!(it.read, (1, 0));
    alone.provider.may_sleep_on_counter(counter).expect("it has been read");
}
