//! Writes manual pages and completions of shells for all commands; `cargo xtask install` calls it.
#![forbid(unsafe_code)]

fn main() {
    angara_commands::help_files::main()
}
