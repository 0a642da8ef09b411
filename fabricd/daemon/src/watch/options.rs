//! Who may look, and where: as the daemon is told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Links with series of their own unless told otherwise.
pub const LINKS_DEFAULT: usize = 1024;
/// Most links with series of their own: every link of the largest network that is sensible to scrape.
pub const LINKS_MAX: usize = 65_536;

/// Where metrics are served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listen {
    Tcp(SocketAddr),
    /// A unix socket, which this user alone may connect to.
    Unix(PathBuf),
}

/// Who may look at what the daemon does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Looks {
    /// Address of the page.
    pub web: Option<SocketAddr>,
    /// Address of the metrics.
    pub metrics: Option<Listen>,
    /// The latter without a token.
    pub open: bool,
    /// Most links with series of their own.
    pub links: usize,
}

impl Default for Looks {
    fn default() -> Looks {
        Looks { web: None, metrics: None, open: false, links: LINKS_DEFAULT }
    }
}

impl Looks {
    /// Somebody may look.
    pub fn any(&self) -> bool {
        self.web.is_some() || self.metrics.is_some()
    }
}

/// Reads `127.0.0.1:8290`, `[::1]:8290` or `localhost:8290`.
///
/// # Errors
/// It is none of these.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let spelled = text.strip_prefix("localhost:").map_or_else(|| text.to_string(), |port| format!("127.0.0.1:{port}"));
    spelled.parse().map_err(|_| format!("`{text}` is no address with a port; write 127.0.0.1:8290 or [::1]:8290"))
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("`unix:` lacks a path; write unix:/run/angara/metrics.sock".into()),
            Some(path) => Ok(Listen::Unix(path.into())),
            None => address(text).map(Listen::Tcp).map_err(|e| format!("{e}, or unix:PATH")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_mistakes_named() {
        assert_eq!(address("localhost:80"), address("127.0.0.1:80"));
        assert_eq!("unix:/a".parse(), Ok(Listen::Unix("/a".into())));
        for wrong in ["8290", "node1:80", "127.0.0.1", "unix:", "127.0.0.1:99999"] {
            assert!(wrong.parse::<Listen>().expect_err(wrong).contains("write"), "{wrong}");
        }
    }
}
