//! Metrics for Prometheus, made of one sample when they are asked for.
//!
//! How many series there are is bounded whatever the size of the network and however many jobs have run: links have series
//! of their own up to a number ([`crate::watch::Looks::links`]), those that have carried most first, and sums per direction
//! always; jobs up to [`JOBS_MAX`]. `docs/reference/metrics.md` lists all.

mod cluster;
mod links;
mod plain;
mod planes;

pub(crate) use plain::plain;

use crate::watch::sample::Sample;
use angara_net::torus::Shape;
use angara_protocol::print::plain_line;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelValue, LabelValueEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt::{self, Write};
use std::sync::Arc;

/// Jobs with series of their own: those that have been there longest.
pub(crate) const JOBS_MAX: usize = 64;

/// What a scrape is made of.
#[derive(Clone, Debug)]
pub(crate) struct Scrape {
    pub(crate) sample: Arc<Sample>,
    pub(crate) shape: Shape,
    /// Nodes of this host.
    pub(crate) nodes_here: usize,
    /// Most links with series of their own.
    pub(crate) links: usize,
    /// Second of the daemon's start, since 1970.
    pub(crate) start: u64,
}

/// Labels of one series.
type Labels = Vec<(&'static str, String)>;

/// The value of a label as both formats have it, whoever chose it: users name jobs. The encoder writes values as they are, so
/// a quote or the end of a line in one would end its label and begin samples of other names.
struct Quoted<'v>(&'v str);

impl EncodeLabelValue for Quoted<'_> {
    fn encode(&self, encoder: &mut LabelValueEncoder) -> fmt::Result {
        // Scrapes are read in terminals, too. This leaves no end of a line.
        for c in plain_line(self.0).chars() {
            if matches!(c, '\\' | '"') {
                encoder.write_char('\\')?;
            }
            encoder.write_char(c)?;
        }
        Ok(())
    }
}

/// A value as it is written.
#[derive(Clone, Copy, Debug)]
enum Value {
    Whole(u64),
    Part(f64),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MetricKind {
    Counter,
    Gauge,
    Info,
}

/// A metric and its series.
#[derive(Debug)]
struct Family {
    /// Without its unit, and without `_total`.
    name: &'static str,
    unit: Option<Unit>,
    kind: MetricKind,
    help: &'static str,
    series: Vec<(Labels, Value)>,
}

impl Family {
    fn new(kind: MetricKind, name: &'static str, help: &'static str) -> Family {
        Family { name, unit: None, kind, help, series: Vec::new() }
    }
    fn counter(name: &'static str, help: &'static str) -> Family {
        Family::new(MetricKind::Counter, name, help)
    }
    fn gauge(name: &'static str, help: &'static str) -> Family {
        Family::new(MetricKind::Gauge, name, help)
    }
    fn unit(self, unit: Unit) -> Family {
        Family { unit: Some(unit), ..self }
    }
    /// The one series without labels.
    fn whole(mut self, value: u64) -> Family {
        self.series.push((Vec::new(), Value::Whole(value)));
        self
    }
    fn part(mut self, value: f64) -> Family {
        self.series.push((Vec::new(), Value::Part(value)));
        self
    }
    fn each(mut self, series: impl IntoIterator<Item = (Labels, Value)>) -> Family {
        self.series.extend(series);
        self
    }

    fn encode(&self, encoder: &mut DescriptorEncoder) -> fmt::Result {
        if self.series.is_empty() {
            return Ok(());
        }
        let kind = match self.kind {
            MetricKind::Counter => MetricType::Counter,
            MetricKind::Gauge => MetricType::Gauge,
            MetricKind::Info => MetricType::Info,
        };
        let mut metric = encoder.encode_descriptor(self.name, self.help, self.unit.as_ref(), kind)?;
        for (labels, value) in &self.series {
            let labels: Vec<_> = labels.iter().map(|(name, value)| (*name, Quoted(value))).collect();
            match (self.kind, labels.is_empty()) {
                (MetricKind::Info, _) => metric.encode_info(&labels)?,
                (_, true) => self.value(&mut metric, *value)?,
                (_, false) => self.value(&mut metric.encode_family(&labels)?, *value)?,
            }
        }
        Ok(())
    }

    fn value(&self, metric: &mut MetricEncoder, value: Value) -> fmt::Result {
        match (self.kind, value) {
            (MetricKind::Counter, Value::Whole(n)) => metric.encode_counter::<NoLabelSet, _, u64>(&n, None),
            (MetricKind::Counter, Value::Part(x)) => metric.encode_counter::<NoLabelSet, _, u64>(&x, None),
            (_, Value::Whole(n)) => metric.encode_gauge(&n),
            (_, Value::Part(x)) => metric.encode_gauge(&x),
        }
    }
}

impl Scrape {
    /// As OpenMetrics text.
    pub(crate) fn text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let families = planes::families(self).into_iter().chain(links::families(self)).chain(cluster::families(self));
        for family in families {
            family.encode(&mut encoder)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
