//! Asking a daemon for its page and its metrics: as a program over HTTP, and as a user in a browser.

pub mod browser;
pub mod http;
