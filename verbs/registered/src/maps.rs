//! What the kernel says about this process's mappings.

use crate::ranges::Span;
use std::fs;
use std::io::{self, Read};
use std::os::fd::AsRawFd;

/// A mapping, or the part of it that was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Vma {
    pub(crate) span: Span,
    /// All of the mapping.
    pub(crate) whole: Span,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) executes: bool,
    pub(crate) is_shared: bool,
    /// Where in its file it begins.
    pub(crate) offset: u64,
    /// Its file: device and number; 0 for memory of no file.
    pub(crate) file: File,
}

/// Device, as major and minor number, and inode.
pub(crate) type File = (u32, u32, u64);

/// Mappings that overlap a range, each cut to it, in order.
pub(crate) fn over(range: &Span) -> io::Result<Vec<Vma>> {
    let maps = fs::File::open("/proc/self/maps")?;
    let mut all = match ask(&maps, range) {
        Some(all) => all?,
        None => read(maps, range)?,
    };
    for vma in &mut all {
        let cut = range.start.saturating_sub(vma.span.start);
        vma.offset += cut as u64;
        vma.span = vma.span.start + cut..vma.span.end.min(range.end);
    }
    Ok(all)
}

/// True if a file's bytes are mapped by any but the mapping that the address `known` is in.
pub(crate) fn has_elsewhere(file: File, bytes: std::ops::Range<u64>, known: usize) -> io::Result<bool> {
    let all = read(fs::File::open("/proc/self/maps")?, &(0..usize::MAX))?;
    Ok(all.iter().any(|vma| {
        let end = vma.offset + vma.span.len() as u64;
        vma.file == file && vma.offset < bytes.end && bytes.start < end && !vma.span.contains(&known)
    }))
}

/// `struct procmap_query` of Linux 6.11 and later.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

/// `PROCMAP_QUERY`: `_IOWR('f', 17, struct procmap_query)`.
const QUERY: libc::Ioctl = (3 << 30 | (size_of::<Query>() as u32) << 16 | 0x66 << 8 | 17) as libc::Ioctl;
/// The mapping at the address, or the next one.
const COVERING_OR_NEXT: u64 = 0x10;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;
const SHARED: u64 = 8;

/// Asks for one mapping after the other; nothing if the kernel cannot be asked.
fn ask(maps: &fs::File, range: &Span) -> Option<io::Result<Vec<Vma>>> {
    let (mut all, mut at) = (Vec::new(), range.start);
    while at < range.end {
        let mut query = Query {
            size: size_of::<Query>() as u64,
            query_flags: COVERING_OR_NEXT,
            query_addr: at as u64,
            ..Query::default()
        };
        // SAFETY: the struct that the command wants; it asks for no names, so nothing else is written.
        if unsafe { libc::ioctl(maps.as_raw_fd(), QUERY, &raw mut query) } != 0 {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::ENOENT) => break,
                Some(libc::ENOTTY | libc::EINVAL) => return None,
                _ => return Some(Err(error)),
            }
        }
        let has = |flag| query.vma_flags & flag != 0;
        if query.vma_start as usize >= range.end {
            break;
        }
        all.push(Vma {
            span: query.vma_start as usize..query.vma_end as usize,
            whole: query.vma_start as usize..query.vma_end as usize,
            reads: has(READABLE),
            writes: has(WRITABLE),
            executes: has(EXECUTABLE),
            is_shared: has(SHARED),
            offset: query.vma_offset,
            file: (query.dev_major, query.dev_minor, query.inode),
        });
        at = query.vma_end as usize;
    }
    Some(Ok(all))
}

fn read(mut maps: fs::File, range: &Span) -> io::Result<Vec<Vma>> {
    let mut text = String::new();
    maps.read_to_string(&mut text)?;
    let lines = text.lines().map(|line| parse(line).ok_or_else(|| io::Error::other(format!("not understood: {line}"))));
    lines
        .filter(|vma| vma.as_ref().map_or(true, |vma| vma.span.start < range.end && range.start < vma.span.end))
        .collect()
}

fn parse(line: &str) -> Option<Vma> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?.as_bytes();
    let offset = words.next()?;
    let (major, minor) = words.next()?.split_once(':')?;
    let hex = |text| u64::from_str_radix(text, 16).ok();
    let is = |at: usize, letter| rights.get(at) == Some(&letter);
    let whole = hex(start)? as usize..hex(end)? as usize;
    Some(Vma {
        span: whole.clone(),
        whole,
        reads: is(0, b'r'),
        writes: is(1, b'w'),
        executes: is(2, b'x'),
        is_shared: is(3, b's'),
        offset: hex(offset)?,
        file: (hex(major)? as u32, hex(minor)? as u32, words.next()?.parse().ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_the_same_in_both_ways() {
        let here = vec![1u8; 3 << 20];
        let start = here.as_ptr() as usize & !4095;
        let code = (parse as fn(&str) -> Option<Vma> as usize) & !4095;
        for range in [start..start + (2 << 20), code..code + 4096, 4096..8192] {
            let maps = || fs::File::open("/proc/self/maps").expect("maps");
            let by_text = read(maps(), &range).expect("maps");
            if let Some(asked) = ask(&maps(), &range) {
                assert_eq!(asked.expect("an answer"), by_text);
            }
        }
        let own = over(&(start..start + 8192)).expect("maps");
        assert_eq!(own.len(), 1);
        assert!(own[0].span == (start..start + 8192) && own[0].writes && !own[0].is_shared && own[0].file == (0, 0, 0));
    }

    #[test]
    fn a_line_is_understood() {
        let vma = parse("7f00-8f00 rw-s 00001000 00:01 1027  /memfd:angara (deleted)").expect("a line");
        let file = (0, 1, 1027);
        let wanted = Vma {
            span: 0x7f00..0x8f00,
            whole: 0x7f00..0x8f00,
            reads: true,
            writes: true,
            executes: false,
            is_shared: true,
            offset: 4096,
            file,
        };
        assert_eq!(vma, wanted);
        assert_eq!(parse("7f00"), None);
    }
}
