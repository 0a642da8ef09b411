//! What a program's file says about itself: its loader, and the libraries it names.

use object::elf::DT_NEEDED;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, ReadCache};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A program or library.
#[derive(Debug, PartialEq, Eq)]
pub struct Elf {
    /// The loader it asks for; a static program and most libraries have none.
    pub loader: Option<PathBuf>,
    /// Libraries it names, without those that these name.
    pub needed: Vec<String>,
}

/// Reads a file; nothing if it is no 64-bit ELF file, or a broken one, which is for the system to say.
pub fn read(file: &Path) -> Option<Elf> {
    let cache = ReadCache::new(File::open(file).ok()?);
    let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let (endian, data) = (elf.endian(), elf.data());
    let loader = elf.elf_program_headers().iter().find_map(|h| h.interpreter(endian, data).ok()?);
    let table = elf.elf_dynamic_table().ok()?;
    let named = table.iter().filter(|d| d.tag == DT_NEEDED);
    let needed = named.filter_map(|d| String::from_utf8(table.string(d).ok()?.to_vec()).ok()).collect();
    Some(Elf { loader: loader.map(|path| OsString::from_vec(path.to_vec()).into()), needed })
}

pub fn constants<T>(library: &Path, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
    let cache = ReadCache::new(File::open(library).ok()?);
    let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let constants = elf.section_by_name(".rodata")?;
    constants.data().ok().map(look)
}

/// True if a library has a function or variable of this name for others.
pub fn exports(library: &Path, name: &str) -> bool {
    let Ok(file) = File::open(library) else { return false };
    let cache = ReadCache::new(file);
    let Ok(elf) = ElfFile64::<Endianness, _>::parse(&cache) else { return false };
    elf.dynamic_symbols().any(|symbol| symbol.is_definition() && symbol.name() == Ok(name))
}

/// The texts among a library's constants, each of which ends with a zero byte: whose it is, and which version.
pub fn texts<T>(library: &Path, look: impl FnOnce(&mut dyn Iterator<Item = &str>) -> T) -> Option<T> {
    constants(library, |bytes| look(&mut bytes.split(|b| *b == 0).filter_map(|text| std::str::from_utf8(text).ok())))
}

/// The version that a library carries as a text of its own: a number such as 5.0.2 that occurs more often than others, which
/// are those of what is built in.
pub fn version(texts: &mut dyn Iterator<Item = &str>) -> Option<String> {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for text in texts.filter(|t| is_version(t)) {
        *found.entry(text).or_default() += 1;
    }
    let best = found.values().max().copied()?;
    found.into_iter().rev().find(|(_, times)| *times == best).map(|(text, _)| text.to_string())
}

/// Three numbers between dots.
fn is_version(text: &str) -> bool {
    let number = |part: &str| (1..=4).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    text.len() <= 14 && text.split('.').count() == 3 && text.split('.').all(number)
}
