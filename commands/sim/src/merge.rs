//! `angara sim merge`: the results of a sweep whose points are all there.

use crate::sweep::Shown;
use angara_sim::Error;
use angara_sim::parts::{self, Merged, Opened, Parts, Patience};
use clap::Args;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args, Debug)]
pub(crate) struct MergeArgs {
    /// Directory of a sweep of which all points are finished
    dir: PathBuf,
    #[command(flatten)]
    shown: Shown,
}

/// Writes the results of a sweep whose points are all there.
pub(crate) fn main(args: MergeArgs) -> Result<(), Error> {
    let (about, rows) = parts::find(&args.dir)?;
    let results = about.results().ok_or_else(|| {
        Error::invalid(
            "directory",
            args.dir.display(),
            "an older program began its sweep; `angara sim sweep` goes on with it",
        )
    })?;
    let rows = match rows {
        Some(rows) => {
            args.shown.write(&args.dir, &results, &rows)?;
            rows
        }
        None => {
            let patience = Patience { timeout: Duration::from_secs(60), waits: true };
            let go_on = || ControlFlow::Continue(());
            let unfinished = |missing: &[usize]| {
                let (all, first) = (results.points.len(), missing.first().map(|point| &results.points[*point].0));
                let first = first.map_or(String::new(), |values| {
                    let each = results.names.iter().zip(values).map(|(name, value)| format!("{name} {value}"));
                    format!(" (the first with {})", each.collect::<Vec<_>>().join(", "))
                });
                let remedy =
                    format!("{} of {all} points are missing{first}; go on with `angara sim sweep`", missing.len());
                Error::invalid("sweep", args.dir.display(), remedy)
            };
            match Parts::open(&args.dir, &about, patience, go_on, |_| ())? {
                Opened::Complete(rows) => rows,
                Opened::Begun(parts) => {
                    let missing = parts.missing();
                    if !missing.is_empty() {
                        return Err(unfinished(&missing));
                    }
                    match parts.merge(|rows| args.shown.write(&args.dir, &results, rows))? {
                        Merged::Here(rows) => rows,
                        Merged::Damaged => return Err(unfinished(&parts.missing())),
                        _ => {
                            return args
                                .shown
                                .tell(&format!("another process wrote the results in {}", args.dir.display()));
                        }
                    }
                }
            }
        }
    };
    args.shown.print(&args.dir, &results, &rows)
}
