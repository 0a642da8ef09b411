//! A program's file: what it needs, how it lies in memory, and why it cannot run as a coroutine.

use crate::elf::{Dynamic, File, Header, Relocation, Symbol, reloc, tag};
use crate::refusals::{REFUSED_EXPORTS, why_not};
use crate::{PAGE, TLS_MAX};
use std::fmt;
use std::path::{Path, PathBuf};

/// Libraries whose state is kept per PE, or that have none.
const LIBRARIES: [&str; 9] = [
    "libsma.so",
    "libc.so.6",
    "libm.so.6",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libdl.so.2",
];

/// Largest image: what no program reaches, so that a damaged header cannot ask for all memory.
const IMAGE_MAX: usize = 16 << 30;

/// One line: why a program cannot run as a coroutine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl Refusal {
    pub(crate) fn new(path: &Path, why: impl fmt::Display) -> Refusal {
        Refusal(format!("{}: {why}", path.display()))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// Whole pages of the image that peers can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where they begin, from the image's first byte.
    pub offset_in_image: usize,
    /// Bytes.
    pub len: usize,
    /// Variables, not constants.
    pub writable: bool,
}

/// How one PE's slice of memory is divided. All sizes are multiples of [`PAGE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a slice: the image, then copies of the constants.
    pub slice_bytes: usize,
    /// What the address of a slice must be a multiple of.
    pub align: usize,
    /// Bytes of the image; the copies of constants follow.
    pub image_bytes: usize,
    /// Where the variables begin: the first byte of the region that peers can reach, which ends with the slice.
    pub variables_at: usize,
    /// Bytes of the variables.
    pub variables_bytes: usize,
}

/// Thread-local variables of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    /// Where their first values lie in the image.
    pub(crate) at: usize,
    /// Bytes with first values; the rest starts as zeros.
    pub(crate) filled: usize,
    /// Bytes below the thread pointer.
    pub(crate) size: usize,
}

/// A program read and found fit to run as coroutines.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) path: PathBuf,
    /// The image as the file has it, from the first page on.
    pub(crate) bytes: Vec<u8>,
    pub(crate) headers: Vec<Header>,
    pub(crate) entry: usize,
    needed: Vec<String>,
    pub(crate) relocations: Vec<(Relocation, Symbol)>,
    pub(crate) packed_relative: Vec<usize>,
    pub(crate) init: Option<usize>,
    pub(crate) fini: Option<usize>,
    pub(crate) preinit_array: (usize, usize),
    pub(crate) init_array: (usize, usize),
    pub(crate) fini_array: (usize, usize),
    pub(crate) tls: Option<Tls>,
    segments: Vec<Segment>,
    layout: Layout,
}

impl Program {
    /// Reads and checks the file.
    pub fn read(path: &Path) -> Result<Program, Refusal> {
        let refuse = |why: String| Refusal::new(path, why);
        let data = std::fs::read(path).map_err(|e| refuse(e.to_string()))?;
        Program::from_bytes(path, &data).map_err(refuse)
    }

    /// Libraries that the program in a file is linked with; none if it cannot be read so far. Also for one that is
    /// refused.
    pub fn libraries(path: &Path) -> Option<Vec<String>> {
        let data = std::fs::read(path).ok()?;
        let file = File::parse(&data).ok()?;
        let bytes = image(&file, &data).ok()?;
        Dynamic::read(&bytes, &file.first(libc::PT_DYNAMIC)?)?.needed()
    }

    fn from_bytes(path: &Path, data: &[u8]) -> Result<Program, String> {
        let damaged = || "its dynamic section is damaged".to_string();
        let file = File::parse(data)?;
        if !file.is_relocatable() {
            return Err("it is not position-independent (link with -pie)".into());
        }
        let (Some(dynamic), Some(_)) = (file.first(libc::PT_DYNAMIC), file.first(libc::PT_INTERP)) else {
            return Err("it is statically linked, or a library".into());
        };
        let bytes = image(&file, data)?;
        let dynamic = Dynamic::read(&bytes, &dynamic).ok_or_else(damaged)?;
        let relocations = dynamic.relocations().ok_or_else(damaged)?;
        let with_symbol = |r: Relocation| Some((r, dynamic.symbol(r.symbol)?));
        let relocations: Vec<_> =
            relocations.into_iter().map(with_symbol).collect::<Option<_>>().ok_or_else(damaged)?;
        let needed = dynamic.needed().ok_or_else(damaged)?;
        let tls = thread_locals(&file)?;
        check_exports(&dynamic, file.dynamic_symbols())?;
        check_relocations(&relocations, bytes.len())?;
        check_libraries(&needed)?;
        let packed_relative = dynamic.packed_relative().ok_or_else(damaged)?;
        if packed_relative.iter().any(|at| at.saturating_add(8) > bytes.len()) {
            return Err(damaged());
        }
        let segments = segments(&file.headers);
        let layout = layout(&file.headers, &segments, bytes.len())?;
        let arrays = [
            dynamic.array(tag::PREINIT_ARRAY, tag::PREINIT_ARRAYSZ),
            dynamic.array(tag::INIT_ARRAY, tag::INIT_ARRAYSZ),
            dynamic.array(tag::FINI_ARRAY, tag::FINI_ARRAYSZ),
        ];
        if file.entry >= bytes.len() || arrays.iter().any(|(at, n)| at.saturating_add(n * 8) > bytes.len()) {
            return Err(damaged());
        }
        let (init, fini) = (dynamic.get(tag::INIT), dynamic.get(tag::FINI));
        Ok(Program {
            path: path.to_owned(),
            headers: file.headers,
            entry: file.entry,
            needed,
            relocations,
            packed_relative,
            init,
            fini,
            preinit_array: arrays[0],
            init_array: arrays[1],
            fini_array: arrays[2],
            tls,
            segments,
            layout,
            bytes,
        })
    }

    /// Where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Libraries it is linked with.
    pub fn needed(&self) -> &[String] {
        &self.needed
    }

    /// It is linked with a library whose name starts like this.
    pub fn needs(&self, library: &str) -> bool {
        self.needed.iter().any(|n| n.starts_with(library))
    }

    /// It imports a symbol of this name.
    pub fn imports(&self, name: &str) -> bool {
        self.relocations.iter().any(|(_, s)| !s.defined && s.name == name)
    }

    /// What peers can reach: variables, then constants, as with PEs that are processes.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// How a PE's slice is divided.
    pub fn layout(&self) -> Layout {
        self.layout
    }
}

/// The bytes of the loadable segments where they belong.
fn image(file: &File, data: &[u8]) -> Result<Vec<u8>, String> {
    let damaged = || "its program headers are damaged".to_string();
    let loaded = || file.headers.iter().filter(|h| h.is_load());
    let fits = |h: &Header| {
        h.vaddr.checked_add(h.memsz).is_some_and(|end| end <= IMAGE_MAX)
            && h.filesz <= h.memsz
            && h.offset.checked_add(h.filesz).is_some_and(|end| end <= data.len())
    };
    if !file.headers.iter().all(fits) {
        return Err(damaged());
    }
    let mut writable = loaded().filter(|h| h.is_writable());
    let (first, more) = (writable.next().ok_or("it has no variables")?, writable.next().is_some());
    if more || loaded().any(|h| h.vaddr > first.vaddr) {
        return Err("its variables are not in one segment at its end".into());
    }
    if loaded().any(|h| h.align > PAGE && !h.align.is_power_of_two())
        || loaded().next().is_some_and(|h| h.vaddr >= PAGE)
    {
        return Err(damaged());
    }
    let span = first.end().next_multiple_of(PAGE);
    // Zeros that nobody writes take no memory: the template is mapped by the allocator.
    let mut bytes = vec![0u8; span];
    for h in loaded() {
        bytes[h.vaddr..h.vaddr + h.filesz].copy_from_slice(&data[h.offset..h.offset + h.filesz]);
    }
    Ok(bytes)
}

fn thread_locals(file: &File) -> Result<Option<Tls>, String> {
    let Some(h) = file.first(libc::PT_TLS).filter(|h| h.memsz > 0) else { return Ok(None) };
    let size = h.memsz.next_multiple_of(h.align.max(1));
    match size <= TLS_MAX && h.align <= 64 {
        true => Ok(Some(Tls { at: h.vaddr, filled: h.filesz, size })),
        false => Err(format!(
            "its thread-local variables take {size} bytes, aligned to {}; at most {TLS_MAX} and 64",
            h.align
        )),
    }
}

/// Definitions that libc and the libraries would have to use.
fn check_exports(dynamic: &Dynamic, symbols: usize) -> Result<(), String> {
    let exported = (1..symbols).filter_map(|i| dynamic.symbol(i)).filter(|s| s.defined);
    match exported.into_iter().find(|s| REFUSED_EXPORTS.contains(&s.name.as_str())) {
        Some(s) => Err(format!("it defines {}, which libc of all PEs would have to use", s.name)),
        None => Ok(()),
    }
}

fn check_libraries(needed: &[String]) -> Result<(), String> {
    let known = |n: &&String| LIBRARIES.iter().any(|l| *n == l) || n.starts_with("libsma.so");
    match needed.iter().find(|n| !known(n)) {
        Some(n) => Err(format!("it is linked with {n}, whose variables all PEs would share")),
        None => Ok(()),
    }
}

/// Variables of libc whose copy in the program is kept right.
pub(crate) const COPIED: [&str; 14] = [
    "stdout",
    "stderr",
    "stdin",
    "environ",
    "__environ",
    "_environ",
    "optind",
    "optarg",
    "opterr",
    "optopt",
    "program_invocation_name",
    "program_invocation_short_name",
    "__progname",
    "__progname_full",
];

fn check_relocations(relocations: &[(Relocation, Symbol)], image: usize) -> Result<(), String> {
    // Without a symbol there is no name.
    let imports = relocations.iter().map(|(_, s)| s).filter(|s| !s.defined && !s.name.is_empty());
    if let Some(why) = why_not(&imports.map(|s| s.name.as_str()).collect::<Vec<_>>()) {
        return Err(why);
    }
    for (r, s) in relocations {
        if r.kind != reloc::NONE && r.offset.saturating_add(s.size.max(8) * usize::from(r.kind == reloc::COPY)) > image
            || r.offset.saturating_add(8) > image
        {
            return Err(format!("its relocation of {:?} lies outside", s.name));
        }
        match r.kind {
            reloc::COPY if s.size > 8 || !COPIED.contains(&s.name.as_str()) => {
                return Err(format!(
                    "it has a copy of {} ({} bytes): compile with -fPIC (oshcc -fPIC)",
                    s.name, s.size
                ));
            }
            reloc::TPOFF64 if r.symbol == 0 || s.defined => {}
            kind if kind == reloc::TPOFF64 || reloc::DYNAMIC_TLS.contains(&kind) => {
                return Err(format!("it uses the thread-local variable {:?} of a library", s.name));
            }
            reloc::NONE | reloc::R64 | reloc::COPY | reloc::GLOB_DAT | reloc::JUMP_SLOT => {}
            reloc::RELATIVE | reloc::IRELATIVE => {}
            kind => return Err(format!("it has a relocation of kind {kind} ({})", s.name)),
        }
    }
    Ok(())
}

fn page_down(a: usize) -> usize {
    a & !(PAGE - 1)
}

/// Pages of the loadable segments with variables, then those with constants: what becomes read-only once it is
/// relocated (RELRO), and the segments that only can be read. The first of these has nothing but tables for the loader
/// where there are others; where there is none, constants lie beside the code. PEs that are processes choose the same.
fn segments(headers: &[Header]) -> Vec<Segment> {
    let (mut variables, mut constants) = (Vec::new(), Vec::new());
    let mut add = |start: usize, end: usize, writable: bool| {
        let to = if writable { &mut variables } else { &mut constants };
        if start < end {
            to.push(Segment { offset_in_image: start, len: end - start, writable });
        }
    };
    let relro = headers.iter().find(|h| h.kind == libc::PT_GNU_RELRO);
    let loaded = || headers.iter().filter(|h| h.is_load());
    for h in loaded().filter(|h| h.is_writable()) {
        let (first, end) = (page_down(h.vaddr), h.end().next_multiple_of(PAGE));
        // Only whole pages are protected, so the page where RELRO ends stays writable.
        let relro = relro.filter(|r| (h.vaddr..h.end()).contains(&r.vaddr)).map_or(first, |r| page_down(r.end()));
        let start = first.max(relro.min(end));
        add(first, start, false);
        add(start, end, true);
    }
    let readable = |h: &&Header| h.flags & (libc::PF_R | libc::PF_W) == libc::PF_R;
    let plain = || loaded().filter(readable).filter(|h| h.flags & libc::PF_X == 0);
    let several = plain().count() > 1;
    let chosen: Vec<_> = match plain().next() {
        Some(_) => plain().filter(|h| !several || h.offset != 0).collect(),
        None => loaded().filter(readable).collect(),
    };
    for h in chosen {
        add(page_down(h.vaddr), h.end().next_multiple_of(PAGE), false);
    }
    variables.append(&mut constants);
    variables
}

fn layout(headers: &[Header], segments: &[Segment], image_bytes: usize) -> Result<Layout, String> {
    let variables = segments.iter().find(|s| s.writable).ok_or("it has no variables")?;
    if variables.offset_in_image + variables.len != image_bytes {
        return Err("its variables are not at its end".into());
    }
    let constants: usize = segments.iter().filter(|s| !s.writable).map(|s| s.len).sum();
    Ok(Layout {
        slice_bytes: image_bytes + constants,
        align: headers.iter().filter(|h| h.is_load()).map(|h| h.align).max().unwrap_or(PAGE).max(PAGE),
        image_bytes,
        variables_at: variables.offset_in_image,
        variables_bytes: variables.len,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(kind: u32, flags: u32, vaddr: usize, filesz: usize, memsz: usize) -> Header {
        Header { kind, flags, offset: vaddr, vaddr, filesz, memsz, align: PAGE }
    }

    const CODE: u32 = libc::PF_R | libc::PF_X;
    const DATA: u32 = libc::PF_R | libc::PF_W;

    #[test]
    fn relro_pages_are_constants_and_the_rest_is_whole_pages() {
        let headers = [
            header(libc::PT_LOAD, CODE, 0, 0x1000, 0x1000),
            header(libc::PT_LOAD, DATA, 0x3df0, 0x220, 0x5000),
            header(libc::PT_GNU_RELRO, libc::PF_R, 0x3df0, 0x210, 0x210),
        ];
        let segment = |offset_in_image, len, writable| Segment { offset_in_image, len, writable };
        let found = segments(&headers);
        assert_eq!(found, [segment(0x4000, 0x5000, true), segment(0x3000, 0x1000, false), segment(0, 0x1000, false)]);
        let l = layout(&headers, &found, 0x9000).unwrap();
        assert_eq!((l.slice_bytes, l.variables_at, l.align), (0xb000, 0x4000, PAGE));
    }

    #[test]
    fn the_first_of_several_read_only_segments_is_for_the_loader() {
        let headers = [
            header(libc::PT_LOAD, libc::PF_R, 0, 0x700, 0x700),
            header(libc::PT_LOAD, CODE, 0x1000, 0x100, 0x100),
            header(libc::PT_LOAD, libc::PF_R, 0x2000, 0x1001, 0x1001),
            header(libc::PT_LOAD, DATA, 0x4000, 0x10, 0x20),
        ];
        let offsets: Vec<_> = segments(&headers).iter().map(|s| (s.offset_in_image, s.len)).collect();
        assert_eq!(offsets, [(0x4000, 0x1000), (0x2000, 0x2000)]);
        let offsets: Vec<_> = segments(&headers[..2]).iter().map(|s| s.offset_in_image).collect();
        assert_eq!(offsets, [0], "alone, it holds constants, too");
    }

    #[test]
    fn damaged_files_are_refused_not_read_out_of_bounds() {
        let good = std::fs::read("/proc/self/exe").unwrap();
        for (at, value) in
            [(32, 0xffu8), (33, 0xff), (38, 0xff), (56, 0xff), (54, 1), (64 + 8, 0xff), (64 + 56 * 2 + 40, 0xff)]
        {
            let mut bad = good.clone();
            bad[at..at + 8].fill(value);
            assert!(Program::from_bytes(Path::new("bad"), &bad).is_err(), "{at}");
        }
        for len in [0, 3, 16, 63, 64, 100, 1000, 5000] {
            assert!(Program::from_bytes(Path::new("cut"), &good[..len]).is_err(), "{len}");
        }
    }
}
