//! Addresses for people and debuggers.

use crate::pes::Pes;

impl Pes {
    /// The command by which gdb learns of this PE's symbols.
    pub fn gdb_command(&self, index: usize) -> String {
        let (base, path) = (self.base(index), self.image().program().path());
        format!("add-symbol-file {} -o {base:#x}", path.display())
    }

    /// The PE whose slice has this address, by index, and the address that the program's file gives it.
    pub fn locate(&self, address: usize) -> Option<(usize, usize)> {
        let bytes = self.image().layout().image_bytes;
        let (base, index) = self.by_address().range(..=address).next_back()?;
        (address - base < bytes).then_some((*index, address - base))
    }
}
