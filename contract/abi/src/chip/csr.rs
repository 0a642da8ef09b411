//! Control and status registers of a node, as byte offsets into its read-only CSR page.
//!
//! Reading is a load. Writing is a mailbox command ([`crate::channel::Channel::csr_command`]).
//! The map follows the three MMIO regions of paper 002, section 2.1; positions are ours and are
//! listed in `docs/reference/registers.md`.

use crate::TREES;

/// Bytes of a CSR page.
pub const CSR_BYTES: usize = 0x4000;

/// PCI device and vendor id of the EC8430 (1c63:0008).
pub const ID_VALUE: u64 = 0x0008_1c63;

/// u32: page header (magic, version, size) occupies 0x00..0x10.
pub const ID: u32 = 0x0010;
/// u64: capabilities: `[7:0]` dimensions, `[23:8]` channels, `[31:24]` trees, `[39:32]` reduces, `[55:40]` payload bytes.
pub const CAPS: u32 = 0x0018;
/// u64: own coordinates, 8 bits each.
pub const COORDS: u32 = 0x0020;
/// u64: sizes of the torus, 8 bits each; bit 32: mesh.
pub const DIMS: u32 = 0x0028;
/// u64: node id.
pub const NODE: u32 = 0x0030;
/// u64: 1 while the node forwards packets.
pub const STATUS: u32 = 0x0038;
/// u64: violations by clients of this node. A CSR write of 0 clears it.
pub const ERRORS: u32 = 0x0040;
/// u64: free for software; the one register any channel may write at will.
pub const SCRATCH: u32 = 0x0048;

/// Start of link blocks, one per direction in routing order.
pub const LINK_BASE: u32 = 0x0100;
/// Bytes of a link block.
pub const LINK_STRIDE: u32 = 0x0080;
/// u64 in a link block: 1 up, 0 down, 2 not present.
pub const LINK_STATE: u32 = 0x00;
/// u64: packets sent.
pub const LINK_TX_PACKETS: u32 = 0x08;
/// u64: flits sent.
pub const LINK_TX_FLITS: u32 = 0x10;
/// u64: payload bytes sent.
pub const LINK_TX_BYTES: u32 = 0x18;
/// u64: packets received.
pub const LINK_RX_PACKETS: u32 = 0x20;
/// u64: packets received with a wrong CRC.
pub const LINK_CRC_ERRORS: u32 = 0x28;
/// u64: packets sent again.
pub const LINK_REPLAYS: u32 = 0x30;

/// Start of tree rows, one per TreeId.
pub const TREE_BASE: u32 = 0x0800;
/// Bytes of a tree row.
pub const TREE_STRIDE: u32 = 0x0020;
/// u64 in a tree row: `[7:0]` directions down, `[11:8]` direction to root, bit 12 is root,
/// bit 13 a processor takes part, bit 14 valid, `[19:16]` number of directions down.
pub const TREE_ROW: u32 = 0x00;
/// u64: reduce results sent up or to the processor.
pub const TREE_RESULTS: u32 = 0x08;
/// u64: broadcast packets sent on.
pub const TREE_BCASTS: u32 = 0x10;

/// u64: barriers this node has left.
pub const BARRIER_DONE: u32 = 0x0c00;
/// u64: phases K of the latest barrier.
pub const BARRIER_PHASES: u32 = 0x0c08;

/// Byte offset of register `register` of link `dir` (0..8).
pub fn link(dir: usize, register: u32) -> u32 {
    debug_assert!(dir < 8);
    LINK_BASE + dir as u32 * LINK_STRIDE + register
}

/// Byte offset of register `register` of tree `tree` (0..16).
pub fn tree(tree: usize, register: u32) -> u32 {
    debug_assert!(tree < TREES);
    TREE_BASE + tree as u32 * TREE_STRIDE + register
}

/// Registers a client channel may write through its mailbox.
pub fn client_writable(csr: u32) -> bool {
    matches!(csr, SCRATCH | ERRORS)
}

/// True if a u64 register starts at `csr`.
pub fn exists(csr: u32) -> bool {
    csr.is_multiple_of(8) && (ID..CSR_BYTES as u32).contains(&csr)
}
