//! The type-generic forms: `shmem_put(dest, ...)` means `shmem_int_put` or another by the type of one
//! argument, with or without a context in front. Macros in C11, overloads in C++.

use super::{c_base, prototype};
use crate::api::Sig;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Types the language can tell apart, each with the other type names that mean it on this platform:
/// the bitwise atomics exist for `int32`, not for `int`.
const DISTINCT: [(&str, &[&str]); 16] = [
    ("float", &["float"]),
    ("double", &["double"]),
    ("longdouble", &["longdouble"]),
    ("char", &["char"]),
    ("schar", &["schar", "int8"]),
    ("short", &["short", "int16"]),
    ("int", &["int", "int32"]),
    ("long", &["long", "int64", "ptrdiff"]),
    ("longlong", &["longlong"]),
    ("uchar", &["uchar", "uint8"]),
    ("ushort", &["ushort", "uint16"]),
    ("uint", &["uint", "uint32"]),
    ("ulong", &["ulong", "uint64", "size"]),
    ("ulonglong", &["ulonglong"]),
    ("complexd", &["complexd"]),
    ("complexf", &["complexf"]),
];

/// Routines with a generic form, by what follows the type name.
const GENERICS: &[&str] = &[
    "put",
    "get",
    "p",
    "g",
    "iput",
    "iget",
    "ibput",
    "ibget",
    "put_nbi",
    "get_nbi",
    "put_signal",
    "put_signal_nbi",
    "atomic_fetch",
    "atomic_set",
    "atomic_swap",
    "atomic_compare_swap",
    "atomic_fetch_inc",
    "atomic_inc",
    "atomic_fetch_add",
    "atomic_add",
    "atomic_fetch_and",
    "atomic_and",
    "atomic_fetch_or",
    "atomic_or",
    "atomic_fetch_xor",
    "atomic_xor",
    "atomic_fetch_nbi",
    "atomic_swap_nbi",
    "atomic_compare_swap_nbi",
    "atomic_fetch_inc_nbi",
    "atomic_fetch_add_nbi",
    "atomic_fetch_and_nbi",
    "atomic_fetch_or_nbi",
    "atomic_fetch_xor_nbi",
    "wait_until",
    "wait_until_all",
    "wait_until_any",
    "wait_until_some",
    "wait_until_all_vector",
    "wait_until_any_vector",
    "wait_until_some_vector",
    "test",
    "test_all",
    "test_any",
    "test_some",
    "test_all_vector",
    "test_any_vector",
    "test_some_vector",
    "broadcast",
    "collect",
    "fcollect",
    "alltoall",
    "alltoalls",
    "and_reduce",
    "or_reduce",
    "xor_reduce",
    "max_reduce",
    "min_reduce",
    "sum_reduce",
    "prod_reduce",
    "sum_inscan",
    "sum_exscan",
    "fetch",
    "set",
    "cswap",
    "finc",
    "inc",
    "fadd",
    "add",
    "swap",
];

/// Generic forms that are not about element types.
const FIXED: &str = "\
#define shmem_signal_set(...) _Generic(SHMEM_ARG1_(__VA_ARGS__), shmem_ctx_t: shmem_ctx_signal_set, default: shmem_signal_set)(__VA_ARGS__)
#define shmem_signal_add(...) _Generic(SHMEM_ARG1_(__VA_ARGS__), shmem_ctx_t: shmem_ctx_signal_add, default: shmem_signal_add)(__VA_ARGS__)
#define shmem_sync(...) _Generic(SHMEM_ARG1_(__VA_ARGS__), shmem_team_t: shmem_team_sync, default: shmem_sync)(__VA_ARGS__)
#define shmem_global_exit(...) shmem_global_exit(__VA_ARGS__)
";

/// `T *`, `const T *` and the volatile ones select `function`.
fn cases(out: &mut String, t: &str, function: &str) {
    for qualifier in ["", "const ", "volatile ", "const volatile "] {
        write!(out, " \\\n    {qualifier}{} *: {function},", c_base(t)).unwrap();
    }
}

/// One generic: its name, and for each distinct type the typed routine.
struct Generic<'a> {
    stem: &'static str,
    routines: Vec<(&'static str, &'a Sig)>,
}

impl Generic<'_> {
    /// The argument whose type decides: the second where a team comes first.
    fn position(&self) -> usize {
        if self.routines[0].1.args.first().is_some_and(|a| a.0 == "team") { 2 } else { 1 }
    }
}

fn with_ctx(sig: &Sig) -> String {
    sig.name.replacen("shmem_", "shmem_ctx_", 1)
}

fn generics<'a>(sigs: &BTreeMap<&str, &'a Sig>) -> Vec<Generic<'a>> {
    let routine =
        |stem: &str, names: &[&str]| names.iter().find_map(|n| sigs.get(format!("shmem_{n}_{stem}").as_str()).copied());
    let all: Vec<Generic> = GENERICS
        .iter()
        .map(|stem| Generic {
            stem,
            routines: DISTINCT.iter().filter_map(|(t, names)| Some((*t, routine(stem, names)?))).collect(),
        })
        .collect();
    assert!(all.iter().all(|g| !g.routines.is_empty()), "every generic stands for some routine");
    all
}

pub(super) fn print(out: &mut String, sigs: &[Sig]) {
    let by_name: BTreeMap<&str, &Sig> = sigs.iter().map(|s| (s.name, s)).collect();
    let generics = generics(&by_name);
    print_c11(out, &generics, &by_name);
    print_cxx(out, &generics, &by_name);
}

fn print_c11(out: &mut String, generics: &[Generic], by_name: &BTreeMap<&str, &Sig>) {
    out.push_str(
        "/* Type-generic forms for C: macros. */\n\
         #if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L\n\n\
         /* Chosen where no argument has a type the routine exists for; calling it fails to compile. */\n\
         typedef struct shmem_no_routine_for_this_type *shmem_no_routine_for_this_type_t;\n\
         static inline void shmem_no_routine_for_this_type(shmem_no_routine_for_this_type_t arg) { (void)arg; }\n\
         #define SHMEM_ARG1_(...) SHMEM_ARG1_OF_(__VA_ARGS__, 0, 0)\n\
         #define SHMEM_ARG1_OF_(a, ...) (a)\n\
         #define SHMEM_ARG2_(...) SHMEM_ARG2_OF_(__VA_ARGS__, 0, 0)\n\
         #define SHMEM_ARG2_OF_(a, b, ...) (b)\n\n",
    );
    for g in generics {
        write!(out, "#define shmem_{}(...) _Generic(SHMEM_ARG{}_(__VA_ARGS__),", g.stem, g.position()).unwrap();
        for (t, sig) in &g.routines {
            cases(out, t, sig.name);
        }
        if by_name.contains_key(with_ctx(g.routines[0].1).as_str()) {
            // With a context in front the second argument decides.
            out.push_str(" \\\n    shmem_ctx_t: _Generic(SHMEM_ARG2_(__VA_ARGS__),");
            for (t, sig) in &g.routines {
                cases(out, t, &with_ctx(sig));
            }
            out.push_str(" \\\n    default: shmem_no_routine_for_this_type),");
        }
        // A function-like macro may be named like a function: its name is not expanded again inside.
        out.push_str(" \\\n    default: shmem_no_routine_for_this_type)(__VA_ARGS__)\n\n");
    }
    out.push_str(FIXED);
    out.push_str("\n#endif\n\n");
}

/// C++ gets the same names as overloads.
fn print_cxx(out: &mut String, generics: &[Generic], by_name: &BTreeMap<&str, &Sig>) {
    out.push_str("/* Type-generic forms for C++: overloads. */\n#ifdef __cplusplus\n\n");
    let mut overload = |name: &str, sig: &Sig| {
        let values: Vec<&str> = sig.args.iter().map(|a| a.0).collect();
        let give = if sig.ret.is_empty() { "" } else { "return " };
        writeln!(out, "static inline {} {{ {give}{}({}); }}", prototype(sig, name), sig.name, values.join(", "))
            .unwrap();
    };
    for g in generics {
        let name = format!("shmem_{}", g.stem);
        let taken = by_name.get(name.as_str());
        for (_, sig) in &g.routines {
            // C++ cannot overload a C function with the same parameters.
            if taken.is_none_or(|t| prototype(t, "") != prototype(sig, "")) {
                overload(&name, sig);
            }
            if let Some(sig) = by_name.get(with_ctx(sig).as_str()) {
                overload(&name, sig);
            }
        }
    }
    overload("shmem_signal_set", by_name["shmem_ctx_signal_set"]);
    overload("shmem_signal_add", by_name["shmem_ctx_signal_add"]);
    overload("shmem_sync", by_name["shmem_team_sync"]);
    out.push_str("\n#endif\n");
}

#[test]
fn every_generic_of_the_specification_is_there() {
    let list = include_str!("../../tests/generic-1.6.tsv");
    for name in list.lines().skip(1).filter_map(|l| l.split('\t').next()) {
        let stem = name.strip_prefix("shmem_").unwrap();
        assert!(GENERICS.contains(&stem) || FIXED.contains(&format!("#define {name}(")), "{name}");
    }
    assert_eq!(GENERICS.len() + FIXED.lines().count(), list.lines().count() - 1);
}
