//! What is left of a network whose links and routers are down, by trying all ways.

use super::graph::{Way, closest};
use super::net::{Far, Net, Packet};
use crate::random;

const FAR: usize = usize::MAX / 4;

struct Left {
    whole: Box<dyn Net>,
    way: Way,
    /// Of every router, its ports that lead to another, where they lead to, in order.
    near: Vec<Vec<(usize, usize)>>,
    /// Routers that endpoints reach, in order.
    kept: Vec<usize>,
    distance: Vec<Vec<usize>>,
    /// Links of the ways from a router to another that go up, then down; and that only go down.
    legal: [Vec<Vec<usize>>; 2],
    classes: usize,
}

/// What is down: links by one of their ends, and routers.
#[derive(Clone, Default, Debug)]
pub struct Down {
    pub links: Vec<(usize, usize)>,
    pub routers: Vec<usize>,
}

/// All links, each by the end with the lower router and port. `open` says which ports lead nowhere.
pub fn links(net: &dyn Net, open: &dyn Fn(usize, usize) -> bool) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    for r in 0..net.routers() {
        for p in (0..net.ports()).filter(|&p| !open(r, p)) {
            if let Far::Router(to, back) = net.far(r, p)
                && (r, p) < (to, back)
            {
                all.push((r, p));
            }
        }
    }
    all
}

/// The links of a share of `count` links that this seed draws.
pub fn drawn(mut links: Vec<(usize, usize)>, count: usize, seed: u64) -> Vec<(usize, usize)> {
    let mut word = random::mix(seed);
    let mut drawn = Vec::new();
    for first in 0..count {
        word = random::next(word);
        let other = first + random::below(word, (links.len() - first) as u64) as usize;
        links.swap(first, other);
        drawn.push(links[first]);
    }
    drawn
}

/// What is left of `whole`, whose ports lead nowhere where `open` says so; None if endpoints cannot reach each other.
pub fn of(whole: Box<dyn Net>, open: &dyn Fn(usize, usize) -> bool, down: &Down, way: Way) -> Option<Box<dyn Net>> {
    let n = whole.routers();
    let mut near = vec![Vec::new(); n];
    for (r, port) in links(&*whole, open) {
        let Far::Router(to, back) = whole.far(r, port) else { continue };
        let cut = down.links.contains(&(r, port)) || down.links.contains(&(to, back));
        if !cut && !down.routers.contains(&r) && !down.routers.contains(&to) {
            near[r].push((port, to));
            near[to].push((back, r));
        }
    }
    near.iter_mut().for_each(|ports| ports.sort());
    let linked = |a: usize, b: usize| near[a].iter().any(|x: &(usize, usize)| x.1 == b);
    let distance = closest(n, linked);
    let mut ends: Vec<usize> = (0..whole.endpoints()).map(|e| whole.attach(e).0).collect();
    ends.dedup();
    ends.retain(|r| !down.routers.contains(r));
    let &first = ends.first()?;
    if ends.iter().any(|&r| distance[first][r] >= FAR) {
        return None;
    }
    let kept: Vec<usize> = (0..n).filter(|&r| distance[first][r] < FAR).collect();
    let up = |a: usize, b: usize| (distance[kept[0]][b], b) < (distance[kept[0]][a], a);
    let descend = closest(n, |a, b| linked(a, b) && !up(a, b));
    let climb = closest(n, |a, b| linked(a, b) && up(a, b));
    let both = |a: usize, b: usize| (0..n).map(|top| climb[a][top] + descend[top][b]).min().unwrap();
    let legal = (0..n).map(|a| (0..n).map(|b| both(a, b)).collect()).collect();
    let longest = |from: &[usize]| {
        let to_ends = |&a: &usize| ends.iter().map(|&b| distance[a][b]).max().unwrap();
        from.iter().map(to_ends).max().unwrap()
    };
    let classes = match way {
        _ if ends.len() == 1 => 1,
        Way::Valiant => 2 * longest(&kept),
        _ => longest(&ends),
    };
    Some(Box::new(Left { whole, way, near, kept, distance, legal: [legal, descend], classes: classes.max(1) }))
}

impl Net for Left {
    fn routers(&self) -> usize {
        self.whole.routers()
    }
    fn ports(&self) -> usize {
        self.whole.ports()
    }
    fn endpoints(&self) -> usize {
        self.whole.endpoints()
    }
    fn attach(&self, endpoint: usize) -> (usize, usize) {
        self.whole.attach(endpoint)
    }
    fn far(&self, router: usize, port: usize) -> Far {
        self.whole.far(router, port)
    }
    fn delay(&self, router: usize, port: usize) -> u64 {
        self.whole.delay(router, port)
    }
    fn start(&self, packet: &mut Packet, src: u32, dst: u32) {
        let [from, to] = [src, dst].map(|e| self.attach(e as usize).0);
        if self.way == Way::Valiant && from != to {
            packet.via = Some(self.kept[packet.draw(self.kept.len())]);
        }
    }
    fn route(&self, router: usize, dst: u32, packet: &mut Packet, vcs: usize) -> (usize, usize, usize) {
        let (home, port) = self.attach(dst as usize);
        if packet.via == Some(router) {
            packet.via = None;
        }
        if router == home && packet.via.is_none() {
            return (port, 0, vcs - 1);
        }
        let root = self.kept[0];
        let up = |to: usize| (self.distance[root][to], to) < (self.distance[root][router], router);
        let target = packet.via.unwrap_or(home);
        let legal = |to: usize| match (up(to), packet.down) {
            (true, true) => FAR,
            (goes_up, _) => 1 + self.legal[usize::from(!goes_up)][to][home],
        };
        let fits = |to: usize| match self.way {
            Way::UpDown => legal(to) == self.legal[usize::from(packet.down)][router][home],
            _ => self.distance[to][target] + 1 == self.distance[router][target],
        };
        let choices: Vec<(usize, usize)> = self.near[router].iter().copied().filter(|x| fits(x.1)).collect();
        let (port, to) = if choices.len() > 1 { choices[packet.draw(choices.len())] } else { choices[0] };
        packet.down |= !up(to);
        if self.way == Way::UpDown {
            return (port, 0, vcs - 1);
        }
        let hop = packet.routers as usize - 1;
        let class: Vec<usize> = (0..vcs).filter(|v| v * self.classes / vcs == hop).collect();
        (port, class[0], class[class.len() - 1])
    }
}
