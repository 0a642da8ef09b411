//! Lines on standard output and error ([`print`]), and files that are there as a whole or not at all ([`whole_file`]).

pub mod print;
pub mod whole_file;
