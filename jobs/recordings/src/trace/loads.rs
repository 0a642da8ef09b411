//! How busy links were while a job ran: looks at what they had carried by then, of which those of the hottest links become
//! tracks.
//!
//! On the wall's clock the daemon is asked, as often as it takes another sample. In virtual time it has noted what links
//! carried itself, exactly, and is asked at the end.

use angara_abi::{FLIT_BYTES, JobId};
use angara_control::daemon::{Control, unexpected};
use angara_control::error::Failed;
use angara_net::Link;
use angara_net::torus::Shape;
use angara_protocol::msg::{LinkLoads, LinkUse, Reply, Request};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Numbers that are kept of a job, however long it takes. Beyond that two times become one.
const KEPT: usize = 1 << 20;

/// Loads of links, by time.
#[derive(Default, Debug)]
pub(super) struct Loads {
    spans: Vec<Span>,
    /// When the last look was, ns, and what each link had carried by then.
    last: Option<u64>,
    carried: HashMap<u32, u64>,
    /// Numbers in `spans`.
    kept: usize,
}

/// A time between two looks, ns, and flits that links carried then.
#[derive(Default, Debug, PartialEq, Eq)]
struct Span {
    from: u64,
    to: u64,
    /// In the order of links: number of the node × 8 + number of the direction.
    flits: Vec<(u32, u64)>,
}

/// The load of a link: at each of these times in ns it became N MB/s.
#[derive(Debug, PartialEq)]
pub(super) struct Track {
    pub(super) link: String,
    pub(super) load: Vec<(u64, f64)>,
}

impl Loads {
    /// Adds a look; the first one is where others begin.
    fn look(&mut self, seen: LinkLoads) {
        let Some(from) = self.last.replace(seen.at_ns) else {
            self.carried = seen.flits.into_iter().collect();
            return;
        };
        if from >= seen.at_ns {
            self.last = Some(from);
            return;
        }
        let mut flits = Vec::new(); // in the daemon's order, by link
        for (link, now) in seen.flits {
            // When another job ends, what it carried without the network is no longer in these counts.
            let more = now.saturating_sub(self.carried.insert(link, now).unwrap_or(0));
            if more > 0 {
                flits.push((link, more));
            }
        }
        self.add(Span { from, to: seen.at_ns, flits }, KEPT);
    }

    fn add(&mut self, span: Span, most: usize) {
        self.kept += 1 + span.flits.len();
        self.spans.push(span);
        if self.kept <= most {
            return;
        }
        let mut halved = Vec::with_capacity(self.spans.len().div_ceil(2));
        let mut spans = std::mem::take(&mut self.spans).into_iter();
        while let Some(first) = spans.next() {
            halved.push(match spans.next() {
                Some(second) => first.and(second),
                None => first,
            });
        }
        self.kept = halved.iter().map(|span| 1 + span.flits.len()).sum();
        self.spans = halved;
    }

    /// Returns what links carried in equally long virtual times, as the daemon has noted it.
    fn noted(width_ps: u64, links: &[LinkUse]) -> Result<Loads, Failed> {
        let width = width_ps / 1000;
        let times = links.iter().map(|link| link.flits.len()).max().unwrap_or(0) as u64;
        let mut loads = Loads::default();
        loads.spans.extend((0..times).map(|i| Span { from: i * width, to: (i + 1) * width, flits: Vec::new() }));
        for link in links {
            let index = Link { node: link.node, dir: link.dir }.index() as u32;
            for (span, flits) in loads.spans.iter_mut().zip(&link.flits).filter(|(_, flits)| **flits > 0) {
                span.flits.push((index, *flits));
            }
        }
        loads.spans.iter_mut().for_each(|span| span.flits.sort_unstable());
        Ok(loads)
    }

    /// Tracks of the `most` links that carried most, hottest first.
    pub(super) fn hottest(&self, most: u32, shape: Shape) -> Vec<Track> {
        let mut sums: HashMap<u32, u64> = HashMap::new();
        for (link, flits) in self.spans.iter().flat_map(|span| &span.flits) {
            *sums.entry(*link).or_default() += flits;
        }
        let mut sums: Vec<(u32, u64)> = sums.into_iter().collect();
        sums.sort_by_key(|(link, flits)| (Reverse(*flits), *link));
        let track = |(link, _): (u32, u64)| {
            let Link { node, dir } = Link::from_index(link as usize);
            let there = (node as usize) < shape.nodes() && !self.spans.is_empty();
            let name = there.then(|| format!("{}{dir}", shape.show(shape.coords(node))))?;
            Some(Track { link: name, load: self.of(link) })
        };
        sums.into_iter().take(most as usize).filter_map(track).collect()
    }

    /// The load of a link, wherever it changes.
    fn of(&self, link: u32) -> Vec<(u64, f64)> {
        let mut load: Vec<(u64, f64)> = Vec::new();
        for span in &self.spans {
            let found = span.flits.binary_search_by_key(&link, |(link, _)| *link);
            let flits = found.map_or(0, |at| span.flits[at].1);
            let now = (flits * FLIT_BYTES as u64) as f64 * 1000.0 / (span.to - span.from) as f64;
            if load.last().is_none_or(|(_, before)| *before != now) {
                load.push((span.from, now));
            }
        }
        load.extend(self.spans.last().map(|last| (last.to, 0.0)));
        load
    }
}

impl Span {
    /// This time and the one behind it.
    fn and(mut self, next: Span) -> Span {
        let mut flits: HashMap<u32, u64> = self.flits.drain(..).collect();
        for (link, more) in next.flits {
            *flits.entry(link).or_default() += more;
        }
        let mut flits: Vec<(u32, u64)> = flits.into_iter().collect();
        flits.sort_unstable();
        Span { from: self.from, to: next.to, flits }
    }
}

/// Looks that go on.
pub(super) struct Looks {
    stop: oneshot::Sender<()>,
    task: JoinHandle<(Loads, Option<Failed>)>,
}

impl Looks {
    /// Looks at the links of the daemon in `dir` for the first time, and goes on.
    pub(super) async fn begin(dir: &Path) -> Result<Looks, Failed> {
        let mut control = Control::connect(dir)?;
        let mut loads = Loads::default();
        let mut next = look(&mut control, &mut loads).await?;
        let (stop, mut stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut last = false;
            while !last {
                let pause = sleep(next);
                tokio::pin!(pause);
                tokio::select! {
                    () = &mut pause => {}
                    _ = &mut stopped => {
                        // A look that is not older than the end.
                        pause.await;
                        last = true;
                    }
                }
                match look(&mut control, &mut loads).await {
                    Ok(pause) => next = pause,
                    Err(e) => return (loads, Some(e)),
                }
            }
            (loads, None)
        });
        Ok(Looks { stop, task })
    }

    /// Looks once more. Returns what was seen, and why it was not seen to the end, if so.
    pub(super) async fn end(self) -> (Loads, Option<Failed>) {
        // Fails if the daemon has gone, which has ended the looks.
        let _ = self.stop.send(());
        self.task.await.unwrap_or_else(|e| {
            let failed = Failed::runtime(format!("looking at links has ended: {e}"), "report this as a defect");
            (Loads::default(), Some(failed))
        })
    }
}

/// One look, and how long there is no other one.
async fn look(control: &mut Control, loads: &mut Loads) -> Result<Duration, Failed> {
    match control.request(&Request::LinkLoads).await? {
        Reply::LinkLoads(seen) => {
            let next = Duration::from_nanos(seen.next_ns);
            loads.look(seen);
            Ok(next)
        }
        other => Err(unexpected(&other)),
    }
}

/// Returns what the daemon of a job in virtual time has noted of links.
pub(super) async fn noted(control: &mut Control, job: JobId) -> Result<Loads, Failed> {
    let width = match control.request(&Request::JobReport { job }).await? {
        Reply::Report(report) => report.virtual_time.map_or(0, |times| times.bucket_ps),
        other => return Err(unexpected(&other)),
    };
    let (mut links, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        match control.request(&Request::JobTimes { job, from }).await? {
            Reply::Times(piece) => {
                links.extend(piece.links);
                next = piece.next;
            }
            other => return Err(unexpected(&other)),
        }
    }
    Loads::noted(width, &links)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(at_ns: u64, flits: &[(u32, u64)]) -> LinkLoads {
        LinkLoads { at_ns, next_ns: 0, flits: flits.to_vec() }
    }

    #[test]
    fn loads_are_of_the_time_between_two_looks() {
        let mut loads = Loads::default();
        // The first link was busy before, the last one is never the hottest.
        loads.look(seen(1000, &[(0, 500)]));
        loads.look(seen(2000, &[(0, 600), (9, 1000)]));
        loads.look(seen(2000, &[(0, 900)]));
        loads.look(seen(4000, &[(0, 1000), (9, 1000), (18, 1)]));
        loads.look(seen(5000, &[(0, 1000), (9, 1000), (18, 1)]));
        let tracks = loads.hottest(2, "2x2x2".parse().expect("a shape"));
        assert_eq!(tracks.len(), 2);
        assert_eq!((&tracks[0].link[..], &tracks[1].link[..]), ("1,0,0+Y", "0,0,0+X"));
        assert_eq!(tracks[0].load, [(1000, 16000.0), (2000, 0.0), (5000, 0.0)]);
        assert_eq!(tracks[1].load, [(1000, 1600.0), (2000, 3200.0), (4000, 0.0), (5000, 0.0)]);
    }

    #[test]
    fn many_looks_become_fewer_and_nothing_is_lost() {
        let mut loads = Loads::default();
        for i in 0..1000 {
            loads.add(Span { from: i, to: i + 1, flits: vec![(1, 2), (i as u32 % 3 + 2, 1)] }, 100);
            assert!(loads.kept <= 100 && loads.kept == loads.spans.iter().map(|s| 1 + s.flits.len()).sum::<usize>());
        }
        let sum = |link| loads.spans.iter().flat_map(|s| &s.flits).filter(|f| f.0 == link).map(|f| f.1).sum::<u64>();
        assert_eq!([1, 2, 3, 4].map(sum), [2000, 334, 333, 333]);
        assert!(loads.spans.windows(2).all(|two| two[0].to == two[1].from), "without gaps");
        assert_eq!((loads.spans[0].from, loads.spans.last().expect("some").to), (0, 1000));
    }
}
