//! Prints `shmem.h` and `shmemx.h` from the tables, and checks that the files in the repository
//! and the list of the specification agree with them.
//!
//! `ANGARA_BLESS=1 cargo test -p shmem-shim header` writes the files anew.

mod generics;

use crate::api::{Group, Sig, extensions, groups};
use std::fmt::Write;
use std::path::PathBuf;

/// C spelling of a name of [`crate::ctypes`].
pub(crate) fn c_base(rust: &str) -> &str {
    match rust {
        "longdouble" | "longdouble_arg" => "long double",
        "schar" => "signed char",
        "longlong" => "long long",
        "uchar" => "unsigned char",
        "ushort" => "unsigned short",
        "uint" => "unsigned int",
        "ulong" => "unsigned long",
        "ulonglong" => "unsigned long long",
        "complexd" => "double _Complex",
        "complexf" => "float _Complex",
        other => other,
    }
}

/// `*const int` and a name to `const int *name`.
fn declare(rust: &str, name: &str) -> String {
    // How `stringify!` spaces the words depends on the path they took through macros.
    let text = rust.replace('*', " * ");
    let (mut base, mut stars, mut constant) = ("", 0, "");
    for word in text.split_whitespace() {
        match word {
            "*" => stars += 1,
            "mut" => {}
            "const" => constant = "const ",
            name => base = name,
        }
    }
    let star = "*".repeat(stars);
    let gap = if name.is_empty() && stars == 0 { "" } else { " " };
    format!("{constant}{}{gap}{star}{name}", c_base(base))
}

/// The C prototype, under another name if wanted.
pub(crate) fn prototype(sig: &Sig, name: &str) -> String {
    let ret = if sig.ret.is_empty() || sig.never_returns() { "void ".into() } else { declare(sig.ret, "") };
    let ret = if ret.ends_with(['*', ' ']) { ret } else { ret + " " };
    let mut args: Vec<String> = sig.args.iter().map(|(name, ty)| declare(ty, name)).collect();
    // The one variadic routine: its further arguments are for a tool that interposes it.
    if sig.name == "shmem_pcontrol" {
        args.push("...".into());
    }
    let args = if args.is_empty() { "void".into() } else { args.join(", ") };
    format!("{ret}{name}({args})")
}

/// Returns what goes before the prototype.
fn attribute(sig: &Sig) -> &'static str {
    if sig.never_returns() { "SHMEM_NORETURN " } else { "" }
}

fn prototypes(out: &mut String, groups: &[Group]) {
    for group in groups {
        writeln!(out, "/* {} */", group.title).unwrap();
        for sig in &group.sigs {
            let mark = if sig.deprecated { " /* deprecated */" } else { "" };
            writeln!(out, "{}{};{mark}", attribute(sig), prototype(sig, sig.name)).unwrap();
        }
        out.push('\n');
    }
    out.push_str("/* The same under the names a profiling tool calls from its wrappers */\n");
    for sig in groups.iter().flat_map(|g| &g.sigs) {
        writeln!(out, "{}{};", attribute(sig), prototype(sig, &format!("p{}", sig.name))).unwrap();
    }
    out.push('\n');
}

fn shmem_h() -> String {
    let mut out = include_str!("top.h").replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    let groups = groups();
    prototypes(&mut out, &groups);
    out.push_str("#ifdef __cplusplus\n}\n#endif\n\n");
    let sigs: Vec<Sig> = groups.iter().flat_map(|g| g.sigs.iter().copied()).collect();
    generics::print(&mut out, &sigs);
    out.push_str("#endif\n");
    out
}

fn shmemx_h() -> String {
    let mut out = String::from(
        "/* Extensions to OpenSHMEM: the torus under the job.\n \
         *\n \
         * Generated from the tables in shmem-shim/src/api; do not edit.\n \
         */\n#ifndef SHMEMX_H\n#define SHMEMX_H\n\n#include <shmem.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n\
         /* Room for the coordinates of any network. */\n#define SHMEMX_DIMS_MAX 4\n\n\
         /* Classes of traffic. */\n\
         #define SHMEMX_PUT 0\n#define SHMEMX_GET 1\n#define SHMEMX_AMO 2\n#define SHMEMX_SYNC 3\n\n\
         /* Trees of routers: -1 is none. PEs of the team start the same operations in the same order; a request\n \
         * is ended by one shmemx_wait, which writes the result of a reduction. Elements are integers. */\n\
         #define SHMEMX_SUM 0\n#define SHMEMX_MAX 1\n#define SHMEMX_MIN 2\n\
         #define SHMEMX_INT32 0\n#define SHMEMX_UINT32 1\n#define SHMEMX_INT64 2\n#define SHMEMX_UINT64 3\n\n",
    );
    prototypes(&mut out, &extensions());
    out.push_str("#ifdef __cplusplus\n}\n#endif\n#endif\n");
    out
}

fn include_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("include")
}

#[test]
fn headers_in_the_repository_are_what_the_tables_print() {
    for (file, text) in [("shmem.h", shmem_h()), ("shmemx.h", shmemx_h())] {
        let path = include_dir().join(file);
        if std::env::var_os("ANGARA_BLESS").is_some() {
            std::fs::write(&path, text).unwrap();
            continue;
        }
        let have = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            have == text,
            "{} is stale; write it anew with: ANGARA_BLESS=1 cargo test -p shmem-shim header",
            path.display()
        );
    }
}

/// A prototype without parameter names and spacing.
fn shape(prototype: &str) -> String {
    let (head, args) = prototype.split_once('(').expect("a prototype");
    let mut words = head.replace('*', " * ");
    words.push('(');
    for arg in args.trim_end_matches(')').split(',') {
        let arg = arg.replace('*', " * ");
        let mut parts: Vec<&str> = arg.split_whitespace().collect();
        // Drop the parameter name: the last word, unless it is the type itself.
        let nameless = matches!(parts.as_slice(), ["void"] | ["..."]);
        if !nameless {
            parts.pop();
        }
        words.push_str(&parts.join(" "));
        words.push(',');
    }
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_routine_of_the_specification_is_declared_as_there() {
    let ours: std::collections::BTreeMap<String, Sig> =
        groups().iter().flat_map(|g| g.sigs.iter().map(|s| (s.name.to_owned(), *s))).collect();
    let list = include_str!("../../tests/api-1.6.tsv");
    let mut wrong = Vec::new();
    for line in list.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        let (name, deprecated, proto) = (fields[0], fields[1] == "deprecated", fields[3]);
        match ours.get(name) {
            None => wrong.push(format!("missing: {proto}")),
            Some(sig) if shape(&prototype(sig, name)) != shape(proto) => {
                wrong.push(format!("ours {} but the list has {proto}", prototype(sig, name)))
            }
            Some(sig) if sig.deprecated != deprecated => wrong.push(format!("{name}: deprecated or not?")),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(list.lines().count() - 1, 1854);
}
