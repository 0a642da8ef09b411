//! `ANGARA_TIMEOUT` turns a hang into an error that says what was waited for.

use angara::{Error, Job};

#[test]
fn a_wait_without_progress_ends_with_its_name() {
    // SAFETY: the only test of this process; no other thread reads the environment.
    unsafe { std::env::set_var(angara_protocol::launch::ENV_TIMEOUT, "0.02") };
    let job = Job::solo(4096, &[]).expect("solo");
    let e = job.wait(|| false, &|| "a word that nobody writes".into()).expect_err("nobody writes it");
    assert!(matches!(e, Error::Timeout { .. }));
    let text = e.to_string();
    assert!(text.contains("a word that nobody writes") && text.contains("0.02 s"), "{text}");
}
