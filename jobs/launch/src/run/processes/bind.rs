//! Which cores each PE runs on.
//!
//! Measured with 8 PEs on 2 cores: unpinned processes cost 1.3 to 2 times as much, because the
//! scheduler moves waiters about. With fewer PEs than cores each gets an equal share of the cores,
//! so that a program with threads still sees several. An affinity the user set is never changed.

use angara_control::cores::{Bind, Cores};
use angara_protocol::msg::CoreAdvice;

/// Cores of each of `pes` PEs, or `None` to leave them alone. By the daemon's advice jobs on one machine do not start on the same
/// core, and as long as there are enough others no PE shares one with the data plane that it waits for.
pub fn assign(how: Bind, cores: &Cores, pes: usize, advice: &CoreAdvice) -> Option<Vec<Vec<usize>>> {
    if cores.allowed.is_empty() || how == Bind::None || (how == Bind::Auto && cores.by_user) {
        return None;
    }
    let free: Vec<usize> = cores.allowed.iter().filter(|c| !advice.busy.contains(c)).copied().collect();
    let allowed = if free.len() >= pes.max(1) { &free } else { &cores.allowed };
    let (n, offset) = (allowed.len(), advice.first as usize);
    let share = if how == Bind::Core { 1 } else { (n / pes.max(1)).max(1) };
    let core = |i: usize| allowed[i % n];
    Some(
        (0..pes)
            .map(|pe| {
                let mut own: Vec<usize> = (0..share).map(|k| core(offset + pe * share + k)).collect();
                own.sort_unstable();
                own
            })
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(first: u32) -> CoreAdvice {
        CoreAdvice { first, busy: Vec::new() }
    }

    fn cores(n: usize) -> Cores {
        Cores { allowed: (0..n).collect(), by_user: false }
    }

    #[test]
    fn many_pes_get_one_core_each_in_turn() {
        assert_eq!(assign(Bind::Auto, &cores(2), 5, &from(1)).unwrap(), [[1], [0], [1], [0], [1]]);
    }

    #[test]
    fn few_pes_share_the_cores_equally() {
        assert_eq!(assign(Bind::Auto, &cores(8), 3, &from(0)).unwrap(), [[0, 1], [2, 3], [4, 5]]);
        assert_eq!(assign(Bind::Auto, &cores(4), 1, &from(2)).unwrap(), [[0, 1, 2, 3]]);
        assert_eq!(assign(Bind::Core, &cores(8), 3, &from(0)).unwrap(), [[0], [1], [2]]);
    }

    #[test]
    fn pes_leave_the_data_plane_its_core_while_there_are_others() {
        let advice = CoreAdvice { first: 0, busy: vec![1] };
        assert_eq!(assign(Bind::Auto, &cores(2), 1, &advice).unwrap(), [[0]]);
        assert_eq!(assign(Bind::Auto, &cores(2), 2, &advice).unwrap(), [[0], [1]]);
        assert_eq!(assign(Bind::Auto, &cores(4), 3, &advice).unwrap(), [[0], [2], [3]]);
        assert_eq!(assign(Bind::Core, &cores(4), 2, &advice).unwrap(), [[0], [2]]);
    }

    #[test]
    fn an_affinity_set_by_the_user_is_kept() {
        let narrowed = Cores { allowed: vec![3, 5], by_user: true };
        assert_eq!(assign(Bind::Auto, &narrowed, 4, &from(0)), None);
        assert_eq!(assign(Bind::Core, &narrowed, 3, &from(0)).unwrap(), [[3], [5], [3]]);
        assert_eq!(assign(Bind::None, &cores(2), 3, &from(0)), None);
    }
}
