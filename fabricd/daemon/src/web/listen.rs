//! Connections: how many there may be, and how long each may take.

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::fs::{CWD, Mode, chmodat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

/// An address cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve {what} at {address}: {error}; {remedy}")]
pub struct ListenError {
    /// The page or the metrics.
    pub what: &'static str,
    pub address: String,
    /// Why not.
    pub error: io::Error,
    pub remedy: &'static str,
}

/// Connections at once, of each socket, of those who have shown a token.
const KNOWN: usize = 64;
/// Connections at once, of each socket, of all others. When one more comes, the oldest is closed: whoever asks for something
/// at once is served, however many only hold a place.
const STRANGERS: usize = 64;
/// A request that has not come within this time, with its body, is not served.
const REQUEST: Duration = Duration::from_secs(5);
/// A connection that is no stream of events ends after this time ...
const LIFE: Duration = Duration::from_secs(60);
/// ... and an answer that it is in the middle of may take so much longer.
const GRACE: Duration = Duration::from_secs(5);
/// Bytes of a request's head.
const HEAD_MAX: usize = 16 << 10;
/// Headers of a request.
const HEADERS_MAX: usize = 64;
/// Rest after an accept that failed.
const PAUSE: Duration = Duration::from_millis(100);
const BACKLOG: i32 = 128;

/// The connections of a socket.
struct Room {
    /// Those that have shown no token, the oldest first.
    strangers: Mutex<Vec<Arc<Line>>>,
    known: Arc<Semaphore>,
}

impl Room {
    fn strangers(&self) -> MutexGuard<'_, Vec<Arc<Line>>> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection in. Returns whether another one has to go for it.
    fn enter(self: &Arc<Room>) -> (Arc<Line>, bool) {
        let line = Arc::new(Line {
            room: self.clone(),
            known: OnceLock::new(),
            lasts: AtomicBool::new(false),
            ends: Notify::new(),
            since: Mutex::new(Instant::now()),
        });
        let mut strangers = self.strangers();
        let full = strangers.len() >= STRANGERS;
        if full {
            strangers.remove(0).end();
        }
        strangers.push(line.clone());
        (line, full)
    }

    fn leave(&self, line: &Arc<Line>) {
        self.strangers().retain(|other| !Arc::ptr_eq(other, line));
    }
}

/// A connection, as those who answer on it see it.
pub(crate) struct Line {
    room: Arc<Room>,
    /// Its place among the connections that have shown a token.
    known: OnceLock<OwnedSemaphorePermit>,
    /// A stream of events: it may last.
    lasts: AtomicBool,
    ends: Notify,
    /// When the latest request could begin.
    since: Mutex<Instant>,
}

impl Line {
    /// A token has been shown on it. Where as many are known as may be, it stays a stranger.
    pub(crate) fn know(self: &Arc<Line>) {
        if self.known.get().is_none()
            && let Ok(place) = self.room.known.clone().try_acquire_owned()
        {
            // Requests of a connection come one after the other.
            let _ = self.known.set(place);
            self.room.leave(self);
        }
    }
    /// A request has been answered: the next one may begin.
    pub(crate) fn answered(&self) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
    /// When a request must have come as a whole.
    pub(crate) fn due(&self) -> Instant {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) + REQUEST
    }
    /// It is a stream of events from now on.
    pub(crate) fn last(&self) {
        self.lasts.store(true, Ordering::Relaxed);
    }
    /// Closes it, whatever is on its way.
    pub(crate) fn end(&self) {
        self.ends.notify_one();
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A socket that accepts connections.
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(_) => None,
        }
    }

    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Listener::Tcp(listener) => Box::new(listener.accept().await?.0),
            Listener::Unix(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

/// Takes an address.
pub(crate) fn tcp(what: &'static str, address: SocketAddr) -> Result<Listener, ListenError> {
    let bound = std::net::TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    });
    bound.map(Listener::Tcp).map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::AddrInUse => "another program has this port; choose another one, or 0 for any that is free",
            ErrorKind::AddrNotAvailable => {
                "this is no address of this machine; use 127.0.0.1, or one of those that `ip address` lists"
            }
            ErrorKind::PermissionDenied => "choose a port above 1023",
            _ => "choose another address, such as 127.0.0.1:0",
        };
        ListenError { what, address: address.to_string(), error, remedy }
    })
}

/// Makes a socket that this user alone may connect to.
pub(crate) fn unix(what: &'static str, path: &Path) -> Result<Listener, ListenError> {
    let make = || {
        // One that nobody serves is what a killed daemon left.
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
        if is_socket
            && let Err(e) = std::os::unix::net::UnixStream::connect(path)
            && e.kind() == ErrorKind::ConnectionRefused
        {
            std::fs::remove_file(path)?;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        // Before anybody can connect.
        chmodat(CWD, path, Mode::RUSR | Mode::WUSR, rustix::fs::AtFlags::empty())?;
        rustix::net::listen(&socket, BACKLOG)?;
        UnixListener::from_std(socket.into())
    };
    make().map(Listener::Unix).map_err(|error: io::Error| {
        let remedy = match error.kind() {
            ErrorKind::AddrInUse => "something else has this name; remove it, or choose another path",
            ErrorKind::NotFound => "make its directory, or choose another path",
            _ => "choose a path in a directory of yours, of at most 107 bytes",
        };
        ListenError { what, address: path.display().to_string(), error, remedy }
    })
}

/// Accepts for ever.
pub(crate) async fn serve(listener: Listener, router: Router) {
    let room = Arc::new(Room { strangers: Mutex::default(), known: Arc::new(Semaphore::new(KNOWN)) });
    loop {
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection of a page");
                sleep(PAUSE).await;
                continue;
            }
        };
        let (line, full) = room.enter();
        let (room, router) = (room.clone(), router.clone());
        tokio::task::spawn_local(async move {
            talk(stream, router, &line).await;
            room.leave(&line);
        });
        if full {
            // The one that has to go closes its socket before the next one comes.
            tokio::task::yield_now().await;
        }
    }
}

/// One connection, until it ends or has taken too long.
async fn talk(stream: Box<dyn Stream>, router: Router, line: &Arc<Line>) {
    let service = TowerToHyperService::new(router.layer(Extension(line.clone())));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(REQUEST).max_buf_size(HEAD_MAX).max_headers(HEADERS_MAX);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    // What goes wrong on a connection is the other end's business.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = line.ends.notified() => return,
        () = sleep(LIFE) => {}
    }
    if line.lasts.load(Ordering::Relaxed) {
        tokio::select! {
            _ = connection.as_mut() => {}
            () = line.ends.notified() => {}
        }
        return;
    }
    connection.as_mut().graceful_shutdown();
    let _ = timeout(GRACE, connection).await;
}
