//! Processors that this project is built for, and what others call them.

use object::Endianness;
use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64};
use object::read::elf::FileHeader;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

/// Where Debian has libc for the other machine, in the package libc6-arm64-cross.
pub(crate) const CROSS: &str = "/usr/aarch64-linux-gnu";

/// A processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    X86_64,
    Aarch64,
}

impl Machine {
    /// That of this program.
    pub(crate) fn here() -> Machine {
        if cfg!(target_arch = "aarch64") { Machine::Aarch64 } else { Machine::X86_64 }
    }

    /// The one with this name.
    pub(crate) fn named(name: &str) -> Result<Machine, String> {
        match name {
            "x86_64" | "x86-64" | "amd64" => Ok(Machine::X86_64),
            "aarch64" | "arm64" => Ok(Machine::Aarch64),
            _ => Err(format!("there is no processor `{name}` here; name x86_64 or aarch64")),
        }
    }

    /// The one that the built programs in `bin` are for.
    pub(crate) fn of(bin: &Path) -> Result<Machine, String> {
        let angara = bin.join("angara");
        let mut start = Vec::new();
        let file = File::open(&angara).and_then(|file| file.take(64).read_to_end(&mut start));
        file.map_err(|e| format!("cannot read {}: {e}; build it first", angara.display()))?;
        let header = FileHeader64::<Endianness>::parse(&*start);
        let machine = header.and_then(|header| Ok(header.e_machine(header.endian()?)));
        match machine.map_err(|e| format!("{} is no program: {e}", angara.display()))? {
            EM_X86_64 => Ok(Machine::X86_64),
            EM_AARCH64 => Ok(Machine::Aarch64),
            other => Err(format!("{} is for a processor whose number in ELF is {other:?}", angara.display())),
        }
    }

    /// As wheels and kernels call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Machine::X86_64 => "x86_64",
            Machine::Aarch64 => "aarch64",
        }
    }

    /// As Debian calls it.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Machine::X86_64 => "amd64",
            Machine::Aarch64 => "arm64",
        }
    }

    /// Its directories in Debian, and the beginning of the names of GNU's tools for it.
    pub(crate) fn multiarch(self) -> &'static str {
        match self {
            Machine::X86_64 => "x86_64-linux-gnu",
            Machine::Aarch64 => "aarch64-linux-gnu",
        }
    }

    /// As Rust calls it.
    pub(crate) fn triple(self) -> &'static str {
        match self {
            Machine::X86_64 => "x86_64-unknown-linux-gnu",
            Machine::Aarch64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// What to say where a build for it fails.
    pub(crate) fn without_rust(self) -> String {
        format!("; is the target there? rustup target add {}", self.triple())
    }

    /// A tool of GNU for it: the machine's own have short names.
    pub(crate) fn tool(self, name: &str) -> String {
        match self == Machine::here() {
            true => name.into(),
            false => format!("{}-{name}", self.multiarch()),
        }
    }

    /// Runs a program for it, under QEMU if need be.
    pub(crate) fn command(self, program: &Path) -> Command {
        if self == Machine::here() {
            return Command::new(program);
        }
        let mut command = Command::new(format!("qemu-{}-static", self.name()));
        command.args(["-L", CROSS]).arg(program);
        command
    }
}
