//! Source lines of addresses in the program, from its debugging information.

use addr2line::Context;
use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian};
use object::{Object, ObjectSection, ObjectSymbol};
use std::path::{Path, PathBuf};

type Slice = EndianSlice<'static, LittleEndian>;

/// The program's lines, read when they are asked for first.
pub(crate) struct Lines {
    file: PathBuf,
    read: Option<Read>,
}

struct Read {
    context: Option<Context<Slice>>,
    /// Names of functions by address.
    functions: Vec<(u64, u64, String)>,
}

impl Lines {
    pub(crate) fn of(file: &Path) -> Lines {
        Lines { file: file.into(), read: None }
    }

    /// `heat.c:42 (main)`, or the file and the offset in it where nobody knows the line: of an instruction at this address, or
    /// of the call that `returns` there.
    pub(crate) fn place(&mut self, address: usize, returns: bool) -> String {
        let read = self.read.get_or_insert_with(|| Read::file(&self.file));
        read.line((address - usize::from(returns)) as u64)
            .unwrap_or_else(|| format!("{}+{address:#x}", name(&self.file.to_string_lossy())))
    }
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

impl Read {
    fn file(file: &Path) -> Read {
        let none = Read { context: None, functions: Vec::new() };
        // Read once, for the rest of this process's life.
        let Ok(bytes) = std::fs::read(file) else { return none };
        let Ok(object) = object::File::parse(&*bytes.leak()) else { return none };
        let section = |id: addr2line::gimli::SectionId| {
            let data = object.section_by_name(id.name()).and_then(|s| s.data().ok()).unwrap_or(&[]);
            Ok::<Slice, addr2line::gimli::Error>(EndianSlice::new(data, LittleEndian))
        };
        let context = Dwarf::load(section).and_then(Context::from_dwarf).ok();
        let function = |s: object::Symbol<'_, '_>| {
            let named = s.name().ok().filter(|name| !name.is_empty())?;
            (s.size() > 0).then(|| (s.address(), s.address() + s.size(), named.to_string()))
        };
        let functions = object.symbols().filter_map(function).collect();
        Read { context, functions }
    }

    fn line(&self, address: u64) -> Option<String> {
        let location = self.context.as_ref()?.find_location(address).ok()??;
        let (file, line) = (location.file?, location.line.filter(|line| *line > 0)?);
        let inside = |f: &&(u64, u64, String)| (f.0..f.1).contains(&address);
        let function = self.functions.iter().find(inside).map_or("?", |f| &f.2);
        Some(format!("{}:{line} ({function})", name(file)))
    }
}
