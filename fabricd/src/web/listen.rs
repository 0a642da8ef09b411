//! Connections: how many there may be, and how long each may take.

use super::ListenError;
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
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep, timeout};

/// Connections at once, of each socket; more are closed at once.
const CONNECTIONS: usize = 128;
/// A request whose head has not come within this time is not served.
const HEAD: Duration = Duration::from_secs(5);
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

/// A connection, as those who answer on it see it.
#[derive(Default)]
pub(crate) struct Line {
    /// A stream of events: it may last.
    lasts: AtomicBool,
    ends: Notify,
}

impl Line {
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
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let stream = match listener.accept().await {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection of a page");
                sleep(PAUSE).await;
                continue;
            }
        };
        // Whoever is one too many is closed, so that those who wait do not pile up.
        let Ok(place) = room.clone().try_acquire_owned() else { continue };
        let router = router.clone();
        tokio::task::spawn_local(async move {
            talk(stream, router).await;
            drop(place);
        });
    }
}

/// One connection, until it ends or has taken too long.
async fn talk(stream: Box<dyn Stream>, router: Router) {
    let line = Arc::new(Line::default());
    let service = TowerToHyperService::new(router.layer(Extension(line.clone())));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_MAX).max_headers(HEADERS_MAX);
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
