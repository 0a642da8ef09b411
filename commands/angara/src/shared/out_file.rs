//! Options that name a file to be written.

use clap::builder::{PathBufValueParser, TypedValueParser};
use std::path::PathBuf;

/// Reads the name of a file or folder that is to be written. `-` is none: elsewhere it means standard output, which
/// this command has something else for.
pub fn out_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if path.as_os_str() == "-" {
            return Err("standard output has something else; name a file (./- is one called -)");
        }
        Ok(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command};

    #[test]
    fn a_dash_is_refused_with_the_remedy() {
        let with = |name: &str| {
            let option = Arg::new("svg").long("svg").value_parser(out_file());
            let found = Command::new("x").arg(option).try_get_matches_from(["x", "--svg", name]);
            found.map(|found| found.get_one::<PathBuf>("svg").unwrap().clone()).map_err(|e| e.to_string())
        };
        assert_eq!(with("./-"), Ok("./-".into()));
        let refused = with("-").unwrap_err();
        assert!(refused.contains("'--svg <svg>'") && refused.contains("name a file (./-"), "{refused}");
    }
}
