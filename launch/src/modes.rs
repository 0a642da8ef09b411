//! Hidden modes: what this program does when a part of it has started it again, as its first argument says. None returns.

use crate::mpi::{rank, survey};
use crate::run::{host, remote, user};
use angara_client::exec;
use std::ffi::OsString;

/// Enters the mode that a command line asks for, if it does.
pub fn enter(args: &[OsString]) {
    let (Some(mode), rest) = (args.get(1).and_then(|mode| mode.to_str()), args.get(2..).unwrap_or_default()) else {
        return;
    };
    match mode {
        exec::MODE => exec::main(rest),
        rank::MODE => rank::main(rest),
        survey::PEEK => survey::peek(rest),
        host::MODE => host::main(rest),
        user::MODE => user::main(rest),
        remote::MODE => remote::main(),
        _ => {}
    }
}
