//! A queue pair of this adapter: one end asks, the other answers, and each pair is both.

mod answers;
mod initiator;
mod responder;
mod sends;
mod state;

pub(crate) use state::Pair;
