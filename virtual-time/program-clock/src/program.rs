//! The clock of the program. It knows of threads and their order, and these ask it for the time: it is one value, made when
//! the library is compiled.

use crate::threads::driver::ALL;
use crate::threads::turns;
use angara_abi::program_clock::ProgramClock;

/// Real until the program itself begins: what libraries measure while they are loaded, they measure on the wall.
static CLOCK: ProgramClock = ProgramClock::of(Some(ALL));

/// Returns the clock of the program that the calling thread runs: of this process, or of the PE whose turn it is.
pub(crate) fn program() -> &'static ProgramClock {
    turns::this().map_or(&CLOCK, |turn| &turn.clock)
}

/// The same for the driver ([`angara_abi::program_clock::SYMBOL`]).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn angara_program_clock() -> &'static ProgramClock {
    program()
}
