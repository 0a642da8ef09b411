//! Manual pages and completions of shells, from the options themselves: a hidden mode of `angara` that the
//! installation calls.

use crate::args;
use crate::error::Failed;
use crate::oshcc;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use std::ffi::OsString;
use std::fs::{File, create_dir_all};
use std::io;
use std::path::Path;

/// First argument that selects this mode; a directory follows, which gets what belongs below `share`.
pub(crate) const MODE: &str = "__help-files";

/// Writes the files.
pub(crate) fn main(args: &[OsString]) -> Result<u8, Failed> {
    let [dir] = args else {
        return Err(Failed::usage("this mode takes a directory", "use `cargo xtask install`"));
    };
    write(Path::new(dir)).map(|()| 0).map_err(|e| {
        Failed::runtime(format!("cannot write to {}: {e}", Path::new(dir).display()), "give an empty directory")
    })
}

fn write(dir: &Path) -> io::Result<()> {
    let man = dir.join("man/man1");
    create_dir_all(&man)?;
    let programs = [args::angara(), args::oshrun(), angara_cluster::args::Args::command()];
    for program in &programs {
        complete(program, dir)?;
    }
    for program in programs.into_iter().chain(oshcc::commands()) {
        clap_mangen::generate_to(program.disable_help_subcommand(true), &man)?;
    }
    Ok(())
}

/// Where each shell looks for what completes a command.
fn complete(program: &Command, dir: &Path) -> io::Result<()> {
    let name = program.get_name().to_string();
    for (shell, place, file) in [
        (Shell::Bash, "bash-completion/completions", name.clone()),
        (Shell::Zsh, "zsh/site-functions", format!("_{name}")),
        (Shell::Fish, "fish/vendor_completions.d", format!("{name}.fish")),
    ] {
        let place = dir.join(place);
        create_dir_all(&place)?;
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut program.clone(), &name, &mut text);
        io::Write::write_all(&mut File::create(place.join(file))?, &text)?;
    }
    Ok(())
}
