//! Both formats, and how many series there are.

use super::*;
use crate::dataplane::LinkFigures;
use angara_abi::account::Load;

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
    let page = include_str!("../../../docs/reference/metrics.md");
    let old = plain(&scrape("2x2", 1024).text());
    for line in old.lines() {
        let Some(name) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split(' ').next()) else { continue };
        assert!(page.contains(&format!("`{name}`")), "{name} is not in docs/reference/metrics.md");
    }
}
