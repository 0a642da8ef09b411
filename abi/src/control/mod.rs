//! How a job comes about: what launcher, daemon and PE tell each other in messages ([`msg`]), in the
//! environment ([`launch`], [`env`]) and in pages of the job ([`job`], [`note`]), and whom a client
//! believes ([`trust`]).

pub mod env;
pub mod job;
pub(crate) mod job_id;
pub mod launch;
pub mod msg;
pub mod note;
pub mod trust;
