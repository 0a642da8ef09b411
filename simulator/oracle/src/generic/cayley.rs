//! Cayley graphs by the definition: every element, every link, every distance, from the text of the topology.

use super::net::{Far, Net, Packet};
use proptest::prelude::*;
use std::collections::BTreeSet;

struct Cayley {
    /// Neighbour through each port of each router.
    links: Vec<Vec<usize>>,
    /// Between any two routers.
    distance: Vec<Vec<usize>>,
}

pub(super) fn read(_kind: &str, rest: &str) -> Box<dyn Net> {
    Box::new(Cayley::new(rest))
}

fn join<T: ToString>(items: impl IntoIterator<Item = T>, by: &str) -> String {
    items.into_iter().map(|i| i.to_string()).collect::<Vec<_>>().join(by)
}

/// Random groups and generators, some of which make no network.
pub(super) fn shapes() -> BoxedStrategy<String> {
    let group = prop::collection::vec(1u16..8, 1..4).prop_filter("small", |m| m.iter().product::<u16>() <= 30);
    let generators = prop::collection::vec(prop::collection::vec(-3i32..4, 3), 1..4);
    let abelian = (group, generators).prop_map(|(moduli, generators)| {
        let generators = generators.iter().map(|g| join(&g[..moduli.len()], "."));
        format!("cayley:{}:{}", join(&moduli, "x"), join(generators, ","))
    });
    let digits = |n: u8| Just((1..=n).collect::<Vec<_>>()).prop_shuffle();
    let generators = (3u8..5).prop_flat_map(move |n| (Just(n), prop::collection::vec(digits(n), 1..4)));
    let permutations = generators
        .prop_map(|(n, generators)| format!("cayley:s{n}:{}", join(generators.iter().map(|g| join(g, "")), ",")));
    prop_oneof![2 => abelian, 1 => permutations].boxed()
}

impl Net for Cayley {
    fn routers(&self) -> usize {
        self.links.len()
    }
    fn ports(&self) -> usize {
        self.degree() + 1
    }
    fn endpoints(&self) -> usize {
        self.links.len()
    }
    fn attach(&self, endpoint: usize) -> (usize, usize) {
        (endpoint, self.degree())
    }
    fn far(&self, router: usize, port: usize) -> Far {
        if port == self.degree() {
            return Far::Endpoint(router);
        }
        let to = self.links[router][port];
        Far::Router(to, self.links[to].iter().position(|&back| back == router).unwrap())
    }
    fn route(&self, router: usize, dst: u32, packet: &mut Packet, vcs: usize) -> (usize, usize, usize) {
        if router == dst as usize {
            return (self.degree(), 0, vcs - 1);
        }
        let left = |from: usize| self.distance[from][dst as usize];
        let nearer: Vec<usize> = (0..self.degree()).filter(|&p| left(self.links[router][p]) < left(router)).collect();
        let port = if nearer.len() == 1 { nearer[0] } else { nearer[packet.draw(nearer.len())] };
        let hop = packet.routers as usize - 1;
        let class: Vec<usize> = (0..vcs).filter(|v| v * self.diameter() / vcs == hop).collect();
        (port, class[0], class[class.len() - 1])
    }
}

fn numbers(text: &str, by: char) -> Vec<i64> {
    text.split(by).map(|n| n.parse().unwrap()).collect()
}

impl Cayley {
    /// Reads `GROUP:GENERATORS`, as docs/explain/model.md writes them.
    fn new(text: &str) -> Cayley {
        let (group, generators) = text.split_once(':').unwrap();
        match group.strip_prefix('s') {
            Some(_) => {
                let word = |g: &str| g.bytes().map(|b| i64::from(b - b'1')).collect();
                // Generator s moves what is at place s(i) to place i.
                let times = |g: &Vec<i64>, s: &Vec<i64>| s.iter().map(|&i| g[i as usize]).collect();
                Cayley::from(generators.split(',').map(word).collect(), times, |g| g.clone())
            }
            None => {
                let moduli = numbers(group, 'x');
                let reduce = |g: Vec<i64>| g.iter().zip(&moduli).map(|(c, m)| c.rem_euclid(*m)).collect();
                let times = |g: &Vec<i64>, s: &Vec<i64>| reduce(g.iter().zip(s).map(|(a, b)| a + b).collect());
                let given = generators.split(',').map(|g| reduce(numbers(g, '.'))).collect();
                // The first component counts fastest.
                Cayley::from(given, times, |g| g.iter().rev().copied().collect())
            }
        }
    }
    fn from(
        given: Vec<Vec<i64>>,
        times: impl Fn(&Vec<i64>, &Vec<i64>) -> Vec<i64>,
        order: impl Fn(&Vec<i64>) -> Vec<i64>,
    ) -> Cayley {
        let mut elements: BTreeSet<Vec<i64>> = given.iter().cloned().collect();
        loop {
            let products: BTreeSet<_> = elements.iter().flat_map(|a| given.iter().map(|b| times(a, b))).collect();
            let before = elements.len();
            elements.extend(products);
            if elements.len() == before {
                break;
            }
        }
        let mut elements: Vec<Vec<i64>> = elements.into_iter().collect();
        elements.sort_by_key(&order);
        let identity = elements.iter().find(|e| elements.iter().all(|a| times(a, e) == *a)).unwrap().clone();
        let mut generators: Vec<Vec<i64>> = Vec::new();
        for s in given {
            let inverse = elements.iter().find(|e| times(&s, e) == identity).unwrap().clone();
            for g in [s, inverse] {
                if !generators.contains(&g) {
                    generators.push(g);
                }
            }
        }
        let number = |e: &Vec<i64>| elements.iter().position(|x| x == e).unwrap();
        let links: Vec<Vec<usize>> =
            elements.iter().map(|g| generators.iter().map(|s| number(&times(g, s))).collect()).collect();
        let n = elements.len();
        let mut distance = vec![vec![usize::MAX / 2; n]; n];
        for a in 0..n {
            distance[a][a] = 0;
            links[a].iter().for_each(|&b| distance[a][b] = 1);
        }
        for via in 0..n {
            for a in 0..n {
                for b in 0..n {
                    distance[a][b] = distance[a][b].min(distance[a][via] + distance[via][b]);
                }
            }
        }
        Cayley { links, distance }
    }
    fn degree(&self) -> usize {
        self.links[0].len()
    }
    fn diameter(&self) -> usize {
        *self.distance.iter().flatten().max().unwrap()
    }
}
