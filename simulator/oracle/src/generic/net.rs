//! Interface of the oracle's networks.

use crate::random;

/// A packet under way.
#[derive(Clone)]
pub struct Packet {
    pub(crate) index: usize,
    /// Chosen once at the source of a grid: per dimension, towards plus and upper class.
    pub(crate) plus: Vec<bool>,
    pub(crate) upper: Vec<bool>,
    /// In a mesh with a turn model: the column of its source.
    pub(crate) column: usize,
    pub(crate) word: u64,
    /// The upper 14 bits of its first word.
    lot: u64,
    pub(crate) routers: u64,
    /// Cycles of its flits at the rate of the link by which it came; 0 from its source.
    pub(crate) came: u64,
    /// In a graph: a router to pass first, and whether a link down was taken.
    pub(crate) via: Option<usize>,
    pub(crate) down: bool,
    /// In a dragonfly: it may still take a detour, by the group in `via`.
    pub(crate) undecided: bool,
}

impl Packet {
    pub(crate) fn new(index: usize, word: u64) -> Packet {
        Packet {
            index,
            plus: Vec::new(),
            upper: Vec::new(),
            column: 0,
            word,
            lot: word >> 50,
            routers: 0,
            came: 0,
            via: None,
            down: false,
            undecided: false,
        }
    }
    /// Which of `n` links it takes at router or group `place`.
    pub(crate) fn one_of(&self, n: usize, place: usize) -> usize {
        random::below(random::mix((self.lot << 32) + place as u64), n as u64) as usize
    }
    /// The next random number below `n`.
    pub(crate) fn draw(&mut self, n: usize) -> usize {
        self.word = random::next(self.word);
        random::below(self.word, n as u64) as usize
    }
}

/// The other end of a port.
pub enum Far {
    Router(usize, usize),
    Endpoint(usize),
}

/// A network, by its definition.
pub trait Net {
    fn routers(&self) -> usize;
    fn ports(&self) -> usize;
    fn endpoints(&self) -> usize;
    fn attach(&self, endpoint: usize) -> (usize, usize);
    fn far(&self, router: usize, port: usize) -> Far;
    /// Cycles of the link that leaves a router through a port, and of credits for what came in by it.
    fn delay(&self, _router: usize, _port: usize) -> u64 {
        1
    }
    /// Returns what a packet draws once, at its source; its word is that of the model.
    fn start(&self, _packet: &mut Packet, _src: u32, _dst: u32) {}
    /// Decides by queues, when a head arrives through `input`: those of (router, port) now, or N cycles ago.
    fn look(&self, _router: usize, _dst: u32, _packet: &mut Packet, _input: usize, _queue: &Queues) {}
    /// Ports of all shortest ways.
    fn shortest(&self, _router: usize, _dst: u32, _packet: &Packet) -> Vec<usize> {
        panic!("this network has no adaptive packets")
    }
    /// Options of a packet that chooses whenever it wants a channel.
    fn options(&self, _router: usize, _dst: u32, _packet: &mut Packet, _vcs: usize) -> Option<Options> {
        None
    }
    /// Output port and channels (lowest, highest) of a packet at a router.
    fn route(&self, router: usize, dst: u32, packet: &mut Packet, vcs: usize) -> (usize, usize, usize);
}

/// Where an adaptive packet may go from a router.
pub struct Options {
    /// Ports of all shortest ways, on channels from `first` on.
    pub(crate) ports: Vec<usize>,
    pub(crate) first: usize,
    /// As [`Net::route`].
    pub(crate) escape: (usize, usize, usize),
}

/// Of a router and port: flits in its queue now, or those bound for it after all decisions of N cycles ago.
pub(crate) type Queues<'a> = dyn Fn(usize, usize, u64) -> i64 + 'a;
