//! The interface of libibverbs as programs see it: that of rdma-core 44, to which later versions only append. Fields have the
//! names of C. Rows of functions that nobody calls here are numbers, and zero.
#![allow(non_camel_case_types)]

pub mod constants;
pub mod kernel;
#[cfg(test)]
mod layout;
pub mod structs;
