//! Both formats, and how many series there are.

use super::*;
use angara_abi::JobId;
use angara_abi::account::Load;
use angara_net::NodeSet;
use angara_plane::observe::figures::LinkFigures;
use angara_protocol::msg::{JobStatus, Path};
use openmetrics_parser::openmetrics::parse_openmetrics;
use openmetrics_parser::prometheus::parse_prometheus;
use proptest::prelude::*;

fn scrape(shape: &str, links: usize) -> Scrape {
    let shape: Shape = shape.parse().expect("a shape");
    let figures = |index: usize| LinkFigures {
        here: true,
        up: index != 3,
        load: Load { packets: 1, flits: index as u64, bytes: 8 },
        ..LinkFigures::default()
    };
    let sample = Sample { links: (0..shape.nodes() * 8).map(figures).collect(), ..Sample::default() };
    Scrape { sample: Arc::new(sample), shape, nodes_here: shape.nodes(), links, start: 7 }
}

fn series(text: &str) -> usize {
    text.lines().filter(|line| !line.starts_with('#')).count()
}

#[test]
fn a_large_network_has_no_more_series_than_was_said() {
    let text = scrape("8x8x8x8", 100).text();
    let own = text.lines().filter(|line| line.starts_with("angara_link_packets_total{")).count();
    assert_eq!(own, 100);
    assert!(series(&text) < 100 * 6 + 150, "{} series", series(&text));
    // The hottest are those with the highest numbers.
    assert!(text.contains("node=\"4095\"") && !text.contains("node=\"0\""), "{text}");
}

#[test]
fn the_older_format_has_the_same_samples_under_names_that_their_types_know() {
    let text = scrape("2x2", 1024).text();
    assert!(text.ends_with("# EOF\n") && text.contains("# UNIT angara_link_bytes bytes"), "{text}");
    let old = plain(&text);
    assert_eq!(series(&old), series(&text));
    assert!(old.contains("# TYPE angara_link_bytes_total counter\n"), "{old}");
    assert!(old.contains("# TYPE angara_daemon_info gauge\n"), "{old}");
    assert!(!old.contains("# EOF") && !old.contains("# UNIT"), "{old}");
    for line in old.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().expect("a name");
        assert!(old.contains(&format!("# TYPE {name} ")), "{line} has no type");
        assert!(old.contains(&format!("# HELP {name} ")), "{line} has no help");
    }
}

#[test]
fn every_metric_is_in_the_documents() {
    let page = include_str!("../../../../docs/reference/metrics.md");
    let old = plain(&with_jobs(&["job".into()]).text());
    assert!(old.contains("angara_job_set_tables_made_total{job=\"1\"} 2"), "{old}");
    for line in old.lines() {
        let Some(name) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split(' ').next()) else { continue };
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/reference/metrics.md");
    }
}

fn with_jobs(names: &[String]) -> Scrape {
    let job = |(n, name): (u32, &String)| JobStatus {
        job: JobId::new(n + 1),
        name: name.clone(),
        uid: 7,
        pes: 2,
        attached: 1,
        came: 1,
        memory: 4096,
        age_s: 1.5,
        path: Path::Auto,
        set: Some(NodeSet { nodes: vec![0, 3], transit: vec![1] }),
        tables_made: Some(2),
    };
    let plain = scrape("2x2", 4);
    let jobs = (0..).zip(names).map(job).collect();
    Scrape { sample: Arc::new(Sample { jobs, ..Sample::default() }), ..plain }
}

/// What a reader that shares nothing with the writer finds of an exposition: how many samples, and the names of jobs.
macro_rules! read_by_others {
    ($parsed:expr, $family:expr) => {{
        let parsed = $parsed.expect("another parser reads it");
        let mut names: Vec<(String, String)> = Vec::new();
        let of = &parsed.families[$family];
        for sample in of.iter_samples() {
            let labels = sample.get_labelset().expect("labels");
            let value = |name: &str| labels.get_label_value(name).expect("a label").to_string();
            assert_eq!((value("uid"), value("path")), ("7".into(), "auto".into()));
            names.push((value("job"), value("name")));
        }
        names.sort();
        (parsed.families.values().map(|family| family.iter_samples().count()).sum::<usize>(), names)
    }};
}

proptest! {
    /// Whatever users call their jobs, nobody's scrape breaks and no sample is added.
    #[test]
    fn names_of_jobs_are_values_of_labels_and_nothing_else(
        names in proptest::collection::vec(
            prop_oneof![
                any::<String>(),
                "[\"\\\\\n\r\t{},= a#\u{202e}\u{85}\u{2028}\u{0}]{0,12}",
                Just("x\",uid=\"0\",path=\"auto\"} 1\nangara_adapter_violations_total 999999\nangara_job_pes{job=\"77".to_string()),
                Just("\\".to_string()),
                Just("# EOF\n".to_string()),
            ],
            1..5,
        ),
    ) {
        let (text, harmless) = (with_jobs(&names).text(), with_jobs(&vec!["x".to_string(); names.len()]).text());
        let mut expected: Vec<(String, String)> =
            (1..).zip(&names).map(|(job, name): (u32, _)| (job.to_string(), plain_line(name))).collect();
        expected.sort();
        let open = read_by_others!(parse_openmetrics(&text), "angara_job");
        prop_assert_eq!(&open.1, &expected);
        let old = read_by_others!(parse_prometheus(&plain(&text)), "angara_job_info");
        prop_assert_eq!(&old.1, &expected);
        prop_assert_eq!(open.0, read_by_others!(parse_openmetrics(&harmless), "angara_job").0);
        prop_assert_eq!(old.0, read_by_others!(parse_prometheus(&plain(&harmless)), "angara_job_info").0);
    }
}
