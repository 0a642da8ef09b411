//! A job of one PE: every operation of the direct engine, without a daemon.

use angara::{Amo, AmoOp, Class, Error, Job, Place, Region, StaticSegment};

fn job() -> Job {
    Job::solo(1 << 20, &[]).expect("a job of one PE needs only memfds")
}

fn at(job: &Job, offset: usize) -> Place {
    job.locate(job.heap().wrapping_add(offset), 1).expect("inside the heap")
}

#[test]
fn put_and_get_move_every_length_and_alignment() {
    let job = job();
    let source: Vec<u8> = (0..5000u32).map(|i| (i * 7 + 3) as u8).collect();
    for len in [1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 255, 256, 257, 1000, 4096] {
        for shift in 0..9 {
            let place = at(&job, 64 + shift);
            let mut back = vec![0; len];
            // SAFETY: both vectors hold `len` bytes from the given start.
            unsafe {
                job.ctx().put(Class::Put, 0, place, source[shift..].as_ptr(), len).unwrap();
                job.ctx().get(Class::Get, 0, back.as_mut_ptr(), place, len).unwrap();
            }
            assert_eq!(back, source[shift..shift + len], "{len} bytes at offset {shift}");
        }
    }
}

#[test]
fn atomics_return_the_old_value_in_both_widths() {
    let job = job();
    let ctx = job.ctx();
    for width in [4u8, 8] {
        let place = at(&job, 128 + width as usize);
        let amo = |op, v, c, fetch| {
            ctx.amo(Class::Amo, 0, place, Amo { op, width, operand: v, comparand: c, fetch }).unwrap()
        };
        amo(AmoOp::Swap, 5, 0, false);
        assert_eq!(amo(AmoOp::Add, 3, 0, true), 5);
        assert_eq!(amo(AmoOp::Xor, 1, 0, true), 8);
        assert_eq!(amo(AmoOp::Or, 6, 0, true), 9);
        assert_eq!(amo(AmoOp::And, 12, 0, true), 15);
        assert_eq!(amo(AmoOp::CompareSwap, 40, 11, true), 12);
        assert_eq!(amo(AmoOp::CompareSwap, 40, 12, true), 12);
        assert_eq!(amo(AmoOp::Swap, u64::MAX, 0, true), 40);
        let all = if width == 4 { u32::MAX as u64 } else { u64::MAX };
        assert_eq!(amo(AmoOp::Fetch, 0, 0, true), all);
        assert_eq!(amo(AmoOp::Add, 1, 0, false), 0, "no result was asked for");
        assert_eq!(amo(AmoOp::Fetch, 0, 0, true), 0);
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_value() {
    let job = job();
    let end = job.heap_len();
    let put = |pe, place, len| {
        // SAFETY: refused before the source is read, or within its bytes.
        unsafe { job.ctx().put(Class::Put, pe, place, [0u8; 64].as_ptr(), len) }
    };
    let past = Place { region: Region::Heap, offset: at(&job, 0).offset + end as u64 - 4 };
    assert!(matches!(put(0, past, 8), Err(Error::Invalid(text)) if text.contains("8 bytes")));
    assert!(put(0, past, 4).is_ok());
    assert!(put(0, past, 0).is_ok(), "nothing to do is no error");
    assert!(matches!(put(1, past, 4), Err(Error::Invalid(text)) if text.contains("PE 1")));
    let huge = Place { region: Region::Heap, offset: u64::MAX };
    assert!(put(0, huge, 8).is_err());
    let private = Place { region: Region::Bounce, offset: 0 };
    assert!(put(0, private, 8).is_err());
    let odd = at(&job, 2);
    assert!(
        job.ctx()
            .amo(Class::Amo, 0, odd, Amo { op: AmoOp::Add, width: 4, operand: 1, comparand: 0, fetch: false })
            .is_err()
    );
    assert!(
        job.ctx()
            .amo(Class::Amo, 0, at(&job, 8), Amo { op: AmoOp::Add, width: 2, operand: 1, comparand: 0, fetch: false })
            .is_err()
    );
    assert!(matches!(job.adapter().csr_read(angara_abi::csr::NODE), Err(Error::NotLaunched(_))));
    assert!(job.locate([0u8; 8].as_ptr(), 8).is_none(), "the stack is not symmetric");
}

fn segment(start: usize, len: usize) -> StaticSegment {
    StaticSegment { start, len, writable: true }
}

#[repr(align(4096))]
struct Page([u8; angara_abi::PAGE]);

#[test]
fn constants_can_be_read_and_not_written() {
    let page = angara_abi::PAGE;
    // A PE reads its own globals where the program has them.
    let pages = [Page([0; angara_abi::PAGE]), Page([0; angara_abi::PAGE])];
    let [constants, variables] = [0, 1].map(|i| pages[i].0.as_ptr() as usize);
    let constant = StaticSegment { start: constants, len: page, writable: false };
    assert!(Job::solo(4096, &[constant, segment(variables, page)]).is_err(), "variables come first");
    let job = Job::solo(4096, &[segment(variables, page), constant]).unwrap();
    let at = (constants + 16) as *mut u8;
    let place = job.locate(at, 8).unwrap();
    assert_eq!(place, Place { region: Region::Static, offset: (page + 16) as u64 });
    assert!(!job.is_writable(place, 8) && job.is_writable(Place { offset: 16, ..place }, 8));
    assert!(!job.is_writable(Place { offset: page as u64 - 4, ..place }, 8), "the last bytes are constant");
    let mut value = 7u64;
    let bytes = (&raw mut value).cast::<u8>();
    // SAFETY: a local of 8 bytes, here and below.
    unsafe {
        job.ctx().get(Class::Get, 0, bytes, place, 8).unwrap();
        assert_eq!(value, 0);
        for refused in
            [job.ctx().put(Class::Put, 0, place, bytes, 8), job.ctx().put_nbi(Class::Put, 0, place, bytes, 8)]
        {
            assert!(refused.unwrap_err().to_string().contains("constants"));
        }
    }
    let read = Amo { op: AmoOp::Fetch, width: 8, operand: 0, comparand: 0, fetch: true };
    let add = Amo { op: AmoOp::Add, width: 8, operand: 1, comparand: 0, fetch: false };
    assert_eq!(job.ctx().amo(Class::Amo, 0, place, read).unwrap(), 0);
    assert!(job.ctx().amo(Class::Amo, 0, place, add).is_err());
    assert_eq!(job.ctx().amo_element::<8>(Class::Amo, 0, at, read), Some(0));
    assert_eq!(job.ctx().amo_element::<8>(Class::Amo, 0, at, add), None);
}

#[test]
fn static_segments_have_places_in_address_order() {
    let page = angara_abi::PAGE;
    let segments = [segment(0x10000, page), segment(0x40000, 2 * page)];
    let job = Job::solo(4096, &segments).unwrap();
    let place = job.locate((0x40000 + 24) as *const u8, 8).unwrap();
    assert_eq!(place, Place { region: Region::Static, offset: (page + 24) as u64 });
    assert_eq!(job.local(place) as usize, 0x40000 + 24);
    assert_eq!(job.static_offset(), 0);
    assert!(job.static_fd().is_some());
    assert!(job.locate((0x10000 + page - 4) as *const u8, 8).is_none(), "crosses the end of a segment");
    let through_arena = job.static_slice(0).wrapping_add(page + 24);
    assert_eq!(job.locate(through_arena, 8), Some(place));
    assert!(Job::solo(4096, &[segment(1, page)]).is_err());
}

#[test]
fn barrier_quiet_and_wait_return_at_once() {
    let job = job();
    job.ctx().fence().unwrap();
    job.ctx().quiet().unwrap();
    job.ctx().quiet_pe(0).unwrap();
    for half in [false, true, false] {
        job.barrier(half).unwrap();
    }
    job.wait(|| true, &|| "nothing".into()).unwrap();
}

#[test]
fn a_forked_child_gets_an_error_instead_of_the_job() {
    let job = job();
    let place = at(&job, 0);
    let value = 7u64;
    // SAFETY: the child only calls functions that neither allocate nor lock, then leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: `value` is 8 readable bytes.
        let r = unsafe { job.ctx().put(Class::Put, 0, place, (&raw const value).cast(), 8) };
        let barrier = job.barrier(false);
        let code = if matches!((r, barrier), (Err(Error::Forked), Err(Error::Forked))) { 0 } else { 1 };
        // SAFETY: ends the child without running the parent's destructors.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: `child` was forked above and is waited for once.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
    // SAFETY: as in the child.
    unsafe { job.ctx().put(Class::Put, 0, place, (&raw const value).cast(), 8).expect("the parent goes on") };
}
