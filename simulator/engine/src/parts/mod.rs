//! Finished points of a sweep, in a directory that any number of processes share.
//!
//! Processes talk by files alone, so that they may be on any hosts and end at any time. `parts` has:
//!
//! * `sweep.json`, which sweep it is. A process that has another one is refused.
//! * `17.claim` while a process simulates point 17. Only one can create it. It says which process that is.
//! * `17.json`, the finished point. It is written under another name and renamed, so that it is there as a whole.
//! * `HOST-PID-START.process`, which a process touches every few seconds. A claim is void if its process is known to have
//!   ended, or did not touch its file for a time.
//!
//! A process that finds all points finished claims the merge: it writes the results, then all points into `points.jsonl`
//! beside `parts`, and removes `parts`. Two processes may come to have the same point, if one of them stood still for
//! too long. That costs time alone, because both write the same bytes.

mod about;
mod lines;
mod process;

pub use about::About;

use crate::Error;
use crate::sweep::{Desk, Row};
use lines::{Line, Lines};
use process::{Process, age};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Files of a sweep's directory.
const PARTS: &str = "parts";
/// File of the points that are finished, in the directory of a sweep.
pub const FINISHED: &str = "points.jsonl";
/// What older programs kept points in.
const OLD: &str = "partial.jsonl";
/// Files of `parts`.
const ABOUT: &str = "sweep.json";
const MERGE: &str = "merge";

/// A list of the directory is good for so long.
const FRESH: Duration = Duration::from_secs(1);
/// Waits begin and end with these pauses between two looks.
const PAUSES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(500)];
/// A process touches its file at least so often.
const BEAT_MAX: Duration = Duration::from_secs(10);
/// A wait that takes longer is told to the user.
const TELL: Duration = Duration::from_secs(5);
/// Processes of one launcher have seen each other after this time, if they can.
const TOGETHER: Duration = Duration::from_secs(15);

/// A claim where files cannot have two names: it says whose it is a moment after it is there.
fn create_claim(path: &Path, text: &str) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(text.as_bytes()).inspect_err(|_| drop(remove(path)))
}

fn io_error(path: &Path, source: io::Error) -> Error {
    Error::File { path: path.into(), source }
}

fn damaged(path: &Path, line: usize, message: &str) -> Error {
    Error::Setting { path: path.into(), line, message: message.into() }
}

/// True if a file or its directory is not there, or has gone on a network file system.
fn is_gone(e: &io::Error) -> bool {
    e.kind() == ErrorKind::NotFound || e.kind() == ErrorKind::StaleNetworkFileHandle
}

/// Removes a file that may have gone before.
fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(e) if !is_gone(&e) => Err(io_error(path, e)),
        _ => Ok(()),
    }
}

/// True if a sweep has begun in `out` and not ended.
pub fn unfinished(out: &Path) -> bool {
    out.join(PARTS).exists() || out.join(OLD).exists()
}

/// What is there of a sweep.
pub enum Opened {
    /// Every point.
    Complete(Vec<Row>),
    /// Some points, and work for this process.
    Begun(Parts),
}

/// What became of the results.
pub enum Merged {
    /// This process has written them.
    Here(Vec<Row>),
    /// Another process has.
    Elsewhere,
    /// Another process does.
    Soon,
    /// A point has to be simulated again.
    Damaged,
    /// The user ended the wait.
    Stopped,
}

/// How processes wait for each other.
#[derive(Clone, Copy)]
pub struct Patience {
    /// A process that has not been heard of for so long counts as ended.
    pub timeout: Duration,
    /// True if this process waits for points that others simulate.
    pub waits: bool,
}

/// Finished and claimed points of a sweep that has not ended.
pub struct Parts {
    inner: Arc<Inner>,
    /// Ends the thread that touches this process's file.
    beat: Option<(Sender<()>, JoinHandle<()>)>,
}

struct Inner {
    out: PathBuf,
    dir: PathBuf,
    about: About,
    me: Process,
    patience: Patience,
    stop: Box<dyn Fn() -> ControlFlow<()> + Send + Sync>,
    /// Gets the number of finished points.
    shown: Box<dyn Fn(usize) + Send + Sync>,
    began: (Instant, SystemTime),
    state: Mutex<State>,
}

/// What this process knows.
#[derive(Default)]
struct State {
    listed: Option<Instant>,
    done: BTreeSet<usize>,
    /// Points that others have claimed.
    claimed: BTreeSet<usize>,
    /// Points that this process simulates.
    mine: BTreeSet<usize>,
    /// Names of other processes, and whether one was heard of since this one began.
    others: BTreeSet<String>,
    met: bool,
    warned: bool,
    /// True if the user knows what this process waits for.
    told: bool,
    /// True if the results have been written.
    over: bool,
}

/// What came of an attempt to claim.
#[derive(PartialEq)]
enum Claim {
    Taken,
    Others,
    /// The directory has gone.
    Gone,
}

/// What a process may do.
enum Next {
    Point(usize),
    /// Nothing is left: all is finished, or the rest is this process's own.
    Nothing,
    /// Others have what is left.
    Wait,
}

impl Parts {
    /// Opens the points in the directory `out` of the sweep `about`.
    ///
    /// # Errors
    /// The directory cannot be used, or has points of another sweep.
    pub fn open(
        out: &Path,
        about: &About,
        patience: Patience,
        stop: impl Fn() -> ControlFlow<()> + Send + Sync + 'static,
        shown: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<Opened, Error> {
        fs::create_dir_all(out).map_err(|e| io_error(out, e))?;
        let me = Process::this();
        let mut tries = 0;
        let began = loop {
            match begin(out, about, &me) {
                // Another process may end the sweep at any time, and remove the directory.
                Err(Error::File { source, .. }) if is_gone(&source) && tries < 10 => tries += 1,
                Err(e) => return Err(e),
                Ok(Begun::Complete(rows)) => return Ok(Opened::Complete(rows)),
                Ok(Begun::At(time)) => break time,
            }
        };
        let inner = Inner {
            out: out.into(),
            dir: out.join(PARTS),
            about: about.clone(),
            me,
            patience,
            stop: Box::new(stop),
            shown: Box::new(shown),
            began: (Instant::now(), began),
            state: Mutex::default(),
        };
        inner.list(&mut inner.state())?;
        let inner = Arc::new(inner);
        let (sender, receiver) = channel();
        let beating = inner.clone();
        let every = (patience.timeout / 6).min(BEAT_MAX);
        let beat = move || {
            while receiver.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                // What goes wrong here does so where a point is kept, too, and is said there.
                let _ = beating.me.beat(&beating.dir);
                let _ = beating.list(&mut beating.state());
            }
        };
        // Without the thread, others may simulate the same points.
        let beat = std::thread::Builder::new().name("claims".into()).spawn(beat).ok().map(|thread| (sender, thread));
        Ok(Opened::Begun(Parts { inner, beat }))
    }

    /// Returns where finished points are.
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// Returns the number of finished points, and whether the results have been written.
    pub fn progress(&self) -> (usize, bool) {
        let state = self.inner.state();
        (state.done.len(), state.over)
    }

    /// Returns the points that are not finished.
    pub fn missing(&self) -> Vec<usize> {
        let state = self.inner.state();
        (0..self.inner.about.points).filter(|point| !state.done.contains(point)).collect()
    }

    /// If all points are finished, lets one process pass them to `write`.
    ///
    /// # Errors
    /// A file that cannot be read or written, or what `write` said.
    pub fn merge(&self, write: impl Fn(&[Row]) -> Result<(), Error>) -> Result<Merged, Error> {
        let inner = &self.inner;
        let mut pause = PAUSES[0];
        loop {
            match inner.claim(MERGE)? {
                Claim::Taken => {
                    let done = inner.finish(write);
                    if !matches!(done, Ok(Merged::Here(_))) {
                        inner.unclaim(MERGE);
                    }
                    return done;
                }
                Claim::Others if inner.is_void(MERGE)? => remove(&inner.claim_file(MERGE))?,
                Claim::Others if !inner.patience.waits => return Ok(Merged::Soon),
                Claim::Others => {}
                Claim::Gone if inner.is_over() => return Ok(Merged::Elsewhere),
                Claim::Gone => return Err(io_error(&inner.dir, ErrorKind::NotFound.into())),
            }
            if (inner.stop)().is_break() {
                return Ok(Merged::Stopped);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES[1]);
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.beat.take() {
            drop(sender);
            let _ = thread.join();
        }
        let mine = std::mem::take(&mut self.inner.state().mine);
        mine.iter().for_each(|point| self.inner.unclaim(&point.to_string()));
    }
}

impl Desk for Parts {
    fn next(&self) -> Result<Option<usize>, Error> {
        let (mut pause, began) = (PAUSES[0], Instant::now());
        while (self.inner.stop)().is_continue() {
            match self.inner.take()? {
                Next::Point(point) => return Ok(Some(point)),
                Next::Wait if self.inner.patience.waits && began.elapsed() < TELL => {}
                Next::Wait if self.inner.patience.waits => self.inner.tell(),
                Next::Wait | Next::Nothing => break,
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSES[1]);
        }
        Ok(None)
    }

    fn done(&self, point: usize, row: &Row) -> Result<(), Error> {
        let inner = &self.inner;
        let mut kept = keep(&inner.dir, &inner.me, point, row);
        if let Err(Error::File { source, .. }) = &kept
            && is_gone(source)
            && inner.is_over()
        {
            // Another process had this point, too.
            kept = Ok(());
        }
        let mut state = inner.state();
        state.mine.remove(&point);
        inner.unclaim(&point.to_string());
        kept?;
        state.done.insert(point);
        (inner.shown)(state.done.len());
        Ok(())
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while it holds the lock")
    }

    fn claim_file(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.claim"))
    }

    fn part(&self, point: usize) -> PathBuf {
        self.dir.join(format!("{point}.json"))
    }

    /// Reads the directory.
    fn list(&self, state: &mut State) -> Result<(), Error> {
        let failed = |e| io_error(&self.dir, e);
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(e) if is_gone(&e) => {
                state.over |= self.is_over();
                return if state.over { Ok(()) } else { Err(failed(e)) };
            }
            Err(e) => return Err(failed(e)),
        };
        state.listed = Some(Instant::now());
        state.claimed.clear();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let Some(name) = name.to_str() else { continue };
            let point = |ending| name.strip_suffix(ending)?.parse().ok().filter(|point| *point < self.about.points);
            if let Some(point) = point(".json") {
                state.done.insert(point);
            } else if let Some(point) = point(".claim") {
                state.claimed.insert(point);
            } else if Process::named(name).is_some_and(|n| n != self.me.name()) && state.others.insert(name.into()) {
                let young = age(&self.dir.join(name), self.began.1)?.is_some_and(|age| age < self.patience.timeout);
                state.met |= young;
            }
        }
        (self.shown)(state.done.len());
        self.warn(state);
        Ok(())
    }

    /// Says if other processes of the same launcher ought to be there, and are not.
    fn warn(&self, state: &mut State) {
        let Some(launcher) = self.me.launcher.as_ref().filter(|launcher| launcher.together) else { return };
        if !state.met && !state.warned && self.began.0.elapsed() > TOGETHER {
            state.warned = true;
            angara_protocol::complain!(
                "warning: {} started {} processes, and this one sees no other in {}; if hosts do not share this \
                 directory, each simulates the whole sweep: name a directory that they share with --out",
                launcher.name,
                launcher.size,
                self.dir.display()
            );
        }
    }

    /// Takes a point that nobody has.
    fn take(&self) -> Result<Next, Error> {
        let mut state = self.state();
        if state.over {
            return Ok(Next::Nothing);
        }
        if state.listed.is_none_or(|at| at.elapsed() > FRESH) {
            self.list(&mut state)?;
        }
        if let Some(point) = self.take_free(&mut state)? {
            return Ok(Next::Point(point));
        }
        // A change of its own has a network file system look again at what others changed.
        drop(fs::write(self.probe(), ""));
        remove(&self.probe())?;
        self.list(&mut state)?;
        let open = |state: &State| -> Vec<usize> {
            (0..self.about.points).filter(|p| !state.done.contains(p) && !state.mine.contains(p)).collect()
        };
        if state.over || open(&state).is_empty() {
            return Ok(Next::Nothing);
        }
        for point in open(&state) {
            let name = point.to_string();
            if state.claimed.contains(&point) && self.is_void(&name)? {
                remove(&self.claim_file(&name))?;
                state.claimed.remove(&point);
            }
        }
        Ok(self.take_free(&mut state)?.map_or(Next::Wait, Next::Point))
    }

    /// Says what this process waits for.
    fn tell(&self) {
        let mut state = self.state();
        if !std::mem::replace(&mut state.told, true) {
            let (left, all) = (self.about.points - state.done.len(), self.about.points);
            angara_protocol::complain!("waiting for {left} of {all} points, which other processes simulate");
        }
    }

    fn probe(&self) -> PathBuf {
        self.dir.join(self.me.name() + ".probe")
    }

    fn take_free(&self, state: &mut State) -> Result<Option<usize>, Error> {
        for point in 0..self.about.points {
            if state.done.contains(&point) || state.claimed.contains(&point) || state.mine.contains(&point) {
                continue;
            }
            match self.claim(&point.to_string())? {
                Claim::Taken => {
                    // It may have been finished since the directory was read.
                    if self.part(point).try_exists().map_err(|e| io_error(&self.part(point), e))? {
                        self.unclaim(&point.to_string());
                        state.done.insert(point);
                        continue;
                    }
                    state.mine.insert(point);
                    return Ok(Some(point));
                }
                Claim::Others => drop(state.claimed.insert(point)),
                Claim::Gone => {
                    self.list(state)?;
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// Creates the claim `name` if there is none. It is there as a whole, so that nobody waits for a process that was killed
    /// before it wrote its name.
    fn claim(&self, name: &str) -> Result<Claim, Error> {
        let (path, own) = (self.claim_file(name), self.dir.join(format!("{}.{name}.claiming", self.me.name())));
        let text = serde_json::to_string(&self.me).expect("numbers and names") + "\n";
        let linked = fs::write(&own, &text).and_then(|()| fs::hard_link(&own, &path));
        let _ = remove(&own);
        let claimed = match linked {
            Err(e) if e.kind() != ErrorKind::AlreadyExists && !is_gone(&e) => create_claim(&path, &text),
            other => other,
        };
        match claimed {
            Ok(()) => Ok(Claim::Taken),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(Claim::Others),
            Err(e) if is_gone(&e) => Ok(Claim::Gone),
            Err(e) => Err(io_error(&path, e)),
        }
    }

    /// Removes the claim `name`, unless another process has taken it over.
    fn unclaim(&self, name: &str) {
        if self.owner(name).is_some_and(|owner| owner.is(&self.me)) {
            // One that stays is void when this process has ended.
            let _ = remove(&self.claim_file(name));
        }
    }

    fn owner(&self, name: &str) -> Option<Process> {
        serde_json::from_slice(&fs::read(self.claim_file(name)).ok()?).ok()
    }

    /// True if the process that created the claim `name`, which this one does not need, has ended.
    fn is_void(&self, name: &str) -> Result<bool, Error> {
        let void = match self.owner(name) {
            Some(owner) if owner.is(&self.me) => Ok(true),
            Some(owner) => self.me.misses(&owner, &self.dir, self.patience.timeout),
            // It was killed before it wrote its name, or is just about to write it (see `create_claim`).
            None => self
                .me
                .beat(&self.dir)
                .and_then(|now| Ok(age(&self.claim_file(name), now)?.is_some_and(|age| age > self.patience.timeout))),
        };
        match void {
            Err(Error::File { source, .. }) if is_gone(&source) => Ok(false),
            other => other,
        }
    }

    /// True if the results have been written, and the points are elsewhere.
    fn is_over(&self) -> bool {
        !self.dir.exists() && finished(&self.out, &self.about).is_some()
    }

    /// Reads all points; `None` if one was cut, and is to be simulated again.
    fn rows(&self) -> Result<Option<Vec<Row>>, Error> {
        let mut rows = Vec::with_capacity(self.about.points);
        for point in 0..self.about.points {
            let path = self.part(point);
            let bytes = fs::read(&path).map_err(|e| io_error(&path, e))?;
            match serde_json::from_slice::<Line<Row>>(&bytes) {
                Ok(line) if line.point == point && self.about.has(point, &line.row) => rows.push(line.row),
                // As a host may leave it that lost its power.
                Err(e) if e.is_eof() => {
                    angara_protocol::complain!("{} was cut; its point is simulated again", path.display());
                    remove(&path)?;
                    self.state().done.remove(&point);
                }
                _ => return Err(damaged(&path, 1, "no finished point of this sweep; remove the file")),
            }
        }
        Ok((rows.len() == self.about.points).then_some(rows))
    }

    /// Writes the results, and leaves the points in one file.
    fn finish(&self, write: impl Fn(&[Row]) -> Result<(), Error>) -> Result<Merged, Error> {
        let Some(rows) = self.rows()? else { return Ok(Merged::Damaged) };
        write(&rows)?;
        Lines::write(&self.out.join(FINISHED), &self.about, &rows)?;
        discard(&self.dir, &self.me)?;
        self.state().over = true;
        Ok(Merged::Here(rows))
    }
}

/// How a process finds a sweep.
enum Begun {
    Complete(Vec<Row>),
    /// Not finished, at this time of the file system.
    At(SystemTime),
}

/// Returns what the sweep `about` left in `out` when it had finished.
fn finished(out: &Path, about: &About) -> Option<Lines> {
    let there = Lines::read(&out.join(FINISHED)).ok()??;
    (about.is(&there.about) && there.rows.iter().all(Option::is_some)).then_some(there)
}

/// Joins the sweep `about` in `out`, or begins it.
fn begin(out: &Path, about: &About, me: &Process) -> Result<Begun, Error> {
    let complete = || finished(out, about).filter(Lines::is_ours).and_then(Lines::complete);
    if let Some(rows) = complete() {
        return Ok(Begun::Complete(rows));
    }
    let old = Lines::read(&out.join(OLD))?;
    if let Some(old) = &old
        && !about.is(&old.about)
    {
        return Err(another(&out.join(OLD), about, &old.about, &out.join(OLD)));
    }
    let dir = out.join(PARTS);
    fs::create_dir_all(&dir).map_err(|e| io_error(&dir, e))?;
    publish(&dir, about, me)?;
    let there = read_about(&dir)?;
    if !about.is(&there) {
        return Err(another(&dir.join(ABOUT), about, &there, &dir));
    }
    // The sweep may have ended between the first look and the creation of the directory.
    if let Some(rows) = complete() {
        discard(&dir, me)?;
        return Ok(Begun::Complete(rows));
    }
    let file = me.file(&dir);
    let text = serde_json::to_string(me).expect("numbers and names") + "\n";
    fs::write(&file, text).map_err(|e| io_error(&file, e))?;
    for (point, row) in old.iter().flat_map(|old| old.rows.iter().enumerate()) {
        if let Some(row) = row {
            keep(&dir, me, point, row)?;
        }
    }
    remove(&out.join(OLD))?;
    Ok(Begun::At(me.beat(&dir)?))
}

/// Keeps a finished point in `dir`.
fn keep(dir: &Path, me: &Process, point: usize, row: &Row) -> Result<(), Error> {
    let (path, beside) = (dir.join(format!("{point}.json")), dir.join(format!("{point}.json.{}", me.name())));
    let text = serde_json::to_string(&Line { point, row }).expect("rows hold only numbers and names") + "\n";
    let kept = fs::write(&beside, text).and_then(|()| fs::rename(&beside, &path)).map_err(|e| io_error(&path, e));
    kept.inspect_err(|_| drop(remove(&beside)))
}

fn another(path: &Path, about: &About, there: &About, remedy: &Path) -> Error {
    let why = format!(
        "it holds points of another sweep: {}; end what works on that and remove {}, or name another directory with --out",
        about.difference(there),
        remedy.display()
    );
    damaged(path, 1, &why)
}

/// Says in `dir` which sweep it is of, if nothing there does.
fn publish(dir: &Path, about: &About, me: &Process) -> Result<(), Error> {
    let (path, beside) = (dir.join(ABOUT), dir.join(format!("{ABOUT}.{}", me.name())));
    if path.try_exists().map_err(|e| io_error(&path, e))? {
        return Ok(());
    }
    let text = serde_json::to_string_pretty(about).expect("numbers and names") + "\n";
    fs::write(&beside, text).map_err(|e| io_error(&beside, e))?;
    // Of several that come at once the first one wins. Where a file cannot have two names, the last one does.
    let linked = match fs::hard_link(&beside, &path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(e) if is_gone(&e) => Err(e),
        Err(_) => fs::rename(&beside, &path),
        Ok(()) => Ok(()),
    };
    remove(&beside)?;
    linked.map_err(|e| io_error(&path, e))
}

fn read_about(dir: &Path) -> Result<About, Error> {
    let path = dir.join(ABOUT);
    let bytes = fs::read(&path).map_err(|e| io_error(&path, e))?;
    serde_json::from_slice(&bytes)
        .map_err(|e| damaged(&path, e.line().max(1), "this is no sweep; remove its directory"))
}

/// Removes a directory whose points are elsewhere. It goes at once, so that nobody sees a part of it and takes the rest
/// for work.
fn discard(dir: &Path, me: &Process) -> Result<(), Error> {
    let aside = dir.with_file_name(format!(".{PARTS}-{}", me.name()));
    match fs::rename(dir, &aside) {
        Err(e) if is_gone(&e) => return Ok(()),
        renamed => renamed.map_err(|e| io_error(dir, e))?,
    }
    // Another process may just close a file in it, which network file systems keep for so long.
    for _ in 0..20 {
        match fs::remove_dir_all(&aside) {
            Err(e) if !is_gone(&e) => std::thread::sleep(PAUSES[0]),
            _ => return Ok(()),
        }
    }
    Ok(())
}

/// True if a launcher says that it started several processes like this one.
pub fn is_one_of_many() -> bool {
    Process::this().launcher.is_some()
}

/// Returns the sweep in the directory `out`, and its points if it is finished.
///
/// # Errors
/// There is none.
pub fn find(out: &Path) -> Result<(About, Option<Vec<Row>>), Error> {
    match read_about(&out.join(PARTS)) {
        Ok(about) => return Ok((about, None)),
        Err(Error::File { source, .. }) if is_gone(&source) => {}
        Err(e) => return Err(e),
    }
    let Some(there) = Lines::read(&out.join(FINISHED))? else {
        let remedy = "there is no sweep in it; give the directory that `angara sim sweep` wrote into";
        return Err(Error::invalid("directory", out.display(), remedy));
    };
    Ok((there.about.clone(), there.complete()))
}

#[cfg(test)]
mod tests;
