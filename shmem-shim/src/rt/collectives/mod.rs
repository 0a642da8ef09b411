//! Collective routines: barriers and data movement ([`coll`]), reductions ([`reduce`], [`ops`]), which
//! algorithm is used ([`table`]), how PEs talk in them ([`p2p`], by [`words`] of an [`area`] of the library's own; for
//! several teams at once [`streams`] of records in [`rings`]), and the routers' part ([`trees`]).

pub(crate) mod area;
pub(crate) mod coll;
mod longdoubles;
pub(crate) mod ops;
mod p2p;
pub(crate) mod reduce;
mod rings;
mod streams;
pub(crate) mod table;
mod trees;
mod words;
