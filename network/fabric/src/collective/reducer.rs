//! The Reducer's memory: one slot per (TreeId, ReduceId) and the arithmetic on data flits.

use crate::packet::PacketHandle;
use angara_abi::packet::{ReduceElem, ReduceOp};

/// One reduction under way at one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Contributions so far.
    pub(crate) count: u32,
    /// The packet whose payload accumulates them.
    pub(crate) packet: PacketHandle,
    /// All contributions are in; waits for a credit.
    pub(crate) complete: bool,
}

impl Slot {
    pub(crate) const EMPTY: Slot = Slot { count: 0, packet: PacketHandle::NONE, complete: false };
}

fn lanes<const N: usize>(acc: &mut [u8], data: &[u8], f: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    for (a, d) in acc.chunks_exact_mut(N).zip(data.chunks_exact(N)) {
        let x: [u8; N] = (&*a).try_into().expect("chunks have N bytes");
        let y: [u8; N] = d.try_into().expect("chunks have N bytes");
        a.copy_from_slice(&f(x, y));
    }
}

macro_rules! combine_as {
    ($int:ty, $acc:expr, $data:expr, $op:expr) => {
        lanes($acc, $data, |x, y| {
            let (x, y) = (<$int>::from_le_bytes(x), <$int>::from_le_bytes(y));
            match $op {
                ReduceOp::Sum => x.wrapping_add(y),
                ReduceOp::Max => x.max(y),
                ReduceOp::Min => x.min(y),
            }
            .to_le_bytes()
        })
    };
}

/// `acc[i] = op(acc[i], data[i])` element by element; sums wrap.
pub(crate) fn combine(op: ReduceOp, elem: ReduceElem, acc: &mut [u8], data: &[u8]) {
    match elem {
        ReduceElem::I32 => combine_as!(i32, acc, data, op),
        ReduceElem::U32 => combine_as!(u32, acc, data, op),
        ReduceElem::I64 => combine_as!(i64, acc, data, op),
        ReduceElem::U64 => combine_as!(u64, acc, data, op),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_on_every_element_type() {
        let mut acc = (-3i32).to_le_bytes();
        combine(ReduceOp::Max, ReduceElem::I32, &mut acc, &2i32.to_le_bytes());
        assert_eq!(i32::from_le_bytes(acc), 2);
        let mut acc = (-3i32).to_le_bytes();
        combine(ReduceOp::Max, ReduceElem::U32, &mut acc, &2u32.to_le_bytes());
        assert_eq!(i32::from_le_bytes(acc), -3, "as unsigned, -3 is the larger one");
        let mut acc = i64::MAX.to_le_bytes();
        combine(ReduceOp::Sum, ReduceElem::I64, &mut acc, &1i64.to_le_bytes());
        assert_eq!(i64::from_le_bytes(acc), i64::MIN);
        let mut acc = [7u64.to_le_bytes(), 9u64.to_le_bytes()].concat();
        combine(ReduceOp::Min, ReduceElem::U64, &mut acc, &[8u64.to_le_bytes(), 1u64.to_le_bytes()].concat());
        assert_eq!(acc, [7u64.to_le_bytes(), 1u64.to_le_bytes()].concat());
    }
}
