//! `cargo xtask deb`: packages have all that is installed, each file once and none of Open MPI's, and work from where they
//! are unpacked. `cargo xtask deb --check` does what takes a Debian of its own.

use angara_tests::users::only_root_can;
use angara_tests::{Finished, Test, tools};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const PACKAGES: [&str; 4] = ["angara", "libsma1", "libangara1", "libangara-dev"];

/// Commands of Debian's openmpi-bin that ours must not replace.
const TAKEN: [&str; 5] =
    ["/usr/bin/oshcc", "/usr/bin/oshc++", "/usr/bin/oshrun", "/usr/share/man/man1/oshcc.1.gz", "/usr/bin/mpirun"];

fn have_tools() -> bool {
    for (tool, package) in
        [("dpkg-deb", "dpkg"), ("dpkg-shlibdeps", "dpkg-dev"), ("dpkg-gencontrol", "dpkg-dev"), ("strip", "binutils")]
    {
        if !tools::have(tool) {
            println!("skipped: no {tool} (Debian: apt-get install {package})");
            return false;
        }
    }
    true
}

/// `cargo xtask deb` with `words`.
fn deb(test: &Test, words: &[&str]) -> Finished {
    let mut command = test.command(tools::tool("xtask"));
    command.current_dir(tools::root()).arg("deb").arg("--from").arg(tools::profile_dir()).args(words);
    // To pack takes longer than all else.
    command.env("DPKG_DEB_COMPRESSOR_TYPE", "gzip").env("DPKG_DEB_COMPRESSOR_LEVEL", "1");
    test.run(command)
}

/// Returns what `words` prints.
fn output(test: &Test, words: &[&str]) -> String {
    let mut command = test.command(words[0]);
    command.args(&words[1..]);
    test.run(command).success().stdout
}

/// A file in a package.
struct Entry {
    mode: String,
    owner: String,
    package: &'static str,
}

/// Files of all packages, by path; links without where they lead.
fn contents(test: &Test, made: &BTreeMap<&'static str, PathBuf>) -> BTreeMap<String, Entry> {
    let mut all = BTreeMap::new();
    for (&package, file) in made {
        for line in output(test, &["dpkg-deb", "--contents", file.to_str().expect("utf-8")]).lines() {
            let mut words = line.split_whitespace();
            let (mode, owner) = (words.next().expect("a mode"), words.next().expect("an owner"));
            let path = words.nth(3).expect("a path").trim_start_matches('.').to_string();
            let entry = Entry { mode: mode.into(), owner: owner.into(), package };
            if mode.starts_with('d') {
                assert_eq!(mode, "drwxr-xr-x", "{path}");
            } else if let Some(other) = all.insert(path.clone(), entry) {
                panic!("{path} is in {} and in {package}", other.package);
            }
        }
    }
    all
}

/// Everybody may read everything, programs alone are run, and nothing is Open MPI's.
fn check_contents(test: &Test, all: &BTreeMap<String, Entry>) {
    for (path, entry) in all {
        let mode = match (entry.mode.as_bytes()[0], path.starts_with("/usr/lib/angara/bin/")) {
            (b'l', _) => "lrwxrwxrwx",
            (_, true) => "-rwxr-xr-x",
            (_, false) => "-rw-r--r--",
        };
        assert_eq!((entry.mode.as_str(), entry.owner.as_str()), (mode, "root/root"), "{path} of {}", entry.package);
    }
    let taken = |path: &str| all.get(path).map(|entry| format!("{path} of {}", entry.package));
    let ours: Vec<String> = TAKEN.iter().filter_map(|path| taken(path)).collect();
    assert!(ours.is_empty(), "openmpi-bin has these: {ours:?}");
    // Where they are installed, all of their files.
    for other in ["openmpi-bin", "libopenmpi-dev", "libopenmpi3", "mpich", "libfabric1"] {
        let mut list = test.command("dpkg");
        list.args(["--listfiles", other]);
        let theirs = test.run(list);
        let both: Vec<String> = theirs.stdout.lines().filter_map(taken).collect();
        assert!(theirs.code() != 0 || both.is_empty(), "{other} has these: {both:?}");
    }
    for package in ["angara", "libsma1", "libangara1", "libangara-dev"] {
        for file in ["copyright", "THIRD-PARTY.txt.gz", "sbom.cdx.json"] {
            let path = format!("/usr/share/doc/{package}/{file}");
            assert_eq!(all.get(&path).map(|entry| entry.package), Some(package), "{path}");
        }
    }
    for (path, package) in [
        ("/usr/bin/angara", "angara"),
        ("/usr/bin/oshrun.angara", "angara"),
        ("/usr/lib/angara/bin/angara-pes", "angara"),
        ("/usr/lib/angara/lib/angara/libibverbs.so.1", "angara"),
        ("/usr/lib/systemd/system/fabricd.service", "angara"),
        ("/etc/angara/fabricd.toml", "angara"),
        ("/usr/lib/x86_64-linux-gnu/wireshark/plugins/angara.lua", "angara"),
        ("/usr/bin/oshc++.angara", "libangara-dev"),
        ("/usr/include/shmem.h", "libangara-dev"),
        ("/usr/share/man/man1/oshcc.angara.1.gz", "libangara-dev"),
        ("/usr/lib/x86_64-linux-gnu/libsma.so.1", "libsma1"),
        ("/usr/lib/x86_64-linux-gnu/libangara.so.1", "libangara1"),
    ] {
        assert_eq!(all.get(path).map(|entry| entry.package), Some(package), "{path}");
    }
}

/// Each package lists, for tools, what others have written of it: what is in it and no more.
fn check_notices(root: &Path) {
    let parts = |package: &str| {
        let file = root.join("usr/share/doc").join(package).join("sbom.cdx.json");
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let list: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((&list["bomFormat"], &list["specVersion"]), (&"CycloneDX".into(), &"1.5".into()), "{package}");
        assert_eq!(list["metadata"]["component"]["name"], package);
        let all = list["components"].as_array().expect("a list").iter();
        all.map(|part| part["name"].as_str().expect("a name").to_string()).collect::<BTreeSet<_>>()
    };
    let of = PACKAGES.map(parts);
    let has = |name: &str| of.each_ref().map(|parts| parts.contains(name));
    // Everything shares memory; the daemon serves, commands have options, and programs find where they went wrong.
    assert_eq!(has("rustix"), [true; 4]);
    assert_eq!(has("hyper"), [true, false, false, false]);
    assert_eq!(has("clap"), [true, false, false, true]);
    assert!(has("backtrace")[1] && !has("backtrace")[2], "{:?}", has("backtrace"));
}

/// Whatever `cargo xtask install` puts somewhere is in some package; licences are in every Debian.
fn check_complete(test: &Test, all: &BTreeMap<String, Entry>) {
    let stage = test.file("stage");
    let mut install = test.command(tools::tool("xtask"));
    install.args(["install", "--systemd", "--prefix", "/usr", "--from"]).arg(tools::profile_dir());
    install.arg("--destdir").arg(&stage);
    test.run(install).success();
    let list = std::fs::read_to_string(stage.join("usr/share/angara/manifest")).expect("installed");
    // Names alone: packages have files elsewhere, manual pages compressed, some with an ending.
    let plain = |path: &str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name.trim_end_matches(".gz").replace(".angara", "").to_string()
    };
    let packed: BTreeSet<String> = all.keys().map(|path| plain(path)).collect();
    let files = list.lines().filter_map(|line| line.strip_prefix("file "));
    let lost: Vec<&str> = files
        .filter(|path| !path.contains("/LICENSE-") && !path.ends_with("/manifest") && !packed.contains(&plain(path)))
        .collect();
    assert!(lost.is_empty(), "no package has {lost:?}");
}

/// What Debian reads of each.
fn check_control(test: &Test, made: &BTreeMap<&'static str, PathBuf>, version: &str) {
    for (package, file) in made {
        let file = file.to_str().expect("utf-8");
        let field = |name: &str| output(test, &["dpkg-deb", "--field", file, name]).trim().to_string();
        assert_eq!((field("Package"), field("Version")), (package.to_string(), version.to_string()));
        assert!(field("Depends").contains("libc6 (>= "), "{package}: {}", field("Depends"));
        let at = test.file(&format!("control-{package}"));
        output(test, &["dpkg-deb", "--control", file, at.to_str().expect("utf-8")]);
        for script in ["postinst", "prerm", "postrm"] {
            let script = at.join(script);
            let has = *package == "angara" || *package == "libangara-dev" && !script.ends_with("postrm");
            assert_eq!(script.exists(), has, "{}", script.display());
            if script.exists() {
                output(test, &["sh", "-n", script.to_str().expect("utf-8")]);
            }
        }
        let text = |name: &str| std::fs::read_to_string(at.join(name)).unwrap_or_default();
        match *package {
            "angara" => {
                assert_eq!(text("conffiles"), "/etc/angara/fabricd.toml\n");
                // What `check_alternatives` tries with the other names.
                let parts = [("postinst", "\nregister oshrun\n"), ("prerm", "\n    forget oshrun\n")];
                assert!(parts.iter().all(|(script, line)| text(script).contains(line)), "oshrun is no alternative");
                assert_eq!(text("triggers"), "interest-noawait /usr/bin/oshrun\n");
            }
            "libsma1" => assert_eq!(text("shlibs"), "libsma 1 libsma1 (>= 7.5)\n"),
            "libangara1" => assert_eq!(text("shlibs"), "libangara 1 libangara1 (>= 7.5)\n"),
            _ => assert!(field("Depends").contains(&format!("libsma1 (= {version})")), "{}", field("Depends")),
        }
    }
}

/// Compiles and runs programs with what lies below `root`, as packages put it there.
fn check_use(test: &Test, root: &Path) {
    let at = |path: &str| root.join(path).to_str().expect("utf-8").to_string();
    let source = tools::root().join("examples/c/hello.c");
    let program = test.file("hello").to_str().expect("utf-8").to_string();
    output(test, &[&at("usr/bin/oshcc.angara"), source.to_str().expect("utf-8"), "-o", &program]);
    let said = output(test, &[&at("usr/bin/oshrun.angara"), "-n", "2", "--timeout", "200", &program]);
    assert_eq!(said.matches("of 2").count(), 2, "{said}");
    let library = format!("libsma.so.1 => {}", at("usr/lib/angara/lib/libsma.so.1"));
    let ldd = output(test, &["ldd", &program]);
    assert!(ldd.contains(&library), "no `{library}`: {ldd}");
    let own = "-Wl,--push-state,--as-needed -langara -Wl,--pop-state";
    let shown = output(test, &[&at("usr/bin/oshc++.angara"), "--showme:link"]);
    assert_eq!(shown.trim(), format!("-L{0} -Wl,-rpath,{0} -lsma {own}", at("usr/lib/angara/lib")));
    let run = [&at("usr/bin/angara"), "run", "-n", "2", "--timeout", "200", "--clock", "virtual", &program];
    assert_eq!(output(test, &run).matches("of 2").count(), 2, "in virtual time");
    let run = [&run[..run.len() - 1], &["--pes-as", "coroutines", &program]].concat();
    assert_eq!(output(test, &run).matches("of 2").count(), 2, "PEs as coroutines");
    let doctor = output(test, &[&at("usr/bin/angara"), "doctor"]);
    for part in ["bin/fabricd", "bin/angara-pes", "lib/libsma.so", "include/shmem.h", "lib/libfabric/libangara-fi.so"] {
        assert!(doctor.contains(&at(&format!("usr/lib/angara/{part}"))), "{part}: {doctor}");
    }
    if tools::have("pkg-config") {
        for (name, dir) in [("sma", "pkgconfig"), ("angara", "pkgconfig"), ("oshmem", "angara/pkgconfig")] {
            let mut ask = test.command("pkg-config");
            ask.env("PKG_CONFIG_PATH", root.join("usr/lib/x86_64-linux-gnu").join(dir));
            for variable in ["libdir", "includedir"] {
                ask.arg(format!("--variable={variable}"));
            }
            ask.arg(name);
            let found = test.run(ask).success().stdout;
            let found: Vec<_> = found.split_whitespace().map(|dir| Path::new(dir).canonicalize()).collect();
            assert!(found.iter().all(Result::is_ok) && !found.is_empty(), "{name}: {found:?}");
        }
    }
}

/// The usual names lead to ours where another package has none of them, whichever comes and goes first, and what that one has
/// stays as it is. `ours`: the package with the wrappers.
fn check_alternatives(test: &Test, ours: &Path, version: &str) {
    if only_root_can() {
        return;
    }
    let (theirs, root) = (test.file("openmpi-bin"), test.file("alternatives"));
    let dirs = ["usr/bin", "etc/alternatives", "var/log", "var/lib/dpkg/info", "var/lib/dpkg/updates"];
    for dir in dirs.map(|dir| root.join(dir)).into_iter().chain(["usr/bin", "DEBIAN"].map(|dir| theirs.join(dir))) {
        std::fs::create_dir_all(dir).expect("made");
    }
    // What ours needs is there, else it is not told of theirs; and a directory does not become empty.
    let needed =
        [("libsma1", version), ("libangara1", version), ("libc6-dev", "9"), ("libc6", "9"), ("libgcc-s1", "99")];
    let status = needed.map(|(name, version)| {
        let rest = "Status: install ok installed\nMaintainer: x <x@x>\nDescription: needed\n";
        std::fs::write(root.join(format!("var/lib/dpkg/info/{name}.list")), "").expect("written");
        format!("Package: {name}\nVersion: {version}\nArchitecture: amd64\n{rest}\n")
    });
    std::fs::write(root.join("var/lib/dpkg/status"), status.concat()).expect("written");
    std::fs::write(root.join("usr/bin/other"), "").expect("written");
    let control = "Package: openmpi-bin\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: another\n";
    std::fs::write(theirs.join("DEBIAN/control"), control).expect("written");
    let names = ["oshcc", "oshc++"];
    for name in names {
        std::os::unix::fs::symlink("opal_wrapper", theirs.join("usr/bin").join(name)).expect("linked");
    }
    let other = test.file("other.deb");
    let text = |path: &Path| path.to_str().expect("utf-8").to_string();
    output(test, &["dpkg-deb", "--build", &text(&theirs), &text(&other)]);

    let dpkg = |words: &[&str]| {
        let instead = ["--force-script-chrootless", "--log=/dev/null"];
        let mut dpkg = test.command("dpkg");
        dpkg.arg("--root").arg(&root).args(instead).args(words);
        test.run(dpkg).success();
        let shown = |path: PathBuf| std::fs::read_link(path).map_or("none".into(), |to| to.display().to_string());
        let known = root.join("var/lib/dpkg/alternatives");
        names.map(|name| {
            let lead = shown(root.join("usr/bin").join(name));
            let (registered, choice) = (known.join(name).exists(), shown(root.join("etc/alternatives").join(name)));
            let free = (false, "none".to_string());
            match lead == format!("/etc/alternatives/{name}") {
                true => assert_eq!((registered, choice), (true, format!("/usr/lib/angara/bin/{name}")), "{words:?}"),
                false => assert_eq!((registered, choice), free, "{words:?}: something is left of {name}"),
            }
            lead
        })
    };
    let usual = names.map(|name| format!("/etc/alternatives/{name}"));
    let (foreign, none) = (["opal_wrapper"; 2], ["none"; 2]);
    let (ours, other) = (text(ours), text(&other));
    // Ours first, theirs in its place and gone again.
    assert_eq!(dpkg(&["--install", &ours]), usual);
    assert_eq!(dpkg(&["--install", &other]), foreign);
    assert_eq!(dpkg(&["--remove", "openmpi-bin"]), usual);
    assert_eq!(dpkg(&["--install", &ours]), usual);
    assert_eq!(dpkg(&["--remove", "libangara-dev"]), none);
    // Theirs first.
    assert_eq!(dpkg(&["--install", &other]), foreign);
    assert_eq!(dpkg(&["--install", &ours]), foreign);
    assert_eq!(dpkg(&["--remove", "libangara-dev"]), foreign);
    assert_eq!(dpkg(&["--install", &ours]), foreign);
    assert_eq!(dpkg(&["--remove", "openmpi-bin"]), usual);
}

/// Nothing to debug with and no symbols but those that are linked.
fn check_stripped(test: &Test, root: &Path) {
    for file in ["x86_64-linux-gnu/libsma.so.1", "x86_64-linux-gnu/libangara.so.1", "angara/bin/fabricd"] {
        let sections = output(
            test,
            &["readelf", "--section-headers", "--wide", root.join("usr/lib").join(file).to_str().expect("utf-8")],
        );
        assert!(sections.contains(".text"), "{file}: {sections}");
        assert!(
            !sections.contains(".debug_info") && !sections.contains(".symtab"),
            "{file} is not stripped: {sections}"
        );
    }
}

#[test]
fn packages_have_everything_once_and_work() {
    if !have_tools() {
        return;
    }
    let test = Test::new("packages");
    let out = test.file("out");
    let version = "7.5-0.1~try";
    let done = deb(&test, &["--version", version, "--out", out.to_str().expect("utf-8")]).success();
    let made: BTreeMap<&'static str, PathBuf> =
        PACKAGES.iter().map(|name| (*name, out.join(format!("{name}_{version}_amd64.deb")))).collect();
    let said: BTreeSet<&Path> = done.stdout.lines().map(Path::new).collect();
    assert_eq!(said, made.values().map(PathBuf::as_path).collect(), "{done}");
    assert_eq!(
        std::fs::read_dir(&out).expect("there").count(),
        PACKAGES.len(),
        "something is left beside the packages"
    );
    let all = contents(&test, &made);
    check_contents(&test, &all);
    check_complete(&test, &all);
    check_control(&test, &made, version);
    let root = test.file("root");
    for file in made.values() {
        output(&test, &["dpkg-deb", "-x", file.to_str().expect("utf-8"), root.to_str().expect("utf-8")]);
    }
    check_notices(&root);
    check_stripped(&test, &root);
    check_use(&test, &root);
    check_alternatives(&test, &made["libangara-dev"], version);
    if tools::have("lintian") {
        let mut lintian = test.command("lintian");
        lintian.args(["--fail-on", "error,warning", "--tag-display-limit", "0"]).args(made.values());
        // It leaves files where others would be.
        let room = test.file("lintian");
        std::fs::create_dir(&room).expect("made");
        lintian.env("TMPDIR", &room);
        test.run(lintian).success();
    } else {
        println!("skipped: no lintian (Debian: apt-get install lintian)");
    }
    test.assert_clean();
}

/// Nothing starts containers here; what they are made of agrees with the rest.
#[test]
fn the_containers_use_what_is_there() {
    let read = |name: &str| std::fs::read_to_string(tools::root().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let file = read("Containerfile");
    let stages: Vec<&str> = file.lines().filter_map(|l| l.strip_prefix("FROM ")?.split(" AS ").nth(1)).collect();
    let manifest = read("Cargo.toml");
    let rust = manifest.lines().find_map(|l| l.strip_prefix("rust-version = ")).expect("a version").trim_matches('"');
    assert!(file.contains(&format!("FROM rust:{rust}-slim-bookworm AS develop")), "another Rust than {rust}: {file}");
    assert_eq!(file.lines().filter(|l| l.starts_with("FROM ")).count(), stages.len() + 1, "{file}");
    let last = file.rsplit("\nFROM ").next().expect("a stage");
    assert!(last.contains("\nUSER 1000\n"), "the last stage runs as root: {last}");
    let editor: serde_json::Value =
        serde_json::from_str(&read(".devcontainer/devcontainer.json")).expect("devcontainer.json is JSON");
    let build = &editor["build"];
    let path = build["dockerfile"].as_str().expect("a path from .devcontainer");
    assert!(tools::root().join(".devcontainer").join(path).ends_with("../Containerfile"), "{path}");
    assert!(stages.contains(&build["target"].as_str().expect("a stage")), "{stages:?} and {build}");
    let user = editor["remoteUser"].as_str().expect("a user");
    // What it runs when it is made puts commands where its `PATH` leads first, with what its stage has.
    let script = read(editor["postCreateCommand"].as_str().expect("a script"));
    let path = editor["remoteEnv"]["PATH"].as_str().expect("a list of directories");
    let home =
        path.strip_prefix(&format!("/home/{user}/")).and_then(|rest| rest.split("/bin:").next()).expect("of its home");
    assert!(script.contains(&format!("~/{home}/bin/pip install")), "{home} is not made: {script}");
    assert!(file.split("\nFROM ").nth(1).is_some_and(|stage| stage.contains(" python3-venv ")), "no venv: {file}");
    assert!(file.contains(&format!(" /bin/bash {user}\n")), "no stage makes the user {user}");
}

#[test]
fn what_cannot_be_packed_is_named() {
    if !have_tools() {
        return;
    }
    let test = Test::new("packages-bad");
    let out = test.file("out");
    let shown = out.to_str().expect("utf-8");
    deb(&test, &["--version", "1_0", "--out", shown]).failure(&["--version 1_0", "write one like"]);
    deb(&test, &["--version", "", "--out", shown]).failure(&["--version needs a version"]);
    deb(&test, &["--prefix", "/opt"]).failure(&["unknown option --prefix of deb", "--out DIR"]);
    deb(&test, &["--check=yes"]).failure(&["--check takes no value", "`yes`"]);
    let file = test.file("file");
    std::fs::write(&file, "").expect("written");
    let inside = file.join("below");
    deb(&test, &["--out", inside.to_str().expect("utf-8")]).failure(&["cannot make", "below"]);
    let empty = test.file("empty");
    std::fs::create_dir(&empty).expect("made");
    deb(&test, &["--out", shown, "--from", empty.to_str().expect("utf-8")])
        .failure(&["empty/angara", "build it first"]);
    assert!(std::fs::read_dir(&out).map_or(0, Iterator::count) == 0, "something is left after a failure");
    let mut help = test.command(tools::tool("xtask"));
    help.args(["deb", "--help"]);
    let done = test.run(help).success();
    assert!(done.stdout.contains("cargo xtask deb [--out DIR]"), "{done}");
    test.assert_clean();
}
