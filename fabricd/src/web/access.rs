//! Who may read, and who may change something.
//!
//! Every local user reaches loopback, so that is no protection. A daemon makes two tokens at its start, which only its own
//! user can read in the runtime directory. The page has one in the fragment of its URL, which no browser sends anywhere, and
//! exchanges it for a cookie. A browser gives cookies of one port to the other ports of a host as well, where somebody else may
//! listen: so the cookie alone lets nobody change anything. That needs a key, too, which the page keeps to itself.

use crate::machine::Machine;
use crate::runtime_dir::RuntimeDir;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN};
use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// Sessions that are remembered; of more the oldest ends.
const SESSIONS: usize = 64;

/// What somebody may do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rights {
    Read,
    Control,
}

/// A secret: 32 hexadecimal digits.
struct Secret(String);

impl Secret {
    fn new(machine: &dyn Machine) -> io::Result<Secret> {
        Ok(Secret(machine.random()?.iter().map(|b| format!("{b:02x}")).collect()))
    }

    /// Takes as long whatever is given.
    fn is(&self, given: &str) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), given.as_bytes()).is_ok()
    }
}

struct Session {
    id: Secret,
    key: Secret,
    rights: Rights,
}

/// What a page gets for its token.
pub(crate) struct Opened {
    pub(crate) cookie: String,
    /// To be sent with what changes something.
    pub(crate) key: String,
    pub(crate) rights: Rights,
}

/// Tokens and sessions.
pub(crate) struct Access {
    read: Secret,
    control: Secret,
    /// Another one for each daemon: cookies do not tell ports apart.
    cookie: String,
    sessions: Mutex<Vec<Session>>,
    /// Where new secrets come from.
    random: Box<dyn Fn() -> io::Result<Secret> + Send + Sync>,
}

impl Access {
    pub(crate) fn new(machine: &dyn Machine) -> io::Result<Access> {
        let name = Secret::new(machine)?.0;
        Ok(Access {
            read: Secret::new(machine)?,
            control: Secret::new(machine)?,
            cookie: format!("angara-{}", &name[..8]),
            sessions: Mutex::default(),
            random: Box::new(|| Secret::new(&crate::machine::Real)),
        })
    }

    /// Leaves the tokens where this user alone can read them.
    pub(crate) fn write(&self, dir: &RuntimeDir) -> io::Result<()> {
        dir.write_secret(angara_abi::launch::READ_TOKEN, &self.read.0)?;
        dir.write_secret(angara_abi::launch::CONTROL_TOKEN, &self.control.0)
    }

    /// What a token allows.
    fn token(&self, given: &str) -> Option<Rights> {
        // Both are compared, whatever the first says.
        match (self.control.is(given), self.read.is(given)) {
            (true, _) => Some(Rights::Control),
            (_, true) => Some(Rights::Read),
            _ => None,
        }
    }

    /// A session for whoever has a token.
    pub(crate) fn open(&self, token: &str) -> io::Result<Option<Opened>> {
        let Some(rights) = self.token(token) else { return Ok(None) };
        let session = Session { id: (self.random)()?, key: (self.random)()?, rights };
        let cookie = format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie, session.id.0);
        let opened = Opened { cookie, key: session.key.0.clone(), rights };
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= SESSIONS {
            sessions.remove(0);
        }
        sessions.push(session);
        Ok(Some(opened))
    }

    /// What the session of a request allows: to control only with its key.
    pub(crate) fn session(&self, headers: &HeaderMap) -> Option<Rights> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let ours = cookies.flat_map(|text| text.split(';')).filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == self.cookie).then_some(value)
        });
        let key = headers.get("x-angara-key").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let known = |given: &str| {
            // Every one is compared.
            sessions.iter().fold(None, |found, session| if session.id.is(given) { Some(session) } else { found })
        };
        ours.filter_map(known).map(|session| if session.key.is(key) { session.rights } else { Rights::Read }).max()
    }

    /// What `Authorization: Bearer TOKEN` allows.
    pub(crate) fn bearer(&self, headers: &HeaderMap) -> Option<Rights> {
        let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| self.token(token.trim()))?
    }
}

/// Whether a request names this server by an address or as localhost. A page elsewhere whose name has come to mean this
/// machine (DNS rebinding) names it by that name.
pub(crate) fn is_local_name(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST).and_then(|value| value.to_str().ok()) else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

/// Whether what would change something comes from a page of this server.
pub(crate) fn is_own_page(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    let own = match (text(ORIGIN), text(HOST)) {
        (Some(origin), Some(host)) => origin.strip_prefix("http://").is_some_and(|o| o.eq_ignore_ascii_case(host)),
        _ => false,
    };
    own && headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Real;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value"))).collect()
    }

    #[test]
    fn a_name_that_somebody_else_has_given_this_machine_is_refused() {
        for host in ["127.0.0.1:8290", "localhost:9", "LOCALHOST", "[::1]:80", "10.0.0.1"] {
            assert!(is_local_name(&headers(&[("host", host)])), "{host}");
        }
        for host in ["evil.example:8290", "127.0.0.1.evil.example", "localhost.evil.example", "", "::x", "a:b:80"] {
            assert!(!is_local_name(&headers(&[("host", host)])), "{host}");
        }
        assert!(!is_local_name(&headers(&[])));
    }

    #[test]
    fn only_pages_of_this_server_may_ask_for_changes() {
        let asks = |origin, site| {
            is_own_page(&headers(&[("host", "127.0.0.1:8290"), ("origin", origin), ("sec-fetch-site", site)]))
        };
        assert!(asks("http://127.0.0.1:8290", "same-origin"));
        assert!(!asks("http://127.0.0.1:8290", "same-site"));
        assert!(!asks("http://127.0.0.1:9999", "same-origin") && !asks("null", "same-origin"));
        assert!(!is_own_page(&headers(&[("host", "127.0.0.1:8290")])), "no origin");
    }

    #[test]
    fn a_cookie_reads_and_only_with_its_key_controls() {
        let access = Access::new(&Real).expect("random numbers");
        assert!(access.open("").expect("works").is_none() && access.open(&"0".repeat(32)).expect("works").is_none());
        let opened = access.open(&access.control.0).expect("works").expect("the token");
        assert_eq!(opened.rights, Rights::Control);
        let cookie = opened.cookie.split(';').next().expect("a pair").to_string();
        let with = |key: &str| access.session(&headers(&[("cookie", &cookie), ("x-angara-key", key)]));
        assert_eq!((with(&opened.key), with("other")), (Some(Rights::Control), Some(Rights::Read)));
        let read = access.open(&access.read.0).expect("works").expect("the token");
        let cookie = read.cookie.split(';').next().expect("a pair").to_string();
        let rights = access.session(&headers(&[("cookie", &cookie), ("x-angara-key", &read.key)]));
        assert_eq!(rights, Some(Rights::Read), "reads only");
        assert_eq!(access.session(&headers(&[("cookie", "angara=1")])), None);
    }

    #[test]
    fn sessions_are_bounded() {
        let access = Access::new(&Real).expect("random numbers");
        for _ in 0..3 * SESSIONS {
            access.open(&access.read.0).expect("works");
        }
        assert_eq!(access.sessions.lock().expect("ours").len(), SESSIONS);
    }
}
