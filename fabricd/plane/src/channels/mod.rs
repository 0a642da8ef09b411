//! Injection channels: what a client posts, the checks that a post must pass, and posts on their way.

pub(crate) mod lane;
pub(crate) mod lanes;
pub(crate) mod outstanding;
pub(crate) mod post;
