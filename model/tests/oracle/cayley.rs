//! Cayley graphs by the definition: every element, every link, every distance, from the text of the topology.

use std::collections::BTreeSet;

pub(crate) struct Cayley {
    /// Neighbour through each port of each router.
    pub(crate) links: Vec<Vec<usize>>,
    /// Between any two routers.
    pub(crate) distance: Vec<Vec<usize>>,
}

fn numbers(text: &str, by: char) -> Vec<i64> {
    text.split(by).map(|n| n.parse().unwrap()).collect()
}

impl Cayley {
    /// Of `GROUP:GENERATORS`, as docs/explain/model.md writes them.
    pub(crate) fn new(text: &str) -> Cayley {
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
    pub(crate) fn degree(&self) -> usize {
        self.links[0].len()
    }
    pub(crate) fn diameter(&self) -> usize {
        *self.distance.iter().flatten().max().unwrap()
    }
}
