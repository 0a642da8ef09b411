//! What of an ELF file the loader reads: headers, the dynamic section, symbols and relocations.
//!
//! Offsets come from the file and may be wrong; everything out of bounds is an error, never a panic.

use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

/// Number at `at` of `bytes`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn text_at(bytes: &[u8], at: usize) -> Option<String> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().position(|b| *b == 0)?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

/// A program header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: u32,
    pub(crate) flags: u32,
    pub(crate) offset: usize,
    pub(crate) vaddr: usize,
    pub(crate) filesz: usize,
    pub(crate) memsz: usize,
    pub(crate) align: usize,
}

impl Header {
    pub(crate) fn is_load(&self) -> bool {
        self.kind == libc::PT_LOAD
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.flags & libc::PF_W != 0
    }

    pub(crate) fn end(&self) -> usize {
        self.vaddr + self.memsz
    }
}

/// Tags of the dynamic section.
pub(crate) mod tag {
    pub(crate) const NEEDED: u64 = 1;
    pub(crate) const PLTRELSZ: u64 = 2;
    pub(crate) const STRTAB: u64 = 5;
    pub(crate) const SYMTAB: u64 = 6;
    pub(crate) const RELA: u64 = 7;
    pub(crate) const RELASZ: u64 = 8;
    pub(crate) const INIT: u64 = 12;
    pub(crate) const FINI: u64 = 13;
    pub(crate) const JMPREL: u64 = 23;
    pub(crate) const INIT_ARRAY: u64 = 25;
    pub(crate) const FINI_ARRAY: u64 = 26;
    pub(crate) const INIT_ARRAYSZ: u64 = 27;
    pub(crate) const FINI_ARRAYSZ: u64 = 28;
    pub(crate) const PREINIT_ARRAY: u64 = 32;
    pub(crate) const PREINIT_ARRAYSZ: u64 = 33;
    pub(crate) const RELRSZ: u64 = 35;
    pub(crate) const RELR: u64 = 36;
}

/// Kinds of relocations.
pub(crate) mod reloc {
    pub(crate) const NONE: u32 = 0;
    pub(crate) const R64: u32 = 1;
    pub(crate) const COPY: u32 = 5;
    pub(crate) const GLOB_DAT: u32 = 6;
    pub(crate) const JUMP_SLOT: u32 = 7;
    pub(crate) const RELATIVE: u32 = 8;
    pub(crate) const TPOFF64: u32 = 18;
    pub(crate) const IRELATIVE: u32 = 37;
    /// What reaches thread-local variables through a library call.
    pub(crate) const DYNAMIC_TLS: [u32; 3] = [16, 17, 36];
}

/// A symbol of the dynamic table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Symbol {
    pub(crate) name: String,
    pub(crate) value: usize,
    pub(crate) size: usize,
    pub(crate) weak: bool,
    /// The program has it itself.
    pub(crate) defined: bool,
}

/// A relocation with an addend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relocation {
    pub(crate) offset: usize,
    pub(crate) kind: u32,
    pub(crate) symbol: usize,
    pub(crate) addend: i64,
}

/// Headers of a file, or why it is none that a coroutine can be made of.
pub(crate) struct File<'a> {
    pub(crate) headers: Vec<Header>,
    pub(crate) entry: usize,
    header: &'a elf::FileHeader64<LE>,
    data: &'a [u8],
}

impl<'a> File<'a> {
    /// Reads the headers of `data`.
    pub(crate) fn parse(data: &'a [u8]) -> Result<File<'a>, String> {
        if data.starts_with(b"#!") {
            return Err("it is a script; an interpreter runs it".into());
        }
        if !data.starts_with(b"\x7fELF") {
            return Err("it is not an ELF file".into());
        }
        if data.get(4..6) != Some(&[2, 1]) || data.get(18..20) != Some(&[62, 0]) {
            return Err("it is not for x86-64".into());
        }
        let damaged = |e: object::read::Error| format!("its ELF headers are damaged: {e}");
        let header = elf::FileHeader64::<LE>::parse(data).map_err(damaged)?;
        let headers = header.program_headers(LE, data).map_err(damaged)?;
        let headers: Vec<Header> = headers
            .iter()
            .map(|h| Header {
                kind: h.p_type(LE).0,
                flags: h.p_flags(LE).0,
                offset: h.p_offset(LE) as usize,
                vaddr: h.p_vaddr(LE) as usize,
                filesz: h.p_filesz(LE) as usize,
                memsz: h.p_memsz(LE) as usize,
                align: h.p_align(LE) as usize,
            })
            .collect();
        Ok(File { headers, entry: header.e_entry(LE) as usize, header, data })
    }

    /// It can be loaded at any address.
    pub(crate) fn is_relocatable(&self) -> bool {
        self.header.e_type(LE) == elf::ET_DYN
    }

    /// The first header of this kind.
    pub(crate) fn first(&self, kind: u32) -> Option<Header> {
        self.headers.iter().find(|h| h.kind == kind).copied()
    }

    /// Entries of the table of dynamic symbols; none if the file has no section headers.
    pub(crate) fn dynamic_symbols(&self) -> usize {
        let Ok(sections) = self.header.section_headers(LE, self.data) else { return 0 };
        let table = sections.iter().find(|s| s.sh_type(LE) == elf::SHT_DYNSYM);
        table.map_or(0, |s| s.sh_size(LE) as usize / 24)
    }
}

/// The dynamic section of a program laid out in memory.
pub(crate) struct Dynamic<'a> {
    bytes: &'a [u8],
    entries: Vec<(u64, u64)>,
}

impl<'a> Dynamic<'a> {
    pub(crate) fn read(bytes: &'a [u8], header: &Header) -> Option<Dynamic<'a>> {
        let mut entries = Vec::new();
        for at in (header.vaddr..header.vaddr.checked_add(header.memsz)?).step_by(16) {
            match (u64_at(bytes, at)?, u64_at(bytes, at + 8)?) {
                (0, _) => break,
                entry => entries.push(entry),
            }
        }
        Some(Dynamic { bytes, entries })
    }

    pub(crate) fn get(&self, tag: u64) -> Option<usize> {
        self.entries.iter().find(|(t, _)| *t == tag).map(|(_, v)| *v as usize)
    }

    /// Start and number of 8-byte entries of an array.
    pub(crate) fn array(&self, start: u64, size: u64) -> (usize, usize) {
        (self.get(start).unwrap_or(0), self.get(size).unwrap_or(0) / 8)
    }

    fn text(&self, offset: usize) -> Option<String> {
        text_at(self.bytes, self.get(tag::STRTAB)?.checked_add(offset)?)
    }

    pub(crate) fn needed(&self) -> Option<Vec<String>> {
        self.entries.iter().filter(|(t, _)| *t == tag::NEEDED).map(|(_, v)| self.text(*v as usize)).collect()
    }

    pub(crate) fn symbol(&self, index: usize) -> Option<Symbol> {
        let at = self.get(tag::SYMTAB)?.checked_add(index.checked_mul(24)?)?;
        let info = *self.bytes.get(at.checked_add(4)?)?;
        let section = u16::from_le_bytes(self.bytes.get(at + 6..at + 8)?.try_into().ok()?);
        Some(Symbol {
            name: self.text(u32_at(self.bytes, at)? as usize)?,
            value: u64_at(self.bytes, at + 8)? as usize,
            size: u64_at(self.bytes, at + 16)? as usize,
            weak: info >> 4 == 2,
            defined: section != 0,
        })
    }

    /// All relocations with addends, those of the procedure linkage table last.
    pub(crate) fn relocations(&self) -> Option<Vec<Relocation>> {
        let mut all = Vec::new();
        for (start, size) in [(tag::RELA, tag::RELASZ), (tag::JMPREL, tag::PLTRELSZ)] {
            let (start, size) = (self.get(start).unwrap_or(0), self.get(size).unwrap_or(0));
            for at in (start..start.checked_add(size)?).step_by(24) {
                let info = u64_at(self.bytes, at + 8)?;
                let (offset, addend) = (u64_at(self.bytes, at)? as usize, u64_at(self.bytes, at + 16)? as i64);
                all.push(Relocation { offset, kind: info as u32, symbol: (info >> 32) as usize, addend });
            }
        }
        Some(all)
    }

    /// Places that hold an offset to which the base is added, in the packed form.
    pub(crate) fn packed_relative(&self) -> Option<Vec<usize>> {
        let (start, count) = self.array(tag::RELR, tag::RELRSZ);
        let (mut places, mut next) = (Vec::new(), 0usize);
        for i in 0..count {
            let word = u64_at(self.bytes, start + 8 * i)?;
            if word & 1 == 0 {
                places.push(word as usize);
                next = (word as usize).checked_add(8)?;
            } else {
                places.extend((0..63).filter(|b| word >> (b + 1) & 1 == 1).map(|b| next + 8 * b));
                next = next.checked_add(63 * 8)?;
            }
        }
        Some(places)
    }
}
