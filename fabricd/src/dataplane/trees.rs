//! x
use super::engine::Engine;
impl Engine {
    pub(super) fn refresh_collectives(&self, _page: &super::registers::Registers, _node: u32) {}
    pub(crate) fn tree_open(&mut self, _slot: u16, _root: usize, _pes: &[u32]) -> Result<u8, String> {
        Err("no tree".into())
    }
    pub(crate) fn tree_close(&mut self, _slot: u16, _tree: u8) -> Result<(), String> {
        Err("no tree".into())
    }
}
