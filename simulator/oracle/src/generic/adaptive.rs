//! Another network with packets that take any shortest way, or its own way as their escape.

use super::net::{Far, Net, Options, Packet};

struct Adaptive {
    net: Box<dyn Net>,
    /// Channels for escape: those before and after a dateline, or one.
    escapes: usize,
}

pub(super) fn of(net: Box<dyn Net>, escapes: usize) -> Box<dyn Net> {
    Box::new(Adaptive { net, escapes })
}

impl Net for Adaptive {
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
    }
    fn route(&self, router: usize, dst: u32, packet: &mut Packet, vcs: usize) -> (usize, usize, usize) {
        self.net.route(router, dst, packet, vcs)
    }
    fn options(&self, router: usize, dst: u32, packet: &mut Packet, vcs: usize) -> Option<Options> {
        let ports = self.net.shortest(router, dst, packet);
        // With as many channels as escapes, each class is one of them.
        let (port, class, _) = self.net.route(router, dst, packet, self.escapes);
        let escape = if ports.is_empty() { (port, 0, vcs - 1) } else { (port, class, class) };
        Some(Options { ports, first: self.escapes, escape })
    }
}
