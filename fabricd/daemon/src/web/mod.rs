//! The page of a daemon and its metrics, over HTTP.
//!
//! Everything from outside comes through here: [`listen`] bounds connections and their time, [`access`] decides who may read
//! and who may change something, [`routes`] answers. Those run as tasks of the control plane, but touch nothing of the daemon:
//! they ask through a bounded queue ([`ask`]), and streams of events take the latest sample there is ([`events`]).

mod access;
mod answers;
mod ask;
mod events;
mod faults;
mod listen;
mod routes;
mod scenes;
pub(crate) mod served;
mod waits;

use crate::daemon::Daemon;
use crate::runtime_dir::RuntimeDir;
use crate::watch::options::Listen;
use access::Access;
use ask::Asker;
use events::Feed;
pub(crate) use listen::ListenError;
use listen::Listener;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// What every request can reach.
pub(crate) struct Shared {
    access: Access,
    asker: Asker,
    feed: Arc<Feed>,
    /// Metrics need no token.
    open: bool,
    scenes: scenes::Scenes,
}

/// Sockets that are bound and wait for a daemon.
pub(crate) struct Bound {
    web: Option<Listener>,
    metrics: Option<(Listener, Listen)>,
    access: Option<Access>,
}

/// Takes the addresses, and writes tokens into the runtime directory.
pub(crate) fn bind(daemon: &Daemon, dir: &RuntimeDir) -> Result<Bound, ListenError> {
    let looks = &daemon.options.looks;
    if !looks.any() {
        return Ok(Bound { web: None, metrics: None, access: None });
    }
    let web = looks.web.map(|address| listen::tcp("the page", address)).transpose()?;
    let metrics = match &looks.metrics {
        None => None,
        Some(Listen::Tcp(address)) => Some((listen::tcp("metrics", *address)?, Listen::Tcp(*address))),
        Some(Listen::Unix(path)) => Some((listen::unix("metrics", path)?, Listen::Unix(path.clone()))),
    };
    let access = Access::new(&*daemon.machine).and_then(|access| access.write(dir).map(|()| access));
    let access = access.map_err(|error| ListenError {
        what: "tokens",
        address: dir.control().parent().unwrap_or(&dir.control()).display().to_string(),
        error,
        remedy: "make room there, or choose another --runtime-dir",
    })?;
    let url = |address: SocketAddr| format!("http://{address}/");
    let mut served = daemon.served.borrow_mut();
    served.web = web.as_ref().and_then(Listener::address).map(url);
    served.metrics = metrics.as_ref().map(|(listener, listen)| match listen {
        Listen::Unix(path) => format!("unix:{}", path.display()),
        Listen::Tcp(_) => listener.address().map(|address| url(address) + "metrics").unwrap_or_default(),
    });
    if let Some((_, Listen::Unix(path))) = &metrics {
        served.socket = Some(path.clone());
    }
    for listener in web.iter().chain(metrics.as_ref().map(|(listener, _)| listener)) {
        if let Some(address) = listener.address().filter(|address| !address.ip().is_loopback()) {
            tracing::warn!(%address, "HTTP without encryption on an address that others reach; loopback and `ssh -L` are safer");
        }
    }
    Ok(Bound { web, metrics, access: Some(access) })
}

impl Bound {
    /// Serves.
    pub(crate) fn serve(self, daemon: &Rc<Daemon>) {
        let Some(access) = self.access else { return };
        let (asker, asked) = ask::queue();
        tokio::task::spawn_local(ask::answer_all(daemon.clone(), asked));
        let feed = Arc::new(Feed::default());
        tokio::task::spawn_local(events::produce(daemon.clone(), feed.clone()));
        let shared = Arc::new(Shared {
            access,
            asker,
            feed,
            open: daemon.options.looks.open,
            scenes: scenes::Scenes::default(),
        });
        if let Some(listener) = self.web {
            tokio::task::spawn_local(daemon.clone().record());
            tokio::task::spawn_local(listen::serve(listener, routes::page(shared.clone())));
        }
        if let Some((listener, listen)) = self.metrics {
            // Whoever may connect to that socket may read.
            let private = matches!(listen, Listen::Unix(_));
            tokio::task::spawn_local(listen::serve(listener, routes::metrics(shared, private)));
        }
    }
}
