//! Several processes at one sweep, played by several [`Parts`] of this one.

use super::*;
use crate::settings::Keys;
use crate::sweep::tests::{BASE, file, run};
use crate::sweep::{Sweep, charts, csv, json};
use crate::toml_file::TomlFile;
use std::sync::atomic::{AtomicUsize, Ordering};

const AXES: &str = "[sweep]\nload = [0.05, 0.1, 0.2, 0.3]\npattern = [\"uniform\", \"tornado\"]\n";

/// A sweep and its directory, which is removed at the end.
struct Scene {
    sweep: Sweep,
    about: About,
    out: PathBuf,
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.out);
    }
}

impl Scene {
    fn new(name: &str) -> Scene {
        let out = std::env::temp_dir().join(format!("angara-parts-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&out);
        let (sweep, about) = read(name, &format!("{BASE}{AXES}"), &Keys::default());
        Scene { sweep, about, out }
    }

    fn open_as(
        &self,
        about: &About,
        patience: Patience,
        stop: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Opened, Error> {
        let stop = move || if stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        Parts::open(&self.out, about, patience, stop, |_| ())
    }

    fn open(&self) -> Parts {
        match self.open_as(&self.about, patience(60, true), || false).unwrap() {
            Opened::Begun(parts) => parts,
            Opened::Complete(_) => panic!("it is complete"),
        }
    }

    fn refused(&self, text: &str, flags: &Keys) -> String {
        let about = read("other", text, flags).1;
        self.open_as(&about, patience(60, true), || false).map(|_| ()).unwrap_err().to_string()
    }

    /// Simulates until `most` more points are there.
    fn some(&self, most: usize) -> usize {
        let seen = Arc::new(AtomicUsize::new(0));
        let parts = self.open();
        let counted = Counted { parts: &parts, seen: seen.clone(), most };
        let enough = move || seen.load(Ordering::Relaxed) >= most;
        let stop = || if enough() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        self.sweep.run(1, &counted, &stop).unwrap();
        parts.progress().0
    }

    fn merged(&self) -> Option<Vec<Row>> {
        let parts = self.open();
        self.sweep.run(2, &parts, &|| ControlFlow::Continue(())).unwrap();
        match parts.merge(|_| Ok(())).unwrap() {
            Merged::Here(rows) => Some(rows),
            _ => None,
        }
    }

    fn part(&self, name: &str) -> PathBuf {
        self.out.join(PARTS).join(name)
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(&self.out).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Everything that is made of results.
    fn shown(&self, rows: &[Row]) -> String {
        let drawn: String = charts(&self.sweep.names, rows).iter().map(|(_, c)| c.svg().unwrap()).collect();
        csv(&self.sweep.names, rows) + &serde_json::to_string(&json(rows)).unwrap() + &drawn
    }
}

struct Counted<'a> {
    parts: &'a Parts,
    seen: Arc<AtomicUsize>,
    most: usize,
}

impl Desk for Counted<'_> {
    fn next(&self) -> Result<Option<usize>, Error> {
        if self.seen.load(Ordering::Relaxed) < self.most { self.parts.next() } else { Ok(None) }
    }
    fn done(&self, point: usize, row: &Row) -> Result<(), Error> {
        self.seen.fetch_add(1, Ordering::Relaxed);
        self.parts.done(point, row)
    }
}

fn patience(seconds: u64, waits: bool) -> Patience {
    Patience { timeout: Duration::from_secs(seconds), waits }
}

fn read(name: &str, text: &str, flags: &Keys) -> (Sweep, About) {
    let toml: TomlFile = file(name, text);
    let (sweep, _) = Sweep::read(&toml, flags).unwrap();
    let about = About::of(&sweep, &toml, flags);
    (sweep, about)
}

/// A process of another host, which this one cannot ask.
fn far(scene: &Scene) -> Process {
    let me: Process = Process::this();
    let text = serde_json::to_string(&me).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["host"] = "far".into();
    let far: Process = serde_json::from_value(value).unwrap();
    fs::write(far.file(&scene.out.join(PARTS)), "").unwrap();
    far
}

fn claim_for(scene: &Scene, point: usize, owner: &Process) {
    fs::write(scene.part(&format!("{point}.claim")), serde_json::to_string(owner).unwrap()).unwrap();
}

#[test]
fn two_that_work_at_once_lose_nothing_and_do_nothing_twice() {
    let scene = Scene::new("two");
    let (first, second) = (scene.open(), scene.open());
    let points: Vec<usize> =
        (0..8).map(|i| if i % 2 == 0 { &first } else { &second }.next().unwrap().unwrap()).collect();
    assert_eq!(points, [0, 1, 2, 3, 4, 5, 6, 7]);
    let whole = run(&scene.sweep, 1);
    for (point, row) in whole.iter().enumerate() {
        // Where both write into one file, the second start cuts a line or has the first one's lines in the wrong place.
        if point % 2 == 0 { &first } else { &second }.done(point, row).unwrap();
        drop(scene.open());
    }
    assert_eq!((first.next().unwrap(), second.next().unwrap()), (None, None));
    assert!(matches!(first.merge(|_| Ok(())).unwrap(), Merged::Here(rows) if rows == whole));
    assert!(matches!(second.merge(|_| panic!("once")).unwrap(), Merged::Elsewhere));
    assert_eq!(scene.names(), ["points.jsonl"]);

    // Whoever comes late has nothing to do.
    let late = scene.open_as(&scene.about, patience(60, true), || false).unwrap();
    assert!(matches!(late, Opened::Complete(rows) if rows == whole));
    assert_eq!(scene.names(), ["points.jsonl"]);
}

#[test]
fn an_ended_sweep_goes_on_from_what_was_finished() {
    let scene = Scene::new("ended");
    assert_eq!(scene.some(1), 1);
    assert_eq!(scene.some(3), 4, "the next start adds to it");
    let claims =
        || fs::read_dir(scene.out.join(PARTS)).unwrap().flatten().map(|e| e.file_name().into_string().unwrap());
    assert!(!claims().any(|name| name.ends_with(".claim")), "none is left over");

    // Files that were cut, by a host that lost its power, count as not finished.
    fs::write(scene.part("2.json"), "").unwrap();
    let parts = scene.open();
    scene.sweep.run(1, &parts, &|| ControlFlow::Continue(())).unwrap();
    assert!(matches!(parts.merge(|_| panic!("one is cut")).unwrap(), Merged::Damaged));
    assert_eq!(parts.missing(), [2]);
    drop(parts);
    let rows = scene.merged().unwrap();
    assert_eq!(scene.shown(&rows), scene.shown(&run(&scene.sweep, 2)));
}

#[test]
fn points_that_an_older_program_kept_are_taken_over() {
    let scene = Scene::new("old");
    fs::create_dir_all(&scene.out).unwrap();
    let rows = run(&scene.sweep, 1);
    let line = |point: usize| serde_json::to_string(&Line { point, row: &rows[point] }).unwrap();
    let head = format!("{{\"sweep\":\"{}\",\"points\":8}}", scene.about.sweep);
    fs::write(scene.out.join(OLD), format!("{head}\n{}\n{}\n{}", line(5), line(1), &line(2)[..9])).unwrap();
    let parts = scene.open();
    assert_eq!((parts.missing(), scene.out.join(OLD).exists()), (vec![0, 2, 3, 4, 6, 7], false));
    drop(parts);
    assert_eq!(scene.merged().unwrap(), rows);

    fs::write(scene.out.join(OLD), format!("{head}\n{{\"point\":99}}\n")).unwrap();
    fs::remove_file(scene.out.join(FINISHED)).unwrap();
    let e = scene.open_as(&scene.about, patience(60, true), || false).map(|_| ()).unwrap_err().to_string();
    assert!(e.contains("partial.jsonl:2: no finished point of this sweep"), "{e}");
}

#[test]
fn another_sweep_is_refused_with_what_is_different() {
    let scene = Scene::new("another");
    scene.some(2);
    let text = format!("{BASE}{AXES}");
    let none = Keys::default();
    for (other, flags, part) in [
        (text.replace("0.05", "0.04"), &none, ".toml:6 is `load = [0.04, 0.1, 0.2, 0.3]`, and it was `load = [0.05,"),
        (format!("{text}seed = [1, 2]\n"), &none, ".toml:8 is `seed = [1, 2]`, and it was not there"),
        (text.clone(), &Keys { seed: Some(2), ..Keys::default() }, "--seed is 2, and it was not given"),
    ] {
        let e = scene.refused(&other, flags);
        assert!(e.contains("parts/sweep.json:1: it holds points of another sweep: "), "{e}");
        assert!(e.contains(part) && e.contains("--out"), "{e}");
    }
    assert_eq!(scene.open().progress().0, 2, "and it leaves them");
    // Threads and comments make no other sweep.
    let about = read("same", &format!("# A comment\n{text}"), &Keys { threads: Some(2), ..Keys::default() }).1;
    assert!(scene.open_as(&about, patience(60, true), || false).is_ok());
}

#[test]
fn claims_of_those_that_are_silent_are_void_after_a_time() {
    let scene = Scene::new("silent");
    drop(scene.open());
    let other = far(&scene);
    claim_for(&scene, 3, &other);
    let left = |seconds: u64| {
        let opened = scene.open_as(&scene.about, patience(seconds, false), || false).unwrap();
        let Opened::Begun(parts) = opened else { panic!("it is not complete") };
        scene.sweep.run(2, &parts, &|| ControlFlow::Continue(())).unwrap();
        parts.missing()
    };
    assert_eq!(left(60), [3], "its owner may live");
    let ago = |path: &Path| {
        fs::File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(SystemTime::now() - Duration::from_secs(100))
            .unwrap();
    };
    ago(&other.file(&scene.out.join(PARTS)));
    assert_eq!(left(200), [3]);
    assert_eq!(left(60), [0; 0]);

    // So is one without a name, and that of a merge.
    fs::remove_file(scene.part("6.json")).unwrap();
    fs::write(scene.part("6.claim"), "").unwrap();
    assert_eq!(left(60), [6]);
    ago(&scene.part("6.claim"));
    assert_eq!(left(60), [0; 0]);
    fs::write(scene.part("merge.claim"), serde_json::to_string(&other).unwrap()).unwrap();
    assert!(matches!(scene.open().merge(|_| Ok(())).unwrap(), Merged::Here(_)));
}

#[test]
fn whoever_waits_takes_over_and_can_be_stopped() {
    let scene = Scene::new("waits");
    let parts = scene.open();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let text = serde_json::to_string(&Process::this()).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["pid"] = child.id().into();
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let start: u64 = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap().parse().unwrap();
    value["start"] = start.into();
    let other: Process = serde_json::from_value(value).unwrap();
    fs::write(other.file(&scene.out.join(PARTS)), "").unwrap();
    for point in 0..8 {
        claim_for(&scene, point, &other);
    }
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let stopped = scene.open_as(&scene.about, patience(60, true), move || count.fetch_add(1, Ordering::Relaxed) > 3);
    let Ok(Opened::Begun(stopped)) = stopped else { panic!("it is not complete") };
    assert_eq!(stopped.next().unwrap(), None, "all are with a process that lives");
    assert!(asked.load(Ordering::Relaxed) > 3);
    child.kill().unwrap();
    let state = || fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while !state().rsplit(')').next().unwrap().trim_start().starts_with('Z') {
        assert!(std::time::Instant::now() < until, "it does not end: {}", state());
        std::thread::yield_now();
    }
    assert_eq!(parts.next().unwrap(), Some(0), "it has ended, and nobody has asked how");
    child.wait().unwrap();
}

#[test]
fn a_directory_that_ends_while_a_point_is_simulated_is_no_mistake() {
    let scene = Scene::new("ends");
    let slow = scene.open();
    let point = slow.next().unwrap().unwrap();
    // It stands still for too long; another one ends the sweep without it.
    fs::remove_file(scene.part(&format!("{point}.claim"))).unwrap();
    let rows = scene.merged().unwrap();
    slow.done(point, &rows[point]).unwrap();
    assert_eq!(slow.next().unwrap(), None);
    assert!(slow.progress().1);
    drop(slow);
    assert_eq!(scene.names(), ["points.jsonl"]);
}

#[test]
fn a_sweep_is_found_by_its_directory() {
    let scene = Scene::new("found");
    let e = find(&scene.out).map(|_| ()).unwrap_err().to_string();
    assert!(e.contains("there is no sweep in it"), "{e}");
    scene.some(3);
    let (about, rows) = find(&scene.out).unwrap();
    assert!(rows.is_none() && about.is(&scene.about));
    let whole = scene.merged().unwrap();
    let (about, rows) = find(&scene.out).unwrap();
    let results = about.results().unwrap();
    assert_eq!(csv(&results.names, &rows.unwrap()), csv(&scene.sweep.names, &whole));

    // What another build of the program finished is simulated again, and replaced.
    let path = scene.out.join(FINISHED);
    let text = fs::read_to_string(&path).unwrap();
    let at = text.find("\"program\":\"").unwrap() + 11;
    fs::write(&path, format!("{}0000000000000000{}", &text[..at], &text[at + 16..])).unwrap();
    assert_eq!(scene.open().progress().0, 0);
    assert_eq!(scene.merged().unwrap(), whole);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

/// A process may be killed at any time: a claim that says nothing would keep the others waiting.
#[test]
fn whoever_sees_a_claim_sees_whose_it_is() {
    let scene = Scene::new("whole-claims");
    let parts = scene.open();
    let claim = scene.part("0.claim");
    let ended = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut seen = 0;
            while !ended.load(Ordering::Relaxed) {
                if let Ok(text) = fs::read_to_string(&claim) {
                    assert!(text.ends_with('\n'), "`{text}` is a claim");
                    seen += 1;
                }
            }
            seen
        });
        for _ in 0..5_000 {
            assert!(parts.inner.claim("0").unwrap() == Claim::Taken);
            parts.inner.unclaim("0");
        }
        ended.store(true, Ordering::Relaxed);
        assert!(looks.join().unwrap() > 0, "a claim is seen");
    });
}
