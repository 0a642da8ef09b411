//! What programs and libraries need of the system they run on: the processor, libraries, and the newest version of
//! glibc's symbols. It decides for which systems a wheel is.

use object::elf::{DT_NEEDED, EM_AARCH64, EM_X86_64, FileHeader64};
use object::read::elf::{Dyn, FileHeader};
use object::{Endianness, Object};
use std::fmt;

/// Libraries that every system with glibc has. They are among those that the standard for wheels allows.
const EVERYWHERE: [&str; 8] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "librt.so.1",
    "libpthread.so.0",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];

/// A version of glibc, such as 2.34.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Glibc {
    major: u32,
    minor: u32,
}

/// What one or several files need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    machine: &'static str,
    glibc: Glibc,
}

impl Needs {
    /// What both need together.
    pub(crate) fn and(self, other: Needs) -> Result<Needs, String> {
        if self.machine != other.machine {
            return Err(format!("some files are for {} and some for {}", self.machine, other.machine));
        }
        Ok(Needs { machine: self.machine, glibc: self.glibc.max(other.glibc) })
    }
}

impl Needs {
    /// As Debian's packages say it. The functions of the compiler's library are as old as its first package of that name.
    pub(crate) fn debian(self) -> String {
        format!("libc6 (>= {}.{}), libgcc-s1 (>= 3.0)", self.glibc.major, self.glibc.minor)
    }
}

/// As a wheel's name says it.
impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "manylinux_{}_{}_{}", self.glibc.major, self.glibc.minor, self.machine)
    }
}

/// True for programs and libraries.
pub(crate) fn is_elf(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// The number by which debuggers know a program or library, as the linker gave it.
pub(crate) fn number(bytes: &[u8]) -> Result<String, String> {
    let unreadable = |e: object::read::Error| format!("it is no ELF file of 64 bits: {e}");
    let file = object::File::parse(bytes).map_err(unreadable)?;
    let number = file.build_id().map_err(unreadable)?.ok_or("its linker gave it no number (build id)")?;
    Ok(number.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Reads what a program or library needs.
pub(crate) fn needs(bytes: &[u8]) -> Result<Needs, String> {
    let unreadable = |e: object::read::Error| format!("it is no ELF file of 64 bits: {e}");
    let header = FileHeader64::<Endianness>::parse(bytes).map_err(unreadable)?;
    let endian = header.endian().map_err(unreadable)?;
    let machine = match header.e_machine(endian) {
        EM_X86_64 => "x86_64",
        EM_AARCH64 => "aarch64",
        other => return Err(format!("it is for a processor whose number in ELF is {other:?}")),
    };
    let sections = header.sections(endian, bytes).map_err(unreadable)?;
    if let Some((entries, link)) = sections.dynamic(endian, bytes).map_err(unreadable)? {
        let strings = sections.strings(endian, bytes, link).map_err(unreadable)?;
        for entry in entries.iter().filter(|entry| entry.tag(endian) == DT_NEEDED) {
            let name = String::from_utf8_lossy(entry.string(endian, strings).map_err(unreadable)?);
            if !EVERYWHERE.contains(&name.as_ref()) {
                return Err(format!("it needs {name}, which not every system has"));
            }
        }
    }
    // The oldest that wheels can name.
    let mut glibc = Glibc { major: 2, minor: 5 };
    if let Some((mut libraries, link)) = sections.gnu_verneed(endian, bytes).map_err(unreadable)? {
        let strings = sections.strings(endian, bytes, link).map_err(unreadable)?;
        while let Some((_, mut versions)) = libraries.next().map_err(unreadable)? {
            while let Some(version) = versions.next().map_err(unreadable)? {
                let name = String::from_utf8_lossy(version.name(endian, strings).map_err(unreadable)?);
                glibc = glibc.max(version_of(&name)?.unwrap_or(glibc));
            }
        }
    }
    Ok(Needs { machine, glibc })
}

/// The version of glibc in a name such as `GLIBC_2.34` or `GLIBC_2.2.5`; nothing for other libraries.
fn version_of(name: &str) -> Result<Option<Glibc>, String> {
    let Some(version) = name.strip_prefix("GLIBC_") else { return Ok(None) };
    // With this one, glibc says that it understands a compact form of relocations.
    let version = if version == "ABI_DT_RELR" { "2.36" } else { version };
    let mut numbers = version.split('.').map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => Ok(Some(Glibc { major, minor })),
        _ => Err(format!("it needs {name}, which is no version of glibc that everybody may use")),
    }
}
