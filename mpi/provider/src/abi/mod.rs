//! The interface of libfabric as a provider sees it: API 1.17, whose structs later versions only append to.

pub(crate) mod constants;
#[cfg(test)]
mod layout;
pub(crate) mod ops;
pub(crate) mod structs;
