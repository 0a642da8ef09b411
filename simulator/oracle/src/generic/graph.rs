//! Graphs by the definition, from lists of links; every distance by trying all.

use super::net::{Far, Net, Packet};
use crate::random;
use proptest::prelude::*;

/// How packets find their way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Minimal,
    Valiant,
    UpDown,
}

/// A graph: links (router, router, cycles there, cycles back) in order, parallel ones one after the other, and
/// terminals of each router.
#[derive(Clone, Debug)]
pub struct Graph {
    pub links: Vec<(usize, usize, u64, u64)>,
    pub terminals: Vec<usize>,
}

const FAR: usize = usize::MAX / 4;

struct Routed {
    graph: Graph,
    way: Way,
    /// Of every router: where each port leads, and how long that takes.
    near: Vec<Vec<(usize, u64)>>,
    distance: Vec<Vec<usize>>,
    /// Links of the ways from a router to another that go up, then down; and that only go down.
    legal: [Vec<Vec<usize>>; 2],
    diameter: usize,
}

impl Graph {
    /// The graph as a file.
    pub fn text(&self) -> String {
        let alike = self.links.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1));
        let links = alike.map(|links| {
            let ((a, b, there, back), count) = (links[0], links.len());
            format!("{a} {b} {there} {back}{}\n", if count > 1 { format!(" x{count}") } else { String::new() })
        });
        let terminals = self.terminals.iter().enumerate().map(|(r, n)| format!("terminals {r} {n}\n"));
        links.chain(terminals).collect()
    }
    /// The same with packets that find their way like this.
    pub fn net(&self, way: Way) -> Box<dyn Net> {
        let n = self.terminals.len();
        let mut near = vec![Vec::new(); n];
        for &(a, b, there, back) in &self.links {
            near[a].push((b, there));
            near[b].push((a, back));
        }
        let distance = closest(n, |a, b| near[a].iter().any(|x: &(usize, u64)| x.0 == b));
        let up = |a: usize, b: usize| (distance[0][b], b) < (distance[0][a], a);
        let down = closest(n, |a, b| near[a].iter().any(|x| x.0 == b) && !up(a, b));
        let climb = closest(n, |a, b| near[a].iter().any(|x| x.0 == b) && up(a, b));
        let both = |a: usize, b: usize| (0..n).map(|top| climb[a][top] + down[top][b]).min().unwrap();
        let legal = (0..n).map(|a| (0..n).map(|b| both(a, b)).collect()).collect();
        let ends: Vec<usize> = (0..n).filter(|&r| self.terminals[r] > 0).collect();
        let mut diameter = 1;
        for (&s, &d) in ends.iter().flat_map(|s| ends.iter().map(move |d| (s, d))).filter(|(s, d)| s != d) {
            for via in 0..n {
                let hops = match way {
                    Way::Valiant => distance[s][via] + distance[via][d],
                    _ => distance[s][d],
                };
                diameter = diameter.max(hops);
            }
        }
        if way == Way::Valiant && ends.len() > 1 {
            // The same bound for every pair: there and back from the farthest router.
            let farthest = |via: usize| ends.iter().map(|&e| distance[e][via]).max().unwrap();
            diameter = diameter.max((0..n).map(|via| 2 * farthest(via)).max().unwrap());
        }
        Box::new(Routed { graph: self.clone(), way, near, distance, legal: [legal, down], diameter })
    }
}

/// Fewest steps between any two of `n`.
pub(super) fn closest(n: usize, step: impl Fn(usize, usize) -> bool) -> Vec<Vec<usize>> {
    let start = |a: usize, b: usize| {
        if a == b {
            0
        } else if step(a, b) {
            1
        } else {
            FAR
        }
    };
    let mut distance: Vec<Vec<usize>> = (0..n).map(|a| (0..n).map(|b| start(a, b)).collect()).collect();
    for via in 0..n {
        for a in 0..n {
            for b in 0..n {
                distance[a][b] = distance[a][b].min(distance[a][via] + distance[via][b]);
            }
        }
    }
    distance
}

impl Routed {
    /// Router and port of an endpoint.
    fn place(&self, endpoint: usize) -> (usize, usize) {
        let mut left = endpoint;
        for (r, &n) in self.graph.terminals.iter().enumerate() {
            if left < n {
                return (r, self.near[r].len() + left);
            }
            left -= n;
        }
        panic!("no endpoint {endpoint}")
    }
    fn choose(&self, ports: Vec<usize>, packet: &mut Packet) -> usize {
        if ports.len() == 1 { ports[0] } else { ports[packet.draw(ports.len())] }
    }
}

impl Net for Routed {
    fn routers(&self) -> usize {
        self.near.len()
    }
    fn ports(&self) -> usize {
        (0..self.near.len()).map(|r| self.near[r].len() + self.graph.terminals[r]).max().unwrap()
    }
    fn endpoints(&self) -> usize {
        self.graph.terminals.iter().sum()
    }
    fn attach(&self, endpoint: usize) -> (usize, usize) {
        self.place(endpoint)
    }
    fn far(&self, router: usize, port: usize) -> Far {
        match self.near[router].get(port) {
            Some(&(to, _)) => {
                // The n-th of the links between them is the n-th at both ends.
                let nth = self.near[router][..port].iter().filter(|x| x.0 == to).count();
                let back = (0..self.near[to].len()).filter(|&p| self.near[to][p].0 == router).nth(nth);
                Far::Router(to, back.unwrap())
            }
            None => {
                let endpoint = (0..self.endpoints()).find(|&e| self.place(e) == (router, port));
                Far::Endpoint(endpoint.unwrap())
            }
        }
    }
    fn delay(&self, router: usize, port: usize) -> u64 {
        self.near[router][port].1
    }
    fn start(&self, packet: &mut Packet, src: u32, dst: u32) {
        let [from, to] = [src, dst].map(|e| self.place(e as usize).0);
        packet.via = (self.way == Way::Valiant && from != to).then(|| packet.draw(self.near.len()));
    }
    fn route(&self, router: usize, dst: u32, packet: &mut Packet, vcs: usize) -> (usize, usize, usize) {
        let (to, port) = self.place(dst as usize);
        if packet.via == Some(router) {
            packet.via = None;
        }
        if router == to && packet.via.is_none() {
            return (port, 0, vcs - 1);
        }
        let near = &self.near[router];
        if self.way == Way::UpDown {
            let up = |b: usize| (self.distance[0][b], b) < (self.distance[0][router], router);
            let left = self.legal[usize::from(packet.down)][router][to];
            let fits = |b: usize| match up(b) {
                true => !packet.down && 1 + self.legal[0][b][to] == left,
                false => 1 + self.legal[1][b][to] == left,
            };
            let port = self.choose((0..near.len()).filter(|&p| fits(near[p].0)).collect(), packet);
            packet.down |= !up(near[port].0);
            return (port, 0, vcs - 1);
        }
        let target = packet.via.unwrap_or(to);
        let left = |r: usize| self.distance[r][target];
        let nearer = (0..near.len()).filter(|&p| left(near[p].0) + 1 == left(router)).collect();
        let port = self.choose(nearer, packet);
        let hop = packet.routers as usize - 1;
        let class: Vec<usize> = (0..vcs).filter(|v| v * self.diameter / vcs == hop).collect();
        (port, class[0], class[class.len() - 1])
    }
}

/// Random connected graphs with delays from 1 to `longest`.
pub fn graphs(longest: u64) -> impl Strategy<Value = Graph> {
    (2usize..10, any::<u64>()).prop_map(move |(n, seed)| {
        let mut word = seed;
        let mut draw = |k: u64| {
            word = random::next(word);
            random::below(word, k)
        };
        let mut pairs: Vec<(usize, usize)> = (1..n).map(|r| (draw(r as u64) as usize, r)).collect();
        for _ in 0..draw(2 * n as u64) {
            let (a, b) = (draw(n as u64) as usize, draw(n as u64) as usize);
            if a != b && !pairs.contains(&(a, b)) && !pairs.contains(&(b, a)) {
                pairs.push((a, b));
            }
        }
        for i in 0..pairs.len() {
            let other = draw(pairs.len() as u64) as usize;
            pairs.swap(i, other);
        }
        let same = draw(2) == 0;
        let links = pairs.into_iter().flat_map(|(a, b)| {
            let there = 1 + draw(longest);
            let back = if same { there } else { 1 + draw(longest) };
            let count = if draw(4) == 0 { 2 + draw(2) } else { 1 };
            (0..count).map(move |_| (a, b, there, back))
        });
        let links = links.collect();
        let mut terminals: Vec<usize> = (0..n).map(|_| draw(4) as usize).collect();
        terminals[draw(n as u64) as usize] += 1;
        Graph { links, terminals }
    })
}

/// A file of links, as it stands.
pub(super) fn read_file(kind: &str, rest: &str) -> Box<dyn Net> {
    panic!("{kind}:{rest}: tests make graphs themselves")
}

pub(super) fn read(kind: &str, rest: &str) -> Box<dyn Net> {
    let numbers: Vec<u64> = rest.split(',').map(|n| n.parse().unwrap()).collect();
    let graph = if kind == "random" { random_regular(&numbers) } else { slim_fly(numbers[0] as usize) };
    graph.net(Way::Minimal)
}

pub(super) fn shapes() -> BoxedStrategy<String> {
    let random = (2u64..14, 1u64..6, 1u64..4, any::<u8>()).prop_map(|(n, d, t, s)| format!("random:{n},{d},{t},{s}"));
    prop_oneof![4 => random, 1 => Just(String::from("slimfly:3"))].boxed()
}

fn random_regular(numbers: &[u64]) -> Graph {
    let (n, degree) = (numbers[0] as usize, numbers[1] as usize);
    let mut pairs: Vec<[usize; 2]> = Vec::new();
    for step in 1..=degree / 2 {
        pairs.extend((0..n).map(|r| [r, (r + step) % n]));
    }
    if degree % 2 == 1 {
        pairs.extend((0..n / 2).map(|r| [r, r + n / 2]));
    }
    let mut word = random::mix(numbers[3]);
    loop {
        for _ in 0..10 * pairs.len() {
            let mut draw = |k: usize| {
                word = random::next(word);
                random::below(word, k as u64) as usize
            };
            let (i, j) = (draw(pairs.len()), draw(pairs.len()));
            let crossed = draw(2) == 1;
            if i == j {
                continue;
            }
            let ([a, b], [c, d]) = (pairs[i], pairs[j]);
            let [first, second] = if crossed { [[a, c], [b, d]] } else { [[a, d], [c, b]] };
            let linked = |p: [usize; 2]| pairs.iter().any(|&[x, y]| [x, y] == p || [y, x] == p);
            let same = first == second || first == [second[1], second[0]];
            if first[0] != first[1] && second[0] != second[1] && !same && !linked(first) && !linked(second) {
                (pairs[i], pairs[j]) = (first, second);
            }
        }
        let linked = |a: usize, b: usize| pairs.contains(&[a, b]) || pairs.contains(&[b, a]);
        if closest(n, linked)[0].iter().all(|&d| d < FAR) {
            break;
        }
    }
    let links = pairs.into_iter().map(|[a, b]| (a, b, 1, 1)).collect();
    Graph { links, terminals: vec![numbers[2] as usize; n] }
}

/// Slim Fly of q = 3, 5 or 7, by the definition in the document.
fn slim_fly(q: usize) -> Graph {
    let root = [0, 0, 0, 2, 0, 2, 0, 3][q];
    let power = |e: usize| (0..e).fold(1, |p, _| p * root % q);
    let w = q.div_ceil(4);
    let sets: [Vec<usize>; 2] = if q % 4 == 1 {
        [0, 1].map(|odd| (0..q - 1).filter(|e| e % 2 == odd).map(power).collect())
    } else {
        [(0, 2 * w - 1), (1, 2 * w)]
            .map(|(a, b)| (0..w).map(|i| a + 2 * i).chain((0..w).map(|i| b + 2 * i)).map(power).collect())
    };
    let mut links = Vec::new();
    for (side, set) in sets.iter().enumerate() {
        for x in 0..q {
            for y in 0..q {
                for z in y + 1..q {
                    if set.contains(&(z - y)) {
                        links.push((side * q * q + x * q + y, side * q * q + x * q + z, 1, 1));
                    }
                }
            }
        }
    }
    for x in 0..q {
        for m in 0..q {
            for c in 0..q {
                links.push((x * q + (m * x + c) % q, q * q + m * q + c, 1, 1));
            }
        }
    }
    let degree = links.iter().filter(|l| l.0 == 0 || l.1 == 0).count();
    Graph { links, terminals: vec![degree.div_ceil(2); 2 * q * q] }
}
