//! A program with its symbols resolved, ready to be placed many times.

use crate::elf::{reloc, u64_at};
use crate::libc_functions;
use crate::libc_state::cxx;
use crate::program::{COPIED, Layout, Program, Refusal};
use crate::{PAGE, exit, start};
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::path::Path;

/// Addresses that the host gives for names, before all others.
pub type Names = HashMap<String, usize>;

type Frames = unsafe extern "C" fn(*const c_void);

/// Functions by which the unwinder learns of code.
#[derive(Clone, Copy)]
pub(crate) struct Unwinder {
    pub(crate) register: Frames,
    pub(crate) deregister: Frames,
    /// Where the description of frames begins in the image.
    pub(crate) frames_at: usize,
}

/// What to do for a copy of the program.
pub struct Image {
    program: Program,
    /// The image with symbols filled in; places to relocate hold offsets.
    template: Vec<u8>,
    /// Pages of the template with content.
    pages: Vec<usize>,
    /// Pages of constants with content, and where their copies go.
    constants: Vec<(usize, usize)>,
    relative: Vec<usize>,
    /// Places whose value a function of the image chooses.
    chosen: Vec<(usize, usize)>,
    copies: Vec<(&'static str, usize)>,
    unwinder: Option<Unwinder>,
}

impl Image {
    /// Opens the program's libraries and resolves its symbols: first by `names`, then by what this crate keeps per PE,
    /// then by the libraries. libsma must have been opened by the host, with RTLD_GLOBAL, or be in `names`.
    pub fn prepare(program: Program, names: &Names) -> Result<Image, Refusal> {
        let path = program.path.clone();
        Image::resolve(program, names).map_err(|why| Refusal::new(&path, why))
    }

    fn resolve(mut program: Program, names: &Names) -> Result<Image, String> {
        open_libraries(program.needed())?;
        let template = std::mem::take(&mut program.bytes);
        let mut image = Image {
            template,
            pages: Vec::new(),
            constants: Vec::new(),
            relative: program.packed_relative.clone(),
            chosen: Vec::new(),
            copies: Vec::new(),
            unwinder: None,
            program,
        };
        for i in 0..image.program.relocations.len() {
            image.relocate(i, names)?;
        }
        image.find_pages();
        image.unwinder = image.find_unwinder();
        Ok(image)
    }

    fn relocate(&mut self, index: usize, names: &Names) -> Result<(), String> {
        let (r, s) = &self.program.relocations[index];
        let tls = self.program.tls.map_or(0, |t| t.size as i64);
        let value = match r.kind {
            reloc::RELATIVE => {
                self.relative.push(r.offset);
                r.addend
            }
            reloc::IRELATIVE => {
                self.chosen.push((r.offset, r.addend as usize));
                return Ok(());
            }
            reloc::TPOFF64 => r.addend - tls + if r.symbol == 0 { 0 } else { s.value as i64 },
            reloc::COPY => {
                self.copies.extend(COPIED.iter().find(|c| **c == s.name).map(|c| (*c, r.offset)));
                return Ok(());
            }
            reloc::R64 | reloc::GLOB_DAT | reloc::JUMP_SLOT => {
                let addend = if r.kind == reloc::R64 { r.addend } else { 0 };
                if s.defined {
                    self.relative.push(r.offset);
                    s.value as i64 + addend
                } else {
                    match symbol(&s.name, names) {
                        Some(at) => at as i64 + addend,
                        None if s.weak => 0,
                        None => return Err(format!("no library has its symbol {}", s.name)),
                    }
                }
            }
            _ => return Ok(()),
        };
        self.template[r.offset..r.offset + 8].copy_from_slice(&value.to_le_bytes());
        Ok(())
    }

    /// Finds the pages that a copy needs. Tables that only a loader reads are left out where they have a segment of
    /// their own.
    fn find_pages(&mut self) {
        let headers = &self.program.headers;
        let only_readable = |h: &&crate::elf::Header| h.is_load() && h.flags == libc::PF_R;
        let several = headers.iter().filter(only_readable).count() > 1;
        let tables = headers.iter().find(|h| only_readable(h) && several && h.offset == 0);
        let tables = tables.map_or(0..0, |h| h.vaddr..h.end());
        let full = |at: usize| self.template[at..at + PAGE].iter().any(|b| *b != 0);
        let relocated = |at: usize| self.relative.iter().any(|r| (at..at + PAGE).contains(r));
        self.pages = (0..self.template.len())
            .step_by(PAGE)
            .filter(|at| full(*at) && (!tables.contains(at) || relocated(*at)))
            .collect();
        let mut to = self.layout().image_bytes;
        for s in self.program.segments().iter().filter(|s| !s.writable) {
            for at in (0..s.len).step_by(PAGE) {
                if full(s.offset_in_image + at) {
                    self.constants.push((s.offset_in_image + at, to + at));
                }
            }
            to += s.len;
        }
    }

    fn find_unwinder(&self) -> Option<Unwinder> {
        let throws = |name: &str| name == "__gxx_personality_v0" || name.starts_with("_Unwind_");
        if !self.program.relocations.iter().any(|(_, s)| throws(&s.name)) {
            return None;
        }
        let header = self.program.headers.iter().find(|h| h.kind == libc::PT_GNU_EH_FRAME)?;
        // Version 1; the pointer to the frames is relative to its own place, four bytes with sign.
        let head = u64_at(&self.template, header.vaddr)?.to_le_bytes();
        if head[..2] != [1, 0x1b] {
            return None;
        }
        let distance = i32::from_le_bytes(head[4..8].try_into().ok()?);
        let frames_at = (header.vaddr + 4).checked_add_signed(distance as isize)?;
        let function = |name| {
            let at = library_symbol(name)?;
            // SAFETY: libgcc_s has these two functions with this type.
            Some(unsafe { std::mem::transmute::<usize, Frames>(at) })
        };
        Some(Unwinder {
            register: function("__register_frame")?,
            deregister: function("__deregister_frame")?,
            frames_at,
        })
    }

    pub fn program(&self) -> &Program {
        &self.program
    }

    /// How a PE's slice is divided.
    pub fn layout(&self) -> Layout {
        self.program.layout()
    }

    pub(crate) fn copies(&self) -> &[(&'static str, usize)] {
        &self.copies
    }

    pub(crate) fn unwinder(&self) -> Option<Unwinder> {
        self.unwinder
    }

    /// Writes a copy into `slice`, touching only pages with content.
    ///
    /// # Safety
    /// `slice` is the address of `layout().slice_bytes` bytes of zeros, readable, writable and executable, aligned to
    /// `layout().align`, that nothing else uses.
    pub unsafe fn place(&self, slice: *mut u8) {
        // SAFETY: all offsets lie inside the image or the slice, as checked when the program was read; places to
        // relocate need not be aligned.
        unsafe {
            for &at in &self.pages {
                std::ptr::copy_nonoverlapping(self.template.as_ptr().add(at), slice.add(at), PAGE);
            }
            for &at in &self.relative {
                let place = slice.add(at).cast::<usize>();
                place.write_unaligned(place.read_unaligned().wrapping_add(slice as usize));
            }
            for &(at, function) in &self.chosen {
                let choose: extern "C" fn() -> usize = std::mem::transmute(slice as usize + function);
                slice.add(at).cast::<usize>().write_unaligned(choose());
            }
            for &(from, to) in &self.constants {
                std::ptr::copy_nonoverlapping(slice.add(from), slice.add(to), PAGE);
            }
        }
    }
}

/// Opens all libraries but libsma, for all to see.
fn open_libraries(needed: &[String]) -> Result<(), String> {
    for name in needed.iter().filter(|n| !n.starts_with("libsma")) {
        if name.starts_with("libstdc++") {
            // Its streams keep what libc's variables for the standard streams hold when it is opened.
            cxx::open_library()?;
        }
        let text = CString::new(name.as_str()).map_err(|e| e.to_string())?;
        // SAFETY: a terminated name; constructors of the libraries that are allowed have no conditions.
        if unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) }.is_null() {
            return Err(format!("{name} cannot be opened: {}", last_error()));
        }
    }
    Ok(())
}

fn last_error() -> String {
    // SAFETY: dlerror gives null or a terminated text that lives until the next call.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() { String::new() } else { std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned() }
    }
}

fn library_symbol(name: &str) -> Option<usize> {
    let name = CString::new(name).ok()?;
    // SAFETY: a terminated name.
    let at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) } as usize;
    (at != 0).then_some(at)
}

fn symbol(name: &str, names: &Names) -> Option<usize> {
    let given = names.get(name).copied();
    let own = || start::symbol(name).or_else(|| exit::symbol(name)).or_else(|| libc_functions::symbol(name));
    given.or_else(own).or_else(|| library_symbol(name))
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let path: &Path = self.program.path();
        f.debug_struct("Image").field("program", &path).field("layout", &self.layout()).finish_non_exhaustive()
    }
}
