//! Cayley graphs: networks in which every router looks the same, made from a finite group.
//!
//! Every element of the group is a router; element g is linked to g·s for each *generator* s. Rings, tori and
//! hypercubes are Cayley graphs of sums of cyclic groups, as are twisted and circulant networks;
//! star and pancake graphs are ones of permutations. Because the graph looks the same from everywhere, one
//! breadth-first search from the identity gives the minimal routes of all pairs: what matters of a
//! route from g to h is g⁻¹·h, which the first hop s turns into s⁻¹·g⁻¹·h.

use super::contract::{Class, Classes, End, Hop, PORTS_MAX, RouteState, Topology, Written, check_nodes};
use super::layout::Layout;
use angara_fabric::bits::bits;
use angara_fabric::rng::below;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Most elements of a group.
const ELEMENTS_MAX: usize = 1 << 20;
/// Bits of an abelian element per component.
const COMPONENT: u32 = 16;
/// Bits of a permutation per image; the first image is highest, so that numbers order like words.
const IMAGE: u32 = 4;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Group {
    /// Vectors added component by component modulo these numbers.
    Abelian(Vec<u16>),
    /// Permutations of N things, of which those that the generators reach.
    Permutations(u8),
}

/// A group and generators, as written on a command line: `cayley:13:1,5` (numbers modulo 13),
/// `cayley:8x8:1.0,0.1,3.3` (pairs modulo 8), `cayley:s4:2134,3214,4231` (permutations of 4 things).
#[derive(Clone, PartialEq, Eq, Debug)]
struct Presentation {
    group: Group,
    /// Components, or images from 0.
    generators: Vec<Vec<u16>>,
}

impl fmt::Display for Presentation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |v: &[u16], by: &str, add: u16| v.iter().map(|x| (x + add).to_string()).collect::<Vec<_>>().join(by);
        let (group, by, add) = match &self.group {
            Group::Abelian(moduli) => (join(moduli, "x", 0), ".", 0),
            Group::Permutations(n) => (format!("s{n}"), "", 1),
        };
        let generators: Vec<String> = self.generators.iter().map(|g| join(g, by, add)).collect();
        write!(f, "{group}:{}", generators.join(","))
    }
}

impl FromStr for Presentation {
    type Err = String;
    fn from_str(s: &str) -> Result<Presentation, String> {
        let (group, generators) = s.split_once(':').ok_or("give a group and generators, as in cayley:13:1,5")?;
        let group = match group.strip_prefix('s') {
            Some(n) => match n.parse() {
                Ok(n @ 2..=9) => Group::Permutations(n),
                _ => return Err(format!("s{n}: permutations of 2 to 9 things, as in s4")),
            },
            None => {
                let moduli: Vec<u16> = group.split('x').filter_map(|m| m.parse().ok()).collect();
                let fits = moduli.len() == group.split('x').count() && moduli.len() <= 4;
                if !fits || moduli.iter().any(|m| !(1..=4096).contains(m)) {
                    return Err(format!("{group}: give 1 to 4 moduli from 1 to 4096, as in 8x8"));
                }
                Group::Abelian(moduli)
            }
        };
        let generators = generators.split(',').map(|g| group.read(g)).collect::<Result<_, _>>()?;
        Ok(Presentation { group, generators })
    }
}

impl Group {
    fn read(&self, text: &str) -> Result<Vec<u16>, String> {
        match self {
            Group::Abelian(moduli) => {
                let given: Vec<i32> = text.split('.').filter_map(|c| c.parse().ok()).collect();
                if given.len() != moduli.len() || text.split('.').count() != moduli.len() {
                    return Err(format!("generator {text}: give {} numbers with dots between them", moduli.len()));
                }
                Ok(given.iter().zip(moduli).map(|(&c, &m)| c.rem_euclid(m as i32) as u16).collect())
            }
            Group::Permutations(n) => {
                let n = *n as u16;
                let images: Vec<u16> = text.bytes().map(|b| u16::from(b).wrapping_sub(u16::from(b'1'))).collect();
                let all = images.len() == n as usize && (0..n).all(|i| images.contains(&i));
                if all { Ok(images) } else { Err(format!("generator {text}: give each digit from 1 to {n} once")) }
            }
        }
    }
    fn pack(&self, element: &[u16]) -> u64 {
        match self {
            Group::Abelian(_) => element.iter().rev().fold(0, |p, &c| p << COMPONENT | u64::from(c)),
            Group::Permutations(_) => element.iter().fold(0, |p, &c| p << IMAGE | u64::from(c)),
        }
    }
    fn identity(&self) -> u64 {
        match self {
            Group::Abelian(_) => 0,
            Group::Permutations(n) => self.pack(&(0..u16::from(*n)).collect::<Vec<_>>()),
        }
    }
    fn image(n: u8, element: u64, i: u64) -> u64 {
        element >> (IMAGE as u64 * (n as u64 - 1 - i)) & 15
    }
    /// a·b: the sum; or first b, then a.
    fn times(&self, a: u64, b: u64) -> u64 {
        match self {
            Group::Abelian(moduli) => moduli.iter().enumerate().fold(0, |p, (d, &m)| {
                let at = COMPONENT * d as u32;
                p | (((a >> at & 0xffff) + (b >> at & 0xffff)) % m as u64 * (1 << at))
            }),
            Group::Permutations(n) => {
                (0..*n as u64).fold(0, |p, i| p << IMAGE | Group::image(*n, a, Group::image(*n, b, i)))
            }
        }
    }
    fn inverse(&self, a: u64) -> u64 {
        match self {
            Group::Abelian(moduli) => moduli.iter().enumerate().fold(0, |p, (d, &m)| {
                let at = COMPONENT * d as u32;
                p | ((m as u64 - (a >> at & 0xffff)) % m as u64 * (1 << at))
            }),
            Group::Permutations(n) => {
                (0..*n as u64).fold(0, |p, i| p | i << (IMAGE as u64 * (*n as u64 - 1 - Group::image(*n, a, i))))
            }
        }
    }
}

#[derive(Debug)]
struct Tables {
    group: Group,
    /// In ascending order: abelian ones with the first component fastest, permutations like words.
    elements: Vec<u64>,
    identity: u32,
    /// Links per router.
    degree: usize,
    /// Port of the inverse of each port's generator.
    back: Vec<u8>,
    /// g·s at g·degree + s.
    right: Vec<u32>,
    /// s⁻¹·h at h·degree + s.
    left: Vec<u32>,
    /// Ports that lead nearer to h from the identity.
    minimal: Vec<u64>,
    diameter: u32,
}

/// A Cayley graph. Ports 0.. lead to g·s for the generators as given, each followed by its inverse unless that is
/// there already; the last port leads to the router's endpoint. Packets take minimal routes, of
/// several next hops one drawn at random; their k-th hop is in the k-th class of virtual channels.
#[derive(Clone, Debug)]
pub struct Cayley {
    presentation: Arc<Presentation>,
    tables: Arc<Tables>,
}

impl PartialEq for Cayley {
    fn eq(&self, other: &Cayley) -> bool {
        self.presentation == other.presentation
    }
}

impl Eq for Cayley {}

impl Written for Cayley {
    const FORMS: &'static [(&'static str, &'static str)] =
        &[("cayley", "GROUP:GENERATORS (cayley:13:1,5, cayley:8x8:1.0,0.1, cayley:s4:2134,3214)")];
    fn read(_kind: &str, rest: &str) -> Result<Cayley, String> {
        Cayley::new(rest.parse()?)
    }
}

impl fmt::Display for Cayley {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cayley:{}", self.presentation)
    }
}

impl Cayley {
    /// The graph `p` describes.
    ///
    /// # Errors
    /// Too many generators or elements, or abelian generators that do not reach every element.
    fn new(p: Presentation) -> Result<Cayley, String> {
        let group = p.group.clone();
        let mut generators: Vec<u64> = Vec::new();
        for g in p.generators.iter().map(|g| group.pack(g)) {
            for s in [g, group.inverse(g)] {
                if s == group.identity() {
                    return Err("a generator is the identity, a link from a router to itself".into());
                }
                if !generators.contains(&s) {
                    generators.push(s);
                }
            }
        }
        if generators.len() >= PORTS_MAX {
            let (links, most) = (generators.len(), PORTS_MAX - 1);
            return Err(format!("{links} links per router, inverses included; at most {most} are supported"));
        }
        let elements = reached(&group, &generators)
            .ok_or_else(|| format!("more than {ELEMENTS_MAX} elements; choose a smaller group"))?;
        if let Group::Abelian(moduli) = &group {
            let all: u64 = moduli.iter().map(|&m| m as u64).product();
            if elements.len() as u64 != all {
                return Err(format!("the generators reach {} of {all} elements; add one", elements.len()));
            }
        }
        check_nodes(elements.len() as u64)?;
        let tables = Arc::new(Tables::new(group, elements, &generators));
        Ok(Cayley { presentation: Arc::new(p), tables })
    }
    fn index(&self, element: u64) -> u32 {
        index(&self.tables.elements, element)
    }
}

fn index(elements: &[u64], element: u64) -> u32 {
    elements.binary_search(&element).expect("a group is closed") as u32
}

/// The elements that products of `generators` reach, in ascending order, unless they are too many.
fn reached(group: &Group, generators: &[u64]) -> Option<Vec<u64>> {
    let mut seen = std::collections::BTreeSet::from([group.identity()]);
    let mut todo = vec![group.identity()];
    while let Some(g) = todo.pop() {
        for &s in generators {
            let next = group.times(g, s);
            if seen.insert(next) {
                todo.push(next);
            }
        }
        if seen.len() > ELEMENTS_MAX {
            return None;
        }
    }
    Some(seen.into_iter().collect())
}

impl Tables {
    fn new(group: Group, elements: Vec<u64>, generators: &[u64]) -> Tables {
        let degree = generators.len();
        let at = |e| index(&elements, e);
        let back = |&s: &u64| {
            let inverse = group.inverse(s);
            generators.iter().position(|&g| g == inverse).expect("inverses were added") as u8
        };
        let back: Vec<u8> = generators.iter().map(back).collect();
        let products = |f: &dyn Fn(u64, u64) -> u64| -> Vec<u32> {
            elements.iter().flat_map(|&g| generators.iter().map(move |&s| (g, s))).map(|(g, s)| at(f(g, s))).collect()
        };
        let right = products(&|g, s| group.times(g, s));
        let left = products(&|h, s| group.times(group.inverse(s), h));
        let identity = at(group.identity());
        let mut distance = vec![u32::MAX; elements.len()];
        distance[identity as usize] = 0;
        let mut queue = std::collections::VecDeque::from([identity]);
        while let Some(g) = queue.pop_front() {
            for &next in &right[g as usize * degree..][..degree] {
                if distance[next as usize] == u32::MAX {
                    distance[next as usize] = distance[g as usize] + 1;
                    queue.push_back(next);
                }
            }
        }
        let nearer = |h: usize| {
            let ports = (0..degree).filter(|s| distance[left[h * degree + s] as usize] < distance[h]);
            ports.fold(0, |m, s| m | 1 << s)
        };
        let minimal = (0..elements.len()).map(nearer).collect();
        let diameter = distance.into_iter().max().unwrap_or(0);
        Tables { group, elements, identity, degree, back, right, left, minimal, diameter }
    }
}

/// Bits of [`RouteState::lo`] that say what is left of the way; the hops done are above.
const LEFT: u32 = 32;

impl Topology for Cayley {
    fn endpoints(&self) -> usize {
        self.tables.elements.len()
    }
    fn routers(&self) -> usize {
        self.tables.elements.len()
    }
    fn ports(&self) -> usize {
        self.tables.degree + 1
    }
    fn output(&self, router: u32, port: u8) -> End {
        let t = &self.tables;
        match (port as usize).cmp(&t.degree) {
            std::cmp::Ordering::Less => {
                let to = t.right[router as usize * t.degree + port as usize];
                End::Router { router: to, port: t.back[port as usize] }
            }
            std::cmp::Ordering::Equal => End::Endpoint(router),
            std::cmp::Ordering::Greater => End::Open,
        }
    }
    fn attach(&self, endpoint: u32) -> (u32, u8) {
        (endpoint, self.tables.degree as u8)
    }
    fn start(&self, src: u32, dst: u32, random: u64) -> RouteState {
        let t = &self.tables;
        let way = t.group.times(t.group.inverse(t.elements[src as usize]), t.elements[dst as usize]);
        RouteState { lo: self.index(way) as u64, hi: random }
    }
    #[inline(always)]
    fn next(&self, _router: u32, route: &mut RouteState) -> Hop {
        let t = &self.tables;
        let (h, done) = (route.lo as u32, (route.lo >> LEFT) as u8);
        if h == t.identity {
            return Hop { port: t.degree as u8, class: Class::Any };
        }
        let ports = t.minimal[h as usize];
        let port = match ports.count_ones() as u64 {
            1 => ports.trailing_zeros(),
            several => bits(ports).nth(below(route.advance(), several) as usize).expect("fewer than there are"),
        };
        let left = t.left[h as usize * t.degree + port as usize];
        route.lo = left as u64 | (done as u64 + 1) << LEFT;
        Hop { port: port as u8, class: Class::Step(done) }
    }
    /// A packet's k-th hop waits only for channels of hop k+1 or for an endpoint.
    fn classes(&self) -> Classes {
        Classes::Steps(self.tables.diameter.max(1))
    }
    /// Patterns see vectors as a torus, whatever the generators, and permutations as a ring.
    fn layout(&self) -> Layout {
        match &self.presentation.group {
            Group::Abelian(moduli) => Layout::torus(&moduli.iter().map(|&m| u32::from(m)).collect::<Vec<_>>()),
            Group::Permutations(_) => Layout::torus(&[self.endpoints() as u32]),
        }
    }
}
