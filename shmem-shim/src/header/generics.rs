//! The C11 type-generic macros: `shmem_put(dest, ...)` picks `shmem_int_put` by the type of one
//! argument, with or without a context in front.

use super::c_base;
use crate::api::Sig;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Types `_Generic` can tell apart; the fixed-width names are some of these on this platform.
const DISTINCT: [&str; 16] = [
    "float",
    "double",
    "longdouble",
    "char",
    "schar",
    "short",
    "int",
    "long",
    "longlong",
    "uchar",
    "ushort",
    "uint",
    "ulong",
    "ulonglong",
    "complexd",
    "complexf",
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

pub(super) fn print(out: &mut String, sigs: &[Sig]) {
    let names: BTreeSet<&str> = sigs.iter().map(|s| s.name).collect();
    out.push_str(
        "/* Type-generic forms. C only: a macro named like a function would get in the way of C++ code. */\n\
         #if !defined(__cplusplus) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L\n\n\
         /* Chosen where no argument has a type the routine exists for; calling it fails to compile. */\n\
         typedef struct shmem_no_routine_for_this_type *shmem_no_routine_for_this_type_t;\n\
         static inline void shmem_no_routine_for_this_type(shmem_no_routine_for_this_type_t arg) { (void)arg; }\n\
         #define SHMEM_ARG1_(...) SHMEM_ARG1_OF_(__VA_ARGS__, 0, 0)\n\
         #define SHMEM_ARG1_OF_(a, ...) (a)\n\
         #define SHMEM_ARG2_(...) SHMEM_ARG2_OF_(__VA_ARGS__, 0, 0)\n\
         #define SHMEM_ARG2_OF_(a, b, ...) (b)\n\n",
    );
    for generic in GENERICS {
        let types: Vec<&str> =
            DISTINCT.into_iter().filter(|t| names.contains(format!("shmem_{t}_{generic}").as_str())).collect();
        assert!(!types.is_empty(), "no routine for the generic shmem_{generic}");
        let with_ctx = names.contains(format!("shmem_ctx_{}_{generic}", types[0]).as_str());
        let team = sigs.iter().any(|s| {
            s.name == format!("shmem_{}_{generic}", types[0]) && s.args.first().is_some_and(|a| a.0 == "team")
        });
        let position = if team { 2 } else { 1 };
        write!(out, "#define shmem_{generic}(...) _Generic(SHMEM_ARG{position}_(__VA_ARGS__),").unwrap();
        for t in &types {
            cases(out, t, &format!("shmem_{t}_{generic}"));
        }
        if with_ctx {
            // With a context in front the second argument decides.
            out.push_str(" \\\n    shmem_ctx_t: _Generic(SHMEM_ARG2_(__VA_ARGS__),");
            for t in &types {
                cases(out, t, &format!("shmem_ctx_{t}_{generic}"));
            }
            out.push_str(" \\\n    default: shmem_no_routine_for_this_type),");
        }
        // A function-like macro may be named like a function: its name is not expanded again inside.
        out.push_str(" \\\n    default: shmem_no_routine_for_this_type)(__VA_ARGS__)\n\n");
    }
    out.push_str(FIXED);
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
