//! Work that takes long, done on a thread of its own: nobody else waits for it.

/// Runs `f` on a thread of its own. (tokio's would panic where the system starts no more threads.)
pub(crate) async fn aside<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let (tell, told) = tokio::sync::oneshot::channel();
    let body = move || {
        // The asker may have gone.
        let _ = tell.send(f());
    };
    std::thread::Builder::new().name("aside".into()).spawn(body).map_err(|e| format!("cannot start a thread: {e}"))?;
    told.await.map_err(|_| "it has failed".into())
}
