use super::*;
use crate::maps;
use rustix::fs::MemfdFlags;
use std::sync::atomic::AtomicU64;

const MIB: usize = 1 << 20;

/// An area of its own, as a seat has one: the file's second half.
fn area(len: usize) -> Area {
    let fd = rustix::fs::memfd_create("area", MemfdFlags::CLOEXEC).expect("a file");
    rustix::fs::ftruncate(&fd, 2 * len as u64).expect("its size");
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping of a file of that size.
    let base =
        unsafe { libc::mmap(std::ptr::null_mut(), 2 * len, rights, flags, std::os::fd::AsRawFd::as_raw_fd(&fd), 0) };
    assert_ne!(base, libc::MAP_FAILED);
    // SAFETY: mapped above, for good.
    unsafe { Area::new(base.cast::<u8>().add(len), len, fd, len as u64) }.expect("an area")
}

/// Memory as `malloc` maps it.
fn memory(len: usize) -> *mut u8 {
    crate::exchange::private(len).expect("memory")
}

fn word(at: usize) -> &'static AtomicU64 {
    // SAFETY: tests keep their memory.
    unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(at)) }
}

fn is_shared(at: usize) -> bool {
    maps::over(&(at..at + PAGE)).expect("maps")[0].is_shared
}

/// Exchanges are possible at all in a process with threads, as that of tests is.
fn can() -> bool {
    let can = crate::is_guarded();
    if !can {
        println!("skipped: this user has no userfaultfd that the kernel waits for");
    }
    can
}

#[test]
fn content_goes_there_and_comes_back() {
    if !can() {
        return;
    }
    let area = area(256 * MIB);
    let at = memory(8 * PAGE).expose_provenance();
    (0..8).for_each(|page| word(at + page * PAGE + 8).store(100 + page as u64, Ordering::Relaxed));
    let reach = area.register(at + 100, 6 * PAGE).expect("exchanged");
    assert_eq!(reach % PAGE, 100);
    let twin = reach - 100;
    for page in 0..7 {
        assert_eq!(word(twin + page * PAGE + 8).load(Ordering::Relaxed), 100 + page as u64);
        word(twin + page * PAGE + 16).store(200 + page as u64, Ordering::Relaxed);
        assert_eq!(word(at + page * PAGE + 16).load(Ordering::Relaxed), 200 + page as u64);
    }
    assert!(is_shared(at) && !is_shared(at + 7 * PAGE));
    // One more region over some of it and beyond, and then the first one ends.
    let more = area.register(at + 5 * PAGE, 3 * PAGE).expect("they are neighbours");
    assert_eq!(more, twin + 5 * PAGE);
    area.deregister(at + 100, 6 * PAGE, reach);
    assert!(!is_shared(at) && is_shared(at + 5 * PAGE) && is_shared(at + 7 * PAGE));
    area.deregister(at + 5 * PAGE, 3 * PAGE, more);
    for page in 0..8 {
        assert!(!is_shared(at + page * PAGE));
        assert_eq!(word(at + page * PAGE + 8).load(Ordering::Relaxed), 100 + page as u64);
        let written = if page < 7 { 200 + page as u64 } else { 0 };
        assert_eq!(word(at + page * PAGE + 16).load(Ordering::Relaxed), written);
        assert_eq!(word(twin + page * PAGE + 8).load(Ordering::Relaxed), 0, "the seat's pages are empty again");
    }
}

#[test]
fn a_hundred_thousand_regions_of_a_page_are_one_page() {
    if !can() {
        return;
    }
    let area = area(256 * MIB);
    let at = memory(PAGE).expose_provenance();
    let reach = area.register(at, 16).expect("exchanged");
    for _ in 0..100_000 {
        assert_eq!(area.register(at + 8, 100), Ok(reach + 8));
    }
    word(at).store(5, Ordering::Relaxed);
    (0..100_000).for_each(|_| area.deregister(at + 8, 100, reach + 8));
    assert!(is_shared(at));
    area.deregister(at, 16, reach);
    assert!(!is_shared(at) && word(at).load(Ordering::Relaxed) == 5);
}

static STOP: AtomicBool = AtomicBool::new(false);

/// Calls `f` with 1, 2, and so on until the test ends. Returns how often.
fn until_the_end(mut f: impl FnMut(u64)) -> u64 {
    let mut n = 0;
    while !STOP.load(Ordering::Relaxed) {
        n += 1;
        f(n);
    }
    n
}

/// `read` to a page whose bytes were 1.
fn by_read(zero: &std::fs::File, at: usize) {
    use std::io::Read;
    // SAFETY: the test's memory, which only the caller's thread uses there.
    let to = unsafe { std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(at), 3 * PAGE) };
    to[PAGE] = 1;
    let mut zero = zero;
    zero.read_exact(to).expect("no EFAULT");
    assert!(to.iter().all(|byte| *byte == 0), "what the kernel wrote has gone");
}

/// `process_vm_writev` to this process's own word.
fn by_copy(at: usize, mut value: u64) {
    let local = libc::iovec { iov_base: (&raw mut value).cast(), iov_len: 8 };
    let remote = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(at), iov_len: 8 };
    // SAFETY: a word of the test's memory.
    let got = unsafe { libc::process_vm_writev(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    assert_eq!(got, 8, "{}", std::io::Error::last_os_error());
    assert_eq!(word(at).load(Ordering::Relaxed), value);
}

/// Pages that are written for the first time while they are exchanged.
fn first_writes(area: &Area) {
    let fresh = memory(4 * PAGE).expose_provenance();
    let reach = std::thread::scope(|inner| {
        let first = inner.spawn(move || (0..4).for_each(|page| word(fresh + page * PAGE).store(7, Ordering::Relaxed)));
        let reach = area.register(fresh, 4 * PAGE).expect("exchanged");
        first.join().expect("no fault");
        reach
    });
    (0..4).for_each(|page| assert_eq!(word(reach + page * PAGE).load(Ordering::Relaxed), 7));
    area.deregister(fresh, 4 * PAGE, reach);
    // SAFETY: made above.
    unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(fresh), 4 * PAGE) };
}

/// Other threads count in the pages all the while, by plain stores, `read` and `process_vm_writev`.
#[test]
fn nothing_that_others_write_is_lost() {
    if !can() {
        return;
    }
    let (area, len) = (area(256 * MIB), 64 * PAGE);
    let at = memory(len).expose_provenance();
    let zero = std::fs::File::open("/dev/zero").expect("zeros");
    let counts = std::thread::scope(|scope| {
        let store = scope.spawn(|| {
            until_the_end(|_| {
                let count = word(at + 17 * PAGE);
                count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            })
        });
        let read = scope.spawn(|| {
            until_the_end(|n| {
                word(at + 30 * PAGE).store(n, Ordering::Relaxed);
                by_read(&zero, at + 31 * PAGE);
            })
        });
        let copy = scope.spawn(|| until_the_end(|n| by_copy(at + 40 * PAGE, n)));
        let first = scope.spawn(|| until_the_end(|_| first_writes(&area)));
        for _ in 0..300 {
            let reach = area.register(at, len).expect("exchanged");
            std::thread::yield_now();
            area.deregister(at, len, reach);
        }
        STOP.store(true, Ordering::Relaxed);
        [store, read, copy, first].map(|thread| thread.join().expect("a thread"))
    });
    for (page, count) in [17, 30, 40].into_iter().zip(counts) {
        assert_eq!(word(at + page * PAGE).load(Ordering::Relaxed), count, "page {page}");
    }
    assert!(counts.iter().all(|count| *count > 0));
}

#[test]
fn what_cannot_be_exchanged_stays() {
    if !can() {
        return;
    }
    let area = area(256 * MIB);
    let at = memory(16 * PAGE).expose_provenance();
    let stays = |at, len| {
        let why = area.register(at, len).expect_err("stays");
        area.deregister(at, len, at);
        why
    };
    assert_eq!(stays(at, 0), Stays::Empty);
    let local = 5u64;
    assert_eq!(stays((&raw const local).expose_provenance(), 8), Stays::Stack);
    static CONSTANT: u64 = 6;
    assert_eq!(stays((&raw const CONSTANT).expose_provenance(), 8), Stays::Mapped);
    assert_eq!(stays(at, 1 << 40), Stays::Room);
    // SAFETY: the test's own memory.
    unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(at + 4 * PAGE), PAGE) };
    assert_eq!(stays(at + 3 * PAGE, 2 * PAGE), Stays::Unmapped);
    assert_eq!(area.register(at + 3 * PAGE, 2 * PAGE), Err(Stays::Unmapped));
    assert_eq!(stays(at + 2 * PAGE, PAGE + 8), Stays::Overlaps, "a region that stays has one of the pages");
}

#[test]
fn what_the_program_does_with_its_pages_meanwhile_is_its_own() {
    if !can() {
        return;
    }
    let area = area(256 * MIB);
    let at = memory(16 * PAGE).expose_provenance();
    let pointer = |at| std::ptr::with_exposed_provenance_mut::<libc::c_void>(at);
    (0..16).for_each(|page| word(at + page * PAGE).store(page as u64, Ordering::Relaxed));
    // Unmapped, and mapped anew.
    let reach = area.register(at, 4 * PAGE).expect("exchanged");
    // SAFETY: the test's own memory.
    unsafe { libc::munmap(pointer(at + PAGE), PAGE) };
    assert_eq!(word(reach + PAGE).load(Ordering::Relaxed), 1, "the adapter still has it");
    assert_eq!(area.register(at, 4 * PAGE), Err(Stays::Unmapped));
    area.deregister(at, 4 * PAGE, at);
    area.deregister(at, 4 * PAGE, reach);
    assert!(!is_shared(at) && word(at + 2 * PAGE).load(Ordering::Relaxed) == 2);
    let (rights, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
    // SAFETY: in place of what was unmapped.
    assert_ne!(unsafe { libc::mmap(pointer(at + PAGE), PAGE, rights, flags, -1, 0) }, libc::MAP_FAILED);
    let reach = area.register(at, 4 * PAGE).expect("exchanged");
    assert_eq!(word(reach + PAGE).load(Ordering::Relaxed), 0, "nothing of the old page");
    area.deregister(at, 4 * PAGE, reach);
    // Moved: the content is the program's, wherever it is.
    let reach = area.register(at + 4 * PAGE, 4 * PAGE).expect("exchanged");
    let to = memory(4 * PAGE).expose_provenance();
    let how = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the test's own memory.
    assert_ne!(unsafe { libc::mremap(pointer(at + 4 * PAGE), 4 * PAGE, 4 * PAGE, how, pointer(to)) }, libc::MAP_FAILED);
    area.deregister(at + 4 * PAGE, 4 * PAGE, reach);
    (0..4).for_each(|page| assert_eq!(word(to + page * PAGE).load(Ordering::Relaxed), 4 + page as u64));
    // Thrown away.
    let reach = area.register(at + 8 * PAGE, 2 * PAGE).expect("exchanged");
    emptied(at + 8 * PAGE, PAGE);
    assert_eq!(word(at + 8 * PAGE).load(Ordering::Relaxed), 0);
    assert_eq!(word(at + 9 * PAGE).load(Ordering::Relaxed), 9);
    // Protected.
    // SAFETY: the test's own memory.
    assert_eq!(unsafe { libc::mprotect(pointer(at + 8 * PAGE), 2 * PAGE, libc::PROT_READ) }, 0);
    area.deregister(at + 8 * PAGE, 2 * PAGE, reach);
    let vma = &maps::over(&(at + 8 * PAGE..at + 10 * PAGE)).expect("maps")[0];
    assert!(!vma.is_shared && vma.reads && !vma.writes);
    assert_eq!(word(at + 9 * PAGE).load(Ordering::Relaxed), 9);
    assert_eq!(area.register(at + 8 * PAGE, 8), Err(Stays::Protected));
}

#[test]
fn a_child_has_copies() {
    if !can() {
        return;
    }
    let area = area(256 * MIB);
    let at = memory(1024 * PAGE).expose_provenance();
    word(at).store(1, Ordering::Relaxed);
    word(at + 1000 * PAGE).store(2, Ordering::Relaxed);
    let reach = area.register(at, 1024 * PAGE).expect("exchanged");
    for round in 0..20 {
        // SAFETY: the child only stores to memory and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_right =
                word(at).load(Ordering::Relaxed) == 1 + round && word(at + 1000 * PAGE).load(Ordering::Relaxed) == 2;
            word(at).store(99, Ordering::Relaxed);
            word(at + 512 * PAGE).store(99, Ordering::Relaxed);
            // SAFETY: nothing of the parent's is to be cleaned up.
            unsafe { libc::_exit(if is_right { 7 } else { 8 }) };
        }
        word(at).store(2 + round, Ordering::Relaxed);
        let mut status = 0;
        // SAFETY: the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(libc::WEXITSTATUS(status), 7, "round {round}");
        assert_eq!(word(at).load(Ordering::Relaxed), 2 + round);
        assert_eq!(word(reach + 512 * PAGE).load(Ordering::Relaxed), 0);
    }
    area.deregister(at, 1024 * PAGE, reach);
}

#[test]
fn sparse_memory_stays_sparse() {
    if !can() {
        return;
    }
    let area = area(64 << 30);
    let at = memory(32 << 30).expose_provenance();
    word(at + (17 << 30)).store(3, Ordering::Relaxed);
    let reach = area.register(at, 32 << 30).expect("exchanged");
    assert_eq!(word(reach + (17 << 30)).load(Ordering::Relaxed), 3);
    word(reach + (30 << 30)).store(4, Ordering::Relaxed);
    let book = book();
    let blocks = rustix::fs::fstat(&book.areas[area.index].fd).expect("stat").st_blocks;
    drop(book);
    assert!(blocks < 8192, "{blocks} blocks");
    area.deregister(at, 32 << 30, reach);
    assert_eq!(word(at + (30 << 30)).load(Ordering::Relaxed), 4);
    assert_eq!(word(at + (17 << 30)).load(Ordering::Relaxed), 3);
}
