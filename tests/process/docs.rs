//! What the documents name exists: links, files, tests, options, settings.

use angara_tests::{Test, tools};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Options of other people's programs that the documents mention.
const FOREIGN: &[&str] = &[
    "--D1",
    "--LL",
    "--args",
    "--array",
    "--batch",
    "--bench",
    "--bin",
    "--bind-to",
    "--branch",
    "--bs",
    "--cache-sim",
    "--callgrind-out-file",
    "--comment",
    "--constraint",
    "--dependency",
    "--depth",
    "--dev",
    "--doc",
    "--enable-ibv",
    "--error-exitcode",
    "--example",
    "--examples",
    "--from0",
    "--gid",
    "--gtest",
    "--hold",
    "--hostfile",
    "--hostname",
    "--inclusive",
    "--ioengine",
    "--keep-going",
    "--leak-check",
    "--lib",
    "--log-file",
    "--manifest-path",
    "--map-by",
    "--mca",
    "--mount-proc",
    "--mpi",
    "--no-default-features",
    "--no-install-recommends",
    "--no-tx-shared-ctx",
    "--nocapture",
    "--nodelist",
    "--now",
    "--once",
    "--open",
    "--oversubscribe",
    "--package",
    "--port",
    "--privileged",
    "--profile",
    "--proto",
    "--release",
    "--reservation",
    "--rm",
    "--rw",
    "--size",
    "--test",
    "--threshold",
    "--tool",
    "--use-srq",
    "--user",
    "--verb",
    "--volumes",
    "--wdir",
    "--with-ibv-spawner",
    "--workspace",
    "--wrap",
];

/// Every Markdown file of the repository, by path from it.
fn documents() -> BTreeMap<PathBuf, String> {
    let all = files().into_iter().filter(|p| p.extension().is_some_and(|e| e == "md"));
    all.map(|p| (p.clone(), std::fs::read_to_string(tools::root().join(&p)).expect("a document"))).collect()
}

/// Files of the repository that git would list, by path from it: no build results.
fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![PathBuf::new()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(tools::root().join(&dir)).expect("a directory").flatten() {
            let (name, kind) = (entry.file_name(), entry.file_type().expect("it is there"));
            if kind.is_dir() && name != "target" && name != ".git" {
                dirs.push(dir.join(name));
            } else if kind.is_file() {
                found.push(dir.join(name));
            }
        }
    }
    found
}

/// Text of the sources, to look for names in.
fn sources() -> Vec<(PathBuf, String)> {
    let kinds = ["rs", "c", "cpp", "h", "py", "in"];
    let code = files().into_iter().filter(|p| p.extension().is_some_and(|e| kinds.iter().any(|k| e == *k)));
    code.filter_map(|p| Some((p.clone(), std::fs::read_to_string(tools::root().join(&p)).ok()?))).collect()
}

/// Returns what stands between backticks on one line.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// `a/{b,c}.rs` is two paths.
fn alternatives(span: &str) -> Vec<String> {
    let parts = || {
        let (head, rest) = span.split_once('{')?;
        let (all, tail) = rest.split_once('}')?;
        (span.contains('/') && !span.contains(' ')).then_some((head, all, tail))
    };
    match parts() {
        Some((head, all, tail)) => all.split(',').map(|one| format!("{head}{one}{tail}")).collect(),
        None => vec![span.into()],
    }
}

/// Fails with all mistakes at once.
fn none(mistakes: Vec<String>) {
    assert!(mistakes.is_empty(), "{} mistakes:\n{}", mistakes.len(), mistakes.join("\n"));
}

#[test]
fn links_lead_somewhere() {
    let mut wrong = Vec::new();
    let docs = tools::root().join("docs").canonicalize().expect("a directory");
    let anchor = |heading: &str| {
        let text = heading.trim_start_matches('#').trim().to_lowercase();
        text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>().replace(' ', "-")
    };
    for (path, text) in documents() {
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") || target.contains(char::is_whitespace) {
                continue;
            }
            let (file, part) = target.split_once('#').unwrap_or((target, ""));
            let file =
                if file.is_empty() { path.clone() } else { path.parent().expect("in the repository").join(file) };
            let full = tools::root().join(&file);
            // The book and an installation have the documents alone.
            let leaves = || path.starts_with("docs") && !full.canonicalize().is_ok_and(|f| f.starts_with(&docs));
            if !full.exists() {
                wrong.push(format!("{}: {target} does not exist", path.display()));
            } else if leaves() {
                wrong.push(format!("{}: {target} leads out of docs", path.display()));
            } else if !part.is_empty() {
                let there = std::fs::read_to_string(&full).unwrap_or_default();
                if !there.lines().filter(|l| l.starts_with('#')).any(|l| anchor(l) == part) {
                    wrong.push(format!("{}: {target} names no heading", path.display()));
                }
            }
        }
    }
    none(wrong);
}

#[test]
fn files_and_names_of_the_sources_exist() {
    let (files, sources) = (files(), sources());
    let tops: BTreeSet<&str> =
        files.iter().filter(|f| f.components().count() > 1).filter_map(|f| f.iter().next()?.to_str()).collect();
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        for span in &spans(&text).flat_map(alternatives).collect::<Vec<_>>() {
            let word = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
            // Other people's suites have files and names of their own. Those of metrics are put together of a name, a unit
            // and a kind; a unit test of `fabricd` compares them.
            let ours = !path.ends_with("conformance.md") && !path.ends_with("reference/metrics.md");
            let is_file = ours && [".rs", ".c", ".md"].iter().any(|e| span.ends_with(e)) && span.chars().all(word);
            // Programs of the examples in the documents are the reader's own.
            if is_file && !files.iter().any(|f| f.ends_with(span)) {
                wrong.push(format!("{}: there is no file {span}", path.display()));
            }
            // What begins with a directory of the repository is one of its paths.
            let top = span.split('/').next().filter(|top| span.contains('/') && tops.iter().any(|t| t == top));
            if top.is_some() && span.chars().all(word) && !tools::root().join(span).exists() {
                wrong.push(format!("{}: there is no {span} in the repository", path.display()));
            }
            let name = span.rsplit("::").next().unwrap_or(span).trim_end_matches("()");
            let is_name = ours && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            if is_name && name.matches('_').count() >= 3 && !sources.iter().any(|(_, text)| text.contains(name)) {
                wrong.push(format!("{}: nothing is called {span}", path.display()));
            }
        }
    }
    none(wrong);
}

/// Comments and messages of the sources send nobody to a page that is not there.
#[test]
fn pages_that_the_sources_name_exist() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (path, text) in sources() {
        for (at, _) in text.match_indices("docs/") {
            let word = |c: char| !(c.is_ascii_alphanumeric() || "_-./".contains(c));
            let page = text[at..].split(word).next().unwrap_or_default();
            if page.ends_with(".md") {
                seen += 1;
                if !tools::root().join(page).exists() {
                    wrong.push(format!("{}: there is no {page}", path.display()));
                }
            }
        }
    }
    none(wrong);
    assert!(seen > 20, "sources name pages");
}

/// The table of promises names a test by file (or module) and function.
#[test]
fn tests_that_hold_a_promise_exist_where_they_are_said_to_be() {
    let sources = sources();
    let text = std::fs::read_to_string(tools::root().join("docs/explain/threat-model.md")).expect("a document");
    let mut seen = 0;
    let mut wrong = Vec::new();
    for span in spans(&text).filter(|s| s.contains("::") && !s.contains(' ')) {
        let mut parts = span.rsplit("::");
        let (name, module) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        seen += 1;
        let place =
            |path: &Path| path.components().any(|c| Path::new(c.as_os_str()).file_stem().is_some_and(|s| s == module));
        let function = format!("fn {name}(");
        let is_module = || sources.iter().any(|(path, _)| path.ends_with(format!("{module}/{name}.rs")));
        if !sources.iter().any(|(path, text)| place(path) && text.contains(&function)) && !is_module() {
            wrong.push(format!("there is no test {span}"));
        }
    }
    none(wrong);
    assert!(seen >= 10, "the table is there");
}

/// Folders of all crates from the root on, and the package that each holds. Sources that two packages share count once.
fn crates() -> BTreeMap<String, String> {
    let manifests = files().into_iter().filter(|f| f.ends_with("Cargo.toml") && f.components().count() > 1);
    let named = manifests.map(|file| {
        let text = std::fs::read_to_string(tools::root().join(&file)).expect("a manifest");
        let name = text.lines().find_map(|l| l.strip_prefix("name = ")).expect("a package has a name");
        (file.parent().expect("a folder").display().to_string(), name.trim_matches('"').to_string())
    });
    named.filter(|(folder, _)| folder != "contract/abi/models").collect()
}

/// The last folder of a path, which is what documents call the crate in it.
fn leaf(folder: &str) -> &str {
    folder.rsplit('/').next().unwrap_or(folder)
}

/// The README's table has every folder at the top and every crate; no two crates have folders of one name.
#[test]
fn the_readme_names_every_folder_and_every_crate() {
    let text = std::fs::read_to_string(tools::root().join("README.md")).expect("the README");
    let rows: Vec<&str> = text.lines().skip_while(|l| !l.starts_with("| folder | what |")).skip(2).collect();
    let rows = rows.split(|l| !l.starts_with('|')).next().expect("a table");
    let linked: BTreeSet<String> =
        rows.iter().flat_map(|r| r.split("](").skip(1)).filter_map(|l| l.split(')').next()).map(String::from).collect();
    let top = |file: &PathBuf| {
        let folder = file.iter().next().expect("not empty").to_string_lossy().into_owned();
        (file.components().count() > 1 && !folder.starts_with('.')).then_some(folder)
    };
    let there: BTreeSet<String> = files().iter().filter_map(top).chain(crates().into_keys()).collect();
    assert_eq!(linked, there, "README.md and the folders do not agree");
    let crates = crates();
    let names: BTreeSet<&str> = crates.keys().map(|folder| leaf(folder)).collect();
    assert_eq!(names.len(), crates.len(), "two crates have folders of one name: {:?}", crates.keys());
}

/// The architecture's table of crates says of each which others it uses.
#[test]
fn crates_use_what_the_architecture_says() {
    let text = document("explain/architecture.md");
    let rows =
        text.lines().skip_while(|l| !l.starts_with("| crate | uses |")).skip(2).take_while(|l| l.starts_with('|'));
    let mut said = BTreeMap::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').collect();
        let folder = cells[1].trim().trim_matches('`').to_string();
        said.insert(folder, spans(cells[2]).map(String::from).collect::<BTreeSet<_>>());
    }
    let crates = crates();
    let folder_of: BTreeMap<&str, &str> =
        crates.iter().map(|(folder, package)| (package.as_str(), leaf(folder))).collect();
    let mut is = BTreeMap::new();
    for folder in crates.keys() {
        let text = std::fs::read_to_string(tools::root().join(folder).join("Cargo.toml")).expect("a manifest");
        // Those for some machines alone, too.
        let is_used = |section: &str| {
            section == "dependencies]" || section.starts_with("target.") && section.ends_with(".dependencies]")
        };
        let sections = text.split("\n[").filter_map(|section| section.split_once('\n'));
        let used = sections.filter(|(name, _)| is_used(name)).flat_map(|(_, lines)| lines.lines());
        let names = used.filter_map(|l| l.split(['.', ' ', '=']).next());
        let ours = names.filter_map(|name| folder_of.get(name)).map(|name| name.to_string());
        is.insert(folder.clone(), ours.collect::<BTreeSet<_>>());
    }
    assert_eq!(said, is, "docs/explain/architecture.md and the manifests do not agree");
    let rows = text.lines().skip_while(|l| !l.starts_with("A crate uses only crates of rows below")).skip(1);
    let rows = rows.skip_while(|l| !l.starts_with("```text")).skip(1).take_while(|l| !l.starts_with("```"));
    // What the row is, and crates, apart from each other by several blanks.
    let rows = rows.map(|row| row.split("   ").map(str::trim).filter(|word| !word.is_empty()).skip(1));
    let rank: BTreeMap<&str, usize> =
        rows.enumerate().flat_map(|(rank, row)| row.map(move |name| (name, rank))).collect();
    let inside = |name: &&str| !matches!(*name, "tests" | "xtask");
    let unplaced: Vec<&str> =
        is.keys().map(|folder| leaf(folder)).filter(inside).filter(|name| !rank.contains_key(name)).collect();
    assert_eq!(unplaced, Vec::<&str>::new(), "crates in no row of the picture");
    let edges = is.iter().map(|(folder, used)| (leaf(folder), used)).filter(|(name, _)| inside(name));
    let edges = edges.flat_map(|(name, used)| used.iter().map(move |other| (name, other.as_str())));
    let up: Vec<_> = edges.filter(|(name, other)| rank[name] >= rank[other]).collect();
    assert_eq!(up, [], "crates that use others of their own row or above");
}

/// What a comment names as a file of ours is one: in its crate, in the folder beside it, or from the root on.
#[test]
fn comments_name_files_that_are_there() {
    let all: Vec<PathBuf> = files();
    let known = |at: &Path, name: &str| {
        let inside = at.iter().next().map(PathBuf::from).unwrap_or_default();
        let beside = at.parent().map(Path::to_path_buf).unwrap_or_default();
        all.iter().any(|file| {
            let below = |root: &Path| file.strip_prefix(root).is_ok_and(|rest| rest == Path::new(name));
            below(&inside) || below(&inside.join("src")) || below(&beside) || *file == Path::new(name)
                // Folders above say which of several of one name is meant.
                || file.starts_with(&inside) && file.ends_with(name)
        })
    };
    let mut wrong = Vec::new();
    let mut seen = 0;
    for file in all.iter().filter(|f| f.extension().is_some_and(|e| e == "rs")) {
        let text = std::fs::read_to_string(tools::root().join(file)).expect("a source");
        for (number, line) in (1..).zip(text.lines()) {
            let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
            for span in spans(comment) {
                let is_source = span.ends_with(".rs") && !span.contains(['*', ' ', '<', '{', '…']);
                if is_source {
                    seen += 1;
                    if !known(file, span) {
                        wrong.push(format!("{}:{number}: `{span}`", file.display()));
                    }
                }
            }
        }
    }
    none(wrong);
    assert!(seen >= 5, "{seen} names of files in comments");
}

/// The walk of a put visits every file once, and what it names there is there.
#[test]
fn the_walk_of_a_put_finds_its_way() {
    let text = document("explain/put.md");
    let mut visited = BTreeSet::new();
    let mut wrong = Vec::new();
    for row in text.lines().filter(|l| l.starts_with("| `")) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let file = cells[0].trim_matches(['|', ' ', '`']);
        let source = std::fs::read_to_string(tools::root().join(file)).unwrap_or_default();
        if !visited.insert(file) {
            wrong.push(format!("docs/explain/put.md visits {file} twice"));
        }
        for name in spans(cells[1]) {
            if ![format!("fn {name}("), format!("fn {name}<")].iter().any(|f| source.contains(f)) {
                wrong.push(format!("docs/explain/put.md: there is no fn {name} in {file}"));
            }
        }
    }
    none(wrong);
    assert!(visited.len() > 15, "the walk is there");
}

/// What a command's help says: how it is called, and its options with what they mean.
struct Help {
    /// The first line: what the command does.
    about: String,
    text: String,
    usage: Vec<String>,
    options: Vec<(String, String)>,
}

/// Options of all lists of a text of `--help`, each with its meaning on one line.
fn options_of(text: &str) -> Vec<(String, String)> {
    let mut options: Vec<(String, String)> = Vec::new();
    let (mut in_list, mut paragraph) = (false, false);
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let trimmed = line.trim();
        if !line.starts_with(' ') && !line.is_empty() {
            // Some commands have more than one list of options, each with a heading of its own; examples are below capitals.
            let is_heading = line.ends_with(':') && line.chars().any(char::is_lowercase);
            in_list = is_heading && !line.starts_with("Commands");
        } else if in_list && line.len() - line.trim_start().len() < 10 && trimmed.starts_with('-') {
            let (name, meaning) = trimmed.split_once("  ").unwrap_or((trimmed, ""));
            options.push((name.into(), meaning.trim().into()));
        } else if let (true, false, Some((_, meaning))) = (in_list, words.is_empty(), options.last_mut()) {
            // A line of the meaning, which is wrapped as the terminal is wide, or a value with its own.
            let (begin, ends) = (words[0], meaning.ends_with(['.', ':']));
            let gap = match meaning.as_str() {
                "" => "",
                _ if begin == "-" && !ends => "; ",
                _ if paragraph && !ends && !begin.starts_with('[') => ". ",
                _ => " ",
            };
            *meaning += &format!("{gap}{}", words[usize::from(begin == "-")..].join(" "));
        }
        paragraph = words.is_empty();
    }
    options.retain(|(name, _)| !name.ends_with("--help") && !name.ends_with("--version"));
    options
}

/// Help of a command and of all its subcommands, by name.
fn helps(test: &Test, words: &[&str], all: &mut BTreeMap<String, Help>) {
    let said = |option: &str| {
        let mut command = test.command(tools::tool(words[0]));
        command.args(&words[1..]).arg(option);
        test.run(command).success().stdout
    };
    // Some options are in the long form alone.
    let (text, options) = (said("-h"), options_of(&said("--help")));
    let part = |begin: &str| {
        let lines = text.lines().skip_while(move |l| !l.starts_with(begin));
        lines.enumerate().take_while(|(i, l)| *i == 0 || !l.is_empty()).map(|(_, l)| l.to_string()).collect::<Vec<_>>()
    };
    let usage = part("Usage:").iter().map(|l| l.trim_start_matches("Usage:").trim().to_string()).collect();
    let about = text.lines().next().unwrap_or_default().to_string();
    all.insert(words.join(" "), Help { about, text: text.clone(), usage, options });
    for line in part("Commands:").iter().skip(1).filter(|l| !l.starts_with("   ")) {
        let name = line.split_whitespace().next().expect("a command has a name");
        if name != "help" {
            helps(test, &[words, &[name]].concat(), all);
        }
    }
}

fn all_helps(test: &Test) -> BTreeMap<String, Help> {
    let mut all = BTreeMap::new();
    ["angara", "fabricd"].iter().for_each(|tool| helps(test, &[tool], &mut all));
    all
}

/// Verbs with which help says what a command does.
const VERBS: &[&str] = &[
    "Break", "Build", "Capture", "Check", "Choose", "Compare", "Compile", "Compute", "Draw", "Emulate", "End", "Find",
    "Have", "List", "Make", "Measure", "Place", "Plan", "Print", "Run", "Say", "Show", "Simulate", "Tell", "Watch",
    "Write",
];

/// `angara run -h` fits a screen, and shows how to begin.
#[test]
fn help_of_run_fits_a_screen() {
    let test = Test::new("docs-screen");
    for words in [&["angara", "run"][..], &["oshrun"]] {
        let mut command = test.command(tools::tool(words[0]));
        command.args(&words[1..]).arg("-h");
        let text = test.run(command).success().stdout;
        assert!(text.lines().count() <= 50, "{} lines: {text}", text.lines().count());
        let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 100).collect();
        assert_eq!(wide, Vec::<&str>::new());
        let (_, below) = text.split_once("\nEXAMPLES:\n").expect("examples");
        assert_eq!(below.lines().filter(|line| line.starts_with("  ")).count(), 3, "{text}");
    }
}

/// Help of every command has one form: what it does, how it is called, its lists, and examples at the end.
#[test]
fn help_of_every_command_has_one_form() {
    let test = Test::new("docs-help");
    let all = all_helps(&test);
    let mut wrong = Vec::new();
    for (command, help) in &all {
        let mut say = |why: &str| wrong.push(format!("{command} -h: {why}: {}", help.about));
        let first = help.about.split([' ', ',']).next().unwrap_or_default();
        if !VERBS.contains(&first) {
            say("it does not begin with a verb of the list in this test");
        }
        if help.about.ends_with('.') || help.about.len() > 98 {
            say("its first line is no short line");
        }
        let lines: Vec<&str> = help.text.lines().collect();
        if lines.get(1) != Some(&"") || !lines.get(2).is_some_and(|l| l.starts_with(&format!("Usage: {command}"))) {
            say("the usage does not follow");
        }
        // Headings of lists have capitals and small letters, those below them capitals alone.
        let headings = lines.iter().filter_map(|l| l.strip_suffix(':')).filter(|h| !h.starts_with(' '));
        let capitals: Vec<bool> = headings.map(|h| !h.chars().any(char::is_lowercase)).collect();
        if !capitals.is_sorted() {
            say("a list stands below what is said in capitals");
        }
        if help.text.lines().any(|l| l.eq_ignore_ascii_case("example:") || l == "Examples:") {
            say("examples stand below EXAMPLES:");
        }
    }
    none(wrong);
    assert!(all.len() > 40, "{} commands", all.len());
}

impl Help {
    /// The long names of its options.
    fn names(&self) -> impl Iterator<Item = &str> {
        let words = self.options.iter().flat_map(|(name, _)| name.split([' ', ',', '[']));
        words.filter(|w| w.starts_with("--"))
    }

    /// As `docs/reference/options.md` has it.
    fn table(&self) -> String {
        let mut text = format!("\n```text\n{}\n```\n\n| option | meaning |\n|---|---|\n", self.usage.join("\n"));
        for (name, meaning) in &self.options {
            text += &format!("| `{}` | {} |\n", name.replace('|', "\\|"), meaning.replace('|', "\\|"));
        }
        text
    }
}

/// True if `text` holds the option and not a longer one.
fn mentions(text: &str, option: &str) -> bool {
    text.match_indices(option)
        .any(|(at, _)| !text[at + option.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-'))
}

fn document(name: &str) -> String {
    std::fs::read_to_string(tools::root().join("docs").join(name)).unwrap_or_else(|e| panic!("docs/{name}: {e}"))
}

/// The tables of options are what the commands themselves say.
#[test]
fn the_reference_of_options_is_what_the_commands_say() {
    let test = Test::new("docs-reference");
    let text = document("reference/options.md");
    let mut fresh = text.clone();
    let mut missing = Vec::new();
    let all = all_helps(&test);
    for (command, help) in all.iter().filter(|(_, help)| !help.options.is_empty()) {
        let begin = format!("<!-- options: {command} -->\n");
        match fresh.split_once(&begin).and_then(|(head, rest)| Some((head, rest.split_once("<!-- end -->")?.1))) {
            Some((head, tail)) => fresh = format!("{head}{begin}{}\n<!-- end -->{tail}", help.table()),
            None => missing.push(format!("docs/reference/options.md has no `{}`", begin.trim())),
        }
    }
    for line in text.lines().filter_map(|l| l.strip_prefix("<!-- options: ")) {
        if !all.contains_key(line.trim_end_matches(" -->")) {
            missing.push(format!("docs/reference/options.md has `{line}`, but there is no such command"));
        }
    }
    none(missing);
    if fresh != text {
        let right = tools::profile_dir().join("options.md");
        std::fs::write(&right, fresh).expect("written");
        panic!("docs/reference/options.md is stale: cp {} docs/reference/options.md", right.display());
    }
}

#[test]
fn options_exist_and_are_explained() {
    let test = Test::new("docs-options");
    let all = all_helps(&test);
    let known: BTreeSet<&str> = all.values().flat_map(Help::names).chain(["--help", "--version"]).collect();
    let code: String = sources()
        .into_iter()
        .filter(|(p, _)| {
            p.starts_with("tools/xtask") || p.ends_with("oshcc.rs") || p.starts_with("network/trunk/examples")
        })
        .map(|s| s.1)
        .chain([std::fs::read_to_string(tools::root().join("test")).expect("the script")])
        .collect();
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        for option in words.filter(|w| w.starts_with("--") && w.len() > 3 && !w.ends_with('-')) {
            if !known.contains(option) && !FOREIGN.contains(&option) && !mentions(&code, option) {
                wrong.push(format!("{}: nothing here takes {option}", path.display()));
            }
        }
    }
    let simulation = document("reference/simulation.md");
    for option in all["angara sim run"].names() {
        if !mentions(&simulation, option) && !mentions(&simulation, &format!("`{}", &option[2..])) {
            wrong.push(format!("docs/reference/simulation.md does not explain `angara sim run {option}`"));
        }
    }
    let help = test.run(test.angara(["sim", "run", "-h"])).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for values in help.split("[possible values: ").skip(1).filter_map(|rest| rest.split(']').next()) {
        for value in values.split(", ").filter(|v| !simulation.contains(&format!("`{v}`"))) {
            wrong.push(format!("docs/reference/simulation.md does not explain the value {value} of ({values})"));
        }
    }
    none(wrong);
}

/// Variables of our own that programs (not tests) read have a row, and no row is about a variable that nobody reads.
#[test]
fn the_reference_of_the_environment_has_every_variable() {
    let text = document("reference/environment.md");
    let listed: BTreeSet<&str> =
        text.lines().filter_map(|l| l.strip_prefix("| `")?.split('`').next()).filter(|n| !n.contains(' ')).collect();
    let mut read = BTreeSet::new();
    let sources = sources();
    for (_, text) in &sources {
        for prefix in ["ANGARA_", "OSHCC_", "OSHCXX_", "CLUSTER_", "TRUNK_", "FABRIC_S", "MODEL_SOAK", "SIMULATION_"] {
            let prefix = &format!("\"{prefix}");
            for (at, _) in text.match_indices(prefix) {
                let name = text[at + 1..].split('"').next().unwrap_or_default();
                if name.len() > prefix.len() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
                    read.insert(name);
                }
            }
        }
    }
    let ours = |name: &&&str| name.starts_with("ANGARA_") || name.starts_with("SHMEM_");
    let mut wrong: Vec<String> =
        read.difference(&listed).map(|name| format!("docs/reference/environment.md has no row for {name}")).collect();
    for name in listed.iter().filter(ours) {
        let parts = [format!("\"{name}\""), format!("\"{}\"", name.trim_start_matches("SHMEM_"))];
        if !sources.iter().any(|(_, text)| parts.iter().any(|p| text.contains(p))) {
            wrong.push(format!("docs/reference/environment.md: nobody reads {name}"));
        }
    }
    none(wrong);
    assert!(read.len() > 15, "variables are found in the sources: {read:?}");
}

/// Every page is in the table of contents once, and mdBook finds each that is there.
#[test]
fn every_page_is_in_the_contents() {
    let contents = document("SUMMARY.md");
    let named: Vec<&str> = contents.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let pages = documents().into_keys().filter_map(|p| Some(p.strip_prefix("docs").ok()?.to_path_buf()));
    let pages: Vec<PathBuf> = pages.filter(|p| !p.ends_with("SUMMARY.md")).collect();
    let mut wrong = Vec::new();
    for page in &pages {
        let times = named.iter().filter(|n| Path::new(n) == page).count();
        if times != 1 {
            wrong.push(format!("docs/SUMMARY.md names {} {times} times", page.display()));
        }
    }
    none(wrong);
    assert_eq!(named.len(), pages.len(), "docs/SUMMARY.md names only pages");
}

/// Lines of text are short enough to be read beside code; tables and what programs printed are as wide as they are.
#[test]
fn lines_are_at_most_100_columns_wide() {
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        let mut code = false;
        for (i, line) in text.lines().enumerate() {
            code ^= line.trim_start().starts_with("```");
            if !code && !line.starts_with('|') && line.chars().count() > 100 {
                wrong.push(format!("{}:{}: {} columns", path.display(), i + 1, line.chars().count()));
            }
        }
        assert!(!code, "{}: a block of code does not end", path.display());
    }
    none(wrong);
}
