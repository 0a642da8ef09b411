//! Ways of any topology: how long they are, and whether packets can wait for each other in a circle.

use crate::Error;
use angara_fabric::rng::mix;
use angara_model::AnyTopology;
use angara_model::topology::{End, dependencies};
use serde::Serialize;

/// Most routers of a network whose ways are all walked.
const ROUTERS_MAX: usize = 1024;
/// Random words tried for every pair.
const WORDS: u64 = 8;

/// Properties of a topology's ways.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The topology.
    pub topology: String,
    /// Routers.
    pub routers: usize,
    /// Endpoints.
    pub endpoints: usize,
    /// Virtual channels needed.
    pub vcs: u32,
    /// Links of the longest way walked.
    pub most_links: usize,
    /// Mean links of a way between two endpoints.
    pub mean_links: f64,
    /// Channels that packets can wait around; none if there is no circle.
    pub circle: Option<String>,
}

/// Walks every way.
///
/// # Errors
/// The network is too large for that.
pub fn report(topology: &AnyTopology) -> Result<Report, Error> {
    if topology.routers().max(topology.endpoints()) > ROUTERS_MAX {
        let why = format!("all ways of at most {ROUTERS_MAX} routers and endpoints are walked; give a smaller one");
        return Err(Error::invalid("--topology", topology, why));
    }
    let n = topology.endpoints() as u32;
    let (mut most, mut sum) = (0, 0);
    for (src, dst) in (0..n).flat_map(|s| (0..n).map(move |d| (s, d))) {
        let mut route = topology.start(src, dst, mix(u64::from(src) << 32 | u64::from(dst)));
        let (mut at, mut links) = (topology.attach(src).0, 0);
        while let End::Router { router, .. } = topology.output(at, topology.next(at, &mut route).port) {
            (at, links) = (router, links + 1);
        }
        (most, sum) = (links.max(most), sum + links);
    }
    Ok(Report {
        topology: topology.to_string(),
        routers: topology.routers(),
        endpoints: topology.endpoints(),
        vcs: topology.classes().count(),
        most_links: most,
        mean_links: sum as f64 / f64::from(n).powi(2),
        circle: dependencies::circle(&**topology, WORDS).map(|circle| circle.shown(&**topology)),
    })
}

impl Report {
    /// The report for people.
    pub fn text(&self) -> String {
        let Report { topology, routers, endpoints, vcs, most_links, mean_links, circle } = self;
        let circle = match circle {
            None => format!("no circle of waiting packets ({WORDS} random ways of every pair)"),
            Some(circle) => format!("packets can wait in a circle: {circle}"),
        };
        format!(
            "{topology}: {routers} routers, {endpoints} endpoints\nlinks of a way: {mean_links:.3} on average, at most \
             {most_links}\nvirtual channels: at least {vcs}\n{circle}\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_of_small_networks() {
        let of = |text: &str| report(&text.parse().unwrap());
        let mesh = of("mesh:2x2").unwrap();
        assert_eq!((mesh.most_links, mesh.mean_links, mesh.circle.is_none()), (2, 1.0, true));
        let fly = of("slimfly:3").unwrap();
        assert!(fly.text().contains("18 routers, 54 endpoints") && (fly.most_links, fly.vcs) == (2, 2));
        assert!(of("torus:64x64").unwrap_err().to_string().contains("at most 1024"));
    }
}
