//! The library as programs load it.

use std::ffi::CString;

/// The library as programs load it.
const LIBRARY: &str = env!("CARGO_BIN_EXE_libangara-verbs");

#[test]
fn all_names_are_there_under_their_versions() {
    let c = |text: &str| CString::new(text).expect("no zero");
    // SAFETY: a path; the library has no constructors that do harm.
    let library = unsafe { libc::dlopen(c(LIBRARY).as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null());
    let has = |name: &str, version: &str| {
        // SAFETY: an open library, and texts.
        !unsafe { libc::dlvsym(library, c(name).as_ptr(), c(version).as_ptr()) }.is_null()
    };
    let (mut version, mut names) = (String::new(), 0);
    let map = include_str!("../../exports.map").split("*/").map(|part| part.split("/*").next().unwrap_or_default());
    for word in map.flat_map(str::split_whitespace) {
        match word.strip_suffix(';') {
            None if word.starts_with("IBVERBS_") => version = word.into(),
            Some(name) if name.contains("ibv_") || name.contains("verbs_") => {
                assert!(has(name, &version), "{name}@{version}");
                names += 1;
            }
            _ => {}
        }
    }
    assert!(names >= 100, "{names}");
    for version in ["34", "57", "59", "64", "65"].map(|number| format!("IBVERBS_PRIVATE_{number}")) {
        for name in ["execute_ioctl", "ibv_cmd_create_cq_ex2", "ibv_query_gid_type", "verbs_open_device"] {
            assert!(has(name, &version), "{name}@{version}");
        }
    }
}
