//! The functions that programs call: each turns pointers into checked values and hands these on.
//!
//! Their contract is that of libibverbs's manual pages: an object is one that was made here and has not been destroyed; arrays
//! have as many elements as is said; lists end with null; what a pointer for results points to is writable. That is what every
//! SAFETY reason here rests on. No panic leaves a function.

pub mod address_handle;
pub mod apart;
pub mod completion;
pub mod context;
pub mod device;
pub(crate) mod events;
pub(crate) mod guard;
pub mod memory;
pub mod objects;
pub mod pair;
pub mod port;
pub mod requests;
pub mod shared_receive;
pub(crate) mod turn;
pub mod work;

pub use apart::{copy, files, refused, strings};
