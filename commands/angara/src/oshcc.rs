//! `oshcc` and `oshc++`: the machine's own compiler with the include path, library and run path an
//! OpenSHMEM program needs, all found from this program's own place.

use angara_control::error::{Failed, say};
use angara_control::install;
use angara_control::program::in_path;
use clap::{Arg, ArgAction};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Which compiler is wrapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Language {
    /// Name of the wrapper.
    wrapper: &'static str,
    /// Variables that choose the compiler, strongest first.
    variables: [&'static str; 2],
    /// Compilers to look for otherwise.
    compilers: [&'static str; 3],
    /// Debian package that has one.
    package: &'static str,
}

const C: Language =
    Language { wrapper: "oshcc", variables: ["OSHCC_CC", "CC"], compilers: ["cc", "gcc", "clang"], package: "gcc" };
const CXX: Language = Language {
    wrapper: "oshc++",
    variables: ["OSHCXX_CXX", "CXX"],
    compilers: ["c++", "g++", "clang++"],
    package: "g++",
};

fn language(args: &[OsString]) -> Language {
    let name = args.first().map(Path::new).and_then(Path::file_name).unwrap_or(OsStr::new("oshcc")).to_string_lossy();
    if name.contains("++") || name.contains("cxx") || name.contains("CC") { CXX } else { C }
}

/// Name under which this program was called.
pub fn name(args: &[OsString]) -> &'static str {
    language(args).wrapper
}

/// Both commands, for their manual pages.
pub fn commands() -> [clap::Command; 2] {
    [C, CXX].map(described)
}

/// Its options. They are not parsed with this: all but a few are the compiler's.
fn described(language: Language) -> clap::Command {
    let Language { wrapper, variables: [strongest, usual], .. } = language;
    let kind = if language == C { "C" } else { "C++" };
    let flag = |name: &'static str, help: String| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    clap::Command::new(wrapper)
        .version(env!("CARGO_PKG_VERSION"))
        .disable_version_flag(true)
        .about(format!("Compile and link OpenSHMEM programs in {kind}"))
        .long_about(format!(
            "{wrapper} is the machine's own {kind} compiler with the include path, library and run path added \
             that an OpenSHMEM program needs. They are found from the place of {wrapper} itself."
        ))
        .arg(flag("show", "Print the command instead of running it; -show, -showme and --showme do the same".into()))
        .arg(flag("showme:compile", "Print only what is added to compile".into()))
        .arg(flag("showme:link", "Print only what is added to link".into()))
        .arg(flag(
            "check-races",
            "Let the program note its own loads and stores, for `angara run --check=races`; with gcc, and slow".into(),
        ))
        .arg(Arg::new("arguments").value_name("ARGUMENTS").num_args(0..).help("Passed on to the compiler"))
        .after_help(format!(
            "ENVIRONMENT: {strongest} or {usual} choose the compiler, options included: `{usual}='ccache gcc'`.\n\n\
             EXIT STATUS: that of the compiler, 1 if it cannot be started."
        ))
}

/// Becomes the compiler, or shows its command.
pub fn main(args: &[OsString]) -> Result<u8, Failed> {
    let language = language(args);
    let user = &args[1..];
    if user.first().is_some_and(|a| a == "--help" || a == "-help") {
        say!("{}", described(language).render_long_help())?;
        say!("The compiler is {}.", shown(&compiler(language)?))?;
        return Ok(0);
    }
    let show = |a: &OsString| matches!(a.to_str(), Some("-show" | "--show" | "-showme" | "--showme"));
    let only =
        |a: &OsString, what: &str| a.to_str().is_some_and(|a| a.trim_start_matches('-') == format!("showme:{what}"));
    let compiler = compiler(language)?;
    let mut flags = Flags::find()?;
    if language == CXX {
        flags.no_copies();
    }
    if user.iter().any(checks_races) {
        require_gcc(&compiler)?;
        flags.check_races();
    }
    if !user.iter().any(probes_stacks) && can_probe_stacks(&compiler, language) {
        flags.compile.push(PROBES.into());
    }
    if user.iter().any(|a| only(a, "compile")) {
        say!("{}", shown(&flags.compile))?;
        return Ok(0);
    }
    if user.iter().any(|a| only(a, "link")) {
        say!("{}", shown(&flags.link))?;
        return Ok(0);
    }
    let rest: Vec<OsString> = user.iter().filter(|a| !show(a) && !checks_races(a)).cloned().collect();
    let command = command(&compiler, &flags, &rest);
    if user.iter().any(show) {
        say!("{}", shown(&command))?;
        return Ok(0);
    }
    let error = Command::new(&command[0]).args(&command[1..]).exec();
    Err(Failed::runtime(format!("cannot execute {}: {error}", command[0].display()), no_compiler(language).remedy))
}

/// Routines of the C library through which a program touches memory, and their forms that check lengths.
const TOUCHING: [&str; 10] = [
    "memcpy",
    "__memcpy_chk",
    "memmove",
    "__memmove_chk",
    "memset",
    "__memset_chk",
    "memcmp",
    "strlen",
    "strcpy",
    "__strcpy_chk",
];

fn checks_races(argument: &OsString) -> bool {
    argument == "--check-races"
}

/// Fails unless the compiler is gcc: others understand the options below in another way.
fn require_gcc(compiler: &[OsString]) -> Result<(), Failed> {
    let mut command = Command::new(&compiler[0]);
    command.args(&compiler[1..]).arg("-dumpspecs").stdin(Stdio::null());
    if command.output().is_ok_and(|done| done.status.success()) {
        return Ok(());
    }
    let why = format!("--check-races needs gcc, and {} is another compiler", shown(compiler));
    Err(Failed::usage(why, "install gcc, and set OSHCC_CC=gcc or OSHCXX_CXX=g++"))
}

/// Lets functions with large frames touch every page on their way down, so that they cannot step over the guard below a stack:
/// where PEs are coroutines, another PE's data may lie behind it.
const PROBES: &str = "-fstack-clash-protection";

/// The user has decided.
fn probes_stacks(argument: &OsString) -> bool {
    argument == PROBES || argument == "-fno-stack-clash-protection"
}

/// Tells whether the compiler takes the option, and does not ignore it.
fn can_probe_stacks(compiler: &[OsString], language: Language) -> bool {
    let mut command = Command::new(&compiler[0]);
    command.args(&compiler[1..]).args([PROBES, "-Werror", "-fsyntax-only", "-x"]);
    command.args([if language == C { "c" } else { "c++" }, "/dev/null"]);
    let done = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

/// What is added to a compiler's command line.
pub struct Flags {
    compile: Vec<OsString>,
    link: Vec<OsString>,
}

impl Flags {
    /// Finds header and library beside this program.
    pub fn find() -> Result<Flags, Failed> {
        let bin = install::bin_dir()?;
        let missing = |what: &str| {
            Failed::runtime(format!("{what} not found beside {}", bin.display()), install::build_hint(&bin))
        };
        let include = install::include_dir(&bin).ok_or_else(|| missing(install::HEADER))?;
        let lib = install::lib_dir(&bin).ok_or_else(|| missing(install::LIBRARY))?;
        Ok(Flags::new(&include, &lib))
    }

    fn new(include: &Path, lib: &Path) -> Flags {
        let joined = |prefix: &str, dir: &Path| {
            let mut s = OsString::from(prefix);
            s.push(dir);
            s
        };
        let mut link = vec![joined("-L", lib), joined("-Wl,-rpath,", lib), "-lsma".into()];
        if lib.join("libangara.so").exists() {
            // What `angara.h` declares, where a program uses it.
            link.extend(["-Wl,--push-state,--as-needed", "-langara", "-Wl,--pop-state"].map(OsString::from));
        }
        Flags { compile: vec![joined("-I", include)], link }
    }
}

impl Flags {
    /// No copies of the C++ library's objects in the program, so that its PEs can be coroutines. The second option lets functions be
    /// inlined as without the first. What the user gives comes later, and counts.
    fn no_copies(&mut self) {
        self.compile.extend(["-fPIC", "-fno-semantic-interposition"].map(OsString::from));
    }

    /// Calls of libsma at each load and store. The option for it goes to the compiler proper: its driver would link libtsan.
    fn check_races(&mut self) {
        let calls = ["-g", "-Wp,-fsanitize=thread", "-Wp,--param=tsan-instrument-func-entry-exit=0"];
        self.compile.extend(calls.map(OsString::from));
        self.link.extend(TOUCHING.map(|routine| format!("-Wl,--wrap={routine}").into()));
    }
}

/// The whole command: libraries come after the objects that need them, and not at all if nothing is linked.
fn command(compiler: &[OsString], flags: &Flags, user: &[OsString]) -> Vec<OsString> {
    let stops = |a: &OsString| matches!(a.to_str(), Some("-c" | "-S" | "-E" | "-M" | "-MM" | "-fsyntax-only"));
    let mut all = compiler.to_vec();
    all.extend(flags.compile.iter().cloned());
    all.extend(user.iter().cloned());
    if !user.iter().any(stops) && !user.is_empty() {
        all.extend(flags.link.iter().cloned());
    }
    all
}

/// The compiler's command: from the environment, which may hold options too (`ccache gcc`), or the first one in PATH.
fn compiler(language: Language) -> Result<Vec<OsString>, Failed> {
    let own = std::env::current_exe().and_then(std::fs::canonicalize).ok();
    for variable in language.variables {
        if let Some(value) = std::env::var(variable).ok().filter(|v| !v.trim().is_empty()) {
            let words: Vec<OsString> = value.split_whitespace().map(OsString::from).collect();
            return match in_path(&words[0]) {
                // `make CC=oshcc` exports the variable: the wrapper does not wrap itself.
                Some(found) if own.as_deref().is_some_and(|own| is_wrapper(&found, own)) => continue,
                Some(_) => Ok(words),
                None => Err(Failed::runtime(
                    format!("{variable} names the compiler `{}`, which does not exist", words[0].display()),
                    format!("correct or unset {variable}"),
                )),
            };
        }
    }
    match language.compilers.iter().find(|c| in_path(OsStr::new(c)).is_some()) {
        Some(compiler) => Ok(vec![compiler.into()]),
        None => Err(no_compiler(language)),
    }
}

/// True if `found` is the wrapper whose file is `own`. Its other name is a link, or a script beside it that starts it.
fn is_wrapper(found: &Path, own: &Path) -> bool {
    let Ok(found) = std::fs::canonicalize(found) else { return false };
    let names = [C.wrapper, CXX.wrapper].map(|name| Some(OsStr::new(name)));
    found == own || found.parent() == own.parent() && names.contains(&found.file_name())
}

fn no_compiler(language: Language) -> Failed {
    let [first, second, third] = language.compilers;
    Failed::runtime(
        format!("no compiler: none of {first}, {second}, {third} is in PATH"),
        format!("install one (Debian: apt-get install {}), or set {}", language.package, language.variables[1]),
    )
}

/// Fails with the remedy if there is no C compiler.
pub fn require_cc() -> Result<(), Failed> {
    compiler(C).map(drop)
}

/// A command as one would type it.
fn shown(command: &[OsString]) -> String {
    let word = |w: &OsString| {
        let w = w.to_string_lossy();
        let plain = w.chars().all(|c| c.is_ascii_alphanumeric() || "-_./,=+:@%".contains(c)) && !w.is_empty();
        if plain { w.into_owned() } else { format!("'{}'", w.replace('\'', "'\\''")) }
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(user: &str) -> String {
        let flags = Flags::new(Path::new("/t/include"), Path::new("/t/lib"));
        let user: Vec<OsString> = user.split(' ').filter(|w| !w.is_empty()).map(OsString::from).collect();
        shown(&command(&["cc".into()], &flags, &user))
    }

    #[test]
    fn libraries_follow_the_objects_and_only_when_linking() {
        assert_eq!(line("a.c -o a"), "cc -I/t/include a.c -o a -L/t/lib -Wl,-rpath,/t/lib -lsma");
        assert_eq!(line("-c a.c"), "cc -I/t/include -c a.c");
        assert_eq!(line(""), "cc -I/t/include");
    }

    #[test]
    fn options_of_the_user_win_over_those_for_coroutines() {
        let mut flags = Flags::new(Path::new("/t/include"), Path::new("/t/lib"));
        flags.no_copies();
        let user = ["-fno-pic", "-no-pie", "-c", "a.cc"].map(OsString::from);
        let line = shown(&command(&["c++".into()], &flags, &user));
        assert_eq!(line, "c++ -I/t/include -fPIC -fno-semantic-interposition -fno-pic -no-pie -c a.cc");
    }

    #[test]
    fn stacks_are_probed_where_the_compiler_can_and_the_user_says_nothing() {
        let takes = |compiler: &str| can_probe_stacks(&[compiler.into()], C);
        assert!(takes("true") && !takes("false") && !takes("no-such-compiler"));
        assert!([PROBES, "-fno-stack-clash-protection"].iter().all(|word| probes_stacks(&word.into())));
        assert!(!probes_stacks(&"-O2".into()));
    }

    #[test]
    fn the_name_chooses_the_language() {
        assert_eq!(name(&["/x/oshcc".into()]), "oshcc");
        assert_eq!(name(&["/x/oshc++".into()]), "oshc++");
        assert_eq!(name(&["oshcxx".into()]), "oshc++");
        assert_eq!(name(&[]), "oshcc");
    }

    #[test]
    fn shown_commands_can_be_pasted() {
        assert_eq!(shown(&["cc".into(), "-DX=a b".into(), "it's".into()]), "cc '-DX=a b' 'it'\\''s'");
    }
}
