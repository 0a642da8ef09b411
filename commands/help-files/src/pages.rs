//! Sections of manual pages that the parser's own pages lack: EXAMPLES, EXIT STATUS, FILES and SEE ALSO.

use crate::examples::{EXAMPLES, FILES};
use std::collections::BTreeSet;

/// How commands end that say nothing else of it.
const EXIT_STATUS: &str = "0 if all went well, 2 for wrong usage, 1 if something else failed.";

/// The text of page `name` with all its sections. What help has below its options becomes a section for each of its headings.
pub(crate) fn complete(name: &str, page: &str, pages: &BTreeSet<String>) -> String {
    let (head, rest) = match page.split_once("\n.SH EXTRA\n") {
        Some((head, rest)) => (head, rest),
        None => page.split_once("\n.SH VERSION\n").map_or((page, ""), |(head, _)| (head, "")),
    };
    let (extra, _) = rest.split_once("\n.SH ").unwrap_or((rest, ""));
    let version = page.split_once("\n.SH VERSION\n").map(|(_, version)| version);
    let mut sections = sections(extra);
    let mut add = |heading: &str, lines: Vec<String>| {
        if !lines.is_empty() && sections.iter().all(|section| section.0 != heading) {
            sections.push((heading.into(), lines));
        }
    };
    add("EXIT STATUS", vec![EXIT_STATUS.into()]);
    let examples = EXAMPLES.iter().find(|(page, _)| *page == name).map_or(&[][..], |(_, lines)| lines);
    add("EXAMPLES", examples.iter().map(|line| format!("  {}", escaped(line))).collect());
    add("FILES", files(name, head));
    let said: String =
        sections.iter().flat_map(|(_, lines)| lines).fold(head.to_string(), |all, line| all + "\n" + line);
    let see = related(name, &said, pages);
    let see = see.iter().map(|other| format!("\\fB{}\\fR(1)", escaped(other))).collect::<Vec<_>>().join(",\n");
    sections.sort_by_key(|(heading, _)| order(heading));
    let mut text = head.to_string();
    for (heading, lines) in &sections {
        text += &format!("\n.SH \"{heading}\"\n{}", with_tables(lines));
    }
    if !see.is_empty() {
        text += &format!("\n.SH \"SEE ALSO\"\n{see}");
    }
    version.iter().fold(text, |text, version| format!("{text}\n.SH VERSION\n{version}")).trim_end().to_string() + "\n"
}

/// Where a section stands: what is special to a command comes first.
fn order(heading: &str) -> usize {
    ["EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES"].iter().position(|one| *one == heading).map_or(0, |at| at + 1)
}

/// Text below the options in parts: a heading in capitals with a colon begins one. What stands before is NOTES.
fn sections(extra: &str) -> Vec<(String, Vec<String>)> {
    let mut sections: Vec<(String, Vec<String>)> = Vec::new();
    // Tables are marked as such below.
    for line in extra.lines().filter(|line| !matches!(*line, ".nf" | ".fi")) {
        let heading = line.split_once(':').filter(|(head, _)| {
            !head.is_empty() && head.chars().all(|c| c.is_ascii_uppercase() || c == ' ') && !head.starts_with(' ')
        });
        match (heading, sections.last_mut()) {
            (Some((head, rest)), _) => sections.push((head.into(), vec![rest.trim().into()])),
            (None, Some((_, lines))) => lines.push(line.into()),
            (None, None) => sections.push(("NOTES".into(), vec![line.into()])),
        }
    }
    let blank = |line: &String| line.trim().is_empty();
    for (_, lines) in &mut sections {
        while lines.last().is_some_and(blank) {
            lines.pop();
        }
        let begin = lines.iter().take_while(|line| blank(line)).count();
        lines.drain(..begin);
    }
    sections.retain(|(_, lines)| !lines.is_empty());
    sections
}

/// Lines of a section, of which those from the first to the last indented one stay as they are.
fn with_tables(lines: &[String]) -> String {
    let indented = |line: &String| line.starts_with("  ");
    let Some(first) = lines.iter().position(indented) else { return lines.join("\n") };
    let last = lines.iter().rposition(indented).expect("there is a first one");
    let parts = [&lines[..first], &[".nf".into()], &lines[first..=last], &[".fi".into()], &lines[last + 1..]];
    parts.concat().join("\n")
}

/// Files of a page, by its options and by its name.
fn files(name: &str, page: &str) -> Vec<String> {
    // Some options of one name are no files elsewhere.
    let has = |option: &&str| {
        let (_, rest) = page.split_once(&format!("\n\\fB{}\\fR", escaped(option))).unwrap_or_default();
        let value = rest.lines().next().unwrap_or_default();
        value.contains("FILE") || value.contains("DIR")
    };
    let known = FILES.iter().filter(|(key, ..)| *key == name || key.starts_with("--") && has(key));
    known.flat_map(|(_, file, what)| [".TP".into(), format!("\\fI{}\\fR", escaped(file)), escaped(what)]).collect()
}

/// Pages above and below this one, and those of commands that its text names.
fn related(name: &str, text: &str, pages: &BTreeSet<String>) -> Vec<String> {
    let text = text.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "");
    let named = |page: &str| {
        let words = page.replace('-', " ");
        [format!("{page}(1)"), words.clone()].iter().any(|wanted| {
            text.match_indices(wanted.as_str()).any(|(at, _)| {
                let after = text[at + wanted.len()..].chars().next();
                let before = text[..at].chars().next_back();
                !after.is_some_and(|c| c.is_alphanumeric() || "-+./".contains(c))
                    && !before.is_some_and(|c| c.is_alphanumeric() || "-/.".contains(c))
            })
        })
    };
    let is_near = |page: &str| {
        name.rsplit_once('-').is_some_and(|(above, _)| above == page)
            || page.rsplit_once('-').is_some_and(|(above, _)| above == name)
    };
    // All commands of `angara` are below it; the programs beside it are named nowhere.
    let beside = |page: &str| name == "angara" && !page.contains('-');
    let others = pages.iter().filter(|page| *page != name);
    others.filter(|page| is_near(page) || beside(page) || named(page)).cloned().collect()
}

/// As troff wants it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> BTreeSet<String> {
        ["angara", "angara-run", "angara-report", "angara-sim", "angara-sim-run", "fabricd", "oshcc"]
            .map(String::from)
            .into()
    }

    #[test]
    fn a_page_has_a_section_for_each_heading() {
        let page = ".SH OPTIONS\n.TP\n\\fB\\-\\-runtime\\-dir\\fR \\fI<DIR>\\fR\nx\n.SH EXTRA\nFAULTS:\n.nf\n  a  b\n\n  c  d\n.fi\nmore\n\n\
                    EXIT STATUS: 7 sometimes.\n\nEXAMPLES:\n  angara report r\n.SH VERSION\nv1\n";
        let text = complete("angara-run", page, &pages());
        assert!(
            text.contains("\n.SH \"FAULTS\"\n.nf\n  a  b\n\n  c  d\n.fi\nmore\n.SH \"EXIT STATUS\"\n7 sometimes.\n"),
            "{text}"
        );
        assert!(text.contains(".SH \"FILES\"\n.TP\n\\fI$ANGARA_RUNTIME_DIR, "), "{text}");
        assert!(text.contains(".SH \"EXAMPLES\"\n.nf\n  angara report r\n.fi\n"), "{text}");
        assert!(
            text.ends_with(".SH \"SEE ALSO\"\n\\fBangara\\fR(1),\n\\fBangara\\-report\\fR(1),\n\\fBfabricd\\fR(1)\n.SH VERSION\nv1\n"),
            "{text}"
        );
    }

    #[test]
    fn a_page_without_such_text_has_the_usual_sections() {
        let text = complete("angara-sim", ".SH NAME\nx\n.SH VERSION\nv1\n", &pages());
        assert!(text.contains(EXIT_STATUS) && text.contains("  angara sim presets\n.fi"), "{text}");
        assert!(text.contains("\\fBangara\\-sim\\-run\\fR(1)") && !text.contains("fabricd"), "{text}");
        assert!(complete("fabricd", "x\n.SH EXTRA\nprose\n", &pages()).contains(".SH \"NOTES\"\nprose\n"));
    }
}
