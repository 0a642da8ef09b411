//! Random words as `docs/explain/model.md` section 1 defines them.

/// 2^64 divided by the golden ratio, made odd.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
/// Purpose of the words that decide free choices of routes.
pub const ROUTES: u64 = 4;
/// Purpose of the words that decide whether a transmission is wrong.
pub const ERRORS: u64 = 5;
/// Purpose of the words that decide whether a packet is held back.
pub const LATE: u64 = 7;
/// Purpose of the words that decide whether a packet is sent twice.
pub const TWICE: u64 = 8;

/// x XOR x shifted right.
fn fold(x: u64, by: u32) -> u64 {
    x ^ (x >> by)
}

/// The finaliser of SplitMix64.
pub fn mix(x: u64) -> u64 {
    let x = fold(x, 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    fold(fold(x, 27).wrapping_mul(0x94d0_49bb_1331_11eb), 31)
}

/// Word `n` of (seed, node, purpose).
pub fn word(seed: u64, node: u64, purpose: u64, n: u64) -> u64 {
    let address = node.wrapping_mul(GAMMA).wrapping_add(purpose << 56);
    let key = mix(mix(seed.wrapping_add(GAMMA)) ^ address);
    mix(key.wrapping_add(n.wrapping_mul(GAMMA)))
}

/// A number below `k` from word `w`.
pub fn below(w: u64, k: u64) -> u64 {
    ((u128::from(w) * u128::from(k)) >> 64) as u64
}

/// The next word of a packet that climbs a tree.
pub fn next(w: u64) -> u64 {
    mix(w.wrapping_add(GAMMA))
}
