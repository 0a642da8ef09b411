//! Which algorithm a collective uses: a table by path, number of PEs and bytes.
//!
//! The path is how the PEs of a job reach each other, as the driver calls it ([`Profile::costs`]): directly, each with a
//! core of its own; directly, sharing cores; some through the ring.
//!
//! The table is what `angara bench shmem --write-table FILE` wrote: it measures every algorithm and keeps
//! the fastest. One written on this kind of machine is built in; a program takes another one with
//! `angara run --collectives-table FILE`. A line is
//!
//! ```text
//! COLLECTIVE PATH PES BYTES ALGORITHM
//! ```
//!
//! and holds for up to PES PEs and up to BYTES bytes (`max`: any) of one PE's data: of the lines of a collective and
//! path, those with the fewest PES that suffice, and of these the one with the fewest BYTES that suffice, decide;
//! where none suffices, the last. An algorithm that cannot be used (the routers know no floating point)
//! gives way to the point-to-point one. All PEs must read the same table.

use angara::Profile;
use std::path::PathBuf;

/// Names another table.
const ENV_TABLE: &str = "ANGARA_COLLECTIVES_TABLE";
const BUILT_IN: &str = include_str!("collectives.table");

/// Collective operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Broadcast,
    Reduce,
    Fcollect,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// One PE puts to all, or all to all.
    Flat,
    /// A tree of puts.
    Binomial,
    /// The last PE to arrive works for all.
    Last,
    /// Recursive doubling.
    Doubling,
    /// Each PE reduces a slice.
    Sliced,
    /// Bruck's allgather.
    Bruck,
    /// The collective subnet.
    Routers,
}

type Names = &'static [(&'static str, How)];

const ALGORITHMS: [(&str, What, Names); 3] = [
    ("broadcast", What::Broadcast, &[("flat", How::Flat), ("binomial", How::Binomial), ("routers", How::Routers)]),
    (
        "reduce",
        What::Reduce,
        &[("last", How::Last), ("doubling", How::Doubling), ("sliced", How::Sliced), ("routers", How::Routers)],
    ),
    ("fcollect", What::Fcollect, &[("flat", How::Flat), ("bruck", How::Bruck)]),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    what: What,
    pes: usize,
    bytes: usize,
    how: How,
}

/// The rows for this job's path, fewest PEs and bytes first.
#[derive(Debug)]
pub(crate) struct Table(Vec<Row>);

impl Table {
    /// The user's table, or the built-in one.
    pub(crate) fn load(path: &str) -> Result<Table, String> {
        let file =
            angara_protocol::trust::var_os(ENV_TABLE).map(PathBuf::from).filter(|file| !file.as_os_str().is_empty());
        let Some(file) = file else { return Table::parse(BUILT_IN, path) };
        let shown = file.display();
        std::fs::read_to_string(&file)
            .map_err(|e| format!("cannot read the table of collectives {shown}: {e}"))
            .and_then(|text| Table::parse(&text, path).map_err(|e| format!("{shown}: {e}")))
    }

    fn parse(text: &str, path: &str) -> Result<Table, String> {
        let mut rows = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if !line.is_empty() {
                let (its, row) = parse_row(line).map_err(|why| format!("line {}: `{line}`: {why}", number + 1))?;
                if its == path {
                    rows.push(row);
                }
            }
        }
        rows.sort_by_key(|row| (row.pes, row.bytes));
        Ok(Table(rows))
    }

    /// Returns the algorithm for `bytes` bytes of each of `pes` PEs.
    pub(crate) fn choose(&self, what: What, pes: usize, bytes: usize) -> Option<How> {
        let mine = || self.0.iter().filter(|row| row.what == what);
        let of = mine().find(|row| row.pes >= pes).or_else(|| mine().next_back())?.pes;
        let sized = || mine().filter(|row| row.pes == of);
        sized().find(|row| row.bytes >= bytes).or_else(|| sized().next_back()).map(|row| row.how)
    }
}

fn parse_row(line: &str) -> Result<(&str, Row), String> {
    let cells: Vec<&str> = line.split_whitespace().collect();
    let [what, path, pes, bytes, how] = cells[..] else {
        return Err("not COLLECTIVE PATH PES BYTES ALGORITHM".into());
    };
    let Some((_, what, known)) = ALGORITHMS.into_iter().find(|(name, ..)| *name == what) else {
        return Err(format!("{what} is none of broadcast, reduce and fcollect"));
    };
    let Some((_, how)) = known.iter().find(|(name, _)| *name == how) else {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        return Err(format!("{how} is none of {}", names.join(", ")));
    };
    if !Profile::COSTS.contains(&path) {
        return Err(format!("{path} is none of {}", Profile::COSTS.join(", ")));
    }
    let number = |text: &str| match text {
        "max" => Ok(usize::MAX),
        text => text.parse().map_err(|_| format!("{text} is neither a number nor `max`")),
    };
    Ok((path, Row { what, pes: number(pes)?, bytes: number(bytes)?, how: *how }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_row_that_suffices_decides() {
        let text = "# head\nreduce direct 8 64 last\nreduce direct 8 max sliced # all else\n\nreduce direct 2 4096 doubling\n\
                    reduce ring 8 64 routers\nfcollect direct max max flat\n";
        let t = Table::parse(text, "direct").unwrap();
        let reduce = |pes, bytes| t.choose(What::Reduce, pes, bytes);
        assert_eq!((reduce(3, 64), reduce(8, 65)), (Some(How::Last), Some(How::Sliced)));
        assert_eq!((reduce(2, 1), reduce(2, 9999)), (Some(How::Doubling), Some(How::Doubling)));
        assert_eq!(reduce(100, 1), Some(How::Last));
        assert_eq!((t.choose(What::Fcollect, 5000, 1), t.choose(What::Broadcast, 2, 1)), (Some(How::Flat), None));
        assert_eq!(Table::parse(text, "ring").unwrap().choose(What::Reduce, 8, 1), Some(How::Routers));
    }

    #[test]
    fn a_wrong_row_is_named_with_its_line() {
        for (row, part) in [
            ("reduce direct 8 64", "COLLECTIVE PATH PES BYTES ALGORITHM"),
            ("gather direct 8 64 flat", "gather is none of"),
            ("reduce direct 8 64 flat", "flat is none of last, doubling"),
            ("reduce near 8 64 last", "near is none of"),
            ("reduce direct few 64 last", "few is neither a number"),
        ] {
            let error = Table::parse(&format!("\n{row}"), "direct").unwrap_err();
            assert!(error.contains("line 2") && error.contains(part), "{error}");
        }
    }

    #[test]
    fn the_built_in_table_decides_everything_on_every_path() {
        for path in Profile::COSTS {
            let t = Table::parse(BUILT_IN, path).unwrap();
            for what in [What::Broadcast, What::Reduce, What::Fcollect] {
                for (pes, bytes) in [(2, 8), (64, 1 << 20), (4096, 8)] {
                    assert!(t.choose(what, pes, bytes).is_some(), "{what:?} {path} {pes} {bytes}");
                }
            }
        }
    }
}
