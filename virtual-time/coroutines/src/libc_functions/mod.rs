//! Functions in place of libc's, each on the state of the PE that runs ([`crate::libc_state`]).

mod cxx;
mod descriptors;
mod drand;
mod environment;
pub(crate) mod files;
mod getopt;
mod messages;
mod random;
mod results;
mod streams;
mod strtok;

/// The function of this crate that takes the place of libc's.
pub(crate) fn symbol(name: &str) -> Option<usize> {
    let of = [
        random::symbol,
        drand::symbol,
        strtok::symbol,
        environment::symbol,
        getopt::symbol,
        streams::symbol,
        files::symbol,
        descriptors::symbol,
        cxx::symbol,
        messages::symbol,
        results::symbol,
    ];
    of.iter().find_map(|f| f(name)).map(|f| f as usize)
}
