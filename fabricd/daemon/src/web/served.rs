//! What the rest of the daemon knows of the page and the metrics.

/// Where the page and the metrics are served.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Served {
    /// URL of the page.
    pub(crate) web: Option<String>,
    /// URL of the metrics, or `unix:PATH`.
    pub(crate) metrics: Option<String>,
    /// A socket that is to be removed at the end.
    pub(crate) socket: Option<std::path::PathBuf>,
}
