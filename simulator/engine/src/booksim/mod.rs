//! Configurations of BookSim 2, as settings of this simulator.
//!
//! [`file`](mod@file) reads one, [`parameters`] lists what BookSim knows and what becomes of it here: a parameter is a
//! setting, has to have the one value that this simulator is like, differs (which is said), or changes no result.
//! [`meaning`] makes settings of the first kind. The rules follow BookSim 2 at commit 28f4329.

mod file;
mod meaning;
mod parameters;

use crate::Error;
use crate::settings::Keys;
use crate::toml_file::TomlFile;
use file::File;
use std::path::Path;

/// A configuration as settings.
#[derive(Clone, Debug)]
pub struct Booksim {
    file: File,
    /// The settings, each with the parameter it follows from.
    settings: Vec<Setting>,
    /// What is different here: one sentence each, the parameter first.
    pub differences: Vec<String>,
}

/// A setting as in a file of TOML.
#[derive(Clone, PartialEq, Debug)]
struct Setting {
    key: &'static str,
    value: toml::Value,
    /// Parameter that decides it.
    from: &'static str,
}

impl Booksim {
    /// Reads the configuration `path`.
    ///
    /// # Errors
    /// A file that cannot be read, bad syntax, a parameter that BookSim does not have, or a value that this
    /// simulator has nothing for: with its line, and what would do.
    pub fn read(path: &Path) -> Result<Booksim, Error> {
        let file = File::read(path)?;
        parameters::check(&file)?;
        let settings = meaning::settings(&file)?;
        let differences = parameters::differences(&file);
        Ok(Booksim { file, settings, differences })
    }

    /// The settings.
    ///
    /// # Errors
    /// A value that is none, with its line.
    pub fn keys(&self) -> Result<Keys, Error> {
        let mut all = toml::Table::new();
        for setting in &self.settings {
            all.insert(setting.key.into(), setting.value.clone());
            // Each by itself, so that the line of a bad one is known.
            let one = toml::Table::from_iter([(setting.key.to_string(), setting.value.clone())]);
            TomlFile::of(&one).parse::<Keys>().map_err(|e| self.locate(e, setting.key))?;
        }
        TomlFile::of(&all).parse()
    }

    /// `error` with the line of the parameter that decides the setting `key`.
    pub fn locate(&self, error: Error, key: &str) -> Error {
        let Some(setting) = self.settings.iter().find(|setting| setting.key == key) else { return error };
        self.file.wrong(setting.from, &error.to_string())
    }

    /// The settings as a file of TOML.
    pub fn toml(&self) -> String {
        let mut out = format!("# {}, a configuration of BookSim 2\n", self.file.path().display());
        for setting in &self.settings {
            out.push_str(&format!("{} = {}\n", setting.key, setting.value));
        }
        for difference in &self.differences {
            out.push_str(&format!("# {difference}\n"));
        }
        out
    }
}

#[cfg(test)]
mod tests;
