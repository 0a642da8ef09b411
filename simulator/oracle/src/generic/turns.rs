//! A mesh of two dimensions whose packets turn only where a turn model lets them.

use super::net::{Far, Net, Options, Packet};

/// Which turns there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turns {
    /// Whoever has to go west does so first.
    WestFirst,
    /// From east to north or south in odd columns only, from north or south to west in even columns only.
    OddEven,
}

struct Mesh {
    net: Box<dyn Net>,
    columns: usize,
    /// Endpoints of a router, and links in every direction.
    endpoints: usize,
    links: usize,
    turns: Turns,
}

/// The mesh of a text such as `mesh:4x3,c=2`.
pub fn of(text: &str, turns: Turns) -> Box<dyn Net> {
    let rest = text.strip_prefix("mesh:").unwrap();
    let number = |name: &str| rest.split(',').find_map(|word| word.strip_prefix(name)?.parse().ok()).unwrap_or(1);
    let columns = rest.split('x').next().unwrap().parse().unwrap();
    Box::new(Mesh { net: super::read(text), columns, endpoints: number("c="), links: number("x="), turns })
}

impl Mesh {
    fn directions(&self, router: usize, dst: u32, packet: &Packet) -> Vec<usize> {
        let place = |router: usize| (router % self.columns, router / self.columns);
        let ((x, y), (to_x, to_y)) = (place(router), place(dst as usize / self.endpoints));
        let vertical = (y != to_y).then_some(if to_y > y { 2 } else { 3 });
        let mut all = Vec::new();
        if x < to_x {
            let (turns, goes_on) = match self.turns {
                Turns::WestFirst => (true, true),
                Turns::OddEven => (x % 2 == 1 || x == packet.column, to_x % 2 == 1 || to_x - x != 1),
            };
            if goes_on || vertical.is_none() {
                all.push(0);
            }
            all.extend(vertical.filter(|_| turns));
        } else if x > to_x {
            all.push(1);
            all.extend(vertical.filter(|_| self.turns == Turns::OddEven && x % 2 == 0));
        } else {
            all.extend(vertical);
        }
        all
    }
}

impl Net for Mesh {
    fn routers(&self) -> usize {
        self.net.routers()
    }
    fn ports(&self) -> usize {
        self.net.ports()
    }
    fn endpoints(&self) -> usize {
        self.net.endpoints()
    }
    fn attach(&self, endpoint: usize) -> (usize, usize) {
        self.net.attach(endpoint)
    }
    fn far(&self, router: usize, port: usize) -> Far {
        self.net.far(router, port)
    }
    fn start(&self, packet: &mut Packet, src: u32, dst: u32) {
        self.net.start(packet, src, dst);
        packet.column = src as usize / self.endpoints % self.columns;
    }
    fn route(&self, router: usize, dst: u32, packet: &mut Packet, vcs: usize) -> (usize, usize, usize) {
        self.net.route(router, dst, packet, vcs)
    }
    fn options(&self, router: usize, dst: u32, packet: &mut Packet, vcs: usize) -> Option<Options> {
        let directions = self.directions(router, dst, packet);
        let Some(first) = directions.iter().min() else {
            let (port, ..) = self.net.route(router, dst, packet, vcs);
            return Some(Options { ports: Vec::new(), first: 0, escape: (port, 0, vcs - 1) });
        };
        // Without room anywhere it waits for the link of its lot in the lowest direction.
        let waits = 4 * packet.one_of(self.links, router) + first;
        let ports = (0..self.links).flat_map(|link| directions.iter().map(move |d| 4 * link + d)).collect();
        Some(Options { ports, first: 0, escape: (waits, 0, vcs - 1) })
    }
}
