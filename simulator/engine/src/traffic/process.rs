//! When messages are created.
//!
//! Every process has the same mean rate and differs in how even it is. Creation times are whole
//! cycles: a Poisson message created within a cycle enters its source's queue in that cycle, and
//! several may, where the Bernoulli process creates at most one.

use crate::Error;
use crate::rng::Stream;
use angara_net::units;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Mean number of messages in a batch of `batch-poisson` when none is given.
const BATCH: f64 = 4.0;

/// A kind of arrival process.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Process {
    /// In each cycle a message with a fixed probability, never two.
    Bernoulli,
    /// Exponential times between messages.
    Poisson,
    /// Batches at exponential times; their sizes are geometric with this mean. A compound Poisson
    /// process.
    BatchPoisson(f64),
    /// Bernoulli while on, nothing while off.
    OnOff {
        /// Probability per cycle of going on.
        on: f64,
        /// Probability per cycle of going off.
        off: f64,
    },
}

/// Messages per cycle, in (0, 1\] or 0 for silence.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate(f64);

impl Rate {
    /// A rate of `per_cycle` messages per cycle.
    ///
    /// # Errors
    /// Negative, not a number, or more than one message per cycle.
    pub fn messages(per_cycle: f64) -> Result<Rate, Error> {
        if (0.0..=1.0).contains(&per_cycle) {
            Ok(Rate(per_cycle))
        } else {
            let remedy = "a node creates 0 to 1 messages per cycle: give a load from 0 to the mean length in flits";
            Err(Error::invalid("message rate", per_cycle, remedy))
        }
    }

    /// Messages per cycle.
    pub fn per_cycle(self) -> f64 {
        self.0
    }
}

/// The creation times of one node's messages.
#[derive(Clone, Debug)]
pub struct Arrivals {
    kind: ProcessKind,
    stream: Stream,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
enum ProcessKind {
    Silent,
    Bernoulli { p: f64 },
    Poisson { gap: f64, time: f64 },
    Batch { gap: f64, time: f64, size: f64, left: u64 },
    OnOff { p: f64, on: f64, off: f64, until: u64 },
}

impl Arrivals {
    /// The arrivals of `process` with mean `rate`, drawn from `stream`.
    pub fn new(process: Process, rate: Rate, stream: Stream) -> Arrivals {
        let kind = match process {
            _ if rate.0 == 0.0 => ProcessKind::Silent,
            Process::Bernoulli => ProcessKind::Bernoulli { p: rate.0 },
            Process::Poisson => ProcessKind::Poisson { gap: 1.0 / rate.0, time: 0.0 },
            Process::BatchPoisson(size) => ProcessKind::Batch { gap: size / rate.0, time: 0.0, size, left: 0 },
            // Rounded, the largest rate may come to a little more than one message per cycle.
            Process::OnOff { on, off } => {
                ProcessKind::OnOff { p: (rate.0 / process.rate_max()).min(1.0), on, off, until: 0 }
            }
        };
        let mut arrivals = Arrivals { kind, stream, next: 0 };
        if let ProcessKind::OnOff { on, off, .. } = arrivals.kind
            && !arrivals.stream.chance(on / (on + off))
        {
            arrivals.next = arrivals.stream.geometric(on);
        }
        arrivals.step(true);
        arrivals
    }

    /// Cycle of the next message; `u64::MAX` if there is none.
    #[inline]
    pub fn next_cycle(&self) -> u64 {
        self.next
    }

    /// Takes the next message's cycle.
    #[inline]
    pub fn take(&mut self) -> u64 {
        let taken = self.next;
        self.step(false);
        taken
    }

    #[inline]
    fn step(&mut self, first: bool) {
        match &mut self.kind {
            ProcessKind::Silent => self.next = u64::MAX,
            ProcessKind::Bernoulli { p } => self.next += self.stream.geometric(*p) + u64::from(!first),
            ProcessKind::Poisson { gap, time } => {
                *time += self.stream.exponential(*gap);
                self.next = *time as u64;
            }
            ProcessKind::Batch { gap, time, size, left } => {
                if *left == 0 {
                    *time += self.stream.exponential(*gap);
                    *left = 1 + self.stream.geometric(1.0 / *size);
                }
                *left -= 1;
                self.next = *time as u64;
            }
            ProcessKind::OnOff { p, on, off, until } => {
                let mut at = self.next + u64::from(!first);
                if first {
                    *until = at + 1 + self.stream.geometric(*off);
                }
                loop {
                    at += self.stream.geometric(*p);
                    if at < *until {
                        break;
                    }
                    // The rest of the geometric gap is memoryless: start afresh in the next burst.
                    at = *until + 1 + self.stream.geometric(*on);
                    *until = at + 1 + self.stream.geometric(*off);
                }
                self.next = at;
            }
        }
    }
}

impl Process {
    /// Variance of the number of messages in a long time by its mean; 1 for a Poisson process.
    pub fn dispersion(self, rate: Rate) -> f64 {
        match self {
            // At a destination, where the messages of many sources mix.
            Process::Bernoulli | Process::Poisson => 1.0,
            Process::BatchPoisson(size) => 2.0 * size - 1.0,
            Process::OnOff { on, off } => {
                let (p, share) = (rate.0 / self.rate_max(), on / (on + off));
                // The state of one cycle predicts that of the k-th after it with weight (1 − on − off)^k.
                let memory = (1.0 - on - off) / (on + off);
                (1.0 - rate.0 + 2.0 * p * (1.0 - share) * memory).max(1.0)
            }
        }
    }
    /// Most messages per cycle: one in each cycle in which it creates any.
    pub fn rate_max(self) -> f64 {
        match self {
            Process::OnOff { on, off } => on / (on + off),
            Process::Bernoulli | Process::Poisson | Process::BatchPoisson(_) => 1.0,
        }
    }
}

impl FromStr for Process {
    type Err = Error;
    fn from_str(text: &str) -> Result<Process, Error> {
        let bad = || {
            let forms = "use bernoulli, poisson, batch-poisson, batch-poisson:SIZE or on-off:ON,OFF with the \
                         probabilities per cycle of going on and off";
            Error::invalid("process", text, forms)
        };
        let (name, arguments) = text.split_once(':').map_or((text, None), |(n, a)| (n, Some(a)));
        let numbers: Vec<f64> = match arguments {
            Some(a) => a.split(',').map(units::fraction).collect::<Option<_>>().ok_or_else(bad)?,
            None => Vec::new(),
        };
        let probability = |p: f64| p > 0.0 && p <= 1.0;
        match (name, &numbers[..]) {
            ("bernoulli", []) => Ok(Process::Bernoulli),
            ("poisson", []) => Ok(Process::Poisson),
            ("batch-poisson", []) => Ok(Process::BatchPoisson(BATCH)),
            ("batch-poisson", &[size]) if size >= 1.0 && size.is_finite() => Ok(Process::BatchPoisson(size)),
            ("on-off", &[on, off]) if probability(on) && probability(off) => Ok(Process::OnOff { on, off }),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Process::Bernoulli => f.write_str("bernoulli"),
            Process::Poisson => f.write_str("poisson"),
            Process::BatchPoisson(size) => write!(f, "batch-poisson:{size}"),
            Process::OnOff { on, off } => write!(f, "on-off:{on},{off}"),
        }
    }
}

impl TryFrom<String> for Process {
    type Error = Error;
    fn try_from(text: String) -> Result<Process, Error> {
        text.parse()
    }
}

impl From<Process> for String {
    fn from(process: Process) -> String {
        process.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;

    /// Cycles of the messages before `end`, over `nodes` nodes.
    fn cycles(process: &str, rate: f64, nodes: u32, end: u64) -> Vec<Vec<u64>> {
        let one = |node| {
            let stream = Stream::new(11, node, Purpose::Arrival);
            let mut a = Arrivals::new(process.parse().unwrap(), Rate::messages(rate).unwrap(), stream);
            std::iter::from_fn(|| (a.next_cycle() < end).then(|| a.take())).collect::<Vec<u64>>()
        };
        (0..nodes).map(one).collect()
    }

    /// Mean and variance of the number of messages per 100 cycles.
    fn counts(process: &str, rate: f64) -> (f64, f64) {
        let mut bins = Vec::new();
        for node in cycles(process, rate, 64, 10_000) {
            let mut bin = [0.0; 100];
            node.iter().for_each(|c| bin[(c / 100) as usize] += 1.0);
            bins.extend(bin);
        }
        let mean = bins.iter().sum::<f64>() / bins.len() as f64;
        (mean, bins.iter().map(|b| (b - mean).powi(2)).sum::<f64>() / bins.len() as f64)
    }

    #[test]
    fn every_process_has_the_mean_asked_for() {
        for process in
            ["bernoulli", "poisson", "batch-poisson", "batch-poisson:8", "on-off:0.05,0.05", "on-off:0.02,0.04"]
        {
            for rate in [0.05, 1.0 / 3.0] {
                let (mean, _) = counts(process, rate);
                assert!((mean / (100.0 * rate) - 1.0).abs() < 0.05, "{process} {rate}: {mean}");
            }
        }
    }

    #[test]
    fn processes_differ_in_their_variance() {
        let rate = 0.3;
        let relative = |p| counts(p, rate).1 / (100.0 * rate);
        assert!((relative("bernoulli") - 0.7).abs() < 0.07, "1 - p");
        assert!((relative("poisson") - 1.0).abs() < 0.1);
        // Geometric batches of mean b: variance over mean is 2b - 1.
        assert!((relative("batch-poisson:4") - 7.0).abs() < 0.7);
        assert!(relative("on-off:0.02,0.02") > 3.0);
    }

    #[test]
    fn bernoulli_creates_at_most_one_message_per_cycle() {
        for node in cycles("bernoulli", 0.9, 4, 1000) {
            assert!(node.windows(2).all(|w| w[0] < w[1]));
        }
        assert_eq!(cycles("bernoulli", 1.0, 1, 50)[0], (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn messages_come_in_order_of_time() {
        for process in ["poisson", "batch-poisson", "on-off:0.1,0.1"] {
            for node in cycles(process, 0.5, 8, 1000) {
                assert!(node.is_sorted(), "{process}");
            }
        }
    }

    #[test]
    fn silence_is_a_rate_too() {
        assert!(cycles("poisson", 0.0, 1, 1000)[0].is_empty());
        assert!(Rate::messages(1.5).is_err() && Rate::messages(f64::NAN).is_err());
    }

    #[test]
    fn forms_are_checked() {
        for text in ["gauss", "on-off", "on-off:0,1", "batch-poisson:0.5", "poisson:3"] {
            assert!(text.parse::<Process>().unwrap_err().to_string().contains("on-off:ON,OFF"), "{text}");
        }
        assert_eq!("on-off:0.1,0.2".parse::<Process>().unwrap().to_string(), "on-off:0.1,0.2");
    }
}
