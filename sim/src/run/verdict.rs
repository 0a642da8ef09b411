//! When a network has settled, and when it never will.

use super::stats::Batch;

/// Batches before anything is concluded.
pub(super) const BATCHES_MIN: usize = 10;
/// Parts into which a run is cut for these verdicts, at most.
pub(crate) const PARTS: usize = 40;

/// The mean latency of the latter half of `batches` shows no trend: its two halves differ by no more than chance allows,
/// or by less than 1 %.
pub(super) fn settled(batches: &[Batch]) -> bool {
    let means: Vec<f64> = batches.iter().filter_map(Batch::mean).collect();
    if means.len() < BATCHES_MIN {
        return false;
    }
    let late = &means[means.len() / 2..];
    let (a, b) = late.split_at(late.len() / 2);
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let variance =
        |v: &[f64]| v.iter().map(|x| (x - mean(v)).powi(2)).sum::<f64>() / (v.len() - 1) as f64 / v.len() as f64;
    let apart = (mean(b) - mean(a)).abs();
    apart <= 0.01 * mean(late) || apart <= (variance(a) + variance(b)).sqrt()
}

/// In the latter half of the batches the backlog grew by more than 2 % of what was created, nearly
/// every time.
pub(crate) fn growing(batches: &[Batch]) -> bool {
    if batches.len() < BATCHES_MIN {
        return false;
    }
    let late = &batches[batches.len() / 2..];
    let ups = late.windows(2).filter(|w| w[1].backlog > w[0].backlog).count();
    let created: u64 = late[1..].iter().map(|b| b.created).sum();
    let grown = late[late.len() - 1].backlog as f64 - late[0].backlog as f64;
    ups * 5 >= (late.len() - 1) * 4 && grown > 0.02 * created as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts() {
        let means = |means: &[u64]| -> Vec<Batch> {
            means.iter().map(|&m| Batch { arrived: 1, latency: m.into(), ..Batch::default() }).collect()
        };
        assert!(!settled(&means(&[1; 5])), "too few");
        assert!(settled(&means(&[1; 20])));
        assert!(!settled(&means(&(0..20).collect::<Vec<_>>())), "drifting");
        let batch = |backlog| Batch { created: 1000, backlog, ..Batch::default() };
        assert!(growing(&(0..20).map(|i| batch(100 * i)).collect::<Vec<_>>()));
        assert!(!growing(&(0..20).map(|i| batch(10 * i)).collect::<Vec<_>>()), "1 %");
        assert!(!growing(&(0..20).map(|i| batch(100 + i % 3)).collect::<Vec<_>>()));
    }
}
