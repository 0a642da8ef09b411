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

/// A place among those of functions that the compiler has put into one another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Where an instruction is.
    Innermost,
    /// Where the library says that it was called, as in processes.
    Outermost,
}

impl Lines {
    pub(crate) fn of(file: &Path) -> Lines {
        Lines { file: file.into(), read: None }
    }

    /// `heat.c:42 (main)`, or the file and the offset in it where nobody knows the line: of an instruction at this address, or
    /// of the call that `returns` there. Of calls that the compiler has put into one another, the place `which` counts.
    pub(crate) fn place(&mut self, address: usize, returns: bool, which: Which) -> String {
        let read = self.read.get_or_insert_with(|| Read::file(&self.file));
        read.line((address - usize::from(returns)) as u64, which)
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

    fn line(&self, address: u64, which: Which) -> Option<String> {
        let mut frames = self.context.as_ref()?.find_frames(address).skip_all_loads().ok()?;
        let mut found = None;
        while let Ok(Some(frame)) = frames.next() {
            let place = frame.location.and_then(|at| Some((at.file?, at.line.filter(|line| *line > 0)?)));
            let Some((file, line)) = place else { continue };
            let named = frame.function.as_ref().and_then(|f| f.raw_name().ok());
            let function = named.as_deref().unwrap_or_else(|| self.function(address));
            found = Some(format!("{}:{line} ({function})", name(file)));
            if which == Which::Innermost {
                break;
            }
        }
        found
    }

    /// The name of a function that has no description, only a name.
    fn function(&self, address: u64) -> &str {
        self.functions.iter().find(|f| (f.0..f.1).contains(&address)).map_or("?", |f| &f.2)
    }
}
