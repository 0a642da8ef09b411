//! The page that shows a torus at work, as files.
//!
//! A daemon serves them one by one. A report of a finished run is one file that holds them all ([`standalone`]). There is no
//! build step: what is in `files` is what browsers get.
#![forbid(unsafe_code)]

/// A file of the page.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// As the others name it.
    pub name: &'static str,
    /// Its content type.
    pub kind: &'static str,
    /// What is in it.
    pub text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

const fn file(name: &'static str, kind: &'static str, text: &'static str) -> File {
    File { name, kind, text }
}

/// Every file; modules before those that import them.
pub const FILES: &[File] = &[
    file("index.html", HTML, include_str!("../files/index.html")),
    file("page.css", STYLE, include_str!("../files/page.css")),
    file("torus.js", SCRIPT, include_str!("../files/torus.js")),
    file("colours.js", SCRIPT, include_str!("../files/colours.js")),
    file("store.js", SCRIPT, include_str!("../files/store.js")),
    file("map/layout.js", SCRIPT, include_str!("../files/map/layout.js")),
    file("map/drawn.js", SCRIPT, include_str!("../files/map/drawn.js")),
    file("dense/raster.js", SCRIPT, include_str!("../files/dense/raster.js")),
    file("dense/dense.js", SCRIPT, include_str!("../files/dense/dense.js")),
    file("view.js", SCRIPT, include_str!("../files/view.js")),
    file("chart.js", SCRIPT, include_str!("../files/chart.js")),
    file("past.js", SCRIPT, include_str!("../files/past.js")),
    file("legend.js", SCRIPT, include_str!("../files/legend.js")),
    file("panel.js", SCRIPT, include_str!("../files/panel.js")),
    file("faults.js", SCRIPT, include_str!("../files/faults.js")),
    file("waits.js", SCRIPT, include_str!("../files/waits.js")),
    file("player.js", SCRIPT, include_str!("../files/player.js")),
    file("map/controls.js", SCRIPT, include_str!("../files/map/controls.js")),
    file("figures/reference.js", SCRIPT, include_str!("../files/figures/reference.js")),
    file("figures/svg.js", SCRIPT, include_str!("../files/figures/svg.js")),
    file("figures/export.js", SCRIPT, include_str!("../files/figures/export.js")),
    file("input.js", SCRIPT, include_str!("../files/input.js")),
    file("place.js", SCRIPT, include_str!("../files/place.js")),
    file("scenes.js", SCRIPT, include_str!("../files/scenes.js")),
    file("source.js", SCRIPT, include_str!("../files/source.js")),
    file("main.js", SCRIPT, include_str!("../files/main.js")),
];

/// One file without others, which shows `recorded` (JSON) instead of what a daemon does.
pub fn standalone(recorded: &str) -> String {
    let named = |name: &str| FILES.iter().find(|file| file.name == name).map_or("", |file| file.text);
    let style = format!("<style>\n{}</style>", named("page.css"));
    // Inside a script element nothing may look like its end.
    let data = recorded.replace('<', "\\u003c");
    let data = format!("<script type=\"application/json\" id=\"recorded\">{data}</script>");
    let modules = FILES.iter().filter(|file| file.kind == SCRIPT).map(|file| joined(file.text)).collect::<String>();
    let script = format!("{data}\n<script type=\"module\">\n{modules}</script>");
    named("index.html")
        .replace("<link rel=\"stylesheet\" href=\"page.css\">", &style)
        .replace("<script type=\"module\" src=\"main.js\"></script>", &script)
}

/// A module as part of one script with the others: nothing is imported, as all is there.
fn joined(module: &str) -> String {
    let lines = module.lines().filter(|line| !line.starts_with("import "));
    lines.map(|line| format!("{}\n", line.strip_prefix("export ").unwrap_or(line))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn modules_can_be_joined() {
        let mut names = BTreeSet::new();
        for file in FILES.iter().filter(|file| file.kind == SCRIPT) {
            for line in file.text.lines() {
                assert!(
                    !line.starts_with("import ") || line.ends_with(';'),
                    "{}: {line}: write it on one line",
                    file.name
                );
                let bare = line.strip_prefix("export ").unwrap_or(line);
                let bare = bare.strip_prefix("async ").unwrap_or(bare);
                let word = ["function ", "const ", "let ", "class "].iter().find_map(|start| bare.strip_prefix(start));
                let name = word.and_then(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next());
                assert!(
                    name.is_none_or(|name| names.insert(name)),
                    "{}: {name:?} is in another module, too",
                    file.name
                );
            }
        }
        assert!(names.len() > 20, "{names:?}");
    }

    #[test]
    fn a_report_holds_everything_and_no_end_of_a_script_within() {
        let page = standalone("{\"name\":\"</script><b>\"}");
        assert!(!page.contains("src=\"") && !page.contains("href=\"page.css\""));
        assert!(page.contains("\\u003c/script>\\u003cb>") && !page.contains("</script><b>"));
        assert_eq!(page.matches("</script>").count(), 2);
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere() {
        for file in FILES {
            for bad in ["http://", "https://", "//cdn", "eval(", "innerHTML", "style=\""] {
                let found = file.text.find(bad).map(|at| file.text[at..].chars().take(50).collect::<String>());
                assert!(found.is_none(), "{}: {found:?}", file.name);
            }
            assert!(file.text.lines().count() <= 700, "{} is too long", file.name);
        }
    }
}
