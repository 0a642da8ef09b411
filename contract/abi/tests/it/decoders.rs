//! Properties of everything that decodes what another process or the network wrote: valid values
//! survive a round trip, and no input makes a decoder panic or accept what it cannot name.
#![cfg(not(loom))]

use angara_abi::account::{Class, Load, Traffic};
use angara_abi::desc::{AmoOp, Descriptor, Moves, OFFSET_MAX, Op, Own, Place, Region, Words, flags};
use angara_abi::packet::{
    Address, Flit, Header, PacketError, PacketType, ReduceElem, ReduceOp, Tail, Vc, check, data_flits, pack, seal,
};
use angara_net::torus::{Coords, Direction};
use proptest::prelude::*;
use proptest::sample::select;

fn direction() -> impl Strategy<Value = Direction> {
    select(&Direction::ALL[..])
}

fn vc() -> impl Strategy<Value = Vc> {
    select(&Vc::ALL[..])
}

fn reduce_op() -> impl Strategy<Value = ReduceOp> {
    select(&[ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min][..])
}

fn elem() -> impl Strategy<Value = ReduceElem> {
    select(&[ReduceElem::I32, ReduceElem::U32, ReduceElem::I64, ReduceElem::U64][..])
}

fn kind_and_address() -> impl Strategy<Value = (PacketType, Address)> {
    let memory = (0..1024u16, 0..64u8, 0..=OFFSET_MAX).prop_map(|(endpoint, region, offset)| Address::Memory {
        endpoint,
        region,
        offset,
    });
    let tree = (0..16u8, 0..16u8, reduce_op(), elem(), any::<bool>(), 0..=OFFSET_MAX)
        .prop_map(|(tree, reduce, op, elem, all, offset)| Address::Tree { tree, reduce, op, elem, all, offset });
    (0..12u8, memory, tree).prop_map(|(bits, memory, tree)| {
        let kind = PacketType::from_bits(bits).expect("twelve types");
        (kind, if (6..10).contains(&bits) { tree } else { memory })
    })
}

prop_compose! {
    fn header()(
        (kind, address) in kind_and_address(),
        data_flits in 0..=16u8,
        vc in vc(),
        adaptive: bool,
        notify: bool,
        dirbits: u8,
        first_step in proptest::option::of(direction()),
        last_step in proptest::option::of(direction()),
        dst: [u8; 4],
    ) -> Header {
        Header { kind, data_flits, vc, adaptive, notify, dirbits, first_step, last_step, dst: Coords(dst), address }
    }
}

prop_compose! {
    fn tail()(link_seq: u16, src: u16, first_byte in 0..16u8, last_byte in 0..16u8, end_crc: u32, tag in 0..1u32 << 24)
        -> Tail
    {
        Tail { link_seq, src, first_byte, last_byte, end_crc, tag }
    }
}

fn packet() -> impl Strategy<Value = (Header, Tail, Vec<Flit>)> {
    (header(), tail(), proptest::collection::vec(any::<u128>(), 16)).prop_map(|(header, mut tail, data)| {
        (tail.first_byte, tail.last_byte) = (tail.first_byte.min(tail.last_byte), tail.first_byte.max(tail.last_byte));
        let mut flits = vec![header.encode()];
        flits.extend(&data[..header.data_flits as usize]);
        flits.push(tail.encode());
        seal(&mut flits);
        (header, tail, flits)
    })
}

fn place(bounce: bool) -> impl Strategy<Value = Place> {
    let regions: &[Region] =
        if bounce { &[Region::Heap, Region::Static, Region::Bounce] } else { &[Region::Heap, Region::Static] };
    (select(regions), 0..=OFFSET_MAX).prop_map(|(region, offset)| Place { region, offset })
}

prop_compose! {
    fn target()(
        seq: u32, endpoint in 0..1024u16, dst: [u8; 4], operand: u64, comparand: u64,
        class in select(&Class::ALL[..]),
        flags in 0..=flags::KNOWN,
        remote in place(false), local in place(true), completion in proptest::option::of(place(true)),
    ) -> Descriptor {
        Descriptor {
            seq, endpoint, dst: Coords(dst), operand, comparand, class, flags,
            remote: Some(remote), local: Some(local), completion, ..Descriptor::new(Op::Nop)
        }
    }
}

/// Every operation with values it accepts.
fn descriptor() -> impl Strategy<Value = Descriptor> {
    let ops = select(Op::ALL);
    let amo = (0..7u8, any::<bool>(), any::<bool>());
    let collective = (0..16u8, 0..16u8, reduce_op(), elem());
    (target(), ops, amo, collective, any::<bool>(), 0..=u32::MAX).prop_map(
        |(base, op, (amo, wide, with_result), (tree, reduce, reduce_op, elem), response, size)| {
            let mut d = Descriptor { op, tree, reduce, reduce_op, elem, ..base };
            d.amo = AmoOp::from_bits(amo).expect("seven atomics");
            let facts = op.facts();
            match facts.moves {
                Moves::Nothing => {}
                Moves::Bytes(max) => d.len = 1 + size % max as u32,
                Moves::Elements(max) => d.len = elem.bytes() as u32 * (1 + size % (max / elem.bytes()) as u32),
                Moves::Word => {
                    d.width = if wide { 8 } else { 4 };
                    d.remote = d.remote.map(|p| Place { offset: p.offset & !7, ..p });
                }
            }
            let own = match facts.own {
                Own::Unused => false,
                Own::Source | Own::Destination => true,
                Own::OldValue => with_result,
            };
            d.local = d.local.filter(|_| own);
            d.remote = d.remote.filter(|_| facts.remote);
            if response && facts.may_overtake {
                d.vc = Vc::Response;
            }
            d
        },
    )
}

proptest! {
    #[test]
    fn headers_round_trip(h in header()) {
        prop_assert_eq!(Header::decode(h.encode()), Ok(h));
    }

    #[test]
    fn an_accepted_header_is_the_encoding_of_what_it_was_decoded_to(flit: u128, clean: bool) {
        // Half of the inputs get plausible low bits, so that decoding goes deep.
        let flit = if clean { flit & !0xcff0 | (flit >> 60 & 0x0f) << 4 } else { flit };
        if let Ok(h) = Header::decode(flit) {
            prop_assert_eq!(h.encode(), flit);
        }
    }

    #[test]
    fn tails_round_trip(t in tail()) {
        prop_assert_eq!(Tail::decode(t.encode()), t);
    }

    #[test]
    fn any_tail_decodes_and_bounds_its_payload(flit: u128, data in 0..=16u8) {
        let tail = Tail::decode(flit);
        prop_assert_eq!(tail.encode(), flit & !0xffff_ffff);
        if let Ok(n) = tail.payload_bytes(data) {
            prop_assert!(n <= data as usize * 16);
        }
    }

    #[test]
    fn sealed_packets_check((header, tail, flits) in packet()) {
        prop_assert_eq!(check(&flits), Ok((header, tail)));
    }

    #[test]
    fn a_flipped_bit_anywhere_is_noticed((_, _, flits) in packet(), at: usize) {
        let mut bad = flits.clone();
        let at = at % (flits.len() * 128);
        bad[at / 128] ^= 1 << (at % 128);
        prop_assert!(check(&bad).is_err(), "bit {} of flit {} went unnoticed", at % 128, at / 128);
        // A flip that leaves the header readable is the checksum's to find.
        if at / 128 > 0 {
            prop_assert_eq!(check(&bad), Err(PacketError::Crc));
        }
    }

    #[test]
    fn a_burst_of_up_to_32_bits_is_noticed((_, _, flits) in packet(), at: usize, burst in 1..=u32::MAX) {
        let mut bad = flits.clone();
        let mut at = 128 + at % ((flits.len() - 1) * 128 - 31);
        // The checksum field itself is compared, not summed over, and lies before the rest of the tail: a burst
        // across its start or end is two bursts, so one that would be begins there instead.
        let tail = (flits.len() - 1) * 128;
        if let Some(edge) = [tail, tail + 32].into_iter().find(|&edge| at < edge && at + 31 >= edge) {
            at = edge;
        }
        for bit in (0..32).filter(|bit| burst >> bit & 1 != 0) {
            bad[(at + bit) / 128] ^= 1 << ((at + bit) % 128);
        }
        prop_assert!(check(&bad).is_err());
    }

    #[test]
    fn random_flits_are_never_a_packet_by_accident_or_panic(flits in proptest::collection::vec(any::<u128>(), 0..20)) {
        if check(&flits).is_ok() {
            // One in 2^32 random inputs passes; then its length must at least be right.
            prop_assert!((2..=18).contains(&flits.len()));
        }
    }

    #[test]
    fn payload_is_packed_from_byte_zero(payload in proptest::collection::vec(any::<u8>(), 0..=256)) {
        let mut out = [0; 16];
        let n = pack(&payload, &mut out);
        prop_assert_eq!(n, data_flits(payload.len()));
        let bytes: Vec<u8> = out[..n].iter().flat_map(|f| f.to_le_bytes()).collect();
        prop_assert_eq!(&bytes[..payload.len()], &payload[..]);
        prop_assert!(bytes[payload.len()..].iter().all(|&b| b == 0));
        let last_byte = (payload.len() + 15) % 16;
        if n > 0 {
            let tail = Tail { last_byte: last_byte as u8, ..Tail::default() };
            prop_assert_eq!(tail.payload_bytes(n as u8), Ok(payload.len()));
        }
    }

    #[test]
    fn descriptors_round_trip(d in descriptor()) {
        prop_assert_eq!(Descriptor::decode(&d.encode()), Ok(d));
    }

    #[test]
    fn an_accepted_descriptor_is_the_encoding_of_what_it_was_decoded_to(mut words: Words, tame: bool) {
        if tame {
            words[0] = words[0] & 0xffff_ffff | ((words[0] >> 32) % 9) << 32 | ((words[0] >> 40) % 4) << 40
                | 1 << 44 | (words[0] >> 48 & 7) << 48;
            words[1] = words[1] & 0x3ff_0000_00ff | 1 | ((words[1] >> 48) % 7) << 48 | (4 + (words[1] >> 63) * 4) << 56;
            words[4] &= 0x3fff_ffff_ffff & !(3 << 40);
            for i in [2, 3, 5] {
                words[i] = words[i] & !(0x7fff << 48) & !7 | (words[i] >> 60 & 1) << 48 | 1 << 63;
            }
        }
        if let Ok(d) = Descriptor::decode(&words) {
            prop_assert_eq!(d.encode(), words);
        }
    }

    #[test]
    fn a_descriptor_with_any_one_bit_flipped_is_decoded_or_refused(d in descriptor(), at in 0..512usize) {
        let mut words = d.encode();
        words[at / 64] ^= 1 << (at % 64);
        if let Ok(other) = Descriptor::decode(&words) {
            prop_assert_ne!(other, d, "bit {} of word {} has no meaning", at % 64, at / 64);
            prop_assert_eq!(other.encode(), words);
        }
    }

    #[test]
    fn the_length_function_counts_what_packing_makes(bytes in 0..100_000usize) {
        let mut sum = Load::default();
        for at in (0..bytes).step_by(256) {
            let n = (bytes - at).min(256);
            sum.add(Load { packets: 1, flits: 2 + data_flits(n) as u64, bytes: n as u64 });
        }
        prop_assert_eq!(Load::payload(bytes), sum);
        prop_assert_eq!(Traffic::put(bytes).out, sum);
        prop_assert_eq!(Traffic::get(bytes).back, sum);
    }
}

#[test]
fn every_single_bit_flip_of_a_full_packet_is_noticed() {
    let header = Header {
        kind: PacketType::Write,
        data_flits: 16,
        vc: Vc::Request,
        adaptive: false,
        notify: false,
        dirbits: 0,
        first_step: None,
        last_step: None,
        dst: Coords([1, 2, 3, 0]),
        address: Address::Memory { endpoint: 3, region: 0, offset: 0x1234 },
    };
    let mut flits = vec![header.encode()];
    flits.extend((0..16u128).map(|i| i * 0x0123_4567_89ab_cdef_0011_2233_4455_6677));
    flits.push(Tail { last_byte: 15, ..Tail::default() }.encode());
    seal(&mut flits);
    for bit in 0..flits.len() * 128 {
        flits[bit / 128] ^= 1 << (bit % 128);
        assert!(check(&flits).is_err(), "bit {} of flit {}", bit % 128, bit / 128);
        flits[bit / 128] ^= 1 << (bit % 128);
    }
    assert!(check(&flits).is_ok());
}
