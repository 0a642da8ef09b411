//! What all areas of a process have in common: the book of exchanged pages, for one thread at a time.

use crate::exchange::{Twin, empty, exchange, give_back};
use crate::guard::{Guard, is_alone, no_own_threads};
use crate::maps::{self, File, Vma};
use crate::ranges::{Counts, Span};
use crate::stays::Stays;
use crate::windows::Windows;
use angara_abi::PAGE;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Heaps of glibc's allocator begin at multiples of this, with data that its part of a fork writes
/// (`HEAP_MAX_SIZE` in malloc/arena.c).
const ALLOCATOR: usize = 64 << 20;

/// All areas of this process.
static BOOK: Mutex<Book> = Mutex::new(Book::new());

pub(crate) struct Book {
    /// The process that it is about: a child has another one.
    pid: u32,
    pub(crate) areas: Vec<AreaBook>,
    /// Pages of regions that stay where they are.
    plain: Counts,
    /// Makes others wait; the second value says whether it was looked for.
    guard: (Option<Guard>, bool),
}

/// What is in an area.
pub(crate) struct AreaBook {
    base: *mut u8,
    pub(crate) fd: OwnedFd,
    /// Where in the file the area begins.
    offset: u64,
    /// The file.
    file: File,
    windows: Windows,
    /// In how many regions each page is.
    counts: Counts,
    /// Pages of the program that are pages of the area now.
    pub(crate) held: Counts,
}

// SAFETY: `base` is a number that says where shared memory is mapped, for good; what is done with it is synchronised by the book's
// lock.
unsafe impl Send for AreaBook {}

/// The book, for one thread at a time.
pub(crate) struct Open(MutexGuard<'static, Book>);

/// The thread that has it.
static READER: AtomicUsize = AtomicUsize::new(0);

/// A number that no other thread has.
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| (&raw const *here).addr())
}

pub(crate) fn book() -> Open {
    // Each step leaves the book true.
    let mut book = BOOK.lock().unwrap_or_else(PoisonError::into_inner);
    READER.store(this_thread(), Ordering::Relaxed);
    if book.pid != std::process::id() {
        if book.pid != 0 {
            // A child: its parent's areas are none of its own.
            *book = Book::new();
            no_own_threads();
        }
        book.pid = std::process::id();
    }
    Open(book)
}

/// True if the calling thread has the book.
pub(crate) fn has_reader_here() -> bool {
    READER.load(Ordering::Relaxed) == this_thread()
}

impl Drop for Open {
    fn drop(&mut self) {
        READER.store(0, Ordering::Relaxed);
    }
}
impl Deref for Open {
    type Target = Book;
    fn deref(&self) -> &Book {
        &self.0
    }
}
impl DerefMut for Open {
    fn deref_mut(&mut self) -> &mut Book {
        &mut self.0
    }
}

impl AreaBook {
    /// An area of `len` bytes at `base`, where `fd` is mapped from `offset` on.
    pub(crate) fn new(base: *mut u8, len: usize, fd: OwnedFd, offset: u64) -> Result<AreaBook, Stays> {
        let start = base.expose_provenance();
        let maps = maps::over(&(start..start + PAGE)).map_err(|e| Stays::system("maps", &e))?;
        let file = maps.first().map(|vma| vma.file).ok_or(Stays::Unmapped)?;
        let (counts, held) = (Counts::default(), Counts::default());
        Ok(AreaBook { base, fd, offset, file, windows: Windows::new(len), counts, held })
    }

    /// The pages that stand for the program's from this one on.
    pub(crate) fn twin(&self, page: usize) -> Option<Twin<'_>> {
        let at = self.windows.find(page)?;
        // SAFETY: windows are inside the area.
        Some(Twin { at: unsafe { self.base.add(at) }, fd: self.fd(), offset: self.offset + at as u64 })
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
    /// True if a mapping is this area's, where it should be.
    pub(crate) fn is_own(&self, vma: &Vma) -> bool {
        let is_there = |twin: Twin<'_>| twin.offset == vma.offset;
        vma.is_shared && vma.file == self.file && self.twin(vma.span.start).is_some_and(is_there)
    }
}

impl Book {
    const fn new() -> Book {
        Book { pid: 0, areas: Vec::new(), plain: Counts::EMPTY, guard: (None, false) }
    }

    /// Pages of a region that stays where it is.
    pub(crate) fn stays(&mut self, range: &Span) {
        self.plain.add(range);
    }
    /// The region is gone.
    pub(crate) fn stays_no_more(&mut self, range: &Span) {
        self.plain.remove(range);
    }

    /// What makes others wait, or nothing where there are none.
    fn guard(&mut self) -> Result<Option<&Guard>, Stays> {
        if !self.guard.1 {
            self.guard = (Guard::open(), true);
        }
        match &self.guard.0 {
            Some(guard) => Ok(Some(guard)),
            None if is_alone() => Ok(None),
            None => Err(Stays::Threads),
        }
    }

    /// Exchanges what is not exchanged yet of a range for an area. Returns where in the area it is. `at` is where the region
    /// begins.
    pub(crate) fn register(&mut self, index: usize, range: &Span, at: usize) -> Result<usize, Stays> {
        if at > range.start && range.start.is_multiple_of(ALLOCATOR) {
            return Err(Stays::Allocator);
        }
        let area = &mut self.areas[index];
        let offset = area.windows.place(range, &area.held).ok_or(Stays::Room)?;
        let area = &self.areas[index];
        let gaps = area.held.gaps(range);
        self.check(area, range, &gaps)?;
        if !gaps.is_empty() {
            self.guard()?;
        }
        for (done, gap) in gaps.iter().enumerate() {
            let area = &self.areas[index];
            let twin = area.twin(gap.start).ok_or(Stays::Room)?;
            if let Err(stays) = exchange(gap, twin, self.guard.0.as_ref()) {
                gaps[..done].iter().for_each(|gap| self.give_back(index, gap));
                return Err(stays);
            }
            self.areas[index].held.add(gap);
        }
        self.areas[index].counts.add(range);
        Ok(offset)
    }

    /// Whether pages can be exchanged, or are already.
    fn check(&self, area: &AreaBook, range: &Span, gaps: &[Span]) -> Result<(), Stays> {
        let stack = (&raw const gaps).expose_provenance();
        let is_gap = |span: &Span| gaps.iter().any(|gap| gap.start <= span.start && span.end <= gap.end);
        if gaps.iter().any(|gap| self.plain.touches(gap)) {
            return Err(Stays::Overlaps);
        }
        let mut at = range.start;
        for vma in maps::over(range).map_err(|e| Stays::system("maps", &e))? {
            if vma.span.start > at {
                return Err(Stays::Unmapped);
            }
            at = vma.span.end;
            if area.is_own(&vma) {
                // Of these pages all are held.
                if gaps.iter().any(|gap| gap.start < vma.span.end && vma.span.start < gap.end) {
                    return Err(Stays::Moved);
                }
                continue;
            }
            if vma.is_shared || vma.file != (0, 0, 0) {
                return Err(Stays::Mapped);
            }
            if !vma.reads || !vma.writes || vma.executes {
                return Err(Stays::Protected);
            }
            if vma.whole.contains(&stack) {
                return Err(Stays::Stack);
            }
            if !is_gap(&vma.span) {
                return Err(Stays::Moved);
            }
        }
        if at < range.end { Err(Stays::Unmapped) } else { Ok(()) }
    }

    /// A region is gone.
    pub(crate) fn deregister(&mut self, index: usize, range: &Span) {
        for span in self.areas[index].counts.remove(range) {
            for part in self.areas[index].held.parts(&span) {
                self.give_back(index, &part);
            }
        }
    }

    /// Gives the program pages of its own for all of a range that no region has any more. Where that cannot be done safely, it
    /// keeps those of the area, which do the same but for a fork.
    fn give_back(&mut self, index: usize, range: &Span) {
        if self.guard().is_err() {
            return;
        }
        let area = &self.areas[index];
        let Ok(maps) = maps::over(range) else { return };
        let mut at = range.start;
        let mut gone = Vec::new();
        let mut lost = |from, to| {
            if from < to {
                gone.push(from..to);
            }
        };
        let mut done = Vec::new();
        for vma in maps {
            lost(at, vma.span.start);
            at = vma.span.end;
            if !area.is_own(&vma) {
                lost(vma.span.start, vma.span.end);
                continue;
            }
            let Some(twin) = area.twin(vma.span.start) else { continue };
            if give_back(&vma, twin, self.guard.0.as_ref()).is_ok() {
                empty(twin, vma.span.len());
                done.push(vma.span);
            }
        }
        lost(at, range.end);
        // The program has unmapped these itself, or moved them: then they have to stay as they are.
        for span in gone {
            let Some(twin) = area.twin(span.start) else { continue };
            let bytes = twin.offset..twin.offset + span.len() as u64;
            if maps::has_elsewhere(area.file, bytes, area.base.addr()).is_ok_and(|is_there| !is_there) {
                empty(twin, span.len());
                done.push(span);
            }
        }
        let held = &mut self.areas[index].held;
        done.iter().for_each(|span| held.clear(span));
    }
}
