//! Packets of a simulation, as a capture has them: pseudo-header and header of each, wherever something happens to it.

use angara_abi::FLIT_BYTES;
use angara_fabric::Heard;
use angara_net::torus::Shape;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes captured of a packet: its header, since a simulated packet carries nothing.
const SNAPLEN: usize = FLIT_BYTES;
/// Jobs of simulations have no number.
const NO_JOB: u32 = u32::MAX;

/// A finished capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Captured {
    /// The network.
    pub shape: Shape,
    /// Parts of a stream, which [`angara_abi::capture::read_part`] reads. Time stamps are the network's, in ns.
    pub stream: Vec<u8>,
    /// Packets in it; each counts once for every place where something happened to it.
    pub packets: u64,
    /// Most of them; what came behind is not there.
    pub most: u64,
}

/// A capture under way, or its end.
#[derive(Clone)]
pub struct Capture(Arc<Mutex<Inside>>);

struct Inside {
    captured: Captured,
    /// A network has been listened to.
    begun: bool,
}

impl Capture {
    /// A capture of at most N packets of a network of this shape.
    pub fn new(shape: Shape, most: u64) -> Capture {
        let captured = Captured { shape, stream: Vec::new(), packets: 0, most };
        Capture(Arc::new(Mutex::new(Inside { captured, begun: false })))
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A network is about to be simulated: whether to listen to it, which is so for the first one.
    pub fn begin(&self) -> bool {
        !std::mem::replace(&mut self.inside().begun, true)
    }

    /// Adds what has happened to a packet; breaks when there are enough.
    pub fn hear(&self, heard: &Heard) -> ControlFlow<()> {
        let captured = &mut self.inside().captured;
        if captured.packets < captured.most {
            heard.push(&mut captured.stream, heard.time / 1000, NO_JOB, &captured.shape, SNAPLEN);
            captured.packets += 1;
        }
        if captured.packets < captured.most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Returns what has been captured.
    pub fn captured(&self) -> Captured {
        self.inside().captured.clone()
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Capture({} packets)", self.inside().captured.packets)
    }
}

impl PartialEq for Capture {
    fn eq(&self, other: &Capture) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
