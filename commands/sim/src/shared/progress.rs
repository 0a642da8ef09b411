//! Progress of long work, on standard error and only on a terminal.

use angara_sim::run::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// Steps of a bar whose end is an estimate.
const SCALE: u64 = 10_000;

pub(crate) fn bar(template: &str) -> ProgressBar {
    ProgressBar::new(1).with_style(ProgressStyle::with_template(template).expect("templates here are well formed"))
}

/// Shows how far a run has come. Its end is an estimate: where that moves away faster than the run comes nearer, the bar
/// stands still.
pub(crate) fn show(bar: &ProgressBar, p: Progress) {
    let share = |done: u64, of: u64| u128::from(done) * u128::from(SCALE) / u128::from(of.max(1));
    bar.set_length(SCALE);
    bar.set_position(bar.position().max(share(p.done, p.of) as u64));
    bar.set_message(p.doing);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_never_runs_backwards() {
        let bar = bar("{msg} {percent}");
        let mut shown = Vec::new();
        for (done, of) in [(0, 0), (10, 30), (20, 60), (30, 300), (150, 300), (160, 1000), (900, 1000), (1000, 1000)] {
            show(&bar, Progress { doing: "measuring", done, of });
            shown.push((100 * bar.position()).div_ceil(bar.length().expect("known")));
        }
        assert_eq!(shown, [0, 34, 34, 34, 50, 50, 90, 100]);
    }
}
