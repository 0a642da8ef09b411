//! Where messages go.

mod shares;

use super::alias::Alias;
use super::matrix::Matrix;
use super::weights::Weights;
use crate::Error;
use crate::rng::{Purpose, Stream};
use angara_model::topology::{Layout, LayoutKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// A destination pattern as written by the user.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Pattern {
    /// Any endpoint, the source included (as BookSim has it).
    Uniform,
    /// Any endpoint but the source.
    Others,
    /// Just less than half way round in every dimension.
    Tornado,
    /// The endpoint with the complemented number.
    BitComplement,
    /// Digits in reverse order: (x, y) to (y, x).
    Transpose,
    /// Bits of the number in reverse order.
    BitReverse,
    /// Bits of the number rotated by one.
    Shuffle,
    /// First and last bit of the number exchanged.
    Butterfly,
    /// Half way round in every dimension.
    Opposite,
    /// One step up in every dimension.
    Neighbour,
    /// A random one of those one hop away (grid) or under the same router (tree), as in halo exchanges.
    Halo,
    /// Any endpoint of the next group.
    BadDragon,
    /// A random permutation, the same for the whole run.
    Permutation,
    /// Shares of every source's messages to some endpoints, the others uniform.
    Hotspot(Vec<(u32, f64)>),
    /// This share of messages within a radius, the others uniform.
    Local {
        /// Hops on a grid, subtree height in a tree.
        radius: u32,
        /// Share of local messages.
        share: f64,
    },
    /// First exchange of a 3D FFT on P-column rows: all others in the row.
    FftRow(u32),
    /// Second exchange: all others in the column.
    FftColumn(u32),
    /// Rates of pairs, from a file.
    Matrix(Matrix),
}

const FORMS: &str = "use uniform, others, tornado, bitcomp, transpose, bitrev, shuffle, butterfly, opposite, \
                     neighbor, halo, bad-dragon, permutation, \
                     hotspot:NODE,SHARE[,NODE,SHARE…], local:RADIUS,SHARE, fftrow:COLUMNS, fftcol:COLUMNS \
                     or matrix:FILE";

impl FromStr for Pattern {
    type Err = Error;
    fn from_str(text: &str) -> Result<Pattern, Error> {
        let bad = || Error::invalid("pattern", text, FORMS);
        let (name, arguments) = text.split_once(':').map_or((text, None), |(n, a)| (n, Some(a)));
        if name == "matrix" {
            return Matrix::read(text, arguments.unwrap_or_default()).map(Pattern::Matrix);
        }
        let parts: Vec<&str> = arguments.map_or(Vec::new(), |a| a.split(',').map(str::trim).collect());
        let whole = |s: &str| s.parse::<u32>().map_err(|_| bad());
        let share = |s: &str| match angara_net::units::fraction(s) {
            Some(share) if (0.0..=1.0).contains(&share) => Ok(share),
            _ => Err(Error::invalid("pattern", text, "a share is a number from 0 to 1, or from 0% to 100%")),
        };
        match (name, &parts[..]) {
            ("uniform", []) => Ok(Pattern::Uniform),
            ("others", []) => Ok(Pattern::Others),
            ("tornado", []) => Ok(Pattern::Tornado),
            ("bitcomp", []) => Ok(Pattern::BitComplement),
            ("transpose", []) => Ok(Pattern::Transpose),
            ("bitrev", []) => Ok(Pattern::BitReverse),
            ("shuffle", []) => Ok(Pattern::Shuffle),
            ("butterfly", []) => Ok(Pattern::Butterfly),
            ("opposite", []) => Ok(Pattern::Opposite),
            ("halo", []) => Ok(Pattern::Halo),
            ("neighbor", []) => Ok(Pattern::Neighbour),
            ("bad-dragon", []) => Ok(Pattern::BadDragon),
            ("permutation", []) => Ok(Pattern::Permutation),
            ("hotspot", pairs) if !pairs.is_empty() && pairs.len().is_multiple_of(2) => {
                let spot = |pair: &[&str]| Ok((whole(pair[0])?, share(pair[1])?));
                hot_spots(text, pairs.chunks(2).map(spot).collect::<Result<_, Error>>()?)
            }
            ("local", [radius, s]) => Ok(Pattern::Local { radius: whole(radius)?, share: share(s)? }),
            ("fftrow", [p]) => Ok(Pattern::FftRow(whole(p)?)),
            ("fftcol", [p]) => Ok(Pattern::FftColumn(whole(p)?)),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Uniform => f.write_str("uniform"),
            Pattern::Others => f.write_str("others"),
            Pattern::Tornado => f.write_str("tornado"),
            Pattern::BitComplement => f.write_str("bitcomp"),
            Pattern::Transpose => f.write_str("transpose"),
            Pattern::BitReverse => f.write_str("bitrev"),
            Pattern::Shuffle => f.write_str("shuffle"),
            Pattern::Butterfly => f.write_str("butterfly"),
            Pattern::Opposite => f.write_str("opposite"),
            Pattern::Halo => f.write_str("halo"),
            Pattern::Neighbour => f.write_str("neighbor"),
            Pattern::BadDragon => f.write_str("bad-dragon"),
            Pattern::Permutation => f.write_str("permutation"),
            Pattern::Hotspot(spots) => {
                let spots: Vec<String> = spots.iter().map(|(node, share)| format!("{node},{share}")).collect();
                write!(f, "hotspot:{}", spots.join(","))
            }
            Pattern::Local { radius, share } => write!(f, "local:{radius},{share}"),
            Pattern::FftRow(p) => write!(f, "fftrow:{p}"),
            Pattern::FftColumn(p) => write!(f, "fftcol:{p}"),
            Pattern::Matrix(matrix) => write!(f, "matrix:{}", matrix.file()),
        }
    }
}

/// Hot spots with their shares, checked together.
fn hot_spots(text: &str, spots: Vec<(u32, f64)>) -> Result<Pattern, Error> {
    let nodes: BTreeSet<u32> = spots.iter().map(|(node, _)| *node).collect();
    if nodes.len() < spots.len() {
        return Err(Error::invalid("pattern", text, "a node is named twice; give each once, with one share"));
    }
    let sum: f64 = spots.iter().map(|(_, share)| share).sum();
    if sum > 1.0 + 1e-9 {
        return Err(Error::invalid("pattern", text, format!("the shares add up to {sum}; give at most 1 in all")));
    }
    Ok(Pattern::Hotspot(spots))
}

impl TryFrom<String> for Pattern {
    type Error = Error;
    fn try_from(text: String) -> Result<Pattern, Error> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> String {
        pattern.to_string()
    }
}

/// A pattern made ready for one layout.
#[derive(Clone, Debug)]
pub struct Destinations {
    endpoints: u32,
    kind: Prepared,
    weights: Option<Arc<Weights>>,
}

#[derive(Clone, Debug)]
enum Prepared {
    Uniform,
    Others,
    Fixed(Vec<u32>),
    Hotspot(Vec<(u32, f64)>),
    Sphere { share: f64, layout: Layout, offsets: Vec<Vec<i32>> },
    Subtree { share: f64, leaves: u32 },
    NextGroup(u32),
    Row(u32),
    Column(u32),
    Matrix(Arc<[Alias]>),
}

impl Pattern {
    /// Makes the pattern ready for `layout`; `seed` decides the random permutation.
    ///
    /// # Errors
    /// A pattern that does not fit the layout.
    pub fn prepare(&self, layout: &Layout, seed: u64) -> Result<Destinations, Error> {
        let n = layout.endpoints();
        let refuse = |why: String| Err(Error::invalid("pattern", self, why));
        let bits = n.ilog2();
        let mut weights = None;
        let kind = match *self {
            Pattern::Uniform => Prepared::Uniform,
            Pattern::Others => Prepared::Others,
            Pattern::Tornado => fixed(layout, |d, size| (d + (size - 1) / 2) % size),
            Pattern::Neighbour => fixed(layout, |d, size| (d + 1) % size),
            Pattern::Opposite => fixed(layout, |d, size| (d + size / 2) % size),
            Pattern::BadDragon if layout.kind != LayoutKind::Tree => {
                return refuse("only a dragonfly, a tree and a Clos network have groups".into());
            }
            Pattern::BadDragon => Prepared::NextGroup(n / layout.sizes.last().copied().unwrap_or(1)),
            Pattern::Halo => return Pattern::Local { radius: 1, share: 1.0 }.prepare(layout, seed),
            Pattern::BitComplement => Prepared::Fixed((0..n).map(|i| n - 1 - i).collect()),
            Pattern::Transpose => {
                let dims = layout.dims();
                if dims.iter().ne(dims.iter().rev()) {
                    return refuse(format!("sizes {dims:?} must read the same backwards"));
                }
                let turned = |i| {
                    let mut digits = layout.digits(i);
                    digits[layout.first()..].reverse();
                    layout.id(&digits)
                };
                Prepared::Fixed((0..n).map(turned).collect())
            }
            Pattern::BitReverse | Pattern::Shuffle | Pattern::Butterfly if !n.is_power_of_two() || n == 1 => {
                return refuse(format!("the number of endpoints, {n}, must be a power of two"));
            }
            Pattern::BitReverse => Prepared::Fixed((0..n).map(|i| i.reverse_bits() >> (32 - bits)).collect()),
            Pattern::Shuffle => Prepared::Fixed((0..n).map(|i| (i << 1 | i >> (bits - 1)) & (n - 1)).collect()),
            Pattern::Butterfly => {
                let swapped = |i: u32| (i & !(1 | 1 << (bits - 1))) | (i & 1) << (bits - 1) | i >> (bits - 1);
                // With a single bit, first and last are the same.
                Prepared::Fixed((0..n).map(|i| if bits == 1 { i } else { swapped(i) }).collect())
            }
            Pattern::Permutation => {
                let mut all: Vec<u32> = (0..n).collect();
                Stream::new(seed, 0, Purpose::Placement).shuffle(&mut all);
                Prepared::Fixed(all)
            }
            Pattern::Hotspot(ref spots) => match spots.iter().find(|(node, _)| *node >= n) {
                Some((node, _)) => return refuse(format!("node {node} does not exist; the last one is {}", n - 1)),
                None => Prepared::Hotspot(spots.clone()),
            },
            Pattern::Local { radius: 0, .. } => return refuse("give a radius of at least 1".into()),
            Pattern::Local { radius, share } if layout.kind == LayoutKind::Tree => {
                let leaves = layout.sizes.iter().take(radius as usize).product();
                Prepared::Subtree { share, leaves }
            }
            Pattern::Local { radius, share } => {
                Prepared::Sphere { share, offsets: sphere(layout, radius), layout: layout.clone() }
            }
            Pattern::FftRow(p) | Pattern::FftColumn(p) if p == 0 || !n.is_multiple_of(p) => {
                return refuse(format!("{p} columns do not divide {n} endpoints"));
            }
            Pattern::FftRow(p) => Prepared::Row(p),
            Pattern::FftColumn(p) => Prepared::Column(p),
            Pattern::Matrix(ref matrix) => {
                let (rows, sums) = matrix.prepare(n)?;
                weights = Some(Arc::new(sums));
                Prepared::Matrix(rows.into())
            }
        };
        Ok(Destinations { endpoints: n, kind, weights })
    }
}

/// The permutation that applies `f` to every coordinate.
fn fixed(layout: &Layout, f: impl Fn(u32, u32) -> u32) -> Prepared {
    let to = |i| {
        let mut digits = layout.digits(i);
        digits[layout.first()..].iter_mut().zip(layout.dims()).for_each(|(d, &size)| *d = f(*d, size));
        layout.id(&digits)
    };
    Prepared::Fixed((0..layout.endpoints()).map(to).collect())
}

/// Offsets of all endpoints within `radius` hops but 0: on a torus each endpoint once; on a mesh
/// some may lead outside, depending on the source.
fn sphere(layout: &Layout, radius: u32) -> Vec<Vec<i32>> {
    let mut found = BTreeSet::new();
    let mut prefixes: Vec<(Vec<i32>, u32)> = vec![(Vec::new(), 0)];
    if layout.shared {
        prefixes = (0..layout.sizes[0] as i32).map(|slot| (vec![slot], 0)).collect();
    }
    for &size in layout.dims() {
        let reach = |size: u32| match layout.kind {
            // Both ways round, meeting half way: −⌊(n−1)/2⌋ ..= ⌊n/2⌋.
            LayoutKind::Torus => (-((size as i32 - 1) / 2), size as i32 / 2),
            _ => (1 - size as i32, size as i32 - 1),
        };
        let (low, high) = reach(size);
        let grow = |(prefix, used): &(Vec<i32>, u32)| {
            let (prefix, used) = (prefix.clone(), *used);
            (low..=high).filter(move |o| used + o.unsigned_abs() <= radius).map(move |o| {
                let mut next = prefix.clone();
                next.push(o);
                (next, used + o.unsigned_abs())
            })
        };
        prefixes = prefixes.iter().flat_map(grow).collect();
    }
    found.extend(prefixes.into_iter().map(|(offset, _)| offset).filter(|o| o.iter().any(|&d| d != 0)));
    found.into_iter().collect()
}

impl Destinations {
    /// How much each rank sends, if the pattern says it.
    pub fn weights(&self) -> Option<&Weights> {
        self.weights.as_deref()
    }

    /// Where the next message of `from` goes; `None` if it has nobody to send to.
    #[inline]
    pub fn pick(&self, from: u32, stream: &mut Stream) -> Option<u32> {
        let n = u64::from(self.endpoints);
        let uniform = |stream: &mut Stream| stream.below(n) as u32;
        match &self.kind {
            Prepared::Uniform => Some(uniform(stream)),
            Prepared::Others => other(from, 0, self.endpoints, 1, stream),
            Prepared::Fixed(to) => Some(to[from as usize]),
            Prepared::Hotspot(spots) => {
                let mut rest = stream.unit();
                for (node, share) in spots {
                    if rest < *share {
                        return Some(*node);
                    }
                    rest -= share;
                }
                Some(uniform(stream))
            }
            Prepared::Sphere { share, layout, offsets } => {
                if !offsets.is_empty() && stream.chance(*share) {
                    near(layout, offsets, from, stream)
                } else {
                    Some(uniform(stream))
                }
            }
            Prepared::Subtree { share, leaves } => {
                if stream.chance(*share) {
                    other(from, from / leaves * leaves, *leaves, 1, stream)
                } else {
                    Some(uniform(stream))
                }
            }
            Prepared::NextGroup(size) => {
                let next = u64::from(from / size + 1) * u64::from(*size) % n;
                Some((next + stream.below(u64::from(*size))) as u32)
            }
            Prepared::Row(p) => other(from, from / p * p, *p, 1, stream),
            Prepared::Column(p) => other(from, from % p, self.endpoints / p, *p, stream),
            Prepared::Matrix(rows) => rows[from as usize].pick(stream),
        }
    }
}

/// One of the `count` endpoints first, first + step, … other than `from`, which is one of them.
fn other(from: u32, first: u32, count: u32, step: u32, stream: &mut Stream) -> Option<u32> {
    if count < 2 {
        return None;
    }
    let own = (from - first) / step;
    let pick = stream.below(u64::from(count) - 1) as u32;
    Some(first + step * if pick < own { pick } else { pick + 1 })
}

/// An endpoint of the sphere around `from`; offsets that leave a mesh are drawn again.
fn near(layout: &Layout, offsets: &[Vec<i32>], from: u32, stream: &mut Stream) -> Option<u32> {
    let digits = layout.digits(from);
    // In a mesh at least one neighbour of every endpoint exists, so some offset stays inside.
    loop {
        let to = placed(layout, &digits, &offsets[stream.below(offsets.len() as u64) as usize]);
        if to.is_some() {
            return to;
        }
    }
}

/// The endpoint so far from another one; None if that is outside.
fn placed(layout: &Layout, digits: &[u32], offset: &[i32]) -> Option<u32> {
    let mut to = Vec::with_capacity(digits.len());
    for (i, ((&digit, &o), &size)) in digits.iter().zip(offset).zip(&layout.sizes).enumerate() {
        let moved = digit as i32 + o;
        match layout.kind {
            // The endpoints of a router count round, too.
            _ if i < layout.first() => to.push((moved as u32) % size),
            LayoutKind::Torus => to.push(moved.rem_euclid(size as i32) as u32),
            _ if (0..size as i32).contains(&moved) => to.push(moved as u32),
            _ => return None,
        }
    }
    Some(layout.id(&to))
}

#[cfg(test)]
mod tests;
