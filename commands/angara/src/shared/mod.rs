//! What all commands share, those in the folders beside this one, too.

pub mod beside;
pub(crate) mod entry;
pub mod foreign;
pub(crate) mod hints;
pub mod interrupt;
pub(crate) mod modes;
mod out_file;
pub(crate) mod where_args;
mod word;

pub use entry::{enter, enter_reading, say_usage};
pub use out_file::out_file;
pub use where_args::WhereArgs;
pub use word::word;
