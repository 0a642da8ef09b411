//! The loaded objects of this process: who needs whom, and which of their pages hold variables and constants.
//!
//! Read from the program headers and dynamic sections the loader keeps in memory. Used once,
//! before `main`, to find the global variables that become symmetric.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;

const PT_GNU_RELRO: u32 = 0x6474_e552;
const DT_NULL: i64 = 0;
const DT_NEEDED: i64 = 1;
const DT_STRTAB: i64 = 5;
const DT_SONAME: i64 = 14;

/// One entry of a dynamic section.
#[repr(C)]
struct Dyn {
    tag: i64,
    value: u64,
}

/// A range of an object that holds variables or constants, whole pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    /// Addresses.
    pub(crate) pages: Range<usize>,
    /// Addresses backed by the file: initialised data. The rest starts as zeros.
    pub(crate) file: Range<usize>,
    /// mmap protection bits.
    pub(crate) prot: c_int,
}

impl Segment {
    /// It holds variables, not constants.
    pub(crate) fn is_writable(&self) -> bool {
        self.prot & libc::PROT_WRITE != 0
    }
}

/// A loaded object.
#[derive(Debug)]
struct Object {
    /// File name and soname.
    names: Vec<String>,
    needed: Vec<String>,
    segments: Vec<Segment>,
    /// It contains this code.
    me: bool,
}

fn page_down(a: usize) -> usize {
    a & !(angara_abi::machine_page() - 1)
}

/// Pages of the loadable segments with variables, then those with constants: what the loader made read-only again
/// after it relocated it (RELRO), and the segments that only can be read. The first of these has nothing but tables
/// for the loader where there are others; where there is none, constants lie beside the code.
fn segments(base: usize, headers: &[libc::Elf64_Phdr]) -> Vec<Segment> {
    let range = |h: &libc::Elf64_Phdr| {
        let start = base + h.p_vaddr as usize;
        start..start + h.p_memsz as usize
    };
    let (mut variables, mut constants) = (Vec::new(), Vec::new());
    let mut add = |h: &libc::Elf64_Phdr, start: usize, end: usize, prot: c_int| {
        let file = range(h).start..range(h).start + h.p_filesz as usize;
        let to = if prot & libc::PROT_WRITE != 0 { &mut variables } else { &mut constants };
        if start < end {
            to.push(Segment { pages: start..end, file, prot });
        }
    };
    let relro = headers.iter().find(|h| h.p_type == PT_GNU_RELRO).map(range);
    let loaded = || headers.iter().filter(|h| h.p_type == libc::PT_LOAD);
    for h in loaded().filter(|h| h.p_flags & libc::PF_W != 0) {
        let memory = range(h);
        let (first, end) = (page_down(memory.start), memory.end.next_multiple_of(angara_abi::machine_page()));
        // The loader protects whole pages only, so the page where RELRO ends stays writable.
        let relro = relro.as_ref().filter(|r| memory.contains(&r.start)).map_or(first, |r| page_down(r.end));
        let start = first.max(relro.min(end));
        add(h, first, start, libc::PROT_READ);
        let executable = if h.p_flags & libc::PF_X != 0 { libc::PROT_EXEC } else { 0 };
        add(h, start, end, libc::PROT_READ | libc::PROT_WRITE | executable);
    }
    let readable = |h: &&libc::Elf64_Phdr| h.p_flags & (libc::PF_R | libc::PF_W) == libc::PF_R;
    let plain = || loaded().filter(readable).filter(|h| h.p_flags & libc::PF_X == 0);
    let several = plain().count() > 1;
    let chosen: Vec<_> = match plain().next() {
        Some(_) => plain().filter(|h| !several || h.p_offset != 0).collect(),
        None => loaded().filter(readable).collect(),
    };
    for h in chosen {
        add(h, page_down(range(h).start), range(h).end.next_multiple_of(angara_abi::machine_page()), libc::PROT_READ);
    }
    variables.append(&mut constants);
    variables
}

/// Names an object has and needs, from its dynamic section.
///
/// # Safety
/// `base` and `headers` describe a loaded object.
unsafe fn names(base: usize, headers: &[libc::Elf64_Phdr]) -> (Option<String>, Vec<String>) {
    let Some(dynamic) = headers.iter().find(|h| h.p_type == libc::PT_DYNAMIC) else { return (None, Vec::new()) };
    let (mut strings, mut soname, mut needed) = (0usize, None, Vec::new());
    let mut at = (base + dynamic.p_vaddr as usize) as *const Dyn;
    loop {
        // SAFETY: a dynamic section ends with DT_NULL.
        let Dyn { tag, value } = unsafe { at.read() };
        match tag {
            DT_NULL => break,
            DT_NEEDED => needed.push(value as usize),
            DT_SONAME => soname = Some(value as usize),
            DT_STRTAB => strings = value as usize,
            _ => {}
        }
        // SAFETY: a dynamic section ends with DT_NULL.
        at = unsafe { at.add(1) };
    }
    if strings == 0 {
        return (None, Vec::new());
    }
    // glibc relocates this entry in place for most objects; where it does not, it is an offset.
    if strings < base {
        strings += base;
    }
    // SAFETY: an offset into the object's string table.
    let text = |offset: usize| unsafe { CStr::from_ptr((strings + offset) as *const _) }.to_string_lossy().into_owned();
    (soname.map(text), needed.into_iter().map(text).collect())
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// Every object the loader has mapped, the executable first.
fn objects() -> Vec<Object> {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid description; `data` is the vector below.
        let (info, list) = unsafe { (&*info, &mut *data.cast::<Vec<Object>>()) };
        let base = info.dlpi_addr as usize;
        // SAFETY: the loader's own header table.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize) };
        let path = match info.dlpi_name.is_null() {
            true => "".into(),
            // SAFETY: a terminated name.
            false => unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy(),
        };
        // SAFETY: a terminated name.
        let (soname, needed) = unsafe { names(base, headers) };
        let here = objects as *const () as usize;
        let me = headers.iter().any(|h| {
            let start = base + h.p_vaddr as usize;
            h.p_type == libc::PT_LOAD && (start..start + h.p_memsz as usize).contains(&here)
        });
        let names = [file_name(&path)].into_iter().chain(soname).collect();
        list.push(Object { names, needed, segments: segments(base, headers), me });
        0
    }
    let mut list: Vec<Object> = Vec::new();
    // SAFETY: the callback gets the vector and nothing keeps it.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut list).cast()) };
    list
}

/// Indices reachable from `from` along `needed`, `from` included.
fn closure(objects: &[Object], from: usize) -> Vec<bool> {
    let mut seen = vec![false; objects.len()];
    let mut todo = vec![from];
    while let Some(i) = todo.pop() {
        if std::mem::replace(&mut seen[i], true) {
            continue;
        }
        let wanted = |o: &Object| objects[i].needed.iter().any(|n| o.names.contains(n));
        todo.extend((0..objects.len()).filter(|j| wanted(&objects[*j])));
    }
    seen
}

/// Segments of the executable and of those of its libraries that depend on this library, in load order, the
/// variables of all of them before the constants; `None` if this library was not linked at start but loaded later by an interpreter.
pub(crate) fn symmetric_segments() -> Option<Vec<Segment>> {
    select(&objects())
}

fn select(objects: &[Object]) -> Option<Vec<Segment>> {
    let me = objects.iter().position(|o| o.me)?;
    let start = closure(objects, 0);
    if me == 0 || !start[me] {
        return None;
    }
    let chosen = (0..objects.len()).filter(|&i| start[i] && i != me && closure(objects, i)[me]);
    let mut all: Vec<Segment> = chosen.flat_map(|i| objects[i].segments.iter().cloned()).collect();
    all.sort_by_key(|s| !s.is_writable());
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, needed: &[&str], at: usize, me: bool) -> Object {
        let segment = Segment { pages: at..at + 4096, file: at..at, prot: 3 };
        Object {
            names: vec![name.into()],
            needed: needed.iter().map(|s| s.to_string()).collect(),
            segments: vec![segment],
            me,
        }
    }

    #[test]
    fn only_objects_that_depend_on_the_library_are_chosen() {
        let objects = [
            object("", &["libapp.so", "libc.so.6"], 1 << 20, false),
            object("libapp.so", &["libsma.so"], 2 << 20, false),
            object("libc.so.6", &[], 3 << 20, false),
            object("libsma.so", &["libc.so.6"], 4 << 20, true),
            object("libplugin.so", &["libsma.so"], 5 << 20, false),
        ];
        let starts: Vec<usize> = select(&objects).unwrap().iter().map(|s| s.pages.start >> 20).collect();
        assert_eq!(starts, [1, 2], "the executable and the library between; not libc, not a later plugin");
    }

    #[test]
    fn an_interpreter_that_loads_the_library_keeps_its_globals() {
        let objects = [
            object("", &["libc.so.6"], 1 << 20, false),
            object("libc.so.6", &[], 2 << 20, false),
            object("ext.so", &["libsma.so"], 3 << 20, false),
            object("libsma.so", &["libc.so.6"], 4 << 20, true),
        ];
        assert_eq!(select(&objects), None);
    }

    #[test]
    fn relro_pages_are_left_out_and_the_rest_is_whole_pages() {
        let header = |kind, flags, vaddr, filesz, memsz| libc::Elf64_Phdr {
            p_type: kind,
            p_flags: flags,
            p_offset: 0,
            p_vaddr: vaddr,
            p_paddr: 0,
            p_filesz: filesz,
            p_memsz: memsz,
            p_align: 4096,
        };
        let headers = [
            header(libc::PT_LOAD, libc::PF_R | libc::PF_X, 0, 0x1000, 0x1000),
            header(libc::PT_LOAD, libc::PF_R | libc::PF_W, 0x3df0, 0x220, 0x5000),
            header(PT_GNU_RELRO, libc::PF_R, 0x3df0, 0x210, 0x210),
        ];
        let found = segments(0x10000, &headers);
        assert_eq!(found[0].pages, 0x14000..0x19000);
        assert_eq!(found[0].file, 0x13df0..0x14010);
        // Constants that the loader relocated, and those beside the code.
        assert_eq!((found[1].pages.clone(), found[2].pages.clone()), (0x13000..0x14000, 0x10000..0x11000));
        assert_eq!(found.iter().map(Segment::is_writable).collect::<Vec<_>>(), [true, false, false]);
        // With read-only segments, code holds none, and the first of several only what the loader needs.
        let with_own = |headers: &[libc::Elf64_Phdr]| {
            segments(0, headers).into_iter().filter(|s| !s.is_writable()).map(|s| s.pages).collect::<Vec<_>>()
        };
        let tables = header(libc::PT_LOAD, libc::PF_R, 0, 0x700, 0x700);
        let code = header(libc::PT_LOAD, libc::PF_R | libc::PF_X, 0x1000, 0x100, 0x100);
        let constants =
            libc::Elf64_Phdr { p_offset: 0x2000, ..header(libc::PT_LOAD, libc::PF_R, 0x2000, 0x1001, 0x1001) };
        assert_eq!(with_own(&[tables, code, constants]), std::slice::from_ref(&(0x2000..0x4000)));
        assert_eq!(with_own(&[tables, code]), std::slice::from_ref(&(0..0x1000)));
    }

    #[test]
    fn this_process_lists_its_libraries() {
        let all = objects();
        assert!(all.iter().any(|o| o.names.iter().any(|n| n.starts_with("libc.so"))));
        assert_eq!(all.iter().filter(|o| o.me).count(), 1);
        assert!(all[0].needed.iter().any(|n| n.starts_with("libc.so")));
    }
}
