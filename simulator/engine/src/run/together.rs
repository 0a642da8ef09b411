//! Numbers of a run that several processes share.

use angara_model::Peers;
use std::fmt;
use std::sync::Arc;

/// A number that no count and no time of a run reaches.
const MOST: u64 = 1 << 62;

/// The processes that simulate one network together; usually there is no other.
#[derive(Clone, Default)]
pub struct Together(Option<Arc<dyn Peers>>);

impl fmt::Debug for Together {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Together({} of {})", self.0.as_ref().map_or(0, |p| p.rank()), self.count())
    }
}

impl Together {
    /// This process is `peers` among others.
    pub fn with(peers: Arc<dyn Peers>) -> Together {
        Together(Some(peers))
    }
    /// The others, if there may be any.
    pub(crate) fn peers(&self) -> Option<&Arc<dyn Peers>> {
        self.0.as_ref()
    }
    /// Processes.
    pub fn count(&self) -> usize {
        self.0.as_ref().map_or(1, |p| p.count())
    }
    /// True for the one process that prints and writes files.
    pub fn is_first(&self) -> bool {
        self.0.as_ref().is_none_or(|p| p.rank() == 0)
    }
    /// Replaces each of `values` by its sum over all processes, modulo 2⁶⁴.
    pub(crate) fn sum(&self, values: &mut [u64]) {
        if let Some(peers) = &self.0 {
            peers.sum(values);
        }
    }
    /// The sum of every process's `value`.
    pub(crate) fn total(&self, value: i64) -> i64 {
        let mut all = [value as u64];
        self.sum(&mut all);
        all[0] as i64
    }
    /// True if it is so in any process.
    pub(crate) fn any(&self, mine: bool) -> bool {
        self.total(i64::from(mine)) > 0
    }
    /// The least value of all processes.
    pub(crate) fn least(&self, value: u64) -> u64 {
        self.0.as_ref().map_or(value, |p| p.least(value))
    }
    /// The largest value of all processes, up to [`MOST`].
    pub(crate) fn most(&self, value: u64) -> u64 {
        MOST - self.least(MOST - value)
    }
}

/// A large number in four small ones, which can be summed apart.
pub(crate) fn limbs(value: u128) -> [u64; 4] {
    [0, 32, 64, 96].map(|shift| (value >> shift) as u64 & 0xffff_ffff)
}

/// The number of which `limbs` are sums of limbs, modulo 2¹²⁸.
pub(crate) fn whole(limbs: [u64; 4]) -> u128 {
    limbs.iter().rev().fold(0, |whole, &limb| (whole << 32).wrapping_add(u128::from(limb)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::driver;
    use crate::settings::Keys;
    use angara_model::peers::in_memory;
    use std::ops::ControlFlow;

    /// The result without what a second run has otherwise.
    fn result(settings: &str, together: Option<Together>, stop: bool) -> serde_json::Value {
        let keys: Keys = toml::from_str(settings).unwrap();
        let mut experiment = keys.resolve().map_err(|e| e.0).unwrap().experiment;
        experiment.observe.links = true;
        let first = together.as_ref().is_none_or(Together::is_first);
        together.into_iter().for_each(|together| experiment.among(together).unwrap());
        let mut batches = 0;
        let outcome = driver::run(&experiment, &mut |_| {
            batches += 1;
            // One process hears of it, and all end.
            if stop && first && batches == 9 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let mut json = outcome.unwrap().report().json;
        for key in ["wall_s", "packet_hops_per_s", "flit_hops_per_s", "peak_rss_bytes", "model_bytes"] {
            json.remove(key);
        }
        json.into()
    }

    fn several(settings: &str, processes: usize, stop: bool) -> Vec<serde_json::Value> {
        std::thread::scope(|scope| {
            let start = |peers| scope.spawn(move || result(settings, Some(Together::with(peers)), stop));
            let all: Vec<_> = in_memory(processes).into_iter().map(start).collect();
            all.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn several_processes_come_to_the_result_of_one() {
        let generic = "topology = \"torus:4x4\"\nrouter = \"generic\"\ncycles-max = 12000\n";
        let angara = "topology = \"mesh:3x5\"\nrouter = \"angara\"\ncycles-max = 20000\n";
        let worm = "switching = \"wormhole\"\nlength = 4\nload = 0.1\nwarmup = 300\ncycles = 3000\n";
        let hotspot = "pattern = \"hotspot:5,0.5\"\n";
        for (network, more, saturated) in [
            (generic, "load = 0.1\nprobe = \"3,12,100\"", false),
            (generic, &format!("load = 0.9\nmap = \"random\"\n{hotspot}"), true),
            (generic, &format!("load = 0.9\nwarmup = 300\ncycles = 1500\n{hotspot}"), true),
            (generic, "switching = \"wormhole\"\nlength = 4\nload = 0.2\nwarmup = 500\ncycles = 1500", false),
            (generic, &format!("switching = \"wormhole\"\nload = 0.5\n{hotspot}"), true),
            (generic, "load = 0.1\nfault = [\"node 1,2 down @3us\", \"link 0,0 +X rate=30%\"]", false),
            (generic, &format!("{worm}fault = [\"link 0,0 +X down @1us\", \"node 1,2 down @3us\"]"), false),
            (angara, "load = 0.1\nprocess = \"batch-poisson:4\"", false),
            (angara, &format!("load = 0.8\nrouting = \"adaptive\"\n{hotspot}"), true),
            (angara, "load = 0.1\nfault = [\"link 0,0 +X down\", \"node 1,2 down\"]", false),
        ] {
            let settings = format!("{network}{more}");
            let alone = result(&settings, None, false);
            assert_eq!(alone["saturated"], saturated, "{settings}: {alone}");
            assert!(alone["packets"].as_u64() > Some(100) && alone["links"].is_object(), "{settings}: {alone}");
            for processes in [1, 2, 3] {
                for (rank, outcome) in several(&settings, processes, false).iter().enumerate() {
                    assert_eq!(outcome, &alone, "{settings}, process {rank} of {processes}");
                }
            }
        }
    }

    #[test]
    fn sources_too_far_behind_are_held_at_the_same_time_by_however_many_processes() {
        // The hot node takes one flit per cycle of the 8 sent there.
        let settings = "topology = \"torus:4x2\"\nrouter = \"generic\"\nload = 1.0\npattern = \"hotspot:5,1.0\"\n\
                        warmup = 1000\ncycles = 9000";
        let alone = result(settings, None, false);
        // Held back, the 8 sources create less than the flit per cycle that each is asked for.
        let created = alone["offered_flits_per_node_cycle"].as_f64().unwrap();
        assert!(alone["saturated"] == true && created < 0.9, "{alone}");
        assert_eq!(several(settings, 3, false), vec![alone; 3]);
    }

    #[test]
    fn all_end_when_one_is_interrupted() {
        let settings = "topology = \"torus:4x4\"\nload = 0.1\nwarmup = 1000\ncycles = 900000";
        let outcomes = several(settings, 2, true);
        assert!(outcomes[0]["interrupted"] == true && outcomes[0] == outcomes[1]);
        assert_eq!(outcomes[0], result(settings, None, true));
    }

    #[test]
    fn what_several_processes_cannot_do_is_refused() {
        for (more, part) in [
            ("workload = \"all-to-all:64\"", "open-loop traffic only"),
            ("threads = 2", "one thread"),
            ("trace = \"0..3\"", "start one process"),
            ("error-rate = \"1%\"", "down from the beginning"),
        ] {
            let keys: Keys = toml::from_str(&format!("topology = \"torus:4x4\"\n{more}")).unwrap();
            let mut simulation = keys.resolve().map_err(|e| e.0).unwrap();
            let together = Together::with(in_memory(2).remove(0));
            let refused = simulation.among(together).unwrap_err().to_string();
            assert!(refused.contains(part), "{refused}");
        }
    }

    #[test]
    fn large_and_negative_numbers_are_summed_in_limbs() {
        for (a, b) in [(3, 4), (-5, 3), (i128::MAX, -1), (-7 << 70, 1 << 69), (0xffff_ffff, 1), (-1, 1)] {
            let mut sum = limbs(a as u128);
            sum.iter_mut().zip(limbs(b as u128)).for_each(|(a, b)| *a += b);
            assert_eq!(whole(sum) as i128, a + b);
        }
    }
}
