//! Who may read, and who may change something.
//!
//! Every local user reaches loopback, so that is no protection. A daemon makes two tokens at its start, which only its own
//! user can read in the runtime directory. The page has one in the fragment of its URL, which no browser sends anywhere, keeps
//! it for its tab alone, and sends it with everything that it asks for. There are no cookies: a browser would send them to
//! every port of this machine, behind which somebody else may listen.

use crate::machine::Machine;
use crate::runtime_dir::RuntimeDir;
use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use std::io;
use std::net::IpAddr;
use subtle::ConstantTimeEq;

/// What somebody may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

/// The tokens of a daemon.
pub(crate) struct Access {
    read: Secret,
    control: Secret,
}

impl Access {
    pub(crate) fn new(machine: &dyn Machine) -> io::Result<Access> {
        Ok(Access { read: Secret::new(machine)?, control: Secret::new(machine)? })
    }

    /// Leaves the tokens where this user alone can read them.
    pub(crate) fn write(&self, dir: &RuntimeDir) -> io::Result<()> {
        dir.write_secret(angara_protocol::launch::READ_TOKEN, &self.read.0)?;
        dir.write_secret(angara_protocol::launch::CONTROL_TOKEN, &self.control.0)
    }

    /// Returns what the `Authorization: Bearer TOKEN` of a request allows.
    pub(crate) fn rights(&self, headers: &HeaderMap) -> Option<Rights> {
        let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
        let (scheme, token) = value.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let token = token.trim();
        // Both are compared, whatever the first says.
        match (self.control.is(token), self.read.is(token)) {
            (true, _) => Some(Rights::Control),
            (_, true) => Some(Rights::Read),
            _ => None,
        }
    }
}

/// True if a request names this server by an address or as localhost. A page elsewhere whose name has come to mean this
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

/// True if what would change something comes from a page of this server.
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
    fn a_token_allows_what_it_is_for() {
        let access = Access::new(&Real).expect("random numbers");
        let with = |value: String| access.rights(&headers(&[("authorization", &value)]));
        assert_eq!(with(format!("Bearer {}", access.control.0)), Some(Rights::Control));
        assert_eq!(with(format!("bearer  {}", access.read.0)), Some(Rights::Read));
        for wrong in ["Bearer", "Bearer ", "Basic x", &format!("Bearer {}", "0".repeat(32)), &access.read.0] {
            assert_eq!(with(wrong.to_string()), None, "{wrong}");
        }
        assert_eq!(access.rights(&headers(&[("cookie", &format!("angara={}", access.read.0))])), None);
    }
}
