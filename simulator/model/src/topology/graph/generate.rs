//! Graphs made from a few numbers.

use super::wiring::{Draft, Edge, ROUTERS_MAX};
use crate::topology::contract::{FULL_RATE, PORTS_MAX};
use angara_fabric::rng::{STEP, below, mix};
use std::collections::HashSet;

/// Numbers separated by commas, if all are.
fn numbers(rest: &str) -> Option<Vec<u64>> {
    rest.split(',').map(|n| n.parse().ok()).collect()
}

fn draft(links: Vec<(u32, u32)>, routers: u64, terminals: u64) -> Draft {
    let edge = |(from, to)| Edge { from, to, delays: [1, 1], ppm: FULL_RATE, line: 0 };
    Draft {
        labels: (0..routers).map(|r| r.to_string()).collect(),
        named: false,
        links: links.into_iter().map(edge).collect(),
        terminals: vec![terminals as u32; routers as usize],
    }
}

/// `ROUTERS,DEGREE,TERMINALS[,SEED]`: a random regular graph, and how it is written.
pub(super) fn random(rest: &str) -> Result<(String, Draft), String> {
    let (n, degree, terminals, seed) = match numbers(rest).unwrap_or_default()[..] {
        [n, degree, terminals] => (n, degree, terminals, 1),
        [n, degree, terminals, seed] => (n, degree, terminals, seed),
        _ => return Err(String::new()),
    };
    if !(2..=ROUTERS_MAX as u64).contains(&n) {
        return Err(format!("{n} routers; give 2 to {ROUTERS_MAX}"));
    }
    if degree >= n || degree == 0 || (degree == 1 && n > 2) {
        return Err(format!("degree {degree} of {n} routers; give {} to {}", if n > 2 { 2 } else { 1 }, n - 1));
    }
    if !(n * degree).is_multiple_of(2) {
        return Err(format!("{n} routers of degree {degree}: one of both must be even"));
    }
    if terminals == 0 || degree.saturating_add(terminals) > PORTS_MAX as u64 {
        return Err(format!(
            "{degree} links and {terminals} terminals per router; give at least 1 terminal, at most {PORTS_MAX} of both"
        ));
    }
    let links = swapped(n as u32, degree as u32, seed);
    Ok((format!("random:{n},{degree},{terminals},{seed}"), draft(links, n, terminals)))
}

/// A ring with chords, after many exchanges of the ends of two random links, and more until it is connected.
fn swapped(n: u32, degree: u32, seed: u64) -> Vec<(u32, u32)> {
    let mut links: Vec<(u32, u32)> = (1..=degree / 2).flat_map(|s| (0..n).map(move |r| (r, (r + s) % n))).collect();
    if !degree.is_multiple_of(2) {
        links.extend((0..n / 2).map(|r| (r, r + n / 2)));
    }
    let key = |(a, b): (u32, u32)| (a.min(b), a.max(b));
    let mut present: HashSet<(u32, u32)> = links.iter().copied().map(key).collect();
    let mut word = mix(seed);
    let mut draw = |n: u64| {
        word = mix(word.wrapping_add(STEP));
        below(word, n) as usize
    };
    let count = links.len() as u64;
    loop {
        for _ in 0..10 * count {
            let (i, j, crossed) = (draw(count), draw(count), draw(2));
            let ((a, b), (c, d)) = (links[i], links[j]);
            let new = if crossed == 0 { [(a, d), (c, b)] } else { [(a, c), (b, d)] };
            let fits = new.iter().all(|&(x, y)| x != y && !present.contains(&key((x, y))));
            if i != j && fits && key(new[0]) != key(new[1]) {
                present.remove(&key(links[i]));
                present.remove(&key(links[j]));
                present.extend(new.map(key));
                (links[i], links[j]) = (new[0], new[1]);
            }
        }
        if connected(n, &links) {
            return links;
        }
    }
}

fn connected(n: u32, links: &[(u32, u32)]) -> bool {
    let mut near = vec![Vec::new(); n as usize];
    for &(a, b) in links {
        near[a as usize].push(b);
        near[b as usize].push(a);
    }
    let (mut seen, mut todo) = (HashSet::from([0]), vec![0]);
    while let Some(r) = todo.pop() {
        todo.extend(near[r as usize].iter().filter(|&&x| seen.insert(x)));
    }
    seen.len() == n as usize
}

/// `Q`: the graph of McKay, Miller and Širáň that Slim Fly uses, and how it is written.
pub(super) fn slim_fly(rest: &str) -> Result<(String, Draft), String> {
    let q: u32 = rest.parse().map_err(|_| String::new())?;
    let prime = q > 2 && (2..q).take_while(|d| d * d <= q).all(|d| !q.is_multiple_of(d));
    // Degree and terminals of 23 are the last that fit a router.
    if q > 23 || !prime {
        return Err(format!("slimfly:{q}: give a prime from 3 to 23"));
    }
    let root = (2..q).find(|&g| (1..q - 1).all(|e| power(g, e, q) != 1)).unwrap_or(q - 1);
    let (first, second): (Vec<u32>, Vec<u32>) = if q % 4 == 1 {
        ((0..q - 1).step_by(2).collect(), (1..q - 1).step_by(2).collect())
    } else {
        let w = q.div_ceil(4);
        let both = |a: u32, b: u32| (0..w).map(|i| a + 2 * i).chain((0..w).map(|i| b + 2 * i)).collect();
        (both(0, 2 * w - 1), both(1, 2 * w))
    };
    let router = |side: u32, x: u32, y: u32| side * q * q + x * q + y;
    let mut links = Vec::new();
    for (side, exponents) in [(0, &first), (1, &second)] {
        let near: HashSet<u32> = exponents.iter().map(|&e| power(root, e, q)).collect();
        for (x, (y, z)) in (0..q).flat_map(|x| (0..q).flat_map(move |y| (y + 1..q).map(move |z| (x, (y, z))))) {
            if near.contains(&(z - y)) {
                links.push((router(side, x, y), router(side, x, z)));
            }
        }
    }
    for (x, (m, c)) in (0..q).flat_map(|x| (0..q).flat_map(move |m| (0..q).map(move |c| (x, (m, c))))) {
        links.push((router(0, x, (m * x + c) % q), router(1, m, c)));
    }
    let routers = 2 * q * q;
    let degree = 2 * links.len() as u64 / u64::from(routers);
    Ok((format!("slimfly:{q}"), draft(links, routers.into(), degree.div_ceil(2))))
}

fn power(base: u32, exponent: u32, modulus: u32) -> u32 {
    (0..exponent).fold(1, |p, _| p * base % modulus)
}
