//! Manual pages from the programs' own `--help`, so that they cannot be out of date.

use std::path::Path;
use std::process::Command;

/// Commands of `angara` with a page of their own.
const SUBCOMMANDS: [&str; 10] =
    ["run", "status", "report", "fault", "cluster", "shutdown", "doctor", "bench", "plan", "sim"];

/// File name and text of every page.
pub(crate) fn pages(bin: &Path) -> Result<Vec<(String, String)>, String> {
    let mut pages = Vec::new();
    for (name, words) in [("angara", &[][..]), ("fabricd", &[]), ("oshrun", &[]), ("oshcc", &[])] {
        pages.push(page(bin, name, name, words)?);
    }
    for sub in SUBCOMMANDS {
        pages.push(page(bin, &format!("angara-{sub}"), "angara", &[sub])?);
    }
    Ok(pages)
}

fn page(bin: &Path, title: &str, program: &str, words: &[&str]) -> Result<(String, String), String> {
    let shown = bin.join(program);
    let output = Command::new(&shown).args(words).arg("--help").output();
    let output = output.map_err(|e| format!("cannot run {}: {e}; build it first", shown.display()))?;
    if !output.status.success() {
        return Err(format!("{} --help failed ({})", shown.display(), output.status));
    }
    Ok((format!("{title}.1"), format(title, &String::from_utf8_lossy(&output.stdout))))
}

/// The help text as it is, between the requests that make it a page.
fn format(title: &str, help: &str) -> String {
    let summary = help.lines().find(|l| !l.trim().is_empty()).unwrap_or_default();
    let mut out =
        format!(".TH {} 1\n.SH NAME\n{title} \\- {}\n.SH DESCRIPTION\n.nf\n", title.to_uppercase(), escape(summary));
    for line in help.lines() {
        let line = escape(line);
        if line.starts_with(['.', '\'']) {
            out.push_str("\\&");
        }
        out.push_str(&line);
        out.push('\n');
    }
    out.push_str(".fi\n");
    out
}

fn escape(line: &str) -> String {
    line.replace('\\', "\\e").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_troff_would_read_as_a_request_is_text() {
        let page = format("x", "Does \\ things\n.hidden\n'quoted --flag");
        assert!(page.starts_with(".TH X 1\n.SH NAME\nx \\- Does \\e things\n"), "{page}");
        assert!(page.contains("\n\\&.hidden\n\\&'quoted \\-\\-flag\n.fi\n"), "{page}");
    }
}
