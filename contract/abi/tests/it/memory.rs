//! Properties of shared memory: accesses stay inside a mapping, copies equal plain copies at every
//! alignment and leave everything around them alone, and seals hold.
#![cfg(not(loom))]

use angara_abi::account::{CONTEXTS, Class, Counters, Traffic};
use angara_abi::job::{
    Barrier, Collectives, Geometry, JobPage, JobState, PeEntry, Reach, Seat, SeatState, SyncPage, Targets,
};
use angara_abi::shm::{Access, Mapping, PageKind};
use angara_net::torus::Shape;
use proptest::prelude::*;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

fn mapping(len: usize) -> Mapping {
    Mapping::create("test", len, Access::Shared).expect("a memfd").1
}

/// Reference for [`Mapping::at`]: inside and aligned (mappings start on a page).
fn fits(offset: usize, size: usize, len: usize) -> bool {
    offset.checked_add(size).is_some_and(|end| end <= len) && offset.is_multiple_of(size)
}

proptest! {
    #[test]
    fn typed_access_is_inside_and_aligned_or_refused(
        len in 1..10_000usize,
        offset in prop_oneof![0..10_100usize, any::<usize>(), (0..64usize).prop_map(|n| usize::MAX - n)],
    ) {
        let m = mapping(len);
        prop_assert_eq!(m.at::<AtomicU8>(offset).is_ok(), fits(offset, 1, len));
        prop_assert_eq!(m.at::<AtomicU16>(offset).is_ok(), fits(offset, 2, len));
        prop_assert_eq!(m.at::<AtomicU32>(offset).is_ok(), fits(offset, 4, len));
        prop_assert_eq!(m.at::<AtomicU64>(offset).is_ok(), fits(offset, 8, len));
    }

    #[test]
    fn reads_and_writes_are_inside_or_refused(
        len in 1..5_000usize, offset in prop_oneof![0..5_100usize, any::<usize>()],
        data in proptest::collection::vec(any::<u8>(), 0..2_000),
    ) {
        let m = mapping(len);
        let inside = offset.checked_add(data.len()).is_some_and(|end| end <= len);
        prop_assert_eq!(m.write(offset, &data).is_ok(), inside);
        let mut back = vec![0; data.len()];
        prop_assert_eq!(m.read(offset, &mut back).is_ok(), inside);
        if inside {
            prop_assert_eq!(back, data);
        }
    }

    #[test]
    fn copies_equal_plain_copies_at_every_alignment(
        from in 0..16usize, to in 0..16usize, len in prop_oneof![0..80usize, 480..560usize, 0..3_000usize], seed: u8,
    ) {
        let source: Vec<u8> = (0..len + 32).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect();
        let mut got = vec![0xaa; len + 64];
        let mut want = got.clone();
        want[16 + to..16 + to + len].copy_from_slice(&source[from..from + len]);
        for copy in [angara_abi::copy::store, angara_abi::copy::load] {
            got.fill(0xaa);
            // SAFETY: both vectors are longer than offset + len, and distinct.
            unsafe { copy(got.as_mut_ptr().add(16 + to), source.as_ptr().add(from), len) };
            prop_assert_eq!(&got, &want);
        }
    }
}

/// The widest element at `at` in a write of `[start, end)` that the contract writes by one store.
fn element(at: usize, start: usize, end: usize) -> usize {
    [8, 4, 2].into_iter().find(|&n| at.is_multiple_of(n) && at >= start && at + n <= end).unwrap_or(1)
}

#[test]
fn an_aligned_element_is_never_seen_half_written() {
    // A reader watches one word while a writer alternates between all-zeros and all-ones through
    // writes of every kind that covers it whole.
    let m = std::sync::Arc::new(mapping(8192));
    for (start, len) in [(64, 8), (60, 16), (61, 11), (64, 600), (57, 1000), (0, 4096)] {
        let (at, stop) = (64usize, std::sync::Arc::new(AtomicU32::new(0)));
        assert_eq!(element(at, start, start + len), 8, "the case watches a whole word");
        let writer = {
            let (m, stop) = (m.clone(), stop.clone());
            std::thread::spawn(move || {
                for i in 0..2_000u32 {
                    m.write(start, &vec![if i % 2 == 0 { 0xff } else { 0 }; len]).expect("inside");
                }
                stop.store(1, Ordering::Release);
            })
        };
        let word: &AtomicU64 = m.at(at).expect("inside");
        while stop.load(Ordering::Acquire) == 0 {
            let seen = word.load(Ordering::Relaxed);
            assert!(seen == 0 || seen == u64::MAX, "write of {len} bytes at {start} tore: {seen:#x}");
        }
        writer.join().expect("writer");
    }
}

#[test]
fn clients_cannot_resize_or_remap_what_is_sealed() {
    let (fd, daemon) = Mapping::create("sealed", 4096, Access::ReadOnly).expect("a memfd");
    assert!(rustix::fs::ftruncate(&fd, 0).is_err(), "shrinking would kill the daemon");
    assert!(rustix::fs::ftruncate(&fd, 1 << 20).is_err());
    assert!(Mapping::map(&fd, 4096).is_err(), "a read-only page was mapped writable");
    // Reopening through /proc must not help either.
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    if let Ok(again) = std::fs::OpenOptions::new().read(true).write(true).open(path) {
        assert!(Mapping::map(&again, 4096).is_err(), "reopening undid the seal");
    }
    let client = Mapping::map_read_only(&fd, 4096).expect("reading is allowed");
    daemon.at::<AtomicU64>(0).expect("inside").store(7, Ordering::Release);
    assert_eq!(client.at::<AtomicU64>(0).expect("inside").load(Ordering::Acquire), 7);
}

#[test]
fn holes_punched_into_shared_memory_read_as_zero_and_do_not_fault() {
    let (fd, daemon) = Mapping::create("holes", 8192, Access::Shared).expect("a memfd");
    daemon.write(0, &[1; 8192]).expect("inside");
    let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&fd, punch, 0, 4096).expect("memfds take holes");
    let mut back = [9; 16];
    daemon.read(4088, &mut back).expect("inside");
    assert_eq!(back, [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn a_page_of_another_kind_version_or_size_is_refused() {
    let m = mapping(4096);
    assert!(m.expect_page(PageKind::Job).is_err(), "zeros are no page");
    m.stamp_page(PageKind::Job, 4096).expect("fits");
    assert!(m.expect_page(PageKind::Job).is_ok());
    let wrong = m.expect_page(PageKind::Sync).expect_err("another kind").to_string();
    assert!(wrong.contains("job synchronisation page"), "{wrong}");
    m.at::<AtomicU32>(8).expect("inside").store(99, Ordering::Relaxed);
    let wrong = m.expect_page(PageKind::Job).expect_err("another version").to_string();
    assert!(wrong.contains("version 99"), "{wrong}");
    assert!(m.stamp_page(PageKind::Job, 4097).is_err(), "layout larger than the mapping");
}

fn geometry(pes: usize) -> (Geometry, Vec<PeEntry>) {
    let shape: Shape = "mesh:3x2x2".parse().expect("a shape");
    let g = Geometry {
        pes,
        shape,
        heap_stride: 3 << 20,
        static_stride: 0,
        barrier: Barrier::Dissemination,
        collectives: Collectives::Tree,
        crowded: true,
        open: true,
        registered: 1 << 30,
        heterogeneous: true,
    };
    let entry = |pe: usize| {
        let node = (pe % shape.nodes()) as u32;
        PeEntry { node, coords: shape.coords(node), endpoint: (pe / shape.nodes()) as u16, seat: Seat::FREE }
    };
    (g, (0..pes).map(entry).collect())
}

#[test]
fn a_job_page_tells_what_was_put_in() {
    let (g, entries) = geometry(20);
    let (fd, map) = Mapping::create("job", JobPage::bytes(20), Access::ReadOnly).expect("a memfd");
    let daemon = JobPage::init(map, &g, &entries).expect("fits");
    let client = JobPage::open(Mapping::map_read_only(&fd, JobPage::bytes(20)).expect("map")).expect("valid");
    assert_eq!(client.geometry(), Some(g));
    assert!((0..20).all(|pe| client.pe(pe) == entries[pe]));
    daemon.set_seat(3, Seat::TAKEN);
    daemon.set_seat(3, Seat::TAKEN);
    daemon.set_seat(7, Seat::TAKEN);
    daemon.set_seat(3, Seat::TAKEN.rest());
    assert_eq!((client.attached(), client.pe(3).seat, client.pe(7).seat), (1, Seat::TAKEN.rest(), Seat::TAKEN));
    assert_eq!(client.exit_status(), None);
    daemon.set_exit_status(-1);
    daemon.set_exit_status(3);
    assert_eq!(client.exit_status(), Some(-1), "the first one holds");
    daemon.set_static_stride(8192);
    daemon.set_state(JobState::Ended);
    assert_eq!(client.geometry().map(|g| g.static_stride), Some(8192));
    assert_eq!(client.state(), JobState::Ended);
    assert!(JobPage::open(Mapping::map_read_only(&fd, 4096).expect("map")).is_err(), "half a page");
}

#[test]
fn a_seat_has_one_life_after_the_other() {
    let first = Seat::TAKEN;
    assert_eq!((first.life(), first.reaches(1), first.reaches(2), first.start()), (1, true, true, first));
    let second = first.rest().start();
    assert_eq!((second.taken(), second.life(), second.ended), (true, 2, 1));
    // One that leaves while it rests has taken part in all lives before, one that does not, not in the last.
    let (left, deserted) = (second.rest().leave(), second.leave());
    assert_eq!((left.state, left.reaches(2), left.reaches(3)), (SeatState::Left, true, false));
    assert_eq!((deserted.state, deserted.reaches(1), deserted.reaches(2)), (SeatState::Deserted, true, false));
    for over in [left, deserted] {
        assert!(over.is_over() && [over.rest(), over.start(), over.leave()] == [over; 3]);
    }
    for seat in [Seat::FREE, first, first.rest(), second, left, deserted] {
        assert_eq!(Seat::from_word(seat.to_word()), seat);
    }
    assert_eq!(Seat::from_word(7).state, SeatState::Deserted);
}

proptest! {
    #[test]
    fn a_job_page_with_any_word_overwritten_is_read_or_refused(at in 0..32usize, value: u32) {
        let (g, entries) = geometry(4);
        let map = mapping(JobPage::bytes(4));
        map.at::<AtomicU32>(0).expect("inside");
        let page = JobPage::init(map, &g, &entries).expect("fits");
        drop(page);
        let (fd, map) = Mapping::create("job", JobPage::bytes(4), Access::Shared).expect("a memfd");
        JobPage::init(map, &g, &entries).expect("fits");
        let raw = Mapping::map(&fd, JobPage::bytes(4)).expect("map");
        raw.at::<AtomicU32>(at * 4).expect("inside").store(value, Ordering::Relaxed);
        if let Ok(page) = JobPage::open(raw) {
            let _ = page.geometry();
        }
    }
}

#[test]
fn counters_add_up_per_destination_and_class() {
    let pes = 3;
    let c = Counters::new(mapping(Counters::bytes(pes)), pes).expect("fits");
    for slot in 0..CONTEXTS {
        for pe in 0..pes {
            c.row(slot, pe, Class::Put).count(Traffic::put(300));
            c.row(slot, pe, Class::Get).count(Traffic::get(40_000));
        }
    }
    c.row(0, 2, Class::Amo).count(Traffic::amo(8, true, false));
    let put = c.sum(1, Class::Put);
    assert_eq!((put.ops, put.out.packets, put.out.flits, put.out.bytes), (16, 32, 16 * (18 + 5), 4800));
    let get = c.sum(2, Class::Get);
    assert_eq!((get.ops, get.out.packets, get.back.packets), (16, 32, 16 * 157));
    assert_eq!(c.sum(2, Class::Amo).out.flits, 3);
    assert_eq!(c.sum(1, Class::Amo), Traffic::default());
    assert!(Counters::new(mapping(100), pes).is_err());
}

#[test]
fn target_tables_and_sync_pages_hold_one_entry_per_pe() {
    let t = Targets::new(mapping(Targets::bytes(5)), 5).expect("fits");
    t.set(4, Reach::Ring);
    t.set(2, Reach::Unreachable);
    assert_eq!([0, 2, 4].map(|pe| t.get(pe)), [Reach::Direct, Reach::Unreachable, Reach::Ring]);
    let s = SyncPage::init(mapping(SyncPage::bytes(5)), 5).expect("fits");
    let cells: Vec<_> = (0..5).map(|pe| s.cell(pe) as *const _ as usize).collect();
    assert!(cells.windows(2).all(|w| w[1] - w[0] == 128), "one cache-line pair per waiting PE");
}
