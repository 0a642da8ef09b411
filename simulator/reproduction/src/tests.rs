//! The rows themselves, and the committed document against them.

use super::*;
use std::sync::LazyLock;

/// Outside of the crate, so that only the tests that ask for it need it.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/reproduction.md");
    std::fs::read_to_string(file).unwrap_or_else(|e| panic!("{file}: {e}"))
});

/// Rows that are checked in every test run: those that take a fraction of a second.
fn quick() -> Vec<Claim> {
    claims().into_iter().filter(|c| c.seconds() <= QUICK_S).collect()
}

#[test]
fn names_are_unique_and_in_sections() {
    let mut names: Vec<String> = claims().iter().map(|c| c.id().to_string()).collect();
    let all = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), all);
    assert!(claims().iter().all(|c| (1..=7).contains(&c.section())));
    assert!(claims().iter().filter_map(|c| c.plot).all(|file| PLOTS.iter().any(|p| p.file == file)));
}

#[test]
fn the_document_has_every_row_and_no_other() {
    let written: Vec<String> = report::parse(&DOCUMENT).into_iter().map(|(id, ..)| id).collect();
    let all: Vec<String> = claims().iter().map(|c| c.id().to_string()).collect();
    assert_eq!(written, all, "write it again: angara sim reproduce --out docs/results");
}

#[test]
fn the_document_explains_every_plot_as_it_is_drawn_now() {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let document = words(&DOCUMENT);
    for plot in PLOTS {
        let (file, about) = (plot.file, words(plot.about));
        assert!(document.contains(&format!("(plots/{file}) {about}")), "{file}; write the document again");
    }
}

#[test]
fn quick_rows_still_give_what_the_document_says() {
    let claims = quick();
    assert!(claims.len() > 40 && claims.iter().any(|c| c.section() == 1) && claims.iter().any(|c| c.section() == 2));
    let written = report::parse(&DOCUMENT);
    for row in run(&claims, 2, |_, _| {}).unwrap().rows {
        let (_, measured, verdict) = written.iter().find(|(id, ..)| *id == row.id).unwrap();
        assert_eq!(
            (measured.as_str(), verdict.as_str()),
            (row.measured.as_str(), row.verdict.name()),
            "{}; write the document again: angara sim reproduce --out docs/results",
            row.id
        );
    }
}

#[test]
fn results_do_not_depend_on_threads() {
    let one = select(&["5.".into(), "1.T0.t4x4".into(), "t4x4_L1_0.1".into()]).unwrap();
    let (a, b) = (run(&one, 1, |_, _| {}).unwrap(), run(&one, 3, |_, _| {}).unwrap());
    assert_eq!(report::markdown(&a), report::markdown(&b));
    assert_eq!(a.plots, b.plots);
}

#[test]
fn what_is_written_is_read_back() {
    let rows = vec![Row {
        id: "1.a".into(),
        section: 1,
        claim: "x | y".into(),
        demand: "1".into(),
        measured: "a | b".into(),
        verdict: Verdict::Deviates,
        evidence: "because".into(),
        plot: None,
    }];
    let document = report::markdown(&Reproduction { rows, plots: Vec::new() });
    assert!(document.contains("`1.a`: because"));
    assert_eq!(report::parse(&document), [("1.a".into(), "a | b".into(), "deviates".into())]);
}

#[test]
fn rows_are_selected_by_section_or_part_of_the_name() {
    let count = |wanted: &[&str]| select(&wanted.iter().map(|s| s.to_string()).collect::<Vec<_>>()).unwrap().len();
    assert_eq!(count(&[]), claims().len());
    assert_eq!(count(&["6"]), claims().iter().filter(|c| c.section() == 6).count());
    assert_eq!(count(&["hop"]), 1);
    assert!(select(&["nothing".into()]).err().unwrap().to_string().contains("no row has this"));
}

#[test]
fn a_failing_job_fails_the_run() {
    let job = Job::call("broken", 1.0, || Err(Error::Network("broken".into())));
    let claim = Claim::new("1.x", "", "", vec![job], |_| Judgement::new(true, ""));
    assert!(run(&[claim], 2, |_, _| {}).unwrap_err().to_string().contains("broken"));
}
