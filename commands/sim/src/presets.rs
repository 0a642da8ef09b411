//! `angara sim presets`: the prepared networks.

use crate::shared::output::say;
use angara_sim::Error;
use angara_sim::settings::presets::{self, PRESETS};
use angara_sim::table::Table;
use clap::Args;

#[derive(Args, Debug)]
pub(crate) struct PresetsArgs {
    /// Print this one as TOML
    name: Option<String>,
}

pub(crate) fn main(args: PresetsArgs) -> Result<(), Error> {
    if let Some(name) = args.name {
        presets::find(&name)?;
        let preset = PRESETS.iter().find(|p| p.name == name).expect("found above");
        return say(&format!("# {}\n{}", preset.about, preset.toml));
    }
    let mut table = Table::new(&["preset", "what it is"]);
    PRESETS.iter().for_each(|p| table.row(&[p.name, p.about]));
    say(&table.render())
}
