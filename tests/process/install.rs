//! `cargo xtask install`: the installed tree compiles and runs a program by itself, its units are valid,
//! and `uninstall` leaves nothing.

use angara_tests::{Finished, Test, tools};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const UNITS: [&str; 5] =
    ["fabricd.service", "fabricd@root.service", "fabricd.socket", "fabricd-cluster.service", "fabricd-cluster.socket"];

const HELLO: &str = r#"
#include <shmem.h>
#include <stdio.h>
static long seen;
int main(void) {
    shmem_init();
    shmem_long_atomic_add(&seen, shmem_my_pe() + 1, 0);
    shmem_barrier_all();
    if (shmem_my_pe() == 0) printf("hello from %d PEs, sum %ld\n", shmem_n_pes(), seen);
    shmem_finalize();
    return 0;
}
"#;

/// Returns what `cargo xtask` runs, with `words`, on the programs under test.
fn xtask(test: &Test, words: &[&str]) -> Finished {
    let mut command = test.command(tools::tool("xtask"));
    command.current_dir(tools::root()).args(words);
    if words[0] == "install" {
        command.arg("--from").arg(tools::profile_dir());
    }
    test.run(command)
}

fn all_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        match entry.file_type().expect("a file").is_dir() {
            true => found.extend(all_files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

/// Every command has a manual page with the usual sections, and completions.
fn check_help(share: &Path) {
    let pages =
        ["angara", "angara-run", "angara-plan-barrier", "angara-cluster-init", "oshrun", "oshcc", "oshc++", "fabricd"];
    for name in pages {
        let page =
            std::fs::read_to_string(share.join(format!("man/man1/{name}.1"))).unwrap_or_else(|e| panic!("{name}: {e}"));
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "\"EXIT STATUS\"", "\"EXAMPLES\"", "\"SEE ALSO\""]
        {
            assert!(page.contains(&format!("\n.SH {section}\n")), "{name} has no {section}: {page}");
        }
        assert!(!page.contains(".SH EXTRA"), "{name}: {page}");
    }
    let run = std::fs::read_to_string(share.join("man/man1/angara-run.1")).expect("there");
    assert!(run.contains("\\-\\-torus") && run.contains("SHAPE"), "{run}");
    for name in ["angara", "oshrun", "fabricd"] {
        for file in [
            format!("bash-completion/completions/{name}"),
            format!("zsh/site-functions/_{name}"),
            format!("fish/vendor_completions.d/{name}.fish"),
        ] {
            let text = std::fs::read_to_string(share.join(&file)).unwrap_or_else(|e| panic!("{file}: {e}"));
            assert!(text.contains("torus"), "{file} completes nothing");
            let values: &[&str] = match name {
                "angara" => &["dissemination", "desmos", "direct", "bitcomp", "corrupt=1%", "link"],
                "oshrun" => &["dissemination", "desmos", "direct"],
                _ => &["desmos", "uring"],
            };
            for value in values {
                let there = |c: char| c.is_alphanumeric() || c == '=' || c == '%';
                // Not a word of the help, but of its own: of the shells, bash shows no help.
                assert!(text.split(|c| !there(c)).any(|word| word == *value), "{file} does not offer {value}");
            }
        }
    }
    assert!(run.contains("\n.SH \"FILES\"\n") && run.contains("\\fBangara\\-report\\fR(1)"), "{run}");
    let fault = std::fs::read_to_string(share.join("man/man1/angara-fault.1")).expect("there");
    let (_, table) = fault.split_once(".SH \"FAULTS\"\n.nf\n").unwrap_or_else(|| panic!("no table: {fault}"));
    let (table, _) = table.split_once("\n.fi\n").expect("it ends");
    let row = "  corrupt=1%    fraction of transmissions corrupted\n";
    assert!(table.contains(row) && table.contains("  list   "), "{table}");
}

/// Returns what bash would offer behind `words`, the last of which has been begun.
fn offered(test: &Test, share: &Path, words: &[&str]) -> String {
    let script = r#"source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_angara angara "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"; echo "${COMPREPLY[*]}""#;
    let mut bash = test.command("bash");
    bash.args(["-c", script, "bash"]).arg(share.join("bash-completion/completions/angara")).args(words);
    test.run(bash).success().stdout.trim().to_string()
}

/// Values are completed, too.
fn check_completions(test: &Test, share: &Path) {
    for (words, values) in [
        (&["angara", "run", "--path", "d"][..], "direct"),
        (&["angara", "run", "--machine", ""], "desmos angara-k1 bluegene-p gemini tpu-v4 tpu-v5p"),
        (&["angara", "run", "--barrier", "multi"], "multiphase"),
        (&["angara", "sim", "run", "--pattern", "tor"], "tornado"),
        (&["angara", "fault", "lin"], "link"),
        (&["angara", "fault", "corr"], "corrupt=1%"),
    ] {
        assert_eq!(offered(test, share, words), values, "{words:?}");
    }
}

/// Runs lines of the shell in `dir`.
fn shell(test: &Test, dir: &Path, lines: &str) -> Finished {
    let mut sh = test.command("sh");
    sh.args(["-ec", lines]).current_dir(dir);
    test.run(sh).success()
}

#[test]
fn the_driver_builds_and_runs_as_its_first_lines_say() {
    let test = Test::new("install-driver");
    let prefix = test.file("opt/angara");
    xtask(&test, &["install", "--prefix", prefix.to_str().expect("utf-8")]).success();
    // A checkout in which nothing is made, with the build where the lines expect it.
    let checkout = test.file("checkout");
    std::fs::create_dir_all(checkout.join("target")).expect("made");
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, checkout.join(name)).expect("linked");
    link(&tools::root().join("examples"), "examples");
    link(tools::profile_dir(), "target/release");
    let elsewhere = test.file("elsewhere");
    std::fs::create_dir(&elsewhere).expect("made");
    for (heading, dir) in [("In a checkout", &checkout), ("Installed", &elsewhere)] {
        let [place, compile, run] = tools::driver_commands(heading);
        let place = place.replace("/usr/local", &prefix.display().to_string());
        let done = shell(&test, dir, &format!("{place}\n{compile}\n{run}"));
        assert_eq!(done.stdout.matches(": ok").count(), 2, "{heading}: {done}");
        let ldd = shell(&test, dir, "ldd driver").stdout;
        let lib = if heading == "Installed" { prefix.join("lib") } else { checkout.join("target/release") };
        assert!(ldd.contains(&format!("libangara.so.1 => {}/libangara.so.1", lib.display())), "{ldd}");
    }
    test.assert_clean();
}

const CMAKE: &str = r#"
cmake_minimum_required(VERSION 3.13)
project(use C)
find_package(OpenSHMEM 1.5 REQUIRED)
find_package(Angara 0.1 REQUIRED)
find_package(OpenSHMEM 2.0 QUIET)
if(OpenSHMEM_FOUND)
  message(FATAL_ERROR "there is no version 2.0")
endif()
add_executable(hello hello.c)
target_link_libraries(hello OpenSHMEM::openshmem)
add_executable(other hello.c)
target_link_libraries(other SHMEM::SHMEM)
add_executable(driver "${EXAMPLES}/driver.c")
target_link_libraries(driver Angara::angara)
"#;

#[test]
fn other_build_systems_find_an_installed_tree_wherever_it_is_moved() {
    let test = Test::new("install-find");
    let (first, prefix) = (test.file("opt/first"), test.file("opt/moved"));
    xtask(&test, &["install", "--prefix", first.to_str().expect("utf-8")]).success();
    std::fs::rename(&first, &prefix).expect("moved");
    std::fs::write(test.file("hello.c"), HELLO).expect("written");
    let (at, examples) = (prefix.display(), prefix.join("share/angara/examples/c"));
    let out = prefix.parent().and_then(Path::parent).expect("below a directory");
    let run = format!("{at}/bin/oshrun -q -n 2 --timeout 200");
    // A tree that looks like Open MPI's, for programs that are told a root and ask for `oshmem` first.
    let root = prefix.join("lib/angara").display().to_string();
    let compile = format!("cc hello.c -I {root}/include -L {root}/lib -loshmem -Wl,-rpath,{root}/lib -o c");
    let done = shell(&test, out, &format!("{compile}\n{run} ./c\nldd c"));
    assert!(done.stdout.contains("hello from 2 PEs") && done.stdout.contains("libsma.so.1 =>"), "{done}");
    if tools::have("pkg-config") {
        for (package, dir) in [("sma", "lib/pkgconfig"), ("oshmem", "lib/angara/pkgconfig")] {
            let path = format!("export PKG_CONFIG_PATH={at}/{dir}");
            let done = shell(
                &test,
                out,
                &format!("{path}\ncc hello.c $(pkg-config --cflags --libs {package}) -o a\n{run} ./a"),
            );
            assert!(done.stdout.contains("hello from 2 PEs"), "{package}: {done}");
        }
        let path = format!("export PKG_CONFIG_PATH={at}/lib/pkgconfig");
        let flags = "$(pkg-config --cflags --libs angara)";
        let done = shell(&test, out, &format!("{path}\ncc {}/driver.c {flags} -o b\n{run} ./b", examples.display()));
        assert_eq!(done.stdout.matches(": ok").count(), 2, "{done}");
        let mut unasked = test.command("pkg-config");
        unasked.args(["--exists", "oshmem"]).env("PKG_CONFIG_LIBDIR", prefix.join("lib/pkgconfig"));
        assert_ne!(test.run(unasked).code(), 0, "oshmem is found without asking");
    } else {
        println!("skipped: no pkg-config (Debian: apt-get install pkg-config)");
    }
    if tools::have("cmake") {
        std::fs::write(test.file("CMakeLists.txt"), CMAKE).expect("written");
        let configure = format!("cmake -S . -B build -DCMAKE_PREFIX_PATH={at} -DEXAMPLES={}", examples.display());
        let done = shell(
            &test,
            out,
            &format!("{configure}\ncmake --build build\n{run} build/hello\n{run} build/other\n{run} build/driver"),
        );
        assert_eq!(done.stdout.matches("hello from 2 PEs").count(), 2, "{done}");
        assert_eq!(done.stdout.matches(": ok").count(), 2, "{done}");
    } else {
        println!("skipped: no cmake (Debian: apt-get install cmake)");
    }
    test.assert_clean();
}

#[test]
fn an_installed_tree_works_by_itself_and_goes_away_again() {
    let test = Test::new("install");
    let prefix = test.file("opt/angara");
    let shown = prefix.to_str().expect("utf-8");
    xtask(&test, &["install", "--prefix", shown]).success();
    let source = test.file("hello.c");
    std::fs::write(&source, HELLO).expect("written");
    let program = test.file("hello");
    let mut oshcc = test.command(prefix.join("bin/oshcc"));
    oshcc.arg(&source).arg("-o").arg(&program);
    test.run(oshcc).success();
    let mut oshrun = test.command(prefix.join("bin/oshrun"));
    oshrun.args(["-n", "4", "--timeout", "200"]).arg(&program);
    let done = test.run(oshrun).success();
    assert!(done.stdout.contains("hello from 4 PEs, sum 10"), "{done}");
    // It is the installed library that the program found.
    let text = std::fs::read(&program).expect("compiled");
    let runpath = format!("{shown}/lib");
    assert!(text.windows(runpath.len()).any(|w| w == runpath.as_bytes()), "no {runpath} in the program");
    // Programs look for the name with the version, which is the library itself.
    let mut ldd = test.command("ldd");
    ldd.arg(&program);
    let wanted = format!("libsma.so.1 => {shown}/lib/libsma.so.1");
    assert!(test.run(ldd).success().stdout.contains(&wanted), "no `{wanted}`");
    for (library, symbol) in [("libsma.so", "shmem_init"), ("libangara.so", "angara_open")] {
        assert_eq!(
            std::fs::read_link(prefix.join("lib").join(library)).expect("a link"),
            Path::new(&format!("{library}.1"))
        );
        let mut nm = test.command("nm");
        nm.args(["-D", "--defined-only"]).arg(prefix.join("lib").join(format!("{library}.1")));
        let done = test.run(nm).success();
        assert!(done.stdout.lines().any(|l| l.ends_with(&format!(" T {symbol}"))), "{done}");
    }
    check_help(&prefix.join("share"));
    check_completions(&test, &prefix.join("share"));
    assert!(prefix.join("share/angara/examples/python/jacobi.py").is_file());
    // Every page and plot, where links between them lead.
    let pages = all_files(&tools::root().join("docs"));
    let pages: Vec<_> = pages.iter().filter(|p| p.extension().is_some_and(|e| e == "md" || e == "svg")).collect();
    for page in &pages {
        let at = Path::new("share/doc/angara").join(page.strip_prefix(tools::root()).expect("of the repository"));
        assert!(prefix.join(&at).is_file(), "no {}; does xtask know its folder?", at.display());
    }
    assert!(pages.len() > 30, "the documents are there");

    // What others put there stays; installing again changes nothing.
    std::fs::write(prefix.join("share/mine"), "").expect("written");
    let before = all_files(&prefix);
    xtask(&test, &["install", "--prefix", shown]).success();
    assert_eq!(all_files(&prefix), before);
    let done = xtask(&test, &["uninstall", "--prefix", shown]).success();
    assert!(done.stdout.contains(&format!("kept {shown}/share: it is not empty")), "{done}");
    assert_eq!(all_files(&prefix), [prefix.join("share/mine")]);
    assert!(!prefix.join("bin").exists());
    xtask(&test, &["uninstall", "--prefix", shown]).failure(&["cannot read", "--prefix"]);
    test.assert_clean();
}

#[test]
fn a_build_outside_the_checkout_finds_its_sources() {
    let test = Test::new("elsewhere");
    // As cargo leaves it with CARGO_TARGET_DIR, --target-dir or build.target-dir.
    let bin = test.file("elsewhere/release");
    let include = bin.join("include/mpp");
    std::fs::create_dir_all(&include).expect("made");
    let built = tools::profile_dir();
    for name in ["angara", "angara.d", "fabricd", "oshcc", "libsma.so"] {
        tools::copy_program(&built.join(name), &bin.join(name));
    }
    for name in ["shmem.h", "shmemx.h", "mpp/shmem.h", "mpp/shmemx.h"] {
        std::fs::copy(built.join("include").join(name), bin.join("include").join(name)).expect("copied");
    }
    std::os::unix::fs::symlink("libsma.so", bin.join("libsma.so.1")).expect("linked");
    // In place of cargo, which would build for minutes: says what it was asked for.
    let (cargo, asked) = (test.file("cargo"), test.file("asked"));
    let script = test.file("script");
    std::fs::write(&script, format!("#!/bin/sh\necho \"$PWD $*\" >{}\n", asked.display())).expect("written");
    tools::copy_program(&script, &cargo);
    std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let demo = |place: &std::path::Path| {
        let mut demo = test.command(bin.join("angara"));
        demo.arg("demo").env("CARGO", &cargo).current_dir(place);
        test.run(demo)
    };
    let done = demo(tools::root()).success();
    assert!(done.stdout.contains("Both runs report the same packets"), "{done}");
    assert!(!asked.exists(), "what is there is not built again");
    // Where something is missing, it is built from the checkout in which the user stands, and from no other one.
    std::fs::remove_file(bin.join("fabricd")).expect("it was there");
    demo(&test.file("elsewhere")).failure(&[]);
    assert!(!asked.exists(), "another checkout was built in");
    demo(tools::root()).failure(&[]);
    let asked = std::fs::read_to_string(asked).expect("cargo was called");
    let target = bin.parent().expect("a directory");
    let want = format!("{} build --profile release --target-dir {}", tools::root().display(), target.display());
    let parts = "--package angara-cli --package angara-fabricd --package shmem-shim";
    assert_eq!(asked.trim(), format!("{want} {parts}"));
    test.assert_clean();
}

#[test]
fn units_name_the_prefix_and_are_valid() {
    let test = Test::new("units");
    let stage = test.file("stage");
    let shown = stage.to_str().expect("utf-8");
    let done = xtask(&test, &["install", "--systemd", "--prefix", "/usr", "--destdir", shown]).success();
    assert!(done.stdout.contains("systemd-sysusers /usr/lib/sysusers.d/angara.conf"), "{done}");
    let units = stage.join("usr/lib/systemd/system");
    let unit = std::fs::read_to_string(units.join("fabricd.service")).expect("installed");
    assert!(unit.contains("ExecStart=/usr/bin/fabricd --config /etc/angara/fabricd.toml"), "{unit}");
    for file in all_files(&stage) {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if file.is_dir() {
            // A link to one, whose files are looked at where they lie.
            continue;
        }
        let text = std::fs::read(&file).expect("readable");
        assert!(!text.windows(8).any(|w| w == b"@bindir@"), "{name} is not filled in");
        let mode = std::fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o022, 0, "{name} may be written by others");
    }
    // The options it ships with are valid, and an administrator's own are kept.
    let config = stage.join("etc/angara/fabricd.toml");
    let mut check = test.command(tools::tool("fabricd"));
    check.arg("--check-config").arg("--config").arg(&config);
    test.run(check).success();
    std::fs::write(&config, "torus = \"4\"\n").expect("written");
    xtask(&test, &["install", "--systemd", "--prefix", "/usr", "--destdir", shown]).success();
    assert_eq!(std::fs::read_to_string(&config).expect("kept"), "torus = \"4\"\n");
    xtask(&test, &["uninstall", "--prefix", "/usr", "--destdir", shown]).success();
    assert_eq!(all_files(&stage), [config]);
    test.assert_clean();
}

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    if !tools::have("systemd-analyze") {
        println!("skipped: no systemd-analyze (Debian: apt-get install systemd)");
        return;
    }
    let test = Test::new("verify");
    // Unit files must lie where their programs do: verify looks for those.
    let prefix = test.file("usr");
    let shown = prefix.to_str().expect("utf-8");
    xtask(&test, &["install", "--systemd", "--prefix", shown]).success();
    let units = prefix.join("lib/systemd/system");
    std::fs::copy(units.join("fabricd@.service"), units.join("fabricd@root.service")).expect("an instance");
    for unit in UNITS {
        let mut verify = test.command("systemd-analyze");
        verify
            .args(["verify", "--man=no"])
            .arg(units.join(unit))
            .env("SYSTEMD_UNIT_PATH", format!("{}:", units.display()));
        let done = test.run(verify);
        let ours: Vec<&str> = done.stderr.lines().filter(|l| l.contains("fabricd") || l.contains(shown)).collect();
        assert!(done.code() == 0 && ours.is_empty(), "{unit}: {ours:?}\n{done}");
    }
    let mut security = test.command("systemd-analyze");
    security.args(["security", "--offline=yes", "--threshold=30"]).arg(units.join("fabricd.service"));
    let done = test.run(security);
    assert_eq!(done.code(), 0, "an exposure above 3.0: {done}");
    test.assert_clean();
}

#[test]
fn what_others_have_written_is_named_with_its_licence() {
    let test = Test::new("notices");
    let mut install = test.command(tools::tool("xtask"));
    install.args(["install", "--prefix", "/usr", "--from"]).arg(tools::profile_dir());
    install.arg("--destdir").arg(test.file("stage"));
    test.run(install).success();
    let file = |name: &str| test.file("stage/usr/share/doc/angara").join(name);
    let text = std::fs::read_to_string(file("THIRD-PARTY.txt")).expect("installed");
    let sbom: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(file("sbom.cdx.json")).expect("installed")).expect("JSON");
    let lock = std::fs::read_to_string(tools::root().join("Cargo.lock")).expect("the lock file");
    let components = sbom["components"].as_array().expect("components");
    let mut names = Vec::new();
    for component in components {
        let word = |name: &str| component[name].as_str().expect("a text");
        let locked = format!("name = \"{}\"\nversion = \"{}\"\n", word("name"), word("version"));
        assert!(lock.contains(&locked), "{component}");
        let license = component["licenses"][0]["expression"].as_str().expect("a licence");
        assert!(
            !license.is_empty() && text.contains(&format!("\n{} {}: ", word("name"), word("version"))),
            "{component}"
        );
        assert_eq!(component["hashes"][0]["content"].as_str().map(str::len), Some(64), "{component}");
        names.push(word("name"));
    }
    // In the daemon, in the library, in the commands; and what only tests or builds use.
    assert!(["tokio", "rustix", "clap"].iter().all(|name| names.contains(name)), "{names:?}");
    assert!(!["proptest", "loom", "cc"].iter().any(|name| names.contains(name)), "{names:?}");
    assert!(text.contains("Permission is hereby granted, free of charge"), "texts of licences");
}
