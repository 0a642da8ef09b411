//! An archive whose bytes depend on what is in it alone, and for a wheel the list of its files with their hashes.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// A file of a wheel.
pub(crate) struct File {
    pub(crate) bytes: Vec<u8>,
    /// Everybody may run it.
    pub(crate) runs: bool,
}

impl File {
    pub(crate) fn text(text: impl Into<String>) -> File {
        File { bytes: text.into().into_bytes(), runs: false }
    }
}

/// Files by their paths in the wheel: sorted, so that their order is always the same.
pub(crate) type Files = BTreeMap<String, File>;

/// Packs `files`, and behind them their list, if it has a name.
pub(crate) fn pack(files: &Files, record: Option<&str>) -> Result<Vec<u8>, String> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let mut list = String::new();
    for (path, file) in files {
        add(&mut archive, path, file)?;
        let hash = URL_SAFE_NO_PAD.encode(Sha256::digest(&file.bytes));
        list += &format!("{},sha256={hash},{}\n", field(path), file.bytes.len());
    }
    if let Some(record) = record {
        // Its own hash cannot be in it.
        list += &format!("{},,\n", field(record));
        add(&mut archive, record, &File::text(list))?;
    }
    let done = archive.finish().map_err(|e| format!("cannot pack the files: {e}"))?;
    Ok(done.into_inner())
}

fn add(archive: &mut ZipWriter<Cursor<Vec<u8>>>, path: &str, file: &File) -> Result<(), String> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .compression_level(Some(9))
        // The first day that such an archive can name: when it was made is no part of it.
        .last_modified_time(DateTime::default())
        .unix_permissions(if file.runs { 0o755 } else { 0o644 });
    archive.start_file(path, options).map_err(|e| format!("cannot pack {path}: {e}"))?;
    archive.write_all(&file.bytes).map_err(|e| format!("cannot pack {path}: {e}"))
}

/// A field of a table with commas between them.
fn field(text: &str) -> String {
    match text.contains([',', '"']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    }
}
