//! The commands of README and guide run as written: every `sh` block of a page, in order, in a directory of its own.
//!
//! A comment on the line before a block says what a reader knows and this test does not:
//!
//! ```text
//! <!-- not run: REASON -->     it needs root, a browser, another host, a terminal, or never ends by itself
//! <!-- needs: TOOL TOOL -->    it runs where these programs are
//! <!-- status: N -->           it ends with this exit status
//! <!-- file: NAME -->          the block is a file, which the reader is told to save
//! ```

use angara_tests::process::PATIENCE;
use angara_tests::{Test, tools};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Why a block is not run.
const REASONS: [&str; 10] = [
    "root",
    "a browser",
    "another host",
    "another launcher",
    "a terminal",
    "a running job",
    "until Ctrl-C",
    "builds or installs",
    "a program of yours",
    "minutes and gigabytes",
];

/// A block of a page.
struct Block {
    /// Line of the page.
    line: usize,
    language: String,
    text: String,
    /// What the comment before it says: a word, and the rest.
    mark: Option<(String, String)>,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = page.lines().enumerate().peekable();
    let mut before = "";
    while let Some((number, line)) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let text: Vec<&str> = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            let mark = before.strip_prefix("<!-- ").and_then(|mark| mark.strip_suffix(" -->"));
            let mark = mark.and_then(|mark| mark.split_once(": ")).map(|(word, rest)| (word.into(), rest.into()));
            found.push(Block { line: number + 1, language: language.into(), text: text.join("\n") + "\n", mark });
        }
        before = line;
    }
    found
}

/// Runs the blocks of a page.
fn run(page: &str) {
    let test = Test::new("guide");
    let (root, here) = (tools::root(), test.file(""));
    let link = |from: &Path, to: &str| {
        fs::create_dir_all(here.join(to).parent().expect("a directory")).expect("made");
        std::os::unix::fs::symlink(from, here.join(to)).expect("linked");
    };
    link(tools::profile_dir(), "target/release");
    ["examples", "packaging"].into_iter().for_each(|dir| link(&root.join(dir), dir));
    let path = std::env::var("PATH").unwrap_or_default();
    for Block { line, language, text, mark } in blocks(&fs::read_to_string(root.join(page)).expect("a page")) {
        let at = format!("{page}:{line}");
        let (word, rest) = mark.as_ref().map_or(("", ""), |(word, rest)| (word.as_str(), rest.as_str()));
        match word {
            "file" => fs::write(here.join(rest), &text).expect("written"),
            "not run" => assert!(REASONS.contains(&rest), "{at}: `{rest}` is none of {REASONS:?}"),
            "needs" if !rest.split(' ').all(there) => println!("skipped: {at}: needs {rest}"),
            "" | "needs" | "status" if language == "sh" => {
                let mut bash = test.command("bash");
                // What goes on in the background ends with the block.
                let script = format!("trap 'jobs -p | xargs -r kill || :' EXIT\n{text}");
                bash.args(["-ec", &script]).env("PATH", format!("{}:{path}", tools::profile_dir().display()));
                bash.env("HOME", &here);
                let done = test.spawn(bash).wait(PATIENCE);
                let wanted = if word == "status" { rest.parse().expect("a status") } else { 0 };
                assert_eq!(done.code(), wanted, "{at}:\n{text}{done}");
            }
            _ => assert!(language != "sh", "{at}: unknown mark `{word}`"),
        }
    }
}

/// True if a program can be found.
fn there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

macro_rules! pages {
    ($($test:ident $page:literal;)*) => {
        const PAGES: &[&str] = &[$($page),*];
        $(
            #[test]
            fn $test() {
                run($page);
            }
        )*
    };
}

pages! {
    readme "README.md";
    capture "docs/guide/capture.md";
    coroutines "docs/guide/coroutines.md";
    debugging "docs/guide/debugging.md";
    driver "docs/guide/driver.md";
    first_program "docs/guide/first-program.md";
    install "docs/guide/install.md";
    machines "docs/guide/machines.md";
    measuring "docs/guide/measuring.md";
    mpi "docs/guide/mpi.md";
    mpi_virtual_time "docs/guide/mpi-virtual-time.md";
    packages "docs/guide/packages.md";
    races "docs/guide/races.md";
    rdma "docs/guide/rdma.md";
    rdma_in_ci "docs/guide/rdma-in-ci.md";
    running "docs/guide/running.md";
    rust "docs/guide/rust.md";
    simulator "docs/guide/simulator.md";
    research "docs/guide/research.md";
    sets "docs/guide/sets.md";
    timeline "docs/guide/timeline.md";
    top "docs/guide/top.md";
    tutorial "docs/guide/tutorial.md";
    virtual_time "docs/guide/virtual-time.md";
    web "docs/guide/web.md";
    whole_machine "docs/guide/whole-machine.md";
}

#[test]
fn every_page_of_the_guide_is_run() {
    let guide = fs::read_dir(tools::root().join("docs/guide")).expect("a directory").flatten();
    let names = guide.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.ends_with(".md"));
    let there: BTreeSet<String> = names.map(|name| format!("docs/guide/{name}")).chain(["README.md".into()]).collect();
    assert_eq!(there, PAGES.iter().map(|page| page.to_string()).collect());
}
