//! Collective routines: barriers and data movement ([`coll`]), reductions ([`reduce`], [`ops`]), which
//! algorithm is used ([`table`]), how PEs talk in them ([`p2p`], for several teams at once
//! [`streams`]), and the routers' part ([`trees`]).

pub(crate) mod coll;
mod longdoubles;
pub(crate) mod ops;
pub(crate) mod p2p;
pub(crate) mod reduce;
pub(crate) mod streams;
pub(crate) mod table;
pub(crate) mod trees;
