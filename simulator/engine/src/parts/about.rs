//! What tells a sweep from others, in the files that hold its points.

use crate::settings::Keys;
use crate::sweep::{Row, Sweep};
use crate::toml_file::TomlFile;
use serde::{Deserialize, Serialize};

/// A sweep, as its files begin.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct About {
    /// Tells sweeps apart: see [`Sweep::digest`].
    pub(super) sweep: String,
    /// Number of its points.
    pub(super) points: usize,
    /// Everything else. A file that an older program left has nothing of it.
    #[serde(flatten)]
    pub(super) more: Option<More>,
}

/// What a sweep is made of.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(super) struct More {
    /// Version of the program.
    version: String,
    /// The sweep file: its path and its lines.
    file: String,
    text: String,
    /// Settings that were options, and their values.
    options: Vec<(String, String)>,
    /// Swept settings, and their values at each point.
    names: Vec<String>,
    values: Vec<Vec<String>>,
}

impl About {
    /// Describes `sweep`, which `file` and `flags` asked for.
    pub fn of(sweep: &Sweep, file: &TomlFile, flags: &Keys) -> About {
        let more = More {
            version: env!("CARGO_PKG_VERSION").into(),
            file: file.path().display().to_string(),
            text: file.text().into(),
            options: flags.clone().without("threads").given(),
            names: sweep.names.clone(),
            values: sweep.points.iter().map(|(values, _)| values.clone()).collect(),
        };
        About { sweep: sweep.digest(), points: sweep.points.len(), more: Some(more) }
    }

    /// Returns the sweep without its experiments; `None` if this says too little of it, or says what cannot be.
    pub fn results(&self) -> Option<Sweep<()>> {
        let more = self.more.as_ref()?;
        let fits = more.values.len() == self.points && more.values.iter().all(|v| v.len() == more.names.len());
        let points = || more.values.iter().map(|values| (values.clone(), ())).collect();
        fits.then(|| Sweep { names: more.names.clone(), points: points() })
    }

    /// True if `other` is the same sweep.
    pub(super) fn is(&self, other: &About) -> bool {
        (&self.sweep, self.points) == (&other.sweep, other.points)
    }

    /// True if `row` is of the point `index`.
    pub(super) fn has(&self, index: usize, row: &Row) -> bool {
        let Some(more) = &self.more else { return index < self.points };
        let same = |values: &Vec<String>| {
            more.names.len() == row.swept.len()
                && more.names.iter().zip(values).all(|(n, v)| row.swept.get(n) == Some(v))
        };
        more.values.get(index).is_some_and(same)
    }

    /// Says what makes this another sweep than `there`, whose points are in a file.
    pub(super) fn difference(&self, there: &About) -> String {
        let (Some(here), Some(there)) = (&self.more, &there.more) else { return "another version wrote it".into() };
        if here.version != there.version {
            return format!("version {} of this program wrote it, this is {}", there.version, here.version);
        }
        let (mut ours, mut theirs) = (here.text.lines(), there.text.lines());
        for number in 1.. {
            let shown = |line: Option<&str>| line.map_or("not there".into(), |line| format!("`{}`", line.trim()));
            match (ours.next(), theirs.next()) {
                (None, None) => break,
                (a, b) if a == b => {}
                (a, b) => return format!("{}:{number} is {}, and it was {}", here.file, shown(a), shown(b)),
            }
        }
        let value = |options: &[(String, String)], name: &str| {
            options.iter().find(|(n, _)| n == name).map_or("not given".to_string(), |(_, value)| value.clone())
        };
        for (name, _) in here.options.iter().chain(&there.options) {
            let (ours, theirs) = (value(&here.options, name), value(&there.options, name));
            if ours != theirs {
                return format!("--{name} is {ours}, and it was {theirs}");
            }
        }
        format!("a file that {} names has changed, or the program", here.file)
    }
}
