//! Progress of long work, on standard error and only on a terminal.

use crate::run::Progress;
use indicatif::{ProgressBar, ProgressStyle};

pub(super) fn bar(template: &str) -> ProgressBar {
    ProgressBar::new(1).with_style(ProgressStyle::with_template(template).expect("templates here are well formed"))
}

pub(super) fn show(bar: &ProgressBar, p: Progress) {
    bar.set_length(p.of);
    bar.set_position(p.done);
    bar.set_message(p.doing);
}
