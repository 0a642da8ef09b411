//! The users of a daemon and what each has of it right now, held against the limits.

use super::quota::{Limit, Limits, Met};
use crate::failure::failure;
use angara_plane::LogLimit;
use angara_protocol::msg::Failure;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Users that are remembered without a connection, for the sake of their share of the log.
const REMEMBERED: usize = 1024;
/// Descriptors kept for when there are no others.
const SPARE: usize = 8;

/// Who may do everything.
pub(crate) fn is_operator(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

/// Everybody who has been here.
pub(crate) struct Users {
    limits: Limits,
    met: Met,
    users: RefCell<BTreeMap<u32, Rc<User>>>,
}

pub(crate) struct User {
    connections: Cell<u64>,
    /// The one search for nodes that may go on at a time.
    pub(crate) search: Semaphore,
    /// Turns to be worked for.
    pub(crate) turns: Semaphore,
    /// Bytes of requests that may still be kept until they are whole, and of answers until they are read.
    pub(crate) asked: Semaphore,
    pub(crate) answered: Semaphore,
    logged: RefCell<LogLimit>,
}

/// A connection of a user, counted until dropped.
pub(crate) struct UserConnection {
    pub(crate) user: Rc<User>,
}

impl Users {
    pub(crate) fn new(limits: Limits) -> Users {
        Users { limits, met: Met::default(), users: RefCell::default() }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Somebody has met this limit; how it is raised.
    pub(crate) fn raise(&self, limit: Limit) -> String {
        self.met.count(limit)
    }

    /// How often each limit was met.
    pub(crate) fn refused(&self) -> Vec<(&'static str, u64)> {
        self.met.counts()
    }

    pub(crate) fn user(&self, uid: u32) -> Rc<User> {
        let mut users = self.users.borrow_mut();
        if users.len() >= REMEMBERED && !users.contains_key(&uid) {
            users.retain(|_, user| Rc::strong_count(user) > 1);
        }
        let permits = |limit| Semaphore::new(self.limits.get(limit) as usize);
        let new = || User {
            connections: Cell::new(0),
            search: Semaphore::new(1),
            turns: permits(Limit::Requests),
            asked: permits(Limit::Pending),
            answered: permits(Limit::Pending),
            logged: RefCell::default(),
        };
        users.entry(uid).or_insert_with(|| Rc::new(new())).clone()
    }

    /// A new connection of a user who has `pes` PEs here.
    pub(crate) fn enter(&self, uid: u32, pes: u64) -> Result<UserConnection, Failure> {
        let user = self.user(uid);
        let (now, most) = (user.connections.get(), self.limits.get(Limit::Connections) + pes);
        if now >= most {
            return Err(failure(
                format!("user {uid} has {now} connections to this daemon, as many as one user may have"),
                format!("close some, or {}", self.raise(Limit::Connections)),
            ));
        }
        user.connections.set(now + 1);
        Ok(UserConnection { user })
    }

    /// Tells whether something that a user has caused may be logged now; then how many lines have been left out before
    /// it.
    pub(crate) fn may_log(&self, uid: u32) -> Option<u64> {
        let lines = self.limits.get(Limit::LogLines);
        let left_out = self.user(uid).logged.borrow_mut().allow_up_to(Instant::now().into_std(), lines);
        if left_out.is_none() {
            self.met.count(Limit::LogLines);
        }
        left_out
    }
}

impl Drop for UserConnection {
    fn drop(&mut self) {
        self.user.connections.set(self.user.connections.get() - 1);
    }
}

/// Descriptors kept for when the system gives no more: with one of them who comes can at least be told why nobody
/// serves him, and the daemon's own user and root are served.
pub(crate) struct SpareFds {
    kept: Vec<OwnedFd>,
}

impl SpareFds {
    pub(crate) fn new() -> SpareFds {
        let mut spare = SpareFds { kept: Vec::new() };
        spare.refill();
        spare
    }

    /// Returns what `accept` brings next, and whether a descriptor was used for it that had been kept.
    pub(crate) async fn accept<T, F>(&mut self, accept: impl Fn() -> F) -> io::Result<(T, bool)>
    where
        F: Future<Output = io::Result<T>>,
    {
        loop {
            self.refill();
            match accept().await {
                Ok(accepted) => return Ok((accepted, false)),
                // The system says so even where nobody waits to be accepted; then what was kept is kept on.
                Err(e) if self.give(&e) => {
                    if let Some(accepted) = once(accept()).await {
                        return accepted.map(|accepted| (accepted, true));
                    }
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// Takes as many as the system gives.
    fn refill(&mut self) {
        while self.kept.len() < SPARE {
            match rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC) {
                Ok(fd) => self.kept.push(fd),
                Err(_) => return,
            }
        }
    }

    /// Gives one back to the system if `error` says that it has no others; false if there is none.
    fn give(&mut self, error: &io::Error) -> bool {
        use rustix::io::Errno;
        let lack = matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE));
        lack && self.kept.pop().is_some()
    }

    /// Refuses a connection for which the last but a few were used, except that of an `operator`.
    pub(crate) fn admit(&self, operator: bool) -> Result<(), Failure> {
        if operator && !self.kept.is_empty() {
            return Ok(());
        }
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let limit = limit.map_or(String::new(), |n| format!(" (it may have {n})"));
        Err(failure(
            format!("the daemon has no free file descriptors{limit}"),
            "end jobs, or start it with more (`ulimit -n`, LimitNOFILE= of its service)",
        ))
    }
}

/// Returns what `future` has at once; nothing if it would have to wait.
async fn once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_by_user_and_given_back() {
        let mut limits = Limits::default();
        limits.set("connections", "2").expect("a number");
        let users = Users::new(limits);
        let visits: Vec<UserConnection> = (0..3).map(|_| users.enter(7, 1).expect("two and one for a PE")).collect();
        let refused = users.enter(7, 1).err().expect("one too many");
        assert!(refused.message.contains("user 7 has 3 connections") && refused.remedy.contains("connections"));
        assert!(users.enter(8, 0).is_ok(), "another user");
        drop(visits);
        assert!(users.enter(7, 0).is_ok());
    }

    #[test]
    fn what_one_user_causes_fills_no_log() {
        let users = Users::new(Limits::default());
        let said = (0..1000).filter(|_| users.may_log(7).is_some()).count();
        assert!((20..=40).contains(&said), "{said} lines at once");
        assert_eq!(users.may_log(8), Some(0));
    }
}
